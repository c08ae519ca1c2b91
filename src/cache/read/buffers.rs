//! The buffers tier: shared_buffers as pg_buffercache lists it.

use std::collections::HashMap;

use roaring::RoaringBitmap;

use super::inputs::{MapInputs, unknown_for};
use crate::cache::{Error, ForkMap, RelationMap, TierState, USAGE_COUNTS};
use crate::postgres::{Buffer, PG_BUFFERCACHE, RelationPath, Server, read_buffers};

/// Puts every buffer to the relation that it belongs to. Buffers of databases that are not meant, and of relations that
/// the catalogs did not show, belong to none.
pub async fn read_buffers_tier(
    server: &Server,
    inputs: &MapInputs<'_>,
    relations: &mut [RelationMap],
) -> Result<TierState, Error> {
    let databases = inputs.databases.iter().filter(|database| database.allows_connections);
    let databases: Vec<String> = databases.map(|database| database.name.clone()).collect();
    let mut connection = match server.connect_with_extension(PG_BUFFERCACHE, &databases).await {
        Ok(connection) => connection,
        Err(error) => return unknown_for(error),
    };
    let index: HashMap<(u32, u32, u32), usize> =
        relations.iter().enumerate().map(|(place, one)| (key_of(&one.relation.path), place)).collect();
    let read = read_buffers(&mut connection, |buffer| {
        let key = (buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber);
        if let Some(relation) = index.get(&key).and_then(|place| relations.get_mut(*place)) {
            add_buffer(&mut relation.forks, buffer);
        }
    });
    if let Err(error) = read.await {
        return unknown_for(error);
    }
    relations.iter_mut().flat_map(|relation| &mut relation.forks).for_each(tidy);
    Ok(TierState::Measured)
}

/// What pg_buffercache calls a file.
fn key_of(path: &RelationPath) -> (u32, u32, u32) {
    (path.tablespace_oid(), path.database_oid(), path.relfilenumber())
}

/// A fork may have grown, or come into being, since its size was read.
fn add_buffer(forks: &mut Vec<ForkMap>, buffer: Buffer) {
    let place = match forks.binary_search_by_key(&buffer.fork, |fork| fork.fork) {
        Ok(place) => place,
        Err(place) => {
            forks.insert(place, ForkMap::empty(buffer.fork, 0));
            place
        }
    };
    let fork = &mut forks[place];
    fork.blocks = fork.blocks.max(u64::from(buffer.block) + 1);
    fork.buffers[usize::from(buffer.usage_count).min(USAGE_COUNTS - 1)].insert(buffer.block);
    if buffer.dirty {
        fork.dirty.insert(buffer.block);
    }
}

/// The buffers are not looked at in one instant, so a block that moved to another one may have been seen twice: it
/// stays at the higher usage count.
fn tidy(fork: &mut ForkMap) {
    let mut higher = RoaringBitmap::new();
    for level in fork.buffers.iter_mut().rev() {
        *level -= &higher;
        higher |= &*level;
        level.optimize();
    }
    fork.dirty.optimize();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Fork;

    fn buffer(fork: Fork, block: u32, usage_count: u8) -> Buffer {
        let dirty = block.is_multiple_of(2);
        Buffer { tablespace_oid: 1663, database_oid: 5, relfilenumber: 16_384, fork, block, usage_count, dirty }
    }

    #[test]
    fn a_relation_that_grows_meanwhile_is_as_large_as_its_last_buffer() {
        let mut forks = vec![ForkMap::empty(Fork::Main, 4), ForkMap::empty(Fork::Vm, 1)];
        for (fork, block) in [(Fork::Main, 3), (Fork::Main, 9), (Fork::Fsm, 2)] {
            add_buffer(&mut forks, buffer(fork, block, 1));
        }
        let sizes: Vec<(Fork, u64)> = forks.iter().map(|fork| (fork.fork, fork.blocks)).collect();
        assert_eq!(sizes, [(Fork::Main, 10), (Fork::Fsm, 3), (Fork::Vm, 1)]);
        assert_eq!(forks[1].dirty.iter().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_block_seen_twice_counts_once() {
        let mut forks = vec![ForkMap::empty(Fork::Main, 10)];
        for usage_count in [1, 5, 3] {
            add_buffer(&mut forks, buffer(Fork::Main, 7, usage_count));
        }
        tidy(&mut forks[0]);
        let counts: Vec<u64> = forks[0].buffers.iter().map(RoaringBitmap::len).collect();
        assert_eq!(counts, [0, 0, 0, 0, 0, 1]);
    }
}
