//! Reads sweeps and their trials back.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::columns::Columns;
use super::database::{Query, Row};
use super::{DamagedStudy, Error, Store};
use crate::study::{SweepRun, SweepTrial};

/// What stands for the study that was begun last.
pub const NEWEST: &str = "newest";

/// The one that is meant: by its id, by the first characters of it when no other begins so, or [`NEWEST`] of those in this order.
pub(super) fn choose<T>(mut studies: Vec<T>, id: impl Fn(&T) -> &str, wanted: &str) -> Result<Option<T>, Error> {
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

/// A sweep by its id, and what is kept of it, if that can be read: one that is damaged is no reason not to show the others.
pub(super) struct KeptSweep {
    /// `None`: not even this can be read.
    pub id: Option<String>,
    pub sweep: Result<SweepRun, Error>,
}

impl KeptSweep {
    pub fn name(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }
}

impl Store {
    /// All sweeps that can be read, the newest first.
    pub async fn read_sweeps(&self) -> Result<Vec<SweepRun>, Error> {
        Ok(self.read_kept_sweeps().await?.into_iter().filter_map(|kept| kept.sweep.ok()).collect())
    }

    /// Those that cannot.
    pub async fn read_damaged_sweeps(&self) -> Result<Vec<DamagedStudy>, Error> {
        let damaged = |kept: KeptSweep| Some(DamagedStudy::new(kept.id, &kept.sweep.err()?));
        Ok(self.read_kept_sweeps().await?.into_iter().filter_map(damaged).collect())
    }

    /// All of them, the newest first.
    pub(super) async fn read_kept_sweeps(&self) -> Result<Vec<KeptSweep>, Error> {
        let keep = |row: &Row| {
            let id: Option<String> = row.get("id").ok();
            let sweep = row.record().map_err(self.failed_to("read")).map_err(|error| error.of_study(id.as_deref()));
            Ok(KeptSweep { id, sweep })
        };
        self.read(Query::new("SELECT * FROM sweeps ORDER BY started_at DESC, id DESC"), keep).await
    }

    /// The one with this id.
    pub(super) async fn read_sweep(&self, id: &str) -> Result<Option<SweepRun>, Error> {
        Ok(self.read(Query::new("SELECT * FROM sweeps WHERE id = $1").bind(id), Row::record).await?.pop())
    }

    /// The study that is meant: by its id, by the first characters of it when no other begins so, or `newest`.
    pub async fn read_study(&self, wanted: &str) -> Result<SweepRun, Error> {
        self.find_sweep(wanted).await?.ok_or_else(|| self.unknown(wanted))
    }

    /// Likewise its id alone, which a damaged one has too.
    pub async fn read_study_id(&self, wanted: &str) -> Result<String, Error> {
        let ids = self.read_kept_sweeps().await?.into_iter().filter_map(|kept| kept.id).collect();
        choose(ids, String::as_str, wanted)?.ok_or_else(|| self.unknown(wanted))
    }

    /// Why nothing is meant by a name.
    pub(super) fn unknown(&self, wanted: &str) -> Error {
        if wanted == NEWEST { Error::Empty(self.place().clone()) } else { Error::UnknownRun(wanted.to_owned()) }
    }

    /// The sweep that is meant: by its id, by the first characters of it when no other begins so, or `newest`. `None`:
    /// no sweep is.
    pub async fn find_sweep(&self, wanted: &str) -> Result<Option<SweepRun>, Error> {
        choose(self.read_kept_sweeps().await?, KeptSweep::name, wanted)?.map(|kept| kept.sweep).transpose()
    }

    /// The newest sweep of this meaning on this host, when it did not get to its end.
    pub async fn find_unfinished_sweep(&self, digest: &str, hostname: &str) -> Result<Option<SweepRun>, Error> {
        let sweeps = self.read_sweeps().await?;
        let newest = sweeps.into_iter().find(|sweep| sweep.digest == digest && sweep.machine.hostname == hostname);
        Ok(newest.filter(|sweep| sweep.ended_at.is_none()))
    }

    /// Ids of the sweeps that are gone on with: of each study on its host the newest, if it did not get to its end. A damaged one may
    /// be such.
    pub async fn read_unfinished_sweeps(&self) -> Result<BTreeSet<String>, Error> {
        let mut known = HashSet::new();
        let mut sweeps = self.read_kept_sweeps().await?;
        sweeps.retain(|kept| {
            let Ok(sweep) = &kept.sweep else { return true };
            known.insert((sweep.digest.clone(), sweep.machine.hostname.clone())) && sweep.ended_at.is_none()
        });
        Ok(sweeps.into_iter().filter_map(|kept| kept.id).collect())
    }

    /// Point's number and repeat of the trials of a sweep.
    pub async fn read_finished(&self, sweep_id: &str) -> Result<BTreeSet<(u32, u32)>, Error> {
        let query = Query::new("SELECT number, repeat FROM sweep_trials WHERE sweep_id = $1").bind(sweep_id);
        Ok(self.read_of_study(sweep_id, query, key_of).await?.into_iter().collect())
    }

    /// The trials of a sweep without their seconds and scripts, in the order in which they ran.
    pub async fn read_sweep_outcomes(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        self.read_of_study(sweep_id, Of::sweep(sweep_id).select("sweep_trials", "position"), Row::record).await
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
        let trials = of.select("sweep_trials", "position");
        let mut trials = self.read_of_study(of.sweep_id, trials, Row::record).await?;
        self.read_parts(of, of.select("sweep_scripts", "number, repeat, place"), &mut trials, |trial, script| {
            trial.scripts.push(script)
        })
        .await?;
        self.add_seconds_of(of, &mut trials).await?;
        let query = of.select("sweep_wait_samples", "number, repeat, second");
        self.read_parts(of, query, &mut trials, |trial, sample| trial.wait_samples.push(sample)).await?;
        Ok(trials)
    }

    /// Gives the trials of a sweep their seconds: what was served in each, and what the machine did.
    pub(super) async fn add_seconds(&self, sweep_id: &str, trials: &mut [SweepTrial]) -> Result<(), Error> {
        self.add_seconds_of(&Of::sweep(sweep_id), trials).await
    }

    async fn add_seconds_of(&self, of: &Of<'_>, trials: &mut [SweepTrial]) -> Result<(), Error> {
        let query = of.select("sweep_samples", "number, repeat, second");
        self.read_parts(of, query, trials, |trial, sample| trial.samples.push(sample)).await?;
        let query = of.select("sweep_os_samples", "number, repeat, second");
        self.read_parts(of, query, trials, |trial, sample| trial.os_samples.push(sample)).await
    }

    /// Gives each row of a query over the trials' sweep to the trial that it belongs to.
    async fn read_parts<T: Columns>(
        &self,
        of: &Of<'_>,
        query: Query,
        trials: &mut [SweepTrial],
        give: impl Fn(&mut SweepTrial, T),
    ) -> Result<(), Error> {
        let places: HashMap<(u32, u32), usize> =
            trials.iter().enumerate().map(|(place, trial)| ((trial.number, trial.repeat), place)).collect();
        let parts = self.read_of_study(of.sweep_id, query, |row| Ok((key_of(row)?, T::read(row)?))).await?;
        for (key, part) in parts {
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
        self.only.iter().fold(query, |query, (number, repeat)| query.bind(number).bind(repeat))
    }
}

/// Number of the point, and repeat.
fn key_of(row: &Row) -> Result<(u32, u32), sqlx::Error> {
    Ok((row.get("number")?, row.get("repeat")?))
}

impl Error {
    /// Where a file's name may stand too, a name that is no run's may be a file's that was mistyped. The newest run is no file.
    pub fn of_file_or_run(self, named: &str) -> Error {
        match self {
            Error::Missing(_) | Error::Empty(_) | Error::UnknownRun(_) if named != NEWEST => {
                Error::NeitherFileNorRun(named.to_owned())
            }
            error => error,
        }
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
