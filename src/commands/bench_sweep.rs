//! `pgthaw bench sweep`: the work is done in `src/bench/sweep/`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::results::show_sweep;
use super::store::{close_written, keep};
use super::study::run_and_hear;
use super::sweep_earlier::{find_earlier, lock_directory};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::{SweepFinished, SweepOptions, run_sweep};
use crate::failure::ErrorKind;
use crate::lab::{Stop, SweepLock, read_setting_remarks};
use crate::postgres::Programs;
use crate::results::Store;
use crate::serve::LiveBoard;
use crate::study::{Event, Events, Sweep, plan_sweep, read_sweep, texts_of};
use crate::terminal::{self, Canvas, SweepDisplay};
use crate::verdict::compute_sweep_verdicts;

/// A study of points, from a file
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// The study (docs/sweep.md). One that was interrupted goes on where it stopped
    spec: PathBuf,

    /// Print the points, their order, how long it will take and the room that it needs, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Begin anew, even when a run of the same study was interrupted
    #[arg(long)]
    anew: bool,

    /// Measure every point twice, as sides A and A': what they differ by is the noise (`pgthaw results noise`)
    #[arg(long)]
    aa: bool,

    /// Make the scratch cluster below this directory, on the disk to be measured
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/tmp")]
    dir: PathBuf,

    /// PostgreSQL's programs [default: of pg_config, or the newest in /usr/lib/postgresql]
    #[arg(long, value_name = "DIRECTORY", env = "PGTHAW_BIN_DIR")]
    bin_dir: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub async fn run(arguments: SweepArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let sweep = read_sweep(&arguments.spec, arguments.aa)?;
    if arguments.dry_run {
        return dry_run(&arguments, &sweep, output);
    }
    let programs = Programs::find(arguments.bin_dir.as_deref())?;
    let store = arguments.store.open_for_study(output).await?;
    let earlier = if arguments.anew { None } else { find_earlier(&store, &sweep, &arguments.dir).await? };
    if let (Some((_, earlier)), true) = (&earlier, output.shows_progress()) {
        let (done, all) = (earlier.finished.len(), sweep.trials());
        terminal::print_remark(&format!("going on with {}: {done} of {all} trials are done", earlier.run.id));
    }
    let (lock, earlier) = match earlier {
        Some((lock, earlier)) => (lock, Some(earlier)),
        None => (SweepLock::of_new(&lock_directory(&store), &arguments.dir)?, None),
    };
    let (id, unfinished) = (lock.id().to_owned(), store.read_unfinished_sweeps().await?);
    let options = SweepOptions { id, programs, parent: arguments.dir, sweep, earlier, unfinished };
    let mut finished = run_and_keep(options, &store, output).await?;
    if !finished.is_interrupted {
        let trials = store.read_sweep_outcomes(&finished.run.id).await?;
        finished.run.verdicts.extend(compute_sweep_verdicts(&trials));
        finished.run.warnings = texts_of(&finished.run.verdicts);
    }
    store.save_sweep(&finished.run).await?;
    show_sweep(&store, &finished.run, output).await?;
    close_written(store, output).await?;
    Ok(match finished {
        SweepFinished { is_interrupted: true, .. } => ExitStatus::Because(ErrorKind::Interrupted),
        SweepFinished { failed: 1.., .. } => ExitStatus::Because(ErrorKind::Failed),
        _ => ExitStatus::Done,
    })
}

fn dry_run(arguments: &SweepArguments, sweep: &Sweep, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let mut plan = plan_sweep(sweep, sweep.seed.unwrap_or_else(rand::random), &arguments.dir)?;
    plan.remarks = read_setting_remarks(sweep, Programs::find(arguments.bin_dir.as_deref()))?;
    if output.json {
        terminal::print_json(&json!({ "plan": plan }))?;
    } else {
        terminal::print_line(&terminal::render_sweep_plan(&plan, Canvas::of_stdout(false).width));
    }
    plan.check_room(&arguments.dir)?;
    Ok(ExitStatus::Done)
}

/// Runs a sweep with a live display. Each trial is kept when it ends; Ctrl-C ends it tidily.
async fn run_and_keep(options: SweepOptions, store: &Store, output: OutputArguments) -> anyhow::Result<SweepFinished> {
    let sweep = async move |events: Events, stop: Stop| run_sweep(options, &events, &stop).await;
    run_and_hear(sweep, |events| keep_and_show(events, store, output)).await
}

async fn keep_and_show(
    mut events: UnboundedReceiver<Event>,
    store: &Store,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let mut display = SweepDisplay::new(output.shows_progress());
    let (mut board, mut opened): (LiveBoard, Option<String>) = (LiveBoard::default(), None);
    while let Some(event) = events.recv().await {
        match &event {
            Event::SweepOpened(sweep) => {
                store.open_sweep(&sweep.run).await?;
                sweep.note_kept();
                opened = Some(sweep.run.id.clone());
            }
            Event::SweepStarted(run) => {
                store.save_sweep(run).await?;
                opened = None;
            }
            Event::SweepTrialEnded(trial) => keep(store, output, store.save_sweep_trial(trial)).await?,
            _ => {}
        }
        board.hear(&event);
        display.show(&event);
    }
    display.finish();
    // It ended before its first trial, and took away what it had made: nobody goes on with it.
    if let Some(id) = opened {
        store.drop_sweep(&id).await?;
    }
    Ok(())
}
