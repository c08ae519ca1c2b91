//! Making shared_buffers cold, as far as the server's version can.

use sqlx::postgres::PgConnection;
use sqlx::postgres::types::Oid;

use super::extension::{explain_refusal, hold_extension};
use super::{Error, PG_BUFFERCACHE, RelationPath};

/// What became of the buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictedBuffers {
    pub evicted: u64,
    /// Pinned, or dirtied again meanwhile.
    pub stayed: u64,
}

/// Evicts the buffers of `relations`, of all with `None`, writing the dirty ones first. `Ok(None)` when this server's
/// pg_buffercache cannot (before PostgreSQL 17): there a restart is the only way.
pub async fn apply_evict_buffers(
    connection: &mut PgConnection,
    relations: Option<&[RelationPath]>,
) -> Result<Option<EvictedBuffers>, Error> {
    let (extension, mut held) = hold_extension(connection, PG_BUFFERCACHE).await?;
    if !extension.is_at_least(1, 5) {
        return Ok(None);
    }
    let question = include_str!("sql/evict_buffers_17.sql");
    let oids = |oid: fn(&RelationPath) -> u32| -> Option<Vec<Oid>> {
        relations.map(|relations| relations.iter().map(|path| Oid(oid(path))).collect())
    };
    let answer = sqlx::query_as::<_, (i64, i64)>(extension.place(question))
        .bind(oids(RelationPath::tablespace_oid))
        .bind(oids(RelationPath::database_oid))
        .bind(oids(RelationPath::relfilenumber))
        .fetch_one(&mut *held)
        .await;
    drop(held);
    match answer {
        Ok((evicted, stayed)) => Ok(Some(EvictedBuffers { evicted: evicted as u64, stayed: stayed as u64 })),
        Err(source) => Err(explain_refusal(connection, PG_BUFFERCACHE, "evict buffers", source).await),
    }
}

/// Writes all dirty buffers, so that evicting files does not leave them to come back as writes.
pub async fn apply_checkpoint(connection: &mut PgConnection) -> Result<(), Error> {
    let done = sqlx::query("CHECKPOINT").execute(connection).await;
    done.map_err(|source| Error::Query { action: "write a checkpoint", source })?;
    Ok(())
}
