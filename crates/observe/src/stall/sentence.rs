//! Determines a stall's cause and describes it, from the steps before and during the stall. No I/O.
//!
//! Part of `--json`: never rename fields.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};

use super::step::{LOG_DEVICE, Means, SeenCall, Step};
use crate::time::{FileCallKind, FileKind, WrittenTo, class_until_18};
use crate::top::CheckpointPhase;
use host::units::{Bytes, group_digits};
use postgres::LockProcess;

/// Cause of a stall (docs/waits.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StallKind {
    /// Sync of a relation's file or of a transaction status file.
    FileSync,
    /// A flush of WAL.
    WalFlush,
    /// Writing of temporary files.
    TemporaryFiles,
    /// A lock.
    Lock,
    /// A pin on a buffer.
    BufferPin,
    /// A checkpoint as a whole, not one of its files.
    Checkpoint,
    /// Processors used up by other processes or virtual machines.
    Processors,
    /// A slow device.
    Device,
    /// Short memory.
    Memory,
    /// No client sent commands.
    ClientPause,
    /// Slow clients or network.
    ClientDelay,
    /// No cause is known.
    Unexplained,
}

/// A temporary drop far below the usual throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Stall {
    /// Unix time in milliseconds.
    pub begin_ms: i64,
    /// `None` while in progress.
    pub end_ms: Option<i64>,
    /// Length so far, if in progress.
    pub length_ns: u64,
    pub kind: StallKind,
    /// The cause. It may change during the stall.
    pub sentence: String,
    /// Commands per second in the worst step; in a history of samples, transactions.
    pub least_per_second: f64,
    /// Usual commands per second.
    pub usual_per_second: f64,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", render_span(self.begin_ms, self.end_ms), self.sentence)
    }
}

/// `03:10:02–03:10:22 CET`
pub fn render_span(begin_ms: i64, end_ms: Option<i64>) -> String {
    let end = end_ms.map_or_else(|| "now".to_owned(), |ms| local_time(ms).strftime("%T").to_string());
    local_time(begin_ms).strftime(&format!("%T–{end} %Z")).to_string()
}

/// `03:10:02 CET`
pub fn render_clock(ms: i64) -> String {
    local_time(ms).strftime("%T %Z").to_string()
}

/// The time zone of the environment or the host, as in a server's log; UTC if there is none.
pub fn local_time(ms: i64) -> Zoned {
    let zone = TimeZone::try_system().unwrap_or(TimeZone::UTC);
    Timestamp::from_millisecond(ms).unwrap_or_default().to_zoned(zone)
}

/// Classes of wait events in which something else blocks a backend.
pub(super) const BLOCKED: [&str; 5] = ["LWLock", "Lock", "BufferPin", "IO", "IPC"];

/// Here, "many" backends are at least this share of all backends.
const VICTIMS: f64 = 0.2;

/// Waits of at least this share of the working backends can explain a stall even if the waits have not increased, as
/// on an always slow device.
const NEARLY_ALL: f64 = 0.8;

/// Minimum share of the stall that file calls must take to be the stall's cause. Calls for WAL are added up over all
/// processes, other calls for each process.
const FILLS: f64 = 0.4;

/// Other processes or virtual machines are the cause only if they use at least this share of all processors more than
/// before, and if at least `ALL_TAKEN` of all processors are in use.
const TAKEN: f64 = 0.25;
const ALL_TAKEN: f64 = 0.9;

/// Clients may lack processors if some task waited for a processor for at least this share of the time.
const PROCESSOR_WAIT: f64 = 0.8;

/// Minimum average number of waiting backends that counts: one backend for half of the time.
const SOMEBODY: f64 = 0.5;

const MEMORY_WAIT: f64 = 0.2;

/// Clients are the cause only if at least this share of backends waits for clients, for at least `WITH_CLIENT_FOR` of
/// the stall.
const WITH_CLIENT: f64 = 0.8;
const WITH_CLIENT_FOR: f64 = 0.6;

/// In a pause, less than this share of the clients sends anything.
const PAUSE: f64 = 0.2;

const SATURATED: f64 = 0.9;

