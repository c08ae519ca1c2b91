//! What the laboratory shows a person: studies while they run, tables of results, verdicts.

mod demo;
mod forecasts;
mod live;
mod making;
mod steady;
mod study_time;
mod sweep;
mod sweep_comparison;
mod warmers;

use crate::verdict::{PointSummary, Spread};
use terminal::printable;

pub use demo::{render_before_and_after, render_demo_plan, render_served};
pub use forecasts::{render_judged_forecasts, render_study_forecast, render_sweep_verdict, render_written_forecast};
pub use live::{StudyDisplay, render_kept_cluster, render_where_kept};
pub use steady::render_judgement;
pub use study_time::render_study_time;
pub use sweep::{
    StudyShown, render_disk, render_sweep_head, render_sweep_line, render_sweep_plan, render_sweep_points,
};
pub use sweep_comparison::{render_noise, render_sweep_comparison};

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
