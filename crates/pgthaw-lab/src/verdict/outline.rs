use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::metric::{ByMetric, compute_figures};
use crate::study::{MeasurementVerdict, Point, Record, SweepTrial, WarmingFigures, hide_texts};
use model::Judgement;
use observe::time::TimeFigures;
use postgres::{RowDelta, StatisticsDelta, keep_record};

/// Figures of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct TrialOutline {
    /// Number of the point, from 0.
    pub number: u32,
    /// From 1.
    pub repeat: u32,
    /// Position in the random order, from 1.
    pub position: u32,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `cold`, `lukewarm`, `warm` or `restored`.
    pub start_verdict: Option<String>,
    pub failure: Option<String>,
    #[serde(flatten)]
    pub figures: ByMetric<f64>,
    /// The model's judgement of a cold trial, corrected where it contradicts `steady_tps`. If `None`, see `no_verdict`.
    pub judgement: Option<Judgement>,
    pub no_verdict: Option<String>,
    /// Steady throughput of all trials that differ only in their warmer; `None` until one of them was warm.
    pub steady_tps: Option<f64>,
    /// Not in JSON, because `PointSummary` has the point's values.
    #[serde(skip)]
    pub point: Point,
    #[serde(skip)]
    pub verdicts: Vec<MeasurementVerdict>,
    #[serde(skip)]
    pub warnings: Vec<String>,
    #[serde(skip)]
    pub background: BackgroundWrites,
    /// Only for cold trials.
    #[serde(skip)]
    pub warming: Option<WarmingFigures>,
    #[serde(skip)]
    pub time: Option<TimeFigures>,
}

/// Buffer writes by kind of process, and checkpoints by cause: of one trial, or medians of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct BackgroundWrites {
    pub checkpoints_timed: f64,
    pub checkpoints_requested: f64,
    pub buffers_checkpoint: f64,
    pub buffers_clean: f64,
    pub buffers_backend: f64,
    /// How often the background writer stopped at its limit for one round.
    pub maxwritten_clean: f64,
    pub buffers_alloc: f64,
}

impl BackgroundWrites {
    pub fn of(statistics: &StatisticsDelta) -> BackgroundWrites {
        let sum = |view: &str, column: &str| statistics.sum(view, column);
        let either =
            |until_16: &str, since_17: &str| sum("pg_stat_bgwriter", until_16) + sum("pg_stat_checkpointer", since_17);
        // Since PostgreSQL 17, only pg_stat_io counts writes by backends. It also counts temporary tables and, since
        // 18, WAL.
        let has_checkpointer = statistics.0.contains_key("pg_stat_checkpointer");
        let io = statistics.0.get("pg_stat_io").filter(|_| has_checkpointer).into_iter().flatten();
        let is = |row: &RowDelta, name: &str, value: &str| row.key.get(name).is_some_and(|known| known == value);
        let by_backends = io.filter(|row| is(row, "backend_type", "client backend") && is(row, "object", "relation"));
        let written = by_backends.filter_map(|row| row.added.get("writes")).fold(0.0, |sum, added| sum + added);
        BackgroundWrites {
            checkpoints_timed: either("checkpoints_timed", "num_timed"),
            checkpoints_requested: either("checkpoints_req", "num_requested"),
            buffers_checkpoint: either("buffers_checkpoint", "buffers_written"),
            buffers_clean: sum("pg_stat_bgwriter", "buffers_clean"),
            buffers_backend: sum("pg_stat_bgwriter", "buffers_backend") + written,
            maxwritten_clean: sum("pg_stat_bgwriter", "maxwritten_clean"),
            buffers_alloc: sum("pg_stat_bgwriter", "buffers_alloc"),
        }
    }
}

pub fn compute_total_seconds(trials: &[TrialOutline]) -> Option<f64> {
    let took = |trial: &TrialOutline| Some(trial.ended_at?.duration_since(trial.started_at).as_secs_f64());
    trials.iter().filter_map(took).reduce(|sum, seconds| sum + seconds)
}

impl Record for TrialOutline {
    fn hide_secrets(&mut self) {
        self.point.hide_secrets();
        hide_texts(self.warnings.iter_mut().chain(&mut self.failure));
        self.verdicts.iter_mut().for_each(keep_record);
    }
}

impl From<&SweepTrial> for TrialOutline {
    fn from(trial: &SweepTrial) -> TrialOutline {
        TrialOutline {
            number: trial.number,
            repeat: trial.repeat,
            position: trial.position,
            started_at: trial.started_at,
            ended_at: trial.ended_at,
            start_verdict: trial.start_state.as_ref().map(|state| state.verdict.clone()),
            failure: trial.failure.clone(),
            figures: compute_figures(trial),
            point: trial.point.clone(),
            verdicts: trial.verdicts.clone(),
            warnings: trial.warnings.clone(),
            background: BackgroundWrites::of(&trial.statistics),
            warming: trial.warming.as_ref().map(|warming| warming.figures.clone()),
            time: trial.time.as_ref().map(|time| time.figures.clone()),
            ..TrialOutline::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::study::record::tests::trial;

    fn row(key: &[(&str, &str)], added: &[(&str, f64)]) -> RowDelta {
        RowDelta {
            key: key.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            added: added.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        }
    }

    fn io(backend_type: &str, object: &str, writes: f64) -> RowDelta {
        row(&[("backend_type", backend_type), ("object", object), ("context", "normal")], &[("writes", writes)])
    }

    #[test]
    fn the_total_is_of_the_trials_whose_end_is_known() {
        let of = |seconds: Option<i64>| {
            let started_at = Timestamp::UNIX_EPOCH;
            let ended_at = seconds.map(|seconds| Timestamp::from_second(seconds).unwrap());
            TrialOutline::from(&SweepTrial { started_at, ended_at, ..trial() })
        };
        assert_eq!(compute_total_seconds(&[of(Some(20)), of(None), of(Some(25))]), Some(45.0));
        assert_eq!(compute_total_seconds(&[of(None)]), None);
    }

    #[test]
    fn writes_are_found_where_each_version_has_them() {
        let until_16 = StatisticsDelta(BTreeMap::from([
            ("pg_stat_bgwriter".to_owned(), vec![row(&[], &[("checkpoints_req", 2.0), ("buffers_backend", 7.0)])]),
            ("pg_stat_io".to_owned(), vec![io("client backend", "relation", 7.0)]),
        ]));
        let found = BackgroundWrites::of(&until_16);
        assert_eq!((found.checkpoints_requested, found.buffers_backend), (2.0, 7.0));
        let since_17 = StatisticsDelta(BTreeMap::from([
            ("pg_stat_checkpointer".to_owned(), vec![row(&[], &[("num_timed", 1.0), ("buffers_written", 50.0)])]),
            (
                "pg_stat_io".to_owned(),
                vec![
                    io("client backend", "relation", 3.0),
                    io("client backend", "temp relation", 20.0),
                    io("client backend", "wal", 900.0),
                    io("checkpointer", "relation", 50.0),
                ],
            ),
        ]));
        let found = BackgroundWrites::of(&since_17);
        assert_eq!((found.checkpoints_timed, found.buffers_checkpoint, found.buffers_backend), (1.0, 50.0, 3.0));
    }
}
