//! Decides which processes belong to a job: those it started, server processes that serve them, and sessions with a
//! given application name or database.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use host::linux::process::{is_alive, read_listed_children, read_parent, read_start_ticks, read_title};
use host::linux::sockets::{Client, Clients};
use postgres::{Session, WALSENDER, background_kind, leader_of};

/// Title of I/O workers, which read for any session (PostgreSQL 18, `io_method = worker`).
pub const IO_WORKER: &str = "io worker";

pub type AskSessions = Box<dyn FnMut() -> Option<Vec<Session>> + Send>;

/// Names of sessions; `None` matches any.
pub struct Named {
    pub application_name: Option<String>,
    pub database: Option<String>,
    pub ask: AskSessions,
}

host::debug_by!(Named: application_name, database);

impl Named {
    fn are(&self, session: &Session) -> bool {
        let is_wanted = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is_wanted(&self.application_name, &session.application_name) && is_wanted(&self.database, &session.database)
    }
}

#[derive(Debug, Default)]
pub enum Wanted {
    #[default]
    Everybody,
    /// Processes of a command, and sessions that match `named`, even if another client opened them.
    Command {
        pid: Arc<AtomicU32>,
        named: Option<Named>,
    },
    Backend(u32),
    Sessions(Named),
}

impl Wanted {
    pub fn command(pid: &Arc<AtomicU32>) -> Wanted {
        Wanted::Command { pid: Arc::clone(pid), named: None }
    }

