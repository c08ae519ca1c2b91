use std::collections::{BTreeMap, BTreeSet};

use super::metric::{ByMetric, Metric};
use super::outline::TrialOutline;
use super::statistics::Limits;
use super::warm::{SUSTAINED_SECONDS, compute_warm_after, served_by, smooth_throughput};
use crate::study::{Brought, Climb, Point, RESIDENT_SHARE, Sample, SweepRun, SweepTrial, Warming, WarmingFigures};
use host::units::Bytes;
use model::{Facts, Judgement, Series, compute_median, judge};

/// Evaluates the seconds of a cold trial. The caller knows the warm page cache's size, the bound and the residency.
pub fn compute_warming(
    samples: &[Sample],
    foreground_tenths: Vec<Bytes>,
    block_size: Bytes,
    judgement: Result<Judgement, String>,
) -> Warming {
    let warm_after_seconds = compute_warm_after(samples, &foreground_tenths, block_size);
    let served: Vec<u64> = samples.iter().map(|sample| sample.transactions).collect();
    let figures = WarmingFigures {
        measured_seconds: samples.len() as u32,
        warm_after_seconds,
        served_until_warm: served_by(&served, warm_after_seconds.unwrap_or(f64::INFINITY)).round() as u64,
        served: served.iter().fold(0, |sum: u64, count| sum.saturating_add(*count)),
        warm_tps: warm_after_seconds.and_then(|warm| compute_warm_tps(samples, warm)),
        climb: compute_climb(samples),
        no_verdict: judgement.as_ref().err().cloned(),
        judgement: judgement.ok(),
        ..WarmingFigures::default()
    };
    Warming { figures, foreground_tenths, ..Warming::default() }
}

fn compute_warm_tps(samples: &[Sample], warm_after: f64) -> Option<f64> {
    let warm = samples.iter().filter(|sample| f64::from(sample.second) - 1.0 >= warm_after);
    compute_median(warm.map(|sample| sample.transactions as f64).collect())
}

fn compute_climb(samples: &[Sample]) -> Vec<Climb> {
    let levels = samples.iter().zip(smooth_throughput(samples)).zip(0_u32..);
    let mut climb: Vec<Climb> = Vec::new();
    for ((sample, smooth), before) in levels {
        let tps = smooth.min(sample.transactions as f64);
        if tps > climb.last().map_or(0.0, |highest| highest.tps) {
            climb.push(Climb { seconds: before.into(), tps });
        }
    }
    climb
}

pub fn outline_trials<'a>(trials: impl IntoIterator<Item = &'a SweepTrial>) -> Vec<TrialOutline> {
    let mut outlines: Vec<TrialOutline> = trials.into_iter().map(TrialOutline::from).collect();
    add_warming_figures(&mut outlines);
    outlines
}

/// The bound is the minimum time to read all needed bytes. A trial that was warm before this share of the bound needed
/// fewer bytes.
const BOUND_HOLDS_FROM: f64 = 0.95;

/// Trials that differ only in warmer share one `steady_tps`: the median of their `warm_tps`.
pub fn add_warming_figures(trials: &mut [TrialOutline]) {
    let mut warm: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.failure.is_none()) {
        let tps = trial.warming.as_ref().and_then(|warming| warming.warm_tps);
        warm.entry(group_of(&trial.point)).or_default().extend(tps);
    }
    let steady: BTreeMap<String, f64> =
        warm.into_iter().filter_map(|(group, levels)| Some((group, compute_median(levels)?))).collect();
    for trial in trials.iter_mut() {
        let Some(warming) = &trial.warming else { continue };
        trial.steady_tps = steady.get(&group_of(&trial.point)).copied();
        let to = |share: f64| warming.seconds_to(share * trial.steady_tps?);
        let bound = warming.bound_seconds.filter(|bound| *bound > 0.0);
        let reached = match &warming.brought {
            Some(brought) => {
                add_brought_figures(&mut trial.figures, brought, warming.wanted_bytes);
                brought.resident_after_seconds
            }
            None if warming.job.is_some_and(|job| job.is_without_curve()) => None,
            None => {
                trial.figures.update([
                    (Metric::WarmAfter, warming.warm_after_seconds),
                    (Metric::To50, to(0.50)),
                    (Metric::To90, to(0.90)),
                    (Metric::To95, to(0.95)),
                    (Metric::ServedUntilWarm, Some(warming.served_until_warm as f64)),
                    (Metric::Served, Some(warming.served as f64)),
                ]);
                warming.warm_after_seconds
            }
        };
        trial.judgement.clone_from(&warming.judgement);
        trial.no_verdict.clone_from(&warming.no_verdict);
        let (common, to_95_seconds) = (trial.steady_tps, trial.figures.get(Metric::To95));
        trial.judgement.iter_mut().for_each(|judgement| settle(judgement, common, to_95_seconds));
        let job = warming.job.as_ref();
        trial.figures.update([
            (Metric::Load, job.map(|job| job.load_seconds)),
            (Metric::Whole, job.map(|job| job.whole_seconds)),
            (Metric::BoundRatio, reached.zip(bound).map(|(reached, bound)| reached / bound)),
            (Metric::Bound, bound),
        ]);
    }
    // One trial faster than its bound refutes all bounds of its group: they assume the same bytes to load.
    let is_beaten = |trial: &&TrialOutline| {
        let ratio = trial.figures.get(Metric::BoundRatio).filter(|_| trial.figures.get(Metric::WarmAfter).is_some());
        ratio.is_some_and(|ratio| ratio < BOUND_HOLDS_FROM)
    };
    let beaten: BTreeSet<String> = trials.iter().filter(is_beaten).map(|trial| group_of(&trial.point)).collect();
    for trial in trials.iter_mut().filter(|trial| beaten.contains(&group_of(&trial.point))) {
        trial.figures.update([(Metric::Bound, None), (Metric::BoundRatio, None)]);
    }
}

