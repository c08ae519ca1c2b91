use std::iter::repeat_n;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::warm::{compute_miss_share, find_first_warm, smooth_throughput};
use crate::study::{Disk, Machine, Sample, SweepRun, SweepTrial};
use host::units::Bytes;
use model::{Access, WARM_SHARE, compute_median};

/// If a trial never became warm, its last third determines the steady level.
const TAIL_SHARE: f64 = 1.0 / 3.0;

/// A forecast, written before its trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct WrittenForecast {
    pub written_at: Timestamp,
    /// Throughput of the warm server without a disk limit.
    pub calibration_tps: f64,
    /// As in `predict popularity=`.
    pub popularity: String,
    pub assumptions: Vec<String>,
    /// Page accesses of a transaction, by class of pages.
    pub classes: Vec<Access>,
    /// Seconds until half of the steady throughput. `None` means never.
    pub to_50_seconds: Option<f64>,
    /// Seconds until warm. `None` means never.
    pub warm_after_seconds: Option<f64>,
    pub steady_tps: f64,
}

/// A forecast, and the measurements of its trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct JudgedForecast {
    pub name: String,
    pub scale: u32,
    pub clients: u32,
    pub disk: Disk,
    pub memory: Option<Bytes>,
    pub shared_buffers_bytes: Bytes,
    pub server_version: String,
    pub machine: Machine,
    pub forecast: WrittenForecast,
    pub trial_started_at: Timestamp,
    pub trial_seconds: u32,
    /// Measured seconds until half of `steady_tps`, interpolated between two seconds. `None` if not reached.
    pub to_50_seconds: Option<f64>,
    /// Measured seconds until warm, interpolated by the logarithm of blocks read per transaction; `None` if never.
    pub warm_after_seconds: Option<f64>,
    /// As in `bench warmup`: the end of the last tenth of a second that was not warm.
    pub last_cold_tenth_seconds: Option<f64>,
    pub steady_tps: Option<f64>,
    /// Forecast ÷ measured − 1. `None` if one is missing.
    pub to_50_error: Option<f64>,
    /// Forecast ÷ measured − 1. `None` if one is missing.
    pub warm_after_error: Option<f64>,
    pub warnings: Vec<String>,
    /// For each second: transactions, blocks read by the workload, bytes in the page cache.
    pub seconds: Vec<(u64, u64, u64)>,
}

pub fn judge_forecast(name: String, forecast: WrittenForecast, run: &SweepRun, trial: &SweepTrial) -> JudgedForecast {
    let figures = trial.warming.as_ref().map(|warming| &warming.figures);
    let last_cold_tenth_seconds = figures.and_then(|figures| figures.warm_after_seconds);
    let steady_tps = figures.and_then(|figures| figures.warm_tps).or_else(|| compute_tail_tps(&trial.samples));
    let to_50_seconds = steady_tps.and_then(|steady| compute_crossing(&trial.samples, steady / 2.0));
    let warm_after_seconds =
        last_cold_tenth_seconds.and_then(|_| compute_warm_crossing(&trial.samples, run.server.block_size));
    let second = |sample: &Sample| {
        let read = sample.foreground_read_bytes.0 / u64::from(run.server.block_size).max(1);
        (sample.transactions, read, sample.os_resident_bytes.0)
    };
    // A sample is taken at the end of its second.
    let first = trial.samples.first().and_then(|sample| Timestamp::from_millisecond(sample.wall_ms - 1000).ok());
    JudgedForecast {
        name,
        scale: trial.point.scale,
        clients: trial.point.clients,
        disk: run.warmup.as_ref().map(|found| found.disk.clone()).unwrap_or_default(),
        memory: run.study["memory"].as_u64().map(Bytes),
        shared_buffers_bytes: run.server.shared_buffers_bytes,
        server_version: run.server.version.clone(),
        machine: run.machine.clone(),
        trial_started_at: first.unwrap_or(trial.started_at),
        trial_seconds: trial.point.seconds.unwrap_or_default(),
        to_50_error: compute_error(forecast.to_50_seconds, to_50_seconds),
        warm_after_error: compute_error(forecast.warm_after_seconds, warm_after_seconds),
        to_50_seconds,
        warm_after_seconds,
        last_cold_tenth_seconds,
        steady_tps,
        warnings: trial.warnings.iter().chain(&run.warnings).cloned().collect(),
        seconds: trial.samples.iter().map(second).collect(),
        forecast,
    }
}

