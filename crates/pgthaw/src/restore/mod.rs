//! `pgthaw restore`: the work is done in `crates/cache/src/warm/restore/`.

mod arguments;
mod at_once;
mod device;
pub mod receipt_text;
mod sharing;
mod source;
mod tier;

use std::sync::Arc;

use serde_json::json;

pub use arguments::RestoreArguments;
use at_once::AtOnce;
pub use device::{DeviceArguments, rate};
pub use sharing::SharingArguments;
use source::Source;
pub use tier::TierArgument;

use super::run::finish_left_runs;
use super::{ExitStatus, OutputArguments, describe, find_directory};
use crate::restore::receipt_text::render_receipt;
use crate::warm_progress::WarmProgress;
use cache::trace::Journals;
use cache::warm::restore::{Host, Restore, RestoreOptions, choose_room};
use cache::warm::{Control, PlannedDevice, Receipt, state_directory};
use host::linux::open_files;
use postgres::DataDirectory;
use terminal::Canvas;

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
        Err(error) if arguments.if_any && source::is_none_kept(&error) => {
            tell_none_kept(&error, output)?;
            return Ok(ExitStatus::Done);
        }
        found => found?,
    };
    // From here on there is something to end in good order; until here a signal ends this process at once.
    let control = Arc::new(Control::default());
    let interrupted = Arc::clone(&control);
    tokio::spawn(terminal::interrupt_then_exit(move || interrupted.interrupt()));
    let pid = source.postmaster_pid();
    let (journals, finished) = finish_left(source.directory(), &arguments).await;
    let at_once = journals.and_then(AtOnce::begin);
    let others = at_once.as_ref().and_then(AtOnce::remark);
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
    at_once.into_iter().for_each(AtOnce::end);
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
    fn options(&self, device: PlannedDevice, source: &Source) -> RestoreOptions {
        let place = source.place().ok();
        RestoreOptions {
            seeks: device::seeks(place.as_ref().map(|place| &*place.directory), &device.profile),
            device,
            threads: device.profile.depth as usize,
            sharing: self.sharing.sharing(),
            connections: self.buffers.connections.into(),
            budget: self.budget,
            buffers_budget: self.buffers.buffers_budget,
            max_rate: self.max_rate,
            create_extensions: self.buffers.create_extensions,
            no_double: self.buffers.no_double,
            is_dry_run: self.dry_run,
            same_cluster: source.is_same_cluster(),
            awaits_server: source.may_bypass_page_cache(),
        }
    }
}
