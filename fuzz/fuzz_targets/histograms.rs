//! Histograms of latencies, as the results store holds them.
#![no_main]

use pgthaw_lab::study::LatencyHistogram;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(histogram) = LatencyHistogram::decode(bytes) {
        assert!(histogram.p50_us <= histogram.p99_us && histogram.p99_us <= histogram.max_us);
    }
});
