//! Two sides of a sweep, or of two sweeps, held against each other: ratios of trials in pairs, cell by cell.

use std::collections::BTreeMap;
use std::str::FromStr;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::Serialize;

use super::{SweepRun, SweepTrial};
use crate::bench::Error;
use crate::bench::statistics::{Limits, Ratio, compute_ratio};

/// Up to so many pairs every permutation is tried; of more a sample.
const EXACT_PAIRS: usize = 16;
const SAMPLED_PERMUTATIONS: u32 = 100_000;

/// Fewer pairs than this cannot show anything at the usual level: 2 ÷ 2⁵ is above 0.05.
pub const TELLING_PAIRS: u32 = 6;

/// Student's t by degrees of freedom from 1: the 97.5 % and the 80 % quantile, for a test at 5 % on two sides that finds
/// a true difference in 80 % of studies. Beyond the tables those of the normal distribution are close.
const T_975: [f64; 20] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086,
];
const T_80: [f64; 20] = [
    1.376, 1.061, 0.978, 0.941, 0.920, 0.906, 0.896, 0.889, 0.883, 0.879, 0.876, 0.873, 0.870, 0.868, 0.866, 0.865,
    0.863, 0.862, 0.861, 0.860,
];
const NORMAL: (f64, f64) = (1.960, 0.842);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Transactions per second.
    Tps,
    /// Those of the worst second.
    WorstSecond,
    /// The median latency.
    P50,
    /// The 99th percentile of latency.
    P99,
}

impl Metric {
    pub const ALL: [Metric; 4] = [Metric::Tps, Metric::WorstSecond, Metric::P50, Metric::P99];

    /// For the command line and for tables.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Tps => "tps",
            Metric::WorstSecond => "worst-second",
            Metric::P50 => "p50",
            Metric::P99 => "p99",
        }
    }

    /// The figure of a trial; `None` when it has none, or nothing can be divided by it.
    fn of(self, trial: &SweepTrial) -> Option<f64> {
        let figure = match self {
            _ if trial.failure.is_some() => None,
            Metric::Tps => Some(trial.tps),
            Metric::WorstSecond => trial.worst_second_tps,
            Metric::P50 => Some(trial.latency.as_ref()?.p50_us as f64),
            Metric::P99 => Some(trial.latency.as_ref()?.p99_us as f64),
        };
        figure.filter(|figure| *figure > 0.0)
    }
}

impl FromStr for Metric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Metric, Error> {
        let known = Metric::ALL.map(Metric::name).join(", ");
        let found = Metric::ALL.into_iter().find(|metric| metric.name() == text);
        found.ok_or_else(|| Error::Selection(format!("there is no figure \"{text}\": {known} are known")))
    }
}

/// One side: `clients=4,work_mem=64MB` of a sweep, which may be named before a colon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// `None`: the newest.
    pub sweep: Option<String>,
    pub values: BTreeMap<String, String>,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Selection, Error> {
        // A sweep's name has no `=`; a value may have a colon.
        let (sweep, values) = match text.split_once(':') {
            Some((sweep, values)) if !sweep.contains('=') => (Some(sweep.to_owned()), values),
            None if !text.contains('=') => (Some(text.to_owned()), ""),
            _ => (None, text),
        };
        let pair = |part: &str| {
            let (axis, value) = part.split_once('=')?;
            (!axis.is_empty()).then(|| (axis.to_owned(), value.to_owned()))
        };
        let values: Option<BTreeMap<_, _>> = values.split(',').filter(|part| !part.is_empty()).map(pair).collect();
        let wrong =
            || Error::Selection(format!("\"{text}\" is no side; write AXIS=VALUE,…, SWEEP:AXIS=VALUE,… or SWEEP"));
        Ok(Selection { sweep, values: values.ok_or_else(wrong)? })
    }
}

/// B held against A.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepComparison {
    pub metric: Metric,
    pub a: String,
    pub b: String,
    pub cells: Vec<CellComparison>,
    /// What speaks against it.
    pub warnings: Vec<String>,
}

/// The same point on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellComparison {
    /// The point by what varies and is not compared.
    pub label: String,
    /// B ÷ A over the pairs, each of one block.
    pub ratio: Ratio,
    /// How often chance alone makes a difference as large as this, were there none: signs of the pairs turned over in
    /// every way.
    pub p: f64,
    /// The same for the study, that asks so in every cell (Holm).
    pub p_holm: f64,
    /// The ratio, above 1, that as many such pairs find in 80 % of studies; `None` with a single pair.
    pub smallest_detectable: Option<f64>,
}

