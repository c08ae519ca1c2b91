//! Reads what pictures of a sweep need, and no more: a large one is not read second by second.

use sqlx::types::Json;

use super::columns::{json_of, number_of, optional_json_of, optional_number_of, time_of};
use super::database::{Query, Row, Values};
use super::write::{sql_integer, sql_time};
use super::{Error, NEWEST, Store};
use crate::postgres::StatisticsDelta;
use crate::study::{Checkpoint, SweepRun, SweepTrial};
use crate::verdict::{
    BackgroundWrites, Metric, Noise, Selection, TrialOutline, add_warming_figures, compute_noises, is_twice,
};

const OUTLINES: &str = "SELECT * FROM sweep_outlines WHERE sweep_id = $1";

/// Of trials that are older than outlines.
const WITHOUT_OUTLINE: &str = "
SELECT number, repeat, position, started_at, point, start_verdict, failure, tps, worst_second_tps, latency_us_p50,
       latency_us_p95, latency_us_p99, latency_us_p999, device_read_bytes, NULL AS device_writes_per_second,
       NULL AS device_written_bytes, late, skipped, checkpoints, statistics, verdicts, warnings, NULL AS warming
FROM sweep_trials
WHERE sweep_id = $1
  AND NOT EXISTS (
      SELECT 1
      FROM sweep_outlines
      WHERE sweep_outlines.sweep_id = sweep_trials.sweep_id
        AND sweep_outlines.number = sweep_trials.number
        AND sweep_outlines.repeat = sweep_trials.repeat)";

pub(super) const INSERT_OUTLINE: &str = "
INSERT INTO sweep_outlines (
    sweep_id, number, repeat, position, started_at, point, start_verdict, failure, tps, worst_second_tps, latency_us_p50,
    latency_us_p95, latency_us_p99, latency_us_p999, device_read_bytes, device_writes_per_second, device_written_bytes, late,
    skipped, checkpoint_count, background, verdicts, warnings, warming)";

/// Of so many trials the noise is computed while somebody waits for a page.
const NOISE_TRIALS_MAX: u32 = 1000;

impl Store {
    /// The trials of a sweep in a few figures, in the order in which they ran.
    pub async fn read_sweep_outlines(&self, sweep_id: &str) -> Result<Vec<TrialOutline>, Error> {
        let mut outlines = self.read(Query::new(OUTLINES).bind(sweep_id), kept_outline_from).await?;
        outlines.extend(self.read(Query::new(WITHOUT_OUTLINE).bind(sweep_id), outline_of_trial_from).await?);
        outlines.sort_by_key(|outline| outline.position);
        add_warming_figures(&mut outlines);
        Ok(outlines)
    }

    /// What equal sides of a sweep differ by; nothing when it does not measure its points twice, or is too large to tell at
    /// once: `results noise` does.
    pub async fn read_noise(&self, sweep: &SweepRun) -> Result<Vec<Noise>, Error> {
        if !is_twice(sweep) || sweep.points.saturating_mul(sweep.repeats) > NOISE_TRIALS_MAX {
            return Ok(Vec::new());
        }
        Ok(compute_noises(sweep, &self.read_comparable_trials(&sweep.id).await?))
    }

    /// The sweep that a side of a comparison means, with its trials.
    pub async fn read_side(&self, side: &Selection) -> Result<(SweepRun, Vec<SweepTrial>), Error> {
        self.read_sweep_or_newest(side.sweep.as_deref()).await
    }

    /// A sweep, the newest of them when none is named, with its trials as they are compared.
    pub async fn read_sweep_or_newest(&self, wanted: Option<&str>) -> Result<(SweepRun, Vec<SweepTrial>), Error> {
        let run = match wanted {
            Some(wanted) => self.find_sweep(wanted).await?,
            // Of the sweeps alone, even when a tournament came later.
            None => self.read_sweeps().await?.into_iter().next(),
        };
        let run = run.ok_or_else(|| Error::UnknownRun(wanted.unwrap_or(NEWEST).to_owned()))?;
        let trials = self.read_comparable_trials(&run.id).await?;
        Ok((run, trials))
    }

