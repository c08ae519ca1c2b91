//! Two runs of a sweep side by side, cell by cell, and how far identical ones differ.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;

use super::cycles::{Window, count_checkpoints};
use crate::study::{Error, SweepRun, SweepTrial};
use crate::verdict::statistics::{Limits, Ratio, compute_ratio};

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

/// A side with what it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub selection: &'a Selection,
    pub run: &'a SweepRun,
    pub trials: &'a [SweepTrial],
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
    pub fn of(b: &SweepTrial, a: &SweepTrial, metric: Metric) -> Option<Pair> {
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

/// Block to trial, by cell.
type CellTrials<'a> = BTreeMap<String, BTreeMap<u32, &'a SweepTrial>>;

impl<'a> Side<'a> {
    pub fn name(&self) -> String {
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
