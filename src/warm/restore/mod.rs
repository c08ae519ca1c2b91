//! Brings back what a snapshot says was resident.
//!
//! The OS tier comes first and at once: the files that the snapshot names are opened and read before a cold server is
//! asked for anything. Meanwhile the server answers; what was not where the snapshot says is looked up by name and read
//! in a second pass. Then shared_buffers are filled, from a page cache that is warm by now.

mod engine;
mod entry;
mod files;
mod host;
mod measure;
mod names;
mod os_tier;
mod pace;
mod request;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

pub use entry::{Missing, Row};
pub use host::{Host, SystemRoom, join_memory_cgroup};
pub use names::{Catalog, Found};
pub use request::{Request, Tiers, compare_paths};

use entry::State;
use files::Files;
use os_tier::{Measured, OsTier, Pass};
use pace::Pace;
use request::Resolved;

use super::DeviceProfile;
use super::buffers::{BuffersPass, BuffersTier};
use super::plan::{Forecast, Geometry};
use super::receipt::{Receipt, RelationReceipt, SkipReason, Skipped, StopReason, Tier, TierReceipt};
use crate::postgres::Server;
use crate::units::Bytes;

/// How to restore.
#[derive(Clone, Copy, Debug)]
pub struct RestoreOptions {
    pub device: DeviceProfile,
    /// Threads that read.
    pub threads: usize,
    /// Connections that load shared_buffers.
    pub connections: usize,
    /// Bytes that the OS tier may read.
    pub budget: Option<Bytes>,
    /// Bytes that the buffers tier may load; `None`: as many buffers as are free.
    pub buffers_budget: Option<Bytes>,
    /// Bytes per second that the OS tier may read.
    pub max_rate: Option<Bytes>,
    pub create_extensions: bool,
    /// Plan and tell; read nothing.
    pub is_dry_run: bool,
    /// Is the snapshot of this cluster? Only then do its paths mean anything.
    pub same_cluster: bool,
}

/// Where the cluster's files are, and how they are cut.
#[derive(Clone, Debug)]
pub struct Place {
    pub directory: PathBuf,
    pub geometry: Geometry,
}

/// One restore.
#[derive(Debug)]
pub struct Restore {
    pub request: Request,
    pub options: RestoreOptions,
    /// `None`: the data directory is not on this host.
    pub place: Option<Place>,
    pub host: Host,
}

/// What came of asking for the server.
#[derive(Debug, Default)]
pub struct Answer {
    /// `None`: it does not run, or does not answer.
    pub server: Option<Server>,
    pub remarks: Vec<String>,
}

/// What is known once the server has answered, or has not.
struct Late {
    server: Option<Server>,
    catalog: Option<Catalog>,
    /// What was not where the snapshot says.
    unresolved: Vec<Measured>,
    remarks: Vec<String>,
}

impl Restore {
    /// Does it. `server` may still be on its way: the OS tier does not wait for it.
    ///
    /// # Errors
    /// Only when `server` is one: whatever cannot be restored is in the receipt.
    pub async fn run<E>(self, server: impl Future<Output = Result<Answer, E>>) -> Result<Receipt, E> {
        let started_at = Timestamp::now();
        let this = Arc::new(self);
        let (tell, told) = oneshot::channel();
        let (first, late) = tokio::join!(first_pass(&this, tell), this.late(server, told));
        let late = late?;
        let mut receipt = this.new_receipt(started_at);
        receipt.remarks = late.remarks;
        let second = second_pass(&this, first.read_bytes, late.unresolved, late.catalog.as_ref()).await;
        this.add_os(&mut receipt, [first, second]);
        if this.request.tiers.buffers {
            let pass = this.buffers_pass(late.server.as_ref(), late.catalog.as_ref()).await;
            this.add_buffers(&mut receipt, pass);
        }
        receipt.stopped_by = this.host.control.os_stopped_by();
        Ok(receipt)
    }

