use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::metric::Metric;
use super::outline::TrialOutline;
use super::statistics::{Limits, Ratio, Spread, compute_ratio};
use super::summary::PointSummary;
use super::warm::served_by;
use super::warming::{group_of, limits_of};
use crate::study::{NOTHING, PGTHAW, STRATEGY, Strategy, SweepRun};
use model::compute_median;

const BOUND: &str = "bound";

/// Deadline for served transactions, in multiples of the bound.
const DEADLINE_BOUNDS: f64 = 1.25;

/// Ratio of a warmer's figure (a time, or fio's load rate) to that of `nothing` (no warmer), `cat` or pgthaw in the
/// same round, or to the bound (the disk's minimum time to load the data).
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct WarmerRatio {
    /// Values of the other axes that vary.
    pub cell: String,
    pub dividend: String,
    /// A warmer, or `bound`.
    pub divisor: String,
    /// Metric of the dividend.
    pub of: Metric,
    /// Metric of the divisor.
    pub to: Metric,
    #[serde(flatten)]
    pub ratio: Ratio,
}

pub fn compute_warmer_ratios(run: &SweepRun, trials: &[TrialOutline]) -> Vec<WarmerRatio> {
    let mut cells: BTreeMap<String, Vec<&TrialOutline>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.failure.is_none() && trial.warming.is_some()) {
        cells.entry(group_of(&trial.point)).or_default().push(trial);
    }
    let mut cells: Vec<Vec<&TrialOutline>> = cells.into_values().collect();
    cells.sort_by_key(|trials| trials.iter().map(|trial| trial.number).min());
    let other_axes: Vec<String> =
        run.varied.iter().filter(|axis| ![STRATEGY, "side"].contains(&axis.as_str())).cloned().collect();
    let ratios = |trials: &Vec<&TrialOutline>| {
        let label = if other_axes.is_empty() { String::new() } else { trials[0].point.render(&other_axes) };
        let is_idle = trials.iter().filter_map(|trial| trial.warming.as_ref()).any(|warming| warming.brought.is_some());
        Cell { trials, label, is_idle }.ratios()
    };
    cells.iter().flat_map(ratios).collect()
}

struct Cell<'a> {
    trials: &'a [&'a TrialOutline],
    label: String,
    is_idle: bool,
}

