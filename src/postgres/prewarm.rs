//! Loading blocks through the server, with the extension pg_prewarm.

use sqlx::postgres::PgConnection;
use sqlx::postgres::types::Oid;

use super::extension::{explain_refusal, require_extension};
use super::{Error, Extension};
use crate::units::{BlockRange, Fork};

/// The extension's name.
pub const PG_PREWARM: &str = "pg_prewarm";

/// Blocks that one statement loads: 8 MB of the usual blocks. A statement cannot be cancelled by dropping its future,
/// so that this bounds what the server still does after Ctrl-C.
const CHUNK_BLOCKS: u64 = 1024;

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

    /// Loads `range` of a fork, as far as the fork still reaches, and returns the number of blocks loaded: 0 for a
    /// relation that was dropped meanwhile. When the future is dropped the server stops after at most 8 MB more.
    pub async fn apply_prewarm(
        &mut self,
        relation_oid: u32,
        mode: PrewarmMode,
        fork: Fork,
        range: BlockRange,
    ) -> Result<u64, Error> {
        let mut loaded = 0;
        for chunk in chunks(range) {
            let blocks = match self.prewarm_chunk(relation_oid, mode, fork, chunk).await {
                Ok(blocks) => blocks,
                Err(source) => {
                    return Err(explain_refusal(&mut self.connection, PG_PREWARM, "prewarm a relation", source).await);
                }
            };
            loaded += blocks;
            if blocks < chunk.blocks() {
                break;
            }
        }
        Ok(loaded)
    }

    async fn prewarm_chunk(
        &mut self,
        relation_oid: u32,
        mode: PrewarmMode,
        fork: Fork,
        chunk: BlockRange,
    ) -> Result<u64, sqlx::Error> {
        let blocks: i64 = sqlx::query_scalar(self.extension.place(include_str!("sql/prewarm_13.sql")))
            .bind(Oid(relation_oid))
            .bind(mode.name())
            .bind(fork.name())
            .bind(chunk.start as i64)
            .bind(chunk.end as i64)
            .fetch_one(&mut self.connection)
            .await?;
        Ok(blocks as u64)
    }
}

/// A range in pieces of at most [`CHUNK_BLOCKS`].
fn chunks(range: BlockRange) -> impl Iterator<Item = BlockRange> {
    (range.start..range.end)
        .step_by(CHUNK_BLOCKS as usize)
        .map(move |start| BlockRange::new(start, range.end.min(start + CHUNK_BLOCKS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_the_range_once() {
        let pieces: Vec<BlockRange> = chunks(BlockRange::new(10, 2100)).collect();
        assert_eq!(pieces, [BlockRange::new(10, 1034), BlockRange::new(1034, 2058), BlockRange::new(2058, 2100)]);
        assert_eq!(chunks(BlockRange::new(5, 5)).count(), 0);
    }
}
