//! One trial: a server proven cold, then the race, then what it showed.

use std::path::Path;

use jiff::Timestamp;

use super::preparation::repeat_history;
use super::race::{Entrants, run_race, wait_for_server_start};
use super::residency::{StripRelation, read_strips_of_running};
use super::warmer::{Contender, WarmSnapshots, io_workers_serve, plan_launch};
use super::watch::Watched;
use crate::lab::{Error, Lab, Launch, LocalPgbench, Stop, disk};
use crate::linux::DeviceNumber;
use crate::observe::Cadence;
use crate::pgbench::Intervals;
use crate::postgres::pgbench::{Pgbench, Workload, read_intervals};
use crate::study::{
    Disk, Event, Events, Measured, Others, ResidencyStrip, Sample, StartState, Strategy, Study, Trial, TrialStarted,
    Turn, compute_samples,
};
use crate::units::Bytes;
use crate::verdict::{WarmGoal, describe_workload, find_others, served_by, warm, warnings};

/// What all trials of a study have in common.
#[derive(Debug)]
pub struct TrialSetup<'a> {
    pub run_id: &'a str,
    pub study: &'a Study,
    pub goal: WarmGoal,
    pub workload: &'a Workload,
    pub disk: &'a Disk,
    /// Memory that the server may use.
    pub memory: Option<Bytes>,
    pub device: Option<DeviceNumber>,
    pub block_size: Bytes,
    pub snapshots: &'a WarmSnapshots,
    pub strips: &'a [StripRelation],
    /// For logs and outputs; the trial takes a directory of its own in it.
    pub directory: &'a Path,
    pub trials: u32,
    /// Seconds that later acts are expected to take.
    pub later_seconds: u32,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

/// What was found before the server was started.
#[derive(Debug)]
struct Before {
    started_at: Timestamp,
    start_state: StartState,
    strips: Vec<ResidencyStrip>,
}

impl TrialSetup<'_> {
    /// Runs one trial. The server is running afterwards, without the limit.
    pub async fn run(&self, lab: &mut Lab, turn: &Turn<Strategy>) -> Result<Trial, Error> {
        if turn.position > 1 {
            repeat_history(lab, self.workload, self.directory, self.stop)?;
        }
        let before = self.make_cold(lab, turn.point)?;
        self.events.tell(Event::TrialStarted(TrialStarted {
            strategy: turn.point.name(),
            repeat: turn.repeat,
            position: turn.position,
            trials: self.trials,
            seconds: self.workload.seconds,
            later_seconds: self.later_seconds,
            until_steady: self.study.until_steady,
            start_state: before.start_state.clone(),
        }));
        let (measured, intervals) = self.race(lab, turn.point)?;
        let after = read_strips_of_running(lab, self.strips).await?;
        let samples = compute_samples(&measured.seconds, &intervals, measured.start_unix);
        Ok(self.conclude(turn, before, measured, samples, after))
    }

    fn make_cold(&self, lab: &mut Lab, strategy: Strategy) -> Result<Before, Error> {
        self.stop.check()?;
        let started_at = Timestamp::now();
        lab.stop()?;
        self.snapshots.place(strategy, lab)?;
        let start_state = lab.make_cold()?;
        // Of a stopped server, whose buffers are empty.
        let strips = self.strips.iter().map(|one| one.read(&lab.data_directory(), lab.page_cache(), &[]));
        let strips = strips.collect::<Result<_, _>>()?;
        Ok(Before { started_at, start_state, strips })
    }

    fn race(&self, lab: &mut Lab, strategy: Strategy) -> Result<(Measured, Intervals), Error> {
        let limit = disk::create_limit(self.disk, self.device, self.memory)?;
        wait_for_server_start();
        lab.start(limit.as_ref())?;
        let directory = tempfile::tempdir_in(self.directory)
            .map_err(|source| Error::file("create a directory in", self.directory, source))?;
        let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
        let arguments = pgbench.run_arguments(self.workload, &LocalPgbench::logs_in(directory.path()));
        let launch = Launch::new(pgbench.program(), arguments);
        let mut pgbench = LocalPgbench::ready(&launch, directory.path())?;
        let entrants = Entrants {
            generator: &mut pgbench,
            contender: Contender { strategy, launch: plan_launch(strategy, lab, self.snapshots, self.disk)? },
            seconds: self.workload.seconds,
            ends_by_itself: false,
            device: self.device,
            io_workers_serve: io_workers_serve(strategy),
            watched: Watched {
                goal: self.goal,
                facts: describe_workload(self.study, strategy.name()),
                stops_when_steady: self.study.until_steady,
            },
            cadence: Cadence::Close,
            gauged: None,
        };
        let measured = run_race(lab, entrants, limit, directory.path(), self.events, self.stop)?;
        let intervals = read_intervals(pgbench.logs())?;
        Ok((measured, intervals))
    }

    /// What the measurement shows, and what speaks against it. Throughput thresholds follow when the run ends.
    fn conclude(
        &self,
        turn: &Turn<Strategy>,
        before: Before,
        measured: Measured,
        samples: Vec<Sample>,
        after: Vec<ResidencyStrip>,
    ) -> Trial {
        let strips = self.strips.iter().zip(before.strips.into_iter().zip(after));
        let warm_after_seconds = warm::compute_warm_after(&samples, &measured.foreground_tenths, self.block_size);
        let device_read_bytes = samples.iter().map(|sample| sample.device_read_bytes).sum();
        let others = find_others(measured.others.as_ref());
        let warnings = [
            others.as_ref().map(Others::text),
            warnings::warn_of_late_readings(&measured.seconds),
            warnings::warn_of_saturation(&measured.generator_shares, self.workload.jobs)
                .filter(|_| !others.as_ref().is_some_and(Others::has_processors)),
            warnings::warn_of_missing_limit(&samples, self.disk),
            warnings::warn_of_head_start(measured.head_start_bytes, before.start_state.total_bytes),
        ];
        Trial {
            run_id: self.run_id.to_owned(),
            strategy: turn.point.name().to_owned(),
            repeat: turn.repeat,
            position: turn.position,
            started_at: before.started_at,
            start_state: before.start_state,
            outcome: measured.outcome.into(),
            warm_after_seconds,
            to_50_seconds: None,
            to_90_seconds: None,
            to_95_seconds: None,
            served_until_warm: served_by(&samples, warm_after_seconds.unwrap_or(f64::INFINITY)).round() as u64,
            served: samples.iter().map(|sample| sample.transactions).sum(),
            device_read_bytes,
            foreground_tenths: measured.foreground_tenths,
            samples,
            residency: strips.map(|(relation, (before, after))| relation.describe(before, after)).collect(),
            warnings: warnings.into_iter().flatten().collect(),
            judgement: None,
            no_verdict: None,
        }
    }
}
