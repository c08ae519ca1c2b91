//! Two sides of a sweep, or of two sweeps, held against each other: ratios of trials in pairs, cell by cell.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;

use super::point::SIDE;
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

    /// The figure of a trial; `None` when it has none, or nothing can be divided by it.
    fn of(self, trial: &SweepTrial) -> Option<f64> {
        let figure = match self {
            _ if trial.failure.is_some() => None,
            Metric::Tps => Some(trial.tps),
            Metric::WorstSecond => trial.worst_second_tps,
            Metric::P50 => percentile(trial, 0.5),
            Metric::P95 => percentile(trial, 0.95),
            Metric::P99 => percentile(trial, 0.99),
            Metric::P999 => percentile(trial, 0.999),
        };
        figure.filter(|figure| *figure > 0.0)
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
    let mut cells: Vec<CellComparison> = pair_cells(a, b, metric)?.iter().filter_map(compare_cell).collect();
    if cells.is_empty() {
        return Err(Error::Selection("the two sides have no point in common beside what is compared".into()));
    }
    let adjusted = compute_holm(&cells.iter().map(|cell| cell.p).collect::<Vec<_>>());
    cells.iter_mut().zip(adjusted).for_each(|(cell, p)| cell.p_holm = p);
    let noise_floor = find_noise_floor(a, b, metric);
    let warnings = compute_warnings(a, b, &cells, noise_floor);
    Ok(SweepComparison { metric, a: a.name(), b: b.name(), cells, noise_floor, warnings })
}

/// The figures of B and A that were measured in one block, of each cell that both have.
pub fn pair_cells(a: Side<'_>, b: Side<'_>, metric: Metric) -> Result<Vec<PairedCell>, Error> {
    let compared: Vec<&String> = a.selection.values.keys().chain(b.selection.values.keys()).collect();
    let (of_a, of_b) = (a.figures(&compared, metric)?, b.figures(&compared, metric)?);
    let pair = |(label, blocks): (String, BTreeMap<u32, f64>)| {
        let others = of_b.get(&label)?;
        let pairs = blocks.iter().filter_map(|(block, figure)| Some((*others.get(block)?, *figure)));
        Some(PairedCell { pairs: pairs.collect(), label })
    };
    Ok(of_a.into_iter().filter_map(pair).collect())
}

/// A cell with its figures of B and A, a pair for each block.
#[derive(Clone, Debug)]
pub struct PairedCell {
    pub label: String,
    pub pairs: Vec<(f64, f64)>,
}

impl PairedCell {
    /// B ÷ A.
    pub fn ratio(&self) -> Option<Ratio> {
        let limits = self.pairs.iter().map(|(b, a)| (Limits::exactly(*b), Limits::exactly(*a)));
        compute_ratio(&limits.collect::<Vec<_>>())
    }

    /// Of the ratios of the pairs: differences up and down are alike then.
    pub fn logs(&self) -> Vec<f64> {
        self.pairs.iter().map(|(b, a)| (b / a).ln()).collect()
    }
}

fn compare_cell(cell: &PairedCell) -> Option<CellComparison> {
    let (ratio, logs) = (cell.ratio()?, cell.logs());
    let (p, smallest_detectable) = (compute_p(&logs), compute_smallest_detectable(&logs));
    Some(CellComparison { label: cell.label.clone(), ratio, p, p_holm: p, smallest_detectable })
}

/// Of the sweeps that measure their points twice, unless that is what is compared.
fn find_noise_floor(a: Side<'_>, b: Side<'_>, metric: Metric) -> Option<f64> {
    if a.selection.values.contains_key(SIDE) || b.selection.values.contains_key(SIDE) {
        return None;
    }
    let floor = |side: Side<'_>| compute_noise(side.run, side.trials, metric).ok().and_then(|noise: Noise| noise.floor);
    [floor(a), floor(b)].into_iter().flatten().reduce(f64::max)
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

fn compute_warnings(a: Side<'_>, b: Side<'_>, cells: &[CellComparison], noise_floor: Option<f64>) -> Vec<String> {
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
    let is_within = |ratio: &Ratio, floor: f64| ratio.median.at_most.is_some_and(|most| most.ln().abs() <= floor.ln());
    if let Some(floor) = noise_floor {
        let within = cells.iter().filter(|cell| is_within(&cell.ratio, floor)).count();
        let all = cells.len();
        if within > 0 {
            let floor = 100.0 * (floor - 1.0);
            warnings.push(format!(
                "{within} of {all} differences are within the noise floor: equal sides of the sweep differ by up to {floor:.1} %"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

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
