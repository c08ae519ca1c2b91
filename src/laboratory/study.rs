//! What studies have in common: their flags, and a thread that runs them.

use std::path::PathBuf;

use clap::Args;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::command::hear_signals;
use crate::lab::{Error, Stop};
use crate::postgres::hurry_clusters;
use crate::study::{self, AskedDisk, AskedReadAhead, Disk, Event, Events, NamedDisk, Strategy, choose_disk};
use crate::units::Bytes;

/// Which trials, and how long.
#[derive(Clone, Debug, Args)]
pub struct TrialArguments {
    /// Seconds that each trial lasts
    #[arg(long, default_value_t = 20, overrides_with = "seconds", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,

    /// Trials per strategy
    #[arg(long, default_value_t = 1, overrides_with = "repeats", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,

    /// End each trial when the verdict over it is steady; --seconds is then the longest that one may last
    #[arg(long)]
    pub until_steady: bool,

    /// Strategies, separated by commas [default: all that can run here, of pgthaw's modes the default one; there are
    /// pgthaw-gentle and pgthaw-full-speed too]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    strategies: Vec<Strategy>,
}

impl TrialArguments {
    /// The strategies asked for, each once; none given is all.
    pub fn strategies(&self) -> Vec<Strategy> {
        choose_strategies(&self.strategies, Strategy::DEFAULT)
    }
}

/// Which disk the server and every strategy get.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Disk (needs root and a writable cgroup; without, the native disk is measured)")]
pub struct DiskArguments {
    /// gp3 (3000 reads/s, 125 MiB/s, read-ahead 128 kB), hdd (200 reads/s, 87 MB/s, 1 MB), native (as it is), or one named
    /// by --named-disk [default: native; of demo gp3]
    #[arg(long, value_name = "NAME")]
    disk: Option<String>,

    /// Reads per second, instead of the disk's
    #[arg(long, value_name = "READS")]
    riops: Option<u64>,

    /// Read bytes per second, instead of the disk's: 125MiB, or 131MB (10^6 bytes, as vendors count)
    #[arg(long, value_name = "BYTES", value_parser = Bytes::parse_rate)]
    rbps: Option<Bytes>,

    /// How far the kernel reads ahead, instead of the disk's: 128KiB, or native for what the device is set to. It is
    /// changed for the whole machine while the trials run
    #[arg(long, value_name = "BYTES|native")]
    read_ahead: Option<AskedReadAhead>,

    /// A disk of your own: san=20000,1GiB,128KiB; may be repeated; in pgthaw.toml: named_disks
    #[arg(long, value_name = "NAME=READS,BYTES,READ-AHEAD")]
    named_disk: Vec<NamedDisk>,
}

impl DiskArguments {
    /// The disk asked for, or the `default` one.
    pub fn choose(&self, default: &str) -> Result<Disk, study::Error> {
        let name = self.disk.as_deref().or_else(|| self.asks_figures_only().then_some("native")).unwrap_or(default);
        let Self { riops, rbps, read_ahead, .. } = *self;
        choose_disk(&self.named_disk, AskedDisk { name: Some(name), riops, rbps, read_ahead })
    }

    fn asks_figures_only(&self) -> bool {
        self.disk.is_none() && (self.riops.is_some() || self.rbps.is_some())
    }
}

/// Where the scratch cluster is made, and of what.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Scratch cluster")]
pub struct ScratchArguments {
    /// Make it below this directory, on the disk to be measured
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/tmp")]
    pub dir: PathBuf,

    /// PostgreSQL's programs [default: of pg_config, or the newest in /usr/lib/postgresql]
    #[arg(long, value_name = "DIRECTORY", env = "PGTHAW_BIN_DIR")]
    pub bin_dir: Option<PathBuf>,

    /// shared_buffers [default: a quarter of the database, at most 256 MB]
    #[arg(long, value_name = "BYTES")]
    pub shared_buffers: Option<Bytes>,

    /// Leave the cluster in place
    #[arg(long)]
    pub keep: bool,
}

/// The strategies given, each once; where none is given those that run `unasked`.
pub fn choose_strategies(given: &[Strategy], unasked: &[Strategy]) -> Vec<Strategy> {
    let mut chosen = if given.is_empty() { unasked.to_vec() } else { given.to_vec() };
    let mut seen = Vec::new();
    chosen.retain(|strategy| {
        let is_new = !seen.contains(strategy);
        seen.push(*strategy);
        is_new
    });
    chosen
}

/// Runs a study to its end while `hear` takes its events. A signal ends it tidily, and so does a failure of `hear`.
pub async fn run_and_hear<T: Send + 'static, Ran, Heard>(
    study: impl FnOnce(Events, Stop) -> Ran + Send + 'static,
    hear: impl FnOnce(UnboundedReceiver<Event>) -> Heard,
) -> anyhow::Result<T>
where
    Ran: Future<Output = Result<T, Error>>,
    Heard: Future<Output = anyhow::Result<()>>,
{
    let stop = Stop::default();
    let signals = tokio::spawn(request_on_signal(stop.clone())?);
    let (sender, events) = unbounded_channel();
    let (runtime, study_stop) = (Handle::current(), stop.clone());
    // A thread of its own, for a study waits for processes as much as for the server.
    let study = tokio::task::spawn_blocking(move || runtime.block_on(study(Events::to(sender), study_stop)));
    let heard = hear(events).await;
    if heard.is_err() {
        stop.request();
    }
    let finished = study.await;
    signals.abort();
    heard?;
    Ok(finished??)
}

/// Waits for a signal that means "end". The first one asks the study to stop; it needs some seconds to tidy up.
pub fn request_on_signal(stop: Stop) -> std::io::Result<impl Future<Output = ()>> {
    let heard = hear_signals()?;
    Ok(async move {
        heard.await;
        stop.request();
        hurry_clusters();
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strategy_named_twice_runs_once() {
        assert_eq!(
            choose_strategies(&[Strategy::Cat, Strategy::Nothing, Strategy::Cat], Strategy::DEFAULT),
            [Strategy::Cat, Strategy::Nothing]
        );
        assert_eq!(choose_strategies(&[], Strategy::DEFAULT), Strategy::DEFAULT);
    }
}
