//! Runs the program in a second process. If that process ends early (memory limit, full stack, defect), the first
//! process runs the user's job or waits for it, and returns its exit status.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};

use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal};
use nix::unistd::{ForkResult, fork};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{self, WaitOptions, getpid, set_child_subreaper, set_parent_process_death_signal, wait};

use super::signals::{PASSED, is_ignored, is_typed, send};

#[derive(Debug, Default)]
struct Told {
    /// Pid of the job; `UNKNOWN` while it starts, 0 before.
    job: AtomicU32,
    has_ended: AtomicBool,
    status: AtomicI32,
    is_meant: AtomicBool,
}

const UNKNOWN: u32 = u32::MAX;

static TOLD: OnceLock<&'static Told> = OnceLock::new();

static IS_LEFT: AtomicBool = AtomicBool::new(false);

#[derive(Debug, PartialEq)]
pub enum Ended {
    /// The working process called `note_meant` before its end. Or it ended before the job started, with exit status 0
    /// or 2 or by one of the `PASSED` signals.
    AsMeant(ExitStatus),
    /// The working process ended before the job started, but not as in `AsMeant`.
    BeforeTheJob(ExitStatus),
    /// The working process ended unexpectedly, then the job ended. The second status is the job's, `None` if unknown.
    WithoutTheJob(ExitStatus, Option<ExitStatus>),
}

/// Forks. The new process gets `None` and continues. This process runs `before_waiting`, waits, and forwards signals.
/// It must be single-threaded.
///
/// # Errors
/// If no memory or process is available.
pub fn work_behind_guard(before_waiting: impl FnOnce()) -> io::Result<Option<Ended>> {
    // SAFETY: the kernel chooses a free range, which is never unmapped. All zeros are a valid `Told`.
    let told: &'static Told = unsafe {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        &*mmap_anonymous(null_mut(), size_of::<Told>(), access, MapFlags::SHARED)?.cast::<Told>()
    };
    // SAFETY: the default action has no handler. If SIGCHLD stayed ignored, no child could be waited for.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    let passed =
        PASSED.into_iter().filter(|number| !is_ignored(*number)).filter_map(|number| Signal::try_from(number).ok());
    let heeded: SigSet = passed.chain([Signal::SIGCHLD]).collect();
    let before = heeded.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    set_child_subreaper(Some(getpid()))?;
    // SAFETY: there is one thread, so the new process may do whatever this one may.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => {
            before_waiting();
            let ended = watch(child.as_raw(), told, &heeded)?;
            before.thread_set_mask()?;
            // This process may become the job, which must not adopt processes.
            set_child_subreaper(None)?;
            Ok(Some(ended))
        }
        forked => {
            before.thread_set_mask()?;
            forked?;
            set_parent_process_death_signal(Some(process::Signal::KILL))?;
            let _ = TOLD.set(told);
            Ok(None)
        }
    }
}

/// Records the job's start: if this process dies before the job's pid is stored, the job must not start again.
pub fn note_start() {
    note_job(UNKNOWN);
}

pub fn note_job(pid: u32) {
    TOLD.get().inspect(|told| told.job.store(pid, SeqCst));
}

pub fn note_job_end(status: ExitStatus) {
    let Some(told) = TOLD.get() else { return };
    told.status.store(status.into_raw(), SeqCst);
    told.has_ended.store(true, SeqCst);
}

/// Leaves the job to the guard, which runs the job when this process has ended.
pub fn leave_job() {
    note_job(0);
    IS_LEFT.store(true, SeqCst);
}

/// Marks this process's end as deliberate, so that its guard does not run the job in its place.
pub fn note_meant() {
    TOLD.get().filter(|_| !IS_LEFT.load(SeqCst)).inspect(|told| told.is_meant.store(true, SeqCst));
}

fn watch(work: i32, told: &Told, heeded: &SigSet) -> io::Result<Ended> {
    let (mut work_ended, mut job_ended) = (None, None);
    loop {
        let is_alone = loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let (pid, status) = (pid.as_raw_pid(), Some(ExitStatus::from_raw(status.as_raw())));
                    if pid == work {
                        work_ended = status;
                    } else if [pid as u32, UNKNOWN].contains(&told.job.load(SeqCst)) {
                        job_ended = status;
                    }
                }
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        if let Some(ended) = work_ended.and_then(|ended| told.judge(ended, job_ended, is_alone)) {
            return Ok(ended);
        }
        let number = heeded.wait()? as i32;
        if number != libc::SIGCHLD && !is_typed(number) {
            send(work_ended.map_or(work as u32, |_| told.job.load(SeqCst)), number);
        }
    }
}

impl Told {
    fn judge(&self, work: ExitStatus, job: Option<ExitStatus>, is_alone: bool) -> Option<Ended> {
        let has_begun = self.job.load(SeqCst) != 0;
        // No job runs after help, a usage error, or a signal before the job.
        let is_answer = matches!(work.code(), Some(0 | 2)) || work.signal().is_some_and(|one| PASSED.contains(&one));
        if self.is_meant.load(SeqCst) || is_answer && !has_begun {
            return Some(Ended::AsMeant(work));
        }
        if !has_begun {
            return Some(Ended::BeforeTheJob(work));
        }
        let noted = self.has_ended.load(SeqCst).then(|| ExitStatus::from_raw(self.status.load(SeqCst)));
        let job = noted.or(job);
        (job.is_some() || is_alone).then_some(Ended::WithoutTheJob(work, job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABORTED: i32 = libc::SIGABRT;
    const ENDED_7: i32 = 7 << 8;

    #[test]
    fn what_an_end_means() {
        let (told, of) = (Told::default(), ExitStatus::from_raw);
        let judge = |work: i32, job: Option<i32>, is_alone| told.judge(of(work), job.map(of), is_alone);
        assert_eq!(judge(2 << 8, None, true), Some(Ended::AsMeant(of(2 << 8))), "a mistake of the command line");
        assert_eq!(judge(libc::SIGTERM, None, true), Some(Ended::AsMeant(of(libc::SIGTERM))), "nobody wants it");
        for unasked in [ABORTED, libc::SIGKILL, 1 << 8, 101 << 8] {
            assert_eq!(judge(unasked, None, true), Some(Ended::BeforeTheJob(of(unasked))));
        }
        told.job.store(UNKNOWN, SeqCst);
        assert_eq!(judge(ABORTED, None, false), None, "it may run");
        assert_eq!(judge(ABORTED, None, true), Some(Ended::WithoutTheJob(of(ABORTED), None)));
        told.job.store(17, SeqCst);
        assert_eq!(judge(libc::SIGTERM, None, false), None, "its job runs");
        let left = Some(Ended::WithoutTheJob(of(ABORTED), Some(of(ENDED_7))));
        assert_eq!(judge(ABORTED, Some(ENDED_7), false), left);
        told.status.store(ENDED_7, SeqCst);
        told.has_ended.store(true, SeqCst);
        assert_eq!(judge(ABORTED, None, false), left, "it had been waited for");
        told.is_meant.store(true, SeqCst);
        assert_eq!(judge(1 << 8, None, false), Some(Ended::AsMeant(of(1 << 8))));
    }
}
