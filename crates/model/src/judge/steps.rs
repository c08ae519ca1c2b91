//! From the curve to the verdict.

use super::judgement::{LEAST_TAIL_SHARE, Reason, percent};
use super::tail::{DEEPEST, Noise, SAME_LEVEL, Tail, Trend, compute_running_median};
use super::{Bucket, Fit, Series, fit_warm_up};
use super::{Judgement, Undecided, Verdict};
use crate::WARM_SHARE;

/// The steady part must have so many values.
const LEAST_TAIL_VALUES: usize = 10;

/// Where reads prove that it is warm, fewer values are enough.
const PROVEN_TAIL_VALUES: usize = 5;

/// A tail is steady if it falls by less than this, or rises by less than the same level; larger changes must exceed
/// this many standard errors.
const LEAST_FALL: f64 = 0.03;
const ERRORS: f64 = 3.0;

/// Standard errors on either side of a 95 % interval, and its least share of the level. The noise is measured from the
/// judged curve, which hardly shows slow noise: 1.96 held the true level in 77 % of the warm curves of lab/verdicts,
/// these in 92 to 96 %.
const INTERVAL: f64 = 4.5;
const LEAST_INTERVAL: f64 = 0.005;

/// A level whose noise is a larger share of it cannot be told.
const TOLD_LEVEL: f64 = 1.0;

/// The same where reads prove it warm. (Real runs beside busy neighbours reach 2.0.)
const PROVEN_LEVEL: f64 = 2.3;

/// The most values for which a level can be told.
const MOST_TOLD_VALUES: usize = 20_000;

/// Above this probability a rise is not over.
const LIKELY: f64 = 0.35;

/// Largest last rise of a finished warm-up.
const LEVELLED_RISE: f64 = 0.08;

/// A rise is over if the tail's second half rises by less than this, or this part of the tail's rise (a straight one
/// has half there), or within these errors.
const LATE_RISE: f64 = 0.01;
const LATE_SHARE: f64 = 0.33;
const LATE_ERRORS: f64 = 2.0;

/// A lower level is the steady one from this share of the run on.
const NEW_LEVEL_SHARE: f64 = 0.5;

/// A period shows when it is seen so often.
const PERIODS: f64 = 3.0;

/// Share of the steady throughput at the start of steady, and by the fit at the end.
const REACHED_SHARE: f64 = 0.95;

/// Share of the level that dates a rise, and below which a second is slow.
const DATED_SHARE: f64 = 0.98;
const SLOW_SECOND: f64 = 0.92;

/// Reads per transaction at their floor fall at most by this share between the tail's halves.
const READS_FALL: f64 = 0.15;

/// A longer stall at the end does not recover.
const SILENT_SECONDS: f64 = 5.0;

/// Judges a run of a workload with this number of pages, if known.
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

/// The first value at a level whose running median is there too: one lucky second is no arrival.
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
        let sentence = format!("not one transaction was served in its {:.0} s", series.seconds());
        return Reason::seen(Verdict::NotReached, sentence);
    }
    let silent = silent_seconds(series, tail);
    if silent >= SILENT_SECONDS && tail.period.is_none() {
        return Reason::seen(Verdict::Degrading, format!("it served next to nothing in its last {silent:.0} s"));
    }
    if let Some(faster) = tail.faster_before.filter(|_| falls || tail.share() < NEW_LEVEL_SHARE) {
        return Reason::seen(Verdict::Degrading, format!("it was {} faster before", percent(faster - 1.0)));
    }
    if reads == Some(Floor::Falling) {
        let sentence = "its reads from the device still fell in the second half of its level";
        return Reason::seen(Verdict::NotReached, sentence);
    }
    if is_short {
        return Reason::too_short();
    }
    let seconds = tail.trend_seconds;
    if rises {
        let Trend { change, error } = tail.trend;
        return Reason::moved(Verdict::NotReached, "still rose", change, INTERVAL * error, seconds);
    }
    if falls {
        let Trend { change, error } = tail.fall;
        // The trend is one of logarithms.
        return Reason::moved(Verdict::Degrading, "fell", -change.exp_m1(), INTERVAL * error, seconds);
    }
    if series.facts.is_rate_limited && reads != Some(Floor::Warm) {
        return Reason::rate_limited();
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
        let sentence = format!(
            "by the way it rose it was at {} of its level, and below 90 % with a probability of {}",
            percent(approach.share),
            percent(approach.unfinished)
        );
        return Reason::seen(Verdict::NotReached, sentence);
    }
    decide_level(tail, TOLD_LEVEL)
}

