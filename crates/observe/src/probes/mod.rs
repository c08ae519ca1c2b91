#[cfg(probes)]
mod load;
#[cfg(probes)]
mod pages;
#[cfg(probes)]
mod time;

use std::path::Path;
use std::time::Duration;

use crate::Error;
use crate::pages::{PageWatch, WatchedFile};
use crate::time::TimeSource;
#[cfg(probes)]
pub use pages::{forget_pages_ahead, open_pages_ahead};

/// Does not report file calls shorter than `slow_calls.0`, as explained at `SLOW_CALLS`.
pub fn open_time_probe(postmaster_pid: u32, slow_calls: (Duration, u32)) -> Result<Box<dyn TimeSource>, Error> {
    #[cfg(probes)]
    return Ok(Box::new(time::TimeProbe::open(postmaster_pid, slow_calls)?));
    #[cfg(not(probes))]
    Err(missing((postmaster_pid, slow_calls)))
}

/// Watches files in units of `unit_pages` pages, a power of two. Reads `control` to verify that the kernel and stat
/// report the same device and inode numbers, which some file systems do not.
pub fn open_page_probe(files: &[WatchedFile], unit_pages: u32, control: &Path) -> Result<Box<dyn PageWatch>, Error> {
    #[cfg(probes)]
    return Ok(Box::new(pages::PageProbe::open(files, unit_pages, control)?));
    #[cfg(not(probes))]
    Err(missing((files, unit_pages, control)))
}

#[cfg(not(probes))]
pub fn open_pages_ahead(_room: impl FnOnce() -> Option<crate::pages::PagesRoom>) {}

#[cfg(not(probes))]
pub fn forget_pages_ahead() {}

#[cfg(not(probes))]
fn missing<T>(_wanted: T) -> Error {
    let reason = "this pgthaw was built without the feature ebpf or without clang";
    crate::error::refusal(reason, "install clang and build with the default features: cargo build --release")
}
