//! Study files.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(sweep) = pgthaw_lab::study::fuzzing::read_study(text, Path::new("/nowhere")) else { return };
    assert!(sweep.points() > 0 && sweep.trials() >= sweep.points());
    for number in [0, sweep.points() / 2, sweep.points() - 1] {
        let point = sweep.point(number);
        let _ = (sweep.load(&point), sweep.disk(&point));
    }
    let _ = sweep.strategies();
});
