use std::ops::Range;

use super::Series;
use crate::compute_median;

/// Maximum number of values; segmentation takes quadratic time.
const MOST_VALUES: usize = 400;

/// Share of the curve, at its end, that defines the final level.
const END_SHARE: f64 = 0.2;

/// Share of the curve (its warm-up) that the search for a period ignores.
const EARLY_SHARE: f64 = 0.3;

/// Levels are equal within this share or this many standard deviations.
pub(super) const SAME_LEVEL: f64 = 0.05;
const SAME_ERRORS: f64 = 3.0;

/// A run was faster before if an earlier segment, at least `FASTER_SHARE` of the run long, exceeded the final level by
/// more than `FASTER_BEFORE`.
const FASTER_BEFORE: f64 = 0.08;
const FASTER_SHARE: f64 = 0.05;

/// A start below this share of the final level is a warm-up.
const WARMING_SHARE: f64 = 0.75;

/// Neighbours on each side with which single values are smoothed.
pub(super) const SMOOTHED: usize = 2;

/// Number of values whose mean distinguishes a level from noise.
const SHORT_LEVEL: usize = 8;

/// The rise to `LEAP_SHARE` of the level is a leap if less than `LEAP_PART` of it (in logarithms) happened in the first
/// half of its transactions. The workload's own reads would cause half or more, apart from noise.
const LEAP_SHARE: f64 = 0.5;
const LEAP_PART: f64 = 0.25;

/// A curve that starts at a larger share of its level rises too little to judge.
const LEAP_FROM: f64 = 0.35;

/// Share of the values that `find_span` ignores at each end.
const FEW: f64 = 0.05;

const LEAST_BEFORE_LEAP: usize = 6;

/// Throughput below this share of the level counts as this share.
pub(super) const DEEPEST: f64 = 0.02;

/// Change and its standard error, in logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trend {
    pub change: f64,
    pub error: f64,
}

impl Trend {
    pub fn exceeds(&self, least: f64, errors: f64) -> bool {
        self.change > least && self.change > errors * self.error
    }
}

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

#[derive(Debug)]
pub(super) struct Tail {
    pub width: f64,
    pub rates: Vec<f64>,
    pub start: usize,
    pub level: f64,
    /// Logarithms relative to `level`, with single dips smoothed.
    pub logs: Vec<f64>,
    /// Isotonic regression of `logs`.
    pub risen: Vec<f64>,
    pub noise: Noise,
    pub trend_seconds: f64,
    /// Trends of the tail. The curve's rises give the standard error of `fall`, its falls those of the others.
    pub trend: Trend,
    pub fall: Trend,
    pub late_trend: Trend,
    pub period: Option<usize>,
    pub has_warm_up: bool,
    pub slow_until: usize,
    pub first_share: f64,
    pub rise_since_slow: Trend,
    /// Mean of the fastest earlier segment, as a share of the final level.
    pub faster_before: Option<f64>,
    /// Range of `logs` without outliers.
    pub span: [f64; 2],
}

