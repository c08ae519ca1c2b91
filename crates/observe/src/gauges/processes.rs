//! The server's processes by what they are for, and what they had of the processors.

use std::collections::{BTreeMap, HashMap};

use crate::WORKLOAD_ROLE;
use host::linux::process;
use host::linux::schedule::{TaskTime, read_task_time};

/// What processes of the server are for. Its text is the name under which they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerPart {
    /// The workload's own backends.
    ClientBackend,
    ParallelWorker,
    IoWorker,
    Checkpointer,
    BackgroundWriter,
    WalWriter,
    Autovacuum,
    /// The backend that serves pgthaw's own looks.
    Observer,
    /// The postmaster, other backends, everything else.
    Other,
}

impl ServerPart {
    /// As pg_stat_activity calls it, where it does.
    pub fn name(self) -> &'static str {
        match self {
            ServerPart::ClientBackend => "client backend",
            ServerPart::ParallelWorker => "parallel worker",
            ServerPart::IoWorker => "io worker",
            ServerPart::Checkpointer => "checkpointer",
            ServerPart::BackgroundWriter => "background writer",
            ServerPart::WalWriter => "walwriter",
            ServerPart::Autovacuum => "autovacuum",
            ServerPart::Observer => "observer",
            ServerPart::Other => "other",
        }
    }

    /// From a title such as `postgres: lab: pgthaw_workload bench [local] idle`.
    pub(crate) fn of_title(title: &str) -> ServerPart {
        let parts = [
            (WORKLOAD_ROLE, ServerPart::ClientBackend),
            ("parallel worker", ServerPart::ParallelWorker),
            ("io worker", ServerPart::IoWorker),
            ("checkpointer", ServerPart::Checkpointer),
            ("background writer", ServerPart::BackgroundWriter),
            ("walwriter", ServerPart::WalWriter),
            ("autovacuum", ServerPart::Autovacuum),
        ];
        let found = parts.into_iter().find(|(sign, _)| title.contains(sign));
        found.map_or(ServerPart::Other, |(_, part)| part)
    }
}

/// Adds up what the server's processes had, also those that ended meanwhile.
#[derive(Debug)]
pub struct ServerProcesses {
    postmaster_pid: u32,
    observer_pid: Option<u32>,
    seen: HashMap<u32, (ServerPart, TaskTime)>,
}

/// What processes of one part had so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartTime {
    /// That live, or have lived.
    pub processes: u32,
    pub time: TaskTime,
}

impl ServerProcesses {
    /// Of the server of this postmaster, with the backend that serves the observer.
    pub fn new(postmaster_pid: u32, observer_pid: Option<u32>) -> ServerProcesses {
        ServerProcesses { postmaster_pid, observer_pid, seen: HashMap::new() }
    }

    /// Looks at every process that lives. One that ended keeps what it had when it was looked at last.
    pub fn read(&mut self) -> BTreeMap<ServerPart, PartTime> {
        let children = process::read_children(self.postmaster_pid).unwrap_or_default();
        for pid in children.into_iter().chain([self.postmaster_pid]) {
            // A process may end at any time.
            let Ok(time) = read_task_time(pid) else { continue };
            let known = self.seen.get(&pid).map(|(part, _)| *part).filter(|part| *part != ServerPart::Other);
            self.seen.insert(pid, (known.unwrap_or_else(|| self.classify(pid)), time));
        }
        let mut parts = BTreeMap::<ServerPart, PartTime>::new();
        for (part, time) in self.seen.values() {
            let sum = parts.entry(*part).or_default();
            *sum = PartTime { processes: sum.processes + 1, time: sum.time + *time };
        }
        parts
    }

    fn classify(&self, pid: u32) -> ServerPart {
        match self.observer_pid == Some(pid) {
            true => ServerPart::Observer,
            false => process::read_title(pid).map_or(ServerPart::Other, |title| ServerPart::of_title(&title)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_what_a_process_is_for() {
        for (title, part) in [
            ("postgres: pgthaw-lab: pgthaw_workload pgthaw_bench_1 [local] SELECT", ServerPart::ClientBackend),
            ("postgres: pgthaw-lab: parallel worker for PID 4711", ServerPart::ParallelWorker),
            ("postgres: pgthaw-lab: io worker 2", ServerPart::IoWorker),
            ("postgres: pgthaw-lab: checkpointer", ServerPart::Checkpointer),
            ("postgres: pgthaw-lab: background writer", ServerPart::BackgroundWriter),
            ("postgres: pgthaw-lab: walwriter", ServerPart::WalWriter),
            ("postgres: pgthaw-lab: autovacuum launcher", ServerPart::Autovacuum),
            ("postgres: pgthaw-lab: postgres postgres [local] idle", ServerPart::Other),
        ] {
            assert_eq!(ServerPart::of_title(title), part, "{title}");
        }
    }

    #[test]
    fn a_process_that_ended_keeps_what_it_had() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut processes = ServerProcesses::new(std::process::id(), Some(child.id()));
        let before = processes.read();
        assert_eq!(before[&ServerPart::Observer].processes, 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let after = processes.read();
        let (before, after) = (before[&ServerPart::Observer].time, after[&ServerPart::Observer].time);
        assert!(after.cpu >= before.cpu && after.involuntary_switches >= before.involuntary_switches);
    }
}
