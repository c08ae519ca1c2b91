use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Time since boot; never set back.
pub fn read_monotonic() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    // Never negative on these clocks.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

pub fn read_wall_ms() -> i64 {
    // An unset clock, before 1970, yields 0.
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

pub fn read_wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

pub fn read_thread_cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Includes all threads.
pub fn read_own_cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}
