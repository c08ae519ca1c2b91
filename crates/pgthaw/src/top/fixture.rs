use host::units::Bytes;
use observe::time::{
    Blocker, LookingCost, NamedStatistic, ProbeCost, ProgramCost, StatisticName, TemporaryFiles, Tier, TimeShares,
};
use observe::top::{
    Activity, CheckpointPhase, CheckpointStep, MachineStep, Missing, Rates, ServerStep, TopFrame, TopStatistic,
};
use observe::{DeviceUse, OsSample, Statistic};
use postgres::{LockProcess, Session};

const SECOND: u64 = 1_000_000_000;

pub fn frame(second: i64) -> TopFrame {
    TopFrame {
        at_ms: second * 1000,
        length_ns: SECOND,
        source: Some(Tier::Bpf),
        processes: 22,
        time: TimeShares { lived_ns: 22 * SECOND, running_ns: SECOND / 2, ready_ns: Some(0), ..TimeShares::default() },
        clients: TimeShares { lived_ns: 16 * SECOND, ..TimeShares::default() },
        explained: Some(1.0),
        activity: Activity {
            running: 1.5 + (second % 7) as f64 / 10.0,
            ready: Some(3.25),
            lock: 1.0,
            lwlock: 0.5,
            io: (second % 5) as f64,
            client: 9.5,
            idle: 6.0,
            other: 0.25,
            unseen: 0.0,
        },
        rates: Rates {
            over_ns: 10 * SECOND,
            transactions_per_second: Some(2413.4),
            commands_per_second: Some(16_893.0),
            command_ns: Some(420_000.0),
            transaction_ns: Some(3_100_000.0),
            buffers_hit_ratio: Some(0.982),
            page_cache_hit_ratio: Some(0.71),
            fetched_bytes_per_second: Some(12_300_000.0),
        },
        statistics: statistics(),
        server: Some(server()),
        checkpoint: Some(CheckpointStep {
            phase: CheckpointPhase::Writing,
            running_ns: Some(12 * SECOND),
            buffers: 9812,
            wal_bytes: 123 << 20,
            max_wal_bytes: 1 << 30,
            timeout_seconds: 300.0,
            ..CheckpointStep::default()
        }),
        machine: Some(machine()),
        cost: LookingCost {
            kernel: Some(ProbeCost {
                programs: vec![ProgramCost { name: "time_switch".into(), runs: 40_000, total_ns: 8_000_000 }],
            }),
            own_cpu_ns: 4_000_000,
            kernel_refusal: None,
            processors: 2.0,
        },
        missing: vec![Missing {
            what: "waits without sleep".into(),
            why: "page cache hits and spinlocks count as processor time".into(),
            remedy: None,
        }],
        ..TopFrame::default()
    }
}

fn statistics() -> Vec<TopStatistic> {
    let row = |place: &str, part: &str, detail: &str, lengths: &[u64], more_ns: u64, open_ns: u64| {
        let mut statistic = Statistic::of_time(0, lengths.iter().sum::<u64>() + more_ns);
        lengths.iter().for_each(|length| statistic.count(*length));
        let name = StatisticName { place: place.into(), part: part.into(), detail: detail.into() };
        let named = NamedStatistic::new(name, statistic);
        TopStatistic {
            named,
            share: (place == "client backend").then_some(0.25),
            open: u32::from(open_ns > 0),
            open_ns,
        }
    };
    let mut running = row("client backend", "processor", "running", &[], SECOND / 2, 0);
    running.named.statistic.count = 40_000;
    vec![
        row("client backend", "Lock", "transactionid", &[], SECOND, 3 * SECOND),
        running,
        row("walwriter", "IO", "WALSync", &[2_000_000, 9_000_000], 0, 0),
        row("checkpointer", "Activity", "CheckpointerMain", &[], SECOND, 0),
    ]
}

fn server() -> ServerStep {
    ServerStep {
        length_ns: SECOND,
        commits: 2410,
        block_size: 8192,
        clients: 16,
        active: 12,
        idle_in_transaction: 3,
        longest_query_ns: Some(3 * SECOND),
        longest_transaction_ns: Some(4 * SECOND),
        ..ServerStep::default()
    }
}

fn machine() -> MachineStep {
    MachineStep {
        length_ns: SECOND,
        device_name: Some("nvme0n1".into()),
        gauges: OsSample {
            device: Some(DeviceUse {
                reads: 1203,
                read_bytes: Bytes(9_400_000),
                writes: 402,
                written_bytes: Bytes(12_000_000),
                read_await_us: Some(310.0),
                write_await_us: Some(2100.0),
                queue: 3.2,
                busy_ratio: 0.87,
            }),
            processors_busy_seconds: 1.84,
            dirty_bytes: Bytes(123 << 20),
            writeback_bytes: Bytes(2 << 20),
            available_bytes: Bytes(5 << 30),
            cached_bytes: Bytes(3 << 30),
            ..OsSample::default()
        },
        ..MachineStep::default()
    }
}

fn session(pid: u32, state: &str, query: &str) -> Session {
    Session {
        pid,
        user: Some("app".into()),
        database: Some("shop".into()),
        application_name: Some("psql".into()),
        state: Some(state.into()),
        state_ms: Some(12_300),
        query: Some(query.into()),
        ..Session::default()
    }
}

pub fn blocker() -> Blocker {
    let waiter = |pid| LockProcess {
        session: session(pid, "active", "update accounts set balance = ?"),
        relation: Some("accounts".into()),
        waited_ms: Some(2800),
        ..LockProcess::default()
    };
    let of = |process, behind| Blocker { process, behind, ..Blocker::default() };
    let session = session(4711, "idle in transaction", "update accounts set balance = ? where id = ?");
    let behind = [4712, 4713].map(|pid| of(waiter(pid), Vec::new())).to_vec();
    of(LockProcess { session, waiters: 2, ..LockProcess::default() }, behind)
}

pub fn spilled() -> TemporaryFiles {
    let session = session(4799, "active", "select * from orders order by amount");
    TemporaryFiles { session, files: 1, bytes: Bytes(312 << 20), seen_ms: None }
}
