use std::time::Duration;

use crate::study::{Disk, Finding, NOTHING, Others, Sample, StudyForecast, SweepRun, WarmupFacts};
use host::units::Bytes;
use observe::{DeviceUse, OthersUse, Second};

const LATE: Duration = Duration::from_millis(100);

/// A disk's limit is not in force if the mean rate over `RATE_SECONDS` exceeds it by this factor.
const LIMIT_TOLERANCE: f64 = 1.25;
const RATE_SECONDS: usize = 3;

/// Smallest read through the page cache, in bytes.
const SMALLEST_READ: f64 = 4096.0;

const HEAD_START_SHARE: f64 = 0.05;

pub fn find_late_readings(seconds: &[Second]) -> Option<Finding> {
    let late: Vec<Duration> = seconds.iter().map(|one| one.lateness).filter(|lateness| *lateness > LATE).collect();
    let worst_ms = late.iter().max()?.as_millis() as u64;
    Some(Finding::LateReadings { late: late.len(), readings: seconds.len(), worst_ms })
}

/// Highest rates per second over `RATE_SECONDS`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    pub bytes: Bytes,
    pub requests: f64,
}

impl DeviceRates {
    fn highest<S>(samples: &[S], bytes: impl Fn(&S) -> u64, requests: impl Fn(&S) -> u64) -> DeviceRates {
        let highest = |of: &dyn Fn(&S) -> u64| {
            let sum = |window: &[S]| window.iter().map(|second| of(second) as f64).sum::<f64>();
            samples.windows(RATE_SECONDS).map(sum).fold(0.0, f64::max) / RATE_SECONDS as f64
        };
        DeviceRates { bytes: Bytes(highest(&bytes) as u64), requests: highest(&requests) }
    }

    /// Subtracts the reads by `others`, as if all fell into these `RATE_SECONDS` and were as small as possible.
    fn without(self, others: Bytes) -> DeviceRates {
        let others = others.0 as f64 / RATE_SECONDS as f64;
        DeviceRates {
            bytes: Bytes((self.bytes.0 as f64 - others).max(0.0) as u64),
            requests: (self.requests - others / SMALLEST_READ).max(0.0),
        }
    }

    fn exceeds(&self, bytes: Option<Bytes>, requests: Option<u64>) -> bool {
        let exceeds = |rate: f64, limit: Option<u64>| limit.is_some_and(|limit| rate > LIMIT_TOLERANCE * limit as f64);
        exceeds(self.bytes.0 as f64, bytes.map(|limit| limit.0)) || exceeds(self.requests, requests)
    }
}

/// Reads by `others` do not count: they bypass the limit.
pub fn find_missing_limit(samples: &[Sample], disk: &Disk, others: Bytes) -> Option<DeviceRates> {
    let rates = DeviceRates::highest(samples, |one| one.device_read_bytes.0, |one| one.device_reads);
    exceeding(rates, disk, others)
}

/// As `find_missing_limit`, for one of several devices.
pub fn find_missing_read_limit(device: &[DeviceUse], disk: &Disk, others: Bytes) -> Option<DeviceRates> {
    exceeding(DeviceRates::highest(device, |one| one.read_bytes.0, |one| one.reads), disk, others)
}

fn exceeding(rates: DeviceRates, disk: &Disk, others: Bytes) -> Option<DeviceRates> {
    (disk.not_enforced.is_none() && rates.without(others).exceeds(disk.rbps, disk.riops)).then_some(rates)
}

pub fn find_missing_write_limit(device: &[DeviceUse], disk: &Disk) -> Option<DeviceRates> {
    let rates = DeviceRates::highest(device, |one| one.written_bytes.0, |one| one.writes);
    (disk.writes_not_enforced.is_none() && rates.exceeds(disk.wbps, disk.wiops)).then_some(rates)
}

pub fn warn_of_warmup(run: &SweepRun) -> Vec<String> {
    let Some(found) = &run.warmup else { return Vec::new() };
    let until_steady = run.study["until"] == "steady";
    let ended_early = "trials ended when they were steady, so their total transactions cover different durations";
    let is_short = (found.wanted_bytes.0 as f64) < 0.9 * found.database_bytes.0 as f64;
    let short_of_memory = || {
        let WarmupFacts { wanted_bytes, database_bytes, .. } = found;
        format!(
            "the warm state holds only {wanted_bytes} of {database_bytes}: memory is short, or the kernel pages out idle memory; \
             choose a smaller scale"
        )
    };
    let axes = run.axes().filter(|axes| axes.strategy.iter().any(|one| one == NOTHING));
    let short_trials = found.forecast.as_ref().zip(axes.and_then(|axes| axes.point(0).seconds));
    let short_trials =
        short_trials.and_then(|(forecast, seconds)| warn_of_short_trials(forecast, seconds, until_steady));
    let all = [until_steady.then(|| ended_early.to_owned()), is_short.then(short_of_memory), short_trials];
    all.into_iter().flatten().collect()
}

