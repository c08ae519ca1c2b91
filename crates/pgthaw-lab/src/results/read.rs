use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;

use super::database::{Query, Row};
use super::records::Columns;
use super::{DamagedStudy, Error, Result, Store};
use crate::study::{SweepRun, SweepTrial};
use crate::verdict::{Noise, Selection, ServedSeconds, TrialOutline, add_warming_figures, compute_noises, is_twice};

pub const NEWEST: &str = "newest";

/// Chooses a study by id, prefix or `newest`. `studies` must be sorted, newest first.
pub(super) fn choose<T>(mut studies: Vec<T>, id: impl Fn(&T) -> &str, wanted: &str) -> Result<Option<T>> {
    if wanted == NEWEST {
        return Ok(studies.into_iter().next());
    }
    if let Some(exact) = studies.iter().position(|study| id(study) == wanted) {
        return Ok(Some(studies.swap_remove(exact)));
    }
    studies.retain(|study| id(study).starts_with(wanted));
    if studies.len() > 1 {
        let matches = studies.iter().map(|study| id(study).to_owned()).collect();
        return Err(Error::AmbiguousRun { wanted: wanted.to_owned(), matches });
    }
    Ok(studies.pop())
}

/// A row of `sweeps`. A damaged row does not prevent reading the others.
pub(super) struct KeptSweep {
    /// `None` if even the id is unreadable.
    pub id: Option<String>,
    pub sweep: Result<SweepRun>,
}

/// Maximum number of trials for which `serve` computes the noise: more would delay the page.
const NOISE_TRIALS_MAX: u32 = 1000;

impl Store {
    pub async fn read_sweeps(&self) -> Result<Vec<SweepRun>> {
        Ok(self.read_kept_sweeps().await?.into_iter().filter_map(|kept| kept.sweep.ok()).collect())
    }

    pub async fn read_damaged_sweeps(&self) -> Result<Vec<DamagedStudy>> {
        let damaged = |kept: KeptSweep| Some(DamagedStudy::new(kept.id, &kept.sweep.err()?));
        Ok(self.read_kept_sweeps().await?.into_iter().filter_map(damaged).collect())
    }

    pub(super) async fn read_kept_sweeps(&self) -> Result<Vec<KeptSweep>> {
        let keep = |row: &Row| {
            let id: Option<String> = row.get("id").ok();
            let sweep = row.record().map_err(self.failed_to("read")).map_err(|error| error.of_study(id.as_deref()));
            Ok(KeptSweep { id, sweep })
        };
        self.read(Query::new("SELECT * FROM sweeps ORDER BY started_at DESC, id DESC"), keep).await
    }

    pub(super) async fn read_sweep(&self, id: &str) -> Result<Option<SweepRun>> {
        Ok(self.read(Query::new("SELECT * FROM sweeps WHERE id = $1").bind(id), Row::record).await?.pop())
    }

    pub async fn read_study(&self, wanted: &str) -> Result<SweepRun> {
        self.find_sweep(wanted).await?.ok_or_else(|| self.unknown(wanted))
    }

    /// Finds an id, even of a damaged study.
    pub async fn read_study_id(&self, wanted: &str) -> Result<String> {
        let ids = self.read_kept_sweeps().await?.into_iter().filter_map(|kept| kept.id).collect();
        choose(ids, String::as_str, wanted)?.ok_or_else(|| self.unknown(wanted))
    }

    pub(super) fn unknown(&self, wanted: &str) -> Error {
        if wanted == NEWEST { Error::Empty(self.place().clone()) } else { Error::UnknownRun(wanted.to_owned()) }
    }

    pub async fn find_sweep(&self, wanted: &str) -> Result<Option<SweepRun>> {
        let kept = self.read_kept_sweeps().await?;
        choose(kept, |kept| kept.id.as_deref().unwrap_or_default(), wanted)?.map(|kept| kept.sweep).transpose()
    }

    pub async fn find_unfinished_sweep(&self, digest: &str, hostname: &str) -> Result<Option<SweepRun>> {
        let sweeps = self.read_sweeps().await?;
        let newest = sweeps.into_iter().find(|sweep| sweep.digest == digest && sweep.machine.hostname == hostname);
        Ok(newest.filter(|sweep| sweep.ended_at.is_none()))
    }