impl Tail {
    pub fn find(series: &Series) -> Tail {
        let (width, rates) = read_rates(series);
        let levels = without_period(&rates);
        let end = ((rates.len() as f64 * END_SHARE) as usize).clamp(5.min(rates.len()), rates.len());
        let level = compute_median(levels[rates.len() - end..].to_vec()).unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let logs: Vec<f64> = levels.iter().map(|rate| (rate / level).max(DEEPEST).ln()).collect();
        let logs = draw_in(&logs);
        let smooth = compute_running_median(&logs, SMOOTHED);
        let is_slow = |log: &f64| *log < WARMING_SHARE.ln();
        let slow = smooth.iter().take((rates.len() / 20).max(3)).position(is_slow);
        let slow_until = slow.map(|slow| slow + smooth[slow..].iter().take_while(|log| is_slow(log)).count());
        let half = rates.len() / 2;
        // pgbench draws random arrivals, so counts scatter by their square root.
        let least = if series.facts.is_rate_limited { (1.0 / (level * width)).min(1.0) } else { 0.0 };
        let noise = Noise::measure(&logs[slow_until.unwrap_or(0).min(half)..], FALLS, least);
        let risen = compute_rising_means(&logs);
        // Once the curve has risen, further rises are noise.
        let has_risen = risen.iter().position(|log| *log > -SAME_LEVEL).unwrap_or(half).min(half);
        let noise_of_rises = Noise::measure(&logs[has_risen..], RISES, least);
        let error = |length: usize, is_above: bool| {
            let of = if is_above { &noise_of_rises } else { &noise };
            of.error_of(&contrast(length.max(1), end))
        };
        let short = noise.level_error(SHORT_LEVEL).min(noise_of_rises.level_error(SHORT_LEVEL));
        let segments = find_segments(&logs, short * (SHORT_LEVEL as f64).sqrt());
        let mean = |segment: &Range<usize>| compute_median(logs[segment.clone()].to_vec()).unwrap_or(0.0);
        let tolerance = |length: usize, is_above: bool| SAME_LEVEL.max(SAME_ERRORS * error(length, is_above));
        let start = find_tail_start(&segments, mean, tolerance);
        let shares: Vec<f64> = rates[start..].iter().map(|rate| (rate / level).min(1.5)).collect();
        let period = find_period(&shares, FEWEST_DIPS);
        let shortest = rates.len() as f64 * FASTER_SHARE;
        // Excludes segments within the curve's end: some exceed the end's median.
        let is_before = |segment: &&Range<usize>| segment.end <= start && segment.start < rates.len() - end;
        let before = segments.iter().filter(is_before).filter(|segment| segment.len() as f64 >= shortest);
        let faster = before.map(|segment| (mean(segment), error(segment.len(), true)));
        let faster = faster.filter(|(log, error)| *log > FASTER_BEFORE.max(SAME_ERRORS * error));
        // Omits the rise, which would count as a trend.
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
            span: find_span(&logs[start..]),
            rates,
            start,
            level,
            logs,
            risen,
            noise,
        }
    }

    pub fn count_done(&self) -> Vec<f64> {
        let mut done = 0.0;
        let mut add = |rate: &f64| {
            done += rate * self.width;
            done - rate * self.width / 2.0
        };
        self.rates.iter().map(&mut add).collect()
    }

    pub fn find_risen(&self, share: f64) -> usize {
        self.risen.iter().position(|log| *log >= share.ln()).unwrap_or(self.risen.len())
    }

    /// Whether something besides the workload warmed the cache (see `LEAP_SHARE`).
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

fn find_span(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let few = (sorted.len() as f64 * FEW) as usize;
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0.0);
    [at(few).min(0.0), at((sorted.len() - few).saturating_sub(1)).max(0.0)]
}

/// Averages over the period, because recurring dips belong to the level.
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

/// Width of a value in seconds, and the values: median rates of groups of buckets, so that a one-second stall in hours
/// does not count. A gap repeats the last rate.
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

// A warm-up only rises, so falls measure the symmetric noise; to judge a fall, rises measure it.

/// Correlation times in values.
const TIMES: [f64; 6] = [0.0, 2.0, 6.0, 18.0, 54.0, 162.0];

/// Sign of the changes of throughput that are certainly noise.
const FALLS: f64 = -1.0;
const RISES: f64 = 1.0;

/// Rounds of the fit; half as many come within 1 % of its result.
const ROUNDS: usize = 60;

/// Outliers are moved to this distance from their neighbours, in standard deviations.
const DRAWN_IN: f64 = 3.5;

/// Minimum noise: counts of transactions are never smoother.
const LEAST_SIGMA: f64 = 2e-3;

/// A sum of first-order processes with fixed correlation times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    variances: [f64; TIMES.len()],
}

