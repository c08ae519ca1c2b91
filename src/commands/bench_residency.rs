//! `pgthaw bench residency`: the work is done in `src/bench/loading/`.

use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc::UnboundedReceiver;

use super::results::{keep_loading, print_loading};
use super::store::{close_written, keep};
use super::study::{DiskArguments, ScratchArguments, run_and_hear};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::{LoadingFinished, LoadingOptions, WantedSource, run_loading};
use crate::failure::ErrorKind;
use crate::lab::Stop;
use crate::postgres::Programs;
use crate::postgres::pgbench::{Script, Workload};
use crate::results::Store;
use crate::serve::LiveBoard;
use crate::study::{Event, Events, Loader};
use crate::terminal::{self, StudyDisplay};

/// Seconds that the workload runs on the warm server when everything is wanted, to make its usage counts.
const WARM_SECONDS: u32 = 5;

#[derive(Debug, Args)]
pub struct ResidencyArguments {
    /// pgbench's scale: about 16 MB each
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,

    /// What this workload reads from a cold start is wanted: select-only, simple-update, tpcb-like, or a file of
    /// pgbench's [default: everything is wanted]
    #[arg(long, value_name = "SCRIPT")]
    script: Option<Script>,

    /// Seconds that it runs
    #[arg(long, default_value_t = 3, requires = "script", value_parser = clap::value_parser!(u32).range(1..))]
    script_seconds: u32,

    /// pgbench's clients
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// Loaders, separated by commas: pgthaw, pgthaw-both (until shared_buffers are back), one-read-per-range, pgfincore,
    /// cat, vmtouch, fio-buffered, fio-direct
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "pgthaw,one-read-per-range,pgfincore,cat,vmtouch"
    )]
    loaders: Vec<Loader>,

    /// Rounds: each holds every loader once, in random order
    #[arg(long, default_value_t = 1, overrides_with = "repeats", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// Seconds after which a loader is not waited for any longer
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,

    /// Seed of the order of the trials [default: random]
    #[arg(long)]
    seed: Option<u64>,

    #[command(flatten)]
    disk: DiskArguments,

    #[command(flatten)]
    scratch: ScratchArguments,

    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub async fn run(arguments: ResidencyArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let options = arguments.options()?;
    let store = arguments.store.open_for_study(output).await?;
    let study = async move |events: Events, stop: Stop| run_loading(options, &events, &stop).await;
    let finished = run_and_hear(study, |events| keep_and_show(events, &store, output)).await?;
    store.save_loading(&finished.run).await?;
    print(&finished, &store, output)?;
    close_written(store, output).await?;
    Ok(if finished.is_interrupted { ExitStatus::Because(ErrorKind::Interrupted) } else { ExitStatus::Done })
}

async fn keep_and_show(
    mut events: UnboundedReceiver<Event>,
    store: &Store,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let (mut display, mut board) = (StudyDisplay::new(output.shows_progress()), LiveBoard::default());
    let mut run_id = String::new();
    while let Some(event) = events.recv().await {
        keep(store, output, keep_loading(&event, &mut run_id, store)).await?;
        board.hear(&event);
        display.show(&event);
    }
    display.finish();
    Ok(())
}

fn print(finished: &LoadingFinished, store: &Store, output: OutputArguments) -> anyhow::Result<()> {
    let LoadingFinished { run, trials, is_interrupted, kept } = finished;
    print_loading((run, trials), *is_interrupted, kept.as_deref(), output)?;
    if output.json {
        return Ok(());
    }
    terminal::print_line(&terminal::render_where_kept(&run.id, store.place()));
    if let Some(kept) = kept {
        terminal::print_line(&terminal::render_kept_cluster(kept, run.study.database_bytes));
    }
    Ok(())
}

impl ResidencyArguments {
    fn options(&self) -> anyhow::Result<LoadingOptions> {
        let (wanted, seconds) = match self.script {
            Some(_) => (WantedSource::Script, self.script_seconds),
            None => (WantedSource::Everything, WARM_SECONDS),
        };
        let script = self.script.clone().unwrap_or(Script::Builtin("select-only"));
        let loaders = Loader::ALL.into_iter().filter(|loader| self.loaders.contains(loader)).collect();
        Ok(LoadingOptions {
            programs: Programs::find(self.scratch.bin_dir.as_deref())?,
            parent: self.scratch.dir.clone(),
            scale: self.scale,
            workload: Workload { script, clients: self.clients, jobs: 2, seconds, scale: self.scale },
            rounds: self.repeats,
            disk: self.disk.choose("native")?,
            seed: self.seed.unwrap_or_else(rand::random),
            shared_buffers: self.scratch.shared_buffers,
            is_kept: self.scratch.keep,
            loaders,
            wanted,
            patience: Duration::from_secs(self.patience.into()),
        })
    }
}
