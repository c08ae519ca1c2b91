//! One step of `top`, as displayed, printed and recorded.
//!
//! Part of `--json` and of records: never rename fields. Records are untrusted: never sum their integers.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::budget::Reduction;
use crate::gauges::OsSample;
use crate::stall::Stall;
use crate::time::{
    Blocker, By, Imperfect, Lasting, LookingCost, NamedStatistic, TemporaryFiles, Tier, TimeShares, TimeSpan,
    class_until_18, is_idle,
};
use crate::top::checkpoint::CheckpointStep;
use host::units::Bytes;

/// A step of `top` (docs/top.md).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TopFrame {
    /// End of the step, Unix time in milliseconds.
    pub at_ms: i64,
    pub length_ns: u64,
    /// `None` without a server.
    pub source: Option<Tier>,
    pub by: By,
    /// Number of processes. This and all fields below exclude pgthaw's own processes.
    pub processes: u32,
    /// Times of all processes.
    pub time: TimeShares,
    /// Times of client backends.
    #[serde(default)]
    pub clients: TimeShares,
    /// Share of the processes' lifetime with a known state, 0 to 1.
    pub explained: Option<f64>,
    pub activity: Activity,
    pub rates: Rates,
    /// Most time first, idle processes last.
    pub statistics: Vec<TopStatistic>,
    /// `None` if not queried or not answered in this step.
    pub server: Option<ServerStep>,
    pub checkpoint: Option<CheckpointStep>,
    /// `None` if not read in this step, or if the server is on another machine.
    pub machine: Option<MachineStep>,
    /// Stalls of the last minute, or in progress.
    pub stalls: Vec<Stall>,
    /// Blocking sessions, most waiters first, then sessions idle in a transaction.
    #[serde(default)]
    pub blockers: Vec<Blocker>,
    #[serde(default)]
    pub temporary_files: Vec<TemporaryFiles>,
    pub imperfect: Imperfect,
    pub cost: LookingCost,
    pub missing: Vec<Missing>,
    pub reductions: Vec<Reduction>,
    /// Why there is no server.
    pub failure: Option<String>,
    /// Earlier steps that were dropped, because the receiver was slow.
    pub lost_frames: u64,
}

/// Data that is not visible.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Missing {
    pub what: String,
    pub why: String,
    pub remedy: Option<String>,
}

impl Missing {
    pub fn new(what: impl Into<String>, why: impl Into<String>, remedy: Option<String>) -> Missing {
        Missing { what: what.into(), why: why.into(), remedy }
    }
}

/// Mean number of processes in the step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Activity {
    /// Processes on a processor. With the sources `memory` and `sql`, includes ready processes.
    pub running: f64,
    /// Ready for a processor. `None` if unknown.
    pub ready: Option<f64>,
    /// Waiting for a heavyweight lock or a buffer pin.
    pub lock: f64,
    pub lwlock: f64,
    /// Waiting for a read or write.
    pub io: f64,
    /// Processes in other waits, or off the processor without a wait event.
    pub other: f64,
    /// Hidden for lack of privileges.
    pub unseen: f64,
    pub client: f64,
    /// Background processes without work.
    pub idle: f64,
}

impl Activity {
    pub fn of(span: &TimeSpan) -> Activity {
        let mut activity = Activity { ready: span.second.shares.ready_ns.map(|_| 0.0), ..Activity::default() };
        for (name, statistic) in &span.statistics {
            let processes = statistic.total_ns as f64 / span.second.length_ns.max(1) as f64;
            let part = match (class_until_18(&name.part, &name.detail), name.detail.as_str()) {
                ("processor", "ready") => activity.ready.get_or_insert(0.0),
                ("processor", _) => &mut activity.running,
                ("Lock" | "BufferPin", _) => &mut activity.lock,
                ("LWLock", _) => &mut activity.lwlock,
                ("IO", _) => &mut activity.io,
                ("Client", "ClientRead" | "ClientWrite") => &mut activity.client,
                (part, detail) if is_idle(part, detail) => &mut activity.idle,
                ("sleep", "unknown") => &mut activity.unseen,
                _ => &mut activity.other,
            };
            *part += processes;
        }
        activity
    }

