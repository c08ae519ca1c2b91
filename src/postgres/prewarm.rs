//! Loading blocks through the server, with the extension pg_prewarm.

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::answer::{LIMIT, in_time};
use super::extension::{PG_PREWARM, ask_extension, ask_where_it_is, explain_refusal, require_extension};
use super::{Error, Extension};
use crate::units::{BlockRange, Fork};

const ACTION: &str = "prewarm a relation";

/// Blocks that one statement loads: 8 MB of the usual blocks. A statement cannot be cancelled by dropping its future,
/// so that this bounds what the server still does after Ctrl-C.
const BATCH_BLOCKS: u64 = 1024;

/// What pg_prewarm does with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrewarmMode {
    /// Reads it into shared_buffers.
    Buffer,
    /// Reads it into the page cache, waiting for it.
    Read,
    /// Asks the kernel to read it some time.
    Prefetch,
}

impl PrewarmMode {
    /// pg_prewarm's word for it.
    pub fn name(self) -> &'static str {
        match self {
            PrewarmMode::Buffer => "buffer",
            PrewarmMode::Read => "read",
            PrewarmMode::Prefetch => "prefetch",
        }
    }
}

/// pg_prewarm in the database of one connection.
#[derive(Debug)]
pub struct Prewarmer {
    connection: PgConnection,
    extension: Extension,
}

impl Prewarmer {
    /// Makes sure that the connected database has the extension.
    pub async fn open(mut connection: PgConnection) -> Result<Prewarmer, Error> {
        let extension = require_extension(&mut connection, PG_PREWARM).await?;
        Ok(Prewarmer { connection, extension })
    }

    /// Loads `ranges` of a fork, as far as the fork still reaches, and returns the number of blocks loaded: 0 for a
    /// relation that was dropped meanwhile. Each pass beyond the first raises the usage count of their buffers by one.
    /// When the future is dropped the server stops after at most 8 MB more.
    pub async fn apply_prewarm(
        &mut self,
        relation_oid: u32,
        mode: PrewarmMode,
        fork: Fork,
        ranges: &[BlockRange],
        passes: u32,
    ) -> Result<u64, Error> {
        let mut loaded = 0;
        for batch in batches(ranges) {
            match self.prewarm_batch(relation_oid, mode, fork, &batch, passes).await {
                Ok(blocks) => loaded += blocks,
                Err(Error::Query { source, .. }) => {
                    return Err(explain_refusal(&mut self.connection, PG_PREWARM, ACTION, source).await);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(loaded)
    }

    async fn prewarm_batch(
        &mut self,
        relation_oid: u32,
        mode: PrewarmMode,
        fork: Fork,
        ranges: &[BlockRange],
        passes: u32,
    ) -> Result<u64, Error> {
        let list = |bound: fn(&BlockRange) -> u64| {
            ranges.iter().map(|range| bound(range).to_string()).collect::<Vec<_>>().join(", ")
        };
        let values = [
            ("relation", relation_oid.to_string()),
            ("mode", mode.name().to_owned()),
            ("fork", fork.name().to_owned()),
            ("starts", list(|range| range.start)),
            ("ends", list(|range| range.end)),
            ("passes", passes.to_string()),
        ];
        let statement = |extension: &Extension| extension.place(include_str!("sql/prewarm_13.sql"), &values);
        let rows = match self.extension.is_movable() {
            true => {
                ask_where_it_is(&mut self.connection, PG_PREWARM, (ACTION, LIMIT), |found| Some(statement(found)))
                    .await?
            }
            false => {
                let statement = statement(&self.extension);
                let asked = ask_extension(&mut self.connection, &self.extension, &statement);
                Some(in_time(ACTION, asked).await?)
            }
        };
        let blocks = rows.iter().flatten().next().ok_or(sqlx::Error::RowNotFound).and_then(|row| row.try_get("blocks"));
        let blocks: i64 = blocks.map_err(|source| Error::Query { action: ACTION, source })?;
        Ok(blocks as u64 / u64::from(passes.max(1)))
    }
}

/// The ranges in batches of at most [`BATCH_BLOCKS`], cut where they are longer.
fn batches(ranges: &[BlockRange]) -> Vec<Vec<BlockRange>> {
    let mut batches: Vec<Vec<BlockRange>> = Vec::new();
    let mut room = 0;
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            if room == 0 {
                batches.push(Vec::new());
                room = BATCH_BLOCKS;
            }
            let end = range.end.min(start + room);
            room -= end - start;
            batches.last_mut().into_iter().for_each(|batch| batch.push(BlockRange::new(start, end)));
            start = end;
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_cover_the_ranges_once() {
        let range = BlockRange::new;
        let found = batches(&[range(10, 20), range(30, 2100), range(7, 7), range(9000, 9001)]);
        let second = range(1044, 2068);
        assert_eq!(
            found,
            [vec![range(10, 20), range(30, 1044)], vec![second], vec![range(2068, 2100), range(9000, 9001)]]
        );
        assert!(batches(&[range(5, 5)]).is_empty());
    }
}
