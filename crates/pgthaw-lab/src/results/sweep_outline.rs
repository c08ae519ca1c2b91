//! Reads what pictures of a sweep need, and no more: a large one is not read second by second.

use super::columns::Columns;
use super::database::{Query, Row};
use super::sweep_read::KeptSweep;
use super::{DamagedStudy, Error, NEWEST, Store};
use crate::study::{SweepRun, SweepTrial};
use crate::verdict::{
    Metric, Noise, Selection, ServedSeconds, TrialOutline, add_warming_figures, compute_noises, is_twice,
};

const OUTLINES: &str = "SELECT * FROM sweep_outlines WHERE sweep_id = $1 ORDER BY position";

/// Of so many trials the noise is computed while somebody waits for a page.
const NOISE_TRIALS_MAX: u32 = 1000;

impl Store {
    /// The trials of a sweep in a few figures, in the order in which they ran.
    pub async fn read_sweep_outlines(&self, sweep_id: &str) -> Result<Vec<TrialOutline>, Error> {
        let mut outlines = self.read_of_study(sweep_id, Query::new(OUTLINES).bind(sweep_id), outline_from).await?;
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
        let wanted = wanted.unwrap_or(NEWEST);
        let run = self.find_sweep(wanted).await?.ok_or_else(|| Error::UnknownRun(wanted.to_owned()))?;
        let trials = self.read_comparable_trials(&run.id).await?;
        Ok((run, trials))
    }

    /// With their seconds, of which figures of the device and of processors are made, and by which trials are cut to whole cycles of
    /// checkpoints.
    async fn read_comparable_trials(&self, sweep_id: &str) -> Result<Vec<SweepTrial>, Error> {
        let mut trials = self.read_sweep_outcomes(sweep_id).await?;
        self.add_seconds(sweep_id, &mut trials).await?;
        Ok(trials)
    }
}

/// What a store holds, the newest first.
#[derive(Debug, Default)]
pub struct Listed {
    pub studies: Vec<(SweepRun, Vec<TrialOutline>)>,
    pub damaged: Vec<DamagedStudy>,
}

impl Store {
    /// Everything that was kept.
    pub async fn read_listed(&self) -> Result<Listed, Error> {
        let mut listed = Listed::default();
        for KeptSweep { id, sweep } in self.read_kept_sweeps().await? {
            let outlined = match sweep {
                Ok(sweep) => self.read_sweep_outlines(&sweep.id).await.map(|outlines| (sweep, outlines)),
                Err(error) => Err(error),
            };
            match outlined {
                Ok(study) => listed.studies.push(study),
                Err(error) if error.is_damage() => {
                    let error = error.of_study(id.as_deref());
                    listed.damaged.push(DamagedStudy::new(id, &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }

    /// What each second of the trials of a study served, where its warmers are held against each other.
    pub async fn read_served_seconds(&self, sweep: &SweepRun) -> Result<ServedSeconds, Error> {
        let mut served = ServedSeconds::new();
        if !sweep.compares_warmers() || sweep.is_idle() {
            return Ok(served);
        }
        let query = "SELECT number, repeat, transactions FROM sweep_samples WHERE sweep_id = $1 ORDER BY number, repeat, second";
        let second = |row: &Row| -> Result<((u32, u32), u64), sqlx::Error> {
            Ok(((row.get("number")?, row.get("repeat")?), row.get("transactions")?))
        };
        for (trial, transactions) in self.read_of_study(&sweep.id, Query::new(query).bind(&sweep.id), second).await? {
            served.entry(trial).or_default().push(transactions);
        }
        Ok(served)
    }
}

fn outline_from(row: &Row) -> Result<TrialOutline, sqlx::Error> {
    let mut outline: TrialOutline = Columns::read(row)?;
    outline.figures.set(Metric::Checkpoints, Some(row.get::<u32>("checkpoint_count")?.into()));
    Ok(outline)
}
