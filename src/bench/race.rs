//! The seconds that count: workload, strategy and sampler from the same instant on, under the same limit.

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::resident::{Looker, Probe};
use super::warmer::{ActiveContender, Contender};
use super::watch::{Watch, Watched};
use crate::lab::{Error, Generator, Lab, Start, Stop};
use crate::linux::cgroup::DiskLimit;
use crate::linux::page_cache::PageCache as _;
use crate::linux::{Devices, clock};
use crate::observe::OsSample;
use crate::observe::time::TimeSampler;
use crate::observe::time::TrialTime;
use crate::observe::{
    BackendReads, BackendRole, Cadence, GaugeSampler, GaugeSources, MachineReading, Sampler, Sources, compute_seconds,
    compute_tenths,
};
use crate::study::{Events, LoadBegins, Measured, Strategy};
use crate::units::Bytes;

/// A server is started at this part of a second, so that it is ready shortly before the next one begins: what it reads
/// meanwhile (autoprewarm begins at once) is a head start.
const SERVER_START_MS: i64 = 500;

pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The same where looking closely is not worth its price.
const SPARING_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// pgbench ends by itself after its seconds; a client that waits for a read through a crowded disk may need longer.
const PGBENCH_GRACE: Duration = Duration::from_secs(60);

/// A second's counters are read within this after its end.
const LAST_READING: Duration = Duration::from_millis(50);

/// So long of it the limit holds on: pgbench may have begun late, and what it does then is counted too.
const LIMITED_GRACE: Duration = Duration::from_secs(3);

/// Who runs.
pub struct Entrants<'a> {
    pub generator: &'a mut dyn Generator,
    pub contender: Contender,
    pub load_begins: LoadBegins,
    /// That it lasts, or at most when it ends when it is steady or by itself.
    pub seconds: u32,
    /// The race is over when the workload is.
    pub ends_by_itself: bool,
    /// That the server lies on.
    pub devices: Devices,
    /// Whom io workers read for.
    pub io_workers_serve: BackendRole,
    pub watched: Watched,
    /// The first segments of relations whose residency is counted on its own.
    pub relations: Vec<PathBuf>,
    /// Looks at what is wanted, beside a warmer of an idle server: the race is over when all of it is there.
    pub looker: Option<Looker>,
    pub cadence: Cadence,
    /// Is the machine gauged each second?
    pub gauged: Option<Gauged>,
    /// Accounts for the time of the server's processes, where that is wanted.
    pub time: Option<TimeSampler>,
}

impl Entrants<'_> {
    fn sources(&self, lab: &Lab) -> Result<Sources, Error> {
        Ok(Sources {
            devices: self.devices.clone(),
            backends: BackendReads::new(lab.postmaster_pid(), self.io_workers_serve),
            files: lab.open_files_of(&self.relations)?,
            relations: self.relations.len(),
            page_bytes: lab.page_cache().page_bytes(),
            cadence: self.cadence,
        })
    }
}

/// What to know of gauging the machine.
#[derive(Clone, Copy, Debug)]
pub struct Gauged {
    /// The backend that serves pgthaw's own looks at the server meanwhile.
    pub observer_pid: Option<u32>,
}

impl Gauged {
    fn start(
        self,
        lab: &Lab,
        devices: Devices,
        generator_pids: Vec<u32>,
        start: Start,
        seconds: u32,
    ) -> Result<GaugeSampler, Error> {
        let sources = GaugeSources {
            devices,
            generator_pids,
            postmaster_pid: lab.postmaster_pid(),
            observer_pid: self.observer_pid,
        };
        Ok(GaugeSampler::start(sources, start.monotonic, seconds)?)
    }
}

/// What tells of each second what the machine did, and where the server's time went.
struct Accounts {
    gauges: Option<GaugeSampler>,
    time: Option<TimeSampler>,
}

impl Accounts {
    fn begin(gauges: Option<GaugeSampler>, time: Option<TimeSampler>, start: Start, seconds: u32) -> Accounts {
        time.iter().for_each(|time| time.begin(start.monotonic, seconds));
        Accounts { gauges, time }
    }

