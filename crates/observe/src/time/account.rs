//! Sums process times by second and by name. Pure: no clock, no process access.
//!
//! Part of `--json`: never rename fields.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::names::WaitNames;
use super::source::{OpenWait, ProcessTimes, Reading, WaitEvent};
use crate::statistic::Statistic;

/// Groups of processes (`--by`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// All client backends together, and each kind of background process.
    #[default]
    Kind,
    /// Role of the backend.
    User,
    /// Database of the backend.
    Database,
    /// Query that the backend was running, or ran last, at the end of each second.
    Query,
    /// Each process.
    Backend,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// pg_stat_activity's `backend_type`, or `postmaster`, `pgthaw` or `short-lived`.
    pub kind: String,
    pub user: Option<String>,
    pub database: Option<String>,
    pub query: Option<String>,
}

/// A shorter span is merged into the one before.
const SHORTEST_SPAN_NS: u64 = 250_000_000;

/// The server's main process. It has no wait event.
pub const POSTMASTER: &str = "postmaster";

pub const CLIENT_BACKEND: &str = "client backend";

/// Backends that serve pgthaw itself, excluded from every account.
pub const PGTHAW: &str = "pgthaw";

/// A process that ended before it could be identified.
pub const SHORT_LIVED: &str = "short-lived";

/// Kinds of process that receive commands. Others receive data of the server (statistics collector of 13 and 14) or a
/// primary.
const SERVE_CLIENTS: [&str; 3] = [CLIENT_BACKEND, "walsender", SHORT_LIVED];

/// `where::part::detail`: group of processes, class of time, event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatisticName {
    pub place: String,
    pub part: String,
    pub detail: String,
}

impl StatisticName {
    pub fn of_commands(place: String) -> StatisticName {
        StatisticName { place, part: "command".to_owned(), detail: "handled".to_owned() }
    }
}

/// Statistic of one kind of time, for one group of processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct NamedStatistic {
    /// `where::part::detail`.
    pub name: String,
    /// Group of processes by `--by`, such as the kind of process.
    #[serde(rename = "where")]
    pub place: String,
    /// Class of wait events, or `processor`; for commands, `command`.
    pub part: String,
    pub detail: String,
    #[serde(flatten)]
    pub statistic: Statistic,
    pub average_ns: Option<u64>,
    /// 99th percentile: the upper bound of a bucket, or the maximum. At most twice the true value.
    pub p99_ns: Option<u64>,
}

impl NamedStatistic {
    pub fn new(name: StatisticName, statistic: Statistic) -> NamedStatistic {
        NamedStatistic::with_lasting(name, statistic, 0)
    }

    /// `lasting_ns` of the total is time of unfinished waits, which are not counted yet; the mean excludes it.
    pub fn with_lasting(name: StatisticName, statistic: Statistic, lasting_ns: u64) -> NamedStatistic {
        let ended = Statistic { total_ns: statistic.total_ns.saturating_sub(lasting_ns), ..statistic };
        NamedStatistic {
            name: format!("{}::{}::{}", name.place, name.part, name.detail),
            place: name.place,
            part: name.part,
            detail: name.detail,
            // The length of an unfinished wait may be slightly low.
            average_ns: ended.average_ns().map(|mean| mean.min(statistic.max_ns.unwrap_or(mean))),
            p99_ns: statistic.quantile_ns(0.99),
            statistic,
        }
    }

    pub fn all_of(statistics: BTreeMap<StatisticName, Statistic>) -> Vec<NamedStatistic> {
        let named = statistics.into_iter().map(|(name, statistic)| NamedStatistic::new(name, statistic));
        let mut named: Vec<NamedStatistic> = named.collect();
        named.sort_by_key(|one| (one.is_aside(), Reverse(one.statistic.total_ns)));
        named
    }

    /// Whether this is idle time, which is sorted behind all others.
    pub fn is_aside(&self) -> bool {
        is_idle(&self.part, &self.detail)
    }
}

