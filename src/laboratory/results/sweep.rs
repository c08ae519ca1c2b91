//! Sweeps in `pgthaw results`: the work is done in `src/results/` and `src/verdict/sweep/`.

use serde::Serialize;
use serde_json::{Value, json};

use crate::laboratory::OutputArguments;
use crate::results::Store;
use crate::study::SweepRun;
use crate::terminal::{self, Canvas};
use crate::verdict::{
    PointSummary, TrialOutline, WarmerRatio, compute_outline_summary, compute_total_seconds, compute_warmer_ratios,
    render_sweep_headline,
};

/// What `--json` prints of a sweep, up to its trials.
#[derive(Serialize)]
struct Head<'a> {
    sweep: &'a SweepRun,
    /// The answer in one sentence.
    headline: String,
    /// That its trials took together; null where no end of one is known.
    total_seconds: Option<f64>,
    points: Vec<PointSummary>,
    /// The warmers of a study beside each other.
    ratios: Vec<WarmerRatio>,
    trials: [(); 0],
}

/// How the head ends, with room for the trials before it.
const END: &str = "]\n}";

/// Shows a stored sweep: the table of points, for which a few figures of each trial are enough, or everything as JSON.
pub async fn show_sweep(store: &Store, run: &SweepRun, output: OutputArguments) -> anyhow::Result<()> {
    let trials = store.read_sweep_outlines(&run.id).await?;
    let (points, ratios) = (compute_outline_summary(run, &trials), compute_warmer_ratios(run, &trials));
    if output.json {
        let (headline, total_seconds) = (render_sweep_headline(&run.varied, &points), compute_total_seconds(&trials));
        let head = Head { sweep: run, headline, total_seconds, points, ratios, trials: [] };
        return print_everything(store, head, &trials).await;
    }
    terminal::print_line(&format!("{}\n", terminal::render_sweep_head(run, &trials)));
    terminal::print_line(&terminal::render_sweep_points(run, &points, &ratios, Canvas::of_stdout(false)));
    Ok(())
}

/// Trial by trial: all seconds of a large sweep are more than fits into memory.
async fn print_everything(store: &Store, head: Head<'_>, trials: &[TrialOutline]) -> anyhow::Result<()> {
    let mut before = serde_json::to_string_pretty(&head)?.trim_end_matches(END).to_owned();
    for outline in trials {
        let trial = store.read_sweep_trial(&head.sweep.id, outline.number, outline.repeat).await?;
        // Somebody may have dropped it meanwhile.
        let Some(trial) = trial.filter(|_| terminal::is_output_open()) else { break };
        let indented = serde_json::to_string_pretty(&trial)?.replace('\n', "\n    ");
        terminal::print_json_part(&before);
        before = format!("    {indented},");
    }
    let has_any = before.ends_with(',');
    let last = before.trim_end_matches(',');
    terminal::print_json_part(&if has_any { format!("{last}\n  {END}") } else { format!("{last}{END}") });
    Ok(())
}

/// A sweep in the list.
pub fn line_json((run, trials): &(SweepRun, usize)) -> Value {
    json!({
        "id": run.id, "started_at": run.started_at, "ended_at": run.ended_at, "question": run.question,
        "points": run.points, "repeats": run.repeats, "varied": run.varied, "trials": trials,
    })
}
