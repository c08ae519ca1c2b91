//! From the curve to the verdict.

use super::period::find_period;
use super::segment::{SAME_LEVEL, find_segments, find_tail_start};
use super::trend::{Trend, fit_trend};
use super::verdict::{LEAST_TAIL_SHARE, TOO_SHORT};
use super::{Judgement, Verdict};
use crate::model::statistics::{compute_median, compute_noise_sigma, compute_running_median};
use crate::model::{Bucket, Fit, Series, fit_warm_up};

/// Values that are judged, at most: the exact segmentation takes the square of it.
const MOST_VALUES: usize = 400;

/// The level of the end is that of the last so much.
const END_SHARE: f64 = 0.2;

/// A warm-up in this first part of the run does not hide a period behind it.
const EARLY_SHARE: f64 = 0.3;

/// The steady part must have so many values.
const LEAST_TAIL_VALUES: usize = 10;

/// Where reads prove that it is warm, fewer values are enough.
const PROVEN_TAIL_VALUES: usize = 5;

/// A tail that changes by less than this is steady, and what changes by more does so beyond so many standard errors.
const LEAST_RISE: f64 = 0.02;
const LEAST_FALL: f64 = 0.03;
const ERRORS: f64 = 2.5;

/// Share of the tail's rise that its second half must have for the rise to go on.
const LATE_SHARE: f64 = 0.25;

/// Segments this much above the end, of this share of the run, say that it was faster before.
const FASTER_BEFORE: f64 = 0.08;
const FASTER_SHARE: f64 = 0.05;

/// A step down to a level that lasts for so much of the run is the steady level.
const NEW_LEVEL_SHARE: f64 = 0.5;

/// Below this share of the end's level, the run's beginning shows a warm-up.
const WARMING_SHARE: f64 = 0.75;

/// A start that is slow for less is that of connections, catalogs and bursts of a limiter, and no warm-up, where the number
/// of pages does not say how long one must be.
const SLOW_START_SECONDS: f64 = 10.0;

/// Pages that the hot part of a database of unknown size may have: 64 GiB of 8 kB. A hot part that does not fit into
/// memory never gets warm: its plateau is its steady state.
const MOST_PAGES: f64 = (64_u64 << 30) as f64 / 8192.0;

/// Warm is: fewer than 1 % of transactions read from the device.
const WARM_READS: f64 = 0.01;

/// A period shows when it is seen so often.
const PERIODS: f64 = 3.0;

/// Share of the steady throughput that a run has reached where it begins to be steady, and by its fit at its end.
const REACHED_SHARE: f64 = 0.95;

/// Reads per transaction may fall by this share from the tail's first half to its second and still be at their floor.
const READS_FALL: f64 = 0.15;

/// Throughput below this share of the level is a stall, however deep.
const DEEPEST: f64 = 0.02;

/// A stall at the end that has lasted so long is no dip that recovers.
const SILENT_SECONDS: f64 = 5.0;

/// Judges a run. `pages` is how many the workload chooses from, where somebody knows.
pub fn judge(series: &Series, pages: Option<f64>) -> Judgement {
    let tail = Tail::find(series);
    let fitted = fit_where_it_applies(series, &tail);
    let pages = pages.or(series.facts.pages());
    let (verdict, reason) = decide(series, &tail, fitted.as_ref().ok(), pages);
    let mut judgement = describe(series, &tail, fitted, verdict, reason);
    // A level that its own curve never reached is none.
    judgement.settle(judgement.to_95_seconds.or(Some(judgement.run_seconds)));
    if let (Verdict::NotReached, Some(fit), Some(pages)) = (verdict, &judgement.fit, pages)
        && fit.contradicts(pages)
    {
        judgement.drop_promise(pages);
    }
    judgement
}

/// The fit, or why there is none.
fn fit_where_it_applies(series: &Series, tail: &Tail) -> Result<Fit, &'static str> {
    if series.facts.has_warmer {
        return Err("a warmer read beside the workload");
    }
    if series.facts.is_rate_limited {
        return Err("the rate was limited");
    }
    if !tail.has_warm_up && tail.trend.change <= 0.0 {
        return Err("throughput did not rise");
    }
    fit_warm_up(series).ok_or("the closed form comes nowhere near the curve")
}

