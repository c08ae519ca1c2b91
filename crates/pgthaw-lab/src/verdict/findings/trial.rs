use std::collections::BTreeSet;

use super::generator::{GeneratorSigns, find_saturation};
use crate::study::{
    AUTOVACUUM, Disk, Exceeded, Finding, GeneratorCalibration, Measured, MeasurementVerdict, Others, Point,
    RESIDENT_SHARE, Sample, StartAsked, SweepTrial, TrialGenerator, Warming, forecast_warm_seconds,
};
use crate::verdict::warnings::{self, DeviceRates, find_others};
use host::units::Bytes;
use model::{Judgement, Verdict, compute_median};
use observe::time::ACCOUNT_DEAR;
use observe::{DeviceUse, OsSample};
use postgres::{ServerStatistics, Wait};

/// Percentile in tables; trials need `SAMPLES_BEYOND` latencies above it.
const PERCENTILE: f64 = 0.99;
const SAMPLES_BEYOND: f64 = 10.0;

/// Processors are full if busy for at least the share `BUSY` of the time. pgthaw then reports pgbench if it uses at
/// least the share `GENERATOR_MIN` of processor time.
const BUSY: f64 = 0.9;
const GENERATOR_MIN: f64 = 0.1;

/// A deviation of the duration is reported only above both limits (seconds, share).
const DURATION_OFF_MIN: f64 = 0.5;
const DURATION_OFF_RATIO: f64 = 0.05;

const RATE_MISSED: f64 = 0.1;

/// A trial that reaches either limit is long enough.
const LONG_SECONDS: f64 = 60.0;
const LONG_TRANSACTIONS: u64 = 100_000;

const ROW_WAITERS: f64 = 0.1;

const START_SPREAD_MS_MAX: f64 = 100.0;

#[derive(Debug)]
pub struct Circumstances<'a> {
    pub start: Vec<Finding>,
    pub disk: &'a Disk,
    /// Empty if there is only one device.
    pub parts: Vec<(&'static str, Disk)>,
    pub may_end_early: bool,
    pub disk_name: String,
    pub seconds: &'a [Sample],
    pub measured: &'a Measured,
    /// `None` if the curve is too short.
    pub judgement: Option<Judgement>,
    pub may_pause: bool,
    pub calibration: Option<&'a GeneratorCalibration>,
    /// Caches that a database of this scale should exceed, with their sizes.
    pub exceeded: Vec<(Exceeded, Bytes)>,
    pub log: &'a str,
    pub tables_before: &'a ServerStatistics,
    pub tables_after: &'a ServerStatistics,
    pub processors: u32,
    pub memory: Bytes,
}

