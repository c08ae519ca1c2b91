//! The warmers of a study beside each other: ratios of their times within the rounds, of each cell of the other axes. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::metric::Metric;
use super::outline::TrialOutline;
use super::warming::{group_of, limits_of};
use crate::study::{PGTHAW, Strategy, SweepRun};
use crate::verdict::comparison::BOUND;
use crate::verdict::statistics::{Limits, Ratio, compute_ratio};

/// `dividend ÷ divisor`, of the trials of the same round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WarmerRatio {
    /// What else varies in the study, by its values; empty where nothing does.
    pub cell: String,
    pub dividend: String,
    /// A warmer, or `bound`.
    pub divisor: String,
    /// The figure of the dividend, and of the divisor.
    pub of: Metric,
    pub to: Metric,
    #[serde(flatten)]
    pub ratio: Ratio,
}

/// pgthaw's ratios to the bound and to the others, cell by cell; none where pgthaw did not take part. What a study of ways to
/// warm compares is its [comparison](crate::verdict::Comparison).
pub fn compute_warmer_ratios(run: &SweepRun, trials: &[TrialOutline]) -> Vec<WarmerRatio> {
    let mut cells: BTreeMap<String, Vec<&TrialOutline>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.failure.is_none() && trial.warming.is_some() && !run.is_warmup()) {
        cells.entry(group_of(&trial.point)).or_default().push(trial);
    }
    // In the order of the study, which is not that of the words.
    let mut cells: Vec<Vec<&TrialOutline>> = cells.into_values().collect();
    cells.sort_by_key(|trials| trials.iter().map(|trial| trial.number).min());
    let other_axes: Vec<String> =
        run.varied.iter().filter(|axis| !["strategy", "side"].contains(&axis.as_str())).cloned().collect();
    cells.iter().flat_map(|trials| Cell::new(trials, &other_axes).ratios()).collect()
}

/// The trials of all warmers under otherwise equal circumstances.
struct Cell<'a> {
    trials: &'a [&'a TrialOutline],
    label: String,
    is_idle: bool,
}

