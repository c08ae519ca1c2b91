//! `pgthaw restore`; the work is in `crates/cache/src/warm/restore/`.

mod device;
pub mod receipt_text;

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::run::finish_left_runs;
use super::{
    ConnectionArguments, ExitStatus, OutputArguments, Scope, SelectionArguments, SnapshotsArguments, Target, describe,
    find_directory, is_served_invisibly, page_cache_of, situation_of,
};
use crate::map::view::keep_places;
use crate::restore::receipt_text::render_receipt;
use crate::warm_progress::{WarmProgress, end_in_good_order};
use cache::trace::Journals;
use cache::warm::plan::Geometry;
use cache::warm::restore::{Answer, Host, Place, Request, Restore, RestoreOptions, choose_room};
use cache::warm::traffic::ServerTraffic;
use cache::warm::{PlannedDevice, Receipt, Refusal, Sharing, SkipReason, state_directory};
use cache::{BEST, Chosen, Map, NEWEST, Selected, Situation, Snapshot, Tiers, warm};
use host::failure::Explain;
use host::linux::open_files;
use host::units::{Bytes, ParseBytesError};
use postgres::DataDirectory;
use terminal::Canvas;

pub use device::DeviceArguments;
use device::seeks;

/// Restore a snapshot into both caches
///
/// Loads the OS page cache first, with large reads and the hottest blocks first, then shared_buffers through pg_prewarm. Works on a
/// running server and, for the page cache, on a stopped one (--data-dir). Skips cached blocks. Ctrl-C stops it cleanly. The receipt shows
/// the snapshot and the reason for its choice, the request, the cached data before and after, and skipped data with the reason.
///
/// Without a name pgthaw finds the warmest snapshot from before the server's last start. It restores the newest
/// snapshot that has at least 95 % as many blocks of each tier as the warmest. If no snapshot predates the start, it
/// restores the newest one. It skips empty and damaged snapshots; blocks of dropped databases do not count.
///
/// The restore shares the device with the server (--pace). If the server is idle, the restore runs at full speed.
///
/// If a `pgthaw run` was killed less than 24 hours ago, pgthaw first completes its clean-up, which restores the cache as it was before that job.
///
/// Exit status: 0 when everything was loaded or skipped as expected (over the budget, dropped or truncated since, server not started
/// yet); 3 when a privilege or a capability was missing, unless this affects less than 0.1 % of the tier, or less than both 1 MB and
/// 1 %; 1 when the server stopped or a read failed; 130 after Ctrl-C, 143 after SIGTERM.
#[derive(Debug, Args)]
pub struct RestoreArguments {
    /// `best` (default), `any`, `newest`, `newest~1`, a name or a file
    ///
    /// `best` is chosen as above. `any` is the same, but if this cluster has no snapshot yet, as at the first start of a systemd unit,
    /// the restore does nothing and succeeds. `pgthaw snapshot list` shows the names; the beginning of a name suffices.
    #[arg(default_value = BEST, hide_default_value = true)]
    pub snapshot: String,

    #[command(flatten)]
    pub connection: ConnectionArguments,

    #[command(flatten, next_help_heading = "Restore")]
    pub selection: SelectionArguments,

    #[command(flatten)]
    pub snapshots: SnapshotsArguments,

    /// Cache to load: os, buffers, both (default), exclusive
    ///
    /// `exclusive` loads both caches, and then evicts from the page cache the blocks that are in shared_buffers.
    #[arg(long, value_parser = ["os", "buffers", "both", EXCLUSIVE], default_value = "both")]
    #[arg(hide_possible_values = true, hide_default_value = true)]
    tier: String,

    /// Load only the hottest BYTES, or buffers=BYTES
    ///
    /// BYTES (1GB is 1024 MB) limit both caches together; shared_buffers get at most half. buffers=BYTES limits only shared_buffers, and
    /// may evict other buffers. Without buffers=, pgthaw fills only free buffers. May be repeated.
    #[arg(long, value_name = "BYTES", value_parser = budget)]
    budget: Vec<Budget>,

    #[command(flatten)]
    pace: PaceArguments,

    /// Number of threads that read, and maximum number of connections that load shared_buffers
    ///
    /// While live traffic waits for the disk, pgthaw uses only a few threads. Default: as many threads as `doctor --probe` found useful, or 16,
    /// and at most 8 connections. pgthaw adds connections while each adds noticeable throughput.
    #[arg(long, value_name = "N", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,

    /// Restore a snapshot of another cluster, and find its relations by name
    #[arg(long, hide_short_help = true)]
    pub other_cluster: bool,

    /// Run CREATE EXTENSION pg_prewarm in databases that lack it
    #[arg(long, hide_short_help = true)]
    create_extensions: bool,

