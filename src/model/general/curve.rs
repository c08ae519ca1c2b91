//! A forecast: throughput over time.

use serde::Serialize;

/// The state at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ForecastPoint {
    pub seconds: f64,
    /// Done since the start.
    pub transactions: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Reads from the device per second, by the workload.
    pub reads_per_second: f64,
    /// Share of transactions that read from the device, 0 to 1.
    pub reading_share: f64,
    /// Pages that the workload reads from the device for a transaction, those that are read ahead included.
    pub pages_per_transaction: f64,
    /// Share of the pages that are cached, 0 to 1.
    pub resident_share: f64,
}

impl ForecastPoint {
    /// Do fewer than 1 % of transactions read from the device, by the pages that are read?
    pub(super) fn is_warm(&self) -> bool {
        self.pages_per_transaction < WARM_SHARE
    }

    /// Are these figures that can be told?
    pub(super) fn is_finite(&self) -> bool {
        let ForecastPoint { seconds, transactions, tps, reads_per_second, .. } = *self;
        let ForecastPoint { reading_share, pages_per_transaction, resident_share, .. } = *self;
        [seconds, transactions, tps, reads_per_second, reading_share, pages_per_transaction, resident_share]
            .into_iter()
            .all(f64::is_finite)
    }
}

/// The course of a warm-up, from its start to its steady state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    pub points: Vec<ForecastPoint>,
    /// Transactions per second in the steady state.
    pub steady_tps: f64,
    /// Share of transactions that read from the device in the steady state: 0 where the cache holds everything.
    pub steady_reading_share: f64,
    /// When the warmer is done; `None` without one, or when it does not get there.
    pub warmer_ends_seconds: Option<f64>,
}

/// Warm is: fewer transactions than this read from the device.
const WARM_SHARE: f64 = 0.01;

impl Forecast {
    /// Seconds until throughput is `share` of the steady one, and stays there.
    pub fn seconds_to_share(&self, share: f64) -> Option<f64> {
        let level = share * self.steady_tps;
        self.last_crossing(|point| point.tps >= level, |point| point.tps - level)
    }

    /// Seconds until fewer than 1 % of transactions read from the device, by the pages that are read, as `bench` measures it;
    /// `None` when they always do.
    pub fn seconds_to_warm(&self) -> Option<f64> {
        let excess = |point: &ForecastPoint| WARM_SHARE - point.pages_per_transaction;
        self.last_crossing(ForecastPoint::is_warm, excess)
    }

    /// Transactions done after `seconds`; after the last point at the steady rate.
    pub fn transactions_after(&self, seconds: f64) -> f64 {
        let next = self.points.partition_point(|point| point.seconds < seconds);
        match (next.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(next)) {
            (Some(one), Some(other)) => {
                let share = (seconds - one.seconds) / (other.seconds - one.seconds);
                one.transactions + share * (other.transactions - one.transactions)
            }
            (Some(last), None) => last.transactions + (seconds - last.seconds) * self.steady_tps,
            (None, first) => first.map_or(0.0, |first| first.transactions),
        }
    }

    /// When the last point that is not `there` is left behind, between points by the signed `excess`.
    fn last_crossing(
        &self,
        there: impl Fn(&ForecastPoint) -> bool,
        excess: impl Fn(&ForecastPoint) -> f64,
    ) -> Option<f64> {
        let Some(before) = self.points.iter().rposition(|point| !there(point)) else {
            return self.points.first().map(|point| point.seconds);
        };
        let (one, other) = (&self.points[before], self.points.get(before + 1)?);
        let (below, above) = (excess(one), excess(other));
        let share = if above > below { -below / (above - below) } else { 1.0 };
        Some(one.seconds + share * (other.seconds - one.seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Device, PageClass, Popularity, Server, Workload, compute_forecast};
    use super::*;

    fn forecast(read_ahead_pages: f64) -> Forecast {
        let class = |pages: f64| PageClass {
            name: format!("{pages} pages"),
            pages,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Uniform,
            resident_share: 0.0,
        };
        let workload = Workload {
            clients: 4,
            classes: vec![class(32_787.0), class(5486.0)],
            hit_seconds: 0.107e-3,
            copy_seconds: 0.0,
            read_seconds: 0.0,
            read_ahead_pages,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server =
            Server { device, cores: 2.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: 8192.0 };
        compute_forecast(&workload, &server, None).unwrap()
    }

    /// The farther the kernel reads ahead, the more pages a rare read brings: transactions that read are no measure of them.
    #[test]
    fn what_fits_into_memory_gets_warm_however_far_the_kernel_reads_ahead() {
        let windows = (1..=2048).filter(|window: &u32| window.is_power_of_two() || window.is_multiple_of(37));
        let mut before: Option<f64> = None;
        for window in windows {
            let forecast = forecast(window.into());
            let warm = forecast.seconds_to_warm();
            let seconds = warm.unwrap_or_else(|| panic!("{window} pages: {:?}", forecast.points.last()));
            assert!(forecast.points.last().is_some_and(ForecastPoint::is_warm), "{window}");
            // From one window to the next by no leap.
            assert!(
                before.is_none_or(|before| (0.5..1.5).contains(&(seconds / before))),
                "{window}: {before:?} {seconds}"
            );
            before = Some(seconds);
        }
    }
}
