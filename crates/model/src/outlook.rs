use serde::{Deserialize, Serialize};

use super::Error;
use super::general::{Forecast, ForecastPoint, Server, Warmer, Workload, compute_forecast};

/// Relative uncertainty of the device's figures and of a warm transaction's time. Devices are shared, probes are brief.
pub const UNCERTAINTY: f64 = 0.15;

const KEPT_POINTS: usize = 300;

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    pub workload: Workload,
    pub server: Server,
    pub warmer: Option<Warmer>,
}

impl Scenario {
    pub fn cold_restart(workload: Workload, server: Server) -> Scenario {
        Scenario { name: "cold restart".into(), workload, server, warmer: None }
    }
}

/// A forecast time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Span {
    pub seconds: f64,
    /// Time with a device and a processor 15 % better.
    pub low: f64,
    /// Time with a device and a processor 15 % worse. `None` for never.
    pub high: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Outlook {
    pub name: String,
    pub cold_tps: f64,
    pub steady_tps: f64,
    /// Time to 50 % of `steady_tps`. `None` for never.
    pub to_50_seconds: Option<Span>,
    /// Time to 90 % of `steady_tps`. `None` for never.
    pub to_90_seconds: Option<Span>,
    /// Time to 95 % of `steady_tps`. `None` for never.
    pub to_95_seconds: Option<Span>,
    /// Time until fewer than 1 % of the transactions read from the device. `None` for never.
    pub warm_after_seconds: Option<Span>,
    /// Share of transactions that read from the device when warm, 0 to 1.
    pub steady_reading_share: f64,
    pub warmer_ends_seconds: Option<f64>,
    /// Transactions lost until warm, compared with a warm server.
    pub lost_transactions: Option<f64>,
    pub points: Vec<ForecastPoint>,
}

pub fn compute_outlook(scenario: &Scenario) -> Result<Outlook, Error> {
    let run = |factor: f64| {
        let mut server = scenario.server.clone();
        server.device.reads_per_second *= factor;
        server.device.bandwidth *= factor;
        server.device.latency.iter_mut().for_each(|(_, seconds)| *seconds /= factor);
        let workload = Workload { hit_seconds: scenario.workload.hit_seconds / factor, ..scenario.workload.clone() };
        compute_forecast(&workload, &server, scenario.warmer.as_ref())
    };
    let (likely, better, worse) = (run(1.0)?, run(1.0 + UNCERTAINTY)?, run(1.0 - UNCERTAINTY)?);
    let span = |of: &dyn Fn(&Forecast) -> Option<f64>| {
        let seconds = of(&likely)?;
        Some(Span { seconds, low: of(&better).unwrap_or(seconds).min(seconds), high: of(&worse) })
    };
    let [to_50_seconds, to_90_seconds, to_95_seconds] =
        [0.5, 0.9, 0.95].map(|share| span(&|forecast: &Forecast| forecast.seconds_to_share(share)));
    let warm_after_seconds = span(&Forecast::seconds_to_warm);
    let lost = |warm: Span| warm.seconds * likely.steady_tps - likely.transactions_after(warm.seconds);
    Ok(Outlook {
        name: scenario.name.clone(),
        cold_tps: likely.points[0].tps,
        steady_tps: likely.steady_tps,
        to_50_seconds,
        to_90_seconds,
        to_95_seconds,
        warm_after_seconds,
        steady_reading_share: likely.steady_reading_share,
        warmer_ends_seconds: likely.warmer_ends_seconds,
        lost_transactions: warm_after_seconds.map(lost),
        points: thin(&likely.points),
    })
}

fn thin(points: &[ForecastPoint]) -> Vec<ForecastPoint> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let highest = points.iter().map(|point| point.tps).fold(0.0, f64::max);
    let step = 2.0 / KEPT_POINTS as f64;
    let mut kept = vec![*first];
    for point in points {
        let before = kept[kept.len() - 1];
        let is_later = point.seconds - before.seconds >= step * last.seconds;
        if is_later || (point.tps - before.tps).abs() >= step * highest {
            kept.push(*point);
        }
    }
    kept.push(*last);
    kept
}

pub const AT_ONCE: &str = "at once";

pub fn is_at_once(seconds: f64) -> bool {
    seconds < 0.05
}

pub fn tell_after(seconds: f64, shown: &str) -> String {
    tell("after", seconds, shown)
}

pub fn tell_from(seconds: f64, shown: &str) -> String {
    tell("from", seconds, shown)
}

/// Text for a computed time to a target. Only exactly 0 is `AT_ONCE`: users also see the cold throughput, which may be
/// below the target.
pub fn show_computed(seconds: f64, shown: String) -> String {
    match seconds {
        ..=0.0 => AT_ONCE.to_owned(),
        _ if is_at_once(seconds) => "<0.1 s".to_owned(),
        _ => shown,
    }
}