fn warn_of_short_trials(forecast: &StudyForecast, seconds: u32, until_steady: bool) -> Option<String> {
    let warm = forecast.warm_after_seconds.filter(|warm| f64::from(seconds) < warm.seconds)?;
    let whole = 1.2 * warm.high.unwrap_or(warm.seconds) + 10.0;
    Some(format!(
        "without a warmer, the server should be warm after {:.0} s ({}), but trials last at most {seconds} s: use seconds={whole:.0}{}",
        warm.seconds,
        warm.high.map_or(format!("{:.0} s or more", warm.low), |high| format!("{:.0} to {high:.0} s", warm.low)),
        if until_steady { "" } else { " until=steady" }
    ))
}

/// `total` is the size of the database.
pub fn find_head_start(read: Option<Bytes>, total: Bytes) -> Option<Finding> {
    let read = read.filter(|read| read.0 as f64 > HEAD_START_SHARE * total.0 as f64);
    read.map(|bytes| Finding::HeadStart { bytes })
}

/// Reads by other processes are ignored below either of these limits.
const UNNOTICED_BYTES: Bytes = Bytes(20_000_000);
const UNNOTICED_BYTES_PER_SECOND: f64 = 1e6;

/// Less processor time than this is within the error of clocks that tick every 10 ms.
const UNSURE_CPU_SECONDS: f64 = 0.1;

