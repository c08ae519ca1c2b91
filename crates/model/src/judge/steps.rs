use super::judgement::{LEAST_TAIL_SHARE, Reason, tell_error};
use super::series::tell_rate;
use super::tail::{DEEPEST, SAME_LEVEL, SMOOTHED, Tail, Trend, compute_running_median};
use super::warmth::{Floor, find_warmth, read_floor};
use super::{Bucket, Fit, Series, fit_warm_up};
use super::{Judgement, Undecided, Verdict};
use crate::{WarmUp, compute_median};

const LEAST_TAIL_VALUES: usize = 10;

/// Minimum number of values in a level, if device reads prove that the server is warm.
const PROVEN_TAIL_VALUES: usize = 5;

/// A reported fall exceeds both this share and this many standard errors. Rises have higher limits, because users can
/// see a fall in the curve.
const LEAST_FALL: f64 = 0.03;
const FALL_ERRORS: f64 = 3.5;

/// Half the width of a level's 95 % interval, in standard errors; at least `LEAST_INTERVAL` of the level. The usual
/// 1.96 underestimates slowly changing noise: the interval contained the true level in 77 % of the warm curves of
/// lab/verdicts; with 4.5, in 94 %.
const INTERVAL: f64 = 4.5;
const LEAST_INTERVAL: f64 = 0.005;

/// Maximum error of a level that is reported, in logarithms.
const TOLD_LEVEL: f64 = 1.0;

const MOST_TOLD_VALUES: usize = 20_000;

const LEVELLED_RISE: f64 = 0.08;

/// A rise is over if the rise of the tail's second half is within one of three limits: `LATE_RISE` (in logarithms),
/// `LATE_SHARE` of the whole tail's rise (half for a straight line), or `LATE_ERRORS` standard errors.
const LATE_RISE: f64 = 0.01;
const LATE_SHARE: f64 = 0.33;
const LATE_ERRORS: f64 = 2.0;

/// A lower level that lasts for this share of the run is the steady level.
const NEW_LEVEL_SHARE: f64 = 0.5;

const PERIODS: f64 = 3.0;

/// The steady part starts at this share of the steady throughput.
const REACHED_SHARE: f64 = 0.95;

/// Shares of the level: a rise ends at `DATED_SHARE`, and a second below `SLOW_SECOND` is slow.
const DATED_SHARE: f64 = 0.98;
const SLOW_SECOND: f64 = 0.92;

/// A level that begins after this share of the run says little about warmth.
const LATE_LEVEL: f64 = 0.5;

/// A stall of at least this duration at the end is a degradation.
const SILENT_SECONDS: f64 = 5.0;

/// In a standstill, throughput is below `STILL_SHARE` of the level for at least `STILL_SECONDS`.
const STILL_SHARE: f64 = 0.1;
const STILL_SECONDS: f64 = 2.0;

/// A tail whose median differs by more than this from the level (in logarithms) may be part of a slow pattern.
const UNLIKE: f64 = 0.3;
const LEAST_COUNTED: f64 = 2.0;

pub fn judge(series: &Series, pages: Option<f64>) -> Judgement {
    let tail = Tail::find(series);
    let fitted = fit_where_it_applies(series, &tail);
    let pages = pages.or(series.facts.pages());
    let floor = read_floor(series, &tail);
    let least = if floor == Some(Floor::Warm) { PROVEN_TAIL_VALUES } else { LEAST_TAIL_VALUES };
    let mut judgement = describe(series, &tail, fitted, decide(series, &tail, least), least);
    let verdict = judgement.verdict;
    // If throughput never reached 95 % of the level, the level is not steady.
    judgement.settle(judgement.to_95_seconds.or(Some(judgement.run_seconds)));
    if let Some(from) = judgement.steady_from_seconds {
        let is_late = from > LATE_LEVEL * series.seconds();
        judgement.warmth = Some(find_warmth(series, &tail, floor, pages, is_late));
        judgement.remarks.extend(tell_standstills(series, &tail, judgement.to_95_seconds.unwrap_or(from)));
    }
    if let (Verdict::NotReached, Some(fit), Some(pages)) = (verdict, &judgement.fit, pages)
        && fit.contradicts(pages)
    {
        judgement.drop_promise(pages);
    }
    judgement
}

fn fit_where_it_applies(series: &Series, tail: &Tail) -> Result<Fit, &'static str> {
    if series.facts.has_warmer {
        return Err("a warmer ran beside the workload");
    }
    if series.facts.is_rate_limited {
        return Err("the rate was limited");
    }
    if !tail.has_warm_up && tail.trend.change <= 0.0 {
        return Err("throughput did not rise");
    }
    fit_warm_up(series).ok_or("no curve of the model fits the measured one")
}

