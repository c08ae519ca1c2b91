//! What the server's processes read from the device, told apart by whom they serve.
//!
//! A process's title says which role it is connected as (`postgres: lab: pgthaw_workload bench [local] SELECT`), and
//! /proc says what it had fetched: neither costs the server anything, while asking pg_stat_activity of a cold server
//! would read its catalogs.
//!
//! With `io_method = worker` (PostgreSQL 18) the reads of scans are done by io workers, which serve anybody. The
//! workload's index lookups read one block at a time, and these a backend does itself; so the workers' reads are the
//! strategy's when its SQL scans, and the workload's otherwise.

use std::collections::HashMap;

use super::Error;
use crate::{STRATEGY_ROLE, WORKLOAD_ROLE};
use host::linux::process;
use host::units::Bytes;

/// Whom a process of the server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendRole {
    Workload,
    /// Also the workers of its parallel scans, and autoprewarm's.
    Strategy,
    IoWorker,
    /// Checkpointer, WAL writer, a backend that has not said yet who it is.
    Other,
}

/// Adds up what the backends read, also those that ended meanwhile.
#[derive(Debug)]
pub struct BackendReads {
    postmaster_pid: u32,
    io_workers_serve: BackendRole,
    seen: HashMap<u32, Backend>,
}

#[derive(Clone, Copy, Debug)]
struct Backend {
    role: BackendRole,
    read_bytes: Bytes,
}

/// What was read so far for the workload and for the strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendTotals {
    pub workload_read_bytes: Bytes,
    pub strategy_read_bytes: Bytes,
}

impl BackendReads {
    /// Of the server of this postmaster. `io_workers_serve` is `Strategy` when the strategy's own SQL scans.
    pub fn new(postmaster_pid: u32, io_workers_serve: BackendRole) -> BackendReads {
        BackendReads { postmaster_pid, io_workers_serve, seen: HashMap::new() }
    }

    /// Looks at every backend that lives. One that ended keeps the count it had when it was looked at last.
    pub fn read(&mut self) -> Result<BackendTotals, Error> {
        for pid in process::read_children(self.postmaster_pid)? {
            // A process may end at any time: what cannot be read is no longer there.
            let (Ok(read_bytes), Ok(title)) = (process::read_fetched_bytes(pid), process::read_title(pid)) else {
                continue;
            };
            let known = self.seen.get(&pid).map(|backend| backend.role).filter(|role| *role != BackendRole::Other);
            let role = known.unwrap_or_else(|| classify(&title));
            self.seen.insert(pid, Backend { role, read_bytes });
        }
        Ok(self.totals())
    }

    /// Looks again at the backends that are known already: cheap, and enough to see what a short-lived one read.
    pub fn read_known(&mut self) {
        for (pid, backend) in &mut self.seen {
            backend.read_bytes = process::read_fetched_bytes(*pid).unwrap_or(backend.read_bytes);
        }
    }

    /// What was read so far, by what was seen last.
    pub fn totals(&self) -> BackendTotals {
        let total = |role| self.seen.values().filter(|one| self.serves(one) == role).map(|one| one.read_bytes).sum();
        BackendTotals {
            workload_read_bytes: total(BackendRole::Workload),
            strategy_read_bytes: total(BackendRole::Strategy),
        }
    }

    fn serves(&self, backend: &Backend) -> BackendRole {
        match backend.role {
            BackendRole::IoWorker => self.io_workers_serve,
            role => role,
        }
    }
}

/// Ends the sessions of the strategy, as pg_terminate_backend() would: a backend does not notice that its client is gone
/// before it has something to tell it.
pub fn apply_end_strategy_backends(postmaster_pid: u32) {
    for pid in process::read_children(postmaster_pid).unwrap_or_default() {
        let is_strategy = process::read_title(pid).is_ok_and(|title| title.contains(STRATEGY_ROLE));
        if is_strategy {
            process::terminate(pid);
        }
    }
}

/// From a title such as `postgres: lab: pgthaw_workload bench [local] idle`.
fn classify(title: &str) -> BackendRole {
    let mut words = title.split_ascii_whitespace();
    if words.any(|word| word == WORKLOAD_ROLE) {
        BackendRole::Workload
    } else if [STRATEGY_ROLE, "autoprewarm", "parallel worker"].iter().any(|sign| title.contains(sign)) {
        BackendRole::Strategy
    } else if title.contains("io worker") {
        BackendRole::IoWorker
    } else {
        BackendRole::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_whom_a_process_serves() {
        for (title, role) in [
            ("postgres: pgthaw-lab: pgthaw_workload bench [local] SELECT", BackendRole::Workload),
            ("postgres: pgthaw_workload bench 127.0.0.1(40522) idle", BackendRole::Workload),
            ("postgres: pgthaw-lab: pgthaw_strategy bench [local] SELECT", BackendRole::Strategy),
            ("postgres: pgthaw-lab: parallel worker for PID 4711", BackendRole::Strategy),
            ("postgres: pgthaw-lab: autoprewarm worker", BackendRole::Strategy),
            ("postgres: pgthaw-lab: io worker 2", BackendRole::IoWorker),
            ("postgres: pgthaw-lab: checkpointer", BackendRole::Other),
            ("postgres: pgthaw-lab: postgres postgres [local] idle", BackendRole::Other),
        ] {
            assert_eq!(classify(title), role, "{title}");
        }
    }

    #[test]
    fn io_workers_count_for_whom_they_serve() {
        let mut reads = BackendReads::new(1, BackendRole::Strategy);
        let backend = |role, bytes| Backend { role, read_bytes: Bytes(bytes) };
        reads.seen.insert(2, backend(BackendRole::Workload, 10));
        reads.seen.insert(3, backend(BackendRole::IoWorker, 200));
        reads.seen.insert(4, backend(BackendRole::Other, 3000));
        let expected = |workload, strategy| BackendTotals {
            workload_read_bytes: Bytes(workload),
            strategy_read_bytes: Bytes(strategy),
        };
        assert_eq!(reads.totals(), expected(10, 200));
        reads.io_workers_serve = BackendRole::Workload;
        assert_eq!(reads.totals(), expected(210, 0));
    }

    #[test]
    fn a_server_that_is_gone_has_no_backends() {
        let mut reads = BackendReads::new(u32::MAX >> 1, BackendRole::Workload);
        assert_eq!(reads.read().unwrap(), BackendTotals::default());
    }
}
