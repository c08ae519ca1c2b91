//! Where a server's time goes, step by step while it runs: what `top` shows, prints, keeps and serves.

mod checkpoint;
mod exposition;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod record;
mod watch;

pub use checkpoint::{CheckpointPhase, CheckpointStep, LastCheckpoint};
pub use exposition::{Totals, render_metrics};
pub use frame::{Activity, MachineStep, Missing, Rates, ServerStep, TopFrame, TopStatistic};
pub use record::{Brief, History, RecordReader, RecordWriter};
pub use watch::{Here, TopWatch};
