//! The scheduler's account: what processors ran, and how long who was ready had to wait for one.

use std::time::Duration;

use procfs::process::{Process, Schedstat, Stat, Status};
use procfs::{CurrentSI as _, KernelStats, ProcResult};

use super::Error;

/// What a process or a thread has had of the processors so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTime {
    /// On a processor.
    pub cpu: Duration,
    /// Ready to run, and waiting for a processor: run-queue delay. 0 where the kernel does not count it
    /// (CONFIG_SCHED_INFO).
    pub run_delay: Duration,
    /// How often a processor was taken from it while it had something to run.
    pub involuntary_switches: u64,
}

impl TaskTime {
    /// What was added since `earlier`.
    pub fn since(self, earlier: TaskTime) -> TaskTime {
        TaskTime {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            run_delay: self.run_delay.saturating_sub(earlier.run_delay),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

impl std::ops::Add for TaskTime {
    type Output = TaskTime;

    fn add(self, other: TaskTime) -> TaskTime {
        TaskTime {
            cpu: self.cpu + other.cpu,
            run_delay: self.run_delay + other.run_delay,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

/// What all processors together did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTimes {
    /// How many processors there are.
    pub count: u32,
    /// Time in which something ran, the kernel's own work included.
    pub busy: Duration,
    /// Part of the busy time that went to interrupts, whoever they were for.
    pub interrupts: Duration,
    /// Time that was idle while something waited for a disk; a hint at most (proc(5)).
    pub iowait: Duration,
    /// Time with something to run that the hypervisor gave to somebody else.
    pub steal: Duration,
}

/// Reads the processor time of a process with one thread, as PostgreSQL's are; of one with several, that of its first thread.
pub fn read_task_time(pid: u32) -> Result<TaskTime, Error> {
    let process = open(pid)?;
    account(|| process.schedstat(), || process.stat(), || process.status())
        .map_err(|error| Error::proc("read /proc/PID/schedstat and status", error))
}

/// Reads the processor time of each thread of a process by its number, the oldest first. A thread that ends meanwhile is left
/// out.
pub fn read_thread_times(pid: u32) -> Result<Vec<(u32, TaskTime)>, Error> {
    let tasks = open(pid)?.tasks().map_err(|error| Error::proc("list /proc/PID/task", error))?;
    let time = |task: procfs::process::Task| {
        Some((task.tid as u32, account(|| task.schedstat(), || task.stat(), || task.status()).ok()?))
    };
    let mut times: Vec<(u32, TaskTime)> = tasks.filter_map(|task| time(task.ok()?)).collect();
    times.sort_unstable_by_key(|(thread, _)| *thread);
    Ok(times)
}

/// What all processors did since the machine booted.
pub fn read_processor_times() -> Result<ProcessorTimes, Error> {
    let statistics = KernelStats::current().map_err(|error| Error::proc("read /proc/stat", error))?;
    let all = statistics.total;
    let ticks = |count: Option<u64>| of_ticks(count.unwrap_or_default());
    // What guests ran is part of `user`.
    let interrupts = ticks(all.irq) + ticks(all.softirq);
    Ok(ProcessorTimes {
        count: statistics.cpu_time.len() as u32,
        busy: of_ticks(all.user) + of_ticks(all.nice) + of_ticks(all.system) + interrupts,
        interrupts,
        iowait: ticks(all.iowait),
        steal: ticks(all.steal),
    })
}

fn account(
    schedstat: impl FnOnce() -> ProcResult<Schedstat>,
    stat: impl FnOnce() -> ProcResult<Stat>,
    status: impl FnOnce() -> ProcResult<Status>,
) -> ProcResult<TaskTime> {
    let (cpu, run_delay) = match schedstat() {
        // Without CONFIG_SCHED_INFO there is no file, or three zeros: then the coarser count remains.
        Ok(found) if found.pcount > 0 => {
            (Duration::from_nanos(found.sum_exec_runtime), Duration::from_nanos(found.run_delay))
        }
        _ => stat().map(|stat| (of_ticks(stat.utime + stat.stime), Duration::ZERO))?,
    };
    let involuntary_switches = status()?.nonvoluntary_ctxt_switches.unwrap_or_default();
    Ok(TaskTime { cpu, run_delay, involuntary_switches })
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

fn open(pid: u32) -> Result<Process, Error> {
    Process::new(pid as i32).map_err(|error| Error::proc("open /proc/PID", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::clock;

    #[test]
    fn a_thread_that_spins_is_told_from_one_that_sleeps() {
        let before = read_thread_times(std::process::id()).unwrap();
        let spinner = std::thread::spawn(|| {
            let until = clock::read_monotonic() + Duration::from_millis(300);
            while clock::read_monotonic() < until {
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
        // Whether it ran or waited for a processor, it never slept.
        assert!((spun.cpu + spun.run_delay).as_secs_f64() > 0.25, "{spun:?}");
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
