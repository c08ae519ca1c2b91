//! What is measured in each second of a trial. A measure is declared here once: the store, exports, the page and
//! docs/formats.md have it from here.

use serde::Serialize;

use observe::time::TimeUse;
use observe::{DeviceUse, OsSample};

/// A quantity that every second has.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Measure {
    /// In SQL and in exports. A field of `os_samples` has the same name, or is summed to it.
    pub name: &'static str,
    pub unit: Unit,
    /// What it is, for people.
    pub doc: &'static str,
    /// `None` in a second that does not have it.
    #[serde(skip)]
    pub of: fn(&OsSample) -> Option<f64>,
    /// Its column in the curves of a trial, if it has one.
    pub column: Option<&'static str>,
    #[serde(skip)]
    pub join: Join,
    /// Where the page draws that column.
    pub curve: Option<Curve>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds of processor time within a second are processors in use.
    Processors,
    /// Seconds that backends spent in something within a second are backends that did so in the mean.
    Backends,
    Bytes,
    BytesPerSecond,
    PerSecond,
    Requests,
    Microseconds,
    /// 0 to 1.
    Ratio,
}

/// How the seconds of a span become one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    Mean,
    Most,
    /// The mean, with the least and the most in columns of their own.
    Band,
}

/// A line on the page.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Curve {
    pub panel: Panel,
    pub label: &'static str,
}

/// Curves that share an axis.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Panel {
    pub id: &'static str,
    pub title: &'static str,
    /// Areas on top of each other.
    pub is_stack: bool,
}

const PROCESSORS: Panel =
    Panel { id: "processors", title: "Processors at work (processors, in the mean)", is_stack: true };
const TIME: Panel =
    Panel { id: "time", title: "Where the time of the client backends went (backends, in the mean)", is_stack: true };
/// The page has reads there too.
const DEVICE: Panel = lines("device", "The device");
/// The page has reads there too.
const REQUESTS: Panel = lines("requests", "Requests of the device (per second)");
const AWAIT: Panel = lines("await", "How long the device took, for anybody");
const DIRTY: Panel = lines("dirty", "Memory that must be written");
const PRESSURE: Panel = lines("pressure", "Share of time in which something waited");
const SWITCHES: Panel = lines("switches", "Involuntary context switches of the server (per second)");

const fn lines(id: &'static str, title: &'static str) -> Panel {
    Panel { id, title, is_stack: false }
}

