mod sentence;
mod stalls;
mod step;
mod watch;

pub use sentence::{Stall, StallKind, name_stall};
pub use stalls::Stalls;
pub use step::{Backends, CheckpointPhase, SeenCall, Step, Stepper};
pub use watch::StallWatch;

#[cfg(test)]
mod tests;
