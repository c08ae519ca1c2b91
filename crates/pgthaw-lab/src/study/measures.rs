//! Measures per second of a trial. The store, exports, the page and docs/measures.md use only this declaration.

use serde::Serialize;

use observe::time::TimeUse;
use observe::{DeviceUse, OsSample, PressureRatios};

use Join::{Band, Mean, Most};
use Unit::{Backends, Bytes, BytesPerSecond, Microseconds, PerSecond, Processors, Ratio, Requests};

/// A per-second measure (docs/measures.md).
#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct Measure {
    /// Name in SQL and exports. Fields of `os_samples` supply the value.
    pub name: &'static str,
    pub unit: Unit,
    pub doc: &'static str,
    /// `None` in a second that lacks the measure.
    #[serde(skip)]
    pub of: fn(&OsSample) -> Option<f64>,
    /// Key in the field `machine` of a time series.
    pub column: Option<&'static str>,
    #[serde(skip)]
    pub join: Join,
    pub curve: Option<Curve>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema, crate::TS)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Processors in use: processor seconds per second.
    Processors,
    /// Mean number of backends in a state: backend seconds per second.
    Backends,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Requests,
    Microseconds,
    /// 0 to 1.
    Ratio,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    Mean,
    Most,
    /// The mean, with minimum and maximum in extra columns.
    Band,
}

/// A curve in a report.
#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct Curve {
    pub panel: Panel,
    pub label: &'static str,
}

/// A diagram in a report.
#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema, crate::TS)]
pub struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    /// Whether the curves are stacked areas.
    pub is_stack: bool,
}

const PROCESSORS: Panel = Panel { id: "processors", title: "Processors in use (mean number)", is_stack: true };
const TIME: Panel =
    Panel { id: "time", title: "Activity of the client backends (mean number of backends)", is_stack: true };
/// The page adds a curve of reads.
const DEVICE: Panel = lines("device", "The device");
/// The page adds a curve of reads.
const REQUESTS: Panel = lines("requests", "Device requests (per second)");
const AWAIT: Panel = lines("await", "Device latency, all processes");
const DIRTY: Panel = lines("dirty", "Dirty memory");
const PRESSURE: Panel = lines("pressure", "Share of time in which a task waited");
const SWITCHES: Panel = lines("switches", "Involuntary context switches of the server (per second)");

const fn lines(id: &'static str, title: &'static str) -> Panel {
    Panel { id, title, is_stack: false }
}

macro_rules! part {
    ($part:ident.$field:ident, $unit:expr, $doc:expr) => {
        measure(concat!(stringify!($part), "_", stringify!($field)), $unit, $doc, |s| $part(s)?.$field.into())
    };
}

