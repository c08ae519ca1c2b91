//! Two sides of a sweep, or of two sweeps, held against each other: ratios of trials in pairs, cell by cell.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;

use super::cycles::{Window, count_checkpoints};
use super::point::SIDE;
use super::verdict::{Finding, MeasurementVerdict, texts_of};
use super::{Noise, SweepRun, SweepTrial, compute_noise};
use crate::bench::Error;
use crate::bench::significance::{compute_holm, compute_p, compute_smallest_detectable};
use crate::bench::statistics::{Limits, Ratio, compute_ratio};

/// Fewer pairs than this cannot show anything at the usual level: 2 ÷ 2⁵ is above 0.05.
pub const TELLING_PAIRS: u32 = 6;

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
    /// The 95th, the 99th and the 99.9th percentile of latency.
    P95,
    P99,
    P999,
}

impl Metric {
    pub const ALL: [Metric; 6] =
        [Metric::Tps, Metric::WorstSecond, Metric::P50, Metric::P95, Metric::P99, Metric::P999];

    /// For the command line and for tables.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Tps => "tps",
            Metric::WorstSecond => "worst-second",
            Metric::P50 => "p50",
            Metric::P95 => "p95",
            Metric::P99 => "p99",
            Metric::P999 => "p999",
        }
    }

    /// The figure of a trial, or of a part of it; `None` when it has none, or nothing can be divided by it.
    fn of(self, trial: &SweepTrial, window: Option<Window>) -> Option<f64> {
        let figure = match (self, window) {
            _ if trial.failure.is_some() => None,
            (Metric::Tps, None) => Some(trial.tps),
            (Metric::Tps, Some(window)) => Some(window.tps(trial)),
            (Metric::WorstSecond, None) => trial.worst_second_tps,
            (Metric::WorstSecond, Some(window)) => window.worst_second_tps(trial),
            (Metric::P50, _) => percentile(trial, 0.5),
            (Metric::P95, _) => percentile(trial, 0.95),
            (Metric::P99, _) => percentile(trial, 0.99),
            (Metric::P999, _) => percentile(trial, 0.999),
        };
        figure.filter(|figure| *figure > 0.0)
    }

    /// Is it a figure of seconds, that a part of a trial has as well? Percentiles are of whole trials.
    fn is_by_second(self) -> bool {
        matches!(self, Metric::Tps | Metric::WorstSecond)
    }
}

/// In microseconds; `None` when too few transactions lie beyond it.
fn percentile(trial: &SweepTrial, share: f64) -> Option<f64> {
    Some(trial.latency.as_ref()?.percentile(share)?.us as f64)
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
    /// The ratio, above 1, that equal sides of the same sweep reach: of a study that measures every point twice.
    pub noise_floor: Option<f64>,
    /// What speaks against it, and the same as texts.
    pub verdicts: Vec<MeasurementVerdict>,
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
    /// Whole cycles of checkpoints that both trials of a pair were cut to, of the pair with the fewest; 0: the trials as a
    /// whole.
    pub cycles: u32,
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
    let paired = pair_cells(a, b, metric)?;
    let mut cells: Vec<CellComparison> = paired.iter().filter_map(compare_cell).collect();
    if cells.is_empty() {
        return Err(Error::Selection("the two sides have no point in common beside what is compared".into()));
    }
    let adjusted = compute_holm(&cells.iter().map(|cell| cell.p).collect::<Vec<_>>());
    cells.iter_mut().zip(adjusted).for_each(|(cell, p)| cell.p_holm = p);
    let noise_floor = find_noise_floor(a, b, metric);
    let found = [
        (a.run.id != b.run.id).then_some(Finding::TwoSweeps),
        find_too_few_pairs(&cells),
        noise_floor.and_then(|floor| find_within_noise(&cells, floor)),
        find_uncut_checkpoints(&paired),
    ];
    let verdicts: Vec<MeasurementVerdict> = found.into_iter().flatten().map(MeasurementVerdict::from).collect();
    let warnings = texts_of(&verdicts);
    Ok(SweepComparison { metric, a: a.name(), b: b.name(), cells, noise_floor, verdicts, warnings })
}

