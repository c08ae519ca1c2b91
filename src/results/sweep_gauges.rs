//! Writes and reads what was gauged beside the trials of sweeps, second by second.

use sqlx::sqlite::SqliteRow;
use sqlx::types::Json;
use sqlx::{Row as _, Sqlite, Transaction};

use super::read::{bytes_of, json_of, number_of, optional_number_of};
use super::write::{sql_bytes, sql_integer};
use crate::bench::SweepTrial;
use crate::observe::{DeviceUse, OsSample, PressureRatios, WaitSample, Waits};
use crate::units::Bytes;

const INSERT_OS_SAMPLE: &str = "
INSERT INTO sweep_os_samples (
    sweep_id, number, repeat, second, generator_cpu_seconds, generator_run_delay_seconds, busiest_thread_cpu_seconds,
    generator_threads, server_cpu_seconds, server_run_delay_seconds, server, pgthaw_cpu_seconds, processors_busy_seconds,
    processors_iowait_seconds, processors_steal_seconds, device_reads, device_read_bytes, device_writes,
    device_written_bytes, device_read_await_us, device_write_await_us, device_queue, device_busy_ratio, available_bytes,
    cached_bytes, dirty_bytes, writeback_bytes, pressure_cpu_some, pressure_io_some, pressure_io_full,
    pressure_memory_some, pressure_memory_full)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27, $28, $29, $30, $31, $32)";

const INSERT_WAIT_SAMPLE: &str = "
INSERT INTO sweep_wait_samples (sweep_id, number, repeat, second, looks, waits) VALUES ($1, $2, $3, $4, $5, $6)";

pub(super) const SELECT_OS_SAMPLES: &str =
    "SELECT * FROM sweep_os_samples WHERE sweep_id = $1 ORDER BY number, repeat, second";

pub(super) const SELECT_WAIT_SAMPLES: &str =
    "SELECT * FROM sweep_wait_samples WHERE sweep_id = $1 ORDER BY number, repeat, second";

pub(super) async fn insert_os_sample(
    transaction: &mut Transaction<'_, Sqlite>,
    trial: &SweepTrial,
    sample: &OsSample,
) -> Result<(), sqlx::Error> {
    let (generator, server, device) = (sample.generator(), sample.server_total(), sample.device.as_ref());
    sqlx::query(INSERT_OS_SAMPLE)
        .bind(&trial.sweep_id)
        .bind(i64::from(trial.number))
        .bind(i64::from(trial.repeat))
        .bind(i64::from(sample.second))
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
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

pub(super) fn os_sample_from(row: &SqliteRow) -> Result<OsSample, sqlx::Error> {
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

fn device_from(row: &SqliteRow) -> Result<Option<DeviceUse>, sqlx::Error> {
    let Some(reads) = optional_number_of(row, "device_reads")? else { return Ok(None) };
    let bytes = |column| optional_number_of(row, column).map(|bytes| Bytes(bytes.unwrap_or_default()));
    Ok(Some(DeviceUse {
        reads,
        read_bytes: bytes("device_read_bytes")?,
        writes: optional_number_of(row, "device_writes")?.unwrap_or_default(),
        written_bytes: bytes("device_written_bytes")?,
        read_await_us: row.try_get("device_read_await_us")?,
        write_await_us: row.try_get("device_write_await_us")?,
        queue: row.try_get::<Option<f64>, _>("device_queue")?.unwrap_or_default(),
        busy_ratio: row.try_get::<Option<f64>, _>("device_busy_ratio")?.unwrap_or_default(),
    }))
}

pub(super) async fn insert_wait_sample(
    transaction: &mut Transaction<'_, Sqlite>,
    trial: &SweepTrial,
    sample: &WaitSample,
) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_WAIT_SAMPLE)
        .bind(&trial.sweep_id)
        .bind(i64::from(trial.number))
        .bind(i64::from(trial.repeat))
        .bind(i64::from(sample.second))
        .bind(i64::from(sample.seen.looks))
        .bind(Json(&sample.seen.waits))
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

pub(super) fn wait_sample_from(row: &SqliteRow) -> Result<WaitSample, sqlx::Error> {
    let seen = Waits { looks: number_of(row, "looks")?, waits: json_of(row, "waits")? };
    Ok(WaitSample { second: number_of(row, "second")?, seen })
}
