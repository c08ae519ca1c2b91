//! One phase: reads of one size, so many in flight, for a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::files::{Deck, Places};
use crate::linux;
use crate::linux::direct_read::AlignedBuffer;
use crate::linux::threads::on_threads;
use crate::warm::{Control, Error};

/// What does not count at the beginning: the kernel's limiter (blk-throttle) accounts in slices of 100 ms, and lets the
/// first two's worth and more through at once. Of a phase that its bytes end sooner, a quarter.
const DISCARDED: Duration = Duration::from_millis(200);
const DISCARDED_RATIO: f64 = 0.25;

/// A limiter lets reads through in bursts. A pause of so many times the usual distance between two reads, and of so many
/// seconds, stands between two of them.
const PAUSE_RATIO: f64 = 10.0;
const PAUSE_MIN: f64 = 0.01;

/// What is read, and how.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    read_bytes: u64,
    depth: u32,
    in_order: bool,
}

/// How fast it was, after the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    pub reads_per_second: f64,
    pub latency_us_p50: f64,
    pub latency_us_p99: f64,
}

/// What a phase did.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub reads: u64,
    pub read_bytes: u64,
    /// `None` when there were too few reads to tell.
    pub speed: Option<Speed>,
}

/// A read: seconds since the phase began, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Completion {
    ended: f64,
    took: f64,
}

impl Phase {
    /// Reads at random places.
    pub fn random(read_bytes: u64, depth: u32) -> Phase {
        Phase { read_bytes, depth, in_order: false }
    }

    /// Reads one after another.
    pub fn sequential(read_bytes: u64, depth: u32) -> Phase {
        Phase { read_bytes, depth, in_order: true }
    }

    /// Reads for `time` or until `budget` bytes are read, whatever is sooner.
    ///
    /// # Errors
    /// When nothing at all can be read: a relation that is dropped meanwhile is none.
    pub fn run(&self, deck: &Deck, time: Duration, budget: u64, control: &Control) -> Result<Done, Error> {
        let random;
        let places = match self.in_order {
            true => deck.sequential(),
            false => {
                random = deck.random(self.read_bytes);
                &*random
            }
        };
        let work = Work {
            phase: *self,
            deck,
            places,
            control,
            started: Instant::now(),
            time,
            budget,
            reserved_bytes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            failure: Mutex::default(),
        };
        let done = on_threads(self.depth as usize, |_| work.read_on());
        let mut completions: Vec<Completion> = done.into_iter().filter_map(Result::ok).flatten().collect();
        let failure = work.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(error) if completions.is_empty() => Err(error.into()),
            _ => Ok(Done {
                reads: completions.len() as u64,
                read_bytes: work.read_bytes.into_inner(),
                speed: compute_speed(&mut completions),
            }),
        }
    }
}

/// What the threads share.
struct Work<'a> {
    phase: Phase,
    deck: &'a Deck,
    places: &'a Places,
    control: &'a Control,
    started: Instant,
    time: Duration,
    budget: u64,
    reserved_bytes: AtomicU64,
    read_bytes: AtomicU64,
    failure: Mutex<Option<linux::Error>>,
}

impl Work<'_> {
    /// One thread's reads.
    fn read_on(&self) -> Vec<Completion> {
        let mut buffer = AlignedBuffer::new(self.phase.read_bytes as usize);
        let mut completions = Vec::new();
        while !self.is_over() && self.reserve() {
            let place = self.places.take();
            let began = self.started.elapsed();
            match self.deck.file(place).read_at(place.offset, self.phase.read_bytes as usize, &mut buffer) {
                Ok(bytes) => {
                    self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    let ended = self.started.elapsed();
                    completions.push(Completion { ended: ended.as_secs_f64(), took: (ended - began).as_secs_f64() });
                }
                Err(error) => {
                    let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    failure.get_or_insert(error);
                    return completions;
                }
            }
        }
        completions
    }

    fn is_over(&self) -> bool {
        self.control.is_interrupted() || self.started.elapsed() >= self.time
    }

    /// Takes a read's bytes out of the budget, if there are as many left.
    fn reserve(&self) -> bool {
        let reserved_before = self.reserved_bytes.fetch_add(self.phase.read_bytes, Ordering::Relaxed);
        reserved_before + self.phase.read_bytes <= self.budget
    }
}

