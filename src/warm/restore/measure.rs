//! Looks at many forks at a time: on a cold disk each costs a read of its own before its data is even thought of.

use super::entry::State;
use super::files::{Files, ForkFile};
use crate::failure::{ErrorKind, Explain as _};
use crate::linux;
use crate::warm::receipt::SkipReason;
use crate::warm::threads::map_on_threads;
use crate::warm::{Refusal, Watcher};

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
    let mut states = map_on_threads(forks.len(), threads, |at| {
        let state = match stop() {
            Some(reason) => State::Refused(Refusal::because(reason)),
            None => read_fork(files, &forks[at], ends[at]),
        };
        watcher.advance(1);
        state
    });
    // Where no more files may be open, one at a time may do: the others have closed theirs.
    for at in 0..forks.len() {
        if matches!(&states[at], State::Refused(why) if why.reason == SkipReason::TooFewFiles) {
            states[at] = read_fork(files, &forks[at], ends[at]);
        }
    }
    states
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
    State::Refused(match error.kind() {
        ErrorKind::Privilege => Refusal::with_detail(SkipReason::NoPermission, error.to_string()),
        _ => Refusal::of_read(error),
    })
}
