//! What pgbench writes: its progress, its logs and the report that it ends with, as values. Text alone, of every version since
//! 9.4; nothing is opened here, and whoever reads pgbench's text reads it by these.

mod initialized;
mod interval;
mod number;
mod outcome;
mod progress;
mod report;
mod transaction;

pub use initialized::parse_initialized;
pub use interval::{Interval, Intervals, compute_deviation, parse_interval};
pub use number::parse_number;
pub use outcome::{PgbenchOutcome, parse_outcome};
pub use progress::{Progress, Said, is_progress, parse_progress, parse_said};
pub use report::{BUILTIN_SCRIPTS, PgbenchReport, QueryMode, parse_report};
pub use transaction::{LoggedTransaction, TransactionEnd, parse_transaction};

/// Times from here on are seconds since 1970 (`--progress-timestamp`), those below are seconds since the start.
pub const EARLIEST_EPOCH: f64 = 1e8;

/// Seconds since 1970, of a log: pgbench has none that is older than 2001, nor one of the year 5138.
fn parse_second(word: &str) -> Option<i64> {
    word.parse().ok().filter(|second| (1_000_000_000..100_000_000_000).contains(second))
}
