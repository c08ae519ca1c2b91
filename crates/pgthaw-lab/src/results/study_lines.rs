//! What there is to look at: studies, each in a line.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use super::database::{Query, Row};
use super::sweep_read::KeptSweep;
use super::{Error, Store};

/// A study, with how far it came.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StudyLine {
    // Empty of a damaged one whose id cannot be read either.
    pub id: String,
    pub question: String,
    /// `None` of a damaged one.
    pub started_at: Option<Timestamp>,
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
    /// Why nothing else can be read of it; `None` of one that is whole.
    pub damaged: Option<String>,
}

/// Trials and failures.
type Counts = HashMap<String, (u64, u64)>;

impl Store {
    /// Everything that was kept, the newest first. Of what is damaged there are its name and its trials.
    pub async fn read_study_lines(&self) -> Result<Vec<StudyLine>, Error> {
        let counts = self.read_counts().await?;
        Ok(self.read_kept_sweeps().await?.into_iter().map(|kept| line_of(kept, &counts)).collect())
    }

    async fn read_counts(&self) -> Result<Counts, Error> {
        let query =
            "SELECT sweep_id AS id, count(*) AS trials, count(failure) AS failures FROM sweep_trials GROUP BY sweep_id";
        let count = |row: &Row| -> Result<_, sqlx::Error> {
            // Trials of a study whose id cannot be read.
            let Ok(id) = row.get("id") else { return Ok(None) };
            Ok(Some((id, (row.get("trials")?, row.get("failures")?))))
        };
        Ok(self.read(Query::new(query), count).await?.into_iter().flatten().collect())
    }
}

fn line_of(kept: KeptSweep, counts: &Counts) -> StudyLine {
    let id = kept.id.unwrap_or_default();
    let (trials, failures) = counts.get(&id).copied().unwrap_or_default();
    let bare = StudyLine { id, trials, failures, ..StudyLine::default() };
    let study = match kept.sweep {
        Ok(study) => study,
        Err(error) => return StudyLine { damaged: Some(error.to_string()), ..bare },
    };
    StudyLine {
        question: study.subject(),
        started_at: Some(study.started_at),
        ended_at: study.ended_at,
        host: study.machine.hostname,
        server: study.server.version,
        varied: study.varied,
        points: study.points,
        repeats: study.repeats,
        ..bare
    }
}
