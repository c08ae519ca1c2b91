//! Measures per second of a trial. The store, exports, the page and docs/measures.md use only this declaration.

use serde::Serialize;

use observe::time::TimeUse;
use observe::{DeviceUse, OsSample};

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

/// Curves and panels of the page have this order.
pub const MEASURES: &[Measure] = &[
    measure(
        "time_running_seconds",
        Backends,
        "client backends on a processor (or ready to run, if the source does not distinguish the two)",
        |s| Some(time(s)?.running_seconds),
    )
    .joined(Mean, "time_running")
    .drawn(TIME, "on a processor"),
    measure("time_ready_seconds", Backends, "ready, waiting for a processor", |s| time(s)?.ready_seconds)
        .joined(Mean, "time_ready")
        .drawn(TIME, "ready for a processor"),
    measure("time_lwlock_seconds", Backends, "waiting for a lightweight lock", |s| Some(time(s)?.lwlock_seconds))
        .joined(Mean, "time_lwlock")
        .drawn(TIME, "LWLock"),
    measure("time_lock_seconds", Backends, "waiting for a lock", |s| Some(time(s)?.lock_seconds))
        .joined(Mean, "time_lock")
        .drawn(TIME, "Lock"),
    measure("time_io_seconds", Backends, "waiting for reads and writes", |s| Some(time(s)?.io_seconds))
        .joined(Mean, "time_io")
        .drawn(TIME, "IO"),
    measure("time_other_seconds", Backends, "waiting for any other event", |s| Some(time(s)?.other_seconds))
        .joined(Mean, "time_other")
        .drawn(TIME, "other events"),
    measure("time_no_event_seconds", Backends, "asleep without a wait event", |s| Some(time(s)?.no_event_seconds))
        .joined(Mean, "time_no_event")
        .drawn(TIME, "no event"),
    measure("time_unknown_seconds", Backends, "asleep, but the wait event could not be read", |s| {
        Some(time(s)?.unknown_seconds)
    })
    .joined(Mean, "time_unknown")
    .drawn(TIME, "unknown"),
    measure("time_client_seconds", Backends, "waiting for the client", |s| Some(time(s)?.client_seconds))
        .joined(Mean, "time_client")
        .drawn(TIME, "waiting for the client"),
    measure(
        "time_lived_seconds",
        Backends,
        "lifetime of client backends by an independent clock: equals the sum of the times above",
        |s| Some(time(s)?.lived_seconds),
    ),
    measure("time_background_running_seconds", Processors, "all other processes of the server on a processor", |s| {
        Some(time(s)?.background_running_seconds)
    }),
    measure(
        "time_background_waiting_seconds",
        Backends,
        "all other processes of the server waiting for anything but new work",
        |s| Some(time(s)?.background_waiting_seconds),
    ),
    measure("time_commands", PerSecond, "commands received from clients", |s| Some(exact(s)?.commands)),
    measure("time_handled_seconds", Backends, "client backends handling a command", |s| {
        Some(exact(s)?.handled_seconds)
    }),
    measure("time_activity_reports", PerSecond, "reports of client backends to pg_stat_activity", |s| {
        time(s)?.activity_reports
    }),
    measure("time_switches", PerSecond, "context switches to processes of the server", |s| Some(exact(s)?.switches)),
    measure(
        "time_explained_ratio",
        Ratio,
        "share of the server processes' lifetime in which their state is known",
        |s| time(s)?.explained_ratio,
    ),
    measure(
        "time_cost_seconds",
        Processors,
        "overhead of measuring these times: BPF programs and pgthaw's own processor time",
        |s| Some(time(s)?.cost_seconds),
    ),
    measure("time_lost_processes", PerSecond, "processes that could not be followed", |s| {
        Some(time(s)?.lost_processes)
    }),
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
    measure("device_read_await_us", Microseconds, "mean latency of a read, queueing included", |s| {
        device(s)?.read_await_us
    })
    .joined(Most, "read_await_us")
    .drawn(AWAIT, "a read"),
    measure("device_write_await_us", Microseconds, "mean latency of a write, queueing included", |s| {
        device(s)?.write_await_us
    })
    .joined(Most, "write_await_us")
    .drawn(AWAIT, "a write"),
    measure("device_queue", Requests, "mean number of requests in progress", |s| Some(device(s)?.queue)),
    measure("device_busy_ratio", Ratio, "share of time with a request in progress", |s| Some(device(s)?.busy_ratio)),
    measure("available_bytes", Bytes, "available memory", |s| Some(s.available_bytes.0 as f64)),
    measure("cached_bytes", Bytes, "the page cache", |s| Some(s.cached_bytes.0 as f64)),
    measure("dirty_bytes", Bytes, "dirty memory, waiting to be written", |s| Some(s.dirty_bytes.0 as f64))
        .joined(Most, "dirty_bytes")
        .drawn(DIRTY, "dirty"),
    measure("writeback_bytes", Bytes, "being written", |s| Some(s.writeback_bytes.0 as f64))
        .joined(Most, "writeback_bytes")
        .drawn(DIRTY, "being written"),
    measure("pressure_cpu_some", Ratio, "share of the time in which a task waited for a processor", |s| {
        s.pressure.cpu_some
    })
    .joined(Mean, "cpu_pressure")
    .drawn(PRESSURE, "for a processor"),
    measure("pressure_io_some", Ratio, "share of the time in which a task waited for a disk", |s| s.pressure.io_some)
        .joined(Mean, "io_pressure")
        .drawn(PRESSURE, "for a disk"),
    measure("pressure_io_full", Ratio, "share of the time in which all tasks waited for a disk", |s| {
        s.pressure.io_full
    }),
    measure("pressure_memory_some", Ratio, "share of the time in which a task waited for memory", |s| {
        s.pressure.memory_some
    })
    .joined(Mean, "memory_pressure")
    .drawn(PRESSURE, "for memory"),
    measure("pressure_memory_full", Ratio, "share of the time in which all tasks waited for memory", |s| {
        s.pressure.memory_full
    }),
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
