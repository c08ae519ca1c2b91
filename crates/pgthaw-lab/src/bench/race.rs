//! The measured seconds of a trial. Load, strategy and sampler start at the same instant, under one disk limit.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::resident::{Looker, Probe};
use super::warmer::{Contender, io_workers_serve};
use crate::lab::{Generator, Lab, Launch, Start, Stop, Work};
use crate::study::{Event, Events, LiveSecond, LoadBegins, Measured, Result, Strategy};
use crate::verdict::{PassedSecond, WarmGoal, compute_until_warm};
use host::linux::cgroup::DiskLimit;
use host::linux::page_cache::PageCache as _;
use host::linux::{Devices, clock, process};
use host::units::Bytes;
use model::{Facts, Series, judge};
use observe::time::TimeSampler;
use observe::{
    BackendReads, Cadence, GaugeSources, MachineReading, Reading, Sources, compute_seconds, compute_tenths,
    sample_counters, sample_gauges,
};

/// Milliseconds after a whole second at which the server starts, shortly before the race begins at the next. Pages that
/// autoprewarm reads before the race are a head start.
const SERVER_START_MS: i64 = 500;

pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

const SPARING_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// After the race, pgbench may still wait for a read from a busy disk.
const PGBENCH_GRACE: Duration = Duration::from_secs(60);

/// Time after a second's end within which its counters are read.
const LAST_READING: Duration = Duration::from_millis(50);

/// The disk limit stays this long: pgbench may have begun late, and its late transactions count too.
const LIMITED_GRACE: Duration = Duration::from_secs(3);

pub struct Entrants<'a> {
    pub generator: &'a mut dyn Generator,
    pub strategy: Strategy,
    pub launch: Option<Launch>,
    pub load_begins: LoadBegins,
    /// Maximum duration if the race may end early.
    pub seconds: u32,
    pub ends_by_itself: bool,
    pub devices: Devices,
    pub watched: Watched,
    /// First segment file of each relation whose cached bytes are counted separately.
    pub relations: Vec<PathBuf>,
    /// Samples the caches. If present, the race ends when the warmer has loaded nearly all pages of the snapshot.
    pub looker: Option<Looker>,
    pub cadence: Cadence,
    pub observer_pid: Option<u32>,
    pub time: Option<TimeSampler>,
}

pub fn wait_for_server_start() {
    let wait_ms = (SERVER_START_MS - clock::read_wall_ms()).rem_euclid(1000);
    std::thread::sleep(Duration::from_millis(wait_ms as u64));
}

/// Lifts the disk limit when the load generator exits, or shortly after the last measured second, so that queued reads
/// do not delay the end.
pub fn run_race(lab: &Lab, entrants: Entrants, limit: Option<DiskLimit>, work: Work<'_>) -> Result<Measured> {
    let Entrants { generator, strategy, devices, seconds, ends_by_itself, cadence, time, .. } = entrants;
    let sources = Sources {
        devices: devices.clone(),
        backends: BackendReads::new(lab.postmaster_pid(), io_workers_serve(strategy)),
        files: lab.open_files_of(&entrants.relations)?,
        relations: entrants.relations.len(),
        page_bytes: lab.page_cache.page_bytes(),
        cadence,
    };
    let load_waits = entrants.load_begins == LoadBegins::AfterWarmer && strategy != Strategy::Nothing;
    let mut contender = Contender::ready(strategy, entrants.launch, lab, work.directory, limit.as_ref())?;

    time.iter().for_each(TimeSampler::wait_until_open);
    let start = Start::choose(generator.lead());
    let generator_pids = generator.announce(start)?;
    let (tell, readings) = channel();
    let sampler = sample_counters(sources, start.monotonic, seconds, move |reading| {
        // If the trial was stopped, nothing receives this.
        let _ = tell.send(*reading);
    })?;
    let gauged = GaugeSources {
        devices: devices.clone(),
        generator_pids: generator_pids.clone(),
        postmaster_pid: lab.postmaster_pid(),
        observer_pid: entrants.observer_pid,
    };
    let gauges = sample_gauges(gauged, start.monotonic, seconds)?;
    time.iter().for_each(|time| time.begin(start.monotonic, seconds));
    let machine_before = MachineReading::read(lab.postmaster_pid(), &devices);
    let probe = entrants.looker.map(|looker| looker.start(start.monotonic)).transpose()?;
    std::thread::sleep(start.monotonic.saturating_sub(clock::read_monotonic()));
    if !load_waits {
        generator.go();
    }
    contender.go(start.monotonic);

    let head_start = limit.as_ref().map(DiskLimit::read_usage).transpose()?;

    let mut watch = Watch {
        watched: entrants.watched,
        readings,
        events: work.events,
        generator_pids,
        previous: None,
        passed: Vec::new(),
        steady_seconds: 0,
        generator_shares: Vec::new(),
    };
    let course = Course { lab, start, seconds, ends_by_itself, cadence, stop: work.stop };
    let begun = (!load_waits).then_some(Duration::ZERO);
    let (is_early, load_began_after) = course.follow(begun, generator, &mut contender, &mut watch, probe.as_ref())?;
    if is_early {
        generator.end_early();
    }
    let time = time.map(|time| time.finish(is_early)).unwrap_or_default();
    let mut os_samples = gauges.finish(is_early);
    time.add_to(&mut os_samples);
    let readings = sampler.finish(is_early)?;
    let seconds = seconds.min(readings.seconds.len().saturating_sub(1) as u32);
    let used = limit.as_ref().map(DiskLimit::read_usage).transpose()?.zip(head_start);
    let limited_read_bytes = used.map(|(used, before)| Bytes(used.read_bytes.0.saturating_sub(before.read_bytes.0)));
    let machine_after = MachineReading::read(lab.postmaster_pid(), &devices);
    let others = machine_before.zip(machine_after).map(|(from, to)| to.others_since(&from, limited_read_bytes));
    let outcome = contender.finish(lab);
    let seen = probe.map(Probe::finish).transpose()?;
    let ended_at = await_end(generator, start.after(seconds), limit, work.stop)?;
    let mut progress = generator.read_paces();
    progress.splice(0..0, std::iter::repeat_n(0.0, load_began_after.as_secs_f64().round() as usize));
    Ok(Measured {
        start_unix: start.unix,
        start_monotonic: start.monotonic,
        seconds: compute_seconds(&readings.seconds, start.monotonic, seconds),
        foreground_tenths: compute_tenths(&readings.workload, start.monotonic, seconds),
        progress,
        load_began_after,
        ended_after: ended_at.saturating_sub(start.monotonic),
        outcome,
        relations: readings.relations,
        generator_shares: watch.generator_shares,
        os_samples,
        time: time.trial,
        head_start_bytes: head_start.map(|used| used.read_bytes),
        seen,
        others,
    })
}