/// The stretch that has kept the level of the end.
#[derive(Debug)]
struct Tail {
    /// Seconds of a value.
    width: f64,
    rates: Vec<f64>,
    start: usize,
    /// Transactions per second at the end.
    level: f64,
    /// The tail's trend, in its logarithm: about a share of the level.
    trend: Trend,
    /// The trend of the tail's second half.
    late_trend: Trend,
    /// The period, in values.
    period: Option<usize>,
    /// Did it begin clearly slower? And when did it no longer run so, in values.
    has_warm_up: bool,
    slow_until: usize,
    /// The trend of all that followed the slow beginning.
    rise_since_slow: Trend,
    /// A level before the tail that was faster, as a share of the end's.
    faster_before: Option<f64>,
}

impl Tail {
    fn find(series: &Series) -> Tail {
        let (width, rates) = read_rates(series);
        let levels = without_period(&rates);
        let end = ((rates.len() as f64 * END_SHARE) as usize).clamp(5.min(rates.len()), rates.len());
        let level = compute_median(levels[rates.len() - end..].to_vec()).unwrap_or(0.0).max(f64::MIN_POSITIVE);
        let logs_of =
            |rates: &[f64]| -> Vec<f64> { rates.iter().map(|rate| (rate / level).max(DEEPEST).ln()).collect() };
        let (raw, logs) = (logs_of(&rates), logs_of(&levels));
        let smooth = compute_running_median(&logs);
        let noise = compute_noise_sigma(&logs);
        let segments = find_segments(&smooth, noise);
        let mean = |segment: &std::ops::Range<usize>| compute_median(logs[segment.clone()].to_vec()).unwrap_or(0.0);
        let start = find_tail_start(&segments, mean, noise);
        let period = find_period(&rates[start..].iter().map(|rate| (rate / level).min(1.5)).collect::<Vec<_>>());
        // Whole periods, or the last dip would be a trend.
        let whole = period.map_or(raw.len() - start, |period| (raw.len() - start) / period * period);
        let shortest = rates.len() as f64 * FASTER_SHARE;
        // What belongs to the end itself may stand above its median, when it rises.
        let last = start.min(rates.len() - end);
        let before = segments.iter().filter(|segment| segment.end <= last && segment.len() as f64 >= shortest);
        let fastest = before.map(mean).fold(0.0, f64::max);
        let is_slow = |log: &f64| *log < WARMING_SHARE.ln();
        let slow = smooth.iter().take((rates.len() / 20).max(3)).position(is_slow);
        let slow_until = slow.map(|slow| slow + smooth[slow..].iter().take_while(|log| is_slow(log)).count());
        Tail {
            width,
            trend: fit_trend(&raw[raw.len() - whole..]),
            late_trend: fit_trend(&raw[raw.len() - whole / 2..]),
            period,
            has_warm_up: slow_until.is_some(),
            rise_since_slow: fit_trend(&raw[slow_until.unwrap_or(0).min(start)..]),
            slow_until: slow_until.unwrap_or(0),
            faster_before: (fastest > FASTER_BEFORE).then(|| fastest.exp()),
            rates,
            start,
            level,
        }
    }

    fn len(&self) -> usize {
        self.rates.len() - self.start
    }

    fn share(&self) -> f64 {
        self.len() as f64 / self.rates.len() as f64
    }

    /// The end of a warm-up leads into the level from a few percent below. A rise that goes on does so in the second half.
    fn has_levelled_off(&self) -> bool {
        let Trend { change, .. } = self.trend;
        self.has_warm_up && change < SAME_LEVEL && self.late_trend.change < LATE_SHARE * change
    }

    fn start_seconds(&self) -> f64 {
        self.start as f64 * self.width
    }
}

