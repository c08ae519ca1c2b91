//! Who the server's processes are: by what the server says of them, else by their titles.

use std::collections::HashMap;

use regex::Regex;

use super::account::{POSTMASTER, Who};
use super::source::ProcessTimes;
use crate::linux::process::read_title;
use crate::postgres::Session;

/// What background processes call themselves in their titles.
const KINDS: [&str; 17] = [
    "checkpointer",
    "background writer",
    "walwriter",
    "autovacuum launcher",
    "autovacuum worker",
    "io worker",
    "parallel worker",
    "walsender",
    "walreceiver",
    "archiver",
    "startup",
    "logger",
    "logical replication launcher",
    "logical replication apply worker",
    "slotsync worker",
    "walsummarizer",
    "stats collector",
];

/// Of a query so much is shown.
const QUERY_CHARS: usize = 60;

/// Everybody who was seen, by pid and birth.
#[derive(Debug)]
pub struct Roster {
    postmaster_pid: Option<u32>,
    own_pids: Vec<u32>,
    /// What stands in a query for a value: `?` is shown instead, so that queries that differ in it are one.
    values: Option<Regex>,
    known: HashMap<(u32, u64), Who>,
}

impl Roster {
    /// Of the server of this postmaster, with the backends that serve pgthaw.
    pub fn new(postmaster_pid: Option<u32>, own_pids: Vec<u32>) -> Roster {
        let values = Regex::new(r"'[^']*'|(?-u:\b)[0-9]+(\.[0-9]+)?(?-u:\b)").ok();
        Roster { postmaster_pid, own_pids, values, known: HashMap::new() }
    }

    /// Learns who the processes of a reading are, from what the server said at about the same time.
    pub fn learn(&mut self, processes: &[ProcessTimes], sessions: &[Session]) {
        let sessions: HashMap<u32, &Session> = sessions.iter().map(|session| (session.pid, session)).collect();
        for process in processes {
            let key = (process.pid, process.birth);
            // The number of one that has ended may be another's already.
            if process.ended_ns.is_some() {
                continue;
            }
            let who = match sessions.get(&process.pid) {
                _ if self.postmaster_pid == Some(process.pid) => Who { kind: POSTMASTER.into(), ..Who::default() },
                _ if self.own_pids.contains(&process.pid) => Who { kind: "pgthaw".into(), ..Who::default() },
                Some(session) => self.of_session(session, process.pid),
                // It has been asked before.
                None if self.known.contains_key(&key) => continue,
                None => Who { kind: kind_of_title(process.pid), ..Who::default() },
            };
            self.known.insert(key, who);
        }
    }

    /// Who this is. One that came and went between two looks is nobody in particular.
    pub fn who(&self, process: &ProcessTimes) -> Who {
        let short_lived = || Who { kind: "short-lived".into(), ..Who::default() };
        self.known.get(&(process.pid, process.birth)).cloned().unwrap_or_else(short_lived)
    }

    fn of_session(&self, session: &Session, pid: u32) -> Who {
        Who {
            kind: session.backend.clone().unwrap_or_else(|| kind_of_title(pid)),
            user: session.user.clone(),
            database: session.database.clone(),
            query: session.query.as_deref().map(|query| self.shorten(query)).filter(|query| !query.is_empty()),
        }
    }

    fn shorten(&self, query: &str) -> String {
        let words = query.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = self.values.as_ref().map_or(words.as_str().into(), |values| values.replace_all(&words, "?"));
        match shown.char_indices().nth(QUERY_CHARS) {
            Some((end, _)) => format!("{}…", &shown[..end]),
            None => shown.into_owned(),
        }
    }
}

fn kind_of_title(pid: u32) -> String {
    let title = read_title(pid).unwrap_or_default();
    let found = KINDS.into_iter().find(|kind| title.contains(kind));
    found.unwrap_or(if title.starts_with("postgres:") { "client backend" } else { "other" }).to_owned()
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
    fn a_process_is_who_it_was_when_it_lived() {
        let mut roster = Roster::new(Some(1), vec![2]);
        let living: Vec<ProcessTimes> = [1, 2, 3].map(|pid| process(pid, None)).into();
        roster.learn(&living, &[session(2, "SELECT 1"), session(3, "SELECT x\n FROM t WHERE a = 5.5 AND b = 'it'")]);
        let kinds: Vec<String> = living.iter().map(|one| roster.who(one).kind).collect();
        assert_eq!(kinds, [POSTMASTER, "pgthaw", "client backend"]);
        assert_eq!(roster.who(&living[2]).query.unwrap(), "SELECT x FROM t WHERE a = ? AND b = ?");
        // Its number belongs to somebody else now.
        let ended = process(3, Some(5));
        roster.learn(std::slice::from_ref(&ended), &[session(3, "DROP TABLE t")]);
        assert_eq!(roster.who(&ended).query.unwrap(), "SELECT x FROM t WHERE a = ? AND b = ?");
        assert_eq!(roster.who(&process(4, Some(5))).kind, "short-lived");
    }

    #[test]
    fn queries_are_cut_between_characters() {
        let shown = Roster::new(None, Vec::new()).shorten(&"é".repeat(100));
        assert_eq!(shown.chars().count(), QUERY_CHARS + 1);
    }
}
