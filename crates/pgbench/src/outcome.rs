//! What pgbench prints when it is done.

/// What a run achieved, by pgbench's own count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PgbenchOutcome {
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed, from PostgreSQL 15 on; older ones end the client.
    pub failed: u64,
    /// Transactions that were not begun because they were due too long ago.
    pub skipped: u64,
    /// Transactions above the latency limit.
    pub late: u64,
    /// Transactions that were tried more than once, and how often in all, from PostgreSQL 15 on.
    pub retried: u64,
    pub retries: u64,
    /// Transactions per second, without the time that the first connections took.
    pub tps: f64,
}

/// Transactions per second that no server reaches.
const TPS_MAX: f64 = 1e9;

/// Reads the report on standard output. `None` when it has no count of transactions: pgbench did not get to its end.
pub fn parse_outcome(report: &str) -> Option<PgbenchOutcome> {
    let mut outcome = None;
    for line in report.lines() {
        if let Some(count) = line.strip_prefix("number of transactions actually processed: ") {
            outcome = Some(PgbenchOutcome { transactions: leading_number(count)?, ..PgbenchOutcome::default() });
        }
        let Some(outcome) = &mut outcome else { continue };
        if let Some(count) = line.strip_prefix("number of failed transactions: ") {
            outcome.failed = leading_number(count)?;
        } else if let Some(count) = line.strip_prefix("number of transactions skipped: ") {
            outcome.skipped = leading_number(count)?;
        } else if let Some(limited) = line.strip_prefix("number of transactions above the ") {
            outcome.late = leading_number(limited.split_once(": ")?.1)?;
        } else if let Some(count) = line.strip_prefix("number of transactions retried: ") {
            outcome.retried = leading_number(count)?;
        } else if let Some(count) = line.strip_prefix("total number of retries: ") {
            outcome.retries = leading_number(count)?;
        } else if let Some(rate) = line.strip_prefix("tps = ") {
            // 13 says it with and without the connections' time, in this order; later ones without alone.
            let rate: f64 = rate.split_once(' ')?.0.parse().ok()?;
            // No server is as fast, and none is slower than nothing: what stands there is no rate.
            outcome.tps = Some(rate).filter(|rate| (0.0..=TPS_MAX).contains(rate))?;
        }
    }
    outcome
}

/// The count before `/`, ` ` or the end.
fn leading_number(text: &str) -> Option<u64> {
    text.split(['/', ' ']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_every_version_is_read() {
        let old = "transaction type: <builtin: select only>\nnumber of transactions actually processed: 1000/1000\n\
                   tps = 10.5 (including connections establishing)\ntps = 11.5 (excluding connections establishing)\n";
        let expected = PgbenchOutcome { transactions: 1000, tps: 11.5, ..PgbenchOutcome::default() };
        assert_eq!(parse_outcome(old), Some(expected));
        let new = "duration: 3 s\nnumber of transactions actually processed: 77\nnumber of failed transactions: 3 (3.750%)\n\
                   number of transactions skipped: 4 (5.1%)\n\
                   number of transactions above the 5.0 ms latency limit: 6/77 (7.792%)\nnumber of transactions retried: 5 (6.250%)\n\
                   total number of retries: 9\nlatency average = 1 ms\n\
                   initial connection time = 4.1 ms\ntps = 25.6 (without initial connection time)\n";
        let expected =
            PgbenchOutcome { transactions: 77, failed: 3, skipped: 4, late: 6, retried: 5, retries: 9, tps: 25.6 };
        assert_eq!(parse_outcome(new), Some(expected));
    }

    #[test]
    fn a_run_that_served_nothing_has_no_rate_and_one_that_broke_off_no_outcome() {
        let nothing = "number of transactions actually processed: 0\n";
        assert_eq!(parse_outcome(nothing), Some(PgbenchOutcome::default()));
        assert_eq!(parse_outcome("pgbench (15.18)\n"), None);
        assert_eq!(parse_outcome("number of transactions actually processed: many\n"), None);
        for rate in ["nan", "inf", "1e308", "-5"] {
            let report = format!(
                "number of transactions actually processed: 7\ntps = {rate} (without initial connection time)\n"
            );
            assert_eq!(parse_outcome(&report), None, "{rate}");
        }
    }
}
