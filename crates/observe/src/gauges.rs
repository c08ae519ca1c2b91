//! Per-second state of the machine, and its use by the server, the load generator and pgthaw.
//!
//! Part of `--json`: never rename fields.

use std::collections::{BTreeMap, HashMap};
use std::ops::Add as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::sampler::{Sampling, WORKLOAD_ROLE, wait_until};
use crate::time::{CLIENT_BACKEND, TimeUse};
use host::linux::block_device::{DeviceCounters, Devices};
use host::linux::machine::{Pressure, read_memory, read_pressure};
use host::linux::process::{
    FamilyUse, ProcessUse, ProcessorTimes, TaskTime, read_family_use, read_processor_times, read_task_time,
    read_thread_times,
};
use host::linux::{Memory, clock, process};
use host::units::Bytes;

/// Use of the machine in one second. Processor seconds equal the mean number of processors in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OsSample {
    /// Second since the workload's start, from 1.
    pub second: u32,
    /// pgbench's threads, in order of creation, if pgthaw observes their host. Empty in `top`.
    pub generator_threads: Vec<TaskShare>,
    /// Processes of the server by kind: `client backend`, `parallel worker`, `io worker`, `checkpointer`, `background
    /// writer`, `walwriter`, `autovacuum`, `observer` (backend of pgthaw), `other`. Empty in `top`.
    pub server: BTreeMap<String, TaskShare>,
    pub pgthaw_cpu_seconds: f64,
    /// Processors used by all processes.
    pub processors_busy_seconds: f64,
    /// Processors idle while a task waited for a disk.
    pub processors_iowait_seconds: f64,
    /// Taken by the hypervisor.
    pub processors_steal_seconds: f64,
    /// Use of the data directory's device. If WAL has its own device: sums and mean latencies of both, and the higher
    /// `busy_ratio`.
    pub device: Option<DeviceUse>,
    /// Each device by part (`data`, `wal`), if there are two.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, DeviceUse>,
    pub available_bytes: Bytes,
    /// The page cache.
    pub cached_bytes: Bytes,
    pub dirty_bytes: Bytes,
    /// Memory that is being written to disk.
    pub writeback_bytes: Bytes,
    pub pressure: PressureRatios,
    /// Time of client backends by use, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeUse>,
    /// Seconds that client backends waited, by `class::event`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waited: BTreeMap<String, f64>,
}

/// Processor use of one or several tasks within a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TaskShare {
    pub tasks: u32,
    pub cpu_seconds: f64,
    /// Time that ready tasks waited for a processor; 0 if not counted.
    pub run_delay_seconds: f64,
    pub involuntary_switches: f64,
}

/// Use of a device in a second, by all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DeviceUse {
    pub reads: u64,
    pub read_bytes: Bytes,
    pub writes: u64,
    pub written_bytes: Bytes,
    /// Mean latency of a read, queueing included. `None` without reads.
    pub read_await_us: Option<f64>,
    /// Mean latency of a write, queueing included. `None` without writes.
    pub write_await_us: Option<f64>,
    /// Mean number of requests in progress.
    pub queue: f64,
    /// Share of the second with a request in progress.
    pub busy_ratio: f64,
}

/// Shares of a second in which tasks waited for a resource (PSI). `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PressureRatios {
    /// Some task waited for a processor.
    pub cpu_some: Option<f64>,
    /// Some task waited for a disk.
    pub io_some: Option<f64>,
    /// All active tasks waited for a disk.
    pub io_full: Option<f64>,
    /// Some task waited for memory.
    pub memory_some: Option<f64>,
    /// All active tasks waited for memory.
    pub memory_full: Option<f64>,
}

impl OsSample {
    pub fn generator(&self) -> TaskShare {
        self.generator_threads.iter().copied().fold(TaskShare::default(), TaskShare::plus)
    }

    pub fn server_total(&self) -> TaskShare {
        self.server.values().copied().fold(TaskShare::default(), TaskShare::plus)
    }

    pub fn busiest_thread_cpu_seconds(&self) -> f64 {
        self.generator_threads.iter().map(|thread| thread.cpu_seconds).fold(0.0, f64::max)
    }
}

