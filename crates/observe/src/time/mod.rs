mod account;
mod culprits;
mod event_word;
mod figures;
mod looks;
mod names;
mod report;
mod roster;
mod sampler;
mod source;
mod watch;

pub(crate) use account::CLIENT_BACKEND;
pub use account::{
    Accounting, By, FailedLooks, Imperfect, Lasting, Lived, NamedStatistic, StatisticName, TimeSecond, TimeShares,
    TimeSpan, Who, is_idle,
};
pub(crate) use culprits::shown_lock;
pub use culprits::{Blocker, Culprits, TemporaryFiles};
pub use event_word::EventWord;
pub use figures::{ACCOUNT_DEAR, TimeFigures, TimeUse, TrialTime};
pub use looks::{LOOKS_PER_SECOND, MemoryLooks, OwnTransactions, SqlLooks};
pub use names::{WaitNames, class_until_18};
pub use report::{LookingCost, TimeReport};
pub use roster::{Roster, show_query};
pub use sampler::{TimeSampler, TimeSamples, TimedServer};
pub(crate) use source::LOOK;
pub use source::{
    FileCall, FileCallKind, FileKind, FileName, FileTimes, OpenWait, ProbeCost, ProcessTimes, ProgramCost, Reading,
    SLOW_CALLS, Tier, TimeSource, WaitEvent, Written, WrittenTo,
};
pub use watch::Watch;
