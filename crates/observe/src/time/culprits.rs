//! Finds blockers, idle transactions and temporary files in data that the caller has read. Does no I/O.
//!
//! Part of `--json` and of records: never rename fields.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::time::roster::show_query;
use host::units::Bytes;
use postgres::{LockProcess, Session};

/// A process and the processes that wait for its locks. Without waiters, it is idle in a transaction for 1 s or longer.
/// Constants in `query` are shown as `?`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Blocker {
    #[serde(flatten)]
    pub process: LockProcess,
    /// Total time that other processes were seen waiting for it, a lower limit. 0 if it waits itself.
    pub held_up_ns: u64,
    /// From the history: first and last step with this process, Unix time in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ms: Option<(i64, i64)>,
    /// Waiters, longest wait first. A waiter with several blockers is listed under one that does not wait, if possible.
    pub behind: Vec<Blocker>,
}

/// Temporary files of a session's query, when they were largest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TemporaryFiles {
    #[serde(flatten)]
    pub session: Session,
    pub files: u64,
    pub bytes: Bytes,
    /// Same as `seen_ms` of a blocker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_ms: Option<(i64, i64)>,
}

const IDLE_MS: u64 = 1000;

/// Shorter waits are normal contention, for which no process is blamed.
const LONG_WAIT_MS: u64 = 100;

/// JSON readers limit a tree's depth.
const DEEPEST: usize = 20;

const KEPT: usize = 100;

impl Blocker {
    /// Trees of all blockers, most waiters first.
    pub fn trees(mut processes: Vec<LockProcess>) -> Vec<Blocker> {
        processes.sort_by_key(|one| (Reverse(one.waited_ms), one.session.pid));
        let pids: Vec<u32> = processes.iter().map(|one| one.session.pid).collect();
        let waits = |one: &LockProcess| one.blocked_by.iter().any(|pid| pids.contains(pid));
        let (mut waiting, roots): (Vec<LockProcess>, Vec<LockProcess>) = processes.into_iter().partition(waits);
        let mut trees = grow(roots, &mut waiting, DEEPEST);
        while !waiting.is_empty() {
            // Only deadlocks and their waiters are left. The first process met twice is in a deadlock.
            let (mut at, mut passed) = (0, HashSet::new());
            while passed.insert(at) {
                let blocks = |one: &LockProcess| waiting[at].blocked_by.contains(&one.session.pid);
                at = waiting.iter().position(blocks).unwrap_or(at);
            }
            let first = vec![waiting.remove(at)];
            trees.extend(grow(first, &mut waiting, DEEPEST));
        }
        let waits_long = |one: &Blocker| one.process.waited_ms.is_none_or(|ms| ms >= LONG_WAIT_MS);
        trees.retain(|tree| tree.behind.iter().any(waits_long));
        trees.sort_by_key(|tree| Reverse(tree.count()));
        trees
    }

    pub fn count(&self) -> usize {
        self.behind.iter().map(|one| 1 + one.count()).sum()
    }

    fn waited_ns(&self, since_ns: u64) -> u64 {
        let waited =
            |one: &Blocker| one.process.waited_ms.map_or(since_ns, |ms| since_ns.min(ms.saturating_mul(1_000_000)));
        self.behind.iter().map(|one| waited(one) + one.waited_ns(since_ns)).sum()
    }

    fn key(&self) -> (u32, u64) {
        (self.process.session.pid, self.process.session.started_us)
    }
}

/// Processes deeper than `levels` stay on the last level.
fn grow(parents: Vec<LockProcess>, waiting: &mut Vec<LockProcess>, levels: usize) -> Vec<Blocker> {
    let of = |parent: &LockProcess| {
        let is_behind = |one: &mut LockProcess| levels == 1 || one.blocked_by.contains(&parent.session.pid);
        waiting.extract_if(.., is_behind).collect::<Vec<LockProcess>>()
    };
    let behind: Vec<Vec<LockProcess>> = parents.iter().map(of).collect();
    let with = |(process, behind)| Blocker {
        process,
        behind: grow(behind, waiting, (levels - 1).max(1)),
        ..Blocker::default()
    };
    parents.into_iter().zip(behind).map(with).collect()
}

