use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::budget::RefusedSource;
use crate::gauges::GaugeReading;
use crate::stall::StallWatch;
use crate::time::{
    By, LOOK, LookingCost, OwnTransactions, ProbeCost, Roster, SqlLooks, Tier, TimeSource, TimeSpan, WaitNames, Watch,
};
use crate::top::checkpoint::CheckpointWatch;
use crate::top::frame::{Activity, MachineStep, Missing, RateWindow, ServerStep, TopFrame, TopStatistic};
use crate::{BudgetedSource, Error, looks_after, looks_in_words, open_time_source};
use host::failure::Explain as _;
use host::linux::clock::{read_own_cpu_time, read_wall_ms};
use host::linux::process::{read_children, read_fetched_bytes};
use host::linux::threads::lock;
use host::linux::{Devices, count_cores, read_monotonic};
use host::units::Bytes;
use postgres::{
    CheckpointPulse, ServerPulse, can_tell_at_once, read_checkpoint_pulse, read_pulse, read_sessions, tell_statistics,
};

/// Minimum interval of the expensive queries for server and machine.
const SLOWEST_TICK: Duration = Duration::from_secs(1);

/// Minimum step with stall detection, which reads every 250 ms, several times per step.
const LEAST_STEP_WITH_STALLS: Duration = Duration::from_secs(1);

const STALL_TOLD_MS: i64 = 60_000;

#[derive(Debug)]
pub struct Here {
    pub looks: PgConnection,
    pub who: PgConnection,
    /// `None` to sample through `who`; `looks` then reads the counters.
    pub pulse: Option<PgConnection>,
    pub own_pids: Vec<u32>,
    pub postmaster_pid: Option<u32>,
    pub version_num: u32,
    pub block_size: u32,
    pub data_directory: Option<PathBuf>,
    pub devices: Devices,
    pub device_name: Option<String>,
    pub grant: String,
    pub missing: Vec<Missing>,
}

#[derive(Debug)]
pub struct TopWatch {
    by: By,
    source: Option<Tier>,
    step: Duration,
    /// Share of all processors, 0 to 1.
    budget: f64,
    frames: mpsc::Sender<TopFrame>,
    lost_frames: u64,
    pub has_begun: bool,
}

impl TopWatch {
    /// Frames not received in time are counted and dropped.
    pub fn new(by: By, source: Option<Tier>, step: Duration, budget: f64, frames: mpsc::Sender<TopFrame>) -> TopWatch {
        TopWatch { by, source, step, budget, frames, lost_frames: 0, has_begun: false }
    }