/// Times of several processes together. The kinds add up to `lived_ns`: `running_ns`, `ready_ns`, `client_ns`,
/// `idle_ns`, `waiting_ns`, `no_event_ns`, `unknown_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TimeShares {
    /// Lifetime, by an independent clock.
    pub lived_ns: u64,
    /// On a processor. It includes `ready_ns` if that is null.
    pub running_ns: u64,
    /// Waiting for a processor. `None` if unknown.
    pub ready_ns: Option<u64>,
    /// Waiting for a client, on read or write.
    pub client_ns: u64,
    /// Time of background processes without work.
    pub idle_ns: u64,
    /// Waiting for any other named event.
    pub waiting_ns: u64,
    /// Off the processor without a wait event.
    pub no_event_ns: u64,
    /// Off the processor; the event could not be read.
    pub unknown_ns: u64,
    /// Received commands. `None` if the source does not count them.
    pub commands: Option<u64>,
    /// Ended commands. `None` if `commands` is null.
    pub handled: Option<u64>,
    /// Total time of ended commands since their receipt, of all kinds. `None` if `commands` is null.
    pub handled_ns: Option<u64>,
    /// Switches to a processor. `None` if the source does not count them.
    pub switches: Option<u64>,
}

impl TimeShares {
    /// Explained share of the lifetime: 0 to 1, slightly more if the clocks differ. `None` for sampled times, whose sum
    /// proves nothing.
    pub fn explained(&self) -> Option<f64> {
        let known = [self.running_ns, self.ready_ns?, self.client_ns, self.idle_ns, self.waiting_ns, self.no_event_ns];
        let explained = known.into_iter().fold(0, u64::saturating_add);
        (self.lived_ns > 0).then(|| explained as f64 / self.lived_ns as f64)
    }

    pub(crate) fn add(&mut self, more: &TimeShares) {
        let all = host::field_pairs!(self, more:
            lived_ns, running_ns, client_ns, idle_ns, waiting_ns, no_event_ns, unknown_ns);
        all.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        let known = host::field_pairs!(self, more: ready_ns, commands, handled, handled_ns, switches);
        known.into_iter().for_each(|(sum, more)| *sum = add_known(*sum, more, u64::saturating_add));
    }

    fn charge(&mut self, part: &str, detail: &str, ns: u64) {
        *match (part, detail) {
            ("Client", "ClientRead" | "ClientWrite") => &mut self.client_ns,
            (part, detail) if is_idle(part, detail) => &mut self.idle_ns,
            ("sleep", "no event") => &mut self.no_event_ns,
            ("sleep", "unknown") => &mut self.unknown_ns,
            _ => &mut self.waiting_ns,
        } += ns;
    }
}

pub(super) fn add_known<T: Copy>(sum: Option<T>, more: Option<T>, add: fn(T, T) -> T) -> Option<T> {
    sum.zip(more).map(|(sum, more)| add(sum, more)).or(sum).or(more)
}

/// Name of the sleep of processes that never have a wait event.
const MAIN_LOOP: &str = "main loop";

pub fn is_idle(part: &str, detail: &str) -> bool {
    part == "Activity" || (part, detail) == ("sleep", MAIN_LOOP)
}

/// Interval between two readings, usually a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct TimeSecond {
    /// End, since the start of the observation.
    pub until_ns: u64,
    pub length_ns: u64,
    pub processes: u32,
    #[serde(flatten)]
    pub shares: TimeShares,
    /// All but `unknown_ns`, as a share of `lived_ns`. `None` unless the source is `bpf`.
    pub explained: Option<f64>,
}

impl TimeSecond {
    pub fn merge(spans: &[TimeSecond]) -> TimeSecond {
        let mut sum = TimeSecond::default();
        for span in spans {
            sum.until_ns = span.until_ns;
            sum.length_ns = sum.length_ns.saturating_add(span.length_ns);
            sum.processes = sum.processes.max(span.processes);
            sum.shares.add(&span.shares);
        }
        sum.explained = sum.shares.explained();
        sum
    }
}

