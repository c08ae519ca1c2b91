//! The device's bandwidth: that of its profile, until reads at full speed have shown another.

use crate::units::Bytes;
use crate::warm::{PlannedDevice, ProfileSource};

/// Less than this part of what the profile says is no measurement of the device: such a stretch was of a few small files.
const SHARE_MIN: f64 = 0.25;

/// A device is the faster one only by more than what a limit lets through at once after a lull.
const FASTER_RATIO: f64 = 1.1;

/// What is known of it.
#[derive(Debug)]
pub struct Bandwidth {
    /// Bytes per second.
    bytes: Bytes,
    /// Is it known? It is, too, when the user or a probe told it: what comes beside traffic is no better opinion.
    is_measured: bool,
    /// What the stretch before brought.
    before: Option<Bytes>,
    /// The same of large reads that nobody disturbed.
    undisturbed: Option<Bytes>,
    /// The same of large reads beside others, as many in flight as ever are.
    pushed: Option<Bytes>,
}

/// What a stretch of reads at full speed brought, and how.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Bytes per second that the device gave, to all.
    pub achieved: Bytes,
    pub is_large: bool,
    pub beside: Beside,
}

/// Who else used the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nobody,
    /// Others; more reads of ours would bring no more.
    OthersPushed,
    /// Others, who may have taken the reads.
    Others,
}

impl Bandwidth {
    pub fn new(device: PlannedDevice) -> Bandwidth {
        Bandwidth {
            bytes: device.profile.bandwidth,
            is_measured: device.source != ProfileSource::Default,
            before: None,
            undisturbed: None,
            pushed: None,
        }
    }

    /// Bytes per second.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The first measurement of large reads counts for more than the profile: one that nobody disturbed, or the faster of two beside
    /// others, if more reads would have brought no more. Later ones count when two of them are faster, for after a lull a limit gives
    /// more than it goes on to give; or when two, which nobody disturbed, are slower: a volume's credit is used up.
    pub fn learn(&mut self, Stretch { achieved, is_large, beside }: Stretch) {
        let is_measurement = is_large && achieved.seconds_at(self.bytes) >= SHARE_MIN;
        let now = |like| (is_measurement && beside == like).then_some(achieved);
        let sustained = self.before.replace(achieved).map_or(Bytes(0), |before| before.min(achieved));
        let undisturbed = (std::mem::replace(&mut self.undisturbed, now(Beside::Nobody)), self.undisturbed);
        let pushed = (std::mem::replace(&mut self.pushed, now(Beside::OthersPushed)), self.pushed);
        if let (Some(before), Some(now)) = undisturbed {
            (self.bytes, self.is_measured) = (before.max(now), true);
        } else if sustained.seconds_at(self.bytes) > FASTER_RATIO {
            self.bytes = sustained;
        } else if self.is_measured {
            // What is known stays until two stretches say otherwise.
        } else if let (_, Some(now)) = undisturbed {
            (self.bytes, self.is_measured) = (now, true);
        } else if let (Some(before), Some(now)) = pushed {
            (self.bytes, self.is_measured) = (before.max(now).min(self.bytes), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warm::DeviceProfile;

    fn new(source: ProfileSource) -> Bandwidth {
        Bandwidth::new(PlannedDevice { profile: DeviceProfile::default(), source })
    }

    fn large(achieved: u64, beside: Beside) -> Stretch {
        Stretch { achieved: Bytes(achieved), is_large: true, beside }
    }

    #[test]
    fn a_stretch_of_small_files_is_no_measurement_of_the_device() {
        let mut bandwidth = new(ProfileSource::Default);
        let default = bandwidth.bytes();
        bandwidth.learn(large(0, Beside::Nobody));
        bandwidth.learn(large(1_000_000, Beside::Nobody));
        assert_eq!(bandwidth.bytes(), default, "a restore never comes to a stop");
        bandwidth.learn(Stretch { is_large: false, ..large(100_000_000, Beside::Nobody) });
        assert_eq!(bandwidth.bytes(), default, "small reads are short of something else");
        bandwidth.learn(large(90_000_000, Beside::Nobody));
        assert_eq!(bandwidth.bytes(), Bytes(90_000_000), "measured on the device itself");
        bandwidth.learn(large(80_000_000, Beside::Others));
        assert_eq!(bandwidth.bytes(), Bytes(90_000_000));
        bandwidth.learn(Stretch { is_large: false, ..large(2_000_000_000, Beside::Others) });
        assert_eq!(bandwidth.bytes(), Bytes(90_000_000), "after a lull a limit gives more at first");
        bandwidth.learn(Stretch { is_large: false, ..large(1_900_000_000, Beside::Others) });
        assert_eq!(bandwidth.bytes(), Bytes(1_900_000_000));
    }

    #[test]
    fn what_others_leave_is_not_the_devices_bandwidth() {
        let mut bandwidth = new(ProfileSource::Default);
        let default = bandwidth.bytes();
        (0..5).for_each(|_| bandwidth.learn(large(90_000_000, Beside::Others)));
        bandwidth.learn(large(80_000_000, Beside::OthersPushed));
        bandwidth.learn(large(90_000_000, Beside::Others));
        bandwidth.learn(large(80_000_000, Beside::OthersPushed));
        assert_eq!(bandwidth.bytes(), default, "one stretch is no proof");
        bandwidth.learn(large(85_000_000, Beside::OthersPushed));
        assert_eq!(bandwidth.bytes(), Bytes(85_000_000), "more reads would have brought no more");
        (0..5).for_each(|_| bandwidth.learn(large(60_000_000, Beside::OthersPushed)));
        assert_eq!(bandwidth.bytes(), Bytes(85_000_000));
    }

    #[test]
    fn a_limit_lets_a_little_more_through_now_and_then() {
        let mut bandwidth = new(ProfileSource::Default);
        let default = bandwidth.bytes();
        (0..5).for_each(|_| bandwidth.learn(large(default.0 * 107 / 100, Beside::Others)));
        assert_eq!(bandwidth.bytes(), default);
    }

    #[test]
    fn what_was_told_of_the_device_is_not_forgotten_beside_traffic() {
        let mut bandwidth = new(ProfileSource::Told);
        let told = bandwidth.bytes();
        (0..3).for_each(|_| bandwidth.learn(large(told.0 / 2, Beside::OthersPushed)));
        assert_eq!(bandwidth.bytes(), told);
        (0..2).for_each(|_| bandwidth.learn(large(told.0 * 2, Beside::Others)));
        assert_eq!(bandwidth.bytes(), Bytes(told.0 * 2));
    }

    #[test]
    fn a_bandwidth_that_is_no_longer_there_is_forgotten_when_nobody_disturbs() {
        let mut bandwidth = new(ProfileSource::Told);
        let told = bandwidth.bytes();
        let (half, tenth) = (told.0 / 2, told.0 / 10);
        let (nobody, others) = (Beside::Nobody, Beside::Others);
        for (achieved, beside) in [(half, nobody), (half, others), (half, nobody), (tenth, nobody), (half, nobody)] {
            bandwidth.learn(large(achieved, beside));
            assert_eq!(bandwidth.bytes(), told, "one stretch, or one of small files, is no proof");
        }
        bandwidth.learn(large(half - 1, nobody));
        assert_eq!(bandwidth.bytes(), Bytes(half), "the faster of two");
        (0..2).for_each(|_| bandwidth.learn(large(told.0, others)));
        assert_eq!(bandwidth.bytes(), told);
    }
}
