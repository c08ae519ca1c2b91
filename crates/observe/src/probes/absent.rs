//! Stands for the probes in a program that was built without them, and says so.

use std::path::Path;
use std::time::Duration;

use super::ProbeOptions;
use crate::Error;
use crate::pages::{PageEvent, PageWatch, PagesRoom, WatchedFile};
use crate::time::{ProbeCost, Reading, Tier, TimeSource};
use host::linux;
use host::linux::ready::Over;

/// There is nothing to open.
pub fn open_pages_ahead(_room: impl FnOnce() -> Option<PagesRoom>) {}

/// There is nothing to forget.
pub fn forget_pages_ahead() {}

/// There is none.
#[derive(Debug)]
pub enum TimeProbe {}

impl TimeProbe {
    /// Says what is missing.
    pub fn open(_postmaster_pid: u32, _options: &ProbeOptions) -> Result<TimeProbe, Error> {
        Err(missing())
    }
}

/// There is none.
#[derive(Debug)]
pub enum PageProbe {}

impl PageProbe {
    /// Says what is missing.
    pub fn open(_files: &[WatchedFile], _unit_pages: u32, _control: &Path) -> Result<PageProbe, Error> {
        Err(missing())
    }
}

fn missing() -> Error {
    Error::Linux(linux::Error::Unavailable {
        what: "a program in the kernel",
        reason: "this pgthaw was built without the feature ebpf, or where clang was missing".into(),
        remedy: "build it where clang is, with the features that it has by itself: cargo build --release".into(),
    })
}

impl TimeSource for TimeProbe {
    fn tier(&self) -> Tier {
        match *self {}
    }

    fn read(&mut self) -> Result<Reading, Error> {
        match *self {}
    }
}

impl PageWatch for PageProbe {
    fn blind_to_requests(&self) -> Option<&str> {
        match *self {}
    }

    fn add(&mut self, _file: WatchedFile) -> Result<bool, Error> {
        match *self {}
    }

    fn make_room(&mut self, _file: u32) -> Result<bool, Error> {
        match *self {}
    }

    fn leave_out(&mut self, _pid: u32) -> Result<(), Error> {
        match *self {}
    }

    fn forget(&mut self, _pid: u32) {
        match *self {}
    }

    fn wait_for_arrivals(&mut self, _over: &Over, _at_most: Duration) -> Vec<u32> {
        match *self {}
    }

    fn drain(&mut self, _visit: &mut dyn FnMut(PageEvent)) {
        match *self {}
    }

    fn clear(&mut self, _file: u32, _first_unit: u64, _units: u64) {
        match *self {}
    }

    fn tell_again_below(&mut self, _below: u64) -> Result<(), Error> {
        match *self {}
    }

    fn lost(&self) -> u64 {
        match *self {}
    }

    fn cost(&self) -> Option<ProbeCost> {
        match *self {}
    }
}