pub fn compute_trial_verdicts(trial: &SweepTrial, circumstances: Circumstances<'_>) -> Vec<MeasurementVerdict> {
    let Circumstances { disk, measured, .. } = circumstances;
    let processors = circumstances.processors;
    let others = find_others(measured.others.as_ref());
    let signs = GeneratorSigns {
        calibration: circumstances.calibration,
        may_pause: circumstances.may_pause,
        are_processors_full: compute_busy_ratio(&trial.os_samples, processors).is_some_and(|ratio| ratio >= BUSY),
        are_processors_taken: others.as_ref().is_some_and(Others::has_processors),
    };
    let total_bytes = trial.start_state.as_ref().map(|start| start.total_bytes).unwrap_or_default();
    let job = trial.warming.as_ref().and_then(|warming| warming.figures.job);
    let is_without_curve = job.is_some_and(|job| job.is_without_curve());
    let unsteady = circumstances.judgement.and_then(|judgement| find_unsteady(trial, judgement));
    let unsteady = unsteady.filter(|_| !is_without_curve);
    let found = [
        others.clone().map(Finding::Others),
        find_other_start(trial, circumstances.memory),
        find_short_run(trial).filter(|_| unsteady.is_none()),
        unsteady,
        // No forecast for several devices: their combined speed is unknown.
        find_short(trial, disk).filter(|_| circumstances.parts.is_empty()),
        find_few(trial).filter(|_| !is_without_curve),
        find_nothing_served(trial),
        find_row_waiters(trial),
        find_saturation(trial, signs),
        find_other_duration(trial).filter(|_| !circumstances.may_end_early),
        find_missed_rate(trial),
        find_generators_apart(trial),
        find_differing_generators(trial),
        find_shared_processors(&trial.os_samples, circumstances.processors)
            .filter(|_| !others.as_ref().is_some_and(Others::has_processors)),
        find_failed_strategy(trial),
        find_not_brought(trial),
        find_taken_back(trial),
        find_autovacuum(circumstances.log),
        find_bloat(circumstances.tables_before, circumstances.tables_after),
        find_dear_account(trial, processors),
        find_exceeded_processors(trial, processors),
        trial.settings.iter().any(|(name, value)| name == "fsync" && value == "off").then_some(Finding::FsyncOff),
        warnings::find_late_readings(&measured.seconds),
        warnings::find_head_start(measured.head_start_bytes, total_bytes)
            .filter(|_| trial.point.start == StartAsked::Cold),
    ];
    let fitting = circumstances.exceeded.into_iter().filter(|(_, size)| total_bytes <= *size);
    let fitting = fitting.map(|(cache, cache_bytes)| Finding::FitsCache {
        cache: cache.to_string(),
        database_bytes: total_bytes,
        cache_bytes,
    });
    let unenforced = find_unenforced(&circumstances.disk_name, disk);
    let read_by_others = measured.others.as_ref().map(|used| used.read_bytes).unwrap_or_default();
    let exceeded = find_exceeded_limits(trial, (circumstances.seconds, read_by_others), disk, &circumstances.parts);
    let found = found.into_iter().flatten().chain(exceeded);
    let findings = circumstances.start.into_iter().chain(unenforced).chain(found).chain(fitting);
    findings.map(MeasurementVerdict::from).collect()
}

/// Factor by which the server's measured time may exceed the processors' time, because clocks differ.
const ACCOUNT_CLOSED: f64 = 1.02;

fn find_dear_account(trial: &SweepTrial, processors: u32) -> Option<Finding> {
    let figures = &trial.time.as_ref()?.figures;
    let ratio = figures.total.cost_seconds / (figures.length_seconds * f64::from(processors));
    (ratio > ACCOUNT_DEAR).then_some(Finding::DearAccount { ratio })
}

/// Skips sampled times: samples cannot distinguish running from runnable processes.
fn find_exceeded_processors(trial: &SweepTrial, processors: u32) -> Option<Finding> {
    let used = Some(&trial.time.as_ref()?.figures).filter(|figures| figures.total.is_exact())?.processors_used();
    (used > ACCOUNT_CLOSED * f64::from(processors)).then_some(Finding::ProcessorsExceeded { used, processors })
}

fn find_other_start(trial: &SweepTrial, memory: Bytes) -> Option<Finding> {
    let (asked, state) = (trial.point.start, trial.start_state.as_ref()?);
    let is_as_asked = asked == StartAsked::AsIs || state.verdict == asked.to_string();
    (!is_as_asked).then(|| Finding::StartNotAsAsked {
        asked: asked.to_string(),
        found: state.verdict.clone(),
        resident_bytes: state.os_resident_bytes,
        total_bytes: state.total_bytes,
        memory_bytes: Some(memory),
    })
}

/// Applies the same rule as `pgthaw judge`.
pub(super) fn find_unsteady(trial: &SweepTrial, judgement: Judgement) -> Option<Finding> {
    if judgement.is_steady() {
        return None;
    }
    let verdict = if judgement.verdict == Verdict::Degrading { "degrading" } else { "not_reached" };
    let cold = judgement.warmth.filter(|warmth| warmth.is_warm == Some(false));
    Some(Finding::NeverSteady {
        verdict: verdict.to_owned(),
        reason: cold.map_or(judgement.reason, |cold| cold.evidence),
        undecided: judgement.undecided,
        should_have_run_seconds: judgement.should_have_run_seconds,
        start: trial.point.start.to_string(),
    })
}

