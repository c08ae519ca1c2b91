//! `pgthaw restore`: the work is done in `crates/cache/src/warm/restore/`.

pub mod receipt_text;
mod source;

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use serde_json::json;

use super::run::finish_left_runs;
use super::{
    ConnectionArguments, ExitStatus, OutputArguments, SelectionArguments, SnapshotsArguments, describe, find_directory,
};
use crate::restore::receipt_text::render_receipt;
use crate::warm_progress::{WarmProgress, end_in_good_order};
use cache::trace::Journals;
use cache::warm::probe::ProfileStore;
use cache::warm::restore::{Host, Restore, RestoreOptions, choose_room};
use cache::warm::{DeviceProfile, PlannedDevice, ProfileSource, Receipt, Sharing, state_directory};
use cache::{BEST, Tiers};
use command::find_profile;
use host::linux::block_device::read_block_device;
use host::linux::open_files;
use host::units::{Bytes, ParseBytesError};
use postgres::DataDirectory;
use source::Source;
use terminal::Canvas;

/// Bring back what a snapshot says was resident
///
/// The OS page cache first, with large reads, hottest first; then shared_buffers through pg_prewarm. Works on a running
/// server and, for the page cache, on a stopped one before its start (--data-dir). What is resident already is not read.
/// Prints a receipt: which snapshot and why, what was asked, resident before and after, left out and why. Ctrl-C stops it cleanly.
///
/// Without a name it takes the warmest snapshot from before the server's last start, or the newest with 95 % of each tier of
/// that one; where none is from before it, the newest. An empty one is never taken, a damaged one is passed over, and what was of
/// databases that are dropped since does not count.
///
/// It shares the device with the server's traffic: beside traffic that waits for the disk, at most ten reads are in flight;
/// beside traffic that flows it takes 93 % of the bandwidth or, where the server does more then, less; with --pace gentle 30 % beside
/// either. Nobody busy: full speed.
///
/// Where a `pgthaw run` was killed less than an hour ago, its clean-up is finished first: the cache as it was before that job.
///
/// Exit status: 0 when all was loaded or what was left out is a matter of course (over the budget, dropped or truncated
/// since, no server before its start); 3 when a privilege or a capability kept something from being loaded, unless
/// that is below 0.1 % of its tier, or below 1 MB and 1 %; 1 when the server went away or something could not be read; when
/// interrupted that of the signal: 130 after Ctrl-C, 143 after SIGTERM.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// `best` (default), `any`, `newest`, `newest~1`, a name or a file
    ///
    /// `best` is chosen as said above; `any` too, and where none of this cluster is kept there is nothing to do: for a unit, whose
    /// first start has none. A name is the beginning of one that `pgthaw snapshot list` shows.
    #[arg(default_value = BEST, hide_default_value = true)]
    pub snapshot: String,

    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten, next_help_heading = "Restore")]
    pub selection: SelectionArguments,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    /// Which cache: os, buffers, both (default) or exclusive
    ///
    /// `exclusive` fills both, and keeps nothing in the page cache of what is in shared_buffers at the end.
    #[arg(long, value_parser = ["os", "buffers", "both", EXCLUSIVE], default_value = "both")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    tier: String,

    /// Load at most this, hottest first; buffers=BYTES: there
    ///
    /// BYTES (1GB is 1024 MB) limit both caches together, of which shared_buffers get half at most. buffers=BYTES limits
    /// shared_buffers alone, and pushes out others for it; without it what is free there is filled. May be repeated.
    #[arg(long, value_name = "BYTES", value_parser = budget)]
    budget: Vec<Budget>,

    #[command(flatten)]
    pace: PaceArguments,

    /// Threads that read, and the most connections that fill shared_buffers
    ///
    /// Only a few while live traffic waits for the disk. By default as many as `doctor --probe` found useful, or 16; and 8 connections:
    /// there is one more as long as that brings noticeably more.
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// The snapshot is of another cluster: find its relations by name
    #[arg(long, hide_short_help = true)]
    pub other_cluster: bool,

    /// Run CREATE EXTENSION pg_prewarm in the databases that lack it
    #[arg(long, hide_short_help = true)]
    create_extensions: bool,

    /// Print what would be read; read nothing
    ///
    /// And how long it would take.
    #[arg(long)]
    pub dry_run: bool,

    /// A row for every relation
    #[arg(short, long, hide_short_help = true, help_heading = "Output")]
    pub verbose: bool,

    #[command(flatten)]
    pub device: DeviceArguments,
}