/// The first rule that applies decides, so each rule precedes those that would hide its case.
fn decide(series: &Series, tail: &Tail, least: usize) -> Reason {
    // A finished warm-up still rises by a few percent towards its level.
    let rise = tail.trend.change;
    let is_late = tail.late_trend.exceeds(LATE_RISE.max(LATE_SHARE * rise), LATE_ERRORS);
    let rises = tail.trend.exceeds(SAME_LEVEL, INTERVAL) && (rise >= LEVELLED_RISE || is_late);
    // With a rate limit, random arrivals can look like a fall.
    let fall_errors = if series.facts.is_rate_limited { INTERVAL } else { FALL_ERRORS };
    let falls = Trend { change: -tail.fall.change, ..tail.fall }.exceeds(LEAST_FALL, fall_errors);
    let is_short = tail.share() < LEAST_TAIL_SHARE || tail.len() < least;
    if series.transactions() <= 0.0 {
        let sentence = format!("it served no transaction in its {:.0} s", series.seconds());
        return Reason::seen(Verdict::NotReached, sentence);
    }
    let is_silent = |bucket: &&Bucket| bucket.rate().is_some_and(|rate| rate <= DEEPEST * tail.level);
    let silent = series.buckets.iter().rev().take_while(is_silent).count() as f64 * series.width_seconds;
    if silent >= SILENT_SECONDS && tail.period.is_none() {
        return Reason::seen(Verdict::Degrading, format!("it served almost nothing in its last {silent:.0} s"));
    }
    if let Some(faster) = tail.faster_before.filter(|_| falls || tail.share() < NEW_LEVEL_SHARE) {
        let (before, level) = (tell_rate(faster * tail.level), tell_rate(tail.level));
        return Reason::seen(Verdict::Degrading, format!("it served {before} tps before, and {level} at the end"));
    }
    if is_short {
        return Reason::too_short();
    }
    let moved = |change: f64| [tail.level * (-change).exp(), tail.level];
    if rises {
        return Reason::moved(Verdict::NotReached, "still rose", moved(tail.trend.change), tail.trend_seconds);
    }
    if falls {
        return Reason::moved(Verdict::Degrading, "fell", moved(tail.fall.change), tail.trend_seconds);
    }
    if let Some(middle) = find_unlike(tail).filter(|_| tail.period.is_none()) {
        let [middle, level] = [middle * tail.level, tail.level].map(tell_rate);
        let sentence = format!(
            "its throughput was {level} tps at the end of the run, but its median was {middle} tps in the part of the run that might be steady"
        );
        return Reason::open(Undecided::TooShort, sentence);
    }
    let error = level_error(tail, tail.len());
    match tail.period {
        _ if error > TOLD_LEVEL => Reason::noisy(tail.span.map(|log| tail.level * log.exp())),
        Some(_) => Reason::seen(Verdict::Periodic, "the same dips recur"),
        None => {
            let sentence = format!("its throughput stayed level until the end ({})", tell_error(tail.level, error));
            Reason::seen(Verdict::Steady, sentence)
        }
    }
}

fn level_error(tail: &Tail, values: usize) -> f64 {
    let reach = tail.span[1].max(-tail.span[0]);
    (INTERVAL * tail.noise.level_error(values)).min(reach).hypot(LEAST_INTERVAL)
}

fn find_unlike(tail: &Tail) -> Option<f64> {
    let middle = compute_median(tail.logs[tail.start..].to_vec())?;
    let differs = middle.abs() > UNLIKE && middle.exp_m1().abs() * tail.level * tail.width > LEAST_COUNTED;
    differs.then_some(middle.exp())
}

fn told_seconds(series: &Series, tail: &Tail, least: usize) -> Option<f64> {
    // Four repetitions prove a slow pattern. This run may show two, so twice its length is needed.
    let again = find_unlike(tail).map_or(0.0, |_| 2.0 * series.seconds());
    let longer = |values: &usize| Some(values + values / 10 + 1).filter(|values| *values <= MOST_TOLD_VALUES);
    let mut lengths = std::iter::successors(Some(tail.len().max(least)), longer);
    let values = lengths.find(|values| level_error(tail, *values) <= TOLD_LEVEL)?;
    let (start, lasts) = (tail.start_seconds(), values as f64 * tail.width);
    Some((start + lasts).max(start / (1.0 - LEAST_TAIL_SHARE)).max(again))
}

