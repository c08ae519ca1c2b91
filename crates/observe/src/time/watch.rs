//! Reads a source until it is to end, adds up what it says by steps, and looks for stalls in finer ones.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::Error;
use crate::stall::{Stall, StallWatch};
use crate::time::account::{Accounting, By};
use crate::time::culprits::Culprits;
use crate::time::looks::OwnTransactions;
use crate::time::names::WaitNames;
use crate::time::roster::Roster;
use crate::time::source::{FileCall, FileTimes, ProcessTimes, Reading, TimeSource};
use host::linux::clock::read_wall_ms;
use postgres::{LockProcess, Session, read_lock_waits, read_sessions, read_temporary_files};

/// The server is asked at least so often who its processes are: one that came and went between two questions is nobody in particular. So
/// often the source is read too where stalls are looked for.
const LOOK: Duration = Duration::from_millis(250);

/// Where that is too dear it is asked once in so long.
const SELDOM_LOOK: Duration = Duration::from_secs(2);

/// Lock waits are read this often while there are any, and temporary files always. Neither takes more than this share of the time.
const LOCK_LOOK: Duration = Duration::from_millis(400);
const TEMPORARY_LOOK: Duration = Duration::from_secs(1);
const SHARE_OF_LOOKS: u32 = 20;

/// Adds up what a source says, and asks the server at about the same time who its processes are.
#[derive(Debug)]
pub struct Watch {
    roster: Roster,
    connection: Option<PgConnection>,
    own: Option<OwnTransactions>,
    /// Transactions of this connection besides its looks, which the server counts with the next look.
    untold: u64,
    asked_at: Instant,
    /// When lock waits and temporary files are due; `None`: never, for this role may not know them.
    locks_at: Option<Instant>,
    temporary_at: Option<Instant>,
    /// Lock waits that were read since the last reading.
    locks: Vec<LockProcess>,
    culprits: Culprits,
    /// Is told when the server does not answer any more.
    gone: Option<oneshot::Sender<()>>,
    accounting: Accounting,
    /// `None` where stalls are not looked for.
    stalls: Option<StallWatch>,
    /// Those of servers that were looked at before this one.
    earlier_stalls: Vec<Stall>,
    /// The last reading, when it has not been added up, and those who ended before it and have not been either.
    latest: Option<Reading>,
    ended: Vec<ProcessTimes>,
    /// Calls of files that lasted at the last reading, and when that was.
    lasting: Vec<FileCall>,
    read_at_ns: u64,
}

/// What was added up and found.
#[derive(Debug)]
pub struct Watched {
    pub accounting: Accounting,
    pub stalls: Vec<Stall>,
    pub files: Vec<FileTimes>,
    pub culprits: Culprits,
    /// Did the server answer until the end?
    pub answered: bool,
}

impl Watch {
    /// Begins with what the source says now. What is asked through the connection is counted as `own`, where somebody wants to know.
    pub async fn begin(
        source: &mut dyn TimeSource,
        (connection, own): (PgConnection, Option<OwnTransactions>),
        mut roster: Roster,
        by: By,
        names: WaitNames,
        stalls: Option<StallWatch>,
    ) -> Result<Watch, Error> {
        let first = source.read()?;
        roster.learn(&first.processes);
        let mut accounting = Accounting::begin(first, by, names);
        accounting.name_first(|process| roster.who(process));
        let (connection, now) = (Some(connection), Instant::now());
        Ok(Watch {
            roster,
            connection,
            own,
            untold: 0,
            asked_at: now,
            locks_at: Some(now),
            temporary_at: Some(now),
            locks: Vec::new(),
            culprits: Culprits::default(),
            gone: None,
            accounting,
            stalls,
            earlier_stalls: Vec::new(),
            latest: None,
            ended: Vec::new(),
            lasting: Vec::new(),
            read_at_ns: 0,
        })
    }

    /// Is told when the server does not answer any more.
    pub fn hear_gone(&mut self) -> oneshot::Receiver<()> {
        let (gone, is_gone) = oneshot::channel();
        self.gone = Some(gone);
        is_gone
    }

    /// Goes on with a server that answers again. What was added up stays, and what was found.
    pub fn follow(&mut self, connection: PgConnection, roster: Roster) {
        (self.connection, self.roster) = (Some(connection), roster);
    }

    /// Goes on with another server, or the same one after a restart: its events have other names, perhaps, and there is no throughput yet
    /// to judge stalls by.
    pub fn follow_restart(&mut self, names: WaitNames, stalls: Option<StallWatch>) {
        self.accounting.follow_restart(names);
        let earlier = std::mem::replace(&mut self.stalls, stalls);
        self.earlier_stalls.extend(earlier.map(StallWatch::finish).unwrap_or_default());
    }

