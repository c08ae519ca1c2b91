//! Programs that run in the kernel, each with what loads it.

#[cfg(not(feature = "ebpf"))]
mod absent;
#[cfg(feature = "ebpf")]
mod time;

#[cfg(not(feature = "ebpf"))]
pub use absent::TimeProbe;
#[cfg(feature = "ebpf")]
pub use time::TimeProbe;