impl Cell<'_> {
    fn ratios(&self) -> Vec<WarmerRatio> {
        let names = self.trials.iter().map(|trial| (trial.number, trial.point.strategy.as_str()));
        let mut names: BTreeSet<(u32, &str)> = names.collect();
        let mut known = BTreeSet::new();
        names.retain(|(_, name)| known.insert(*name));
        let has = |name: &&str| names.iter().any(|(_, one)| one == name);
        // Without a load, other warmers are compared with pgthaw-os: pgthaw also fills shared_buffers.
        let owns = if self.is_idle { [Strategy::PgthawOs.name(), PGTHAW] } else { [PGTHAW, Strategy::PgthawOs.name()] };
        let own = owns.into_iter().find(has);
        let mut peers = vec![BOUND];
        peers.extend([NOTHING, Strategy::Cat.name()].into_iter().chain(own).filter(has));
        let mut ratios = Vec::new();
        for (_, name) in &names {
            for peer in peers.iter().filter(|peer| *peer != name) {
                ratios.extend(
                    self.figures(name, peer, own).into_iter().filter_map(|(of, to)| self.ratio((name, of), (peer, to))),
                );
            }
        }
        ratios
    }

    fn figures(&self, name: &str, peer: &str, own: Option<&str>) -> Vec<(Metric, Metric)> {
        use Metric::{Bound, BuffersAfter, LoadRate, ResidentAfter, To50, WarmAfter};
        match (self.is_idle, peer == BOUND, name.parse::<Strategy>()) {
            (true, true, _) => vec![(ResidentAfter, Bound)],
            (false, true, _) => vec![(WarmAfter, Bound)],
            // fio leaves nothing in the page cache. A warmer of shared_buffers has finished when the buffers are
            // restored.
            (true, false, Ok(one)) if one.is_fio() => vec![(LoadRate, LoadRate)],
            (true, false, Ok(one)) if one.fills_buffers() && own != Some(name) => vec![(BuffersAfter, ResidentAfter)],
            (true, false, _) => vec![(ResidentAfter, ResidentAfter)],
            (false, false, _) if own == Some(peer) => vec![(WarmAfter, WarmAfter)],
            (false, false, _) => vec![(WarmAfter, WarmAfter), (To50, To50)],
        }
    }

    fn ratio(&self, (dividend, of): (&str, Metric), (divisor, to): (&str, Metric)) -> Option<WarmerRatio> {
        let is_of = |trial: &&TrialOutline, name: &str| trial.point.strategy == name;
        let pair = |one: &&TrialOutline| -> Option<(Limits, Limits)> {
            let is_other = |other: &&&TrialOutline| {
                (other.repeat, &other.point.side) == (one.repeat, &one.point.side) && is_of(other, divisor)
            };
            // The bound is this trial's own; another warmer's figure is from the same round.
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

/// Transactions of each second, by the trial's point number and repeat.
pub type ServedSeconds = BTreeMap<(u32, u32), Vec<u64>>;

/// Effects of warmers on the load, if only the warmer varies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Traffic {
    /// 1.25 × the disk's minimum time to load the data. `None` if this time is unknown, or if every strategy has a
    /// trial that ended before the deadline.
    pub deadline_seconds: Option<f64>,
    /// All warmers except `nothing`; empty if `nothing` was not measured.
    pub warmers: Vec<Interference>,
}

/// Effect of a warmer on the load. A share is a second's transactions with the warmer ÷ those with `nothing` (no
/// warmer) in the same second of the same round.
#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct Interference {
    pub strategy: String,
    /// Lowest throughput in a second, as a share of the throughput with `nothing` (no warmer) in this second. The share
    /// of a second is the median over the rounds.
    pub lowest: Option<LeastShare>,
    /// Lowest throughput in a second of any round, as a share of the throughput with `nothing` in this second.
    pub least: Option<LeastShare>,
    /// Throughput that the warmer promises for every second, as a share of the throughput with `nothing`: `pgthaw` 0.3,
    /// `pgthaw-gentle` 0.8.
    pub floor: Option<f64>,
    pub is_floor_held: Option<bool>,
    /// First second from which the total of transactions stays above the total with `nothing` (no warmer). It is above
    /// if the median of the rounds' differences is positive.
    pub ahead_from_second: Option<u32>,
    /// Transactions of trials without a warmer in the median time that this warmer needed; in the whole trial if this
    /// time is unknown. `None` if a trial without a warmer ended earlier.
    pub nothing_served_by_then: Option<Spread>,
    /// This warmer's transactions ÷ those with `nothing` (no warmer), over the seconds that both trials measured.
    pub served_ratio: Option<Ratio>,
    pub served_by_deadline: Option<Spread>,
    /// This warmer's transactions until the deadline ÷ those with `nothing` (no warmer).
    pub deadline_ratio: Option<Ratio>,
    /// pgthaw's transactions until the deadline ÷ those of this warmer.
    pub pgthaw_ratio: Option<Ratio>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct LeastShare {
    /// From 1.
    pub second: u32,
    /// From 1; `None` for the median of all rounds.
    pub repeat: Option<u32>,
    pub share: f64,
}

pub fn compute_traffic(
    run: &SweepRun,
    points: &[PointSummary],
    trials: &[TrialOutline],
    served: &ServedSeconds,
) -> Traffic {
    if !run.compares_warmers() {
        return Traffic::default();
    }
    let seconds_of = |point: &PointSummary| find_seconds(point.number, trials, served);
    let find = |name: &str| points.iter().find(|point| point.label == name).map(seconds_of).unwrap_or_default();
    let (nothing, pgthaw) = (find(NOTHING), find(PGTHAW));
    let measured = points.iter().filter_map(|point| point.measured_seconds).max().unwrap_or_default();
    let bound = points.iter().find_map(|point| point.median(Metric::Bound));
    let deadline = bound.map(|bound| DEADLINE_BOUNDS * bound).filter(|deadline| *deadline <= f64::from(measured));
    let is_beside = |point: &&PointSummary| point.label != NOTHING && point.figure(Metric::WarmAfter).is_some();
    let beside = points.iter().filter(is_beside).filter(|_| !nothing.is_empty());
    let warmers = beside.map(|point| {
        let rounds = [&seconds_of(point), &nothing, &pgthaw];
        compute_interference(&point.label, rounds, point.median(Metric::WarmAfter), deadline)
    });
    Traffic { deadline_seconds: deadline, warmers: warmers.collect() }
}

type Rounds<'a> = BTreeMap<u32, &'a [u64]>;

fn find_seconds<'a>(number: u32, trials: &[TrialOutline], served: &'a ServedSeconds) -> Rounds<'a> {
    let own = trials.iter().filter(|trial| trial.number == number && trial.failure.is_none());
    own.filter_map(|trial| Some((trial.repeat, served.get(&(number, trial.repeat))?.as_slice()))).collect()
}

