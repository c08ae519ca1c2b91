//! A film of which any byte may be different; its checksum is put right, or nothing behind it would be reached.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(summary) = cache::fuzzing::read_mended_film(bytes) {
        let blocks: u64 = summary.relations.iter().map(|one| one.blocks).sum();
        assert_eq!(summary.moments.last().map(|moment| moment.blocks), Some(blocks));
    }
});
