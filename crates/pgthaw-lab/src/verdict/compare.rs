//! Compares two sides (selections of trials) of one or two sweeps, pair by pair, over whole checkpoint cycles. Two
//! measurements of the same points show the noise.

use std::collections::BTreeMap;
use std::str::FromStr;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::index::sample;
use serde::Serialize;

use super::metric::Metric;
use super::outline::TrialOutline;
use super::statistics::{Limits, Ratio, compute_holm, compute_p, compute_ratio, compute_smallest_detectable};
use super::warming::{limits_of, outline_trials};
use crate::study::{Error, Finding, MeasurementVerdict, Result, SIDE, SIDES, Sample, SweepRun, SweepTrial, texts_of};
use host::units::Bytes;

/// Fewest pairs that can reach p ≤ 0.05: with five, the smallest p is 2 ÷ 2⁵.
pub const TELLING_PAIRS: u32 = 6;

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct SweepComparison {
    pub metric: Metric,
    pub a: String,
    pub b: String,
    pub cells: Vec<CellComparison>,
    /// Ratio above 1 by which identical measurements of a point differ; `None` unless points are measured twice.
    pub noise_floor: Option<f64>,
    pub verdicts: Vec<MeasurementVerdict>,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct CellComparison {
    /// The point's values on the axes that vary and are not compared.
    pub label: String,
    /// The metric of side b ÷ that of side a, over the pairs of trials.
    pub ratio: Ratio,
    /// p-value of a permutation test over the signs of the pairs.
    pub p: f64,
    /// `p` adjusted for the number of comparisons (Holm).
    pub p_holm: f64,
    /// Smallest ratio above 1 that this number of pairs detects in 80 % of studies; `None` with a single pair.
    pub smallest_detectable: Option<f64>,
    /// Fewest whole checkpoint cycles of any pair; 0 if whole trials were compared.
    pub cycles: u32,
}

/// Fails without a pair of trials, or if a side matches several points: it must give a value for every axis that the
/// other side names.
pub fn compute_sweep_comparison(a: Side<'_>, b: Side<'_>, metric: Metric) -> Result<SweepComparison> {
    let paired = pair_cells(a, b, metric)?;
    let mut cells: Vec<CellComparison> = paired.iter().filter_map(compare_cell).collect();
    if cells.is_empty() {
        return Err(Error::Selection(match paired.is_empty() {
            true => "no points can be compared: the sides also differ in axes that neither side names".into(),
            false => format!("no repeat has a trial of each side with {} above 0", metric.name()),
        }));
    }
    let adjusted = compute_holm(&cells.iter().map(|cell| cell.p).collect::<Vec<_>>());
    cells.iter_mut().zip(adjusted).for_each(|(cell, p)| cell.p_holm = p);
    let has_sides = [a, b].iter().any(|side| side.selection.values.contains_key(SIDE));
    let floor = |side: Side<'_>| compute_noise(side.run, side.trials, metric).ok()?.floor;
    let noise_floor = [a, b].into_iter().filter(|_| !has_sides).filter_map(floor).reduce(f64::max);
    let pairs = cells.iter().map(|cell| cell.ratio.pairs).min().unwrap_or_default();
    let found = [
        (a.run.id != b.run.id).then_some(Finding::TwoSweeps),
        (pairs < TELLING_PAIRS).then_some(Finding::TooFewPairs { pairs, needed: TELLING_PAIRS }),
        noise_floor.and_then(|floor| find_within_noise(&cells, floor)),
        find_uncut_checkpoints(&paired),
    ];
    let verdicts: Vec<MeasurementVerdict> = found.into_iter().flatten().map(MeasurementVerdict::from).collect();
    let warnings = texts_of(&verdicts);
    Ok(SweepComparison { metric, a: a.name(), b: b.name(), cells, noise_floor, verdicts, warnings })
}

fn compare_cell(cell: &PairedCell) -> Option<CellComparison> {
    let (ratio, logs) = (cell.ratio()?, cell.logs());
    let (p, smallest_detectable) = (compute_p(&logs), compute_smallest_detectable(&logs));
    let cycles = cell.pairs.iter().map(|pair| pair.cycles).min().unwrap_or_default();
    Some(CellComparison { label: cell.label.clone(), ratio, p, p_holm: p, smallest_detectable, cycles })
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

const STUDY_PAIRS: usize = 8;
const STUDIES: usize = 1000;

const LEVEL: f64 = 0.05;

/// Difference between the two identical measurements of each point (sides A and A').
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Noise {
    pub metric: Metric,
    pub cells: Vec<NoiseCell>,
    /// Largest `floor` in `cells`.
    pub floor: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct NoiseCell {
    /// The point's values on the axes that vary, without the axis `side`.
    pub label: String,
    /// The metric of side A' ÷ that of side A, over the pairs of trials.
    pub ratio: Ratio,
    /// p-value of a permutation test over the signs of the pairs.
    pub p: f64,
    /// The end of `ratio`'s interval that is farther from 1; if this end is below 1, its reciprocal. `None` with fewer
    /// than three pairs.
    pub floor: Option<f64>,
    /// Smallest ratio above 1 that this number of pairs detects in 80 % of studies.
    pub smallest_detectable: Option<f64>,
    /// Share of 1000 simulated studies with p ≤ 0.05, although there is no true difference. Each simulated study has
    /// eight of the point's pairs of trials, drawn at random. `None` with eight pairs or fewer.
    pub false_share: Option<f64>,
}

pub fn is_twice(run: &SweepRun) -> bool {
    run.varied.iter().any(|axis| axis == SIDE)
}

pub fn compute_noises(run: &SweepRun, trials: &[SweepTrial]) -> Vec<Noise> {
    let noises = Metric::ALL.iter().copied().filter_map(|metric| compute_noise(run, trials, metric).ok());
    noises.filter(|noise| !noise.cells.is_empty()).collect()
}

/// Fails if points are not measured twice, or if one side has no trial.
pub fn compute_noise(run: &SweepRun, trials: &[SweepTrial], metric: Metric) -> Result<Noise> {
    if !is_twice(run) {
        let why = "did not measure each point twice (bench --aa): give two sides, such as clients=1 clients=8";
        return Err(Error::Selection(format!("{} {why}", run.id)));
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
    let floor = |interval: Limits| Some(interval.at_least.ln().abs().max(interval.at_most?.ln().abs()).exp());
    Some(NoiseCell {
        label: cell.label.clone(),
        p: compute_p(&logs),
        floor: ratio.interval.and_then(floor),
        smallest_detectable: compute_smallest_detectable(&logs),
        false_share: compute_false_share(&logs),
        ratio,
    })
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

/// A side: `clients=4,work_mem=64MB`, with an optional sweep before a colon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// Name of the sweep; `None` for the newest.
    pub sweep: Option<String>,
    pub values: BTreeMap<String, String>,
}

impl FromStr for Selection {
    type Err = Error;

    fn from_str(text: &str) -> Result<Selection> {
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
            || Error::Selection(format!("\"{text}\" is not a side; write AXIS=VALUE,…, SWEEP:AXIS=VALUE,… or SWEEP"));
        Ok(Selection { sweep, values: values.ok_or_else(wrong)? })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    pub selection: &'a Selection,
    pub run: &'a SweepRun,
    pub trials: &'a [SweepTrial],
}

fn pair_cells(a: Side<'_>, b: Side<'_>, metric: Metric) -> Result<Vec<PairedCell>> {
    let compared: Vec<&String> = a.selection.values.keys().chain(b.selection.values.keys()).collect();
    let (outlines_of_a, outlines_of_b) = (outline_trials(a.trials), outline_trials(b.trials));
    let of_a = a.trials_of_cells(&outlines_of_a, &compared)?;
    let of_b = b.trials_of_cells(&outlines_of_b, &compared)?;
    let pair = |(label, blocks): (String, BTreeMap<u32, Told<'_>>)| {
        let others = of_b.get(&label)?;
        let pairs = blocks.iter().filter_map(|(block, one)| Pair::of(*others.get(block)?, *one, metric));
        let number = blocks.values().map(|(trial, _)| trial.number).min();
        Some((number, PairedCell { pairs: pairs.collect(), label }))
    };
    // Sorts points in the order of the study, not of the labels.
    let mut cells: Vec<_> = of_a.into_iter().filter_map(pair).collect();
    cells.sort_by_key(|(number, _)| *number);
    Ok(cells.into_iter().map(|(_, cell)| cell).collect())
}

#[derive(Clone, Debug)]
struct PairedCell {
    pub label: String,
    pub pairs: Vec<Pair>,
}

type Told<'a> = (&'a SweepTrial, &'a TrialOutline);

/// Returns the metric's value in `window`, or in the whole trial; `None` if missing or not above 0.
fn limits_within((trial, outline): Told<'_>, metric: Metric, window: Option<Window>) -> Option<Limits> {
    let figure = match (metric, window) {
        _ if trial.failure.is_some() => return None,
        (Metric::Tps, Some(window)) => window.tps(trial),
        (Metric::WorstSecond, Some(window)) => window.worst_second_tps(trial)?,
        _ => return limits_of(outline, metric),
    };
    (figure > 0.0).then(|| Limits::exactly(figure))
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    pub b: Limits,
    pub a: Limits,
    /// Whole checkpoint cycles to which both trials are cut; 0 if uncut.
    pub cycles: u32,
    /// True if uncut trials have different numbers of checkpoints.
    pub is_unequal: bool,
}

impl Pair {
    fn of(b: Told<'_>, a: Told<'_>, metric: Metric) -> Option<Pair> {
        let common = a.0.checkpoint_cycles.min(b.0.checkpoint_cycles);
        let windows = |cycles: u32| Some((Window::of(b.0, cycles)?, Window::of(a.0, cycles)?));
        let cut = windows(common).filter(|_| matches!(metric, Metric::Tps | Metric::WorstSecond));
        Some(Pair {
            b: limits_within(b, metric, cut.map(|(window, _)| window))?,
            a: limits_within(a, metric, cut.map(|(_, window)| window))?,
            cycles: cut.map_or(0, |_| common),
            is_unequal: cut.is_none() && count_checkpoints(a.0) != count_checkpoints(b.0),
        })
    }
}

impl PairedCell {
    pub fn ratio(&self) -> Option<Ratio> {
        compute_ratio(&self.pairs.iter().map(|pair| (pair.b, pair.a)).collect::<Vec<_>>())
    }

    /// A ratio known only within limits counts as the value nearest to 1: an event that did not occur never strengthens
    /// a difference.
    pub fn logs(&self) -> Vec<f64> {
        let log = |pair: &Pair| {
            let ratio = pair.b.divided_by(pair.a);
            1.0_f64.clamp(ratio.at_least, ratio.at_most.unwrap_or(f64::INFINITY)).ln()
        };
        self.pairs.iter().map(log).collect()
    }
}

/// Trials by point (without the compared axes) and repeat.
type CellTrials<'a> = BTreeMap<String, BTreeMap<u32, Told<'a>>>;

impl<'a> Side<'a> {
    pub fn name(&self) -> String {
        let values = self.selection.values.iter().map(|(axis, value)| format!("{axis}={value}"));
        format!("{}:{}", self.run.id, values.collect::<Vec<_>>().join(","))
    }

    fn trials_of_cells(&self, outlines: &'a [TrialOutline], compared: &[&String]) -> Result<CellTrials<'a>> {
        let mut cells = CellTrials::new();
        let mut points: BTreeMap<String, u32> = BTreeMap::new();
        let rest: Vec<String> = self.run.varied.iter().filter(|axis| !compared.contains(axis)).cloned().collect();
        for (trial, outline) in self.trials.iter().zip(outlines).filter(|(trial, _)| self.has(trial)) {
            let label = if rest.is_empty() { String::new() } else { trial.point.render(&rest) };
            if *points.entry(label.clone()).or_insert(trial.number) != trial.number {
                let why = "matches several points; give it a value for each axis that the other side names";
                return Err(Error::Selection(format!("{} {why}", self.name())));
            }
            cells.entry(label).or_default().insert(trial.repeat, (trial, outline));
        }
        if points.is_empty() {
            let axes = self.run.varied.join(", ");
            return Err(Error::Selection(format!("{} matches no trial; the sweep varies {axes}", self.name())));
        }
        Ok(cells)
    }

    fn has(&self, trial: &SweepTrial) -> bool {
        let is_so =
            |(axis, asked): (&String, &String)| trial.point.value(axis).is_some_and(|value| is_same(&value, asked));
        self.selection.values.iter().all(is_so)
    }
}

/// Accepts equal numbers and sizes: `1GB`, `1024MB`, `1GiB`.
fn is_same(value: &str, asked: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    let size =
        |text: &str| text.ends_with(|last: char| last.is_ascii_alphabetic()).then(|| text.parse::<Bytes>().ok())?;
    value == asked
        || number(value).is_some_and(|one| number(asked) == Some(one))
        || size(value).is_some_and(|one| size(asked) == Some(one))
}

/// Whole seconds between two checkpoints' starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Begins after second `after`, ends with second `until`.
    after: u32,
    until: u32,
}

impl Window {
    /// The trial's first `cycles` checkpoint cycles. `None` without a whole second.
    pub fn of(trial: &SweepTrial, cycles: u32) -> Option<Window> {
        let begins = read_begins(trial);
        let (first, last) = (begins.first()?, begins.get(cycles as usize).filter(|_| cycles > 0)?);
        let window = Window { after: first.ceil() as u32, until: last.floor() as u32 };
        (window.after < window.until).then_some(window)
    }

    pub fn tps(self, trial: &SweepTrial) -> f64 {
        let served: f64 = self.samples(trial).map(|sample| sample.transactions as f64).sum();
        served / f64::from(self.until - self.after)
    }

    pub fn worst_second_tps(self, trial: &SweepTrial) -> Option<f64> {
        self.samples(trial).map(|sample| sample.transactions as f64).reduce(f64::min)
    }

    fn samples(self, trial: &SweepTrial) -> impl Iterator<Item = &Sample> {
        trial.samples.iter().filter(move |sample| sample.second > self.after && sample.second <= self.until)
    }
}

pub fn compute_cycles(trial: &SweepTrial) -> (u32, Option<f64>) {
    let cycles = read_begins(trial).len().saturating_sub(1) as u32;
    (cycles, Window::of(trial, cycles).map(|window| window.tps(trial)))
}

pub fn count_checkpoints(trial: &SweepTrial) -> u32 {
    trial.checkpoints.len() as u32 + u32::from(trial.checkpoint_begun.is_some())
}

/// Checkpoint starts, in seconds after the trial's start, ascending.
fn read_begins(trial: &SweepTrial) -> Vec<f64> {
    let ended = trial.checkpoints.iter().map(|one| one.began_after_seconds);
    let begun = trial.checkpoint_begun.iter().map(|one| one.began_after_seconds);
    let mut begins: Vec<f64> =
        ended.chain(begun).filter(|began| (0.0..=trial.lasted_seconds).contains(began)).collect();
    begins.sort_by(f64::total_cmp);
    begins
}

#[cfg(test)]
pub(super) mod tests {
    use rand::Rng as _;

    use super::*;
    use crate::study::record::tests::trial;
    use crate::study::{Checkpoint, CheckpointBegun};

    #[test]
    fn pairs_are_cut_to_the_whole_cycles_that_both_have() {
        let of = |begins: &[f64]| {
            let mut trial = counting(begins);
            trial.checkpoint_cycles = compute_cycles(&trial).0;
            trial
        };
        let pair = |b: &[f64], a: &[f64], metric| {
            let (b, a) = (of(b), of(a));
            let (outline_of_b, outline_of_a) = (TrialOutline::from(&b), TrialOutline::from(&a));
            let pair = Pair::of((&b, &outline_of_b), (&a, &outline_of_a), metric).unwrap();
            (pair.b.at_least, pair.a.at_least, pair.cycles, pair.is_unequal)
        };
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
    }

    #[test]
    fn a_time_that_was_not_reached_never_makes_a_difference_surer() {
        let pair = |b: Option<f64>, a: Option<f64>| Pair {
            b: Limits::reached(b, 17.0),
            a: Limits::reached(a, 17.0),
            cycles: 0,
            is_unequal: false,
        };
        let logs = |pairs: Vec<Pair>| PairedCell { label: String::new(), pairs }.logs();
        let exact = (6.0_f64 / 17.0).ln();
        assert_eq!(logs(vec![pair(Some(6.0), None), pair(Some(18.0), None), pair(None, None)]), [exact, 0.0, 0.0]);
        assert_eq!(logs(vec![pair(None, Some(6.0))]), [(17.0_f64 / 6.0).ln()]);
    }

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

    #[test]
    fn one_study_in_twenty_finds_what_is_not_there() {
        let mut random = StdRng::seed_from_u64(9);
        let mut study = || (0..STUDY_PAIRS).map(|_| random.random_range(-0.02..0.02)).collect::<Vec<f64>>();
        let found = (0..400).filter(|_| compute_p(&study()) <= LEVEL).count();
        assert!((10..=30).contains(&found), "{found} of 400");
    }

    #[test]
    fn a_size_is_the_same_however_it_is_written() {
        for (value, asked) in [("256MB", "256MiB"), ("1GB", "1024 MB"), ("2000", "2000.0"), ("none", "none")] {
            assert!(is_same(value, asked), "{value} {asked}");
        }
        for (value, asked) in [("256MB", "256kB"), ("none", "0MB"), ("128", "128B"), ("pg15", "pg17"), ("inf", "nan")] {
            assert!(!is_same(value, asked), "{value} {asked}");
        }
    }

    pub fn checkpoint(began_after_seconds: f64) -> Checkpoint {
        Checkpoint {
            began_after_seconds,
            ended_after_seconds: began_after_seconds + 1.0,
            reason: "time".into(),
            buffers: 1,
            write_seconds: 0.5,
            sync_seconds: 0.1,
            total_seconds: 1.0,
            sync_files: 1,
            longest_sync_seconds: 0.1,
        }
    }

    pub fn counting(begins: &[f64]) -> SweepTrial {
        let sample = |second: u32| Sample {
            second,
            monotonic_ms: 0,
            wall_ms: 0,
            transactions: second.into(),
            latency_us_mean: None,
            latency_us_min: None,
            latency_us_max: None,
            latency_us_deviation: None,
            foreground_read_bytes: Bytes(0),
            device_read_bytes: Bytes(0),
            device_reads: 0,
            os_resident_bytes: Bytes(0),
        };
        SweepTrial {
            lasted_seconds: 10.0,
            tps: 5.5,
            worst_second_tps: Some(2.0),
            samples: (1..=10).map(sample).collect(),
            checkpoints: begins.iter().map(|began| checkpoint(*began)).collect(),
            ..trial()
        }
    }

    #[test]
    fn cycles_go_from_one_beginning_to_the_next() {
        assert_eq!(compute_cycles(&counting(&[])), (0, None));
        let mut one = counting(&[-0.5, 2.0]);
        assert_eq!(compute_cycles(&one), (0, None));
        one.checkpoint_begun = Some(CheckpointBegun { began_after_seconds: 6.5, reason: "time".into() });
        assert_eq!(compute_cycles(&one), (1, Some(4.5)));
        assert_eq!(Window::of(&one, 1).unwrap().worst_second_tps(&one), Some(3.0));
        assert_eq!((Window::of(&one, 0), Window::of(&one, 2)), (None, None));
    }

    #[test]
    fn a_cycle_without_a_whole_second_is_no_window() {
        let one = counting(&[2.2, 2.9]);
        assert_eq!((Window::of(&one, 1), compute_cycles(&one)), (None, (1, None)));
    }
}
