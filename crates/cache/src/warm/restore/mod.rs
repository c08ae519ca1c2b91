//! Restores the cache contents of a snapshot. The page cache is filled even before a cold server answers. A second pass
//! finds moved relations by name, and shared_buffers are filled from the warm page cache.

mod engine;
#[cfg(fuzzing)]
pub mod fuzzing;
mod governor;
mod open_files;
mod os_tier;
mod pace;
mod request;
mod task;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use os_tier::{Measured, Pass};
use request::{Entry, State};
use roaring::RoaringBitmap;
use task::OsTier;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::Refusal;
use super::buffers::{BuffersPass, BuffersTier, Cached};
use super::receipt::{NoDouble, Receipt, RelationReceipt, SkipReason, Skipped, StopReason, Tier, TierReceipt};
use super::traffic::Sharing;
use crate::TierState;
use crate::files::Files;
use crate::warm::Room;
use ::host::linux::Error;
use ::host::linux::cgroup::{Controller, find_home, has_read_limit, join_cgroup_of, move_to, read_memory_limit};
use ::host::linux::machine::{LoadableMemory, pages_out_idle, read_loadable_memory};
use ::host::linux::process::volunteer_for_oom;
use ::host::units::{Bytes, Fork};
use postgres::{RelationPath, Server};

pub use super::control::Host;
pub use governor::Governor;
pub(crate) use open_files::OpenFiles;
pub use pace::Pace;
pub use request::{Catalog, Missing, Request, RestoreOptions, Row, compare_paths};
pub use task::{Place, Restore};

#[derive(Debug)]
pub struct Answer {
    pub server: Result<Server, Refusal>,
    pub remarks: Vec<String>,
}

impl Restore {
    /// With `awaits_server`, the load of the page cache waits for `server`.
    ///
    /// # Errors
    /// Only the error of `server`; other failures are in the receipt.
    pub async fn run<E>(self, server: impl Future<Output = Result<Answer, E>>) -> Result<Receipt, E> {
        let started_at = Timestamp::now();
        let this = Arc::new(self);
        let (tell, told) = oneshot::channel();
        let (first, late) = tokio::join!(first_pass(&this, tell), this.late(server, told));
        let (Answer { server, remarks }, catalog, unresolved) = late?;
        let mut receipt = Receipt {
            snapshot_taken_at: this.request.map.taken_at,
            started_at,
            block_size: this.request.map.source.block_size,
            is_other_cluster: !this.options.same_cluster,
            is_dry_run: this.options.is_dry_run,
            device: this.options.device,
            remarks,
            ..Receipt::default()
        };
        let second = second_pass(&this, first.read_bytes, unresolved, catalog.as_ref()).await;
        let spent = first.read_bytes + second.read_bytes;
        let left = this.options.budget.map(|budget| minus(budget, spent));
        this.add_os(&mut receipt, [first, second]);
        if this.request.tiers.buffers {
            add_buffers(&this, &mut receipt, left, server.as_ref(), catalog.as_ref()).await;
        }
        receipt.remarks.extend(this.request.remark_templates());
        receipt.remarks.extend(this.remark_unseen(server.is_ok()));
        receipt.traffic = this.governor.receipt();
        receipt.stopped_by = this.host.control.os_stopped_by();
        Ok(receipt)
    }

    /// The last returned value lists the files that the first pass found missing or empty.
    async fn late<E>(
        &self,
        server: impl Future<Output = Result<Answer, E>>,
        told: oneshot::Receiver<Vec<Measured>>,
    ) -> Result<(Answer, Result<Catalog, Refusal>, Vec<Measured>), E> {
        let interrupted = || Refusal::because(SkipReason::Interrupted);
        let Answer { server, remarks } = match self.host.control.unless_interrupted(server).await {
            Some(Ok(answer)) => answer,
            None => Answer { server: Err(interrupted()), remarks: Vec::new() },
            Some(Err(error)) => {
                self.host.control.stop_os(StopReason::Interrupted);
                self.answered.notify_one();
                return Err(error);
            }
        };
        if server.as_ref().is_ok_and(|server| server.facts.io_direct) {
            self.host.control.stop_os(StopReason::DirectIo);
        }
        if server.as_ref().is_err_and(|why| why.reason == SkipReason::NoServer) {
            self.governor.note_no_server();
        }
        self.answered.notify_one();
        // Without a first pass, nothing is received.
        let unresolved = told.await.unwrap_or_default();
        let buffered = self.request.buffered().map(|(place, ..)| place);
        let places = unresolved.iter().map(|(entry, _)| entry.relation).chain(buffered);
        // The empty name stands for shared catalogs.
        let databases: BTreeSet<String> =
            places.map(|place| self.request.map.relations[place].relation.name.database.clone()).collect();
        let catalog = match &server {
            Err(refusal) => Err(refusal.clone()),
            Ok(_) if databases.is_empty() => Ok(Catalog::default()),
            Ok(server) => match self.host.control.unless_interrupted(Catalog::read(server, &databases)).await {
                None => Err(interrupted()),
                Some(answer) => answer.map_err(|error| Refusal::of(&error)),
            },
        };
        Ok((Answer { server, remarks }, catalog, unresolved))
    }

