//! The report of studies: one HTML file that holds its script, its style and its data, and asks the network for nothing.

mod document;
mod error;
mod file;
mod film;
mod forecast;
mod page;
mod study;
mod tournament;

pub use error::Error;
pub use file::{check_report_place, write_report};
pub use film::render_film_page;
pub use forecast::render_forecast;
pub use study::{PageData, StudyData, StudyInPage, TrialData, render_missing_page, render_report, render_served_page};
pub use tournament::{Contender, Tournament};
