use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, getrlimit, kill_process, setrlimit};

pub const PASSED: [i32; 7] =
    [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM, libc::SIGTERM];

pub const FILE_TOO_LARGE: i32 = libc::SIGXFSZ;

static ASKED_TO_END: AtomicI32 = AtomicI32::new(0);

pub fn note_end(signal: i32) {
    // The first signal counts.
    let _ = ASKED_TO_END.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
}

pub fn status_of_end() -> Option<u8> {
    let signal = ASKED_TO_END.load(Ordering::Relaxed);
    (signal != 0).then(|| status_of(signal))
}

pub fn status_of(signal: i32) -> u8 {
    (128 + signal) as u8
}

/// Whether a signal is ignored, as under nohup(1). Child processes inherit this unless pgthaw handles the signal.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid one, and with no new action the call only fills it.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let status = libc::sigaction(signal, std::ptr::null(), &raw mut action);
        (status == 0).then_some(action)
    };
    action.is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

pub fn send(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some((pid, signal)) = pid.zip(Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether the terminal sent the signal to the whole process group.
pub fn is_typed(signal: i32) -> bool {
    let own = || procfs::process::Process::myself().and_then(|own| own.stat());
    matches!(signal, libc::SIGINT | libc::SIGQUIT) && own().is_ok_and(|own| own.tpgid == own.pgrp)
}

/// Ends this process by the signal that ended its job, without a second core dump.
pub fn end_by(signal: i32) {
    let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    // A second core dump is harmless.
    let _ = setrlimit(Resource::Core, limit);
    // SAFETY: the default action has no handler, and nothing depends on the previous one.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_known() {
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGUSR2));
    }
}