impl JudgedForecast {
    /// Judges the stored seconds again: the definition of warm may have changed.
    pub fn judged_again(self) -> JudgedForecast {
        // `seconds` gives reads in blocks, so the block size below is 1.
        let sample = |&(transactions, read, _): &(u64, u64, u64)| Sample {
            transactions,
            foreground_read_bytes: Bytes(read),
            ..Sample::default()
        };
        let samples: Vec<Sample> = self.seconds.iter().map(sample).collect();
        let warm_after_seconds = compute_warm_crossing(&samples, 1);
        let warm_after_error = compute_error(self.forecast.warm_after_seconds, warm_after_seconds);
        JudgedForecast { warm_after_seconds, warm_after_error, ..self }
    }
}

fn compute_error(forecast: Option<f64>, measured: Option<f64>) -> Option<f64> {
    Some(forecast? / measured.filter(|at| *at > 0.0)? - 1.0)
}

fn compute_tail_tps(samples: &[Sample]) -> Option<f64> {
    let tail = (samples.len() as f64 * TAIL_SHARE) as usize;
    compute_median(samples.iter().rev().take(tail).map(|one| one.transactions as f64).collect())
}

/// Seconds until the smoothed throughput reaches `level`, interpolated between the middles of two seconds.
fn compute_crossing(samples: &[Sample], level: f64) -> Option<f64> {
    let smooth = smooth_throughput(samples);
    let index = smooth.iter().position(|&tps| tps >= level)?;
    let above = smooth[index];
    let Some(below) = index.checked_sub(1).map(|before| smooth[before]) else {
        return Some(0.5 * level / above.max(level));
    };
    Some(index as f64 - 0.5 + (level - below) / (above - below))
}

fn compute_warm_crossing(samples: &[Sample], block_size: u32) -> Option<f64> {
    let block_size = Bytes(block_size.into());
    let index = find_first_warm(samples, block_size)?;
    let logarithm = |second: usize| {
        let share = compute_miss_share(&samples[second], block_size).unwrap_or(f64::MAX);
        // Assumes one miss instead of none: 0 has no logarithm.
        share.max(1.0 / samples[second].transactions.max(1) as f64).ln()
    };
    let Some(before) = index.checked_sub(1) else { return Some(0.0) };
    let (cold, warm, limit) = (logarithm(before), logarithm(index), WARM_SHARE.ln());
    Some(index as f64 - 0.5 + ((cold - limit) / (cold - warm)).clamp(0.0, 1.0))
}

/// Accuracy of several forecasts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct SweepVerdict {
    pub points: usize,
    /// Number of compared times.
    pub errors: usize,
    /// Absolute; 0.1 is 10 %.
    pub median_error: Option<f64>,
    /// Absolute; 0.1 is 10 %.
    pub worst_error: Option<f64>,
    /// Share of compared times with at most 15 % error, 0 to 1.
    pub within_15_percent: f64,
    /// Number of events that occurred only in the forecast or only in the trial.
    pub contradictions: usize,
}

pub fn judge_sweep(points: &[JudgedForecast]) -> SweepVerdict {
    let pairs = |point: &JudgedForecast| {
        [
            (point.forecast.to_50_seconds, point.to_50_seconds, point.to_50_error),
            (point.forecast.warm_after_seconds, point.warm_after_seconds, point.warm_after_error),
        ]
    };
    let all: Vec<_> = points.iter().flat_map(pairs).collect();
    let errors: Vec<f64> = all.iter().filter_map(|(_, _, error)| error.map(f64::abs)).collect();
    let contradictions = all.iter().filter(|(forecast, measured, _)| forecast.is_some() != measured.is_some()).count();
    let counted = errors.len() + contradictions;
    let good = errors.iter().filter(|error| **error <= 0.15).count();
    SweepVerdict {
        points: points.len(),
        errors: counted,
        worst_error: errors.iter().copied().reduce(f64::max),
        within_15_percent: if counted > 0 { good as f64 / counted as f64 } else { 0.0 },
        contradictions,
        median_error: compute_median(errors.into_iter().chain(repeat_n(f64::MAX, contradictions)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::sample;

    #[test]
    fn half_is_dated_between_the_middles_of_seconds() {
        let seconds = |counts: &[u64]| (1..).zip(counts).map(|(second, n)| sample(second, *n, 0)).collect::<Vec<_>>();
        assert_eq!(compute_crossing(&seconds(&[10, 10, 20, 60, 100, 100]), 40.0), Some(3.0));
        assert_eq!(compute_crossing(&seconds(&[100, 100, 100]), 50.0), Some(0.25));
        assert_eq!(compute_crossing(&seconds(&[10, 10, 10]), 50.0), None);
        let cold: Vec<Sample> =
            (1..).zip([800, 100, 1, 1, 1]).map(|(second, n)| sample(second, 1000, n * 8192)).collect();
        assert!((compute_warm_crossing(&cold, 8192).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(compute_warm_crossing(&seconds(&[1; 6]), 8192), Some(0.0));
        assert_eq!(compute_tail_tps(&seconds(&[1, 1, 1, 1, 8, 9])), Some(8.5));
    }
}