/// fio's direct reads cache nothing, so fio's own figures are used.
fn add_brought_figures(figures: &mut ByMetric<f64>, brought: &Brought, wanted: Option<Bytes>) {
    let wanted = wanted.map(|wanted| wanted.0 as f64).filter(|wanted| *wanted > 0.0);
    let own = || Some(brought.own_bytes?.0 as f64 / brought.own_seconds.filter(|seconds| *seconds > 0.0)?);
    let seen = || Some(RESIDENT_SHARE * wanted? / brought.resident_after_seconds.filter(|seconds| *seconds > 0.0)?);
    figures.update([
        (Metric::Tps, None),
        (Metric::WorstSecond, None),
        (Metric::Late, None),
        (Metric::Skipped, None),
        (Metric::ResidentAfter, brought.resident_after_seconds),
        (Metric::BuffersAfter, brought.buffers_after_seconds),
        (Metric::LoadRate, seen().or_else(own)),
        (Metric::CpuPerGb, brought.cpu_seconds.zip(wanted).map(|(cpu, wanted)| cpu / (wanted / 1e9))),
        (Metric::DeviceReads, brought.device_reads.map(|reads| reads as f64)),
    ]);
}

pub fn might_have(trial: &TrialOutline, metric: Metric) -> bool {
    if metric == Metric::Warmer {
        return trial.figures.get(metric).is_some() || job_limit(trial).is_some();
    }
    let Some(warming) = &trial.warming else { return false };
    let (is_idle, strategy) = (warming.brought.is_some(), trial.point.strategy());
    if warming.job.is_some_and(|job| job.is_without_curve()) {
        return false;
    }
    match metric {
        Metric::WarmAfter => !is_idle,
        Metric::To50 | Metric::To90 | Metric::To95 => !is_idle && trial.steady_tps.is_some(),
        Metric::ResidentAfter => is_idle && strategy.fills_cache(),
        Metric::BuffersAfter => is_idle && strategy.fills_buffers(),
        Metric::BoundRatio => trial.figures.get(Metric::Bound).is_some() && (!is_idle || strategy.fills_cache()),
        _ => false,
    }
}

/// Limit in seconds.
pub fn job_limit(trial: &TrialOutline) -> Option<u32> {
    trial.point.seconds.filter(|_| trial.point.strategy().runs_job())
}

pub fn limits_of(trial: &TrialOutline, metric: Metric) -> Option<Limits> {
    let value = trial.figures.get(metric);
    if let (Metric::Warmer, None, Some(limit)) = (metric, value, job_limit(trial)) {
        return Some(Limits::reached(None, limit.into()));
    }
    if let (None, true, Some(warming)) = (value, might_have(trial, metric), &trial.warming) {
        let measured = f64::from(warming.measured_seconds);
        // Under load, three warm seconds prove warmth. The trial may have become warm in its last 3 s, but not before.
        let cold = if warming.brought.is_some() { measured } else { measured - SUSTAINED_SECONDS as f64 };
        let observed = match metric {
            Metric::WarmAfter => cold,
            Metric::BoundRatio => cold / warming.bound_seconds.filter(|bound| *bound > 0.0)?,
            _ => measured,
        };
        return Some(Limits::reached(None, observed.max(0.0)));
    }
    // A ratio to a value of 0 is undefined.
    value.filter(|value| *value > 0.0).map(Limits::exactly)
}

