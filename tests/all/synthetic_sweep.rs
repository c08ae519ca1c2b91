//! A sweep as `bench` stores it, made without a server: throughput grows with the clients up to a point, falls with
//! the size, and stalls at checkpoints and once beside them. Servers that begin cold get warm in a time that the size and the
//! warmer decide.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use host::units::Bytes;
use observe::time::{NamedStatistic, ProgramCost, StatisticName, TimeFigures, TimeUse, TrialTime};
use observe::{DeviceUse, ObservedWait, OsSample, PressureRatios, Statistic, TaskShare, WaitSample, Waits};
use pgbench::QueryMode;
use pgthaw_lab::study::{
    Checkpoint, LatencyHistogram, LoadBegins, Point, RelationResidency, ResidencyCourse, ResidencyStrip, Sample,
    ScriptLatency, StartAsked, StartState, StrategyOutcome, SweepRun, SweepTrial, Warming,
};
use pgthaw_lab::verdict::{compute_warming, judge_samples};
use postgres::{BufferUse, RowDelta, StatisticsDelta, Wait};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use super::synthetic_host;

/// What the sweep varies.
pub struct Shape<'a> {
    pub scales: &'a [u32],
    pub clients: &'a [u32],
    /// Values of shared_buffers.
    pub buffers: &'a [&'a str],
    /// What warms servers that begin cold; without any all begin warm.
    pub strategies: &'a [&'a str],
    pub repeats: u32,
    pub seconds: u32,
}

/// Seconds between checkpoints, and that one lasts.
const CHECKPOINT_EVERY: u32 = 30;
const CHECKPOINT_SECONDS: u32 = 6;

/// The second in which hardly anything is served: all wait for the log.
const STALL_SECOND: u32 = 46;

/// What the disk of cold servers delivers in a second.
const BANDWIDTH: f64 = 131_072_000.0;

const BLOCK_BYTES: f64 = 8192.0;

/// A finished sweep with its trials.
pub fn make(shape: &Shape<'_>) -> (SweepRun, Vec<SweepTrial>) {
    let run = make_run(shape);
    let points = make_points(shape);
    let mut random = StdRng::seed_from_u64(11);
    let mut trials = Vec::new();
    for repeat in 1..=shape.repeats {
        for (number, point) in (0..).zip(&points) {
            let place = Place { number, repeat, position: trials.len() as u32 + 1 };
            trials.push(make_trial(&run.id, point, &place, &mut random));
        }
    }
    (run, trials)
}

fn make_points(shape: &Shape<'_>) -> Vec<Point> {
    let mut points = Vec::new();
    for scale in shape.scales {
        for clients in shape.clients {
            for buffers in shape.buffers {
                let warm = point(*scale, *clients, buffers, shape.seconds);
                let cold = |strategy: &&str| Point {
                    start: StartAsked::Cold,
                    disk: "gp3".into(),
                    strategy: (*strategy).to_owned(),
                    ..warm.clone()
                };
                points.extend(shape.strategies.iter().map(cold));
                if shape.strategies.is_empty() {
                    points.push(warm);
                }
            }
        }
    }
    points
}

struct Place {
    number: u32,
    repeat: u32,
    position: u32,
}

fn point(scale: u32, clients: u32, buffers: &str, seconds: u32) -> Point {
    Point {
        scale,
        clients,
        jobs: clients.min(2),
        script: "tpcb-like".into(),
        rate: None,
        query_mode: QueryMode::Prepared,
        seconds: Some(seconds),
        transactions: None,
        total_transactions: None,
        start: StartAsked::Warm,
        disk: "native".into(),
        file_system: "native".into(),
        server: "default".into(),
        latency_limit_ms: None,
        strategy: "nothing".to_owned(),
        load_begins: LoadBegins::AtOnce,
        database: "default".to_owned(),
        memory: None,
        places: "together".to_owned(),
        connect: false,
        variables: Vec::new(),
        settings: vec![("shared_buffers".into(), buffers.into())],
        side: None,
    }
}

