//! The report of a run: one HTML file that holds its script, its style and its data, and asks the network for nothing.

mod error;
mod file;
mod page;

pub use error::Error;
pub use file::write_report;
pub use page::render_report;
