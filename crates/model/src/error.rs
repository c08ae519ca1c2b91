use host::failure::{ErrorKind, Explain};
use host::units::Bytes;

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("{what} is {value}: it must be a number above 0")]
    NotPositive { what: &'static str, value: f64 },
    #[error(
        "a transaction that reads from the device cannot take less time ({cold_seconds} s) than one that does not ({hit_seconds} s)"
    )]
    ColdFasterThanWarm { cold_seconds: f64, hit_seconds: f64 },
    #[error("shared_buffers of {buffers} do not fit into {memory} of memory")]
    BuffersBeyondMemory { buffers: Bytes, memory: Bytes },
    #[error("a film tells what other memory does to its job, and nothing of {changes}")]
    FilmTellsOfMemory { changes: String },
    #[error("{0}")]
    Figures(String),
    #[error("without a server it has to be said what a transaction takes when all is cached")]
    NoHit,
    #[error("there are no pages to warm")]
    NoPages,
    #[error("these figures give no forecast: its times are beyond a hundred years")]
    NoForecast,
    #[error("a forecast for a server needs one that runs, or a snapshot: what its clients ask for is not in its files")]
    NoServer,
    #[error("rows are counted by the catalog of a server that runs")]
    NoRows,
    #[error("the server does not run, so what a warm transaction takes is not known")]
    StoppedServer,
    #[error(
        "how the blocks of {relation} lie is not known: a transaction asked for {blocks:.1} of them without a scan of an index, a bitmap or the table"
    )]
    UnknownAccess { relation: String, blocks: f64 },
    #[error("what a read takes is not known")]
    NoDevice,
    #[error("the server is idle, so what a warm transaction takes is not known")]
    IdleServer,
    #[error(
        "no client of the database \"{database}\" is at work: the server is idle there, so what a warm transaction takes is not known"
    )]
    IdleDatabase { database: String },
    #[error(
        "the server is not warm: {reads}, so its {tps:.0} transactions per second are those of a cold server, and what a warm transaction takes is not known"
    )]
    ColdServer { tps: f64, reads: String },
    #[error("the file is empty")]
    Empty,
    #[error("there are no progress lines, no lines of a pgbench log and no columns of time and rate in it")]
    UnknownFormat,
    #[error("{intervals} intervals are too few to judge: at least {fewest} are needed")]
    TooShort { intervals: usize, fewest: usize },
    #[error("none of its {intervals} intervals has a figure")]
    NoFigures { intervals: u64 },
    #[error("not a single transaction was served")]
    NoTransactions,
    #[error("line {line}: time runs backwards, from {before} to {after}")]
    TimeBackwards { line: u64, before: f64, after: f64 },
    #[error("line {line}: {seconds} is no time of a run: {why}")]
    NoTime { line: u64, seconds: f64, why: &'static str },
    #[error("line {line}: \"{}\" is not a figure that can stand here", shorten(text))]
    BadNumber { line: u64, text: String },
    #[error("line {line} is not like the lines before it: \"{}\"", shorten(text))]
    BadLine { line: u64, text: String },
    #[error("line {line} has decimal commas, and commas between its columns too")]
    DecimalCommas { line: u64 },
}

const SHOWN_CHARACTERS: usize = 60;

/// Makes untrusted input safe to print.
fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(SHOWN_CHARACTERS).collect()
}

impl Error {
    /// Returns `value` if it is a finite number above 0.
    pub(super) fn check_positive(what: &'static str, value: f64) -> Result<f64, Error> {
        if value.is_finite() && value > 0.0 { Ok(value) } else { Err(Error::NotPositive { what, value }) }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::NotPositive { .. } => return None,
            Error::Figures(_) => "`pgthaw predict --help` lists the figures",
            Error::NoHit => "say it: hit=0.22ms",
            Error::ColdFasterThanWarm { .. } => {
                "the first is the latency when nothing is cached, the second when everything is"
            }
            Error::BuffersBeyondMemory { .. } => {
                "memory is for shared_buffers and the page cache together: memory=16GiB, --what-if shared_buffers=4GiB,memory=16GiB"
            }
            Error::FilmTellsOfMemory { .. } => "change the memory alone: --what-if memory=16GiB",
            Error::NoPages => {
                "say how many blocks each relation has that a transaction reads (pages=163968 pages=27392), or name the database whose clients are at work (-d shop)"
            }
            Error::NoForecast => {
                "watch the usual transactions, and longer (--seconds 60), or give bare figures: pages=, hit=, and miss= or riops="
            }
            Error::NoServer => "give bare figures: pages=, hit=, and miss= or riops=",
            Error::NoRows => "start the server, or name the one that runs (-h, -p, -d)",
            Error::StoppedServer => "say it (hit=0.2ms or tps=5000, with clients=8)",
            Error::UnknownAccess { .. } => {
                "rows by ctid, TABLESAMPLE, VACUUM and ANALYZE do so, and nothing counts where: watch again when these are over, or give bare figures (pages=, hit=, and miss= or riops=)"
            }
            Error::NoDevice => "say miss=, what a cold transaction takes, or riops=, what the device serves",
            Error::IdleServer => "say it (hit=0.2ms clients=8), or ask while its clients are at work",
            Error::IdleDatabase { .. } => {
                "name the database that is at work (-d), say what it does when warm (tps=5000 clients=8, or hit=0.2ms), or ask while its clients are at work"
            }
            Error::ColdServer { tps, .. } => {
                return Some(format!(
                    "say what it does when warm (tps=5000, or hit=0.2ms), or ask when it is; if it always reads so much, this is its normal throughput: tps={}",
                    tps.round().max(1.0)
                ));
            }
            Error::Empty | Error::UnknownFormat => {
                "give it what `pgbench --progress=1` prints, an aggregated log, or a CSV file with a header such as \"time,tps\""
            }
            Error::NoFigures { .. } => "pgbench prints nan for what it could not measure: see what it complained of",
            Error::TooShort { .. } => "run longer, or report more often: `pgbench --progress=1`",
            Error::NoTransactions => "see in the server's log what kept it from serving any",
            Error::TimeBackwards { .. } => {
                "a file holds one run; of the logs of its threads name the first, and the others beside it are read too"
            }
            Error::NoTime { .. } => "a file holds one run, and its times are in seconds: divide milliseconds by 1000",
            Error::BadNumber { .. } | Error::BadLine { .. } => "mend the line or take it out",
            Error::DecimalCommas { .. } => "separate the columns by semicolons or tabs",
        };
        Some(hint.to_owned())
    }
}