fn make_trial(sweep_id: &str, point: &Point, place: &Place, random: &mut StdRng) -> SweepTrial {
    let clients = f64::from(point.clients);
    // Beyond eight clients more of them only wait.
    let level =
        900.0 * clients.min(8.0) * (1.0 - 0.01 * (clients - 8.0).max(0.0)) / (1.0 + f64::from(point.scale) / 40.0);
    let seconds = point.seconds.unwrap_or(10);
    let thaw = (point.start == StartAsked::Cold).then(|| Thaw::of(point));
    let samples: Vec<Sample> =
        (1..=seconds).map(|second| make_sample(second, level, clients, thaw.as_ref(), random)).collect();
    let transactions: u64 = samples.iter().map(|sample| sample.transactions).sum();
    let checkpoints = make_checkpoints(seconds);
    let wait_samples: Vec<WaitSample> = (1..=seconds).map(|second| make_wait_sample(second, point.clients)).collect();
    let latency = make_latency(clients / level * 1e6, random);
    SweepTrial {
        sweep_id: sweep_id.to_owned(),
        number: place.number,
        point: point.clone(),
        repeat: place.repeat,
        position: place.position,
        started_at: "2026-11-22T08:00:00Z".parse().unwrap(),
        ended_at: "2026-11-22T08:00:20Z".parse().ok(),
        start_state: Some(StartState {
            os_resident_bytes: Bytes(if thaw.is_some() { 20_000 } else { 15_000_000 } * u64::from(point.scale)),
            total_bytes: database_bytes(point),
            verdict: point.start.to_string(),
        }),
        command: format!("pgbench --client {} --builtin tpcb-like", point.clients),
        strategy_outcome: thaw.as_ref().filter(|_| point.strategy != "nothing").map(|thaw| thaw.outcome(point)),
        warming: thaw.as_ref().map(|thaw| thaw.warming(point, &samples)),
        generators: None,
        failure: None,
        lasted_seconds: f64::from(seconds),
        transactions,
        failed: 0,
        skipped: 0,
        retried: 0,
        retries: 0,
        late: 0,
        file_system: None,
        devices: Vec::new(),
        fresh_copy: None,
        server_version: None,
        tps: transactions as f64 / f64::from(seconds),
        worst_second_tps: samples.iter().map(|sample| sample.transactions as f64).reduce(f64::min),
        scripts: vec![make_script(transactions, latency.clone())],
        latency: Some(latency),
        os_samples: (1..=seconds).map(|second| make_os_sample(second, clients, random)).collect(),
        waits: Waits::total(&wait_samples),
        wait_samples,
        time: Some(make_time(seconds, clients)),
        statistics: make_statistics(checkpoints.len() as f64, transactions as f64),
        buffers_before: (0..6).map(|usage| buffer_use(usage, 2000)).collect(),
        buffers_after: (0..6).map(|usage| buffer_use(usage, 2500)).collect(),
        checkpoint_begun: None,
        checkpoint_cycles: checkpoints.len().saturating_sub(1) as u32,
        cycle_tps: None,
        checkpoints,
        settings: point.settings.iter().cloned().chain([("max_wal_size".to_owned(), "256MB".to_owned())]).collect(),
        device_read_bytes: samples.iter().map(|sample| sample.device_read_bytes).sum(),
        samples,
        verdicts: Vec::new(),
        warnings: Vec::new(),
    }
}

fn make_script(answered: u64, response: LatencyHistogram) -> ScriptLatency {
    ScriptLatency { script: "tpcb-like".into(), answered, failed: 0, skipped: 0, response, service: None }
}

fn database_bytes(point: &Point) -> Bytes {
    Bytes(15_400_000 * u64::from(point.scale))
}

/// How a server that began cold gets warm.
struct Thaw {
    /// No warmer can be done before.
    bound_seconds: f64,
    /// When nothing is missing any more.
    until_seconds: f64,
}

impl Thaw {
    fn of(point: &Point) -> Thaw {
        let bound_seconds = database_bytes(point).0 as f64 / BANDWIDTH;
        let (factor, more) = match point.strategy.as_str() {
            "nothing" => (8.0, 6.0),
            "pgthaw" => (1.2, 1.0),
            _ => (2.5, 2.0),
        };
        Thaw { bound_seconds, until_seconds: factor * bound_seconds + more }
    }

    /// Of what the workload touches in a second.
    fn missing_share(&self, second: u32) -> f64 {
        (1.0 - (f64::from(second) - 0.5) / self.until_seconds).max(0.0)
    }

    fn outcome(&self, point: &Point) -> StrategyOutcome {
        StrategyOutcome {
            command: format!("{} --of-the-synthetic-sweep", point.strategy),
            ended_after_seconds: Some(self.until_seconds),
            issued_bytes: Some(database_bytes(point)),
            failure: None,
            output: String::new(),
        }
    }