    fn named(&mut self) -> Option<&mut Named> {
        match self {
            Wanted::Sessions(named) => Some(named),
            Wanted::Command { named, .. } => named.as_mut(),
            Wanted::Everybody | Wanted::Backend(_) => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Wanted,
    Other,
    Own,
    /// Undecided: the session may still set the wanted application name, or the command has not started.
    NotYet,
}

#[derive(Debug, Default)]
pub struct Whose {
    wanted: Wanted,
    pub postmaster_pid: Option<u32>,
    /// Start of this process, in ticks.
    begun: u64,
    /// Living processes of the command, with their start in ticks, because pids are reused.
    family: BTreeMap<u32, u64>,
    known: HashMap<u32, Verdict>,
    sessions: Vec<Session>,
    answers: bool,
    has_seen_wanted: bool,
    io_workers: HashSet<u32>,
    /// Processes that ended before pgthaw could identify them.
    unseen: HashSet<u32>,
    /// Ended processes whose events the kernel may still report.
    ended: HashSet<u32>,
    clients: Clients,
    /// Processes that are not the command's: they ran before it, serve another client, or work for the server.
    pub strangers: HashSet<u32>,
    /// pid of the command; 0 until `know_earlier` reads it.
    command: u32,
    /// Number of `unseen` processes that count as the command's.
    unknown: u64,
    /// Number of processes that count as the command's because no other process read anything.
    alone: u64,
    pub trouble: Option<String>,
}

impl Whose {
    pub fn new(wanted: Wanted, postmaster_pid: Option<u32>) -> Whose {
        let begun = read_start_ticks(std::process::id()).unwrap_or_default();
        Whose { wanted, postmaster_pid, begun, ..Whose::default() }
    }

    /// For a reused pid, call `forget` first.
    pub fn of(&mut self, pid: u32) -> Verdict {
        if !self.known.get(&pid).is_some_and(|known| *known != Verdict::NotYet) {
            self.look_at_family();
        }
        self.of_listed(pid)
    }

    pub fn of_listed(&mut self, pid: u32) -> Verdict {
        if let Some(known) = self.known.get(&pid).filter(|known| **known != Verdict::NotYet) {
            return *known;
        }
        let verdict = self.judge(pid);
        self.known.insert(pid, verdict);
        verdict
    }

    /// Returns `Other` processes whose session now has a wanted name.
    pub fn refresh(&mut self) -> Vec<u32> {
        let Some(named) = self.wanted.named() else { return Vec::new() };
        let sessions = (named.ask)();
        self.answers = sessions.is_some();
        let Some(sessions) = sessions else { return Vec::new() };
        self.sessions = sessions;
        let mut come_over: Vec<u32> = self.others().collect();
        come_over.retain(|pid| self.judge_session(*pid) == Verdict::Wanted);
        come_over.iter().for_each(|pid| _ = self.known.remove(pid));
        come_over
    }

    /// Whether unwanted processes can be recognized. For a command, this is false until one of its processes was
    /// seen.
    pub fn is_decided(&self) -> bool {
        self.has_seen_wanted || !self.is_of_command()
    }

    /// Notes server processes that started before the command: they do not serve it.
    pub fn know_earlier(&mut self) {
        let Wanted::Command { pid, .. } = &self.wanted else { return };
        let command = pid.load(Ordering::Acquire);
        if command == std::mem::replace(&mut self.command, command) {
            return;
        }
        let Ok(begun) = read_start_ticks(command) else { return };
        self.family.insert(command, begun);
        let children = self.postmaster_pid.and_then(|postmaster| read_listed_children(postmaster).ok());
        let children = children.unwrap_or_default();
        let is_earlier = |pid: &u32| read_start_ticks(*pid).is_ok_and(|started| started < begun);
        self.strangers.extend(children.into_iter().filter(is_earlier));
    }

    pub fn take_unseen(&mut self, pids: impl Iterator<Item = u32>) {
        let pids: HashSet<u32> = pids.collect();
        if pids.is_empty() || !pids.is_subset(&self.unseen) {
            return;
        }
        self.alone = pids.len() as u64;
        self.known.extend(pids.into_iter().map(|pid| (pid, Verdict::Wanted)));
        self.has_seen_wanted = true;
    }

    pub fn is_certain(&self, pid: u32) -> bool {
        let is_shared = self.io_workers.contains(&pid) || self.unseen.contains(&pid) || self.wants_everybody();
        self.known.get(&pid) == Some(&Verdict::Wanted) && !is_shared
    }

    pub fn shared(&self) -> Option<&'static str> {
        (!self.io_workers.is_empty()).then_some("I/O workers read for every session (io_method = sync avoids this)")
    }

    pub fn is_of_command(&self) -> bool {
        matches!(self.wanted, Wanted::Command { .. })
    }

    pub fn wants_everybody(&self) -> bool {
        matches!(self.wanted, Wanted::Everybody)
    }

    pub fn want_everybody(&mut self) {
        self.wanted = Wanted::Everybody;
        self.known.clear();
    }

    pub fn others(&self) -> impl Iterator<Item = u32> {
        self.known.iter().filter(|(_, known)| **known == Verdict::Other).map(|(pid, _)| *pid)
    }

    pub fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// Forgets and returns processes that had already ended at the previous call.
    pub fn forget_ended(&mut self) -> Vec<u32> {
        let ended: HashSet<u32> =
            self.known.keys().copied().filter(|pid| read_parent(*pid).is_err() && *pid != 1).collect();
        let forgotten: Vec<u32> = self.ended.intersection(&ended).copied().collect();
        forgotten.iter().for_each(|pid| _ = self.known.remove(pid));
        self.ended = ended;
        forgotten
    }

    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.shared().is_some() && !self.wants_everybody() {
            remarks.push("the film includes all reads by I/O workers, even those for other sessions".to_owned());
        }
        if !self.has_seen_wanted && matches!(self.wanted, Wanted::Backend(_) | Wanted::Sessions(_)) {
            remarks.push("no recorded session read anything through the page cache".to_owned());
        }
        remarks
    }

    pub fn guesses(&self) -> Vec<String> {
        let counts = [(self.unknown, ""), (self.alone, ", because no other process requested anything")];
        let guess = |(count, why): (u64, &str)| {
            let processes = host::units::counted(count, "process");
            format!("the reads of {processes} that ended before being identified count as the command's{why}")
        };
        counts.into_iter().filter(|(count, _)| *count > 0).map(guess).collect()
    }