/// Every measure. A panel has its curves in this order, and the page its panels.
pub const MEASURES: &[Measure] = &[
    measure(
        "time_running_seconds",
        Unit::Backends,
        "client backends on a processor (or ready for one, where that is not told apart)",
        |one| time(one, |time| Some(time.running_seconds)),
    )
    .joined(Join::Mean, "time_running")
    .drawn(TIME, "on a processor"),
    measure("time_ready_seconds", Unit::Backends, "ready, waiting for a processor", |one| {
        time(one, |time| time.ready_seconds)
    })
    .joined(Join::Mean, "time_ready")
    .drawn(TIME, "ready for one"),
    measure("time_lwlock_seconds", Unit::Backends, "waiting for a lightweight lock", |one| {
        time(one, |time| Some(time.lwlock_seconds))
    })
    .joined(Join::Mean, "time_lwlock")
    .drawn(TIME, "LWLock"),
    measure("time_lock_seconds", Unit::Backends, "waiting for a lock", |one| time(one, |time| Some(time.lock_seconds)))
        .joined(Join::Mean, "time_lock")
        .drawn(TIME, "Lock"),
    measure("time_io_seconds", Unit::Backends, "waiting for reads and writes", |one| {
        time(one, |time| Some(time.io_seconds))
    })
    .joined(Join::Mean, "time_io")
    .drawn(TIME, "IO"),
    measure("time_other_seconds", Unit::Backends, "waiting for any other event", |one| {
        time(one, |time| Some(time.other_seconds))
    })
    .joined(Join::Mean, "time_other")
    .drawn(TIME, "other events"),
    measure("time_no_event_seconds", Unit::Backends, "asleep without a wait event", |one| {
        time(one, |time| Some(time.no_event_seconds))
    })
    .joined(Join::Mean, "time_no_event")
    .drawn(TIME, "no event"),
    measure("time_unknown_seconds", Unit::Backends, "asleep, and the event could not be read", |one| {
        time(one, |time| Some(time.unknown_seconds))
    })
    .joined(Join::Mean, "time_unknown")
    .drawn(TIME, "unknown"),
    measure("time_client_seconds", Unit::Backends, "waiting for the client", |one| {
        time(one, |time| Some(time.client_seconds))
    })
    .joined(Join::Mean, "time_client")
    .drawn(TIME, "waiting for the client"),
    measure(
        "time_lived_seconds",
        Unit::Backends,
        "client backends by a clock outside: what the kinds above add up to",
        |one| time(one, |time| Some(time.lived_seconds)),
    ),
    measure(
        "time_background_running_seconds",
        Unit::Processors,
        "all other processes of the server on a processor",
        |one| time(one, |time| Some(time.background_running_seconds)),
    ),
    measure(
        "time_background_waiting_seconds",
        Unit::Backends,
        "of these those that waited for anything but something to do",
        |one| time(one, |time| Some(time.background_waiting_seconds)),
    ),
    measure("time_commands", Unit::PerSecond, "commands received from clients", |one| {
        time(one, |time| time.is_exact().then_some(time.commands))
    }),
    measure("time_handled_seconds", Unit::Backends, "client backends that handled a command", |one| {
        time(one, |time| time.is_exact().then_some(time.handled_seconds))
    }),
    measure("time_activity_reports", Unit::PerSecond, "what client backends told pg_stat_activity", |one| {
        time(one, |time| time.activity_reports)
    }),
    measure("time_switches", Unit::PerSecond, "how often processes of the server came on a processor", |one| {
        time(one, |time| time.is_exact().then_some(time.switches))
    }),
    measure("time_explained_ratio", Unit::Ratio, "of the lives of the server's processes, by a clock outside", |one| {
        time(one, |time| time.explained_ratio)
    }),
    measure(
        "time_cost_seconds",
        Unit::Processors,
        "what this account took: programs in the kernel, and who reads them",
        |one| time(one, |time| Some(time.cost_seconds)),
    ),
    measure("time_lost_processes", Unit::PerSecond, "processes that could not be followed", |one| {
        time(one, |time| Some(time.lost_processes))
    }),
    measure("server_cpu_seconds", Unit::Processors, "all processes of the server", |one| {
        Some(one.server_total().cpu_seconds)
    })
    .joined(Join::Mean, "server_cpu")
    .drawn(PROCESSORS, "for the server"),
    measure("generator_cpu_seconds", Unit::Processors, "pgbench, all threads", |one| Some(one.generator().cpu_seconds))
        .joined(Join::Mean, "generator_cpu")
        .drawn(PROCESSORS, "for pgbench"),
    measure("pgthaw_cpu_seconds", Unit::Processors, "pgthaw, all threads", |one| Some(one.pgthaw_cpu_seconds))
        .joined(Join::Mean, "pgthaw_cpu")
        .drawn(PROCESSORS, "for pgthaw"),
    measure("others_cpu_seconds", Unit::Processors, "everybody else", |one| Some(others(one)))
        .joined(Join::Mean, "others_cpu")
        .drawn(PROCESSORS, "for everybody else"),
    measure("processors_steal_seconds", Unit::Processors, "taken by the hypervisor", |one| {
        Some(one.processors_steal_seconds)
    })
    .joined(Join::Mean, "steal_cpu")
    .drawn(PROCESSORS, "taken by the hypervisor"),
    measure("processors_iowait_seconds", Unit::Processors, "idle beside something that waited for a disk", |one| {
        Some(one.processors_iowait_seconds)
    })
    .joined(Join::Mean, "iowait_cpu")
    .drawn(PROCESSORS, "idle, waiting for a disk"),
    measure("processors_busy_seconds", Unit::Processors, "all processors, whoever used them", |one| {
        Some(one.processors_busy_seconds)
    }),
    measure("busiest_thread_cpu_seconds", Unit::Processors, "the thread of pgbench with the most", |one| {
        Some(one.busiest_thread_cpu_seconds())
    })
    .joined(Join::Mean, "busiest_thread_ratio"),
    measure("generator_run_delay_seconds", Unit::Processors, "pgbench: ready to run, waiting for a processor", |one| {
        Some(one.generator().run_delay_seconds)
    }),
    measure("server_run_delay_seconds", Unit::Processors, "the server: ready to run, waiting for a processor", |one| {
        Some(one.server_total().run_delay_seconds)
    })
    .joined(Join::Mean, "server_run_delay"),
    measure("server_involuntary_switches", Unit::PerSecond, "how often a processor was taken from the server", |one| {
        Some(one.server_total().involuntary_switches)
    })
    .joined(Join::Band, "server_involuntary_switches")
    .drawn(SWITCHES, "involuntary context switches"),
    measure("device_writes", Unit::PerSecond, "writes to the data directory's disk, by anybody", |one| {
        device(one, |device| Some(device.writes as f64))
    })
    .joined(Join::Band, "device_writes")
    .drawn(REQUESTS, "writes by anybody"),
    measure("device_written_bytes", Unit::BytesPerSecond, "written to that disk, by anybody", |one| {
        device(one, |device| Some(device.written_bytes.0 as f64))
    })
    .joined(Join::Band, "device_written_bytes")
    .drawn(DEVICE, "written by anybody"),
    measure("device_read_await_us", Unit::Microseconds, "that a read took in the mean, waiting included", |one| {
        device(one, |device| device.read_await_us)
    })
    .joined(Join::Most, "read_await_us")
    .drawn(AWAIT, "a read"),
    measure("device_write_await_us", Unit::Microseconds, "that a write took in the mean, waiting included", |one| {
        device(one, |device| device.write_await_us)
    })
    .joined(Join::Most, "write_await_us")
    .drawn(AWAIT, "a write"),
    measure("device_queue", Unit::Requests, "under way in the mean", |one| device(one, |device| Some(device.queue))),
    measure("device_busy_ratio", Unit::Ratio, "of the second with a request under way", |one| {
        device(one, |device| Some(device.busy_ratio))
    }),
    measure("available_bytes", Unit::Bytes, "memory that could be had", |one| Some(one.available_bytes.0 as f64)),
    measure("cached_bytes", Unit::Bytes, "the page cache", |one| Some(one.cached_bytes.0 as f64)),
    measure("dirty_bytes", Unit::Bytes, "to be written", |one| Some(one.dirty_bytes.0 as f64))
        .joined(Join::Most, "dirty_bytes")
        .drawn(DIRTY, "dirty"),
    measure("writeback_bytes", Unit::Bytes, "being written", |one| Some(one.writeback_bytes.0 as f64))
        .joined(Join::Most, "writeback_bytes")
        .drawn(DIRTY, "being written"),
    measure("pressure_cpu_some", Unit::Ratio, "of the second in which a task waited for a processor", |one| {
        one.pressure.cpu_some
    })
    .joined(Join::Mean, "cpu_pressure")
    .drawn(PRESSURE, "for a processor"),
    measure("pressure_io_some", Unit::Ratio, "in which a task waited for a disk", |one| one.pressure.io_some)
        .joined(Join::Mean, "io_pressure")
        .drawn(PRESSURE, "for a disk"),
    measure("pressure_io_full", Unit::Ratio, "in which all tasks did", |one| one.pressure.io_full),
    measure("pressure_memory_some", Unit::Ratio, "in which a task waited for memory", |one| one.pressure.memory_some)
        .joined(Join::Mean, "memory_pressure")
        .drawn(PRESSURE, "for memory"),
    measure("pressure_memory_full", Unit::Ratio, "in which all tasks did", |one| one.pressure.memory_full),
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

/// The clocks of processes and of processors do not tick together: their difference may fall below nothing.
fn others(one: &OsSample) -> f64 {
    let own = one.server_total().cpu_seconds + one.generator().cpu_seconds + one.pgthaw_cpu_seconds;
    (one.processors_busy_seconds - own).max(0.0)
}

fn device(one: &OsSample, of: fn(&DeviceUse) -> Option<f64>) -> Option<f64> {
    one.device.as_ref().and_then(of)
}

fn time(one: &OsSample, of: fn(&TimeUse) -> Option<f64>) -> Option<f64> {
    one.time.as_ref().and_then(of)
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
