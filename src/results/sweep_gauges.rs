//! Writes and reads what was gauged beside the trials of sweeps, second by second.

use sqlx::types::Json;

use super::columns::{bytes_of, json_of, number_of, optional_number_of};
use super::database::{Row, Values};
use super::write::{sql_bytes, sql_integer};
use crate::study::{DeviceUse, OsSample, PressureRatios, WaitSample, Waits};
use crate::units::Bytes;

pub(super) const INSERT_OS_SAMPLE: &str = "
INSERT INTO sweep_os_samples (
    sweep_id, number, repeat, second, generator_cpu_seconds, generator_run_delay_seconds, busiest_thread_cpu_seconds,
    generator_threads, server_cpu_seconds, server_run_delay_seconds, server, pgthaw_cpu_seconds, processors_busy_seconds,
    processors_iowait_seconds, processors_steal_seconds, device_reads, device_read_bytes, device_writes,
    device_written_bytes, device_read_await_us, device_write_await_us, device_queue, device_busy_ratio, available_bytes,
    cached_bytes, dirty_bytes, writeback_bytes, pressure_cpu_some, pressure_io_some, pressure_io_full,
    pressure_memory_some, pressure_memory_full)";

pub(super) const INSERT_WAIT_SAMPLE: &str = "
INSERT INTO sweep_wait_samples (sweep_id, number, repeat, second, looks, waits)";

/// Behind the values that say which trial.
pub(super) fn os_sample_values(key: Values, sample: &OsSample) -> Values {
    let (generator, server, device) = (sample.generator(), sample.server_total(), sample.device.as_ref());
    key.bind(i64::from(sample.second))
        .bind(generator.cpu_seconds)
        .bind(generator.run_delay_seconds)
        .bind(sample.busiest_thread_cpu_seconds())
        .bind(Json(&sample.generator_threads))
        .bind(server.cpu_seconds)
        .bind(server.run_delay_seconds)
        .bind(Json(&sample.server))
        .bind(sample.pgthaw_cpu_seconds)
        .bind(sample.processors_busy_seconds)
        .bind(sample.processors_iowait_seconds)
        .bind(sample.processors_steal_seconds)
        .bind(device.map(|device| sql_integer(device.reads)))
        .bind(device.map(|device| sql_bytes(device.read_bytes)))
        .bind(device.map(|device| sql_integer(device.writes)))
        .bind(device.map(|device| sql_bytes(device.written_bytes)))
        .bind(device.and_then(|device| device.read_await_us))
        .bind(device.and_then(|device| device.write_await_us))
        .bind(device.map(|device| device.queue))
        .bind(device.map(|device| device.busy_ratio))
        .bind(sql_bytes(sample.available_bytes))
        .bind(sql_bytes(sample.cached_bytes))
        .bind(sql_bytes(sample.dirty_bytes))
        .bind(sql_bytes(sample.writeback_bytes))
        .bind(sample.pressure.cpu_some)
        .bind(sample.pressure.io_some)
        .bind(sample.pressure.io_full)
        .bind(sample.pressure.memory_some)
        .bind(sample.pressure.memory_full)
}

pub(super) fn os_sample_from(row: &Row) -> Result<OsSample, sqlx::Error> {
    Ok(OsSample {
        second: number_of(row, "second")?,
        generator_threads: json_of(row, "generator_threads")?,
        server: json_of(row, "server")?,
        pgthaw_cpu_seconds: row.try_get("pgthaw_cpu_seconds")?,
        processors_busy_seconds: row.try_get("processors_busy_seconds")?,
        processors_iowait_seconds: row.try_get("processors_iowait_seconds")?,
        processors_steal_seconds: row.try_get("processors_steal_seconds")?,
        device: device_from(row)?,
        available_bytes: bytes_of(row, "available_bytes")?,
        cached_bytes: bytes_of(row, "cached_bytes")?,
        dirty_bytes: bytes_of(row, "dirty_bytes")?,
        writeback_bytes: bytes_of(row, "writeback_bytes")?,
        pressure: PressureRatios {
            cpu_some: row.try_get("pressure_cpu_some")?,
            io_some: row.try_get("pressure_io_some")?,
            io_full: row.try_get("pressure_io_full")?,
            memory_some: row.try_get("pressure_memory_some")?,
            memory_full: row.try_get("pressure_memory_full")?,
        },
    })
}

fn device_from(row: &Row) -> Result<Option<DeviceUse>, sqlx::Error> {
    let Some(reads) = optional_number_of(row, "device_reads")? else { return Ok(None) };
    let bytes = |column| optional_number_of(row, column).map(|bytes| Bytes(bytes.unwrap_or_default()));
    Ok(Some(DeviceUse {
        reads,
        read_bytes: bytes("device_read_bytes")?,
        writes: optional_number_of(row, "device_writes")?.unwrap_or_default(),
        written_bytes: bytes("device_written_bytes")?,
        read_await_us: row.try_get("device_read_await_us")?,
        write_await_us: row.try_get("device_write_await_us")?,
        queue: row.try_get::<Option<f64>>("device_queue")?.unwrap_or_default(),
        busy_ratio: row.try_get::<Option<f64>>("device_busy_ratio")?.unwrap_or_default(),
    }))
}

/// Behind the values that say which trial.
pub(super) fn wait_sample_values(key: Values, sample: &WaitSample) -> Values {
    key.bind(i64::from(sample.second)).bind(i64::from(sample.seen.looks)).bind(Json(&sample.seen.waits))
}

pub(super) fn wait_sample_from(row: &Row) -> Result<WaitSample, sqlx::Error> {
    let seen = Waits { looks: number_of(row, "looks")?, waits: json_of(row, "waits")? };
    Ok(WaitSample { second: number_of(row, "second")?, seen })
}
