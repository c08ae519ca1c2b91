//! `pgthaw report`: the work is done in `src/report/`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::judge_trial;
use crate::results::NEWEST;
use crate::{report, terminal};

/// One self-contained HTML file of a run
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The run, or the first characters of its name
    #[arg(default_value = NEWEST)]
    run: String,

    /// The file to write [default: pgthaw-report-RUN.html here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file even when it is not a report
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub async fn run(arguments: ReportArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = arguments.store.open_existing().await?;
    let run = store.read_run(&arguments.run).await?;
    let mut trials = store.read_trials(&run.id).await?;
    // Those that an older pgthaw kept have none.
    trials.iter_mut().for_each(|trial| judge_trial(&run, trial));
    store.close().await;
    let path = arguments.output.unwrap_or_else(|| PathBuf::from(format!("pgthaw-report-{}.html", run.id)));
    report::write_report(&path, &report::render_report(&run, &trials)?, arguments.force)?;
    if output.json {
        terminal::print_json(&json!({ "run": run.id, "trials": trials.len(), "report": path }))?;
    } else {
        terminal::print_line(&path.display().to_string());
    }
    Ok(ExitStatus::Done)
}
