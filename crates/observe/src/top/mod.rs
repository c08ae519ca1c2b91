mod checkpoint;
mod exposition;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod look_back;
mod past;
mod record;
mod watch;

pub use checkpoint::{CheckpointPhase, CheckpointStep, LastCheckpoint};
pub use exposition::{Totals, render_metrics};
pub use frame::{Activity, MachineStep, Missing, Rates, ServerStep, TopFrame, TopStatistic};
pub use look_back::LookBack;
pub use past::{HistoryReader, HistoryWriter};
pub use record::{Brief, History, RecordHead, RecordReader, RecordWriter};
pub use watch::{Here, TopWatch};
