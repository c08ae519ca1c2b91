//! Follows a race while it runs: the live display, what the generator costs, and whether the trial is steady.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::lab::Generator;
use crate::linux::process;
use crate::model::{Collector, Facts, Verdict, judge};
use crate::observe::Reading;
use crate::study::{Event, Events, LiveSecond};
use crate::units::Bytes;
use crate::verdict::{PassedSecond, WarmGoal, compute_until_warm};

/// So many seconds one after the other the verdict must be the same before a trial ends by it: looked at each second, chance
/// would have many tries.
const STEADY_SECONDS: u32 = 3;

/// What is asked of a trial while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    pub goal: WarmGoal,
    /// What the verdict has to know beside the curve.
    pub facts: Facts,
    /// Does the trial end when the verdict is steady?
    pub stops_when_steady: bool,
}

/// Looks at the readings as they come.
pub struct Watch<'a> {
    watched: Watched,
    readings: Receiver<Reading>,
    events: &'a Events,
    /// Processes of this host that make the load.
    generator_pids: Vec<u32>,
    previous: Option<(Reading, Duration)>,
    passed: Vec<PassedSecond>,
    steady_seconds: u32,
    /// Processors that pgbench used in each second.
    pub generator_shares: Vec<f64>,
}

impl<'a> Watch<'a> {
    pub fn new(
        watched: Watched,
        readings: Receiver<Reading>,
        events: &'a Events,
        generator_pids: Vec<u32>,
    ) -> Watch<'a> {
        Watch {
            watched,
            readings,
            events,
            generator_pids,
            previous: None,
            passed: Vec::new(),
            steady_seconds: 0,
            generator_shares: Vec::new(),
        }
    }

    /// Takes what was read meanwhile. True when the trial may end, for it is steady.
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
        // pgbench may tell of a second a little after it was read.
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

/// Is that the verdict over the seconds so far?
fn is_steady(passed: &[PassedSecond], watched: &Watched) -> bool {
    let block = watched.goal.block_size.0.max(1) as f64;
    let mut collector = Collector::new(1.0);
    for (second, end) in passed.iter().zip(1_u32..) {
        let reads = second.read_bytes.0 as f64 / block;
        collector.add(f64::from(end) - 1.0, end.into(), second.transactions, Some(reads));
    }
    // Too short, or nothing served yet: not steady.
    let series = collector.finish(watched.facts, Vec::new()).check();
    series.is_ok_and(|series| matches!(judge(&series, None).verdict, Verdict::Steady | Verdict::Periodic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::read_paces;

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
        // 3000 reads a second of 133,900 pages: fewer transactions miss from second to second.
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
