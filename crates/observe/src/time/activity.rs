//! How often backends report what they do: each report to pg_stat_activity counts up a number in shared memory, twice.
//!
//! The number is the first of a backend's entry there (`st_changecount`, `src/include/utils/backend_status.h`, before 14
//! `src/include/pgstat.h`): odd while the entry is written, so two steps are one report.

use std::collections::HashMap;

use host::linux::foreign_memory::{find_variable, read_pointed};
use host::linux::process::read_children;

/// Where a process has the address of its entry.
const ENTRY: &str = "MyBEEntry";

/// Counts the reports of the processes of one server.
#[derive(Debug)]
pub struct ActivityReports {
    postmaster_pid: u32,
    address: u64,
    /// The number as it was read last, and steps since they were taken.
    counted: HashMap<u32, (u32, u32)>,
}

impl ActivityReports {
    /// Of the server of this postmaster; `None` where its memory may not be read, or its program does not tell where.
    pub fn of(postmaster_pid: u32) -> Option<ActivityReports> {
        let address = find_variable(postmaster_pid, ENTRY).ok()?;
        let is_readable = |pid: &u32| read_pointed(*pid, address, 0).is_ok();
        let children = read_children(postmaster_pid).ok()?;
        let reports = ActivityReports { postmaster_pid, address, counted: HashMap::new() };
        children.iter().any(is_readable).then_some(reports)
    }

    /// Reads the numbers of all processes that there are. What a process reported before it was seen first is not known.
    pub fn look(&mut self) {
        for pid in read_children(self.postmaster_pid).unwrap_or_default() {
            // A process may end at any time, and some have no entry.
            let Ok(Some(now)) = read_pointed(pid, self.address, 0) else { continue };
            let (before, steps) = self.counted.get(&pid).copied().unwrap_or((now, 0));
            // A process of the same number may have come, with another entry.
            let added = Some(now.wrapping_sub(before)).filter(|added| *added < u32::MAX / 2).unwrap_or(0);
            self.counted.insert(pid, (now, steps.saturating_add(added)));
        }
    }

    /// Reports of those that are meant, since they were taken last.
    pub fn take(&mut self, is_meant: impl Fn(u32) -> bool) -> f64 {
        let mut taken = 0.0;
        for (pid, (_, steps)) in &mut self.counted {
            let steps = std::mem::take(steps);
            if is_meant(*pid) {
                taken += f64::from(steps) / 2.0;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_no_postmaster_has_none() {
        assert!(ActivityReports::of(std::process::id()).is_none());
    }

    #[test]
    fn two_steps_are_one_report_and_are_taken_once() {
        let counted = HashMap::from([(1, (10, 6)), (2, (7, 1000))]);
        let mut reports = ActivityReports { postmaster_pid: 0, address: 0, counted };
        assert_eq!((reports.take(|pid| pid == 1), reports.take(|_| true)), (3.0, 0.0));
    }
}
