//! From the curve to the verdict.

use super::approach::find_approach;
use super::judgement::LEAST_TAIL_SHARE;
use super::plateau::{OWN_RISE, suspect_cold};
use super::reason::Reason;
use super::tail::{DEEPEST, SAME_LEVEL, Tail, Trend};
use super::{Judgement, Verdict};
use crate::model::statistics::compute_running_median;
use crate::model::{Bucket, Fit, Series, fit_warm_up};

/// The steady part must have so many values.
const LEAST_TAIL_VALUES: usize = 10;

/// Where reads prove that it is warm, fewer values are enough.
const PROVEN_TAIL_VALUES: usize = 5;

/// A tail that falls by less than this, or rises by less than what counts as the same level, is steady. What changes by more does
/// so beyond so many standard errors of its noise.
const LEAST_FALL: f64 = 0.03;
const ERRORS: f64 = 3.0;

/// Standard errors on either side of a 95 % interval, and what it has at least as a share of the level. The noise is measured from
/// the curve that it is judged by, and what is slower than a third of it is hardly seen there: 1.96 of them held the true
/// level in 77 % of the warm curves of lab/verdicts, these in 92 to 96 %.
const INTERVAL: f64 = 4.5;
const LEAST_INTERVAL: f64 = 0.005;

/// A level that its noise leaves open by more, as a share of it, is none: its interval has nought in it.
const TOLD_LEVEL: f64 = 1.0;

/// The same where reads prove that it is warm, whatever neighbours do to its level. (Real runs beside busy ones have up to 2.0.)
const PROVEN_LEVEL: f64 = 2.3;

/// A level that would have to last for more values to be told never will be.
const MOST_TOLD_VALUES: usize = 20_000;

/// Above this probability a rise is not over.
const LIKELY: f64 = 0.35;

/// The last rise of a warm-up that is over is no more than this.
const LEVELLED_RISE: f64 = 0.08;

/// The tail's second half rises by no more than this when the rise is over, or by this part of the tail's rise, or not beyond so
/// many standard errors. A straight rise has half of it there.
const LATE_RISE: f64 = 0.01;
const LATE_SHARE: f64 = 0.33;
const LATE_ERRORS: f64 = 2.0;

/// A step down to a level that lasts for so much of the run is the steady level.
const NEW_LEVEL_SHARE: f64 = 0.5;

/// Warm is: fewer than 1 % of transactions read from the device.
const WARM_READS: f64 = 0.01;

/// A period shows when it is seen so often.
const PERIODS: f64 = 3.0;

/// Share of the steady throughput that a run has reached where it begins to be steady, and by its fit at its end.
const REACHED_SHARE: f64 = 0.95;

/// Share of the level that a rise comes to where it is dated, and below which a second is a slow one.
const DATED_SHARE: f64 = 0.98;
const SLOW_SECOND: f64 = 0.92;

/// Reads per transaction may fall by this share from the tail's first half to its second and still be at their floor.
const READS_FALL: f64 = 0.15;

/// A stall at the end that has lasted so long is no dip that recovers.
const SILENT_SECONDS: f64 = 5.0;

