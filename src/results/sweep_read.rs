//! Reads sweeps and their trials back.

use std::collections::{BTreeSet, HashMap};

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use super::names::{Kind, Named, choose};
use super::read::{
    bytes_of, json_of, number_of, optional_json_of, optional_number_of, optional_time_of, start_state_of, time_of,
    unreadable,
};
use super::sweep_gauges::{SELECT_OS_SAMPLES, SELECT_WAIT_SAMPLES, os_sample_from, wait_sample_from};
use super::{Error, NEWEST, Store};
use crate::bench::{LatencyHistogram, ScriptLatency, SweepRun, SweepSample, SweepTrial};

impl Named for SweepRun {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Store {
    /// All sweeps, the newest first.
    pub async fn read_sweeps(&self) -> Result<Vec<SweepRun>, Error> {
        let rows = sqlx::query("SELECT * FROM sweeps ORDER BY started_at DESC, id DESC").fetch_all(&self.pool).await;
        let rows = rows.map_err(self.failed_to("read"))?;
        rows.iter().map(|row| sweep_from(row).map_err(self.failed_to("read"))).collect()
    }

    /// The sweep that is meant: by its id, by the first characters of it when no other begins so, or `newest`. `None`:
    /// no sweep is.
    pub async fn find_sweep(&self, wanted: &str) -> Result<Option<SweepRun>, Error> {
        let sweeps = self.read_sweeps().await?;
        if wanted == NEWEST {
            let is_newest = self.read_newest_kind().await? == Some(Kind::Sweep);
            return Ok(sweeps.into_iter().next().filter(|_| is_newest));
        }
        choose(sweeps, wanted)
    }

    /// The newest sweep of this meaning on this host that did not get to its end.
    pub async fn find_unfinished_sweep(&self, digest: &str, hostname: &str) -> Result<Option<SweepRun>, Error> {
        let sweeps = self.read_sweeps().await?;
        let is_left =
            |sweep: &SweepRun| sweep.ended_at.is_none() && sweep.digest == digest && sweep.machine.hostname == hostname;
        Ok(sweeps.into_iter().find(is_left))
    }

    /// Point's number and repeat of the trials of a sweep.
    pub async fn read_finished(&self, sweep_id: &str) -> Result<BTreeSet<(u32, u32)>, Error> {
        let rows = sqlx::query("SELECT number, repeat FROM sweep_trials WHERE sweep_id = $1");
        let rows = rows.bind(sweep_id).fetch_all(&self.pool).await.map_err(self.failed_to("read"))?;
        let key = |row: &SqliteRow| Ok((number_of(row, "number")?, number_of(row, "repeat")?));
        rows.iter().map(key).collect::<Result<_, sqlx::Error>>().map_err(self.failed_to("read"))
    }

    /// The trials of a sweep without their seconds and scripts, in the order in which they ran.
    pub async fn read_sweep_outcomes(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        let query = "SELECT * FROM sweep_trials WHERE sweep_id = $1 ORDER BY position";
        let rows = sqlx::query(query).bind(sweep_id).fetch_all(&self.pool).await.map_err(self.failed_to("read"))?;
        rows.iter().map(|row| trial_from(row).map_err(self.failed_to("read"))).collect()
    }

    /// The trials of a sweep with every second of them, in the order in which they ran.
    pub async fn read_sweep_trials(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        let mut trials = self.read_sweep_outcomes(sweep_id).await?;
        let query = "SELECT * FROM sweep_scripts WHERE sweep_id = $1 ORDER BY number, repeat, place";
        self.read_parts(query, script_from, &mut trials, |trial, script| trial.scripts.push(script)).await?;
        let query = "SELECT * FROM sweep_samples WHERE sweep_id = $1 ORDER BY number, repeat, second";
        self.read_parts(query, sample_from, &mut trials, |trial, sample| trial.samples.push(sample)).await?;
        let query = SELECT_OS_SAMPLES;
        self.read_parts(query, os_sample_from, &mut trials, |trial, sample| trial.os_samples.push(sample)).await?;
        let query = SELECT_WAIT_SAMPLES;
        self.read_parts(query, wait_sample_from, &mut trials, |trial, sample| trial.wait_samples.push(sample)).await?;
        Ok(trials)
    }

