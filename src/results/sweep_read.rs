//! Reads sweeps and their trials back.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::columns::{
    bytes_of, json_of, missing, number_of, optional_json_of, optional_number_of, optional_time_of, time_of, unreadable,
};
use super::database::{Query, Row};
use super::names::{Kind, Named, choose};
use super::read::{sample_from, start_state_of};
use super::sweep_gauges::{os_sample_from, wait_sample_from};
use super::{Error, NEWEST, Store};
use crate::study::{LatencyHistogram, Record as _, ScriptLatency, SweepRun, SweepTrial};

impl Named for SweepRun {
    fn id(&self) -> &str {
        &self.id
    }
}

impl Store {
    /// All sweeps, the newest first.
    pub async fn read_sweeps(&self) -> Result<Vec<SweepRun>, Error> {
        self.read(Query::new("SELECT * FROM sweeps ORDER BY started_at DESC, id DESC"), sweep_from).await
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

    /// The newest sweep of this meaning on this host, when it did not get to its end. Older ones were given up.
    pub async fn find_unfinished_sweep(&self, digest: &str, hostname: &str) -> Result<Option<SweepRun>, Error> {
        let sweeps = self.read_sweeps().await?;
        let newest = sweeps.into_iter().find(|sweep| sweep.digest == digest && sweep.machine.hostname == hostname);
        Ok(newest.filter(|sweep| sweep.ended_at.is_none()))
    }

    /// Ids of the sweeps that are gone on with: of each study on its host the newest, if it did not get to its end.
    pub async fn read_unfinished_sweeps(&self) -> Result<BTreeSet<String>, Error> {
        let mut known = HashSet::new();
        let mut sweeps = self.read_sweeps().await?;
        sweeps.retain(|sweep| known.insert((sweep.digest.clone(), sweep.machine.hostname.clone())));
        sweeps.retain(|sweep| sweep.ended_at.is_none());
        Ok(sweeps.into_iter().map(|sweep| sweep.id).collect())
    }

    /// Point's number and repeat of the trials of a sweep.
    pub async fn read_finished(&self, sweep_id: &str) -> Result<BTreeSet<(u32, u32)>, Error> {
        let query = Query::new("SELECT number, repeat FROM sweep_trials WHERE sweep_id = $1").bind(sweep_id);
        Ok(self.read(query, key_of).await?.into_iter().collect())
    }

    /// The trials of a sweep without their seconds and scripts, in the order in which they ran.
    pub async fn read_sweep_outcomes(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        self.read(Of::sweep(sweep_id).select("sweep_trials", "position"), trial_from).await
    }

    /// The trials of a sweep with every second of them, in the order in which they ran.
    pub async fn read_sweep_trials(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        self.read_whole_trials(&Of::sweep(sweep_id)).await
    }

    /// One trial with every second of it; `None` when there is none.
    pub async fn read_sweep_trial(
        &self,
        sweep_id: &str,
        number: u32,
        repeat: u32,
    ) -> Result<Option<SweepTrial>, Error> {
        let of = Of { sweep_id, only: Some((number, repeat)) };
        Ok(self.read_whole_trials(&of).await?.pop())
    }

    async fn read_whole_trials(&self, of: &Of<'_>) -> Result<Vec<SweepTrial>, Error> {
        let mut trials = self.read(of.select("sweep_trials", "position"), trial_from).await?;
        let query = of.select("sweep_scripts", "number, repeat, place");
        self.read_parts(query, script_from, &mut trials, |trial, script| trial.scripts.push(script)).await?;
        self.add_samples_of(of, &mut trials).await?;
        let query = of.select("sweep_os_samples", "number, repeat, second");
        self.read_parts(query, os_sample_from, &mut trials, |trial, sample| trial.os_samples.push(sample)).await?;
        let query = of.select("sweep_wait_samples", "number, repeat, second");
        self.read_parts(query, wait_sample_from, &mut trials, |trial, sample| trial.wait_samples.push(sample)).await?;
        Ok(trials)
    }

    /// Gives the trials of a sweep their seconds.
    pub(super) async fn add_samples(&self, sweep_id: &str, trials: &mut [SweepTrial]) -> Result<(), Error> {
        self.add_samples_of(&Of::sweep(sweep_id), trials).await
    }

    async fn add_samples_of(&self, of: &Of<'_>, trials: &mut [SweepTrial]) -> Result<(), Error> {
        let query = of.select("sweep_samples", "number, repeat, second");
        self.read_parts(query, sample_from, trials, |trial, sample| trial.samples.push(sample)).await
    }

    /// Gives each row of a query over the trials' sweep to the trial that it belongs to.
    async fn read_parts<T>(
        &self,
        query: Query,
        part_from: impl Fn(&Row) -> Result<T, sqlx::Error>,
        trials: &mut [SweepTrial],
        give: impl Fn(&mut SweepTrial, T),
    ) -> Result<(), Error> {
        let places: HashMap<(u32, u32), usize> =
            trials.iter().enumerate().map(|(place, trial)| ((trial.number, trial.repeat), place)).collect();
        for (key, part) in self.read(query, |row| Ok((key_of(row)?, part_from(row)?))).await? {
            if let Some(place) = places.get(&key) {
                give(&mut trials[*place], part);
            }
        }
        Ok(())
    }
}

/// Which trials of a sweep are read: all, or the one with this number and repeat.
struct Of<'a> {
    sweep_id: &'a str,
    only: Option<(u32, u32)>,
}

