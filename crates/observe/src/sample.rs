//! What the machine did in each second of a trial, and what the server waited for.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::time::TimeUse;
use host::linux::TaskTime;
use host::units::Bytes;
use postgres::Wait;

/// One second of the machine. Seconds of processor time within one second are processors in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OsSample {
    /// End of the second, since the start of the workload; 1 for the first.
    pub second: u32,
    /// The load generator's threads, in the order in which they were made.
    pub generator_threads: Vec<TaskShare>,
    /// The server's processes by what they are for ([`super::ServerPart`]).
    pub server: BTreeMap<String, TaskShare>,
    /// pgthaw's own, all threads.
    pub pgthaw_cpu_seconds: f64,
    /// Of all processors: at work, idle beside something that waited for a disk, taken by the hypervisor.
    pub processors_busy_seconds: f64,
    pub processors_iowait_seconds: f64,
    pub processors_steal_seconds: f64,
    /// The data directory's disk; `None` where there is none. Where parts of the server lie on devices of their own, all of
    /// these together, and of the busiest its share of the second.
    pub device: Option<DeviceUse>,
    /// Each of them by the name of its part; none where all is on one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, DeviceUse>,
    pub available_bytes: Bytes,
    pub cached_bytes: Bytes,
    pub dirty_bytes: Bytes,
    pub writeback_bytes: Bytes,
    pub pressure: PressureRatios,
    /// Where the time of the server's processes went; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeUse>,
    /// Seconds that client backends waited for each event, by `class::event`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waited: BTreeMap<String, f64>,
}

/// What a thread, or several processes, had of the processors within a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskShare {
    /// How many they are.
    pub tasks: u32,
    pub cpu_seconds: f64,
    /// Ready to run, and waiting for a processor.
    pub run_delay_seconds: f64,
    /// How often a processor was taken from them.
    pub involuntary_switches: f64,
}

/// What a disk did within a second, for anybody.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    pub reads: u64,
    pub read_bytes: Bytes,
    pub writes: u64,
    pub written_bytes: Bytes,
    /// How long a read or a write took in the mean, waiting included; `None` without any.
    pub read_await_us: Option<f64>,
    pub write_await_us: Option<f64>,
    /// Requests under way in the mean.
    pub queue: f64,
    /// Share of the second in which at least one was.
    pub busy_ratio: f64,
}

/// Shares of a second in which some task, or all that had something to do, waited for a resource (PSI); `None` where the
/// kernel does not measure it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PressureRatios {
    pub cpu_some: Option<f64>,
    pub io_some: Option<f64>,
    pub io_full: Option<f64>,
    pub memory_some: Option<f64>,
    pub memory_full: Option<f64>,
}

impl OsSample {
    /// All threads of the generator together.
    pub fn generator(&self) -> TaskShare {
        self.generator_threads.iter().copied().fold(TaskShare::default(), TaskShare::plus)
    }

    /// All processes of the server together.
    pub fn server_total(&self) -> TaskShare {
        self.server.values().copied().fold(TaskShare::default(), TaskShare::plus)
    }

    /// The generator's thread with the most processor time.
    pub fn busiest_thread_cpu_seconds(&self) -> f64 {
        self.generator_threads.iter().map(|thread| thread.cpu_seconds).fold(0.0, f64::max)
    }
}

impl TaskShare {
    /// Of so many tasks, which had this between two readings.
    pub fn new(tasks: u32, time: TaskTime, per_second: impl Fn(f64) -> f64) -> TaskShare {
        TaskShare {
            tasks,
            cpu_seconds: per_second(time.cpu.as_secs_f64()),
            run_delay_seconds: per_second(time.run_delay.as_secs_f64()),
            involuntary_switches: per_second(time.involuntary_switches as f64),
        }
    }

    fn plus(self, other: TaskShare) -> TaskShare {
        TaskShare {
            tasks: self.tasks.saturating_add(other.tasks),
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            run_delay_seconds: self.run_delay_seconds + other.run_delay_seconds,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

/// What was seen within one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitSample {
    /// End of the second, since the start of the workload; 1 for the first.
    pub second: u32,
    #[serde(flatten)]
    pub seen: Waits,
}

/// What several looks have seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waits {
    pub looks: u32,
    pub waits: Vec<ObservedWait>,
    pub flushes: Flushes,
}

/// Looks that saw the log being flushed: a process that waited for the device to have written it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flushes {
    pub looks: u32,
    /// Other transactions under way then, over all of these looks: they have written, and waited for no lock.
    pub others: u32,
}

impl Flushes {
    fn plus(self, other: Flushes) -> Flushes {
        Flushes { looks: self.looks.saturating_add(other.looks), others: self.others.saturating_add(other.others) }
    }
}

/// Processes that did the same. Divided by the looks, `observed` is how many did so in the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedWait {
    #[serde(flatten)]
    pub wait: Wait,
    pub observed: u32,
}

impl Waits {
    /// Processes in the mean of which `is_meant` is so; 0 without a look.
    pub fn mean(&self, is_meant: impl Fn(&Wait) -> bool) -> f64 {
        let seen: f64 = self.waits.iter().filter(|one| is_meant(&one.wait)).map(|one| f64::from(one.observed)).sum();
        seen / f64::from(self.looks.max(1))
    }

    /// What the seconds saw together. Counts end at the greatest there is: a document may hold any.
    pub fn total<'a>(samples: impl IntoIterator<Item = &'a WaitSample>) -> Waits {
        let mut sum = WaitSum::default();
        for sample in samples {
            sum.looks = sum.looks.saturating_add(sample.seen.looks);
            sum.flushes = sum.flushes.plus(sample.seen.flushes);
            sample.seen.waits.iter().for_each(|one| sum.add(one.wait.clone(), one.observed));
        }
        sum.finish()
    }
}

#[derive(Debug, Default)]
pub struct WaitSum {
    pub looks: u32,
    observed: BTreeMap<Wait, u32>,
    flushes: Flushes,
}

impl WaitSum {
    pub fn add(&mut self, wait: Wait, observed: u32) {
        let known = self.observed.entry(wait).or_default();
        *known = known.saturating_add(observed);
    }

    /// A look saw so many other transactions at a flush; `None`: it saw none.
    pub fn add_flush(&mut self, others: Option<u32>) {
        self.flushes = others.map_or(self.flushes, |others| self.flushes.plus(Flushes { looks: 1, others }));
    }

    /// What was seen most often comes first.
    pub fn finish(self) -> Waits {
        let mut waits: Vec<ObservedWait> =
            self.observed.into_iter().map(|(wait, observed)| ObservedWait { wait, observed }).collect();
        waits.sort_by_key(|one| std::cmp::Reverse(one.observed));
        Waits { looks: self.looks, waits, flushes: self.flushes }
    }
}