/// Compares the length with a forecast in which only the load warms the server.
fn find_short(trial: &SweepTrial, disk: &Disk) -> Option<Finding> {
    let figures = trial.warming.as_ref().map(|warming| &warming.figures);
    if figures.is_some_and(|figures| figures.warm_after_seconds.is_some() || figures.brought.is_some()) {
        return None;
    }
    let (seconds, needed_seconds) = (trial.point.seconds?, forecast_warm_seconds(&trial.point, disk)?);
    (f64::from(seconds) < needed_seconds).then_some(Finding::RuntimeTooShort { seconds, needed_seconds })
}

pub(super) fn find_few(trial: &SweepTrial) -> Option<Finding> {
    let needed = (SAMPLES_BEYOND / (1.0 - PERCENTILE)).round() as u64;
    // With `logged_share`, there are fewer latencies than transactions.
    let transactions = trial.latency.as_ref().filter(|_| trial.transactions > 0)?.count;
    (transactions < needed).then_some(Finding::TooFewTransactions { percentile: PERCENTILE, transactions, needed })
}

pub(super) fn find_nothing_served(trial: &SweepTrial) -> Option<Finding> {
    let is_idle = trial.warming.as_ref().is_some_and(|warming| warming.figures.brought.is_some());
    let is_told = trial.transactions == 0 && !is_idle;
    is_told.then_some(Finding::NothingServed { lasted_seconds: trial.lasted_seconds, failed: trial.failed })
}

fn find_other_duration(trial: &SweepTrial) -> Option<Finding> {
    let (asked_seconds, lasted_seconds) = (f64::from(trial.point.seconds?), trial.lasted_seconds);
    let off = (lasted_seconds - asked_seconds).abs();
    let is_told = off > DURATION_OFF_MIN && off > DURATION_OFF_RATIO * asked_seconds;
    is_told.then_some(Finding::OtherDuration { asked_seconds, lasted_seconds })
}

pub(super) fn find_missed_rate(trial: &SweepTrial) -> Option<Finding> {
    let asked = trial.point.rate?;
    // pgbench starts transactions at random times.
    let scatter = 3.0 / (asked * trial.lasted_seconds).max(1.0).sqrt();
    let is_missed = trial.tps < asked * (1.0 - RATE_MISSED.max(scatter));
    is_missed.then_some(Finding::RateNotReached { asked, reached: trial.tps })
}

/// Skips trials that start cold: `find_short` checks these.
pub(super) fn find_short_run(trial: &SweepTrial) -> Option<Finding> {
    let &SweepTrial { lasted_seconds, transactions, .. } = trial;
    let is_short = lasted_seconds < LONG_SECONDS && transactions < LONG_TRANSACTIONS;
    let is_told = is_short && transactions > 0 && trial.point.start != StartAsked::Cold;
    is_told.then_some(Finding::ShortRun { lasted_seconds, transactions })
}

/// tpcb-like updates one of `scale` branch rows in each transaction, and holds the lock to its end.
fn find_row_waiters(trial: &SweepTrial) -> Option<Finding> {
    let &Point { clients, scale, ref script, .. } = &trial.point;
    let is_meant = clients > scale && script.contains("tpcb-like");
    let waits_for_row = |wait: &Wait| {
        wait.event_type.as_deref() == Some("Lock")
            && wait.event.as_deref().is_some_and(|event| ["tuple", "transactionid"].contains(&event))
    };
    let waiting = trial.waits.mean(waits_for_row);
    let is_told = is_meant && waiting >= ROW_WAITERS * f64::from(clients);
    is_told.then_some(Finding::ClientsBeyondScale { clients, scale, waiting })
}

