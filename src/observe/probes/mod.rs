//! Programs that run in the kernel, each with what loads it.

#[cfg(not(probes))]
mod absent;
#[cfg(probes)]
mod load;
#[cfg(probes)]
mod pages;
#[cfg(probes)]
mod time;

#[cfg(not(probes))]
pub use absent::{PageProbe, TimeProbe};
#[cfg(probes)]
pub use pages::PageProbe;
#[cfg(probes)]
pub use time::TimeProbe;
