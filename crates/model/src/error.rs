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
    #[error("a forecast from a film can assume another memory size, but not {changes}")]
    FilmTellsOfMemory { changes: String },
    #[error("{0}")]
    Figures(String),
    #[error("without a server, the time of a cached transaction must be given")]
    NoHit,
    #[error("there are no pages to warm")]
    NoPages,
    #[error("cannot make a forecast from these figures: the warm-up would take more than a hundred years")]
    NoForecast,
    #[error("a forecast requires a running server or a snapshot: the data files do not show the clients' requests")]
    NoServer,
    #[error("row counts require a running server's catalog")]
    NoRows,
    #[error("the server is not running, so the time of a warm transaction is unknown")]
    StoppedServer,
    #[error(
        "the access pattern of {relation} is unknown: {blocks:.1} of its blocks per transaction were requested without an index, bitmap or table scan"
    )]
    UnknownAccess { relation: String, blocks: f64 },
    #[error("the time of a read is unknown")]
    NoDevice,
    #[error("the server is idle, so the time of a warm transaction is unknown")]
    IdleServer,
    #[error("database \"{database}\" is idle, so the time of a warm transaction is unknown")]
    IdleDatabase { database: String },
    #[error(
        "the server is not warm: {reads}, so its {tps:.0} transactions per second do not show the time of a warm transaction"
    )]
    ColdServer { tps: f64, reads: String },
    #[error("the file is empty")]
    Empty,
    #[error("it contains no progress lines, no lines of a pgbench log and no columns of time and rate")]
    UnknownFormat,
    #[error("{intervals} intervals are too few to judge: at least {fewest} are needed")]
    TooShort { intervals: usize, fewest: usize },
    #[error("none of its {intervals} intervals has a throughput")]
    NoFigures { intervals: u64 },
    #[error("not a single transaction was served")]
    NoTransactions,
    #[error("line {line}: time runs backwards, from {before} to {after}")]
    TimeBackwards { line: u64, before: f64, after: f64 },
    #[error("line {line}: {seconds} is not a time of a run: {why}")]
    NoTime { line: u64, seconds: f64, why: &'static str },
    #[error("line {line}: \"{}\" is not a valid time or number here", shorten(text))]
    BadNumber { line: u64, text: String },
    #[error("line {line} has another format than the lines before it: \"{}\"", shorten(text))]
    BadLine { line: u64, text: String },
    #[error("line {line} uses commas both as decimal marks and between columns")]
    DecimalCommas { line: u64 },
}

const SHOWN_CHARACTERS: usize = 60;

fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).take(SHOWN_CHARACTERS).collect()
}

impl Error {
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
            Error::NoHit => "give this time, such as hit=0.22ms",
            Error::ColdFasterThanWarm { .. } => {
                "give a miss= (latency with nothing cached) that is not below hit= (latency with everything cached)"
            }
            Error::BuffersBeyondMemory { .. } => {
                "memory includes shared_buffers and the page cache: give a larger size (memory=16GiB, or --what-if shared_buffers=4GiB,memory=16GiB)"
            }
            Error::FilmTellsOfMemory { .. } => "change only the memory: --what-if memory=16GiB",
            Error::NoPages => {
                "give the size in blocks of each relation that a transaction reads (pages=163968 pages=27392), or a database with active clients (-d shop)"
            }
            Error::NoForecast => {
                "observe the usual transactions for longer (--seconds 60), or give only figures: pages=, hit=, and miss= or riops="
            }
            Error::NoServer => "start the server, or give only figures: pages=, hit=, and miss= or riops=",
            Error::NoRows => "start the server, or give its address (-h, -p, -d)",
            Error::StoppedServer => "give the time of a warm transaction (hit=0.2ms, or tps=5000 with clients=8)",
            Error::UnknownAccess { .. } => {
                "reads by ctid, TABLESAMPLE, VACUUM and ANALYZE request blocks, but PostgreSQL counts no scan for them: repeat the forecast when these have ended, or give only figures (pages=, hit=, and miss= or riops=)"
            }
            Error::NoDevice => "give miss=, the time of a cold transaction, or riops=, the device's reads per second",
            Error::IdleServer => {
                "give the time of a warm transaction (hit=0.2ms clients=8), or repeat the forecast while clients are active"
            }
            Error::IdleDatabase { .. } => {
                "name a database with active clients (-d), give the time of a warm transaction (hit=0.2ms, or tps=5000 with clients=8), or repeat the forecast while clients are active"
            }
            Error::ColdServer { tps, .. } => {
                return Some(format!(
                    "give the warm server's figures (tps=5000, or hit=0.2ms), or repeat the forecast when the server is warm; if it always reads this much, give its normal throughput: tps={}",
                    tps.round().max(1.0)
                ));
            }
            Error::Empty | Error::UnknownFormat => {
                "use the output of `pgbench --progress=1`, an aggregated log, or a CSV file with a header such as \"time,tps\""
            }
            Error::NoFigures { .. } => "pgbench prints nan for missing figures: check its error messages",
            Error::TooShort { .. } => "run longer, or report more often: `pgbench --progress=1`",
            Error::NoTransactions => "check the server's log for the reason",
            Error::TimeBackwards { .. } => {
                "use one run per file; if each thread wrote a log, name the first: pgthaw also reads the others beside it"
            }
            Error::NoTime { .. } => "use one run per file, with times in seconds: divide milliseconds by 1000",
            Error::BadNumber { .. } | Error::BadLine { .. } => "correct or remove the line",
            Error::DecimalCommas { .. } => "separate the columns by semicolons or tabs",
        };
        Some(hint.to_owned())
    }
}