impl TemporaryFiles {
    fn key(&self) -> (u32, u64, &Option<String>) {
        (self.session.pid, self.session.started_us, &self.session.query)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Culprits {
    pub blockers: Vec<Blocker>,
    pub temporary: Vec<TemporaryFiles>,
    /// Blockers seen so far, largest `held_up_ns` first. Each is kept in its state when it had the most waiters.
    pub seen_blockers: Vec<Blocker>,
    /// Most bytes first.
    pub seen_temporary: Vec<TemporaryFiles>,
    unread_ns: u64,
}

impl Culprits {
    /// `locks`: lock waits, if queried. `since_ns`: time since the last call.
    pub fn look(&mut self, sessions: &[Session], locks: Option<Vec<LockProcess>>, since_ns: u64) {
        self.unread_ns += since_ns;
        self.blockers = match locks {
            Some(locks) => Blocker::trees(locks.into_iter().map(shown_lock).collect()),
            // Keeps the earlier result: which locks these sessions wait for is unknown.
            None if sessions.iter().any(waits_for_lock) => return,
            None => Vec::new(),
        };
        let since_ns = std::mem::take(&mut self.unread_ns);
        let is_idle = |one: &&Session| {
            one.state.as_deref().is_some_and(|state| state.starts_with("idle in transaction"))
                && one.state_ms >= Some(IDLE_MS)
                && !self.blockers.iter().any(|blocker| blocker.process.session.pid == one.pid)
        };
        let mut idle: Vec<Session> = sessions.iter().filter(is_idle).map(shown).collect();
        idle.sort_by_key(|one| Reverse(one.state_ms));
        let alone = |session| LockProcess { session, ..LockProcess::default() };
        self.blockers.extend(idle.into_iter().map(|one| Blocker { process: alone(one), ..Blocker::default() }));
        self.blockers.truncate(KEPT);
        for now in &mut self.blockers {
            let seen = self.seen_blockers.iter().find(|seen| seen.key() == now.key());
            let before_ns = seen.map_or(0, |seen| seen.held_up_ns);
            now.held_up_ns = before_ns + now.waited_ns(since_ns);
            keep_worst(&mut self.seen_blockers, now);
        }
        self.sort_seen();
    }

    pub fn see_recorded(&mut self, blockers: Vec<Blocker>, temporary: Vec<TemporaryFiles>, at_ms: i64) {
        let until = |seen_ms: Option<(i64, i64)>| Some((seen_ms.map_or(at_ms, |(begin_ms, _)| begin_ms), at_ms));
        for now in blockers {
            let seen = self.seen_blockers.iter().find(|seen| seen.key() == now.key());
            let before = seen.map_or((0, None), |seen| (seen.held_up_ns, seen.seen_ms));
            let now = Blocker { held_up_ns: now.held_up_ns.max(before.0), seen_ms: until(before.1), ..now };
            keep_worst(&mut self.seen_blockers, &now);
        }
        for now in temporary {
            let seen = self.seen_temporary.iter_mut().find(|seen| seen.key() == now.key());
            let seen_ms = until(seen.as_ref().and_then(|seen| seen.seen_ms));
            match seen {
                Some(seen) if now.bytes < seen.bytes => seen.seen_ms = seen_ms,
                Some(seen) => *seen = TemporaryFiles { seen_ms, ..now },
                None => self.seen_temporary.push(TemporaryFiles { seen_ms, ..now }),
            }
        }
        self.sort_seen();
    }

    /// Limits memory in an endless observation.
    pub fn forget_gone(&mut self) {
        self.seen_blockers.retain(|seen| self.blockers.iter().any(|now| now.key() == seen.key()));
        self.seen_temporary.clear();
    }

    fn sort_seen(&mut self) {
        self.seen_blockers.sort_by_key(|one| Reverse((one.held_up_ns, one.process.session.state_ms)));
        self.seen_blockers.truncate(KEPT);
        self.seen_temporary.sort_by_key(|one| Reverse(one.bytes));
        self.seen_temporary.truncate(KEPT);
    }

    /// `files`: pid, number of files, bytes.
    pub fn see_temporary(&mut self, files: &[(u32, u64, u64)], sessions: &[Session]) {
        let whose = |&(pid, files, bytes): &(u32, u64, u64)| {
            let session = sessions.iter().find(|one| one.pid == pid).map(shown);
            let session = session.unwrap_or_else(|| Session { pid, ..Session::default() });
            TemporaryFiles { session, files, bytes: Bytes(bytes), seen_ms: None }
        };
        self.temporary = files.iter().map(whose).collect();
        self.seen_temporary.extend(self.temporary.iter().cloned());
        for files in [&mut self.temporary, &mut self.seen_temporary] {
            files.sort_by_key(|one| Reverse(one.bytes));
            let mut told = HashSet::new();
            files.retain(|one| told.insert((one.session.pid, one.session.started_us, one.session.query.clone())));
            files.truncate(KEPT);
        }
    }
}

fn keep_worst(all: &mut Vec<Blocker>, now: &Blocker) {
    let matters = |one: &Blocker| (one.count(), one.process.session.state_ms);
    match all.iter_mut().find(|seen| seen.key() == now.key()) {
        Some(seen) if matters(now) < matters(seen) => (seen.held_up_ns, seen.seen_ms) = (now.held_up_ns, now.seen_ms),
        Some(seen) => *seen = now.clone(),
        None => all.push(now.clone()),
    }
}

pub(crate) fn waits_for_lock(session: &Session) -> bool {
    session.event_type.as_deref() == Some("Lock")
}

fn shown(session: &Session) -> Session {
    Session { query: session.query.as_deref().map(show_query), ..session.clone() }
}

/// Removes constants from the query.
pub(crate) fn shown_lock(process: LockProcess) -> LockProcess {
    LockProcess { session: shown(&process.session), ..process }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, waiters: u32, blocked_by: &[u32]) -> LockProcess {
        let waited_ms = (!blocked_by.is_empty()).then_some(1000 - u64::from(pid));
        let session = Session { pid, query: Some(format!("SELECT {pid}")), ..Session::default() };
        LockProcess { session, waiters, blocked_by: blocked_by.to_vec(), waited_ms, ..LockProcess::default() }
    }

    fn text(trees: &[Blocker]) -> String {
        let one = |tree: &Blocker| match tree.behind.is_empty() {
            true => tree.process.session.pid.to_string(),
            false => format!("{}({})", tree.process.session.pid, text(&tree.behind)),
        };
        trees.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_process_stands_once_and_as_near_to_the_root_as_it_can() {
        // pg_blocking_pids also lists earlier waiters for the same lock.
        let queue = vec![process(4, 0, &[1, 2, 3]), process(3, 1, &[1, 2]), process(2, 2, &[1]), process(1, 3, &[])];
        assert_eq!(text(&Blocker::trees(queue)), "1(2 3 4)");
        let chain = vec![process(3, 0, &[2]), process(5, 0, &[2]), process(2, 2, &[1]), process(1, 1, &[])];
        assert_eq!(text(&Blocker::trees(chain)), "1(2(3 5))");
        let two =
            vec![process(1, 1, &[]), process(2, 0, &[1]), process(6, 2, &[]), process(7, 0, &[6]), process(8, 0, &[6])];
        assert_eq!(text(&Blocker::trees(two)), "6(7 8) 1(2)");
        let short = LockProcess { waited_ms: Some(99), ..process(2, 0, &[1]) };
        assert_eq!(text(&Blocker::trees(vec![process(1, 1, &[]), short])), "");
        // A deadlock has no root.
        assert_eq!(text(&Blocker::trees(vec![process(1, 1, &[2]), process(2, 1, &[1])])), "1(2)");
        let beside = vec![process(4, 0, &[5]), process(5, 2, &[6]), process(6, 1, &[5])];
        assert_eq!(text(&Blocker::trees(beside)), "5(4 6)", "who waits for them is not left out");
        assert_eq!(text(&Blocker::trees(vec![process(2, 0, &[9])])), "");
        assert_eq!(
            text(&Blocker::trees(vec![process(0, 1, &[]), process(2, 0, &[0])])),
            "0(2)",
            "a prepared transaction"
        );
    }

    #[test]
    fn what_was_seen_is_kept_as_it_was_at_its_worst() {
        let waits = |pid| Session { pid, event_type: Some("Lock".into()), ..Session::default() };
        let idle = |state_ms| Session {
            pid: 1,
            state: Some("idle in transaction".into()),
            state_ms: Some(state_ms),
            query: Some("UPDATE t SET a = 'secret'".into()),
            ..Session::default()
        };
        let holder = |state_ms, waiters| LockProcess { session: idle(state_ms), waiters, ..LockProcess::default() };
        let mut culprits = Culprits::default();
        culprits.look(&[idle(900)], None, 5);
        assert!(culprits.blockers.is_empty(), "it has been silent for a moment");
        culprits.look(&[idle(1100)], None, 5);
        assert_eq!((culprits.blockers.len(), culprits.seen_blockers[0].held_up_ns), (1, 0));
        let both = vec![holder(1200, 2), process(2, 0, &[1]), process(3, 0, &[1])];
        culprits.look(&[idle(1200), waits(2), waits(3)], Some(both), 5);
        culprits.look(&[idle(1300), waits(2), waits(3)], None, 5);
        let one = vec![holder(1400, 1), process(2, 0, &[1])];
        culprits.look(&[idle(1400), waits(2)], Some(one), 5);
        assert_eq!(text(&culprits.blockers), "1(2)");
        let [seen] = &culprits.seen_blockers[..] else { panic!("{:?}", culprits.seen_blockers) };
        assert_eq!((seen.held_up_ns, text(std::slice::from_ref(seen)).as_str()), (20, "1(2 3)"));
        assert_eq!(seen.process.session.query.as_deref(), Some("UPDATE t SET a = ?"));
        culprits.look(&[], None, 5);
        assert!(culprits.blockers.is_empty() && culprits.seen_blockers.len() == 1);
    }

    #[test]
    fn temporary_files_are_those_of_a_query_at_their_most() {
        let sorts = Session { pid: 7, query: Some("SELECT 1".into()), ..Session::default() };
        let mut culprits = Culprits::default();
        for bytes in [10, 30, 20] {
            culprits.see_temporary(&[(7, 1, bytes), (9, 1, 5)], std::slice::from_ref(&sorts));
        }
        assert_eq!((culprits.temporary[0].bytes, culprits.seen_temporary[0].bytes), (Bytes(20), Bytes(30)));
        assert_eq!(culprits.seen_temporary.len(), 2, "a process that has ended left one");
        culprits.see_temporary(&[], &[]);
        assert!(culprits.temporary.is_empty());
    }
}
