//! What `bench warmup` and `bench forecast` measure: workload, disk, cluster.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;

use super::bench_device::find_bench_device;
use super::study::{DiskArguments, ScratchArguments};
use super::{ConnectionArguments, LabArguments, StoreArguments, Target, require_lab_server};
use crate::bench::StudyAsked;
use crate::lab::{Place, choose_in_force};
use crate::postgres::Programs;
use crate::postgres::pgbench::{QueryMode, Script};
use crate::study::size::{scratch_settings, shared_buffers_setting};
use crate::study::{Strategy, Until, WarmupAsked, parse_sweep};
use crate::units::Bytes;

/// Which trials, and how long.
#[derive(Clone, Debug)]
pub struct Trials {
    pub seconds: u32,
    pub repeats: u32,
    pub strategies: Vec<Strategy>,
    pub until: Option<Until>,
}

/// What is measured: workload, disk, cluster.
#[derive(Debug, Args)]
pub struct PointArguments {
    /// pgbench's scale: about 16 MB each
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    scale: u32,

    /// pgbench's clients
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,

    /// pgbench's threads
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,

    /// select-only, simple-update, tpcb-like, or a file of pgbench's, in which :scale is the scale
    #[arg(long, default_value = "select-only")]
    script: Script,

    /// SQL that psql runs in the database once pgbench's tables are there, in which :scale is the scale
    #[arg(long, value_name = "FILE")]
    setup: Option<PathBuf>,

    /// How pgbench hands over its statements (-M): simple, extended or prepared
    #[arg(long, default_value_t, value_name = "MODE")]
    query_mode: QueryMode,

    /// Memory that the server may use in the trials, shared_buffers and page cache included [default: no limit]
    #[arg(long, value_name = "BYTES")]
    memory: Option<Bytes>,

    /// Seed of the order of the trials [default: random]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
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
    pub store: StoreArguments,
}

impl PointArguments {
    /// These arguments and those of its trials as a study of ways to warm, with the text of the file that asks the same.
    pub async fn study(&self, trials: Trials) -> anyhow::Result<(StudyAsked, String)> {
        let (programs, place) = self.choose_place().await?;
        let disk = self.disk.choose("native")?;
        let shared_buffers = self.scratch.shared_buffers;
        let settings = match place {
            Place::Scratch { .. } => scratch_settings(self.scale, shared_buffers),
            // A borrowed cluster keeps its own, but for what the user asks for.
            Place::Borrowed { .. } => shared_buffers.map(shared_buffers_setting).into_iter().collect(),
        };
        let Trials { seconds, repeats, strategies, until } = trials;
        let asked = WarmupAsked {
            title: None,
            scale: self.scale,
            clients: self.clients,
            jobs: self.jobs,
            script: &self.script,
            setup: self.setup.as_deref(),
            query_mode: self.query_mode,
            seconds,
            until,
            wanted_seconds: None,
            repeats,
            seed: self.seed,
            strategies: &strategies,
            disk: &disk,
            memory: self.memory,
            settings: &settings,
        };
        make_study(&asked, programs, place, self.scratch.keep)
    }

    /// A scratch cluster; or the one of a lab server, which is made sure to be one.
    async fn choose_place(&self) -> anyhow::Result<(Programs, Place)> {
        let bin_dir = self.scratch.bin_dir.as_deref();
        if self.data_dir.is_none() {
            return Ok((Programs::find(bin_dir)?, Place::Scratch { parent: self.scratch.dir.clone() }));
        }
        let connection = ConnectionArguments { data_dir: self.data_dir.clone(), ..ConnectionArguments::default() };
        let target = Target::open(&connection).await?;
        require_lab_server(&target, &self.lab, "a tournament")?;
        let data_directory = target.data_directory.context("the data directory cannot be read")?;
        let programs = Programs::find_version(bin_dir, data_directory.version_major)?;
        Ok((programs, Place::Borrowed { data_directory }))
    }
}

/// The study that is asked for, and its text: it is read as any other study file is.
pub fn make_study(
    asked: &WarmupAsked<'_>,
    programs: Programs,
    place: Place,
    is_kept: bool,
) -> anyhow::Result<(StudyAsked, String)> {
    let text = asked.render();
    let sweep = parse_sweep(&text, Path::new("."), false).map_err(anyhow::Error::msg)?;
    let device = find_bench_device(&choose_in_force(place.directory(), asked.disk.clone()), place.directory());
    Ok((StudyAsked { programs, place, sweep, is_kept, device }, text))
}
