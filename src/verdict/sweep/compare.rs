//! Two sides of a sweep, or of two sweeps, held against each other: ratios of trials in pairs, cell by cell.

use serde::Serialize;

use super::metric::Metric;
use super::noise::{Noise, compute_noise};
use super::pairs::{PairedCell, Side, pair_cells};
use crate::study::{Error, Finding, MeasurementVerdict, SIDE, texts_of};
use crate::verdict::significance::{compute_holm, compute_p, compute_smallest_detectable};
use crate::verdict::statistics::Ratio;

/// Fewer pairs than this cannot show anything at the usual level: 2 ÷ 2⁵ is above 0.05.
pub const TELLING_PAIRS: u32 = 6;

/// B held against A.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
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

/// Compares the trials of two sides, cell by cell.
///
/// # Errors
/// When a side names an axis or a value that its sweep does not have, or more than one point of a side falls into a cell.
pub fn compute_sweep_comparison(a: Side<'_>, b: Side<'_>, metric: Metric) -> Result<SweepComparison, Error> {
    let paired = pair_cells(a, b, metric)?;
    let mut cells: Vec<CellComparison> = paired.iter().filter_map(compare_cell).collect();
    if cells.is_empty() {
        return Err(Error::Selection(match paired.is_empty() {
            true => "the two sides have no point in common beside what is compared".into(),
            false => format!("no block has trials of both sides with a {} above 0", metric.name()),
        }));
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
    use super::super::outline::TrialOutline;
    use super::super::pairs::{Pair, Selection, Told};
    use super::*;
    use crate::verdict::statistics::Limits;
    use crate::verdict::sweep::cycles::tests::counting;

    #[test]
    fn pairs_are_cut_to_the_whole_cycles_that_both_have() {
        let of = |begins: &[f64]| {
            let mut trial = counting(begins);
            trial.checkpoint_cycles = super::super::cycles::compute_cycles(&trial).0;
            trial
        };
        let pair = |b: &[f64], a: &[f64], metric| {
            let (b, a) = (of(b), of(a));
            let (outline_of_b, outline_of_a) = (TrialOutline::from(&b), TrialOutline::from(&a));
            let told_b = Told { trial: &b, outline: &outline_of_b };
            let pair = Pair::of(told_b, Told { trial: &a, outline: &outline_of_a }, metric).unwrap();
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
}