impl<'a> Of<'a> {
    fn sweep(sweep_id: &'a str) -> Of<'a> {
        Of { sweep_id, only: None }
    }

    fn select(&self, table: &str, order: &str) -> Query {
        let which = if self.only.is_some() { " AND number = $2 AND repeat = $3" } else { "" };
        let query = Query::new(format!("SELECT * FROM {table} WHERE sweep_id = $1{which} ORDER BY {order}"));
        let query = query.bind(self.sweep_id);
        self.only.iter().fold(query, |query, (number, repeat)| query.bind(i64::from(*number)).bind(i64::from(*repeat)))
    }
}

/// Number of the point, and repeat.
fn key_of(row: &Row) -> Result<(u32, u32), sqlx::Error> {
    Ok((number_of(row, "number")?, number_of(row, "repeat")?))
}

fn sweep_from(row: &Row) -> Result<SweepRun, sqlx::Error> {
    let seed: String = row.try_get("seed")?;
    let mut sweep = SweepRun {
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
        source: row.try_get("source")?,
        warmup: optional_json_of(row, "warmup")?,
    };
    sweep.hide_secrets();
    Ok(sweep)
}

fn trial_from(row: &Row) -> Result<SweepTrial, sqlx::Error> {
    let verdict: Option<String> = row.try_get("start_verdict")?;
    let mut trial = SweepTrial {
        sweep_id: row.try_get("sweep_id")?,
        number: number_of(row, "number")?,
        point: json_of(row, "point")?,
        repeat: number_of(row, "repeat")?,
        position: number_of(row, "position")?,
        started_at: time_of(row, "started_at")?,
        start_state: verdict.map(|_| start_state_of(row)).transpose()?,
        command: row.try_get("command")?,
        generators: optional_json_of(row, "generators")?,
        failure: row.try_get("failure")?,
        lasted_seconds: row.try_get("lasted_seconds")?,
        transactions: number_of(row, "transactions")?,
        failed: number_of(row, "failed")?,
        skipped: number_of(row, "skipped")?,
        retried: optional_number_of(row, "retried")?.unwrap_or_default(),
        retries: optional_number_of(row, "retries")?.unwrap_or_default(),
        late: optional_number_of(row, "late")?.unwrap_or_default(),
        file_system: optional_json_of(row, "file_system")?,
        server_version: row.try_get("server_version")?,
        strategy_outcome: optional_json_of(row, "strategy_outcome")?,
        warming: optional_json_of(row, "warming")?,
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
    };
    trial.hide_secrets();
    Ok(trial)
}

fn script_from(row: &Row) -> Result<ScriptLatency, sqlx::Error> {
    Ok(ScriptLatency {
        script: row.try_get("script")?,
        answered: number_of(row, "answered")?,
        failed: number_of(row, "failed")?,
        skipped: number_of(row, "skipped")?,
        response: histogram_of(row, "response")?.ok_or_else(|| missing("response"))?,
        service: histogram_of(row, "service")?,
    })
}

fn histogram_of(row: &Row, column: &str) -> Result<Option<LatencyHistogram>, sqlx::Error> {
    let encoded: Option<Vec<u8>> = row.try_get(column)?;
    let decode = |encoded: Vec<u8>| LatencyHistogram::decode(&encoded).map_err(|error| unreadable(column, error));
    encoded.map(decode).transpose()
}
