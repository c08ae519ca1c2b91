//! The report of runs, or of sweeps: one HTML file that holds its script, its style and its data, and asks the network for nothing.

mod document;
mod error;
mod file;
mod forecast;
mod loading;
mod missing;
mod page;
mod study;

pub use error::Error;
pub use file::write_report;
pub use forecast::render_forecast;
pub use loading::render_loading_report;
pub use missing::{Link, render_missing_page};
pub use page::{PageKind, render_report, render_served_run};
pub use study::{StudyData, StudyInPage, TrialData, render_served_page, render_sweep_report};
