//! What was seen of a server in a fraction of a second: of its backends, its files, its locks, and the machine. Values alone.

use std::collections::{BTreeMap, HashMap};

use crate::time::{FileCall, ProcessTimes, Reading, WaitNames, Who, WrittenTo};
use postgres::LockHolder;

/// One step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// When it ended, by the monotonic clock and in milliseconds since 1970 UTC.
    pub end_ns: u64,
    pub wall_ms: i64,
    pub length_ns: u64,
    /// Commands that clients sent.
    pub commands: u64,
    /// The client backends that they were sent to, by pid.
    pub asked: Vec<u32>,
    pub backends: Backends,
    /// Processors that all processes of the server had, in the mean.
    pub server_processors: f64,
    pub checkpoint: Option<CheckpointPhase>,
    /// Calls of files that were under way in it, or ended in it and were slow.
    pub calls: Vec<SeenCall>,
    /// In it.
    pub written: WrittenTo,
    /// Who held locks that others waited for; of the last time that somebody asked.
    pub holders: Vec<LockHolder>,
    pub machine: Machine,
}

/// What client backends did, in the mean of a step: how many of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backends {
    pub count: f64,
    pub running: f64,
    pub ready: f64,
    /// By class and event.
    pub waits: BTreeMap<(String, String), f64>,
}

/// What a checkpoint is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPhase {
    /// Writes buffers, and pauses between them.
    Writes,
    /// Has files brought to the disk.
    Syncs,
}

/// A call of a file, and whose it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCall {
    pub call: FileCall,
    /// `checkpointer`, `client backend`.
    pub who: String,
    /// What the server calls the relation whose file it is, where that is known.
    pub relation: Option<String>,
}

/// What lies on a device: the server's files, and its log where that has another.
pub const DATA_DEVICE: &str = "the data directory";
pub const LOG_DEVICE: &str = "the log";

/// What the whole machine did in a step; nothing of what cannot be seen from here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// How many processors there are, how many were busy, and how many the hypervisor gave to somebody else.
    pub processors: f64,
    pub busy: f64,
    pub steal: f64,
    /// By what lies on each: the share of the time in which it had something to do.
    pub devices: BTreeMap<&'static str, f64>,
    /// Share of the time in which somebody waited for memory, and for a processor.
    pub memory_wait: Option<f64>,
    pub processor_wait: Option<f64>,
}

/// Takes steps from readings.
#[derive(Debug, Default)]
pub struct Stepper {
    at_ns: u64,
    before: HashMap<(u32, u64), ProcessTimes>,
    written: WrittenTo,
}

impl Stepper {
    /// What happened since the last reading, as far as the reading tells. `None` for the first one.
    pub fn add(&mut self, reading: &Reading, names: &WaitNames, who: impl Fn(&ProcessTimes) -> Who) -> Option<Step> {
        let (from_ns, written) = (self.at_ns, self.written);
        let length_ns = reading.at_ns.saturating_sub(from_ns);
        if let Some(begin) = &reading.begins_from {
            self.before = begin.processes.iter().map(|one| ((one.pid, one.birth), one.clone())).collect();
        }
        let mut step =
            Step { end_ns: reading.at_ns, length_ns, written: reading.written.since(written), ..Step::default() };
        let share = |ns: u64| ns as f64 / length_ns.max(1) as f64;
        for process in &reading.processes {
            let nothing = ProcessTimes::default();
            let earlier = self.before.get(&(process.pid, process.birth)).unwrap_or(&nothing);
            let who = who(process);
            let running = share(process.running_ns.saturating_sub(earlier.running_ns));
            step.server_processors += running;
            step.calls.extend(process.call.clone().map(|call| SeenCall::new(call, &who)));
            let waits = process.waits.iter().map(|(event, statistic)| {
                let before = earlier.waits.iter().find(|(known, _)| known == event).map_or(0, |(_, one)| one.total_ns);
                (names.name(event), share(statistic.total_ns.saturating_sub(before)))
            });
            match who.kind.as_str() {
                CLIENT_BACKEND => {
                    let until = process.ended_ns.unwrap_or(reading.at_ns);
                    let commands = process.commands.saturating_sub(earlier.commands);
                    step.commands += commands;
                    step.asked.extend((commands > 0).then_some(process.pid));
                    step.backends.count += share(until.saturating_sub(process.started_ns.max(from_ns)));
                    step.backends.running += running;
                    step.backends.ready +=
                        share(process.ready_ns.unwrap_or(0).saturating_sub(earlier.ready_ns.unwrap_or(0)));
                    waits.for_each(|(event, count)| *step.backends.waits.entry(event).or_default() += count);
                }
                "checkpointer" => step.checkpoint = CheckpointPhase::of(waits),
                _ => {}
            }
        }
        let ended = reading.slow_calls.iter().map(|call| {
            let process = reading.processes.iter().find(|one| one.pid == call.pid);
            SeenCall::new(call.clone(), &process.map(&who).unwrap_or_default())
        });
        step.calls.extend(ended);
        let living = reading.processes.iter().filter(|one| one.ended_ns.is_none());
        self.before = living.map(|one| ((one.pid, one.birth), one.clone())).collect();
        (self.at_ns, self.written) = (reading.at_ns, reading.written);
        (from_ns > 0 && length_ns > 0).then_some(step)
    }
}

/// As pg_stat_activity has it.
const CLIENT_BACKEND: &str = "client backend";

impl SeenCall {
    fn new(call: FileCall, who: &Who) -> SeenCall {
        SeenCall { call, who: if who.kind.is_empty() { "process".into() } else { who.kind.clone() }, relation: None }
    }
}

impl CheckpointPhase {
    /// By what the checkpointer waited for most, but for something to do. While it writes it may wait for the log to be written first.
    fn of(waits: impl Iterator<Item = ((String, String), f64)>) -> Option<CheckpointPhase> {
        let at_work = waits.filter(|((class, _), share)| class != "Activity" && *share > 0.0);
        let ((class, event), _) = at_work.max_by(|one, other| one.1.total_cmp(&other.1))?;
        let syncs = class == "IO" && event.ends_with("Sync") && !event.to_ascii_uppercase().starts_with("WAL");
        Some(if syncs { CheckpointPhase::Syncs } else { CheckpointPhase::Writes })
    }
}
