//! Identities of the server's processes, from pg_stat_activity or titles.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::gauges::{OTHER, kind_of_title};
use crate::time::account::{CLIENT_BACKEND, PGTHAW, POSTMASTER, SHORT_LIVED, Who};
use crate::time::source::ProcessTimes;
use host::linux::process::{read_own_number, read_title};
use postgres::{Session, background_kind, show_statement};

const QUERY_CHARS: usize = 60;

#[derive(Debug)]
pub struct Roster {
    postmaster_pid: Option<u32>,
    own_pids: Vec<u32>,
    /// In a trial, only the workload's backends count as clients.
    is_of_trial: bool,
    /// Whether the server runs in a child pid namespace.
    is_below: bool,
    /// Pids in the server's namespace, if it is below.
    numbers: HashMap<(u32, u64), u32>,
    seen: HashMap<u32, Session>,
    known: HashMap<(u32, u64), Who>,
}

impl Roster {
    pub fn new(postmaster_pid: Option<u32>, own_pids: Vec<u32>) -> Roster {
        let is_below = postmaster_pid.is_some_and(|pid| read_own_number(pid).is_ok_and(|number| number != pid));
        let (is_of_trial, numbers, seen, known) = Default::default();
        Roster { postmaster_pid, own_pids, is_of_trial, is_below, numbers, seen, known }
    }

    /// Identifies processes by title, without queries.
    pub fn of_trial(postmaster_pid: u32, observer_pid: Option<u32>) -> Roster {
        Roster { is_of_trial: true, ..Roster::new(Some(postmaster_pid), observer_pid.into_iter().collect()) }
    }

    /// `pid` is in the server's namespace.
    pub fn is_own(&self, pid: u32) -> bool {
        self.own_pids.contains(&pid)
    }

    /// `None` if the server has its own pid namespace.
    pub fn postmaster_of_same_pids(&self) -> Option<u32> {
        self.postmaster_pid.filter(|_| !self.is_below)
    }

    pub fn see(&mut self, sessions: Vec<Session>) {
        self.seen.extend(sessions.into_iter().map(|session| (session.pid, session)));
    }

    /// Identifies `processes`. Forgets all others except `untold`, which have ended and are not reported yet.
    pub fn learn(&mut self, processes: &[ProcessTimes], untold: &[ProcessTimes]) {
        let seen = std::mem::take(&mut self.seen);
        let there: HashSet<(u32, u64)> =
            processes.iter().chain(untold).map(|process| (process.pid, process.birth)).collect();
        self.known.retain(|key, _| there.contains(key));
        self.numbers.retain(|key, _| there.contains(key));
        let of_kind = |kind: String| Who { kind, ..Who::default() };
        for process in processes {
            let key = (process.pid, process.birth);
            let number = self.number_of(process.pid, process.birth);
            // A new process may still have kind `OTHER`.
            let is_known = self.known.get(&key).is_some_and(|who| who.kind != OTHER);
            let who = match number.and_then(|number| seen.get(&number)) {
                _ if self.postmaster_pid == Some(process.pid) => Some(of_kind(POSTMASTER.into())),
                _ if number.is_some_and(|number| self.is_own(number)) => Some(of_kind(PGTHAW.into())),
                // Pids are not reused within a second.
                Some(session) => self.of_session(session, process.pid),
                None if is_known || process.ended_ns.is_some() => None,
                None => self.kind_of_title(process.pid).map(of_kind),
            };
            self.known.extend(who.map(|who| (key, who)));
        }
    }

    /// A process that pgthaw could not identify counts as a client backend if it received commands.
    pub fn who(&self, process: &ProcessTimes) -> Who {
        let kind = if process.commands > 0 { CLIENT_BACKEND } else { SHORT_LIVED };
        let unseen = || Who { kind: kind.into(), ..Who::default() };
        self.known.get(&(process.pid, process.birth)).cloned().unwrap_or_else(unseen)
    }

