//! Fits the closed form (Td, Tc, P) to a measured warm-up, in logarithms, so that cold and warm seconds count alike.
//! Tukey's biweight discounts stalls and outliers.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DVector, Dyn, Matrix3, OMatrix, U3, Vector3};
use serde::{Deserialize, Serialize};

use super::series::Series;
use super::tail::{compute_error_inflation, compute_robust_sigma};
use crate::{Error, WarmUp, compute_median};

/// A value with its 95 % interval. A bound of `None` is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Estimate {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Estimate {
    pub fn excludes(&self, value: f64) -> bool {
        self.low.is_some_and(|low| value < low) || self.high.is_some_and(|high| value > high)
    }
}

/// The fitted model (docs/model.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Fit {
    /// Td: duration of one client's transaction that reads from the device. If the number of clients is unknown, the
    /// time between transactions.
    pub cold_seconds: Estimate,
    /// Tc: duration of one client's transaction with cached pages.
    pub hit_seconds: Estimate,
    /// P: number of pages. The model assumes that the workload reads all pages equally often.
    pub pages: Estimate,
    /// Typical relative deviation of the throughput from the fit.
    pub residual_share: f64,
    /// Number of clients; 1 if unknown. Times are per client.
    pub clients: u32,
}

const MOST_BUCKETS: usize = 200;

/// Reweighting settles in four or five rounds.
const TRIAL_ROUNDS: usize = 2;
const ROUNDS: usize = 6;

/// Tukey's limit in standard deviations: 95 % efficient on normal noise.
const TUKEY: f64 = 4.685;

/// Bounds that differ from the value by more than this factor count as unknown.
const UNKNOWN_FACTOR: f64 = 30.0;

const INTERVAL: f64 = 1.96;

impl Fit {
    pub fn curve(&self) -> Result<WarmUp, Error> {
        let clients = f64::from(self.clients);
        WarmUp::simple(self.pages.value, self.cold_seconds.value / clients, self.hit_seconds.value / clients)
    }

    /// Whether `pages` is outside the fitted interval or, without one, differs by a factor of two.
    pub fn contradicts(&self, pages: f64) -> bool {
        self.pages.excludes(pages) || (self.pages.low.is_none() && !(0.5..2.0).contains(&(self.pages.value / pages)))
    }
}

/// `None` if the curve does not rise or no fit is close.
pub fn fit_warm_up(series: &Series) -> Option<Fit> {
    let points = read_points(&series.coarsened(MOST_BUCKETS));
    let total = points.last()?.to;
    let logs: Vec<f64> = points.iter().map(|point| point.log_seconds).collect();
    let quarter = (points.len() / 4).max(1);
    let first = compute_median(logs[..quarter.min(5)].to_vec())?.exp();
    let last = compute_median(logs[logs.len() - quarter..].to_vec())?.exp();
    if first <= last {
        return None;
    }
    // Fits with very different P are similarly good.
    let starts =
        [0.03, 0.1, 0.3, 1.0, 3.0].map(|share| Vector3::new(last.ln(), (first - last).ln(), (share * total).ln()));
    let begin = |start| Problem { points: &points, weights: vec![1.0; points.len()], parameters: start };
    let fits = starts.into_iter().filter_map(|start| reweigh(begin(start), TRIAL_ROUNDS));
    let (best, _) = fits.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let (problem, _) = reweigh(best, ROUNDS)?;
    describe(&problem, series.facts.clients.unwrap_or(1).max(1))
}

#[derive(Clone, Copy, Debug)]
struct Point {
    from: f64,
    to: f64,
    log_seconds: f64,
}

fn read_points(series: &Series) -> Vec<Point> {
    let mut done = 0.0;
    let mut points = Vec::new();
    let mut last_rate = None;
    for bucket in &series.buckets {
        let from = done;
        match bucket.rate().filter(|rate| *rate > 0.0) {
            Some(rate) => {
                // During gaps, the previous rate is assumed to continue.
                done += rate * series.width_seconds;
                last_rate = Some(rate);
                points.push(Point { from, to: done, log_seconds: -rate.ln() });
            }
            None if bucket.covered_seconds == 0.0 => done += last_rate.unwrap_or(0.0) * series.width_seconds,
            None => {}
        }
    }
    points
}

/// Parameters: (ln Tc, ln (Td − Tc), ln P).
#[derive(Clone, Debug)]
struct Problem<'a> {
    points: &'a [Point],
    weights: Vec<f64>,
    parameters: Vector3<f64>,
}