    /// Returns why the server is gone, or `None` if the frames' receiver has closed.
    pub async fn watch(&mut self, mut here: Here) -> Result<Option<String>, Error> {
        let own = OwnTransactions::default();
        // Flushes the statistics of this connection's earlier transactions, before pgthaw first reads the counters.
        tell_statistics(&mut here.looks).await?;
        let sessions = read_sessions(&mut here.who).await?;
        let is_economical = here.pulse.is_none();
        let (source, refused, pulse) = match here.pulse {
            None => (Box::new(SqlLooks::share(sessions.clone())) as Box<dyn TimeSource>, Vec::new(), here.looks),
            Some(pulse) => {
                let looks = ready(Ok(here.looks));
                let opened = open_time_source(self.source, here.postmaster_pid, looks, Some(own.clone())).await?;
                (opened.0, opened.1, pulse)
            }
        };
        let (gone, is_gone) = oneshot::channel();
        let own_pids = here.own_pids.clone();
        let period = self.step.max(SLOWEST_TICK);
        let pulse = PulseReader::start(pulse, here.version_num, (own_pids, own.clone()), period, gone).await?;
        // The cost of `FetchedBytes` grows with the host's processes.
        let fetched = here.postmaster_pid.filter(|_| !is_economical).map(FetchedBytes::begin);
        let mut missing = find_missing(refused, source.cost_refusal(), &pulse, here.version_num, here.grant);
        if source.tier() == Tier::Bpf && self.step < LEAST_STEP_WITH_STALLS {
            missing.push(Missing::new("stalls", "stall detection requires steps of a second or longer", None));
        }
        missing.extend(here.missing);
        if let Some(Err(error)) = &fetched {
            missing.push(Missing::new("page cache hits", error.to_string(), error.hint()));
        }
        let machine = here.postmaster_pid.map(|_| MachineWatch {
            before: GaugeReading::read_machine(&here.devices),
            devices: here.devices,
            device_name: here.device_name,
            fetched: fetched.and_then(Result::ok),
        });
        let names = WaitNames::of_server(here.version_num, &mut here.who).await;
        let mut roster = Roster::new(here.postmaster_pid, here.own_pids);
        roster.see(sessions);
        // Stalls need the number of commands, which sampling does not count.
        let stalls = (source.tier() == Tier::Bpf && self.step >= LEAST_STEP_WITH_STALLS)
            .then(|| StallWatch::new(names.clone(), here.data_directory.as_deref()));
        let mut source = BudgetedSource::new(source, here.postmaster_pid, self.budget);
        let cpu_before = read_own_cpu_time();
        let mut watch = Watch::begin(&mut source, (here.who, Some(own)), roster, self.by, names, stalls).await?;
        let mut steps = Steps {
            block_size: here.block_size,
            machine_due: period - self.step / 2,
            server_before: pulse.first.clone(),
            window: RateWindow::new(!can_tell_at_once(here.version_num)),
            checkpoints: CheckpointWatch::default(),
            pulse,
            machine,
            kernel_before: source.cost(),
            cpu_before,
            missing,
            owed: 0,
        };
        let (frames, who_is_gone) = (self.frames.clone(), watch.hear_gone());
        let end = async {
            tokio::select! {
                gone = is_gone => gone.ok(),
                Ok(why) = who_is_gone => Some(why),
                () = frames.closed() => None,
            }
        };
        let step = self.step;
        let hear = |watch: &mut Watch, source: &BudgetedSource| {
            let span = watch.accounting.take_span();
            if span.second.length_ns > 0 {
                let frame = steps.take(span, source, watch);
                self.send(frame);
            }
            watch.culprits.forget_gone();
        };
        watch.until(&mut source, step, end, hear).await
    }

    pub fn tell_failure(&mut self, failure: &str, length: Duration) {
        self.send(TopFrame {
            at_ms: read_wall_ms(),
            length_ns: length.as_nanos() as u64,
            by: self.by,
            failure: Some(failure.to_owned()),
            cost: LookingCost { processors: count_cores(), ..LookingCost::default() },
            ..TopFrame::default()
        });
    }

    pub fn is_heard(&self) -> bool {
        !self.frames.is_closed()
    }

    fn send(&mut self, frame: TopFrame) {
        self.has_begun = true;
        let frame = TopFrame { lost_frames: self.lost_frames, ..frame };
        self.lost_frames = match self.frames.try_send(frame) {
            Ok(()) => 0,
            Err(_) => self.lost_frames + 1,
        };
    }
}

struct Steps {
    block_size: u32,
    /// Age of the machine's last reading from which the next is due.
    machine_due: Duration,
    server_before: PulseReading,
    window: RateWindow,
    checkpoints: CheckpointWatch,
    pulse: PulseReader,
    machine: Option<MachineWatch>,
    kernel_before: Option<ProbeCost>,
    cpu_before: Duration,
    missing: Vec<Missing>,
    owed: u64,
}

