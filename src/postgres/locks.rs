//! Who is behind a wait: holders of locks, and the relation that a file belongs to.

use sqlx::Row as _;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};

use super::Error;

/// Somebody who holds a lock that others wait for. What the role that asks may not see is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockHolder {
    /// 0: a prepared transaction.
    pub pid: u32,
    /// That wait for him directly, and not for somebody who waits for him.
    pub waiters: u32,
    /// `client backend`, `autovacuum worker`.
    pub backend: Option<String>,
    /// `idle in transaction`, `active`.
    pub state: Option<String>,
    /// That runs, or ran last.
    pub query: Option<String>,
    /// What he waits for himself, class and event.
    pub wait: Option<(String, String)>,
}

/// Looks once at who holds what others wait for.
pub async fn read_lock_holders(connection: &mut PgConnection) -> Result<Vec<LockHolder>, Error> {
    let failed = |source| Error::Query { action: "ask who holds the locks", source };
    let rows = sqlx::query(include_str!("sql/lock_holders_13.sql")).fetch_all(connection).await.map_err(failed)?;
    let decode = |row: &PgRow| -> Result<LockHolder, sqlx::Error> {
        let class: Option<String> = row.try_get("wait_event_type")?;
        Ok(LockHolder {
            pid: row.try_get::<i32, _>("pid")?.max(0) as u32,
            waiters: row.try_get::<i64, _>("waiters")?.max(0) as u32,
            backend: row.try_get("backend_type")?,
            state: row.try_get("state")?,
            query: row.try_get("query")?,
            wait: class.zip(row.try_get("wait_event")?),
        })
    };
    rows.iter().map(decode).collect::<Result<_, _>>().map_err(failed)
}

/// The relation that has the file of this number in the database of this oid, 0 for what all share: `accounts`, `sales.orders (TOAST)`.
/// `None` where there is none by now, or it is in another database than the one that is asked.
pub async fn read_relation_of_file(
    connection: &mut PgConnection,
    database_oid: u32,
    relfilenumber: u32,
) -> Result<Option<String>, Error> {
    let failed = |source| Error::Query { action: "ask which relation has a file", source };
    let question =
        sqlx::query(include_str!("sql/relation_of_file_13.sql")).bind(Oid(relfilenumber)).bind(Oid(database_oid));
    let Some(row) = question.fetch_optional(connection).await.map_err(failed)? else { return Ok(None) };
    let name = || -> Result<String, sqlx::Error> {
        let (schema, name): (String, String) = (row.try_get("nspname")?, row.try_get("relname")?);
        let name = if schema == "public" { name } else { format!("{schema}.{name}") };
        Ok(if row.try_get("is_toast")? { format!("{name} (TOAST)") } else { name })
    };
    name().map(Some).map_err(failed)
}
