//! `pgthaw bench`: the work is done in `src/bench/`.

use std::path::PathBuf;

use anyhow::Context as _;

use clap::{Args, Subcommand};

use super::bench_device::find_bench_device;
use super::bench_read_ranges::{self, ReadRangesArguments};
use super::bench_residency::{self, ResidencyArguments};
use super::finished::print_finished;
use super::study::{DiskArguments, ScratchArguments, TrialArguments, run_study};
use super::{
    ConnectionArguments, ExitStatus, LabArguments, OutputArguments, StoreArguments, Target, require_lab_server,
};
use crate::bench::{Options, Place};
use crate::failure::ErrorKind;
use crate::postgres::Programs;
use crate::postgres::pgbench::{Script, Workload};
use crate::terminal;

/// Measure warm-ups honestly: proven start state, repeats, randomised order
#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The tournament: how long every way to warm a cold server takes, while pgbench runs against it
    Warmup(Box<WarmupArguments>),
    /// How long loaders take until what a snapshot asks for is verified resident, on an idle server
    Residency(Box<ResidencyArguments>),
    /// Read the ranges of a list, one read each
    #[command(hide = true)]
    ReadRanges(ReadRangesArguments),
}

#[derive(Debug, Args)]
struct WarmupArguments {
    /// pgbench's scale: about 16 MB each
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,

    /// pgbench's clients
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// pgbench's threads
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,

    #[command(flatten)]
    trials: TrialArguments,

    /// select-only, simple-update, tpcb-like, or a file of pgbench's
    #[arg(long, default_value = "select-only")]
    script: Script,

    /// Seed of the order of the trials [default: random]
    #[arg(long)]
    seed: Option<u64>,

    #[command(flatten)]
    disk: DiskArguments,

    #[command(flatten)]
    scratch: ScratchArguments,

    /// Measure in this lab server's own cluster, with its settings: it is stopped meanwhile and started again
    /// afterwards; a database pgthaw_bench is made in it and dropped
    #[arg(short = 'D', long, value_name = "DIRECTORY", conflicts_with = "dir")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    lab: LabArguments,

    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub async fn run(arguments: BenchArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let arguments = match arguments.action {
        Action::Warmup(arguments) => arguments,
        Action::Residency(arguments) => return bench_residency::run(*arguments, output).await,
        Action::ReadRanges(arguments) => return bench_read_ranges::run(&arguments),
    };
    let store = arguments.store.open().await?;
    let acts = run_study(vec![arguments.options().await?], &store, output).await?;
    print_finished(&acts, None, output)?;
    for finished in acts.iter().filter(|_| !output.json) {
        terminal::print_line(&terminal::render_where_kept(&finished.run, store.path()));
        if let Some(kept) = &finished.kept {
            terminal::print_line(&terminal::render_kept_cluster(kept, finished.run.study.database_bytes));
        }
    }
    store.close().await;
    let is_interrupted = acts.iter().any(|act| act.is_interrupted);
    Ok(if is_interrupted { ExitStatus::Because(ErrorKind::Interrupted) } else { ExitStatus::Done })
}

impl WarmupArguments {
    async fn options(&self) -> anyhow::Result<Options> {
        let Self { scale, clients, jobs, trials: TrialArguments { seconds, .. }, .. } = *self;
        let (programs, place) = self.choose_place().await?;
        let disk = self.disk.choose("native")?;
        let device = find_bench_device(&disk, place.directory());
        Ok(Options {
            title: None,
            programs,
            place,
            scale,
            workload: Workload { script: self.script.clone(), clients, jobs, seconds },
            repeats: self.trials.repeats,
            strategies: self.trials.strategies(),
            disk,
            seed: self.seed.unwrap_or_else(rand::random),
            shared_buffers: self.scratch.shared_buffers,
            until_steady: self.trials.until_steady,
            device,
            is_kept: self.scratch.keep,
        })
    }

    /// A scratch cluster; or the one of a lab server, which is made sure to be one.
    async fn choose_place(&self) -> anyhow::Result<(Programs, Place)> {
        let bin_dir = self.scratch.bin_dir.as_deref();
        if self.data_dir.is_none() {
            return Ok((Programs::find(bin_dir)?, Place::Scratch { parent: self.scratch.dir.clone() }));
        }
        let connection = ConnectionArguments { data_dir: self.data_dir.clone(), ..ConnectionArguments::default() };
        let target = Target::open(&connection).await?;
        require_lab_server(&target, &self.lab, "bench warmup")?;
        let data_directory = target.data_directory.context("the data directory cannot be read")?;
        let programs = Programs::find_version(bin_dir, data_directory.version_major)?;
        Ok((programs, Place::Borrowed { data_directory }))
    }
}
