//! The noise of a curve, estimated from the curve itself: by how much means over stretches of it differ by chance.
//!
//! A warm-up only rises. So what falls in a curve is noise, and noise that is as likely to rise as to fall is measured by its
//! falls alone, while the curve rises. Where a fall is to be judged, the rises measure it.

/// Correlation times of the parts that the noise is put together from, in values. The first part has none.
const TIMES: [f64; 6] = [0.0, 2.0, 6.0, 18.0, 54.0, 162.0];

/// Rounds of the estimate. It changes by less than a hundredth after half of them.
const ROUNDS: usize = 60;

/// Values farther than so many standard deviations from their neighbours' median are drawn in.
const DRAWN_IN: f64 = 3.5;

/// The least standard deviation of a value. Counts of transactions are no smoother.
const LEAST_SIGMA: f64 = 2e-3;

use crate::model::statistics::{compute_median, compute_robust_sigma};

/// Which movements of the curve are certainly noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Movement {
    Falls,
    Rises,
}

/// A stationary noise: the sum of first-order processes with fixed correlation times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Of each part.
    variances: [f64; TIMES.len()],
}

impl Noise {
    /// Measures the noise of `values`, from differences between means of neighbouring stretches of 1, 2, 4, ... values. The
    /// parts are those that make such differences the most likely.
    pub fn measure(values: &[f64], movement: Movement) -> Noise {
        let sign = if movement == Movement::Falls { -1.0 } else { 1.0 };
        let mut seen = Vec::new();
        let mut length = 1;
        while 3 * length <= values.len() {
            let differences = compute_differences(values, length);
            let squares = differences.iter().map(|difference| (difference * sign).max(0.0).powi(2)).sum::<f64>();
            let parts = Noise::unit_parts().map(|part| part.error_of(&contrast(length, length)).powi(2));
            let weight = values.len() as f64 / (2 * length) as f64;
            seen.push((2.0 * squares / differences.len() as f64, weight, parts));
            length *= 2;
        }
        let begin = seen.first().map_or(0.0, |(square, ..)| square / 2.0).max(LEAST_SIGMA.powi(2));
        let mut variances = [begin / TIMES.len() as f64; TIMES.len()];
        for _ in 0..ROUNDS {
            // Multiplicative steps towards the greatest likelihood of gamma-distributed squares.
            let expected: Vec<f64> = seen.iter().map(|(.., parts)| sum_of(&variances, parts)).collect();
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
        variances[0] = variances[0].max(LEAST_SIGMA.powi(2));
        Noise { variances }
    }

    fn unit_parts() -> [Noise; TIMES.len()] {
        std::array::from_fn(|place| {
            let mut variances = [0.0; TIMES.len()];
            variances[place] = 1.0;
            Noise { variances }
        })
    }

    /// Standard deviation of the sum of values with these weights.
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

    /// Standard deviation of the mean of so many values, 1 or more.
    pub fn level_error(&self, values: usize) -> f64 {
        self.error_of(&vec![1.0 / values as f64; values])
    }

    /// Standard deviation of the difference between means of neighbouring stretches of so many values.
    pub fn step_error(&self, before: usize, after: usize) -> f64 {
        self.error_of(&contrast(before, after))
    }
}

/// Weights of the mean of the last `after` values minus the mean of those before.
fn contrast(before: usize, after: usize) -> Vec<f64> {
    let mut weights = vec![-1.0 / before as f64; before];
    weights.resize(before + after, 1.0 / after as f64);
    weights
}

fn sum_of(variances: &[f64; TIMES.len()], parts: &[f64; TIMES.len()]) -> f64 {
    variances.iter().zip(parts).map(|(variance, part)| variance * part).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Differences between the means of all pairs of neighbouring stretches of `length` values.
fn compute_differences(values: &[f64], length: usize) -> Vec<f64> {
    let mut sums = vec![0.0];
    for value in values {
        sums.push(sums[sums.len() - 1] + value);
    }
    let at = |from: usize| (sums[from + 2 * length] - 2.0 * sums[from + length] + sums[from]) / length as f64;
    (0..=values.len() - 2 * length).map(at).collect()
}

/// The values without single dips and peaks: each is drawn towards the median of nine neighbours.
pub fn draw_in(values: &[f64]) -> Vec<f64> {
    const HALF: usize = 4;
    let window = |place: usize| &values[place.saturating_sub(HALF)..(place + HALF + 1).min(values.len())];
    let middles: Vec<f64> =
        (0..values.len()).map(|place| compute_median(window(place).to_vec()).unwrap_or(0.0)).collect();
    let away: Vec<f64> = values.iter().zip(&middles).map(|(value, middle)| value - middle).collect();
    let reach = DRAWN_IN * compute_robust_sigma(&away).max(LEAST_SIGMA);
    middles.iter().zip(&away).map(|(middle, away)| middle + away.clamp(-reach, reach)).collect()
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    /// First-order noise of a standard deviation of 0.1.
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

    /// The median over many draws of what is estimated for the mean of 50 values.
    fn estimate(rho: f64, slope: f64) -> f64 {
        let of = |seed: u64| {
            let values: Vec<f64> =
                noise(400, rho, seed).iter().enumerate().map(|(place, value)| value + slope * place as f64).collect();
            Noise::measure(&values, Movement::Falls).level_error(50)
        };
        compute_median((0..40).map(of).collect()).unwrap()
    }

    #[test]
    fn the_error_of_a_mean_is_that_of_the_noise() {
        // √((1 + ρ) ÷ (1 − ρ)) × σ ÷ √n, for n far above the correlation time.
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
