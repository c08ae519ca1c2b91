mod generator;
mod trial;

use std::collections::BTreeMap;

use crate::study::{
    Disk, Finding, Imported, MeasurementVerdict, NOISE_TOLD, StartAsked, Sweep, SweepRun, SweepTrial, texts_of,
};
use crate::verdict::compare::count_checkpoints;
use crate::verdict::warming::judge_samples;
use host::units::Bytes;
use model::compute_median;
use postgres::ServerBuild;
use trial::{find_few, find_missed_rate, find_nothing_served, find_short_run, find_unenforced, find_unsteady};

pub use generator::busiest_thread;
pub use trial::{Circumstances, compute_trial_verdicts};

/// Findings that are known before the first trial. The keys of `disks` are disk names, those of `builds` server names.
pub fn compute_start_verdicts(
    sweep: &Sweep,
    disks: &BTreeMap<String, Disk>,
    builds: &BTreeMap<String, ServerBuild>,
    pages_out_idle: bool,
) -> Vec<MeasurementVerdict> {
    let unenforced = disks.iter().flat_map(|(name, disk)| find_unenforced(name, disk));
    let found = [find_one_repeat(sweep.repeats), pages_out_idle.then_some(Finding::IdleMemoryPagedOut)];
    let findings = unenforced.chain(find_debug_builds(builds)).chain(found.into_iter().flatten());
    findings.map(MeasurementVerdict::from).collect()
}

fn find_one_repeat(repeats: u32) -> Option<Finding> {
    (repeats < 2).then_some(Finding::OneRepeat)
}

fn find_debug_builds(builds: &BTreeMap<String, ServerBuild>) -> Vec<Finding> {
    let named =
        |servers: Vec<&String>| if builds.len() > 1 { servers.into_iter().cloned().collect() } else { Vec::new() };
    let asserting = builds.iter().filter(|(_, build)| build.has_assertions).map(|(name, _)| name);
    let asserting: Vec<&String> = asserting.collect();
    let mut levels: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for (name, build) in builds {
        if let Some(level) = build.weak_optimisation() {
            levels.entry(level).or_default().push(name);
        }
    }
    let unoptimised = levels
        .into_iter()
        .map(|(level, servers)| Finding::UnoptimisedBuild { servers: named(servers), level: level.to_owned() });
    let asserting = (!asserting.is_empty()).then(|| Finding::AssertionsEnabled { servers: named(asserting) });
    asserting.into_iter().chain(unoptimised).collect()
}

pub fn compute_sweep_verdicts(run: &SweepRun, trials: &[SweepTrial]) -> Vec<MeasurementVerdict> {
    let good: Vec<&SweepTrial> = trials.iter().filter(|trial| trial.failure.is_none()).collect();
    let found = [find_unequal_checkpoints(&good), find_noise(&good), find_fitting(run, &good)];
    found.into_iter().flatten().map(MeasurementVerdict::from).collect()
}

fn find_unequal_checkpoints(trials: &[&SweepTrial]) -> Option<Finding> {
    let extremes = |of: &dyn Fn(&SweepTrial) -> u32| {
        let counts = trials.iter().map(|trial| of(trial));
        counts.fold((u32::MAX, 0), |(fewest, most), count| (fewest.min(count), most.max(count)))
    };
    let (fewest, most) = extremes(&count_checkpoints);
    let (fewest_cycles, most_cycles) = extremes(&|trial: &SweepTrial| trial.checkpoint_cycles);
    let differ = (most > 0 && fewest < most) || (most_cycles > 0 && fewest_cycles < most_cycles);
    differ.then_some(Finding::UnequalCheckpoints { fewest, most, fewest_cycles, most_cycles })
}

/// Studies with `exceeds` are checked trial by trial instead.
fn find_fitting(run: &SweepRun, trials: &[&SweepTrial]) -> Option<Finding> {
    if run.study["exceeds"].as_object().is_some_and(|exceeds| !exceeds.is_empty()) {
        return None;
    }
    let warm = trials.iter().filter(|trial| trial.point.start != StartAsked::Cold);
    let sizes = warm.filter_map(|trial| Some((trial.number, (trial, trial.start_state.as_ref()?.total_bytes))));
    let sizes: BTreeMap<u32, (&&SweepTrial, Bytes)> = sizes.collect();
    let fitting = |cache: &dyn Fn(&SweepTrial) -> Option<Bytes>| {
        sizes.values().filter(|(trial, size)| cache(trial).is_some_and(|cache| *size <= cache)).count() as u32
    };
    let shared_buffers = |trial: &SweepTrial| {
        let set = trial.settings.iter().find(|(name, _)| name == "shared_buffers");
        set.map_or(Some(run.server.shared_buffers_bytes), |(_, value)| value.parse().ok())
    };
    let machine = run.machine.memory_bytes;
    let memory = |trial: &SweepTrial| Some(trial.point.memory.map_or(machine, |limit| limit.min(machine)));
    let (in_shared_buffers, in_memory) = (fitting(&shared_buffers), fitting(&memory));
    let points = sizes.len() as u32;
    (in_memory > 0).then_some(Finding::FitsCaches { in_shared_buffers, in_memory, points })
}