/// As [`BEST`], and nothing to do where there is none.
const ANY: &str = "any";

/// Of the values of `--tier`: both, and no block in both.
const EXCLUSIVE: &str = "exclusive";

/// Connections that fill shared_buffers where nobody says how many.
const CONNECTIONS: usize = 8;

/// The most connections that do.
const CONNECTIONS_MAX: usize = 64;

/// What may be loaded.
#[derive(Clone, Copy, Debug)]
enum Budget {
    Both(Bytes),
    Buffers(Bytes),
}

fn budget(text: &str) -> Result<Budget, ParseBytesError> {
    match text.strip_prefix("buffers=") {
        Some(bytes) => bytes.parse().map(Budget::Buffers),
        None => text.parse().map(Budget::Both),
    }
}

/// The tiers that a word of `--tier` means.
pub fn tiers(word: &str) -> Tiers {
    Tiers { os: word != "buffers", buffers: word != "os" }
}

/// How the device is shared with live traffic.
#[derive(Clone, Copy, Debug, Args)]
pub struct PaceArguments {
    /// Beside traffic: fair (default), gentle, full; or a rate
    ///
    /// `fair` takes all that the device can give while the server waits for it all the same or is idle, and a little less where that lets
    /// the server flow. `gentle` takes 30 % of the bandwidth as long as there is traffic. `full` takes all of the device, whatever the
    /// traffic. A rate such as 50MB (10^6 bytes a second) is fair, and never exceeded; shared_buffers are filled as slowly unless all is
    /// in the page cache.
    #[arg(long, value_name = "PACE", value_parser = pace, default_value = "fair", hide_default_value = true)]
    pace: (Sharing, Option<Bytes>),
}

impl PaceArguments {
    /// How the device is shared, and the bytes of a second that are never exceeded.
    pub fn get(self) -> (Sharing, Option<Bytes>) {
        self.pace
    }
}

fn pace(text: &str) -> Result<(Sharing, Option<Bytes>), String> {
    Ok(match text {
        "fair" => (Sharing::Fair, None),
        "gentle" => (Sharing::Gentle, None),
        "full" => (Sharing::FullSpeed, None),
        text => (Sharing::Fair, Some(rate(text).map_err(|error| format!("neither fair, gentle nor full: {error}"))?)),
    })
}

/// Puts back what killed runs left, and says so. Without the journals, as in a state directory that is read-only, nobody knows of any.
async fn finish_left(
    directory: Option<&DataDirectory>,
    arguments: &RestoreArguments,
) -> (Option<Journals>, Vec<String>) {
    let Some(directory) = directory.filter(|_| !arguments.dry_run) else { return (None, Vec::new()) };
    let journals = Journals::open(&state_directory(), directory.system_identifier);
    let finished = finish_left_runs(directory, &journals, arguments.device).await;
    (journals.ok(), finished)
}

