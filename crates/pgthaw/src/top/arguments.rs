use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::ConnectionArguments;
use crate::looking::BudgetArguments;
use observe::time::{By, Tier};

/// Where the time of a server goes while it runs: a live screen, lines of JSON, or a page for Prometheus
///
/// Throughput, hits of both tiers, what processes do and wait for, the device, checkpoints and what pgthaw itself costs, step after step;
/// the last hour can be looked back at, and a record shown again. Where standard output is no terminal each step is a line of JSON. With
/// fewer rights it shows less, and says what is missing and why: docs/top.md.
#[derive(Debug, Args)]
pub struct TopArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// From one reading to the next: 100ms to 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    pub interval: Duration,

    /// End after so long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,

    /// Whose times are added up
    #[arg(long, value_enum, default_value_t)]
    pub by: By,

    /// Where the times come from [default: the most exact source that can be had]
    #[arg(long, value_enum)]
    pub source: Option<Tier>,

    #[command(flatten)]
    pub budget: BudgetArguments,

    /// Keep what is shown in this file, which must not be there
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,

    /// Show what was kept in this file; no server is asked
    #[arg(long, value_name = "FILE", conflicts_with_all = ["record", "listen", "source", "seconds", "budget"])]
    pub replay: Option<PathBuf>,

    /// Answer Prometheus at this address and port, under /metrics, until Ctrl-C. An address that others can reach takes a token; those
    /// of 127.0.0.0/8 and ::1 are this machine's
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,

    /// A file whose first line is the secret that who asks must know, and that only you can read
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,

    /// Draw with ASCII characters only
    #[arg(long)]
    pub ascii: bool,
}

/// A number without a unit is seconds.
fn parse_interval(text: &str) -> Result<Duration, String> {
    match model::parse_hit(text)? {
        seconds @ 0.1..=10.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("it is 100ms at least and 10s at most".to_owned()),
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
