//! Where the time of a server's processes goes: sources of it, the readings added up, and the names.

mod account;
mod activity;
mod event_word;
mod figures;
mod file_name;
mod looks;
mod memory_looks;
mod names;
mod numbers;
mod own_transactions;
mod report;
mod roster;
mod sampler;
mod source;
mod sql_looks;
mod trial;
mod watch;

pub use account::{
    Accounting, By, Imperfect, Lasting, PGTHAW, StatisticName, TimeSecond, TimeShares, TimeSpan, Who, is_idle,
};
pub use event_word::EventWord;
pub use figures::{ACCOUNT_DEAR, RefusedTime, TimeFigures, TimeProgram, TimeStatistic, TimeUse, TrialTime};
pub use file_name::{FileKind, FileName, or_nameless};
pub use memory_looks::{LOOKS_PER_SECOND, MemoryLooks};
pub use names::WaitNames;
pub use own_transactions::OwnTransactions;
pub use report::{FileUse, LookingCost, NamedStatistic, TimeReport};
pub use roster::{Roster, show_query};
pub use sampler::{TimeSampler, TimeSamples, TimedServer};
pub use source::{
    FileCall, FileCallKind, FileTimes, OpenWait, ProbeCost, ProcessTimes, ProgramCost, Reading, Tier, TimeSource,
    WaitEvent, Written, WrittenTo,
};
pub use sql_looks::SqlLooks;
pub use watch::{Watch, Watched};
