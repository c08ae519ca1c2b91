//! One loader at work on an idle server that was proven cold.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::postgres::PgConnection;

use super::launch::{LoadPlan, parse_fio};
use super::options::RESIDENT_SHARE;
use super::prepare::{OTHER_DATABASE, PreparedLoading};
use super::wanted::count_pages;
use super::watch::{NEAR_GOAL, Watch};
use crate::bench::warmer::describe_failure;
use crate::lab::{DeviceUse, Error, Lab, Launch, Running, Stop, disk};
use crate::linux::block_device::read_device_counters;
use crate::linux::cgroup::DiskLimit;
use crate::linux::page_cache::PageCache as _;
use crate::linux::{DeviceNumber, clock};
use crate::observe::{MachineReading, apply_end_strategy_backends};
use crate::postgres::Server;
use crate::study::{Disk, Event, Events, LoadOutcome, LoadSample, Loader, LoadingTrial, OthersUse, StartState, Turn};
use crate::units::Bytes;
use crate::verdict::find_others;

/// The server has so long to come to rest after its start.
const REST: Duration = Duration::from_millis(500);

/// Looking takes at most a fourth of a processor, and as often as that allows: between these bounds.
const REST_PER_LOOK: u32 = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What a loader left to the kernel (pgfincore's reads end after its command) may still come within this.
const AFTERMATH: Duration = Duration::from_secs(3);

/// What all trials of a run have in common.
#[derive(Debug)]
pub struct LoadSetup<'a> {
    pub prepared: &'a PreparedLoading,
    pub disk: &'a Disk,
    pub device: Option<DeviceNumber>,
    /// For logs and outputs; the trial takes a directory of its own in it.
    pub directory: &'a Path,
    /// The ranges as text.
    pub range_list: PathBuf,
    pub block_bytes: u64,
    pub patience: Duration,
    pub events: &'a Events,
    pub stop: &'a Stop,
}

/// A loader under way.
struct Race<'a> {
    setup: &'a LoadSetup<'a>,
    watch: Watch,
    goal_pages: u64,
    page_bytes: u64,
    postmaster_pid: u32,
    /// To look at the buffers through; `None` of a loader that leaves them alone.
    connection: Option<PgConnection>,
    start: Duration,
    outcome: LoadOutcome,
    samples: Vec<LoadSample>,
}

impl LoadSetup<'_> {
    /// Runs one trial. The server is running afterwards, without the limit.
    pub async fn run(&self, lab: &mut Lab, turn: &Turn<Loader>) -> Result<LoadingTrial, Error> {
        // All trials have the same history (docs/journal/2026-11-22-the-same-history.md).
        lab.apply_read_all(|| !self.stop.is_requested())?;
        self.stop.check()?;
        let started_at = Timestamp::now();
        lab.stop()?;
        let start_state = lab.make_cold()?;
        let limit = disk::create_limit(self.disk, self.device, DeviceUse::Shared, None)?;
        lab.start(limit.as_ref())?;
        let directory = tempfile::tempdir_in(self.directory)
            .map_err(|source| Error::file("create a directory in", self.directory, source))?;
        let fio_output = directory.path().join("fio.json");
        let launch = self.plan(lab, &fio_output).launch(turn.point)?;
        let race = self.open_race(lab, turn.point).await?;
        let (mut outcome, samples, others) = race.run(&launch, turn.point, directory.path(), limit).await?;
        apply_end_strategy_backends(lab.postmaster_pid());
        let own = std::fs::read_to_string(&fio_output).ok().and_then(|text| parse_fio(&text));
        (outcome.own_bytes, outcome.own_seconds) = (own.map(|own| Bytes(own.0)), own.map(|own| own.1));
        let mut trial = self.conclude(turn, started_at, start_state, launch.render(), outcome, samples);
        trial
            .warnings
            .extend(find_others(others.as_ref()).map(|others| format!("round {}: {}", turn.repeat, others.text())));
        Ok(trial)
    }

    fn plan<'a>(&'a self, lab: &'a Lab, fio_output: &'a Path) -> LoadPlan<'a> {
        let PreparedLoading { snapshots, wanted, .. } = self.prepared;
        LoadPlan { lab, snapshots, disk: self.disk, wanted, range_list: &self.range_list, fio_output }
    }

    async fn open_race(&self, lab: &Lab, loader: Loader) -> Result<Race<'_>, Error> {
        let server = Server::connect(&lab.connect_options(OTHER_DATABASE)).await?;
        let mut connection = server.connect_to(OTHER_DATABASE).await?;
        // The first look reads the catalogs that the later ones need.
        self.prepared.former.look(&mut connection).await?;
        let pages = count_pages(&self.prepared.wanted);
        Ok(Race {
            setup: self,
            watch: Watch::open(&self.prepared.wanted, lab.page_cache())?,
            goal_pages: (pages as f64 * RESIDENT_SHARE).ceil() as u64,
            page_bytes: lab.page_cache().page_bytes(),
            postmaster_pid: lab.postmaster_pid(),
            connection: loader.fills_buffers().then_some(connection),
            start: Duration::ZERO,
            outcome: LoadOutcome::default(),
            samples: Vec::new(),
        })
    }

    /// Reads and bytes so far: under the limit, or of the whole device without one.
    fn read_device(&self, limit: Option<&DiskLimit>) -> Option<(u64, Bytes)> {
        match limit {
            Some(limit) => limit.read_usage().ok().map(|usage| (usage.reads, usage.read_bytes)),
            None => read_device_counters(self.device?).ok().map(|counters| (counters.reads, counters.read_bytes)),
        }
    }

    fn conclude(
        &self,
        turn: &Turn<Loader>,
        started_at: Timestamp,
        start_state: StartState,
        command: String,
        outcome: LoadOutcome,
        samples: Vec<LoadSample>,
    ) -> LoadingTrial {
        let wanted = count_pages(&self.prepared.wanted) as f64;
        let exact = samples.iter().filter(|sample| sample.is_exact).map(|sample| sample.resident_bytes).max();
        let lost = exact.map_or(0, |seen| seen.0.saturating_sub(outcome.resident_bytes.0));
        let is_much = lost as f64 > (1.0 - RESIDENT_SHARE) * wanted * rustix::param::page_size() as f64;
        let warning = is_much.then(|| {
            format!("round {}: {} were taken from the page cache again before the end", turn.repeat, Bytes(lost))
        });
        LoadingTrial {
            loader: turn.point.name().to_owned(),
            round: turn.repeat,
            position: turn.position,
            started_at,
            start_state,
            command,
            outcome,
            samples,
            warnings: warning.into_iter().collect(),
        }
    }
}