/// A side with what it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub selection: &'a Selection,
    pub run: &'a SweepRun,
    pub trials: &'a [SweepTrial],
}

/// Compares the trials of two sides, cell by cell.
///
/// # Errors
/// When a side names an axis or a value that its sweep does not have, or more than one point of a side falls into a cell.
pub fn compute_sweep_comparison(a: Side<'_>, b: Side<'_>, metric: Metric) -> Result<SweepComparison, Error> {
    let compared: Vec<&String> = a.selection.values.keys().chain(b.selection.values.keys()).collect();
    let (of_a, of_b) = (a.figures(&compared, metric)?, b.figures(&compared, metric)?);
    let mut cells = Vec::new();
    for (label, blocks) in &of_a {
        let Some(others) = of_b.get(label) else { continue };
        let pairs = blocks.iter().filter_map(|(block, figure)| Some((*others.get(block)?, *figure)));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let limits: Vec<_> = pairs.iter().map(|(b, a)| (Limits::exactly(*b), Limits::exactly(*a))).collect();
        let Some(ratio) = compute_ratio(&limits) else { continue };
        let logs: Vec<f64> = pairs.iter().map(|(b, a)| (b / a).ln()).collect();
        let (p, smallest_detectable) = (compute_p(&logs), compute_smallest_detectable(&logs));
        cells.push(CellComparison { label: label.clone(), ratio, p, p_holm: p, smallest_detectable });
    }
    if cells.is_empty() {
        return Err(Error::Selection("the two sides have no point in common beside what is compared".into()));
    }
    apply_holm(&mut cells);
    let warnings = compute_warnings(a, b, &cells);
    Ok(SweepComparison { metric, a: a.name(), b: b.name(), cells, warnings })
}

/// Block to figure, by cell.
type Figures = BTreeMap<String, BTreeMap<u32, f64>>;

impl Side<'_> {
    fn name(&self) -> String {
        let values = self.selection.values.iter().map(|(axis, value)| format!("{axis}={value}"));
        format!("{}:{}", self.run.id, values.collect::<Vec<_>>().join(","))
    }

    fn figures(&self, compared: &[&String], metric: Metric) -> Result<Figures, Error> {
        let mut figures = Figures::new();
        let mut points: BTreeMap<String, u32> = BTreeMap::new();
        for trial in self.trials.iter().filter(|trial| self.has(trial)) {
            let rest: Vec<String> = self.run.varied.iter().filter(|axis| !compared.contains(axis)).cloned().collect();
            let label = if rest.is_empty() { String::new() } else { trial.point.render(&rest) };
            if *points.entry(label.clone()).or_insert(trial.number) != trial.number {
                let text = format!(
                    "{} holds several points that differ in what the other side compares: name their values too",
                    self.name()
                );
                return Err(Error::Selection(text));
            }
            if let Some(figure) = metric.of(trial) {
                figures.entry(label).or_default().insert(trial.repeat, figure);
            }
        }
        if points.is_empty() {
            let axes = self.run.varied.join(", ");
            return Err(Error::Selection(format!("{} holds no trial; the sweep varies {axes}", self.name())));
        }
        Ok(figures)
    }

    fn has(&self, trial: &SweepTrial) -> bool {
        self.selection.values.iter().all(|(axis, value)| trial.point.value(axis).as_ref() == Some(value))
    }
}

/// The signs of the logarithms turned over in every way: the share in which their sum is at least as far from 0.
fn compute_p(logs: &[f64]) -> f64 {
    let seen = logs.iter().sum::<f64>().abs();
    // Sums of the same terms in another order differ in their last digits.
    let is_as_far = |sum: f64| sum.abs() >= seen * (1.0 - 1e-9);
    if logs.len() <= EXACT_PAIRS {
        let all = 1_u32 << logs.len();
        let sum = |signs: u32| -> f64 {
            let signed = |(place, log): (usize, &f64)| if (signs >> place) & 1 == 1 { -log } else { *log };
            logs.iter().enumerate().map(signed).sum()
        };
        return (0..all).filter(|signs| is_as_far(sum(*signs))).count() as f64 / f64::from(all);
    }
    let mut random = StdRng::seed_from_u64(0);
    let far = (0..SAMPLED_PERMUTATIONS)
        .filter(|_| is_as_far(logs.iter().map(|log| if random.random::<bool>() { -log } else { *log }).sum()));
    // What was seen is one of the permutations.
    (far.count() as f64 + 1.0) / (f64::from(SAMPLED_PERMUTATIONS) + 1.0)
}

