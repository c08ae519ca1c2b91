//! Two runs of a sweep side by side, cell by cell, and how far identical ones differ.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Serialize;

use super::cycles::{Window, count_checkpoints};
use super::metric::Metric;
use super::outline::TrialOutline;
use super::warming::{limits_of, outline_trials};
use crate::study::{Error, SweepRun, SweepTrial};
use crate::units::Bytes;
use crate::verdict::statistics::{Limits, Ratio, compute_ratio};

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
    let (outlines_of_a, outlines_of_b) = (outline_trials(a.trials), outline_trials(b.trials));
    let (all_of_a, all_of_b) = (Told::all(a.trials, &outlines_of_a), Told::all(b.trials, &outlines_of_b));
    let pair = |(label, blocks): (String, BTreeMap<u32, usize>)| {
        let others = of_b.get(&label)?;
        let pairs =
            blocks.iter().filter_map(|(block, one)| Pair::of(all_of_b[*others.get(block)?], all_of_a[*one], metric));
        let number = blocks.values().map(|place| a.trials[*place].number).min();
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

/// A trial with its figures.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    pub trial: &'a SweepTrial,
    pub outline: &'a TrialOutline,
}

impl Told<'_> {
    fn all<'a>(trials: &'a [SweepTrial], outlines: &'a [TrialOutline]) -> Vec<Told<'a>> {
        trials.iter().zip(outlines).map(|(trial, outline)| Told { trial, outline }).collect()
    }

    /// The figure of it, or of a part of it; `None` when it has none, or nothing can be divided by it.
    fn limits(&self, metric: Metric, window: Option<Window>) -> Option<Limits> {
        if self.trial.failure.is_some() {
            return None;
        }
        let cut = match (metric, window) {
            (Metric::Tps, Some(window)) => Some(window.tps(self.trial)),
            (Metric::WorstSecond, Some(window)) => Some(window.worst_second_tps(self.trial)?),
            _ => return limits_of(self.outline, metric),
        };
        cut.filter(|figure| *figure > 0.0).map(Limits::exactly)
    }
}

/// Two trials of one block.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub b: Limits,
    pub a: Limits,
    /// Whole cycles of checkpoints that both were cut to; 0: they stand as a whole.
    pub cycles: u32,
    /// As a whole, and one of them saw more checkpoints than the other.
    pub is_unequal: bool,
}

impl Pair {
    /// Cut to as many whole cycles as both have, where there are such.
    pub fn of(b: Told<'_>, a: Told<'_>, metric: Metric) -> Option<Pair> {
        let common = a.trial.checkpoint_cycles.min(b.trial.checkpoint_cycles);
        let windows = |cycles: u32| Some((Window::of(b.trial, cycles)?, Window::of(a.trial, cycles)?));
        let cut = windows(common).filter(|_| metric.is_by_second());
        Some(Pair {
            b: b.limits(metric, cut.map(|(window, _)| window))?,
            a: a.limits(metric, cut.map(|(_, window)| window))?,
            cycles: cut.map_or(0, |_| common),
            is_unequal: cut.is_none() && count_checkpoints(a.trial) != count_checkpoints(b.trial),
        })
    }
}

impl PairedCell {
    /// B ÷ A.
    pub fn ratio(&self) -> Option<Ratio> {
        compute_ratio(&self.pairs.iter().map(|pair| (pair.b, pair.a)).collect::<Vec<_>>())
    }

    /// Of the ratios of the pairs: differences up and down are alike then. A ratio that is known within limits alone stands for
    /// what in them is nearest to no difference, so that a time that was not reached never makes a difference surer than it is.
    pub fn logs(&self) -> Vec<f64> {
        let log = |pair: &Pair| {
            let ratio = pair.b.divided_by(pair.a);
            1.0_f64.clamp(ratio.at_least, ratio.at_most.unwrap_or(f64::INFINITY)).ln()
        };
        self.pairs.iter().map(log).collect()
    }
}

/// Block to the place of its trial, by cell.
type CellTrials = BTreeMap<String, BTreeMap<u32, usize>>;

impl Side<'_> {
    pub fn name(&self) -> String {
        let values = self.selection.values.iter().map(|(axis, value)| format!("{axis}={value}"));
        format!("{}:{}", self.run.id, values.collect::<Vec<_>>().join(","))
    }

    fn trials_of_cells(&self, compared: &[&String]) -> Result<CellTrials, Error> {
        let mut cells = CellTrials::new();
        let mut points: BTreeMap<String, u32> = BTreeMap::new();
        for (place, trial) in self.trials.iter().enumerate().filter(|(_, trial)| self.has(trial)) {
            let rest: Vec<String> = self.run.varied.iter().filter(|axis| !compared.contains(axis)).cloned().collect();
            let label = if rest.is_empty() { String::new() } else { trial.point.render(&rest) };
            if *points.entry(label.clone()).or_insert(trial.number) != trial.number {
                let text = format!(
                    "{} holds several points that differ in what the other side compares: name their values too",
                    self.name()
                );
                return Err(Error::Selection(text));
            }
            cells.entry(label).or_default().insert(trial.repeat, place);
        }
        if points.is_empty() {
            let axes = self.run.varied.join(", ");
            return Err(Error::Selection(format!("{} holds no trial; the sweep varies {axes}", self.name())));
        }
        Ok(cells)
    }

    fn has(&self, trial: &SweepTrial) -> bool {
        let is_so =
            |(axis, asked): (&String, &String)| trial.point.value(axis).is_some_and(|value| is_same(&value, asked));
        self.selection.values.iter().all(is_so)
    }
}

/// The same value, however its number or its size is written: `1GB`, `1024MB`, `1GiB`.
fn is_same(value: &str, asked: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let size =
        |text: &str| text.ends_with(|last: char| last.is_ascii_alphabetic()).then(|| text.parse::<Bytes>().ok())?;
    value == asked
        || number(value).is_some_and(|one| number(asked) == Some(one))
        || size(value).is_some_and(|one| size(asked) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_the_same_however_it_is_written() {
        for (value, asked) in [("256MB", "256MiB"), ("1GB", "1024 MB"), ("2000", "2000.0"), ("none", "none")] {
            assert!(is_same(value, asked), "{value} {asked}");
        }
        for (value, asked) in [("256MB", "256kB"), ("none", "0MB"), ("128", "128B"), ("pg15", "pg17"), ("inf", "nan")] {
            assert!(!is_same(value, asked), "{value} {asked}");
        }
    }
}
