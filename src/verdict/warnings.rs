//! What speaks against a measurement, each with its remedy. Pure: the trial hands over what it measured.

use std::time::Duration;

use crate::model::Verdict;
use crate::observe::{DeviceUse, Second};
use crate::study::{Disk, NOTHING, Sample, Study, StudyForecast};
use crate::units::Bytes;

/// A reading this late is told.
const LATE: Duration = Duration::from_millis(100);

/// A device faster than its limit by more than this, over [`RATE_SECONDS`], is not limited.
const LIMIT_TOLERANCE: f64 = 1.25;
const RATE_SECONDS: usize = 3;

/// Bytes of a read through the page cache at least.
const SMALLEST_READ: f64 = 4096.0;

/// Of the database, read before the clock started.
const HEAD_START_SHARE: f64 = 0.05;

/// Readings that came late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateReadings {
    pub count: usize,
    pub worst: Duration,
}

/// Readings that came late, if there are any.
pub fn find_late_readings(seconds: &[Second]) -> Option<LateReadings> {
    let late: Vec<Duration> = seconds.iter().map(|one| one.lateness).filter(|lateness| *lateness > LATE).collect();
    late.iter().max().map(|worst| LateReadings { count: late.len(), worst: *worst })
}

/// What a device read or wrote per second at most, over [`RATE_SECONDS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    pub bytes: Bytes,
    pub requests: f64,
}

impl DeviceRates {
    fn highest<S>(samples: &[S], bytes: impl Fn(&S) -> u64, requests: impl Fn(&S) -> u64) -> DeviceRates {
        let highest = |of: &dyn Fn(&S) -> u64| {
            let window =
                |window: &[S]| window.iter().map(|second| of(second) as f64).sum::<f64>() / RATE_SECONDS as f64;
            samples.windows(RATE_SECONDS).map(window).fold(0.0, f64::max)
        };
        DeviceRates { bytes: Bytes(highest(&bytes) as u64), requests: highest(&requests) }
    }

    /// What of it is nobody else's, if those who read so much in all did so just then, in the smallest reads there are.
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

/// The rates of a device that did not keep to its limit on reads. The limit is that of those who are measured, and `others`, who read so
/// much in all, read past it: what they may have read counts for it.
pub fn find_missing_limit(samples: &[Sample], disk: &Disk, others: Bytes) -> Option<DeviceRates> {
    let rates = DeviceRates::highest(samples, |one| one.device_read_bytes.0, |one| one.device_reads);
    exceeding(rates, disk, others)
}

/// The same of one device of several, by its own seconds.
pub fn find_missing_read_limit(device: &[DeviceUse], disk: &Disk, others: Bytes) -> Option<DeviceRates> {
    exceeding(DeviceRates::highest(device, |one| one.read_bytes.0, |one| one.reads), disk, others)
}

fn exceeding(rates: DeviceRates, disk: &Disk, others: Bytes) -> Option<DeviceRates> {
    (disk.not_enforced.is_none() && rates.without(others).exceeds(disk.rbps, disk.riops)).then_some(rates)
}

/// The rates of a device that did not keep to its limit on writes.
pub fn find_missing_write_limit(device: &[DeviceUse], disk: &Disk) -> Option<DeviceRates> {
    let rates = DeviceRates::highest(device, |one| one.written_bytes.0, |one| one.writes);
    (disk.writes_not_enforced.is_none() && rates.exceeds(disk.wbps, disk.wiops)).then_some(rates)
}

/// Trials in which doing nothing will not get warm, by the forecast.
pub fn warn_of_short_trials(
    forecast: &StudyForecast,
    strategies: &[String],
    seconds: u32,
    until_steady: bool,
) -> Option<String> {
    let warm = forecast.warm_after_seconds?;
    let is_short = f64::from(seconds) < warm.seconds && strategies.iter().any(|one| one == NOTHING);
    let whole = 1.2 * warm.high.unwrap_or(warm.seconds) + 10.0;
    is_short.then(|| {
        format!(
            "{NOTHING} is forecast to be warm after {:.0} s ({:.0} to {} s), and no trial lasts longer than {} s: --seconds {whole:.0}{}",
            warm.seconds,
            warm.low,
            warm.high.map_or("more".to_owned(), |high| format!("{high:.0}")),
            seconds,
            if until_steady { "" } else { " --until-steady shows all of it" }
        )
    })
}

/// A trial of `--until-steady` that ended by a verdict, which its curve does not bear out now that it is whole: pgbench tells
/// of its seconds a little differently than the samples do.
pub fn warn_of_lost_verdict(study: &Study, samples: usize, verdict: Option<Verdict>) -> Option<String> {
    let ended_early = study.until_steady && samples + 1 < study.seconds as usize;
    let is_borne_out = matches!(verdict, Some(Verdict::Steady | Verdict::Periodic));
    (ended_early && !is_borne_out).then(|| {
        format!("it ended after {samples} s as it looked steady, and is not by its whole curve: repeat it without --until-steady")
    })
}

/// What was read before the clock started, when it is worth a word: of the database's `total`.
pub fn find_head_start(read: Option<Bytes>, total: Bytes) -> Option<Bytes> {
    read.filter(|read| read.0 as f64 > HEAD_START_SHARE * total.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Span;
    use crate::observe::Counters;
    use crate::study::disk::tests::named;
    use crate::study::record::tests::sample;

    fn second(lateness_ms: u64) -> Second {
        let lateness = Duration::from_millis(lateness_ms);
        Second { monotonic: lateness, wall_ms: 0, lateness, counters: Counters::default(), os_resident_bytes: Bytes(0) }
    }

    #[test]
    fn late_readings_are_counted() {
        assert_eq!(find_late_readings(&[second(0), second(99)]), None);
        let late = find_late_readings(&[second(0), second(150), second(900)]);
        assert_eq!(late, Some(LateReadings { count: 2, worst: Duration::from_millis(900) }));
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
        // Others may have had all of their reads within the three seconds.
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
        assert_eq!(find_head_start(Some(Bytes(52 << 20)), Bytes(1 << 30)), Some(Bytes(52 << 20)));
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
        let both = ["nothing".to_owned(), "pgthaw".to_owned()];
        let warning =
            |seconds: f64, until_steady: bool| warn_of_short_trials(&forecast(seconds), &both, 20, until_steady);
        assert_eq!(
            warning(60.0, false).unwrap(),
            "nothing is forecast to be warm after 60 s (52 to 70 s), and no trial lasts longer than 20 s: --seconds 94 --until-steady shows all of it"
        );
        assert!(warning(60.0, true).unwrap().ends_with("--seconds 94"));
        assert_eq!(warning(19.0, false), None);
        let without = ["pgthaw".to_owned()];
        assert_eq!(warn_of_short_trials(&forecast(60.0), &without, 20, false), None);
    }
}
