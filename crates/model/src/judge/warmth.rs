use super::judgement::Warmth;
use super::tail::{Noise, Tail};
use super::{Bucket, Series};
use crate::WARM_SHARE;

/// If a rise is unfinished with a probability above `CERTAIN`, the level is cold; above `LIKELY`, its warmth is
/// unknown.
const CERTAIN: f64 = 0.95;
const LIKELY: f64 = 0.35;

/// Tolerated fall of the reads per transaction between the tail's halves.
const READS_FALL: f64 = 0.15;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Floor {
    Warm,
    /// Constant reads per transaction.
    Reached(f64),
    Falling,
}

/// Device reads per transaction at the end. `None` if the series does not count them.
pub(super) fn read_floor(series: &Series, tail: &Tail) -> Option<Floor> {
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
        _ => Floor::Reached(after),
    })
}

pub(super) fn find_warmth(
    series: &Series,
    tail: &Tail,
    floor: Option<Floor>,
    pages: Option<f64>,
    late: bool,
) -> Warmth {
    let served = series.transactions() - series.transactions_until(tail.start_seconds());
    match floor {
        Some(Floor::Warm) => Warmth::known(true, "fewer than 1 % of its transactions read from the device"),
        Some(Floor::Falling) => Warmth::known(
            false,
            "device reads per transaction still decreased from the first to the second half of the steady part",
        ),
        Some(Floor::Reached(reads)) => {
            let evidence =
                format!("each transaction read {reads:.2} blocks from the device, as many at the end as before");
            match pages.is_some_and(|pages| served > TOLD_PAGES * pages) && !series.facts.has_warmer {
                true => Warmth {
                    is_warm: None,
                    evidence: format!("{evidence}, although the run was long enough to read all pages"),
                    would_tell: Some("whether the data fit into memory".to_owned()),
                },
                false => Warmth::known(false, evidence),
            }
        }
        None => find_unread_warmth(series, tail, pages, late),
    }
}

fn find_unread_warmth(series: &Series, tail: &Tail, pages: Option<f64>, late: bool) -> Warmth {
    let unknown = |evidence: String| Warmth::unknown(pages.is_some(), evidence);
    if series.facts.is_rate_limited {
        return unknown("the rate was limited, and a cold server could sustain it too".to_owned());
    }
    if series.facts.has_warmer {
        return unknown(
            "a warmer ran beside the load, so the curve alone does not show whether all data was cached".to_owned(),
        );
    }
    let least_pages = pages.unwrap_or(0.0) * OWN_RISE;
    let approach = find_approach(&tail.count_done(), &tail.logs, &tail.noise, least_pages);
    if approach.unfinished > LIKELY && !tail.has_leapt() {
        let ended = format!("that the run ended at {:.0} % of the warm throughput", 100.0 * approach.share);
        return match approach.unfinished > CERTAIN {
            true => Warmth::known(false, format!("the rise shows {ended}")),
            false => unknown(format!("the rise suggests {ended}")),
        };
    }
    // For a short time, a warm hot part and a slow rise of the rest look like a warm server.
    if late {
        return unknown(
            "throughput became level only in the run's second half: too late for a slow rise to show".to_owned(),
        );
    }
    let slow_seconds = tail.slow_until as f64 * tail.width;
    let has_risen = tail.has_warm_up && slow_seconds >= SLOW_START_SECONDS;
    let Some(pages) = pages else {
        let fast = find_like_memory(series, tail).filter(|_| !has_risen);
        return fast.unwrap_or_else(|| unknown("the number of pages that the workload uses is unknown".to_owned()));
    };
    let risen = series.transactions_until(tail.find_risen(RISEN_SHARE) as f64 * tail.width);
    // With P equally likely pages, a rise from share r to s of the level takes at least P ln(s ÷ r) transactions. A
    // faster rise comes from a hot part or another reader.
    if has_risen && !tail.has_leapt() && risen < OWN_RISE * pages * (RISEN_SHARE / tail.first_share).ln() {
        return unknown(format!(
            "throughput rose to its level within {risen:.0} transactions, too few to have read most of {pages:.0} pages: \
             the other pages are cold unless something else read them"
        ));
    }
    if let Some(fast) = find_like_memory(series, tail) {
        return fast;
    }
    // In i transactions, a cold server's throughput rises by about i ÷ P, which noise hides if P is large. `pages` only
    // estimates P, hence `TOLD_PAGES`.
    let transactions = series.transactions() - series.transactions_until(slow_seconds);
    let rise = &tail.rise_since_slow;
    let hidden_rise = (rise.change.max(0.0) + HIDDEN_ERRORS * rise.error).max(1e-3);
    let has_warmed = series.transactions_until(slow_seconds) >= pages;
    // A rise may come from a hot part, so 95 % of all pages must have been read.
    let could_read = !tail.has_warm_up || series.transactions() >= READ_PAGES * pages;
    match could_read && (has_warmed || transactions >= TOLD_PAGES * pages * hidden_rise) {
        true => Warmth::known(
            true,
            format!(
                "the run's {:.0} transactions were enough to read nearly all {pages:.0} pages, or to show that these \
                 were already cached",
                series.transactions()
            ),
        ),
        false => unknown(format!(
            "over {transactions:.0} transactions, the curve of a cold server with {pages:.0} pages would look equally flat"
        )),
    }
}

