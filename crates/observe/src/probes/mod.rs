//! Programs that run in the kernel, each with what loads it.

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

/// Follows the processes of this postmaster from now on.
pub fn open_time_probe(postmaster_pid: u32, options: &ProbeOptions) -> Result<Box<dyn TimeSource>, Error> {
    #[cfg(probes)]
    return Ok(Box::new(time::TimeProbe::open(postmaster_pid, options)?));
    #[cfg(not(probes))]
    Err(missing((postmaster_pid, options)))
}

/// Watches files from now on. A unit has `unit_pages` pages, a power of two. `control` is a file that can be read beside them: by
/// that it is proven that the kernel knows files as stat does, which is not so on every file system.
pub fn open_page_probe(files: &[WatchedFile], unit_pages: u32, control: &Path) -> Result<Box<dyn PageWatch>, Error> {
    #[cfg(probes)]
    return Ok(Box::new(pages::PageProbe::open(files, unit_pages, control)?));
    #[cfg(not(probes))]
    Err(missing((files, unit_pages, control)))
}

/// Opens what [`open_page_probe`] will want, tens of milliseconds of work, while its caller finds out which files it is for; `room` tells as much
/// as can be known before, and where that is too little nothing is opened. One that is opened meanwhile waits for it, and fails as this did.
pub fn open_pages_ahead(room: impl FnOnce() -> Option<PagesRoom>) {
    #[cfg(probes)]
    pages::open_ahead(room);
    #[cfg(not(probes))]
    drop(room);
}

/// Takes out of the kernel what was opened ahead and nobody wanted.
pub fn forget_pages_ahead() {
    #[cfg(probes)]
    pages::forget_ahead();
}

#[cfg(not(probes))]
fn missing<T>(_wanted: T) -> Error {
    Error::Linux(host::linux::Error::Unavailable {
        what: "a program in the kernel",
        reason: "this pgthaw was built without the feature ebpf, or where clang was missing".into(),
        remedy: "build it where clang is, with the features that it has by itself: cargo build --release".into(),
    })
}
