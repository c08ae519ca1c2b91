//! What pgbench says while it runs: `--progress`, and how far its tables are made.

use super::parse_number;

/// A line of `--progress`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The end of the interval, since the start; with `--progress-timestamp` since 1970.
    pub until_seconds: f64,
    /// NaN where pgbench printed it.
    pub tps: f64,
    /// `None` when nothing ended.
    pub latency_ms_mean: Option<f64>,
    /// Does it say how far behind its schedule pgbench is? It has one under `--rate` only.
    pub has_lag: bool,
}

/// Understands a progress line, with whatever stands before it in somebody's log; `None` of any other, and of one that was
/// cut short.
///
/// Every version since 9.4 begins with `progress: 5.0 s, 4711.3 tps`, what follows differs: `lat 0.211 ms stddev 0.080`
/// (9.4), `lag`, `skipped` (9.5), `failed` and `retried` (15). The development versions of 2013 wrote `29.882 +- 18.185
/// ms lat`. Some locales have a comma before the decimals.
pub fn parse_progress(line: &str) -> Option<Progress> {
    let (_, figures) = line.split_once("progress:")?;
    let words: Vec<&str> = figures.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
    let [until, "s", tps, "tps", rest @ ..] = words.as_slice() else { return None };
    let latency = match rest {
        ["lat", mean, "ms", ..] | [mean, "+-", _, "ms", "lat", ..] => parse_number(mean),
        _ => None,
    };
    Some(Progress {
        until_seconds: parse_number(until)?,
        tps: parse_number(tps)?,
        latency_ms_mean: latency.filter(|latency| latency.is_finite()),
        has_lag: rest.contains(&"lag"),
    })
}

/// Is this a progress line, whole or cut short?
pub fn is_progress(line: &str) -> bool {
    line.trim_start().starts_with("progress:")
}

/// What a line of pgbench's standard error is.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    Progress(Progress),
    /// `200000 of 5000000 tuples (4%) done`: the share of the tables that is made, 0 to 1.
    Initialized(f64),
    Other,
}

/// Understands a line of standard error.
pub fn parse_said(line: &str) -> Said {
    if is_progress(line) {
        return parse_progress(line).map_or(Said::Other, Said::Progress);
    }
    let percent = line.split_once(" tuples (").and_then(|(_, rest)| rest.split_once('%'));
    percent
        .and_then(|(percent, _)| percent.parse::<f64>().ok())
        .map_or(Said::Other, |percent| Said::Initialized(percent / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_lines_of_every_version() {
        for line in [
            "progress: 10.0 s, 33.4 tps, 29.882 +- 18.185 ms lat",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, lag 0.011 ms, 3 skipped",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed, lag 0.2 ms, 1 skipped, 4 retried, 5 retries",
            "progress: 10,0 s, 33,4 tps, lat 29,882 ms stddev 18,185, 0 failed",
            "2026-11-22 03:00:01 pgbench[7]: progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185",
        ] {
            let progress = parse_progress(line).unwrap();
            assert_eq!((progress.until_seconds, progress.tps), (10.0, 33.4), "{line}");
            assert!(progress.latency_ms_mean == Some(29.882) && progress.has_lag == line.contains("lag "), "{line}");
        }
        let stamped = "progress: 1700000010.123 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed";
        assert_eq!(parse_progress(stamped).unwrap().until_seconds, 1_700_000_010.123);
        let stalled = parse_progress("progress: 3.0 s, 0.0 tps, lat -nan ms stddev -nan");
        assert_eq!(stalled, Some(Progress { until_seconds: 3.0, tps: 0.0, latency_ms_mean: None, has_lag: false }));
    }

    #[test]
    fn a_line_that_was_cut_short_is_none() {
        for line in [
            "progress: 10.0 s, 33.",
            "progress: 10.0 s, 33.4",
            "progress: 10.0 s,",
            "progress:",
            "progress: 10.0 m, 3 tps",
            "tps = 12.3",
        ] {
            assert_eq!(parse_progress(line), None, "{line}");
        }
    }

    #[test]
    fn tells_progress_from_tables_that_are_made() {
        assert!(matches!(parse_said("progress: 5.0 s, 12345.6 tps, lat 0.643 ms stddev 0.101"), Said::Progress(_)));
        let initialize = "200000 of 5000000 tuples (4%) done (elapsed 5.10 s, remaining 120.00 s)";
        assert_eq!(parse_said(initialize), Said::Initialized(0.04));
        // 14 and later name the table.
        assert_eq!(
            parse_said("200000 of 400000 tuples (50%) of pgbench_accounts done (elapsed 0.10 s"),
            Said::Initialized(0.5)
        );
        assert_eq!(parse_said("pgbench: error: connection to server failed"), Said::Other);
    }
}