/// A sync of a file is taken to wait for writes to other files if these received at least this many times the bytes of
/// the file itself.
const MUCH_MORE: u64 = 4;

/// A lock holder that sleeps or waits for its client is the cause only if at least this number, and at least the share
/// `MOST`, of pgthaw's lock queries show it.
const LOOKS_OF_HOLDER: usize = 2;
const MOST: f64 = 0.8;

const LARGE: u64 = 8 << 20;

const EVENTS_NAMED: usize = 3;

pub fn name_stall(during: &[Step], before: &[Step], usual_per_second: f64) -> (StallKind, String) {
    let seen = Seen { during, before, now: Means::of(during), then: Means::of(before), usual_per_second };
    // A cause is tested before other causes whose symptoms it also produces.
    let (kind, cause) = seen
        .memory()
        .or_else(|| seen.temporary_files())
        .or_else(|| seen.lock_held())
        .or_else(|| seen.processors())
        .or_else(|| seen.clients())
        .or_else(|| seen.locks())
        .or_else(|| seen.checkpoint_before_log())
        .or_else(|| seen.files())
        .or_else(|| seen.buffer_pin())
        .or_else(|| seen.device(true))
        .or_else(|| seen.checkpoint())
        .or_else(|| seen.device(false))
        .or_else(|| seen.crowd())
        .unwrap_or_else(|| seen.unexplained());
    (kind, format!("{} {cause}", seen.head()))
}

struct Seen<'a> {
    during: &'a [Step],
    before: &'a [Step],
    now: Means,
    then: Means,
    usual_per_second: f64,
}

/// File calls of one process during the stall; for WAL files, of all processes.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    overlap_ns: u64,
    calls: usize,
    longest: &'a SeenCall,
    longest_ns: u64,
}

impl<'a> Seen<'a> {
    fn head(&self) -> String {
        let (seconds, rate) = (self.now.seconds, self.now.commands_per_second().round());
        match self.now.commands {
            0 => format!("no command for {seconds:.1} s."),
            _ => format!(
                "{} {} a second for {seconds:.1} s, usually {}.",
                group_digits(rate),
                if rate == 1.0 { "command" } else { "commands" },
                group_digits(self.usual_per_second.round())
            ),
        }
    }

    fn grew(&self, classes: &[&str]) -> f64 {
        self.now.of_classes(classes) - self.then.of_classes(classes)
    }

    /// True if many more backends wait than before, or nearly all wait.
    fn keep(&self, classes: &[&str]) -> bool {
        let kept = self.now.of_classes(classes);
        self.grew(classes) >= self.many() || kept >= SOMEBODY && kept >= NEARLY_ALL * self.now.at_work()
    }

    fn many(&self) -> f64 {
        VICTIMS * self.now.backends.max(1.0)
    }

    fn victims(&self) -> String {
        let grown = self.now.grown(&self.then, &BLOCKED);
        let named: Vec<&(String, f64)> = grown.iter().take(EVENTS_NAMED).filter(|(_, now)| *now >= SOMEBODY).collect();
        let sum: f64 = named.iter().map(|(_, now)| now).sum();
        let of = self.now.backends.round() as u64;
        let Some(events) = join_words(&named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>()) else {
            return String::new();
        };
        format!("; {} of {of} backends waited in {events} behind it", (sum.round() as u64).min(of))
    }

    fn memory(&self) -> Option<(StallKind, String)> {
        let (now, then) = (self.now.memory_wait, self.then.memory_wait);
        let is_short = now >= MEMORY_WAIT && now >= 2.0 * then;
        let (now, then) = (100.0 * now, 100.0 * then);
        let told = format!("memory was short: processes waited for it {now:.0} % of the time, {then:.0} % before.");
        is_short.then_some((StallKind::Memory, told))
    }