/// The figures of B and A that were measured in one block, of each cell that both have.
pub fn pair_cells(a: Side<'_>, b: Side<'_>, metric: Metric) -> Result<Vec<PairedCell>, Error> {
    let compared: Vec<&String> = a.selection.values.keys().chain(b.selection.values.keys()).collect();
    let (of_a, of_b) = (a.trials_of_cells(&compared)?, b.trials_of_cells(&compared)?);
    let pair = |(label, blocks): (String, BTreeMap<u32, &SweepTrial>)| {
        let others = of_b.get(&label)?;
        let pairs = blocks.iter().filter_map(|(block, one)| Pair::of(others.get(block)?, one, metric));
        let number = blocks.values().map(|trial| trial.number).min();
        Some((number, PairedCell { pairs: pairs.collect(), label }))
    };
    // In the order of the study, which is not that of the words.
    let mut cells: Vec<_> = of_a.into_iter().filter_map(pair).collect();
    cells.sort_by_key(|(number, _)| *number);
    Ok(cells.into_iter().map(|(_, cell)| cell).collect())
}

/// A cell with its figures of B and A, a pair for each block.
#[derive(Clone, Debug)]
pub struct PairedCell {
    pub label: String,
    pub pairs: Vec<Pair>,
}

/// Two trials of one block.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub b: f64,
    pub a: f64,
    /// Whole cycles of checkpoints that both were cut to; 0: they stand as a whole.
    pub cycles: u32,
    /// As a whole, and one of them saw more checkpoints than the other.
    pub is_unequal: bool,
}

impl Pair {
    /// Cut to as many whole cycles as both have, where there are such.
    fn of(b: &SweepTrial, a: &SweepTrial, metric: Metric) -> Option<Pair> {
        let common = a.checkpoint_cycles.min(b.checkpoint_cycles);
        let windows = |cycles: u32| Some((Window::of(b, cycles)?, Window::of(a, cycles)?));
        let cut = windows(common).filter(|_| metric.is_by_second());
        Some(Pair {
            b: metric.of(b, cut.map(|(window, _)| window))?,
            a: metric.of(a, cut.map(|(_, window)| window))?,
            cycles: cut.map_or(0, |_| common),
            is_unequal: cut.is_none() && count_checkpoints(a) != count_checkpoints(b),
        })
    }
}

impl PairedCell {
    /// B ÷ A.
    pub fn ratio(&self) -> Option<Ratio> {
        let limits = self.pairs.iter().map(|pair| (Limits::exactly(pair.b), Limits::exactly(pair.a)));
        compute_ratio(&limits.collect::<Vec<_>>())
    }

    /// Of the ratios of the pairs: differences up and down are alike then.
    pub fn logs(&self) -> Vec<f64> {
        self.pairs.iter().map(|pair| (pair.b / pair.a).ln()).collect()
    }
}

fn compare_cell(cell: &PairedCell) -> Option<CellComparison> {
    let (ratio, logs) = (cell.ratio()?, cell.logs());
    let (p, smallest_detectable) = (compute_p(&logs), compute_smallest_detectable(&logs));
    let cycles = cell.pairs.iter().map(|pair| pair.cycles).min().unwrap_or_default();
    Some(CellComparison { label: cell.label.clone(), ratio, p, p_holm: p, smallest_detectable, cycles })
}

/// Of the sweeps that measure their points twice, unless that is what is compared.
fn find_noise_floor(a: Side<'_>, b: Side<'_>, metric: Metric) -> Option<f64> {
    if a.selection.values.contains_key(SIDE) || b.selection.values.contains_key(SIDE) {
        return None;
    }
    let floor = |side: Side<'_>| compute_noise(side.run, side.trials, metric).ok().and_then(|noise: Noise| noise.floor);
    [floor(a), floor(b)].into_iter().flatten().reduce(f64::max)
}

