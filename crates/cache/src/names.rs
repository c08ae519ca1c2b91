//! Names that mean a snapshot, or a film, by its place among the others.

/// The name of the one that was taken last.
pub const NEWEST: &str = "newest";

/// Means the snapshot that a restore should take, by the rule of `choice.rs`.
pub const BEST: &str = "best";
