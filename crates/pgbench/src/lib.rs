//! What pgbench writes (progress, logs, report) as values: text alone, of every version since 9.4.

mod lines;
mod prefix;
mod report;

pub use lines::{
    Beginning, Interval, Intervals, LoggedTransaction, Progress, Said, TransactionEnd, compute_deviation, is_progress,
    parse_initialized, parse_interval, parse_number, parse_progress, parse_said, parse_transaction,
};
pub use prefix::Prefix;
pub use report::{BUILTIN_SCRIPTS, PgbenchOutcome, PgbenchReport, QueryMode, parse_outcome, parse_report};

/// Later times are seconds since 1970 (`--progress-timestamp`), earlier ones since the start.
pub const EARLIEST_EPOCH: f64 = 1e8;
