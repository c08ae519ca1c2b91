//! Reads wait times of processes from a source, sums them up by step, and detects stalls.

use std::cmp::Reverse;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::Error;
use crate::budget::{BudgetedSource, RefusedSource};
use crate::stall::{Stall, StallWatch};
use crate::time::account::{Accounting, By, FailedLooks, NamedStatistic, StatisticName};
use crate::time::culprits::{Culprits, waits_for_lock};
use crate::time::looks::OwnTransactions;
use crate::time::names::WaitNames;
use crate::time::report::{LookingCost, TimeReport};
use crate::time::roster::Roster;
use crate::time::source::{FileCall, FileTimes, LOOK, ProcessTimes, Reading, WaitEvent};
use host::failure::Explain as _;
use postgres::{LockProcess, Session, read_lock_waits, read_sessions, read_temporary_files};

/// Minimum interval of queries for lock waits and temporary files; after slow ones, `PARTS_OF_LOOKS` times their
/// duration.
const CULPRITS_LOOK: Duration = Duration::from_millis(400);
const PARTS_OF_LOOKS: u32 = 20;
/// Timeout of the query for lock waits, which takes 250 ms with 500 waiters.
const LOCKS_LOOK: Duration = Duration::from_secs(1);
/// Delay of the query for temporary files after it failed.
const REFUSED_TEMPORARY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Watch {
    roster: Roster,
    connection: Option<PgConnection>,
    own: Option<OwnTransactions>,
    /// Number of this connection's transactions that the server's statistics do not include yet. The next query of
    /// pg_stat_activity flushes the statistics. pgthaw then adds this number to `own`.
    untold: u64,
    asked_at: Instant,
    culprits_at: Instant,
    temporary_at: Instant,
    /// Lock waits since the last reading, to name the lock's holder in a stall.
    locks: Vec<LockProcess>,
    pub(crate) culprits: Culprits,
    gone: Option<oneshot::Sender<String>>,
    pub(crate) accounting: Accounting,
    names: WaitNames,
    /// Living processes with waits whose event has no known name.
    unnamed: Vec<u32>,
    pub(crate) stalls: Option<StallWatch>,
    earlier_stalls: Vec<Stall>,
    /// Last reading, not yet summed up.
    latest: Option<Reading>,
    /// Ended processes of earlier readings, not yet summed up.
    ended: Vec<ProcessTimes>,
    lasting: Vec<FileCall>,
}

impl Watch {
    pub async fn begin(
        source: &mut BudgetedSource,
        (connection, own): (PgConnection, Option<OwnTransactions>),
        mut roster: Roster,
        by: By,
        names: WaitNames,
        stalls: Option<StallWatch>,
    ) -> Result<Watch, Error> {
        let first = source.read()?;
        roster.learn(&first.processes, &[]);
        let mut accounting = Accounting::begin(first, by, names.clone());
        accounting.name_first(|process| roster.who(process));
        let (connection, now) = (Some(connection), Instant::now());
        Ok(Watch {
            roster,
            connection,
            own,
            untold: 0,
            asked_at: now,
            culprits_at: now,
            temporary_at: now,
            locks: Vec::new(),
            culprits: Culprits::default(),
            gone: None,
            accounting,
            names,
            unnamed: Vec::new(),
            stalls,
            earlier_stalls: Vec::new(),
            latest: None,
            ended: Vec::new(),
            lasting: Vec::new(),
        })
    }

    pub fn hear_gone(&mut self) -> oneshot::Receiver<String> {
        let (gone, is_gone) = oneshot::channel();
        self.gone = Some(gone);
        is_gone
    }

    pub fn follow(&mut self, connection: PgConnection, roster: Roster) {
        (self.connection, self.roster) = (Some(connection), roster);
    }

    pub fn follow_restart(&mut self, names: WaitNames, stalls: Option<StallWatch>) {
        self.accounting.follow_restart(names.clone());
        self.names = names;
        let earlier = std::mem::replace(&mut self.stalls, stalls);
        self.earlier_stalls.extend(earlier.map(|watch| watch.stalls.finish(false)).unwrap_or_default());
    }