struct Course<'a> {
    lab: &'a Lab,
    start: Start,
    seconds: u32,
    ends_by_itself: bool,
    cadence: Cadence,
    stop: &'a Stop,
}

impl Course<'_> {
    /// Returns whether the race ended early, and when the load began: if delayed, at the end of the warmer or the race.
    fn follow(
        &self,
        mut begun: Option<Duration>,
        generator: &mut dyn Generator,
        contender: &mut Contender,
        watch: &mut Watch<'_>,
        probe: Option<&Probe>,
    ) -> Result<(bool, Duration)> {
        let begin = |generator: &mut dyn Generator| {
            generator.go();
            clock::read_monotonic().saturating_sub(self.start.monotonic)
        };
        let last = self.start.after(self.seconds);
        let (mut is_early, mut end) = (false, last);
        while !is_early && clock::read_monotonic() < end {
            self.stop.check()?;
            contender.poll(self.lab);
            if begun.is_none() && contender.ended_at.is_some() {
                begun = Some(begin(generator));
            }
            is_early = watch.poll(generator);
            is_early |= generator.poll()?.is_some() && self.ends_by_itself;
            if end == last && probe.is_some_and(|probe| probe.is_over(contender.ended_at)) {
                // The race's last second is measured completely.
                end = end.min(self.start.end_of_second(clock::read_monotonic()) + LAST_READING);
            }
            std::thread::sleep(match self.cadence {
                Cadence::Close => POLL_INTERVAL,
                Cadence::Sparing => SPARING_POLL_INTERVAL,
            });
        }
        Ok((is_early || end < last, begun.unwrap_or_else(|| begin(generator))))
    }
}

fn await_end(generator: &mut dyn Generator, end: Duration, limit: Option<DiskLimit>, stop: &Stop) -> Result<Duration> {
    let in_time = poll_until(generator, end + LIMITED_GRACE, stop)?;
    limit.map_or(Ok(()), DiskLimit::remove)?;
    let late = || poll_until(generator, end + PGBENCH_GRACE, stop);
    let ended_at = in_time.map_or_else(late, |at| Ok(Some(at)))?;
    ended_at.ok_or_else(|| generator.failure())
}

