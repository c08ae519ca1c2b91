//! What is resident now (`Map`), a map that was kept (`Snapshot`), and what changed between two of them.

mod error;
mod map;
mod snapshot;
mod snapshot_file;
mod snapshot_store;

pub use error::Error;
pub use map::{ForkMap, Map, MapSource, RelationMap, TierState, USAGE_COUNTS};
pub use snapshot::{Snapshot, SnapshotHeader};
pub use snapshot_store::{Generation, SnapshotStore, check_label};
