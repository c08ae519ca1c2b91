use crate::study::{Finding, GeneratorCalibration, Saturation, SaturationSign, SweepTrial};
use model::compute_median;
use observe::{OsSample, TaskShare};
use postgres::Wait;

/// Minimum processor use of a saturated thread ÷ its calibrated use (without calibration ÷ one core).
const NEAR: f64 = 0.9;

/// Calibrations below this share of a core are ignored: probably the server was the limit.
const CALIBRATED_MIN: f64 = 0.7;

/// A thread running or ready for this share of time hardly waits for the server.
const NEVER_IDLE: f64 = 0.9;

const IDLE_BACKENDS: f64 = 0.5;

const LAG: f64 = 0.1;

#[derive(Clone, Copy, Debug)]
pub struct GeneratorSigns<'a> {
    pub calibration: Option<&'a GeneratorCalibration>,
    /// Whether scripts may pause, so that idle backends mean nothing.
    pub may_pause: bool,
    /// If true, a backend that looks idle may wait for a processor.
    pub are_processors_full: bool,
    pub are_processors_taken: bool,
}

/// Reports a saturated pgbench or, if that is unknown, hosts where its threads are not visible.
pub fn find_saturation(trial: &SweepTrial, signs: GeneratorSigns<'_>) -> Option<Finding> {
    let point = &trial.point;
    let (threads, unseen_hosts) = match &trial.generators {
        Some(generators) => (generators.seen_jobs(), generators.unseen()),
        None => (point.jobs.min(point.clients), Vec::new()),
    };
    let (cpu_ratio, run_delay_ratio) = busiest_thread(&trial.os_samples);
    // With a rate, idle backends are normal: they only help to judge unseen hosts.
    let says_something = point.rate.is_none() || !unseen_hosts.is_empty();
    let is_idle = |wait: &Wait| wait.backend == "client backend" && wait.event.as_deref() == Some("ClientRead");
    let idle = (!signs.may_pause && says_something && trial.waits.looks > 0)
        .then(|| trial.waits.mean(is_idle) / f64::from(point.clients));
    let lag = compute_lag_ratio(trial);
    let calibrated = signs.calibration.map(|one| one.cpu_ratio).filter(|ratio| *ratio >= CALIBRATED_MIN);
    let idle_alone = idle.filter(|_| point.rate.is_none() && !signs.are_processors_full);
    let sign = choose_sign(cpu_ratio, run_delay_ratio, calibrated.unwrap_or(1.0), idle_alone, lag);
    let is_late = !unseen_hosts.is_empty() && is_late_while_idle(idle, lag);
    let sign = sign.or(is_late.then_some(SaturationSign::ScheduleLag));
    let Some(sign) = sign.filter(|_| !signs.are_processors_taken) else {
        let is_unknown = !unseen_hosts.is_empty() && lag.is_none();
        return is_unknown.then_some(Finding::GeneratorsUnseen { hosts: unseen_hosts });
    };
    Some(Finding::GeneratorSaturated(Saturation {
        sign,
        threads,
        cpu_ratio,
        run_delay_ratio,
        idle_backends_ratio: idle,
        lag_ratio: lag,
        empty_tps: signs.calibration.map(|one| one.tps),
        unseen_hosts,
    }))
}

fn choose_sign(cpu: f64, delay: f64, calibrated: f64, idle: Option<f64>, lag: Option<f64>) -> Option<SaturationSign> {
    let is_never_idle = cpu + delay >= NEVER_IDLE;
    if cpu >= NEAR * calibrated {
        Some(SaturationSign::NearOneCore)
    } else if is_never_idle && idle.is_some_and(|idle| idle >= IDLE_BACKENDS) {
        Some(SaturationSign::NeverIdle)
    } else if is_never_idle && lag.is_some_and(|lag| lag >= LAG) {
        Some(SaturationSign::ScheduleLag)
    } else {
        None
    }
}

