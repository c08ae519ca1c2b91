//! How large a benchmark's database may be on a machine, and the settings that go with its size.

use host::units::Bytes;

/// Bytes of pgbench's tables per unit of scale, indexes included.
pub const BYTES_PER_SCALE: u64 = 16_000_000;

/// The scale when there is room enough.
const PREFERRED_SCALE: u64 = 50;

/// So much of the memory that is available: the warm database has to stay in the page cache beside everything else.
const MEMORY_SHARE: u64 = 5;

/// So much of the free disk: the tables, their WAL, and room to spare.
const DISK_SHARE: u64 = 4;

/// The scale for a machine with so much memory available and so much disk free, at least 1.
pub fn plan_scale(available_memory: Bytes, free_disk: Bytes) -> u32 {
    let room = (available_memory.0 / MEMORY_SHARE).min(free_disk.0 / DISK_SHARE);
    (room / BYTES_PER_SCALE).clamp(1, PREFERRED_SCALE) as u32
}

/// Bytes of the database at a scale, roughly.
pub fn expected_bytes(scale: u32) -> Bytes {
    Bytes(u64::from(scale) * BYTES_PER_SCALE)
}

/// Shared buffers that a study leaves to pgthaw: so much of the database, within these limits.
const SHARED_BUFFERS_SHARE: u64 = 4;
const SHARED_BUFFERS_MIN: Bytes = Bytes(16 << 20);
const SHARED_BUFFERS_MAX: Bytes = Bytes(256 << 20);

/// The value of the setting at a scale.
pub fn choose_shared_buffers(scale: u32) -> String {
    let share = Bytes(expected_bytes(scale).0 / SHARED_BUFFERS_SHARE).clamp(SHARED_BUFFERS_MIN, SHARED_BUFFERS_MAX);
    format!("{}kB", share.0 >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scarcer_of_memory_and_disk_decides() {
        let gb = |count: u64| Bytes(count * 1_000_000_000);
        assert_eq!(plan_scale(gb(24), gb(100)), 50);
        assert_eq!(plan_scale(gb(2), gb(100)), 25);
        assert_eq!(plan_scale(gb(24), gb(1)), 15);
        assert_eq!(plan_scale(Bytes(0), gb(1)), 1);
    }
}