    /// Ids of sweeps that could be resumed: the newest of each study and host, if unfinished. Includes damaged sweeps.
    pub async fn read_unfinished_sweeps(&self) -> Result<BTreeSet<String>> {
        let mut known = HashSet::new();
        let mut sweeps = self.read_kept_sweeps().await?;
        sweeps.retain(|kept| {
            let Ok(sweep) = &kept.sweep else { return true };
            known.insert((sweep.digest.clone(), sweep.machine.hostname.clone())) && sweep.ended_at.is_none()
        });
        Ok(sweeps.into_iter().filter_map(|kept| kept.id).collect())
    }

    pub async fn read_finished(&self, sweep_id: &str) -> Result<BTreeSet<(u32, u32)>> {
        let query = Query::new("SELECT number, repeat FROM sweep_trials WHERE sweep_id = $1").bind(sweep_id);
        Ok(self.read_of_study(sweep_id, query, key_of).await?.into_iter().collect())
    }

    /// Reads trials without their seconds and scripts.
    pub async fn read_sweep_outcomes(&self, sweep_id: &str) -> Result<Vec<SweepTrial>> {
        self.read_of_study(sweep_id, Of::sweep(sweep_id).select("sweep_trials", "position"), Row::record).await
    }

    pub async fn read_sweep_trials(&self, sweep_id: &str) -> Result<Vec<SweepTrial>> {
        self.read_whole_trials(&Of::sweep(sweep_id)).await
    }

    pub async fn read_sweep_trial(&self, sweep_id: &str, number: u32, repeat: u32) -> Result<Option<SweepTrial>> {
        let of = Of { sweep_id, only: Some((number, repeat)) };
        Ok(self.read_whole_trials(&of).await?.pop())
    }

    async fn read_whole_trials(&self, of: &Of<'_>) -> Result<Vec<SweepTrial>> {
        let trials = of.select("sweep_trials", "position");
        let mut trials = self.read_of_study(of.sweep_id, trials, Row::record).await?;
        self.read_parts(of, "sweep_scripts", "place", &mut trials, |trial| &mut trial.scripts).await?;
        self.add_seconds(of, &mut trials).await?;
        self.read_parts(of, "sweep_wait_samples", "second", &mut trials, |trial| &mut trial.wait_samples).await?;
        Ok(trials)
    }

    async fn add_seconds(&self, of: &Of<'_>, trials: &mut [SweepTrial]) -> Result<()> {
        self.read_parts(of, "sweep_samples", "second", trials, |trial| &mut trial.samples).await?;
        self.read_parts(of, "sweep_os_samples", "second", trials, |trial| &mut trial.os_samples).await
    }

    async fn read_parts<T: Columns>(
        &self,
        of: &Of<'_>,
        table: &str,
        ordered: &str,
        trials: &mut [SweepTrial],
        parts_of: impl Fn(&mut SweepTrial) -> &mut Vec<T>,
    ) -> Result<()> {
        let query = of.select(table, &format!("number, repeat, {ordered}"));
        let places: HashMap<(u32, u32), usize> =
            trials.iter().enumerate().map(|(place, trial)| ((trial.number, trial.repeat), place)).collect();
        let parts = self.read_of_study(of.sweep_id, query, |row| Ok((key_of(row)?, T::read(row)?))).await?;
        for (key, part) in parts {
            if let Some(place) = places.get(&key) {
                parts_of(&mut trials[*place]).push(part);
            }
        }
        Ok(())
    }

    pub async fn read_sweep_outlines(&self, sweep_id: &str) -> Result<Vec<TrialOutline>> {
        let query = Of::sweep(sweep_id).select("sweep_outlines", "position");
        let mut outlines = self.read_of_study(sweep_id, query, Row::record).await?;
        add_warming_figures(&mut outlines);
        Ok(outlines)
    }

    /// Empty if points are not measured twice, or there are too many trials.
    pub async fn read_noise(&self, sweep: &SweepRun) -> Result<Vec<Noise>> {
        if !is_twice(sweep) || sweep.points.saturating_mul(sweep.repeats) > NOISE_TRIALS_MAX {
            return Ok(Vec::new());
        }
        Ok(compute_noises(sweep, &self.read_comparable_trials(&sweep.id).await?))
    }

    pub async fn read_side(&self, side: &Selection) -> Result<(SweepRun, Vec<SweepTrial>)> {
        let wanted = side.sweep.as_deref().unwrap_or(NEWEST);
        let run = self.find_sweep(wanted).await?.ok_or_else(|| Error::UnknownRun(wanted.to_owned()))?;
        let trials = self.read_comparable_trials(&run.id).await?;
        Ok((run, trials))
    }

