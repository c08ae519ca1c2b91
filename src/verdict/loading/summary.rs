//! What the trials of a run say about each loader, and the ratios between them. Pure.

use serde::Serialize;

use crate::study::{Loader, LoadingRun, LoadingTrial, PGTHAW};
use crate::verdict::comparison::BOUND;
use crate::verdict::spread::Spread;
use crate::verdict::statistics::{Limits, Ratio, compute_ratio};

/// All loaders of a run, in the order asked for, and pgthaw's ratios to the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadingSummary {
    pub loaders: Vec<LoaderSummary>,
    pub ratios: Vec<LoaderRatio>,
}

/// One loader over the rounds. A round in which it did not get there counts as longer than all others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoaderSummary {
    pub loader: String,
    pub rounds: u32,
    /// Until what was wanted was resident; `None` of one that leaves nothing in the page cache.
    pub resident_after_seconds: Option<Spread>,
    /// Until shared_buffers were back; `None` of one that leaves them alone.
    pub buffers_after_seconds: Option<Spread>,
    /// Wanted bytes a second until they were resident; of fio's direct reads what fio says.
    pub bytes_per_second: Spread,
    /// Processor time per 10⁹ bytes that were wanted, of its own processes.
    pub cpu_seconds_per_gb: Option<Spread>,
    pub device_read_bytes: Option<Spread>,
    pub device_reads: Option<Spread>,
    pub caveats: Vec<String>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioOf {
    /// Seconds until resident.
    Seconds,
    /// Seconds until shared_buffers were back, to the seconds until the page cache alone was.
    BuffersSeconds,
    BytesPerSecond,
}

/// `dividend ÷ divisor`, of the trials of the same round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoaderRatio {
    pub dividend: String,
    /// A loader, or `bound`.
    pub divisor: String,
    pub of: RatioOf,
    #[serde(flatten)]
    pub ratio: Ratio,
}

/// Summarises the trials of a run.
pub fn compute_loading_summary(run: &LoadingRun, trials: &[LoadingTrial]) -> LoadingSummary {
    let summary = Summarised { run, trials };
    let names = run.study.loaders.iter().filter(|name| trials.iter().any(|trial| trial.loader == **name));
    let loaders: Vec<LoaderSummary> = names.clone().map(|name| summary.loader(name)).collect();
    let mut ratios: Vec<LoaderRatio> = summary.to_bound().into_iter().collect();
    ratios.extend(names.filter(|name| *name != PGTHAW).filter_map(|name| summary.ratio_to(name)));
    LoadingSummary { loaders, ratios }
}

struct Summarised<'a> {
    run: &'a LoadingRun,
    trials: &'a [LoadingTrial],
}

