//! What warms a server, or is a job beside its load: its command, the snapshots and films that it needs, and what it did.

mod commands;
mod contender;
mod snapshots;

pub use commands::plan_launch;
pub use contender::{ActiveContender, Contender, io_workers_serve};
pub use snapshots::WarmSnapshots;