/// Block to trial, by cell.
type CellTrials<'a> = BTreeMap<String, BTreeMap<u32, &'a SweepTrial>>;

impl<'a> Side<'a> {
    fn name(&self) -> String {
        let values = self.selection.values.iter().map(|(axis, value)| format!("{axis}={value}"));
        format!("{}:{}", self.run.id, values.collect::<Vec<_>>().join(","))
    }

    fn trials_of_cells(&self, compared: &[&String]) -> Result<CellTrials<'a>, Error> {
        let mut cells = CellTrials::new();
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
            cells.entry(label).or_default().insert(trial.repeat, trial);
        }
        if points.is_empty() {
            let axes = self.run.varied.join(", ");
            return Err(Error::Selection(format!("{} holds no trial; the sweep varies {axes}", self.name())));
        }
        Ok(cells)
    }

    fn has(&self, trial: &SweepTrial) -> bool {
        self.selection.values.iter().all(|(axis, value)| trial.point.value(axis).as_ref() == Some(value))
    }
}

fn find_too_few_pairs(cells: &[CellComparison]) -> Option<Finding> {
    let pairs = cells.iter().map(|cell| cell.ratio.pairs).min().unwrap_or_default();
    (pairs < TELLING_PAIRS).then_some(Finding::TooFewPairs { pairs, needed: TELLING_PAIRS })
}

fn find_within_noise(cells: &[CellComparison], floor_ratio: f64) -> Option<Finding> {
    let is_within = |ratio: &Ratio| ratio.median.at_most.is_some_and(|most| most.ln().abs() <= floor_ratio.ln());
    let within = cells.iter().filter(|cell| is_within(&cell.ratio)).count() as u32;
    (within > 0).then_some(Finding::WithinNoise { within, differences: cells.len() as u32, floor_ratio })
}

fn find_uncut_checkpoints(cells: &[PairedCell]) -> Option<Finding> {
    let pairs = || cells.iter().flat_map(|cell| &cell.pairs);
    let unequal = pairs().filter(|pair| pair.is_unequal).count() as u32;
    (unequal > 0).then(|| Finding::UncutCheckpoints { unequal, pairs: pairs().count() as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sweep::cycles::tests::counting;

    #[test]
    fn pairs_are_cut_to_the_whole_cycles_that_both_have() {
        let of = |begins: &[f64]| {
            let mut trial = counting(begins);
            trial.checkpoint_cycles = super::super::cycles::compute_cycles(&trial).0;
            trial
        };
        let pair = |b: &[f64], a: &[f64], metric| {
            let pair = Pair::of(&of(b), &of(a), metric).unwrap();
            (pair.b, pair.a, pair.cycles, pair.is_unequal)
        };
        // Seconds 3 to 6 of one, 1 to 4 of the other, which has another cycle.
        assert_eq!(pair(&[2.0, 6.0], &[0.0, 4.0, 8.0], Metric::Tps), (4.5, 2.5, 1, false));
        assert_eq!(pair(&[2.0, 6.0], &[0.0, 4.0, 8.0], Metric::WorstSecond), (3.0, 1.0, 1, false));
        assert_eq!(pair(&[2.0], &[0.0, 4.0], Metric::Tps), (5.5, 5.5, 0, true));
        assert_eq!(pair(&[2.0], &[3.0], Metric::Tps), (5.5, 5.5, 0, false));
    }

    #[test]
    fn a_side_names_a_sweep_values_or_both() {
        let of = |text: &str| text.parse::<Selection>().unwrap();
        assert_eq!(of("20261122:clients=4,script=a@1 + b@2").sweep.as_deref(), Some("20261122"));
        assert_eq!(of("x=1:2").values["x"], "1:2");
        assert_eq!((of("2026").sweep.as_deref(), of("2026").values.len()), (Some("2026"), 0));
        assert!("2026:clients".parse::<Selection>().is_err() && "=4".parse::<Selection>().is_err());
        assert!("p98".parse::<Metric>().unwrap_err().to_string().contains("tps, worst-second, p50, p95, p99, p999"));
    }
}
