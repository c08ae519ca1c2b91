//! What the whole machine does each second beside a workload: processors, run queues, the disk, memory, and who of the
//! server, the load generator and pgthaw itself used them.

mod processes;
mod reading;
mod sample;

pub use processes::ServerPart;
pub use reading::{GaugeSampler, GaugeSources};
pub(super) use sample::{GaugeReading, compute_os_samples};
