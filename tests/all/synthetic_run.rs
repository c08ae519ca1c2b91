//! A study of ways to warm as it is stored, made without a server: a database of 750 MB on a disk of 3000 reads and 125 MiB
//! a second, warmed in ten ways that behave as the real ones do.

use std::path::Path;

use host::units::Bytes;
use model::Span;
use pgthaw_lab::study::{
    Disk, RelationResidency, ResidencyStrip, Sample, StartState, StrategyOutcome, StudyForecast, Sweep, SweepRun,
    SweepTrial, Turn, WarmupFacts, compute_worst_second, empty_trial, parse_sweep, render_digest,
};
use pgthaw_lab::verdict::{compute_warming, judge_samples};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::synthetic_host;

const BLOCK_SIZE: f64 = 8192.0;
const CELLS: usize = 64;
const STEADY_TPS: f64 = 46_000.0;
const RIOPS: f64 = 3000.0;
const RBPS: f64 = 131_072_000.0;

/// Relations with their kind and bytes.
const RELATIONS: [(&str, &str, f64); 6] = [
    ("public.pgbench_accounts", "table", 640e6),
    ("public.pgbench_accounts_pkey", "index", 107e6),
    ("public.pgbench_tellers", "table", 81_920.0),
    ("public.pgbench_branches", "table", 49_152.0),
    ("pg_catalog.pg_attribute", "table", 475_136.0),
    ("pg_toast.pg_toast_2618", "TOAST", 565_248.0),
];

/// How a strategy spends the device.
#[derive(Clone, Copy)]
struct Warmer {
    name: &'static str,
    /// Shares of the device's bandwidth that it uses, and of its reads that it takes from the workload.
    bandwidth: f64,
    reads: f64,
    /// Share of the database after which it stops.
    until: f64,
}

const fn warmer(name: &'static str, bandwidth: f64, reads: f64, until: f64) -> Warmer {
    Warmer { name, bandwidth, reads, until }
}

const WARMERS: [Warmer; 10] = [
    warmer("nothing", 0.0, 0.0, 0.0),
    warmer("seqscan", 0.8, 0.4, 0.86),
    warmer("cat", 0.82, 0.5, 1.0),
    warmer("vmtouch", 0.55, 0.5, 1.0),
    warmer("pg_prewarm-read", 0.4, 0.45, 1.0),
    warmer("pg_prewarm-buffer", 0.42, 0.5, 1.0),
    warmer("pg_prewarm-prefetch", 0.1, 1.0, 1.0),
    warmer("autoprewarm", 0.3, 0.5, 0.17),
    warmer("pgfincore", 0.02, 0.1, 0.1),
    warmer("pgthaw", 0.97, 0.6, 1.0),
];

/// A finished study with its trials.
pub fn make(repeats: u32, seconds: u32) -> (SweepRun, Vec<SweepTrial>) {
    let mut random = StdRng::seed_from_u64(7);
    let sweep = make_sweep(repeats, seconds);
    let mut trials = Vec::new();
    for repeat in 1..=repeats {
        for (warmer, point) in WARMERS.iter().zip(0..) {
            let turn = Turn { point, repeat, position: trials.len() as u32 + 1 };
            trials.push(make_trial(&sweep, &turn, warmer, seconds, &mut random));
        }
    }
    (make_run(&sweep), trials)
}

/// A trial whose figures follow from its seconds again.
pub fn measure_again(trial: &mut SweepTrial) {
    let warming = trial.warming.take().unwrap();
    let tenths = |sample: &Sample| [Bytes(sample.foreground_read_bytes.0 / 10); 10];
    let block_size = Bytes(BLOCK_SIZE as u64);
    let judgement = judge_samples(&trial.samples, Some(block_size), trial.point.facts(false));
    let judgement = judgement.map_err(|error| error.to_string());
    let tenths = trial.samples.iter().flat_map(tenths).collect();
    let mut again = compute_warming(&trial.samples, tenths, block_size, judgement);
    again.residency = warming.residency;
    again.figures.wanted_bytes = Some(Bytes(total_bytes() as u64));
    again.figures.bound_seconds = Some(total_bytes() / RBPS);
    trial.warming = Some(again);
    trial.transactions = trial.samples.iter().map(|sample| sample.transactions).sum();
    trial.lasted_seconds = trial.samples.len() as f64;
    trial.tps = trial.transactions as f64 / trial.lasted_seconds.max(1.0);
    trial.worst_second_tps = compute_worst_second(&trial.samples, trial.tps);
    trial.device_read_bytes = trial.samples.iter().map(|sample| sample.device_read_bytes).sum();
}