/// The rates, or where their later part is periodic, their means over a period around each: deep dips that come back are a
/// level too.
fn without_period(rates: &[f64]) -> Vec<f64> {
    let late = &rates[(rates.len() as f64 * EARLY_SHARE) as usize..];
    let level = compute_median(late.to_vec()).unwrap_or(0.0).max(f64::MIN_POSITIVE);
    let shares: Vec<f64> = late.iter().map(|rate| (rate / level).min(1.5)).collect();
    let Some(period) = find_period(&shares) else { return rates.to_vec() };
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

/// The first value at a level with neighbours that are there too (their running median), so that one lucky second is no
/// arrival, and nothing is dated to a value that lies below.
fn find_reached(rates: &[f64], level: f64) -> Option<usize> {
    let smooth = compute_running_median(rates);
    rates.iter().zip(&smooth).position(|(rate, smooth)| rate.min(*smooth) >= level)
}

/// The rules, in the order of what they would hide.
fn decide(series: &Series, tail: &Tail, fit: Option<&Fit>, pages: Option<f64>) -> (Verdict, String) {
    let reads = read_floor(series, tail);
    let rises = tail.trend.exceeds(LEAST_RISE, ERRORS) && !tail.has_levelled_off();
    let falls = Trend { change: -tail.trend.change, ..tail.trend }.exceeds(LEAST_FALL, ERRORS);
    let least = least_values(reads);
    let is_short = tail.share() < LEAST_TAIL_SHARE || tail.len() < least;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    if series.transactions() <= 0.0 {
        return (Verdict::NotReached, format!("not one transaction was served in its {:.0} s", series.seconds()));
    }
    let silent = silent_seconds(series, tail);
    if silent >= SILENT_SECONDS && tail.period.is_none() {
        return (Verdict::Degrading, format!("it served next to nothing in its last {silent:.0} s"));
    }
    if let Some(faster) = tail.faster_before.filter(|_| falls || tail.share() < NEW_LEVEL_SHARE) {
        return (Verdict::Degrading, format!("it was {} faster before", percent(faster - 1.0)));
    }
    if reads == Some(Floor::Falling) {
        return (Verdict::NotReached, "its reads from the device still fell in the second half of its level".into());
    }
    if is_short {
        return (Verdict::NotReached, TOO_SHORT.into());
    }
    if rises {
        let reason = format!("it still rose by {} over its last {:.0} s", percent(tail.trend.change), seconds(tail));
        return (Verdict::NotReached, reason);
    }
    if falls {
        let reason = format!("it fell by {} over its last {:.0} s", percent(-tail.trend.change), seconds(tail));
        return (Verdict::Degrading, reason);
    }
    if series.facts.is_rate_limited && reads != Some(Floor::Warm) {
        return (Verdict::NotReached, "the rate was limited: a cold server keeps it too".into());
    }
    let may_be_cold = reads != Some(Floor::Warm) && !has_warmed(series, tail, pages);
    if let Some(reason) = may_be_cold.then(|| suspect_cold_plateau(series, tail, pages)).flatten() {
        return (Verdict::NotReached, reason);
    }
    let reached = fit.filter(|_| reads != Some(Floor::Warm)).and_then(|fit| reached_by_fit(series, tail, fit));
    match (tail.period, reached) {
        (Some(_), _) => (Verdict::Periodic, "the same dips come back again and again".into()),
        (None, Some(share)) if share < REACHED_SHARE => {
            (Verdict::NotReached, format!("by its fit it had reached {} of its warm throughput", percent(share)))
        }
        (None, _) => (Verdict::Steady, "it kept its level until the end".into()),
    }
}

/// Seconds at the end with next to no throughput: a stall that is not over.
fn silent_seconds(series: &Series, tail: &Tail) -> f64 {
    let is_silent = |bucket: &&Bucket| bucket.rate().is_some_and(|rate| rate <= DEEPEST * tail.level);
    series.buckets.iter().rev().take_while(is_silent).count() as f64 * series.width_seconds
}

/// The share of the warm throughput that the fit of a visibly rising run has at its end. The noise of a short tail hides
/// a rise that the whole curve shows.
fn reached_by_fit(series: &Series, tail: &Tail, fit: &Fit) -> Option<f64> {
    let curve = fit.curve().ok().filter(|_| tail.has_warm_up && fit.knows_warm())?;
    Some(curve.throughput(series.transactions()) / curve.steady_throughput())
}

/// Was it slow at first for long enough to bring in what the workload chooses from? A cold server whose first seconds are slow
/// jumps to its plateau as if it had got warm.
fn has_warmed(series: &Series, tail: &Tail, pages: Option<f64>) -> bool {
    let seconds = tail.slow_until as f64 * tail.width;
    match pages {
        Some(pages) => series.transactions_until(seconds) >= pages,
        None => seconds >= SLOW_START_SECONDS,
    }
}

fn seconds(tail: &Tail) -> f64 {
    tail.len() as f64 * tail.width
}

/// What the reads say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Floor {
    /// Hardly any.
    Warm,
    /// As many as before: data larger than the cache.
    Reached,
    Falling,
}

/// Values that a tail must have.
fn least_values(reads: Option<Floor>) -> usize {
    if reads == Some(Floor::Warm) { PROVEN_TAIL_VALUES } else { LEAST_TAIL_VALUES }
}

/// `None` when reads are not known.
fn read_floor(series: &Series, tail: &Tail) -> Option<Floor> {
    if !series.has_reads {
        return None;
    }
    let from = (tail.start_seconds() / series.width_seconds) as usize;
    let buckets = &series.buckets[from.min(series.buckets.len())..];
    let per_transaction = |buckets: &[Bucket]| {
        let transactions: f64 = buckets.iter().map(|bucket| bucket.transactions).sum();
        buckets.iter().map(|bucket| bucket.reads).sum::<f64>() / transactions.max(1.0)
    };
    let (first, second) = buckets.split_at(buckets.len() / 2);
    let (before, after) = (per_transaction(first), per_transaction(second));
    Some(match after {
        ..WARM_READS => Floor::Warm,
        _ if after < (1.0 - READS_FALL) * before => Floor::Falling,
        _ => Floor::Reached,
    })
}

