//! Forecasts beside what was measured.

use crate::study::StudyForecast;
use crate::verdict::{JudgedForecast, SweepVerdict, WrittenForecast};
use host::units::counted;
use model::{AT_ONCE, is_at_once, tell_computed_after};
use terminal::{Column, printable, render_columns, render_short, stdout_width};

/// Before the trial, with what it assumes.
pub fn render_written_forecast(forecast: &WrittenForecast) -> String {
    let sentence = format!(
        "forecast at {}: half of {:.0} tps {}, warm {}",
        forecast.written_at.strftime("%H:%M:%S"),
        forecast.steady_tps,
        after(forecast.to_50_seconds),
        after(forecast.warm_after_seconds)
    );
    let assumed = forecast.assumptions.iter().map(|assumption| format!("  {}", printable(assumption)));
    [sentence, "assumed:".to_owned()].into_iter().chain(assumed).collect::<Vec<_>>().join("\n")
}

/// `half of 45 k tps after 51 s, warm after 62 s (53 to 74)`
pub fn render_study_forecast(forecast: &StudyForecast) -> String {
    let half = forecast
        .to_50_seconds
        .map_or("never".to_owned(), |span| tell_computed_after(span.seconds, &format!("{:.0} s", span.seconds)));
    let warm = forecast.warm_after_seconds.map_or("never".to_owned(), |span| {
        let high = span.high.map_or("never".to_owned(), |high| format!("{high:.0}"));
        format!("after {:.0} s ({:.0} to {high})", span.seconds, span.low)
    });
    format!("half of {} tps {half}, warm {warm}", render_short(forecast.steady_tps))
}

/// A row for each point: forecast, measured and error, of half the throughput and of warm.
pub fn render_judged_forecasts(points: &[JudgedForecast]) -> String {
    let cells = |cell: &dyn Fn(&JudgedForecast) -> String| points.iter().map(cell).collect::<Vec<_>>();
    let columns = vec![
        Column::text("point", 8, cells(&|point| printable(&point.name).into_owned())),
        Column::number("half: forecast", 1, cells(&|point| seconds(point.forecast.to_50_seconds))),
        Column::number("measured", 2, cells(&|point| seconds(point.to_50_seconds))),
        Column::number("error", 0, cells(&|point| error(point.to_50_error))),
        Column::number("warm: forecast", 0, cells(&|point| seconds(point.forecast.warm_after_seconds))),
        Column::number("measured", 0, cells(&|point| seconds(point.warm_after_seconds))),
        Column::number("error", 0, cells(&|point| error(point.warm_after_error))),
    ];
    render_columns(columns, stdout_width(), "…").join("\n")
}

/// One sentence about all of them.
pub fn render_sweep_verdict(verdict: &SweepVerdict) -> String {
    let contradictions = match verdict.contradictions {
        0 => String::new(),
        count => format!("; {count} got warm against the forecast, or did not"),
    };
    format!(
        "{}, {}: median {}, {:.0} % of them within 15 %, worst {}{contradictions}",
        counted(verdict.points, "point"),
        counted(verdict.errors, "error"),
        absolute(verdict.median_error),
        100.0 * verdict.within_15_percent,
        absolute(verdict.worst_error)
    )
}

fn after(value: Option<f64>) -> String {
    value.map_or("never".to_owned(), |seconds| tell_computed_after(seconds, &format!("{seconds:.1} s")))
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
