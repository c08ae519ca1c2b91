#[cfg(probes)]
mod load;
#[cfg(probes)]
mod pages;
#[cfg(probes)]
mod time;

use std::path::Path;

use crate::Error;
use crate::pages::{PageWatch, PagesRoom, WatchedFile};
use crate::time::{ProbeOptions, TimeSource};

pub fn open_time_probe(postmaster_pid: u32, options: &ProbeOptions) -> Result<Box<dyn TimeSource>, Error> {
    #[cfg(probes)]
    return Ok(Box::new(time::TimeProbe::open(postmaster_pid, options)?));
    #[cfg(not(probes))]
    Err(missing((postmaster_pid, options)))
}

/// Watches files in units of `unit_pages` pages, a power of two. Reads `control` to verify that the kernel and stat
/// report the same device and inode numbers, which some file systems do not.
pub fn open_page_probe(files: &[WatchedFile], unit_pages: u32, control: &Path) -> Result<Box<dyn PageWatch>, Error> {
    #[cfg(probes)]
    return Ok(Box::new(pages::PageProbe::open(files, unit_pages, control)?));
    #[cfg(not(probes))]
    Err(missing((files, unit_pages, control)))
}

/// Loads the page probe, which takes tens of milliseconds, while the caller collects the files. A concurrent
/// `open_page_probe` waits, and fails if this fails.
pub fn open_pages_ahead(room: impl FnOnce() -> Option<PagesRoom>) {
    #[cfg(probes)]
    pages::open_ahead(room);
    #[cfg(not(probes))]
    drop(room);
}

pub fn forget_pages_ahead() {
    #[cfg(probes)]
    pages::forget_ahead();
}

#[cfg(not(probes))]
fn missing<T>(_wanted: T) -> Error {
    Error::Linux(host::linux::Error::Unavailable {
        what: "loading a BPF program",
        reason: "this pgthaw was built without the feature ebpf or without clang".into(),
        remedy: "install clang and build with the default features: cargo build --release".into(),
    })
}