    /// Print the planned reads; read nothing
    ///
    /// Also prints the expected duration.
    #[arg(long)]
    pub dry_run: bool,

    /// Print a row for every relation
    #[arg(short, long, hide_short_help = true, help_heading = "Output")]
    pub verbose: bool,

    #[command(flatten)]
    pub device: DeviceArguments,
}

/// Like `best`, but without a snapshot the restore succeeds and does nothing.
const ANY: &str = "any";

/// Value of `--tier`: both tiers, without duplicate blocks.
const EXCLUSIVE: &str = "exclusive";

const CONNECTIONS: usize = 8;

const CONNECTIONS_MAX: usize = 64;

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

pub fn tiers(word: &str) -> Tiers {
    Tiers { os: word != "buffers", buffers: word != "os" }
}

/// How the device is shared with live traffic.
#[derive(Clone, Copy, Debug, Args)]
pub struct PaceArguments {
    /// Device use: fair (default), gentle, full, or a rate
    ///
    /// `fair` uses the whole device while the server is idle or waits for the device anyway, and a little less while the server runs
    /// without such waits. `gentle` uses 30 % of the bandwidth while there is traffic. `full` ignores traffic. A rate such as 50MB (10^6
    /// bytes per second) limits `fair`. The rate also limits the loading of shared_buffers, unless their blocks are all in the page cache.
    #[arg(long, value_name = "PACE", value_parser = pace, default_value = "fair", hide_default_value = true)]
    pub pace: (Sharing, Option<Bytes>),
}

fn pace(text: &str) -> Result<(Sharing, Option<Bytes>), String> {
    Ok(match text {
        "fair" => (Sharing::Fair, None),
        "gentle" => (Sharing::Gentle, None),
        "full" => (Sharing::FullSpeed, None),
        text => {
            (Sharing::Fair, Some(rate(text).map_err(|error| format!("must be fair, gentle, full or a rate: {error}"))?))
        }
    })
}

/// A lower rate probably lacks its unit.
const RATE_MIN: Bytes = Bytes(64 << 10);

fn rate(text: &str) -> Result<Bytes, String> {
    match Bytes::parse_rate(text) {
        Ok(rate) if rate < RATE_MIN => {
            Err(format!("{} is too slow: give a unit, such as 50MB (at least 64KiB)", rate.per_second()))
        }
        parsed => parsed.map_err(|error: ParseBytesError| error.to_string()),
    }
}

/// Completes the clean-up of killed `pgthaw run` jobs.
async fn finish_left(
    directory: Option<&DataDirectory>,
    arguments: &RestoreArguments,
) -> (Option<Journals>, Vec<String>) {
    let Some(directory) = directory.filter(|_| !arguments.dry_run) else { return (None, Vec::new()) };
    let journals = Journals::open(&state_directory(), directory.system_identifier);
    let finished = finish_left_runs(directory, &journals, arguments.device).await;
    (journals.ok(), finished)
}

pub async fn run(arguments: RestoreArguments, output: OutputArguments) -> Result<ExitStatus> {
    open_files::allow_all();
    let (snapshot, selected, mut source) = match find_source(&arguments).await {
        Err(error) if matches!(error.downcast_ref(), Some(cache::Error::NoSnapshot(_))) => {
            let directory = find_directory(&arguments.connection).ok().flatten();
            let (_, finished) = finish_left(directory.as_ref(), &arguments).await;
            let notes = finished.iter().filter(|_| !output.json);
            notes.for_each(|remark| terminal::print_remark(&format!("note: {remark}")));
            if arguments.snapshot != ANY {
                return Err(error);
            }
            let told = format!("{}: nothing was restored", describe(&error));
            let answer = json!({ "snapshot": null, "remarks": [told] });
            terminal::print_answer(&answer, output.json, || told)?;
            return Ok(ExitStatus::Done);
        }
        found => found?,
    };
    let control = end_in_good_order();
    let pid = source.postmaster_pid();
    let (journals, finished) = finish_left(source.directory(), &arguments).await;
    // If the journal cannot be written, the restore runs without it.
    let restoring = journals.and_then(|journals| Some((journals.begin_restore().ok()?, journals)));
    let others = restoring.as_ref().and_then(|((_, others), _)| remark_others(others));
    others.iter().filter(|_| !output.json).for_each(|remark| terminal::print_remark(&format!("note: {remark}")));
    let progress = Arc::new(WarmProgress::new(output.shows_progress()));
    let (room, charged) = choose_room(pid, arguments.dry_run);
    let directory = source.directory().cloned();
    let host = Host {
        page_cache: Arc::new(page_cache_of(source.directory())),
        room: Arc::new(room),
        traffic: Arc::new(ServerTraffic::new(move || directory.as_ref()?.find_postmaster_pid())),
        control,
        watcher: Arc::clone(&progress) as _,
    };
    let place = source.place();
    let (device, unusable) =
        arguments.device.choose(place.as_ref().ok().map(|place| &*place.directory), pid, arguments.threads);
    let options = arguments.options(device, &source);
    let restore = Restore::new(source.request(snapshot, &arguments)?, options, place, host);
    let receipt = restore.run(source.server(&arguments)).await;
    progress.finish();
    restoring.into_iter().for_each(|((restoring, _), journals)| journals.end_restore(restoring));
    let mut receipt = Receipt { snapshot: Some(selected), ..receipt? };
    receipt.remarks.extend(others.filter(|_| output.json).into_iter().chain(charged).chain(unusable).chain(finished));
    terminal::print_answer(&receipt, output.json, || {
        render_receipt(&receipt, arguments.verbose, Canvas::of_stdout(false).width)
    })?;
    Ok(receipt.failure().map_or(ExitStatus::Done, ExitStatus::Because))
}

