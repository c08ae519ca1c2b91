//! At most so many bytes a second, over all threads together.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::units::Bytes;
use crate::warm::Control;

/// A thread that waits looks this often whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Hands out the right to read.
#[derive(Debug)]
pub struct Pace {
    /// The rate that is never exceeded, whatever is asked for.
    max_rate: Option<Bytes>,
    /// When the device will have had time for everything that was handed out, at the rate in force.
    turns: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    rate: Option<Bytes>,
    free_at: Instant,
}

impl Pace {
    pub fn new(max_rate: Option<Bytes>) -> Pace {
        Pace { max_rate, turns: Mutex::new(Turns { rate: max_rate, free_at: Instant::now() }) }
    }

    /// From now on at most this many bytes per second; `None`: as many as the user allows.
    pub fn set_rate(&self, rate: Option<Bytes>) {
        let rate = [rate, self.max_rate].into_iter().flatten().min();
        let mut turns = self.lock();
        if turns.rate != rate {
            *turns = Turns { rate, free_at: Instant::now() };
        }
    }

    /// Waits for the turn of a read, or until there is a reason to stop.
    pub fn wait(&self, bytes: Bytes, control: &Control) {
        let Some(turn) = self.take_turn(bytes) else { return };
        while control.os_stopped_by().is_none() {
            match turn.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return,
                left => thread::sleep(left.min(LOOK)),
            }
        }
    }

    /// Waits as `wait` does, for what is not of the OS tier: until the user interrupts it. Returns whether the turn came.
    pub async fn wait_async(&self, bytes: Bytes, control: &Control) -> bool {
        if let Some(turn) = self.take_turn(bytes) {
            return control.unless_interrupted(tokio::time::sleep_until(turn.into())).await.is_some();
        }
        true
    }

    /// The moment from which the read may begin. What was not used in the past is lost.
    fn take_turn(&self, bytes: Bytes) -> Option<Instant> {
        let mut turns = self.lock();
        let lasts = Duration::from_secs_f64(bytes.seconds_at(turns.rate?));
        let turn = turns.free_at.max(Instant::now());
        turns.free_at = turn + lasts;
        Some(turn)
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_as_far_apart_as_the_rate_says() {
        let pace = Pace::new(Some(Bytes(1000)));
        let first = pace.take_turn(Bytes(3000)).unwrap();
        assert_eq!(pace.take_turn(Bytes(3000)).unwrap(), first + Duration::from_secs(3));
        assert_eq!(pace.take_turn(Bytes(3000)).unwrap(), first + Duration::from_secs(6));
    }

    #[test]
    fn a_new_rate_forgets_the_turns_of_the_old_one() {
        let pace = Pace::new(None);
        assert_eq!(pace.take_turn(Bytes(1 << 40)), None);
        pace.set_rate(Some(Bytes(1)));
        pace.take_turn(Bytes(1 << 30)).unwrap();
        pace.set_rate(Some(Bytes(1000)));
        let turn = pace.take_turn(Bytes(1)).unwrap();
        assert!(turn <= Instant::now(), "the first turn at a new rate is now");
        pace.set_rate(None);
        assert_eq!(pace.take_turn(Bytes(1)), None);
    }

    #[test]
    fn the_users_limit_holds_whatever_is_asked_for() {
        let pace = Pace::new(Some(Bytes(10)));
        pace.set_rate(Some(Bytes(1000)));
        let first = pace.take_turn(Bytes(10)).unwrap();
        assert_eq!(pace.take_turn(Bytes(10)).unwrap(), first + Duration::from_secs(1));
        pace.set_rate(None);
        assert!(pace.take_turn(Bytes(10)).is_some());
    }

    #[tokio::test]
    async fn an_interrupted_turn_does_not_come() {
        let control = Control::default();
        assert!(Pace::new(None).wait_async(Bytes(1 << 40), &control).await);
        let pace = Pace::new(Some(Bytes(1)));
        assert!(pace.wait_async(Bytes(1 << 30), &control).await, "the first need not wait");
        control.interrupt();
        assert!(!pace.wait_async(Bytes(1), &control).await);
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
