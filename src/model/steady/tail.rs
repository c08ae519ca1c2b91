//! The stretch of a curve that has kept the level of the end, and what its noise allows to say of it.

use super::noise::{Movement, Noise, draw_in};
use super::period::{AVERAGED_DIPS, FEWEST_DIPS, find_period};
use super::segment::{find_segments, find_tail_start};
use crate::model::Series;
use crate::model::statistics::{compute_median, compute_rising_means, compute_running_median};

/// Values that are judged, at most: the exact segmentation takes the square of it.
const MOST_VALUES: usize = 400;

/// The level of the end is that of the last so much.
const END_SHARE: f64 = 0.2;

/// A warm-up in this first part of the run does not hide a period behind it.
const EARLY_SHARE: f64 = 0.3;

/// Levels that differ by less, as a share, count as the same, and those that differ by so many standard deviations of
/// their difference.
pub(super) const SAME_LEVEL: f64 = 0.05;
const SAME_ERRORS: f64 = 3.0;

/// Segments that were faster by this before, and by so many standard deviations, of this share of the run, say that it was
/// faster before.
const FASTER_BEFORE: f64 = 0.08;
const FASTER_ERRORS: f64 = 3.0;
const FASTER_SHARE: f64 = 0.05;

/// Below this share of the end's level, the run's beginning shows a warm-up.
const WARMING_SHARE: f64 = 0.75;

/// Values whose mean decides how much of a difference between levels is noise.
const SHORT_LEVEL: usize = 8;

/// The share of the level to which a leap is looked for, and the part of the rise (in logarithms) that is done after half of the
/// transactions when it is none: half at least, but for noise.
const LEAP_SHARE: f64 = 0.5;
const LEAP_PART: f64 = 0.25;

/// What begins above this share rises too little to tell how.
const LEAP_FROM: f64 = 0.35;

/// Values before a leap, for it to be one.
const LEAST_BEFORE_LEAP: usize = 6;

/// Throughput below this share of the level is a stall, however deep.
pub(super) const DEEPEST: f64 = 0.02;

/// A change over a stretch and its standard error, in logarithms: about shares of the level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    pub change: f64,
    pub error: f64,
}

impl Trend {
    /// Is the change above `least`, and not by chance?
    pub fn exceeds(&self, least: f64, errors: f64) -> bool {
        self.change > least && self.change > errors * self.error
    }
}

/// The straight line through the values, and what the noise alone does to it.
pub(super) fn fit_trend(values: &[f64], noise: &Noise) -> Trend {
    let n = values.len() as f64;
    let middle = (n - 1.0) / 2.0;
    let spread: f64 = (0..values.len()).map(|place| (place as f64 - middle).powi(2)).sum();
    if spread <= 0.0 {
        return Trend { change: 0.0, error: f64::INFINITY };
    }
    let weights: Vec<f64> = (0..values.len()).map(|place| n * (place as f64 - middle) / spread).collect();
    let change = weights.iter().zip(values).map(|(weight, value)| weight * value).sum();
    Trend { change, error: noise.error_of(&weights) }
}

/// The stretch that has kept the level of the end.
#[derive(Debug)]
pub(super) struct Tail {
    /// Seconds of a value.
    pub width: f64,
    pub rates: Vec<f64>,
    pub start: usize,
    /// Transactions per second at the end.
    pub level: f64,
    /// Logarithms of the rates as shares of the level, without single dips.
    pub logs: Vec<f64>,
    /// The rising values that come nearest to them.
    pub risen: Vec<f64>,
    /// What the curve's falls say of its noise.
    pub noise: Noise,
    /// Seconds that the trends are of.
    pub trend_seconds: f64,
    /// The tail's trend, and what it is beside the noise that its rises tell of.
    pub trend: Trend,
    pub fall: Trend,
    /// The trend of the tail's second half.
    pub late_trend: Trend,
    /// The period, in values.
    pub period: Option<usize>,
    /// Did it begin clearly slower? And when did it no longer run so, in values.
    pub has_warm_up: bool,
    pub slow_until: usize,
    /// The share of the level that it began with.
    pub first_share: f64,
    /// The trend of all that followed the slow beginning.
    pub rise_since_slow: Trend,
    /// A level before the tail that was faster, as a share of the end's.
    pub faster_before: Option<f64>,
}

