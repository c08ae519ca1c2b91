//! Stalls while a server runs: found in its throughput, joined with what was seen meanwhile, and named.

mod found;
mod means;
mod name;
mod stalls;
mod step;
mod watch;

pub use found::{Stall, StallKind};
pub use name::name_stall;
pub use stalls::Stalls;
pub use step::{Backends, CheckpointPhase, Machine, SeenCall, Step, Stepper};
pub use watch::StallWatch;

#[cfg(test)]
mod tests;