fn poll_until(generator: &mut dyn Generator, deadline: Duration, stop: &Stop) -> Result<Option<Duration>> {
    loop {
        stop.check()?;
        let ended_at = generator.poll()?;
        if ended_at.is_some() || clock::read_monotonic() >= deadline {
            return Ok(ended_at);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Consecutive seconds with the verdict "steady" that end a trial.
const STEADY_SECONDS: u32 = 3;

#[derive(Clone, Copy, Debug)]
pub struct Watched {
    pub goal: WarmGoal,
    pub facts: Facts,
    pub stops_when_steady: bool,
}

pub struct Watch<'a> {
    watched: Watched,
    readings: Receiver<Reading>,
    events: &'a Events,
    generator_pids: Vec<u32>,
    previous: Option<(Reading, Duration)>,
    passed: Vec<PassedSecond>,
    steady_seconds: u32,
    pub generator_shares: Vec<f64>,
}

impl Watch<'_> {
    pub fn poll(&mut self, generator: &dyn Generator) -> bool {
        while let Ok(reading) = self.readings.try_recv() {
            self.see(reading, generator);
        }
        self.steady_seconds >= STEADY_SECONDS
    }

    fn see(&mut self, reading: Reading, generator: &dyn Generator) {
        let cpu_of = |pid: &u32| process::read_cpu_time(*pid).unwrap_or_default();
        let cpu: Duration = self.generator_pids.iter().map(cpu_of).sum();
        let paces = generator.read_paces();
        let mut device_read_bytes = Bytes(0);
        if let Some((before, cpu_before)) = self.previous {
            let elapsed = (reading.monotonic - before.monotonic).as_secs_f64();
            self.generator_shares.push(cpu.saturating_sub(cpu_before).as_secs_f64() / elapsed);
            let within = reading.counters.since(before.counters);
            device_read_bytes = within.device_read_bytes;
            let (read_bytes, resident_bytes) = (within.workload_read_bytes, reading.os_resident_bytes);
            self.passed.push(PassedSecond { transactions: 0.0, read_bytes, resident_bytes });
        }
        self.passed.iter_mut().zip(&paces).for_each(|(second, pace)| second.transactions = *pace);
        // pgbench may not have reported the last seconds yet.
        let known = &self.passed[..self.passed.len().min(paces.len())];
        self.events.tell(Event::Second(LiveSecond {
            second: self.passed.len() as u32,
            tps: paces.last().copied(),
            device_read_bytes,
            os_resident_bytes: reading.os_resident_bytes,
            until_warm: compute_until_warm(&self.watched.goal, known),
        }));
        if self.watched.stops_when_steady {
            let is_steady = is_steady(known, &self.watched);
            self.steady_seconds = if is_steady { self.steady_seconds + 1 } else { 0 };
        }
        self.previous = Some((reading, cpu));
    }
}

fn is_steady(passed: &[PassedSecond], watched: &Watched) -> bool {
    let block = watched.goal.block_size.0.max(1) as f64;
    let mut collector = Series::new(1.0);
    for (second, end) in passed.iter().zip(1_u32..) {
        let reads = second.read_bytes.0 as f64 / block;
        collector.add(f64::from(end) - 1.0, end.into(), second.transactions, Some(reads));
    }
    let series = collector.finish(watched.facts, Vec::new()).check();
    series.is_ok_and(|series| judge(&series, None).is_steady())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::read_paces;

    #[test]
    fn the_start_is_a_whole_second_that_is_still_to_come() {
        let start = Start::choose(Duration::from_millis(100));
        let (wall_ms, monotonic) = (clock::read_wall_ms(), clock::read_monotonic());
        let until_unix = start.unix * 1000 - wall_ms;
        let until_monotonic = (start.monotonic - monotonic).as_millis() as i64;
        assert!(until_unix > 0);
        assert!((until_unix - until_monotonic).abs() <= 50, "{until_unix} {until_monotonic}");
    }

    #[test]
    fn every_line_of_progress_is_a_second_and_a_late_one_several() {
        let said = "pgbench (15.18)\nprogress: 1.0 s, 10.0 tps, lat 1\nprogress: 4.0 s, 20.5 tps, lat 1\n";
        assert_eq!(read_paces(said), [10.0, 20.5, 20.5, 20.5]);
        assert_eq!(read_paces(""), [0.0; 0]);
    }

    #[test]
    fn a_trial_may_end_when_it_is_warm_and_not_on_its_cold_plateau() {
        let watched = Watched {
            goal: WarmGoal { wanted_bytes: Bytes(1 << 30), block_size: Bytes(8192), warm_tps: None, is_uniform: true },
            facts: Facts { clients: Some(8), scale: Some(70), ..Facts::default() },
            stops_when_steady: true,
        };
        let second = |transactions: f64, misses: u64| PassedSecond {
            transactions,
            read_bytes: Bytes(misses * 8192),
            resident_bytes: Bytes(0),
        };
        let cold: Vec<PassedSecond> =
            (0..12).map(|passed| second(1500.0 / (1.0 - 0.0224 * f64::from(passed)), 3000)).collect();
        assert!(!is_steady(&cold, &watched));
        let mut beside_a_warmer = watched;
        beside_a_warmer.facts.has_warmer = true;
        assert!(!is_steady(&[second(400.0, 800); 30], &beside_a_warmer));
        let mut warmed = cold;
        warmed.extend((0..8).map(|wiggle| second(40_000.0 + f64::from(wiggle % 3) * 100.0, 4)));
        assert!(is_steady(&warmed, &watched) && !is_steady(&warmed[..14], &watched));
    }
}
