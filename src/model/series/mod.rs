//! A measured throughput curve: transactions in equal stretches of time, from whatever pgbench or a person wrote.

mod collector;
mod csv;
mod reader;
mod time;

pub use collector::Collector;
pub use reader::Reader;

use super::Error;
use crate::pgbench::{BUILTIN_SCRIPTS, PgbenchReport};

/// Fewer intervals say nothing about a trend.
const FEWEST_INTERVALS: usize = 10;

/// No server does so many transactions in a second, or in an interval.
const MOST_RATE: f64 = 1e12;

/// What happened in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    pub transactions: f64,
    /// Seconds of the stretch for which there are figures; 0 where there are none.
    pub covered_seconds: f64,
    /// Reads from the device by the workload.
    pub reads: f64,
}

impl Bucket {
    /// Transactions per second; `None` where there are no figures.
    pub fn rate(&self) -> Option<f64> {
        (self.covered_seconds > 0.0).then(|| self.transactions / self.covered_seconds)
    }
}

/// A throughput curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Seconds that each bucket stands for.
    pub width_seconds: f64,
    /// The curve's buckets without gaps, from the start of the workload on.
    pub buckets: Vec<Bucket>,
    /// Are `reads` measured?
    pub has_reads: bool,
    pub facts: Facts,
    /// What the reader should know, for people.
    pub remarks: Vec<String>,
}

/// What the source tells beside the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Facts {
    pub clients: Option<u32>,
    /// pgbench's scaling factor.
    pub scale: Option<u32>,
    /// Was it a script other than pgbench's own? Then the scale says nothing about its pages.
    pub is_own_script: bool,
    /// Did something read the data beside the workload? Then the closed form, which knows the workload's own reads alone,
    /// does not apply.
    pub has_warmer: bool,
    /// Did the clients hold back (`pgbench --rate`)? Then throughput does not say what the server could do.
    pub is_rate_limited: bool,
}

impl Facts {
    /// What pgbench's report says of it. pgbench tells a scale of 1 for scripts that were given none; a larger one was told by
    /// whoever ran the script, for it chooses from as many rows.
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

    /// Pages that pgbench's built-in scripts choose from, by scale: the heap and the primary key of pgbench_accounts at
    /// its default fill factor (61 rows of a page of 8 kB, 366 entries of a leaf).
    pub fn pages(&self) -> Option<f64> {
        let rows = f64::from(self.scale?) * 100_000.0;
        (!self.is_own_script).then_some(rows / 61.0 + rows / 366.0)
    }
}

impl Series {
    /// The series, if it says anything at all of what a server serves.
    pub fn check(self) -> Result<Series, Error> {
        if self.transactions() <= 0.0 && self.intervals() > 0 {
            return Err(Error::NoTransactions);
        }
        self.check_length()
    }

    /// The series, if it is long enough to be judged. That nothing was served is an answer too.
    pub fn check_length(self) -> Result<Series, Error> {
        match self.intervals() {
            intervals if intervals < FEWEST_INTERVALS => Err(Error::TooShort { intervals, fewest: FEWEST_INTERVALS }),
            _ => Ok(self),
        }
    }

    /// Buckets with figures.
    fn intervals(&self) -> usize {
        self.buckets.iter().filter(|bucket| bucket.covered_seconds > 0.0).count()
    }

    /// How long it is.
    pub fn seconds(&self) -> f64 {
        self.width_seconds * self.buckets.len() as f64
    }

    /// Transactions in all.
    pub fn transactions(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.transactions).sum()
    }

    /// Transactions in the buckets that begin before `seconds`.
    pub fn transactions_until(&self, seconds: f64) -> f64 {
        let buckets = (seconds / self.width_seconds).ceil().max(0.0) as usize;
        self.buckets.iter().take(buckets).map(|bucket| bucket.transactions).sum()
    }

    /// Seconds for which there are figures.
    pub fn covered_seconds(&self) -> f64 {
        self.buckets.iter().map(|bucket| bucket.covered_seconds).sum()
    }

    /// This curve in at most `most` buckets; what is left of an uneven division at the end is dropped.
    pub fn coarsened(&self, most: usize) -> Series {
        let group = self.buckets.len().div_ceil(most.max(1)).max(1);
        let sum = |buckets: &[Bucket]| {
            buckets.iter().fold(Bucket::default(), |sum, one| Bucket {
                transactions: sum.transactions + one.transactions,
                covered_seconds: sum.covered_seconds + one.covered_seconds,
                reads: sum.reads + one.reads,
            })
        };
        Series {
            width_seconds: self.width_seconds * group as f64,
            buckets: self.buckets.chunks_exact(group).map(sum).collect(),
            ..self.clone()
        }
    }
}