fn tell_standstills(series: &Series, tail: &Tail, from: f64) -> Option<String> {
    let width = series.width_seconds;
    let is_still = |place: &usize| series.buckets[*place].rate().is_some_and(|rate| rate < STILL_SHARE * tail.level);
    let still: Vec<usize> = ((from / width) as usize..series.buckets.len()).filter(is_still).collect();
    let mut stops: Vec<&[usize]> = still.chunk_by(|one, next| one + 1 == *next).collect();
    stops.retain(|stop| stop.len() as f64 * width >= STILL_SECONDS);
    let longest = stops.iter().max_by_key(|stop| stop.len())?;
    let [lasts, at] = [longest.len(), longest[0]].map(|places| places as f64 * width);
    let times = stops.len();
    Some(format!(
        "standstills after the throughput became steady: {times}; the longest, {at:.0} s into the run, lasted {lasts:.0} s"
    ))
}

/// Start of the level: the end of the rise, if enough of the run remains.
fn date_level(series: &Series, tail: &Tail, least: usize) -> f64 {
    let share = ((tail.rates.len() as f64 * LEAST_TAIL_SHARE).ceil() as usize).max(least);
    let periods = tail.period.map_or(0, |period| PERIODS as usize * period);
    let latest = tail.rates.len().saturating_sub(share.max(periods));
    // Noise shifts the end of a small rise.
    let dated_share = if tail.has_warm_up { DATED_SHARE } else { SLOW_SECOND };
    let from = tail.start.max(tail.find_risen(dated_share).min(latest)) as f64 * tail.width;
    // A value of the tail may merge slow buckets with others. The level begins after the slow ones.
    let first = (from / series.width_seconds).round() as usize;
    let is_slow = |bucket: &&Bucket| bucket.rate().is_some_and(|rate| rate < SLOW_SECOND * tail.level);
    let group = (tail.width / series.width_seconds) as usize - 1;
    from + series.buckets.iter().skip(first).take(group).take_while(is_slow).count() as f64 * series.width_seconds
}

fn describe(series: &Series, tail: &Tail, fitted: Result<Fit, &str>, reason: Reason, least: usize) -> Judgement {
    let verdict = reason.verdict;
    let no_fit = fitted.as_ref().err().map(|why| (*why).to_owned());
    let fit = fitted.ok();
    let is_level = matches!(verdict, Verdict::Steady | Verdict::Periodic);
    let curve = fit.as_ref().and_then(|fit| fit.curve().ok());
    let steady_tps = match verdict {
        Verdict::Steady => Some(tail.level),
        // The level of a periodic curve is the mean, dips included.
        Verdict::Periodic => Some(tail.rates[tail.start..].iter().sum::<f64>() / tail.len() as f64),
        // The level is known only if the fit gives an interval for the time of a cached transaction.
        Verdict::NotReached => {
            let is_known = fit.as_ref().is_some_and(|fit| fit.hit_seconds.low.is_some());
            curve.as_ref().filter(|_| is_known).map(WarmUp::steady_throughput)
        }
        Verdict::Degrading => None,
    };
    let mean_tps = series.mean_rate();
    let smooth = compute_running_median(&tail.rates, SMOOTHED);
    let reached = |share: f64| {
        let level = share * steady_tps?;
        let place = tail.rates.iter().zip(&smooth).position(|(rate, smooth)| rate.min(*smooth) >= level);
        let measured = place.map(|place| place as f64 * tail.width);
        let promised = || Some(curve.as_ref()?.seconds_to_share(share)?.max(series.seconds()));
        measured.or_else(|| if is_level { None } else { promised() })
    };
    let [to_50_seconds, to_90_seconds, to_95_seconds] = [0.5, 0.9, REACHED_SHARE].map(reached);
    let period = tail.period.filter(|_| verdict == Verdict::Periodic).map(|period| period as f64);
    let mut judgement = Judgement {
        verdict,
        reason: reason.sentence,
        undecided: reason.undecided,
        warmth: None,
        level_share: None,
        steady_from_seconds: is_level.then(|| date_level(series, tail, least)),
        level_lasts_seconds: period.map_or(least as f64, |period| PERIODS * period) * tail.width,
        period_seconds: period.map(|period| period * tail.width),
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
            let told = told_seconds(series, tail, least);
            [reached, told].into_iter().flatten().reduce(f64::max)
        }
        Verdict::Degrading => None,
    };
    judgement.should_have_run_seconds = needed.filter(|seconds| is_level || *seconds > series.seconds());
    judgement
}
