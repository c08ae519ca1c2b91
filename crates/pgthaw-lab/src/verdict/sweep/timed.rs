//! Where the time of the servers of a study went, point by point.

use serde::Serialize;

use super::metric::Metric;
use super::summary::PointSummary;
use crate::study::SweepRun;
use observe::time::TimeFigures;

/// The name of the axis.
const CLIENTS: &str = "clients";

/// A point with the account of its trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct TimedPoint {
    pub number: u32,
    /// `None` of what was imported.
    pub clients: Option<u32>,
    /// What varies beside the clients, or nothing.
    pub others: String,
    /// Medians: transactions per second, and the mean response of a closed loop by that (clients ÷ tps), in microseconds; `None` under
    /// a rate.
    pub tps: Option<f64>,
    pub response_us: Option<f64>,
    /// Of each client backend, by the sums of the source.
    pub explained_seconds: Option<f64>,
    /// Means over the trials.
    #[serde(flatten)]
    pub time: TimeFigures,
    /// Waiting for commands and receiving them.
    pub reading_seconds: f64,
    /// Processors that the server used in the mean.
    pub processors_used: f64,
}

/// The points of which somebody looked, in their order.
pub fn compute_timed_points(run: &SweepRun, points: &[PointSummary]) -> Vec<TimedPoint> {
    let axes = run.axes();
    let timed = |summary: &PointSummary| {
        let time = summary.time.clone()?;
        let point = axes.as_ref().map(|axes| axes.point(summary.number.into()));
        let clients = point.as_ref().map(|point| point.clients);
        let varied = run.varied.iter().zip(&summary.values).filter(|(axis, _)| axis.as_str() != CLIENTS);
        let others: Vec<String> = varied.map(|(axis, value)| format!("{axis} {value}")).collect();
        let tps = summary.median(Metric::Tps);
        let is_closed = point.is_some_and(|point| point.rate.is_none());
        let response_us = tps.zip(clients).filter(|(tps, _)| is_closed && *tps > 0.0);
        Some(TimedPoint {
            number: summary.number,
            clients,
            others: others.join(", "),
            tps,
            response_us: response_us.map(|(tps, clients)| 1e6 * f64::from(clients) / tps),
            explained_seconds: clients.map(|clients| time.explained_seconds() / f64::from(clients)),
            reading_seconds: time.reading_seconds(),
            processors_used: time.processors_used(),
            time,
        })
    };
    points.iter().filter_map(timed).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::study::record::tests::run;
    use crate::study::spec::tests::sweep;
    use observe::time::TimeUse;

    #[test]
    fn a_response_follows_from_users_and_throughput() {
        let study = sweep("[points]\nclients = [1, 64]\n[settings]\nwork_mem = ['4MB', '8MB']\n").unwrap();
        let run = SweepRun { study: serde_json::to_value(&study).unwrap(), varied: study.axes.varied(), ..run() };
        let total =
            TimeUse { running_seconds: 32.0, client_seconds: 608.0, handled_seconds: 40.0, ..TimeUse::default() };
        let time = TimeFigures { length_seconds: 10.0, total, ..TimeFigures::default() };
        let spread = crate::verdict::Spread::of([Some(3200.0)]);
        let number = (0..4).find(|number| study.point(*number).clients == 64).unwrap();
        let points = [
            PointSummary { number: 0, ..PointSummary::default() },
            PointSummary {
                number,
                values: vec!["64".into(), "8MB".into()],
                figures: [(Metric::Tps, Some(spread))].into_iter().collect(),
                time: Some(time),
                ..PointSummary::default()
            },
        ];
        let timed = compute_timed_points(&run, &points);
        assert_eq!(timed.len(), 1, "nobody looked at the other");
        let one = &timed[0];
        assert_eq!((one.clients, one.others.as_str()), (Some(64), "work_mem 8MB"));
        assert_eq!((one.response_us, one.explained_seconds), (Some(20_000.0), Some(10.0)));
        assert_eq!((one.reading_seconds, one.processors_used), (600.0, 3.2));
        assert_eq!(serde_json::to_value(one).unwrap()["handled_seconds"], json!(40.0));
    }
}
