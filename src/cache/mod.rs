//! What is resident now (`Map`), a map that was kept (`Snapshot`), and what changed between two of them.

mod map;

pub use map::{ForkMap, Map, MapSource, RelationMap, TierState, USAGE_COUNTS};
