mod curves;
mod figures;
mod live;
mod study_time;
mod sweep;
mod warmers;

use terminal::printable;

pub use curves::{
    render_judged_forecasts, render_judgement, render_study_forecast, render_sweep_verdict, render_written_forecast,
};
pub use live::{StudyDisplay, render_before_and_after, render_demo_plan, render_served};
pub use study_time::render_study_time;
pub use sweep::{
    render_disk, render_noise, render_sweep_comparison, render_sweep_head, render_sweep_line, render_sweep_plan,
    render_sweep_points,
};

/// Removes control characters from a study file's text.
fn told(text: &str) -> String {
    printable(text).into_owned()
}
