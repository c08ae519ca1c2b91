//! Names that select a snapshot or film relative to the others.

pub const NEWEST: &str = "newest";

pub const BEST: &str = "best";
