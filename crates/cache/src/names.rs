//! Names that select a snapshot or film relative to the others.

pub const NEWEST: &str = "newest";

/// The snapshot that `choice.rs` selects.
pub const BEST: &str = "best";