fn find_noise(trials: &[&SweepTrial]) -> Option<Finding> {
    let mut points: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.tps > 0.0) {
        points.entry(trial.number).or_default().push(trial.tps);
    }
    let repeats = points.values().map(Vec::len).max()? as u32;
    let ratio = |figures: Vec<f64>| {
        let end = |of: fn(f64, f64) -> f64| figures.iter().copied().reduce(of);
        Some(end(f64::max)? / end(f64::min)?).filter(|_| figures.len() > 1)
    };
    let ratio = compute_median(points.into_values().filter_map(ratio).collect())?;
    (ratio >= NOISE_TOLD).then_some(Finding::NoiseFloor { ratio, repeats })
}

pub fn judge_import(imported: &mut Imported) {
    let Imported { run, trials, facts } = imported;
    for (trial, facts) in trials.iter_mut().zip(facts) {
        let judgement = judge_samples(&trial.samples, None, *facts).ok();
        let unsteady = judgement.and_then(|judgement| find_unsteady(trial, judgement));
        let is_part = trial.verdicts.iter().any(
            |verdict| matches!(verdict.finding, Finding::LogPartial { logged, .. } if logged == trial.transactions),
        );
        let found = [
            find_short_run(trial).filter(|_| unsteady.is_none()),
            unsteady,
            find_few(trial),
            find_nothing_served(trial),
            find_missed_rate(trial).filter(|_| !is_part),
        ];
        trial.verdicts.extend(found.into_iter().flatten().map(MeasurementVerdict::of_import));
        trial.warnings = texts_of(&trial.verdicts);
    }
    run.verdicts.extend(find_one_repeat(run.repeats).map(MeasurementVerdict::of_import));
    let found = compute_sweep_verdicts(run, trials);
    run.verdicts.extend(found.into_iter().map(|verdict| MeasurementVerdict::of_import(verdict.finding)));
    run.warnings = texts_of(&run.verdicts);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::StartState;
    use crate::study::record::tests::{run, trial};
    use crate::verdict::compare::tests::checkpoint;

    #[test]
    fn every_server_that_was_built_for_debugging_is_told() {
        let build = |has_assertions, flags: &str| ServerBuild { has_assertions, compiler_flags: flags.to_owned() };
        let told = |builds: &[(&str, ServerBuild)]| {
            let builds = builds.iter().map(|(name, build)| ((*name).to_owned(), build.clone())).collect();
            find_debug_builds(&builds).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let fast = build(false, "-g -O2");
        assert_eq!(told(&[("default", fast.clone()), ("15", fast.clone())]), [""; 0]);
        assert_eq!(
            told(&[("default", fast.clone()), ("mine", build(true, "-O0"))]),
            [
                "the server mine was built with assertions, which cost time",
                "the server mine was built for debugging, which costs time: the compiler flags contain -O0"
            ]
        );
        assert_eq!(told(&[("default", build(true, "-O2"))]), ["the server was built with assertions, which cost time"]);
        assert!(told(&[("default", build(false, "-g -Wall"))])[0].ends_with("contain no -O"));
    }

    #[test]
    fn what_fits_into_a_cache_is_told_once() {
        let of = |number: u32, megabytes: u64, buffers: &str| SweepTrial {
            number,
            start_state: Some(StartState {
                os_resident_bytes: Bytes(0),
                total_bytes: Bytes(megabytes << 20),
                verdict: "warm".into(),
            }),
            settings: vec![("shared_buffers".into(), buffers.into())],
            ..trial()
        };
        let found = |trials: &[SweepTrial], exceeds: serde_json::Value| {
            let run = SweepRun { study: serde_json::json!({ "exceeds": exceeds }), ..run() };
            find_fitting(&run, &trials.iter().collect::<Vec<_>>())
        };
        let trials = [of(0, 100, "128MB"), of(0, 100, "128MB"), of(1, 200, "128MB"), of(2, 20_000, "128MB")];
        let told = Finding::FitsCaches { in_shared_buffers: 1, in_memory: 2, points: 3 };
        assert_eq!(found(&trials, serde_json::json!({})), Some(told));
        assert_eq!(found(&trials, serde_json::json!({ "memory": 9 })), None);
        assert_eq!(found(&trials[3..], serde_json::json!({})), None);
        let cold = |trial: &SweepTrial| {
            let mut trial = trial.clone();
            trial.point.start = StartAsked::Cold;
            trial
        };
        assert_eq!(found(&trials.each_ref().map(cold), serde_json::json!({})), None);
    }

    #[test]
    fn trials_with_other_checkpoints_are_told_and_so_is_noise() {
        let of = |number: u32, tps: f64, checkpoints: usize| SweepTrial {
            number,
            tps,
            checkpoints: vec![checkpoint(1.0); checkpoints],
            ..trial()
        };
        let kinds = |trials: &[SweepTrial]| {
            let verdicts = compute_sweep_verdicts(&run(), trials);
            verdicts.iter().map(|verdict| verdict.finding.kind()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[of(0, 100.0, 1), of(1, 300.0, 1)]), [""; 0]);
        assert_eq!(kinds(&[of(0, 100.0, 1), of(1, 300.0, 2)]), ["unequal_checkpoints"]);
        assert_eq!(kinds(&[of(0, 100.0, 0), of(0, 130.0, 0), of(1, 50.0, 0)]), ["noise_floor"]);
        assert_eq!(kinds(&[of(0, 100.0, 0), of(0, 105.0, 0)]), [""; 0]);
        assert_eq!(kinds(&[]), [""; 0]);
    }
}
