//! Where a server's time goes, step by step while it runs: what `top` shows, prints, keeps and serves.

mod checkpoint;
mod exposition;
mod fetched;
mod frame;
#[cfg(fuzzing)]
pub mod fuzzing;
mod history;
mod machine;
mod pulse;
mod rates;
mod record;
mod totals;
mod watch;

pub use checkpoint::{CheckpointPhase, CheckpointStep, LastCheckpoint};
pub use exposition::render_metrics;
pub use frame::{Activity, MachineStep, Missing, Rates, ServerStep, TopFrame, TopStatistic};
pub use history::{Brief, History};
pub use record::{RecordReader, RecordWriter};
pub use totals::Totals;
pub use watch::{Here, TopWatch};
