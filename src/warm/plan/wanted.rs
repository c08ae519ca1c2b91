//! What is wanted of forks, and how they lie in their files.

use roaring::RoaringBitmap;

/// What is read before anything hot: without these no query starts at all. In the order of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precedence {
    /// PostgreSQL's own catalogs: every new connection and every first query reads them.
    Catalog,
    /// Visibility maps, small and needed by every index-only scan.
    VisibilityMap,
    /// An index's first blocks: its metapage, and the root of a small one.
    IndexHead,
    /// Everything else, by heat alone.
    ByHeat,
}

/// What somebody wants of one fork.
#[derive(Clone, Debug)]
pub struct WantedFork {
    pub precedence: Precedence,
    /// Read the first blocks as [`Precedence::IndexHead`].
    pub is_index: bool,
    /// Blocks of the fork now.
    pub blocks: u64,
    /// Heat of a block (uses relative to other blocks, more than 0) and the blocks that have it, coldest first. At most
    /// [`MAX_LEVELS`]. A block in several has the hottest.
    pub levels: Vec<(f32, RoaringBitmap)>,
    /// Blocks that need no read.
    pub resident: RoaringBitmap,
    /// Where it lies on a device that seeks, in the fork's order; empty where that does not matter, or is not known.
    pub places: Vec<Place>,
}

/// From this block on a fork lies contiguously on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub first_block: u64,
    /// Bytes from the beginning of the device.
    pub device_bytes: u64,
}

impl WantedFork {
    /// The place of a block on the device, after all that is known when it is not.
    pub fn place_of(&self, block: u64, block_size: u32) -> u64 {
        let at = self.places.partition_point(|place| place.first_block <= block);
        let place = at.checked_sub(1).map(|at| self.places[at]);
        place.map_or(u64::MAX, |place| place.device_bytes + (block - place.first_block) * u64::from(block_size))
    }
}

/// Levels of heat that a fork may have.
pub const MAX_LEVELS: usize = 200;

/// How the cluster's files are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of a segment file: no read goes beyond one.
    pub segment_blocks: u32,
}
