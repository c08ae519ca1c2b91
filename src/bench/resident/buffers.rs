//! Looks at shared_buffers while a loader is at work: how much of what was there before is back, and how hot.

use std::collections::HashMap;

use roaring::RoaringBitmap;
use sqlx::postgres::PgConnection;

use crate::cache::Map;
use crate::lab::Error;
use crate::postgres::{Buffer, read_buffers};
use crate::units::Fork;

/// A buffer that had this usage count or a greater one is hot, and is back when it has it again.
pub const HOT_USAGE_COUNT: u8 = 3;

/// This share of the former buffers, and of the hot ones as hot as that, counts as "back".
pub const BACK_SHARE: f64 = 0.9;

/// Whose a buffer is: tablespace, database, relfilenumber, fork.
type Key = (u32, u32, u32, Fork);

/// What was in shared_buffers.
#[derive(Clone, Debug, Default)]
pub struct FormerBuffers {
    all: HashMap<Key, RoaringBitmap>,
    hot: HashMap<Key, RoaringBitmap>,
    pub blocks: u64,
    pub hot_blocks: u64,
}

/// What of it is there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuffersLook {
    pub blocks: u64,
    /// Of the hot ones, those with a usage count of at least [`HOT_USAGE_COUNT`].
    pub hot_blocks: u64,
}

impl FormerBuffers {
    /// As the snapshot has it.
    pub fn of(map: &Map) -> FormerBuffers {
        let mut former = FormerBuffers::default();
        for (relation, fork) in map.forks() {
            let path = &relation.path;
            let key = (path.tablespace_oid(), path.database_oid(), path.relfilenumber(), fork.fork);
            let hot =
                fork.buffers[usize::from(HOT_USAGE_COUNT)..].iter().fold(RoaringBitmap::new(), |all, one| all | one);
            let all = fork.all_buffers();
            former.blocks += all.len();
            former.hot_blocks += hot.len();
            former.all.insert(key, all);
            former.hot.insert(key, hot);
        }
        former
    }

    /// Looks at all buffers.
    pub async fn look(&self, connection: &mut PgConnection) -> Result<BuffersLook, Error> {
        let mut look = BuffersLook::default();
        read_buffers(connection, |buffer| look.count(self, buffer)).await?;
        Ok(look)
    }

    /// Is enough of it back?
    pub fn is_back(&self, look: BuffersLook) -> bool {
        let is_most = |now: u64, former: u64| now as f64 >= BACK_SHARE * former as f64;
        is_most(look.blocks, self.blocks) && is_most(look.hot_blocks, self.hot_blocks)
    }
}

impl BuffersLook {
    fn count(&mut self, former: &FormerBuffers, buffer: Buffer) {
        let key = (buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber, buffer.fork);
        let has =
            |blocks: &HashMap<Key, RoaringBitmap>| blocks.get(&key).is_some_and(|known| known.contains(buffer.block));
        self.blocks += u64::from(has(&former.all));
        self.hot_blocks += u64::from(buffer.usage_count >= HOT_USAGE_COUNT && has(&former.hot));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(block: u32, usage_count: u8) -> Buffer {
        let fork = Fork::Main;
        Buffer { tablespace_oid: 1663, database_oid: 5, relfilenumber: 7, fork, block, usage_count, dirty: false }
    }

    #[test]
    fn what_was_hot_is_back_when_it_is_hot_again() {
        let key = (1663, 5, 7, Fork::Main);
        let blocks = |range: std::ops::Range<u32>| HashMap::from([(key, range.collect())]);
        let former = FormerBuffers { all: blocks(0..10), hot: blocks(0..2), blocks: 10, hot_blocks: 2 };
        let mut look = BuffersLook::default();
        for (block, usage_count) in [(0, 3), (1, 2), (2, 1), (50, 5)] {
            look.count(&former, buffer(block, usage_count));
        }
        assert_eq!(look, BuffersLook { blocks: 3, hot_blocks: 1 });
        assert!(!former.is_back(BuffersLook { blocks: 10, hot_blocks: 1 }));
        assert!(!former.is_back(BuffersLook { blocks: 8, hot_blocks: 2 }));
        assert!(former.is_back(BuffersLook { blocks: 9, hot_blocks: 2 }));
    }
}