impl RestoreArguments {
    fn snapshot_name(&self) -> &str {
        if self.snapshot == ANY { BEST } else { &self.snapshot }
    }

    fn tiers(&self) -> Tiers {
        tiers(&self.tier)
    }

    fn options(&self, device: PlannedDevice, source: &Source) -> RestoreOptions {
        let directory = source.directory();
        let (sharing, max_rate) = self.pace.pace;
        let budgets = || self.budget.iter().rev();
        RestoreOptions {
            seeks: seeks(directory.map(|directory| &*directory.path), &device.profile),
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
            // If debug_io_direct is set, only the server knows whether it bypasses the page cache.
            awaits_server: directory.is_some_and(|directory| directory.mentions("debug_io_direct")),
        }
    }
}

fn remark_others(others: &[u32]) -> Option<String> {
    let told = match others {
        [] => return None,
        [one] => format!("another `pgthaw restore` of this server (process {one}) is already running"),
        more => {
            let more: Vec<String> = more.iter().map(u32::to_string).collect();
            format!("other pgthaw restores of this server (processes {}) are already running", more.join(", "))
        }
    };
    Some(format!("{told}: the restores share the device and read the same blocks"))
}

struct Source {
    target: Target,
    /// False if the target is only the data directory, before the server is queried.
    is_queried: bool,
    /// A server ran in the directory at the beginning.
    had_server: bool,
    is_same_cluster: bool,
    remarks: Vec<String>,
}

/// Chooses the snapshot. If the data directory is local, does not wait for the server's answer.
async fn find_source(arguments: &RestoreArguments) -> Result<(Snapshot, Selected, Source)> {
    if !arguments.other_cluster
        && let Some(directory) = find_directory(&arguments.connection)?
        && !is_served_invisibly(&directory, &arguments.connection).await
    {
        let cluster = directory.system_identifier;
        let situation = situation_of(&directory, arguments.tiers());
        let Chosen { snapshot, selected, remarks, .. } = read_snapshot(arguments, cluster, &situation)?;
        let had_server = directory.find_postmaster_pid().is_some();
        let target = Target { data_directory: Some(directory), ..Target::default() };
        let source = Source { target, is_queried: false, had_server, is_same_cluster: true, remarks };
        return Ok((snapshot, selected, source));
    }
    let target = Target::open(&arguments.connection).await?;
    let Some(cluster) = target.system_identifier() else { bail!("found neither a server nor a data directory") };
    let situation = target.situation(arguments.tiers()).await;
    let Chosen { snapshot, selected, remarks, .. } = read_snapshot(arguments, cluster, &situation)?;
    let is_same_cluster = snapshot.map.source.system_identifier == cluster;
    let had_server = target.server.is_some();
    Ok((snapshot, selected, Source { target, is_queried: true, had_server, is_same_cluster, remarks }))
}

fn read_snapshot(arguments: &RestoreArguments, cluster: u64, situation: &Situation) -> Result<Chosen, cache::Error> {
    let RestoreArguments { snapshots, connection, other_cluster, .. } = arguments;
    let mut chosen = snapshots.read(arguments.snapshot_name(), connection, cluster, situation, *other_cluster)?;
    if matches!(arguments.snapshot_name(), BEST | NEWEST) {
        chosen.remarks.extend(snapshots.remark_owners(connection, &chosen.snapshot.header(), situation));
    }
    Ok(chosen)
}

impl Source {
    fn directory(&self) -> Option<&DataDirectory> {
        self.target.data_directory.as_ref()
    }

    fn postmaster_pid(&self) -> Option<u32> {
        self.directory()?.find_postmaster_pid()
    }

