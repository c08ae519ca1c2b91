//! How to load into shared_buffers.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use crate::postgres::Server;
use crate::units::{Bytes, Fork};
use crate::warm::{Control, Watcher};

/// How to load.
#[derive(Clone, Copy)]
pub struct BuffersTier<'a> {
    pub server: &'a Server,
    /// At most; there are as many as help.
    pub connections: usize,
    /// `None`: as many buffers as are free.
    pub budget: Option<Bytes>,
    /// What a budget of both tiers leaves for this one, whatever is free.
    pub limit: Option<Bytes>,
    /// Load only what is in the page cache: what is not would come into that one too, beyond the budget.
    pub cached: Option<&'a Cached>,
    /// Bytes per second; `None`: as fast as it goes.
    pub max_rate: Option<Bytes>,
    pub create_extensions: bool,
    /// Plan and tell; load nothing.
    pub is_dry_run: bool,
    pub control: &'a Control,
    pub watcher: &'a dyn Watcher,
}

/// Blocks that are in the page cache, by the number of their relation in the request and by fork.
pub type Cached = BTreeMap<(usize, Fork), RoaringBitmap>;