    /// Calls `hear` after each `step` and when `end` completes. `hear` may empty `accounting`.
    pub async fn until<T>(
        &mut self,
        source: &mut BudgetedSource,
        step: Duration,
        end: impl Future<Output = T>,
        mut hear: impl FnMut(&mut Watch, &BudgetedSource),
    ) -> Result<T, Error> {
        let mut end = std::pin::pin!(end);
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
            let every = source.ask_every();
            if every <= LOOK || self.asked_at.elapsed() + LOOK / 2 >= every {
                self.look(source).await;
            }
            if let Some(why) = source.current.failure() {
                self.lose_server(why);
            }
            let is_due = looks % looks_of_step == 0 || ended.is_some();
            if is_due || self.stalls.is_some() {
                self.add(source.read()?).await;
            }
            if is_due {
                self.add_up();
                hear(self, &*source);
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn look(&mut self, source: &mut BudgetedSource) {
        let Some(connection) = &mut self.connection else { return };
        let since_ns = self.asked_at.elapsed().as_nanos() as u64;
        self.asked_at = Instant::now();
        let word = source.current.event_word().filter(|_| self.roster.postmaster_of_same_pids().is_some());
        let read_numbers = || word.map(|word| word.read_each(&self.unnamed));
        let before = read_numbers().filter(|before| before.values().any(|number| self.names.lacks(*number)));
        let own = self.own.as_ref().map(|own| (own, own.begin()));
        // A late answer must not delay readings.
        let answer = timeout(LOOK, read_sessions(connection)).await;
        source.current.see(answer.as_ref().ok().and_then(|answer| answer.as_deref().ok()));
        match answer {
            Ok(Ok(sessions)) => {
                if let (Some(before), Some(after)) = (&before, before.as_ref().and_then(|_| read_numbers())) {
                    self.names.learn(&sessions, before, &after);
                }
                own.inspect(|(own, _)| own.add(std::mem::take(&mut self.untold)));
                self.look_for_culprits(&sessions, since_ns).await;
                self.roster.see(sessions);
            }
            // A stopped server does not end the measurement.
            Ok(Err(error)) if error.is_server_gone() => self.lose_server(error.with_hint()),
            Ok(Err(error)) => {
                let failed = &mut self.accounting.span.failed;
                (failed.count, failed.why) = (failed.count + 1, error.with_hint());
            }
            Err(_) => {}
        }
    }

    async fn look_for_culprits(&mut self, sessions: &[Session], since_ns: u64) {
        let Some(connection) = &mut self.connection else { return };
        let sessions: Vec<Session> = sessions.iter().filter(|one| !self.roster.is_own(one.pid)).cloned().collect();
        let (begin, prepared) = (Instant::now(), connection.cached_statements_size());
        let (is_due, mut locks) = (self.culprits_at <= begin, None);
        if is_due && sessions.iter().any(waits_for_lock) {
            locks = timeout(LOCKS_LOOK, read_lock_waits(connection)).await.ok().and_then(Result::ok);
            locks.iter_mut().for_each(|locks| locks.retain(|one| !self.roster.is_own(one.session.pid)));
            locks.iter().for_each(|read| self.locks.clone_from(read));
            self.untold += 1;
        }
        self.culprits.look(&sessions, locks, since_ns);
        if is_due && self.temporary_at <= begin {
            match timeout(LOOK, read_temporary_files(connection)).await {
                Ok(Ok(files)) => self.culprits.see_temporary(&files, &sessions),
                // The role may get the privilege later.
                Ok(Err(_)) => self.temporary_at = begin + REFUSED_TEMPORARY,
                Err(_) => {}
            }
            self.untold += 1;
        }
        if is_due {
            self.untold += connection.cached_statements_size().saturating_sub(prepared) as u64;
            self.culprits_at = begin + CULPRITS_LOOK.max(begin.elapsed() * PARTS_OF_LOOKS);
        }
    }

    fn lose_server(&mut self, why: String) {
        self.connection = None;
        _ = self.gone.take().map(|gone| gone.send(why));
    }

    async fn add(&mut self, mut reading: Reading) {
        if reading.begins_from.is_some() {
            // The source has changed; the old source's last reading still counts.
            self.add_up();
        }
        let begins_from = self.latest.take().map(|before| {
            self.ended.extend(before.processes.into_iter().filter(|one| one.ended_ns.is_some()));
            before.begins_from
        });
        self.roster.learn(&reading.processes, &self.ended);
        let lacks = |event: &WaitEvent| matches!(event, WaitEvent::Number(number) if self.names.lacks(*number));
        let is_unnamed =
            |one: &&ProcessTimes| one.ended_ns.is_none() && one.waits.iter().any(|(event, _)| lacks(event));
        self.unnamed = reading.processes.iter().filter(is_unnamed).map(|one| one.pid).collect();
        if let Some(stalls) = &mut self.stalls {
            let locks = std::mem::take(&mut self.locks);
            self.untold += stalls.add(&reading, &self.roster, locks, self.connection.as_mut()).await;
        }
        if let Some(begins_from) = begins_from {
            reading.begins_from = begins_from;
        }
        let calls = reading.processes.iter().filter_map(|process| process.call.as_ref());
        self.lasting = calls.filter(|call| call.end_ns.is_none()).cloned().collect();
        self.latest = Some(reading);
    }

    fn add_up(&mut self) {
        let Some(mut reading) = self.latest.take() else { return };
        reading.processes.append(&mut self.ended);
        let roster = &self.roster;
        self.accounting.add(reading, |process| roster.who(process));
    }

    /// Also returns the failed queries for processes, and whether the server still answered.
    pub async fn finish(
        mut self,
        source: &mut BudgetedSource,
        refused: Vec<RefusedSource>,
        cost: LookingCost,
    ) -> Result<(TimeReport, FailedLooks, bool), Error> {
        self.accounting.finish();
        let (at_ns, look_ns) = (self.accounting.at_ns, self.accounting.length_ns());
        let lasting = self.lasting.iter().map(|call| FileTimes::of_call(call, at_ns));
        let files = FileTimes::merge(source.files()?.into_iter().chain(lasting).collect());
        let mut files: Vec<FileTimes> = files.into_iter().map(|file| file.within(look_ns)).collect();
        if let (Some(connection), Some(stalls)) = (&mut self.connection, &mut self.stalls) {
            for file in &mut files {
                file.relation = stalls.name_relation(&file.file, connection).await;
            }
        }
        files.sort_by_key(|file| Reverse((file.syncs.total_ns, file.slept_ns, file.written.bytes)));
        let found = self.stalls.map(|watch| watch.stalls.finish(false)).unwrap_or_default();
        let Accounting { by, span, handled, begun_before, lasting, seconds, total, processes, .. } = self.accounting;
        let handled = handled.into_iter().map(|(place, statistic)| (StatisticName::of_commands(place), statistic));
        let report = TimeReport {
            source: source.current.tier(),
            refused,
            by,
            length_ns: look_ns,
            processes,
            total,
            explained: total.explained(),
            clients: span.clients,
            lived: span.lived,
            handled_by: NamedStatistic::all_of(handled.collect()),
            begun_before,
            lasting,
            statistics: NamedStatistic::all_of(span.statistics),
            seconds,
            stalls: self.earlier_stalls.into_iter().chain(found).collect(),
            files,
            blockers: self.culprits.seen_blockers,
            temporary_files: self.culprits.seen_temporary,
            reductions: source.reductions.clone(),
            imperfect: span.imperfect,
            cost,
            remarks: Vec::new(),
            recorded_ms: None,
        };
        Ok((report, span.failed, self.connection.is_some()))
    }
}
