//! Decides which processes belong to a job: those that it started, the server processes that serve them, and sessions with its name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use host::linux::process::{is_alive, read_listed_children, read_parent, read_start_ticks, read_title};
use host::linux::sockets::{Client, Clients};
use postgres::{Session, WALSENDER, background_kind, leader_of};

/// Title of I/O workers, which read for any session (PostgreSQL 18, `io_method = worker`).
pub const IO_WORKER: &str = "io worker";

/// Queries the server's sessions; `None` if it does not answer.
pub type AskSessions = Box<dyn FnMut() -> Option<Vec<Session>> + Send>;

/// Sessions with these names. `None` matches any.
pub struct Named {
    pub application_name: Option<String>,
    pub database: Option<String>,
    pub ask: AskSessions,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Named { application_name, database, .. } = self;
        let mut shown = f.debug_struct("Named");
        shown.field("application_name", application_name).field("database", database).finish_non_exhaustive()
    }
}

impl Named {
    fn are(&self, session: &Session) -> bool {
        let is_wanted = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is_wanted(&self.application_name, &session.application_name) && is_wanted(&self.database, &session.database)
    }
}

/// Whose reads are wanted.
#[derive(Debug, Default)]
pub enum Wanted {
    #[default]
    Everybody,
    /// Processes of a command, and sessions that have its sessions' names, even if another process is connected to them.
    Command {
        /// 0 until it has been started.
        pid: Arc<AtomicU32>,
        named: Option<Named>,
    },
    /// One server process's, with its parallel workers.
    Backend(u32),
    Sessions(Named),
}

impl Wanted {
    /// A command's alone.
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

/// What is known about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its reads are wanted.
    Wanted,
    Other,
    /// It is a session of pgthaw.
    Own,
    /// Not known yet: its session may still set a name.
    NotYet,
}

/// Decides whose a process is, and remembers it.
#[derive(Debug, Default)]
pub struct Whose {
    wanted: Wanted,
    pub postmaster_pid: Option<u32>,
    /// The ticks of this process's start.
    begun: u64,
    /// The living processes of the command, with the ticks of their start, because pids are reused.
    family: BTreeMap<u32, u64>,
    known: HashMap<u32, Verdict>,
    /// The server's sessions at the last query, and whether it still answers.
    sessions: Vec<Session>,
    answers: bool,
    has_seen_wanted: bool,
    /// I/O workers, which read for the job and for others.
    io_workers: HashSet<u32>,
    /// Processes that ended before pgthaw could look.
    unseen: HashSet<u32>,
    /// Processes that had ended when pgthaw looked for that last: of these the kernel may still tell something.
    ended: HashSet<u32>,
    /// The clients of server processes, as far as they are the command's processes or this one.
    clients: Clients,
    /// Processes that are not the command's: they ran before it, serve another client, or work for the server.
    pub strangers: HashSet<u32>,
    /// The command, once the processes that ran before it are known; 0 before.
    command: u32,
    /// Number of processes that ended before pgthaw could look. They count as the command's.
    unknown: u64,
    /// Number of processes that count as the command's because no other process read anything.
    alone: u64,
    /// Why pgthaw cannot see which client a process serves.
    pub trouble: Option<String>,
}

impl Whose {
    pub fn new(wanted: Wanted, postmaster_pid: Option<u32>) -> Whose {
        let begun = read_start_ticks(std::process::id()).unwrap_or_default();
        Whose { wanted, postmaster_pid, begun, ..Whose::default() }
    }

    /// Returns what is known about a process. A pid that is reused has to be forgotten first.
    pub fn of(&mut self, pid: u32) -> Verdict {
        if !self.known.get(&pid).is_some_and(|known| *known != Verdict::NotYet) {
            self.look_at_family();
        }
        self.of_listed(pid)
    }

    /// [`Whose::of`], of one that was there when it was looked at the command's processes last.
    pub fn of_listed(&mut self, pid: u32) -> Verdict {
        if let Some(known) = self.known.get(&pid).filter(|known| **known != Verdict::NotYet) {
            return *known;
        }
        let verdict = self.judge(pid);
        self.known.insert(pid, verdict);
        verdict
    }

