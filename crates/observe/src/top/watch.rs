//! Looks at a server step after step, and sends what happened in each.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::sync::{mpsc, oneshot};

use super::checkpoint::CheckpointWatch;
use super::fetched::FetchedBytes;
use super::frame::{Activity, Missing, ServerStep, TopFrame, TopStatistic};
use super::machine::MachineWatch;
use super::pulse::{PulseReader, PulseReading};
use super::rates::RateWindow;
use crate::open::RefusedSource;
use crate::stall::StallWatch;
use crate::time::{
    Accounting, By, LookingCost, OwnTransactions, ProbeCost, Roster, Tier, TimeSource as _, TimeSpan, WaitNames, Watch,
};
use crate::{BudgetedSource, Error, looks_after, looks_in_words, open_time_source};
use host::failure::Explain as _;
use host::linux::clock::{read_own_cpu_time, read_wall_ms};
use host::linux::{Devices, count_cores};
use host::units::Bytes;
use postgres::{ServerPulse, can_tell_at_once, read_sessions, tell_statistics};

/// The server and the machine are asked no more often: that costs more than reading the times.
const SLOWEST_TICK: Duration = Duration::from_secs(1);

/// Stalls are found in quarters of a second, into which shorter steps do not fall.
const LEAST_STEP_WITH_STALLS: Duration = Duration::from_secs(1);

/// A stall that has ended is told for so long.
const STALL_TOLD_MS: i64 = 60_000;

/// A server that was opened, and what there is to look at.
#[derive(Debug)]
pub struct Here {
    /// Connections for the looks of the source, for who the processes are, and for the counters.
    pub looks: PgConnection,
    pub who: PgConnection,
    pub pulse: PgConnection,
    /// The backends that serve these.
    pub own_pids: Vec<u32>,
    pub postmaster_pid: Option<u32>,
    pub version_num: u32,
    pub block_size: u32,
    pub data_directory: Option<PathBuf>,
    pub devices: Devices,
    pub device_name: Option<String>,
    /// The command that lets its role see what others do.
    pub grant: String,
    /// What is known already not to be seen.
    pub missing: Vec<Missing>,
}

/// Looks on, and sends a frame at each step.
#[derive(Debug)]
pub struct TopWatch {
    by: By,
    source: Option<Tier>,
    step: Duration,
    /// Share of all processors that looking may cost, 0 to 1.
    budget: f64,
    frames: mpsc::Sender<TopFrame>,
    lost_frames: u64,
    has_begun: bool,
}

impl TopWatch {
    /// Sends to `frames`. Where nobody takes them in time, they are counted and dropped.
    pub fn new(by: By, source: Option<Tier>, step: Duration, budget: f64, frames: mpsc::Sender<TopFrame>) -> TopWatch {
        TopWatch { by, source, step, budget, frames, lost_frames: 0, has_begun: false }
    }

    /// Looks on until the server does not answer any more, and says why it does not; `None`: nobody takes frames any more.
    pub async fn watch(&mut self, mut here: Here) -> Result<Option<String>, Error> {
        let own = OwnTransactions::default();
        // What connecting took, and preparing to ask, is told before the first pulse.
        tell_statistics(&mut here.looks).await?;
        let sessions = read_sessions(&mut here.who).await?;
        let (source, refused) =
            open_time_source(self.source, here.postmaster_pid, here.looks, Some(own.clone())).await?;
        let (gone, is_gone) = oneshot::channel();
        let own_pids = here.own_pids.clone();
        let period = self.step.max(SLOWEST_TICK);
        let pulse = PulseReader::start(here.pulse, here.version_num, (own_pids, own.clone()), period, gone).await?;
        let fetched = here.postmaster_pid.map(FetchedBytes::begin);
        let mut missing = find_missing(refused, source.cost_refusal(), &pulse, here.version_num, here.grant);
        if source.tier() == Tier::Bpf && self.step < LEAST_STEP_WITH_STALLS {
            let why = "they are found with steps of a second and longer";
            missing.push(Missing { what: "stalls".into(), why: why.into(), remedy: None });
        }
        missing.extend(here.missing);
        if let Some(Err(error)) = &fetched {
            missing.push(Missing {
                what: "the hits of the page cache".into(),
                why: error.to_string(),
                remedy: error.hint(),
            });
        }
        let machine = here
            .postmaster_pid
            .map(|_| MachineWatch::begin(here.devices, here.device_name, fetched.and_then(Result::ok)));
        let names = WaitNames::of_version(here.version_num);
        let mut roster = Roster::new(here.postmaster_pid, here.own_pids);
        roster.see(sessions);
        // Looks count no commands.
        let stalls = (source.tier() == Tier::Bpf && self.step >= LEAST_STEP_WITH_STALLS)
            .then(|| StallWatch::new(names.clone(), here.data_directory.as_deref()));
        // What opening took belongs to no step.
        let mut source = BudgetedSource::new(source, here.postmaster_pid, self.budget);
        let cpu_before = read_own_cpu_time();
        let mut watch = Watch::begin(&mut source, (here.who, Some(own)), roster, self.by, names, stalls).await?;
        let mut steps = Steps {
            by: self.by,
            block_size: here.block_size,
            period,
            half_step: self.step / 2,
            server_before: pulse.first.clone(),
            window: RateWindow::new(!can_tell_at_once(here.version_num)),
            checkpoints: CheckpointWatch::default(),
            pulse,
            machine,
            kernel_before: source.cost(),
            cpu_before,
            missing,
        };
        let frames = self.frames.clone();
        let end = async {
            tokio::select! {
                gone = is_gone => gone.ok(),
                () = frames.closed() => None,
            }
        };
        let step = self.step;
        let hear = |accounting: &mut Accounting, source: &BudgetedSource, stalls: Option<&StallWatch>| {
            let span = accounting.take_span();
            if span.second.length_ns > 0 {
                let frame = steps.take(span, source, stalls);
                self.send(frame);
            }
        };
        watch.until(&mut source, step, end, hear).await
    }