pub fn group_of(point: &Point) -> String {
    let of_all = point.values().into_iter().filter(|(axis, _)| axis != "strategy" && axis != "side");
    of_all.map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join("\n")
}

/// Without `block_size`, the reads are unknown.
fn compute_series(samples: &[Sample], block_size: Option<Bytes>, facts: Facts) -> Result<Series, model::Error> {
    let mut collector = Series::new(1.0);
    for sample in samples {
        let end = f64::from(sample.second);
        let reads = block_size.map(|block| sample.foreground_read_bytes.0 as f64 / block.0.max(1) as f64);
        collector.add(end - 1.0, end, sample.transactions as f64, reads);
    }
    collector.finish(facts, Vec::new()).check()
}

/// Fails if there are too few samples (one per second), or if no transaction completed in any of them.
pub fn judge_samples(samples: &[Sample], block_size: Option<Bytes>, facts: Facts) -> Result<Judgement, model::Error> {
    Ok(judge(&compute_series(samples, block_size, facts)?, None))
}

pub fn judge_curve(
    run: &SweepRun,
    trial: &SweepTrial,
    outline: &TrialOutline,
    pages: Option<f64>,
) -> Result<(Series, Judgement), model::Error> {
    let is_builtin = ["select-only", "simple-update", "tpcb-like"].contains(&trial.point.script_name().as_str());
    let block_size = Bytes(run.server.block_size.into());
    let series = compute_series(&trial.samples, Some(block_size), trial.point.facts(!is_builtin))?;
    let mut judgement = judge(&series, pages);
    settle(&mut judgement, outline.steady_tps, outline.figures.get(Metric::To95));
    Ok((series, judgement))
}

