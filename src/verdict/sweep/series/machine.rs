//! What the machine did in the spans of a trial.

use serde::Serialize;

use super::column::{Column, mean_of, most_of, round};
use crate::study::{DeviceUse, OsSample};

/// Column by column as the other curves; `None` in a span that was not gauged.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineSeries {
    /// Processors that were at work for the server, for pgbench, for pgthaw and for everybody else, in the mean.
    pub server_cpu: Column,
    pub generator_cpu: Column,
    pub pgthaw_cpu: Column,
    pub others_cpu: Column,
    /// Processors that were idle beside something that waited for a disk, and that the hypervisor took.
    pub iowait_cpu: Column,
    pub steal_cpu: Column,
    /// Of pgbench's busiest thread, 0 to 1.
    pub busiest_thread_ratio: Column,
    /// Processes of the server that were ready and waited for a processor, in the mean.
    pub server_run_delay: Column,
    /// Bytes per second, in the mean, in the quietest and in the busiest second of the span.
    pub device_written_bytes: Column,
    pub device_written_bytes_min: Column,
    pub device_written_bytes_max: Column,
    /// Microseconds, as the slowest second of the span had it.
    pub read_await_us: Column,
    pub write_await_us: Column,
    /// At their most.
    pub dirty_bytes: Column,
    pub writeback_bytes: Column,
    /// Shares of time in which some task waited (PSI), in the mean.
    pub cpu_pressure: Column,
    pub io_pressure: Column,
    pub memory_pressure: Column,
}

impl MachineSeries {
    /// One span after the other; a span may be empty.
    pub fn new(spans: &[&[OsSample]]) -> MachineSeries {
        let column =
            |of: &dyn Fn(&[OsSample]) -> Option<f64>| -> Column { spans.iter().map(|span| of(span)).collect() };
        let mean = |of: fn(&OsSample) -> Option<f64>| column(&|span| mean_of(span, of).map(round));
        let most = |of: fn(&OsSample) -> Option<f64>| column(&|span| most_of(span, of).map(f64::round));
        MachineSeries {
            server_cpu: mean(|one| Some(one.server_total().cpu_seconds)),
            generator_cpu: mean(|one| Some(one.generator().cpu_seconds)),
            pgthaw_cpu: mean(|one| Some(one.pgthaw_cpu_seconds)),
            others_cpu: mean(|one| Some(others(one))),
            iowait_cpu: mean(|one| Some(one.processors_iowait_seconds)),
            steal_cpu: mean(|one| Some(one.processors_steal_seconds)),
            busiest_thread_ratio: mean(|one| Some(one.busiest_thread_cpu_seconds())),
            server_run_delay: mean(|one| Some(one.server_total().run_delay_seconds)),
            device_written_bytes: mean(written),
            device_written_bytes_min: column(&|span| {
                most_of(span, |one| written(one).map(|bytes| -bytes)).map(|least| -least)
            }),
            device_written_bytes_max: most(written),
            read_await_us: most(|one| device(one, |device| device.read_await_us)),
            write_await_us: most(|one| device(one, |device| device.write_await_us)),
            dirty_bytes: most(|one| Some(one.dirty_bytes.0 as f64)),
            writeback_bytes: most(|one| Some(one.writeback_bytes.0 as f64)),
            cpu_pressure: mean(|one| one.pressure.cpu_some),
            io_pressure: mean(|one| one.pressure.io_some),
            memory_pressure: mean(|one| one.pressure.memory_some),
        }
    }
}

/// The clocks of processes and of processors do not tick together: their difference may fall below nothing.
fn others(one: &OsSample) -> f64 {
    let own = one.server_total().cpu_seconds + one.generator().cpu_seconds + one.pgthaw_cpu_seconds;
    (one.processors_busy_seconds - own).max(0.0)
}

fn written(one: &OsSample) -> Option<f64> {
    device(one, |device| Some(device.written_bytes.0 as f64))
}

fn device(one: &OsSample, of: impl Fn(&DeviceUse) -> Option<f64>) -> Option<f64> {
    one.device.as_ref().and_then(of)
}