impl Noise {
    /// Estimates the noise by maximum likelihood, from differences of neighbouring means over 1, 2, 4, ... values with
    /// the sign `certain` (`FALLS` or `RISES`). `least`: minimum variance of independent noise.
    pub fn measure(values: &[f64], certain: f64, least: f64) -> Noise {
        let sums = prefix_sums(values, |value| value);
        let mut seen = Vec::new();
        let mut length = 1;
        while 3 * length <= values.len() {
            let at = |from: usize| (sums[from + 2 * length] - 2.0 * sums[from + length] + sums[from]) / length as f64;
            let differences: Vec<f64> = (0..=values.len() - 2 * length).map(at).collect();
            let squares = differences.iter().map(|difference| (difference * certain).max(0.0).powi(2)).sum::<f64>();
            let parts: [f64; TIMES.len()] = std::array::from_fn(|place| {
                let mut part = Noise { variances: [0.0; TIMES.len()] };
                part.variances[place] = 1.0;
                part.error_of(&contrast(length, length)).powi(2)
            });
            let weight = values.len() as f64 / (2 * length) as f64;
            seen.push((2.0 * squares / differences.len() as f64, weight, parts));
            length *= 2;
        }
        let begin = seen.first().map_or(0.0, |(square, ..)| square / 2.0).max(LEAST_SIGMA.powi(2));
        let mut variances = [begin / TIMES.len() as f64; TIMES.len()];
        for _ in 0..ROUNDS {
            // Multiplicative steps, for gamma-distributed squares.
            let sum = |parts: &[f64]| variances.iter().zip(parts).map(|(variance, part)| variance * part).sum::<f64>();
            let expected: Vec<f64> = seen.iter().map(|(.., parts)| sum(parts).max(f64::MIN_POSITIVE)).collect();
            for (place, variance) in variances.iter_mut().enumerate() {
                let of = |power: i32, with_square: bool| -> f64 {
                    let terms = seen.iter().zip(&expected).map(|((square, weight, parts), expected)| {
                        weight * parts[place] * if with_square { *square } else { 1.0 } / expected.powi(power)
                    });
                    terms.sum()
                };
                let (up, down) = (of(2, true), of(1, false));
                if down > 0.0 {
                    *variance *= (up / down).sqrt();
                }
            }
        }
        variances[0] = variances[0].max(LEAST_SIGMA.powi(2)).max(least);
        Noise { variances }
    }

    pub fn error_of(&self, weights: &[f64]) -> f64 {
        let of_part = |time: f64| {
            let kept = if time > 0.0 { (-1.0 / time).exp() } else { 0.0 };
            let mut before = 0.0;
            let mut square = 0.0;
            for weight in weights {
                square += weight * (weight + 2.0 * kept * before);
                before = kept * before + weight;
            }
            square
        };
        let squares = TIMES.iter().zip(&self.variances).filter(|(_, variance)| **variance > 0.0);
        squares.map(|(time, variance)| variance * of_part(*time)).sum::<f64>().max(0.0).sqrt()
    }

    pub fn level_error(&self, values: usize) -> f64 {
        self.error_of(&vec![1.0 / values as f64; values])
    }
}

/// Weights of the later mean minus the earlier mean.
fn contrast(before: usize, after: usize) -> Vec<f64> {
    let mut weights = vec![-1.0 / before as f64; before];
    weights.resize(before + after, 1.0 / after as f64);
    weights
}

pub fn draw_in(values: &[f64]) -> Vec<f64> {
    let middles = compute_running_median(values, 4);
    let away: Vec<f64> = values.iter().zip(&middles).map(|(value, middle)| value - middle).collect();
    let reach = DRAWN_IN * compute_robust_sigma(&away).max(LEAST_SIGMA);
    middles.iter().zip(&away).map(|(middle, away)| middle + away.clamp(-reach, reach)).collect()
}

const FEWEST_PERIODS: usize = 3;

/// Minimum number of dips from which a period is inferred. The two intervals between three dips may be equal by chance.
pub(super) const FEWEST_DIPS: usize = 4;
pub(super) const AVERAGED_DIPS: usize = 3;

const SHORTEST: usize = 3;

const LEAST_AUTOCORRELATION: f64 = 0.3;
const LEAST_PROMINENCE: f64 = 0.25;

/// Minimum autocorrelation in standard errors (1 ÷ √n): excludes chance over many lags.
const ERRORS: f64 = 3.0;

/// Minimum share of the variance explained by the period, and minimum range of throughput.
const LEAST_EXPLAINED: f64 = 0.3;
const LEAST_SPAN: f64 = 0.08;

/// Length of a period, as a number of values. `values` are throughputs without trend, divided by a typical throughput.
pub fn find_period(values: &[f64], fewest_dips: usize) -> Option<usize> {
    let longest = values.len() / FEWEST_PERIODS;
    let least_correlation = LEAST_AUTOCORRELATION.max(ERRORS / (values.len() as f64).sqrt());
    let correlations: Vec<f64> = (0..=longest + 1).map(|lag| compute_autocorrelation(values, lag)).collect();
    let mut least = f64::INFINITY;
    let mut best: Option<(usize, f64)> = None;
    for lag in 1..=longest {
        let correlation = correlations[lag];
        least = least.min(correlation);
        let is_top = correlation >= correlations[lag - 1] && correlation >= correlations[lag + 1];
        let stands_out = correlation >= least_correlation && correlation - least >= LEAST_PROMINENCE;
        // A multiple of the period correlates better only by chance.
        let is_better = best.is_none_or(|(_, so_far)| correlation > so_far * 1.15);
        if lag >= SHORTEST && is_top && stands_out && is_better {
            best = Some((lag, correlation));
        }
    }
    let (period, _) = best?;
    let course = fold(values, period);
    let deepest = (0..period).min_by(|one, other| course[*one].total_cmp(&course[*other]))?;
    let dips = (values.len() - deepest).div_ceil(period);
    (dips >= fewest_dips && is_explained(values, &course)).then_some(period)
}