    /// Waits for the server, and asks it for names when the files have been looked at.
    async fn late<E>(
        &self,
        server: impl Future<Output = Result<Answer, E>>,
        told: oneshot::Receiver<Vec<Measured>>,
    ) -> Result<Late, E> {
        let Answer { server, remarks } = match self.host.control.unless_interrupted(server).await {
            Some(Ok(answer)) => answer,
            None => Answer::default(),
            Some(Err(error)) => {
                self.host.control.stop_os(StopReason::Interrupted);
                return Err(error);
            }
        };
        if server.as_ref().is_some_and(|server| server.facts.io_direct) {
            self.host.control.stop_os(StopReason::DirectIo);
        }
        // Nobody tells when the first pass does not take place.
        let unresolved = told.await.unwrap_or_default();
        let mut late = Late { server, catalog: None, unresolved, remarks };
        let databases = self.databases_to_ask(&late.unresolved);
        if let Some(server) = late.server.as_ref().filter(|_| !databases.is_empty()) {
            match self.host.control.unless_interrupted(Catalog::read(server, &databases)).await {
                None => {}
                Some(Ok(catalog)) => late.catalog = Some(catalog),
                Some(Err(error)) => late.remarks.push(format!("the catalogs were not read: {error}")),
            }
        }
        Ok(late)
    }

    /// The databases whose relations have to be known by name. The shared catalogs' is empty.
    fn databases_to_ask(&self, unresolved: &[Measured]) -> BTreeSet<String> {
        let relations = &self.request.map.relations;
        let database = |place: usize| relations[place].relation.name.database.clone();
        let mut databases: BTreeSet<String> = unresolved.iter().map(|(entry, _)| database(entry.relation)).collect();
        if self.request.tiers.buffers {
            let has_buffers = |place: &usize| relations[*place].forks.iter().any(|fork| !fork.all_buffers().is_empty());
            databases.extend((0..relations.len()).filter(has_buffers).map(database));
        }
        databases
    }

    async fn buffers_pass(&self, server: Option<&Server>, catalog: Option<&Catalog>) -> BuffersPass {
        let refuse = |reason| BuffersPass { rows: self.request.buffers_rows(reason), ..BuffersPass::default() };
        if self.host.control.is_interrupted() {
            return refuse(Some(SkipReason::Interrupted));
        }
        match (server, catalog) {
            _ if self.options.is_dry_run => refuse(None),
            (Some(server), Some(catalog)) => {
                let tier = BuffersTier {
                    server,
                    connections: self.options.connections,
                    budget: self.options.buffers_budget,
                    create_extensions: self.options.create_extensions,
                    control: &self.host.control,
                    watcher: &*self.host.watcher,
                };
                tier.restore(&self.request, catalog, self.options.same_cluster).await
            }
            _ => refuse(Some(SkipReason::NoServer)),
        }
    }

    /// Runs `work` with what the OS tier works with. It blocks.
    fn with_os_tier<T>(&self, place: &Place, work: impl FnOnce(&OsTier<'_>) -> T) -> T {
        let pace = Pace::new(self.options.max_rate);
        work(&OsTier {
            files: Files { cache: &*self.host.page_cache, directory: &place.directory, geometry: place.geometry },
            device: self.options.device,
            threads: self.options.threads,
            pace: &pace,
            control: &self.host.control,
            watcher: &*self.host.watcher,
            room: &*self.host.room,
        })
    }

    fn new_receipt(&self, started_at: Timestamp) -> Receipt {
        let Tiers { os, buffers } = self.request.tiers;
        Receipt {
            snapshot_taken_at: self.request.map.taken_at,
            started_at,
            block_size: self.request.map.source.block_size,
            is_dry_run: self.options.is_dry_run,
            forecast: Forecast::default(),
            os: os.then(TierReceipt::default),
            buffers: buffers.then(TierReceipt::default),
            relations: Vec::new(),
            skipped: Vec::new(),
            stopped_by: None,
            remarks: Vec::new(),
        }
    }

    fn add_os(&self, receipt: &mut Receipt, passes: [Pass; 2]) {
        let mut rows = Vec::new();
        let Some(mut tier) = receipt.os.take() else { return };
        for pass in passes {
            receipt.forecast.add(&pass.forecast);
            tier.reads += pass.reads;
            tier.seconds += pass.seconds;
            rows.extend(pass.rows);
        }
        self.add_rows(receipt, &mut tier, Tier::Os, rows);
        receipt.os = Some(tier);
    }

    fn add_buffers(&self, receipt: &mut Receipt, pass: BuffersPass) {
        let Some(mut tier) = receipt.buffers.take() else { return };
        tier.reads = pass.statements;
        tier.seconds = pass.seconds;
        receipt.remarks.extend(pass.remarks);
        self.add_rows(receipt, &mut tier, Tier::Buffers, pass.rows);
        receipt.buffers = Some(tier);
    }

    fn add_rows(&self, receipt: &mut Receipt, sums: &mut TierReceipt, tier: Tier, mut rows: Vec<Row>) {
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
            receipt.skipped.extend(row.skips.into_iter().map(|(reason, blocks, detail)| Skipped {
                name: relation.name.clone(),
                fork: row.fork,
                tier,
                blocks,
                reason,
                detail,
            }));
        }
    }
}

