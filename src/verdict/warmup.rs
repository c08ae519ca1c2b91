//! A study of ways to warm as `bench warmup` tells of it: a run, and its trials. Pure.

use super::curve::judge_trial;
use super::statistics::compute_median;
use super::warnings::warn_of_short_trials;
use crate::postgres::keep_text;
use crate::study::{
    Disk, Finding, MeasurementVerdict, Run, StrategyOutcome, Study, SweepRun, SweepTrial, Trial, compute_bound_seconds,
    texts_of,
};
use crate::units::Bytes;

/// How each trial of such a study starts.
const START_STATE: &str =
    "cold: all read and the workload run, then stopped, its files evicted and measured, then started";

/// The run of a study of ways to warm. What its trials have in common needs no seconds of them.
pub fn view_run(sweep: &SweepRun, trials: &[SweepTrial]) -> Run {
    let study = describe_study(sweep);
    let first = trials.iter().min_by_key(|trial| trial.position);
    let levels = trials.iter().filter_map(|trial| trial.warming.as_ref()?.figures.warm_tps);
    let found = sweep.warmup.as_ref();
    let computed = || compute_median(levels.collect()).or(found?.calibration_tps);
    let told = found.and_then(|found| found.told.as_ref());
    // A run that told of itself did so with all of its warnings.
    let warnings = match told {
        Some(_) => find_untold(&sweep.warnings, &sweep.verdicts),
        None => warn_of_run(sweep, &study, trials),
    };
    Run {
        id: sweep.id.clone(),
        started_at: sweep.started_at,
        ended_at: sweep.ended_at,
        pgthaw_version: sweep.pgthaw_version.clone(),
        machine: sweep.machine.clone(),
        server: sweep.server.clone(),
        settings: first.map(|trial| trial.settings.clone()).unwrap_or_default(),
        study,
        steady_tps: told.map_or_else(computed, |told| told.steady_tps),
        warnings,
        databases: sweep.databases.clone(),
    }
}

/// Warnings that an older pgthaw kept as texts alone: no verdict says the same.
fn find_untold(warnings: &[String], verdicts: &[MeasurementVerdict]) -> Vec<String> {
    let told: Vec<String> = texts_of(verdicts).into_iter().map(keep_text).collect();
    warnings.iter().filter(|warning| !told.contains(warning)).cloned().collect()
}

fn warn_of_run(sweep: &SweepRun, study: &Study, trials: &[SweepTrial]) -> Vec<String> {
    let of_run = sweep.verdicts.iter().filter(|verdict| is_of_run(&verdict.finding));
    let failures = trials.iter().filter_map(|trial| {
        let failure = trial.failure.as_ref()?;
        Some(format!("trial {} of {} has no figures: {failure}", trial.repeat, trial.point.strategy))
    });
    of_run.map(MeasurementVerdict::text).chain(warn_of_study(study)).chain(failures).collect()
}

/// The trials that have figures, judged among each other.
pub fn view_trials(run: &Run, trials: Vec<SweepTrial>) -> Vec<Trial> {
    trials.into_iter().filter_map(|trial| view_trial(run, trial)).collect()
}

fn describe_study(sweep: &SweepRun) -> Study {
    let axes = sweep.axes();
    let point = axes.as_ref().map(|axes| axes.point(0));
    let found = sweep.warmup.as_ref();
    let native =
        || Disk { name: point.as_ref().map(|point| point.disk.clone()).unwrap_or_default(), ..Disk::default() };
    let disk = found.map_or_else(native, |found| found.disk.clone());
    let wanted_bytes = found.map(|found| found.wanted_bytes).unwrap_or_default();
    let skipped_strategies: Vec<(String, String)> = sweep.verdicts.iter().filter_map(left_out).collect();
    let mut strategies = axes.map(|axes| axes.strategy).unwrap_or_default();
    strategies.retain(|name| !skipped_strategies.iter().any(|(skipped, _)| skipped == name));
    Study {
        title: Some(sweep.question.clone()).filter(|question| !question.is_empty()),
        scale: point.as_ref().map(|point| point.scale).unwrap_or_default(),
        clients: point.as_ref().map(|point| point.clients).unwrap_or_default(),
        jobs: point.as_ref().map(|point| point.jobs).unwrap_or_default(),
        script: point.as_ref().map(|point| point.script_name()).unwrap_or_default(),
        // What was told by an older version did not say it.
        query_mode: point
            .as_ref()
            .filter(|_| found.is_some_and(|found| found.told.is_none()))
            .map(|point| point.query_mode),
        seconds: point.as_ref().and_then(|point| point.seconds).unwrap_or_default(),
        until_steady: sweep.study["until"] == "steady",
        repeats: sweep.repeats,
        strategies,
        skipped_strategies,
        bound_seconds: compute_bound_seconds(&disk, wanted_bytes),
        disk,
        seed: sweep.seed,
        database_bytes: found.map(|found| found.database_bytes).unwrap_or_default(),
        wanted_bytes,
        start_state: found
            .and_then(|found| found.told.as_ref())
            .map_or_else(|| START_STATE.to_owned(), |told| told.start_state.clone()),
        forecast: found.and_then(|found| found.forecast.clone()),
        memory: sweep.study["memory"].as_u64().map(Bytes),
    }
}