fn compute_interference(
    name: &str,
    [own, nothing, pgthaw]: [&Rounds<'_>; 3],
    warm: Option<f64>,
    deadline: Option<f64>,
) -> Interference {
    let rounds = pair_rounds(own, nothing);
    let (lowest, least) = find_least(&rounds);
    let floor = name.parse().ok().and_then(Strategy::floor);
    let longest = own.values().chain(nothing.values()).map(|one| one.len()).max().unwrap_or(0);
    let needed = warm.map_or(longest, |warm| warm.ceil() as usize);
    let then = warm.unwrap_or(f64::INFINITY);
    // The later seconds of a trial that ended early are unknown.
    let is_long = nothing.values().all(|one| one.len() >= needed);
    let by_deadline = |one: &Rounds<'_>, other: &Rounds<'_>| {
        let at = deadline?;
        compute_served_ratio(&pair_rounds(one, other), |_, _| at)
    };
    let by = |rounds: &Rounds<'_>, at: f64| Spread::of(rounds.values().map(|one| Some(served_by(one, at))));
    Interference {
        strategy: name.to_owned(),
        lowest,
        least,
        floor,
        is_floor_held: floor.zip(least).map(|(floor, least)| least.share >= floor),
        ahead_from_second: find_ahead(&rounds),
        nothing_served_by_then: is_long.then(|| by(nothing, then)),
        served_ratio: compute_served_ratio(&rounds, |one, other| one.len().min(other.len()) as f64),
        served_by_deadline: deadline.map(|at| by(own, at)),
        deadline_ratio: by_deadline(own, nothing),
        pgthaw_ratio: by_deadline(pgthaw, own).filter(|_| name != PGTHAW),
    }
}

type Pair<'a> = (u32, &'a [u64], &'a [u64]);

fn pair_rounds<'a>(one: &Rounds<'a>, other: &Rounds<'a>) -> Vec<Pair<'a>> {
    one.iter().filter_map(|(round, own)| Some((*round, *own, *other.get(round)?))).collect()
}

fn compute_served_ratio(rounds: &[Pair<'_>], at: impl Fn(&[u64], &[u64]) -> f64) -> Option<Ratio> {
    let pair = |(_, one, other): &Pair<'_>| {
        let at = at(one, other);
        (Limits::exactly(served_by(one, at)), Limits::exactly(served_by(other, at)))
    };
    compute_ratio(&rounds.iter().map(pair).collect::<Vec<_>>())
}

fn common_seconds(rounds: &[Pair<'_>]) -> usize {
    rounds.iter().map(|(_, one, other)| one.len().min(other.len())).min().unwrap_or(0)
}

/// Returns `Interference::lowest` and `Interference::least`.
fn find_least(rounds: &[Pair<'_>]) -> (Option<LeastShare>, Option<LeastShare>) {
    let share = |index: usize, (_, one, nothing): &Pair<'_>| {
        (nothing[index] > 0).then(|| one[index] as f64 / nothing[index] as f64)
    };
    let seconds = || (0..common_seconds(rounds)).map(|index| (index, index as u32 + 1));
    let medians = seconds().filter_map(|(index, second)| {
        let median = compute_median(rounds.iter().filter_map(|round| share(index, round)).collect())?;
        Some(LeastShare { second, repeat: None, share: median })
    });
    let all = seconds().flat_map(|(index, second)| {
        let of =
            move |round: &Pair<'_>| Some(LeastShare { second, repeat: Some(round.0), share: share(index, round)? });
        rounds.iter().filter_map(of)
    });
    let by_share = |one: &LeastShare, other: &LeastShare| one.share.total_cmp(&other.share);
    (medians.min_by(by_share), all.min_by(by_share))
}

fn find_ahead(rounds: &[Pair<'_>]) -> Option<u32> {
    let served = |trial: &[u64], seconds: usize| -> f64 { trial[..seconds].iter().map(|count| *count as f64).sum() };
    let is_ahead = |seconds: usize| {
        let leads = rounds.iter().map(|(_, one, nothing)| served(one, seconds) - served(nothing, seconds));
        compute_median(leads.collect()).is_some_and(|lead| lead > 0.0)
    };
    let all = common_seconds(rounds);
    let last_behind = (1..=all).rev().find(|seconds| !is_ahead(*seconds)).unwrap_or(0);
    (last_behind < all).then_some(last_behind as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::{run, trial};
    use crate::study::{Brought, Climb, Point, SweepTrial, Warming, WarmingFigures};
    use crate::verdict::{compute_outline_summary, outline_trials};
    use host::units::Bytes;

    fn trial_of(strategy: &str, number: u32, scale: u32, repeat: u32, figures: WarmingFigures) -> SweepTrial {
        let point = Point { strategy: strategy.into(), scale, ..trial().point };
        SweepTrial { point, number, repeat, warming: Some(Warming { figures, ..Warming::default() }), ..trial() }
    }

    fn idle(strategy: &str, number: u32, scale: u32, seconds: [Option<f64>; 3]) -> Vec<SweepTrial> {
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
            trial_of(strategy, number, scale, repeat, figures)
        };
        (1..).zip(seconds).map(of).collect()
    }

    type Told<'a> = (&'a str, &'a str, &'a str, Limits);

    fn told(ratios: &[WarmerRatio]) -> Vec<Told<'_>> {
        let tell = |one: &'_ WarmerRatio| one.ratio.median;
        ratios.iter().map(|one| (&*one.cell, &*one.dividend, &*one.divisor, tell(one))).collect()
    }

    #[test]
    fn idle_warmers_are_held_against_the_bound_cat_and_pgthaw_cell_by_cell() {
        let mut trials = idle("cat", 0, 1, [Some(8.0); 3]);
        trials.extend(idle("pgthaw-os", 1, 1, [Some(4.0); 3]));
        trials.extend(idle("pgthaw", 2, 1, [Some(5.0); 3]));
        trials.extend(idle("fio-direct", 3, 1, [None; 3]));
        trials.extend(idle("cat", 4, 2, [None; 3]));
        trials.extend(idle("pgthaw-os", 5, 2, [Some(6.0); 3]));
        let run = SweepRun { varied: vec!["scale".into(), "strategy".into()], ..run() };
        let ratios = compute_warmer_ratios(&run, &outline_trials(&trials));
        let (exactly, at_least) = (Limits::exactly, |at_least| Limits { at_least, at_most: None });
        assert_eq!(
            told(&ratios),
            [
                ("scale 1", "cat", "bound", exactly(4.0)),
                ("scale 1", "cat", "pgthaw-os", exactly(2.0)),
                ("scale 1", "pgthaw-os", "bound", exactly(2.0)),
                ("scale 1", "pgthaw-os", "cat", exactly(0.5)),
                ("scale 1", "pgthaw", "bound", exactly(2.5)),
                ("scale 1", "pgthaw", "cat", exactly(1.25)),
                ("scale 1", "pgthaw", "pgthaw-os", exactly(2.5)),
                ("scale 1", "fio-direct", "cat", exactly(200.0 / 123.75)),
                ("scale 1", "fio-direct", "pgthaw-os", exactly(200.0 / 247.5)),
                ("scale 2", "cat", "bound", at_least(30.0)),
                ("scale 2", "cat", "pgthaw-os", at_least(10.0)),
                ("scale 2", "pgthaw-os", "bound", exactly(3.0)),
                ("scale 2", "pgthaw-os", "cat", Limits { at_least: 0.0, at_most: Some(0.1) }),
            ]
        );
    }

    fn loaded(strategy: &str, number: u32, warm_after: [Option<f64>; 3]) -> Vec<SweepTrial> {
        let of = |(repeat, warm_after_seconds): (u32, Option<f64>)| {
            let half = warm_after_seconds.map(|seconds| Climb { seconds: seconds / 2.0, tps: 50.0 });
            let figures = WarmingFigures {
                measured_seconds: 10,
                warm_after_seconds,
                warm_tps: Some(100.0),
                climb: half.into_iter().collect(),
                bound_seconds: Some(2.0),
                ..WarmingFigures::default()
            };
            trial_of(strategy, number, 1, repeat, figures)
        };
        (1..).zip(warm_after).map(of).collect()
    }

    #[test]
    fn a_ratio_to_an_unreached_time_is_limited_by_what_was_watched() {
        let mut trials = loaded("nothing", 0, [None; 3]);
        trials.extend(loaded("cat", 1, [7.0, 8.0, 9.0].map(Some)));
        trials.extend(loaded("pgthaw", 2, [3.5, 6.0, 3.0].map(Some)));
        let run = SweepRun { varied: vec!["strategy".into()], ..run() };
        let ratios = compute_warmer_ratios(&run, &outline_trials(&trials));
        let to = |of: Metric, peer: &str| {
            ratios.iter().find(|one| (one.of, &*one.dividend, &*one.divisor) == (of, "pgthaw", peer)).unwrap().ratio
        };
        let to_cat = to(Metric::WarmAfter, "cat");
        assert_eq!(to_cat.median, Limits::exactly(0.5));
        assert_eq!(to_cat.interval, Some(Limits { at_least: 3.0 / 9.0, at_most: Some(0.75) }));
        assert_eq!(to(Metric::WarmAfter, "nothing").median, Limits { at_least: 0.0, at_most: Some(0.5) });
        assert_eq!(to(Metric::WarmAfter, BOUND).median, Limits::exactly(1.75));
        assert_eq!(to(Metric::To50, "cat").median, Limits::exactly(0.5));
        let points = compute_outline_summary(&run, &outline_trials(&trials));
        let order: Vec<&str> = points.iter().map(|point| point.label.as_str()).collect();
        assert_eq!(order, ["pgthaw", "cat", "nothing"], "the soonest first, and what never got warm last");
        let warm = points[1].figure(Metric::WarmAfter).unwrap();
        assert_eq!((warm.median, warm.min, warm.max, warm.reached), (Some(8.0), Some(7.0), Some(9.0), 3));
        let served = trials.iter().map(|trial| ((trial.number, trial.repeat), vec![100; 10])).collect();
        let traffic = compute_traffic(&run, &points, &outline_trials(&trials), &served);
        let (pgthaw, cat) = (&traffic.warmers[0], &traffic.warmers[1]);
        assert_eq!(traffic.deadline_seconds, Some(2.5));
        assert_eq!(pgthaw.served_by_deadline.unwrap().median, Some(250.0));
        assert_eq!(pgthaw.served_ratio.unwrap().median, Limits::exactly(1.0));
        assert_eq!(cat.nothing_served_by_then.unwrap().median, Some(800.0));
        let without: Vec<SweepTrial> = trials.into_iter().filter(|trial| trial.number > 0).collect();
        assert!(compute_traffic(&run, &points[..2], &outline_trials(&without), &served).warmers.is_empty());
    }

    const NOTHINGS: [&[u64]; 2] = [&[100, 100, 0, 200], &[100, 100, 0, 200]];
    const PGTHAWS: [&[u64]; 2] = [&[50, 40, 10, 900], &[70, 20, 10, 900]];
    const CATS: [&[u64]; 2] = [&[10, 10, 10, 10], &[10, 10, 10, 50]];

    fn beside(name: &str, own: [&[u64]; 2], deadline: Option<f64>) -> Interference {
        let rounds = |both: [&'static [u64]; 2]| -> Rounds<'static> { (1..).zip(both).collect() };
        let own: Rounds<'_> = (1..).zip(own).collect();
        compute_interference(name, [&own, &rounds(NOTHINGS), &rounds(PGTHAWS)], None, deadline)
    }

    #[test]
    fn a_second_is_compared_with_the_same_second_of_the_same_round() {
        let pgthaw = beside("pgthaw", PGTHAWS, Some(2.5));
        let lowest = LeastShare { second: 2, repeat: None, share: f64::midpoint(0.4, 0.2) };
        assert_eq!(pgthaw.lowest, Some(lowest));
        assert_eq!(pgthaw.least, Some(LeastShare { second: 2, repeat: Some(2), share: 0.2 }));
        assert_eq!((pgthaw.floor, pgthaw.is_floor_held), (Some(0.3), Some(false)));
        assert_eq!(pgthaw.deadline_ratio.map(|ratio| ratio.median), Some(Limits::exactly(95.0 / 200.0)));
        assert_eq!((pgthaw.pgthaw_ratio, pgthaw.ahead_from_second), (None, Some(4)));
    }

    #[test]
    fn a_floor_is_held_in_every_second_or_not_at_all() {
        assert_eq!(beside("pgthaw", PGTHAWS, None).is_floor_held, Some(false), "in one round");
        let held: [&[u64]; 2] = [PGTHAWS[0], &[70, 30, 10, 900]];
        assert_eq!(beside("pgthaw", held, None).is_floor_held, Some(true));
        let full = beside("pgthaw-full-speed", held, None);
        assert_eq!((full.floor, full.is_floor_held, full.deadline_ratio), (None, None, None));
    }

    #[test]
    fn a_peer_is_told_what_pgthaw_served_in_its_stead() {
        let cat = beside("cat", CATS, Some(2.0));
        assert_eq!(cat.pgthaw_ratio.map(|ratio| ratio.median), Some(Limits::exactly(4.5)));
        assert_eq!(cat.served_by_deadline.and_then(|spread| spread.median), Some(20.0));
        assert_eq!((cat.floor, cat.ahead_from_second), (None, None));
    }
}
