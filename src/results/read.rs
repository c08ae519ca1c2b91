//! Studies of ways to warm, as the runs that `bench warmup` tells of, and all studies as they are listed.

use super::sweep_read::{KeptSweep, choose};
use super::{DamagedStudy, Error, Store};
use crate::study::{Run, SweepRun, Trial};
use crate::verdict::{view_run, view_trials};

/// What a store holds, the newest first.
#[derive(Debug, Default)]
pub struct Listed {
    /// Studies of ways to warm, each with its trials: without their seconds, which times and counts do not need.
    pub runs: Vec<(Run, Vec<Trial>)>,
    /// The others, with how many trials of each have ended.
    pub sweeps: Vec<(SweepRun, usize)>,
    pub damaged: Vec<DamagedStudy>,
}

impl Store {
    /// Everything that was kept.
    pub async fn read_listed(&self) -> Result<Listed, Error> {
        let mut listed = Listed::default();
        for kept in self.read_kept_sweeps().await? {
            match self.list_kept(kept.sweep, &mut listed).await {
                Ok(()) => {}
                Err(error) if error.is_damage() => {
                    let error = error.of_study(kept.id.as_deref());
                    listed.damaged.push(DamagedStudy::new(kept.id, &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }

    async fn list_kept(&self, study: Result<SweepRun, Error>, listed: &mut Listed) -> Result<(), Error> {
        let study = study?;
        if study.is_warmup() {
            let trials = self.read_sweep_outcomes(&study.id).await?;
            let run = view_run(&study, &trials);
            let trials = view_trials(&run, trials);
            listed.runs.push((run, trials));
        } else {
            let ended = self.read_finished(&study.id).await?.len();
            listed.sweeps.push((study, ended));
        }
        Ok(())
    }

    /// One run: by its id, by the first characters of it when no other begins so, or `newest`. Its trials have every second of
    /// them, and are in the order in which they ran.
    pub async fn read_run(&self, wanted: &str) -> Result<(Run, Vec<Trial>), Error> {
        let mut studies = self.read_kept_sweeps().await?;
        // A damaged one may be of any kind: who means it is told.
        studies.retain(|kept| kept.sweep.as_ref().map_or(true, SweepRun::is_warmup));
        let found = choose(studies, KeptSweep::name, wanted)?.ok_or_else(|| self.unknown(wanted))?.sweep?;
        let mut trials = self.read_sweep_outcomes(&found.id).await?;
        self.add_seconds(&found.id, &mut trials).await?;
        let run = view_run(&found, &trials);
        let trials = view_trials(&run, trials);
        Ok((run, trials))
    }
}
