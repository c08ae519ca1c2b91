//! Puts back what runs left: one's own at its end, and those of others that were killed.

use std::sync::Arc;

use crate::restore::DeviceArguments;
use crate::run::receipt_text::render_put_back;
use crate::{Scope, Target, describe};
use cache::trace::{self, Journals, Left, PutBack, PuttingBack};
use cache::warm::restore::choose_room;
use cache::warm::{Control, PlannedDevice, state_directory};
use host::linux::cgroup::remove_left_near;
use postgres::DataDirectory;

/// Puts back what `left` says, and is done with it if nothing interrupts that.
pub async fn put_back(
    target: &Target,
    journals: &Journals,
    left: Left,
    device: PlannedDevice,
    control: Arc<Control>,
) -> anyhow::Result<PutBack> {
    let Some(directory) = &target.data_directory else { return Ok(PutBack::default()) };
    let pid = directory.find_postmaster_pid();
    let (room, _) = choose_room(pid, false);
    // Of runs that protect nothing no server has to be asked.
    let has_something = left.before.is_some();
    let databases = if has_something { target.databases().await.unwrap_or_default() } else { Vec::new() };
    let putting_back = PuttingBack {
        directory,
        // It may have been restarted, or stopped, since.
        server: match &target.server {
            Some(server) if has_something && server.is_there().await => Some(server.clone()),
            _ => None,
        },
        databases: &databases,
        page_cache: Arc::new(target.page_cache()),
        room,
        device,
        control: Arc::clone(&control),
    };
    let mut done = putting_back.run(&left).await?;
    match control.is_interrupted() {
        true => done.remarks.push("interrupted: the next run or restore goes on with it".to_owned()),
        false => journals.forget(left)?,
    }
    Ok(done)
}

/// Puts back what runs left that were killed, and tells so.
pub async fn put_back_left(target: &Target, journals: &Journals, device: DeviceArguments) -> Vec<String> {
    let left = match journals.take_left() {
        Ok(Some(left)) => left,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![format!("what an earlier run left was not put back: {error}")],
    };
    let directory = target.data_directory.as_ref().map(|directory| &*directory.path);
    let (device, _) = device.choose(directory, None);
    let runs = left.runs;
    match put_back(target, journals, left, device, Arc::default()).await {
        Ok(done) if runs > 0 => {
            let told = format!("put back what an earlier run left: {}", render_put_back(&done));
            std::iter::once(told).chain(done.remarks).collect()
        }
        Ok(done) => done.remarks,
        Err(error) => vec![format!("what an earlier run left was not put back: {}", describe(&error))],
    }
}

/// Removes the cgroups of runs that were killed, also of one that had no time to write down where they are. Returns what could not be
/// removed, in words.
pub fn remove_left_cgroups(journals: &Journals, directory: Option<&DataDirectory>) -> Vec<String> {
    let remarks = journals.remove_left_cgroups();
    directory.and_then(DataDirectory::find_postmaster_pid).into_iter().for_each(remove_left_near);
    remarks
}

/// Puts back what runs of a cluster left that were killed, in the page cache alone: for a restore, which does the rest.
pub async fn finish_left_runs(
    directory: &DataDirectory,
    journals: &Result<Journals, trace::Error>,
    device: DeviceArguments,
) -> Vec<String> {
    let target = Target::of_directory(directory.clone(), None, Scope::All, Vec::new());
    match journals {
        Ok(journals) => {
            let cgroups = remove_left_cgroups(journals, Some(directory));
            cgroups.into_iter().chain(put_back_left(&target, journals, device).await).collect()
        }
        // Where there is no place for them no run has left anything.
        Err(_) if !Journals::place(&state_directory(), directory.system_identifier).is_dir() => Vec::new(),
        Err(error) => vec![format!("what an earlier run left was not put back: {error}")],
    }
}