    fn warming(&self, point: &Point, samples: &[Sample]) -> Warming {
        let tenths = |sample: &Sample| [Bytes(sample.foreground_read_bytes.0 / 10); 10];
        let strip = |share: f64| ResidencyStrip { os: vec![share as f32; 4], buffers: vec![0.0; 4] };
        let left = self.missing_share(samples.len() as u32);
        let block_size = Bytes(BLOCK_BYTES as u64);
        let judgement = judge_samples(samples, Some(block_size), point.facts(false));
        let judgement = judgement.map_err(|error| error.to_string());
        let mut warming = compute_warming(samples, samples.iter().flat_map(tenths).collect(), block_size, judgement);
        warming.figures.wanted_bytes = Some(database_bytes(point));
        warming.figures.bound_seconds = Some(self.bound_seconds);
        warming.residency = vec![RelationResidency {
            course: ResidencyCourse::of(
                &samples.iter().map(|one| one.os_resident_bytes).collect::<Vec<_>>(),
                database_bytes(point),
            ),
            relation: "public.pgbench_accounts".into(),
            kind: "table".into(),
            total_bytes: database_bytes(point),
            before: strip(0.0),
            after: strip(1.0 - left),
        }];
        warming
    }
}

fn make_sample(second: u32, level: f64, clients: f64, thaw: Option<&Thaw>, random: &mut StdRng) -> Sample {
    let is_checkpoint = is_checkpoint(second);
    let share = if is_stall(second) {
        0.06
    } else if is_checkpoint {
        0.35
    } else {
        1.0
    };
    let missing = thaw.map(|thaw| thaw.missing_share(second));
    let served = level * random.random_range(0.94..1.04) * share / (1.0 + 20.0 * missing.unwrap_or_default());
    let latency = clients / served.max(1.0) * 1e6;
    // A cold transaction reads a block, or finds it.
    let read = missing.map_or_else(|| random.random_range(0.0..2e6), |missing| missing * served * BLOCK_BYTES / 0.8);
    Sample {
        second,
        monotonic_ms: 5_000_000 + u64::from(second) * 1000,
        wall_ms: 1_795_334_400_000 + i64::from(second) * 1000,
        transactions: served as u64,
        latency_us_mean: Some(latency),
        latency_us_min: Some((latency * 0.3) as u64),
        latency_us_max: Some((latency * random.random_range(4.0..if is_checkpoint { 90.0 } else { 12.0 })) as u64),
        latency_us_deviation: Some(latency * 0.4),
        foreground_read_bytes: Bytes((read * 0.8) as u64),
        device_read_bytes: Bytes(read as u64),
        device_reads: (read / 8192.0) as u64,
        os_resident_bytes: Bytes(15_000_000 + 20_000 * u64::from(second)),
    }
}

fn is_checkpoint(second: u32) -> bool {
    (second - 1) % CHECKPOINT_EVERY >= CHECKPOINT_EVERY - CHECKPOINT_SECONDS
}

fn is_stall(second: u32) -> bool {
    (STALL_SECOND..STALL_SECOND + 2).contains(&second)
}

fn make_os_sample(second: u32, clients: f64, random: &mut StdRng) -> OsSample {
    let load = clients.min(8.0) / 8.0 * if is_stall(second) { 0.1 } else { random.random_range(0.9..1.0) };
    let share = |tasks: u32, cpu: f64| TaskShare {
        tasks,
        cpu_seconds: cpu,
        run_delay_seconds: cpu / 20.0,
        involuntary_switches: cpu * 30.0,
    };
    let written = if is_checkpoint(second) { 3e7 } else { 4e6 } * random.random_range(0.8..1.2);
    OsSample {
        parts: BTreeMap::new(),
        second,
        generator_threads: vec![share(1, 0.5 * load), share(1, 0.45 * load)],
        server: BTreeMap::from([
            ("client backend".to_owned(), share(clients as u32, 4.2 * load)),
            ("checkpointer".to_owned(), share(1, if is_checkpoint(second) { 0.2 } else { 0.0 })),
            ("walwriter".to_owned(), share(1, 0.1 * load)),
        ]),
        pgthaw_cpu_seconds: 0.02,
        processors_busy_seconds: 5.6 * load + 0.1,
        processors_iowait_seconds: if is_stall(second) { 1.4 } else { 0.2 },
        processors_steal_seconds: 0.0,
        device: Some(DeviceUse {
            reads: 40,
            read_bytes: Bytes(800_000),
            writes: (written / 16_384.0) as u64,
            written_bytes: Bytes(written as u64),
            read_await_us: Some(300.0),
            write_await_us: Some(if is_stall(second) { 180_000.0 } else { 900.0 }),
            queue: if is_checkpoint(second) { 12.0 } else { 1.5 } * random.random_range(0.8..1.2),
            busy_ratio: 0.4,
        }),
        available_bytes: Bytes(20_000_000_000),
        cached_bytes: Bytes(9_000_000_000),
        dirty_bytes: Bytes(40_000_000 + 6_000_000 * u64::from(second % CHECKPOINT_EVERY)),
        writeback_bytes: Bytes(if is_checkpoint(second) { 25_000_000 } else { 0 }),
        pressure: PressureRatios {
            cpu_some: Some(0.2 * load),
            io_some: Some(if is_stall(second) { 0.9 } else { 0.1 }),
            io_full: Some(0.0),
            memory_some: Some(0.0),
            memory_full: Some(0.0),
        },
        time: Some(make_time_use(clients)),
        waited: BTreeMap::from([("Client::ClientRead".to_owned(), 0.3 * clients)]),
    }
}

