//! How far a rising curve has come: the shares of its final level that the way it rises allows, each with its probability.
//!
//! A warm-up comes to its end as T = Tc × (1 + a e^(-i/P)) does, or where the device's limit holds it back until nearly the
//! end, as T = Tc × (1 + (a e^(-i/P))⁴)^¼. Every share at the end, every P and both forms are held against the last part of
//! the curve, and weighed by how well the noise explains what is left.

use super::noise::Noise;

/// Stretches that are compared with the forms, at most.
const MOST_STRETCHES: usize = 60;

/// The part of the curve before this share of it says more of the first pages than of the last.
const FROM: f64 = 0.5;

/// By how much real curves differ from these forms, as a share.
const MISFIT: f64 = 0.015;

/// A stretch farther off than so many standard deviations counts as if it were this far.
const FARTHEST: f64 = 4.0;

/// Shares at the end, and P as shares of all transactions that were looked at. Slower rises than the last are plateaus to the
/// eye, about which other rules decide.
const SHARES: [f64; 14] = [0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.89, 0.92, 0.95, 0.97, 0.985, 0.995];
const PAGES: [f64; 16] = [0.02, 0.03, 0.045, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4, 0.55, 0.8, 1.2, 1.8, 2.7, 4.0, 8.0];

/// A level that is still rising has less than this share of the final one.
const UNFINISHED: f64 = 0.9;

/// Shares of the final level at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approach {
    /// The mean over all forms.
    pub share: f64,
    /// The probability that it is below 90 %.
    pub unfinished: f64,
}

/// Looks at the end of a curve. `logs` are logarithms of throughput as shares of the end's level, `done` the transactions
/// before the middle of each. P is at least `least_pages`.
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

/// How much less the stretches say than as many independent ones would, as a factor on the sum of squares.
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