/// Curves and panels of the page have this order.
pub const MEASURES: &[Measure] = &[
    part!(
        time.running_seconds,
        Backends,
        "client backends on a processor (or ready to run, if the source does not distinguish the two)"
    )
    .joined(Mean, "time_running")
    .drawn(TIME, "on a processor"),
    part!(time.ready_seconds, Backends, "ready, waiting for a processor")
        .joined(Mean, "time_ready")
        .drawn(TIME, "ready for a processor"),
    part!(time.lwlock_seconds, Backends, "waiting for a lightweight lock")
        .joined(Mean, "time_lwlock")
        .drawn(TIME, "LWLock"),
    part!(time.lock_seconds, Backends, "waiting for a lock").joined(Mean, "time_lock").drawn(TIME, "Lock"),
    part!(time.io_seconds, Backends, "waiting for reads and writes").joined(Mean, "time_io").drawn(TIME, "IO"),
    part!(time.other_seconds, Backends, "waiting for any other event")
        .joined(Mean, "time_other")
        .drawn(TIME, "other events"),
    part!(time.no_event_seconds, Backends, "asleep without a wait event")
        .joined(Mean, "time_no_event")
        .drawn(TIME, "no event"),
    part!(time.unknown_seconds, Backends, "asleep, but the wait event could not be read")
        .joined(Mean, "time_unknown")
        .drawn(TIME, "unknown"),
    part!(time.client_seconds, Backends, "waiting for the client")
        .joined(Mean, "time_client")
        .drawn(TIME, "waiting for the client"),
    part!(
        time.lived_seconds,
        Backends,
        "lifetime of client backends by an independent clock: equals the sum of the times above"
    ),
    part!(time.background_running_seconds, Processors, "all other processes of the server on a processor"),
    part!(
        time.background_waiting_seconds,
        Backends,
        "all other processes of the server waiting for anything but new work"
    ),
    measure("time_commands", PerSecond, "commands received from clients", |s| Some(exact(s)?.commands)),
    measure("time_handled_seconds", Backends, "client backends handling a command", |s| {
        Some(exact(s)?.handled_seconds)
    }),
    part!(time.activity_reports, PerSecond, "reports of client backends to pg_stat_activity"),
    measure("time_switches", PerSecond, "context switches to processes of the server", |s| Some(exact(s)?.switches)),
    part!(time.explained_ratio, Ratio, "share of the server processes' lifetime in which their state is known"),
    part!(
        time.cost_seconds,
        Processors,
        "overhead of measuring these times: BPF programs and pgthaw's own processor time"
    ),
    part!(time.lost_processes, PerSecond, "processes that could not be followed"),
    measure("server_cpu_seconds", Processors, "all processes of the server", |s| Some(s.server_total().cpu_seconds))
        .joined(Mean, "server_cpu")
        .drawn(PROCESSORS, "for the server"),
    measure("generator_cpu_seconds", Processors, "pgbench, all threads", |s| Some(s.generator().cpu_seconds))
        .joined(Mean, "generator_cpu")
        .drawn(PROCESSORS, "for pgbench"),
    measure("pgthaw_cpu_seconds", Processors, "pgthaw, all threads", |s| Some(s.pgthaw_cpu_seconds))
        .joined(Mean, "pgthaw_cpu")
        .drawn(PROCESSORS, "for pgthaw"),
    measure("others_cpu_seconds", Processors, "other processes", |s| Some(others(s)))
        .joined(Mean, "others_cpu")
        .drawn(PROCESSORS, "for other processes"),
    measure("processors_steal_seconds", Processors, "taken by the hypervisor", |s| Some(s.processors_steal_seconds))
        .joined(Mean, "steal_cpu")
        .drawn(PROCESSORS, "taken by the hypervisor"),
    measure("processors_iowait_seconds", Processors, "idle while a task waited for a disk", |s| {
        Some(s.processors_iowait_seconds)
    })
    .joined(Mean, "iowait_cpu")
    .drawn(PROCESSORS, "idle, waiting for a disk"),
    measure("processors_busy_seconds", Processors, "all processors, used by any process", |s| {
        Some(s.processors_busy_seconds)
    }),
    measure("busiest_thread_cpu_seconds", Processors, "pgbench's busiest thread", |s| {
        Some(s.busiest_thread_cpu_seconds())
    })
    .joined(Mean, "busiest_thread_ratio"),
    measure("generator_run_delay_seconds", Processors, "pgbench: ready to run, waiting for a processor", |s| {
        Some(s.generator().run_delay_seconds)
    }),
    measure("server_run_delay_seconds", Processors, "the server: ready to run, waiting for a processor", |s| {
        Some(s.server_total().run_delay_seconds)
    })
    .joined(Mean, "server_run_delay"),
    measure("server_involuntary_switches", PerSecond, "involuntary context switches of the server", |s| {
        Some(s.server_total().involuntary_switches)
    })
    .joined(Band, "server_involuntary_switches")
    .drawn(SWITCHES, "involuntary context switches"),
    measure("device_writes", PerSecond, "writes to the data directory's disk, by all processes", |s| {
        Some(device(s)?.writes as f64)
    })
    .joined(Band, "device_writes")
    .drawn(REQUESTS, "writes by all processes"),
    measure("device_written_bytes", BytesPerSecond, "written to the data directory's disk, by all processes", |s| {
        Some(device(s)?.written_bytes.0 as f64)
    })
    .joined(Band, "device_written_bytes")
    .drawn(DEVICE, "written by all processes"),
    part!(device.read_await_us, Microseconds, "mean latency of a read, queueing included")
        .joined(Most, "read_await_us")
        .drawn(AWAIT, "a read"),
    part!(device.write_await_us, Microseconds, "mean latency of a write, queueing included")
        .joined(Most, "write_await_us")
        .drawn(AWAIT, "a write"),
    part!(device.queue, Requests, "mean number of requests in progress"),
    part!(device.busy_ratio, Ratio, "share of time with a request in progress"),
    measure("available_bytes", Bytes, "available memory", |s| Some(s.available_bytes.0 as f64)),
    measure("cached_bytes", Bytes, "the page cache", |s| Some(s.cached_bytes.0 as f64)),
    measure("dirty_bytes", Bytes, "dirty memory, waiting to be written", |s| Some(s.dirty_bytes.0 as f64))
        .joined(Most, "dirty_bytes")
        .drawn(DIRTY, "dirty"),
    measure("writeback_bytes", Bytes, "being written", |s| Some(s.writeback_bytes.0 as f64))
        .joined(Most, "writeback_bytes")
        .drawn(DIRTY, "being written"),
    part!(pressure.cpu_some, Ratio, "share of the time in which a task waited for a processor")
        .joined(Mean, "cpu_pressure")
        .drawn(PRESSURE, "for a processor"),
    part!(pressure.io_some, Ratio, "share of the time in which a task waited for a disk")
        .joined(Mean, "io_pressure")
        .drawn(PRESSURE, "for a disk"),
    part!(pressure.io_full, Ratio, "share of the time in which all tasks waited for a disk"),
    part!(pressure.memory_some, Ratio, "share of the time in which a task waited for memory")
        .joined(Mean, "memory_pressure")
        .drawn(PRESSURE, "for memory"),
    part!(pressure.memory_full, Ratio, "share of the time in which all tasks waited for memory"),
];