    fn finish(self, is_early: bool) -> (Vec<OsSample>, Option<TrialTime>) {
        let Accounts { gauges, time } = self;
        let time = time.map(|time| if is_early { time.stop() } else { time.finish() }).unwrap_or_default();
        let samples = gauges.map(|gauges| if is_early { gauges.stop() } else { gauges.finish() });
        let mut samples = samples.unwrap_or_default();
        time.add_to(&mut samples);
        (samples, time.trial)
    }
}

/// Waits for the right moment to start the server.
pub fn wait_for_server_start() {
    let wait_ms = (SERVER_START_MS - clock::read_wall_ms()).rem_euclid(1000);
    std::thread::sleep(Duration::from_millis(wait_ms as u64));
}

/// Runs workload and strategy against the started server, for so many seconds or until it is steady. `limit` ends with the
/// generator, or a while after the last second, so that what is still queued behind it does not hold up the end.
pub fn run_race(
    lab: &Lab,
    entrants: Entrants,
    limit: Option<DiskLimit>,
    directory: &Path,
    events: &Events,
    stop: &Stop,
) -> Result<Measured, Error> {
    let (sources, devices, seconds) = (entrants.sources(lab)?, entrants.devices.clone(), entrants.seconds);
    let load_waits =
        entrants.load_begins == LoadBegins::AfterWarmer && entrants.contender.strategy != Strategy::Nothing;
    let generator = entrants.generator;
    let contender = entrants.contender.ready(lab, directory, limit.as_ref())?;

    let start = choose_start(entrants.time.as_ref(), generator.lead());
    let generator_pids = generator.announce(start)?;
    let (tell, readings) = channel();
    let sampler = Sampler::start(sources, start.monotonic, entrants.seconds, move |reading| {
        // The listener is gone when the trial was stopped.
        let _ = tell.send(*reading);
    })?;
    let gauge = |gauged: Gauged| gauged.start(lab, devices.clone(), generator_pids.clone(), start, seconds);
    let accounts = Accounts::begin(entrants.gauged.map(gauge).transpose()?, entrants.time, start, seconds);
    let machine_before = MachineReading::read(lab.postmaster_pid(), &devices);
    let probe = entrants.looker.map(|looker| looker.start(start.monotonic)).transpose()?;
    std::thread::sleep(start.monotonic.saturating_sub(clock::read_monotonic()));
    if !load_waits {
        generator.go();
    }
    let mut contender = contender.go(start.monotonic);

    let head_start_bytes = limit.as_ref().map(read_used).transpose()?;

    let mut watch = Watch::new(entrants.watched, readings, events, generator_pids);
    let Entrants { ends_by_itself, cadence, .. } = entrants;
    let course = Course { lab, start, seconds, ends_by_itself, cadence, stop };
    let load_began_after = if load_waits { course.begin_after(&mut contender, generator)? } else { Duration::ZERO };
    let is_early = course.follow(generator, &mut contender, &mut watch, probe.as_ref())?;
    if is_early {
        generator.end_early();
    }
    let (os_samples, time) = accounts.finish(is_early);
    let readings = if is_early { sampler.stop()? } else { sampler.finish()? };
    // The first reading is that of the start.
    let seconds = entrants.seconds.min(readings.seconds.len().saturating_sub(1) as u32);
    let used = limit.as_ref().map(read_used).transpose()?;
    let limited_read_bytes = used.zip(head_start_bytes).map(|(used, before)| Bytes(used.0.saturating_sub(before.0)));
    let machine_after = MachineReading::read(lab.postmaster_pid(), &devices);
    let others = machine_before.zip(machine_after).map(|(from, to)| to.others_since(&from, limited_read_bytes));
    let outcome = contender.finish(lab);
    let seen = probe.map(Probe::finish).transpose()?;
    let ended_at = wait_for_end(generator, start.after(seconds), limit, stop)?;
    Ok(Measured {
        start_unix: start.unix,
        start_monotonic: start.monotonic,
        seconds: compute_seconds(&readings.seconds, start.monotonic, seconds),
        foreground_tenths: compute_tenths(&readings.workload, start.monotonic, seconds),
        progress: after_waiting(load_began_after, generator.read_paces()),
        load_began_after,
        ended_after: ended_at.saturating_sub(start.monotonic),
        outcome,
        relations: readings.relations,
        generator_shares: watch.generator_shares,
        os_samples,
        time,
        head_start_bytes,
        seen,
        others,
    })
}