    fn place(&self) -> Result<Place, Refusal> {
        let Some(DataDirectory { path, block_size, segment_blocks, .. }) = self.directory() else {
            let unknown = || Refusal::because(SkipReason::NoDataDirectory);
            return Err(self.target.directory_refusal.clone().unwrap_or_else(unknown));
        };
        let geometry = Geometry { block_size: *block_size, segment_blocks: *segment_blocks };
        Ok(Place { directory: path.clone(), geometry })
    }

    fn request(&mut self, snapshot: Snapshot, arguments: &RestoreArguments) -> Result<Request> {
        let here = self.directory().map(|directory| directory.block_size);
        let mut map = snapshot.map;
        let block_size = map.source.block_size;
        if let Some(here) = here.filter(|here| *here != block_size) {
            return Err(warm::Error::BlockSize { snapshot: block_size, cluster: here }.into());
        }
        let places = map.select(&arguments.selection.selection())?;
        let databases = arguments.connection.databases()?;
        self.remarks.extend(remark_unknown(&databases, &map));
        let scope = Scope(databases);
        keep_places(&mut map, &places, |one| scope.includes(&one.relation.name.database));
        Ok(Request::new(map, arguments.tiers()))
    }

    /// # Errors
    /// If the server belongs to another cluster, or cannot be reached although the restore needs it.
    async fn server(mut self, arguments: &RestoreArguments) -> Result<Answer> {
        let mut remarks = std::mem::take(&mut self.remarks);
        if !self.is_queried {
            let opened = match Target::open(&arguments.connection).await {
                Err(error) if arguments.tiers().os && is_about_connecting(&error) => {
                    let refused = error.downcast_ref::<postgres::Error>();
                    let too_few_files = refused.filter(|error| error.is_too_few_files());
                    let why = too_few_files.map_or_else(|| describe(&error), Explain::with_hint);
                    remarks.push(format!("could not query the server: {why}"));
                    return Ok(Answer { server: Err(self.why_unanswered(refused)), remarks });
                }
                opened => opened?,
            };
            self.target = Target { data_directory: self.target.data_directory.take(), ..opened };
        }
        remarks.append(&mut self.target.remarks);
        let server = self.target.server.take();
        let server = server.ok_or_else(|| self.why_unanswered(self.target.server_refusal.as_ref()));
        if let (Ok(server), Some(directory)) = (&server, self.directory()) {
            server.require_cluster_of(directory)?;
        }
        Ok(Answer { server, remarks })
    }

    fn why_unanswered(&self, error: Option<&postgres::Error>) -> Refusal {
        let runs = self.had_server || self.postmaster_pid().is_some();
        match error {
            Some(error) if runs || !error.is_server_gone() => Refusal::of(error),
            None if self.had_server => Refusal::with_detail(SkipReason::ServerGone, "the server has stopped"),
            None if runs => {
                let detail = "the server runs in a container: give its address with -h or -p";
                Refusal::with_detail(SkipReason::ServerGone, detail)
            }
            _ => Refusal::because(SkipReason::NoServer),
        }
    }
}

fn remark_unknown(databases: &[String], map: &Map) -> Option<String> {
    let known: HashSet<&str> = map.relations.iter().map(|one| one.relation.name.database.as_str()).collect();
    let unknown: Vec<&str> = databases.iter().map(String::as_str).filter(|name| !known.contains(name)).collect();
    let alone = if unknown.len() == databases.len() { "; pgthaw restores only the shared catalogs" } else { "" };
    let noun = if unknown.len() == 1 { "database" } else { "databases" };
    (!unknown.is_empty()).then(|| {
        let names = unknown.join(", ");
        format!("the snapshot does not contain {noun} {names} (created later or not inspected){alone}")
    })
}

/// True if only connecting failed: the page cache can still be loaded.
fn is_about_connecting(error: &anyhow::Error) -> bool {
    use postgres::Error::{Connect, ConnectTimeout};
    let error = error.downcast_ref::<postgres::Error>();
    // A missing database is a mistake in the arguments, not a failure to connect.
    error.is_some_and(|error| matches!(error, Connect { .. } | ConnectTimeout { .. }) && !error.is_closed_database())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit() {
        assert_eq!(rate("50MB"), Ok(Bytes(50_000_000)));
        assert_eq!(rate("1.5 MiB/s"), Ok(Bytes(1_572_864)));
        assert!(rate("50").unwrap_err().contains("give a unit"));
        assert!(rate("fast").unwrap_err().contains("such as 125MiB"));
        assert_eq!(pace("50MB"), Ok((Sharing::Fair, Some(Bytes(50_000_000)))));
        assert!(pace("fast").unwrap_err().starts_with("must be fair, gentle, full or a rate: \"fast\" is not a rate"));
    }
}
