use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::Prefix;
use super::lines::{Progress, parse_number, parse_progress};
use crate::JsonSchema;

/// Value of `pgbench -M`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Serialize, Deserialize, Display, EnumString, IntoStaticStr, VariantNames, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum QueryMode {
    /// Simple protocol.
    Simple,
    /// Extended protocol, parsed and planned each time.
    Extended,
    /// Parsed once per client, so that the planner is not measured.
    #[default]
    Prepared,
}

impl QueryMode {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PgbenchReport {
    /// `15.18 (Debian 15.18-0+deb12u1)`, since 12.
    pub version: Option<String>,
    /// Script's name, as in a study file.
    pub script: Option<String>,
    /// Scripts with weights; empty for a single script.
    pub mix: Vec<(String, u32)>,
    pub query_mode: Option<QueryMode>,
    pub scale: Option<u32>,
    pub clients: Option<u32>,
    pub threads: Option<u32>,
    pub seconds: Option<u32>,
    /// Requested transactions per client.
    pub transactions: Option<u32>,
    /// Requested transactions of all clients together.
    pub asked_transactions: Option<u64>,
    /// One connection per transaction (`-C`). `None` before PostgreSQL 14.
    pub connects: Option<bool>,
    pub has_rate: bool,
    pub lag_ms_mean: Option<f64>,
    pub lag_ms_max: Option<f64>,
    /// For the first and the last progress interval with a lag: time of its middle, and mean lag, in seconds.
    pub lags: Option<[(f64, f64); 2]>,
    pub until_seconds: Option<f64>,
    pub aborted_clients: u32,
    pub is_aborted: bool,
    /// The caller sets this if the text is truncated.
    pub is_cut: bool,
    pub latency_limit_ms: Option<f64>,
    /// `None` if pgbench did not finish.
    pub outcome: Option<PgbenchOutcome>,
    pub progress: Vec<Progress>,
}

pub const BUILTIN_SCRIPTS: [&str; 3] = ["select-only", "simple-update", "tpcb-like"];

const BUILTINS: [(&str, &str); 3] =
    [("select only", "select-only"), ("simple update", "simple-update"), ("tpc-b", "tpcb-like")];

pub fn parse_report(text: &str) -> PgbenchReport {
    let mut prefix = Prefix::default();
    let lines: Vec<&str> = text.lines().map(|line| prefix.strip(line)).collect();
    let mut report = PgbenchReport { outcome: read_outcome(lines.iter().copied()), ..PgbenchReport::default() };
    for line in lines {
        report.progress.extend(parse_progress(line));
        report.note(line);
    }
    report
}

/// A run reaches its requested rate if its lag grows by less than this share of its duration.
const BEHIND_SHARE: f64 = 0.05;

/// The mean of an evenly growing lag is half its maximum; after a single stall it is much less.
const GROWING: f64 = 0.4;

impl PgbenchReport {
    pub fn is_result(&self) -> bool {
        self.outcome.is_some() || !self.progress.is_empty()
    }

    /// Duration: transactions divided by the rate, else as requested.
    pub fn lasted_seconds(&self) -> Option<f64> {
        let outcome = self.outcome.filter(|outcome| outcome.tps > 0.0);
        outcome.map(|outcome| outcome.transactions as f64 / outcome.tps).or(self.seconds.map(f64::from))
    }

    /// Estimates the requested `--rate` if pgbench missed it: at 90 % of it, the lag grows by 0.1 s per second.
    pub fn missed_rate(&self, tps: f64) -> Option<f64> {
        let is_skipping = self.outcome.is_some_and(|outcome| outcome.skipped > 0);
        let growing = self.lag_ms_max.zip(self.lag_ms_mean).filter(|(most, mean)| *mean > GROWING * most);
        let by_report = || growing.zip(self.lasted_seconds()).map(|((most, _), lasted)| most / 1e3 / lasted);
        let lags = self.lags.filter(|[first, last]| last.0 > first.0);
        let by_progress = lags.map(|[first, last]| (last.1 - first.1) / (last.0 - first.0));
        let behind = by_progress.or_else(by_report).filter(|behind| (BEHIND_SHARE..1.0).contains(behind))?;
        (!is_skipping).then(|| tps / (1.0 - behind))
    }

    pub fn is_unfinished(&self) -> bool {
        let done = self.outcome.map(|outcome| outcome.transactions + outcome.failed + outcome.skipped);
        let is_short = done.zip(self.asked_transactions).is_some_and(|(done, asked)| done < asked);
        self.is_aborted || self.aborted_clients > 0 || is_short
    }

    pub fn add_stream(&mut self, other: PgbenchReport) {
        self.progress.extend(other.progress);
        self.version = self.version.take().or(other.version);
        self.has_rate |= other.has_rate;
        self.is_aborted |= other.is_aborted;
        self.is_cut |= other.is_cut;
        self.aborted_clients += other.aborted_clients;
    }

