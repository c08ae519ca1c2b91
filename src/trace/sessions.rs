//! The sessions of a job: the server's processes that serve it, found by who is connected to them, and their parallel workers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::linux::process;
use crate::linux::sockets::is_connected;
use crate::postgres::leader_of;

/// What the title of every process begins with that has said what it is; one that was just started has the postmaster's.
const TITLE: &str = "postgres: ";

/// It says so within this time.
const KNOWN_WITHIN: Duration = Duration::from_secs(1);

/// Whoever connected to it may have been started since the job's processes were looked at: it is looked at a second time.
const SEEN_TWICE: Duration = Duration::from_millis(15);

/// The server's processes, as far as they serve a job.
#[derive(Debug)]
pub struct Sessions {
    postmaster: u32,
    /// The job's processes, with the ticks of their start: a number may be given anew.
    family: BTreeMap<u32, u64>,
    children: HashMap<u32, Child>,
    /// What sessions had asked for that are gone.
    ended: Asked,
    sessions: usize,
    workers: usize,
    /// Why it cannot be seen who is connected to whom.
    trouble: Option<String>,
}

/// A child of the postmaster.
#[derive(Debug)]
struct Child {
    since: Instant,
    kind: Kind,
    /// What it had asked for when it became the job's, and what it has by now.
    first: Asked,
    last: Asked,
}

/// Bytes that processes have asked files for, and those of them that had to be fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub requested: u64,
    pub fetched: u64,
}

impl Asked {
    fn add_since(&mut self, last: Asked, first: Asked) {
        self.requested += last.requested.saturating_sub(first.requested);
        self.fetched += last.fetched.saturating_sub(first.fetched);
    }

    fn read(pid: u32) -> Option<Asked> {
        let (requested, fetched) = process::read_asked_bytes(pid).ok()?;
        Some(Asked { requested: requested.0, fetched: fetched.0 })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It is too young to tell.
    Unknown,
    /// It serves a process of the job's.
    Session,
    /// It is called as the job's sessions are.
    Named,
    Worker,
    Other,
}

impl Kind {
    fn is_own(self) -> bool {
        matches!(self, Kind::Session | Kind::Named | Kind::Worker)
    }
}

/// What has changed since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Processes that serve the job from now on.
    pub joined: Vec<u32>,
    /// Processes that live and serve it no more.
    pub left: Vec<u32>,
}

impl Sessions {
    /// Those of the job that runs as `job` and its children, on the server that runs as `postmaster`.
    pub fn new(postmaster: u32, job: u32) -> Sessions {
        let family = BTreeMap::from([(job, process::read_start_ticks(job).unwrap_or_default())]);
        Sessions {
            postmaster,
            family,
            children: HashMap::new(),
            ended: Asked::default(),
            sessions: 0,
            workers: 0,
            trouble: None,
        }
    }

    /// The server was started again.
    pub fn move_to(&mut self, postmaster: u32) {
        self.postmaster = postmaster;
    }

    pub fn postmaster(&self) -> u32 {
        self.postmaster
    }

    /// Sessions of the job's own that were there at the last look.
    pub fn count_there(&self) -> usize {
        self.children.values().filter(|child| child.kind == Kind::Session).count()
    }

    /// Looks at who is there. `named` are sessions that call themselves as the job's do, whoever is connected to them.
    pub fn look(&mut self, named: &BTreeSet<u32>) -> Changed {
        self.look_at_family();
        let pids = process::read_listed_children(self.postmaster).unwrap_or_default();
        let there: BTreeSet<u32> = pids.iter().copied().collect();
        for (_, gone) in self.children.extract_if(|pid, _| !there.contains(pid)) {
            self.ended.add_since(gone.last, gone.first);
        }
        let mut changed = Changed::default();
        // Leaders before their workers.
        for pid in there {
            let (first, last) = Default::default();
            let new = Child { since: Instant::now(), kind: Kind::Unknown, first, last };
            let child = self.children.entry(pid).or_insert(new);
            let (before, since) = (child.kind, child.since);
            let now = self.find_kind(pid, before, since, named);
            self.turn(pid, before, now, &mut changed);
        }
        changed
    }

