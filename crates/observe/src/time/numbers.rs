//! What the server calls its processes: in a container their pids are others than here.

use std::collections::{HashMap, HashSet};

use host::linux::process::read_own_number;

/// The server's numbers for processes that are told by pid and birth.
#[derive(Debug)]
pub struct Numbers {
    /// Does the server live in a pid namespace below this one?
    is_below: bool,
    known: HashMap<(u32, u64), u32>,
}

impl Numbers {
    pub fn new(postmaster_pid: Option<u32>) -> Numbers {
        let is_below = postmaster_pid.is_some_and(|pid| read_own_number(pid).is_ok_and(|number| number != pid));
        Numbers { is_below, known: HashMap::new() }
    }

    /// What a process is called there; `None` of one that had ended before anybody asked.
    pub fn of(&mut self, pid: u32, birth: u64) -> Option<u32> {
        if !self.is_below {
            return Some(pid);
        }
        if let Some(known) = self.known.get(&(pid, birth)) {
            return Some(*known);
        }
        let number = read_own_number(pid).ok()?;
        self.known.insert((pid, birth), number);
        Some(number)
    }

    /// Forgets all but these.
    pub fn keep(&mut self, there: &HashSet<(u32, u64)>) {
        self.known.retain(|key, _| there.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_all_live_together_a_pid_is_the_number() {
        let mut numbers = Numbers::new(Some(std::process::id()));
        assert_eq!(numbers.of(7, 1), Some(7));
        assert!(numbers.known.is_empty());
    }
}
