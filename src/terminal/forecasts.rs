//! Forecasts beside what was measured.

use comfy_table::{CellAlignment, Table};

use super::tournament::STYLE;
use crate::bench::{JudgedForecast, SweepVerdict, WrittenForecast};
use crate::model::{AT_ONCE, is_at_once, tell_after};

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

/// A row for each point: forecast, measured and error, of half the throughput and of warm.
pub fn render_judged_forecasts(points: &[JudgedForecast]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(["point", "half: forecast", "measured", "error", "warm: forecast", "measured", "error"]);
    for point in points {
        let forecast = &point.forecast;
        table.add_row([
            point.name.clone(),
            seconds(forecast.to_50_seconds),
            seconds(point.to_50_seconds),
            error(point.to_50_error),
            seconds(forecast.warm_after_seconds),
            seconds(point.warm_after_seconds),
            error(point.warm_after_error),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
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
