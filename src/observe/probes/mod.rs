//! Programs that run in the kernel, each with what loads it.

#[cfg(not(probes))]
mod absent;
#[cfg(probes)]
mod time;

#[cfg(not(probes))]
pub use absent::TimeProbe;
#[cfg(probes)]
pub use time::TimeProbe;
