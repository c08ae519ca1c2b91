//! A run of `bench warmup` as older versions kept it, told as the study that it was. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use super::curve::judge_trial;
use super::sweep::{ColdTrial, compute_warming};
use crate::postgres::Script;
use crate::study::{
    Finding, MeasurementVerdict, OlderRun, Run, StrategyOutcome, Sweep, SweepRun, SweepTrial, ToldRun, Trial, Turn,
    Until, Warming, WarmupFacts, compute_worst_second, empty_trial, parse_sweep, texts_of,
};
use crate::units::Bytes;

/// A study of ways to warm whose axes are filled in.
const STUDY: &str = "kind = 'warmup'\n[points]\nstart = 'cold'\n";

/// The study, and its trials: [`super::view_run`] and [`super::view_trials`] tell of them what the run and its trials told.
pub fn make_study_of_run(run: &Run, trials: Vec<Trial>) -> (SweepRun, Vec<SweepTrial>) {
    let asked = describe_sweep(run, &trials);
    let found = WarmupFacts {
        disk: run.study.disk.clone(),
        database_bytes: run.study.database_bytes,
        wanted_bytes: run.study.wanted_bytes,
        calibration_tps: None,
        forecast: run.study.forecast.clone(),
        told: Some(ToldRun { steady_tps: run.steady_tps, start_state: run.study.start_state.clone() }),
    };
    let older = OlderRun {
        id: run.id.clone(),
        started_at: run.started_at,
        ended_at: run.ended_at,
        pgthaw_version: run.pgthaw_version.clone(),
        machine: run.machine.clone(),
        server: run.server.clone(),
        warnings: run.warnings.clone(),
        left_out: run.study.skipped_strategies.clone(),
    };
    let study = older.study(&asked, Some(found));
    (study, trials.into_iter().map(|trial| make_trial(run, &asked, trial)).collect())
}

/// As its study file would be understood, had there been one.
fn describe_sweep(run: &Run, trials: &[Trial]) -> Sweep {
    let asked = &run.study;
    let mut sweep = parse_sweep(STUDY, Path::new("/"), false).unwrap_or_else(|_| unreachable!("it is a study"));
    sweep.question = asked.title.clone().unwrap_or_default();
    sweep.repeats = asked.repeats;
    sweep.seed = Some(asked.seed);
    sweep.until = asked.until_steady.then_some(Until::Steady);
    sweep.memory = asked.memory;
    sweep.set_older_point(asked.scale, asked.clients, asked.jobs, asked.seconds, &asked.disk);
    let builtin = ["select-only", "simple-update", "tpcb-like"].into_iter().find(|name| *name == asked.script);
    let script = builtin.map_or_else(|| Script::File(asked.script.clone().into()), Script::Builtin);
    sweep.scripts = BTreeMap::from([(asked.script.clone(), vec![(script, 1)])]);
    sweep.axes.script = vec![asked.script.clone()];
    let of_trials = trials.iter().map(|trial| &trial.strategy);
    let left_out = asked.skipped_strategies.iter().map(|(strategy, _)| strategy);
    sweep.axes.set_strategies(asked.strategies.iter().chain(of_trials).chain(left_out).cloned());
    sweep
}

fn make_trial(run: &Run, asked: &Sweep, mut trial: Trial) -> SweepTrial {
    let warming = Some(make_warming(run, &mut trial));
    let number = asked.number_of(&trial.strategy);
    let turn = Turn { point: number, repeat: trial.repeat, position: trial.position };
    let lasted_seconds = trial.samples.len() as f64;
    let tps = trial.served as f64 / lasted_seconds.max(1.0);
    let failed =
        trial.outcome.failure.clone().map(|reason| Finding::StrategyFailed { strategy: trial.strategy, reason });
    let verdicts: Vec<MeasurementVerdict> = failed.into_iter().map(MeasurementVerdict::from).collect();
    SweepTrial {
        start_state: Some(trial.start_state),
        strategy_outcome: Some(trial.outcome).filter(|outcome| *outcome != StrategyOutcome::of_nothing()),
        warming,
        lasted_seconds,
        transactions: trial.served,
        tps,
        worst_second_tps: compute_worst_second(&trial.samples, tps),
        samples: trial.samples,
        settings: run.settings.clone(),
        device_read_bytes: trial.device_read_bytes,
        server_version: Some(run.server.version.clone()),
        warnings: trial.warnings.into_iter().chain(texts_of(&verdicts)).collect(),
        verdicts,
        ..empty_trial(&run.id, &asked.point(number), &turn, trial.started_at)
    }
}