    /// Tells that there is no server, and why.
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

    /// Does anybody still take frames?
    pub fn is_heard(&self) -> bool {
        !self.frames.is_closed()
    }

    /// Was there a step?
    pub fn has_begun(&self) -> bool {
        self.has_begun
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

/// What steps are made from.
struct Steps {
    by: By,
    block_size: u32,
    period: Duration,
    half_step: Duration,
    server_before: PulseReading,
    window: RateWindow,
    checkpoints: CheckpointWatch,
    pulse: PulseReader,
    machine: Option<MachineWatch>,
    kernel_before: Option<ProbeCost>,
    cpu_before: Duration,
    missing: Vec<Missing>,
}

impl Steps {
    fn take(&mut self, span: TimeSpan, source: &BudgetedSource, stalls: Option<&StallWatch>) -> TopFrame {
        let at_ms = read_wall_ms();
        let due = |machine: &&mut MachineWatch| machine.age() + self.half_step >= self.period;
        let machine = self.machine.as_mut().filter(due).and_then(MachineWatch::take);
        let reading = self.pulse.take();
        let checkpoint = reading.as_ref().and_then(|reading| {
            let event = reading.server.checkpointer_event.as_deref();
            Some(self.checkpoints.take(reading.at_ns, at_ms, reading.checkpoints?, event))
        });
        let server = reading.map(|reading| self.server_step(reading));
        let kernel = source.cost();
        let cpu = read_own_cpu_time();
        let cost = LookingCost {
            kernel: kernel.as_ref().map(|now| now.since(&self.kernel_before.take().unwrap_or_default())),
            kernel_refusal: source.cost_refusal(),
            own_cpu_ns: cpu.saturating_sub(self.cpu_before).as_nanos() as u64,
            processors: count_cores(),
        };
        (self.kernel_before, self.cpu_before) = (kernel, cpu);
        TopFrame {
            at_ms,
            length_ns: span.second.length_ns,
            source: Some(source.tier()),
            by: self.by,
            processes: span.second.processes,
            time: span.second.shares,
            explained: span.second.explained,
            activity: Activity::of(&span),
            rates: self.window.take(&span, server.as_ref(), machine.as_ref()),
            statistics: TopStatistic::all_of(&span),
            server,
            checkpoint,
            machine,
            stalls: stalls.map(|watch| watch.stalls().recent(at_ms - STALL_TOLD_MS)).unwrap_or_default(),
            imperfect: span.imperfect,
            cost,
            missing: self.missing.iter().cloned().chain([own_limit(source)]).collect(),
            reductions: source.reductions().to_vec(),
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
    }
}

/// What this source cannot see whatever the server.
fn own_limit(source: &BudgetedSource) -> Missing {
    let (what, why) = match source.tier() {
        Tier::Bpf => (
            "waits that do not sleep",
            "a read that the page cache answers, a spinlock: they are time on a processor".to_owned(),
        ),
        Tier::Memory => {
            let looks = looks_in_words(looks_after(source.reductions()));
            ("what lies between two looks", format!("processes are looked at {looks}: times are estimates"))
        }
        Tier::Sql => {
            let why = "pg_stat_activity is looked at 10 times a second: times are estimates";
            ("what lies between two looks", why.to_owned())
        }
    };
    Missing { what: what.to_owned(), why, remedy: None }
}

/// Why there is no better source; what this server does not tell.
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
        let what = "what the programs in the kernel cost, which no budget bounds then";
        Missing { what: what.to_owned(), why, remedy: None }
    }));
    for one in refused {
        let what = match one.source {
            Tier::Bpf => "how often and how long each wait was, commands, stalls, and who was ready for a processor",
            _ => "waits shorter than a tenth of a second, and woken processes as such",
        };
        if told.insert((one.reason.clone(), what)) {
            missing.push(Missing { what: what.into(), why: one.reason, remedy: one.remedy });
        }
    }
    if pulse.first.server.active_ms.is_none() {
        let why = format!("PostgreSQL {} does not count the time of statements", version_num / 10_000);
        missing.push(Missing { what: "how long transactions took".into(), why, remedy: None });
    }
    if pulse.first.server.hidden > 0 {
        missing.push(Missing {
            what: "what other roles' sessions do".into(),
            why: "this role may not see it".into(),
            remedy: Some(grant),
        });
    }
    if let Some(why) = &pulse.checkpoint_refusal {
        missing.push(Missing { what: "checkpoints".into(), why: why.clone(), remedy: None });
    }
    missing
}