impl Race<'_> {
    /// Lets the loader run and looks, until all that it can bring is there and its command has ended.
    async fn run(
        mut self,
        launch: &Launch,
        loader: Loader,
        directory: &Path,
        limit: Option<DiskLimit>,
    ) -> Result<(LoadOutcome, Vec<LoadSample>, Option<OthersUse>), Error> {
        let gated = launch.ready("loader", directory, limit.as_ref())?;
        std::thread::sleep(REST);
        let machine_before = MachineReading::read(self.postmaster_pid, self.setup.device);
        let before = self.setup.read_device(limit.as_ref());
        self.start = clock::read_monotonic();
        let mut running = gated.go();
        while !self.is_over(loader, &mut running) {
            self.setup.stop.check()?;
            let began = clock::read_monotonic();
            self.look().await?;
            let pause = ((clock::read_monotonic() - began) * REST_PER_LOOK).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
            std::thread::sleep(pause);
        }
        let after = self.setup.read_device(limit.as_ref());
        let used = before.zip(after).map(|(before, after)| (after.0 - before.0, Bytes(after.1.0 - before.1.0)));
        (self.outcome.device_reads, self.outcome.device_read_bytes) =
            (used.map(|used| used.0), used.map(|used| used.1));
        let machine_after = MachineReading::read(self.postmaster_pid, self.setup.device);
        // Without a limit what the device read is everybody's.
        let known = self.outcome.device_read_bytes.filter(|_| limit.is_some());
        let others = machine_before.zip(machine_after).map(|(from, to)| to.others_since(&from, known));
        let ended = running.poll();
        self.outcome.cpu_seconds = ended.and_then(|ended| ended.cpu_time).map(|time| time.as_secs_f64());
        self.outcome.output = running.read_output_tail();
        self.outcome.failure = match ended {
            Some(ended) => describe_failure(ended, &self.outcome.output),
            None => Some("it had not ended when nobody waited for it any longer".to_owned()),
        };
        drop(running);
        limit.map_or(Ok(()), DiskLimit::remove)?;
        self.outcome.resident_bytes = Bytes(self.watch.recount()? * self.page_bytes);
        Ok((self.outcome, self.samples, others))
    }

    /// Has all come that can come? A command that ended early may have left reads to the kernel.
    fn is_over(&mut self, loader: Loader, running: &mut Running) -> bool {
        let now = clock::read_monotonic();
        let ended = running.poll().map(|ended| ended.at);
        self.outcome.ended_after_seconds = ended.map(|at| at.saturating_sub(self.start).as_secs_f64());
        if now > self.start + self.setup.patience {
            return true;
        }
        let is_there = self.outcome.resident_after_seconds.is_some() || !loader.fills_cache();
        let is_back = self.outcome.buffers_after_seconds.is_some() || !loader.fills_buffers();
        ended.is_some_and(|at| (is_there && is_back) || now > at.max(self.last_gain()) + AFTERMATH)
    }

    /// When something was last seen to come.
    fn last_gain(&self) -> Duration {
        let mut most = (Bytes(0), None);
        let mut last = 0.0;
        for sample in &self.samples {
            let now = (most.0.max(sample.resident_bytes), most.1.max(sample.buffers_bytes));
            if now != most {
                (most, last) = (now, sample.seconds);
            }
        }
        self.start + Duration::from_secs_f64(last)
    }

    /// Looks at both tiers. What is seen is dated to the end of the look: rather late than early.
    async fn look(&mut self) -> Result<(), Error> {
        let looked = self.watch.look(self.goal_pages)?;
        let seconds = self.elapsed();
        if looked.is_exact && looked.pages >= self.goal_pages {
            self.outcome.resident_after_seconds.get_or_insert(seconds);
        }
        let former = &self.setup.prepared.former;
        // A backend that looks all the time is traffic that a restore makes way for.
        let is_near = looked.pages as f64 >= NEAR_GOAL * self.goal_pages as f64;
        let buffers = match &mut self.connection {
            Some(connection) if is_near => Some(former.look(connection).await?),
            _ => None,
        };
        if buffers.is_some_and(|buffers| former.is_back(buffers)) {
            let now = self.elapsed();
            self.outcome.buffers_after_seconds.get_or_insert(now);
        }
        let bytes = |blocks: u64| Bytes(blocks * self.setup.block_bytes);
        self.samples.push(LoadSample {
            seconds,
            resident_bytes: Bytes(looked.pages * self.page_bytes),
            is_exact: looked.is_exact,
            buffers_bytes: buffers.map(|buffers| bytes(buffers.blocks)),
            hot_bytes: buffers.map(|buffers| bytes(buffers.hot_blocks)),
        });
        let share = looked.pages as f64 / self.watch.wanted_pages().max(1) as f64;
        self.setup.events.tell(Event::StepShare(share));
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        (clock::read_monotonic() - self.start).as_secs_f64()
    }
}
