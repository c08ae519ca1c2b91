//! How much of a device a job may have beside others: what they leave. A pure function of what was read.

use crate::linux::ReadLimit;
use crate::linux::cgroup::ReadUsage;
use crate::units::Bytes;
use crate::warm::DeviceProfile;

/// The job is never left less than this, 0 to 1: it is to come to an end.
const SHARE_MIN: f64 = 0.1;

/// What a job begins with, until it is known what the others read, 0 to 1.
const SHARE_FIRST: f64 = 0.7;

/// What the job is given more in one step, 0 to 1. What is taken from it is taken at once.
const STEP: f64 = 0.1;

/// Others that use less than this of the device are left alone with it, 0 to 1.
const USED_MIN: f64 = 0.01;

/// What is left free beside what the others use, 0 to 1: for their reads not to queue; and where they wait for reads, for them to have
/// more of it.
const SPARE: f64 = 0.05;
const SPARE_WAITED_FOR: f64 = 0.2;

/// Processes that wait for the device at any moment, from which on they count as waiting.
const WAITING_MIN: f64 = 0.1;

/// What happened in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    pub seconds: f64,
    /// What was read in it, by the job and by the others.
    pub own: ReadUsage,
    pub others: ReadUsage,
    /// Other processes of the server that waited for a device, on the mean.
    pub others_waiting: f64,
}

/// The job's share of the device.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    share: f64,
    /// What the device gives; of one that nobody measured the most that it was seen to give.
    capacity: DeviceProfile,
    is_known: bool,
    /// The server has a limit, which does not hold for whom is set apart.
    has_ceiling: bool,
}

impl Share {
    /// `profile` is what the device gives, if somebody knows; `ceiling` what the server may have of it.
    pub fn new(profile: Option<DeviceProfile>, ceiling: ReadLimit) -> Share {
        let mut capacity =
            profile.unwrap_or(DeviceProfile { bandwidth: Bytes(1), reads_per_second: 1.0, ..DeviceProfile::default() });
        let has_ceiling = ceiling != ReadLimit::default();
        if let Some(reads) = ceiling.reads_per_second {
            capacity.reads_per_second = reads as f64;
        }
        if let Some(bytes) = ceiling.read_bytes_per_second {
            capacity.bandwidth = bytes;
        }
        let both = ceiling.reads_per_second.is_some() && ceiling.read_bytes_per_second.is_some();
        Share { share: SHARE_FIRST, capacity, is_known: profile.is_some() || both, has_ceiling }
    }

    /// 0 to 1.
    pub fn ratio(&self) -> f64 {
        self.share
    }

    /// Is it the share of a limit of the server's?
    pub fn has_ceiling(&self) -> bool {
        self.has_ceiling
    }

    /// What the job may read from now on, after such a step.
    pub fn next(&mut self, step: Step) -> ReadLimit {
        if step.seconds > 0.0 {
            self.learn(step);
            let wanted = self.wanted(step);
            self.share = if wanted < self.share { wanted } else { wanted.min(self.share + STEP) };
        }
        self.limit()
    }

    /// An unknown device gives at least what it was seen to give.
    fn learn(&mut self, step: Step) {
        if !self.is_known {
            let per_second = |count: u64| count as f64 / step.seconds;
            let capacity = &mut self.capacity;
            capacity.reads_per_second = capacity.reads_per_second.max(per_second(step.own.reads + step.others.reads));
            let bytes = per_second(step.own.read_bytes.0 + step.others.read_bytes.0);
            capacity.bandwidth = capacity.bandwidth.max(Bytes(bytes as u64));
        }
    }

    fn wanted(&self, step: Step) -> f64 {
        let used = self.capacity.seconds(step.others.reads, step.others.read_bytes) / step.seconds;
        let waits = step.others_waiting >= WAITING_MIN;
        if used < USED_MIN && !waits {
            return 1.0;
        }
        let spare = if waits { SPARE_WAITED_FOR } else { SPARE };
        (1.0 - used - spare).max(SHARE_MIN)
    }

    fn limit(&self) -> ReadLimit {
        // All of a device needs no limit, and one that nobody has seen anything of can have none.
        let is_free = self.share >= 1.0 && !self.has_ceiling;
        if is_free || (!self.is_known && self.capacity.reads_per_second <= 1.0) {
            return ReadLimit::default();
        }
        let of = |whole: f64| ((whole * self.share).round() as u64).max(1);
        ReadLimit {
            reads_per_second: Some(of(self.capacity.reads_per_second)),
            read_bytes_per_second: Some(Bytes(of(self.capacity.bandwidth.0 as f64))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GP3: ReadLimit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: Some(Bytes(125 << 20)) };

    fn step(own: u64, others: u64, others_waiting: f64) -> Step {
        let usage = |reads: u64| ReadUsage { reads, read_bytes: Bytes(reads * 8192) };
        Step { seconds: 0.2, own: usage(own), others: usage(others), others_waiting }
    }

    #[test]
    fn who_is_alone_with_the_device_has_all_of_it() {
        let mut share = Share::new(Some(DeviceProfile::default()), ReadLimit::default());
        let limits: Vec<ReadLimit> = (0..6).map(|_| share.next(step(300, 0, 0.0))).collect();
        assert_eq!(limits[0].reads_per_second, Some(2400));
        assert_eq!(limits[5], ReadLimit::default(), "no limit at all");
        // Where the server has one the job has it too.
        let mut share = Share::new(None, GP3);
        assert_eq!((0..6).map(|_| share.next(step(300, 0, 0.0))).last(), Some(GP3));
    }

    #[test]
    fn what_others_use_is_theirs_and_more_where_they_wait() {
        let mut share = Share::new(None, GP3);
        (0..10).for_each(|_| _ = share.next(step(300, 0, 0.0)));
        let beside = share.next(step(300, 240, 0.0)).reads_per_second.unwrap();
        assert!((1600..=1700).contains(&beside), "{beside}");
        let waiting = share.next(step(300, 240, 2.0)).reads_per_second.unwrap();
        assert!((1100..=1250).contains(&waiting), "{waiting}");
        assert_eq!(share.next(step(60, 600, 8.0)).reads_per_second, Some(300), "a tenth is left to the job");
        let again = share.next(step(60, 0, 0.0)).reads_per_second.unwrap();
        assert!((500..=620).contains(&again), "given back step by step: {again}");
    }

    #[test]
    fn a_device_that_nobody_knows_is_limited_when_others_wait() {
        let mut share = Share::new(None, ReadLimit::default());
        assert_eq!(share.next(Step { seconds: 0.2, ..Step::default() }), ReadLimit::default());
        (0..10).for_each(|_| _ = share.next(step(4000, 0, 0.0)));
        assert_eq!(share.next(step(4000, 0, 0.0)), ReadLimit::default());
        let limit = share.next(step(3000, 1000, 3.0));
        assert!(limit.reads_per_second.is_some_and(|reads| reads < 12_000), "{limit:?}");
    }
}
