//! What `bench warmup` and `demo` print when the trials are over.

use std::path::Path;

use serde::Serialize;

use super::OutputArguments;
use crate::bench::{Comparison, Finished, Run, Summary, Trial, compute_comparison, compute_summary, render_headline};
use crate::terminal;

/// What `--json` prints. Not built with `json!`, which would print the strips' numbers with digits they do not have.
#[derive(Serialize)]
struct Document<'a> {
    run: &'a Run,
    headline: String,
    summary: Summary,
    comparison: Comparison,
    trials: &'a [Trial],
    interrupted: bool,
    kept_cluster: Option<&'a Path>,
    report: Option<&'a Path>,
}

/// The table, or everything as JSON, with the report's file when there is one.
pub fn print_finished(finished: &Finished, report: Option<&Path>, output: OutputArguments) -> anyhow::Result<()> {
    let Finished { run, trials, is_interrupted, kept } = finished;
    let summary = compute_summary(run, trials);
    let comparison = compute_comparison(&summary, trials);
    let headline = render_headline(&summary);
    if output.json {
        let (interrupted, kept_cluster) = (*is_interrupted, kept.as_deref());
        terminal::print_json(&Document {
            run,
            headline,
            summary,
            comparison,
            trials,
            interrupted,
            kept_cluster,
            report,
        })?;
        return Ok(());
    }
    terminal::print_line(&format!("{headline}\n\n{}\n", terminal::render_run_head(run)));
    terminal::print_line(&format!("{}\n", terminal::render_tournament(&summary)));
    terminal::render_comparison(&comparison).iter().for_each(|table| terminal::print_line(&format!("{table}\n")));
    terminal::print_line(&format!("{}\n", terminal::render_trial_verdicts(&summary, trials)));
    Ok(())
}
