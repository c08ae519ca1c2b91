//! Records of `top` that somebody made: packed bytes, and lines that are packed first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use observe::top::History;
use observe::top::fuzzing::{read_lines, read_steps};
use pgthaw::top::{Kind, LiveTop, Title};
use terminal::Key;

fuzz_target!(|bytes: &[u8]| {
    for steps in [read_steps(bytes), read_lines(bytes)] {
        let mut history = History::of_record();
        steps.iter().for_each(|step| history.push(step));
        assert_eq!(history.len() as u64 + history.dropped, steps.len() as u64);
        let mut live = LiveTop::new(Title::default(), Kind::Record, history);
        for key in [Key::ArrowRight, Key::PageDown, Key::PageUp, Key::End, Key::Char('s'), Key::Home] {
            assert!(!live.press(key));
            assert!(live.rows().len() <= live.shown.statistics.len());
        }
        if let Some(first) = steps.first() {
            assert_eq!(live.shown.at_ms, first.at_ms);
        }
    }
});
