//! Stands for the probes in a program that was built without them, and says so.

use super::ProbeOptions;
use crate::linux;
use crate::observe::Error;
use crate::observe::time::{Reading, Tier, TimeSource};

/// There is none.
#[derive(Debug)]
pub enum TimeProbe {}

impl TimeProbe {
    /// Says what is missing.
    pub fn open(_postmaster_pid: u32, _options: &ProbeOptions) -> Result<TimeProbe, Error> {
        Err(Error::Linux(linux::Error::Unavailable {
            what: "a program in the kernel",
            reason: "this pgthaw was built without the feature ebpf, or where clang was missing".into(),
            remedy: "build it where clang is, with the features that it has by itself: cargo build --release".into(),
        }))
    }
}

impl TimeSource for TimeProbe {
    fn tier(&self) -> Tier {
        match *self {}
    }

    fn read(&mut self) -> Result<Reading, Error> {
        match *self {}
    }
}
