use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;

use crate::looking::{BudgetArguments, parse_past};
use crate::{ConnectionArguments, PositionalArguments, SnapshotsArguments};
use observe::time::{By, Tier};

/// Show live where a server's time goes, or serve metrics
///
/// Shows a screen, prints lines of JSON, or serves metrics for Prometheus. Each step shows throughput, cache hits, waits, locks, the
/// device, checkpoints, memory and pgthaw's overhead. The screen can go back one hour, and `--replay` shows a recorded file. Without a terminal,
/// each step is a line of JSON. With fewer privileges pgthaw shows less, and prints what is missing and why (docs/top.md).
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    pub positional: PositionalArguments,

    /// Interval, from 100ms to 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,

    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,

    /// Group by kind (default), user, database, query, backend
    #[arg(long, value_enum, default_value_t, hide_possible_values = true, hide_default_value = true)]
    pub by: By,

    /// How to measure the times [default: the most exact source available]
    #[arg(long, value_enum, hide_short_help = true)]
    pub source: Option<Tier>,

    #[command(flatten)]
    pub budget: BudgetArguments,

    /// Save the steps to this new file
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Show the steps of this file, without a server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "listen", "source", "seconds", "budget"])]
    pub replay: Option<PathBuf>,

    /// Show the agent's history at this time
    ///
    /// For example 03:10 (the most recent) or "2026-11-30 03:10", in local time, or RFC 3339. Without a terminal, prints 60 steps of JSON.
    #[arg(long, value_name = "TIME", value_parser = parse_past, conflicts_with_all = ["record", "listen", "source", "seconds", "budget"])]
    pub at: Option<Timestamp>,

    /// Serve /metrics for Prometheus here, until Ctrl-C
    ///
    /// An address that other machines can reach requires --token-file. 127.0.0.0/8 and ::1 require none.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// File whose first line is the secret that clients must send; only the file's owner may have access
    #[arg(long, value_name = "FILE", requires = "listen", hide_short_help = true)]
    pub token_file: Option<PathBuf>,

    /// Draw with ASCII characters only
    #[arg(long, hide_short_help = true)]
    pub ascii: bool,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    #[command(flatten)]
    pub connection: ConnectionArguments,
}

/// A number without a unit is seconds.
fn parse_interval(text: &str) -> Result<Duration, String> {
    match model::parse_hit(text)? {
        seconds @ 0.1..=10.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be at least 100ms and at most 10s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_tenth_of_a_second_to_ten() {
        let parsed = ["100ms", "1s", "2", "0.5s", "10s"].map(|text| parse_interval(text).unwrap().as_millis());
        assert_eq!(parsed, [100, 1000, 2000, 500, 10_000]);
        for wrong in ["99ms", "11s", "0", "s", "1m", "-1s", "1e9", ""] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