/// Judges a run. `pages` is how many the workload chooses from, where somebody knows.
pub fn judge(series: &Series, pages: Option<f64>) -> Judgement {
    let tail = Tail::find(series);
    let fitted = fit_where_it_applies(series, &tail);
    let pages = pages.or(series.facts.pages());
    let mut judgement = describe(series, &tail, fitted, decide(series, &tail, pages));
    let verdict = judgement.verdict;
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

/// The first value at a level with neighbours that are there too (their running median), so that one lucky second is no
/// arrival, and nothing is dated to a value that lies below.
fn find_reached(rates: &[f64], level: f64) -> Option<usize> {
    let smooth = compute_running_median(rates);
    rates.iter().zip(&smooth).position(|(rate, smooth)| rate.min(*smooth) >= level)
}

/// The rules, in the order of what they would hide.
fn decide(series: &Series, tail: &Tail, pages: Option<f64>) -> Reason {
    let reads = read_floor(series, tail);
    let rises = tail.trend.exceeds(SAME_LEVEL, ERRORS) && !has_levelled_off(tail);
    let falls = Trend { change: -tail.fall.change, ..tail.fall }.exceeds(LEAST_FALL, ERRORS);
    let least = least_values(reads);
    let is_short = tail.share() < LEAST_TAIL_SHARE || tail.len() < least;
    if series.transactions() <= 0.0 {
        return Reason::NothingServed { seconds: series.seconds() };
    }
    let silent = silent_seconds(series, tail);
    if silent >= SILENT_SECONDS && tail.period.is_none() {
        return Reason::SilentAtEnd { seconds: silent };
    }
    if let Some(faster) = tail.faster_before.filter(|_| falls || tail.share() < NEW_LEVEL_SHARE) {
        return Reason::FasterBefore { share: faster - 1.0 };
    }
    if reads == Some(Floor::Falling) {
        return Reason::ReadsFall;
    }
    if is_short {
        return Reason::TooShort;
    }
    let seconds = tail.trend_seconds;
    if rises {
        let Trend { change, error } = tail.trend;
        return Reason::Rises { share: change, error: INTERVAL * error, seconds };
    }
    if falls {
        let Trend { change, error } = tail.fall;
        // The trend is one of logarithms.
        return Reason::Falls { share: -change.exp_m1(), error: INTERVAL * error, seconds };
    }
    if series.facts.is_rate_limited && reads != Some(Floor::Warm) {
        return Reason::RateLimited;
    }
    if reads == Some(Floor::Warm) {
        return decide_level(tail, PROVEN_LEVEL);
    }
    if let Some(reason) = suspect_cold(series, tail, pages) {
        return reason;
    }
    let least_pages = pages.filter(|_| !series.facts.has_warmer).unwrap_or(0.0) * OWN_RISE;
    let approach = find_approach(&tail.count_done(), &tail.logs, &tail.noise, least_pages);
    if approach.unfinished > LIKELY && !tail.has_leapt() {
        return Reason::Unfinished { share: approach.share, probability: approach.unfinished };
    }
    decide_level(tail, TOLD_LEVEL)
}

fn decide_level(tail: &Tail, told: f64) -> Reason {
    let error = level_error(tail, tail.len());
    match tail.period {
        _ if error > told => Reason::Noisy { error },
        Some(_) => Reason::Dips,
        None => Reason::KeptLevel { error },
    }
}

/// The 95 % interval, either way, of a level that lasts for so many values with the tail's noise.
fn level_error(tail: &Tail, values: usize) -> f64 {
    (INTERVAL * tail.noise.level_error(values)).hypot(LEAST_INTERVAL)
}

/// Seconds after which the tail's level would have lasted long enough to be one, and to be told from its noise.
fn told_seconds(tail: &Tail, reads: Option<Floor>) -> Option<f64> {
    let told = if reads == Some(Floor::Warm) { PROVEN_LEVEL } else { TOLD_LEVEL };
    let longer = |values: &usize| Some(values + values / 10 + 1).filter(|values| *values <= MOST_TOLD_VALUES);
    let mut lengths = std::iter::successors(Some(tail.len().max(least_values(reads))), longer);
    let values = lengths.find(|values| level_error(tail, *values) <= told)?;
    let (start, lasts) = (tail.start_seconds(), values as f64 * tail.width);
    Some((start + lasts).max(start / (1.0 - LEAST_TAIL_SHARE)))
}

/// The end of a warm-up leads into the level from a few percent below. A rise that goes on does so in the second half.
fn has_levelled_off(tail: &Tail) -> bool {
    let Trend { change, .. } = tail.trend;
    change < LEVELLED_RISE && !tail.late_trend.exceeds(LATE_RISE.max(LATE_SHARE * change), LATE_ERRORS)
}

/// Seconds at the end with next to no throughput: a stall that is not over.
fn silent_seconds(series: &Series, tail: &Tail) -> f64 {
    let is_silent = |bucket: &&Bucket| bucket.rate().is_some_and(|rate| rate <= DEEPEST * tail.level);
    series.buckets.iter().rev().take_while(is_silent).count() as f64 * series.width_seconds
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

/// Since when it is steady: since it has risen to its level, as far as enough of it is left.
fn date_level(series: &Series, tail: &Tail, least: usize) -> f64 {
    let share = ((tail.rates.len() as f64 * LEAST_TAIL_SHARE).ceil() as usize).max(least);
    let periods = tail.period.map_or(0, |period| PERIODS as usize * period);
    let latest = tail.rates.len().saturating_sub(share.max(periods));
    // What hardly rose is dated by less, for noise moves its beginning as much.
    let dated_share = if tail.has_warm_up { DATED_SHARE } else { SLOW_SECOND };
    let from = tail.start.max(tail.find_risen(dated_share).min(latest)) as f64 * tail.width;
    // Of several seconds that are one value, the first may have been slow.
    let first = (from / series.width_seconds).round() as usize;
    let is_slow = |bucket: &&Bucket| bucket.rate().is_some_and(|rate| rate < SLOW_SECOND * tail.level);
    let group = (tail.width / series.width_seconds) as usize - 1;
    from + series.buckets.iter().skip(first).take(group).take_while(is_slow).count() as f64 * series.width_seconds
}

fn describe(series: &Series, tail: &Tail, fitted: Result<Fit, &str>, reason: Reason) -> Judgement {
    let verdict = reason.verdict();
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
        reason: reason.sentence(),
        undecided: reason.undecided(),
        level_share: None,
        steady_from_seconds: is_level.then(|| date_level(series, tail, least_values(read_floor(series, tail)))),
        level_lasts_seconds,
        period_seconds: tail.period.filter(|_| verdict == Verdict::Periodic).map(|period| period as f64 * tail.width),
        steady_tps,
        level_error_share: is_level.then(|| level_error(tail, tail.len())),
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
        Verdict::Steady | Verdict::Periodic => {
            Some(judgement.needed_seconds(judgement.steady_from_seconds.unwrap_or(0.0)))
        }
        Verdict::NotReached => {
            let reached = to_95_seconds.map(|seconds| judgement.needed_seconds(seconds));
            let told = told_seconds(tail, read_floor(series, tail));
            [reached, told].into_iter().flatten().reduce(f64::max)
        }
        Verdict::Degrading => None,
    };
    judgement.should_have_run_seconds = needed.filter(|seconds| is_level || *seconds > series.seconds());
    judgement
}
