//! From readings of the gauges to what happened in each second.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use std::collections::BTreeMap;
use std::time::Duration;

use super::processes::{PartTime, ServerPart};
use crate::{DeviceUse, OsSample, PressureRatios, TaskShare};
use host::linux::block_device::DeviceCounters;
use host::linux::pressure::Pressure;
use host::linux::schedule::TaskTime;
use host::linux::{MemoryUse, ProcessorTimes};
use host::units::Bytes;

/// All gauges at one moment. What cannot be read is as if nothing had happened: a trial is not given up for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GaugeReading {
    /// Seconds since the start that the schedule meant.
    pub second: u32,
    /// When it really was, since the machine booted.
    pub monotonic: Duration,
    /// Of the generator's threads by their number, process by process in the order in which they were made.
    pub generator: Vec<(u32, TaskTime)>,
    pub server: BTreeMap<ServerPart, PartTime>,
    /// Processor time of this process.
    pub own_cpu: Duration,
    pub processors: ProcessorTimes,
    /// Of all devices that the server lies on together.
    pub device: Option<DeviceCounters>,
    /// Of each of several.
    pub parts: BTreeMap<&'static str, DeviceCounters>,
    pub memory: MemoryUse,
    pub cpu_pressure: Option<Pressure>,
    pub io_pressure: Option<Pressure>,
    pub memory_pressure: Option<Pressure>,
}

/// What happened in each second up to the last reading. A late reading is scaled to a second; a second without a
/// reading of its own has what the next one brought, in equal parts.
pub fn compute_os_samples(readings: &[GaugeReading]) -> Vec<OsSample> {
    let mut samples = Vec::new();
    for pair in readings.windows(2) {
        let span = Span { before: &pair[0], after: &pair[1] };
        samples.extend((pair[0].second + 1..=pair[1].second).map(|second| span.sample(second)));
    }
    samples
}

/// What all devices did. Where parts have their own, it is what these did: they are read a moment after all together, and rounded.
fn whole_of(all: DeviceUse, parts: &BTreeMap<String, DeviceUse>) -> DeviceUse {
    let Some(busy_ratio) = parts.values().map(|part| part.busy_ratio).reduce(f64::max) else { return all };
    let sum = |of: fn(&DeviceUse) -> u64| parts.values().map(of).fold(0, u64::saturating_add);
    DeviceUse {
        reads: sum(|one| one.reads),
        read_bytes: Bytes(sum(|one| one.read_bytes.0)),
        writes: sum(|one| one.writes),
        written_bytes: Bytes(sum(|one| one.written_bytes.0)),
        busy_ratio,
        ..all
    }
}

/// What lies between two readings.
pub struct Span<'a> {
    before: &'a GaugeReading,
    after: &'a GaugeReading,
}

