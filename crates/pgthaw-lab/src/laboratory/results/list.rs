//! `pgthaw results list`: the work is done in `crates/pgthaw-lab/src/results/`.

use serde_json::{Value, json};

use crate::laboratory::OutputArguments;
use crate::laboratory::store::remark_damaged;
use crate::laboratory::text::render_sweep_line;
use crate::results::Store;
use crate::study::SweepRun;

use crate::verdict::{TrialOutline, compute_outline_summary, render_sweep_headline};

/// Lists studies of all kinds, the newest first.
pub async fn list(store: &Store, output: OutputArguments) -> anyhow::Result<()> {
    let listed = store.read_listed().await?;
    if output.json {
        let studies: Vec<Value> = listed.studies.iter().map(line_json).collect();
        let lists = json!({ "results": store.place(), "studies": studies, "damaged": listed.damaged });
        return Ok(terminal::print_json(&lists)?);
    }
    remark_damaged(&listed.damaged);
    for (study, trials) in &listed.studies {
        terminal::print_line(&render_sweep_line(study, trials.len(), &headline_of(study, trials)));
    }
    if listed.studies.is_empty() && listed.damaged.is_empty() {
        terminal::print_remark(&format!("{} holds no run yet", store.place()));
    }
    Ok(())
}

fn headline_of(study: &SweepRun, trials: &[TrialOutline]) -> String {
    render_sweep_headline(&study.varied, &compute_outline_summary(study, trials))
}

fn line_json((study, trials): &(SweepRun, Vec<TrialOutline>)) -> Value {
    json!({
        "id": study.id, "started_at": study.started_at, "ended_at": study.ended_at, "question": study.question,
        "points": study.points, "repeats": study.repeats, "varied": study.varied, "trials": trials.len(),
        "headline": headline_of(study, trials),
    })
}
