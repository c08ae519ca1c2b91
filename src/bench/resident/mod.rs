//! What warmers of an idle server are to bring back, and whether it is there. What counts is what the page cache says, never a
//! command's end.

mod bound;
mod buffers;
mod probe;
mod ranges;
mod wanted;
mod watch;

pub use bound::compute_bound;
pub use probe::{Looker, Probe};
pub use ranges::{apply_read_ranges, write_list};
pub use wanted::{Wanted, WantedFile};
