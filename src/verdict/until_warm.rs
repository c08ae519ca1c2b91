//! How long a trial still needs until it is warm, told while it runs. Pure.

use super::warm::{SUSTAINED_SECONDS, WARM_SHARE};
use crate::study::UntilWarm;
use crate::units::Bytes;

/// Seconds over which the present pace is measured.
const PACE_SECONDS: usize = 4;

/// The workload warms itself when so much of what becomes resident was read by it.
const OWN_SHARE: f64 = 0.5;

/// What is known before the trial.
#[derive(Clone, Copy, Debug)]
pub struct WarmGoal {
    /// In the page cache of the warm server.
    pub wanted_bytes: Bytes,
    pub block_size: Bytes,
    /// Transactions per second of the warm server; `None` when not known.
    pub warm_tps: Option<f64>,
    /// Are all blocks equally likely? Of a script of one's own nobody knows.
    pub is_uniform: bool,
}

/// One second of a trial, as far as it is known while the trial runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassedSecond {
    pub transactions: f64,
    /// By the workload.
    pub read_bytes: Bytes,
    /// At its end.
    pub resident_bytes: Bytes,
}

/// Judges by the pace of the last seconds. Beside a warmer the rest becomes resident at that pace. Where the workload warms
/// itself, it goes on so until the device is no longer what it waits for; from then on the share of transactions that
/// read falls exponentially, with the pages divided by the reads that a warm server would make of them (docs/model.md).
pub fn compute_until_warm(goal: &WarmGoal, passed: &[PassedSecond]) -> UntilWarm {
    let block = goal.block_size.0.max(1) as f64;
    let reads = |second: &PassedSecond| second.read_bytes.0 as f64 / block;
    let is_warm = |second: &PassedSecond| second.transactions > 0.0 && reads(second) < WARM_SHARE * second.transactions;
    if passed.len() >= SUSTAINED_SECONDS && passed[passed.len() - SUSTAINED_SECONDS..].iter().all(is_warm) {
        return UntilWarm::Warm;
    }
    let Some(before) = passed.len().checked_sub(PACE_SECONDS + 1) else { return UntilWarm::Unknown };
    let (first, recent) = (&passed[before], &passed[before + 1..]);
    let seconds = recent.len() as f64;
    let resident = recent[recent.len() - 1].resident_bytes;
    let grown = resident.0.saturating_sub(first.resident_bytes.0) as f64 / block / seconds;
    let pages = goal.wanted_bytes.0 as f64 / block;
    let missing = goal.wanted_bytes.0.saturating_sub(resident.0) as f64 / block;
    let own: f64 = recent.iter().map(reads).sum::<f64>() / seconds;
    let tps: f64 = recent.iter().map(|second| second.transactions).sum::<f64>() / seconds;
    if grown < 1.0 || pages < 1.0 {
        return UntilWarm::Unknown;
    }
    if own < OWN_SHARE * grown {
        return UntilWarm::Seconds(missing / grown);
    }
    let (Some(warm_tps), true) = (goal.warm_tps, goal.is_uniform && tps > 0.0 && missing >= 1.0) else {
        return UntilWarm::Unknown;
    };
    // Blocks of which each transaction misses one with the share that is missing.
    let asked = own / tps * pages / missing;
    let falling = |from: f64, to: f64| pages / (asked * warm_tps) * (from / to).ln().max(0.0);
    let (at_warm, at_device_limit) = (WARM_SHARE / asked * pages, own / (asked * warm_tps) * pages);
    let limited = (missing - at_device_limit).max(0.0) / grown;
    UntilWarm::Seconds(limited + falling(missing.min(at_device_limit), at_warm))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Device, PageClass, Popularity, Server, Warmer, Workload, compute_forecast};

    const BLOCK: f64 = 8192.0;
    const WARM_TPS: f64 = 40_000.0;

    /// A trial at scale 50 on a common cloud volume, as the model forecasts it, and when it is warm.
    fn forecast(is_warmed: bool) -> (WarmGoal, Vec<PassedSecond>, f64) {
        let class = |name: &str, pages| PageClass {
            name: name.into(),
            pages,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Uniform,
            resident_share: 0.0,
        };
        let workload = Workload {
            clients: 8,
            classes: vec![class("table", 81_967.0), class("leaves", 13_661.0)],
            hit_seconds: 2.0 / WARM_TPS,
            copy_seconds: 0.0,
            read_seconds: 0.0,
            read_ahead_pages: 1.0,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server =
            Server { device, cores: 2.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: BLOCK };
        let warmer = is_warmed.then(|| Warmer::in_file_order(&workload, BLOCK, 4, 262_144.0));
        let forecast = compute_forecast(&workload, &server, warmer.as_ref()).unwrap();
        let pages = 81_967.0 + 13_661.0;
        let at = |seconds: f64| {
            let next = forecast.points.partition_point(|point| point.seconds < seconds);
            forecast.points[next.min(forecast.points.len() - 1)]
        };
        let warm_after = forecast.seconds_to_warm().unwrap();
        let second = |number: u32| {
            let [middle, end] = [f64::from(number) - 0.5, f64::from(number)].map(at);
            PassedSecond {
                transactions: middle.tps,
                read_bytes: Bytes((middle.reads_per_second * BLOCK) as u64),
                resident_bytes: Bytes((end.resident_share * pages * BLOCK) as u64),
            }
        };
        let goal = WarmGoal {
            wanted_bytes: Bytes((pages * BLOCK) as u64),
            block_size: Bytes(BLOCK as u64),
            warm_tps: Some(WARM_TPS),
            is_uniform: true,
        };
        (goal, (1..=warm_after as u32 + 10).map(second).collect(), warm_after)
    }

    #[track_caller]
    fn assert_told_in_time(is_warmed: bool) {
        let (goal, passed, warm_after) = forecast(is_warmed);
        for now in (PACE_SECONDS + 1)..(0.9 * warm_after) as usize {
            let UntilWarm::Seconds(left) = compute_until_warm(&goal, &passed[..now]) else {
                panic!("nothing at {now}")
            };
            let truth = warm_after - now as f64;
            assert!((left - truth).abs() < 0.15 * warm_after, "after {now} s {left:.1} s left, of {truth:.1}");
        }
        assert_eq!(compute_until_warm(&goal, &passed), UntilWarm::Warm);
        assert_eq!(compute_until_warm(&goal, &passed[..3]), UntilWarm::Unknown);
    }

    #[test]
    fn a_workload_that_warms_itself_is_foreseen() {
        assert_told_in_time(false);
    }

    #[test]
    fn a_warmer_is_foreseen_by_its_pace() {
        assert_told_in_time(true);
    }

    #[test]
    fn what_does_not_get_warmer_has_no_end() {
        let (goal, passed, _) = forecast(false);
        assert_eq!(compute_until_warm(&goal, &[passed[6]; 10]), UntilWarm::Unknown);
        let unknown = WarmGoal { is_uniform: false, ..goal };
        assert_eq!(compute_until_warm(&unknown, &passed[..10]), UntilWarm::Unknown);
    }
}