fn total_bytes() -> f64 {
    RELATIONS.iter().map(|(_, _, bytes)| bytes).sum()
}

fn make_trial(sweep: &Sweep, turn: &Turn, warmer: &Warmer, seconds: u32, random: &mut StdRng) -> SweepTrial {
    let started_at = "2026-11-21T23:30:05.123456789Z".parse().unwrap();
    let mut ended_after_seconds = None;
    let mut resident = total_bytes() * random.random_range(0.001..0.008);
    let start_state = StartState {
        os_resident_bytes: Bytes(resident as u64),
        total_bytes: Bytes(total_bytes() as u64),
        verdict: "cold".into(),
    };
    let mut issued = 0.0;
    let mut samples = Vec::new();
    for second in 1..=seconds {
        let is_busy = warmer.until > 0.0 && resident < total_bytes() * warmer.until;
        if warmer.until > 0.0 && !is_busy && ended_after_seconds.is_none() {
            ended_after_seconds = Some(f64::from(second) - random.random_range(0.1..0.9));
        }
        let loaded = if is_busy { RBPS * warmer.bandwidth * random.random_range(0.93..1.0) } else { 0.0 };
        issued += loaded.min(total_bytes() - resident);
        samples.push(make_sample(second, is_busy.then_some(warmer), loaded, &mut resident, random));
    }
    let outcome = StrategyOutcome {
        command: format!("{} --of-the-synthetic-run", warmer.name),
        ended_after_seconds,
        issued_bytes: (issued > 0.0).then_some(Bytes(issued as u64)),
        failure: None,
        output: format!("{} is done\n", warmer.name),
    };
    let residency = make_residency(warmer, resident / total_bytes(), random);
    let warming = pgthaw_lab::study::Warming { residency, ..Default::default() };
    let settings = [("shared_buffers", "128MB"), ("max_wal_size", "4GB"), ("shared_preload_libraries", "pg_prewarm")];
    let mut trial = SweepTrial {
        ended_at: Some("2026-11-21T23:31:05.123456789Z".parse().unwrap()),
        start_state: Some(start_state),
        strategy_outcome: (warmer.until > 0.0).then_some(outcome),
        warming: Some(warming),
        samples,
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        server_version: Some(synthetic_host::make_server().version),
        ..empty_trial(ID, &sweep.point(turn.point), turn, started_at)
    };
    measure_again(&mut trial);
    trial
}

/// A second in which the strategy loads `loaded` bytes and the workload fetches what it misses.
fn make_sample(second: u32, busy: Option<&Warmer>, loaded: f64, resident: &mut f64, random: &mut StdRng) -> Sample {
    let missing = 1.0 - (*resident / total_bytes()).min(1.0);
    let reads_left = RIOPS * (1.0 - busy.map_or(0.0, |warmer| warmer.reads));
    let noise = random.random_range(0.94..1.04);
    let served = (STEADY_TPS * noise).min(if missing > 0.0005 { reads_left / missing } else { f64::INFINITY });
    let misses = (served * missing).min(reads_left);
    let latency = if served >= 1.0 { Some(8.0e6 / served) } else { None };
    *resident = (*resident + loaded + misses * BLOCK_SIZE).min(total_bytes());
    let read_bytes = loaded + misses * BLOCK_SIZE;
    Sample {
        second,
        monotonic_ms: 5_000_000 + u64::from(second) * 1000,
        wall_ms: 1_795_303_805_000 + i64::from(second) * 1000,
        transactions: served as u64,
        latency_us_mean: latency,
        latency_us_min: latency.map(|mean| (mean * 0.2) as u64),
        latency_us_max: latency.map(|mean| (mean * random.random_range(5.0..40.0)) as u64),
        latency_us_deviation: latency.map(|mean| mean * 0.4),
        foreground_read_bytes: Bytes((misses as u64) * BLOCK_SIZE as u64),
        device_read_bytes: Bytes(read_bytes as u64),
        device_reads: (misses + loaded / 262_144.0) as u64,
        os_resident_bytes: Bytes(*resident as u64),
    }
}

