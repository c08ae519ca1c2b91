//! Looks at processes at an interval, added up as if each had done all the time since the look before what it was seen doing; and until a
//! reading between two looks what it was seen doing before it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::source::{ProcessTimes, Reading, WaitEvent};
use crate::statistic::Statistic;

/// What a process was seen doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// On a processor, or ready to be.
    Running,
    Waiting(WaitEvent),
}

/// One process as it was seen: its pid, when it was born, and what it did.
pub(super) type Seen = (u32, u64, Doing);

/// Sums that one task adds to, and another reads.
#[derive(Clone, Debug, Default)]
pub(super) struct LookSums(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct Sums {
    at_ns: u64,
    processes: HashMap<(u32, u64), (ProcessTimes, Doing)>,
}

impl LookSums {
    /// Adds one look at all processes there are. One that is seen no more ended with the last look that saw it.
    pub fn add(&self, at_ns: u64, seen: Vec<Seen>) {
        let mut sums = self.lock();
        let before = sums.at_ns;
        // Somebody may have read while it was looked.
        let at_ns = at_ns.max(before);
        let elapsed = at_ns - before;
        sums.at_ns = at_ns;
        let mut gone: Vec<(u32, u64)> = sums.processes.keys().copied().collect();
        for (pid, birth, doing) in seen {
            gone.retain(|key| *key != (pid, birth));
            let new = || ProcessTimes { pid, birth, started_ns: at_ns, ..ProcessTimes::default() };
            let (process, last) = sums.processes.entry((pid, birth)).or_insert_with(|| (new(), doing.clone()));
            // What it did before it was seen first nobody knows.
            let elapsed = if process.started_ns == at_ns { 0 } else { elapsed };
            charge(process, &doing, elapsed);
            *last = doing;
        }
        for key in gone {
            if let Some((process, _)) = sums.processes.get_mut(&key) {
                process.ended_ns.get_or_insert(before);
            }
        }
    }

    /// What there is until this instant, for the looks go on: where they are rare, steps between readings are as long as they are asked
    /// for all the same.
    pub fn read_until(&self, at_ns: u64) -> Reading {
        let mut sums = self.lock();
        let elapsed = at_ns.saturating_sub(sums.at_ns);
        sums.at_ns += elapsed;
        for (process, doing) in sums.processes.values_mut().filter(|(process, _)| process.ended_ns.is_none()) {
            charge(process, doing, elapsed);
        }
        drop(sums);
        self.read()
    }

    /// What there is until the last look. A process that has ended is told once.
    pub fn read(&self) -> Reading {
        let mut sums = self.lock();
        let processes = sums.processes.values().map(|(process, _)| process.clone()).collect();
        sums.processes.retain(|_, (process, _)| process.ended_ns.is_none());
        Reading { at_ns: sums.at_ns, processes, ..Reading::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        // Sums are whole after each look, whatever happened to who added it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn charge(process: &mut ProcessTimes, doing: &Doing, elapsed: u64) {
    let event = match doing {
        Doing::Running => {
            process.running_ns += elapsed;
            return;
        }
        Doing::Waiting(event) => event,
    };
    let more = Statistic::of_time(0, elapsed);
    match process.waits.iter_mut().find(|(known, _)| known == event) {
        Some((_, sum)) => sum.merge(&more),
        None => process.waits.push((event.clone(), more)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_look_stands_for_the_time_since_the_one_before() {
        let sums = LookSums::default();
        let lock = || Doing::Waiting(WaitEvent::Named("Lock".into(), "tuple".into()));
        sums.add(1000, vec![(1, 5, lock())]);
        sums.add(1100, vec![(1, 5, lock()), (2, 6, Doing::Running)]);
        sums.add(1300, vec![(2, 6, Doing::Running)]);
        let reading = sums.read();
        let of = |pid| reading.processes.iter().find(|one| one.pid == pid).unwrap().clone();
        assert_eq!((reading.at_ns, of(1).ended_ns, of(2).ended_ns), (1300, Some(1100), None));
        assert_eq!((of(1).waits[0].1.total_ns, of(1).waits[0].1.count), (100, 0));
        assert_eq!((of(2).running_ns, of(2).started_ns), (200, 1100));
        assert_eq!(sums.read().processes.len(), 1, "who has ended is told once");
    }

    #[test]
    fn a_reading_between_two_looks_is_until_its_own_instant() {
        let sums = LookSums::default();
        let lock = || Doing::Waiting(WaitEvent::Named("Lock".into(), "tuple".into()));
        sums.add(1000, vec![(1, 5, lock())]);
        // Looks at 1640, 2280 and 2920, readings at 2000 and 3000.
        let mut read_at = Vec::new();
        let mut read = |at_ns, waited, ran| {
            let reading = sums.read_until(at_ns);
            let one = &reading.processes[0];
            assert_eq!((one.waits[0].1.total_ns, one.running_ns), (waited, ran), "at {at_ns}");
            read_at.push(reading.at_ns);
        };
        sums.add(1640, vec![(1, 5, lock())]);
        read(2000, 1000, 0);
        sums.add(2280, vec![(1, 5, Doing::Running)]);
        sums.add(2920, vec![(1, 5, Doing::Running)]);
        read(3000, 1000, 1000);
        assert_eq!(read_at, [2000, 3000]);
        // Who is seen no more ended when he was told of last.
        sums.add(3560, Vec::new());
        let ended = sums.read_until(4000);
        assert_eq!((ended.at_ns, ended.processes[0].ended_ns, ended.processes[0].running_ns), (4000, Some(3000), 1000));
    }
}
