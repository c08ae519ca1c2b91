//! A run as `bench warmup` stores it, made without a server: a database of 750 MB on a disk of 3000 reads and 125 MiB
//! a second, warmed in ten ways that behave as the real ones do.

use pgthaw::model::Span;
use pgthaw::study::{
    Disk, RelationResidency, ResidencyStrip, Run, Sample, StartState, StrategyOutcome, Study, StudyForecast, Trial,
};
use pgthaw::units::Bytes;
use pgthaw::verdict::judge_trial;
use pgthaw::verdict::throughput::compute_seconds_to;
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

/// A finished run with its trials.
pub fn make(repeats: u32, seconds: u32) -> (Run, Vec<Trial>) {
    let mut random = StdRng::seed_from_u64(7);
    let mut trials: Vec<Trial> = Vec::new();
    for repeat in 1..=repeats {
        for warmer in &WARMERS {
            trials.push(make_trial(warmer, repeat, seconds, &mut random));
        }
    }
    let mut run = make_run(repeats, seconds);
    run.steady_tps = Some(STEADY_TPS);
    for (trial, position) in trials.iter_mut().zip(1..) {
        trial.position = position;
        let to = |share: f64| compute_seconds_to(&trial.samples, share, STEADY_TPS);
        (trial.to_50_seconds, trial.to_90_seconds, trial.to_95_seconds) = (to(0.5), to(0.9), to(0.95));
        judge_trial(&run, trial);
    }
    (run, trials)
}

/// The end of the last second in which 1 % of the transactions read, when three others follow.
fn warm_after(samples: &[Sample]) -> Option<f64> {
    let is_warm =
        |sample: &Sample| sample.foreground_read_bytes.0 as f64 / BLOCK_SIZE < 0.01 * sample.transactions as f64;
    let first_warm = samples.iter().rposition(|sample| !is_warm(sample)).map_or(0, |last| last + 1);
    (samples.len() >= first_warm + 3).then_some(first_warm as f64)
}

fn served(samples: &[Sample], seconds: f64) -> u64 {
    samples.iter().filter(|sample| f64::from(sample.second) <= seconds).map(|sample| sample.transactions).sum()
}

fn total_bytes() -> f64 {
    RELATIONS.iter().map(|(_, _, bytes)| bytes).sum()
}

fn make_trial(warmer: &Warmer, repeat: u32, seconds: u32, random: &mut StdRng) -> Trial {
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
    let warm_after_seconds = warm_after(&samples);
    Trial {
        run_id: "20261121-233005-4f2a".into(),
        strategy: warmer.name.into(),
        repeat,
        position: 0,
        started_at,
        start_state,
        outcome: StrategyOutcome {
            command: if warmer.until > 0.0 { format!("{} --of-the-synthetic-run", warmer.name) } else { String::new() },
            ended_after_seconds,
            issued_bytes: (issued > 0.0).then_some(Bytes(issued as u64)),
            failure: None,
            output: if warmer.until > 0.0 { format!("{} is done\n", warmer.name) } else { String::new() },
        },
        warm_after_seconds,
        to_50_seconds: None,
        to_90_seconds: None,
        to_95_seconds: None,
        served_until_warm: served(&samples, warm_after_seconds.unwrap_or(f64::INFINITY)),
        served: served(&samples, f64::INFINITY),
        device_read_bytes: samples.iter().map(|sample| sample.device_read_bytes).sum(),
        residency: make_residency(warmer, resident / total_bytes(), random),
        foreground_tenths: samples.iter().flat_map(|sample| [Bytes(sample.foreground_read_bytes.0 / 10); 10]).collect(),
        samples,
        warnings: Vec::new(),
        judgement: None,
        no_verdict: None,
    }
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

fn make_run(repeats: u32, seconds: u32) -> Run {
    Run {
        id: "20261121-233005-4f2a".into(),
        started_at: "2026-11-21T23:30:05.123456789Z".parse().unwrap(),
        ended_at: Some("2026-11-21T23:52:41.5Z".parse().unwrap()),
        pgthaw_version: "0.1.0".into(),
        machine: synthetic_host::make_machine(),
        server: synthetic_host::make_server(),
        settings: vec![
            ("shared_buffers".into(), "128MB".into()),
            ("max_wal_size".into(), "4GB".into()),
            ("shared_preload_libraries".into(), "pg_prewarm".into()),
        ],
        study: make_study(repeats, seconds),
        steady_tps: None,
        warnings: Vec::new(),
    }
}

fn make_study(repeats: u32, seconds: u32) -> Study {
    Study {
        title: None,
        scale: 50,
        clients: 8,
        jobs: 2,
        script: "select-only".into(),
        seconds,
        repeats,
        strategies: WARMERS.iter().map(|warmer| warmer.name.to_owned()).collect(),
        skipped_strategies: Vec::new(),
        disk: Disk {
            name: "gp3".into(),
            riops: Some(3000),
            rbps: Some(Bytes(131_072_000)),
            not_enforced: None,
            wiops: None,
            wbps: None,
            writes_not_enforced: None,
            read_ahead: Some(Bytes(131_072)),
            read_ahead_not_enforced: None,
        },
        seed: 12_345_678_901_234_567_890,
        database_bytes: Bytes(total_bytes() as u64),
        wanted_bytes: Bytes(total_bytes() as u64),
        bound_seconds: Some(total_bytes() / RBPS),
        start_state: "stopped, evicted, proven cold, started".into(),
        until_steady: false,
        forecast: Some(StudyForecast {
            cold_tps: 1500.0,
            steady_tps: STEADY_TPS,
            to_50_seconds: Some(Span { seconds: 25.0, low: 21.5, high: Some(29.5) }),
            warm_after_seconds: Some(Span { seconds: 30.0, low: 26.0, high: None }),
        }),
        memory: None,
    }
}
