//! `pgthaw results`: the work is done in `crates/pgthaw-lab/src/results/`.

mod compare;
mod drop;
mod export;
mod import;
mod list;
mod noise;
mod sweep;
mod time;

pub use sweep::{show_sweep, show_sweeps};

use clap::{Args, Subcommand};
use serde_json::json;

use crate::laboratory::store::{close_written, remark_unsent};
use crate::laboratory::{ExitStatus, OutputArguments, StoreArguments};
use crate::results::{NEWEST, Store};
use host::failure::ErrorKind;

use compare::{CompareArguments, compare};
use drop::drop_run;
use export::{ExportArguments, export};
use import::{ImportArguments, import};
use list::list;
use noise::{NoiseArguments, show_noise};
use time::show_time;

/// What earlier runs measured
#[derive(Debug, Args)]
pub struct ResultsArguments {
    #[command(flatten)]
    store: StoreArguments,

    #[command(subcommand)]
    action: Action,
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
    /// Hold two sides of a sweep against each other: ratios of the trials of a block, with what chance leaves open
    Compare(CompareArguments),
    /// Tell what equal sides of a sweep differ by: the noise floor, and how often it is taken for a difference
    Noise(NoiseArguments),
    /// Tell where the time of the servers of a run went, point by point: commands read and handled, waits, processors
    Time {
        /// The run, or the first characters of its name
        #[arg(default_value = NEWEST)]
        run: String,
    },
    /// Write results for other programs: CSV, JSON or Parquet
    Export(ExportArguments),
    /// Keep what others measured: pgbench's logs, progress and report, and directories of pgbench-tools
    Import(ImportArguments),
    /// Send what waits here for the server that --results names
    Send,
    /// Forget a run with its trials
    Drop {
        /// The run, or the first characters of its name
        run: String,
    },
}

/// Runs the command.
pub async fn run(arguments: ResultsArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let store = match arguments.action {
        Action::Send | Action::Import(_) => arguments.store.open().await?,
        _ => arguments.store.open_existing().await?,
    };
    let is_written = matches!(arguments.action, Action::Import(_));
    match arguments.action {
        Action::List => list(&store, output).await?,
        Action::Show { run } => show(&store, &run, output).await?,
        Action::Compare(arguments) => compare(&store, &arguments, output).await?,
        Action::Noise(arguments) => show_noise(&store, &arguments, output).await?,
        Action::Time { run } => show_time(&store, &run, output).await?,
        Action::Export(arguments) => export(&store, arguments, output).await?,
        Action::Drop { run } => drop_run(&store, arguments.store.open_local_copy().await?, &run, output).await?,
        Action::Import(arguments) => import(&store, arguments, output).await?,
        Action::Send => return send(store, output).await,
    }
    match is_written {
        true => close_written(store).await?,
        false => store.close().await,
    }
    Ok(ExitStatus::Done)
}

async fn show(store: &Store, wanted: &str, output: OutputArguments) -> anyhow::Result<()> {
    let study = store.read_study(wanted).await?;
    show_sweep(store, &study, output).await
}

async fn send(store: Store, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let sent = store.send().await?;
    store.close().await;
    if output.json {
        terminal::print_json(&json!({ "sent": sent.things, "damaged": sent.damaged }))?;
    } else {
        terminal::print_line(&format!("{} sent", sent.things));
        remark_unsent(&sent.damaged);
    }
    Ok(if sent.damaged.is_empty() { ExitStatus::Done } else { ExitStatus::Because(ErrorKind::Failed) })
}