fn make_residency(warmer: &Warmer, share: f64, random: &mut StdRng) -> Vec<RelationResidency> {
    let is_in_order = warmer.until > 0.0;
    let mut strip = |level: f64| -> Vec<f32> {
        let cell = |piece: usize, noise: f64| {
            let filled = (level * CELLS as f64 - piece as f64).clamp(0.0, 1.0);
            if is_in_order { filled.max(0.3 * level * noise) } else { (level * (0.8 + 0.4 * noise)).min(1.0) }
        };
        (0..CELLS).map(|piece| cell(piece, random.random_range(0.0..1.0)) as f32).collect()
    };
    let relations = RELATIONS.into_iter().map(|(relation, kind, bytes)| RelationResidency {
        course: None,
        relation: relation.into(),
        kind: kind.into(),
        total_bytes: Bytes(bytes as u64),
        before: ResidencyStrip { os: strip(0.005), buffers: vec![0.0; CELLS] },
        after: ResidencyStrip { os: strip(share), buffers: strip(share * 0.17) },
    });
    relations.collect()
}

const ID: &str = "20261121-233005-4f2a";

fn make_run(sweep: &Sweep) -> SweepRun {
    SweepRun {
        id: ID.into(),
        started_at: "2026-11-21T23:30:05.123456789Z".parse().unwrap(),
        ended_at: Some("2026-11-21T23:52:41.5Z".parse().unwrap()),
        pgthaw_version: "0.1.0".into(),
        pgbench_version: "pgbench (PostgreSQL) 15.18".into(),
        machine: synthetic_host::make_machine(),
        server: synthetic_host::make_server(),
        configuration: Vec::new(),
        question: String::new(),
        digest: render_digest(ID.as_bytes()),
        study: serde_json::to_value(sweep).unwrap(),
        varied: sweep.varied(),
        points: sweep.points(),
        repeats: sweep.repeats,
        seed: 12_345_678_901_234_567_890,
        databases: Vec::new(),
        generator: Vec::new(),
        verdicts: Vec::new(),
        warnings: Vec::new(),
        warmup: Some(WarmupFacts {
            disk: Disk {
                name: "gp3".into(),
                riops: Some(3000),
                rbps: Some(Bytes(131_072_000)),
                read_ahead: Some(Bytes(131_072)),
                ..Disk::default()
            },
            database_bytes: Bytes(total_bytes() as u64),
            wanted_bytes: Bytes(total_bytes() as u64),
            calibration_tps: Some(STEADY_TPS),
            forecast: Some(StudyForecast {
                cold_tps: 1500.0,
                steady_tps: STEADY_TPS,
                to_50_seconds: Some(Span { seconds: 14.0, low: 12.0, high: Some(17.0) }),
                warm_after_seconds: Some(Span { seconds: 18.0, low: 15.5, high: None }),
            }),
        }),
        source: None,
    }
}

fn make_sweep(repeats: u32, seconds: u32) -> Sweep {
    let names = WARMERS.map(|warmer| format!("'{}'", warmer.name)).join(", ");
    let study = format!(
        "kind = 'warmup'\nrepeats = {repeats}\n[points]\nscale = 50\nclients = 8\njobs = 2\nseconds = {seconds}\n\
         start = 'cold'\ndisk = 'gp3'\nstrategy = [{names}]\n"
    );
    parse_sweep(&study, Path::new("/"), false).unwrap()
}