fn left_out(verdict: &MeasurementVerdict) -> Option<(String, String)> {
    match &verdict.finding {
        Finding::StrategyLeftOut { strategy, how } => Some((strategy.clone(), how.clone())),
        _ => None,
    }
}

/// Those of a sweep that its tables and curves do not tell, or tell of single trials.
fn is_of_run(finding: &Finding) -> bool {
    !matches!(
        finding,
        Finding::StrategyLeftOut { .. } | Finding::NoiseFloor { .. } | Finding::UnequalCheckpoints { .. }
    )
}

/// The same of a trial: beside the curve stands its verdict, and beside the strategy how it failed. That server and pgbench share
/// the processors is so in all of them.
fn is_of_trial(finding: &Finding) -> bool {
    !matches!(
        finding,
        Finding::NeverSteady { .. }
            | Finding::RuntimeTooShort { .. }
            | Finding::StrategyFailed { .. }
            | Finding::TooFewTransactions { .. }
            | Finding::SharedProcessors { .. }
    )
}

fn warn_of_study(study: &Study) -> Vec<String> {
    let mut warnings = Vec::new();
    if study.until_steady {
        warnings.push("trials ended when they were steady: what was served in all is of different durations".into());
    }
    if (study.wanted_bytes.0 as f64) < 0.9 * study.database_bytes.0 as f64 {
        warnings.push(format!(
            "the warm state holds {} of {} only: memory is short, or the kernel pages out what is idle; choose a smaller \
             --scale",
            study.wanted_bytes, study.database_bytes
        ));
    }
    let forecast = study.forecast.as_ref();
    warnings.extend(
        forecast
            .and_then(|forecast| warn_of_short_trials(forecast, &study.strategies, study.seconds, study.until_steady)),
    );
    warnings
}