fn decide_level(tail: &Tail, told: f64) -> Reason {
    let error = level_error(tail, tail.len());
    match tail.period {
        _ if error > told => {
            let sentence = format!("its level cannot be told from its noise (±{})", percent(error));
            Reason::open(Undecided::Noisy, sentence)
        }
        Some(_) => Reason::seen(Verdict::Periodic, "the same dips come back again and again"),
        None => Reason::seen(Verdict::Steady, format!("it kept its level until the end (±{:.1} %)", 100.0 * error)),
    }
}

/// The 95 % interval of a level of so many values.
fn level_error(tail: &Tail, values: usize) -> f64 {
    (INTERVAL * tail.noise.level_error(values)).hypot(LEAST_INTERVAL)
}

/// Seconds after which the tail's level would be long enough, and distinguishable from noise.
fn told_seconds(tail: &Tail, reads: Option<Floor>) -> Option<f64> {
    let told = if reads == Some(Floor::Warm) { PROVEN_LEVEL } else { TOLD_LEVEL };
    let longer = |values: &usize| Some(values + values / 10 + 1).filter(|values| *values <= MOST_TOLD_VALUES);
    let mut lengths = std::iter::successors(Some(tail.len().max(least_values(reads))), longer);
    let values = lengths.find(|values| level_error(tail, *values) <= told)?;
    let (start, lasts) = (tail.start_seconds(), values as f64 * tail.width);
    Some((start + lasts).max(start / (1.0 - LEAST_TAIL_SHARE)))
}

/// A finished warm-up arrives from a few percent below; an unfinished rise goes on in the second half.
fn has_levelled_off(tail: &Tail) -> bool {
    let Trend { change, .. } = tail.trend;
    change < LEVELLED_RISE && !tail.late_trend.exceeds(LATE_RISE.max(LATE_SHARE * change), LATE_ERRORS)
}

/// Seconds of an unfinished stall at the end.
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
        ..WARM_SHARE => Floor::Warm,
        _ if after < (1.0 - READS_FALL) * before => Floor::Falling,
        _ => Floor::Reached,
    })
}

/// The start of steady: where it has risen to its level, if enough is left.
fn date_level(series: &Series, tail: &Tail, least: usize) -> f64 {
    let share = ((tail.rates.len() as f64 * LEAST_TAIL_SHARE).ceil() as usize).max(least);
    let periods = tail.period.map_or(0, |period| PERIODS as usize * period);
    let latest = tail.rates.len().saturating_sub(share.max(periods));
    // Noise moves the start of a small rise.
    let dated_share = if tail.has_warm_up { DATED_SHARE } else { SLOW_SECOND };
    let from = tail.start.max(tail.find_risen(dated_share).min(latest)) as f64 * tail.width;
    // Of several seconds that are one value, the first may have been slow.
    let first = (from / series.width_seconds).round() as usize;
    let is_slow = |bucket: &&Bucket| bucket.rate().is_some_and(|rate| rate < SLOW_SECOND * tail.level);
    let group = (tail.width / series.width_seconds) as usize - 1;
    from + series.buckets.iter().skip(first).take(group).take_while(is_slow).count() as f64 * series.width_seconds
}

fn describe(series: &Series, tail: &Tail, fitted: Result<Fit, &str>, reason: Reason) -> Judgement {
    let verdict = reason.verdict;
    let no_fit = fitted.as_ref().err().map(|why| (*why).to_owned());
    let fit = fitted.ok();
    let is_level = matches!(verdict, Verdict::Steady | Verdict::Periodic);
    let curve = fit.as_ref().and_then(|fit| fit.curve().ok());
    let steady_tps = match verdict {
        Verdict::Steady => Some(tail.level),
        // With its dips, for they belong to it.
        Verdict::Periodic => Some(tail.rates[tail.start..].iter().sum::<f64>() / tail.len() as f64),
        // The fit's promise, where the measurement bounds it.
        Verdict::NotReached => fit
            .as_ref()
            .filter(|fit| fit.hit_seconds.low.is_some())
            .and(curve.as_ref())
            .map(|curve| curve.steady_throughput()),
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
        reason: reason.sentence,
        undecided: reason.undecided,
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

// ---- approach ----
//
// How far a rising curve has come: a probability for each share of its final level.
//
// A warm-up ends as T = Tc × (1 + a e^(-i/P)), or, held back by the device's limit, as T = Tc × (1 + (a e^(-i/P))⁴)^¼.
// Every share, every P and both forms are compared with the last part of the curve and weighed by the noise.

/// Stretches that are compared with the forms, at most.
const MOST_STRETCHES: usize = 60;

/// The curve before this share says more of the first pages than of the last.
const FROM: f64 = 0.5;

/// By how much real curves differ from these forms, as a share.
const MISFIT: f64 = 0.015;

/// Residuals beyond so many standard deviations are clamped.
const FARTHEST: f64 = 4.0;

/// Tried shares at the end, and P as shares of the transactions. Slower rises look like plateaus, which other rules
/// judge.
const SHARES: [f64; 14] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.89, 0.92, 0.95, 0.97, 0.985, 0.995];
const PAGES: [f64; 16] = [0.02, 0.03, 0.045, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.55, 0.8, 1.2, 1.8, 2.7, 4.0, 8.0];

/// A rising level is below this share of the final one.
const UNFINISHED: f64 = 0.9;

/// Shares of the final level at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approach {
    /// The mean over all forms.
    pub share: f64,
    /// The probability that it is below 90 %.
    pub unfinished: f64,
}

