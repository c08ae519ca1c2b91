//! Cached blocks (`Map`), stored maps (`Snapshot`) and their differences.

pub mod trace;
pub mod warm;

#[cfg(test)]
#[macro_use]
extern crate host;

mod choice;
mod difference;
mod error;
mod files;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod heat;
mod map;
mod names;
mod read;
mod rollup;
mod sealed_file;
mod selection;
mod snapshot;
mod snapshot_file;
mod snapshot_store;
mod warm_set;

#[cfg(not(any(test, feature = "formats")))]
use derives::JsonSchema;
#[cfg(any(test, feature = "formats"))]
use schemars::JsonSchema;

pub use choice::{Databases, LastStart, Reason, Situation};
pub use difference::{Change, Difference, ForkDifference, RelationDifference, TierDifference, compute_difference};
pub use error::{Error, Result, kept_elsewhere};
pub(crate) use files::read_resident_blocks;
pub use heat::{USUAL_HEAT, read_heat};
pub use host::failure::Tiers;
pub use map::{
    BarCell, ForkMap, HeatSource, Lookups, Map, MapSource, RelationMap, Residency, TierState, USAGE_COUNTS, compute_bar,
};
pub use names::{BEST, NEWEST};
pub use read::{MapInputs, read_map, read_map_of};
pub use rollup::{Group, RolledUp, compute_groups};
pub use selection::{Identity, Part, Selection, compute_identities};
pub use snapshot::{DatabaseBlocks, Snapshot, SnapshotHeader, check_label};
pub use snapshot_store::{
    Candidates, Chosen, Generation, Holding, Selected, SnapshotStore, find_by_beginning, is_path,
};
pub use warm_set::{Share, Warmth, compute_share, compute_warmth, decode_warm_set};