    /// Gives each row of a query over the trials' sweep to the trial that it belongs to.
    async fn read_parts<T>(
        &self,
        query: &'static str,
        part_from: impl Fn(&SqliteRow) -> Result<T, sqlx::Error>,
        trials: &mut [SweepTrial],
        give: impl Fn(&mut SweepTrial, T),
    ) -> Result<(), Error> {
        let Some(first) = trials.first() else { return Ok(()) };
        let rows = sqlx::query(query).bind(&first.sweep_id).fetch_all(&self.pool).await;
        let rows = rows.map_err(self.failed_to("read"))?;
        let places: HashMap<(u32, u32), usize> =
            trials.iter().enumerate().map(|(place, trial)| ((trial.number, trial.repeat), place)).collect();
        let part = |row: &SqliteRow| -> Result<_, sqlx::Error> {
            Ok(((number_of(row, "number")?, number_of(row, "repeat")?), part_from(row)?))
        };
        for row in &rows {
            let (key, part) = part(row).map_err(self.failed_to("read"))?;
            if let Some(place) = places.get(&key) {
                give(&mut trials[*place], part);
            }
        }
        Ok(())
    }
}

fn sweep_from(row: &SqliteRow) -> Result<SweepRun, sqlx::Error> {
    let seed: String = row.try_get("seed")?;
    Ok(SweepRun {
        id: row.try_get("id")?,
        started_at: time_of(row, "started_at")?,
        ended_at: optional_time_of(row, "ended_at")?,
        pgthaw_version: row.try_get("pgthaw_version")?,
        pgbench_version: row.try_get("pgbench_version")?,
        machine: json_of(row, "machine")?,
        server: json_of(row, "server")?,
        configuration: optional_json_of(row, "configuration")?.unwrap_or_default(),
        question: row.try_get("question")?,
        digest: row.try_get("digest")?,
        study: json_of(row, "study")?,
        varied: json_of(row, "varied")?,
        points: number_of(row, "points")?,
        repeats: number_of(row, "repeats")?,
        seed: seed.parse().map_err(|error: std::num::ParseIntError| unreadable("seed", error))?,
        generator: optional_json_of(row, "generator")?.unwrap_or_default(),
        verdicts: optional_json_of(row, "verdicts")?.unwrap_or_default(),
        warnings: json_of(row, "warnings")?,
    })
}

fn trial_from(row: &SqliteRow) -> Result<SweepTrial, sqlx::Error> {
    let verdict: Option<String> = row.try_get("start_verdict")?;
    Ok(SweepTrial {
        sweep_id: row.try_get("sweep_id")?,
        number: number_of(row, "number")?,
        point: json_of(row, "point")?,
        repeat: number_of(row, "repeat")?,
        position: number_of(row, "position")?,
        started_at: time_of(row, "started_at")?,
        start_state: verdict.map(|_| start_state_of(row)).transpose()?,
        command: row.try_get("command")?,
        failure: row.try_get("failure")?,
        lasted_seconds: row.try_get("lasted_seconds")?,
        transactions: number_of(row, "transactions")?,
        failed: number_of(row, "failed")?,
        skipped: number_of(row, "skipped")?,
        retried: optional_number_of(row, "retried")?.unwrap_or_default(),
        retries: optional_number_of(row, "retries")?.unwrap_or_default(),
        tps: row.try_get("tps")?,
        worst_second_tps: row.try_get("worst_second_tps")?,
        latency: histogram_of(row, "latency")?,
        samples: Vec::new(),
        os_samples: Vec::new(),
        wait_samples: Vec::new(),
        waits: optional_json_of(row, "waits")?.unwrap_or_default(),
        scripts: Vec::new(),
        statistics: json_of(row, "statistics")?,
        buffers_before: json_of(row, "buffers_before")?,
        buffers_after: json_of(row, "buffers_after")?,
        checkpoints: json_of(row, "checkpoints")?,
        checkpoint_begun: optional_json_of::<Option<_>>(row, "checkpoint_begun")?.flatten(),
        checkpoint_cycles: optional_number_of(row, "checkpoint_cycles")?.unwrap_or_default() as u32,
        cycle_tps: row.try_get("cycle_tps")?,
        settings: json_of(row, "settings")?,
        device_read_bytes: bytes_of(row, "device_read_bytes")?,
        verdicts: optional_json_of(row, "verdicts")?.unwrap_or_default(),
        warnings: json_of(row, "warnings")?,
    })
}

fn script_from(row: &SqliteRow) -> Result<ScriptLatency, sqlx::Error> {
    let nothing = || unreadable("response", std::io::Error::other("there is none"));
    Ok(ScriptLatency {
        script: row.try_get("script")?,
        answered: number_of(row, "answered")?,
        failed: number_of(row, "failed")?,
        skipped: number_of(row, "skipped")?,
        response: histogram_of(row, "response")?.ok_or_else(nothing)?,
        service: histogram_of(row, "service")?,
    })
}

fn histogram_of(row: &SqliteRow, column: &str) -> Result<Option<LatencyHistogram>, sqlx::Error> {
    let encoded: Option<Vec<u8>> = row.try_get(column)?;
    let decode = |encoded: Vec<u8>| LatencyHistogram::decode(&encoded).map_err(|error| unreadable(column, error));
    encoded.map(decode).transpose()
}

fn sample_from(row: &SqliteRow) -> Result<SweepSample, sqlx::Error> {
    Ok(SweepSample {
        second: number_of(row, "second")?,
        monotonic_ms: number_of(row, "monotonic_ms")?,
        wall_ms: row.try_get("wall_ms")?,
        transactions: number_of(row, "transactions")?,
        latency_us_mean: row.try_get("latency_us_mean")?,
        latency_us_min: optional_number_of(row, "latency_us_min")?,
        latency_us_max: optional_number_of(row, "latency_us_max")?,
        foreground_read_bytes: bytes_of(row, "foreground_read_bytes")?,
        device_read_bytes: bytes_of(row, "device_read_bytes")?,
        device_reads: number_of(row, "device_reads")?,
        os_resident_bytes: bytes_of(row, "os_resident_bytes")?,
    })
}