    /// The job's processes: those that were known and live, and their children.
    fn look_at_family(&mut self) {
        self.family.retain(|pid, ticks| process::read_start_ticks(*pid).is_ok_and(|now| now == *ticks));
        let mut waiting: Vec<u32> = self.family.keys().copied().collect();
        while let Some(parent) = waiting.pop() {
            for child in process::read_listed_children(parent).unwrap_or_default() {
                if let Ok(ticks) = process::read_start_ticks(child)
                    && self.family.insert(child, ticks).is_none()
                {
                    waiting.push(child);
                }
            }
        }
    }

    fn find_kind(&mut self, pid: u32, before: Kind, since: Instant, named: &BTreeSet<u32>) -> Kind {
        match before {
            Kind::Session | Kind::Worker => return before,
            _ if named.contains(&pid) => return Kind::Named,
            Kind::Named => return Kind::Other,
            Kind::Other => return Kind::Other,
            Kind::Unknown => {}
        }
        match is_connected(pid, &self.family.keys().copied().collect()) {
            Ok(true) => return Kind::Session,
            Ok(false) => {}
            // One that has ended in this moment is no trouble.
            Err(error) if process::is_alive(pid) => _ = self.trouble.get_or_insert(error.to_string()),
            Err(_) => {}
        }
        let title = process::read_title(pid).unwrap_or_default();
        match leader_of(&title) {
            Some(leader) if self.children.get(&leader).is_some_and(|leader| leader.kind.is_own()) => Kind::Worker,
            Some(_) => Kind::Other,
            None if since.elapsed() > if title.starts_with(TITLE) { SEEN_TWICE } else { KNOWN_WITHIN } => Kind::Other,
            None => Kind::Unknown,
        }
    }

    fn turn(&mut self, pid: u32, before: Kind, now: Kind, changed: &mut Changed) {
        let Some(child) = self.children.get_mut(&pid) else { return };
        child.kind = now;
        match (before.is_own(), now.is_own()) {
            (false, true) => {
                // A young one has asked for next to nothing; an old one for what was no business of the job's.
                child.first = Asked::read(pid).unwrap_or_default();
                child.last = child.first;
                *(if now == Kind::Worker { &mut self.workers } else { &mut self.sessions }) += 1;
                changed.joined.push(pid);
            }
            (true, false) => {
                self.ended.add_since(child.last, child.first);
                (child.first, child.last) = Default::default();
                changed.left.push(pid);
            }
            _ => {}
        }
    }

    /// What the job's sessions have asked files for so far. What was in shared_buffers is not among it.
    pub fn read_asked(&mut self) -> Asked {
        let mut sum = self.ended;
        for (pid, child) in self.children.iter_mut().filter(|(_, child)| child.kind.is_own()) {
            child.last = Asked::read(*pid).unwrap_or(child.last);
            sum.add_since(child.last, child.first);
        }
        sum
    }

    /// The server's other processes.
    pub fn others(&self) -> Vec<u32> {
        self.children.iter().filter(|(_, child)| !child.kind.is_own()).map(|(pid, _)| *pid).collect()
    }

    /// Sessions and workers that were found so far.
    pub fn counts(&self) -> (usize, usize) {
        (self.sessions, self.workers)
    }

    /// Why some of them may not have been found.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child as Started, Command};

    use super::*;

    fn sleep() -> Started {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    #[test]
    fn who_is_called_so_is_the_jobs_until_he_is_not() {
        let (mut job, mut other) = (sleep(), sleep());
        // This process stands for the postmaster: both are its children.
        let mut sessions = Sessions::new(std::process::id(), job.id());
        let named = BTreeSet::from([other.id()]);
        assert_eq!(sessions.look(&named).joined, [other.id()]);
        assert_eq!(sessions.look(&named), Changed::default());
        assert!(!sessions.others().contains(&other.id()));
        sessions.read_asked();
        assert_eq!(sessions.look(&BTreeSet::new()).left, [other.id()]);
        assert_eq!(sessions.look(&named).joined, [other.id()], "and again");
        for one in [&mut job, &mut other] {
            one.kill().unwrap();
            one.wait().unwrap();
        }
        assert_eq!(sessions.look(&named), Changed::default());
        assert_eq!(sessions.counts(), (2, 0));
    }
}
