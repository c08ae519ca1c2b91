//! How long until what a snapshot asks for is verified resident, on an idle server: loaders from the same proven cold
//! state, in random order, under the same limit. What counts is what the page cache says, never a command's end.

mod bound;
mod buffers;
mod launch;
mod options;
mod preparation;
mod prepare;
mod ranges;
mod study;
mod trial;
mod wanted;
mod watch;

pub use options::{LoadingOptions, WantedSource};
pub use ranges::apply_read_ranges;
pub use study::{LoadingFinished, run_loading};