fn find_generators_apart(trial: &SweepTrial) -> Option<Finding> {
    let generators = trial.generators.as_ref()?;
    let (spread_ms, uncertainty_ms) = (generators.start_spread_ms, generators.start_uncertainty_ms());
    (spread_ms > START_SPREAD_MS_MAX).then_some(Finding::GeneratorsApart { spread_ms, uncertainty_ms })
}

fn find_differing_generators(trial: &SweepTrial) -> Option<Finding> {
    let hosts = &trial.generators.as_ref()?.hosts;
    let versions: BTreeSet<&str> = hosts.iter().map(|host| host.pgbench_version.as_str()).collect();
    let told = |host: &TrialGenerator| format!("{} {}", host.host, host.pgbench_version);
    (versions.len() > 1).then(|| Finding::GeneratorsDiffer { versions: hosts.iter().map(told).collect() })
}

fn find_shared_processors(samples: &[OsSample], processors: u32) -> Option<Finding> {
    let busy_ratio = compute_busy_ratio(samples, processors)?;
    let generator_ratio = median_share(samples, processors, |one| one.generator().cpu_seconds)?;
    let is_told = busy_ratio >= BUSY && generator_ratio >= GENERATOR_MIN;
    is_told.then_some(Finding::SharedProcessors { busy_ratio, generator_ratio, processors })
}

fn compute_busy_ratio(samples: &[OsSample], processors: u32) -> Option<f64> {
    Some(median_share(samples, processors, |one| one.processors_busy_seconds)?.min(1.0))
}

fn median_share(samples: &[OsSample], processors: u32, of: fn(&OsSample) -> f64) -> Option<f64> {
    compute_median(samples.iter().map(|sample| of(sample) / f64::from(processors.max(1))).collect())
}

fn find_failed_strategy(trial: &SweepTrial) -> Option<Finding> {
    let reason = trial.strategy_outcome.as_ref()?.failure.clone()?;
    Some(Finding::StrategyFailed { strategy: trial.point.strategy.clone(), reason })
}

fn find_not_brought(trial: &SweepTrial) -> Option<Finding> {
    let figures = &trial.warming.as_ref()?.figures;
    let (brought, wanted_bytes) = (figures.brought.as_ref()?, figures.wanted_bytes?);
    let is_missed = trial.point.strategy().fills_cache() && brought.resident_after_seconds.is_none();
    is_missed.then_some(Finding::NotBroughtBack { resident_bytes: brought.resident_bytes, wanted_bytes })
}

fn find_taken_back(trial: &SweepTrial) -> Option<Finding> {
    let Warming { figures, looks, .. } = trial.warming.as_ref()?;
    let (seen, left) = match &figures.brought {
        Some(brought) => {
            let exact = looks.iter().filter(|look| look.is_exact);
            (exact.map(|look| look.resident_bytes).max()?, brought.resident_bytes)
        }
        None => {
            let resident = || trial.samples.iter().map(|sample| sample.os_resident_bytes);
            (resident().max()?, resident().next_back()?)
        }
    };
    let bytes = Bytes(seen.0.saturating_sub(left.0));
    let is_much = bytes.0 as f64 > (1.0 - RESIDENT_SHARE) * figures.wanted_bytes?.0 as f64;
    is_much.then_some(Finding::TakenBack { bytes })
}

fn find_autovacuum(log: &str) -> Option<Finding> {
    let table = |line: &str| {
        let rest = AUTOVACUUM.iter().find_map(|sign| line.split_once(sign))?.1;
        rest.split('"').nth(1).map(str::to_owned)
    };
    let tables: Vec<String> = log.lines().filter_map(table).collect();
    let runs = tables.len() as u32;
    let tables: BTreeSet<String> = tables.into_iter().collect();
    (runs > 0).then(|| Finding::Autovacuum { runs, tables: tables.into_iter().collect() })
}