/// Gaps in the observation, always reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Imperfect {
    /// Runs on a processor for which the start was missed. Their length is from the scheduler's counters.
    pub recovered: u64,
    /// Length of the runs counted in `recovered`.
    pub recovered_ns: u64,
    /// Waits whose wakeup was missed. They include the wait for a processor.
    pub wakes_missed: u64,
    /// Processes not followed: there were too many.
    pub lost_processes: u64,
    /// Slow file calls that were not reported: there were too many.
    pub lost_calls: u64,
    /// File calls and writes not attributed to a file: there were too many files.
    pub lost_of_files: u64,
}

impl Imperfect {
    pub(crate) fn add(&mut self, more: &Imperfect) {
        let all = host::field_pairs!(self, more:
            recovered, recovered_ns, wakes_missed, lost_processes, lost_calls, lost_of_files);
        all.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// Failed queries for the server's processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedLooks {
    pub count: u64,
    pub why: String,
}

/// Unfinished waits with the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lasting {
    pub count: u32,
    pub longest_ns: u64,
    pub within_ns: u64,
}

/// Lifetime by group of processes, and whether the group has a client backend. It may also have parallel workers or
/// autovacuum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lived(BTreeMap<String, (u64, bool)>);

impl Lived {
    pub fn add(&mut self, place: String, lived_ns: u64, is_client: bool) {
        let (sum, has_client) = self.0.entry(place).or_default();
        *sum = sum.saturating_add(lived_ns);
        *has_client |= is_client;
    }