    /// Pid in the server's namespace. `None` if the process had ended.
    fn number_of(&mut self, pid: u32, birth: u64) -> Option<u32> {
        if !self.is_below {
            return Some(pid);
        }
        Some(match self.numbers.entry((pid, birth)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => *place.insert(read_own_number(pid).ok()?),
        })
    }

    /// `None` if not yet identifiable.
    fn of_session(&self, session: &Session, pid: u32) -> Option<Who> {
        Some(Who {
            kind: session.backend.clone().or_else(|| self.kind_of_title(pid))?,
            user: session.user.clone(),
            database: session.database.clone(),
            query: session.query.as_deref().map(show_query).filter(|query| !query.is_empty()),
        })
    }

    /// `None` right after a fork, before the process sets its title. Titles of remote processes are unreadable.
    fn kind_of_title(&self, pid: u32) -> Option<String> {
        if self.postmaster_pid.is_none() {
            return Some("not shown".into());
        }
        let title = read_title(pid).ok().filter(|title| title.starts_with("postgres:"))?;
        let kind = match self.is_of_trial {
            true => kind_of_title(&title),
            false => background_kind(&title).unwrap_or(CLIENT_BACKEND),
        };
        Some(kind.to_owned())
    }
}

/// Shortens a query and removes constants, so that similar queries merge.
pub fn show_query(query: &str) -> String {
    let shown = show_statement(query);
    match shown.char_indices().nth(QUERY_CHARS) {
        Some((end, _)) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, ended_ns: Option<u64>) -> ProcessTimes {
        ProcessTimes { pid, birth: 9, ended_ns, ..ProcessTimes::default() }
    }

    fn session(pid: u32, query: &str) -> Session {
        Session {
            pid,
            backend: Some("client backend".into()),
            user: Some("app".into()),
            query: Some(query.into()),
            ..Session::default()
        }
    }

    #[test]
    fn a_process_is_who_was_seen_while_it_lived() {
        let mut roster = Roster::new(Some(1), vec![2]);
        let living: Vec<ProcessTimes> = [1, 2, 3].map(|pid| process(pid, None)).into();
        roster.see(vec![session(2, "SELECT 1"), session(3, "SELECT x\n FROM t WHERE a = 5.5 AND b = 'it'")]);
        roster.see(vec![session(4, "SELECT 4")]);
        let ended = process(4, Some(5));
        roster.learn(&[living.clone(), vec![ended.clone()]].concat(), &[]);
        let kinds: Vec<String> = living.iter().map(|one| roster.who(one).kind).collect();
        assert_eq!(kinds, [POSTMASTER, PGTHAW, "client backend"]);
        assert_eq!(roster.who(&living[2]).query.unwrap(), "SELECT x FROM t WHERE a = ? AND b = ?");
        assert_eq!(roster.who(&ended).query.unwrap(), "SELECT ?", "it was seen before it ended");
        roster.learn(&[process(3, Some(9))], std::slice::from_ref(&ended));
        assert_eq!(roster.who(&ended).query.unwrap(), "SELECT ?", "it was not told yet");
        roster.learn(&[process(3, Some(9))], &[]);
        assert_eq!(roster.who(&process(3, Some(9))).query.unwrap(), "SELECT x FROM t WHERE a = ? AND b = ?");
        assert_eq!(roster.known.len(), 1, "who has ended is forgotten");
        assert_eq!(roster.who(&process(5, Some(5))).kind, "short-lived");
        let served = ProcessTimes { commands: 1, ..process(6, Some(5)) };
        assert_eq!(roster.who(&served).kind, "client backend");
    }

    #[test]
    fn where_all_live_together_a_pid_is_the_number() {
        let mut roster = Roster::new(Some(std::process::id()), Vec::new());
        assert_eq!(roster.number_of(7, 1), Some(7));
        assert!(roster.numbers.is_empty());
    }

    #[test]
    fn queries_are_cut_between_characters() {
        let shown = show_query(&"é".repeat(100));
        assert_eq!(shown.chars().count(), QUERY_CHARS + 1);
    }
}
