//! Where the time of a server's processes goes: sources of it, the readings added up, and the names.

mod account;
mod looks;
mod memory_looks;
mod names;
mod report;
mod roster;
mod source;
mod sql_looks;
mod watch;

pub use account::{Accounting, By, Imperfect, PGTHAW, StatisticName, TimeSecond, TimeShares, TimeSpan, Who, is_idle};
pub use memory_looks::{MemoryLooks, WAIT_EVENT};
pub use names::WaitNames;
pub use report::{LookingCost, NamedStatistic, TimeReport};
pub use roster::Roster;
pub use source::{OpenWait, ProbeCost, ProcessTimes, ProgramCost, Reading, Tier, TimeSource, WaitEvent};
pub use sql_looks::SqlLooks;
pub use watch::Watch;