    fn processors(&self) -> Option<(StallKind, String)> {
        let all = self.now.processors;
        let (others, stolen) = (self.now.others() - self.then.others(), self.now.steal - self.then.steal);
        let are_taken = self.now.busy + self.now.steal >= ALL_TAKEN * all && others.max(stolen) >= TAKEN * all;
        // Processors are short if many backends are ready. If few are ready or blocked, clients on this host may lack
        // processors: then some task waits for one most of the time.
        let are_clients_short = self.grew(&BLOCKED) < self.many() && self.now.processor_wait >= PROCESSOR_WAIT;
        let is_missed = self.now.ready >= self.many() || are_clients_short;
        if all <= 0.0 || !are_taken || !is_missed {
            return None;
        }
        let (who, now, then) = match others >= stolen {
            true => ("other processes", self.now.others(), self.then.others()),
            false => ("other virtual machines", self.now.steal, self.then.steal),
        };
        let ready = self.now.ready.round() as u64;
        let of = self.now.backends.round() as u64;
        let victims =
            if ready > 0 { format!("; {ready} of {of} backends waited for a processor") } else { String::new() };
        Some((StallKind::Processors, format!("{who} used {now:.1} of {all:.0} processors, {then:.1} before{victims}.")))
    }

    fn clients(&self) -> Option<(StallKind, String)> {
        let waiting = self.now.of_classes(&["Client"]);
        // Tolerates short lock waits when all clients return at once.
        let with_ns: u64 = self.steps_with_clients().iter().map(|step| step.length_ns).sum();
        let is_with_clients = with_ns as f64 / 1e9 >= WITH_CLIENT_FOR * self.now.seconds;
        if self.now.backends < SOMEBODY || !is_with_clients || self.grew(&BLOCKED) >= self.many() {
            return None;
        }
        let (kind, what, whom) = match self.clients_pause() {
            true => (StallKind::ClientPause, "the clients sent nothing", "them"),
            false => (StallKind::ClientDelay, "the clients, or the network to them, were slow", "their client"),
        };
        let (waiting, of) = (waiting.round() as u64, self.now.backends.round() as u64);
        Some((kind, format!("{what}: {waiting} of {of} backends waited for {whom}.")))
    }

    /// Steps in which backends mostly wait for clients.
    fn steps_with_clients(&self) -> Vec<&Step> {
        let is_with_client = |step: &&Step| {
            let waits = step.waits.iter().filter(|((class, _), _)| class == "Client");
            waits.map(|(_, count)| count).sum::<f64>() >= WITH_CLIENT * step.backends
        };
        self.during.iter().filter(is_with_client).collect()
    }

    /// True if hardly any client sent anything. Ignores the first and last steps (normal traffic) and one lone client.
    fn clients_pause(&self) -> bool {
        let steps = self.steps_with_clients();
        let inner = steps.get(1..steps.len().saturating_sub(1)).unwrap_or_default();
        let asked: BTreeSet<u32> = inner.iter().flat_map(|step| step.asked.iter().copied()).collect();
        let is_onlooker_alone = asked.len() <= 1 && self.now.backends >= 1.5;
        is_onlooker_alone || (asked.len() as f64) < PAUSE * self.now.backends
    }

    fn looks(&self) -> Vec<&[LockProcess]> {
        self.during.iter().map(|step| &step.holders[..]).filter(|holders| !holders.is_empty()).collect()
    }

    /// The latest of pgthaw's lock queries that shows the main blocker: the lock holder that most queries show and that
    /// waits for no lock itself. Later queries may show only sessions that hold a lock briefly.
    fn usual_look(&self) -> Option<&[LockProcess]> {
        let looks = self.looks();
        let has =
            |look: &[LockProcess], pid: u32| look.iter().any(|one| one.session.pid == pid && !waits_for(one, "Lock"));
        let seen = |one: &LockProcess| looks.iter().filter(|look| has(look, one.session.pid)).count();
        looks.iter().copied().max_by_key(|look| look.iter().map(seen).max())
    }