impl Problem<'_> {
    fn model(&self, point: &Point) -> (f64, [f64; 3]) {
        let [hit, extra, pages] = [0, 1, 2].map(|place| self.parameters[place].clamp(-200.0, 200.0).exp());
        let Point { from, to, .. } = *point;
        let (before, after) = ((-from / pages).exp(), (-to / pages).exp());
        // Mean of e^(-i/P) over the bucket, or its value at the start if the difference would cancel.
        let is_small = (to - from) < 1e-6 * pages;
        let mean = if is_small { before } else { pages * (before - after) / (to - from) };
        let by_pages = match is_small {
            true => mean * from / pages,
            false => ((pages + from) * before - (pages + to) * after) / (to - from),
        };
        (hit + extra * mean, [hit, extra * mean, extra * by_pages])
    }

    fn raw_residuals(&self) -> Vec<f64> {
        self.points.iter().map(|point| self.model(point).0.ln() - point.log_seconds).collect()
    }
}

impl LeastSquaresProblem<f64, Dyn, U3> for Problem<'_> {
    type ParameterStorage = Owned<f64, U3>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, U3>;

    fn set_params(&mut self, parameters: &Vector3<f64>) {
        self.parameters = *parameters;
    }

    fn params(&self) -> Vector3<f64> {
        self.parameters
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let residuals = self.raw_residuals();
        Some(DVector::from_iterator(residuals.len(), residuals.iter().zip(&self.weights).map(|(r, w)| r * w)))
    }

    fn jacobian(&self) -> Option<OMatrix<f64, Dyn, U3>> {
        let row = |(point, weight): (&Point, &f64)| {
            let (seconds, derivatives) = self.model(point);
            derivatives.map(|derivative| weight * derivative / seconds)
        };
        let rows = self.points.iter().zip(&self.weights).flat_map(row);
        Some(OMatrix::<f64, Dyn, U3>::from_row_iterator(self.points.len(), rows))
    }
}

/// Also returns the median absolute residual.
fn reweigh(mut problem: Problem<'_>, rounds: usize) -> Option<(Problem<'_>, f64)> {
    for _ in 0..rounds {
        let (fitted, report) = LevenbergMarquardt::new().minimize(problem);
        problem = fitted;
        if !report.objective_function.is_finite() {
            return None;
        }
        let residuals = problem.raw_residuals();
        let sigma = compute_robust_sigma(&residuals).max(1e-9);
        problem.weights = residuals.iter().map(|r| (1.0 - (r / (TUKEY * sigma)).powi(2)).max(0.0)).collect();
    }
    let error = compute_median(problem.raw_residuals().into_iter().map(f64::abs).collect())?;
    error.is_finite().then_some((problem, error))
}

fn describe(problem: &Problem<'_>, clients: u32) -> Option<Fit> {
    let residuals = problem.raw_residuals();
    let kept: Vec<f64> =
        residuals.iter().zip(&problem.weights).filter(|(_, weight)| **weight > 0.0).map(|(r, _)| *r).collect();
    let sigma = (kept.iter().map(|r| r * r).sum::<f64>() / kept.len().saturating_sub(3).max(1) as f64).sqrt();
    let jacobian = problem.jacobian()?;
    let normal: Matrix3<f64> = jacobian.tr_mul(&jacobian);
    let covariance = normal.try_inverse().unwrap_or_else(|| Matrix3::from_element(f64::INFINITY));
    let error = |variance: f64| variance.max(0.0).sqrt() * sigma * compute_error_inflation(&kept) * INTERVAL;
    let [hit, extra, pages] = [0, 1, 2].map(|place| problem.parameters[place].exp());
    // If the run ended before it was warm, Tc may be fitted as almost 0.
    if !hit.is_finite() || !extra.is_normal() || !pages.is_normal() {
        return None;
    }
    // Variance of ln Td, where Td = hit + extra.
    let gradient = Vector3::new(hit / (hit + extra), extra / (hit + extra), 0.0);
    let cold_variance = (gradient.transpose() * covariance * gradient)[(0, 0)];
    let scale = f64::from(clients);
    // Several clients at a device's limit warm up more steeply than the closed form. The scatter then underestimates
    // the error.
    let of_one_client = |found: Estimate| if clients > 1 { Estimate { low: None, high: None, ..found } } else { found };
    Some(Fit {
        cold_seconds: of_one_client(estimate((hit + extra) * scale, error(cold_variance))),
        hit_seconds: estimate(hit * scale, error(covariance[(0, 0)])),
        pages: of_one_client(estimate(pages, error(covariance[(2, 2)]))),
        residual_share: sigma,
        clients,
    })
}