/// Runs the command.
pub async fn run(arguments: RestoreArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    open_files::allow_all();
    let found = source::find(&arguments).await;
    if found.as_ref().is_err_and(source::is_none_kept) {
        let directory = find_directory(&arguments.connection).ok().flatten();
        let (_, finished) = finish_left(directory.as_ref(), &arguments).await;
        finished.iter().filter(|_| !output.json).for_each(|remark| terminal::print_remark(&format!("note: {remark}")));
    }
    let (snapshot, selected, mut source) = match found {
        Err(error) if arguments.snapshot == ANY && source::is_none_kept(&error) => {
            tell_none_kept(&error, output)?;
            return Ok(ExitStatus::Done);
        }
        found => found?,
    };
    let control = end_in_good_order();
    let pid = source.postmaster_pid();
    let (journals, finished) = finish_left(source.directory.as_ref(), &arguments).await;
    // A restore does not fail where it cannot be noted that it reads.
    let restoring = journals.and_then(|journals| Some((journals.begin_restore().ok()?, journals)));
    let others = restoring.as_ref().and_then(|((_, others), _)| remark_others(others));
    // Whoever waits wants to know at once.
    others.iter().filter(|_| !output.json).for_each(|remark| terminal::print_remark(&format!("note: {remark}")));
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let (room, charged) = choose_room(pid, arguments.dry_run);
    let host = Host {
        page_cache: Arc::new(source.page_cache()),
        room: Arc::new(room),
        traffic: source.traffic(),
        control,
        watcher: Arc::clone(&progress) as _,
    };
    let place = source.place();
    let (device, unusable) =
        arguments.device.choose(place.as_ref().ok().map(|place| &*place.directory), arguments.threads);
    let options = arguments.options(device, &source);
    let restore = Restore::new(source.request(snapshot, &arguments)?, options, place, host);
    let receipt = restore.run(source.server(&arguments)).await;
    progress.finish();
    restoring.into_iter().for_each(|((restoring, _), journals)| journals.end_restore(restoring));
    let mut receipt = Receipt { snapshot: Some(selected), ..receipt? };
    receipt.remarks.extend(others.filter(|_| output.json).into_iter().chain(charged).chain(unusable).chain(finished));
    match output.json {
        true => terminal::print_json(&receipt)?,
        false => terminal::print_line(&render_receipt(&receipt, arguments.verbose, Canvas::of_stdout(false).width)),
    }
    Ok(receipt.failure().map_or(ExitStatus::Done, ExitStatus::Because))
}

/// Nothing was asked for, as there is nothing yet.
fn tell_none_kept(error: &anyhow::Error, output: OutputArguments) -> anyhow::Result<()> {
    let told = format!("{}: nothing was brought back", describe(error));
    match output.json {
        true => terminal::print_json(&json!({ "snapshot": null, "remarks": [told] }))?,
        false => terminal::print_line(&told),
    }
    Ok(())
}

impl RestoreArguments {
    /// What the snapshot is called in the store.
    fn snapshot_name(&self) -> &str {
        if self.snapshot == ANY { BEST } else { &self.snapshot }
    }

    /// The tiers that are meant.
    fn tiers(&self) -> Tiers {
        tiers(&self.tier)
    }

    fn options(&self, device: PlannedDevice, source: &Source) -> RestoreOptions {
        let place = source.place().ok();
        let (sharing, max_rate) = self.pace.get();
        let budgets = || self.budget.iter().rev();
        RestoreOptions {
            seeks: seeks(place.as_ref().map(|place| &*place.directory), &device.profile),
            device,
            threads: device.profile.depth as usize,
            sharing,
            connections: self.threads.map_or(CONNECTIONS, |threads| CONNECTIONS_MAX.min(threads.into())),
            budget: budgets().find_map(|one| if let Budget::Both(bytes) = one { Some(*bytes) } else { None }),
            buffers_budget: budgets()
                .find_map(|one| if let Budget::Buffers(bytes) = one { Some(*bytes) } else { None }),
            max_rate,
            create_extensions: self.create_extensions,
            no_double: self.tier == EXCLUSIVE,
            is_dry_run: self.dry_run,
            same_cluster: source.is_same_cluster,
            awaits_server: source.may_bypass_page_cache(),
        }
    }
}

/// Says who else reads: both share the device, and read the same.
fn remark_others(others: &[u32]) -> Option<String> {
    let told = match others {
        [] => return None,
        [one] => format!("another pgthaw restore of this server (process {one}) is reading already"),
        more => {
            let more: Vec<String> = more.iter().map(u32::to_string).collect();
            format!("other pgthaw restores of this server (processes {}) are reading already", more.join(", "))
        }
    };
    Some(format!("{told}: both share the device, and read the same"))
}

// ---- device ----

/// Threads that read from a device that nobody has measured.
const THREADS: u32 = 16;
/// Threads beside which a measured depth is not heeded: fewer get too small a part of a device beside the server's own misses, and more
/// than this many reads of the largest size keep any device busy.
const PROBED_THREADS: std::ops::RangeInclusive<u32> = THREADS..=32;