fn view_trial(run: &Run, trial: SweepTrial) -> Option<Trial> {
    let warming = trial.warming.filter(|_| trial.failure.is_none())?;
    let to = |share: f64| warming.figures.seconds_to(share * run.steady_tps?);
    let (to_50_seconds, to_90_seconds, to_95_seconds) = (to(0.50), to(0.90), to(0.95));
    let mut warnings = find_untold(&trial.warnings, &trial.verdicts);
    let told = trial.verdicts.iter().filter(|verdict| is_of_trial(&verdict.finding));
    warnings.extend(told.map(MeasurementVerdict::text));
    let served = match trial.samples.is_empty() {
        true => trial.transactions,
        false => trial.samples.iter().fold(0, |sum: u64, sample| sum.saturating_add(sample.transactions)),
    };
    let mut viewed = Trial {
        run_id: trial.sweep_id,
        strategy: trial.point.strategy,
        repeat: trial.repeat,
        position: trial.position,
        started_at: trial.started_at,
        start_state: trial.start_state?,
        outcome: trial.strategy_outcome.unwrap_or_else(StrategyOutcome::of_nothing),
        warm_after_seconds: warming.figures.warm_after_seconds,
        to_50_seconds,
        to_90_seconds,
        to_95_seconds,
        served_until_warm: warming.figures.served_until_warm,
        served,
        device_read_bytes: trial.device_read_bytes,
        samples: trial.samples,
        residency: warming.residency,
        warnings,
        foreground_tenths: warming.foreground_tenths,
        judgement: warming.judgement,
        no_verdict: warming.no_verdict,
    };
    judge_trial(run, &mut viewed);
    Some(viewed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::sample;
    use crate::study::sweep::record::tests::{run, trial};
    use crate::study::{NOTHING, StartState, Warming, WarmingFigures, WarmupFacts, parse_sweep};
    use crate::verdict::find_contradictions;

    const STUDY: &str = "kind = 'warmup'\nrepeats = 1\nuntil = 'steady'\nmemory = '1GB'\n[points]\nscale = 5\nseconds = 20\n\
                         clients = 8\nstart = 'cold'\nstrategy = ['nothing', 'cat', 'vmtouch']\n";

    fn study() -> SweepRun {
        let study = parse_sweep(STUDY, std::path::Path::new("/"), false).unwrap();
        let facts = WarmupFacts {
            disk: crate::study::disk::tests::named("gp3"),
            database_bytes: Bytes(1 << 30),
            wanted_bytes: Bytes(1 << 29),
            calibration_tps: Some(900.0),
            forecast: None,
            told: None,
        };
        let left_out = Finding::StrategyLeftOut { strategy: "vmtouch".into(), how: "get it".into() };
        SweepRun {
            study: serde_json::to_value(&study).unwrap(),
            question: String::new(),
            verdicts: vec![left_out.into(), Finding::OneRepeat.into()],
            warmup: Some(facts),
            ..run()
        }
    }

    fn of(strategy: &str, warm_tps: Option<f64>, counts: &[u64]) -> SweepTrial {
        let samples: Vec<_> = (1..).zip(counts).map(|(second, count)| sample(second, *count, 0)).collect();
        let climb = (0..)
            .zip(counts)
            .map(|(second, count)| crate::study::Climb { seconds: f64::from(second), tps: *count as f64 });
        let figures = WarmingFigures {
            measured_seconds: samples.len() as u32,
            warm_after_seconds: warm_tps.map(|_| 2.0),
            warm_tps,
            climb: climb.collect(),
            ..WarmingFigures::default()
        };
        let mut trial = SweepTrial {
            samples,
            warming: Some(Warming { figures, no_verdict: Some("too short".into()), ..Warming::default() }),
            start_state: Some(StartState {
                os_resident_bytes: Bytes(0),
                total_bytes: Bytes(1 << 30),
                verdict: "cold".into(),
            }),
            verdicts: vec![
                Finding::FsyncOff.into(),
                Finding::SharedProcessors { busy_ratio: 1.0, generator_ratio: 0.5, processors: 2 }.into(),
            ],
            ..trial()
        };
        trial.point.strategy = strategy.into();
        trial
    }

    #[test]
    fn a_study_is_told_of_as_a_run_with_what_was_asked_and_found() {
        let run = view_run(&study(), &[]);
        let asked = &run.study;
        assert_eq!((asked.scale, asked.clients, asked.seconds, asked.script.as_str()), (5, 8, 20, "select-only"));
        assert!(asked.until_steady && asked.memory == Some(Bytes(1 << 30)) && asked.title.is_none());
        assert_eq!(asked.strategies, ["nothing", "cat"]);
        assert_eq!(asked.skipped_strategies, [("vmtouch".to_owned(), "get it".to_owned())]);
        assert_eq!((asked.disk.name.as_str(), run.steady_tps), ("gp3", Some(900.0)));
        assert!(asked.bound_seconds.is_some_and(|bound| bound > 4.0));
        let warnings = run.warnings.join("\n");
        assert!(
            ["one trial per point", "different durations", "512 MB of 1 GB only"]
                .iter()
                .all(|text| warnings.contains(text)),
            "{warnings}"
        );
        assert!(!warnings.contains("vmtouch"), "{warnings}");
    }

    #[test]
    fn trials_are_told_of_by_the_level_that_is_common_to_them() {
        let mut failed = of("nothing", None, &[]);
        (failed.warming, failed.failure) = (None, Some("pgbench: no".into()));
        let trials = vec![of("nothing", None, &[10, 50]), of("cat", Some(100.0), &[10, 50, 96, 100]), failed];
        let run = view_run(&study(), &trials);
        assert_eq!(run.steady_tps, Some(100.0));
        assert!(run.warnings.iter().any(|text| text.contains("of nothing has no figures: pgbench: no")));
        let viewed = view_trials(&run, trials);
        let times = |trial: &Trial| (trial.strategy.clone(), trial.to_50_seconds, trial.to_95_seconds, trial.served);
        assert_eq!(
            viewed.iter().map(times).collect::<Vec<_>>(),
            [("nothing".into(), Some(1.0), None, 60), ("cat".into(), Some(1.0), Some(2.0), 256)]
        );
        let told = viewed[0].warnings.join("\n");
        assert!(told.contains("fsync is off") && !told.contains("processors"), "{told}");
        assert!(viewed.iter().all(|trial| find_contradictions(&run, trial).is_empty()));
        assert!(viewed.iter().all(|trial| trial.strategy != NOTHING || trial.outcome.command.is_empty()));
    }
}
