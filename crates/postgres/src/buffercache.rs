use std::time::Duration;

use host::units::{BlockNumber, Fork};
use serde::{Deserialize, Serialize};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};

use super::answer::{Answer as _, Columns as _, LIMIT, answer};
use super::extension::{PG_BUFFERCACHE, ask_where_it_is, explain_refusal, require_extension, visit_where_it_is};
use super::{Error, Extension, Result, ServerFacts};

/// PostgreSQL numbers buffers by 30 bits.
const BUFFERS_MAX: u32 = (1 << 30) - 1;

const ACTION: &str = "read shared_buffers";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Position in shared_buffers, from 1.
    pub id: u32,
    pub tablespace_oid: u32,
    /// 0 for a shared catalog.
    pub database_oid: u32,
    pub relfilenumber: u32,
    pub fork: Fork,
    pub block: BlockNumber,
    /// 0 to 5.
    pub usage_count: u8,
    pub dirty: bool,
}

impl Buffer {
    pub fn relation(&self) -> (u32, u32, u32) {
        (self.tablespace_oid, self.database_oid, self.relfilenumber)
    }
}

/// Number of used buffers with the same usage count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct BufferUse {
    /// 0 to 5.
    pub usage_count: u8,
    pub buffers: u64,
    /// Number of dirty buffers among `buffers`.
    pub dirty: u64,
}

answer!(row => BufferUse { usage_count, buffers, dirty });

/// Cached blocks of a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferSet {
    /// Tablespace, database (0 for a shared catalog) and relfilenumber.
    pub relation: (u32, u32, u32),
    pub fork: Fork,
    /// 0 to 5.
    pub usage_count: u8,
    pub dirty: bool,
    /// Ascending.
    pub blocks: Vec<BlockNumber>,
}

/// Visits used buffers, in no order and not atomically. The connected database needs pg_buffercache
/// (`Server::connect_with_extension`).
pub async fn read_buffers(connection: &mut PgConnection, mut visit: impl FnMut(Buffer)) -> Result<()> {
    let visit = |row| as_buffer(row).into_iter().for_each(&mut visit);
    visit_buffers(connection, include_str!("sql/buffers_13.sql"), visit).await
}

/// Cheaper than `read_buffers`. Visits at most 65,536 blocks at a time.
pub async fn read_buffer_sets(connection: &mut PgConnection, mut visit: impl FnMut(BufferSet)) -> Result<()> {
    let visit = |row| as_buffer_set(row).into_iter().for_each(&mut visit);
    visit_buffers(connection, include_str!("sql/buffer_sets_13.sql"), visit).await
}

async fn visit_buffers<R>(connection: &mut PgConnection, question: &str, visit: impl FnMut(R)) -> Result<()>
where
    R: for<'r> sqlx::FromRow<'r, PgRow> + Send + Unpin,
{
    match visit_where_it_is(connection, PG_BUFFERCACHE, ACTION, question, BUFFERS_MAX, visit).await {
        Err(Error::Query { source, .. }) => Err(explain_refusal(connection, PG_BUFFERCACHE, ACTION, source).await),
        visited => visited,
    }
}

/// Far cheaper than `read_buffers` since pg_buffercache 1.4.
pub async fn read_usage_summary(connection: &mut PgConnection) -> Result<Vec<BufferUse>> {
    let statement = |extension: &Extension| {
        let question = if extension.is_at_least(1, 4) {
            include_str!("sql/buffer_usage_16.sql")
        } else {
            include_str!("sql/buffer_usage_13.sql")
        };
        Some(extension.place(question, &[]))
    };
    let rows = ask_where_it_is(connection, PG_BUFFERCACHE, (ACTION, LIMIT), None, statement).await?;
    let summary: Result<_, _> = rows.iter().flatten().map(BufferUse::of).collect();
    summary.map_err(|source| Error::Query { action: ACTION, source })
}

type BufferRow = (i32, Oid, Oid, Oid, i16, i64, i16, bool);

fn as_buffer((id, tablespace, database, relfilenode, fork, block, usage_count, dirty): BufferRow) -> Option<Buffer> {
    Some(Buffer {
        id: id as u32,
        tablespace_oid: tablespace.0,
        database_oid: database.0,
        relfilenumber: relfilenode.0,
        fork: Fork::from_repr(fork)?,
        block: block as BlockNumber,
        usage_count: usage_count as u8,
        dirty,
    })
}

type BufferSetRow = (Oid, Oid, Oid, i16, i16, bool, i64, Vec<u8>);

fn as_buffer_set(row: BufferSetRow) -> Option<BufferSet> {
    let (tablespace, database, relfilenode, fork, usage_count, dirty, part, offsets) = row;
    // The server sends a signed number.
    let block =
        |offset: &[u8; 2]| (part << 16) as BlockNumber | BlockNumber::from(u16::from_be_bytes(*offset) ^ 0x8000);
    let mut blocks: Vec<BlockNumber> = offsets.as_chunks().0.iter().map(block).collect();
    blocks.sort_unstable();
    Some(BufferSet {
        relation: (tablespace.0, database.0, relfilenode.0),
        fork: Fork::from_repr(fork)?,
        usage_count: usage_count as u8,
        dirty,
        blocks,
    })
}

/// Maximum buffers in a statement, whose text would otherwise exceed 1 MB.
const EVICTED_AT_ONCE: usize = 100_000;

const EVICT: &str = "evict buffers";

/// `false` before pg_buffercache 1.5 (PostgreSQL 17): only a restart evicts buffers.
///
/// # Errors
/// The role is not a superuser.
pub async fn can_evict_buffers(connection: &mut PgConnection, facts: &ServerFacts) -> Result<bool> {
    match require_extension(connection, PG_BUFFERCACHE).await?.is_at_least(1, 5) {
        true if !facts.is_superuser => Err(Error::NoSuperuser { action: EVICT, role: facts.role.clone() }),
        can => Ok(can),
    }
}

/// `ids` come from `read_buffers`. Writes dirty buffers. Evicts nothing before PostgreSQL 17.
pub async fn apply_evict_buffers(connection: &mut PgConnection, ids: &[u32]) -> Result<()> {
    let question = include_str!("sql/evict_buffers_17.sql");
    for ids in ids.chunks(EVICTED_AT_ONCE) {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        let values = [("buffers", format!("ARRAY[{}]", ids.join(", ")))];
        let statement = |extension: &Extension| extension.is_at_least(1, 5).then(|| extension.place(question, &values));
        // No timeout: writing dirty buffers may take long.
        ask_where_it_is(connection, PG_BUFFERCACHE, (EVICT, Duration::MAX), None, statement).await?;
    }
    Ok(())
}

/// Writes dirty buffers before an eviction: written later, they would fill the page cache again.
pub async fn apply_checkpoint(connection: &mut PgConnection) -> Result<()> {
    let done = sqlx::query("CHECKPOINT").execute(connection).await;
    done.map(drop).map_err(|source| Error::Query { action: "write a checkpoint", source })
}