// ---- approach ----
//
// Late in a warm-up of P pages, transaction i takes T = Tc × (1 + a e^(-i/P)), at the device's limit T = Tc × (1 + (a
// e^(-i/P))⁴)^¼. Tc is the time of a transaction on a warm server, a is constant.
//
// All combinations of formula, P and Tc ÷ T at the run's end (the reached share of the warm throughput) are weighted by
// how well they fit the curve's last half.

const MOST_STRETCHES: usize = 60;

/// Ignored first share of the curve: it depends on how the first pages are read.
const FROM: f64 = 0.5;

/// Relative difference between real curves and the forms of the model.
const MISFIT: f64 = 0.015;

/// Clamps residuals, in standard deviations.
const FARTHEST: f64 = 4.0;

/// Tested values of the throughput at the run's end ÷ a warm server's throughput.
const SHARES: [f64; 14] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.89, 0.92, 0.95, 0.97, 0.985, 0.995];
/// Tested numbers of pages P ÷ transactions in the curve's last half. Other rules judge slower rises.
const PAGES: [f64; 16] = [0.02, 0.03, 0.045, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.55, 0.8, 1.2, 1.8, 2.7, 4.0, 8.0];

/// A rise is unfinished if it has reached less than this share of the warm throughput.
const UNFINISHED: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approach {
    /// Estimated share of the warm throughput that the run reached: mean of the tested shares, weighted by their
    /// probability.
    pub share: f64,
    /// Probability that this share is below `UNFINISHED`.
    pub unfinished: f64,
}

/// `logs`: logarithms of each interval's throughput relative to the final level. `done`: transactions until the middle
/// of each interval. Tests no P below `least_pages`, except the largest.
pub fn find_approach(done: &[f64], logs: &[f64], noise: &Noise, least_pages: f64) -> Approach {
    let from = (logs.len() as f64 * FROM) as usize;
    let group = (logs.len() - from).div_ceil(MOST_STRETCHES).max(1);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let ys: Vec<f64> = logs[from..].chunks_exact(group).map(mean).collect();
    let all = done.last().copied().unwrap_or(0.0) - done.get(from).copied().unwrap_or(0.0);
    let end = done.last().copied().unwrap_or(0.0);
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

/// Factor, at least 1, by which correlated noise increases the variance of the slope of a line fitted to means of
/// `group` values.
fn compute_inflation(noise: &Noise, group: usize, stretches: usize, sigma: f64) -> f64 {
    let middle = (stretches as f64 - 1.0) / 2.0;
    let line = |place: usize| (place / group) as f64 - middle;
    let weights: Vec<f64> = (0..stretches * group).map(|place| line(place) / group as f64).collect();
    let white = sigma * (0..stretches).map(|place| (place as f64 - middle).powi(2)).sum::<f64>().sqrt();
    (noise.error_of(&weights) / white.max(f64::MIN_POSITIVE)).powi(2).max(1.0)
}

fn weigh(ys: &[f64], form: &[f64], sigma: f64, inflation: f64) -> f64 {
    let level = ys.iter().zip(form).map(|(y, form)| y - form).sum::<f64>() / ys.len() as f64;
    let squares = ys.iter().zip(form).map(|(y, form)| ((y - form - level) / sigma).clamp(-FARTHEST, FARTHEST).powi(2));
    (-squares.sum::<f64>() / 2.0 / inflation).exp()
}

/// A faster transaction does not wait for a device: flash takes 0.1 ms a read, and an index lookup needs two.
const MEMORY_SECONDS: f64 = 0.15e-3;

/// Number of clients that can share a core without much waiting.
const CLIENTS_OF_CORES: f64 = 4.0;

/// A shorter slow start may be due to connections, catalogs and limiter bursts.
const SLOW_START_SECONDS: f64 = 10.0;

/// Number of standard errors by which a random value exceeds its mean once in 160 times.
const HIDDEN_ERRORS: f64 = 2.5;

/// Safety factor for the estimated number of pages that the workload uses.
const TOLD_PAGES: f64 = 1.5;

/// Requests per page that leave 5 % (e^-3) of the pages unread.
const READ_PAGES: f64 = 3.0;

const RISEN_SHARE: f64 = 0.8;

/// Read-ahead, and pages outside the table, can shorten a warm-up to this share of the minimum number of transactions.
const OWN_RISE: f64 = 0.5;

fn find_like_memory(series: &Series, tail: &Tail) -> Option<Warmth> {
    let clients = f64::from(series.facts.clients?);
    let seconds = clients / tail.level;
    let evidence = format!(
        "processors limited throughput: {clients} clients waited {:.3} ms per transaction, too short for device reads",
        1e3 * seconds
    );
    (seconds < MEMORY_SECONDS * (clients / CLIENTS_OF_CORES).max(1.0)).then(|| Warmth::known(true, evidence))
}
