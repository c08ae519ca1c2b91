//! `pgthaw report` of sweeps: the work is done in `src/report/`.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::commands::OutputArguments;
use crate::report::{self, StudyData, StudyInPage, TrialData};
use crate::results::{self, Store};
use crate::study::SweepRun;
use crate::terminal::{self, Progress};
use crate::verdict::TrialOutline;

/// Beyond so many trials a page holds their figures and not their curves: `pgthaw serve` shows those too.
const TRIALS_MAX: usize = 1000;

/// Spans of all curves in a page together, and of one of them.
const SPANS_MAX: u32 = 100_000;
const SPANS_OF_TRIAL_MAX: u32 = 1000;

/// Writes a page of these sweeps.
pub async fn report_sweeps(
    store: &Store,
    sweeps: Vec<SweepRun>,
    path: Option<PathBuf>,
    force: bool,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let mut studies = Vec::with_capacity(sweeps.len());
    for sweep in sweeps {
        studies.push(read_study(store, sweep, output).await?);
    }
    let ids: Vec<&str> = studies.iter().map(|one| one.study.sweep.id.as_str()).collect();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("pgthaw-report-{}.html", ids.first().unwrap_or(&"none"))));
    report::write_report(&path, &report::render_sweep_report(&studies)?, force)?;
    tell(&studies, &ids, &path, output)
}

fn tell(studies: &[StudyInPage], ids: &[&str], path: &Path, output: OutputArguments) -> anyhow::Result<()> {
    let trials: usize = studies.iter().map(|one| one.study.trials.len()).sum();
    if output.json {
        return Ok(terminal::print_json(
            &json!({ "run": ids.first(), "runs": ids, "trials": trials, "report": path }),
        )?);
    }
    for study in studies.iter().filter(|one| one.details.is_none()) {
        let id = &study.study.sweep.id;
        terminal::print_remark(&format!(
            "the page has no curves of the {trials} trials of {id}: `pgthaw serve` has them"
        ));
    }
    terminal::print_verbatim(&path.display().to_string());
    Ok(())
}

async fn read_study(store: &Store, sweep: SweepRun, output: OutputArguments) -> Result<StudyInPage, results::Error> {
    let trials = store.read_sweep_outlines(&sweep.id).await?;
    let details = match trials.len() {
        ..=TRIALS_MAX => Some(read_details(store, &sweep.id, &trials, output).await?),
        _ => None,
    };
    let noise = store.read_noise(&sweep).await?;
    Ok(StudyInPage { study: StudyData::new(sweep, trials, noise), details })
}

/// One trial after the other: the seconds of all of them together may not fit into memory.
async fn read_details(
    store: &Store,
    sweep_id: &str,
    trials: &[TrialOutline],
    output: OutputArguments,
) -> Result<Vec<TrialData>, results::Error> {
    let spans = (SPANS_MAX / trials.len().max(1) as u32).min(SPANS_OF_TRIAL_MAX);
    let progress = Progress::steps_when_slow("reading trials", output.shows_progress());
    let mut details = Vec::with_capacity(trials.len());
    for (outline, read) in trials.iter().zip(1..) {
        let trial = store.read_sweep_trial(sweep_id, outline.number, outline.repeat).await?;
        details.extend(trial.map(|trial| TrialData::new(trial, spans)));
        progress.reach(read, trials.len() as u64);
    }
    progress.finish();
    Ok(details)
}
