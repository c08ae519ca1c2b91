//! Follows and isolates a job's sessions, and counts other clients' transactions.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::arguments::RunArguments;
use crate::Target;
use host::failure::Explain as _;
use host::linux::DeviceNumber;
use host::linux::block_device::read_block_device;
use host::linux::cgroup::Isolation;
use host::linux::threads::{Going, lock};
use observe::time::OwnTransactions;
use postgres::{Error, Server, can_tell_at_once, read_all_transactions, read_named_sessions, tell_statistics};

use cache::trace::{Attend, Attended, Journal, Journals, OthersSeen, Progress, RunReceipt, Sessions, WAITED_FOR};
use cache::warm::{Control, PlannedDevice, ProfileSource};

const INTERRUPT_LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub struct Beside {
    /// Task that follows the job's sessions, and the handle that ends it.
    attended: Option<(JoinHandle<Attended>, Going)>,
    progress: Arc<Progress>,
    names: Option<JoinHandle<()>>,
    /// Whether pgthaw's reads are charged to the job's cgroup.
    pub is_set_apart: bool,
}

impl Beside {
    /// `job`: pid of the job. `own`: count of pgthaw's transactions.
    pub fn begin(
        arguments: &RunArguments,
        (target, own): (&Target, &OwnTransactions),
        (journals, journal): (&Journals, &Journal),
        (job, device): (u32, PlannedDevice),
        progress: Arc<Progress>,
        remarks: &mut Vec<String>,
    ) -> Beside {
        let Ok((going, over)) = Going::begin() else {
            remarks.push("the job's sessions are not tracked: cannot create a pipe".to_owned());
            return Beside::default();
        };
        let directory = target.data_directory.clone();
        let running = directory.and_then(|directory| Some((directory.find_postmaster_pid()?, directory)));
        let Some((postmaster, directory)) = running else {
            if arguments.isolates() {
                remarks.push(
                    "the job's share of the disk is not limited: the server's processes are not on this host"
                        .to_owned(),
                );
            }
            return Beside::default();
        };
        let number = read_block_device(&directory.path).ok().map(|device| device.number);
        let isolates = || set_apart(postmaster, number, (journals, journal), remarks);
        let isolation = arguments.isolates().then(isolates).flatten();
        let mut is_set_apart = false;
        if let Some(isolation) = &isolation {
            match isolation.join(std::process::id()) {
                Ok(()) => is_set_apart = isolation.can_bound_cache(),
                Err(error) => remarks.push(format!(
                    "pgthaw could not join the job's cgroups, so the job's share of the disk does not include pgthaw's own reads for the job: {error}"
                )),
            }
            if number.is_none() {
                remarks.push("the job has no disk limit: the data directory is on no block device".to_owned());
            }
            let method = target.server.as_ref().and_then(|server| server.facts.io_method.as_deref());
            let is_lent = method == Some("worker");
            remarks.extend(is_lent.then(|| {
                "I/O workers read for the job and are not isolated (io_method = sync avoids this)".to_owned()
            }));
        }
        let named: Arc<Mutex<BTreeSet<u32>>> = Arc::default();
        let name = arguments.application_name.clone();
        let names = target.server.clone().zip(name);
        let names = names.map(|(server, name)| follow_names(server, name, Arc::clone(&named), own.clone()));
        let attend = Attend {
            directory,
            sessions: Sessions::new(postmaster, job, Arc::clone(&progress)),
            isolation,
            device: number,
            profile: (device.source != ProfileSource::Default).then_some(device.profile),
            named,
            progress: Arc::clone(&progress),
            is_protected: arguments.protects(),
            over,
        };
        Beside { attended: Some((spawn_blocking(move || attend.run()), going)), progress, names, is_set_apart }
    }

    /// Waits for the job's sessions, at most for `WAITED_FOR` or until `control` is interrupted.
    pub async fn end(self, control: &Control, shows_progress: bool, receipt: &mut RunReceipt) {
        if let Some(names) = self.names {
            names.abort();
        }
        let Some((mut attended, going)) = self.attended else { return };
        drop(going);
        let waiting =
            terminal::Progress::steps_when_slow("waiting for the job's session (Ctrl-C stops waiting)", shows_progress);
        let attended = tokio::select! {
            attended = &mut attended => attended,
            () = interrupted(control, &waiting) => {
                self.progress.goes_on.store(true, Ordering::Relaxed);
                let attended = attended.await;
                control.go_on();
                attended
            }
        };
        waiting.finish();
        match attended {
            Ok(attended) => {
                receipt.remarks.extend(attended.remarks.iter().cloned());
                receipt.attended = Some(attended);
            }
            Err(error) => receipt.remarks.push(format!("cannot track the job's sessions: {error}")),
        }
    }
}