    /// Processes that waited neither for a client nor for work, and processes whose state is unknown.
    pub fn busy(&self) -> f64 {
        self.running + self.ready.unwrap_or(0.0) + self.lock + self.lwlock + self.io + self.other + self.unseen
    }
}

/// Rates. Counters that the server updates rarely are averaged over several steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Rates {
    /// Time over which rates of transactions, blocks and bytes are averaged.
    pub over_ns: u64,
    /// From pg_stat_database.
    pub transactions_per_second: Option<f64>,
    /// Received commands in this step. `None` if not counted.
    pub commands_per_second: Option<f64>,
    /// Time of client backends per command in this step, except waits for the client.
    pub command_ns: Option<f64>,
    /// Time in statements, per transaction. `None` before PostgreSQL 14.
    pub transaction_ns: Option<f64>,
    /// Share of requested blocks that shared_buffers had.
    pub buffers_hit_ratio: Option<f64>,
    /// Share of the bytes read into shared_buffers that came from the page cache. Read-ahead lowers it.
    pub page_cache_hit_ratio: Option<f64>,
    /// Read from storage by the server's processes.
    pub fetched_bytes_per_second: Option<f64>,
}

/// Times of a wait event or processor state, including waits in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct TopStatistic {
    #[serde(flatten)]
    pub named: NamedStatistic,
    /// Share of the client backends' lifetime, 0 to 1. `None` for groups without client backends.
    #[serde(default)]
    pub share: Option<f64>,
    /// Number of waits in progress. `total_ns` includes them, `count` does not.
    pub open: u32,
    /// Length of the longest wait in progress.
    pub open_ns: u64,
}

impl TopStatistic {
    /// Includes unfinished waits. `None` if unknown.
    pub fn longest_ns(&self) -> Option<u64> {
        self.named.statistic.max_ns.max((self.open > 0).then_some(self.open_ns))
    }

    pub fn all_of(span: &TimeSpan) -> Vec<TopStatistic> {
        let (share, mut all) = (span.lived.shares(), Vec::new());
        for (name, statistic) in &span.statistics {
            let lasting: Lasting = span.open.get(name).copied().unwrap_or_default();
            let named = NamedStatistic::with_lasting(name.clone(), *statistic, lasting.within_ns);
            let share = share(&name.place, named.statistic.total_ns);
            all.push(TopStatistic { named, share, open: lasting.count, open_ns: lasting.longest_ns });
        }
        all.sort_by_key(|one| (one.named.is_aside(), std::cmp::Reverse(one.named.statistic.total_ns)));
        all
    }
}

impl ServerStep {
    pub fn transactions(&self) -> f64 {
        self.commits as f64 + self.rollbacks as f64
    }

    /// Subtracts pgthaw's transactions from the commits. `owed`: those that the server has not counted yet (before
    /// PostgreSQL 15).
    pub fn without_own(self, owed: &mut u64) -> ServerStep {
        let own = self.own_transactions + *owed;
        *owed = own.saturating_sub(self.commits);
        ServerStep { commits: self.commits.saturating_sub(own), ..self }
    }
}

/// Counters of the server: increases since the last query, then current values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ServerStep {
    /// Time since the last query.
    pub length_ns: u64,
    /// Commits without pgthaw's own, if known.
    pub commits: u64,
    /// Before PostgreSQL 15, includes those of pgthaw's new connections.
    pub rollbacks: u64,
    pub own_transactions: u64,
    pub blocks_hit: u64,
    pub blocks_read: u64,
    pub block_size: u32,
    pub temporary_bytes: Bytes,
    pub deadlocks: u64,
    /// Time in statements. `None` before PostgreSQL 14.
    pub active_ns: Option<u64>,
    /// Sessions that this role may not see. They are not included below.
    pub hidden: u32,
    pub clients: u32,
    /// Sessions with a running query.
    pub active: u32,
    pub idle_in_transaction: u32,
    /// Age of the oldest running query.
    pub longest_query_ns: Option<u64>,
    /// Age of the oldest transaction.
    pub longest_transaction_ns: Option<u64>,
}

