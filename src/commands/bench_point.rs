//! What `bench warmup` and `bench forecast` measure: workload, disk, cluster.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::bench_device::find_bench_device;
use super::study::{DiskArguments, ScratchArguments};
use super::{ConnectionArguments, LabArguments, StoreArguments, Target, require_lab_server};
use crate::bench::Options;
use crate::lab::{Place, choose_in_force};
use crate::postgres::Programs;
use crate::postgres::pgbench::{Script, Workload};
use crate::study::Strategy;
use crate::units::Bytes;

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

    /// Memory that the server may use in the trials, shared_buffers and page cache included [default: no limit]
    #[arg(long, value_name = "BYTES")]
    memory: Option<Bytes>,

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
    pub store: StoreArguments,
}

impl PointArguments {
    /// These arguments as options of a study.
    pub async fn options(&self, seconds: u32, repeats: u32, strategies: Vec<Strategy>) -> anyhow::Result<Options> {
        let Self { scale, clients, jobs, .. } = *self;
        let (programs, place) = self.choose_place().await?;
        let disk = choose_in_force(place.directory(), self.disk.choose("native")?);
        let device = find_bench_device(&disk, place.directory());
        Ok(Options {
            title: None,
            programs,
            place,
            scale,
            workload: Workload { script: self.script.clone(), clients, jobs, seconds, scale },
            repeats,
            strategies,
            disk,
            seed: self.seed.unwrap_or_else(rand::random),
            memory: self.memory,
            shared_buffers: self.scratch.shared_buffers,
            until_steady: false,
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
        require_lab_server(&target, &self.lab, "a tournament")?;
        let data_directory = target.data_directory.context("the data directory cannot be read")?;
        let programs = Programs::find_version(bin_dir, data_directory.version_major)?;
        Ok((programs, Place::Borrowed { data_directory }))
    }
}