/// What the device can give. What is not told is taken from its stored profile, or else is that of a common cloud volume.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub struct DeviceArguments {
    /// Reads that the device serves in a second [default: as `doctor --probe` measured, or 3000]
    #[arg(long, value_name = "READS", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..))]
    riops: Option<u32>,

    /// Bytes that it delivers in a second [default: as `doctor --probe` measured, or 125MiB]; MB are 10^6 bytes
    #[arg(long, value_name = "BYTES", hide_short_help = true, value_parser = positive_rate)]
    rbps: Option<Bytes>,
}

/// Does the disk of a directory turn, by its own account and by what it gives? Many a virtual disk says so, and does not.
fn seeks(directory: Option<&Path>, profile: &DeviceProfile) -> bool {
    let says_so = |directory| read_block_device(directory).is_ok_and(|disk| disk.is_rotational);
    profile.is_slow_to_seek() && directory.is_some_and(says_so)
}

impl DeviceArguments {
    /// The profile to plan for, with as many `threads` as were asked for, and why a stored one is not used although it is there. Who tells
    /// either price means another device than the one that was measured.
    pub fn choose(self, directory: Option<&Path>, threads: Option<u16>) -> (PlannedDevice, Option<String>) {
        let is_told = self.riops.is_some() || self.rbps.is_some();
        let is_of_use = !is_told && !ProfileStore::open().is_empty();
        let (stored, unusable) = match directory.filter(|_| is_of_use).map(find_profile) {
            Some(Ok(stored)) => (stored, None),
            // A device that cannot be found out has no profile either.
            Some(Err(cache::warm::Error::Linux(_))) | None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let (base, source) = match stored {
            Some(record) => (record.measurement.profile, ProfileSource::Probed { measured_at: record.measured_at }),
            None if is_told => (self.told(), ProfileSource::Told),
            None => (DeviceProfile::default(), ProfileSource::Default),
        };
        let probed = match source {
            ProfileSource::Probed { .. } => base.depth.clamp(*PROBED_THREADS.start(), *PROBED_THREADS.end()),
            ProfileSource::Told | ProfileSource::Default => THREADS,
        };
        let profile = DeviceProfile { depth: threads.map_or(probed, u32::from), ..base };
        (PlannedDevice { profile, source }, unusable)
    }

    fn told(self) -> DeviceProfile {
        let usual = DeviceProfile::default();
        let reads_per_second = self.riops.map_or(usual.reads_per_second, f64::from);
        DeviceProfile::told(reads_per_second, self.rbps.unwrap_or(usual.bandwidth))
    }
}

/// Slower than this nobody means: a number without its unit is bytes.
const RATE_MIN: Bytes = Bytes(64 << 10);

/// An amount of data in a second: `50MB`, `50MB/s`.
fn rate(text: &str) -> Result<Bytes, String> {
    match Bytes::parse_rate(text) {
        Ok(rate) if rate < RATE_MIN => Err(format!(
            "{} would never come to an end: write the unit too, such as 50MB (at least 64KiB)",
            rate.per_second()
        )),
        parsed => parsed.map_err(|error: ParseBytesError| error.to_string()),
    }
}

/// An amount of data that is not 0.
pub fn positive_bytes(text: &str) -> Result<Bytes, String> {
    positive(text.parse())
}

/// A bandwidth that is not 0.
pub fn positive_rate(text: &str) -> Result<Bytes, String> {
    positive(Bytes::parse_rate(text))
}

fn positive(parsed: Result<Bytes, ParseBytesError>) -> Result<Bytes, String> {
    match parsed {
        Ok(Bytes(0)) => Err("must be more than 0".to_owned()),
        parsed => parsed.map_err(|error: ParseBytesError| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit() {
        assert_eq!(rate("50MB"), Ok(Bytes(50_000_000)));
        assert_eq!(rate("1.5 MiB/s"), Ok(Bytes(1_572_864)));
        assert!(rate("50").unwrap_err().contains("write the unit too"));
        assert!(rate("fast").unwrap_err().contains("such as 125MiB"));
        assert_eq!(pace("50MB"), Ok((Sharing::Fair, Some(Bytes(50_000_000)))));
        assert!(pace("fast").unwrap_err().starts_with("neither fair, gentle nor full: \"fast\" is not a rate"));
    }
}
