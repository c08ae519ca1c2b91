//! What produces a trial's load, here or on other hosts.

use std::fmt::Debug;
use std::time::Duration;

use super::cluster::Lab;
use super::launch::Start;
use crate::study::{Error, Latencies, Result, TrialGenerators};
use pgbench::PgbenchOutcome;
use postgres::Load;

const LEAD: Duration = Duration::from_millis(100);

/// Dropping it ends the load.
pub trait Generator: Debug + Send {
    /// `asked` names the user's scripts, not their copies.
    fn command(&self, lab: &Lab, asked: &Load) -> Result<String>;

    fn lead(&self) -> Duration {
        LEAD
    }

    /// Returns the processes on this host that will produce the load.
    fn announce(&mut self, start: Start) -> Result<Vec<u32>>;

    fn go(&mut self) {}

    /// Time from boot to the load's end; `None` while it runs.
    fn poll(&mut self) -> Result<Option<Duration>>;

    /// Transactions in progress complete.
    fn end_early(&mut self);

    /// Transactions in each second reported so far.
    fn read_paces(&self) -> Vec<f64>;

    fn failure(&self) -> Error;

    fn finish(self: Box<Self>, load: &Load) -> Result<LoadFigures>;
}

#[derive(Debug)]
pub struct LoadFigures {
    pub latencies: Latencies,
    pub outcome: PgbenchOutcome,
    /// `None` if pgbench ran on this host.
    pub generators: Option<TrialGenerators>,
}

pub fn new_latencies(load: &Load) -> Latencies {
    Latencies::new(load.scripts.iter().map(|(script, _)| script.name()).collect(), load.rate.is_some())
}
