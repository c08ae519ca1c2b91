//! When a kill falls: numbers that look random and are the same for the same seed, and kills after a time.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// splitmix64.
#[derive(Debug)]
pub struct Moments(u64);

impl Moments {
    /// Each part has moments of its own; PGTHAW_KILLS_SEED gives all of them others.
    pub fn new(part: u64) -> Moments {
        let seed = std::env::var("PGTHAW_KILLS_SEED").map_or(1_u64, |seed| seed.parse().unwrap());
        Moments(seed.wrapping_mul(1_000_003).wrapping_add(part))
    }

    /// 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    pub fn pick<'a, T>(&mut self, some: &'a [T]) -> &'a T {
        &some[self.below(some.len())]
    }

    /// Somewhere in a duration.
    pub fn within(&mut self, whole: Duration) -> Duration {
        Duration::from_micros(self.below(whole.as_micros() as usize + 1) as u64)
    }
}

/// Runs a command and kills it after a time. Tells whether it was still running then.
pub fn kill_after(mut command: Command, time: Duration) -> bool {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_alive = wait_until(&mut child, Instant::now() + time);
    if is_alive {
        child.kill().unwrap();
    }
    child.wait().unwrap();
    is_alive
}

/// Waits until a moment. Tells whether the child is still running then.
pub fn wait_until(child: &mut Child, moment: Instant) -> bool {
    loop {
        let is_alive = child.try_wait().unwrap().is_none();
        let left = moment.saturating_duration_since(Instant::now());
        if !is_alive || left.is_zero() {
            return is_alive;
        }
        std::thread::sleep(left.min(Duration::from_millis(2)));
    }
}

/// How long something takes: the longest of three times.
pub fn measure(mut prepare: impl FnMut(), mut run: impl FnMut()) -> Duration {
    let mut time = || {
        prepare();
        let begun = Instant::now();
        run();
        begun.elapsed()
    };
    [time(), time(), time()].into_iter().max().unwrap()
}