async fn interrupted(control: &Control, waiting: &terminal::Progress) {
    let begun = Instant::now();
    while !control.is_interrupted() {
        sleep(INTERRUPT_LOOK).await;
        waiting.reach(begun.elapsed().as_secs(), WAITED_FOR.as_secs());
    }
}

fn set_apart(
    postmaster: u32,
    number: Option<DeviceNumber>,
    (journals, journal): (&Journals, &Journal),
    remarks: &mut Vec<String>,
) -> Option<Isolation> {
    let isolation = match Isolation::create(postmaster, number) {
        Ok(isolation) => isolation,
        Err(error) => {
            let why = error.with_hint();
            remarks.push(format!("isolation is unavailable: {why}; evicted pages are restored after the job"));
            return None;
        }
    };
    match journals.keep_cgroups(journal, &isolation.places()) {
        Ok(()) => Some(isolation),
        Err(error) => {
            remarks.push(format!(
                "the job's share of the disk is not limited, because pgthaw cannot record the job's cgroups: {error}"
            ));
            None
        }
    }
}

/// Duration of the transaction count before the job: two reports of each backend, at one per second.
const BEFORE: Duration = Duration::from_millis(2100);

/// For shorter jobs, no rate of transactions is shown, because the server's statistics lag by a second.
const TOLD_FROM: Duration = Duration::from_secs(3);

const NAMES_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Others {
    connection: PgConnection,
    own: OwnTransactions,
    own_per_count: u64,
    before_tps: Option<f64>,
    /// Start of the job, and the count of transactions then.
    begun: (Instant, u64),
}

impl Others {
    pub async fn begin(server: &Server, own: OwnTransactions) -> Result<Others, Error> {
        let mut connection = server.connect_to(&server.database).await?;
        // Prepares both queries and reports their transactions now, so that they do not count as other clients'.
        read_all_transactions(&mut connection).await?;
        tell_statistics(&mut connection).await?;
        let own_per_count = if can_tell_at_once(server.facts.version_num) { 2 } else { 1 };
        let mut others = Others { connection, own, own_per_count, before_tps: None, begun: (Instant::now(), 0) };
        if others.job_begins().await? > 0 {
            sleep(BEFORE).await;
            others.before_tps = Some(others.rate().await?);
        }
        Ok(others)
    }

    pub async fn job_begins(&mut self) -> Result<u64, Error> {
        let (count, clients) = self.count().await?;
        self.begun = (Instant::now(), count);
        Ok(clients)
    }

    /// Transactions except pgthaw's own, and active clients.
    async fn count(&mut self) -> Result<(u64, u64), Error> {
        let (_, own) = self.own.counts();
        let (all, clients) = read_all_transactions(&mut self.connection).await?;
        tell_statistics(&mut self.connection).await?;
        self.own.add(self.own_per_count);
        Ok((all.saturating_sub(own), clients))
    }

    async fn rate(&mut self) -> Result<f64, Error> {
        let (count, _) = self.count().await?;
        let (at, before) = self.begun;
        Ok(count.saturating_sub(before) as f64 / at.elapsed().as_secs_f64().max(f64::MIN_POSITIVE))
    }

    /// `None` if the server is gone or the job was too short.
    pub async fn end(mut self) -> Option<OthersSeen> {
        if self.begun.0.elapsed() < TOLD_FROM {
            return None;
        }
        Some(OthersSeen { before_tps: self.before_tps, during_tps: self.rate().await.ok()? })
    }
}

fn follow_names(
    server: Server,
    name: String,
    named: Arc<Mutex<BTreeSet<u32>>>,
    own: OwnTransactions,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connection = None;
        loop {
            if connection.is_none() {
                connection = server.connect_to(&server.database).await.ok();
            }
            if let Some(connected) = &mut connection {
                let _asked = own.begin();
                match read_named_sessions(connected, &name).await {
                    Ok(pids) => *lock(&named) = pids.into_iter().collect(),
                    // The server may have restarted: the next round connects again.
                    Err(_) => connection = None,
                }
            }
            sleep(NAMES_INTERVAL).await;
        }
    })
}
