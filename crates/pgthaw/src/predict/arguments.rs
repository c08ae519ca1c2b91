use clap::Args;

use crate::{ConnectionArguments, PositionalArguments, SnapshotsArguments};
use model::Numbers;

/// A workload belongs to one database, so forecasts never cover the whole cluster.
const DATABASE_HELP: &str = "Database to forecast; pgthaw watches its clients [default: the one that psql would connect to]. \
                             A connection string or URI also works: 'host=db user=app', postgresql://app@db/shop";

/// Forecast how long a warm-up will take
///
/// On a running server pgthaw watches the clients of the database (-d). The device's rates come from `doctor --probe`, the popularity of
/// blocks from the snapshot that `restore` would choose. While the database is idle, pg_stat_statements gives the transaction time.
///
/// For a stopped server (-D), the snapshot also names the relations, and their sizes come from the files. Without a server, give
/// figures: pages, hit, and miss or riops. With --film pgthaw forecasts a recorded job for other memory sizes.
#[derive(Debug, Args)]
#[command(mut_arg("databases", |argument| argument.help(DATABASE_HELP).long_help(DATABASE_HELP).hide_short_help(true)))]
pub struct PredictArguments {
    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    /// Known figures, such as hit=0.22ms riops=3000 clients=8
    ///
    /// They replace measured ones:
    ///   pages=163968     without a server: blocks of a relation; each
    ///                    transaction reads one; repeat per relation
    ///   hit=0.22ms       transaction time of one client, all cached
    ///   tps=5000         instead of hit: throughput of the warm server
    ///   miss=4.7ms       transaction time of one client, one block read
    ///   clients=8        clients, each of which waits for every answer
    ///   accesses=2       for a stopped server: blocks read per transaction
    ///   cores=4          processors that server and clients share
    ///   riops=3000       random reads per second of the device
    ///   rbps=125MiB      bytes per second of the device
    ///   read_ahead=128KiB  the kernel's read-ahead
    ///   memory=16GiB     for all cached data, shared_buffers included
    ///   popularity=WHICH   of rows: uniform, zipfian:1.07, permuted:1.07,
    ///                    gaussian:5, exponential:10, newest:0.1:0.99
    /// A word without = is the database, as with -d; the next is the user
    #[arg(value_name = "KEY=VALUE", verbatim_doc_comment)]
    words: Vec<String>,

    /// Forecast a recorded job, by memory size
    ///
    /// Shows misses, reads and time. FILM is `newest`, a film's name, the first characters of an id in `film show`, or a
    /// file.
    #[arg(long, value_name = "FILM")]
    pub film: Option<String>,

    /// Seconds to watch the server's clients
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,

    /// Also forecast with changes: riops=10000
    ///
    /// KEY is riops, rbps, memory, shared_buffers, clients, cores or hit; with --film only memory.
    ///
    /// Commas join the changes of one case: riops=10000,memory=8GiB. Repeat the option for further cases. shared_buffers are part of
    /// the memory.
    #[arg(long, value_name = "KEY=VALUE", value_parser = Numbers::parse_changes)]
    pub what_if: Vec<Numbers>,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

impl PredictArguments {
    pub fn named(&self) -> ConnectionArguments {
        let names = self.words.iter().filter(|word| is_name(word)).cloned();
        self.connection.clone().with(PositionalArguments::of(names))
    }

    /// Figures, joined by commas. Includes surplus words without `=`, so that the parser rejects them.
    pub fn figures(&self) -> String {
        let (names, figures): (Vec<&str>, Vec<&str>) =
            self.words.iter().map(String::as_str).partition(|word| is_name(word));
        figures.into_iter().chain(names.into_iter().skip(2)).collect::<Vec<_>>().join(",")
    }
}

fn is_name(word: &str) -> bool {
    !word.contains('=') || word.contains(' ') || word.contains("://")
}
