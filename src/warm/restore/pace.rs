//! At most so many bytes a second, over all threads together.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::units::Bytes;
use crate::warm::Control;

/// A thread that waits looks this often whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Hands out the right to read.
#[derive(Debug)]
pub struct Pace {
    max_rate: Option<Bytes>,
    /// When the device will have had time for everything that was handed out.
    free_at: Mutex<Instant>,
}

impl Pace {
    pub fn new(max_rate: Option<Bytes>) -> Pace {
        Pace { max_rate, free_at: Mutex::new(Instant::now()) }
    }

    /// Waits for the turn of a read, or until there is a reason to stop.
    pub fn wait(&self, bytes: Bytes, control: &Control) {
        let Some(max_rate) = self.max_rate else { return };
        let turn = self.take_turn(Duration::from_secs_f64(bytes.seconds_at(max_rate)));
        while control.os_stopped_by().is_none() {
            match turn.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return,
                left => thread::sleep(left.min(LOOK)),
            }
        }
    }

    /// The moment from which the read may begin. What was not used in the past is lost.
    fn take_turn(&self, lasts: Duration) -> Instant {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (*free_at).max(Instant::now());
        *free_at = turn + lasts;
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_as_far_apart_as_the_rate_says() {
        let pace = Pace::new(Some(Bytes(1000)));
        let lasts = Duration::from_secs(3);
        let first = pace.take_turn(lasts);
        assert_eq!(pace.take_turn(lasts), first + lasts);
        assert_eq!(pace.take_turn(lasts), first + 2 * lasts);
    }

    #[test]
    fn who_is_to_stop_does_not_wait() {
        let control = Control::default();
        control.interrupt();
        let pace = Pace::new(Some(Bytes(1)));
        pace.wait(Bytes(1 << 30), &control);
        pace.wait(Bytes(1 << 30), &control);
    }
}