impl Summarised<'_> {
    fn of<'a>(&'a self, loader: &'a str) -> impl Iterator<Item = &'a LoadingTrial> {
        self.trials.iter().filter(move |trial| trial.loader == loader)
    }

    fn loader(&self, name: &str) -> LoaderSummary {
        let trials: Vec<&LoadingTrial> = self.of(name).collect();
        let spread = |value: &dyn Fn(&LoadingTrial) -> Option<f64>| Spread::of(trials.iter().map(|trial| value(trial)));
        let known =
            |value: &dyn Fn(&LoadingTrial) -> Option<f64>| Some(spread(value)).filter(|spread| spread.reached > 0);
        let loader: Option<Loader> = name.parse().ok();
        let fills_cache = loader.is_none_or(Loader::fills_cache);
        let fills_buffers = loader.is_some_and(Loader::fills_buffers);
        let gigabytes = self.run.study.wanted_bytes.0 as f64 / 1e9;
        LoaderSummary {
            loader: name.to_owned(),
            rounds: trials.len() as u32,
            resident_after_seconds: fills_cache.then(|| spread(&|trial| trial.outcome.resident_after_seconds)),
            buffers_after_seconds: fills_buffers.then(|| spread(&|trial| trial.outcome.buffers_after_seconds)),
            bytes_per_second: spread(&|trial| self.rate(trial)),
            cpu_seconds_per_gb: known(&|trial| trial.outcome.cpu_seconds.map(|seconds| seconds / gigabytes)),
            device_read_bytes: known(&|trial| trial.outcome.device_read_bytes.map(|bytes| bytes.0 as f64)),
            device_reads: known(&|trial| trial.outcome.device_reads.map(|reads| reads as f64)),
            caveats: self.caveats(&trials),
        }
    }

    /// Bytes a second.
    fn rate(&self, trial: &LoadingTrial) -> Option<f64> {
        let LoadingTrial { outcome, .. } = trial;
        if trial.loader == Loader::FioDirect.name() {
            return Some(outcome.own_bytes?.0 as f64 / outcome.own_seconds?);
        }
        let study = &self.run.study;
        Some(study.resident_share * study.wanted_bytes.0 as f64 / outcome.resident_after_seconds?)
    }

    fn to_bound(&self) -> Option<LoaderRatio> {
        let bound = Limits::exactly(self.run.study.bound?.seconds);
        let pairs: Vec<_> = self.of(PGTHAW).map(|trial| (self.seconds(trial), bound)).collect();
        let ratio = compute_ratio(&pairs)?;
        Some(LoaderRatio { dividend: PGTHAW.into(), divisor: BOUND.into(), of: RatioOf::Seconds, ratio })
    }

    fn ratio_to(&self, name: &str) -> Option<LoaderRatio> {
        let loader: Loader = name.parse().ok()?;
        let of = match loader {
            _ if loader.is_fio() => RatioOf::BytesPerSecond,
            _ if loader.fills_buffers() => RatioOf::BuffersSeconds,
            _ => RatioOf::Seconds,
        };
        let pair = |own: &LoadingTrial| {
            let other = self.of(name).find(|other| other.round == own.round)?;
            match of {
                RatioOf::Seconds => Some((self.seconds(own), self.seconds(other))),
                // Of the two it is the other one that loads more.
                RatioOf::BuffersSeconds => Some((self.limits(other.outcome.buffers_after_seconds), self.seconds(own))),
                RatioOf::BytesPerSecond => Some((Limits::exactly(self.rate(own)?), Limits::exactly(self.rate(other)?))),
            }
        };
        let pairs: Vec<_> = self.of(PGTHAW).filter_map(pair).collect();
        let ratio = compute_ratio(&pairs)?;
        let (dividend, divisor) = match of {
            RatioOf::BuffersSeconds => (name, PGTHAW),
            RatioOf::Seconds | RatioOf::BytesPerSecond => (PGTHAW, name),
        };
        Some(LoaderRatio { dividend: dividend.to_owned(), divisor: divisor.to_owned(), of, ratio })
    }

    fn seconds(&self, trial: &LoadingTrial) -> Limits {
        self.limits(trial.outcome.resident_after_seconds)
    }

    fn limits(&self, seconds: Option<f64>) -> Limits {
        Limits::reached(seconds, self.run.study.patience_seconds.into())
    }

    /// What speaks against the figures, each thing said once.
    fn caveats(&self, trials: &[&LoadingTrial]) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        let wanted = self.run.study.wanted_bytes;
        for trial in trials {
            let outcome = &trial.outcome;
            let fills = trial.loader.parse::<Loader>().is_ok_and(Loader::fills_cache);
            let missed = (fills && outcome.resident_after_seconds.is_none())
                .then(|| format!("round {}: only {} of {wanted} became resident", trial.round, outcome.resident_bytes));
            let start = (trial.start_state.verdict != "cold")
                .then(|| format!("round {}: started {}", trial.round, trial.start_state.verdict));
            let failure = outcome.failure.as_ref().map(|failure| format!("failed: {failure}"));
            for text in failure.into_iter().chain(missed).chain(start).chain(trial.warnings.iter().cloned()) {
                if !said.contains(&text) {
                    said.push(text);
                }
            }
        }
        said
    }
}
