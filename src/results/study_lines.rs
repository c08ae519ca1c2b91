//! What there is to look at: sweeps and runs of loaders, each in a line.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::database::{Query, Row};
use super::{Error, Store};
use crate::study::{LoadingRun, SweepRun};

/// A sweep, a run, or a run of loaders, with how far it came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyLine {
    pub id: String,
    pub kind: StudyKind,
    pub question: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub host: String,
    pub server: String,
    /// Axes of a sweep with more than one value.
    pub varied: Vec<String>,
    /// Points of a sweep, strategies of a run, loaders.
    pub points: u32,
    pub repeats: u32,
    /// That have ended, and those of them that failed.
    pub trials: u64,
    pub failures: u64,
}

/// What sort of study it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StudyKind {
    Sweep,
    Run,
    Loading,
}

/// Trials and failures.
type Counts = HashMap<String, (u64, u64)>;

impl Store {
    /// Everything that was kept, the newest first.
    pub async fn read_study_lines(&self) -> Result<Vec<StudyLine>, Error> {
        let sweep_counts =
            "SELECT sweep_id AS id, count(*) AS trials, count(failure) AS failures FROM sweep_trials GROUP BY sweep_id";
        let loading_counts =
            "SELECT run_id AS id, count(*) AS trials, count(failure) AS failures FROM loading_trials GROUP BY run_id";
        let (of_sweeps, of_loadings) = (self.read_counts(sweep_counts).await?, self.read_counts(loading_counts).await?);
        let sweeps = self.read_sweeps().await?.into_iter().map(|sweep| line_of_sweep(sweep, &of_sweeps));
        let loadings = self.read_loadings().await?.into_iter().map(|run| line_of_loading(run, &of_loadings));
        let mut lines: Vec<StudyLine> = sweeps.chain(loadings).collect();
        lines.sort_by_key(|line| std::cmp::Reverse(line.started_at));
        Ok(lines)
    }

    async fn read_counts(&self, query: &'static str) -> Result<Counts, Error> {
        let count =
            |row: &Row| -> Result<_, sqlx::Error> { Ok((row.get("id")?, (row.get("trials")?, row.get("failures")?))) };
        Ok(self.read(Query::new(query), count).await?.into_iter().collect())
    }
}

fn line_of_sweep(sweep: SweepRun, counts: &Counts) -> StudyLine {
    let (trials, failures) = counts.get(&sweep.id).copied().unwrap_or_default();
    let (kind, question) = (if sweep.is_warmup() { StudyKind::Run } else { StudyKind::Sweep }, sweep.subject());
    StudyLine {
        id: sweep.id,
        kind,
        question,
        started_at: sweep.started_at,
        ended_at: sweep.ended_at,
        host: sweep.machine.hostname,
        server: sweep.server.version,
        varied: sweep.varied,
        points: sweep.points,
        repeats: sweep.repeats,
        trials,
        failures,
    }
}

/// What a run of loaders asks, in words.
pub fn question_of_loading(run: &LoadingRun) -> String {
    let wanted = run.study.script.as_ref().map_or("everything".to_owned(), |script| format!("what {script} reads"));
    format!("ways to load {wanted}, scale {}, disk {}", run.study.scale, run.study.disk.name)
}

fn line_of_loading(run: LoadingRun, counts: &Counts) -> StudyLine {
    let (trials, failures) = counts.get(&run.id).copied().unwrap_or_default();
    StudyLine {
        question: question_of_loading(&run),
        id: run.id,
        kind: StudyKind::Loading,
        started_at: run.started_at,
        ended_at: run.ended_at,
        host: run.machine.hostname,
        server: run.server.version,
        varied: Vec::new(),
        points: run.study.loaders.len() as u32,
        repeats: run.study.rounds,
        trials,
        failures,
    }
}
