//! Looks at many forks at a time: on a cold disk each costs a read of its own before its data is even thought of.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::engine::ForkFile;
use super::entry::State;
use super::files::Files;
use crate::failure::{ErrorKind, Explain as _};
use crate::linux;
use crate::warm::Watcher;
use crate::warm::receipt::SkipReason;

/// The state of every one of `forks`, residency up to the block in `ends`. `stop` may answer for forks that were not
/// looked at yet.
pub fn read_forks(
    files: &Files<'_>,
    forks: &[ForkFile],
    ends: &[u64],
    threads: usize,
    watcher: &dyn Watcher,
    stop: &(dyn Fn() -> Option<SkipReason> + Sync),
) -> Vec<State> {
    let next = AtomicUsize::new(0);
    let read_some = || {
        let mut states = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(fork), Some(end)) = (forks.get(at), ends.get(at)) else { return states };
            let state = match stop() {
                Some(reason) => State::Refused { reason, detail: String::new() },
                None => read_fork(files, fork, *end),
            };
            states.push((at, state));
            watcher.advance(1);
        }
    };
    let mut states = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(read_some)).collect();
        let states = workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        states.collect::<Vec<_>>()
    });
    states.sort_unstable_by_key(|(at, _)| *at);
    states.into_iter().map(|(_, state)| state).collect()
}

fn read_fork(files: &Files<'_>, fork: &ForkFile, end: u64) -> State {
    match files.read_fork(&fork.path, fork.fork, end) {
        Ok(Some(found)) => State::There(found),
        Ok(None) => State::Missing,
        Err(error) => refused(&error),
    }
}

/// The state of a fork that cannot be looked at.
fn refused(error: &linux::Error) -> State {
    let reason = match error.kind() {
        ErrorKind::Privilege => SkipReason::NoPermission,
        _ => SkipReason::ReadFailed,
    };
    State::Refused { reason, detail: error.to_string() }
}