    fn lock_held(&self) -> Option<(StallKind, String)> {
        let looks = self.looks();
        let sleeps = |one: &&LockProcess| class_of_wait(one).is_some_and(|class| !BLOCKED.contains(&class));
        let seen_often = |pid: u32| {
            let with = looks.iter().filter(|holders| holders.iter().any(|one| one.session.pid == pid)).count();
            with >= LOOKS_OF_HOLDER && with as f64 >= MOST * looks.len() as f64
        };
        let usual = self.usual_look().filter(|_| self.grew(&["Lock"]) >= self.many())?;
        let holder =
            usual.iter().filter(sleeps).filter(|one| seen_often(one.session.pid)).max_by_key(|one| one.waiters)?;
        // If a lock holder waits for a buffer pin, `locks` reports the pin as the stall's cause.
        let has_pin_waiter = usual.iter().any(|one| waits_for(one, "BufferPin"));
        (!has_pin_waiter).then(|| self.tell_lock(holder))
    }

    fn locks(&self) -> Option<(StallKind, String)> {
        if self.grew(&["Lock"]) < self.many() {
            return None;
        }
        let holders = self.usual_look()?;
        if let Some(holder) = holders.iter().find(|one| waits_for(one, "BufferPin")) {
            let told = format!("{} holds a lock and waits for a buffer pin{}.", tell_holder(holder), self.victims());
            return Some((StallKind::BufferPin, told));
        }
        let holder = holders.iter().filter(|one| !waits_for(one, "Lock")).max_by_key(|one| one.waiters)?;
        // If the holder is blocked too, long file calls explain the stall better than the lock.
        if BLOCKED.iter().any(|class| waits_for(holder, class)) && self.candidate().is_some() {
            return None;
        }
        Some(self.tell_lock(holder))
    }

    fn tell_lock(&self, holder: &LockProcess) -> (StallKind, String) {
        (StallKind::Lock, format!("{} holds a lock{}.", tell_holder(holder), self.victims()))
    }

    fn buffer_pin(&self) -> Option<(StallKind, String)> {
        let told = || format!("a buffer pin was held{}.", self.victims());
        (self.grew(&["BufferPin"]) >= self.many()).then(|| (StallKind::BufferPin, told()))
    }

    /// Writes in the stall and just before it, with the seconds covered.
    fn written_lately(&self) -> (WrittenTo, f64) {
        let lately = self.before.iter().rev().take(self.during.len().max(8)).chain(self.during);
        lately.fold((WrittenTo::default(), 0.0), |(sum, seconds), step| {
            (sum.and(step.written), seconds + step.length_ns as f64 / 1e9)
        })
    }

    /// True if the longest file call waits behind other writes: `bytes` far exceed its own bytes.
    fn is_behind(&self, bytes: u64) -> bool {
        let waiting = self.candidate().map_or(0, |one| bytes_of(&one));
        bytes >= LARGE && bytes >= MUCH_MORE * waiting && self.keep(&BLOCKED)
    }

    /// Temporary files are never synced, so no file call shows the load that they cause.
    fn temporary_files(&self) -> Option<(StallKind, String)> {
        let (WrittenTo { wal, temporary, others }, seconds) = self.written_lately();
        let is_most = temporary.bytes >= wal.bytes + others.bytes;
        (is_most && self.is_behind(temporary.bytes)).then(|| {
            let bytes = Bytes(temporary.bytes);
            let told = format!("temporary files: {bytes} were written within {seconds:.1} s{}.", self.victims());
            (StallKind::TemporaryFiles, told)
        })
    }

    fn checkpoint_before_log(&self) -> Option<(StallKind, String)> {
        let checkpoint = self.during.iter().filter(|step| step.checkpoint.is_some()).count();
        let has_own_device = self.during.iter().any(|step| step.machine.parts.contains_key(LOG_DEVICE));
        let log = self.candidate().filter(|one| one.longest.call.file.kind == FileKind::Wal)?;
        let (WrittenTo { others, .. }, seconds) = self.written_lately();
        if checkpoint * 2 < self.during.len() || has_own_device || !self.is_behind(others.bytes) {
            return None;
        }
        let (bytes, calls) = (Bytes(others.bytes), self.tell_calls(&log));
        let doing = self.checkpoint_doing()?;
        Some((StallKind::Checkpoint, format!("a checkpoint {doing}: {bytes} within {seconds:.1} s. {calls}")))
    }

