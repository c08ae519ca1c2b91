//! Classes of pages of a forecast, from the counters of a server and the heat of a snapshot.

mod accesses;
mod classes;
mod origin;
mod popularity;

pub use accesses::{Accesses, Counts, SMALL_BLOCKS};
pub use classes::{Classes, WantedClass, levels_of, make_classes, wanted_of};
pub use origin::what_it_says;
pub use popularity::PopularityArgument;
