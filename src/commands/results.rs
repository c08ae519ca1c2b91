//! `pgthaw results`: the work is done in `src/results/`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::{ExitStatus, OutputArguments};
use crate::bench::{
    Comparison, Run, Summary, Trial, compute_comparison, compute_summary, judge_trial, render_headline,
};
use crate::results::{self, NEWEST, Store};
use crate::terminal::{self, Canvas, RunLine};

/// What earlier runs measured
#[derive(Debug, Args)]
pub struct ResultsArguments {
    #[command(flatten)]
    store: StoreArguments,

    #[command(subcommand)]
    action: Action,
}

/// Where results are kept.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Results")]
pub struct StoreArguments {
    /// The file that keeps results [default: pgthaw/results.sqlite in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long = "results", value_name = "FILE", env = "PGTHAW_RESULTS", global = true)]
    file: Option<PathBuf>,
}

impl StoreArguments {
    /// The store to write to; made when it is not there.
    pub async fn open(&self) -> Result<Store, results::Error> {
        Store::open(&self.path()?).await
    }

    /// The store to read from, which must be there.
    pub async fn open_existing(&self) -> Result<Store, results::Error> {
        Store::open_existing(&self.path()?).await
    }

    fn path(&self) -> Result<PathBuf, results::Error> {
        self.file.clone().map_or_else(results::default_path, Ok)
    }
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the runs, newest first
    List,
    /// Show what each strategy achieved in a run
    Show {
        /// The run, or the first characters of its name
        #[arg(default_value = NEWEST)]
        run: String,
    },
    /// Forget a run with its trials
    Drop {
        /// The run, or the first characters of its name
        run: String,
    },
}

/// Runs the command.
pub async fn run(arguments: ResultsArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = arguments.store.open_existing().await?;
    match arguments.action {
        Action::List => list(&store, output).await?,
        Action::Show { run } => show(&store, &run, output).await?,
        Action::Drop { run } => drop(&store, &run, output).await?,
    }
    store.close().await;
    Ok(ExitStatus::Done)
}

async fn list(store: &Store, output: OutputArguments) -> anyhow::Result<()> {
    let runs = store.read_runs().await?;
    let mut lines = Vec::with_capacity(runs.len());
    for run in &runs {
        let trials = store.read_outcomes(&run.id).await?;
        lines.push(RunLine { run, trials: trials.len(), headline: render_headline(&compute_summary(run, &trials)) });
    }
    if output.json {
        let lines: Vec<_> = lines.iter().map(line_json).collect();
        terminal::print_json(&json!({ "results": store.path(), "runs": lines }))?;
    } else if lines.is_empty() {
        terminal::print_remark(&format!("{} holds no run yet", store.path().display()));
    } else {
        terminal::print_line(&terminal::render_runs(&lines, Canvas::of_stdout(false)));
    }
    Ok(())
}

fn line_json(line: &RunLine<'_>) -> serde_json::Value {
    let Run { id, started_at, ended_at, study, .. } = line.run;
    json!({
        "id": id, "started_at": started_at, "ended_at": ended_at, "scale": study.scale, "disk": study.disk.name,
        "strategies": study.strategies, "trials": line.trials, "headline": line.headline,
    })
}

/// What `show --json` prints.
#[derive(Serialize)]
struct ShownRun {
    run: Run,
    headline: String,
    summary: Summary,
    comparison: Comparison,
    trials: Vec<Trial>,
}

async fn show(store: &Store, wanted: &str, output: OutputArguments) -> anyhow::Result<()> {
    let run = store.read_run(wanted).await?;
    let mut trials = store.read_trials(&run.id).await?;
    // Those that an older pgthaw kept have none.
    trials.iter_mut().for_each(|trial| judge_trial(&run, trial));
    let summary = compute_summary(&run, &trials);
    let comparison = compute_comparison(&summary, &trials);
    let headline = render_headline(&summary);
    if output.json {
        return Ok(terminal::print_json(&ShownRun { run, headline, summary, comparison, trials })?);
    }
    terminal::print_line(&format!("{headline}\n\n{}\n", terminal::render_run_head(&run)));
    terminal::print_line(&format!("{}\n", terminal::render_tournament(&summary)));
    terminal::render_comparison(&comparison).iter().for_each(|table| terminal::print_line(&format!("{table}\n")));
    terminal::print_line(&terminal::render_trial_verdicts(&summary, &trials));
    Ok(())
}

async fn drop(store: &Store, wanted: &str, output: OutputArguments) -> anyhow::Result<()> {
    let run = store.read_run(wanted).await?;
    store.drop_run(&run.id).await?;
    if output.json {
        terminal::print_json(&json!({ "dropped": run.id }))?;
    } else {
        terminal::print_line(&format!("dropped {}", run.id));
    }
    Ok(())
}