/// Judges the end of a curve. `logs` are logarithms of throughput relative to the end's level, `done` the transactions
/// up to the middle of each; P is at least `least_pages`.
pub fn find_approach(done: &[f64], logs: &[f64], noise: &Noise, least_pages: f64) -> Approach {
    let from = (logs.len() as f64 * FROM) as usize;
    let group = (logs.len() - from).div_ceil(MOST_STRETCHES).max(1);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let ys: Vec<f64> = logs[from..].chunks_exact(group).map(mean).collect();
    let all = done.last().copied().unwrap_or(0.0) - done.get(from).copied().unwrap_or(0.0);
    let end = done.last().copied().unwrap_or(0.0);
    // Transactions that were still to come, as shares of all.
    let left: Vec<f64> = done[from..].chunks_exact(group).map(|chunk| (end - mean(chunk)) / all.max(1.0)).collect();
    let sigma = noise.level_error(group).hypot(MISFIT);
    let inflation = compute_inflation(noise, group, ys.len(), sigma);
    let mut weighed = vec![(1.0, 0.5 * weigh(&ys, &vec![0.0; ys.len()], sigma, inflation))];
    let last = PAGES[PAGES.len() - 1];
    let pages: Vec<f64> = PAGES.into_iter().filter(|pages| *pages >= (least_pages / all.max(1.0)).min(last)).collect();
    let prior = 0.5 / (2 * SHARES.len() * pages.len()) as f64;
    for share in SHARES {
        for (power, pages) in [1.0, 4.0].into_iter().flat_map(|power| pages.iter().map(move |pages| (power, pages))) {
            let ratio = 1.0 / f64::powf(share, power) - 1.0;
            let form: Vec<f64> =
                left.iter().map(|left| -(ratio * (power * left / pages).min(600.0).exp()).ln_1p() / power).collect();
            weighed.push((share, prior * weigh(&ys, &form, sigma, inflation)));
        }
    }
    let total: f64 = weighed.iter().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE);
    let unfinished = weighed.iter().filter(|(share, _)| *share < UNFINISHED).map(|(_, weight)| weight).sum::<f64>();
    let share = weighed.iter().map(|(share, weight)| share * weight).sum::<f64>();
    Approach { share: share / total, unfinished: unfinished / total }
}

/// By how much dependence of the stretches inflates the sum of squares.
fn compute_inflation(noise: &Noise, group: usize, stretches: usize, sigma: f64) -> f64 {
    let middle = (stretches as f64 - 1.0) / 2.0;
    let line = |place: usize| (place / group) as f64 - middle;
    let weights: Vec<f64> = (0..stretches * group).map(|place| line(place) / group as f64).collect();
    let white = sigma * (0..stretches).map(|place| (place as f64 - middle).powi(2)).sum::<f64>().sqrt();
    (noise.error_of(&weights) / white.max(f64::MIN_POSITIVE)).powi(2).max(1.0)
}

/// The likelihood of the curve when it is this form times a level.
fn weigh(ys: &[f64], form: &[f64], sigma: f64, inflation: f64) -> f64 {
    let level = ys.iter().zip(form).map(|(y, form)| y - form).sum::<f64>() / ys.len() as f64;
    let squares = ys.iter().zip(form).map(|(y, form)| ((y - form - level) / sigma).clamp(-FARTHEST, FARTHEST).powi(2));
    (-squares.sum::<f64>() / 2.0 / inflation).exp()
}

// ---- plateau ----
//
// Contradictions to a warm level: too few transactions to read the pages, or to tell a cold plateau.

/// A faster transaction hardly waits for a device: flash takes 0.1 ms a read, and an index lookup needs two.
const MEMORY_SECONDS: f64 = 0.15e-3;