fn fold(values: &[f64], period: usize) -> Vec<f64> {
    // A median ignores a single pause.
    let usual = |phase| compute_median(values.iter().skip(phase).step_by(period).copied().collect()).unwrap_or(0.0);
    (0..period).map(usual).collect()
}

fn is_explained(values: &[f64], course: &[f64]) -> bool {
    let period = course.len();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let left: f64 = values.iter().enumerate().map(|(place, value)| (value - course[place % period]).powi(2)).sum();
    let (n, p) = (values.len() as f64, period as f64);
    // Adjusted R²: the periodic curve has one parameter for each value of the period.
    let explained = 1.0 - (left / (n - p).max(1.0)) / (total / (n - 1.0).max(1.0));
    let span =
        course.iter().copied().fold(f64::NEG_INFINITY, f64::max) - course.iter().copied().fold(f64::INFINITY, f64::min);
    explained >= LEAST_EXPLAINED && span >= LEAST_SPAN
}

/// Penalty of each segment, in `sigma`² × ln n (n values; `sigma` includes autocorrelation).
const PENALTY: f64 = 6.0;

/// A dip that recovers, and that has at most this share of the curve's values, does not end a level.
const DIP_SHARE: f64 = 0.1;

/// Exact least-squares segmentation with a penalty, in O(n²).
pub fn find_segments(values: &[f64], sigma: f64) -> Vec<Range<usize>> {
    let n = values.len();
    let sums = prefix_sums(values, |value| value);
    let squares = prefix_sums(values, |value| value * value);
    let variance = sigma.max(1e-3).powi(2);
    let cost = |from: usize, to: usize| {
        let sum = sums[to] - sums[from];
        (squares[to] - squares[from] - sum * sum / (to - from) as f64) / variance
    };
    let penalty = PENALTY * (n.max(2) as f64).ln();
    let mut best = vec![0.0; n + 1];
    let mut cut = vec![0; n + 1];
    for to in 1..=n {
        let costs = (0..to).map(|from| (best[from] + cost(from, to) + penalty, from));
        (best[to], cut[to]) = costs.min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, 0));
    }
    let mut segments = Vec::new();
    let mut end = n;
    while end > 0 {
        segments.push(cut[end]..end);
        end = cut[end];
    }
    segments.reverse();
    segments
}

fn prefix_sums(values: &[f64], of: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(0.0);
    for value in values {
        sums.push(sums[sums.len() - 1] + of(*value));
    }
    sums
}

/// `mean`: logarithm of a segment's throughput ÷ the level. `tolerance`: its permitted distance from 0, by the
/// segment's length and whether it is above 0.
pub fn find_tail_start(
    segments: &[Range<usize>],
    mean: impl Fn(&Range<usize>) -> f64,
    tolerance: impl Fn(usize, bool) -> f64,
) -> usize {
    let length = segments.last().map_or(0, |last| last.end);
    let is_same = |segment: &Range<usize>| mean(segment).abs() <= tolerance(segment.len(), mean(segment) > 0.0);
    let most_dip = (length as f64 * DIP_SHARE) as usize;
    let mut start = length;
    let mut skipped = 0;
    for segment in segments.iter().rev() {
        if is_same(segment) {
            start = segment.start;
            skipped = 0;
        } else {
            skipped += segment.len();
            if mean(segment) > 0.0 || skipped > most_dip {
                break;
            }
        }
    }
    start
}

const MAD_TO_SIGMA: f64 = 1.4826;

pub fn compute_robust_sigma(values: &[f64]) -> f64 {
    let Some(median) = compute_median(values.to_vec()) else { return 0.0 };
    let deviations = values.iter().map(|value| (value - median).abs()).collect();
    MAD_TO_SIGMA * compute_median(deviations).unwrap_or(0.0)
}

