//! Making shared_buffers cold, as far as the server's version can.

use std::time::Duration;

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use super::extension::{ask_where_it_is, explain_refusal};
use super::{Error, Extension, PG_BUFFERCACHE, RelationPath};

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
    const ACTION: &str = "evict buffers";
    let oids = |oid: fn(&RelationPath) -> u32| match relations {
        Some(relations) => {
            format!("ARRAY[{}]", relations.iter().map(|path| oid(path).to_string()).collect::<Vec<_>>().join(", "))
        }
        None => "NULL".to_owned(),
    };
    let values = [
        ("tablespaces", oids(RelationPath::tablespace_oid)),
        ("databases", oids(RelationPath::database_oid)),
        ("relfilenumbers", oids(RelationPath::relfilenumber)),
    ];
    let question = include_str!("sql/evict_buffers_17.sql");
    let statement = |extension: &Extension| extension.is_at_least(1, 5).then(|| extension.place(question, &values));
    // However long writing the dirty ones takes.
    let rows = match ask_where_it_is(connection, PG_BUFFERCACHE, (ACTION, Duration::MAX), statement).await {
        Err(Error::Query { source, .. }) => {
            return Err(explain_refusal(connection, PG_BUFFERCACHE, ACTION, source).await);
        }
        rows => rows?,
    };
    let decode = |row: &PgRow| -> Result<EvictedBuffers, sqlx::Error> {
        let count = |column: &str| row.try_get::<i64, _>(column).map(|count| count as u64);
        Ok(EvictedBuffers { evicted: count("evicted")?, stayed: count("stayed")? })
    };
    let first = rows.iter().flatten().next().map(decode).transpose();
    first.map_err(|source| Error::Query { action: ACTION, source })
}

/// Writes all dirty buffers, so that evicting files does not leave them to come back as writes.
pub async fn apply_checkpoint(connection: &mut PgConnection) -> Result<(), Error> {
    let done = sqlx::query("CHECKPOINT").execute(connection).await;
    done.map_err(|source| Error::Query { action: "write a checkpoint", source })?;
    Ok(())
}
