//! Computes the progress of checkpoints from counters and the checkpointer's wait event. Does no I/O.
//!
//! Part of `--json` and of records: never rename fields.

use serde::{Deserialize, Serialize};

use postgres::CheckpointPulse;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointPhase {
    /// Unknown, because the wait event is hidden.
    #[default]
    Unknown,
    Idle,
    /// Writes buffers, or pauses because it is ahead of schedule.
    Writing,
    /// Flushes files.
    Syncing,
}

impl CheckpointPhase {
    pub fn is_running(self) -> bool {
        matches!(self, CheckpointPhase::Writing | CheckpointPhase::Syncing)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct CheckpointStep {
    pub phase: CheckpointPhase,
    /// Duration of the checkpoint so far: an upper limit, counted from the last reading before it.
    pub running_ns: Option<u64>,
    /// Written buffers of the current checkpoint; 0 without one.
    pub buffers: u64,
    pub last: Option<LastCheckpoint>,
    /// Timed checkpoints since the statistics reset.
    pub timed: u64,
    /// Requested checkpoints since the statistics reset.
    pub requested: u64,
    /// WAL since the redo point of the last finished checkpoint.
    pub wal_bytes: u64,
    /// Time since the redo point of the last finished checkpoint.
    pub since_seconds: f64,
    /// `checkpoint_timeout`.
    pub timeout_seconds: f64,
    /// `max_wal_size`.
    pub max_wal_bytes: u64,
    /// Buffers written since the last reading.
    pub buffers_added: u64,
    /// Time of writing in checkpoints that ended since the last reading.
    pub write_ms_added: f64,
    /// Time of flushing in checkpoints that ended since the last reading.
    pub sync_ms_added: f64,
    pub timed_added: u64,
    pub requested_added: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LastCheckpoint {
    /// Unix time in milliseconds.
    pub ended_at_ms: i64,
    pub buffers: u64,
    pub write_ms: f64,
    pub sync_ms: f64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckpointWatch {
    before: Option<(u64, CheckpointPulse)>,
    phase: CheckpointPhase,
    /// Time and counters of the last reading before the current checkpoint.
    begun: Option<(u64, CheckpointPulse)>,
    last: Option<LastCheckpoint>,
}

impl CheckpointWatch {
    pub fn take(&mut self, at_ns: u64, at_ms: i64, pulse: CheckpointPulse, event: Option<&str>) -> CheckpointStep {
        let (before_ns, before) = self.before.replace((at_ns, pulse)).unwrap_or((at_ns, pulse));
        let has_begun = pulse.timed + pulse.requested > before.timed + before.requested;
        self.phase = match event {
            Some("CheckpointerMain") => CheckpointPhase::Idle,
            Some(event) if event.ends_with("Sync") => CheckpointPhase::Syncing,
            Some(_) => CheckpointPhase::Writing,
            // The checkpointer is on a processor. Its phase stays, unless a checkpoint began.
            None if has_begun => CheckpointPhase::Writing,
            None => self.phase,
        };
        let is_running = self.phase.is_running();
        let ended = pulse.write_ms > before.write_ms || pulse.sync_ms > before.sync_ms;
        if let Some((_, first)) = self.begun.filter(|_| ended || !is_running) {
            self.begun = None;
            self.last = Some(end(at_ms, &first, &pulse));
        } else if has_begun && !is_running && self.begun.is_none() {
            // The checkpoint began and ended between two readings.
            self.last = Some(end(at_ms, &before, &pulse));
        }
        if is_running && !ended {
            self.begun.get_or_insert((before_ns, before));
        }
        CheckpointStep {
            phase: self.phase,
            running_ns: self.begun.map(|(begun_ns, _)| at_ns.saturating_sub(begun_ns)),
            buffers: self.begun.map_or(0, |(_, first)| pulse.buffers.saturating_sub(first.buffers)),
            last: self.last,
            timed: pulse.timed,
            requested: pulse.requested,
            wal_bytes: pulse.wal_bytes,
            since_seconds: pulse.since_seconds,
            timeout_seconds: pulse.timeout_seconds,
            max_wal_bytes: pulse.max_wal_bytes,
            buffers_added: pulse.buffers.saturating_sub(before.buffers),
            write_ms_added: (pulse.write_ms - before.write_ms).max(0.0),
            sync_ms_added: (pulse.sync_ms - before.sync_ms).max(0.0),
            timed_added: pulse.timed.saturating_sub(before.timed),
            requested_added: pulse.requested.saturating_sub(before.requested),
        }
    }
}

fn end(at_ms: i64, first: &CheckpointPulse, last: &CheckpointPulse) -> LastCheckpoint {
    LastCheckpoint {
        ended_at_ms: at_ms,
        buffers: last.buffers.saturating_sub(first.buffers),
        write_ms: (last.write_ms - first.write_ms).max(0.0),
        sync_ms: (last.sync_ms - first.sync_ms).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn pulse(requested: u64, buffers: u64, write_ms: f64, sync_ms: f64) -> CheckpointPulse {
        CheckpointPulse { requested, buffers, write_ms, sync_ms, ..CheckpointPulse::default() }
    }

    #[test]
    fn a_checkpoint_is_followed_from_its_begin_to_its_end() {
        let mut watch = CheckpointWatch::default();
        let mut look = |second: u64, pulse, event| watch.take(second * SECOND, second as i64 * 1000, pulse, event);
        let idle = look(1, pulse(4, 1000, 70.0, 7.0), Some("CheckpointerMain"));
        assert_eq!((idle.phase, idle.running_ns, idle.last), (CheckpointPhase::Idle, None, None));
        let begun = look(2, pulse(5, 1010, 70.0, 7.0), Some("CheckpointWriteDelay"));
        assert_eq!((begun.phase, begun.running_ns, begun.buffers), (CheckpointPhase::Writing, Some(SECOND), 10));
        let working = look(4, pulse(5, 1500, 70.0, 7.0), None);
        assert_eq!((working.phase, working.running_ns), (CheckpointPhase::Writing, Some(3 * SECOND)));
        assert_eq!((working.buffers, working.buffers_added), (500, 490));
        let syncing = look(5, pulse(5, 1600, 70.0, 7.0), Some("DataFileSync"));
        assert_eq!((syncing.phase, syncing.buffers), (CheckpointPhase::Syncing, 600));
        let over = look(6, pulse(5, 1600, 3070.0, 1007.0), Some("CheckpointerMain"));
        assert_eq!((over.phase, over.running_ns, over.buffers), (CheckpointPhase::Idle, None, 0));
        let last = LastCheckpoint { ended_at_ms: 6000, buffers: 600, write_ms: 3000.0, sync_ms: 1000.0 };
        assert_eq!((over.last, over.write_ms_added), (Some(last), 3000.0));
        assert_eq!(look(7, pulse(5, 1600, 3070.0, 1007.0), Some("CheckpointerMain")).last, Some(last));
    }

    #[test]
    fn one_between_two_looks_is_told_and_who_sees_no_event_knows_no_phase() {
        let mut watch = CheckpointWatch::default();
        let mut look = |second: u64, pulse, event| watch.take(second * SECOND, second as i64 * 1000, pulse, event);
        assert_eq!(look(1, pulse(4, 1000, 0.0, 0.0), None).phase, CheckpointPhase::Unknown);
        look(2, pulse(4, 1000, 0.0, 0.0), Some("CheckpointerMain"));
        let over = look(3, pulse(5, 1200, 12.0, 3.0), Some("CheckpointerMain"));
        assert_eq!(over.last.map(|last| (last.buffers, last.write_ms)), Some((200, 12.0)));
    }
}