/// Autocorrelation, -1 to 1; 0 if constant.
pub fn compute_autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let shifted = values.iter().zip(values.iter().skip(lag));
    let covariance: f64 = shifted.map(|(one, other)| (one - mean) * (other - mean)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

/// Factor by which autocorrelation increases a standard error, for a first-order autoregressive process.
pub fn compute_error_inflation(residuals: &[f64]) -> f64 {
    // Small samples underestimate ρ by about (1 + 3ρ) ÷ n (Kendall 1954).
    let estimate = compute_autocorrelation(residuals, 1);
    let unbiased = estimate + (1.0 + 3.0 * estimate) / residuals.len().max(1) as f64;
    let rho = unbiased.clamp(0.0, 0.97);
    ((1.0 + rho) / (1.0 - rho)).sqrt()
}

/// Medians of each value with `reach` values on both sides.
pub fn compute_running_median(values: &[f64], reach: usize) -> Vec<f64> {
    let window = |place: usize| &values[place.saturating_sub(reach)..(place + reach + 1).min(values.len())];
    (0..values.len()).filter_map(|place| compute_median(window(place).to_vec())).collect()
}

/// Isotonic regression: the nearest rising values.
pub fn compute_rising_means(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        let mut pool = (*value, 1);
        while let Some((mean, count)) = pools.pop_if(|(mean, _)| *mean >= pool.0) {
            let both = count + pool.1;
            pool = ((mean * count as f64 + pool.0 * pool.1 as f64) / both as f64, both);
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean, count)).collect()
}

#[cfg(test)]
mod noise_tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    fn noise(count: usize, rho: f64, seed: u64) -> Vec<f64> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut value = 0.0;
        let mut next = || {
            let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            value = rho * value + (1.0 - rho * rho).sqrt() * 0.1 * normal;
            value
        };
        (0..200).for_each(|_| assert!(next().is_finite()));
        (0..count).map(|_| next()).collect()
    }

    fn estimate(rho: f64, slope: f64) -> f64 {
        let of = |seed: u64| {
            let values: Vec<f64> =
                noise(400, rho, seed).iter().enumerate().map(|(place, value)| value + slope * place as f64).collect();
            Noise::measure(&values, FALLS, 0.0).level_error(50)
        };
        compute_median((0..40).map(of).collect()).unwrap()
    }

    #[test]
    fn the_error_of_a_mean_is_that_of_the_noise() {
        for rho in [0.0_f64, 0.5, 0.8, 0.9] {
            let truth = 0.1 * ((1.0 + rho) / (1.0 - rho) / 50.0).sqrt();
            let ratio = estimate(rho, 0.0) / truth;
            assert!((0.6..1.6).contains(&ratio), "{rho}: {ratio}");
        }
    }

    #[test]
    fn a_rise_is_no_noise() {
        let (flat, rising) = (estimate(0.5, 0.0), estimate(0.5, 2e-3));
        assert!(rising < 1.5 * flat, "{rising} {flat}");
    }

    #[test]
    fn single_dips_are_drawn_in_and_levels_are_not() {
        let mut values = noise(200, 0.0, 1);
        values[100] = -3.0;
        values.iter_mut().skip(150).for_each(|value| *value += 1.0);
        let drawn = draw_in(&values);
        assert!(drawn[100] > -0.5 && drawn[170] > 0.5 && drawn[130] < 0.5);
    }
}

#[cfg(test)]
mod period_tests {
    use super::*;

    fn noise(place: usize) -> f64 {
        f64::from((place as u32 * 7919) % 101) / 101.0 - 0.5
    }

    #[test]
    fn dips_that_come_back_have_a_period() {
        let dips = |place: usize| if place % 30 < 4 { 0.6 } else { 1.0 } + 0.1 * noise(place);
        assert_eq!(find_period(&(0..200).map(dips).collect::<Vec<_>>(), FEWEST_DIPS), Some(30));
        let wave = |place: usize| 1.0 + 0.2 * (place as f64 / 20.0 * std::f64::consts::TAU).sin();
        assert_eq!(find_period(&(0..100).map(wave).collect::<Vec<_>>(), FEWEST_DIPS), Some(20));
    }