/// How it got warm, with what was told of that. The seconds tell the rest; and the verdict, where older versions gave none.
fn make_warming(run: &Run, trial: &mut Trial) -> Warming {
    let warnings = trial.warnings.clone();
    judge_trial(run, trial);
    trial.warnings = warnings;
    let mut warming = compute_warming(ColdTrial {
        samples: &trial.samples,
        foreground_tenths: std::mem::take(&mut trial.foreground_tenths),
        block_size: Bytes(run.server.block_size.into()),
        wanted_bytes: Some(run.study.wanted_bytes),
        bound_seconds: run.study.bound_seconds,
        residency: std::mem::take(&mut trial.residency),
        judgement: trial.judgement.take().ok_or_else(|| trial.no_verdict.take().unwrap_or_default()),
    });
    warming.figures.warm_after_seconds = trial.warm_after_seconds;
    warming.figures.served_until_warm = trial.served_until_warm;
    warming
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::{sample, trial};
    use crate::study::sweep::record::tests::run as kept;
    use crate::study::{NOTHING, Study};
    use crate::units::Bytes;
    use crate::verdict::throughput::compute_seconds_to;
    use crate::verdict::{view_run, view_trials};

    /// A run of three ways to warm, of which one was not there, with trials as an older pgthaw finished them.
    fn older(steady_tps: Option<f64>) -> (Run, Vec<Trial>) {
        let sweep = kept();
        let run = Run {
            id: "20261121-233005-4f2a".into(),
            started_at: sweep.started_at,
            ended_at: steady_tps.map(|_| sweep.started_at),
            pgthaw_version: "0.1.0".into(),
            machine: sweep.machine,
            server: sweep.server,
            settings: vec![("max_wal_size".into(), "4GB".into())],
            study: Study {
                title: Some("why?".into()),
                scale: 50,
                clients: 8,
                jobs: 2,
                script: "own.sql".into(),
                query_mode: None,
                seconds: 6,
                until_steady: true,
                repeats: 1,
                strategies: vec!["cat".into(), NOTHING.into()],
                skipped_strategies: vec![("vmtouch".into(), "apt-get install vmtouch".into())],
                disk: crate::study::disk::tests::named("gp3"),
                seed: u64::MAX,
                database_bytes: Bytes(1 << 30),
                wanted_bytes: Bytes(1 << 29),
                bound_seconds: Some((1_u64 << 29) as f64 / 131_072_000.0),
                start_state: "as it was then".into(),
                forecast: None,
                memory: Some(Bytes(1 << 30)),
            },
            steady_tps,
            warnings: vec!["what it said then".into()],
            databases: Vec::new(),
        };
        let counts = [10, 40, 95, 100, 90, 99];
        let trials = ["cat", NOTHING].map(|strategy| {
            let samples: Vec<_> = (1..).zip(counts).map(|(second, count)| sample(second, count, 0)).collect();
            let mut trial = Trial { run_id: run.id.clone(), ..trial(strategy, 1, samples) };
            let to = |share: f64| compute_seconds_to(&trial.samples, share, steady_tps?);
            (trial.to_50_seconds, trial.to_90_seconds, trial.to_95_seconds) = (to(0.50), to(0.90), to(0.95));
            (trial.warm_after_seconds, trial.served_until_warm) = (Some(2.3), 77);
            trial.warnings = vec!["others read much".into()];
            trial.foreground_tenths = vec![Bytes(8192); 10];
            judge_trial(&run, &mut trial);
            trial
        });
        let [mut cat, nothing] = trials;
        cat.outcome.command = "cat".into();
        cat.outcome.failure = Some("exit status 1".into());
        (run, vec![cat, nothing])
    }

    #[test]
    fn a_run_and_its_trials_are_told_as_they_were() {
        for steady_tps in [Some(97.5), None] {
            let (run, trials) = older(steady_tps);
            let (study, measured) = make_study_of_run(&run, trials.clone());
            assert!(study.is_warmup() && study.axes().is_some_and(|axes| axes.strategy.len() == 3));
            let viewed = view_run(&study, &measured);
            assert_eq!(viewed, run);
            assert_eq!(view_trials(&viewed, measured), trials);
        }
    }

    #[test]
    fn a_verdict_that_an_older_pgthaw_did_not_give_is_given() {
        let (run, mut trials) = older(Some(97.5));
        let judged = (trials[0].judgement.take(), trials[0].no_verdict.take());
        let (_, measured) = make_study_of_run(&run, trials);
        let warming = measured[0].warming.clone().unwrap();
        assert_eq!((warming.judgement, warming.no_verdict), judged);
    }
}
