//! Parsers for pgbench's text output since 9.4, without I/O.

mod lines;
mod prefix;
mod report;

#[cfg(not(any(test, feature = "formats")))]
use derives::JsonSchema;
#[cfg(any(test, feature = "formats"))]
use schemars::JsonSchema;

pub use lines::{
    Beginning, Interval, Intervals, LoggedTransaction, Progress, TransactionEnd, compute_deviation, is_progress,
    parse_initialized, parse_interval, parse_loaded_share, parse_number, parse_progress, parse_transaction,
};
pub use prefix::Prefix;
pub use report::{BUILTIN_SCRIPTS, PgbenchOutcome, PgbenchReport, QueryMode, parse_report};

/// Larger times are seconds since 1970 (`--progress-timestamp`), smaller ones are seconds since the start.
pub const EARLIEST_EPOCH: f64 = 1e8;
