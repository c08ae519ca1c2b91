//! Which blocks of files processes ask for, and which of them come into the page cache: told by the kernel, as it happens.

use std::path::PathBuf;
use std::time::Duration;

use super::Error;
use super::time::ProbeCost;
use host::linux::threads::Over;

/// A file that is to be watched. Its units are its blocks, or its pages where blocks are smaller than these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// As stat tells them.
    pub device: u64,
    pub inode: u64,
    /// Units that it has now, and the most that it can ever have.
    pub units: u64,
    pub most_units: u64,
    /// What the number of a unit is added to before it is hashed, to choose those that are told every time.
    pub salt: u32,
}

/// What a program is opened for before it is known which files it is to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesRoom {
    /// Pages of a unit, and the file by which it is proven that the kernel knows files as stat does, as of `PageProbe::open`.
    pub unit_pages: u32,
    pub control: PathBuf,
    /// Units that all files together may have.
    pub units: u64,
}

/// What happened to units of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEventKind {
    /// They were asked for, for the first time.
    Requested,
    /// They were asked for again. Told of some units alone, unless nobody has said whose the process is: then of all that came.
    Again,
    /// They came into the page cache, for the first time.
    Fetched,
    /// The file has grown beyond the room that it was given; what is there is lost until it gets more.
    Grown,
}

/// What a process did to up to 64 neighbouring units of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageEvent {
    /// By the monotonic clock.
    pub time: Duration,
    pub kind: PageEventKind,
    /// Which of the files, in the order in which they were added, from 0 on.
    pub file: u32,
    /// The unit that bit 0 stands for, a multiple of 64; which units it is about; and those of them that have come into the page cache
    /// since the beginning, and so were not there before.
    pub first_unit: u64,
    pub units: u64,
    pub fetched: u64,
    pub pid: u32,
    /// Pages that this process has asked for so far, of all files; and those that came for it and had been there before, since the
    /// beginning. Of a unit that comes page by page it is too little for a moment. Neither is told with what came.
    pub pages: u64,
    pub pages_again: i64,
}

/// Whose a process is. As long as nobody says, all that it does is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of what it does only its requests for units that came for somebody else are told, as [`PageEventKind::Again`], each once.
    Other = 1,
    /// It works for this process: what comes for it alone is told.
    Own,
    /// Not every repeated request has to be told.
    Wanted,
}

/// Watches files. What this process does to them itself is told as fetched alone.
pub trait PageWatch: Send {
    /// Why it does not see what is asked for, but what comes alone; `None` where it sees it.
    fn blind_to_requests(&self) -> Option<&str>;

    /// Adds a file. `false` when there is no room for another.
    fn add(&mut self, file: WatchedFile) -> Result<bool, Error>;

    /// Gives a file room for all that it can ever have. `false` when there is none.
    fn make_room(&mut self, file: u32) -> Result<bool, Error>;

    /// Says whose a process is.
    fn set_role(&mut self, pid: u32, role: Role) -> Result<(), Error>;

    /// A process has ended: its number may come back as another.
    fn forget(&mut self, pid: u32);

    /// Waits until a process is seen for the first time, it is over, or for so long. Tells those that are new.
    fn wait_for_arrivals(&mut self, over: &Over, at_most: Duration) -> Vec<u32>;

    /// Tells what has happened since it was asked last.
    fn drain(&mut self, visit: &mut dyn FnMut(PageEvent));

    /// That these units were asked for is told anew the next time.
    fn clear(&mut self, file: u32, first_unit: u64, units: u64);

    /// From now on units are told every time whose hash is below this, 0 to 2^32 (none and all).
    fn tell_again_below(&mut self, below: u64) -> Result<(), Error>;

    /// Events that were lost so far.
    fn lost(&self) -> u64;

    /// Have requests of [`Role::Other`] been lost?
    fn has_lost_others(&self) -> bool;

    /// What it costs by the kernel's own count; `None` where there is none.
    fn cost(&self) -> Option<ProbeCost>;
}

/// What chooses the units that are told every time: the finalizer of MurmurHash3 (Austin Appleby, public domain), of 0 to 2^32 - 1.
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