impl TaskShare {
    fn plus(self, other: TaskShare) -> TaskShare {
        TaskShare {
            tasks: self.tasks.saturating_add(other.tasks),
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            run_delay_seconds: self.run_delay_seconds + other.run_delay_seconds,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

#[derive(Clone, Debug)]
pub struct GaugeSources {
    pub devices: Devices,
    pub generator_pids: Vec<u32>,
    pub postmaster_pid: u32,
    /// The backend that serves pgthaw.
    pub observer_pid: Option<u32>,
}

/// Reads at `start` (monotonic) and at the end of each second.
pub fn sample_gauges(sources: GaugeSources, start: Duration, seconds: u32) -> Result<Sampling<Vec<OsSample>>, Error> {
    let GaugeSources { devices, generator_pids, postmaster_pid, observer_pid } = sources;
    let mut processes = ServerProcesses { postmaster_pid, observer_pid, seen: HashMap::new() };
    Sampling::start("gauges", move |stopped| {
        let mut readings = Vec::new();
        let mut second = 0;
        while second <= seconds && wait_until(start + Duration::from_secs(second.into()), stopped) {
            let threads = generator_pids.iter().flat_map(|pid| read_thread_times(*pid).unwrap_or_default());
            readings.push(GaugeReading {
                second,
                generator: threads.collect(),
                server: processes.read(),
                ..GaugeReading::read_machine(&devices)
            });
            let passed = clock::read_monotonic().saturating_sub(start).as_secs() as u32;
            second = passed.max(second) + 1;
        }
        compute_os_samples(&readings)
    })
}

const OBSERVER: &str = "observer";
pub(crate) const OTHER: &str = "other";

/// Kind of a process, by a title such as `postgres: lab: pgthaw_workload bench [local] idle`. Only the workload's
/// backends are clients.
pub(crate) fn kind_of_title(title: &str) -> &'static str {
    const KINDS: [&str; 6] =
        ["parallel worker", "io worker", "checkpointer", "background writer", "walwriter", "autovacuum"];
    match title.contains(WORKLOAD_ROLE) {
        true => CLIENT_BACKEND,
        false => KINDS.into_iter().find(|kind| title.contains(kind)).unwrap_or(OTHER),
    }
}

/// Processor times of the server's processes, including ended ones.
#[derive(Debug)]
struct ServerProcesses {
    postmaster_pid: u32,
    observer_pid: Option<u32>,
    seen: HashMap<u32, (&'static str, TaskTime)>,
}

impl ServerProcesses {
    fn read(&mut self) -> BTreeMap<&'static str, (u32, TaskTime)> {
        let children = process::read_children(self.postmaster_pid).unwrap_or_default();
        for pid in children.into_iter().chain([self.postmaster_pid]) {
            let Ok(time) = read_task_time(pid) else { continue };
            let known = self.seen.get(&pid).map(|(part, _)| *part).filter(|part| *part != OTHER);
            let part = known.unwrap_or_else(|| match self.observer_pid == Some(pid) {
                true => OBSERVER,
                false => process::read_title(pid).map_or(OTHER, |title| kind_of_title(&title)),
            });
            self.seen.insert(pid, (part, time));
        }
        let mut parts = BTreeMap::<&str, (u32, TaskTime)>::new();
        for (part, time) in self.seen.values() {
            let sum = parts.entry(part).or_default();
            *sum = (sum.0 + 1, sum.1 + *time);
        }
        parts
    }
}

/// Counters at one instant. Unreadable ones are 0 or `None`, so that the trial continues.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GaugeReading {
    /// Scheduled second.
    pub second: u32,
    /// Actual time since boot.
    pub monotonic: Duration,
    pub generator: Vec<(u32, TaskTime)>,
    pub server: BTreeMap<&'static str, (u32, TaskTime)>,
    pub own_cpu: Duration,
    pub processors: ProcessorTimes,
    pub device: Option<DeviceCounters>,
    pub parts: BTreeMap<&'static str, DeviceCounters>,
    pub memory: Memory,
    pub pressure: [Option<Pressure>; 3],
}

/// Seconds without a reading get the mean rates up to the next reading.
fn compute_os_samples(readings: &[GaugeReading]) -> Vec<OsSample> {
    let mut samples = Vec::new();
    for pair in readings.windows(2) {
        samples.extend((pair[0].second + 1..=pair[1].second).map(|second| pair[1].since(&pair[0], second)));
    }
    samples
}

impl GaugeReading {
    pub fn read_machine(devices: &Devices) -> GaugeReading {
        let parts = devices.read_parts();
        let all = parts.values().copied().reduce(DeviceCounters::add).filter(|_| parts.len() == devices.parts.len());
        GaugeReading {
            monotonic: clock::read_monotonic(),
            own_cpu: clock::read_own_cpu_time(),
            processors: read_processor_times().unwrap_or_default(),
            device: all.or_else(|| devices.read().ok().flatten()),
            parts,
            memory: read_memory().unwrap_or_default(),
            pressure: ["cpu", "io", "memory"].map(|resource| read_pressure(resource).ok().flatten()),
            ..GaugeReading::default()
        }
    }