    /// With their seconds where these are needed to cut trials to whole cycles of checkpoints.
    async fn read_comparable_trials(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        let mut trials = self.read_sweep_outcomes(sweep_id).await?;
        if trials.iter().any(|trial| trial.checkpoint_cycles > 0) {
            self.add_samples(sweep_id, &mut trials).await?;
        }
        Ok(trials)
    }
}

fn kept_outline_from(row: &Row) -> Result<TrialOutline, sqlx::Error> {
    outline_from(row, number_of(row, "checkpoint_count")?, json_of(row, "background")?)
}

fn outline_of_trial_from(row: &Row) -> Result<TrialOutline, sqlx::Error> {
    let statistics: StatisticsDelta = json_of(row, "statistics")?;
    let checkpoints: Vec<Checkpoint> = json_of(row, "checkpoints")?;
    outline_from(row, checkpoints.len() as u32, BackgroundWrites::of(&statistics))
}

fn outline_from(row: &Row, checkpoints: u32, background: BackgroundWrites) -> Result<TrialOutline, sqlx::Error> {
    let whole = |column: &str| Ok::<_, sqlx::Error>(optional_number_of(row, column)?.map(|number| number as f64));
    let figures = [
        (Metric::Tps, row.try_get("tps")?),
        (Metric::WorstSecond, row.try_get("worst_second_tps")?),
        (Metric::P50, whole("latency_us_p50")?),
        (Metric::P95, whole("latency_us_p95")?),
        (Metric::P99, whole("latency_us_p99")?),
        (Metric::P999, whole("latency_us_p999")?),
        (Metric::DeviceRead, whole("device_read_bytes")?),
        (Metric::DeviceWrites, row.try_get("device_writes_per_second")?),
        (Metric::DeviceWritten, whole("device_written_bytes")?),
        (Metric::Late, Some(whole("late")?.unwrap_or_default())),
        (Metric::Skipped, whole("skipped")?),
        (Metric::Checkpoints, Some(checkpoints.into())),
    ];
    Ok(TrialOutline {
        number: number_of(row, "number")?,
        repeat: number_of(row, "repeat")?,
        position: number_of(row, "position")?,
        started_at: time_of(row, "started_at")?,
        start_verdict: row.try_get("start_verdict")?,
        failure: row.try_get("failure")?,
        figures: figures.into_iter().collect(),
        point: json_of(row, "point")?,
        verdicts: optional_json_of(row, "verdicts")?.unwrap_or_default(),
        warnings: json_of(row, "warnings")?,
        background,
        warming: optional_json_of(row, "warming")?,
    })
}

/// Behind the values that say which trial.
pub(super) fn outline_values(key: Values, outline: &TrialOutline) -> Values {
    let figure = |metric| outline.figures.get(metric);
    let whole = |metric| figure(metric).map(|figure| sql_integer(figure as u64));
    key.bind(i64::from(outline.position))
        .bind(sql_time(outline.started_at))
        .bind(Json(&outline.point))
        .bind(&outline.start_verdict)
        .bind(&outline.failure)
        .bind(figure(Metric::Tps))
        .bind(figure(Metric::WorstSecond))
        .bind(whole(Metric::P50))
        .bind(whole(Metric::P95))
        .bind(whole(Metric::P99))
        .bind(whole(Metric::P999))
        .bind(whole(Metric::DeviceRead))
        .bind(figure(Metric::DeviceWrites))
        .bind(whole(Metric::DeviceWritten))
        .bind(whole(Metric::Late))
        .bind(whole(Metric::Skipped))
        .bind(whole(Metric::Checkpoints))
        .bind(Json(&outline.background))
        .bind(Json(&outline.verdicts))
        .bind(Json(&outline.warnings))
        .bind(outline.warming.as_ref().map(Json))
}
