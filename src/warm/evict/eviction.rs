//! What to make cold, and how.

use std::path::Path;

use crate::cache::{Map, TierState, Tiers};
use crate::linux::page_cache::PageCache;
use crate::postgres::Server;
use crate::units::Bytes;
use crate::warm::{Control, Watcher};

/// What to make cold, and how.
#[derive(Clone, Copy)]
pub struct Eviction<'a> {
    /// What is resident now of the relations that are meant.
    pub map: &'a Map,
    pub tiers: Tiers,
    /// Are all relations of the cluster meant?
    pub is_whole_cluster: bool,
    /// Drop everything that the machine has cached, too.
    pub drop_caches: bool,
    /// Tell what would go; evict nothing.
    pub is_dry_run: bool,
    pub server: Option<&'a Server>,
    pub directory: Option<&'a Path>,
    pub page_cache: &'a dyn PageCache,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

impl std::fmt::Debug for Eviction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eviction").field("tiers", &self.tiers).finish_non_exhaustive()
    }
}

impl Eviction<'_> {
    /// What was in the OS page cache of what is meant; `None` when nobody could see.
    pub fn os_bytes(&self) -> Option<Bytes> {
        (self.map.os == TierState::Measured).then(|| self.bytes(self.map.os_blocks()))
    }

    /// What was in shared_buffers.
    pub fn buffer_bytes(&self) -> Option<Bytes> {
        (self.map.buffers == TierState::Measured).then(|| self.bytes(self.map.buffer_blocks()))
    }

    /// Blocks of the map, in bytes.
    pub fn bytes(&self, blocks: u64) -> Bytes {
        Bytes(blocks * u64::from(self.map.source.block_size))
    }
}
