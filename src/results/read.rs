//! Studies of ways to warm, as the runs that `bench warmup` tells of.

use super::sweep_read::choose;
use super::{Error, Store};
use crate::study::{Run, SweepRun, Trial};
use crate::verdict::{view_run, view_trials};

impl Store {
    /// All of them, the newest first, each with its trials: without their seconds, which times and counts do not need.
    pub async fn read_runs(&self) -> Result<Vec<(Run, Vec<Trial>)>, Error> {
        let mut runs = Vec::new();
        for study in self.read_sweeps().await?.into_iter().filter(SweepRun::is_warmup) {
            let trials = self.read_sweep_outcomes(&study.id).await?;
            let run = view_run(&study, &trials);
            let trials = view_trials(&run, trials);
            runs.push((run, trials));
        }
        Ok(runs)
    }

    /// One run: by its id, by the first characters of it when no other begins so, or `newest`. Its trials have every second of
    /// them, and are in the order in which they ran.
    pub async fn read_run(&self, wanted: &str) -> Result<(Run, Vec<Trial>), Error> {
        let mut studies = self.read_sweeps().await?;
        studies.retain(SweepRun::is_warmup);
        let found = choose(studies, |study| &study.id, wanted)?.ok_or_else(|| self.unknown(wanted))?;
        let mut trials = self.read_sweep_outcomes(&found.id).await?;
        self.add_seconds(&found.id, &mut trials).await?;
        let run = view_run(&found, &trials);
        let trials = view_trials(&run, trials);
        Ok((run, trials))
    }
}