pub fn find_unenforced(name: &str, disk: &Disk) -> Vec<Finding> {
    let finding = |(what, reason): (&str, &String)| Finding::NotInForce {
        what: format!("the {what} of the disk {name}"),
        reason: reason.clone(),
    };
    disk.not_in_force().map(finding).collect()
}

/// Limits that a device exceeded, not counting reads by other processes.
fn find_exceeded_limits(
    trial: &SweepTrial,
    (seconds, others): (&[Sample], Bytes),
    disk: &Disk,
    parts: &[(&'static str, Disk)],
) -> Vec<Finding> {
    let uses = |of: &dyn Fn(&OsSample) -> Option<DeviceUse>| trial.os_samples.iter().filter_map(of).collect::<Vec<_>>();
    let of_one = |reads: Option<DeviceRates>, device: &[DeviceUse], disk: &Disk, on: &str| {
        let told = |limit: &str, did: &str, kind: &str, DeviceRates { bytes, requests }| Finding::NotInForce {
            what: format!("the {limit} of the disk {}{on}", disk.name),
            reason: format!("it {did} {bytes} and {requests:.0} {kind} per second for a while"),
        };
        let writes = warnings::find_missing_write_limit(device, disk);
        let reads = reads.map(|rates| told("limit", "delivered", "reads", rates));
        reads.into_iter().chain(writes.map(|rates| told("limit on writes", "took", "writes", rates)))
    };
    if parts.is_empty() {
        let device = uses(&|sample| sample.device);
        return of_one(warnings::find_missing_limit(seconds, disk, others), &device, disk, "").collect();
    }
    let of_part = |(part, disk): &(&'static str, Disk)| {
        let device = uses(&|sample| sample.parts.get(*part).copied());
        let reads = warnings::find_missing_read_limit(&device, disk, others);
        of_one(reads, &device, disk, &format!(", of the device for the {part}"))
    };
    parts.iter().flat_map(of_part).collect()
}

const TABLES_VIEW: &str = "pg_stat_user_tables";

const BLOAT_SHARE: f64 = 0.1;

const TABLES_MAX: usize = 3;

/// Table whose growth is unexpected: it has no inserts.
struct Table<'a> {
    name: &'a str,
    bytes_before: f64,
    grown_bytes: f64,
    dead: f64,
    rows: f64,
}

fn find_bloat(before: &ServerStatistics, after: &ServerStatistics) -> Option<Finding> {
    let column = |statistics: &ServerStatistics, name: &str, table: &str| {
        statistics.column(TABLES_VIEW, name).get(table).copied().unwrap_or(0.0)
    };
    let is_as_before = |name: &str| column(after, "n_tup_ins", name) == column(before, "n_tup_ins", name);
    let sizes = after.column(TABLES_VIEW, "total_bytes");
    let mut tables: Vec<Table<'_>> = Vec::new();
    for (name, bytes) in sizes.iter().filter(|(name, _)| is_as_before(name)) {
        let bytes_before = column(before, "total_bytes", name);
        let dead = column(after, "n_dead_tup", name);
        let rows = dead + column(after, "n_live_tup", name);
        tables.push(Table { name, bytes_before, grown_bytes: (bytes - bytes_before).max(0.0), dead, rows });
    }
    let sum = |of: fn(&Table<'_>) -> f64| tables.iter().map(of).sum::<f64>();
    let grown_ratio = sum(|one| one.grown_bytes) / sum(|one| one.bytes_before).max(1.0);
    let dead_ratio = sum(|one| one.dead) / sum(|one| one.rows).max(1.0);
    if grown_ratio < BLOAT_SHARE && dead_ratio < BLOAT_SHARE {
        return None;
    }
    tables.retain(|one| one.grown_bytes > 0.0 || one.dead > 0.0);
    let left = |one: &Table<'_>| one.grown_bytes / one.bytes_before.max(1.0) + one.dead / one.rows.max(1.0);
    tables.sort_by(|one, other| left(other).total_cmp(&left(one)));
    let tables = tables.iter().take(TABLES_MAX).map(|one| one.name.to_owned()).collect();
    Some(Finding::Bloat { grown_ratio, dead_ratio, tables })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::ground::disk_tests::named;
    use crate::study::record::tests::sample;
    use crate::study::record::tests::trial;
    use crate::study::{TrialGenerators, WarmingFigures};
    use crate::verdict::judge_samples;
    use observe::{ObservedWait, Waits};

    #[test]
    fn each_of_several_devices_is_held_to_its_own_limit() {
        let of = |writes: u64| DeviceUse {
            reads: 0,
            read_bytes: Bytes(0),
            writes,
            written_bytes: Bytes(8192 * writes),
            read_await_us: None,
            write_await_us: None,
            queue: 0.0,
            busy_ratio: 0.0,
        };
        let second = |rest: u64, wal: u64| OsSample {
            device: Some(of(rest + wal)),
            parts: [("rest".to_owned(), of(rest)), ("wal".to_owned(), of(wal))].into(),
            ..OsSample::default()
        };
        let limited = |name: &str| Disk { name: name.into(), wiops: Some(100), ..named("native") };
        let parts = [("rest", limited("volume")), ("wal", limited("log"))];
        let told = |rest, wal| {
            let trial = SweepTrial { os_samples: vec![second(rest, wal); 5], ..trial() };
            let found = find_exceeded_limits(&trial, (&[], Bytes(0)), &parts[0].1, &parts);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(100, 100), Vec::<String>::new());
        let exceeded = told(100, 200);
        assert!(exceeded.len() == 1 && exceeded[0].contains("log, of the device for the wal"), "{exceeded:?}");
    }

    #[test]
    fn what_a_disk_cannot_have_here_is_told_of_each_trial() {
        let disk = Disk {
            not_enforced: Some("no cgroups".into()),
            read_ahead_not_enforced: Some("btrfs".into()),
            ..named("gp3")
        };
        let told: Vec<String> = find_unenforced("gp3 on xfs", &disk).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "the limit of the disk gp3 on xfs is not in force: no cgroups",
                "the read-ahead of the disk gp3 on xfs is not in force: btrfs"
            ]
        );
        assert!(find_unenforced("gp3", &named("gp3")).is_empty());
    }

    #[test]
    fn a_plateau_beside_a_warmer_is_not_believed() {
        let samples = (1..=30).map(|second| sample(second, 400, 800 * 8192)).collect();
        let flat = SweepTrial { samples, ..trial() };
        let beside = |strategy: &str| {
            let point = Point { strategy: strategy.into(), start: StartAsked::Cold, ..flat.point.clone() };
            let judgement = judge_samples(&flat.samples, Some(Bytes(8192)), point.facts(true)).unwrap();
            find_unsteady(&SweepTrial { point, ..flat.clone() }, judgement)
        };
        let Some(Finding::NeverSteady { reason, start, .. }) = beside("cat") else { panic!("it is believed") };
        assert!(reason.starts_with("each transaction read 2.00 blocks from the device") && start == "cold", "{reason}");
    }

    #[test]
    fn a_trial_that_was_warm_was_not_too_short() {
        let mut cold = trial();
        (cold.point.scale, cold.point.start, cold.point.seconds) = (1000, StartAsked::Cold, Some(60));
        let of = |warm_after_seconds| {
            let figures = WarmingFigures { warm_after_seconds, ..WarmingFigures::default() };
            let warming = Some(Warming { figures, ..Warming::default() });
            find_short(&SweepTrial { warming, ..cold.clone() }, &named("gp3")).is_some()
        };
        assert_eq!((of(None), of(Some(50.0))), (true, false));
    }

    #[test]
    fn a_minute_or_many_transactions_are_enough() {
        let of = |lasted_seconds, transactions, start| {
            let point = Point { start, ..trial().point };
            find_short_run(&SweepTrial { lasted_seconds, transactions, point, ..trial() }).is_some()
        };
        assert!(of(59.9, 99_999, StartAsked::Warm));
        assert!(!of(60.0, 99_999, StartAsked::Warm) && !of(10.0, 100_000, StartAsked::Warm));
        assert!(!of(10.0, 5, StartAsked::Cold) && !of(10.0, 0, StartAsked::Warm));
    }

    #[test]
    fn clients_beyond_the_scale_are_told_by_the_rows_that_they_wait_for() {
        let of = |script: &str, scale, event: &str, observed| {
            let text = |text: &str| Some(text.to_owned());
            let wait = Wait {
                backend: "client backend".into(),
                state: text("active"),
                event_type: text("Lock"),
                event: text(event),
            };
            let waits = Waits { looks: 10, waits: vec![ObservedWait { wait, observed }], ..Waits::default() };
            let point = Point { script: script.into(), clients: 8, scale, ..trial().point };
            find_row_waiters(&SweepTrial { waits, point, ..trial() })
        };
        let told = Finding::ClientsBeyondScale { clients: 8, scale: 1, waiting: 5.0 };
        assert_eq!(of("tpcb-like", 1, "transactionid", 50), Some(told));
        assert!(of("tpcb-like@9 + select-only@1", 7, "tuple", 8).is_some());
        for (script, scale, event, observed) in [
            ("tpcb-like", 8, "tuple", 50),
            ("tpcb-like", 1, "tuple", 7),
            ("tpcb-like", 1, "extend", 50),
            ("simple-update", 1, "tuple", 50),
        ] {
            assert_eq!(of(script, scale, event, observed), None, "{script} {scale} {event} {observed}");
        }
    }

    #[test]
    fn autovacuum_is_found_in_the_log() {
        let log = "1763793000.1 [7] LOG:  automatic vacuum of table \"b.public.pgbench_tellers\": index scans: 1\n\
                   \tpages: 0 removed\n\
                   1763793000.2 [7] LOG:  automatic analyze of table \"b.public.pgbench_tellers\"\n\
                   1763793000.3 [7] LOG:  automatic vacuum to prevent wraparound of table \"b.public.y\": index scans: 0\n\
                   1763793000.3 [7] LOG:  automatic aggressive vacuum to prevent wraparound of table \"b.public.y\": x\n\
                   1763793000.3 [7] LOG:  automatic analyze of table \"b.public.x\" system usage: CPU\n";
        let Some(Finding::Autovacuum { runs, tables }) = find_autovacuum(log) else { panic!("nothing was found") };
        assert_eq!((runs, tables.len()), (5, 3));
        assert_eq!(tables[0], "b.public.pgbench_tellers");
        assert_eq!(find_autovacuum("LOG:  checkpoint starting: time\n"), None);
    }

    #[test]
    fn a_load_that_was_not_as_long_or_as_much_as_it_was_asked_for_is_told() {
        let of = |lasted_seconds, rate, tps| {
            let mut trial = SweepTrial { lasted_seconds, tps, ..trial() };
            (trial.point.seconds, trial.point.rate) = (Some(10), rate);
            (find_other_duration(&trial).is_some(), find_missed_rate(&trial).is_some())
        };
        assert_eq!(of(10.4, None, 5.0), (false, false));
        assert_eq!(of(12.0, Some(300.0), 95.0), (true, true));
        assert_eq!(of(10.0, Some(300.0), 285.0), (false, false));
        assert_eq!(of(10.0, Some(3.0), 2.5), (false, false));
    }

    #[test]
    fn hosts_with_another_pgbench_are_told() {
        let host = |host: &str, version: &str| TrialGenerator {
            host: host.into(),
            clients: 1,
            jobs: 1,
            pgbench_version: version.into(),
            clock_offset_ms: 0.0,
            clock_uncertainty_ms: 0.0,
            started_after_ms: 0.0,
            transactions: 1,
            tps: 1.0,
            is_seen: true,
        };
        let with = |version: &str| {
            let hosts = vec![host("bench1", "pgbench 15"), host("bench2", version)];
            find_differing_generators(&SweepTrial { generators: Some(TrialGenerators::new(hosts)), ..trial() })
        };
        assert_eq!(with("pgbench 15"), None);
        let told = with("pgbench 18").unwrap().to_string();
        assert!(told.ends_with("bench1 pgbench 15, bench2 pgbench 18"), "{told}");
    }

    #[test]
    fn shared_processors_are_told_when_there_are_none_to_spare() {
        let sample = |busy: f64, generator: f64, steal: f64| {
            serde_json::from_value::<OsSample>(serde_json::json!({
                "second": 1,
                "generator_threads": [{"tasks": 1, "cpu_seconds": generator, "run_delay_seconds": 0.0, "involuntary_switches": 0.0}],
                "server": {}, "pgthaw_cpu_seconds": 0.0, "processors_busy_seconds": busy,
                "processors_iowait_seconds": 0.0, "processors_steal_seconds": steal, "device": null,
                "available_bytes": 0, "cached_bytes": 0, "dirty_bytes": 0, "writeback_bytes": 0,
                "pressure": {"cpu_some": null, "io_some": null, "io_full": null, "memory_some": null, "memory_full": null},
            }))
            .unwrap()
        };
        assert!(find_shared_processors(&[sample(1.95, 0.6, 0.0)], 2).is_some());
        assert_eq!(find_shared_processors(&[sample(1.2, 0.6, 0.0)], 2), None);
        assert_eq!(find_shared_processors(&[sample(1.95, 0.1, 0.0)], 2), None);
        assert_eq!(find_shared_processors(&[], 2), None);
    }
}