/// Use of the machine since the last reading, scaled to one second. The field `second` is always 1 here;
/// elsewhere it is the number of a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct MachineStep {
    /// Time since the last reading.
    pub length_ns: u64,
    /// Such as `nvme0n1`.
    pub device_name: Option<String>,
    /// Excludes processor use by process.
    #[serde(flatten)]
    pub gauges: OsSample,
    /// Bytes read from storage by the server's processes. `None` if unreadable.
    pub fetched_bytes: Option<Bytes>,
}

/// Sessions report counters about once a second, at varying times. An average over ten seconds evens this out.
const WINDOW_NS: u64 = 10_000_000_000;

/// Number of first steps to drop if the server counts transactions late: these steps include pgthaw's connections.
const OWN_BEGIN: u32 = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct RateWindow {
    server: VecDeque<ServerStep>,
    is_late: bool,
    told: u32,
    fetched: VecDeque<(u64, u64)>,
}

impl RateWindow {
    /// `is_late`: the server counts pgthaw's transactions up to a second late.
    pub fn new(is_late: bool) -> RateWindow {
        RateWindow { is_late, ..RateWindow::default() }
    }

    pub fn take(&mut self, span: &TimeSpan, server: Option<&ServerStep>, machine: Option<&MachineStep>) -> Rates {
        self.server.extend(server.copied());
        self.told += u32::from(server.is_some());
        if self.is_late && self.told == OWN_BEGIN + 1 {
            self.server.drain(..self.server.len() - 1);
        }
        trim(&mut self.server, |step| step.length_ns);
        self.fetched.extend(machine.and_then(|step| Some((step.length_ns, step.fetched_bytes?.0))));
        trim(&mut self.fetched, |step| step.0);
        let rates = self.compute();
        let seconds = span.second.length_ns as f64 / 1e9;
        if span.second.shares.commands.is_none() || seconds <= 0.0 {
            return rates;
        }
        let clients = &span.clients;
        // The source counts commands: a missing number means zero.
        let commands = clients.commands.unwrap_or(0) as f64;
        let handled = clients.lived_ns.saturating_sub(clients.client_ns) as f64;
        Rates {
            commands_per_second: Some(commands / seconds),
            command_ns: (commands > 0.0).then(|| handled / commands),
            ..rates
        }
    }

    fn compute(&self) -> Rates {
        let sum = |of: fn(&ServerStep) -> u64| self.server.iter().map(|step| of(step) as f64).sum::<f64>();
        let transactions = self.server.iter().map(ServerStep::transactions).sum::<f64>();
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let seconds = sum(|step| step.length_ns) / 1e9;
        let (hit, read) = (sum(|step| step.blocks_hit), sum(|step| step.blocks_read));
        let active: Option<f64> = self.server.iter().map(|step| step.active_ns.map(|ns| ns as f64)).sum();
        let read_bytes = sum(|step| step.blocks_read.saturating_mul(step.block_size.into()));
        let fetched: f64 = self.fetched.iter().map(|step| step.1 as f64).sum();
        let fetched_seconds = self.fetched.iter().map(|step| step.0 as f64).sum::<f64>() / 1e9;
        let fetched_per_second = ratio(fetched, fetched_seconds);
        let missed = ratio(fetched_per_second.unwrap_or_default(), ratio(read_bytes, seconds).unwrap_or_default());
        Rates {
            over_ns: (seconds * 1e9) as u64,
            transactions_per_second: ratio(transactions, seconds),
            transaction_ns: active.and_then(|active| ratio(active, transactions)),
            buffers_hit_ratio: ratio(hit, hit + read),
            page_cache_hit_ratio: fetched_per_second.and(missed).map(|missed| (1.0 - missed).max(0.0)),
            fetched_bytes_per_second: fetched_per_second,
            ..Rates::default()
        }
    }
}