impl Steps {
    fn take(&mut self, span: TimeSpan, source: &BudgetedSource, watch: &Watch) -> TopFrame {
        let at_ms = read_wall_ms();
        let due =
            |machine: &&mut MachineWatch| read_monotonic().saturating_sub(machine.before.monotonic) >= self.machine_due;
        let machine = self.machine.as_mut().filter(due).map(MachineWatch::take);
        let (reading, unanswered) = match lock(&self.pulse.latest).take().transpose() {
            Ok(reading) => (reading, None),
            Err(why) => (None, Some(Missing::new("the server's counters", why, None))),
        };
        let unasked =
            (span.failed.count > 0).then(|| Missing::new("identities of the processes", span.failed.why.clone(), None));
        let checkpoint = reading.as_ref().and_then(|reading| {
            let event = reading.server.checkpointer_event.as_deref();
            Some(self.checkpoints.take(reading.at_ns, at_ms, reading.checkpoints?, event))
        });
        let server = reading.map(|reading| self.server_step(reading));
        let kernel = source.cost();
        let cpu = read_own_cpu_time();
        let cost = LookingCost {
            kernel: kernel.as_ref().map(|now| now.since(&self.kernel_before.take().unwrap_or_default())),
            kernel_refusal: source.current.cost_refusal(),
            own_cpu_ns: cpu.saturating_sub(self.cpu_before).as_nanos() as u64,
            processors: count_cores(),
        };
        (self.kernel_before, self.cpu_before) = (kernel, cpu);
        TopFrame {
            at_ms,
            length_ns: span.second.length_ns,
            source: Some(source.current.tier()),
            by: watch.accounting.by,
            processes: span.second.processes,
            time: span.second.shares,
            clients: span.clients,
            explained: span.second.explained,
            activity: Activity::of(&span),
            rates: self.window.take(&span, server.as_ref(), machine.as_ref()),
            statistics: TopStatistic::all_of(&span),
            server,
            checkpoint,
            machine,
            stalls: watch.stalls.as_ref().map(|watch| watch.stalls.recent(at_ms - STALL_TOLD_MS)).unwrap_or_default(),
            blockers: watch.culprits.blockers.clone(),
            temporary_files: watch.culprits.temporary.clone(),
            imperfect: span.imperfect,
            cost,
            missing: self.missing.iter().cloned().chain([own_limit(source)]).chain(unanswered).chain(unasked).collect(),
            reductions: source.reductions.clone(),
            failure: None,
            lost_frames: 0,
        }
    }

    fn server_step(&mut self, now: PulseReading) -> ServerStep {
        let before = std::mem::replace(&mut self.server_before, now.clone());
        let grown = |of: fn(&ServerPulse) -> u64| of(&now.server).saturating_sub(of(&before.server));
        let ns = |seconds: Option<f64>| seconds.map(|seconds| (seconds.max(0.0) * 1e9) as u64);
        let active_ms = now.server.active_ms.zip(before.server.active_ms).map(|(now, before)| now - before);
        ServerStep {
            length_ns: now.at_ns.saturating_sub(before.at_ns),
            commits: grown(|one| one.commits),
            own_transactions: now.own - before.own,
            rollbacks: grown(|one| one.rollbacks),
            blocks_hit: grown(|one| one.blocks_hit),
            blocks_read: grown(|one| one.blocks_read),
            block_size: self.block_size,
            temporary_bytes: Bytes(grown(|one| one.temporary_bytes)),
            deadlocks: grown(|one| one.deadlocks),
            active_ns: ns(active_ms.map(|ms| ms / 1e3)),
            hidden: now.server.hidden,
            clients: now.server.clients,
            active: now.server.active,
            idle_in_transaction: now.server.idle_in_transaction,
            longest_query_ns: ns(now.server.longest_query_seconds),
            longest_transaction_ns: ns(now.server.longest_transaction_seconds),
        }
        .without_own(&mut self.owed)
    }
}

fn own_limit(source: &BudgetedSource) -> Missing {
    let (what, why) = match source.current.tier() {
        Tier::Bpf => ("waits without sleep", "page cache hits and spinlocks count as processor time".to_owned()),
        Tier::Memory => {
            let looks = looks_in_words(looks_after(&source.reductions));
            ("events between two samples", format!("processes are sampled {looks}: times are estimates"))
        }
        Tier::Sql => {
            let looks = if source.ask_every() > LOOK { "at most once" } else { "10 times" };
            ("events between two samples", format!("pg_stat_activity is sampled {looks} a second: times are estimates"))
        }
    };
    Missing::new(what, why, None)
}

