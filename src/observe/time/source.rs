//! Where the times of a server's processes come from: one trait, whether the kernel counts them, or somebody looks now and then.

use serde::{Deserialize, Serialize};

use crate::observe::Error;
use crate::observe::statistic::Statistic;

/// How the times come to be known, the least exact first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Looks at pg_stat_activity.
    Sql,
    /// Looks at the wait event in each process's memory, and at whether it runs.
    Memory,
    /// A program in the kernel charges every nanosecond.
    Bpf,
}

/// What a process waits for, as its source names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitEvent {
    /// As PostgreSQL has it in its memory: the class in the highest byte. 0: off the processor without an event.
    Number(u32),
    /// As pg_stat_activity names it: the class, and the event.
    Named(String, String),
    /// The process's memory could not be read.
    Unknown,
    /// It waited for more different things than are kept apart.
    Further,
}

/// A wait that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenWait {
    pub event: WaitEvent,
    /// So far.
    pub length_ns: u64,
}

/// What one process has had of each kind of time since it is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    pub pid: u32,
    /// When it was born, since the machine booted: with the pid it names a process for good. The unit is the source's own.
    pub birth: u64,
    /// When it began to be followed, and when it ended, by the monotonic clock.
    pub started_ns: u64,
    pub ended_ns: Option<u64>,
    pub running_ns: u64,
    /// Ready to run, waiting for a processor. `None` where the source cannot know.
    pub ready_ns: Option<u64>,
    /// How often it came on a processor.
    pub switches: u64,
    /// What it received from its client, each time.
    pub commands: u64,
    /// Of each, the time from its receipt until the process waited for the next one, or had received that. The total has the time of one
    /// that is handled now too. Nothing where the source cannot know.
    pub handled: Statistic,
    /// Waits by their events. Their totals have the time of one that has not ended too; their counts do not.
    pub waits: Vec<(WaitEvent, Statistic)>,
    pub open: Option<OpenWait>,
    /// Times on a processor of which the kernel did not tell the beginning: they are known from the scheduler's account.
    pub recovered: u64,
    pub recovered_ns: u64,
    /// Ends of waits that the kernel did not tell: what was waited for a processor then counts as the wait.
    pub wakes_missed: u64,
}

/// All processes at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// By the monotonic clock.
    pub at_ns: u64,
    pub processes: Vec<ProcessTimes>,
    /// Processes that could not be followed, for there were too many.
    pub lost: u64,
}

/// What looking on costs, by the kernel's own count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeCost {
    /// Of each program: its name, how often it ran, and for how long.
    pub programs: Vec<ProgramCost>,
}

/// What one program in the kernel cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramCost {
    pub name: String,
    pub runs: u64,
    pub total_ns: u64,
}

impl Tier {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Sql => "sql",
            Tier::Memory => "memory",
            Tier::Bpf => "bpf",
        }
    }
}

impl ProbeCost {
    /// All programs together.
    pub fn total_ns(&self) -> u64 {
        self.programs.iter().fold(0, |sum, program| sum.saturating_add(program.total_ns))
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &ProbeCost) -> ProbeCost {
        let grown = |now: &ProgramCost| {
            let before = earlier.programs.iter().find(|one| one.name == now.name).cloned().unwrap_or_default();
            ProgramCost {
                name: now.name.clone(),
                runs: now.runs.saturating_sub(before.runs),
                total_ns: now.total_ns.saturating_sub(before.total_ns),
            }
        };
        ProbeCost { programs: self.programs.iter().map(grown).collect() }
    }
}

/// Something that knows what the server's processes have had of each kind of time.
pub trait TimeSource: Send {
    /// How it knows.
    fn tier(&self) -> Tier;

    /// What all processes have had so far, those too that ended since the last reading. A process that has ended is told once.
    fn read(&mut self) -> Result<Reading, Error>;

    /// What it costs by the kernel's own count; `None` where there is none.
    fn cost(&self) -> Option<ProbeCost> {
        None
    }
}
