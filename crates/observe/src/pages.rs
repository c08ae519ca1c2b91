//! Reports of the kernel: which blocks processes request, and which blocks are fetched into the page cache.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::time::ProbeCost;
use host::linux::threads::Over;

/// File in units of blocks, or of pages if blocks are smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    pub device: u64,
    pub inode: u64,
    /// Current and maximum number of units.
    pub units: u64,
    pub most_units: u64,
    /// Added to a unit's number before hashing.
    pub salt: u32,
}

/// Parameters of a probe opened before its files are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesRoom {
    pub unit_pages: u32,
    pub control: PathBuf,
    pub units: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEventKind {
    /// First request for a unit.
    Requested,
    /// Repeated request for a unit. Reported if the unit's hash is below the limit of `tell_again_below`. If the
    /// requesting process has no role, also reported if any process has fetched the unit since the probe opened.
    /// Requests of a `Role::Other` process follow the rule of that role.
    Again,
    /// First fetch into the page cache.
    Fetched,
    /// The file has outgrown its part of the bitmaps. Further events are lost until `make_room`.
    Grown,
}

/// Up to 64 adjacent units of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent {
    /// Monotonic clock.
    pub time: Duration,
    pub kind: PageEventKind,
    /// Number of the file, in the order of `PageWatch::add`, from 0.
    pub file: u32,
    /// Number, within the file, of the unit that bit 0 of `units` stands for. A multiple of 64.
    pub first_unit: u64,
    /// Bit mask of the event's units.
    pub units: u64,
    /// Bit mask of the event's units that were fetched since the probe opened; 0 in `Again` events.
    pub fetched: u64,
    pub pid: u32,
    /// Totals of the process: pages requested, and pages fetched again (briefly too low during a fetch). Both are 0 in
    /// `Fetched` and `Grown` events.
    pub pages: u64,
    pub pages_again: i64,
}

/// Kind of process. All activity of a process without a role is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Process outside the recorded job. Its request for a unit is reported, as `PageEventKind::Again`, only if the
    /// unit was first fetched by a process without the role `Other`. Each unit is reported at most once.
    Other = 1,
    /// pgthaw itself: only its fetches are reported.
    Own,
    /// Process of the recorded job: its repeated requests are reported only for units selected by hash.
    Wanted,
}

pub trait PageWatch: Send {
    /// Why only fetches are visible; `None` if requests are visible too.
    fn blind_to_requests(&self) -> Option<&str>;

    /// Returns false if the bitmaps have no room.
    fn add(&mut self, file: WatchedFile) -> Result<bool, Error>;

    /// Extends a file's part of the bitmaps to `most_units`. Returns false if too few bitmap words are left.
    fn make_room(&mut self, file: u32) -> Result<bool, Error>;

    fn set_role(&mut self, pid: u32, role: Role) -> Result<(), Error>;

    /// Must be called at the end of a process: its pid may be reused.
    fn forget(&mut self, pid: u32);

    /// Waits for new processes, for `at_most` or until the activity is over. Returns their pids.
    fn wait_for_arrivals(&mut self, over: &Over, at_most: Duration) -> Vec<u32>;

    fn drain(&mut self, visit: &mut dyn FnMut(PageEvent));

    /// Makes the next request for each of these units count as the first.
    fn clear(&mut self, file: u32, first_unit: u64, units: u64);

    /// Reports all requests for units whose hash is below `below`: for no unit if 0, for all units if 2^32.
    fn tell_again_below(&mut self, below: u64) -> Result<(), Error>;

    fn lost(&self) -> u64;

    fn has_lost_others(&self) -> bool;

    fn cost(&self) -> Option<ProbeCost>;
}

/// Hash of `WatchedFile::salt` plus a unit's number, the same as in pages.bpf.c. Repeated requests are reported for
/// units with low hashes.
pub fn unit_hash(value: u32) -> u32 {
    let value = (value ^ value >> 16).wrapping_mul(0x85eb_ca6b);
    let value = (value ^ value >> 13).wrapping_mul(0xc2b2_ae35);
    value ^ value >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_murmur() {
        assert_eq!((unit_hash(0), unit_hash(1), unit_hash(u32::MAX)), (0, 0x514e_28b7, 0x81f1_6f39));
    }
}
