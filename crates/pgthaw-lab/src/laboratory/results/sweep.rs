//! Studies in `pgthaw results`, and when they have ended: the work is done in `crates/pgthaw-lab/src/results/` and `crates/pgthaw-lab/src/verdict/`.

use std::path::Path;

use serde::Serialize;
use serde_json::json;

use crate::bench::SweepFinished;
use crate::laboratory::OutputArguments;
use crate::laboratory::text::{StudyShown, render_sweep_head, render_sweep_points};
use crate::results::Store;
use crate::study::SweepRun;
use crate::verdict::{
    PointSummary, Traffic, TrialOutline, WarmerRatio, compute_outline_summary, compute_total_seconds, compute_traffic,
    compute_warmer_ratios, render_sweep_headline,
};
use terminal::Canvas;

/// What `--json` prints of a study, up to its trials.
#[derive(Serialize)]
struct Head<'a> {
    sweep: &'a SweepRun,
    /// The cluster's directory, when it was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_cluster: Option<&'a Path>,
    /// The answer in one sentence.
    headline: String,
    /// That its trials took together; null where no end of one is known.
    total_seconds: Option<f64>,
    points: Vec<PointSummary>,
    /// The warmers of a study beside each other.
    ratios: Vec<WarmerRatio>,
    traffic: Traffic,
    trials: [(); 0],
}

/// How the head ends, with room for the trials before it.
const END: &str = "]\n}";

/// Shows a stored study: the table of points, for which a few figures of each trial are enough, or everything as JSON.
pub async fn show_sweep(store: &Store, run: &SweepRun, output: OutputArguments) -> anyhow::Result<()> {
    show(store, run, None, output).await
}

async fn show(
    store: &Store,
    run: &SweepRun,
    kept_cluster: Option<&Path>,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let trials = store.read_sweep_outlines(&run.id).await?;
    let (points, ratios) = (compute_outline_summary(run, &trials), compute_warmer_ratios(run, &trials));
    let traffic = compute_traffic(run, &points, &trials, &store.read_served_seconds(run).await?);
    if output.json {
        let (headline, total_seconds) = (render_sweep_headline(&run.varied, &points), compute_total_seconds(&trials));
        let head = Head { sweep: run, kept_cluster, headline, total_seconds, points, ratios, traffic, trials: [] };
        return print_everything(store, head, &trials).await;
    }
    let shown = StudyShown { run, trials: &trials, points: &points, ratios: &ratios, traffic: &traffic };
    terminal::print_line(&format!("{}\n", render_sweep_head(run, &trials)));
    terminal::print_line(&render_sweep_points(&shown, Canvas::of_stdout(false)));
    Ok(())
}

/// Shows studies that ended or were stopped, one after the other; several as one document of JSON, with the report's file.
pub async fn show_sweeps(
    store: &Store,
    finished: &[SweepFinished],
    report: Option<&Path>,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let is_document = output.json && finished.len() > 1;
    for (place, one) in finished.iter().enumerate() {
        if is_document {
            terminal::print_json_part(if place == 0 { "{ \"studies\": [" } else { "," });
        }
        show(store, &one.run, one.kept.as_deref(), output).await?;
    }
    if is_document {
        let interrupted = finished.iter().any(|one| one.is_interrupted);
        let rest = json!({ "interrupted": interrupted, "report": report }).to_string();
        terminal::print_json_part(&format!("], {}", rest.trim_start_matches('{')));
    }
    Ok(())
}

/// Trial by trial: all seconds of a large sweep are more than fits into memory.
async fn print_everything(store: &Store, head: Head<'_>, trials: &[TrialOutline]) -> anyhow::Result<()> {
    let mut before = serde_json::to_string_pretty(&head)?.trim_end_matches(END).to_owned();
    for outline in trials {
        let trial = store.read_sweep_trial(&head.sweep.id, outline.number, outline.repeat).await?;
        // Somebody may have dropped it meanwhile.
        let Some(mut trial) = trial.filter(|_| terminal::is_output_open()) else { break };
        if let Some(warming) = &mut trial.warming {
            warming.figures.judgement.clone_from(&outline.judgement);
        }
        let indented = serde_json::to_string_pretty(&trial)?.replace('\n', "\n    ");
        terminal::print_json_part(&before);
        before = format!("    {indented},");
    }
    let has_any = before.ends_with(',');
    let last = before.trim_end_matches(',');
    terminal::print_json_part(&if has_any { format!("{last}\n  {END}") } else { format!("{last}{END}") });
    Ok(())
}
