//! State of a server in one step, a fraction of a second. No I/O.

use std::collections::{BTreeMap, HashMap};

use crate::gauges::OsSample;
use crate::time::{CLIENT_BACKEND, FileCall, ProcessTimes, Reading, WaitNames, Who, WrittenTo, class_until_18};
use crate::top::CheckpointPhase;
use postgres::LockProcess;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// End of the step: monotonic, and Unix time in milliseconds.
    pub end_ns: u64,
    pub wall_ms: i64,
    pub length_ns: u64,
    pub commands: u64,
    /// Pids of client backends that received commands.
    pub asked: Vec<u32>,
    /// Mean numbers of client backends: all, ready ones, and waiting ones by class and event.
    pub backends: f64,
    pub ready: f64,
    pub waits: BTreeMap<(String, String), f64>,
    pub server_processors: f64,
    /// `Writing`, with the pauses in between, or `Syncing`.
    pub checkpoint: Option<CheckpointPhase>,
    /// File calls in progress, and slow ones that ended.
    pub calls: Vec<SeenCall>,
    pub written: WrittenTo,
    /// Holders of awaited locks, if queried in this step.
    pub holders: Vec<LockProcess>,
    /// Number of processors; 0 if the machine is not visible from here.
    pub processors: f64,
    pub machine: OsSample,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCall {
    pub call: FileCall,
    /// Kind of process, such as `checkpointer`.
    pub who: String,
    pub relation: Option<String>,
}

pub const DATA_DEVICE: &str = "the data directory";
pub const LOG_DEVICE: &str = "the WAL";

#[derive(Debug, Default)]
pub struct Stepper {
    at_ns: u64,
    before: HashMap<(u32, u64), ProcessTimes>,
    written: WrittenTo,
}

impl Stepper {
    /// `None` for the first reading.
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
            step.server_processors += share(process.running_ns.saturating_sub(earlier.running_ns));
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
                    step.backends += share(until.saturating_sub(process.started_ns.max(from_ns)));
                    step.ready += share(process.ready_ns.unwrap_or(0).saturating_sub(earlier.ready_ns.unwrap_or(0)));
                    waits.for_each(|(event, count)| *step.waits.entry(event).or_default() += count);
                }
                "checkpointer" => step.checkpoint = phase_of(waits),
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

impl SeenCall {
    fn new(call: FileCall, who: &Who) -> SeenCall {
        SeenCall { call, who: if who.kind.is_empty() { "process".into() } else { who.kind.clone() }, relation: None }
    }
}

/// Phase by the checkpointer's longest wait. Syncs of WAL count as `Writing`: buffers must wait for them.
fn phase_of(waits: impl Iterator<Item = ((String, String), f64)>) -> Option<CheckpointPhase> {
    let at_work = waits.filter(|((class, _), share)| class != "Activity" && *share > 0.0);
    let ((class, event), _) = at_work.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let syncs = class == "IO" && event.ends_with("Sync") && !event.to_ascii_uppercase().starts_with("WAL");
    Some(if syncs { CheckpointPhase::Syncing } else { CheckpointPhase::Writing })
}

/// Means over steps, weighted by length: backends, processors or shares. `seconds` and `commands` are sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    pub seconds: f64,
    pub commands: u64,
    pub backends: f64,
    pub ready: f64,
    pub waits: BTreeMap<(String, String), f64>,
    pub processors: f64,
    pub server_processors: f64,
    pub busy: f64,
    pub steal: f64,
    pub busiest: Option<(String, f64)>,
    pub memory_wait: f64,
    /// Share of the time in which a task waited for a processor; 1 if unknown.
    pub processor_wait: f64,
}

impl Means {
    pub fn of(steps: &[Step]) -> Means {
        let length_ns: u64 = steps.iter().map(|step| step.length_ns).sum();
        let mean = |of: &dyn Fn(&Step) -> f64| {
            let sum: f64 = steps.iter().map(|step| of(step) * step.length_ns as f64).sum();
            if length_ns > 0 { sum / length_ns as f64 } else { 0.0 }
        };
        let mut waits: BTreeMap<(String, String), f64> = BTreeMap::new();
        for step in steps {
            for (event, count) in &step.waits {
                *waits.entry(event.clone()).or_default() += count * step.length_ns as f64 / length_ns.max(1) as f64;
            }
        }
        let devices = steps.iter().flat_map(|step| step.machine.parts.keys());
        let of_device = |name: &str| mean(&|step| step.machine.parts.get(name).map_or(0.0, |device| device.busy_ratio));
        let busiest = devices.map(|name| (name, of_device(name))).max_by(|one, other| one.1.total_cmp(&other.1));
        let busiest = busiest.map(|(name, busy)| (name.clone(), busy));
        Means {
            seconds: length_ns as f64 / 1e9,
            commands: steps.iter().map(|step| step.commands).sum(),
            backends: mean(&|step| step.backends),
            ready: mean(&|step| step.ready),
            waits,
            processors: mean(&|step| step.processors),
            server_processors: mean(&|step| step.server_processors),
            busy: mean(&|step| step.machine.processors_busy_seconds),
            steal: mean(&|step| step.machine.processors_steal_seconds),
            busiest,
            memory_wait: mean(&|step| step.machine.pressure.memory_some.unwrap_or(0.0)),
            processor_wait: mean(&|step| step.machine.pressure.cpu_some.unwrap_or(1.0)),
        }
    }

    pub fn of_classes(&self, classes: &[&str]) -> f64 {
        let of = self.waits.iter().filter(|((class, event), _)| classes.contains(&class_until_18(class, event)));
        of.map(|(_, count)| count).sum()
    }

    pub fn at_work(&self) -> f64 {
        self.backends - self.of_classes(&["Client"])
    }

    pub fn others(&self) -> f64 {
        (self.busy - self.server_processors).max(0.0)
    }

    pub fn commands_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.commands as f64 / self.seconds } else { 0.0 }
    }

    /// Name and backends of each wait with more backends than `before`, largest increase first.
    pub fn grown(&self, before: &Means, classes: &[&str]) -> Vec<(String, f64)> {
        let of = self.waits.iter().filter(|((class, event), _)| classes.contains(&class_until_18(class, event)));
        let growth = |(event, now): (&(String, String), &f64)| {
            let earlier = before.waits.get(event).copied().unwrap_or(0.0);
            (format!("{}:{}", event.0, event.1), *now, now - earlier)
        };
        let mut grown: Vec<(String, f64, f64)> = of.map(growth).filter(|(_, _, more)| *more > 0.0).collect();
        grown.sort_by(|one, other| other.2.total_cmp(&one.2));
        grown.into_iter().map(|(name, now, _)| (name, now)).collect()
    }
}