/// The speed after what is discarded.
fn compute_speed(completions: &mut [Completion]) -> Option<Speed> {
    completions.sort_by(|one, other| one.ended.total_cmp(&other.ended));
    let last = completions.last()?.ended;
    let discarded = DISCARDED.as_secs_f64().min(last * DISCARDED_RATIO);
    let first = completions.partition_point(|one| one.ended <= discarded);
    let counted = &completions[first..];
    let mut latencies: Vec<f64> = counted.iter().map(|one| one.took * 1e6).collect();
    latencies.sort_by(f64::total_cmp);
    let percentile = |share: f64| latencies.get(((latencies.len() as f64 - 1.0) * share).round() as usize).copied();
    let ends: Vec<f64> = counted.iter().map(|one| one.ended).collect();
    Some(Speed {
        reads_per_second: compute_rate(&ends)?,
        latency_us_p50: percentile(0.5)?,
        latency_us_p99: percentile(0.99)?,
    })
}

/// Reads per second. Between two reads, each of which is the first of a burst where there are bursts: whatever the moment
/// at which the phase began and ended, whole bursts are counted.
fn compute_rate(ends: &[f64]) -> Option<f64> {
    let (mut from, mut to) = (0, ends.len().checked_sub(1)?);
    let mut distances: Vec<f64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_by(f64::total_cmp);
    let pause = PAUSE_MIN.max(distances.get(distances.len() / 2)? * PAUSE_RATIO);
    let starts: Vec<usize> = (1..ends.len()).filter(|at| ends[*at] - ends[at - 1] > pause).collect();
    if let [first, .., last] = starts[..]
        // Single stalls are no bursts: these make up most of the time.
        && ends[last] - ends[first] > (ends[to] - ends[from]) / 2.0
    {
        (from, to) = (first, last);
    }
    let seconds = ends[to] - ends[from];
    (seconds > 0.0).then(|| (to - from) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completion(ended: f64) -> Completion {
        Completion { ended, took: 0.001 }
    }

    #[test]
    fn the_burst_at_the_beginning_does_not_count() {
        let burst = (0..300).map(|at| completion(0.1 + f64::from(at) * 1e-6));
        let steady = (0..=900).map(|at| completion(0.15 + f64::from(at) / 1000.0));
        let mut completions: Vec<Completion> = burst.chain(steady).collect();
        completions.reverse();
        let speed = compute_speed(&mut completions).unwrap();
        assert!((speed.reads_per_second - 1000.0).abs() < 1.0, "{speed:?}");
        assert!((speed.latency_us_p99 - 1000.0).abs() < 1.0, "{speed:?}");
    }

    #[test]
    fn a_limiters_bursts_are_counted_whole() {
        // 300 reads at the start of each tenth of a second; whoever waits at the end gets one more each.
        let burst = |tenth: u32, reads: u32| (0..reads).map(move |at| f64::from(tenth) / 10.0 + f64::from(at) * 8e-5);
        let ends: Vec<f64> = burst(0, 377)
            .chain(burst(1, 520))
            .chain((2..6).flat_map(|tenth| burst(tenth, 300)))
            .chain(burst(6, 4))
            .collect();
        let speed = compute_speed(&mut ends.into_iter().map(completion).collect::<Vec<_>>()).unwrap();
        assert!((speed.reads_per_second - 3000.0).abs() < 1.0, "{speed:?}");
    }

    #[test]
    fn a_stall_belongs_to_the_time() {
        let ends: Vec<f64> = (0..500).map(|at| f64::from(at) / 1000.0 + if at < 250 { 0.0 } else { 0.1 }).collect();
        let rate = compute_rate(&ends).unwrap();
        assert!((rate - 833.0).abs() < 2.0, "{rate}");
    }

    #[test]
    fn a_short_phase_loses_a_quarter() {
        let mut completions: Vec<Completion> = (1..=100).map(|at| completion(f64::from(at) / 10_000.0)).collect();
        let speed = compute_speed(&mut completions).unwrap();
        assert!((speed.reads_per_second - 10_000.0).abs() < 1.0, "{speed:?}");
        assert_eq!(compute_speed(&mut []), None);
        assert_eq!(compute_speed(&mut completions[..1]), None);
    }
}