    /// Queries the server's sessions again. Returns the processes that were another's and are wanted now.
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

    /// Is it known which processes are wanted? Those of a command are known once the first of them was seen.
    pub fn is_decided(&self) -> bool {
        self.has_seen_wanted || !self.is_of_command()
    }

    /// Once the command runs, notes which server processes started before it: they do not serve it.
    pub fn know_earlier(&mut self) {
        let Wanted::Command { pid, .. } = &self.wanted else { return };
        let command = pid.load(Ordering::Acquire);
        if command == std::mem::replace(&mut self.command, command) {
            return;
        }
        // The start of a command that has ended is unknown.
        let Ok(begun) = read_start_ticks(command) else { return };
        self.family.insert(command, begun);
        let children = self.postmaster_pid.and_then(|postmaster| read_listed_children(postmaster).ok());
        let children = children.unwrap_or_default();
        let is_earlier = |pid: &u32| read_start_ticks(*pid).is_ok_and(|started| started < begun);
        self.strangers.extend(children.into_iter().filter(is_earlier));
    }

    /// Counts these processes as the command's if none of its own was seen, and all of them started after it and ended before pgthaw could look.
    pub fn take_unseen(&mut self, pids: impl Iterator<Item = u32>) {
        let pids: HashSet<u32> = pids.collect();
        if pids.is_empty() || !pids.is_subset(&self.unseen) {
            return;
        }
        self.alone = pids.len() as u64;
        self.known.extend(pids.into_iter().map(|pid| (pid, Verdict::Wanted)));
        self.has_seen_wanted = true;
    }

    /// Was this process seen to be a wanted one, which works for nobody else?
    pub fn is_certain(&self, pid: u32) -> bool {
        let is_shared = self.io_workers.contains(&pid) || self.unseen.contains(&pid) || self.wants_everybody();
        self.known.get(&pid) == Some(&Verdict::Wanted) && !is_shared
    }