    fn files(&self) -> Option<(StallKind, String)> {
        let candidate = self.candidate().filter(|_| self.keep(&BLOCKED))?;
        let kind = match candidate.longest.call.file.kind {
            FileKind::Wal => StallKind::WalFlush,
            FileKind::Temporary => StallKind::TemporaryFiles,
            _ => StallKind::FileSync,
        };
        Some((kind, self.tell_calls(&candidate)))
    }

    fn tell_calls(&self, candidate: &Candidate<'_>) -> String {
        let SeenCall { call, who, relation } = candidate.longest;
        let verb: &str = call.kind.into();
        let unsynced = call.unsynced.filter(|_| call.kind != FileCallKind::Write).map(|unsynced| {
            let writes = if unsynced.writes == 1 { "write" } else { "writes" };
            format!(", {} {writes} of {}", group_digits(unsynced.writes), Bytes(unsynced.bytes))
        });
        let among = (candidate.calls > 1).then(|| format!(", the longest of {} calls", group_digits(candidate.calls)));
        let relation = relation.as_ref().map(|relation| format!(" ({relation})"));
        format!(
            "{who} {}: {verb} {:.1} s{}, {}{}{}{}.",
            call.pid,
            candidate.longest_ns as f64 / 1e9,
            unsynced.unwrap_or_default(),
            call.file,
            relation.unwrap_or_default(),
            among.unwrap_or_default(),
            self.victims()
        )
    }

