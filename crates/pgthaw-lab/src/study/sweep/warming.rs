//! How a trial that began cold got warm.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use serde::{Deserialize, Serialize};

use super::brought::{Brought, LoadSample};
use crate::study::record::RelationResidency;
use host::units::Bytes;
use model::Judgement;

/// The way of a cold server to its full speed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Warming {
    #[serde(flatten)]
    pub figures: WarmingFigures,
    /// Read from the device by the workload's own backends in each tenth of a second from the start on: by these
    /// `warm_after_seconds` is dated within its second.
    pub foreground_tenths: Vec<Bytes>,
    /// Where the largest relations were resident, before and after.
    pub residency: Vec<RelationResidency>,
    /// Of a trial that ended when what is wanted was resident: what was seen of it meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<LoadSample>,
}

/// What is told of it beside other trials: enough to compute what depends on them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WarmingFigures {
    /// Seconds that were measured, or waited for at most: what a time that was not reached is longer than.
    pub measured_seconds: u32,
    /// Seconds until fewer than 1 % of transactions read from the device, sustained to the end, to a tenth; `None`: not
    /// within the trial.
    pub warm_after_seconds: Option<f64>,
    /// Transactions served until it was warm; over the whole trial when it never was.
    pub served_until_warm: u64,
    /// Transactions served in the whole trial.
    pub served: u64,
    /// Transactions per second once it was warm: the median of its warm seconds. `None` when it never was.
    pub warm_tps: Option<f64>,
    /// Each second in which the throughput reached a level that it had not had before.
    pub climb: Vec<Climb>,
    /// What the page cache held of the database when it was warm. `None` where nobody looked: no snapshot was needed.
    pub wanted_bytes: Option<Bytes>,
    /// `wanted_bytes ÷ bandwidth`, or the best merging's seconds where reads are limited too: no warmer can be faster. `None` where
    /// one of them is not known.
    pub bound_seconds: Option<f64>,
    /// What the model says of the curve; `None` when it cannot be judged, for the reason in `no_verdict`.
    pub judgement: Option<Judgement>,
    pub no_verdict: Option<String>,
    /// What came back, of a trial without a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought: Option<Brought>,
    /// How long its job took, of a trial that ended with its transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// So many transactions that somebody waits for, from a cold start on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Job {
    /// That it has.
    pub transactions: u64,
    /// Seconds that the warmer took; `None` where there was none, or it had not ended before the load.
    pub warmer_seconds: Option<f64>,
    /// Seconds from the beginning of the load to its end.
    pub load_seconds: f64,
    /// Seconds from the start to the end of the load, those of a warmer before it included.
    pub whole_seconds: f64,
}

/// Fewer transactions than this draw no curve.
const CURVE_TRANSACTIONS: u64 = 1000;

impl Job {
    /// Does it have too few transactions to say how a throughput rose?
    pub fn is_without_curve(&self) -> bool {
        self.transactions < CURVE_TRANSACTIONS
    }
}

/// A new high of the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Climb {
    /// The end of the last second before, since the start of the workload.
    pub seconds: f64,
    /// The lesser of the second's transactions and of their running median over three seconds.
    pub tps: f64,
}

impl WarmingFigures {
    /// Seconds until the throughput, and its running median over three seconds with it, first reached so many transactions
    /// per second. `None` when it never did.
    pub fn seconds_to(&self, tps: f64) -> Option<f64> {
        self.climb.iter().find(|step| step.tps >= tps).map(|step| step.seconds)
    }
}
