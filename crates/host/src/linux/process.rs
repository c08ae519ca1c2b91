//! Other processes: what they read, whose children they are, whether they still live.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::FromRead as _;
use procfs::process::{ProcState, Process, Stat};
use rustix::process::{Pid, Signal, kill_process};

use super::Error;
use crate::units::Bytes;

/// How gladly the kernel ends this process where memory runs out: -1000 to 1000 (proc(5)).
const OOM_SCORE_ADJUSTMENT: &str = "/proc/self/oom_score_adj";

/// The most that `pid_max` can be set to on 64 bits: include/linux/threads.h.
const PID_MAX_LIMIT: u32 = 4 << 20;

/// No process has this pid or a greater one, as the kernel is set now.
pub fn read_pid_max() -> u32 {
    procfs::sys::kernel::pid_max().ok().and_then(|pids| u32::try_from(pids).ok()).unwrap_or(PID_MAX_LIMIT)
}

/// Has the thread that calls this wait for a processor behind all others. It cannot be taken back without a privilege.
pub fn stand_behind_others() {
    // Of Linux's threads each has its own (setpriority(2)); one that cannot is as it was.
    let _ = rustix::process::setpriority_process(None, 19);
}

/// What some processes were doing at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// Processes on a processor, or waiting for one.
    pub running: u32,
    /// Processes in uninterruptible sleep, which is where a process waits for a disk (proc(5): state D).
    pub waiting: u32,
}

/// Bytes that a process has had fetched from storage, not those that were in the page cache. Needs the right to trace
/// the process: its owner or root.
pub fn read_fetched_bytes(pid: u32) -> Result<Bytes, Error> {
    let io = open(pid).and_then(|process| process.io()).map_err(|error| Error::proc("read /proc/PID/io", error))?;
    Ok(Bytes(io.read_bytes))
}

/// Bytes that a process has asked files for, cached or not (`rchar` of proc(5)), and those that had to be fetched from storage. Needs the
/// right to trace the process.
pub fn read_asked_bytes(pid: u32) -> Result<(Bytes, Bytes), Error> {
    let io = open(pid).and_then(|process| process.io()).map_err(|error| Error::proc("read /proc/PID/io", error))?;
    Ok((Bytes(io.rchar), Bytes(io.read_bytes)))
}

/// Processor time that a process has used so far, with all of its threads; also of one that ended and was not waited for.
pub fn read_cpu_time(pid: u32) -> Result<Duration, Error> {
    let status = read_status(pid)?;
    let ticks = (status.utime + status.stime) as f64;
    Ok(Duration::from_secs_f64(ticks / procfs::ticks_per_second() as f64))
}

/// Processor time that the main thread of a process has used so far, to the nanosecond (the kernel's
/// Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat).
pub fn read_run_time(pid: u32) -> Result<Duration, Error> {
    let stat = open(pid).and_then(|process| process.schedstat());
    let stat = stat.map_err(|error| Error::proc("read /proc/PID/schedstat", error))?;
    Ok(Duration::from_nanos(stat.sum_exec_runtime))
}

/// Processor time that a process has used so far, with that of the children that it has waited for.
pub fn read_family_cpu_time(pid: u32) -> Result<Duration, Error> {
    let status = read_status(pid)?;
    let of_children = status.cutime.max(0) + status.cstime.max(0);
    let ticks = (status.utime + status.stime) as f64 + of_children as f64;
    Ok(Duration::from_secs_f64(ticks / procfs::ticks_per_second() as f64))
}