    /// Includes the seconds, which some metrics need.
    async fn read_comparable_trials(&self, sweep_id: &str) -> Result<Vec<SweepTrial>> {
        let mut trials = self.read_sweep_outcomes(sweep_id).await?;
        self.add_seconds(&Of::sweep(sweep_id), &mut trials).await?;
        Ok(trials)
    }

    /// Reads all studies with their trials. Also returns the damaged ones.
    pub async fn read_listed(&self) -> Result<(Vec<ListedStudy>, Vec<DamagedStudy>)> {
        let (mut studies, mut damaged) = (Vec::new(), Vec::new());
        for KeptSweep { id, sweep } in self.read_kept_sweeps().await? {
            let outlined = match &sweep {
                Ok(sweep) => self.read_sweep_outlines(&sweep.id).await,
                Err(_) => Ok(Vec::new()),
            };
            match sweep.and_then(|sweep| Ok((sweep, outlined?))) {
                Ok(study) => studies.push(study),
                Err(error) if error.is_damage() => {
                    let error = error.of_study(id.as_deref());
                    damaged.push(DamagedStudy::new(id, &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((studies, damaged))
    }

    /// Empty unless the study compares warmers under load.
    pub async fn read_served_seconds(&self, sweep: &SweepRun) -> Result<ServedSeconds> {
        let mut served = ServedSeconds::new();
        if !sweep.compares_warmers() || sweep.is_idle() {
            return Ok(served);
        }
        let query = "SELECT number, repeat, transactions FROM sweep_samples WHERE sweep_id = $1 ORDER BY number, repeat, second";
        let second = |row: &Row| Ok((key_of(row)?, row.get("transactions")?));
        for (trial, transactions) in self.read_of_study(&sweep.id, Query::new(query).bind(&sweep.id), second).await? {
            served.entry(trial).or_default().push(transactions);
        }
        Ok(served)
    }

    pub async fn read_study_lines(&self) -> Result<Vec<StudyLine>> {
        let query =
            "SELECT sweep_id AS id, count(*) AS trials, count(failure) AS failures FROM sweep_trials GROUP BY sweep_id";
        let count = |row: &Row| -> Result<_, sqlx::Error> {
            // Skips trials of a study with an unreadable id.
            let Ok(id) = row.get("id") else { return Ok(None) };
            Ok(Some((id, (row.get("trials")?, row.get("failures")?))))
        };
        let counts = self.read(Query::new(query), count).await?.into_iter().flatten().collect();
        Ok(self.read_kept_sweeps().await?.into_iter().map(|kept| line_of(kept, &counts)).collect())
    }
}

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
        self.only.iter().fold(query, |query, (number, repeat)| query.bind(number).bind(repeat))
    }
}

fn key_of(row: &Row) -> Result<(u32, u32), sqlx::Error> {
    Ok((row.get("number")?, row.get("repeat")?))
}

impl Error {
    pub fn of_file_or_run(self, named: &str) -> Error {
        match self {
            Error::Missing(_) | Error::Empty(_) | Error::UnknownRun(_) if named != NEWEST => {
                Error::NeitherFileNorRun(named.to_owned())
            }
            error => error,
        }
    }
}

pub type ListedStudy = (SweepRun, Vec<TrialOutline>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema, crate::TS)]
pub struct StudyLine {
    // Empty if unreadable.
    pub id: String,
    pub question: String,
    /// `None` if the study is damaged.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub host: String,
    pub server: String,
    /// Axes with several values.
    pub varied: Vec<String>,
    pub points: u32,
    pub repeats: u32,
    /// Number of ended trials.
    pub trials: u64,
    pub failures: u64,
    /// Why the study is unreadable. Only `id`, `trials` and `failures` are then set.
    pub damaged: Option<String>,
}

type Counts = HashMap<String, (u64, u64)>;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_file_is_told_as_neither_file_nor_run() {
        let missing = || Error::Missing("/x/results.sqlite".into());
        let told = missing().of_file_or_run("nosuch").to_string();
        assert_eq!(told, "there is neither a file nor a stored run called \"nosuch\"");
        assert!(missing().of_file_or_run(NEWEST).to_string().contains("no results store"));
    }
}
