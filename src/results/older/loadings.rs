//! A run of `bench residency` as older versions kept it: a study whose trials end when what is wanted is resident.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::super::columns::Columns as _;
use super::super::database::{Query, Row, Transaction};
use crate::postgres::Script;
use crate::study::{
    Bound, Brought, Disk, Finding, MeasurementVerdict, OlderRun, Record as _, StartState, StrategyOutcome, Sweep,
    SweepRun, SweepTrial, Turn, Warming, WarmingFigures, compute_bound_seconds, empty_trial, parse_sweep, texts_of,
};
use crate::units::Bytes;

/// A study of warmers of an idle server whose axes are filled in.
const STUDY: &str = "until = 'resident'\n[points]\nstart = 'cold'\nseconds = 120\nstrategy = 'pgthaw-os'\n";

/// Threads of pgbench while it made the warm state.
const JOBS: u32 = 2;

/// What was asked, and what was wanted.
#[derive(Deserialize)]
struct Asked {
    scale: u32,
    /// `None`: everything was wanted.
    script: Option<String>,
    script_seconds: u32,
    clients: u32,
    rounds: u32,
    loaders: Vec<String>,
    skipped_loaders: Vec<(String, String)>,
    disk: Disk,
    seed: u64,
    wanted_bytes: Bytes,
    wanted_pages: u64,
    wanted_pieces: u64,
    former_buffers_bytes: Bytes,
    former_hot_bytes: Bytes,
    bound: Option<Bound>,
    patience_seconds: u32,
}

/// What a loader was called that is a strategy of another name now.
fn name_now(loader: &str) -> String {
    match loader {
        "pgthaw" => "pgthaw-os",
        "pgthaw-both" => "pgthaw",
        other => other,
    }
    .to_owned()
}

pub(super) async fn read_loading(
    transaction: &mut Transaction,
    run: &Row,
) -> Result<(SweepRun, Vec<SweepTrial>), sqlx::Error> {
    let asked: Asked = run.json("study")?;
    let id: String = run.get("id")?;
    let query = Query::new("SELECT * FROM loading_trials WHERE run_id = $1 ORDER BY position").bind(&id);
    let rows = query.fetch_within(transaction).await?;
    let of_trials = rows.iter().map(|row| row.get("loader")).collect::<Result<Vec<String>, _>>()?;
    let sweep = describe_sweep(&asked, of_trials);
    let left_out = asked.skipped_loaders.iter();
    let older = OlderRun {
        id,
        started_at: run.get("started_at")?,
        ended_at: run.get("ended_at")?,
        pgthaw_version: run.get("pgthaw_version")?,
        machine: run.json("machine")?,
        server: run.json("server")?,
        warnings: run.json("warnings")?,
        left_out: left_out.map(|(loader, how)| (name_now(loader), how.clone())).collect(),
    };
    let study = older.study(&sweep, None);
    let settings: Vec<(String, String)> = run.json("settings")?;
    let trial = |row: &Row| {
        let trial = trial_from(row, &study, &sweep, &asked)?;
        Ok(SweepTrial { settings: settings.clone(), ..trial })
    };
    let trials: Result<_, sqlx::Error> = rows.iter().map(trial).collect();
    Ok((study, trials?))
}

/// As its study file would be understood, had there been one.
fn describe_sweep(asked: &Asked, of_trials: Vec<String>) -> Sweep {
    let mut sweep = parse_sweep(STUDY, Path::new("/"), false).unwrap_or_else(|_| unreachable!("it is a study"));
    let wanted = asked.script.as_ref().map_or("everything".to_owned(), |script| format!("what {script} reads"));
    sweep.question = format!("ways to load {wanted}, scale {}, disk {}", asked.scale, asked.disk.name);
    sweep.repeats = asked.rounds;
    sweep.seed = Some(asked.seed);
    sweep.wanted_seconds = asked.script.as_ref().map(|_| asked.script_seconds);
    sweep.set_older_point(asked.scale, asked.clients, JOBS, asked.patience_seconds, &asked.disk);
    if let Some(script) = &asked.script {
        sweep.axes.script = vec![script.clone()];
        sweep.scripts = BTreeMap::from([(script.clone(), vec![(Script::File(script.into()), 1)])]);
    }
    let left_out = asked.skipped_loaders.iter().map(|(loader, _)| loader);
    let loaders = asked.loaders.iter().chain(left_out).chain(&of_trials);
    sweep.axes.set_strategies(loaders.map(|loader| name_now(loader)));
    sweep
}

