//! What is at work beside the load: the ways to get a cold server warm, and a job. Each is what a DBA would do, as the DBA would type it.

use std::fmt;

use cache::warm::Sharing;
use postgres::PrewarmMode;

/// The strategy that the sentence is about, when it took part.
pub const PGTHAW: &str = "pgthaw";

/// A way to get warm, or to run the study's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The workload warms itself.
    Nothing,
    /// `SELECT avg(abalance) FROM pgbench_accounts`: what people do first. It reads no index.
    Seqscan,
    /// `cat` of the database's files.
    Cat,
    /// `vmtouch -t` of the database's directory.
    Vmtouch,
    /// pg_prewarm of every relation, through one connection.
    Prewarm(PrewarmMode),
    /// pg_prewarm's own background worker: loads what was in shared_buffers, from the server's start on.
    Autoprewarm,
    /// pgfincore's snapshot of the page cache, through its loader.
    Pgfincore,
    /// `pgthaw restore`, in one of its modes.
    Pgthaw(Sharing),
    /// `pgthaw restore --tier os`.
    PgthawOs,
    /// A read for every range of the snapshot, by 16 threads.
    Ranges,
    /// fio, io_uring, in order through the page cache.
    FioBuffered,
    /// fio, io_uring, in order past it: it leaves nothing there, and is what the device can give.
    FioDirect,
    /// The study's job, by itself.
    Job,
    /// The job under `pgthaw run --like`.
    Run,
    /// The job under `pgthaw run --like --protect=isolate`.
    Isolate,
    /// The job under `pgthaw run --film`.
    Replay,
}

impl Strategy {
    /// All of them, in the order in which people read about them.
    pub const ALL: [Strategy; 20] = [
        Strategy::Nothing,
        Strategy::Seqscan,
        Strategy::Cat,
        Strategy::Vmtouch,
        Strategy::Prewarm(PrewarmMode::Read),
        Strategy::Prewarm(PrewarmMode::Buffer),
        Strategy::Prewarm(PrewarmMode::Prefetch),
        Strategy::Autoprewarm,
        Strategy::Pgfincore,
        Strategy::Pgthaw(Sharing::Fair),
        Strategy::Pgthaw(Sharing::Gentle),
        Strategy::Pgthaw(Sharing::FullSpeed),
        Strategy::PgthawOs,
        Strategy::Ranges,
        Strategy::FioBuffered,
        Strategy::FioDirect,
        Strategy::Job,
        Strategy::Run,
        Strategy::Isolate,
        Strategy::Replay,
    ];

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == name)
    }

    /// The name for the command line, for results and for tables.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Nothing => NOTHING,
            Strategy::Seqscan => "seqscan",
            Strategy::Cat => "cat",
            Strategy::Vmtouch => "vmtouch",
            Strategy::Prewarm(PrewarmMode::Read) => "pg_prewarm-read",
            Strategy::Prewarm(PrewarmMode::Buffer) => "pg_prewarm-buffer",
            Strategy::Prewarm(PrewarmMode::Prefetch) => "pg_prewarm-prefetch",
            Strategy::Autoprewarm => "autoprewarm",
            Strategy::Pgfincore => "pgfincore",
            Strategy::Pgthaw(Sharing::Fair) => PGTHAW,
            Strategy::Pgthaw(Sharing::Gentle) => "pgthaw-gentle",
            Strategy::Pgthaw(Sharing::FullSpeed) => "pgthaw-full-speed",
            Strategy::PgthawOs => "pgthaw-os",
            Strategy::Ranges => "one-read-per-range",
            Strategy::FioBuffered => "fio-buffered",
            Strategy::FioDirect => "fio-direct",
            Strategy::Job => "job",
            Strategy::Run => "run",
            Strategy::Isolate => "isolate",
            Strategy::Replay => "replay",
        }
    }

    /// Is it meant to warm the server?
    pub fn warms(self) -> bool {
        self != Strategy::Nothing && !self.runs_job()
    }

    /// Does it run the study's job?
    pub fn runs_job(self) -> bool {
        self == Strategy::Job || self.reads_film()
    }

    /// Does it go by a film of the job?
    pub fn reads_film(self) -> bool {
        matches!(self, Strategy::Run | Strategy::Isolate | Strategy::Replay)
    }

    /// Does it leave anything in the page cache?
    pub fn fills_cache(self) -> bool {
        self != Strategy::FioDirect
    }

    /// Does it tell itself how fast it was?
    pub fn is_fio(self) -> bool {
        matches!(self, Strategy::FioBuffered | Strategy::FioDirect)
    }

    /// Does it bring shared_buffers back as they were?
    pub fn fills_buffers(self) -> bool {
        matches!(self, Strategy::Pgthaw(_))
    }

    /// Does it read what a snapshot of pgthaw asks for?
    pub fn reads_snapshot(self) -> bool {
        use Strategy::{FioBuffered, FioDirect, Pgthaw, PgthawOs, Ranges};
        matches!(self, Pgthaw(_) | PgthawOs | Ranges | FioBuffered | FioDirect)
    }

    /// The share of the transactions of `nothing` that it leaves to the traffic in every second; `None`: it promises
    /// nothing.
    pub fn floor(self) -> Option<f64> {
        match self {
            Strategy::Pgthaw(Sharing::Fair) => Some(0.3),
            Strategy::Pgthaw(Sharing::Gentle) => Some(0.8),
            _ => None,
        }
    }

    /// Does its SQL scan relations, so that io workers (PostgreSQL 18) read for it?
    pub fn scans_in_server(self) -> bool {
        matches!(self, Strategy::Seqscan | Strategy::Prewarm(_) | Strategy::Autoprewarm) || self.runs_job()
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The strategy that every other one is compared with: no warming at all.
pub const NOTHING: &str = "nothing";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for strategy in Strategy::ALL {
            assert_eq!(Strategy::named(strategy.name()), Some(strategy));
        }
        assert_eq!(Strategy::named("dd"), None);
    }
}