/// What the client backends do in a second.
fn make_time_use(clients: f64) -> TimeUse {
    TimeUse {
        lived_seconds: clients,
        running_seconds: 0.1 * clients,
        ready_seconds: Some(0.2 * clients),
        client_seconds: 0.3 * clients,
        lwlock_seconds: 0.05 * clients,
        lock_seconds: 0.15 * clients,
        io_seconds: 0.1 * clients,
        other_seconds: 0.05 * clients,
        no_event_seconds: 0.04 * clients,
        unknown_seconds: 0.01 * clients,
        commands: 500.0,
        handled: 500.0,
        handled_seconds: 0.7 * clients,
        lwlock_waits: 90.0,
        statistics_waits: 2.0,
        statistics_seconds: 0.001,
        activity_reports: Some(1500.0),
        background_running_seconds: 0.1,
        background_ready_seconds: 0.01,
        background_waiting_seconds: 0.2,
        switches: 2500.0,
        explained_ratio: Some(0.99),
        cost_seconds: 0.01,
        lost_processes: 0.0,
    }
}

fn make_time(seconds: u32, clients: f64) -> TrialTime {
    let total = TimeUse { explained_ratio: Some(0.99), ..make_time_use(clients).scale(f64::from(seconds)) };
    let statistic = |part: &str, detail: &str, total_ns: u64| {
        let name = StatisticName { place: "client backend".into(), part: part.into(), detail: detail.into() };
        let mut statistic =
            Statistic { count: 100, total_ns, min_ns: Some(2000), max_ns: Some(9_000_000), ..Statistic::default() };
        (statistic.histogram[2], statistic.histogram[4]) = (60, 40);
        NamedStatistic::new(name, statistic)
    };
    TrialTime {
        figures: TimeFigures {
            source: "bpf".to_owned(),
            length_seconds: f64::from(seconds),
            total,
            explained_ratio_min: Some(0.985),
            explained_ratio_max: Some(0.992),
            is_cut_short: false,
        },
        processes: clients as u32 + 9,
        statistics: vec![statistic("Client", "ClientRead", 5_000_000_000), statistic("Lock", "tuple", 400_000_000)],
        handled_statistic: Some(statistic("command", "handled", 3_000_000_000)),
        programs: vec![ProgramCost { name: "time_switch".to_owned(), runs: 50_000, total_ns: 12_000_000 }],
        own_cpu_seconds: 0.02,
        ..TrialTime::default()
    }
}

/// In a stall the backends wait for the log, else they mostly work, or wait for pgbench.
fn make_wait_sample(second: u32, clients: u32) -> WaitSample {
    const LOOKS: u32 = 4;
    let wait = |kind: &str, event: &str, share: f64| ObservedWait {
        wait: Wait {
            backend: "client backend".into(),
            state: Some("active".into()),
            event_type: (!kind.is_empty()).then(|| kind.to_owned()),
            event: (!event.is_empty()).then(|| event.to_owned()),
        },
        observed: (share * f64::from(clients * LOOKS)).round() as u32,
    };
    let shares = match (is_stall(second), is_checkpoint(second)) {
        (true, _) => [0.05, 0.85, 0.0, 0.1, 0.0],
        (false, true) => [0.25, 0.2, 0.35, 0.05, 0.15],
        (false, false) => [0.45, 0.1, 0.1, 0.1, 0.25],
    };
    let kinds =
        [("", ""), ("LWLock", "WALWrite"), ("IO", "DataFileRead"), ("Lock", "transactionid"), ("Client", "ClientRead")];
    let waits = kinds.into_iter().zip(shares).map(|((kind, event), share)| wait(kind, event, share));
    WaitSample {
        second,
        seen: Waits { looks: LOOKS, waits: waits.filter(|one| one.observed > 0).collect(), ..Waits::default() },
    }
}