    fn candidate(&self) -> Option<Candidate<'a>> {
        let begin_ns = self.during.first().map(|step| step.end_ns - step.length_ns)?;
        let end_ns = self.during.last()?.end_ns;
        // A call in progress appears in each step, and once more when it ends.
        let mut calls: BTreeMap<(u32, u64), (&SeenCall, u64)> = BTreeMap::new();
        for (step, seen) in self.during.iter().flat_map(|step| step.calls.iter().map(move |seen| (step, seen))) {
            let until = seen.call.end_ns.unwrap_or(step.end_ns);
            let known = calls.entry((seen.call.pid, seen.call.begin_ns)).or_insert((seen, until));
            if until >= known.1 {
                *known = (seen, until);
            }
        }
        let mut groups: BTreeMap<Option<u32>, Candidate<'_>> = BTreeMap::new();
        for (seen, until) in calls.into_values() {
            let overlap_ns = until.min(end_ns).saturating_sub(seen.call.begin_ns.max(begin_ns));
            let longest_ns = until.saturating_sub(seen.call.begin_ns);
            // Calls for WAL form one group, because any backend flushes WAL for all.
            let group = (seen.call.file.kind != FileKind::Wal).then_some(seen.call.pid);
            let new = Candidate { overlap_ns: 0, calls: 0, longest: seen, longest_ns };
            let known = groups.entry(group).or_insert(new);
            known.overlap_ns += overlap_ns;
            known.calls += 1;
            if longest_ns > known.longest_ns {
                (known.longest, known.longest_ns) = (seen, longest_ns);
            }
        }
        let enough = ((end_ns - begin_ns) as f64 * FILLS) as u64;
        groups.retain(|_, candidate| candidate.overlap_ns >= enough);
        let log = groups.remove(&None);
        let other = groups.into_values().max_by_key(|one| (bytes_of(one), one.overlap_ns));
        match (log, other) {
            // On one device, calls with fewer bytes wait for those with more.
            (Some(log), Some(other)) => {
                let is_behind = log.longest.call.device == other.longest.call.device
                    && bytes_of(&other) >= MUCH_MORE * bytes_of(&log);
                let grown = self.now.grown(&self.then, &["LWLock", "IO"]);
                let waits_for_log = grown.first().is_some_and(|(name, _)| name.to_ascii_uppercase().contains(":WAL"));
                Some(if is_behind || !waits_for_log { other } else { log })
            }
            (log, other) => log.or(other),
        }
    }

    /// Cause: a saturated device or, if not `is_saturated`, something before the device, such as a cgroup's limit.
    fn device(&self, is_saturated: bool) -> Option<(StallKind, String)> {
        let busiest = self.now.busiest.as_ref().filter(|(_, busy)| (*busy >= SATURATED) == is_saturated);
        let (name, busy) = busiest.filter(|_| self.keep(&["IO"]))?;
        let busy = format!("{:.0} % of the time", 100.0 * busy);
        let told = match is_saturated {
            true => format!("the device of {name} was busy {busy}"),
            false => {
                let before = "a limit, such as a cgroup's, may have delayed requests before they reached the device";
                format!("reads and writes waited although the device of {name} was busy only {busy}: {before}")
            }
        };
        Some((StallKind::Device, format!("{told}{}.", self.victims())))
    }

    fn checkpoint_doing(&self) -> Option<&'static str> {
        let phases: Vec<CheckpointPhase> = self.during.iter().filter_map(|step| step.checkpoint).collect();
        let writes = phases.iter().filter(|phase| **phase == CheckpointPhase::Writing).count();
        (!phases.is_empty()).then(|| if writes * 2 >= phases.len() { "wrote buffers" } else { "synced files" })
    }

    fn checkpoint(&self) -> Option<(StallKind, String)> {
        let doing = self.checkpoint_doing()?;
        let told = || (StallKind::Checkpoint, format!("a checkpoint {doing}{}.", self.victims()));
        self.keep(&["LWLock", "IO"]).then(told)
    }

    fn crowd(&self) -> Option<(StallKind, String)> {
        let (all, server, others) = (self.now.processors, self.now.server_processors, self.now.others());
        let are_taken = all > 0.0 && self.now.busy + self.now.steal >= ALL_TAKEN * all;
        let are_many_ready = self.now.ready >= self.many() && self.now.ready >= self.then.ready + SOMEBODY;
        (are_taken && are_many_ready).then(|| {
            let (ready, of, then) = (self.now.ready, self.now.backends.round(), self.then.ready);
            let told = format!(
                "no processor was free: {ready:.1} of {of} backends waited for one, up from {then:.1}; the server used {server:.1} \
                 of {all:.0} processors, and other processes used {others:.1}."
            );
            (StallKind::Processors, told)
        })
    }

    fn unexplained(&self) -> (StallKind, String) {
        let classes = [&BLOCKED[..], &["Client", "Timeout", "Extension", "sleep"]].concat();
        let grown = self.now.grown(&self.then, &classes).into_iter().find(|(_, now)| *now >= SOMEBODY);
        let of = self.now.backends.round() as u64;
        let ready = self.now.ready;
        let most = match grown {
            Some((name, now)) if now >= ready => format!("; {} of {of} backends were in {name}", now.round() as u64),
            _ if ready >= SOMEBODY => format!("; {} of {of} backends waited for a processor", ready.round() as u64),
            _ => String::new(),
        };
        (StallKind::Unexplained, format!("no cause was found{most}."))
    }
}

fn bytes_of(candidate: &Candidate<'_>) -> u64 {
    candidate.longest.call.unsynced.unwrap_or_default().bytes
}

fn waits_for(holder: &LockProcess, wanted: &str) -> bool {
    class_of_wait(holder) == Some(wanted)
}

fn class_of_wait(LockProcess { session, .. }: &LockProcess) -> Option<&str> {
    Some(class_until_18(session.event_type.as_deref()?, session.event.as_deref()?))
}

fn tell_holder(LockProcess { session: holder, .. }: &LockProcess) -> String {
    if holder.pid == 0 {
        return "a prepared transaction".to_owned();
    }
    let backend = holder.backend.as_deref().unwrap_or("process");
    let state = holder.state.as_ref().filter(|state| *state != "active").map(|state| format!(", {state},"));
    let query = holder.query.as_deref().filter(|query| !query.is_empty());
    let query = query.map(|query| format!(" (“{query}”)"));
    format!("{backend} {}{}{}", holder.pid, state.unwrap_or_default(), query.unwrap_or_default())
}

fn join_words(words: &[&str]) -> Option<String> {
    let (last, first) = words.split_last()?;
    Some(if first.is_empty() { (*last).to_owned() } else { format!("{} and {last}", first.join(", ")) })
}