    /// Share (0 to 1) of a group's time in the lifetime of all groups with client backends. `None` for other groups.
    pub fn shares(&self) -> impl Fn(&str, u64) -> Option<f64> {
        let has_client = |place: &str| self.0.get(place).is_some_and(|(_, has_client)| *has_client);
        let of_clients = self.0.values().filter(|(_, has_client)| *has_client);
        let whole = of_clients.fold(0, |sum: u64, (lived_ns, _)| sum.saturating_add(*lived_ns));
        move |place, ns| (whole > 0 && has_client(place)).then(|| ns as f64 / whole as f64)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeSpan {
    pub second: TimeSecond,
    pub clients: TimeShares,
    pub lived: Lived,
    pub statistics: BTreeMap<StatisticName, Statistic>,
    /// Waits in progress. `statistics` include their time, but not their count.
    pub open: BTreeMap<StatisticName, Lasting>,
    pub imperfect: Imperfect,
    pub failed: FailedLooks,
}

#[derive(Debug, Default)]
struct Told {
    first: ProcessTimes,
    last: ProcessTimes,
    /// Queries in which the unfinished wait and command of `last` began.
    begun_in: [Option<String>; 2],
}

impl Told {
    fn all_of(reading: Vec<ProcessTimes>) -> HashMap<(u32, u64), Told> {
        let told = |last: ProcessTimes| Told { first: last.clone(), last, ..Told::default() };
        reading.into_iter().map(|last| ((last.pid, last.birth), told(last))).collect()
    }

    /// `query` may be older than the wait and command in progress.
    fn begun_in(process: &ProcessTimes, query: Option<&String>) -> [Option<String>; 2] {
        [process.open.is_some(), process.handling_ns.is_some()].map(|lasts| query.filter(|_| lasts).cloned())
    }

    fn added_of(&self, event: &WaitEvent, now: &Statistic, longest_ns: u64) -> Statistic {
        let open_ns = self.first.open.as_ref().filter(|open| open.event == *event).map(|open| open.length_ns);
        add_within(now, &self.last.waits_for(event), &self.first.waits_for(event), open_ns, longest_ns)
    }

    fn lasts_ns(&self, process: &ProcessTimes, open: &OpenWait) -> u64 {
        let is_same = |first: &&OpenWait| {
            let count = |times: &ProcessTimes| times.waits_for(&open.event).count;
            first.event == open.event && count(process) == count(&self.first)
        };
        open.length_ns - self.first.open.as_ref().filter(is_same).map_or(0, |first| first.length_ns.min(open.length_ns))
    }

    fn handling_ns(&self, process: &ProcessTimes) -> Option<u64> {
        let is_same = process.handled.count == self.first.handled.count;
        let before_ns = self.first.handling_ns.filter(|_| is_same).unwrap_or(0);
        process.handling_ns.map(|length_ns| length_ns.saturating_sub(before_ns))
    }
}

/// Increase since `earlier`, without the time of waits before `first`, the first reading. Lengths are limited to
/// `longest_ns` and to the increase since `first`.
fn add_within(
    now: &Statistic,
    earlier: &Statistic,
    first: &Statistic,
    open_ns: Option<u64>,
    longest_ns: u64,
) -> Statistic {
    let mut added = now.since(earlier);
    // The first wait to end was in progress at the first reading, and all time until its end belongs to it.
    if let Some(before_ns) = open_ns.filter(|_| earlier.count == first.count && added.count > 0) {
        added.shorten_one(before_ns + earlier.total_ns.saturating_sub(first.total_ns), before_ns);
    }
    added.bound(now.total_ns.saturating_sub(first.total_ns).min(longest_ns));
    added
}

#[derive(Debug, Default)]
pub struct Accounting {
    pub by: By,
    names: WaitNames,
    begin_ns: u64,
    pub at_ns: u64,
    before: HashMap<(u32, u64), Told>,
    open: Vec<(StatisticName, u64)>,
    handling: Vec<(String, u64)>,
    /// Sums since `take_span`, which adds `second` and `open`.
    pub span: TimeSpan,
    pub handled: BTreeMap<String, Statistic>,
    /// Commands begun before the observation, and commands in progress at its end.
    pub begun_before: u64,
    pub lasting: u64,
    pub seconds: Vec<TimeSecond>,
    pub total: TimeShares,
    pub processes: u32,
    counts_commands: bool,
    is_another_server: bool,
}

impl Accounting {
    pub fn begin(first: Reading, by: By, names: WaitNames) -> Accounting {
        Accounting {
            by,
            names,
            begin_ns: first.at_ns,
            at_ns: first.at_ns,
            processes: first.processes.len() as u32,
            before: Told::all_of(first.processes),
            counts_commands: first.counts_commands,
            ..Accounting::default()
        }
    }

    /// Assigns waits and commands in progress to their queries. Drops pgthaw's processes.
    pub fn name_first(&mut self, who: impl Fn(&ProcessTimes) -> Who) {
        self.before.retain(|_, told| who(&told.first).kind != PGTHAW);
        self.processes = self.before.len() as u32;
        for told in self.before.values_mut() {
            let who = who(&told.first);
            let is_handled = told.first.handling_ns.is_some() && SERVE_CLIENTS.contains(&&*who.kind);
            self.begun_before += u64::from(is_handled);
            told.begun_in = Told::begun_in(&told.first, who.query.as_ref().filter(|_| self.by == By::Query));
        }
    }

    pub fn follow_restart(&mut self, names: WaitNames) {
        (self.names, self.is_another_server) = (names, true);
    }

    pub fn length_ns(&self) -> u64 {
        self.at_ns - self.begin_ns
    }

    pub fn add(&mut self, reading: Reading, who: impl Fn(&ProcessTimes) -> Who) {
        let (from_ns, at_ns) = (self.at_ns, reading.at_ns);
        self.counts_commands = reading.counts_commands;
        // A new source counts only from its first reading.
        let mut lived_from_ns = from_ns;
        if let Some(begin) = reading.begins_from {
            lived_from_ns = begin.at_ns;
            let are_new = std::mem::take(&mut self.is_another_server);
            let are_counted = |process: &&ProcessTimes| are_new && who(process).kind != PGTHAW;
            self.processes += begin.processes.iter().filter(are_counted).count() as u32;
            self.before = Told::all_of(begin.processes);
        }
        let mut second =
            TimeSecond { until_ns: at_ns - self.begin_ns, length_ns: at_ns - from_ns, ..TimeSecond::default() };
        self.open.clear();
        self.handling.clear();
        let mut now = HashMap::new();
        for process in reading.processes {
            let key = (process.pid, process.birth);
            let told = self.before.remove(&key);
            let who = who(&process);
            if who.kind == PGTHAW {
                continue;
            }
            self.processes += u32::from(told.is_none());
            let told = told.unwrap_or_default();
            let process = if SERVE_CLIENTS.contains(&&*who.kind) { process } else { process.without_commands() };
            let shares = self.add_process(&process, &told, &who, lived_from_ns, at_ns);
            second.processes += 1;
            second.shares.add(&shares);
            let is_client = who.kind == CLIENT_BACKEND;
            if is_client {
                self.span.clients.add(&shares);
            }
            self.span.lived.add(self.place(process.pid, &who), shares.lived_ns, is_client);
            if process.ended_ns.is_none() {
                let begun_in = Told::begun_in(&process, who.query.as_ref().filter(|_| self.by == By::Query));
                now.insert(key, Told { last: process, begun_in, ..told });
            }
        }
        second.explained = second.shares.explained();
        self.total.add(&second.shares);
        match self.seconds.last_mut() {
            // A short remainder belongs to the second before.
            Some(last) if second.length_ns < SHORTEST_SPAN_NS => *last = TimeSecond::merge(&[*last, second]),
            _ => self.seconds.push(second),
        }
        // The source's counts are totals, not increases.
        let imperfect = &mut self.span.imperfect;
        imperfect.lost_processes = imperfect.lost_processes.max(reading.lost);
        imperfect.lost_calls = imperfect.lost_calls.max(reading.lost_calls);
        imperfect.lost_of_files = imperfect.lost_of_files.max(reading.lost_of_files);
        (self.before, self.at_ns) = (now, at_ns);
    }

    fn add_process(&mut self, process: &ProcessTimes, told: &Told, who: &Who, from_ns: u64, at_ns: u64) -> TimeShares {
        let (earlier, first, look_ns) = (&told.last, &told.first, at_ns - self.begin_ns);
        // An ended process was charged until its end and is reported once.
        let until = process.ended_ns.unwrap_or(at_ns);
        let handled = add_within(&process.handled, &earlier.handled, &first.handled, first.handling_ns, look_ns);
        // If the source stopped counting commands in this interval, those received before still count.
        let commands =
            Some(process.commands.saturating_sub(earlier.commands)).filter(|some| *some > 0 || self.counts_commands);
        // After counting stopped, more commands may end than were counted as received.
        let most_handled = if self.counts_commands { Some(u64::MAX) } else { commands };
        let switches = process.switches - earlier.switches;
        let mut shares = TimeShares {
            lived_ns: until.saturating_sub(process.started_ns.max(from_ns)),
            running_ns: process.running_ns.saturating_sub(earlier.running_ns),
            ready_ns: process.ready_ns.map(|ready| ready.saturating_sub(earlier.ready_ns.unwrap_or(0))),
            commands,
            handled: most_handled.map(|most| handled.count.min(most)),
            handled_ns: commands.map(|_| handled.total_ns),
            switches: process.ready_ns.map(|_| switches),
            ..TimeShares::default()
        };
        let imperfect = &mut self.span.imperfect;
        imperfect.recovered += process.recovered - earlier.recovered;
        imperfect.recovered_ns += process.recovered_ns - earlier.recovered_ns;
        imperfect.wakes_missed += process.wakes_missed - earlier.wakes_missed;
        let place = self.place(process.pid, who);
        // Later waits and commands of this interval are charged to the same query.
        let [wait_place, command_place] = told.begun_in.each_ref().map(|begun_in| begun_in.as_ref().unwrap_or(&place));
        let wait_place = |event: &WaitEvent| {
            let lasted = earlier.open.as_ref().is_some_and(|open| open.event == *event);
            if lasted { wait_place } else { &place }
        };
        if handled.total_ns > 0 || handled.count > 0 {
            self.handled.entry(command_place.clone()).or_default().merge(&handled);
        }
        let detail = if process.ready_ns.is_some() { "running" } else { "running or ready" };
        self.handling.extend(told.handling_ns(process).map(|length_ns| (command_place.clone(), length_ns)));
        let times = [(detail, shares.running_ns), ("ready", shares.ready_ns.unwrap_or(0))];
        for (detail, ns) in times.into_iter().filter(|(_, ns)| *ns > 0) {
            self.merge(&place, "processor", detail, &Statistic::of_time(switches, ns));
        }
        for (event, statistic) in &process.waits {
            let since = told.added_of(event, statistic, look_ns);
            let (part, detail) = self.name(event, who);
            shares.charge(&part, &detail, since.total_ns);
            if since.total_ns > 0 || since.count > 0 {
                self.merge(wait_place(event), &part, &detail, &since);
            }
        }
        if let Some(open) = &process.open {
            let (part, detail) = self.name(&open.event, who);
            let length_ns = told.lasts_ns(process, open);
            self.open.push((StatisticName { place: wait_place(&open.event).clone(), part, detail }, length_ns));
        }
        shares
    }

    /// Returns and resets the sums, so that memory stays constant.
    pub fn take_span(&mut self) -> TimeSpan {
        let second = TimeSecond::merge(&std::mem::take(&mut self.seconds));
        let mut open = BTreeMap::<StatisticName, Lasting>::new();
        for (name, length_ns) in &self.open {
            let sum = open.entry(name.clone()).or_default();
            sum.count += 1;
            sum.longest_ns = sum.longest_ns.max(*length_ns);
            sum.within_ns += (*length_ns).min(second.length_ns);
        }
        TimeSpan { second, open, ..std::mem::take(&mut self.span) }
    }

    /// Counts unfinished waits and commands. No length exceeds the total of its name.
    pub fn finish(&mut self) {
        let length = self.length_ns();
        for (name, length_ns) in std::mem::take(&mut self.open) {
            self.span.statistics.entry(name).or_default().count(length_ns.min(length));
        }
        self.lasting = self.handling.len() as u64;
        for (place, length_ns) in std::mem::take(&mut self.handling) {
            self.handled.entry(place).or_default().count(length_ns.min(length));
        }
        for total in self.span.statistics.values_mut().chain(self.handled.values_mut()) {
            total.bound(total.total_ns.min(length));
        }
    }

    fn merge(&mut self, place: &str, part: &str, detail: &str, more: &Statistic) {
        let name = StatisticName { place: place.into(), part: part.into(), detail: detail.into() };
        self.span.statistics.entry(name).or_default().merge(more);
    }

    fn name(&self, event: &WaitEvent, who: &Who) -> (String, String) {
        match event {
            WaitEvent::Number(0) if who.kind == POSTMASTER || self.names.has_none_for(&who.kind) => {
                ("sleep".into(), MAIN_LOOP.into())
            }
            event => self.names.name(event),
        }
    }

    fn place(&self, pid: u32, who: &Who) -> String {
        let or_kind = |name: &Option<String>| name.clone().unwrap_or_else(|| who.kind.clone());
        match self.by {
            By::Kind => who.kind.clone(),
            By::User => or_kind(&who.user),
            By::Database => or_kind(&who.database),
            By::Query => or_kind(&who.query),
            By::Backend => match &who.user {
                Some(user) => format!("{pid} {} {user}", who.kind),
                None => format!("{pid} {}", who.kind),
            },
        }
    }
}
