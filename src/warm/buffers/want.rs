//! What is wanted in shared_buffers.

use roaring::RoaringBitmap;

use crate::cache::ForkMap;
use crate::postgres::{Relation, RelationPath};
use crate::units::{Bytes, Fork};
use crate::warm::Refusal;
use crate::warm::receipt::FoundAs;
use crate::warm::restore::Row;

/// How a buffer says whose it is: tablespace, database, relfilenumber, fork.
pub type BufferKey = (u32, u32, u32, Fork);

/// One fork that is wanted in shared_buffers.
#[derive(Clone, Debug)]
pub struct Want {
    /// Which relation of the request it belongs to.
    pub relation: usize,
    pub fork: Fork,
    /// Blocks by usage count.
    pub levels: Vec<(u8, RoaringBitmap)>,
    /// Where to load it from; of a shared catalog any database.
    pub database: String,
    pub oid: u32,
    /// Where its files are; `None` before it is found.
    pub path: Option<RelationPath>,
    pub key: BufferKey,
    pub is_system: bool,
}

impl Want {
    /// What a snapshot has of a fork, not yet found.
    pub fn new(relation: usize, fork: &ForkMap, database: &str) -> Want {
        let levels = fork.buffers.iter().enumerate().filter(|(_, blocks)| !blocks.is_empty());
        Want {
            relation,
            fork: fork.fork,
            levels: levels.map(|(usage_count, blocks)| (usage_count as u8, blocks.clone())).collect(),
            database: database.to_owned(),
            oid: 0,
            path: None,
            key: (0, 0, 0, fork.fork),
            is_system: false,
        }
    }

    /// Found in the catalog.
    pub fn locate(&mut self, now: &Relation, any_database: &str) {
        self.oid = now.oid;
        self.path = Some(now.path.clone());
        self.key = key_of(&now.path, self.fork);
        self.is_system = now.is_system;
        self.database = if now.name.database.is_empty() { any_database } else { &now.name.database }.to_owned();
    }

    /// Blocks asked for.
    pub fn asked(&self) -> u64 {
        self.levels.iter().map(|(_, blocks)| blocks.len()).sum()
    }

    /// The row of one that cannot be loaded.
    pub fn refused_row(&self, why: Refusal) -> Row {
        Row {
            relation: self.relation,
            fork: self.fork,
            found: FoundAs::NotFound,
            asked_blocks: self.asked(),
            resident_before: None,
            resident_after: None,
            read_bytes: Bytes(0),
            grown_blocks: 0,
            skips: vec![(why.reason, self.asked(), why.detail)],
        }
    }
}

/// The key of a fork's buffers.
fn key_of(path: &RelationPath, fork: Fork) -> BufferKey {
    (path.tablespace_oid(), path.database_oid(), path.relfilenumber(), fork)
}
