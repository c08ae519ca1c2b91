//! What the kernel knows and does: the page cache, block devices, cgroups, processes.

mod error;
pub mod page_cache;

pub use error::Error;
