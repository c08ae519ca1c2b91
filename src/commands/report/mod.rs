//! `pgthaw report`: the work is done in `src/report/`.

mod sweep;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use crate::commands::results::report_loading;
use crate::commands::{ExitStatus, OutputArguments, StoreArguments};
use crate::results::{NEWEST, Store};
use crate::study::{Run, SweepRun, Trial};
use crate::verdict::judge_trial;
use crate::{report, terminal};
use sweep::report_sweeps;

/// One self-contained HTML file of a run or a sweep, or of several
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// The runs, or the sweeps, or the first characters of their names; the page shows the first one first
    #[arg(value_name = "RUN", default_value = NEWEST)]
    runs: Vec<String>,

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
    if let [wanted] = &arguments.runs[..]
        && let Some(loading) = store.find_loading(wanted).await?
    {
        report_loading(&store, &loading, arguments.output, arguments.force, output).await?;
        store.close().await;
        return Ok(ExitStatus::Done);
    }
    let sweeps = find_sweeps(&store, &arguments.runs).await?;
    if !sweeps.is_empty() {
        report_sweeps(&store, sweeps, arguments.output, arguments.force, output).await?;
        store.close().await;
        return Ok(ExitStatus::Done);
    }
    report_runs(&store, &arguments, output).await?;
    store.close().await;
    Ok(ExitStatus::Done)
}

/// The sweeps that are meant; none when runs are.
async fn find_sweeps(store: &Store, wanted: &[String]) -> anyhow::Result<Vec<SweepRun>> {
    let mut sweeps = Vec::new();
    for one in wanted {
        sweeps.extend(store.find_sweep(one).await?.filter(|sweep| !sweep.is_warmup()));
    }
    anyhow::ensure!(
        sweeps.is_empty() || sweeps.len() == wanted.len(),
        "a page shows either runs or sweeps: name them in two reports"
    );
    Ok(sweeps)
}

async fn report_runs(store: &Store, arguments: &ReportArguments, output: OutputArguments) -> anyhow::Result<()> {
    let mut stored = Vec::with_capacity(arguments.runs.len());
    for wanted in &arguments.runs {
        let run = store.read_run(wanted).await?;
        let mut trials = store.read_trials(&run.id).await?;
        // Those that an older pgthaw kept have none.
        trials.iter_mut().for_each(|trial| judge_trial(&run, trial));
        stored.push((run, trials));
    }
    let shown: Vec<(&Run, &[Trial])> = stored.iter().map(|(run, trials)| (run, &trials[..])).collect();
    let (first, further) = shown.split_first().context("name a run")?;
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("pgthaw-report-{}.html", first.0.id)));
    report::write_report(&path, &report::render_report(*first, further)?, arguments.force)?;
    if output.json {
        let runs: Vec<&str> = shown.iter().map(|(run, _)| run.id.as_str()).collect();
        let trials: usize = shown.iter().map(|(_, trials)| trials.len()).sum();
        terminal::print_json(&json!({ "run": runs[0], "runs": runs, "trials": trials, "report": path }))?;
    } else {
        terminal::print_verbatim(&path.display().to_string());
    }
    Ok(())
}