/// Withdraws verdicts that contradict `to_95_seconds`: the time until 95 % of `common`, the group's steady throughput.
pub fn settle(judgement: &mut Judgement, common: Option<f64>, to_95_seconds: Option<f64>) {
    judgement.settle(judgement.to_95_seconds);
    judgement.settle(to_95_seconds);
    if let (Some(steady), Some(common), None) = (judgement.steady_tps, common, to_95_seconds) {
        judgement.tell_share(steady / common);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::StrategyOutcome;
    use crate::study::record::tests::sample;
    use crate::study::record::tests::trial;
    use crate::verdict::warm::tests::compute_seconds_to;

    fn seconds(transactions: &[u64]) -> Vec<Sample> {
        (1..).zip(transactions).map(|(second, count)| sample(second, *count, 0)).collect()
    }

    #[test]
    fn the_climb_says_when_any_level_was_reached_as_all_seconds_do() {
        let samples = seconds(&[10, 10, 100, 10, 10, 60, 95, 100, 30, 100, 120]);
        let figures = WarmingFigures { climb: compute_climb(&samples), ..WarmingFigures::default() };
        for level in [1.0, 10.0, 11.0, 60.0, 61.0, 95.0, 100.0, 101.0, 121.0] {
            assert_eq!(figures.seconds_to(level), compute_seconds_to(&samples, 1.0, level), "{level}");
        }
        assert_eq!(compute_climb(&[]), []);
    }

    const BLOCK: Bytes = Bytes(8192);

    fn cold() -> Warming {
        let seconds = [(100, 100), (200, 50), (400, 10), (400, 0), (420, 0), (380, 0)];
        let samples: Vec<Sample> =
            (1..).zip(seconds).map(|(second, (count, blocks))| sample(second, count, blocks * BLOCK.0)).collect();
        let blocks = [[10; 10], [5; 10], [4, 3, 2, 1, 0, 0, 0, 0, 0, 0], [0; 10], [0; 10], [0; 10]];
        let tenths = blocks.as_flattened().iter().map(|blocks| Bytes(blocks * BLOCK.0)).collect();
        let mut warming = compute_warming(&samples, tenths, BLOCK, Err("too short".to_owned()));
        (warming.figures.wanted_bytes, warming.figures.bound_seconds) = (Some(Bytes(9000)), Some(1.2));
        warming
    }

    #[test]
    fn an_example_has_the_figures_that_it_has_by_hand() {
        let warming = cold();
        let climb = [(0.0, 100.0), (1.0, 200.0), (2.0, 400.0)].map(|(seconds, tps)| Climb { seconds, tps });
        let by_hand = WarmingFigures {
            measured_seconds: 6,
            warm_after_seconds: Some(2.4),
            // 100 + 200 + 0.4 × 400.
            served_until_warm: 460,
            // Median of 400, 420 and 380, whose seconds began after 2.4 s.
            warm_tps: Some(400.0),
            climb: climb.to_vec(),
            wanted_bytes: Some(Bytes(9000)),
            served: 1900,
            bound_seconds: Some(1.2),
            judgement: None,
            no_verdict: Some("too short".into()),
            brought: None,
            job: None,
        };
        assert_eq!(warming.figures, by_hand);
    }

    #[test]
    fn shares_are_of_a_level_that_trials_of_all_warmers_have_in_common() {
        let of = |strategy: &str, scale: u32, warm_tps: Option<f64>| {
            let mut one = trial();
            (one.point.strategy, one.point.scale) = (strategy.to_owned(), scale);
            let figures = WarmingFigures { warm_tps, ..cold().figures };
            one.warming = Some(Warming { figures, ..Warming::default() });
            one
        };
        let mut trials =
            [of("cat", 1, Some(440.0)), of("nothing", 1, Some(400.0)), of("cat", 1, Some(800.0)), of("cat", 2, None)];
        trials[3].warming.as_mut().unwrap().figures.warm_after_seconds = None;
        let outlines = outline_trials(&trials);
        let figure = |number: usize, metric| outlines[number].figures.get(metric);
        for number in 0..3 {
            let shares = [Metric::To50, Metric::To90, Metric::To95].map(|metric| figure(number, metric));
            assert_eq!(shares, [Some(2.0), Some(2.0), None], "220, 396 and 418 of a second's 100, 200 and 400");
            assert_eq!((figure(number, Metric::WarmAfter), figure(number, Metric::Bound)), (Some(2.4), Some(1.2)));
            assert!((figure(number, Metric::BoundRatio).unwrap() - 2.0).abs() < 1e-9);
            assert_eq!(figure(number, Metric::ServedUntilWarm), Some(460.0));
        }
        let mut beaten = trials.clone();
        beaten[0].warming.as_mut().unwrap().figures.bound_seconds = Some(3.0);
        let bounds = outline_trials(&beaten);
        let bounds =
            bounds.iter().map(|trial| (trial.figures.get(Metric::Bound), trial.figures.get(Metric::BoundRatio)));
        assert_eq!(bounds.collect::<Vec<_>>(), [(None, None), (None, None), (None, None), (Some(1.2), None)]);
        let missed = [Metric::WarmAfter, Metric::To50, Metric::BoundRatio].map(|metric| figure(3, metric));
        assert_eq!(missed, [None; 3]);
        let at_least = limits_of(&outlines[3], Metric::WarmAfter);
        assert_eq!(at_least, Some(Limits::reached(None, 3.0)));
        assert_eq!(limits_of(&outlines[3], Metric::To50), None);
        assert_eq!(limits_of(&outlines[0], Metric::To95), Some(Limits::reached(None, 6.0)));
    }

    #[test]
    fn a_job_that_did_not_end_took_longer_than_its_trial() {
        let of = |strategy: &str, ended_after_seconds: Option<f64>| {
            let mut one = trial();
            (one.point.strategy, one.point.seconds) = (strategy.to_owned(), Some(20));
            one.strategy_outcome = Some(StrategyOutcome { ended_after_seconds, ..StrategyOutcome::default() });
            one
        };
        let outlines = outline_trials(&[of("job", Some(7.5)), of("run", None), of("cat", None)]);
        let known = outlines.iter().map(|outline| limits_of(outline, Metric::Warmer)).collect::<Vec<_>>();
        assert_eq!(known, [Some(Limits::exactly(7.5)), Some(Limits::reached(None, 20.0)), None]);
    }

    #[test]
    fn warm_is_the_level_of_warm_seconds_alone() {
        let samples = seconds(&[10, 10, 100, 110, 120]);
        assert_eq!(compute_warm_tps(&samples, 2.0), Some(110.0));
        assert_eq!(compute_warm_tps(&samples, 1.3), Some(110.0));
        assert_eq!(compute_warm_tps(&samples, 9.0), None);
    }
}
