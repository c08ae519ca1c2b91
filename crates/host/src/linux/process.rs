use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::iter::successors;
use std::ops::Add;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::unistd::{Gid, Uid, User, getgrouplist, setgid, setgroups, setuid};
use procfs::process::{MountInfo, ProcState, Process, Stat, Task, all_processes};
use procfs::{CurrentSI as _, FromRead as _, KernelStats, ProcError, ProcResult};

use super::{Error, signals};
use crate::fieldwise;
use crate::units::Bytes;

/// The OOM killer's preference for this process, -1000 (never) to 1000 (proc(5)).
const OOM_SCORE_ADJUSTMENT: &str = "/proc/self/oom_score_adj";

/// Maximum on 64-bit kernels (include/linux/threads.h).
const PID_MAX_LIMIT: u32 = 4 << 20;

/// All pids are below this number.
pub fn read_pid_max() -> u32 {
    procfs::sys::kernel::pid_max().ok().and_then(|pids| u32::try_from(pids).ok()).unwrap_or(PID_MAX_LIMIT)
}

/// Gives the calling thread the lowest priority until it ends.
pub fn stand_behind_others() {
    // Linux has priorities per thread (setpriority(2)).
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Makes the command run as another user, with that user's groups (initgroups(3)): Debian's servers read their SSL key
/// through a group (`ssl-cert`). Requires root. `gid` is for a user without an entry in the user database. Set the
/// command's directory first.
pub fn run_as(command: &mut Command, uid: u32, gid: u32) {
    let (uid, user) = (Uid::from_raw(uid), User::from_uid(Uid::from_raw(uid)).ok().flatten());
    let gid = user.as_ref().map_or(Gid::from_raw(gid), |user| user.gid);
    let name = user.and_then(|user| CString::new(user.name).ok());
    let groups = name.and_then(|name| getgrouplist(&name, gid).ok()).unwrap_or_else(|| vec![gid]);
    let directory = command.get_current_dir().map(Path::to_owned);
    let become_user = move || {
        setgroups(&groups)?;
        setgid(gid)?;
        setuid(uid)?;
        // The standard library entered the directory as root; this fails if the user may not enter it.
        Ok(directory.as_deref().map_or(Ok(()), rustix::process::chdir)?)
    };
    // SAFETY: between fork and exec, the closure makes only system calls.
    unsafe { command.pre_exec(become_user) };
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Busy {
    /// On a processor, or waiting for one.
    pub running: u32,
    /// Processes in uninterruptible sleep (state D), waiting for a disk.
    pub waiting: u32,
}

/// Bytes read from storage. Requires the right to trace the process, which its owner and root have.
pub fn read_fetched_bytes(pid: u32) -> Result<Bytes, Error> {
    read_asked_bytes(pid).map(|(_, fetched)| fetched)
}

/// Bytes read from files (`rchar` of proc(5)), and from storage. Needs the right to trace the process.
pub fn read_asked_bytes(pid: u32) -> Result<(Bytes, Bytes), Error> {
    let io = open(pid).and_then(|process| process.io()).map_err(|error| Error::proc("read /proc/PID/io", error))?;
    Ok((Bytes(io.rchar), Bytes(io.read_bytes)))
}

/// Includes all threads; also works for a zombie.
pub fn read_cpu_time(pid: u32) -> Result<Duration, Error> {
    read_status(pid).map(|status| of_ticks(status.utime + status.stime))
}

/// Main thread only (/proc/PID/schedstat).
pub fn read_run_time(pid: u32) -> Result<Duration, Error> {
    let stat = open(pid).and_then(|process| process.schedstat());
    let stat = stat.map_err(|error| Error::proc("read /proc/PID/schedstat", error))?;
    Ok(Duration::from_nanos(stat.sum_exec_runtime))
}

pub fn read_family_cpu_time(pid: u32) -> Result<Duration, Error> {
    read_status(pid).map(|status| cpu_of(&status))
}

pub fn terminate(pid: u32) {
    signals::send(pid, libc::SIGTERM);
}

pub fn volunteer_for_oom() {
    let _ = std::fs::write(OOM_SCORE_ADJUSTMENT, "1000");
}

pub fn read_children(pid: u32) -> Result<Vec<u32>, Error> {
    let failed = |source| Error::Call { action: "list the processes", source };
    let pids = std::fs::read_dir("/proc").map_err(failed)?;
    let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let statuses = pids.filter_map(|pid| read_status(pid).ok());
    Ok(statuses.filter(|status| status.ppid == pid as i32).map(|status| status.pid as u32).collect())
}

/// Faster than `read_children` if the kernel lists each process's children.
pub fn read_listed_children(pid: u32) -> Result<Vec<u32>, Error> {
    let tasks = open(pid).and_then(|process| process.tasks());
    let listed = tasks.and_then(|tasks| tasks.flatten().map(|task| task.children()).collect::<ProcResult<Vec<_>>>());
    listed.map(|children| children.concat()).or_else(|_| read_children(pid))
}

pub fn read_parent(pid: u32) -> Result<u32, Error> {
    match read_status(pid)?.ppid {
        0 => Err(Error::Call { action: "find the parent of a process", source: std::io::ErrorKind::NotFound.into() }),
        parent => Ok(parent as u32),
    }
}

pub fn count_busy(pids: &[u32]) -> Busy {
    let states: Vec<_> = pids.iter().filter_map(|pid| read_status(*pid).ok()?.state().ok()).collect();
    let count = |wanted| states.iter().filter(|state| **state == wanted).count() as u32;
    Busy { running: count(ProcState::Running), waiting: count(ProcState::Waiting) }
}

pub fn read_start_ticks(pid: u32) -> Result<u64, Error> {
    Ok(read_status(pid)?.starttime)
}

/// Reads a process's state repeatedly. Keeping /proc/PID/stat open halves the cost, and excludes a later process with
/// the same pid.
#[derive(Debug)]
pub struct StateFile {
    file: File,
    pub start_ticks: u64,
}

impl StateFile {
    pub fn open(pid: u32) -> Result<StateFile, Error> {
        let opened = open_status(pid).and_then(|file| Ok((parse_status(&file)?.starttime, file)));
        let opened = opened.map_err(|error| Error::proc("read /proc/PID/stat", error));
        opened.map(|(start_ticks, file)| StateFile { file, start_ticks })
    }

    /// Whether the process is running or ready to run. `None` if it has ended.
    pub fn is_running(&self) -> Option<bool> {
        let mut line = [0; STATUS_BYTES_MAX];
        let length = self.file.read_at(&mut line, 0).ok()?;
        // The name before the state, in parentheses, may have any bytes.
        let name_end = line[..length].iter().rposition(|byte| *byte == b')')?;
        Some(line.get(name_end + 2) == Some(&b'R'))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCallInProgress {
    /// System call number of this processor architecture.
    pub number: u32,
    pub path: PathBuf,
    pub device: (u32, u32),
}

/// Blocking system call of a process on a file (proc(5)). `None` also without permission.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Lives,
    /// sched_process_exit may have fired.
    Ends,
    /// The tracepoint sched_process_exit has fired.
    Ended,
}

/// A zombie is `Ended`, but keeps its pid until its parent waits.
pub fn read_stage(pid: u32, start_ticks: u64) -> Stage {
    // PF_EXITING of include/linux/sched.h. It is set before sched_process_exit fires; the state changes afterwards.
    const EXITING: u32 = 4;
    match read_status(pid) {
        Ok(status) if status.starttime != start_ticks || matches!(status.state, 'Z' | 'X' | 'x') => Stage::Ended,
        Ok(status) if status.flags & EXITING != 0 => Stage::Ends,
        Ok(_) => Stage::Lives,
        Err(_) => Stage::Ended,
    }
}

pub fn is_alive(pid: u32) -> bool {
    open(pid).is_ok_and(|process| process.is_alive())
}

pub fn read_title(pid: u32) -> Result<String, Error> {
    // Titles contain role and database names in any encoding.
    let title = std::fs::read(format!("/proc/{pid}/cmdline"));
    let title = title.map_err(|source| Error::Call { action: "read /proc/PID/cmdline", source })?;
    let words = title.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    if words.is_empty() {
        return Ok(read_status(pid)?.comm);
    }
    Ok(words.join(" ").trim_end().to_owned())
}

/// Pid in the process's own namespace (`NSpid` of proc(5)).
pub fn read_own_number(pid: u32) -> Result<u32, Error> {
    let status = read_details(pid)?;
    let number = status.nspid.as_ref().and_then(|numbers| u32::try_from(*numbers.last()?).ok());
    Ok(number.unwrap_or(pid))
}

pub fn read_pid_namespace() -> Result<u64, Error> {
    let path = Path::new("/proc/self/ns/pid");
    let metadata = path.metadata().map_err(|error| Error::file("look at", path, error))?;
    Ok(metadata.ino())
}

/// Whether this is the initial pid namespace, whose pids the kernel reports.
pub fn has_kernel_pids() -> Result<bool, Error> {
    // PROC_PID_INIT_INO of include/linux/proc_ns.h.
    Ok(read_pid_namespace()? == 0xEFFF_FFFC)
}

pub(super) fn read_mounts() -> Result<Vec<MountInfo>, Error> {
    let mounts = Process::myself().and_then(|process| process.mountinfo());
    Ok(mounts.map_err(|error| Error::proc("read the mounts", error))?.0)
}

pub(super) fn read_details(pid: u32) -> Result<procfs::process::Status, Error> {
    open(pid).and_then(|process| process.status()).map_err(|error| Error::proc("read /proc/PID/status", error))
}

/// Enough to read /proc/PID/stat in one call: 52 numbers, and a name of at most 64 bytes.
const STATUS_BYTES_MAX: usize = 2048;

fn read_status(pid: u32) -> Result<Stat, Error> {
    open_status(pid).and_then(|file| parse_status(&file)).map_err(|error| Error::proc("read /proc/PID/stat", error))
}

fn open_status(pid: u32) -> ProcResult<File> {
    Ok(File::open(format!("/proc/{pid}/stat"))?)
}

fn parse_status(file: &File) -> ProcResult<Stat> {
    let mut line = [0; STATUS_BYTES_MAX];
    let length = file.read_at(&mut line, 0)?;
    Stat::from_read(&line[..length])
}

fn open(pid: u32) -> procfs::ProcResult<Process> {
    Process::new(pid as i32)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTime {
    pub cpu: Duration,
    /// Time spent runnable, waiting for a processor. 0 without CONFIG_SCHED_INFO.
    pub run_delay: Duration,
    /// Preemptions while runnable.
    pub involuntary_switches: u64,
}

impl TaskTime {
    pub fn since(self, earlier: TaskTime) -> TaskTime {
        fieldwise!(TaskTime, self.saturating_sub(earlier): cpu, run_delay, involuntary_switches)
    }
}

impl Add for TaskTime {
    type Output = TaskTime;

    fn add(self, other: TaskTime) -> TaskTime {
        fieldwise!(TaskTime, self.add(other): cpu, run_delay, involuntary_switches)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTimes {
    pub count: u32,
    /// Includes the kernel's work.
    pub busy: Duration,
    /// Part of `busy`; an interrupt may serve any process.
    pub interrupts: Duration,
    /// Idle while a task waited for a disk; only a hint (proc(5)).
    pub iowait: Duration,
    /// Taken by the hypervisor while a task was runnable.
    pub steal: Duration,
}

/// First thread only; PostgreSQL's processes have one.
pub fn read_task_time(pid: u32) -> Result<TaskTime, Error> {
    let time = open(pid).and_then(|process| account(&process.task_main_thread()?));
    time.map_err(|error| Error::proc("read /proc/PID/schedstat and status", error))
}

/// Times by ascending thread number. Skips threads that end meanwhile.
pub fn read_thread_times(pid: u32) -> Result<Vec<(u32, TaskTime)>, Error> {
    let tasks = open(pid).and_then(|process| process.tasks());
    let tasks = tasks.map_err(|error| Error::proc("list /proc/PID/task", error))?;
    let time = |task: Task| Some((task.tid as u32, account(&task).ok()?));
    let mut times: Vec<(u32, TaskTime)> = tasks.filter_map(|task| time(task.ok()?)).collect();
    times.sort_unstable_by_key(|(thread, _)| *thread);
    Ok(times)
}

/// Totals since boot.
pub fn read_processor_times() -> Result<ProcessorTimes, Error> {
    let statistics = KernelStats::current().map_err(|error| Error::proc("read /proc/stat", error))?;
    let all = statistics.total;
    let ticks = |count: Option<u64>| of_ticks(count.unwrap_or_default());
    // `user` includes guests.
    let interrupts = ticks(all.irq) + ticks(all.softirq);
    Ok(ProcessorTimes {
        count: statistics.cpu_time.len() as u32,
        busy: of_ticks(all.user) + of_ticks(all.nice) + of_ticks(all.system) + interrupts,
        interrupts,
        iowait: ticks(all.iowait),
        steal: ticks(all.steal),
    })
}

fn account(task: &Task) -> ProcResult<TaskTime> {
    let (cpu, run_delay) = match task.schedstat() {
        Ok(found) if found.pcount > 0 => {
            (Duration::from_nanos(found.sum_exec_runtime), Duration::from_nanos(found.run_delay))
        }
        _ => task.stat().map(|stat| (of_ticks(stat.utime + stat.stime), Duration::ZERO))?,
    };
    let involuntary_switches = task.status()?.nonvoluntary_ctxt_switches.unwrap_or_default();
    Ok(TaskTime { cpu, run_delay, involuntary_switches })
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

const KTHREADD: u32 = 2;

/// Includes children that the process waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// At most 15 characters.
    pub name: String,
    pub cpu: Duration,
    /// Read from storage; 0 without permission.
    pub read_bytes: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FamilyUse {
    pub own_cpu: Duration,
    /// `None` if a process's bytes are hidden from this user.
    pub own_read_bytes: Option<Bytes>,
    pub kernel_cpu: Duration,
    /// Other processes, by pid and start ticks.
    pub others: HashMap<(u32, u64), ProcessUse>,
}

/// Reads all visible processes. The fields `own_*` are of `roots` and their descendants.
pub fn read_family_use(roots: &[u32]) -> Result<FamilyUse, Error> {
    let processes = all_processes().map_err(|error| Error::proc("list the processes", error))?;
    let seen: Vec<(Process, Stat)> =
        processes.filter_map(|process| process.ok().and_then(|one| one.stat().ok().map(|stat| (one, stat)))).collect();
    let parents: HashMap<u32, u32> = seen.iter().map(|(_, stat)| (stat.pid as u32, stat.ppid as u32)).collect();
    let mut family = FamilyUse { own_read_bytes: Some(Bytes(0)), ..FamilyUse::default() };
    for (process, stat) in &seen {
        let (pid, cpu) = (stat.pid as u32, cpu_of(stat));
        let read_bytes = match process.io() {
            Ok(io) => Some(Bytes(io.read_bytes)),
            Err(ProcError::PermissionDenied(_)) => None,
            // The process has ended.
            Err(_) => Some(Bytes(0)),
        };
        if is_of_family(pid, roots, &parents) {
            family.own_cpu += cpu;
            family.own_read_bytes = family.own_read_bytes.zip(read_bytes).map(|(sum, read)| sum + read);
        } else if pid == KTHREADD || stat.ppid as u32 == KTHREADD {
            family.kernel_cpu += cpu;
        } else {
            let read_bytes = read_bytes.unwrap_or_default();
            let used = ProcessUse { name: stat.comm.clone(), cpu, read_bytes };
            family.others.insert((pid, stat.starttime), used);
        }
    }
    Ok(family)
}

fn cpu_of(stat: &Stat) -> Duration {
    let of_children = stat.cutime.max(0) + stat.cstime.max(0);
    of_ticks(stat.utime + stat.stime + of_children.unsigned_abs())
}

fn is_of_family(pid: u32, roots: &[u32], parents: &HashMap<u32, u32>) -> bool {
    // The process list is not atomic, so parents may form a cycle.
    let mut passed = HashSet::new();
    let lineage = successors(Some(pid), |at| parents.get(at).copied());
    lineage.take_while(|at| passed.insert(*at)).any(|at| roots.contains(&at))
}

#[cfg(test)]
mod process_tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt;

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
    fn a_command_of_another_user_has_all_groups_of_that_user() {
        let Ok(Some(user)) = User::from_name("postgres") else { untested!("there is no user postgres") };
        if !rustix::process::geteuid().is_root() {
            untested!("only root can become another user");
        }
        let groups = |command: &mut Command| -> HashSet<String> {
            let printed = String::from_utf8(command.arg("-G").output().unwrap().stdout).unwrap();
            printed.split_whitespace().map(str::to_owned).collect()
        };
        let run_as_postgres = |command: &mut Command| run_as(command, user.uid.as_raw(), 0);
        let mut command = Command::new("id");
        run_as_postgres(&mut command);
        assert_eq!(groups(&mut command), groups(Command::new("id").arg("postgres")));
        let closed = tempfile::tempdir().unwrap();
        std::fs::set_permissions(closed.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let mut command = Command::new("true");
        run_as_postgres(command.current_dir(closed.path()));
        assert!(command.status().is_err(), "it entered a directory of root");
    }

    #[test]
    fn a_volunteer_is_the_first_that_memory_is_taken_from() {
        let before = std::fs::read_to_string(OOM_SCORE_ADJUSTMENT).unwrap();
        volunteer_for_oom();
        assert_eq!(std::fs::read_to_string(OOM_SCORE_ADJUSTMENT).unwrap().trim(), "1000");
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
    fn a_title_in_another_encoding_is_read() {
        let mut command = Command::new("sleep");
        let mut child = command.arg0(OsStr::from_bytes(b"postgres: caf\xe9")).arg("60").spawn().unwrap();
        while read_title(child.id()).unwrap() != "postgres: caf\u{fffd} 60" {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
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
        while read_title(pid).unwrap() != "sleep 60" {
            std::thread::yield_now();
        }
        terminate(pid);
        assert!(!child.wait().unwrap().success());
        assert!(!is_alive(pid));
        assert!(read_start_ticks(pid).is_err());
    }
}

#[cfg(test)]
mod schedule_tests {
    use rustix::time::ClockId;

    use super::*;

    #[test]
    fn a_thread_that_spins_is_told_from_one_that_sleeps() {
        let before = read_thread_times(std::process::id()).unwrap();
        let spinner = std::thread::spawn(|| {
            // CPU time, as a hypervisor may steal wall time.
            while rustix::time::clock_gettime(ClockId::ThreadCPUTime).tv_nsec < 200_000_000 {
                std::hint::spin_loop();
            }
            let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            (me, read_thread_times(std::process::id()).unwrap())
        });
        let (spinner, after) = spinner.join().unwrap();
        let of = |times: &[(u32, TaskTime)], thread: u32| {
            times.iter().find(|(known, _)| *known == thread).map(|(_, time)| *time).unwrap_or_default()
        };
        let spun = of(&after, spinner).since(of(&before, spinner));
        assert!(spun.cpu.as_secs_f64() > 0.15, "{spun:?}");
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let slept = of(&after, me).since(of(&before, me));
        assert!(slept.cpu.as_secs_f64() < 0.1, "{slept:?}");
    }

    #[test]
    fn processors_have_done_something_since_the_boot() {
        let first = read_processor_times().unwrap();
        assert!(first.busy > Duration::ZERO);
        assert!(read_processor_times().unwrap().busy >= first.busy);
        let counted = || {
            let status = std::fs::read_to_string("/proc/1/status").unwrap();
            let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
            count.unwrap().trim().parse::<u64>().unwrap()
        };
        let (before, told, after) = (counted(), read_task_time(1).unwrap().involuntary_switches, counted());
        assert!((before..=after).contains(&told), "{before} {told} {after}");
        assert!(read_task_time(1).is_ok() && read_task_time(u32::MAX >> 1).is_err());
    }
}

#[cfg(test)]
mod families_tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_family_is_all_that_descend_from_one() {
        let parents = HashMap::from([(5, 4), (4, 3), (3, 1), (9, 1), (7, 8), (8, 7)]);
        assert!(is_of_family(5, &[3], &parents) && is_of_family(3, &[3], &parents));
        assert!(!is_of_family(9, &[3], &parents) && !is_of_family(7, &[3], &parents), "nor a ring");
    }

    #[test]
    fn what_a_child_used_is_its_familys_before_and_after_it_was_waited_for() {
        let me = std::process::id();
        let before = read_family_use(&[me]).unwrap();
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", spin]).spawn().unwrap();
        let as_others = read_family_use(&[child.id()]).unwrap();
        assert!(as_others.others.keys().any(|(pid, _)| *pid == me));
        child.wait().unwrap();
        let after = read_family_use(&[me]).unwrap();
        assert!(after.own_cpu > before.own_cpu && after.own_read_bytes.is_some(), "{after:?}");
        assert!(!after.others.keys().any(|(pid, _)| *pid == me));
    }
}