fn find_missing(
    refused: Vec<RefusedSource>,
    cost_refusal: Option<String>,
    pulse: &PulseReader,
    version_num: u32,
    grant: String,
) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut told = HashSet::new();
    missing.extend(cost_refusal.map(|why| {
        let what = "cost of the BPF programs (the budget therefore covers only pgthaw's own processor time)";
        Missing::new(what, why, None)
    }));
    for one in refused {
        let what = match one.source {
            Tier::Bpf => "counts and lengths of waits, commands, stalls, and time spent waiting for a processor",
            _ => "waits shorter than 0.1 s, and whether a process that shows a wait event was already woken",
        };
        if told.insert((one.reason.clone(), what)) {
            missing.push(Missing::new(what, one.reason, one.remedy));
        }
    }
    if pulse.first.server.active_ms.is_none() {
        let why = format!("PostgreSQL {} does not measure the time of statements", version_num / 10_000);
        missing.push(Missing::new("length of transactions", why, None));
    }
    if pulse.first.server.hidden > 0 {
        missing.push(Missing::new("other roles' sessions", "this role may not see them", Some(grant)));
    }
    if let Some(why) = &pulse.checkpoint_refusal {
        missing.push(Missing::new("checkpoints", why.as_str(), None));
    }
    missing
}

#[derive(Clone, Debug, PartialEq)]
struct PulseReading {
    pub at_ns: u64,
    pub server: ServerPulse,
    /// pgthaw's transactions. Since PostgreSQL 15, `server` includes them all.
    pub own: u64,
    /// `None` if not permitted.
    pub checkpoints: Option<CheckpointPulse>,
}

type Latest = Arc<Mutex<Option<Result<PulseReading, String>>>>;

/// Dropping it stops the task.
#[derive(Debug)]
struct PulseReader {
    pub first: PulseReading,
    pub checkpoint_refusal: Option<String>,
    latest: Latest,
    _task: JoinSet<()>,
}

impl PulseReader {
    /// Queries shortly before the end of each `period`. Sends the reason to `gone` when the server is gone.
    pub async fn start(
        mut connection: PgConnection,
        version_num: u32,
        (own_pids, own): (Vec<u32>, OwnTransactions),
        period: Duration,
        gone: oneshot::Sender<String>,
    ) -> Result<PulseReader, postgres::Error> {
        let (checkpoints, checkpoint_refusal) = match read_checkpoint_pulse(&mut connection, version_num).await {
            Ok(checkpoints) => (Some(checkpoints), None),
            Err(error) if error.is_server_gone() => return Err(error),
            Err(error) => (None, Some(error.to_string())),
        };
        let knows_checkpoints = checkpoints.is_some();
        // Prepares statements, which the server counts too.
        read_pulse(&mut connection, &own_pids).await?;
        let first = PulseReading { checkpoints, ..read_apart(&mut connection, &own_pids, &own, 0).await? };
        let latest = Latest::default();
        let to_fill = Arc::clone(&latest);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut ticks = interval_at(Instant::now() + period - period / 5, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                // A session reports its transactions only after it has read a table. This query reads none, so the
                // server counts its transaction together with that of the next query.
                let checkpoints = match knows_checkpoints {
                    true => read_checkpoint_pulse(&mut connection, version_num).await.ok(),
                    false => None,
                };
                let reading = match read_apart(&mut connection, &own_pids, &own, knows_checkpoints.into()).await {
                    Ok(reading) => Ok(PulseReading { checkpoints, ..reading }),
                    Err(error) if error.is_server_gone() => {
                        let _ = gone.send(error.with_hint());
                        return;
                    }
                    Err(error) => Err(error.with_hint()),
                };
                *lock(&to_fill) = Some(reading);
            }
        });
        Ok(PulseReader { first, checkpoint_refusal, latest, _task: task })
    }
}