    /// Use since `earlier`, as rates, because readings may be late.
    pub fn since(&self, earlier: &GaugeReading, second: u32) -> OsSample {
        let seconds = self.monotonic.saturating_sub(earlier.monotonic).as_secs_f64();
        let per_second = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
        let ran = |of: fn(&GaugeReading) -> Duration| per_second(of(self).saturating_sub(of(earlier)).as_secs_f64());
        let share = |tasks: u32, time: TaskTime| TaskShare {
            tasks,
            cpu_seconds: per_second(time.cpu.as_secs_f64()),
            run_delay_seconds: per_second(time.run_delay.as_secs_f64()),
            involuntary_switches: per_second(time.involuntary_switches as f64),
        };
        let threads = self.generator.iter().map(|(thread, time)| {
            let before = earlier.generator.iter().find(|(known, _)| known == thread);
            share(1, time.since(before.map(|(_, time)| *time).unwrap_or_default()))
        });
        let server = self.server.iter().map(|(kind, (processes, time))| {
            let (_, before) = earlier.server.get(kind).copied().unwrap_or_default();
            ((*kind).to_owned(), share(*processes, time.since(before)))
        });
        let parts = self.parts.iter().filter_map(|(name, to)| {
            Some(((*name).to_owned(), device_use(*earlier.parts.get(name)?, *to, per_second)))
        });
        let parts: BTreeMap<String, DeviceUse> = parts.collect();
        let busiest = parts.values().map(|part| part.busy_ratio).reduce(f64::max);
        let device = earlier.device.zip(self.device).map(|(from, to)| {
            let whole = device_use(from, to, per_second);
            let Some(busy_ratio) = busiest else { return whole };
            // Rounded once more, the whole could differ from the sum of its parts.
            let sum = |of: fn(&DeviceUse) -> u64| parts.values().map(of).fold(0, u64::saturating_add);
            DeviceUse {
                reads: sum(|one| one.reads),
                read_bytes: Bytes(sum(|one| one.read_bytes.0)),
                writes: sum(|one| one.writes),
                written_bytes: Bytes(sum(|one| one.written_bytes.0)),
                busy_ratio,
                ..whole
            }
        });
        let [cpu, io, memory] = std::array::from_fn(|at| earlier.pressure[at].zip(self.pressure[at]));
        let share_of = |readings: Option<(Pressure, Pressure)>, total: fn(&Pressure) -> u64| {
            let (from, to) = readings?;
            Some(per_second(total(&to).saturating_sub(total(&from)) as f64 / 1e6).min(1.0))
        };
        let (some, full) = (|one: &Pressure| one.some_us_total, |one: &Pressure| one.full_us_total);
        OsSample {
            second,
            generator_threads: threads.collect(),
            server: server.collect(),
            pgthaw_cpu_seconds: ran(|one| one.own_cpu),
            processors_busy_seconds: ran(|one| one.processors.busy),
            processors_iowait_seconds: ran(|one| one.processors.iowait),
            processors_steal_seconds: ran(|one| one.processors.steal),
            device,
            parts,
            available_bytes: self.memory.available_bytes,
            cached_bytes: self.memory.cached_bytes,
            dirty_bytes: self.memory.dirty_bytes,
            writeback_bytes: self.memory.writeback_bytes,
            pressure: PressureRatios {
                cpu_some: share_of(cpu, some),
                io_some: share_of(io, some),
                io_full: share_of(io, full),
                memory_some: share_of(memory, some),
                memory_full: share_of(memory, full),
            },
            time: None,
            waited: BTreeMap::new(),
        }
    }
}

fn device_use(from: DeviceCounters, to: DeviceCounters, per_second: impl Fn(f64) -> f64) -> DeviceUse {
    let grown = |of: fn(&DeviceCounters) -> u64| of(&to).saturating_sub(of(&from)) as f64;
    let count = |of| per_second(grown(of)).round() as u64;
    let await_us = |milliseconds: f64, requests: f64| (requests > 0.0).then(|| milliseconds * 1000.0 / requests);
    DeviceUse {
        reads: count(|one| one.reads),
        read_bytes: Bytes(count(|one| one.read_bytes.0)),
        writes: count(|one| one.writes),
        written_bytes: Bytes(count(|one| one.written_bytes.0)),
        read_await_us: await_us(grown(|one| one.read_ms), grown(|one| one.reads)),
        write_await_us: await_us(grown(|one| one.write_ms), grown(|one| one.writes)),
        queue: per_second(grown(|one| one.queued_ms) / 1000.0),
        busy_ratio: per_second(grown(|one| one.busy_ms) / 1000.0).min(1.0),
    }
}

const NAMES: usize = 2;

/// Use by processes other than the server and pgthaw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OthersUse {
    pub seconds: f64,
    pub processors: u32,
    pub used_processors: f64,
    /// Mean number of processors that the hypervisor took.
    pub stolen_processors: f64,
    pub users: Vec<String>,
    pub readers: Vec<String>,
    /// Bytes that these processes read from the device; 0 if unknown.
    pub read_bytes: Bytes,
    /// Bytes that all processes read from the device; 0 if unknown.
    pub device_read_bytes: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineReading {
    monotonic: Duration,
    processors: ProcessorTimes,
    families: FamilyUse,
    device: Option<DeviceCounters>,
}

impl MachineReading {
    pub fn read(postmaster_pid: u32, devices: &Devices) -> Option<MachineReading> {
        Some(MachineReading {
            families: read_family_use(&[std::process::id(), postmaster_pid]).ok()?,
            monotonic: clock::read_monotonic(),
            processors: read_processor_times().ok()?,
            device: devices.read().ok().flatten(),
        })
    }

