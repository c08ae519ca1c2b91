//! Steps added up since the begin, as counters for who asks now and then. No clock and no process here.

use std::collections::BTreeMap;

use super::frame::TopFrame;
use crate::statistic::Statistic;
use crate::time::ProgramCost;

/// So many names are told apart. What is more is added up under one.
const NAMES_MAX: usize = 2000;

/// Where the times of all names beyond those go.
const FURTHER: &str = "further";

/// Who, the class of what of his time, and what exactly.
pub(super) type Name = (String, String, String);

/// Everything added up since the begin, and the last step.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub(super) statistics: BTreeMap<Name, Statistic>,
    pub(super) lived_ns: u64,
    pub(super) unknown_ns: u64,
    /// `None` where no source counted them.
    pub(super) commands: Option<u64>,
    pub(super) server: ServerTotals,
    pub(super) device: Option<DeviceTotals>,
    pub(super) fetched_bytes: Option<u64>,
    pub(super) own_cpu_ns: u64,
    pub(super) programs: BTreeMap<String, ProgramCost>,
    pub(super) recovered: u64,
    pub(super) wakes_missed: u64,
    pub(super) steps: u64,
    pub(super) last: TopFrame,
}

/// What the server counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerTotals {
    pub commits: u64,
    pub rollbacks: u64,
    pub blocks_hit: u64,
    pub blocks_read: u64,
    pub temporary_bytes: u64,
    pub deadlocks: u64,
    pub checkpoints_timed: u64,
    pub checkpoints_requested: u64,
    pub checkpoint_write_seconds: f64,
    pub checkpoint_sync_seconds: f64,
    pub checkpoint_buffers: u64,
}

/// What the device did, from rates.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceTotals {
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub written_bytes: f64,
    pub busy_seconds: f64,
    pub queue_seconds: f64,
}

impl Totals {
    /// Adds a step.
    pub fn add(&mut self, frame: &TopFrame) {
        self.steps += 1;
        for one in &frame.statistics {
            let mut name = (one.named.place.clone(), one.named.part.clone(), one.named.detail.clone());
            if self.statistics.len() >= NAMES_MAX && !self.statistics.contains_key(&name) {
                name = (FURTHER.into(), FURTHER.into(), FURTHER.into());
            }
            self.statistics.entry(name).or_default().merge(&one.named.statistic);
        }
        self.lived_ns += frame.time.lived_ns;
        self.unknown_ns += frame.time.unknown_ns;
        if let Some(commands) = frame.time.commands {
            *self.commands.get_or_insert(0) += commands;
        }
        self.recovered += frame.imperfect.recovered;
        self.wakes_missed += frame.imperfect.wakes_missed;
        self.own_cpu_ns += frame.cost.own_cpu_ns;
        for program in frame.cost.kernel.iter().flat_map(|kernel| &kernel.programs) {
            let sum = self.programs.entry(program.name.clone()).or_default();
            (sum.runs, sum.total_ns) = (sum.runs + program.runs, sum.total_ns + program.total_ns);
        }
        self.add_server(frame);
        self.add_machine(frame);
        // What was not asked for in this step is as it was.
        let before = std::mem::replace(&mut self.last, frame.clone());
        if frame.failure.is_none() {
            self.last.server = self.last.server.or(before.server);
            self.last.checkpoint = self.last.checkpoint.or(before.checkpoint);
            self.last.machine = self.last.machine.take().or(before.machine);
        }
        self.last.statistics = Vec::new();
    }

    fn add_server(&mut self, frame: &TopFrame) {
        let sum = &mut self.server;
        if let Some(step) = &frame.server {
            sum.commits += step.commits;
            sum.rollbacks += step.rollbacks;
            sum.blocks_hit += step.blocks_hit;
            sum.blocks_read += step.blocks_read;
            sum.temporary_bytes += step.temporary_bytes.0;
            sum.deadlocks += step.deadlocks;
        }
        if let Some(step) = &frame.checkpoint {
            sum.checkpoints_timed += step.timed_added;
            sum.checkpoints_requested += step.requested_added;
            sum.checkpoint_write_seconds += step.write_ms_added / 1e3;
            sum.checkpoint_sync_seconds += step.sync_ms_added / 1e3;
            sum.checkpoint_buffers += step.buffers_added;
        }
    }

    fn add_machine(&mut self, frame: &TopFrame) {
        let Some(step) = &frame.machine else { return };
        if let Some(bytes) = step.fetched_bytes {
            *self.fetched_bytes.get_or_insert(0) += bytes.0;
        }
        if let Some(device) = &step.device {
            let seconds = step.length_ns as f64 / 1e9;
            let sum = self.device.get_or_insert_default();
            sum.reads += device.reads as f64 * seconds;
            sum.read_bytes += device.read_bytes.0 as f64 * seconds;
            sum.writes += device.writes as f64 * seconds;
            sum.written_bytes += device.written_bytes.0 as f64 * seconds;
            sum.busy_seconds += device.busy_ratio * seconds;
            sum.queue_seconds += device.queue * seconds;
        }
    }
}
