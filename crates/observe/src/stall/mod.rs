mod sentence;
mod stalls;
mod step;
mod watch;

pub use sentence::{Stall, StallKind, local_time, name_stall, render_clock, render_span};
pub use stalls::Stalls;
pub(crate) use step::{DATA_DEVICE, LOG_DEVICE};
pub use step::{SeenCall, Step, Stepper};
pub use watch::StallWatch;

#[cfg(test)]
mod tests;
