//! What there is to look at: studies, each in a line.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use super::database::{Query, Row};
use super::{Error, Store};
use crate::study::SweepRun;

/// A study, with how far it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StudyLine {
    pub id: String,
    pub question: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub host: String,
    pub server: String,
    /// Axes with more than one value.
    pub varied: Vec<String>,
    pub points: u32,
    pub repeats: u32,
    /// That have ended, and those of them that failed.
    pub trials: u64,
    pub failures: u64,
}

/// Trials and failures.
type Counts = HashMap<String, (u64, u64)>;

impl Store {
    /// Everything that was kept, the newest first.
    pub async fn read_study_lines(&self) -> Result<Vec<StudyLine>, Error> {
        let counts = self.read_counts().await?;
        Ok(self.read_sweeps().await?.into_iter().map(|study| line_of(study, &counts)).collect())
    }

    async fn read_counts(&self) -> Result<Counts, Error> {
        let query =
            "SELECT sweep_id AS id, count(*) AS trials, count(failure) AS failures FROM sweep_trials GROUP BY sweep_id";
        let count =
            |row: &Row| -> Result<_, sqlx::Error> { Ok((row.get("id")?, (row.get("trials")?, row.get("failures")?))) };
        Ok(self.read(Query::new(query), count).await?.into_iter().collect())
    }
}

fn line_of(study: SweepRun, counts: &Counts) -> StudyLine {
    let (trials, failures) = counts.get(&study.id).copied().unwrap_or_default();
    StudyLine {
        question: study.subject(),
        id: study.id,
        started_at: study.started_at,
        ended_at: study.ended_at,
        host: study.machine.hostname,
        server: study.server.version,
        varied: study.varied,
        points: study.points,
        repeats: study.repeats,
        trials,
        failures,
    }
}