    fn judge(&mut self, pid: u32) -> Verdict {
        if self.wants_everybody() {
            return Verdict::Wanted;
        }
        let title = read_title(pid).unwrap_or_default();
        if title.contains(IO_WORKER) && self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster)) {
            self.io_workers.insert(pid);
            return Verdict::Wanted;
        }
        if let Some(leader) = leader_of(&title) {
            return self.of(leader);
        }
        let verdict = match &self.wanted {
            Wanted::Everybody => Verdict::Wanted,
            Wanted::Backend(backend) if *backend == pid => Verdict::Wanted,
            Wanted::Backend(_) => Verdict::Other,
            Wanted::Command { .. } => self.judge_of_command(pid, self.command),
            Wanted::Sessions(_) => self.judge_session(pid),
        };
        self.has_seen_wanted |= verdict == Verdict::Wanted;
        verdict
    }

    fn judge_of_command(&mut self, pid: u32, command: u32) -> Verdict {
        // The command is still starting, so this process ran before it.
        if command == 0 {
            self.strangers.insert(pid);
            return Verdict::NotYet;
        }
        let by_name = self.judge_session(pid);
        if by_name == Verdict::Wanted {
            return by_name;
        }
        match self.judge_client(pid, command) {
            // While the server answers, a connected session may still set its name.
            Verdict::Other if by_name == Verdict::NotYet && self.answers => Verdict::NotYet,
            verdict => verdict,
        }
    }

    fn judge_client(&mut self, pid: u32, command: u32) -> Verdict {
        let is_server = self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster));
        let client = match is_server {
            // The job did not open sessions that began before pgthaw. Skipping them saves reading sockets.
            true if read_start_ticks(pid).is_ok_and(|started| started < self.begun) => Client::Other,
            true if works_for_the_server(pid) => Client::Other,
            true => self.find_client(pid),
            false if pid == command || self.family.contains_key(&pid) => Client::Member(pid),
            false if is_alive(pid) => Client::Other,
            false => Client::Ended,
        };
        match client {
            Client::Member(member) if member == std::process::id() && member != command => Verdict::Own,
            Client::Member(_) => Verdict::Wanted,
            // Notes the process now, because an ended one cannot be classified.
            Client::Other => {
                self.strangers.insert(pid);
                Verdict::Other
            }
            Client::Ended if self.strangers.contains(&pid) => Verdict::Other,
            // It is unknown whether this process worked for the command, usually because it ended early. It counts as
            // the command's if another process of the command has been seen.
            Client::Ended => {
                self.unseen.insert(pid);
                self.unknown += u64::from(self.has_seen_wanted);
                if self.has_seen_wanted { Verdict::Wanted } else { Verdict::Other }
            }
        }
    }

    fn find_client(&mut self, pid: u32) -> Client {
        self.clients.of(pid).unwrap_or_else(|error| {
            // For a process that just ended, the error is expected.
            if is_alive(pid) {
                self.trouble.get_or_insert(error.to_string());
            }
            Client::Ended
        })
    }

    pub fn look_at_family(&mut self) {
        self.know_earlier();
        self.family.retain(|pid, ticks| read_start_ticks(*pid).is_ok_and(|now| now == *ticks));
        let mut waiting: Vec<u32> = self.family.keys().copied().collect();
        while let Some(parent) = waiting.pop() {
            for child in read_listed_children(parent).unwrap_or_default() {
                if let Ok(ticks) = read_start_ticks(child)
                    && self.family.insert(child, ticks).is_none()
                {
                    waiting.push(child);
                }
            }
        }
        self.clients = Clients::among(self.family.keys().copied().chain([std::process::id()]));
    }

    fn judge_session(&mut self, pid: u32) -> Verdict {
        let Some(named) = self.wanted.named() else { return Verdict::Other };
        let Some(session) = self.sessions.iter().find(|session| session.pid == pid) else {
            let is_server = self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster));
            return if is_server { Verdict::NotYet } else { Verdict::Other };
        };
        if named.are(session) { Verdict::Wanted } else { Verdict::Other }
    }
}

/// Excludes walsenders, which have a client such as pg_basebackup.
fn works_for_the_server(pid: u32) -> bool {
    let title = read_title(pid).unwrap_or_default();
    background_kind(&title).is_some_and(|kind| kind != WALSENDER)
}

fn is_child(pid: u32, parent: u32) -> bool {
    read_parent(pid).is_ok_and(|found| found == parent)
}

