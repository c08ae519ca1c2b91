//! `pgthaw bench sweep`: the work is done in `src/bench/sweep/`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::results::show_sweeps;
use super::running::{Begin, run_studies, status_of};
use super::store::close_written;
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::StudyAsked;
use crate::lab::{Place, read_file_system_remarks, read_setting_remarks};
use crate::laboratory::text::render_sweep_plan;
use crate::postgres::Programs;
use crate::study::{Sweep, plan_sweep, read_sweep};
use crate::terminal::{self, Canvas};

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
    let store = arguments.store.open_for_study().await?;
    let place = Place::Scratch { parent: arguments.dir };
    let study = StudyAsked { programs, place, sweep, is_kept: false, device: None };
    let finished = run_studies(vec![study], Begin::asked(arguments.anew), &store, output, |_| Ok(())).await?;
    show_sweeps(&store, &finished, None, output).await?;
    close_written(store).await?;
    Ok(status_of(&finished))
}

fn dry_run(arguments: &SweepArguments, sweep: &Sweep, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let mut plan = plan_sweep(sweep, sweep.seed.unwrap_or_else(rand::random), &arguments.dir)?;
    plan.remarks = read_setting_remarks(sweep, Programs::find(arguments.bin_dir.as_deref()))?;
    plan.remarks.extend(read_file_system_remarks(sweep));
    if output.json {
        terminal::print_json(&json!({ "plan": plan }))?;
    } else {
        terminal::print_line(&render_sweep_plan(&plan, Canvas::of_stdout(false).width));
    }
    plan.check_room(&arguments.dir)?;
    Ok(ExitStatus::Done)
}