impl Span<'_> {
    fn sample(&self, second: u32) -> OsSample {
        let (before, after) = (self.before, self.after);
        let threads = after.generator.iter().map(|(thread, time)| {
            // A thread that was not there yet began at nothing.
            let earlier = before.generator.iter().find(|(known, _)| known == thread);
            self.share(1, time.since(earlier.map(|(_, time)| *time).unwrap_or_default()))
        });
        let pressure = |of: fn(&GaugeReading) -> Option<Pressure>, total: fn(&Pressure) -> u64| {
            let (from, to) = (of(before)?, of(after)?);
            Some(self.per_second(total(&to).saturating_sub(total(&from)) as f64 / 1e6).min(1.0))
        };
        let (some, full) = (|one: &Pressure| one.some_us_total, |one: &Pressure| one.full_us_total);
        let (ran, ran_before) = (after.processors, before.processors);
        let parts = self.parts();
        let device = before.device.zip(after.device).map(|(from, to)| self.device(from, to));
        OsSample {
            second,
            generator_threads: threads.collect(),
            server: self.server(),
            pgthaw_cpu_seconds: self.grown(before.own_cpu, after.own_cpu),
            processors_busy_seconds: self.grown(ran_before.busy, ran.busy),
            processors_iowait_seconds: self.grown(ran_before.iowait, ran.iowait),
            processors_steal_seconds: self.grown(ran_before.steal, ran.steal),
            device: device.map(|all| whole_of(all, &parts)),
            parts,
            available_bytes: after.memory.available_bytes,
            cached_bytes: after.memory.cached_bytes,
            dirty_bytes: after.memory.dirty_bytes,
            writeback_bytes: after.memory.writeback_bytes,
            pressure: PressureRatios {
                cpu_some: pressure(|one| one.cpu_pressure, some),
                io_some: pressure(|one| one.io_pressure, some),
                io_full: pressure(|one| one.io_pressure, full),
                memory_some: pressure(|one| one.memory_pressure, some),
                memory_full: pressure(|one| one.memory_pressure, full),
            },
            time: None,
            waited: BTreeMap::new(),
        }
    }

    fn server(&self) -> BTreeMap<String, TaskShare> {
        let share = |(part, now): (&_, &PartTime)| {
            let earlier = self.before.server.get(part).copied().unwrap_or_default();
            (*part, self.share(now.processes, now.time.since(earlier.time)))
        };
        let name = |(part, share): (super::ServerPart, TaskShare)| (part.name().to_owned(), share);
        self.after.server.iter().map(share).map(name).collect()
    }

    fn parts(&self) -> BTreeMap<String, DeviceUse> {
        let used = |(name, to): (&&'static str, &DeviceCounters)| {
            let from = self.before.parts.get(name)?;
            Some(((*name).to_owned(), self.device(*from, *to)))
        };
        self.after.parts.iter().filter_map(used).collect()
    }

    fn device(&self, from: DeviceCounters, to: DeviceCounters) -> DeviceUse {
        let grown = |of: fn(&DeviceCounters) -> u64| of(&to).saturating_sub(of(&from)) as f64;
        let count = |of| self.per_second(grown(of)).round() as u64;
        let await_us = |milliseconds: f64, requests: f64| (requests > 0.0).then(|| milliseconds * 1000.0 / requests);
        DeviceUse {
            reads: count(|one| one.reads),
            read_bytes: Bytes(count(|one| one.read_bytes.0)),
            writes: count(|one| one.writes),
            written_bytes: Bytes(count(|one| one.written_bytes.0)),
            read_await_us: await_us(grown(|one| one.read_ms), grown(|one| one.reads)),
            write_await_us: await_us(grown(|one| one.write_ms), grown(|one| one.writes)),
            queue: self.per_second(grown(|one| one.queued_ms) / 1000.0),
            busy_ratio: self.per_second(grown(|one| one.busy_ms) / 1000.0).min(1.0),
        }
    }

    fn share(&self, tasks: u32, time: TaskTime) -> TaskShare {
        TaskShare::new(tasks, time, |amount| self.per_second(amount))
    }

    fn grown(&self, from: Duration, to: Duration) -> f64 {
        self.per_second(to.saturating_sub(from).as_secs_f64())
    }

    fn per_second(&self, amount: f64) -> f64 {
        let seconds = self.after.monotonic.saturating_sub(self.before.monotonic).as_secs_f64();
        if seconds > 0.0 { amount / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gauges::ServerPart;
    use host::linux::schedule::ProcessorTimes;

    fn reading(second: u32, milliseconds: u64) -> GaugeReading {
        let time = |share: f64| TaskTime {
            cpu: Duration::from_millis(milliseconds).mul_f64(share),
            run_delay: Duration::from_millis(milliseconds / 10),
            involuntary_switches: milliseconds / 20,
        };
        GaugeReading {
            second,
            monotonic: Duration::from_millis(50_000 + milliseconds),
            // The second thread is there from the first second on.
            generator: if second == 0 { vec![(7, time(0.5))] } else { vec![(7, time(0.5)), (9, time(0.25))] },
            server: BTreeMap::from([(ServerPart::ClientBackend, PartTime { processes: 4, time: time(1.0) })]),
            own_cpu: Duration::from_millis(milliseconds / 100),
            processors: ProcessorTimes { busy: Duration::from_millis(2 * milliseconds), ..ProcessorTimes::default() },
            device: Some(DeviceCounters {
                reads: milliseconds,
                read_bytes: Bytes(milliseconds * 8192),
                read_ms: milliseconds * 3,
                queued_ms: milliseconds * 4,
                busy_ms: milliseconds / 2,
                ..DeviceCounters::default()
            }),
            ..GaugeReading::default()
        }
    }

    #[test]
    fn seconds_are_differences_scaled_to_a_second() {
        let samples = compute_os_samples(&[reading(0, 0), reading(1, 1200), reading(2, 2000)]);
        assert_eq!(samples.len(), 2);
        for sample in &samples {
            assert!((sample.generator_threads[0].cpu_seconds - 0.5).abs() < 1e-6, "{sample:?}");
            assert!((sample.server["client backend"].run_delay_seconds - 0.1).abs() < 1e-6, "{sample:?}");
            assert!((sample.server["client backend"].involuntary_switches - 50.0).abs() < 1e-6, "{sample:?}");
            assert!((sample.processors_busy_seconds - 2.0).abs() < 1e-6, "{sample:?}");
            assert!((sample.pgthaw_cpu_seconds - 0.01).abs() < 1e-6, "{sample:?}");
            let device = sample.device.unwrap();
            assert_eq!((device.reads, device.read_bytes, device.read_await_us), (1000, Bytes(8_192_000), Some(3000.0)));
            assert_eq!((device.queue, device.busy_ratio, device.write_await_us), (4.0, 0.5, None));
        }
        assert_eq!((samples[1].generator().tasks, samples[1].server_total().tasks), (2, 4));
        assert!((samples[1].busiest_thread_cpu_seconds() - 0.5).abs() < 1e-6);
        assert_eq!(samples[0].pressure, PressureRatios::default());
    }

    #[test]
    fn a_second_without_a_reading_shares_the_next() {
        let samples = compute_os_samples(&[reading(0, 0), reading(3, 3000)]);
        assert_eq!(samples.iter().map(|sample| sample.second).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(samples.iter().all(|sample| sample.device.unwrap().reads == 1000));
        assert!(compute_os_samples(&[reading(0, 0)]).is_empty());
    }
}