pub fn tell_computed_after(seconds: f64, shown: &str) -> String {
    if seconds > 0.0 && is_at_once(seconds) { "within 0.1 s".to_owned() } else { tell_after(seconds, shown) }
}

fn tell(word: &str, seconds: f64, shown: &str) -> String {
    if is_at_once(seconds) { AT_ONCE.to_owned() } else { format!("{word} {shown}") }
}

/// Kernel CPU time of a read: 33 µs on the lab's machine (docs/model.md). Measured latencies include it.
pub const READ_CPU_SECONDS: f64 = 33e-6;

/// Reads, with read-ahead, of some 160 catalog blocks before the first transaction (docs/model.md).
pub const STARTUP_READS: f64 = 40.0;

/// CPU seconds of a transaction, assuming that the cores limit a warm server.
pub fn compute_hit_seconds(warm_tps: f64, clients: f64, cores: f64) -> f64 {
    clients.min(cores) / warm_tps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bin, Device, PageClass, Popularity};

    fn scenario(warmer: bool) -> Scenario {
        let class = |name: &str, pages| PageClass {
            name: name.into(),
            pages,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Uniform,
        };
        let workload = Workload {
            clients: 8,
            classes: vec![class("heap", 163_968.0), class("index", 27_392.0)],
            hit_seconds: 0.1e-3,
            read_seconds: 0.0,
            read_ahead_pages: 1.0,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server =
            Server { device, cores: 2.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: 8192.0 };
        let warmer = warmer.then(|| Warmer::hottest_first(&workload, 8192.0, 4, 262_144.0));
        Scenario { name: "a".into(), workload, server, warmer }
    }

    #[test]
    fn the_span_holds_the_answer_and_a_warmer_shortens_it() {
        let cold = compute_outlook(&scenario(false)).unwrap();
        let warm = cold.warm_after_seconds.unwrap();
        assert!(warm.low < warm.seconds && warm.seconds < warm.high.unwrap(), "{warm:?}");
        assert!((cold.cold_tps / 1500.0 - 1.0).abs() < 0.05 && (cold.steady_tps / 20_000.0 - 1.0).abs() < 0.01);
        assert!(cold.points.len() <= 2 * KEPT_POINTS && cold.lost_transactions.unwrap() > 0.0);
        let restored = compute_outlook(&scenario(true)).unwrap();
        assert!(restored.warm_after_seconds.unwrap().seconds < 0.5 * warm.seconds, "{restored:?}");
    }

    #[test]
    fn a_cache_that_is_too_small_is_never_warm() {
        let mut small = scenario(false);
        small.server.os_pages = 100_000.0;
        let outlook = compute_outlook(&small).unwrap();
        assert_eq!((outlook.warm_after_seconds, outlook.lost_transactions), (None, None));
        assert!(outlook.steady_reading_share > 0.3 && outlook.to_50_seconds.is_some());
    }

    #[test]
    fn however_many_pages_a_transaction_asks_for_its_times_are_finite_or_never() {
        let bins = || vec![Bin { pages: 9000.0, weight: 1.0 }, Bin { pages: 1000.0, weight: 50.0 }];
        for accesses in [1.0, 30.0, 1e3, 16_394.0, 1e6] {
            for read_ahead_pages in [1.0, 3.0, 16.0, 32.0, 2048.0] {
                for (popularity, os_pages) in [
                    (Popularity::Uniform, f64::INFINITY),
                    (Popularity::Measured(bins()), f64::INFINITY),
                    (Popularity::Hot { page_share: 0.1, access_share: 0.99 }, 5000.0),
                ] {
                    let mut one = scenario(false);
                    one.workload.classes.truncate(1);
                    one.workload.classes[0] =
                        PageClass { pages: 10_000.0, accesses, popularity, ..one.workload.classes[0].clone() };
                    one.workload.read_ahead_pages = read_ahead_pages;
                    one.server.os_pages = os_pages;
                    let warmer = Warmer::hottest_first(&one.workload, 8192.0, 4, 262_144.0);
                    for warmer in [None, Some(warmer)] {
                        let outlook = compute_outlook(&Scenario { warmer, ..one.clone() }).unwrap();
                        let what = format!("{accesses} pages, {read_ahead_pages} ahead of {os_pages}: {outlook:?}");
                        let half = outlook.to_50_seconds.unwrap_or_else(|| panic!("{what}"));
                        assert!(half.seconds.is_finite() && half.high.is_none_or(f64::is_finite), "{what}");
                        assert!(outlook.points.iter().all(|point| point.tps > 0.0 && point.tps.is_finite()), "{what}");
                        assert!(os_pages.is_finite() || outlook.warm_after_seconds.is_some(), "{what}");
                        assert!(outlook.points.iter().all(|point| point.pages_per_transaction >= 0.0), "{what}");
                    }
                }
            }
        }
    }
}
