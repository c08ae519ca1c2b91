mod sentence;
mod stalls;
mod step;
mod watch;

pub use sentence::{Stall, StallKind, local_time, name_stall, render_clock, render_span};
pub use stalls::Stalls;
pub use step::{Backends, CheckpointPhase, SeenCall, Step, Stepper};
pub(crate) use step::{DATA_DEVICE, LOG_DEVICE};
pub use watch::StallWatch;

#[cfg(test)]
mod tests;