fn trial_from(row: &Row, study: &SweepRun, sweep: &Sweep, asked: &Asked) -> Result<SweepTrial, sqlx::Error> {
    let loader = name_now(&row.get::<String>("loader")?);
    let number = sweep.number_of(&loader);
    let point = sweep.point(number);
    let turn = Turn { point: number, repeat: row.get("round")?, position: row.get("position")? };
    let start_state = StartState::read(row)?;
    let mut outcome = StrategyOutcome {
        command: row.get("command")?,
        ended_after_seconds: row.get("ended_after_seconds")?,
        issued_bytes: None,
        failure: row.get("failure")?,
        output: row.get("output")?,
    };
    outcome.hide_secrets();
    let warming = warming_from(row, asked)?;
    let mut findings = Vec::new();
    findings.extend(outcome.failure.clone().map(|reason| Finding::StrategyFailed { strategy: loader, reason }));
    let brought = warming.figures.brought.iter();
    let missed = brought.filter(|brought| point.strategy().fills_cache() && brought.resident_after_seconds.is_none());
    findings.extend(missed.map(|brought| Finding::NotBroughtBack {
        resident_bytes: brought.resident_bytes,
        wanted_bytes: asked.wanted_bytes,
    }));
    if start_state.verdict != "cold" {
        findings.push(Finding::StartNotAsAsked {
            asked: "cold".to_owned(),
            found: start_state.verdict.clone(),
            resident_bytes: start_state.os_resident_bytes,
            total_bytes: start_state.total_bytes,
            memory_bytes: Some(study.machine.memory_bytes),
        });
    }
    let verdicts: Vec<MeasurementVerdict> = findings.into_iter().map(MeasurementVerdict::from).collect();
    let warnings: Vec<String> = row.json("warnings")?;
    let of_round = format!("round {}: ", turn.repeat);
    let told = warnings.iter().map(|warning| warning.trim_start_matches(&of_round).to_owned());
    Ok(SweepTrial {
        start_state: Some(start_state),
        lasted_seconds: warming.looks.last().map_or(0.0, |look| look.seconds),
        strategy_outcome: Some(outcome),
        warming: Some(warming),
        device_read_bytes: row.get::<Option<_>>("device_read_bytes")?.unwrap_or_default(),
        server_version: Some(study.server.version.clone()),
        warnings: told.chain(texts_of(&verdicts)).collect(),
        verdicts,
        ..empty_trial(&study.id, &point, &turn, row.get("started_at")?)
    })
}

fn warming_from(row: &Row, asked: &Asked) -> Result<Warming, sqlx::Error> {
    let brought = Brought {
        wanted_pages: asked.wanted_pages,
        wanted_pieces: asked.wanted_pieces,
        former_buffers_bytes: asked.former_buffers_bytes,
        former_hot_bytes: asked.former_hot_bytes,
        bound: asked.bound,
        resident_after_seconds: row.get("resident_after_seconds")?,
        buffers_after_seconds: row.get("buffers_after_seconds")?,
        resident_bytes: row.get("resident_bytes")?,
        cpu_seconds: row.get("cpu_seconds")?,
        device_reads: row.get("device_reads")?,
        own_bytes: row.get("own_bytes")?,
        own_seconds: row.get("own_seconds")?,
    };
    let bandwidth = || compute_bound_seconds(&asked.disk, asked.wanted_bytes);
    let figures = WarmingFigures {
        measured_seconds: asked.patience_seconds,
        wanted_bytes: Some(asked.wanted_bytes),
        bound_seconds: asked.bound.map(|bound| bound.seconds).or_else(bandwidth),
        brought: Some(brought),
        ..WarmingFigures::default()
    };
    Ok(Warming { figures, looks: row.json("samples")?, ..Warming::default() })
}