/// Clients that share a core without much waiting.
const CLIENTS_OF_CORES: f64 = 4.0;

/// A shorter slow start is one of connections, catalogs and limiter bursts, unless the number of pages says more.
const SLOW_START_SECONDS: f64 = 10.0;

/// Pages of a hot part of unknown size: 64 GiB of 8 kB. A larger one that exceeds memory never warms up.
const MOST_PAGES: f64 = (64_u64 << 30) as f64 / 8192.0;

/// A hidden rise exceeds the seen one by more standard errors once in 160 times.
const HIDDEN_ERRORS: f64 = 2.5;

/// With more noise, as a share of the level, flatness says nothing.
const TOLD_RISE: f64 = 1.0;

/// Times the pages that are told, a plateau has to tell of.
const TOLD_PAGES: f64 = 1.5;

/// Share of the level by which a rise is measured, past most of it but visible in noise.
const RISEN_SHARE: f64 = 0.8;

/// Least share of the minimal transactions of an own rise; read-ahead and other pages explain as little as this.
pub(super) const OWN_RISE: f64 = 0.5;

/// Why the final level may be a cold server's, if so.
pub(super) fn suspect_cold(series: &Series, tail: &Tail, pages: Option<f64>) -> Option<Reason> {
    let of_rest = pages.filter(|_| !series.facts.has_warmer).and_then(|pages| suspect_cold_rest(series, tail, pages));
    of_rest.or_else(|| if has_warmed(series, tail, pages) { None } else { suspect_cold_plateau(series, tail, pages) })
}

/// Was the slow start long enough to read the pages? A cold server may jump to its plateau too.
fn has_warmed(series: &Series, tail: &Tail, pages: Option<f64>) -> bool {
    let seconds = tail.slow_until as f64 * tail.width;
    match pages {
        Some(pages) => series.transactions_until(seconds) >= pages,
        None => seconds >= SLOW_START_SECONDS,
    }
}

/// Did the rise take too few transactions? With P equally likely pages throughput rises from a share r of the level to
/// a share s in at least P ln(s ÷ r) transactions, even where the device's limit decides. A faster rise was that of a
/// hot part, and the rest is cold.
fn suspect_cold_rest(series: &Series, tail: &Tail, pages: f64) -> Option<Reason> {
    if !tail.has_warm_up || tail.slow_until as f64 * tail.width < SLOW_START_SECONDS || tail.has_leapt() {
        return None;
    }
    let risen = series.transactions_until(tail.find_risen(RISEN_SHARE) as f64 * tail.width);
    let needed = OWN_RISE * pages * (RISEN_SHARE / tail.first_share).ln();
    (risen < needed).then(|| {
        let sentence = format!(
            "it rose to its level within {risen:.0} transactions, too few to have read most of {pages:.0} pages: \
             the rest may be cold"
        );
        Reason::seen(Verdict::NotReached, sentence)
    })
}

/// Could a run that was flat from its start have been cold all the time? Throughput of a cold server rises by about i ÷
/// P in i transactions, which a large P hides. It is believed only when the largest rise that the noise can hide means
/// more than `pages`. Beside a warmer nothing is believed: the device's remaining capacity may be the limit.
fn suspect_cold_plateau(series: &Series, tail: &Tail, pages: Option<f64>) -> Option<Reason> {
    if series.facts.has_warmer {
        return Some(Reason::seen(Verdict::NotReached, "it still read from the device, beside a warmer"));
    }
    if is_like_memory(series, tail) {
        return None;
    }
    let rise = &tail.rise_since_slow;
    let hidden_rise = (rise.change.max(0.0) + HIDDEN_ERRORS * rise.error).max(1e-3);
    let transactions = series.transactions() - series.transactions_until(tail.slow_until as f64 * tail.width);
    let least_pages = transactions / hidden_rise;
    // The told number is inexact, and a visible rise may be a cold server's.
    let most_pages = pages.map_or(MOST_PAGES, |pages| TOLD_PAGES * pages);
    (least_pages < most_pages).then(|| match hidden_rise > TOLD_RISE {
        true => Reason::hidden(hidden_rise),
        false => Reason::flat(pages, tail.has_warm_up, transactions, transactions / most_pages, hidden_rise),
    })
}

/// Is it faster than a device?
fn is_like_memory(series: &Series, tail: &Tail) -> bool {
    series.facts.clients.is_some_and(|clients| {
        let clients = f64::from(clients);
        clients / tail.level < MEMORY_SECONDS * (clients / CLIENTS_OF_CORES).max(1.0)
    })
}
