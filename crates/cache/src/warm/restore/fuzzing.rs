//! Entry for `fuzz/`: from snapshot rows to planned reads.

use roaring::RoaringBitmap;

use super::request::Request;
use crate::files::Found;
use crate::warm::DeviceProfile;
use crate::warm::plan::{Geometry, Plan, Situation};
use crate::{Map, Tiers};
use ::host::units::{Bytes, Fork};
use postgres::RelationPath;

/// Plans a restore; `find` gives a fork's length and resident blocks.
pub fn plan(
    map: Map,
    tiers: Tiers,
    device: DeviceProfile,
    budget: Option<Bytes>,
    find: impl Fn(&RelationPath, Fork) -> Option<(u64, RoaringBitmap)>,
) -> Plan {
    let geometry = Geometry { block_size: map.source.block_size, segment_blocks: map.source.segment_blocks };
    let request = Request::new(map, tiers);
    let forks = request.entries().into_iter().filter_map(|entry| {
        let (blocks, resident) = find(&entry.path, entry.fork)?;
        Some(entry.prepare(Found { blocks, resident }).1)
    });
    Plan::new(forks.collect(), geometry, device, Situation::Shared, budget)
}
