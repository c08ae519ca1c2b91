//! What processes had of the machine, told by whose they are: the families of some processes, the kernel's own threads, and
//! everybody else.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use procfs::process::{Process, Stat, all_processes};
use procfs::{ProcError, ProcResult};

use super::Error;
use crate::units::Bytes;

/// The parent of the kernel's threads.
const KTHREADD: u32 = 2;

/// What a process had so far, with the children that it has waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// The program's name, at most 15 characters.
    pub name: String,
    pub cpu: Duration,
    /// Fetched from storage; 0 where that may not be read.
    pub read_bytes: Bytes,
}

/// Who had what so far. A process that ended and was waited for is part of its parent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FamilyUse {
    pub own_cpu: Duration,
    /// `None` where it may not be read of all of them.
    pub own_read_bytes: Option<Bytes>,
    pub kernel_cpu: Duration,
    /// What other processes used, by pid and the ticks of the start, which name a process for good.
    pub others: HashMap<(u32, u64), ProcessUse>,
}

/// Looks at every process that is to be seen. `roots` and all that descend from them are the own ones.
pub fn read_family_use(roots: &[u32]) -> Result<FamilyUse, Error> {
    let processes = all_processes().map_err(|error| Error::proc("list the processes", error))?;
    // A process may end at any time.
    let seen: Vec<(Process, Stat)> =
        processes.filter_map(|process| process.ok().and_then(|one| one.stat().ok().map(|stat| (one, stat)))).collect();
    let parents: HashMap<u32, u32> = seen.iter().map(|(_, stat)| (stat.pid as u32, stat.ppid as u32)).collect();
    let mut family = FamilyUse { own_read_bytes: Some(Bytes(0)), ..FamilyUse::default() };
    for (process, stat) in &seen {
        let (pid, cpu) = (stat.pid as u32, cpu_of(stat));
        let read_bytes = read_bytes_of(process);
        if is_of_family(pid, roots, &parents) {
            family.own_cpu += cpu;
            family.own_read_bytes = family.own_read_bytes.zip(read_bytes).map(|(sum, read)| sum + read);
        } else if pid == KTHREADD || stat.ppid as u32 == KTHREADD {
            family.kernel_cpu += cpu;
        } else {
            let read_bytes = read_bytes.unwrap_or_default();
            let used = ProcessUse { name: stat.comm.clone(), cpu, read_bytes };
            family.others.insert((pid, stat.starttime), used);
        }
    }
    Ok(family)
}

fn cpu_of(stat: &Stat) -> Duration {
    let of_children = stat.cutime.max(0) as u64 + stat.cstime.max(0) as u64;
    let ticks = stat.utime + stat.stime + of_children;
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

/// `None` where it may not be read; nothing of a process that is gone.
fn read_bytes_of(process: &Process) -> Option<Bytes> {
    let read: ProcResult<u64> = process.io().map(|io| io.read_bytes);
    match read {
        Ok(bytes) => Some(Bytes(bytes)),
        Err(ProcError::PermissionDenied(_)) => None,
        Err(_) => Some(Bytes(0)),
    }
}

fn is_of_family(pid: u32, roots: &[u32], parents: &HashMap<u32, u32>) -> bool {
    // What is read while processes come and go may have a ring.
    let mut passed = HashSet::new();
    let mut at = pid;
    while !roots.contains(&at) {
        match parents.get(&at) {
            Some(parent) if passed.insert(at) => at = *parent,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_family_is_all_that_descend_from_one() {
        let parents = HashMap::from([(5, 4), (4, 3), (3, 1), (9, 1), (7, 8), (8, 7)]);
        assert!(is_of_family(5, &[3], &parents) && is_of_family(3, &[3], &parents));
        assert!(!is_of_family(9, &[3], &parents) && !is_of_family(7, &[3], &parents), "nor a ring");
    }

    #[test]
    fn what_a_child_used_is_its_familys_before_and_after_it_was_waited_for() {
        let me = std::process::id();
        let before = read_family_use(&[me]).unwrap();
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", spin]).spawn().unwrap();
        let as_others = read_family_use(&[child.id()]).unwrap();
        assert!(as_others.others.keys().any(|(pid, _)| *pid == me));
        child.wait().unwrap();
        let after = read_family_use(&[me]).unwrap();
        assert!(after.own_cpu > before.own_cpu && after.own_read_bytes.is_some(), "{after:?}");
        assert!(!after.others.keys().any(|(pid, _)| *pid == me));
    }
}
