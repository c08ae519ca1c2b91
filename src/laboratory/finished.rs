//! What `bench warmup`, `demo` and `results show` print of a run and its trials.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::OutputArguments;
use crate::bench::SweepFinished;
use crate::results::Store;
use crate::study::{Run, Trial};
use crate::terminal;
use crate::verdict::{Comparison, Summary, compute_comparison, compute_summary, render_headline};

/// What `--json` prints. Not built with `json!`, which would print the strips' numbers with digits they do not have.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    first: Act<'a>,
    further: Vec<Act<'a>>,
    interrupted: bool,
    kept_cluster: Option<&'a Path>,
    report: Option<&'a Path>,
}

/// A study of ways to warm that ended or was stopped.
#[derive(Debug)]
pub struct Finished {
    pub run: Run,
    pub trials: Vec<Trial>,
    pub is_interrupted: bool,
    /// The cluster's directory, when it was kept.
    pub kept: Option<PathBuf>,
}

/// What was kept of studies.
pub async fn read_acts(finished: &[SweepFinished], store: &Store) -> anyhow::Result<Vec<Finished>> {
    let mut acts = Vec::new();
    for SweepFinished { run, is_interrupted, kept, .. } in finished {
        let (run, trials) = store.read_run(&run.id).await?;
        acts.push(Finished { run, trials, is_interrupted: *is_interrupted, kept: kept.clone() });
    }
    Ok(acts)
}

/// A run with what follows from its trials.
#[derive(Serialize)]
struct Act<'a> {
    run: &'a Run,
    headline: String,
    summary: Summary,
    comparison: Comparison,
    trials: &'a [Trial],
}

/// The tables of each act, or everything as JSON, with the report's file when there is one.
pub fn print_finished(acts: &[Finished], report: Option<&Path>, output: OutputArguments) -> anyhow::Result<()> {
    let mut described = acts.iter().map(|act| describe(&act.run, &act.trials));
    if !output.json {
        described.for_each(|act| print_act(&act));
        return Ok(());
    }
    let Some(first) = described.next() else { return Ok(()) };
    let interrupted = acts.iter().any(|act| act.is_interrupted);
    let kept_cluster = acts.iter().find_map(|act| act.kept.as_deref());
    Ok(terminal::print_json(&Document { first, further: described.collect(), interrupted, kept_cluster, report })?)
}

/// The tables of a stored run, or everything as JSON.
pub fn show_run(run: &Run, trials: &[Trial], output: OutputArguments) -> anyhow::Result<()> {
    let act = describe(run, trials);
    match output.json {
        true => terminal::print_json(&act)?,
        false => print_act(&act),
    }
    Ok(())
}

fn describe<'a>(run: &'a Run, trials: &'a [Trial]) -> Act<'a> {
    let summary = compute_summary(run, trials);
    let comparison = compute_comparison(&summary, trials);
    Act { run, headline: render_headline(&summary), summary, comparison, trials }
}

fn print_act(act: &Act<'_>) {
    if act.trials.is_empty() {
        terminal::print_line(&format!(
            "{}\n\nNo trial has ended: there is nothing to show.",
            terminal::render_run_head(act.run)
        ));
        return;
    }
    terminal::print_line(&format!("{}\n\n{}\n", act.headline, terminal::render_run_head(act.run)));
    terminal::print_line(&format!("{}\n", terminal::render_tournament(&act.summary)));
    terminal::render_comparison(&act.comparison).iter().for_each(|table| terminal::print_line(&format!("{table}\n")));
    terminal::print_line(&format!("{}\n", terminal::render_trial_verdicts(&act.summary, act.trials)));
}