    /// Reads at each `step` until `end` is there, and once more then. `hear` is told of each reading, and may take out what was
    /// added up.
    pub async fn until<T, S: TimeSource>(
        &mut self,
        source: &mut S,
        step: Duration,
        end: impl Future<Output = T>,
        mut hear: impl FnMut(&mut Accounting, &S, Option<&StallWatch>, &Culprits),
    ) -> Result<T, Error> {
        let mut end = std::pin::pin!(end);
        // As many looks, evenly, as fit into a step.
        let looks_of_step = step.as_nanos().div_ceil(LOOK.as_nanos()).max(1) as u32;
        let between = step / looks_of_step;
        let mut ticks = interval_at(Instant::now() + between, between);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut looks = 0;
        loop {
            looks += 1;
            let ended = tokio::select! {
                biased;
                ended = &mut end => Some(ended),
                _ = ticks.tick() => None,
            };
            // Ticks come a little sooner or later.
            if !source.asks_seldom() || self.asked_at.elapsed() + LOOK / 2 >= SELDOM_LOOK {
                self.look().await;
            }
            let is_due = looks % looks_of_step == 0 || ended.is_some();
            if is_due || self.stalls.is_some() {
                self.add(source.read()?).await;
            }
            if is_due {
                self.add_up();
                hear(&mut self.accounting, &*source, self.stalls.as_ref(), &self.culprits);
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn look(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let since_ns = self.asked_at.elapsed().as_nanos() as u64;
        self.asked_at = Instant::now();
        let own = self.own.as_ref().map(|own| (own, own.begin()));
        // One that answers late keeps no reading waiting: what it says then is passed over.
        match timeout(LOOK, read_sessions(connection)).await {
            Ok(Ok(sessions)) => {
                own.inspect(|(own, _)| own.add(std::mem::take(&mut self.untold)));
                self.look_for_culprits(&sessions, since_ns).await;
                self.roster.see(sessions);
            }
            // A server that is stopped meanwhile ends no measurement.
            Ok(Err(_)) => {
                self.connection = None;
                // Who does not listen does not want to know.
                _ = self.gone.take().map(|gone| gone.send(()));
            }
            Err(_) => {}
        }
    }

    /// Asks for lock waits while somebody waits for one, and for temporary files.
    async fn look_for_culprits(&mut self, sessions: &[Session], since_ns: u64) {
        let Some(connection) = &mut self.connection else { return };
        let sessions: Vec<Session> = sessions.iter().filter(|one| !self.roster.is_own(one.pid)).cloned().collect();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        let prepared = connection.cached_statements_size();
        let (mut locks, begin) = (None, Instant::now());
        if is_due(self.locks_at) && sessions.iter().any(|one| one.event_type.as_deref() == Some("Lock")) {
            locks = timeout(LOOK, read_lock_waits(connection)).await.ok().and_then(Result::ok);
            self.locks_at = Some(begin + LOCK_LOOK.max(begin.elapsed() * SHARE_OF_LOOKS));
            self.untold += 1;
        }
        if let Some(locks) = &locks {
            self.locks.clone_from(locks);
        }
        self.culprits.look(&sessions, locks, read_wall_ms(), since_ns);
        let begin = Instant::now();
        if is_due(self.temporary_at) {
            let files = timeout(LOOK, read_temporary_files(connection)).await;
            self.temporary_at = match files {
                Ok(Err(_)) => None,
                _ => Some(begin + TEMPORARY_LOOK.max(begin.elapsed() * SHARE_OF_LOOKS)),
            };
            self.culprits.see_temporary(&files.ok().and_then(Result::ok).unwrap_or_default(), &sessions);
            self.untold += 1;
        }
        self.untold += connection.cached_statements_size().saturating_sub(prepared) as u64;
    }

    async fn add(&mut self, mut reading: Reading) {
        if reading.begins_from.is_some() {
            // Of what the source before has told nothing is lost.
            self.add_up();
        }
        self.roster.learn(&reading.processes);
        if let Some(stalls) = &mut self.stalls {
            self.untold +=
                stalls.add(&reading, &self.roster, &std::mem::take(&mut self.locks), self.connection.as_mut()).await;
        }
        if let Some(before) = self.latest.take() {
            self.ended.extend(before.processes.into_iter().filter(|one| one.ended_ns.is_some()));
            reading.begins_from = before.begins_from;
        }
        let calls = reading.processes.iter().filter_map(|process| process.call.as_ref());
        self.lasting = calls.filter(|call| call.end_ns.is_none()).cloned().collect();
        self.read_at_ns = reading.at_ns;
        self.latest = Some(reading);
    }

    fn add_up(&mut self) {
        let Some(mut reading) = self.latest.take() else { return };
        reading.processes.append(&mut self.ended);
        let roster = &self.roster;
        self.accounting.add(reading, |process| roster.who(process));
    }

    /// What was added up and found, with what the source knows of files.
    pub async fn finish(mut self, source: &mut dyn TimeSource) -> Result<Watched, Error> {
        self.accounting.finish();
        let files = FileTimes::with_lasting(source.files()?, &self.lasting, self.read_at_ns);
        let look_ns = self.accounting.length_ns();
        let mut files: Vec<FileTimes> = files.into_iter().map(|file| file.within(look_ns)).collect();
        if let (Some(connection), Some(stalls)) = (&mut self.connection, &mut self.stalls) {
            for file in &mut files {
                file.relation = stalls.name_relation(&file.file, connection).await;
            }
        }
        let found = self.stalls.map(StallWatch::finish).unwrap_or_default();
        Ok(Watched {
            accounting: self.accounting,
            stalls: self.earlier_stalls.into_iter().chain(found).collect(),
            files,
            culprits: self.culprits,
            answered: self.connection.is_some(),
        })
    }
}
