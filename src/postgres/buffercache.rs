//! What is in shared_buffers, through the extension pg_buffercache.

use futures_util::TryStreamExt as _;
use sqlx::Row as _;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};

use super::answer::{collect_rows, in_time};
use super::extension::{PG_BUFFERCACHE, explain_refusal, hold_extension};
use super::{Error, Extension};
use crate::units::{BlockNumber, Fork};

/// The greatest that shared_buffers can be.
const BUFFERS_MAX: u32 = (1 << 30) - 1;

const ACTION: &str = "read shared_buffers";

/// A used buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
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

/// The used buffers of one usage count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageSummary {
    /// 0 to 5.
    pub usage_count: u8,
    pub buffers: u64,
    pub dirty: u64,
    pub pinned: u64,
}

/// Every used buffer of the whole cluster, in no order, one by one: there may be many millions. The connected database
/// needs pg_buffercache ([`Server::connect_with_extension`](super::Server::connect_with_extension) finds one that has
/// it). A buffer is read while others change: the picture is not of one instant.
pub async fn read_buffers(connection: &mut PgConnection, visit: impl FnMut(Buffer)) -> Result<(), Error> {
    let (extension, mut held) = hold_extension(connection, PG_BUFFERCACHE).await?;
    let visited = visit_buffers(&mut held, &extension, visit).await;
    drop(held);
    match visited {
        Err(Error::Query { source, .. }) => Err(explain_refusal(connection, PG_BUFFERCACHE, ACTION, source).await),
        visited => visited,
    }
}

/// The used buffers by usage count. From pg_buffercache 1.4 on this costs a fraction of [`read_buffers`].
pub async fn read_usage_summary(connection: &mut PgConnection) -> Result<Vec<UsageSummary>, Error> {
    let (extension, mut held) = hold_extension(connection, PG_BUFFERCACHE).await?;
    let question = if extension.is_at_least(1, 4) {
        include_str!("sql/buffer_usage_16.sql")
    } else {
        include_str!("sql/buffer_usage_13.sql")
    };
    let rows = sqlx::query(extension.place(question)).fetch(&mut *held);
    let summary = in_time(ACTION, collect_rows(rows, |row| decode_usage(row).map(Some))).await;
    drop(held);
    match summary {
        Err(Error::Query { source, .. }) => Err(explain_refusal(connection, PG_BUFFERCACHE, ACTION, source).await),
        summary => summary,
    }
}

/// The columns of buffers_13.sql, by position: there may be millions of rows.
type BufferRow = (Oid, Oid, Oid, i16, i64, i16, bool);

async fn visit_buffers(
    connection: &mut PgConnection,
    extension: &Extension,
    mut visit: impl FnMut(Buffer),
) -> Result<(), Error> {
    let question = extension.place(include_str!("sql/buffers_13.sql"));
    let mut rows = sqlx::query_as::<_, BufferRow>(question).fetch(connection);
    // Of no server the buffers are numbered by more than 30 bits.
    for _ in 0..BUFFERS_MAX {
        match in_time(ACTION, rows.try_next()).await? {
            Some(row) => as_buffer(row).into_iter().for_each(&mut visit),
            None => return Ok(()),
        }
    }
    let source = sqlx::Error::Protocol(format!("more than {BUFFERS_MAX} buffers came"));
    Err(Error::Query { action: ACTION, source })
}

/// `None` for a fork that this pgthaw does not know.
fn as_buffer((tablespace, database, relfilenode, fork, block, usage_count, dirty): BufferRow) -> Option<Buffer> {
    Some(Buffer {
        tablespace_oid: tablespace.0,
        database_oid: database.0,
        relfilenumber: relfilenode.0,
        fork: Fork::from_number(fork)?,
        block: block as BlockNumber,
        usage_count: usage_count as u8,
        dirty,
    })
}

fn decode_usage(row: &PgRow) -> Result<UsageSummary, sqlx::Error> {
    let count = |column: &str| row.try_get::<i64, _>(column).map(|count| count as u64);
    Ok(UsageSummary {
        usage_count: row.try_get::<i32, _>("usage_count")? as u8,
        buffers: count("buffers")?,
        dirty: count("dirty")?,
        pinned: count("pinned")?,
    })
}
