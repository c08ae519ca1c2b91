//! Locates a process's wait event number. Since PostgreSQL 14 a variable points to it.
//!
//! In PostgreSQL 13 it is in shared memory (`MyProc`), at the build-specific offset where idle processes show idle
//! events.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::Error;
use host::linux;
use host::linux::foreign_memory::{find_variable, read_pointed, read_pointed_words, read_pointer, read_word};
use host::linux::process::read_children;

const SINCE_14: &str = "my_wait_event_info";
const UNTIL_13: &str = "MyProc";

/// Number of 32-bit words of a process's PGPROC that are searched; a PGPROC has about 900 bytes.
const WORDS: usize = 256;

/// Class of idle waits; its event numbers are below `ACTIVITIES`.
const ACTIVITY: u32 = 0x05;
const ACTIVITIES: u32 = 64;

/// Minimum number of different idle events at the same offset.
const WITNESSES: usize = 3;

/// Location of the event number: a pointer variable, and the offset from the pointer's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventWord {
    pub pointer: u64,
    pub offset: u64,
}

impl EventWord {
    /// # Errors
    /// If the program has no symbols, or too few processes are readable.
    pub fn find(postmaster_pid: u32) -> Result<EventWord, Error> {
        let missing = match find_variable(postmaster_pid, SINCE_14) {
            Ok(pointer) => return Ok(EventWord { pointer, offset: 0 }),
            Err(error @ linux::Error::Unavailable { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        let Ok(pointer) = find_variable(postmaster_pid, UNTIL_13) else { return Err(missing.into()) };
        let children = read_children(postmaster_pid)?;
        let mut entries = Vec::new();
        for pid in &children {
            match read_pointed_words(*pid, pointer, WORDS) {
                Ok(words) => entries.extend(words),
                Err(error) if entries.is_empty() && Some(pid) == children.last() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let offset = find_place(&entries).ok_or(missing)? as u64 * 4;
        Ok(EventWord { pointer, offset })
    }

    /// Event number. 0 without a wait or a shared memory entry.
    pub fn read(&self, pid: u32) -> Result<u32, Error> {
        Ok(read_pointed(pid, self.pointer, self.offset)?.unwrap_or(0))
    }

    /// Event number, where `pointer` is the last known value of the variable, 0 without an entry.
    pub fn read_at(&self, pid: u32, pointer: u64) -> Result<u32, Error> {
        if pointer == 0 {
            return Ok(0);
        }
        Ok(read_word(pid, pointer.wrapping_add(self.offset))?)
    }

    pub fn read_each(&self, pids: &[u32]) -> HashMap<u32, u32> {
        pids.iter().filter_map(|pid| Some((*pid, self.read(*pid).ok()?))).collect()
    }

    /// The variable's value. In a process without a shared memory entry, it points to local memory.
    pub fn read_pointer(&self, pid: u32) -> Result<u64, Error> {
        Ok(read_pointer(pid, self.pointer)?.unwrap_or(0))
    }
}

fn find_place(entries: &[Vec<u32>]) -> Option<usize> {
    let is_activity = |word: u32| word >> 24 == ACTIVITY && word & 0x00ff_ffff < ACTIVITIES;
    let mut places: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for entry in entries {
        for (place, word) in entry.iter().enumerate().filter(|(_, word)| is_activity(**word)) {
            places.entry(place).or_default().insert(*word);
        }
    }
    let mut agreed = places.into_iter().filter(|(_, events)| events.len() >= WITNESSES).map(|(place, _)| place);
    agreed.next().filter(|_| agreed.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_where_several_wait_for_something_else_to_do() {
        let entry = |event: u32| vec![7, 0x0500_0001, event, 0x0500_0000, 9];
        let idle = [entry(0x0500_0001), entry(0x0500_0004), entry(0x0500_0005), entry(0)];
        assert_eq!(find_place(&idle), Some(2));
        assert_eq!(find_place(&idle[..2]), None, "too few");
        let twice = [0x0500_0001, 0x0500_0004, 0x0500_0005].map(|event| vec![event, event]);
        assert_eq!(find_place(&twice), None, "two places");
    }

    #[test]
    fn a_program_that_is_no_server_has_none() {
        let missing = EventWord::find(std::process::id()).unwrap_err().to_string();
        assert!(missing.contains("has no symbol my_wait_event_info"), "{missing}");
    }
}