impl Tail {
    pub fn find(series: &Series) -> Tail {
        let (width, rates) = read_rates(series);
        let levels = without_period(&rates);
        let end = ((rates.len() as f64 * END_SHARE) as usize).clamp(5.min(rates.len()), rates.len());
        let level = compute_median(levels[rates.len() - end..].to_vec()).unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let logs_of =
            |rates: &[f64]| -> Vec<f64> { rates.iter().map(|rate| (rate / level).max(DEEPEST).ln()).collect() };
        let logs = draw_in(&logs_of(&levels));
        let smooth = compute_running_median(&logs);
        let is_slow = |log: &f64| *log < WARMING_SHARE.ln();
        let slow = smooth.iter().take((rates.len() / 20).max(3)).position(is_slow);
        let slow_until = slow.map(|slow| slow + smooth[slow..].iter().take_while(|log| is_slow(log)).count());
        let half = rates.len() / 2;
        let noise = Noise::measure(&logs[slow_until.unwrap_or(0).min(half)..], Movement::Falls);
        let risen = compute_rising_means(&logs);
        // Its rises are those of noise from where it has risen.
        let has_risen = risen.iter().position(|log| *log > -SAME_LEVEL).unwrap_or(half).min(half);
        let noise_of_rises = Noise::measure(&logs[has_risen..], Movement::Rises);
        let of_noise = |movement| if movement == Movement::Falls { &noise } else { &noise_of_rises };
        let error = |length: usize, movement| of_noise(movement).step_error(length.max(1), end);
        let short = noise.level_error(SHORT_LEVEL).min(noise_of_rises.level_error(SHORT_LEVEL));
        let segments = find_segments(&logs, short * (SHORT_LEVEL as f64).sqrt());
        let mean = |segment: &std::ops::Range<usize>| compute_median(logs[segment.clone()].to_vec()).unwrap_or(0.0);
        let tolerance = |length: usize, is_above: bool| {
            let movement = if is_above { Movement::Rises } else { Movement::Falls };
            SAME_LEVEL.max(SAME_ERRORS * error(length, movement))
        };
        let start = find_tail_start(&segments, mean, tolerance);
        let shares: Vec<f64> = rates[start..].iter().map(|rate| (rate / level).min(1.5)).collect();
        let period = find_period(&shares, FEWEST_DIPS);
        let shortest = rates.len() as f64 * FASTER_SHARE;
        // What belongs to the end itself may stand above its median, when it rises.
        let last = start.min(rates.len() - end);
        let before = segments.iter().filter(|segment| segment.end <= last && segment.len() as f64 >= shortest);
        let faster = before.map(|segment| (mean(segment), error(segment.len(), Movement::Rises)));
        let faster = faster.filter(|(log, error)| *log > FASTER_BEFORE.max(FASTER_ERRORS * error));
        // From where it has risen to its level, as far as enough is left, or the end of the rise would be a trend.
        let has_come = risen.iter().position(|log| *log >= -SAME_LEVEL).unwrap_or(0).min(rates.len() - end);
        let settled = &logs[start.max(has_come)..];
        let from_slow = slow_until.unwrap_or(0).min(start);
        let first = smooth.iter().take((rates.len() / 20).max(3)).copied().fold(0.0, f64::min);
        Tail {
            width,
            trend_seconds: settled.len() as f64 * width,
            trend: fit_trend(settled, &noise),
            fall: fit_trend(settled, &noise_of_rises),
            late_trend: fit_trend(&settled[settled.len() / 2..], &noise),
            period,
            has_warm_up: slow_until.is_some(),
            rise_since_slow: fit_trend(&logs[from_slow..], &noise),
            slow_until: slow_until.unwrap_or(0),
            first_share: first.exp().max(DEEPEST),
            faster_before: faster.map(|(log, _)| log.exp()).reduce(f64::max),
            rates,
            start,
            level,
            logs,
            risen,
            noise,
        }
    }

    /// Transactions before the middle of each value.
    pub fn count_done(&self) -> Vec<f64> {
        let mut done = 0.0;
        let mut add = |rate: &f64| {
            done += rate * self.width;
            done - rate * self.width / 2.0
        };
        self.rates.iter().map(&mut add).collect()
    }

    /// The first value from which on the level is at least this share of the end's, as far as the curve only rises.
    pub fn find_risen(&self, share: f64) -> usize {
        self.risen.iter().position(|log| *log >= share.ln()).unwrap_or(self.risen.len())
    }

    /// Did something else than the workload's own reads bring it to its level? Those let throughput rise little by little:
    /// after half of the transactions that it takes to a share, at least by the root of what it rises by to that share.
    pub fn has_leapt(&self) -> bool {
        let done = self.count_done();
        let half = self.find_risen(LEAP_SHARE);
        let Some(to_half) = half.checked_sub(1).and_then(|last| done.get(last)) else { return false };
        let middle = done.iter().position(|done| *done >= to_half / 2.0).unwrap_or(0);
        let whole = LEAP_SHARE.ln() - self.first_share.ln();
        self.first_share < LEAP_FROM
            && half >= LEAST_BEFORE_LEAP
            && self.risen[middle] - self.first_share.ln() < LEAP_PART * whole
    }

    pub fn len(&self) -> usize {
        self.rates.len() - self.start
    }

    pub fn share(&self) -> f64 {
        self.len() as f64 / self.rates.len() as f64
    }

    pub fn start_seconds(&self) -> f64 {
        self.start as f64 * self.width
    }
}

/// The rates, or where their later part is periodic, their means over a period around each: deep dips that come back are a
/// level too.
fn without_period(rates: &[f64]) -> Vec<f64> {
    let late = &rates[(rates.len() as f64 * EARLY_SHARE) as usize..];
    let level = compute_median(late.to_vec()).unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let shares: Vec<f64> = late.iter().map(|rate| (rate / level).min(1.5)).collect();
    let Some(period) = find_period(&shares, AVERAGED_DIPS) else { return rates.to_vec() };
    let mean = |place: usize| {
        let from = place.saturating_sub(period / 2).min(rates.len().saturating_sub(period));
        let window = &rates[from..(from + period).min(rates.len())];
        window.iter().sum::<f64>() / window.len() as f64
    };
    (0..rates.len()).map(mean).collect()
}

/// Rates in at most [`MOST_VALUES`] values: the median of what falls into one, so that a stall of a second does not show
/// in a run of hours. Gaps keep what was before.
fn read_rates(series: &Series) -> (f64, Vec<f64>) {
    let group = series.buckets.len().div_ceil(MOST_VALUES).max(1);
    let mut rates = Vec::with_capacity(MOST_VALUES);
    for chunk in series.buckets.chunks_exact(group) {
        let known = chunk.iter().filter_map(|bucket| bucket.rate()).collect();
        let rate = compute_median(known).or(rates.last().copied());
        rates.push(rate.unwrap_or(0.0));
    }
    (series.width_seconds * group as f64, rates)
}
