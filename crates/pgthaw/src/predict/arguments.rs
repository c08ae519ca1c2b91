//! The options of a forecast.

use std::path::PathBuf;

use clap::Args;

use super::change::Changes;
use super::values::{parse_accesses, parse_blocks, parse_cores, parse_hit, parse_memory, parse_reads, parse_tps};
use crate::restore::positive_rate;
use crate::{ConnectionArguments, SnapshotsArguments};
use command::workload::PopularityArgument;
use host::units::Bytes;
use model::compute_hit_seconds;

/// Unlike other commands a forecast is never of the whole cluster: a workload is one database's.
const DATABASE_HELP: &str = "The database whose clients are watched: the forecast is of one [default: the one that psql would \
                             connect to]. Or a connection string or URI: 'host=db user=app', postgresql://app@db/shop";

/// How long a warm-up will take, before it happens
///
/// For a running server: watches what the clients of the database (-d) ask for, takes the device from `doctor --probe` and popularity from the
/// snapshot that `restore` would take; while it is idle, the time of a transaction from pg_stat_statements. For one that does not run (-D):
/// relations and popularity from that snapshot, sizes from its files. Or from bare numbers: the sizes of what a transaction reads a block of (--pages, once for each relation),
/// the latency of a transaction with one read and of one without (--miss, --hit), the number of clients. Or how long a recorded job takes
/// with other memory (--film).
#[derive(Debug, Args)]
#[command(mut_arg("databases", |argument| argument.help(DATABASE_HELP).long_help(DATABASE_HELP)))]
pub struct PredictArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    /// A job instead, by its film: with so much memory, how many of its requests miss, how many reads that is and how long it takes.
    /// `newest`, the name that it was kept under, the beginning of one that `film list` shows, or a file
    #[arg(
        long,
        value_name = "FILM",
        conflicts_with_all = ["observe", "pages", "hit", "tps", "miss", "clients", "accesses", "cores", "read_ahead", "popularity", "html"]
    )]
    pub film: Option<String>,

    /// Watch the server's clients for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub observe: u32,

    /// Without a server: blocks of a relation of which each transaction reads one; may be repeated: a table, its index
    #[arg(long, value_name = "BLOCKS", requires = "hit", value_parser = parse_blocks)]
    pub pages: Vec<f64>,

    /// What a transaction takes when all is cached, such as 0.22ms: of one client, with the client's own time [default: of a
    /// running server, as watched]
    #[arg(long, value_name = "TIME", value_parser = parse_hit)]
    pub hit: Option<f64>,

    /// What the server does when it is warm, with as many clients, in transactions per second: where it is cold now, or idle
    /// [default: of a running server, as watched]
    #[arg(long, value_name = "TPS", value_parser = parse_tps, conflicts_with_all = ["hit", "pages"])]
    pub tps: Option<f64>,

    /// What a transaction takes that reads one block from the device, such as 4.7ms: of one client; each further block that is missing
    /// adds a read
    #[arg(long, value_name = "TIME", value_parser = parse_hit)]
    pub miss: Option<f64>,

    /// Clients that each wait for their answer before they ask again [default: of a running server as watched, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Option<u32>,

    /// Of a server that does not run: blocks that a transaction asks for, a table's and an index's leaf each
    #[arg(long, value_name = "BLOCKS", default_value_t = 2.0, value_parser = parse_accesses)]
    pub accesses: f64,

    /// Processors that server and clients share [default: as many as this machine has]
    #[arg(long, value_name = "N", value_parser = parse_cores)]
    pub cores: Option<f64>,

    /// Random reads that the device serves in a second [default: as probed, else 3000; without a server no
    /// limit]
    #[arg(long, value_name = "READS", value_parser = parse_reads)]
    pub riops: Option<f64>,

    /// Bytes that it delivers in a second; by it a restore is forecast [default: as probed, else 125MiB; without a server no
    /// limit]; MB are 10^6 bytes
    #[arg(long, value_name = "BYTES", value_parser = positive_rate)]
    pub rbps: Option<Bytes>,

    /// How far the kernel reads ahead on that device [default: of a local server's device as it is set; else 128KiB, Linux's
    /// own, and nothing without a server]
    #[arg(long, value_name = "BYTES")]
    pub read_ahead: Option<Bytes>,

    /// Memory for what is cached, shared_buffers included [default: this machine's; without a server enough for all]
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    pub memory: Option<Bytes>,

    /// How rows are chosen: uniform, zipfian:1.07, permuted:1.07, gaussian:5, exponential:10, newest:0.1:0.99 [default: by the
    /// snapshot that restore would take, else uniform]
    #[arg(long, value_name = "WHICH")]
    pub popularity: Option<PopularityArgument>,

    /// What would be if: riops=10000, rbps=500MiB, memory=8GiB, shared_buffers=2GiB (a part of the memory), clients=16, cores=8, hit=0.1ms; several changes of one case
    /// are joined by commas, several cases repeat the option. Of a film: memory
    #[arg(long, value_name = "CHANGES")]
    pub what_if: Vec<Changes>,

    /// Write it as an HTML page too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Replace the file even when it is no page of pgthaw
    #[arg(long, requires = "html")]
    pub force: bool,

    /// Draw with ASCII alone
    #[arg(long)]
    pub ascii: bool,
}

impl PredictArguments {
    /// Seconds of a core that a warm transaction takes, as told.
    pub fn told_hit_seconds(&self, clients: f64, cores: f64) -> Option<f64> {
        self.hit.or_else(|| self.tps.map(|tps| compute_hit_seconds(tps, clients, cores)))
    }
}
