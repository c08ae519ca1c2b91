//! Calls of files that processes slept in already when the probe was opened: the program in the kernel is told of a sleep that begins, and
//! sees nothing of such a one until it ends.

use super::files::kind_of;
use crate::time::{FileCall, FileName, ProcessTimes};
use host::linux::process::read_file_call;

/// The class of wait events in which a process may sleep in a file, as files.h has it.
pub(super) const IO_EVENTS: u32 = 0x0a;

/// Those that last, each with when its process was born.
#[derive(Debug, Default)]
pub(super) struct CallsBefore(Vec<(u64, FileCall)>);

impl CallsBefore {
    /// Looks what a process sleeps in that was born so many ticks after the machine, and is in a wait event of IO: as in the kernel, no
    /// other sleeps in a file. It is told from `now_ns` on.
    pub fn look(&mut self, pid: u32, start_ticks: u64, now_ns: u64) {
        let Some(seen) = read_file_call(pid) else { return };
        let Some(kind) = kind_of(seen.number) else { return };
        let names: Vec<String> =
            seen.path.components().rev().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        let file = FileName::of_names(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let call = FileCall { pid, kind, begin_ns: now_ns, end_ns: None, file, device: seen.device, unsynced: None };
        self.0.push((start_ticks, call));
    }

    /// Tells a process's call while it lasts; the one that has ended is given back once.
    pub fn tell(&mut self, process: &mut ProcessTimes, at_ns: u64) -> Option<FileCall> {
        let place = self.0.iter().position(|(birth, call)| (call.pid, *birth) == (process.pid, process.birth))?;
        let has_slept_on = process.switches == 0 && process.ended_ns.is_none() && process.open.is_some();
        if has_slept_on {
            process.call.get_or_insert_with(|| self.0[place].1.clone());
            return None;
        }
        let (_, call) = self.0.swap_remove(place);
        // What it has done since is no part of it.
        let since = process.running_ns.saturating_add(process.ready_ns.unwrap_or_default());
        Some(FileCall { end_ns: Some(at_ns.saturating_sub(since).max(call.begin_ns)), ..call })
    }
}