/// Asks a process to end (SIGTERM). One that is gone needs no asking.
pub fn terminate(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Where memory runs out, the kernel ends this process before any other, as far as that can be had.
pub fn volunteer_for_oom() {
    // Anybody may raise the own score; where it cannot be done the process is a candidate like any other.
    let _ = std::fs::write(OOM_SCORE_ADJUSTMENT, "1000");
}

/// The processes whose parent is `pid`. Backends of a server are those of its postmaster.
pub fn read_children(pid: u32) -> Result<Vec<u32>, Error> {
    let failed = |source| Error::Call { action: "list the processes", source };
    let pids = std::fs::read_dir("/proc").map_err(failed)?;
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let statuses = pids.filter_map(|pid| read_status(pid).ok());
    Ok(statuses.filter(|status| status.ppid == pid as i32).map(|status| status.pid as u32).collect())
}

/// The same as [`read_children`], from the parent's own list: quick, however many processes there are. Where the kernel keeps none,
/// all are looked at.
pub fn read_listed_children(pid: u32) -> Result<Vec<u32>, Error> {
    let listed = open(pid).and_then(|process| process.tasks()).and_then(|tasks| {
        let mut children = Vec::new();
        for task in tasks.flatten() {
            children.extend(task.children()?);
        }
        Ok(children)
    });
    listed.or_else(|_| read_children(pid))
}

/// The parent's pid; an error when there is no such process, or it is the first one.
pub fn read_parent(pid: u32) -> Result<u32, Error> {
    match read_status(pid)?.ppid {
        0 => Err(Error::Call { action: "find the parent of a process", source: std::io::ErrorKind::NotFound.into() }),
        parent => Ok(parent as u32),
    }
}

/// How many of `pids` run or wait for a processor, and how many wait for a disk. Processes that sleep or have ended count
/// as neither.
pub fn count_busy(pids: &[u32]) -> Busy {
    let mut busy = Busy::default();
    for state in pids.iter().filter_map(|pid| read_status(*pid).ok()?.state().ok()) {
        match state {
            ProcState::Running => busy.running += 1,
            ProcState::Waiting => busy.waiting += 1,
            _ => {}
        }
    }
    busy
}

/// When a process started, in clock ticks since the machine booted: with the pid it names a process for good.
pub fn read_start_ticks(pid: u32) -> Result<u64, Error> {
    Ok(read_status(pid)?.starttime)
}

/// What a process does, and since when there is such a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessActivity {
    /// On a processor, or waiting for one.
    pub is_running: bool,
    /// When it started, in clock ticks since the machine booted.
    pub start_ticks: u64,
}

/// Looks at what a process does at this moment.
pub fn read_activity(pid: u32) -> Result<ProcessActivity, Error> {
    let status = read_status(pid)?;
    Ok(ProcessActivity { is_running: status.state == 'R', start_ticks: status.starttime })
}

/// A system call that a process sleeps in, whose first argument is a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCallInProgress {
    /// As the processor's architecture has it.
    pub number: u32,
    /// As the process would call it.
    pub path: PathBuf,
    pub device: (u32, u32),
}

/// The call that a process sleeps in (`/proc/PID/syscall` of proc(5)). `None` where it sleeps in none, its first argument is no file, or
/// that may not be seen.
pub fn read_file_call(pid: u32) -> Option<FileCallInProgress> {
    let told = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = told.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let descriptor = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let link = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
    let device = link.metadata().ok()?.dev();
    let device = (rustix::fs::major(device), rustix::fs::minor(device));
    Some(FileCallInProgress { number, path: link.read_link().ok()?, device })
}

/// How far a process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Lives,
    /// The kernel has begun to take it away, and may have told of its end or not.
    Ends,
    /// The kernel has told of its end. Its parent may not have asked yet how it ended.
    Ended,
}

/// How far the process is that started so many clock ticks after the machine booted. One that does not live may still have a pid: it is a
/// zombie until its parent asks.
pub fn read_stage(pid: u32, start_ticks: u64) -> Stage {
    // PF_EXITING of include/linux/sched.h: set before the tracepoint sched_process_exit is passed, as the state is set behind it.
    const EXITING: u32 = 4;
    match read_status(pid) {
        Ok(status) if status.starttime != start_ticks || matches!(status.state, 'Z' | 'X' | 'x') => Stage::Ended,
        Ok(status) if status.flags & EXITING != 0 => Stage::Ends,
        Ok(_) => Stage::Lives,
        Err(_) => Stage::Ended,
    }
}

/// Is there such a process, and has it not ended?
pub fn is_alive(pid: u32) -> bool {
    open(pid).is_ok_and(|process| process.is_alive())
}

/// The process's title as `ps` shows it: PostgreSQL's processes say in it what they do. The program's name when there
/// is none.
pub fn read_title(pid: u32) -> Result<String, Error> {
    let words = open(pid).and_then(|process| process.cmdline());
    let words = words.map_err(|error| Error::proc("read /proc/PID/cmdline", error))?;
    if words.is_empty() {
        return Ok(read_status(pid)?.comm);
    }
    Ok(words.join(" ").trim_end().to_owned())
}

