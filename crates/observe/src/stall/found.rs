//! A stall as it is told: when, how bad, what held the work up, in one sentence.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What held the work up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// A file that was synchronised with the disk: of a relation, of transaction status.
    FileSync,
    /// The log that did not get to its disk.
    WalFlush,
    /// Temporary files that were written.
    TemporaryFiles,
    /// Somebody held a lock.
    Lock,
    /// Somebody held a pin of a buffer.
    BufferPin,
    /// A checkpoint, and no single file of it.
    Checkpoint,
    /// Others had the processors.
    Processors,
    /// The device had more to do than it can.
    Device,
    /// Memory was short, and had to be taken back first.
    Memory,
    /// All clients were silent while the server had nothing to do.
    ClientPause,
    /// Clients answered, and answered late: they are slow, or the network is.
    ClientDelay,
    /// Nothing that was seen explains it.
    Unexplained,
}

/// A span in which throughput fell far below its surroundings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    /// Milliseconds since 1970 UTC.
    pub begin_ms: i64,
    /// `None` while it lasts.
    pub end_ms: Option<i64>,
    pub length_ns: u64,
    pub kind: StallKind,
    /// What happened, without the time of the day. While it lasts it may change as more is seen.
    pub sentence: String,
    /// Of what is counted (`counted`) in a second: the least of a step, and what was usual before.
    pub least_per_second: f64,
    pub usual_per_second: f64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default().strftime("%H:%M:%S").to_string();
        let end = self.end_ms.map_or_else(|| "now".to_owned(), clock);
        write!(f, "{}–{end} UTC: {}", clock(self.begin_ms), self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_the_time_of_the_day() {
        let mut stall = Stall {
            begin_ms: 1_790_000_000_000,
            end_ms: Some(1_790_000_008_100),
            length_ns: 8_100_000_000,
            kind: StallKind::Unexplained,
            sentence: "no command for 8.1 s.".into(),
            least_per_second: 0.0,
            usual_per_second: 5000.0,
        };
        assert_eq!(stall.to_string(), "14:13:20–14:13:28 UTC: no command for 8.1 s.");
        stall.end_ms = None;
        assert!(stall.to_string().starts_with("14:13:20–now UTC: "));
    }
}