    fn remark_unseen(&self, has_answered: bool) -> Option<String> {
        let shares = self.request.tiers.os && self.place.is_ok() && !self.options.is_dry_run;
        let is_seen = self.governor.has_seen_server() || self.host.traffic.read_busy().is_some();
        let consequence = match self.options.sharing {
            _ if !has_answered || !shares || is_seen => return None,
            Sharing::FullSpeed => return None,
            Sharing::Fair => "was ignored",
            Sharing::Gentle => "was assumed to continue all the time",
        };
        Some(format!(
            "the server responds, but its processes are not visible here (a container, another pid namespace): its traffic {consequence}; --pace 50MB limits the rate of the restore"
        ))
    }

    /// Memory to keep free for shared_buffers; 0 if no server runs.
    fn reserved(&self) -> Bytes {
        if self.host.traffic.read_busy().is_none() {
            return Bytes(0);
        }
        let asked = self.request.buffers_bytes();
        self.options.buffers_budget.map_or(asked, |budget| budget.min(asked))
    }

    fn os_budget(&self) -> Option<Bytes> {
        self.options.budget.map(|budget| minus(budget, self.reserved().min(Bytes(budget.0 / 2))))
    }

    fn add_os(&self, receipt: &mut Receipt, passes: [Pass; 2]) {
        let (mut sums, mut rows) = (TierReceipt::default(), Vec::new());
        for pass in passes {
            receipt.forecast.add(&pass.forecast);
            sums.reads += pass.reads;
            sums.seconds += pass.seconds;
            receipt.memory.add(pass.memory);
            rows.extend(pass.rows);
        }
        let sums = self.add_rows(receipt, sums, Tier::Os, rows);
        receipt.os = self.request.tiers.os.then_some(sums);
    }

    fn add_rows(&self, receipt: &mut Receipt, mut sums: TierReceipt, tier: Tier, mut rows: Vec<Row>) -> TierReceipt {
        let block_size = u64::from(self.request.map.source.block_size);
        let bytes = |blocks: u64| Bytes(blocks * block_size);
        rows.sort_by_key(|row| (row.relation, row.fork));
        for row in rows {
            let relation = &self.request.map.relations[row.relation].relation;
            let told = RelationReceipt {
                name: relation.name.clone(),
                kind: relation.kind,
                fork: row.fork,
                tier,
                found: row.found,
                asked_bytes: bytes(row.asked_blocks),
                resident_before_bytes: row.resident_before.map(bytes),
                resident_after_bytes: row.resident_after.map(bytes),
                read_bytes: row.read_bytes,
                grown_blocks: row.grown_blocks,
            };
            sums.add(&told);
            receipt.relations.push(told);
            let skips = row.skips.into_iter().filter(|(_, blocks, _)| *blocks > 0);
            receipt.skipped.extend(skips.map(|(reason, blocks, detail)| Skipped {
                name: relation.name.clone(),
                fork: row.fork,
                tier,
                blocks,
                reason,
                detail,
            }));
        }
        sums
    }
}

async fn first_pass(this: &Arc<Restore>, tell: oneshot::Sender<Vec<Measured>>) -> Pass {
    if !this.request.tiers.os {
        return Pass::default();
    }
    let entries = this.request.entries();
    let place = match &this.place {
        Ok(place) => place.clone(),
        // Without a measured page cache, the buffers tier loads all blocks of the snapshot.
        Err(_) if this.request.map.os != TierState::Measured && this.request.tiers.buffers => return Pass::default(),
        Err(why) => {
            let rows = entries.iter().map(|entry| entry.absent_row(why)).collect();
            return Pass { rows, ..Pass::default() };
        }
    };
    if this.options.awaits_server {
        this.answered.notified().await;
    }
    let same_cluster = this.options.same_cluster;
    let measured = on_a_thread(this, &place, move |tier| match same_cluster {
        true => tier.measure(entries, true),
        false => entries.into_iter().map(|entry| (entry, Ok(None))).collect(),
    });
    // A truncated relation keeps an empty file until the next checkpoint.
    let is_unresolved =
        |state: &State| matches!(state, Ok(found) if found.as_ref().is_none_or(|found| found.blocks == 0));
    let (unresolved, there) = measured.await.into_iter().partition(|(_, state)| is_unresolved(state));
    // Nobody receives this if `server` failed.
    let _ = tell.send(unresolved);
    let budget = this.os_budget();
    on_a_thread(this, &place, move |tier| tier.load(there, budget)).await
}

