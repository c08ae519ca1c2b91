//! The report that pgbench ends with, as people keep it: with what was run, and the progress that stands above it.

use super::{PgbenchOutcome, parse_outcome};

/// What a report says of the run. Every version says it in the same words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PgbenchReport {
    /// `15.18 (Debian 15.18-0+deb12u1)`, from PostgreSQL 12 on.
    pub version: Option<String>,
    /// The script as the study file names it: a built-in's name, or the file's. One for all when there were several.
    pub script: Option<String>,
    pub scale: Option<u32>,
    pub clients: Option<u32>,
    pub threads: Option<u32>,
    pub seconds: Option<u32>,
    /// Transactions that each client was asked for.
    pub transactions: Option<u32>,
    /// Under a rate transactions are due, and may wait.
    pub has_rate: bool,
    /// `None`: it did not get to its end.
    pub outcome: Option<PgbenchOutcome>,
    pub progress: Vec<Progress>,
}

/// A line of `--progress`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Since the start; with `--progress-timestamp` since 1970.
    pub until_seconds: f64,
    pub tps: f64,
    /// `None` when nothing ended.
    pub latency_ms_mean: Option<f64>,
}

/// Built-ins by what the reports of all versions call them.
const BUILTINS: [(&str, &str); 3] =
    [("select only", "select-only"), ("simple update", "simple-update"), ("tpc-b", "tpcb-like")];

/// Reads a report with its progress; lines that are neither are passed over.
pub fn parse_report(text: &str) -> PgbenchReport {
    let mut report = PgbenchReport { outcome: parse_outcome(text), ..PgbenchReport::default() };
    for line in text.lines() {
        if let Some(progress) = line.strip_prefix("progress: ").and_then(parse_progress) {
            report.progress.push(progress);
        } else if let Some(version) = line.strip_prefix("pgbench (").and_then(|rest| rest.strip_suffix(')')) {
            report.version = Some(version.to_owned());
        } else if line.starts_with("rate limit schedule lag: ") {
            report.has_rate = true;
        } else if let Some((what, value)) = line.split_once(": ") {
            let number = || value.split_ascii_whitespace().next()?.parse().ok();
            match what {
                "transaction type" => report.script = Some(name_of_script(value)),
                "scaling factor" => report.scale = number(),
                "number of clients" => report.clients = number(),
                "number of threads" => report.threads = number(),
                "duration" => report.seconds = number(),
                "number of transactions per client" => report.transactions = number(),
                _ => {}
            }
        }
    }
    report
}

fn parse_progress(progress: &str) -> Option<Progress> {
    let figure = |unit: &str| progress.split(", ").find_map(|part| part.strip_suffix(unit)?.parse::<f64>().ok());
    let latency =
        progress.split(", ").find_map(|part| part.strip_prefix("lat ")?.split_once(" ms")?.0.parse::<f64>().ok());
    Some(Progress {
        until_seconds: figure(" s")?,
        tps: figure(" tps")?,
        latency_ms_mean: latency.filter(|latency| latency.is_finite()),
    })
}

/// `<builtin: select only>` and, before 9.6, `SELECT only`.
fn name_of_script(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let builtin = BUILTINS.into_iter().find(|(said, _)| lower.contains(said));
    let is_builtin = |name: &str| lower.starts_with("<builtin") || !name.is_empty() && !lower.contains('/');
    match builtin {
        Some((_, name)) if is_builtin(name) && !lower.ends_with(".sql") => name.to_owned(),
        _ => text.rsplit('/').next().unwrap_or(text).to_owned(),
    }
}

#[cfg(test)]
mod tests {
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
        let first = Progress { until_seconds: 5.0, tps: 1234.5, latency_ms_mean: Some(3.2) };
        assert_eq!(report.progress, [first, Progress { until_seconds: 10.0, tps: 0.0, latency_ms_mean: None }]);
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
}
