//! What goes on beside a job: its sessions are found, and set apart if that is asked.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::arguments::RunArguments;
use super::others::follow_names;
use crate::commands::Target;
use crate::failure::Explain as _;
use crate::linux::block_device::{DeviceNumber, read_block_device};
use crate::linux::cgroup::Isolation;
use crate::linux::ready::Going;
use crate::observe::time::OwnTransactions;
use crate::terminal;
use crate::trace::{Attend, Attended, Journal, Journals, Progress, RunReceipt, Sessions, WAITED_FOR};
use crate::warm::{Control, PlannedDevice, ProfileSource};

/// Time between two looks whether the user wants it to end.
const INTERRUPT_LOOK: Duration = Duration::from_millis(50);

/// What goes on beside a job.
#[derive(Debug, Default)]
pub struct Beside {
    /// With what tells it that the job has ended.
    attended: Option<(JoinHandle<Attended>, Going)>,
    progress: Arc<Progress>,
    names: Option<JoinHandle<()>>,
    /// pgthaw is among those that are set apart.
    is_set_apart: bool,
}

impl Beside {
    /// Begins, for the job that runs as `job`. What it says against being set apart goes to `remarks`, what it asks the server is counted
    /// as `own`.
    pub fn begin(
        arguments: &RunArguments,
        (target, own): (&Target, &OwnTransactions),
        (journals, journal): (&Journals, &Journal),
        (job, device): (u32, PlannedDevice),
        progress: Arc<Progress>,
        remarks: &mut Vec<String>,
    ) -> Beside {
        let Ok((going, over)) = Going::begin() else {
            remarks.push("its sessions are not followed: the system gives no pipe".to_owned());
            return Beside::default();
        };
        let directory = target.data_directory.clone();
        let running = directory.and_then(|directory| Some((directory.find_postmaster_pid()?, directory)));
        let Some((postmaster, directory)) = running else {
            if arguments.isolates() {
                remarks.push("the job is not set apart, for the server's processes are not on this host".to_owned());
            }
            return Beside::default();
        };
        let number = read_block_device(&directory.path).ok().map(|device| device.number);
        let isolation = match arguments.isolates() {
            true => set_apart(postmaster, number, (journals, journal), remarks),
            false => None,
        };
        let mut is_set_apart = false;
        if let Some(isolation) = &isolation {
            // What is preloaded for it is its own.
            match isolation.join(std::process::id()) {
                Ok(()) => is_set_apart = true,
                Err(error) => remarks.push(format!("what pgthaw reads for the job is not set apart: {error}")),
            }
            remarks
                .extend(number.is_none().then(|| "the job has no share of a disk: the server lies on none".to_owned()));
            let method = target.server.as_ref().and_then(|server| server.facts.io_method.as_deref());
            let is_lent = method == Some("worker");
            remarks.extend(is_lent.then(|| {
                "the server's io workers read for the job too, and they are not set apart (io_method = sync mends that)".to_owned()
            }));
        }
        let named: Arc<Mutex<BTreeSet<u32>>> = Arc::default();
        let name = arguments.protection.application_name.clone();
        let names = target.server.clone().zip(name);
        let names = names.map(|(server, name)| follow_names(server, name, Arc::clone(&named), own.clone()));
        let attend = Attend {
            directory,
            sessions: Sessions::new(postmaster, job),
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

    /// Is what pgthaw reads charged to a cgroup of the job's own?
    pub fn is_set_apart(&self) -> bool {
        self.is_set_apart
    }

    /// The job has ended. What of it works on is waited for until `control` is interrupted.
    pub async fn end(self, control: &Control, shows_progress: bool, receipt: &mut RunReceipt) {
        if let Some(names) = self.names {
            names.abort();
        }
        let Some((mut attended, going)) = self.attended else { return };
        drop(going);
        let waiting =
            terminal::Progress::steps_when_slow("waiting for the job's session (Ctrl-C: no longer)", shows_progress);
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
            Err(error) => receipt.remarks.push(format!("its sessions could not be followed: {error}")),
        }
    }
}

/// Comes back when the user has interrupted what is done after the job. Meanwhile it tells the seconds that pass.
async fn interrupted(control: &Control, waiting: &terminal::Progress) {
    let begun = Instant::now();
    while !control.is_interrupted() {
        sleep(INTERRUPT_LOOK).await;
        waiting.reach(begun.elapsed().as_secs(), WAITED_FOR.as_secs());
    }
}

/// The job's own cgroups, which whoever finds this killed can remove. What it says against them goes to `remarks`.
fn set_apart(
    postmaster: u32,
    number: Option<DeviceNumber>,
    (journals, journal): (&Journals, &Journal),
    remarks: &mut Vec<String>,
) -> Option<Isolation> {
    let isolation = match Isolation::create(postmaster, number) {
        Ok(isolation) => isolation,
        Err(error) => {
            let hint = error.hint().map_or(String::new(), |hint| format!(" ({hint})"));
            remarks.push(format!("the job is not set apart, and what it pushes out only put back: {error}{hint}"));
            return None;
        }
    };
    match journals.keep_cgroups(journal, &isolation.places()) {
        Ok(()) => Some(isolation),
        Err(error) => {
            remarks.push(format!("the job is not set apart, for that cannot be written down: {error}"));
            None
        }
    }
}
