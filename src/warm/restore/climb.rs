//! How much of the device a restore takes while traffic flows: as much as lets the server do the most.
//!
//! What the server's users get is not seen from outside. What its processes work is: a transaction takes as much processor time whether
//! or not it waited, and who waits works less. So now and then another share of the bandwidth is tried for a second, less or more, and
//! kept when the server works more beside less, or hardly less beside more: then the restore is done sooner.

use std::time::Duration;

/// The most that is taken: what is left keeps the device from being saturated (docs/journal/2026-11-22-a-saturated-limit.md).
pub const SHARE_MAX: f64 = 0.93;
const SHARE_MIN: f64 = 0.3;
/// From one share to the next.
const STEP: f64 = 0.75;

/// How long a share is looked at.
const STRETCH: Duration = Duration::from_secs(1);

/// The server has to work so many times as much beside less ...
const GAIN_MIN: f64 = 1.05;
/// ... and may work so much less beside more.
const LOSS_MAX: f64 = 0.97;

/// The share that was chosen, and the one that is being tried.
#[derive(Debug)]
pub struct Climb {
    share: f64,
    tried: Option<f64>,
    is_down: bool,
    /// When the stretch began, and the processor time of the server's processes by then.
    stretch: Option<(Duration, Duration)>,
    /// Processors that the server kept busy beside the chosen share, and beside the largest.
    work: f64,
    work_at_most: f64,
}

impl Default for Climb {
    fn default() -> Climb {
        Climb { share: SHARE_MAX, tried: None, is_down: true, stretch: None, work: 0.0, work_at_most: 0.0 }
    }
}

impl Climb {
    /// The part of the bandwidth to take now.
    pub fn share(&self) -> f64 {
        self.tried.unwrap_or(self.share)
    }

    /// The share that was chosen, and how many times as much the server works beside it as beside the largest.
    pub fn chosen(&self) -> (f64, f64) {
        (self.share, if self.work_at_most > 0.0 { self.work / self.work_at_most } else { 1.0 })
    }

    /// Traffic does not flow: nothing is found out.
    pub fn pause(&mut self) {
        (self.tried, self.stretch) = (None, None);
    }

    /// Traffic flows, and the server's processes have used so much processor time so far.
    pub fn add(&mut self, now: Duration, work: Duration) {
        let Some((began, before)) = self.stretch else {
            self.stretch = Some((now, work));
            return;
        };
        // A process that ended takes its time along.
        let Some(worked) = work.checked_sub(before) else { return self.pause() };
        let lasted = now.saturating_sub(began);
        if lasted >= STRETCH {
            self.stretch = Some((now, work));
            self.judge(worked.as_secs_f64() / lasted.as_secs_f64());
        }
    }

    fn judge(&mut self, work: f64) {
        if self.share() == SHARE_MAX {
            self.work_at_most = work;
        }
        let Some(tried) = self.tried.take() else {
            self.work = work;
            let other = if self.is_down { self.share * STEP } else { self.share / STEP };
            let other = other.clamp(SHARE_MIN, SHARE_MAX);
            if other == self.share {
                self.is_down = !self.is_down;
            } else {
                self.tried = Some(other);
            }
            return;
        };
        let is_better = if self.is_down { work > self.work * GAIN_MIN } else { work >= self.work * LOSS_MAX };
        if is_better {
            (self.share, self.work) = (tried, work);
        } else {
            self.is_down = !self.is_down;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share after a minute beside a server that keeps so many processors busy beside a share.
    fn after_a_minute(work_beside: impl Fn(f64) -> f64) -> Climb {
        let (mut climb, mut work) = (Climb::default(), Duration::ZERO);
        for look in 0..2400u32 {
            work += Duration::from_secs_f64(work_beside(climb.share()) * 0.025);
            climb.add(Duration::from_millis(25) * look, work);
        }
        climb
    }

    #[test]
    fn whom_a_restore_does_not_hurt_it_does_not_yield_to() {
        let climb = after_a_minute(|_| 1.5);
        assert_eq!(climb.chosen(), (SHARE_MAX, 1.0));
    }

    #[test]
    fn less_is_taken_as_long_as_the_server_gains() {
        let (share, gain) = after_a_minute(|share| if share > 0.75 { 0.8 } else { 1.6 }).chosen();
        assert!((0.65..0.75).contains(&share) && (gain - 2.0).abs() < 0.1, "{share} {gain}");
        let (share, _) = after_a_minute(|share| 2.0 - share).chosen();
        assert!(share < 0.5, "{share}");
    }

    #[test]
    fn what_was_given_is_taken_back_when_the_server_has_no_use_for_it() {
        let mut climb = after_a_minute(|share| 2.0 - share);
        let (mut work, from) = (Duration::from_secs(1000), Duration::from_secs(100));
        climb.pause();
        for look in 0..2400u32 {
            work += Duration::from_millis(10);
            climb.add(from + Duration::from_millis(25) * look, work);
        }
        assert_eq!(climb.chosen().0, SHARE_MAX);
    }

    #[test]
    fn a_process_that_ends_is_no_work_undone() {
        let mut climb = Climb::default();
        climb.add(Duration::ZERO, Duration::from_secs(9));
        climb.add(STRETCH, Duration::from_secs(3));
        assert_eq!((climb.share(), climb.chosen()), (SHARE_MAX, (SHARE_MAX, 1.0)));
    }
}