async fn second_pass(
    this: &Arc<Restore>,
    spent: Bytes,
    unresolved: Vec<Measured>,
    catalog: Result<&Catalog, &Refusal>,
) -> Pass {
    let place = match &this.place {
        Ok(place) if !unresolved.is_empty() => place.clone(),
        _ => return Pass::default(),
    };
    let (measured, mut skipped) = match catalog {
        Ok(catalog) => {
            let (mut entries, mut skipped) = (Vec::new(), Vec::new());
            for (entry, _) in unresolved {
                match this.request.resolve(entry.clone(), catalog, this.options.same_cluster) {
                    Ok(found) => entries.push(found),
                    Err(why) => skipped.push(entry.absent_row(&why)),
                }
            }
            (on_a_thread(this, &place, move |tier| tier.measure(entries, true)).await, skipped)
        }
        Err(why) => {
            let (missing, there): (Vec<Measured>, _) =
                unresolved.into_iter().partition(|(_, state)| matches!(state, Ok(None)));
            let alike = "without a server, dropped and rewritten relations look alike";
            let why = match why.reason {
                SkipReason::NoServer => Refusal::with_detail(SkipReason::FileGone, alike),
                _ => why.clone(),
            };
            (there, missing.iter().map(|(entry, _)| entry.absent_row(&why)).collect())
        }
    };
    let budget = this.os_budget().map(|budget| minus(budget, spent));
    let mut pass = on_a_thread(this, &place, move |tier| tier.load(measured, budget)).await;
    pass.rows.append(&mut skipped);
    pass
}

/// Requested blocks in the page cache; `None` without a budget, or if the page cache plays no part.
async fn read_cached(this: &Arc<Restore>, catalog: Result<&Catalog, &Refusal>) -> Option<Cached> {
    let (place, catalog) = (this.place.clone().ok()?, catalog.ok()?);
    let bypasses = this.host.control.os_stopped_by() == Some(StopReason::DirectIo);
    if this.options.budget.is_none() || this.options.is_dry_run || !this.request.tiers.os || bypasses {
        return None;
    }
    let request = &this.request;
    let locate = |mut entry: Entry| {
        let file = &request.map.relations[entry.relation].relation.path;
        let file = this.options.same_cluster.then_some(file);
        entry.path = catalog.find(&request.identities[entry.relation], file).ok()?.path.clone();
        Some(entry)
    };
    let entries = request.entries().into_iter().filter_map(locate).collect();
    let looked = on_a_thread(this, &place, move |tier| tier.measure(entries, false)).await;
    let resident = |(entry, state): Measured| Some(((entry.relation, entry.fork), state.ok()??.resident));
    Some(looked.into_iter().filter_map(resident).collect())
}

async fn add_buffers(
    this: &Arc<Restore>,
    receipt: &mut Receipt,
    limit: Option<Bytes>,
    server: Result<&Server, &Refusal>,
    catalog: Result<&Catalog, &Refusal>,
) {
    let is_cached = receipt.os.is_some_and(|os| os.resident_after_bytes == Some(os.asked_bytes));
    let cached = read_cached(this, catalog).await;
    let refuse = |why: &Refusal| BuffersPass { rows: this.request.buffers_rows(why), ..BuffersPass::default() };
    let pass = match (server, catalog) {
        _ if this.host.control.is_interrupted() => refuse(&Refusal::because(SkipReason::Interrupted)),
        (Ok(server), Ok(catalog)) => {
            BuffersTier { server, restore: this, is_cached, limit, cached: cached.as_ref() }.load(catalog).await
        }
        (Err(why), _) | (_, Err(why)) => refuse(why),
    };
    let sums = TierReceipt { reads: pass.statements, seconds: pass.seconds, ..TierReceipt::default() };
    receipt.buffers_forecast = Some(pass.forecast);
    receipt.remarks.extend(pass.remarks);
    receipt.buffers = Some(this.add_rows(receipt, sums, Tier::Buffers, pass.rows));
    receipt.no_double = drop_doubles(this, pass.buffered).await;
}

