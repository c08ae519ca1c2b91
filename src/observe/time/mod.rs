//! Where the time of a server's processes goes: sources of it, the readings added up, and the names.

mod account;
mod activity;
mod event_word;
mod looks;
mod memory_looks;
mod names;
mod report;
mod roster;
mod sampler;
mod source;
mod sql_looks;
mod trial;
mod watch;

pub use account::{Accounting, By, Imperfect, PGTHAW, StatisticName, TimeSecond, TimeShares, TimeSpan, Who, is_idle};
pub use event_word::EventWord;
pub use memory_looks::MemoryLooks;
pub use names::WaitNames;
pub use report::{LookingCost, NamedStatistic, TimeReport};
pub use roster::Roster;
pub use sampler::{TimeSampler, TimeSamples, TimedServer};
pub use source::{OpenWait, ProbeCost, ProcessTimes, ProgramCost, Reading, Tier, TimeSource, WaitEvent};
pub use sql_looks::SqlLooks;
pub use watch::Watch;
