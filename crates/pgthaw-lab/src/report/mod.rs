//! The report of studies: one HTML file that holds its script, its style and its data, and asks the network for nothing.

mod page;
mod study;

pub use study::{PageData, StudyData, StudyInPage, TrialData, render_missing_page, render_report, render_served_page};
