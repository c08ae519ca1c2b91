mod reader;

use crate::Error;
use pgbench::{BUILTIN_SCRIPTS, PgbenchReport};

pub use reader::Reader;

const FEWEST_INTERVALS: usize = 10;

const MOST_RATE: f64 = 1e12;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    pub transactions: f64,
    /// Seconds with data.
    pub covered_seconds: f64,
    /// Device reads by the workload.
    pub reads: f64,
}

impl Bucket {
    pub fn rate(&self) -> Option<f64> {
        (self.covered_seconds > 0.0).then(|| self.transactions / self.covered_seconds)
    }

    fn sum(buckets: &[Bucket]) -> Bucket {
        buckets.iter().fold(Bucket::default(), |sum, one| Bucket {
            transactions: sum.transactions + one.transactions,
            covered_seconds: sum.covered_seconds + one.covered_seconds,
            reads: sum.reads + one.reads,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub width_seconds: f64,
    /// A bucket with 0 `covered_seconds` is a gap.
    pub buckets: Vec<Bucket>,
    pub has_reads: bool,
    pub facts: Facts,
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Facts {
    pub clients: Option<u32>,
    pub scale: Option<u32>,
    /// Whether the user's own script ran. The number of pages that it reads does not follow from `scale`.
    pub is_own_script: bool,
    /// Whether something besides the workload read the data: the warm-up model then does not apply.
    pub has_warmer: bool,
    /// Whether `pgbench --rate` limited throughput.
    pub is_rate_limited: bool,
}

impl Facts {
    /// Assumes that a script with a scale other than pgbench's default, 1, uses pgbench's tables.
    pub fn of(report: &PgbenchReport) -> Facts {
        let is_builtin = report.script.as_deref().is_none_or(|name| BUILTIN_SCRIPTS.contains(&name));
        Facts {
            clients: report.clients,
            scale: report.scale,
            is_own_script: !is_builtin && report.scale.is_none_or(|scale| scale <= 1),
            has_warmer: false,
            is_rate_limited: report.has_rate,
        }
    }

    /// Pages of pgbench's built-in scripts: heap and primary key of pgbench_accounts (61 rows per 8 kB page, 366
    /// entries per leaf).
    pub fn pages(&self) -> Option<f64> {
        let rows = f64::from(self.scale?) * 100_000.0;
        (!self.is_own_script).then_some(rows / 61.0 + rows / 366.0)
    }
}

impl Series {
    /// Begins an empty series. `width_seconds` (above 0) doubles when there are too many buckets.
    pub fn new(width_seconds: f64) -> Series {
        Series { width_seconds, buckets: Vec::new(), has_reads: false, facts: Facts::default(), remarks: Vec::new() }
    }

    /// # Errors
    /// If the series is too short or has no transactions.
    pub fn check(self) -> Result<Series, Error> {
        if self.transactions() <= 0.0 && self.intervals() > 0 {
            return Err(Error::NoTransactions);
        }
        self.check_length()
    }

    pub fn check_length(self) -> Result<Series, Error> {
        let (intervals, fewest) = (self.intervals(), FEWEST_INTERVALS);
        if intervals < fewest { Err(Error::TooShort { intervals, fewest }) } else { Ok(self) }
    }

    fn intervals(&self) -> usize {
        self.buckets.iter().filter(|bucket| bucket.covered_seconds > 0.0).count()
    }

    pub fn seconds(&self) -> f64 {
        self.width_seconds * self.buckets.len() as f64
    }

    pub fn transactions(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.transactions).sum()
    }

    pub fn transactions_until(&self, seconds: f64) -> f64 {
        let buckets = (seconds / self.width_seconds).ceil().max(0.0) as usize;
        self.buckets.iter().take(buckets).map(|bucket| bucket.transactions).sum()
    }

    /// Merges neighbouring buckets, to at most `most`; drops an incomplete last one.
    pub fn coarsened(&self, most: usize) -> Series {
        let group = self.buckets.len().div_ceil(most.max(1)).max(1);
        Series {
            width_seconds: self.width_seconds * group as f64,
            buckets: self.buckets.chunks_exact(group).map(Bucket::sum).collect(),
            ..self.clone()
        }
    }

    pub fn add(&mut self, start: f64, end: f64, transactions: f64, reads: Option<f64>) {
        self.spread(start, end, transactions, reads, true);
    }

    /// Only the first thread's intervals cover time; those of other threads add transactions.
    fn spread(&mut self, start: f64, end: f64, transactions: f64, reads: Option<f64>, covers: bool) {
        if end <= start || start < 0.0 || !end.is_finite() {
            return;
        }
        self.has_reads |= reads.is_some();
        self.make_room(end);
        let first = (start / self.width_seconds) as usize;
        for place in first..self.buckets.len() {
            let from = (place as f64 * self.width_seconds).max(start);
            let to = ((place + 1) as f64 * self.width_seconds).min(end);
            if to <= from {
                break;
            }
            let share = (to - from) / (end - start);
            let bucket = &mut self.buckets[place];
            bucket.transactions += transactions * share;
            bucket.reads += reads.unwrap_or(0.0) * share;
            bucket.covered_seconds += if covers { to - from } else { 0.0 };
        }
    }

    pub fn mean_rate(&self) -> f64 {
        let Bucket { transactions, covered_seconds, .. } = Bucket::sum(&self.buckets);
        transactions / covered_seconds.max(f64::MIN_POSITIVE)
    }

    pub fn count(&mut self, time: f64) {
        if !(0.0..f64::MAX).contains(&time) {
            return;
        }
        self.make_room(time);
        // The end of the last bucket counts as part of it.
        let place = ((time / self.width_seconds) as usize).min(self.buckets.len() - 1);
        self.buckets[place].transactions += 1.0;
    }

    pub fn cover_until(&mut self, end: f64) {
        self.make_room(end);
        let width = self.width_seconds;
        for (place, bucket) in self.buckets.iter_mut().enumerate() {
            bucket.covered_seconds = (end - place as f64 * width).clamp(0.0, width);
        }
    }

    pub fn finish(mut self, facts: Facts, remarks: Vec<String>) -> Series {
        while self.buckets.last().is_some_and(|last| last.covered_seconds < self.width_seconds / 2.0) {
            self.buckets.pop();
        }
        Series { facts, remarks, ..self }
    }

    fn make_room(&mut self, end: f64) {
        while end / self.width_seconds > MOST_BUCKETS as f64 {
            self.buckets = self.buckets.chunks(2).map(Bucket::sum).collect();
            self.width_seconds *= 2.0;
        }
        // A rounding error must not add a bucket.
        let needed = (end / self.width_seconds - 1e-9).ceil().max(1.0) as usize;
        if needed > self.buckets.len() {
            self.buckets.resize(needed, Bucket::default());
        }
    }
}

/// An hour of one-second buckets.
const MOST_BUCKETS: usize = 4096;

pub fn tell_rate(rate: f64) -> String {
    let digits = if rate < 10.0 { 1 } else { 0 };
    format!("{rate:.digits$}")
}

#[cfg(test)]
mod collector_tests {
    use super::*;

    fn rates(collector: Series) -> Vec<Option<f64>> {
        collector.finish(Facts::default(), Vec::new()).buckets.iter().map(Bucket::rate).collect()
    }

    #[test]
    fn intervals_fall_into_their_buckets() {
        let mut collector = Series::new(1.0);
        collector.add(0.0, 1.0, 10.0, None);
        collector.add(1.0, 3.0, 40.0, None);
        collector.add(4.0, 5.0, 30.0, None);
        assert_eq!(rates(collector), [Some(10.0), Some(20.0), Some(20.0), None, Some(30.0)]);
    }

    #[test]
    fn nothing_is_lost_when_buckets_are_joined() {
        let mut collector = Series::new(1.0);
        for second in 0..100_000 {
            collector.add(f64::from(second), f64::from(second) + 1.0, 3.0, Some(1.0));
        }
        let series = collector.finish(Facts::default(), Vec::new());
        assert!(series.buckets.len() <= MOST_BUCKETS && series.buckets.len() > MOST_BUCKETS / 4);
        assert!((series.transactions() - 300_000.0).abs() < 1e-3);
        assert!(series.buckets.iter().all(|bucket| (bucket.rate().unwrap() - 3.0).abs() < 1e-6));
    }

    #[test]
    fn single_transactions_are_counted_where_they_ended() {
        let mut collector = Series::new(1.0);
        for time in [0.1, 0.2, 2.5, 3.0] {
            collector.count(time);
        }
        collector.cover_until(3.0);
        assert_eq!(rates(collector), [Some(2.0), Some(0.0), Some(2.0)]);
    }

    #[test]
    fn a_leap_in_time_takes_no_memory() {
        let mut collector = Series::new(1e-3);
        collector.add(0.0, 1e-3, 1.0, None);
        collector.add(1e12, 1e12 + 1.0, 1.0, None);
        collector.add(f64::NAN, f64::NAN, 1.0, None);
        assert!(collector.buckets.len() <= MOST_BUCKETS);
    }
}
