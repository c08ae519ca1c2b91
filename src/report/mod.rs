//! The report of a run: one HTML file that holds its script, its style and its data, and asks the network for nothing.

mod error;
mod file;
mod forecast;
mod page;

pub use error::Error;
pub use file::write_report;
pub use forecast::render_forecast;
pub use page::render_report;