#[cfg(test)]
mod bloat_tests {
    use super::*;

    fn tables(rows: &[(&str, u64, u64, u64, u64)]) -> ServerStatistics {
        let counters = |(name, bytes, inserted, live, dead): &(&str, u64, u64, u64, u64)| {
            format!(
                r#"{{"schemaname": "public", "relname": "{name}", "total_bytes": {bytes}, "n_tup_ins": {inserted}, "n_live_tup": {live}, "n_dead_tup": {dead}}}"#
            )
        };
        ServerStatistics::of(rows.iter().map(|row| (TABLES_VIEW.to_owned(), counters(row))).collect()).unwrap()
    }

    #[test]
    fn growth_without_inserts_and_dead_rows_are_bloat() {
        let before = tables(&[("a", 1000, 5, 100, 0), ("b", 1000, 0, 100, 0)]);
        let found = |after: &[(&str, u64, u64, u64, u64)]| find_bloat(&before, &tables(after));
        assert_eq!(found(&[("a", 1000, 5, 100, 9), ("b", 1100, 0, 100, 9)]), None);
        assert_eq!(found(&[("a", 9000, 500, 600, 0), ("b", 1000, 0, 100, 0)]), None);
        let Some(Finding::Bloat { grown_ratio, tables, .. }) = found(&[("a", 1000, 5, 100, 0), ("b", 1400, 0, 100, 1)])
        else {
            panic!("not told");
        };
        assert_eq!((grown_ratio, tables), (0.2, vec!["b".to_owned()]));
        let Some(Finding::Bloat { dead_ratio, tables, .. }) =
            found(&[("a", 1000, 5, 100, 100), ("b", 1000, 0, 100, 0)])
        else {
            panic!("not told");
        };
        assert_eq!((dead_ratio, tables), (100.0 / 300.0, vec!["a".to_owned()]));
    }
}