    /// Why it is not known for whom some of the wanted processes read.
    pub fn shared(&self) -> Option<&'static str> {
        (!self.io_workers.is_empty()).then_some("I/O workers read for every session (io_method = sync mends that)")
    }

    pub fn is_of_command(&self) -> bool {
        matches!(self.wanted, Wanted::Command { .. })
    }

    pub fn wants_everybody(&self) -> bool {
        matches!(self.wanted, Wanted::Everybody)
    }

    /// Wants every process from now on.
    pub fn want_everybody(&mut self) {
        self.wanted = Wanted::Everybody;
        self.known.clear();
    }

    /// The processes that are another's.
    pub fn others(&self) -> impl Iterator<Item = u32> {
        self.known.iter().filter(|(_, known)| **known == Verdict::Other).map(|(pid, _)| *pid)
    }

    pub fn forget(&mut self, pid: u32) {
        self.known.remove(&pid);
    }

    /// Forgets the processes that had ended when this was called last, and returns them.
    pub fn forget_ended(&mut self) -> Vec<u32> {
        let ended: HashSet<u32> =
            self.known.keys().copied().filter(|pid| read_parent(*pid).is_err() && *pid != 1).collect();
        let forgotten: Vec<u32> = self.ended.intersection(&ended).copied().collect();
        forgotten.iter().for_each(|pid| _ = self.known.remove(pid));
        self.ended = ended;
        forgotten
    }

    /// Remarks on how processes were told apart.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.shared().is_some() && !self.wants_everybody() {
            remarks.push("what I/O workers read is in the film, whomever they read it for".to_owned());
        }
        if !self.has_seen_wanted && matches!(self.wanted, Wanted::Backend(_) | Wanted::Sessions(_)) {
            remarks.push("nobody who was to be recorded was seen to ask the page cache for anything".to_owned());
        }
        remarks
    }

    /// Remarks on processes that count as the command's without having been seen to be.
    pub fn guesses(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.unknown > 0 {
            let unknown = host::units::counted(self.unknown, "process");
            remarks.push(format!("{unknown} ended before pgthaw knew for whom: counted as the command's"));
        }
        if self.alone > 0 {
            let alone = host::units::counted(self.alone, "process");
            let why = "taken for the command's, because nobody else asked for anything";
            remarks.push(format!("{alone} ended before anybody could look: {why}"));
        }
        remarks
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

    /// Is this process the command's, or is it called as the command's sessions are?
    fn judge_of_command(&mut self, pid: u32, command: u32) -> Verdict {
        // It is being started: this one ran before.
        if command == 0 {
            self.strangers.insert(pid);
            return Verdict::NotYet;
        }
        let by_name = self.judge_session(pid);
        if by_name == Verdict::Wanted {
            return by_name;
        }
        match self.judge_client(pid, command) {
            // Who is connected may be about to say what he is called, as long as anybody tells us.
            Verdict::Other if by_name == Verdict::NotYet && self.answers => Verdict::NotYet,
            verdict => verdict,
        }
    }

    /// Does this process serve the command, or is it one of its own?
    fn judge_client(&mut self, pid: u32, command: u32) -> Verdict {
        let is_server = self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster));
        let client = match is_server {
            // Who connects was there before. So however many others are connected, nobody has to look at their sockets.
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
            // Once it has ended it is asked again whose it was.
            Client::Other => {
                self.strangers.insert(pid);
                Verdict::Other
            }
            // It may have been the command's, unless it was seen to be another's. Before the command's has been seen at all, it does not count
            // as that.
            Client::Ended if self.strangers.contains(&pid) => Verdict::Other,
            Client::Ended => {
                self.unseen.insert(pid);
                self.unknown += u64::from(self.has_seen_wanted);
                if self.has_seen_wanted { Verdict::Wanted } else { Verdict::Other }
            }
        }
    }

    /// Which of the command's processes or this one does a server's process serve?
    fn find_client(&mut self, pid: u32) -> Client {
        self.clients.of(pid).unwrap_or_else(|error| {
            // A process that has just ended is no trouble.
            if is_alive(pid) {
                self.trouble.get_or_insert(error.to_string());
            }
            Client::Ended
        })
    }

    /// Updates the command's processes: those that were known and live, and their children.
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
            // It may be about to say so.
            let is_server = self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster));
            return if is_server { Verdict::NotYet } else { Verdict::Other };
        };
        match named.are(session) {
            true => Verdict::Wanted,
            false => Verdict::Other,
        }
    }
}

/// Is it one of the server's own, that no client is connected to? A walsender has one, such as pg_basebackup.
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
        // It calls itself something else now.
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
        // Nobody has such a number.
        assert_eq!(whose.of(u32::MAX >> 1), Verdict::Wanted);
        assert!(whose.guesses()[0].contains("1 process ended"), "{:?}", whose.guesses());
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
        // This process stands for the postmaster.
        let of_command = Arc::new(AtomicU32::new(0));
        let mut whose = Whose::new(Wanted::command(&of_command), Some(std::process::id()));
        whose.know_earlier();
        let mut before = start();
        // The kernel counts start times in hundredths of a second.
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
        assert!(told.contains("1 process ended") && told.contains("nobody else asked for anything"), "{told}");
        end(&mut command);
    }

    #[test]
    fn an_io_worker_reads_for_nobody_alone() {
        let mut worker = std::process::Command::new("sleep").arg0("postgres: io worker 0").arg("60").spawn().unwrap();
        let command = Arc::new(AtomicU32::new(std::process::id()));
        let mut whose = Whose::new(Wanted::command(&command), Some(std::process::id()));
        // Its words are there a moment after its program.
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
        // Of a command that has no process of its own; this one stands for the postmaster.
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
        // From now on the server does not answer: nobody is waited for.
        whose.refresh();
        let mut third = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_ne!(whose.of(third.id()), Verdict::NotYet);
        for child in children.iter_mut().chain([&mut third]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