fn is_late_while_idle(idle: Option<f64>, lag: Option<f64>) -> bool {
    idle.is_some_and(|idle| idle >= IDLE_BACKENDS) && lag.is_some_and(|lag| lag >= LAG)
}

/// Median shares of time that the busiest thread was on a processor, and waited for one.
pub fn busiest_thread(samples: &[OsSample]) -> (f64, f64) {
    // Clients connect in the first second.
    let whole = if samples.len() > 2 { &samples[1..] } else { samples };
    let busiest = |sample: &OsSample| -> TaskShare {
        let busy = |share: &TaskShare| share.cpu_seconds + share.run_delay_seconds;
        let threads = sample.generator_threads.iter().copied();
        threads.max_by(|one, other| busy(one).total_cmp(&busy(other))).unwrap_or_default()
    };
    let median = |of: fn(&TaskShare) -> f64| {
        let shares: Vec<f64> = whole.iter().map(|sample| of(&busiest(sample))).collect();
        compute_median(shares).unwrap_or_default()
    };
    (median(|share| share.cpu_seconds), median(|share| share.run_delay_seconds))
}

/// Share of the response time that passed before transactions began; `None` without a rate.
fn compute_lag_ratio(trial: &SweepTrial) -> Option<f64> {
    let (mut response, mut lag) = (0.0, 0.0);
    for script in &trial.scripts {
        let service = script.service.as_ref()?;
        let count = script.response.count as f64;
        response += script.response.mean_us * count;
        lag += (script.response.mean_us - service.mean_us) * count;
    }
    (response > 0.0).then(|| lag / response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::trial;
    use crate::study::{TrialGenerator, TrialGenerators};

    #[test]
    fn the_generator_is_the_limit_when_its_thread_is_and_not_when_the_processors_are() {
        let sign = |cpu, delay, idle| choose_sign(cpu, delay, 1.0, idle, None);
        assert_eq!(sign(0.95, 0.0, None), Some(SaturationSign::NearOneCore));
        assert_eq!(sign(0.6, 0.35, Some(0.8)), Some(SaturationSign::NeverIdle));
        assert_eq!(sign(0.6, 0.35, Some(0.2)), None);
        assert_eq!(sign(0.3, 0.1, Some(0.8)), None);
        assert_eq!(choose_sign(0.75, 0.0, 0.8, None, None), Some(SaturationSign::NearOneCore));
        assert_eq!(choose_sign(0.5, 0.45, 1.0, None, Some(0.3)), Some(SaturationSign::ScheduleLag));
        assert_eq!(choose_sign(0.1, 0.05, 1.0, None, Some(0.9)), None);
    }

    #[test]
    fn of_hosts_that_are_not_seen_only_being_late_tells() {
        let host = |is_seen| TrialGenerator {
            host: if is_seen { "here" } else { "there" }.into(),
            clients: 2,
            jobs: 1,
            pgbench_version: String::new(),
            clock_offset_ms: 0.0,
            clock_uncertainty_ms: 0.0,
            started_after_ms: 1.0,
            transactions: 1,
            tps: 1.0,
            is_seen,
        };
        let signs = GeneratorSigns {
            calibration: None,
            may_pause: false,
            are_processors_full: false,
            are_processors_taken: false,
        };
        let with = |hosts: Vec<TrialGenerator>| SweepTrial { generators: Some(TrialGenerators::new(hosts)), ..trial() };
        assert_eq!(find_saturation(&with(vec![host(true)]), signs), None);
        let unseen = Finding::GeneratorsUnseen { hosts: vec!["there".into()] };
        assert_eq!(find_saturation(&with(vec![host(true), host(false)]), signs), Some(unseen));
        assert!(is_late_while_idle(Some(0.6), Some(0.2)));
        assert!(!is_late_while_idle(Some(0.1), Some(0.9)) && !is_late_while_idle(Some(0.9), None));
    }
}
