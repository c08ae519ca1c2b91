//! `pgthaw bench residency`: a study of warmers of an idle server; the work is done in `src/bench/`.

use clap::Args;

use super::bench_point::make_study;
use super::results::show_sweep;
use super::running::{Begin, run_studies, status_of, tell_where_kept};
use super::store::close_written;
use super::study::{DiskArguments, ScratchArguments, choose_strategies};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::StudyAsked;
use crate::lab::Place;
use crate::postgres::Programs;
use crate::postgres::pgbench::{QueryMode, Script};
use crate::study::size::scratch_settings;
use crate::study::{Strategy, Until, WarmupAsked};
use crate::terminal;

/// pgbench's threads while it makes the warm state.
const JOBS: u32 = 2;

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

    /// Warmers, separated by commas: pgthaw-os (restore --tier os), pgthaw (until shared_buffers are back),
    /// one-read-per-range, fio-buffered, fio-direct, and those of `bench warmup` but nothing [default: pgthaw-os,
    /// one-read-per-range, pgfincore, cat, vmtouch]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    loaders: Vec<Strategy>,

    /// Rounds: each holds every warmer once, in random order
    #[arg(long, default_value_t = 1, overrides_with = "repeats", value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// Seconds after which a warmer is not waited for any longer
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u32).range(1..))]
    patience: u32,

    /// Seed of the order of the trials [default: random]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,

    /// Begin anew, even when a run of the same study was interrupted
    #[arg(long)]
    anew: bool,

    /// Print the study as a file for `pgthaw bench sweep`, to begin one of your own with, and do nothing
    #[arg(long)]
    print_study: bool,

    #[command(flatten)]
    disk: DiskArguments,

    #[command(flatten)]
    scratch: ScratchArguments,

    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub async fn run(arguments: ResidencyArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let (study, text) = arguments.study()?;
    if arguments.print_study {
        terminal::print_verbatim(text.trim_end());
        return Ok(ExitStatus::Done);
    }
    let store = arguments.store.open_for_study().await?;
    let finished = run_studies(vec![study], Begin::asked(arguments.anew), &store, output, |_| Ok(())).await?;
    for one in &finished {
        show_sweep(&store, &one.run, output).await?;
    }
    if !output.json {
        tell_where_kept(&finished, &store);
    }
    close_written(store).await?;
    Ok(status_of(&finished))
}

impl ResidencyArguments {
    fn study(&self) -> anyhow::Result<(StudyAsked, String)> {
        let script = self.script.clone().unwrap_or(Script::Builtin("select-only"));
        let asked = WarmupAsked {
            title: None,
            scale: self.scale,
            clients: self.clients,
            jobs: JOBS,
            script: &script,
            setup: None,
            query_mode: QueryMode::default(),
            seconds: self.patience,
            until: Some(Until::Resident),
            wanted_seconds: self.script.as_ref().map(|_| self.script_seconds),
            repeats: self.repeats,
            seed: self.seed,
            strategies: &choose_strategies(&self.loaders, &Strategy::DEFAULT_OF_IDLE),
            disk: &self.disk.choose("native")?,
            memory: None,
            settings: &scratch_settings(self.scale, self.scratch.shared_buffers),
        };
        let place = Place::Scratch { parent: self.scratch.dir.clone() };
        make_study(&asked, Programs::find(self.scratch.bin_dir.as_deref())?, place, self.scratch.keep)
    }
}