impl Cell<'_> {
    fn new<'a>(trials: &'a [&'a TrialOutline], other_axes: &[String]) -> Cell<'a> {
        let label = trials.first().filter(|_| !other_axes.is_empty()).map(|trial| trial.point.render(other_axes));
        let is_idle = trials.iter().filter_map(|trial| trial.warming.as_ref()).any(|warming| warming.brought.is_some());
        Cell { trials, label: label.unwrap_or_default(), is_idle }
    }

    fn ratios(&self) -> Vec<WarmerRatio> {
        let mut names: Vec<(u32, &str)> = Vec::new();
        for trial in self.trials {
            let name = trial.point.strategy.as_str();
            if !names.iter().any(|(_, known)| *known == name) {
                names.push((trial.number, name));
            }
        }
        names.sort_unstable();
        let own = [Strategy::PgthawOs.name(), PGTHAW].into_iter().find(|own| names.iter().any(|(_, one)| one == own));
        let Some(own) = own.filter(|_| names.len() > 1) else { return Vec::new() };
        let reached = if self.is_idle { Metric::ResidentAfter } else { Metric::WarmAfter };
        let mut ratios: Vec<WarmerRatio> = self.ratio((own, reached), (BOUND, Metric::Bound)).into_iter().collect();
        for (_, other) in names.into_iter().filter(|(_, name)| *name != own) {
            let strategy: Option<Strategy> = other.parse().ok();
            let ratio = match strategy {
                Some(one) if self.is_idle && one.is_fio() => {
                    self.ratio((own, Metric::LoadRate), (other, Metric::LoadRate))
                }
                // Of the two it is the other one that brings more.
                Some(one) if self.is_idle && one.fills_buffers() => {
                    self.ratio((other, Metric::BuffersAfter), (own, reached))
                }
                _ => self.ratio((own, reached), (other, reached)),
            };
            ratios.extend(ratio);
        }
        ratios
    }

    fn ratio(&self, (dividend, of): (&str, Metric), (divisor, to): (&str, Metric)) -> Option<WarmerRatio> {
        let is_of = |trial: &&TrialOutline, name: &str| trial.point.strategy == name;
        let pair = |one: &&TrialOutline| -> Option<(Limits, Limits)> {
            let is_other = |other: &&&TrialOutline| {
                (other.repeat, &other.point.side) == (one.repeat, &one.point.side) && is_of(other, divisor)
            };
            // The bound is known of each trial.
            let other = if divisor == BOUND { *one } else { *self.trials.iter().find(is_other)? };
            Some((limits_of(one, of)?, limits_of(other, to)?))
        };
        let pairs: Vec<_> = self.trials.iter().filter(|trial| is_of(trial, dividend)).filter_map(pair).collect();
        Some(WarmerRatio {
            cell: self.label.clone(),
            dividend: dividend.to_owned(),
            divisor: divisor.to_owned(),
            of,
            to,
            ratio: compute_ratio(&pairs)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::record::tests::{run, trial};
    use crate::study::{Brought, Point, Warming, WarmingFigures};
    use crate::units::Bytes;
    use crate::verdict::sweep::warming::outline_trials;

    fn trials_of(strategy: &str, scale: u32, seconds: [Option<f64>; 3]) -> Vec<crate::study::SweepTrial> {
        let of = |(repeat, resident_after_seconds): (u32, Option<f64>)| {
            let brought = Brought {
                resident_after_seconds,
                buffers_after_seconds: resident_after_seconds.map(|seconds| 2.0 * seconds),
                own_bytes: Some(Bytes(400)),
                own_seconds: Some(2.0),
                ..Brought::default()
            };
            let figures = WarmingFigures {
                measured_seconds: 60,
                wanted_bytes: Some(Bytes(1000)),
                bound_seconds: Some(2.0),
                brought: Some(brought),
                ..WarmingFigures::default()
            };
            let point = Point { strategy: strategy.into(), scale, ..trial().point };
            let warming = Some(Warming { figures, ..Warming::default() });
            crate::study::SweepTrial { point, repeat, warming, ..trial() }
        };
        (1..).zip(seconds).map(of).collect()
    }

    #[test]
    fn pgthaw_is_held_against_each_other_warmer_of_its_cell() {
        let mut trials = trials_of("cat", 1, [Some(8.0); 3]);
        trials.extend(trials_of("pgthaw-os", 1, [Some(4.0); 3]));
        trials.extend(trials_of("pgthaw", 1, [Some(5.0); 3]));
        trials.extend(trials_of("fio-direct", 1, [None; 3]));
        trials.extend(trials_of("cat", 2, [None; 3]));
        trials.extend(trials_of("pgthaw-os", 2, [Some(6.0); 3]));
        let run = SweepRun { varied: vec!["scale".into(), "strategy".into()], ..run() };
        let ratios = compute_warmer_ratios(&run, &outline_trials(&trials));
        let told: Vec<_> = ratios
            .iter()
            .map(|one| (one.cell.as_str(), one.dividend.as_str(), one.divisor.as_str(), one.ratio.median.at_least))
            .collect();
        assert_eq!(
            told,
            [
                ("scale 1", "pgthaw-os", "bound", 2.0),
                ("scale 1", "pgthaw-os", "cat", 0.5),
                // 0.99 × 1000 bytes in 4 s, and 400 in 2.
                ("scale 1", "pgthaw-os", "fio-direct", 247.5 / 200.0),
                ("scale 1", "pgthaw", "pgthaw-os", 2.5),
                ("scale 2", "pgthaw-os", "bound", 3.0),
                ("scale 2", "pgthaw-os", "cat", 0.0),
            ]
        );
        assert_eq!(ratios[5].ratio.median.at_most, Some(0.1), "cat had not brought it back within 60 s");
        let warmup = SweepRun { study: serde_json::json!({ "is_warmup": true }), ..run };
        assert!(compute_warmer_ratios(&warmup, &outline_trials(&trials)).is_empty());
    }
}
