//! Does what was read stay? Each slice is looked at once more while later ones are read, and a sample of everything now and
//! then: what the kernel takes back as fast as it comes is not worth reading.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::Rng as _;

use crate::warm::plan::Read;

/// A slice is looked at when this many later ones have been begun: its last reads are over by then.
const SLICES_LATER: usize = 2;
/// Reads in the sample.
const SAMPLE_READS: usize = 256;
/// A smaller sample says nothing.
const SAMPLE_READS_MIN: usize = 32;
/// More of the sample than this is gone only when there is no room for it: other causes take single pages.
const GONE_RATIO_MAX: f64 = 0.1;

/// What was read, as far as it is still to be looked at.
#[derive(Debug, Default)]
pub struct Staying {
    /// Reads that were not looked at again yet, with the number of their slice, in the order in which they ended.
    fresh: Mutex<VecDeque<(usize, Read)>>,
    sample: Mutex<Sample>,
}

/// Reads that were chosen at random, each of all so far as likely as any other.
#[derive(Debug, Default)]
struct Sample {
    seen: u64,
    reads: Vec<(Instant, Read)>,
}

/// What is left of some reads, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    pub pages: u64,
    /// Pages that are not cached any more.
    pub gone: u64,
}

impl Staying {
    /// A read of slice `step` is over.
    pub fn add(&self, step: usize, read: Read) {
        lock(&self.fresh).push_back((step, read));
        let mut sample = lock(&self.sample);
        sample.seen += 1;
        if sample.reads.len() < SAMPLE_READS {
            sample.reads.push((Instant::now(), read));
        } else if let Ok(place) = usize::try_from(rand::rng().random_range(0..sample.seen))
            && place < SAMPLE_READS
        {
            sample.reads[place] = (Instant::now(), read);
        }
    }

    /// Forgets all reads: what of them was not asked for has been let go.
    pub fn forget(&self) {
        lock(&self.fresh).clear();
        *lock(&self.sample) = Sample::default();
    }

    /// The reads that are to be looked at, now that slice `step` begins. Each is told once.
    pub fn take_settled(&self, step: usize) -> Vec<Read> {
        let mut fresh = lock(&self.fresh);
        let settled = fresh.iter().take_while(|(of, _)| of + SLICES_LATER <= step).count();
        fresh.drain(..settled).map(|(_, read)| read).collect()
    }

    /// Is what was read taken back? `look` tells what is left of a read. What is older than `idle_age` may have gone for
    /// another reason than a lack of room.
    pub fn is_evicted(&self, idle_age: Option<Duration>, look: impl Fn(Read) -> Left) -> bool {
        let counts = |at: &Instant| idle_age.is_none_or(|age| at.elapsed() < age);
        let reads: Vec<Read> =
            lock(&self.sample).reads.iter().filter(|(at, _)| counts(at)).map(|(_, read)| *read).collect();
        let left: Vec<Left> = reads.into_iter().map(look).filter(|left| left.pages > 0).collect();
        let (pages, gone) = left.iter().fold((0, 0), |sum, left| (sum.0 + left.pages, sum.1 + left.gone));
        left.len() >= SAMPLE_READS_MIN && gone as f64 > pages as f64 * GONE_RATIO_MAX
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BlockRange;

    fn read(number: u64) -> Read {
        Read { fork: 0, range: BlockRange::new(number, number + 1) }
    }

    #[test]
    fn a_slice_is_looked_at_once_when_the_next_one_is_read() {
        let staying = Staying::default();
        for (step, number) in [(0, 0), (1, 1), (0, 2), (2, 3)] {
            staying.add(step, read(number));
        }
        assert_eq!(staying.take_settled(1), []);
        assert_eq!(staying.take_settled(2), [read(0)]);
        assert_eq!(staying.take_settled(3), [read(1), read(2)]);
        assert_eq!(staying.take_settled(9), [read(3)]);
        assert_eq!(staying.take_settled(9), []);
    }

    #[test]
    fn a_tenth_may_go_and_no_more() {
        let staying = Staying::default();
        (0..10_000).for_each(|number| staying.add(0, read(number)));
        let gone_below =
            |end: u64| move |read: Read| Left { pages: 2, gone: if read.range.start < end { 2 } else { 0 } };
        assert!(!staying.is_evicted(None, gone_below(300)));
        assert!(staying.is_evicted(None, gone_below(3000)), "as of a sample of all");
        assert!(!staying.is_evicted(Some(Duration::ZERO), gone_below(3000)), "older than what idle pages live");
        assert!(!staying.is_evicted(None, |_| Left::default()), "what was dropped is not gone for lack of room");
    }
}