/// Looks at the files that the snapshot names, tells what is not there, and reads the rest. It waits for nobody.
async fn first_pass(this: &Arc<Restore>, tell: oneshot::Sender<Vec<Measured>>) -> Pass {
    if !this.request.tiers.os {
        return Pass::default();
    }
    let entries = this.request.entries();
    let Some(place) = this.place.clone() else {
        let rows = entries.iter().map(|entry| entry.absent_row(SkipReason::NoDataDirectory, None)).collect();
        return Pass { rows, ..Pass::default() };
    };
    let same_cluster = this.options.same_cluster;
    let measured = on_a_thread(this, &place, move |tier| match same_cluster {
        true => tier.measure(entries),
        false => entries.into_iter().map(|entry| (entry, State::Missing)).collect(),
    });
    let (unresolved, there) = measured.await.into_iter().partition(is_unresolved);
    // Nobody listens when the server turned out to be the wrong one.
    let _ = tell.send(unresolved);
    let (budget, is_dry_run) = (this.options.budget, this.options.is_dry_run);
    on_a_thread(this, &place, move |tier| tier.load(there, budget, is_dry_run)).await
}

/// Looks up by name what was not where the snapshot says, and reads that.
async fn second_pass(this: &Arc<Restore>, spent: Bytes, unresolved: Vec<Measured>, catalog: Option<&Catalog>) -> Pass {
    let Some(place) = this.place.clone().filter(|_| !unresolved.is_empty()) else { return Pass::default() };
    let budget = this.options.budget.map(|budget| Bytes(budget.0.saturating_sub(spent.0)));
    let is_dry_run = this.options.is_dry_run;
    let Some(catalog) = catalog else {
        return on_a_thread(this, &place, move |tier| tier.load(unresolved, budget, is_dry_run)).await;
    };
    let mut entries = Vec::new();
    let mut skipped = Vec::new();
    for (entry, _) in unresolved {
        let row = |reason, detail| entry.absent_row(reason, detail);
        match this.request.resolve(entry.clone(), catalog, this.options.same_cluster) {
            Resolved::Entry(found) => entries.push(*found),
            Resolved::Skipped(reason, detail) => skipped.push(row(reason, detail)),
        }
    }
    let mut pass = on_a_thread(this, &place, move |tier| tier.load(tier.measure(entries), budget, is_dry_run)).await;
    pass.rows.append(&mut skipped);
    pass
}

/// A file that is gone, or has lost its last block as that of a truncated relation has until the next checkpoint.
fn is_unresolved((_, state): &Measured) -> bool {
    match state {
        State::There(found) => found.blocks == 0,
        State::Missing => true,
        State::Refused { .. } => false,
    }
}

async fn on_a_thread<T: Send + 'static>(
    this: &Arc<Restore>,
    place: &Place,
    work: impl FnOnce(&OsTier<'_>) -> T + Send + 'static,
) -> T {
    let (this, place) = (Arc::clone(this), place.clone());
    match spawn_blocking(move || this.with_os_tier(&place, work)).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