/// The smallest ratio that so many pairs with this scatter find in 80 % of studies.
fn compute_smallest_detectable(logs: &[f64]) -> Option<f64> {
    let freedom = logs.len().checked_sub(2)?;
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (logs.len() - 1) as f64;
    let (upper, power) = (T_975.get(freedom).unwrap_or(&NORMAL.0), T_80.get(freedom).unwrap_or(&NORMAL.1));
    Some(((upper + power) * (variance / logs.len() as f64).sqrt()).exp())
}

/// Holm's step-down: the smallest p counts as often as there are cells, the next once less, and none less than one before.
fn apply_holm(cells: &mut [CellComparison]) {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by(|one, other| cells[*one].p.total_cmp(&cells[*other].p));
    let mut least = 0.0_f64;
    for (rank, place) in order.iter().enumerate() {
        least = least.max((cells[*place].p * (cells.len() - rank) as f64).min(1.0));
        cells[*place].p_holm = least;
    }
}

fn compute_warnings(a: Side<'_>, b: Side<'_>, cells: &[CellComparison]) -> Vec<String> {
    let mut warnings = Vec::new();
    if a.run.id != b.run.id {
        warnings.push("the sides are of two sweeps, one after the other: a drift of the machine looks like a difference; measure both in one sweep".to_owned());
    }
    let fewest = cells.iter().map(|cell| cell.ratio.pairs).min().unwrap_or_default();
    if fewest < TELLING_PAIRS {
        warnings.push(format!(
            "{fewest} pairs cannot show a difference at p < 0.05, however large it is: repeats = {TELLING_PAIRS} or more"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(p: f64) -> CellComparison {
        let ratio = compute_ratio(&[(Limits::exactly(1.0), Limits::exactly(1.0))]).unwrap();
        CellComparison { label: String::new(), ratio, p, p_holm: p, smallest_detectable: None }
    }

    #[test]
    fn a_side_names_a_sweep_values_or_both() {
        let of = |text: &str| text.parse::<Selection>().unwrap();
        assert_eq!(of("20261122:clients=4,script=a@1 + b@2").sweep.as_deref(), Some("20261122"));
        assert_eq!(of("x=1:2").values["x"], "1:2");
        assert_eq!((of("2026").sweep.as_deref(), of("2026").values.len()), (Some("2026"), 0));
        assert!("2026:clients".parse::<Selection>().is_err() && "=4".parse::<Selection>().is_err());
        assert!("p999".parse::<Metric>().unwrap_err().to_string().contains("tps, worst-second, p50, p99"));
    }

    #[test]
    fn all_pairs_on_one_side_are_as_rare_as_coins() {
        assert_eq!(compute_p(&[0.1, 0.2, 0.3]), 0.25);
        assert_eq!(compute_p(&[0.1; 6]), 2.0 / 64.0);
        assert_eq!(compute_p(&[-0.1, 0.1]), 1.0);
        assert_eq!(compute_p(&[0.0, 0.0]), 1.0);
        assert!(compute_p(&[0.1; 17]) < 1e-4 && compute_p(&[0.1; 17]) > 0.0);
    }

    #[test]
    fn equal_sides_are_found_different_as_often_as_the_level_says() {
        let mut random = StdRng::seed_from_u64(3);
        let mut is_found = || {
            let logs: Vec<f64> = (0..8).map(|_| random.random_range(-0.1..0.1)).collect();
            compute_p(&logs) <= 0.05
        };
        let found = (0..1000).filter(|_| is_found()).count();
        // 50 expected at most; three standard deviations are 21.
        assert!((20..=71).contains(&found), "{found} of 1000");
    }

    #[test]
    fn what_is_detectable_is_found_in_most_studies() {
        let mut random = StdRng::seed_from_u64(4);
        // About normal, with a standard deviation of 0.02.
        let mut noise = || (0..12).map(|_| random.random_range(-0.5..0.5)).sum::<f64>() * 0.02;
        let found = (0..300).filter(|_| {
            let still: Vec<f64> = (0..8).map(|_| noise()).collect();
            let shift = compute_smallest_detectable(&still).unwrap().ln();
            compute_p(&(0..8).map(|_| shift + noise()).collect::<Vec<_>>()) <= 0.05
        });
        // 80 % where the scatter is known; it is estimated from eight.
        let found = found.count();
        assert!((195..=285).contains(&found), "{found} of 300");
        assert_eq!(compute_smallest_detectable(&[0.1]), None);
    }

    #[test]
    fn holm_never_makes_a_larger_p_smaller_than_a_smaller_one() {
        let mut cells = [0.04, 0.01, 0.03].map(cell);
        apply_holm(&mut cells);
        assert_eq!(cells.map(|cell| cell.p_holm), [0.06, 0.03, 0.06]);
    }
}