#[cfg(test)]
mod whose_tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;

    #[test]
    fn a_session_is_wanted_by_its_names() {
        let session = |pid, name: &str| Session {
            pid,
            database: Some("db".into()),
            application_name: Some(name.into()),
            ..Session::default()
        };
        let mut answers = vec![vec![session(7, "report"), session(8, "web")], vec![session(8, "report")]].into_iter();
        let named = Named {
            application_name: Some("report".into()),
            database: Some("db".into()),
            ask: Box::new(move || answers.next()),
        };
        let mut whose = Whose::new(Wanted::Sessions(named), None);
        assert!(whose.refresh().is_empty() && whose.is_decided());
        assert_eq!([7, 8, 9].map(|pid| whose.of(pid)), [Verdict::Wanted, Verdict::Other, Verdict::Other]);
        assert_eq!(whose.others().collect::<Vec<_>>().len(), 2);
        assert_eq!(whose.refresh(), [8]);
        assert_eq!(whose.of(8), Verdict::Wanted);
        assert!(whose.remarks().is_empty());
    }

    #[test]
    fn what_a_command_does_itself_is_its_own() {
        let command = Arc::new(AtomicU32::new(0));
        let mut whose = Whose::new(Wanted::command(&command), None);
        assert_eq!(whose.of(1), Verdict::NotYet);
        assert!(!whose.is_decided());
        command.store(std::process::id(), Ordering::Release);
        assert_eq!(whose.of_listed(1), Verdict::NotYet, "its processes have not been looked at yet");
        assert_eq!((whose.of(std::process::id()), whose.is_decided()), (Verdict::Wanted, true));
        assert_eq!(whose.of(u32::MAX >> 1), Verdict::Wanted);
        assert!(whose.guesses()[0].contains("1 process that ended"), "{:?}", whose.guesses());
        assert_eq!(
            (whose.forget_ended(), whose.forget_ended()),
            (vec![], vec![u32::MAX >> 1]),
            "something may still be told of it"
        );
    }

    #[test]
    fn who_ran_before_the_command_or_served_another_is_not_taken_for_its_own() {
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let end = |child: &mut std::process::Child| {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        let of_command = Arc::new(AtomicU32::new(0));
        let mut whose = Whose::new(Wanted::command(&of_command), Some(std::process::id()));
        whose.know_earlier();
        let mut before = start();
        // Start times are in hundredths of a second.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let (mut command, mut short, mut other) = (start(), start(), start());
        of_command.store(command.id(), Ordering::Release);
        whose.know_earlier();
        assert_eq!(whose.of(other.id()), Verdict::Other, "nobody of the command is connected to it");
        [&mut before, &mut short, &mut other].into_iter().for_each(end);
        whose.forget_ended();
        let [before, short, other] = [before, short, other].map(|child| child.id());
        assert_eq!([before, short, other].map(|pid| whose.of(pid)), [Verdict::Other; 3]);
        for (asked, is_its) in [([before, short], false), ([other, short], false), ([short, short], true)] {
            whose.take_unseen(asked.into_iter());
            assert_eq!(whose.is_decided(), is_its, "{asked:?}");
        }
        assert_eq!(whose.of(short), Verdict::Wanted);
        let told = whose.guesses().join(" ");
        assert!(
            told.contains("1 process that ended") && told.contains("no other process requested anything"),
            "{told}"
        );
        end(&mut command);
    }

    #[test]
    fn an_io_worker_reads_for_nobody_alone() {
        let mut worker = std::process::Command::new("sleep").arg0("postgres: io worker 0").arg("60").spawn().unwrap();
        let command = Arc::new(AtomicU32::new(std::process::id()));
        let mut whose = Whose::new(Wanted::command(&command), Some(std::process::id()));
        // The title appears a moment after exec.
        while !read_title(worker.id()).unwrap().contains(IO_WORKER) {
            std::thread::yield_now();
        }
        assert_eq!(whose.of(worker.id()), Verdict::Wanted);
        assert!(!whose.is_certain(worker.id()) && !whose.is_decided() && whose.shared().is_some());
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    #[test]
    fn a_session_that_is_called_as_a_commands_is_its_own_too() {
        let mut children: Vec<_> =
            (0..2).map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap()).collect();
        let [pooled, other] = [0, 1].map(|at| children[at].id());
        let session = |pid, name: &str| Session { pid, application_name: Some(name.into()), ..Session::default() };
        let mut answers = vec![vec![session(other, "web")], vec![session(pooled, "report"), session(other, "web")]];
        let named = Named {
            application_name: Some("report".into()),
            database: None,
            ask: Box::new(move || (!answers.is_empty()).then(|| answers.remove(0))),
        };
        let command = Arc::new(AtomicU32::new(0));
        let wanted = Wanted::Command { pid: Arc::clone(&command), named: Some(named) };
        let mut whose = Whose::new(wanted, Some(std::process::id()));
        whose.refresh();
        assert_eq!(whose.of(other), Verdict::NotYet, "the command is being started");
        command.store(u32::MAX >> 1, Ordering::Release);
        assert_eq!([pooled, other].map(|pid| whose.of(pid)), [Verdict::NotYet, Verdict::Other]);
        whose.refresh();
        assert_eq!([pooled, other].map(|pid| whose.of(pid)), [Verdict::Wanted, Verdict::Other]);
        assert!(whose.is_decided());
        whose.refresh();
        let mut third = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_ne!(whose.of(third.id()), Verdict::NotYet);
        for child in children.iter_mut().chain([&mut third]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