fn trim<T>(steps: &mut VecDeque<T>, length: impl Fn(&T) -> u64) {
    let mut sum: u64 = steps.iter().map(&length).fold(0, u64::saturating_add);
    while sum > WINDOW_NS && steps.len() > 1 {
        sum -= steps.pop_front().as_ref().map_or(0, &length);
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::Statistic;
    use crate::time::{StatisticName, TimeSecond};

    pub const SECOND: u64 = 1_000_000_000;

    pub fn name(place: &str, part: &str, detail: &str) -> StatisticName {
        StatisticName { place: place.into(), part: part.into(), detail: detail.into() }
    }

    pub fn span() -> TimeSpan {
        let lengths = |total_ns: u64, lengths: &[u64]| {
            let mut statistic = Statistic::of_time(0, total_ns);
            lengths.iter().for_each(|length| statistic.count(*length));
            statistic
        };
        let statistics = [
            (name("client backend", "processor", "running"), Statistic::of_time(900, 8 * SECOND / 10)),
            (name("client backend", "processor", "ready"), Statistic::of_time(900, SECOND / 5)),
            (name("client backend", "Client", "ClientRead"), lengths(2 * SECOND, &[40_000; 500])),
            (name("client backend", "Lock", "transactionid"), lengths(SECOND, &[])),
            (name("checkpointer", "Activity", "CheckpointerMain"), lengths(SECOND, &[])),
            (name("walwriter", "IO", "WALSync"), lengths(SECOND / 2, &[SECOND / 4, SECOND / 4])),
        ];
        let mut lived = crate::time::Lived::default();
        lived.add("client backend".into(), 3 * SECOND, true);
        lived.add("checkpointer".into(), SECOND, false);
        lived.add("client backend".into(), SECOND, false);
        let clients = TimeShares {
            lived_ns: 4 * SECOND,
            running_ns: 8 * SECOND / 10,
            ready_ns: Some(SECOND / 5),
            client_ns: 2 * SECOND,
            waiting_ns: SECOND,
            commands: Some(500),
            ..TimeShares::default()
        };
        TimeSpan {
            second: TimeSecond {
                length_ns: SECOND,
                processes: 9,
                shares: clients,
                explained: Some(1.0),
                until_ns: SECOND,
            },
            clients,
            lived,
            statistics: statistics.into_iter().collect(),
            open: [(
                name("client backend", "Lock", "transactionid"),
                Lasting { count: 1, longest_ns: 3 * SECOND, within_ns: SECOND },
            )]
            .into_iter()
            .collect(),
            imperfect: Imperfect::default(),
            ..TimeSpan::default()
        }
    }

    #[test]
    fn what_processes_did_adds_up() {
        let activity = Activity::of(&span());
        assert_eq!((activity.running, activity.ready, activity.lock), (0.8, Some(0.2), 1.0));
        assert_eq!((activity.io, activity.client, activity.idle, activity.other), (0.5, 2.0, 1.0, 0.0));
        assert!((activity.busy() - 2.5).abs() < 1e-9);
    }

    #[test]
    fn a_wait_that_lasts_has_its_length_so_far() {
        let all = TopStatistic::all_of(&span());
        let lock = all.iter().find(|one| one.named.part == "Lock").unwrap();
        assert_eq!((lock.open, lock.longest_ns(), lock.named.statistic.count), (1, Some(3 * SECOND), 0));
        assert!(all.last().unwrap().named.is_aside() && lock.share == Some(0.25), "{all:?}");
    }

    #[test]
    fn a_mean_is_of_the_waits_that_have_ended() {
        let mut span = span();
        let reads = name("client backend", "Client", "ClientRead");
        // Of the 2 s, the 500 ended waits took 1 s, and a wait that has not ended took 1 s.
        let lasting = Lasting { count: 1, longest_ns: 9 * SECOND, within_ns: SECOND };
        span.statistics.insert(reads.clone(), {
            let mut ended = Statistic::of_time(0, 2 * SECOND);
            (0..500).for_each(|wait| ended.count(1_900_000 + wait % 2 * 200_000));
            ended
        });
        span.open.insert(reads, lasting);
        let all = TopStatistic::all_of(&span);
        let reads = all.iter().find(|one| one.named.detail == "ClientRead").unwrap();
        assert_eq!((reads.named.average_ns, reads.named.statistic.max_ns), (Some(2_000_000), Some(2_100_000)));
    }
}

#[cfg(test)]
mod rates_tests {
    use super::tests::{SECOND, span};
    use super::*;
    use host::units::Bytes;

    #[test]
    fn rates_are_those_of_the_last_ten_seconds() {
        let mut window = RateWindow::default();
        let machine = MachineStep { length_ns: SECOND, fetched_bytes: Some(Bytes(2 << 13)), ..MachineStep::default() };
        let mut rates = Rates::default();
        for second in 0..30 {
            let told = if second % 2 == 0 { 2 } else { 0 };
            let server = ServerStep {
                length_ns: SECOND,
                commits: 100 * told,
                blocks_hit: 36 * told,
                blocks_read: 4 * told,
                block_size: 8192,
                active_ns: Some(50_000_000 * told),
                ..ServerStep::default()
            };
            rates = window.take(&span(), Some(&server), Some(&machine));
        }
        assert_eq!((rates.over_ns, rates.transactions_per_second), (10 * SECOND, Some(100.0)));
        assert_eq!((rates.buffers_hit_ratio, rates.page_cache_hit_ratio), (Some(0.9), Some(0.5)));
        assert_eq!((rates.commands_per_second, rates.command_ns), (Some(500.0), Some(4_000_000.0)));
        assert_eq!(rates.transaction_ns, Some(500_000.0));
    }

    #[test]
    fn what_was_served_in_the_first_steps_counts_where_ours_are_told_at_once() {
        let served = ServerStep { length_ns: SECOND, commits: 8, ..ServerStep::default() };
        let idle = ServerStep { commits: 0, ..served };
        let [at_once, late] = [false, true].map(|is_late| {
            let mut window = RateWindow::new(is_late);
            let rates = [served, idle, idle, idle].map(|server| window.take(&span(), Some(&server), None));
            rates[3].transactions_per_second
        });
        assert_eq!((at_once, late), (Some(2.0), Some(0.0)));
    }

    #[test]
    fn of_a_server_that_idles_pgthaws_own_transactions_are_none_and_no_other_is_lost() {
        // The server reports them a second late.
        let told = |steps: &[(u64, u64)]| -> Vec<u64> {
            let mut owed = 0;
            let step = |(commits, own_transactions): &(u64, u64)| {
                let (commits, own_transactions) = (*commits, *own_transactions);
                ServerStep { commits, own_transactions, ..ServerStep::default() }.without_own(&mut owed).commits
            };
            steps.iter().map(step).collect()
        };
        assert_eq!(told(&[(0, 6), (6, 6), (7, 6), (5, 6), (6, 6)]), [0; 5]);
        assert_eq!(told(&[(0, 6), (16, 6), (106, 6)]), [0, 4, 100], "ten were somebody else's: six are told later");
    }

    #[test]
    fn what_was_not_seen_has_no_rate() {
        let mut uncounted = span();
        (uncounted.second.shares.commands, uncounted.clients.commands) = (None, None);
        let rates = RateWindow::default().take(&uncounted, None, None);
        assert_eq!(rates, Rates::default());
        let quiet = ServerStep { length_ns: SECOND, ..ServerStep::default() };
        let rates = RateWindow::default().take(&uncounted, Some(&quiet), Some(&MachineStep::default()));
        assert_eq!((rates.transactions_per_second, rates.transaction_ns), (Some(0.0), None));
        assert_eq!((rates.buffers_hit_ratio, rates.page_cache_hit_ratio), (None, None), "nothing was asked for");
    }
}