    pub fn note(&mut self, line: &str) {
        if let Some(Progress { until_seconds: until, lag_ms_mean, .. }) = parse_progress(line) {
            self.has_rate |= lag_ms_mean.is_some();
            // The start of the first line's interval is unknown.
            let middle = self.until_seconds.replace(until).map(|before| (before + until) / 2.0);
            let last = middle.zip(lag_ms_mean.map(|lag| lag / 1e3));
            // No transaction is due while pgbench connects.
            let first = self.lags.map(|[first, _]| first).filter(|first| first.1 > 0.0);
            self.lags = last.map(|last| [first.unwrap_or(last), last]).or(self.lags);
        }
        self.has_rate |= line.starts_with("rate limit schedule lag: ");
        self.is_aborted |= line.contains("Run was aborted");
        self.aborted_clients += u32::from(is_of_aborted_client(line));
        if line.starts_with("average connection time = ") || line.ends_with("(including reconnection times)") {
            self.connects = Some(true);
        } else if line.starts_with("initial connection time = ") || line.ends_with("(without initial connection time)")
        {
            self.connects = Some(false);
        }
        if let Some(version) = line.strip_prefix("pgbench (").and_then(|rest| rest.strip_suffix(')')) {
            self.version = Some(version.to_owned());
        }
        let Some((what, value)) = line.split_once(": ") else { return };
        // Clamps out-of-range values, which callers reject.
        let whole = || value.split_ascii_whitespace().next()?.parse::<i64>().ok();
        let number = || whole().map(|number| number.clamp(0, u32::MAX.into()) as u32);
        match what {
            "transaction type" => self.script = Some(name_of_script(value)),
            "query mode" => self.query_mode = value.trim().parse().ok(),
            " - weight" => self.mix.last_mut().into_iter().for_each(|(_, weight)| *weight = number().unwrap_or(1)),
            what if what.starts_with("SQL script ") => self.mix.push((name_of_script(value), 1)),
            what if what.starts_with("number of transactions above the ") => {
                let limit = what.split_ascii_whitespace().nth(5).and_then(parse_number);
                self.latency_limit_ms = self.latency_limit_ms.or(limit);
            }
            "number of transactions actually processed" => {
                self.asked_transactions = value.split_once('/').and_then(|(_, asked)| asked.trim().parse().ok());
            }
            "rate limit schedule lag" => (self.lag_ms_mean, self.lag_ms_max) = parse_lag(value).unzip(),
            "scaling factor" => self.scale = number(),
            "number of clients" => self.clients = number(),
            "number of threads" => self.threads = number(),
            "duration" => self.seconds = number(),
            "number of transactions per client" => self.transactions = number(),
            _ => {}
        }
    }
}

/// `client 3 aborted in command 5 (SQL) of script 0; …`, or `client 3 script 0 aborted in command 5 query 0: …`.
fn is_of_aborted_client(line: &str) -> bool {
    let (_, said) = line.split_once("lient ").unwrap_or_default();
    let words: Vec<&str> = said.split_ascii_whitespace().take(4).collect();
    let is_number = |word: &str| word.parse::<u32>().is_ok();
    matches!(words.as_slice(), [client, "aborted", ..] | [client, "script", _, "aborted"] if is_number(client))
}

fn parse_lag(text: &str) -> Option<(f64, f64)> {
    let (mean, most) = text.strip_prefix("avg ")?.split_once(" (max ")?;
    Some((parse_number(mean)?, parse_number(most.split_once(')')?.0)?))
}

/// Parses `<builtin: select only>` and, before 9.6, `SELECT only`.
fn name_of_script(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let builtin = BUILTINS.into_iter().find(|(said, _)| lower.contains(said));
    let is_builtin = |name: &str| lower.starts_with("<builtin") || !name.is_empty() && !lower.contains('/');
    match builtin {
        Some((_, name)) if is_builtin(name) && !lower.ends_with(".sql") => name.to_owned(),
        _ => text.rsplit('/').next().unwrap_or(text).to_owned(),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PgbenchOutcome {
    pub transactions: u64,
    /// Failed transactions. Before version 15, pgbench does not count them, but ends their client.
    pub failed: u64,
    pub skipped: u64,
    pub late: u64,
    /// Retried transactions and all retries, since 15.
    pub retried: u64,
    pub retries: u64,
    /// Rate without the initial connection time.
    pub tps: f64,
}

/// Higher rates are implausible.
const TPS_MAX: f64 = 1e9;

/// `None` without a transaction count, as pgbench did not finish.
fn read_outcome<'a>(lines: impl Iterator<Item = &'a str>) -> Option<PgbenchOutcome> {
    let mut outcome = None;
    for line in lines {
        let Some((what, value)) = line.split_once(": ").or_else(|| line.split_once(" = ")) else { continue };
        if what == "number of transactions actually processed" {
            outcome = Some(PgbenchOutcome { transactions: leading_number(value)?, ..PgbenchOutcome::default() });
        }
        let Some(outcome) = &mut outcome else { continue };
        match what {
            "number of failed transactions" => outcome.failed = leading_number(value)?,
            "number of transactions skipped" => outcome.skipped = leading_number(value)?,
            "number of transactions retried" => outcome.retried = leading_number(value)?,
            "total number of retries" => outcome.retries = leading_number(value)?,
            what if what.starts_with("number of transactions above the ") => outcome.late = leading_number(value)?,
            "tps" => {
                // pgbench 13 prints two rates, with connection time and without. The last one counts.
                let rate: f64 = value.split_once(' ')?.0.parse().ok()?;
                outcome.tps = Some(rate).filter(|rate| (0.0..=TPS_MAX).contains(rate))?;
            }
            _ => {}
        }
    }
    outcome
}

fn leading_number(text: &str) -> Option<u64> {
    text.split(['/', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod report_tests {
    use super::*;

    #[test]
    fn a_report_says_what_was_run() {
        let text = "pgbench (15.18 (Debian 15.18-0+deb12u1))\n\
            progress: 5.0 s, 1234.5 tps, lat 3.2 ms stddev 1.0, 0 failed\n\
            progress: 10.0 s, 0.0 tps, lat -nan ms stddev -nan, 0 failed\n\
            transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nquery mode: simple\nnumber of clients: 8\n\
            number of threads: 2\nmaximum number of tries: 1\nduration: 10 s\n\
            number of transactions actually processed: 6172\ntps = 617.2 (without initial connection time)\n";
        let report = parse_report(text);
        assert_eq!(report.version.as_deref(), Some("15.18 (Debian 15.18-0+deb12u1)"));
        assert_eq!(report.script.as_deref(), Some("tpcb-like"));
        assert_eq!((report.scale, report.clients, report.threads), (Some(10), Some(8), Some(2)));
        assert_eq!((report.seconds, report.transactions), (Some(10), None));
        assert_eq!(report.outcome.map(|outcome| outcome.transactions), Some(6172));
        let first = Progress { until_seconds: 5.0, tps: 1234.5, latency_ms_mean: Some(3.2), lag_ms_mean: None };
        assert_eq!(
            report.progress,
            [first, Progress { until_seconds: 10.0, tps: 0.0, latency_ms_mean: None, ..first }]
        );
        assert!(!report.has_rate);
    }

    #[test]
    fn scripts_have_the_names_that_studies_use() {
        for (said, name) in [
            ("<builtin: select only>", "select-only"),
            ("SELECT only", "select-only"),
            ("TPC-B (sort of)", "tpcb-like"),
            ("/home/me/tests/insert.sql", "insert.sql"),
            ("tpc-b.sql", "tpc-b.sql"),
            ("multiple scripts", "multiple scripts"),
        ] {
            assert_eq!(name_of_script(said), name, "{said}");
        }
    }

    #[test]
    fn a_run_that_was_aborted_says_so() {
        let of = |said: &str| parse_report(&format!("number of transactions actually processed: 8/10\n{said}\n"));
        let whole = parse_report("number of transactions actually processed: 10/10\ntps = 5 (x)\n");
        assert!(!whole.is_unfinished() && whole.asked_transactions == Some(10));
        let one = of("pgbench: error: client 3 aborted in command 5 (SQL) of script 0; ERROR:  client 4 aborted");
        assert_eq!((one.is_unfinished(), one.aborted_clients), (true, 1));
        for said in [
            "Client 12 aborted in state 4: ERROR:  no",
            "pgbench: error: client 1 script 0 aborted in command 0 query 0: no",
        ] {
            assert_eq!(of(said).aborted_clients, 1, "{said}");
        }
        assert!(of("pgbench: error: Run was aborted; the above results are incomplete.").is_aborted);
        assert!(of("").is_unfinished());
        assert!(!of("number of failed transactions: 2 (20%)").is_unfinished());
    }

    #[test]
    fn connections_for_each_transaction_are_told_from_14_on() {
        for (said, connects) in [
            ("average connection time = 1.5 ms", Some(true)),
            ("tps = 5.1 (including reconnection times)", Some(true)),
            ("initial connection time = 4.1 ms", Some(false)),
            ("tps = 5.1 (without initial connection time)", Some(false)),
            ("tps = 5.1 (excluding connections establishing)", None),
        ] {
            assert_eq!(parse_report(said).connects, connects, "{said}");
        }
        assert_eq!(parse_report("rate limit schedule lag: avg 2.504 (max 128.034) ms").lag_ms_max, Some(128.034));
    }

    #[test]
    fn a_rate_that_was_not_kept_is_told_by_the_growth_of_its_lag() {
        let report = |lag: &str| {
            let text = format!("number of transactions actually processed: 6000\n{lag}\ntps = 2000.0 (x)\n");
            parse_report(&text).missed_rate(2000.0).map(f64::round)
        };
        assert_eq!(report("rate limit schedule lag: avg 302.504 (max 600.000) ms"), Some(2500.0));
        assert_eq!(report("rate limit schedule lag: avg 2.504 (max 600.000) ms"), None, "one stall");
        assert_eq!(report("rate limit schedule lag: avg 2.504 (max 5.000) ms"), None);
        let progress = |second: u32, lag: f64| {
            format!("progress: {second}.0 s, 2000.0 tps, lat 1.0 ms stddev 1.0, 0 failed, lag {lag} ms\n")
        };
        let growing: String = (0..20).map(|second| progress(second + 1, 200.0 * f64::from(second))).collect();
        assert_eq!(parse_report(&growing).missed_rate(2000.0).map(f64::round), Some(2500.0));
        let even: String = (1..20).map(|second| progress(second, 3.0)).collect();
        assert_eq!(parse_report(&even).missed_rate(2000.0), None);
    }

    #[test]
    fn a_limited_rate_is_told_by_the_lag() {
        for limited in [
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, lag 0.011 ms, 3 skipped",
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed, lag 0.011 ms",
            "rate limit schedule lag: avg 2.504 (max 128.034) ms",
        ] {
            assert!(parse_report(limited).has_rate, "{limited}");
        }
        for free in [
            "progress: 10.0 s, 33.4 tps, lat 29.882 ms stddev 18.185, 0 failed",
            "number of transactions above the 50.0 ms latency limit: 3/9 (33.333%)",
        ] {
            assert!(!parse_report(free).has_rate, "{free}");
        }
    }
}

#[cfg(test)]
mod outcome_tests {
    use super::*;

    fn outcome_of(text: &str) -> Option<PgbenchOutcome> {
        parse_report(text).outcome
    }

    #[test]
    fn the_report_of_every_version_is_read() {
        let old = "transaction type: <builtin: select only>\nnumber of transactions actually processed: 1000/1000\n\
                   tps = 10.5 (including connections establishing)\ntps = 11.5 (excluding connections establishing)\n";
        let expected = PgbenchOutcome { transactions: 1000, tps: 11.5, ..PgbenchOutcome::default() };
        assert_eq!(outcome_of(old), Some(expected));
        let new = "duration: 3 s\nnumber of transactions actually processed: 77\nnumber of failed transactions: 3 (3.750%)\n\
                   number of transactions skipped: 4 (5.1%)\n\
                   number of transactions above the 5.0 ms latency limit: 6/77 (7.792%)\nnumber of transactions retried: 5 (6.250%)\n\
                   total number of retries: 9\nlatency average = 1 ms\n\
                   initial connection time = 4.1 ms\ntps = 25.6 (without initial connection time)\n";
        let expected =
            PgbenchOutcome { transactions: 77, failed: 3, skipped: 4, late: 6, retried: 5, retries: 9, tps: 25.6 };
        assert_eq!(outcome_of(new), Some(expected));
    }

    #[test]
    fn a_run_that_went_on_after_errors_did_all_that_was_asked_for() {
        let text = "pgbench (19rc1 (Debian 19~rc1-1))\n\
            pgbench: client 0 got an error in command 1 (SQL) of script 0; ERROR:  duplicate key value\n\
            number of transactions per client: 100\nnumber of transactions actually processed: 20/200\n\
            number of failed transactions: 180 (90.000%)\nnumber of serialization failures: 0 (0.000%)\n\
            number of deadlock failures: 0 (0.000%)\nnumber of other failures: 180 (90.000%)\n\
            tps = 775.825284 (without initial connection time)\n";
        let report = parse_report(text);
        let outcome = report.outcome.unwrap();
        assert_eq!((outcome.transactions, outcome.failed, report.is_unfinished()), (20, 180, false));
        assert_eq!(report.version.as_deref(), Some("19rc1 (Debian 19~rc1-1)"));
    }

    #[test]
    fn a_run_that_served_nothing_has_no_rate_and_one_that_broke_off_no_outcome() {
        let nothing = "number of transactions actually processed: 0\n";
        assert_eq!(outcome_of(nothing), Some(PgbenchOutcome::default()));
        assert_eq!(outcome_of("pgbench (15.18)\n"), None);
        assert_eq!(outcome_of("number of transactions actually processed: many\n"), None);
        for rate in ["nan", "inf", "1e308", "-5"] {
            let report = format!(
                "number of transactions actually processed: 7\ntps = {rate} (without initial connection time)\n"
            );
            assert_eq!(outcome_of(&report), None, "{rate}");
        }
    }
}