/// When it begins: not before the account of its time can.
fn choose_start(time: Option<&TimeSampler>, lead: Duration) -> Start {
    time.into_iter().for_each(TimeSampler::wait_until_open);
    Start::choose(lead)
}

/// The way of a race to its end.
struct Course<'a> {
    lab: &'a Lab,
    start: Start,
    seconds: u32,
    ends_by_itself: bool,
    cadence: Cadence,
    stop: &'a Stop,
}

impl Course<'_> {
    /// Lets the load begin when what warms the server has ended, or the race is over. Says how long after the start that was.
    fn begin_after(&self, contender: &mut ActiveContender, generator: &mut dyn Generator) -> Result<Duration, Error> {
        let last = self.start.after(self.seconds);
        while contender.ended_at().is_none() && clock::read_monotonic() < last {
            self.stop.check()?;
            contender.poll(self.lab);
            std::thread::sleep(poll_interval(self.cadence));
        }
        generator.go();
        Ok(clock::read_monotonic().saturating_sub(self.start.monotonic))
    }

    /// Looks at everybody until it is over. True when that is before its seconds are.
    fn follow(
        &self,
        generator: &mut dyn Generator,
        contender: &mut ActiveContender,
        watch: &mut Watch<'_>,
        probe: Option<&Probe>,
    ) -> Result<bool, Error> {
        let last = self.start.after(self.seconds);
        let (mut is_early, mut end) = (false, last);
        while !is_early && clock::read_monotonic() < end {
            self.stop.check()?;
            contender.poll(self.lab);
            is_early = watch.poll(generator);
            is_early |= generator.poll()?.is_some() && self.ends_by_itself;
            if end == last && probe.is_some_and(|probe| probe.is_over(contender.ended_at())) {
                // Its last second is measured as a whole.
                end = end.min(self.start.end_of_second(clock::read_monotonic()) + LAST_READING);
            }
            std::thread::sleep(poll_interval(self.cadence));
        }
        Ok(is_early || end < last)
    }
}

/// Transactions of each second since the start, of a load that counted its own.
fn after_waiting(load_began_after: Duration, mut paces: Vec<f64>) -> Vec<f64> {
    let waited = load_began_after.as_secs_f64().round() as usize;
    paces.splice(0..0, std::iter::repeat_n(0.0, waited));
    paces
}

fn poll_interval(cadence: Cadence) -> Duration {
    match cadence {
        Cadence::Close => POLL_INTERVAL,
        Cadence::Sparing => SPARING_POLL_INTERVAL,
    }
}

fn read_used(limit: &DiskLimit) -> Result<Bytes, Error> {
    Ok(limit.read_usage()?.read_bytes)
}

/// When the generator ended, whose last second ends at `end`. The limit is lifted from one that is late for long.
fn wait_for_end(
    generator: &mut dyn Generator,
    end: Duration,
    limit: Option<DiskLimit>,
    stop: &Stop,
) -> Result<Duration, Error> {
    let in_time = poll_until(generator, end + LIMITED_GRACE, stop)?;
    limit.map_or(Ok(()), DiskLimit::remove)?;
    let late = || poll_until(generator, end + PGBENCH_GRACE, stop);
    let ended_at = in_time.map_or_else(late, |at| Ok(Some(at)))?;
    ended_at.ok_or_else(|| generator.failure())
}

/// When the generator ended; `None`: it has not until the deadline.
fn poll_until(generator: &mut dyn Generator, deadline: Duration, stop: &Stop) -> Result<Option<Duration>, Error> {
    loop {
        stop.check()?;
        let ended_at = generator.poll()?;
        if ended_at.is_some() || clock::read_monotonic() >= deadline {
            return Ok(ended_at);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_a_whole_second_that_is_still_to_come() {
        let start = Start::choose(Duration::from_millis(100));
        let (wall_ms, monotonic) = (clock::read_wall_ms(), clock::read_monotonic());
        let until_unix = start.unix * 1000 - wall_ms;
        let until_monotonic = (start.monotonic - monotonic).as_millis() as i64;
        assert!(until_unix > 0);
        assert!((until_unix - until_monotonic).abs() <= 50, "{until_unix} {until_monotonic}");
    }
}
