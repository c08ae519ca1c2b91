use clap::Args;

use crate::{ConnectionArguments, PositionalArguments, SnapshotsArguments};
use model::Numbers;

/// A workload belongs to one database, so forecasts never cover the whole cluster.
const DATABASE_HELP: &str = "The database whose clients are watched: the forecast is of one [default: the one that psql would \
                             connect to]. Or a connection string or URI: 'host=db user=app', postgresql://app@db/shop";

/// How long a warm-up will take, before it happens
///
/// For a running server: watches what the clients of the database (-d) ask for, takes the device from `doctor --probe` and popularity from the
/// snapshot that `restore` would take; while it is idle, the time of a transaction from pg_stat_statements. For one that does not run (-D):
/// relations and popularity from that snapshot, sizes from its files. Or from bare figures, without a server: pages, hit, and miss or riops.
/// Or how long a recorded job takes with other memory (--film).
#[derive(Debug, Args)]
#[command(mut_arg("databases", |argument| argument.help(DATABASE_HELP).long_help(DATABASE_HELP)))]
pub struct PredictArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    /// Figures that are known, instead of what is found out:
    ///   pages=163968     without a server: blocks of a relation of which
    ///                    each transaction reads one; again for each relation
    ///   hit=0.22ms       a transaction of one client when all is cached
    ///   tps=5000         instead: what the server does when it is warm
    ///   miss=4.7ms       a transaction of one client that reads one block
    ///   clients=8        clients that wait for each answer
    ///   accesses=2       of a stopped server: blocks that a transaction reads
    ///   cores=4          processors that server and clients share
    ///   riops=3000       random reads that the device serves in a second
    ///   rbps=125MiB      bytes that it delivers in a second
    ///   read_ahead=128KiB  how far the kernel reads ahead
    ///   memory=16GiB     for all that is cached, shared_buffers included
    ///   popularity=WHICH   of rows: uniform, zipfian:1.07, permuted:1.07,
    ///                    gaussian:5, exponential:10, newest:0.1:0.99
    /// A word without = is the database, as with -d, and the next one the user
    #[arg(value_name = "KEY=VALUE", verbatim_doc_comment)]
    words: Vec<String>,

    /// A job instead, by its film: with so much memory, how many of its requests miss, how many reads that is and how long it takes.
    /// `newest`, the name that it was kept under, the beginning of one that `film show` shows, or a file
    #[arg(long, value_name = "FILM")]
    pub film: Option<String>,

    /// Watch the server's clients for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,

    /// What would be if: riops, rbps, memory, shared_buffers (a part of the memory), clients, cores, hit; changes of one case are joined by
    /// commas (riops=10000,memory=8GiB), several cases repeat the option. Of a film: memory
    #[arg(long, value_name = "KEY=VALUE", value_parser = Numbers::parse_changes)]
    pub what_if: Vec<Numbers>,
}

impl PredictArguments {
    /// From an option or a positional argument.
    pub fn named(&self) -> ConnectionArguments {
        let names = self.words.iter().filter(|word| is_name(word)).cloned();
        self.connection.clone().with(PositionalArguments::of(names))
    }

    /// Includes a surplus name, which parsing then rejects.
    pub fn figures(&self) -> String {
        let (names, figures): (Vec<&str>, Vec<&str>) =
            self.words.iter().map(String::as_str).partition(|word| is_name(word));
        figures.into_iter().chain(names.into_iter().skip(2)).collect::<Vec<_>>().join(",")
    }
}

fn is_name(word: &str) -> bool {
    !word.contains('=') || word.contains(' ') || word.contains("://")
}
