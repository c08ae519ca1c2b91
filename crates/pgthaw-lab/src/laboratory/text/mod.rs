//! What the laboratory shows a person: studies while they run, tables of results, verdicts.

mod curves;
mod live;
mod study_time;
mod sweep;
mod warmers;

use crate::verdict::{Metric, PointSummary, Spread};
use terminal::{Column, printable};

pub use curves::{
    render_judged_forecasts, render_judgement, render_study_forecast, render_sweep_verdict, render_written_forecast,
};
pub use live::{
    StudyDisplay, render_before_and_after, render_demo_plan, render_kept_cluster, render_served, render_where_kept,
};
pub use study_time::render_study_time;
pub use sweep::{
    StudyShown, render_disk, render_noise, render_sweep_comparison, render_sweep_head, render_sweep_line,
    render_sweep_plan, render_sweep_points,
};

type RenderFigure = fn(&PointSummary, Spread) -> String;

/// A figure in a table: title, priority, which it is, and how it is written.
type MetricColumn = (&'static str, u8, Metric, RenderFigure);

/// Columns of the figures that any of the points has.
fn metric_columns(points: &[PointSummary], columns: &[MetricColumn]) -> Vec<Column> {
    let column = |(title, priority, metric, render): &MetricColumn| {
        let cell = |point: &PointSummary| point.figure(*metric).map(|spread| render(point, spread)).unwrap_or_default();
        Column::number(*title, *priority, points.iter().map(cell).collect())
    };
    let columns = columns.iter().map(column);
    columns.filter(|column| column.cells.iter().any(|cell| !cell.is_empty())).collect()
}

fn middle(point: &PointSummary, spread: Spread) -> String {
    render_reached(point, spread.median)
}

/// Text of the study file, with nothing that a terminal would obey.
fn told(text: &str) -> String {
    printable(text).into_owned()
}

/// A figure, or the seconds within which it was not reached.
fn render_reached(point: &PointSummary, figure: Option<f64>) -> String {
    figure.map_or_else(|| format!("> {}", point.measured_seconds.unwrap_or_default()), render_figure)
}

fn render_figure(figure: f64) -> String {
    if figure < 10.0 && figure.fract() != 0.0 { format!("{figure:.1}") } else { format!("{figure:.0}") }
}