/// Drops cached pages that are also in shared_buffers: they are useless until the buffer is evicted. Files that cannot
/// be opened are not counted.
async fn drop_doubles(this: &Arc<Restore>, buffered: Vec<(RelationPath, Fork, RoaringBitmap)>) -> Option<NoDouble> {
    let place = this.place.clone().ok().filter(|_| this.options.no_double && !this.options.is_dry_run)?;
    let dropped = on_a_thread(this, &place, move |OsTier { files, .. }| {
        let mut sums = NoDouble::default();
        for (path, fork, blocks) in &buffered {
            let dropped = files.drop_blocks(path, *fork, blocks, |_, run| Ok(vec![files.pages(run)]));
            sums.cached_before_bytes += dropped.before_bytes;
            sums.cached_after_bytes += dropped.after_bytes;
        }
        sums
    });
    Some(dropped.await)
}

fn minus(budget: Bytes, spent: Bytes) -> Bytes {
    Bytes(budget.0.saturating_sub(spent.0))
}

async fn on_a_thread<T: Send + 'static>(
    this: &Arc<Restore>,
    place: &Place,
    work: impl FnOnce(&OsTier<'_>) -> T + Send + 'static,
) -> T {
    let (this, place) = (Arc::clone(this), place.clone());
    let done = spawn_blocking(move || {
        let Place { directory, geometry } = &place;
        let files = Files { cache: &*this.host.page_cache, directory, geometry: *geometry };
        work(&OsTier { files, restore: &this })
    });
    done.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Observed DAMON schemes page out idle memory after 30 s and more; damon_reclaim's default is 120 s.
const IDLE_AGE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
pub struct SystemRoom {
    pid: u32,
    pages_out_idle: bool,
}

impl Room for SystemRoom {
    fn read_room(&self) -> Option<LoadableMemory> {
        read_loadable_memory(self.pid).ok()
    }

    fn idle_age(&self) -> Option<Duration> {
        self.pages_out_idle.then_some(IDLE_AGE)
    }
}

/// Joins the server's cgroups, except in a dry run: loaded pages are charged there, and their read limit applies.
/// Remarks name cgroups that could not be joined.
pub fn choose_room(postmaster_pid: Option<u32>, is_dry_run: bool) -> (SystemRoom, Vec<String>) {
    let own_pid = std::process::id();
    let (pid, remarks) = match postmaster_pid {
        Some(pid) if is_dry_run => (pid, Vec::new()),
        Some(pid) => (own_pid, join_cgroups(pid)),
        None => (own_pid, Vec::new()),
    };
    (SystemRoom { pid, pages_out_idle: pages_out_idle() }, remarks)
}

#[derive(Debug)]
pub struct Lent {
    pub room: SystemRoom,
    pub remarks: Vec<String>,
    home: Vec<PathBuf>,
}

impl Lent {
    pub fn to(postmaster_pid: Option<u32>) -> Lent {
        let home = postmaster_pid.map_or(Vec::new(), |_| find_home());
        let (room, remarks) = choose_room(postmaster_pid, false);
        Lent { room, remarks, home }
    }

    /// Leaves the server's cgroups: child processes must not be charged there.
    pub fn go_home(self) -> Result<(), Error> {
        self.home.iter().try_for_each(|cgroup| move_to(cgroup))
    }
}

/// Joins the server's memory cgroup if either process has a memory limit, and the server's I/O cgroup if that limits
/// reads.
pub fn join_cgroups(postmaster_pid: u32) -> Vec<String> {
    let limits = [std::process::id(), postmaster_pid].map(|pid| read_memory_limit(pid).ok().flatten());
    let mut remarks = Vec::new();
    if limits.iter().any(Option::is_some) {
        // If the cgroup's memory runs out, pgthaw should be killed, not the server.
        volunteer_for_oom();
        remarks.extend(join_cgroup_of(postmaster_pid, Controller::Memory).err().map(|error| {
            format!("loaded pages are charged to pgthaw's own memory cgroup and may vanish with it: {error} (run pgthaw as root, or inside the server's cgroup)")
        }));
    }
    if has_read_limit(postmaster_pid) {
        remarks.extend(join_cgroup_of(postmaster_pid, Controller::Io).err().map(|error| {
            format!("the read limit of the server's cgroup does not apply to pgthaw: {error} (run pgthaw as root, or inside the server's cgroup)")
        }));
    }
    remarks
}