    /// `known_read_bytes` is a lower bound of the server's and pgthaw's reads.
    pub fn others_since(&self, earlier: &MachineReading, known_read_bytes: Option<Bytes>) -> OthersUse {
        let seconds = self.monotonic.saturating_sub(earlier.monotonic).as_secs_f64();
        let grown = |of: &dyn Fn(&MachineReading) -> Duration| of(self).saturating_sub(of(earlier)).as_secs_f64();
        // Interrupts and kernel threads serve all processes, so no process is charged for them.
        let ran = grown(&|one| one.processors.busy.saturating_sub(one.processors.interrupts));
        let accounted = grown(&|one| one.families.own_cpu) + grown(&|one| one.families.kernel_cpu);
        let per_second = |time: f64| if seconds > 0.0 { time.max(0.0) / seconds } else { 0.0 };
        let device = |one: &MachineReading| one.device.map(|device| device.read_bytes);
        let difference = |from: Option<Bytes>, to: Option<Bytes>| Some(Bytes(to?.0.saturating_sub(from?.0)));
        let device_read_bytes = difference(device(earlier), device(self));
        let own = difference(earlier.families.own_read_bytes, self.families.own_read_bytes).max(known_read_bytes);
        let others = own.zip(device_read_bytes).map(|(own, all)| Bytes(all.0.saturating_sub(own.0)));
        OthersUse {
            seconds,
            processors: self.processors.count,
            // May be negative: the clocks differ slightly.
            used_processors: per_second(ran - accounted),
            stolen_processors: per_second(grown(&|one| one.processors.steal)),
            users: self.name_most(earlier, |used| used.cpu.as_millis() as u64),
            readers: self.name_most(earlier, |used| used.read_bytes.0),
            read_bytes: others.unwrap_or_default(),
            device_read_bytes: device_read_bytes.unwrap_or_default(),
        }
    }