fn estimate(value: f64, log_error: f64) -> Estimate {
    let factor = log_error.exp();
    let is_known = factor < UNKNOWN_FACTOR;
    Estimate { value, low: is_known.then_some(value / factor), high: is_known.then_some(value * factor) }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{Noise, Shape, make_series};
    use super::*;

    fn holds(estimate: Estimate, truth: f64, share: f64) -> bool {
        (estimate.value / truth - 1.0).abs() < share
    }

    #[test]
    fn finds_the_parameters_of_the_source() {
        let curve = WarmUp::simple(191_360.0, 4.7e-3, 0.22e-3).unwrap();
        let series = make_series(Shape::Warming(&curve), 1800, Noise::none(), 1);
        let fit = fit_warm_up(&series).unwrap();
        assert!(holds(fit.pages, 191_360.0, 0.01) && holds(fit.cold_seconds, 4.7e-3, 0.01), "{fit:?}");
        assert!(holds(fit.hit_seconds, 0.22e-3, 0.01) && fit.residual_share < 0.01, "{fit:?}");
    }

    #[test]
    fn noise_and_stalls_widen_the_interval_and_move_little() {
        let curve = WarmUp::simple(50_000.0, 4.7e-3, 0.22e-3).unwrap();
        let noise = Noise { sigma: 0.04, rho: 0.5, stalls_per_second: 0.03 };
        for seed in 0..20 {
            let fit = fit_warm_up(&make_series(Shape::Warming(&curve), 600, noise, seed)).unwrap();
            assert!(holds(fit.pages, 50_000.0, 0.1) && holds(fit.hit_seconds, 0.22e-3, 0.05), "{fit:?}");
        }
    }

    #[test]
    fn intervals_of_95_percent_hold_the_truth_in_nine_of_ten_fits() {
        const FITS: u64 = 100;
        let truth = [4.7e-3, 0.22e-3, 50_000.0];
        let curve = WarmUp::simple(truth[2], truth[0], truth[1]).unwrap();
        for (sigma, rho, stalls_per_second) in [(0.02, 0.0, 0.0), (0.04, 0.5, 0.03), (0.1, 0.8, 0.03)] {
            let mut held = [0; 3];
            for seed in 0..FITS {
                let noise = Noise { sigma, rho, stalls_per_second };
                let fit = fit_warm_up(&make_series(Shape::Warming(&curve), 600, noise, seed)).unwrap();
                let estimates = [fit.cold_seconds, fit.hit_seconds, fit.pages];
                for ((estimate, truth), held) in estimates.iter().zip(truth).zip(&mut held) {
                    *held += u64::from(!estimate.excludes(truth) && estimate.low.is_some());
                }
            }
            assert!(held.iter().all(|held| *held >= FITS * 9 / 10), "{sigma} {rho}: {held:?} of {FITS}");
        }
    }

    #[test]
    fn of_several_clients_the_pages_have_no_interval() {
        let curve = WarmUp::simple(50_000.0, 4.7e-3, 0.22e-3).unwrap();
        let mut series =
            make_series(Shape::Warming(&curve), 600, Noise { sigma: 0.02, rho: 0.3, stalls_per_second: 0.0 }, 1);
        series.facts.clients = Some(8);
        let fit = fit_warm_up(&series).unwrap();
        assert!(fit.pages.low.is_none() && fit.cold_seconds.high.is_none(), "{fit:?}");
        assert!(fit.contradicts(3.0 * fit.pages.value) && !fit.contradicts(1.2 * fit.pages.value));
    }

    #[test]
    fn what_was_not_reached_is_not_known() {
        let curve = WarmUp::simple(191_360.0, 4.7e-3, 0.22e-3).unwrap();
        let noise = Noise { sigma: 0.03, rho: 0.3, stalls_per_second: 0.0 };
        let fit = fit_warm_up(&make_series(Shape::Warming(&curve), 200, noise, 3)).unwrap();
        assert!(holds(fit.cold_seconds, 4.7e-3, 0.1), "{fit:?}");
        let hit = fit.hit_seconds;
        assert!(hit.low.is_none_or(|low| hit.high.unwrap() / low > 2.0), "{fit:?}");
    }

    #[test]
    fn a_warm_run_has_no_warm_up() {
        let series = make_series(Shape::Flat(5000.0), 300, Noise::none(), 1);
        assert_eq!(fit_warm_up(&series), None);
    }

    #[test]
    fn times_are_a_clients_own() {
        let curve = WarmUp::simple(50_000.0, 4.7e-3, 0.22e-3).unwrap();
        let mut series = make_series(Shape::Warming(&curve), 600, Noise::none(), 1);
        series.facts.clients = Some(8);
        let fit = fit_warm_up(&series).unwrap();
        assert!(holds(fit.hit_seconds, 8.0 * 0.22e-3, 0.02), "{fit:?}");
        assert!((fit.curve().unwrap().steady_throughput() * 0.22e-3 - 1.0).abs() < 0.02);
    }
}