/// Returns the counters and the number of pgthaw's transactions in them, without `checkpoints`. Neither includes this
/// query. Queries again if another session of pgthaw was active. `untold`: number of this connection's earlier
/// transactions that the server counts only together with this query.
async fn read_apart(
    connection: &mut PgConnection,
    own_pids: &[u32],
    own: &OwnTransactions,
    mut untold: u64,
) -> Result<PulseReading, postgres::Error> {
    let mut is_again = false;
    loop {
        let (begun, ended) = own.counts();
        let asked = own.begin();
        let server = read_pulse(connection, own_pids).await?;
        let is_apart = (begun, ended) == (ended, own.counts().0 - 1);
        drop(asked);
        own.add(std::mem::take(&mut untold));
        if is_apart || is_again {
            let at_ns = read_monotonic().as_nanos() as u64;
            return Ok(PulseReading { at_ns, server, own: ended, checkpoints: None });
        }
        is_again = true;
    }
}

#[derive(Debug)]
struct MachineWatch {
    devices: Devices,
    device_name: Option<String>,
    fetched: Option<FetchedBytes>,
    before: GaugeReading,
}

impl MachineWatch {
    pub fn take(&mut self) -> MachineStep {
        let now = GaugeReading::read_machine(&self.devices);
        let before = std::mem::replace(&mut self.before, now.clone());
        MachineStep {
            length_ns: now.monotonic.saturating_sub(before.monotonic).as_nanos() as u64,
            device_name: self.device_name.clone(),
            gauges: now.since(&before, 1),
            fetched_bytes: self.fetched.as_mut().map(FetchedBytes::read_added),
        }
    }
}

#[derive(Debug)]
struct FetchedBytes {
    postmaster_pid: u32,
    seen: HashMap<u32, u64>,
}

impl FetchedBytes {
    pub fn begin(postmaster_pid: u32) -> Result<FetchedBytes, Error> {
        read_fetched_bytes(postmaster_pid)?;
        let mut fetched = FetchedBytes { postmaster_pid, seen: HashMap::new() };
        fetched.read_added();
        Ok(fetched)
    }

    /// Bytes read from storage since the last call. Misses the last bytes of an ended process.
    pub fn read_added(&mut self) -> Bytes {
        let children = read_children(self.postmaster_pid).unwrap_or_default();
        let read = |pid: u32| Some((pid, read_fetched_bytes(pid).ok()?.0));
        self.take(children.into_iter().chain([self.postmaster_pid]).filter_map(read).collect())
    }

    fn take(&mut self, now: HashMap<u32, u64>) -> Bytes {
        let added = |(pid, bytes): (&u32, &u64)| {
            let before = self.seen.get(pid).copied().unwrap_or(0);
            // The pid was reused.
            if *bytes < before { *bytes } else { bytes - before }
        };
        let sum = now.iter().map(added).fold(0, u64::saturating_add);
        self.seen = now;
        Bytes(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_what_happened_since_the_one_before() {
        let devices = Devices::default();
        let before = GaugeReading::read_machine(&devices);
        let mut watch = MachineWatch { devices, device_name: None, fetched: None, before };
        std::thread::sleep(Duration::from_millis(30));
        let step = watch.take();
        assert!(step.length_ns >= 30_000_000 && step.gauges.available_bytes.0 > 0, "{step:?}");
        assert_eq!((step.gauges.device, step.fetched_bytes), (None, None));
    }
}

#[cfg(test)]
mod fetched_tests {
    use super::*;

    #[test]
    fn who_comes_counts_from_nothing_and_a_number_may_be_given_again() {
        let mut fetched = FetchedBytes { postmaster_pid: 1, seen: HashMap::from([(5, 100), (6, 900)]) };
        assert_eq!(fetched.take(HashMap::from([(5, 130), (6, 50), (7, 8)])), Bytes(30 + 50 + 8));
        assert_eq!(fetched.take(HashMap::from([(5, 130)])), Bytes(0));
        assert_eq!(fetched.seen.len(), 1, "who went is forgotten");
    }

    #[test]
    fn what_was_fetched_before_does_not_count() {
        let mut fetched = FetchedBytes::begin(std::process::id()).unwrap();
        assert!(fetched.read_added().0 < 1 << 30);
        assert!(FetchedBytes::begin(u32::MAX >> 1).is_err());
    }
}
