//! Forecasts beside what was measured.

use comfy_table::Cell;

use super::screen::stdout_width;
use super::tournament::{Column, render_fitting};
use crate::model::{AT_ONCE, is_at_once, tell_after};
use crate::verdict::{JudgedForecast, SweepVerdict, WrittenForecast};

/// Before the trial.
pub fn render_written_forecast(forecast: &WrittenForecast) -> String {
    format!(
        "forecast at {}: half of {:.0} tps {}, warm {}",
        forecast.written_at.strftime("%H:%M:%S"),
        forecast.steady_tps,
        after(forecast.to_50_seconds),
        after(forecast.warm_after_seconds)
    )
}

/// Columns that give way first where the terminal is too narrow for all.
const GIVING_WAY: [&str; 2] = ["half:\nmeasured", "half:\nforecast"];

/// A row for each point: forecast, measured and error, of half the throughput and of warm.
pub fn render_judged_forecasts(points: &[JudgedForecast]) -> String {
    render_within(points, stdout_width().unwrap_or(usize::MAX))
}

fn render_within(points: &[JudgedForecast], width: usize) -> String {
    let column = |title: &str, cell: &dyn Fn(&JudgedForecast) -> String| Column {
        title: title.to_owned(),
        cells: points.iter().map(|point| Cell::new(cell(point))).collect(),
    };
    let columns = vec![
        column("point", &|point| point.name.clone()),
        column("half:\nforecast", &|point| seconds(point.forecast.to_50_seconds)),
        column("half:\nmeasured", &|point| seconds(point.to_50_seconds)),
        column("half:\nerror", &|point| error(point.to_50_error)),
        column("warm:\nforecast", &|point| seconds(point.forecast.warm_after_seconds)),
        column("warm:\nmeasured", &|point| seconds(point.warm_after_seconds)),
        column("warm:\nerror", &|point| error(point.warm_after_error)),
    ];
    let (table, left_out) = render_fitting(columns, &GIVING_WAY, width);
    [Some(table), left_out].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// One sentence about all of them.
pub fn render_sweep_verdict(verdict: &SweepVerdict) -> String {
    let contradictions = match verdict.contradictions {
        0 => String::new(),
        count => format!("; {count} got warm against the forecast, or did not"),
    };
    format!(
        "{} points, {} errors: median {}, {:.0} % of them within 15 %, worst {}{contradictions}",
        verdict.points,
        verdict.errors,
        absolute(verdict.median_error),
        100.0 * verdict.within_15_percent,
        absolute(verdict.worst_error)
    )
}

fn after(value: Option<f64>) -> String {
    value.map_or("never".to_owned(), |seconds| tell_after(seconds, &format!("{seconds:.1} s")))
}

fn seconds(value: Option<f64>) -> String {
    value.map_or(
        "never".to_owned(),
        |seconds| {
            if is_at_once(seconds) { AT_ONCE.to_owned() } else { format!("{seconds:.1}") }
        },
    )
}

fn error(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |error| format!("{:+.1} %", 100.0 * error))
}

fn absolute(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |error| format!("{:.1} %", 100.0 * error))
}