fn make_checkpoints(seconds: u32) -> Vec<Checkpoint> {
    let ends = (CHECKPOINT_EVERY..=seconds).step_by(CHECKPOINT_EVERY as usize);
    let checkpoint = |end: u32| Checkpoint {
        began_after_seconds: f64::from(end - CHECKPOINT_SECONDS),
        ended_after_seconds: f64::from(end),
        reason: "time".into(),
        buffers: 1200,
        write_seconds: 5.0,
        sync_seconds: 0.8,
        total_seconds: f64::from(CHECKPOINT_SECONDS),
        sync_files: 30,
        longest_sync_seconds: 0.4,
    };
    ends.map(checkpoint).collect()
}

fn make_latency(typical_us: f64, random: &mut StdRng) -> LatencyHistogram {
    let mut histogram = Histogram::new(3).unwrap();
    for _ in 0..2000 {
        let tail = if random.random_bool(0.02) { random.random_range(5.0..40.0) } else { 1.0 };
        histogram.record((typical_us * random.random_range(0.6..1.6) * tail) as u64 + 1).unwrap();
    }
    LatencyHistogram::new(&histogram)
}

fn make_statistics(checkpoints: f64, transactions: f64) -> StatisticsDelta {
    let row = |key: &[(&str, &str)], added: &[(&str, f64)]| RowDelta {
        key: key.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        added: added.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    };
    let bgwriter = [
        ("checkpoints_timed", checkpoints),
        ("checkpoints_req", 1.0),
        ("buffers_checkpoint", 1200.0 * checkpoints),
        ("buffers_clean", 300.0),
        ("buffers_backend", transactions / 50.0),
        ("maxwritten_clean", 3.0),
        ("buffers_alloc", transactions / 20.0),
    ];
    let database =
        [("xact_commit", transactions), ("blks_hit", transactions * 40.0), ("blks_read", transactions / 20.0)];
    StatisticsDelta(BTreeMap::from([
        ("pg_stat_bgwriter".to_owned(), vec![row(&[], &bgwriter)]),
        ("pg_stat_database".to_owned(), vec![row(&[("datname", "pgthaw_bench_1")], &database)]),
        (
            "pg_stat_wal".to_owned(),
            vec![row(&[], &[("wal_records", transactions * 9.0), ("wal_bytes", transactions * 900.0)])],
        ),
    ]))
}

fn buffer_use(usage_count: u8, buffers: u64) -> BufferUse {
    BufferUse { usage_count, buffers, dirty: buffers / 5 }
}

fn make_run(shape: &Shape<'_>) -> SweepRun {
    let lengths = [
        ("scale", shape.scales.len()),
        ("clients", shape.clients.len()),
        ("strategy", shape.strategies.len().max(1)),
        ("shared_buffers", shape.buffers.len()),
    ];
    SweepRun {
        id: "20261122-080000-5eed".into(),
        started_at: "2026-11-22T08:00:00Z".parse().unwrap(),
        ended_at: Some("2026-11-22T09:30:00Z".parse().unwrap()),
        pgthaw_version: "0.1.0".into(),
        pgbench_version: "pgbench (PostgreSQL) 15.18".into(),
        machine: synthetic_host::make_machine(),
        server: synthetic_host::make_server(),
        configuration: Vec::new(),
        question: "What do clients and size do to the worst second?".into(),
        digest: "0".repeat(64),
        study: json!({ "question": "What do clients and size do to the worst second?", "repeats": shape.repeats }),
        varied: lengths.iter().filter(|(_, length)| *length > 1).map(|(name, _)| (*name).to_owned()).collect(),
        points: lengths.iter().map(|(_, length)| *length as u32).product(),
        repeats: shape.repeats,
        seed: 12_345_678_901_234_567_890,
        databases: Vec::new(),
        generator: Vec::new(),
        verdicts: Vec::new(),
        warnings: Vec::new(),
        warmup: None,
        source: None,
    }
}