/// What a process calls itself: its pid, unless it lives in a pid namespace below this one (`NSpid` of proc(5)).
pub fn read_own_number(pid: u32) -> Result<u32, Error> {
    let status = read_details(pid)?;
    let number = status.nspid.as_ref().and_then(|numbers| u32::try_from(*numbers.last()?).ok());
    Ok(number.unwrap_or(pid))
}

/// The number of the pid namespace that this process lives in: pids mean something only there.
pub fn read_pid_namespace() -> Result<u64, Error> {
    let path = Path::new("/proc/self/ns/pid");
    let metadata = path.metadata().map_err(|error| Error::file("look at", path, error))?;
    Ok(metadata.ino())
}

/// Is this process in the pid namespace that the kernel itself counts in? Elsewhere pids mean other processes than to the kernel.
pub fn has_kernel_pids() -> Result<bool, Error> {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h.
    Ok(read_pid_namespace()? == 0xEFFF_FFFC)
}

/// What the kernel tells at length of a process.
pub(super) fn read_details(pid: u32) -> Result<procfs::process::Status, Error> {
    open(pid).and_then(|process| process.status()).map_err(|error| Error::proc("read /proc/PID/status", error))
}

/// By a path, in one read: what is looked at many times a second is asked for with as few calls as will do.
fn read_status(pid: u32) -> Result<Stat, Error> {
    // 52 numbers, and a name of at most 64 bytes.
    let mut line = [0; 2048];
    let read = File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut line));
    let parsed = read.map_err(procfs::ProcError::from).and_then(|length| Stat::from_read(&line[..length]));
    parsed.map_err(|error| Error::proc("read /proc/PID/stat", error))
}

fn open(pid: u32) -> procfs::ProcResult<Process> {
    Process::new(pid as i32)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn who_asks_runs_and_who_sleeps_is_not_busy() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        while !read_title(child.id()).unwrap().starts_with("sleep") || count_busy(&[child.id()]) != Busy::default() {
            std::thread::yield_now();
        }
        let me = i32::from(rustix::thread::gettid().as_raw_nonzero()) as u32;
        assert_eq!(count_busy(&[me, child.id(), u32::MAX]), Busy { running: 1, waiting: 0 });
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_volunteer_is_the_first_that_memory_is_taken_from() {
        let before = std::fs::read_to_string(OOM_SCORE_ADJUSTMENT).unwrap();
        volunteer_for_oom();
        assert_eq!(std::fs::read_to_string(OOM_SCORE_ADJUSTMENT).unwrap().trim(), "1000");
        // Lowering it again takes a privilege.
        let _ = std::fs::write(OOM_SCORE_ADJUSTMENT, before.trim());
    }

    #[test]
    fn a_child_that_ended_has_a_pid_and_does_not_live() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, ticks) = (child.id(), read_start_ticks(child.id()).unwrap());
        assert_eq!((read_stage(pid, ticks), read_stage(pid, ticks + 1)), (Stage::Lives, Stage::Ended));
        child.kill().unwrap();
        while read_stage(pid, ticks) != Stage::Ended {
            std::thread::yield_now();
        }
        assert_eq!(read_start_ticks(pid).unwrap(), ticks, "nobody asked yet how it ended");
        child.wait().unwrap();
        assert_eq!(read_stage(pid, ticks), Stage::Ended);
    }

    #[test]
    fn knows_a_child_until_it_ends() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let (me, pid) = (std::process::id(), child.id());
        assert!(read_children(me).unwrap().contains(&pid));
        assert_eq!(read_parent(pid).unwrap(), me);
        assert!(read_start_ticks(pid).unwrap() >= read_start_ticks(me).unwrap());
        assert!(is_alive(pid));
        assert!(read_fetched_bytes(pid).is_ok());
        assert!(read_cpu_time(pid).is_ok());
        // Until it runs its program, the child still has our title.
        while read_title(pid).unwrap() != "sleep 60" {
            std::thread::yield_now();
        }
        terminate(pid);
        assert!(!child.wait().unwrap().success());
        assert!(!is_alive(pid));
        assert!(read_start_ticks(pid).is_err());
    }
}