    fn name_most(&self, earlier: &MachineReading, of: impl Fn(&ProcessUse) -> u64) -> Vec<String> {
        let mut sums = std::collections::BTreeMap::<&str, u64>::new();
        for (process, used) in &self.families.others {
            let before = earlier.families.others.get(process).map_or(0, &of);
            *sums.entry(&used.name).or_default() += of(used).saturating_sub(before);
        }
        let mut sums: Vec<(&str, u64)> = sums.into_iter().filter(|(_, sum)| *sum > 0).collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        sums.into_iter().take(NAMES).map(|(name, _)| name.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_has_a_sample_and_it_can_be_stopped_before_its_schedule() {
        let me = std::process::id();
        let sources = GaugeSources {
            devices: Devices::default(),
            generator_pids: vec![me],
            postmaster_pid: me,
            observer_pid: None,
        };
        let start = clock::read_monotonic();
        let sampler = sample_gauges(sources, start, 3600).unwrap();
        std::thread::sleep(Duration::from_millis(1300));
        let samples = sampler.finish(true);
        assert_eq!(samples.iter().map(|sample| sample.second).collect::<Vec<_>>(), [1]);
        assert!(!samples[0].generator_threads.is_empty() && samples[0].device.is_none());
        assert!(samples[0].processors_busy_seconds > 0.0, "{samples:?}");
    }
}

#[cfg(test)]
mod processes_tests {
    use super::*;

    #[test]
    fn a_title_says_what_a_process_is_for() {
        for (title, part) in [
            ("postgres: pgthaw-lab: pgthaw_workload pgthaw_bench_1 [local] SELECT", "client backend"),
            ("postgres: pgthaw-lab: parallel worker for PID 4711", "parallel worker"),
            ("postgres: pgthaw-lab: io worker 2", "io worker"),
            ("postgres: pgthaw-lab: checkpointer", "checkpointer"),
            ("postgres: pgthaw-lab: background writer", "background writer"),
            ("postgres: pgthaw-lab: walwriter", "walwriter"),
            ("postgres: pgthaw-lab: autovacuum launcher", "autovacuum"),
            ("postgres: pgthaw-lab: postgres postgres [local] idle", OTHER),
        ] {
            assert_eq!(kind_of_title(title), part, "{title}");
        }
    }

    #[test]
    fn a_process_that_ended_keeps_what_it_had() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut processes = ServerProcesses {
            postmaster_pid: std::process::id(),
            observer_pid: Some(child.id()),
            seen: HashMap::new(),
        };
        let before = processes.read();
        assert_eq!(before[OBSERVER].0, 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let after = processes.read();
        let (before, after) = (before[OBSERVER].1, after[OBSERVER].1);
        assert!(after.cpu >= before.cpu && after.involuntary_switches >= before.involuntary_switches);
    }
}

#[cfg(test)]
mod sample_tests {
    use super::*;

    fn reading(second: u32, milliseconds: u64) -> GaugeReading {
        let time = |share: f64| TaskTime {
            cpu: Duration::from_millis(milliseconds).mul_f64(share),
            run_delay: Duration::from_millis(milliseconds / 10),
            involuntary_switches: milliseconds / 20,
        };
        GaugeReading {
            second,
            monotonic: Duration::from_millis(50_000 + milliseconds),
            generator: if second == 0 { vec![(7, time(0.5))] } else { vec![(7, time(0.5)), (9, time(0.25))] },
            server: BTreeMap::from([("client backend", (4, time(1.0)))]),
            own_cpu: Duration::from_millis(milliseconds / 100),
            processors: ProcessorTimes { busy: Duration::from_millis(2 * milliseconds), ..ProcessorTimes::default() },
            device: Some(DeviceCounters {
                reads: milliseconds,
                read_bytes: Bytes(milliseconds * 8192),
                read_ms: milliseconds * 3,
                queued_ms: milliseconds * 4,
                busy_ms: milliseconds / 2,
                ..DeviceCounters::default()
            }),
            ..GaugeReading::default()
        }
    }

    #[test]
    fn seconds_are_differences_scaled_to_a_second() {
        let samples = compute_os_samples(&[reading(0, 0), reading(1, 1200), reading(2, 2000)]);
        assert_eq!(samples.len(), 2);
        for sample in &samples {
            assert!((sample.generator_threads[0].cpu_seconds - 0.5).abs() < 1e-6, "{sample:?}");
            assert!((sample.server["client backend"].run_delay_seconds - 0.1).abs() < 1e-6, "{sample:?}");
            assert!((sample.server["client backend"].involuntary_switches - 50.0).abs() < 1e-6, "{sample:?}");
            assert!((sample.processors_busy_seconds - 2.0).abs() < 1e-6, "{sample:?}");
            assert!((sample.pgthaw_cpu_seconds - 0.01).abs() < 1e-6, "{sample:?}");
            let device = sample.device.unwrap();
            assert_eq!((device.reads, device.read_bytes, device.read_await_us), (1000, Bytes(8_192_000), Some(3000.0)));
            assert_eq!((device.queue, device.busy_ratio, device.write_await_us), (4.0, 0.5, None));
        }
        assert_eq!((samples[1].generator().tasks, samples[1].server_total().tasks), (2, 4));
        assert!((samples[1].busiest_thread_cpu_seconds() - 0.5).abs() < 1e-6);
        assert_eq!(samples[0].pressure, PressureRatios::default());
    }

    #[test]
    fn a_second_without_a_reading_shares_the_next() {
        let samples = compute_os_samples(&[reading(0, 0), reading(3, 3000)]);
        assert_eq!(samples.iter().map(|sample| sample.second).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(samples.iter().all(|sample| sample.device.unwrap().reads == 1000));
        assert!(compute_os_samples(&[reading(0, 0)]).is_empty());
    }
}

#[cfg(test)]
mod others_tests {
    use std::collections::HashMap;

    use super::*;

    fn reading(seconds: u64, busy_ms: u64, own_ms: u64, other_ms: u64, read: [u64; 2]) -> MachineReading {
        let milliseconds = Duration::from_millis;
        let used = |name: &str, ms| ProcessUse { name: name.into(), cpu: milliseconds(ms), read_bytes: Bytes(ms) };
        MachineReading {
            monotonic: Duration::from_secs(seconds),
            processors: ProcessorTimes {
                count: 2,
                busy: milliseconds(busy_ms),
                interrupts: milliseconds(busy_ms / 100),
                steal: milliseconds(100 * seconds),
                ..ProcessorTimes::default()
            },
            families: FamilyUse {
                own_cpu: milliseconds(own_ms),
                own_read_bytes: Some(Bytes(read[0])),
                kernel_cpu: milliseconds(0),
                others: HashMap::from([((7, 1), used("burner", other_ms)), ((8, 1), used("idle", 5))]),
            },
            device: Some(DeviceCounters { read_bytes: Bytes(read[1]), ..DeviceCounters::default() }),
        }
    }

    #[test]
    fn others_are_who_is_left_when_the_own_family_is_taken_away() {
        let (before, after) = (reading(0, 0, 0, 0, [0, 0]), reading(10, 20_000, 10_800, 9_000, [100, 1000]));
        let others = after.others_since(&before, None);
        assert!((others.used_processors - 0.9).abs() < 1e-9 && (others.stolen_processors - 0.1).abs() < 1e-9);
        assert_eq!((others.processors, others.users.as_slice()), (2, &["burner".to_owned()][..]));
        assert_eq!((others.read_bytes, others.device_read_bytes), (Bytes(900), Bytes(1000)));
        assert_eq!(after.others_since(&before, Some(Bytes(950))).read_bytes, Bytes(50));
        let alone = reading(10, 10_000, 10_100, 0, [1000, 1000]).others_since(&before, None);
        assert_eq!((alone.used_processors, alone.read_bytes, alone.users.len()), (0.0, Bytes(0), 0));
    }

    #[test]
    fn where_it_is_not_known_who_read_nobody_is_accused() {
        let mut before = reading(0, 0, 0, 0, [0, 0]);
        before.families.own_read_bytes = None;
        let others = reading(10, 0, 0, 0, [0, 1_000_000]).others_since(&before, None);
        assert_eq!((others.read_bytes, others.device_read_bytes), (Bytes(0), Bytes(1_000_000)));
    }
}