pub fn find_others(used: Option<&OthersUse>) -> Option<Others> {
    let used = used?;
    let sure = |processors: f64| if processors * used.seconds < UNSURE_CPU_SECONDS { 0.0 } else { processors };
    let mut others = Others {
        processors: used.processors,
        used_processors: sure(used.used_processors),
        stolen_processors: sure(used.stolen_processors),
        read_bytes: used.read_bytes,
        device_read_bytes: used.device_read_bytes,
        programs: Vec::new(),
    };
    // A long trial tolerates more bytes.
    let unnoticed = (used.seconds * UNNOTICED_BYTES_PER_SECOND).max(UNNOTICED_BYTES.0 as f64);
    if used.read_bytes.0 as f64 <= unnoticed {
        others.read_bytes = Bytes(0);
    }
    if others.takes_processors() {
        others.programs.extend(used.users.iter().cloned());
    }
    if others.takes_disk() {
        let new: Vec<String> = used.readers.iter().filter(|one| !others.programs.contains(one)).cloned().collect();
        others.programs.extend(new);
    }
    (others.takes_processors() || others.takes_disk() || others.is_robbed()).then_some(others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::ground::disk_tests::named;
    use crate::study::record::tests::sample;
    use model::Span;
    use observe::Counters;

    fn second(lateness_ms: u64) -> Second {
        let lateness = Duration::from_millis(lateness_ms);
        Second { monotonic: lateness, wall_ms: 0, lateness, counters: Counters::default(), os_resident_bytes: Bytes(0) }
    }

    #[test]
    fn late_readings_are_counted() {
        assert_eq!(find_late_readings(&[second(0), second(99)]), None);
        let late = find_late_readings(&[second(0), second(150), second(900)]);
        assert_eq!(late, Some(Finding::LateReadings { late: 2, readings: 3, worst_ms: 900 }));
    }

    #[test]
    fn a_burst_of_one_second_is_no_missing_limit() {
        let gp3 = named("gp3");
        let limit = gp3.rbps.unwrap().0;
        let of = |rates: &[u64]| (1..).zip(rates).map(|(second, rate)| sample(second, 1, *rate)).collect::<Vec<_>>();
        let find = |rates: &[u64], disk| find_missing_limit(&of(rates), disk, Bytes(0));
        assert_eq!(find(&[limit, limit + limit / 2, limit, 0], &gp3), None);
        let fast = [limit * 2, limit * 2, limit * 2];
        assert!(find(&fast, &gp3).is_some());
        assert_eq!(find(&fast, &named("native")), None);
    }

    #[test]
    fn what_others_read_past_a_limit_does_not_speak_against_it() {
        let gp3 = named("gp3");
        let limit = gp3.rbps.unwrap().0;
        let fast: Vec<Sample> = (1..=10).map(|second| sample(second, 1, limit * 2)).collect();
        for (others, is_missing) in [(0, true), (limit, true), (3 * limit, false), (10 * limit, false)] {
            assert_eq!(find_missing_limit(&fast, &gp3, Bytes(others)).is_some(), is_missing, "{others}");
        }
        let device = DeviceUse {
            reads: 4 * gp3.riops.unwrap(),
            read_bytes: Bytes(0),
            writes: 0,
            written_bytes: Bytes(0),
            read_await_us: None,
            write_await_us: None,
            queue: 0.0,
            busy_ratio: 0.0,
        };
        let reads = |others| find_missing_read_limit(&[device; 3], &gp3, Bytes(others)).is_some();
        assert!(reads(0) && reads(4096) && !reads(9 * 4096 * gp3.riops.unwrap()));
    }

    #[test]
    fn a_head_start_is_told() {
        assert_eq!(find_head_start(Some(Bytes(50)), Bytes(1000)), None);
        let told = find_head_start(Some(Bytes(52 << 20)), Bytes(1 << 30));
        assert_eq!(told, Some(Finding::HeadStart { bytes: Bytes(52 << 20) }));
        assert_eq!(find_head_start(None, Bytes(0)), None);
    }

    #[test]
    fn trials_shorter_than_the_forecast_are_told() {
        let span = |seconds: f64| Some(Span { seconds, low: 0.87 * seconds, high: Some(1.17 * seconds) });
        let forecast = |seconds: f64| StudyForecast {
            cold_tps: 1500.0,
            steady_tps: 65_000.0,
            to_50_seconds: span(0.9 * seconds),
            warm_after_seconds: span(seconds),
        };
        let warning = |seconds: f64, until_steady: bool| warn_of_short_trials(&forecast(seconds), 20, until_steady);
        assert_eq!(
            warning(60.0, false).unwrap(),
            "without a warmer, the server should be warm after 60 s (52 to 70 s), but trials last at most 20 s: use seconds=94 until=steady"
        );
        assert!(warning(60.0, true).unwrap().ends_with("seconds=94"));
        assert_eq!(warning(19.0, false), None);
    }

    fn used(used_processors: f64, stolen_processors: f64, read: u64) -> OthersUse {
        OthersUse {
            seconds: 10.0,
            processors: 2,
            used_processors,
            stolen_processors,
            users: vec!["make".into()],
            readers: vec!["dd".into(), "make".into()],
            read_bytes: Bytes(read),
            device_read_bytes: Bytes(800 << 20),
        }
    }

    #[test]
    fn others_are_told_with_their_figures_and_what_to_wait_for() {
        let both = find_others(Some(&used(0.9, 0.0, 690 << 20))).unwrap();
        assert_eq!(
            both.text(),
            "other programs used 0.9 of 2 processors and read 690 MB of the 800 MB that the disk delivered: wait until \
             make and dd have ended, or measure at a quieter time"
        );
        let disk = find_others(Some(&used(0.05, 0.0, 690 << 20))).unwrap();
        assert!(disk.sentence().starts_with("other programs read 690 MB") && !disk.has_processors(), "{disk:?}");
        let processors = find_others(Some(&used(0.9, 0.0, 1000))).unwrap();
        assert!(!processors.sentence().contains("disk") && processors.has_processors(), "{processors:?}");
        assert_eq!(processors.remedy(), "wait until make has ended, or measure at a quieter time");
        let unseen = Others { programs: Vec::new(), ..processors };
        assert_eq!(unseen.remedy(), "wait until they have ended, or measure at a quieter time");
    }

    #[test]
    fn neighbours_of_a_virtual_machine_are_others_by_their_name() {
        let beside = find_others(Some(&used(0.0, 0.3, 0))).unwrap();
        assert_eq!(beside.sentence(), "the hypervisor gave 0.3 of 2 processors to other machines");
        assert!(beside.has_processors() && !beside.remedy().contains("wait"), "{}", beside.remedy());
    }

    #[test]
    fn what_a_comparison_bears_is_not_told() {
        assert_eq!(find_others(Some(&used(0.09, 0.09, 39_000_000))), None);
        let quiet = OthersUse { device_read_bytes: Bytes(10_000_000), ..used(0.0, 0.0, 9_000_000) };
        assert_eq!(find_others(Some(&quiet)), None);
        let short = OthersUse { seconds: 0.1, ..used(0.9, 0.9, 0) };
        assert_eq!(find_others(Some(&short)), None);
        let long = OthersUse { seconds: 3600.0, ..used(0.0, 0.0, 690 << 20) };
        assert_eq!(find_others(Some(&long)), None);
        assert_eq!(find_others(None), None);
    }
}
