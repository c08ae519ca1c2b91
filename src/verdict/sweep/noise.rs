//! What equal sides of a sweep differ by: the noise that any difference of it stands beside.

use std::collections::BTreeMap;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use serde::Serialize;

use super::metric::Metric;
use super::pairs::{PairedCell, Selection, Side, pair_cells};
use crate::study::{Error, SIDE, SIDES, SweepRun, SweepTrial};
use crate::verdict::significance::{compute_p, compute_smallest_detectable};
use crate::verdict::statistics::Ratio;

/// Pairs of the studies that are drawn from those that were measured, and how many are drawn.
const STUDY_PAIRS: usize = 8;
const STUDIES: usize = 1000;

/// The level at which such a study would call equal sides different.
const LEVEL: f64 = 0.05;

/// A' held against A, which are the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Noise {
    pub metric: Metric,
    pub cells: Vec<NoiseCell>,
    /// The largest of the cells.
    pub floor: Option<f64>,
}

/// One point, measured twice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct NoiseCell {
    /// The point by what varies beside the side.
    pub label: String,
    /// A' ÷ A over the pairs, each of one block.
    pub ratio: Ratio,
    /// How often chance alone makes a difference as large.
    pub p: f64,
    /// The ratio, above 1, that as many pairs of equal sides may reach: the end of the interval that is farther from 1.
    /// `None` of fewer than three.
    pub floor: Option<f64>,
    /// What as many pairs find in 80 % of studies.
    pub smallest_detectable: Option<f64>,
    /// Of 1000 studies of eight of these pairs the share that finds a difference at p ≤ 0.05, though there is none; `None`
    /// without more than eight.
    pub false_share: Option<f64>,
}

/// Does the sweep measure each point twice?
pub fn is_twice(run: &SweepRun) -> bool {
    run.varied.iter().any(|axis| axis == SIDE)
}

/// The noise of every figure; nothing when the sweep does not measure its points twice, or no trial of one side has ended.
pub fn compute_noises(run: &SweepRun, trials: &[SweepTrial]) -> Vec<Noise> {
    let noises = Metric::ALL.iter().copied().filter_map(|metric| compute_noise(run, trials, metric).ok());
    noises.filter(|noise| !noise.cells.is_empty()).collect()
}

/// Compares the sides of a sweep that measures every point twice.
///
/// # Errors
/// When the sweep does not, or no trial of one side has ended.
pub fn compute_noise(run: &SweepRun, trials: &[SweepTrial], metric: Metric) -> Result<Noise, Error> {
    if !is_twice(run) {
        return Err(Error::Selection(format!("{} does not measure its points twice: bench sweep --aa does", run.id)));
    }
    let [a, b] = SIDES.map(|side| Selection {
        sweep: Some(run.id.clone()),
        values: BTreeMap::from([(SIDE.to_owned(), side.to_owned())]),
    });
    let side = |selection| Side { selection, run, trials };
    let cells: Vec<NoiseCell> = pair_cells(side(&a), side(&b), metric)?.iter().filter_map(compute_cell).collect();
    let floor = cells.iter().filter_map(|cell| cell.floor).reduce(f64::max);
    Ok(Noise { metric, cells, floor })
}

fn compute_cell(cell: &PairedCell) -> Option<NoiseCell> {
    let (ratio, logs) = (cell.ratio()?, cell.logs());
    Some(NoiseCell {
        label: cell.label.clone(),
        p: compute_p(&logs),
        floor: compute_floor(&ratio),
        smallest_detectable: compute_smallest_detectable(&logs),
        false_share: compute_false_share(&logs),
        ratio,
    })
}

fn compute_floor(ratio: &Ratio) -> Option<f64> {
    let interval = ratio.interval?;
    Some(interval.at_least.ln().abs().max(interval.at_most?.ln().abs()).exp())
}

fn compute_false_share(logs: &[f64]) -> Option<f64> {
    if logs.len() <= STUDY_PAIRS {
        return None;
    }
    let mut random = StdRng::seed_from_u64(0);
    let mut is_found = || {
        let study: Vec<f64> = sample(&mut random, logs.len(), STUDY_PAIRS).iter().map(|place| logs[place]).collect();
        compute_p(&study) <= LEVEL
    };
    Some((0..STUDIES).filter(|_| is_found()).count() as f64 / STUDIES as f64)
}

#[cfg(test)]
mod tests {
    use rand::Rng as _;

    use super::super::pairs::Pair;
    use super::*;
    use crate::verdict::statistics::Limits;

    fn cell(logs: &[f64]) -> NoiseCell {
        let pair =
            |log: &f64| Pair { b: Limits::exactly(log.exp()), a: Limits::exactly(1.0), cycles: 0, is_unequal: false };
        let pairs = logs.iter().map(pair).collect();
        compute_cell(&PairedCell { label: String::new(), pairs }).unwrap()
    }

    #[test]
    fn the_floor_is_the_farther_end_of_the_interval() {
        let noise = cell(&[-0.03, 0.01, 0.02]);
        assert!((noise.floor.unwrap() - 0.03_f64.exp()).abs() < 1e-12);
        assert_eq!(cell(&[0.01, 0.02]).floor, None);
        assert_eq!(noise.false_share, None);
    }

    #[test]
    fn pairs_about_one_are_seldom_taken_for_a_difference_and_a_shift_mostly() {
        let mut random = StdRng::seed_from_u64(9);
        let scatter: Vec<f64> = (0..20).map(|_| random.random_range(-0.02..0.02)).collect();
        let mean = scatter.iter().sum::<f64>() / 20.0;
        let share = |shift: f64| {
            let logs: Vec<f64> = scatter.iter().map(|log| log - mean + shift).collect();
            cell(&logs).false_share.unwrap()
        };
        assert!(share(0.0) <= 0.05 && share(0.02) > 0.8, "{} {}", share(0.0), share(0.02));
    }

    /// That is what p promises: of studies that do not know each other one in twenty.
    #[test]
    fn one_study_in_twenty_finds_what_is_not_there() {
        let mut random = StdRng::seed_from_u64(9);
        let mut study = || (0..STUDY_PAIRS).map(|_| random.random_range(-0.02..0.02)).collect::<Vec<f64>>();
        let found = (0..400).filter(|_| compute_p(&study()) <= LEVEL).count();
        assert!((10..=30).contains(&found), "{found} of 400");
    }
}
