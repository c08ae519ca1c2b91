//! What warmers of an idle server are to bring back, and whether it is there. What counts is what the page cache says, never a
//! command's end.

mod probe;
mod wanted;

pub use probe::{Looker, Probe, compute_bound};
pub use wanted::{Wanted, WantedFile, apply_read_ranges, write_list};