const fn measure(name: &'static str, unit: Unit, doc: &'static str, of: fn(&OsSample) -> Option<f64>) -> Measure {
    Measure { name, unit, doc, of, column: None, join: Join::Mean, curve: None }
}

impl Measure {
    const fn joined(self, join: Join, column: &'static str) -> Measure {
        Measure { column: Some(column), join, ..self }
    }

    const fn drawn(self, panel: Panel, label: &'static str) -> Measure {
        Measure { curve: Some(Curve { panel, label }), ..self }
    }
}

/// Processors used by other programs. The difference can be negative, because process and processor clocks tick
/// separately.
fn others(one: &OsSample) -> f64 {
    let own = one.server_total().cpu_seconds + one.generator().cpu_seconds + one.pgthaw_cpu_seconds;
    (one.processors_busy_seconds - own).max(0.0)
}

fn device(one: &OsSample) -> Option<&DeviceUse> {
    one.device.as_ref()
}

fn pressure(one: &OsSample) -> Option<&PressureRatios> {
    Some(&one.pressure)
}

fn time(one: &OsSample) -> Option<&TimeUse> {
    one.time.as_ref()
}

/// Returns `None` for samples of pg_stat_activity, which count neither commands nor context switches.
fn exact(one: &OsSample) -> Option<&TimeUse> {
    time(one).filter(|time| time.is_exact())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_count_neither_commands_nor_switches() {
        let second = |ready_seconds| OsSample {
            time: Some(TimeUse { ready_seconds, ..TimeUse::default() }),
            ..OsSample::default()
        };
        for name in ["time_commands", "time_handled_seconds", "time_switches"] {
            let measure = MEASURES.iter().find(|one| one.name == name).unwrap();
            assert_eq!((measure.of)(&second(None)), None, "{name}");
            assert_eq!((measure.of)(&second(Some(0.0))), Some(0.0), "{name}");
        }
    }
}