    #[test]
    fn three_dips_are_two_intervals_and_no_period() {
        let dips = |place: usize| if place % 30 < 4 { 0.6 } else { 1.0 } + 0.1 * noise(place);
        let seen = |values: usize, dips_wanted| find_period(&(0..values).map(dips).collect::<Vec<_>>(), dips_wanted);
        assert_eq!((seen(90, FEWEST_DIPS), seen(90, AVERAGED_DIPS)), (None, Some(30)));
        assert_eq!(seen(96, FEWEST_DIPS), Some(30), "the fourth is there");
        // So few values may have such intervals by chance.
        let short = |place: usize| if place % 4 == 2 { 0.5 } else { 1.0 };
        for values in [14, 15] {
            assert_eq!(find_period(&(0..values).map(short).collect::<Vec<_>>(), AVERAGED_DIPS), None, "of {values}");
        }
        assert_eq!(find_period(&(0..24).map(short).collect::<Vec<_>>(), FEWEST_DIPS), Some(4), "these are six");
    }

    #[test]
    fn noise_single_dips_and_shallow_waves_have_none() {
        assert_eq!(
            find_period(&(0..300).map(|place| 1.0 + 0.2 * noise(place)).collect::<Vec<_>>(), AVERAGED_DIPS),
            None
        );
        let once = |place: usize| if (50..60).contains(&place) { 0.3 } else { 1.0 };
        assert_eq!(find_period(&(0..300).map(once).collect::<Vec<_>>(), AVERAGED_DIPS), None);
        let shallow = |place: usize| 1.0 + 0.02 * (place as f64 / 20.0 * std::f64::consts::TAU).sin();
        assert_eq!(find_period(&(0..300).map(shallow).collect::<Vec<_>>(), AVERAGED_DIPS), None);
        assert_eq!(find_period(&[1.0, 1.0], AVERAGED_DIPS), None);
    }
}

#[cfg(test)]
mod segment_tests {
    use super::*;

    fn steps(levels: &[(f64, usize)]) -> Vec<f64> {
        let wiggle = |place: usize| if place.is_multiple_of(2) { 0.01 } else { -0.01 };
        let values = levels.iter().flat_map(|(level, count)| std::iter::repeat_n(*level, *count));
        values.enumerate().map(|(place, value)| value + wiggle(place)).collect()
    }

    fn tail_start(values: &[f64]) -> usize {
        let mean = |segment: &Range<usize>| values[segment.clone()].iter().sum::<f64>() / segment.len() as f64;
        find_tail_start(&find_segments(values, 0.01), mean, |_, _| 0.05)
    }

    #[test]
    fn levels_are_found_where_they_change() {
        let values = steps(&[(-2.0, 30), (-1.0, 20), (0.0, 50)]);
        assert_eq!(find_segments(&values, 0.01), [0..30, 30..50, 50..100]);
        assert_eq!(find_segments(&steps(&[(0.0, 100)]), 0.01).len(), 1);
    }

    #[test]
    fn the_tail_reaches_back_over_dips_that_recover() {
        assert_eq!(tail_start(&steps(&[(-2.0, 30), (0.0, 30), (-0.5, 5), (0.0, 35)])), 30);
        assert_eq!(tail_start(&steps(&[(-0.5, 5), (0.0, 95)])), 5, "what it began with is no dip");
        assert_eq!(tail_start(&steps(&[(0.0, 30), (-0.5, 30), (0.0, 40)])), 60, "long ones end it");
        assert_eq!(tail_start(&steps(&[(0.3, 50), (0.0, 50)])), 50, "it was faster before");
    }
}

#[cfg(test)]
mod statistics_tests {
    use super::*;

    #[test]
    fn a_period_shows_in_the_autocorrelation() {
        let values: Vec<f64> = (0..200).map(|place| if place % 10 == 0 { 0.0 } else { 1.0 }).collect();
        assert!(compute_autocorrelation(&values, 10) > 0.9);
        assert!(compute_autocorrelation(&values, 5) < 0.0);
        assert_eq!(compute_autocorrelation(&[2.0; 9], 1), 0.0);
    }

    #[test]
    fn rising_means_pool_what_falls() {
        assert_eq!(compute_rising_means(&[1.0, 3.0, 2.0, 4.0, 3.5, 3.0]), [1.0, 2.5, 2.5, 3.5, 3.5, 3.5]);
        assert_eq!(compute_rising_means(&[3.0, 2.0, 1.0]), [2.0; 3]);
        assert!(compute_rising_means(&[]).is_empty());
    }

    #[test]
    fn single_outliers_vanish_in_the_running_median() {
        assert_eq!(compute_running_median(&[1.0, 1.0, 9.0, 1.0, 1.0], SMOOTHED), [1.0; 5]);
    }
}
