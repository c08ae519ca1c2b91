//! A snapshot file of which any byte may be different; its checksum is put right, or nothing behind it would be reached.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(snapshot) = cache::fuzzing::read_mended(bytes) {
        let residency = snapshot.map.residency();
        assert!(residency.both <= residency.os);
        assert_eq!(residency.os, snapshot.header().os_blocks);
    }
});
