//! Names that select a snapshot or film.

pub const NEWEST: &str = "newest";

pub const BEST: &str = "best";