/// A run that was flat from its start, or nearly so, may have been cold all the time: throughput of a cold server rises by
/// about i ÷ P in i transactions, which a large P hides. It is believed only when the largest rise that the noise can hide
/// since the slow start, if there was one, means a database that is larger than `pages`. Beside a warmer nothing is believed:
/// the device that it leaves to the workload may be the limit for as long as it reads.
fn suspect_cold_plateau(series: &Series, tail: &Tail, pages: Option<f64>) -> Option<String> {
    if series.facts.has_warmer {
        return Some("it still read from the device, beside a warmer".to_owned());
    }
    let rise = &tail.rise_since_slow;
    let hidden_rise = (rise.change.max(0.0) + ERRORS * rise.error).max(1e-3);
    let transactions = series.transactions() - series.transactions_until(tail.slow_until as f64 * tail.width);
    let least_pages = transactions / hidden_rise;
    let most_pages = pages.unwrap_or(MOST_PAGES);
    (least_pages < most_pages).then(|| {
        let what = match pages {
            Some(pages) => format!("{pages:.0} pages"),
            None => "a database whose size is not known (give --pages)".to_owned(),
        };
        format!(
            "it was flat {}, and {:.0} transactions are too few to tell a warm server from a cold one with {what}",
            if tail.has_warm_up { "after a short slow start" } else { "from the start" },
            series.transactions()
        )
    })
}

fn describe(series: &Series, tail: &Tail, fitted: Result<Fit, &str>, verdict: Verdict, reason: String) -> Judgement {
    let no_fit = fitted.as_ref().err().map(|why| (*why).to_owned());
    let fit = fitted.ok();
    let is_level = matches!(verdict, Verdict::Steady | Verdict::Periodic);
    let curve = fit.as_ref().and_then(|fit| fit.curve().ok());
    let steady_tps = match verdict {
        Verdict::Steady => Some(tail.level),
        // With its dips, for they belong to it.
        Verdict::Periodic => Some(tail.rates[tail.start..].iter().sum::<f64>() / tail.len() as f64),
        // The fit's promise, where the measurement bounds it.
        Verdict::NotReached => {
            fit.as_ref().filter(|fit| fit.knows_warm()).and(curve.as_ref()).map(|curve| curve.steady_throughput())
        }
        Verdict::Degrading => None,
    };
    let mean_tps = series.transactions() / series.covered_seconds().max(f64::MIN_POSITIVE);
    let reached = |share: f64| {
        let measured = find_reached(&tail.rates, share * steady_tps?).map(|place| place as f64 * tail.width);
        // What the measurement does not show comes after it, whatever the fit says.
        let promised = || Some(curve.as_ref()?.seconds_to_share(share)?.max(series.seconds()));
        measured.or_else(|| if is_level { None } else { promised() })
    };
    let [to_50_seconds, to_90_seconds, to_95_seconds] = [0.5, 0.9, REACHED_SHARE].map(reached);
    let level_lasts_seconds = match (verdict, tail.period) {
        (Verdict::Periodic, Some(period)) => PERIODS * period as f64 * tail.width,
        _ => least_values(read_floor(series, tail)) as f64 * tail.width,
    };
    let mut judgement = Judgement {
        verdict,
        reason,
        steady_from_seconds: is_level.then(|| tail.start_seconds()),
        level_lasts_seconds,
        period_seconds: tail.period.filter(|_| verdict == Verdict::Periodic).map(|period| period as f64 * tail.width),
        steady_tps,
        mean_tps,
        mean_error_share: steady_tps.map(|steady| mean_tps / steady - 1.0),
        to_50_seconds,
        to_90_seconds,
        to_95_seconds,
        run_seconds: series.seconds(),
        should_have_run_seconds: None,
        fit,
        no_fit,
        remarks: series.remarks.clone(),
    };
    let needed = match verdict {
        Verdict::Steady | Verdict::Periodic => Some(judgement.needed_seconds(tail.start_seconds())),
        Verdict::NotReached => to_95_seconds.map(|seconds| judgement.needed_seconds(seconds)),
        Verdict::Degrading => None,
    };
    judgement.should_have_run_seconds = needed.filter(|seconds| is_level || *seconds > series.seconds());
    judgement
}
