//! A sweep before it runs: its points, their order, how long it will take, and the room that it needs.

use std::path::Path;

use serde::Serialize;

use super::forecast::{database_bytes, forecast_warm_seconds, needed_bytes};
use super::point::{DEFAULT_SERVER, NATIVE, Point, TOGETHER};
use super::spec::Sweep;
use super::warmup::Until;
use crate::study::error::Error;
use crate::study::order::{Turn, plan_order};
use host::linux::memory::read_memory;
use host::linux::read_free_bytes;
use host::units::Bytes;

/// What `--dry-run` tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepPlan {
    pub question: String,
    /// Names of the axes with more than one value.
    pub varied: Vec<String>,
    pub repeats: u32,
    /// Of the order below; without one in the study file another run has another order.
    pub seed: u64,
    pub points: Vec<PlannedPoint>,
    /// Where pgbench runs; none is here alone.
    pub hosts: Vec<String>,
    /// The points' numbers in the order of their trials.
    pub order: Vec<u32>,
    /// Of the whole sweep, preparation included.
    pub expected_seconds: f64,
    /// Of the databases, and with what else the sweep needs.
    pub database_bytes: Bytes,
    pub needed_bytes: Bytes,
    pub free_bytes: Bytes,
    /// What speaks against single settings or values.
    pub remarks: Vec<String>,
}

/// One point of the plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedPoint {
    pub number: u32,
    pub point: Point,
    /// By what varies.
    pub label: String,
    /// Of one trial, with all that belongs to it.
    pub expected_seconds: f64,
    /// Seconds until a cold start is warm, by the model; `None` where it starts warm, or the model cannot say.
    pub warm_after_seconds: Option<f64>,
}

/// Plans the sweep in a directory of the disk that is measured.
pub fn plan_sweep(sweep: &Sweep, seed: u64, parent: &Path) -> Result<SweepPlan, Error> {
    sweep.check_memory()?;
    let points: Vec<PlannedPoint> = (0..sweep.points()).map(|number| plan_point(sweep, number)).collect();
    Ok(SweepPlan {
        question: sweep.question.clone(),
        varied: sweep.varied(),
        repeats: sweep.repeats,
        seed,
        hosts: sweep.generators.iter().flat_map(|generators| generators.hosts.clone()).collect(),
        order: plan_turns(sweep, seed, |_| true).into_iter().map(|turn| turn.point).collect(),
        expected_seconds: sweep.expected_seconds(),
        database_bytes: database_bytes(&sweep.axes),
        needed_bytes: needed_bytes(sweep),
        free_bytes: read_free_bytes(parent)?,
        remarks: Vec::new(),
        points,
    })
}

fn plan_point(sweep: &Sweep, number: u32) -> PlannedPoint {
    let point = sweep.point(number);
    let disk = sweep.disk(&point);
    PlannedPoint {
        number,
        label: point.render(&sweep.varied()),
        expected_seconds: sweep.expected_seconds_of(&point),
        warm_after_seconds: forecast_warm_seconds(&point, &disk),
        point,
    }
}

/// The trials of the points that can be measured, in their order.
pub fn plan_turns(sweep: &Sweep, seed: u64, can_run: impl Fn(&Point) -> bool) -> Vec<Turn<u32>> {
    let numbers: Vec<u32> = (0..sweep.points()).filter(|number| can_run(&sweep.point(*number))).collect();
    plan_order(&numbers, sweep.repeats, seed)
}

impl Sweep {
    /// Settings of the server that have one value in all points.
    pub fn common_settings(&self) -> Vec<(String, String)> {
        let one = |(name, values): &(String, Vec<String>)| match values.as_slice() {
            [value] => Some((name.clone(), value.clone())),
            _ => None,
        };
        self.axes.settings.iter().filter_map(one).collect()
    }

    /// Refuses a limit of the server's memory that is none on this machine.
    pub fn check_memory(&self) -> Result<(), Error> {
        let Some(most) = self.axes.memory.iter().flatten().copied().chain(self.memory).max() else { return Ok(()) };
        let machine = read_memory()?.total_bytes;
        match most > machine {
            true => Err(Error::Unfit {
                problem: format!("the study limits the server's memory to {most}, and this machine has {machine}"),
                remedy: "write less, or leave the limit out (an axis of memory has \"none\" for it)".to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Refuses a study that the cluster of a lab server cannot lend itself to: only ways to warm that one server.
    pub fn check_lendable(&self) -> Result<(), Error> {
        let axes = &self.axes;
        let is_own = axes.file_system == [NATIVE] && axes.server == [DEFAULT_SERVER] && axes.places == [TOGETHER];
        match self.is_warmup && is_own && !self.fresh_copy && self.generators.is_none() {
            true => Ok(()),
            false => Err(Error::Unfit {
                problem: "a lab server's own cluster is measured as it is, by studies of ways to warm alone".to_owned(),
                remedy: "write kind = \"warmup\" and neither a file system, a server, places, generators nor fresh copies; or leave -D out for a scratch cluster".to_owned(),
            }),
        }
    }

    /// Do warmers bring back what is wanted of a server that nobody uses?
    pub fn is_idle(&self) -> bool {
        self.until == Some(Until::Resident)
    }
}

impl SweepPlan {
    /// An error when the disk has not enough room.
    pub fn check_room(&self, parent: &Path) -> Result<(), Error> {
        check_room(self.needed_bytes, self.free_bytes, parent)
    }
}

/// An error when that is more than is free.
pub fn check_room(needed: Bytes, free: Bytes, parent: &Path) -> Result<(), Error> {
    match needed <= free {
        true => Ok(()),
        false => Err(Error::NoRoom { needed, free, directory: parent.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::spec::tests::sweep;

    #[test]
    fn more_memory_than_the_machine_has_is_no_limit() {
        let study = sweep("[points]\nmemory = [\"1GiB\", \"900TB\"]\n").unwrap();
        let refused = plan_sweep(&study, 1, Path::new("/tmp")).unwrap_err().to_string();
        assert!(refused.contains("900 TB, and this machine has"), "{refused}");
    }

    #[test]
    fn every_point_has_its_repeats_and_the_seed_decides_their_order() {
        let study = sweep("repeats = 4\n[points]\nscale = [1, 10]\nclients = [1, 2, 4]\n").unwrap();
        let plan = |seed| plan_sweep(&study, seed, Path::new("/tmp")).unwrap();
        let one = plan(1);
        assert_eq!((one.points.len(), one.order.len()), (6, 24));
        for block in one.order.chunks(6) {
            let mut block = block.to_vec();
            block.sort_unstable();
            assert_eq!(block, [0, 1, 2, 3, 4, 5]);
        }
        assert_eq!(one.order, plan(1).order);
        assert_ne!(one.order, plan(2).order);
        assert_eq!(one.points[5].label, "scale 10, clients 4");
        assert_eq!(one.database_bytes, Bytes(11 * 16_000_000));
        assert!(one.check_room(Path::new("/tmp")).is_ok());
        let full = SweepPlan { free_bytes: Bytes(1), ..one };
        assert!(full.check_room(Path::new("/x")).unwrap_err().to_string().contains("/x, where 1 bytes are free"));
    }
}
