//! The last hour, to look back at: what is drawn of each step as it is, and the whole packed, so that memory is bounded.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use super::frame::{Activity, TopFrame};

/// So long is kept, and so much: of readings ten times a second the packed frames may be more.
const KEPT_NS: u64 = 3600 * 1_000_000_000;
const KEPT_BYTES: usize = 64 << 20;

/// What is drawn of a step beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Brief {
    pub at_ms: i64,
    pub length_ns: u64,
    pub activity: Activity,
    /// No server answered.
    pub is_gap: bool,
}

impl Brief {
    fn of(frame: &TopFrame) -> Brief {
        Brief {
            at_ms: frame.at_ms,
            length_ns: frame.length_ns,
            activity: frame.activity,
            is_gap: frame.failure.is_some(),
        }
    }
}

/// Steps, the oldest first.
#[derive(Debug)]
pub struct History {
    steps: VecDeque<(Brief, Vec<u8>)>,
    length_ns: u64,
    bytes: usize,
    kept_ns: u64,
    kept_bytes: usize,
    /// Steps that were let go.
    pub dropped: u64,
}

impl History {
    /// Keeps the last hour.
    pub fn live() -> History {
        History { steps: VecDeque::new(), length_ns: 0, bytes: 0, kept_ns: KEPT_NS, kept_bytes: KEPT_BYTES, dropped: 0 }
    }

    /// Keeps what fits, however long it is: of a record.
    pub fn of_record() -> History {
        History { kept_ns: u64::MAX, ..History::live() }
    }

    /// Adds a step, and lets go of what is too old or too much.
    pub fn push(&mut self, frame: &TopFrame) {
        let Some(packed) = pack(frame) else { return };
        self.length_ns = self.length_ns.saturating_add(frame.length_ns);
        self.bytes += packed.len() + size_of::<(Brief, Vec<u8>)>();
        self.steps.push_back((Brief::of(frame), packed));
        while self.steps.len() > 1 && (self.length_ns > self.kept_ns || self.bytes > self.kept_bytes) {
            let Some((brief, packed)) = self.steps.pop_front() else { return };
            self.length_ns = self.length_ns.saturating_sub(brief.length_ns);
            self.bytes -= packed.len() + size_of::<(Brief, Vec<u8>)>();
            self.dropped += 1;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// What is drawn of the steps from `first` up to `end`.
    pub fn briefs(&self, first: usize, end: usize) -> impl DoubleEndedIterator<Item = &Brief> {
        self.steps.iter().take(end).skip(first).map(|(brief, _)| brief)
    }

    /// A whole step. `None` of one that is not there.
    pub fn frame(&self, place: usize) -> Option<TopFrame> {
        unpack(&self.steps.get(place)?.1)
    }
}

fn pack(frame: &TopFrame) -> Option<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&serde_json::to_vec(frame).ok()?).ok()?;
    encoder.finish().ok()
}

fn unpack(packed: &[u8]) -> Option<TopFrame> {
    let mut text = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::super::frame::TopStatistic;
    use super::super::frame::tests::{SECOND, span};
    use super::*;

    fn frame(second: u64) -> TopFrame {
        TopFrame {
            at_ms: second as i64 * 1000,
            length_ns: SECOND,
            activity: Activity::of(&span()),
            statistics: TopStatistic::all_of(&span()),
            ..TopFrame::default()
        }
    }

    #[test]
    fn the_last_hour_is_kept_as_it_was() {
        let mut history = History::live();
        (0..4000).for_each(|second| history.push(&frame(second)));
        assert_eq!((history.len(), history.dropped), (3600, 400));
        assert_eq!((history.frame(0), history.frame(3599)), (Some(frame(400)), Some(frame(3999))));
        assert_eq!(history.frame(3600), None);
        let drawn: Vec<i64> = history.briefs(3598, 9999).map(|brief| brief.at_ms).collect();
        assert_eq!(drawn, [3_998_000, 3_999_000]);
        assert!(history.bytes < 8 << 20, "{}", history.bytes);
    }

    #[test]
    fn memory_is_bounded_whatever_a_record_has() {
        let mut history = History { kept_bytes: 100_000, ..History::of_record() };
        (0..4000).for_each(|second| history.push(&frame(second)));
        assert!(history.bytes <= 100_000 && history.dropped > 0, "{}", history.bytes);
        assert_eq!(history.len() as u64 + history.dropped, 4000);
        let mut whole = History::of_record();
        (0..4000).for_each(|second| whole.push(&frame(second)));
        assert_eq!(whole.len(), 4000, "a record is no hour");
    }
}
