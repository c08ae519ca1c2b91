use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::report::{self, StudyInPage, TrialData};
use crate::results::{self, NEWEST, Store};
use crate::serve::read_study;
use command::document;
use host::units::counted;
use terminal::Progress;

/// Number of trials above which a report omits their curves.
const TRIALS_MAX: usize = 1000;

/// Maximum numbers of spans (points on the time axis) of a whole study and of one trial.
const SPANS_MAX: u32 = 100_000;
const SPANS_OF_TRIAL_MAX: u32 = 1000;

/// Write a self-contained HTML report of one or several studies
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Studies, or the beginnings of their names; the report lists them in this order
    #[arg(value_name = "STUDY", default_value = NEWEST)]
    studies: Vec<String>,

    /// File to write [default: pgthaw-report-STUDY.html in the working directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file even if it is not a report
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    store: StoreArguments,
}

pub async fn run(arguments: ReportArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = arguments.store.open_existing().await?;
    let mut studies = Vec::with_capacity(arguments.studies.len());
    for wanted in &arguments.studies {
        studies.push(read_in_page(&store, wanted, output).await?);
    }
    let ids: Vec<&str> = studies.iter().map(|one| one.study.sweep.id.as_str()).collect();
    let named = || PathBuf::from(format!("pgthaw-report-{}.html", ids.first().unwrap_or(&"none")));
    let path = arguments.output.unwrap_or_else(named);
    document::write_report(&path, &report::render_report(&studies)?, arguments.force)?;
    if output.json {
        let trials: usize = studies.iter().map(|one| one.study.trials.len()).sum();
        terminal::print_json(&json!({ "run": ids.first(), "runs": ids, "trials": trials, "report": path }))?;
    } else {
        for StudyInPage { study, .. } in studies.iter().filter(|one| one.details.is_none()) {
            let (id, trials) = (&study.sweep.id, counted(study.trials.len(), "trial"));
            terminal::print_remark(&format!(
                "the page omits curves of the {trials} of {id}: `pgthaw serve` shows them"
            ));
        }
        terminal::print_verbatim(&path.display().to_string());
    }
    store.close().await;
    Ok(ExitStatus::Done)
}

pub async fn read_in_page(store: &Store, wanted: &str, output: OutputArguments) -> Result<StudyInPage, results::Error> {
    let sweep = store.read_study(wanted).await?;
    let planned = sweep.points.saturating_mul(sweep.repeats).max(1);
    let spans_max = (SPANS_MAX / planned).clamp(1, SPANS_OF_TRIAL_MAX);
    let study = read_study(store, sweep).await?;
    if study.trials.len() > TRIALS_MAX {
        return Ok(StudyInPage { study, details: None });
    }
    let progress = Progress::steps_when_slow("reading trials", output.shows_progress());
    let mut details = Vec::with_capacity(study.trials.len());
    for (outline, read) in study.trials.iter().zip(1..) {
        let trial = store.read_sweep_trial(&study.sweep.id, outline.number, outline.repeat).await?;
        details.extend(trial.map(|trial| TrialData::new(trial, spans_max)));
        progress.reach(read, study.trials.len() as u64);
    }
    progress.finish();
    Ok(StudyInPage { study, details: Some(details) })
}
