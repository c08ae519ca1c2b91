//! What pgbench writes, and what somebody may give out for it: logs of transactions and of intervals, progress, reports,
//! tables; and the server's log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::{Reader, judge};
use pgbench::{parse_interval, parse_report, parse_transaction};
use pgthaw_lab::study::fuzzing::read_server_log;

fuzz_target!(|text: &str| {
    let mut reader = Reader::default();
    let read = text.lines().try_for_each(|line| reader.push_line(line)).and_then(|()| reader.finish());
    if let Ok(series) = read {
        assert!(series.width_seconds > 0.0 && series.transactions().is_finite());
        // A judgement of a long curve takes milliseconds, and a test of its own looks at it.
        if series.buckets.len() <= 64 {
            let _ = judge(&series, series.facts.pages());
        }
    }
    for line in text.lines() {
        let _ = parse_transaction(line);
        if let Some((_, interval)) = parse_interval(line) {
            let _ = interval.latency_us_mean();
        }
    }
    let _ = parse_report(text);
    let _ = read_server_log(text);
});
