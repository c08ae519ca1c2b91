//! From the log of transactions to histograms per script, and to what happened in each second.

use hdrhistogram::Histogram;

use super::histogram::{DIGITS, LatencyHistogram, ScriptLatency};
use pgbench::{Interval, Intervals, LoggedTransaction, TransactionEnd};

/// What a log holds, while it is read.
#[derive(Debug)]
pub struct Latencies {
    scripts: Vec<Counted>,
    /// What was answered, by second.
    pub intervals: Intervals,
    has_rate: bool,
}

#[derive(Debug)]
struct Counted {
    name: String,
    failed: u64,
    skipped: u64,
    response: Histogram<u64>,
    service: Histogram<u64>,
}

impl Latencies {
    /// For a load of these scripts; under a rate response and service differ.
    pub fn new(scripts: Vec<String>, has_rate: bool) -> Latencies {
        let counted = |name| {
            let (response, service) = (empty_histogram(), empty_histogram());
            Counted { name, failed: 0, skipped: 0, response, service }
        };
        Latencies { scripts: scripts.into_iter().map(counted).collect(), intervals: Intervals::new(), has_rate }
    }

    /// Counts one line of the log. A script that was not given is none of ours.
    pub fn add(&mut self, one: LoggedTransaction) {
        let Some(script) = self.scripts.get_mut(one.script as usize) else { return };
        match one.ended {
            TransactionEnd::Failed => script.failed += 1,
            TransactionEnd::Skipped => script.skipped += 1,
            TransactionEnd::Answered { latency_us, lag_us } => {
                // A histogram that grows takes every latency that there can be.
                let _ = script.response.record(latency_us);
                let _ = script.service.record(latency_us.saturating_sub(lag_us));
                self.intervals.entry(one.second).or_default().merge(Interval {
                    transactions: 1,
                    latency_us_sum: latency_us as f64,
                    latency_us_squares: (latency_us as f64).powi(2),
                    latency_us_min: latency_us,
                    latency_us_max: latency_us,
                });
            }
        }
    }

    /// Adds what another generator's log of the same load holds: as if both were one.
    pub fn merge(&mut self, other: &Latencies) {
        for (script, same) in self.scripts.iter_mut().zip(&other.scripts) {
            script.failed += same.failed;
            script.skipped += same.skipped;
            // They grow as they need.
            let _ = script.response.add(&same.response);
            let _ = script.service.add(&same.service);
        }
        for (second, interval) in &other.intervals {
            self.intervals.entry(*second).or_default().merge(*interval);
        }
    }

    /// The responses of all scripts together.
    pub fn overall(&self) -> LatencyHistogram {
        let mut all = empty_histogram();
        for counted in &self.scripts {
            // Both grow as they need.
            let _ = all.add(&counted.response);
        }
        LatencyHistogram::new(&all)
    }

    /// The histograms, a script each.
    pub fn scripts(&self) -> Vec<ScriptLatency> {
        let latency = |counted: &Counted| ScriptLatency {
            script: counted.name.clone(),
            answered: counted.response.len(),
            failed: counted.failed,
            skipped: counted.skipped,
            response: LatencyHistogram::new(&counted.response),
            service: self.has_rate.then(|| LatencyHistogram::new(&counted.service)),
        };
        self.scripts.iter().map(latency).collect()
    }
}

fn empty_histogram() -> Histogram<u64> {
    // It fails for more than five digits alone.
    Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("{DIGITS} digits are allowed"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn under_a_rate_waiting_belongs_to_the_response_alone() {
        let mut latencies = Latencies::new(vec!["a".into(), "b".into()], true);
        let line =
            |script, second, ended| LoggedTransaction { client: 0, number: 1, script, second, microsecond: 0, ended };
        latencies.add(line(0, 7, TransactionEnd::Answered { latency_us: 900, lag_us: 500 }));
        latencies.add(line(0, 7, TransactionEnd::Answered { latency_us: 100, lag_us: 0 }));
        latencies.add(line(1, 8, TransactionEnd::Failed));
        latencies.add(line(1, 8, TransactionEnd::Skipped));
        latencies.add(line(2, 8, TransactionEnd::Skipped));
        let scripts = latencies.scripts();
        assert_eq!((scripts[0].answered, scripts[1].answered, scripts[1].failed, scripts[1].skipped), (2, 0, 1, 1));
        assert_eq!((scripts[0].response.max_us, scripts[0].service.as_ref().unwrap().max_us), (900, 400));
        assert_eq!((latencies.overall().count, latencies.overall().max_us), (2, 900));
        assert_eq!(latencies.intervals.len(), 1);
        assert_eq!(latencies.intervals[&7].latency_us_mean(), Some(500.0));
    }

    proptest! {
        /// However the lines are shared out over generators, their sum is what one pgbench would have logged.
        #[test]
        fn a_merge_loses_nothing(lines in prop::collection::vec((0u32..2, 0i64..4, 0u64..100_000_000, 0u64..1000, 0usize..3), 0..200)) {
            let new = || Latencies::new(vec!["a".into(), "b".into()], true);
            let (mut one, mut shared) = (new(), [new(), new(), new()]);
            for (script, second, latency_us, lag_us, host) in lines {
                let ended = match latency_us % 10 {
                    0 => TransactionEnd::Failed,
                    1 => TransactionEnd::Skipped,
                    _ => TransactionEnd::Answered { latency_us, lag_us },
                };
                let line = LoggedTransaction { client: 0, number: 1, script, second, microsecond: 0, ended };
                one.add(line);
                shared[host].add(line);
            }
            let mut merged = new();
            shared.iter().for_each(|other| merged.merge(other));
            for (merged, one) in merged.scripts.iter().zip(&one.scripts) {
                prop_assert_eq!((merged.failed, merged.skipped), (one.failed, one.skipped));
                prop_assert!(merged.response == one.response && merged.service == one.service);
            }
            // Sums of squares are rounded, by their order.
            let squares = |all: &Intervals| all.values().map(|one| one.latency_us_squares).sum::<f64>();
            let (of_merged, of_one) = (squares(&merged.intervals), squares(&one.intervals));
            prop_assert!((of_merged - of_one).abs() <= 1e-9 * of_one, "{} {}", of_merged, of_one);
            let exact = |all: Intervals| -> Intervals {
                all.into_iter().map(|(second, one)| (second, Interval { latency_us_squares: 0.0, ..one })).collect()
            };
            prop_assert_eq!(exact(merged.intervals), exact(one.intervals));
        }
    }

    #[test]
    fn without_a_rate_there_is_one_histogram() {
        let latencies = Latencies::new(vec!["a".into()], false);
        assert_eq!(latencies.scripts()[0].service, None);
    }
}
