//! Files of a data directory, and of who connects: pg_control, postmaster.pid, the password file.
#![no_main]

use postgres::fuzzing::{read_control_file, read_password_line, read_postmaster};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((block_size, segment_blocks)) = read_control_file(bytes) {
        assert!(block_size.is_power_of_two() && segment_blocks > 0);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = read_postmaster(text);
        text.lines().for_each(|line| _ = read_password_line(line));
    }
});
