//! The server's processes as pg_stat_activity shows them: whom each serves, and what it waits for.

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use super::Error;
use super::answer::in_time;
use super::telling::telling;

/// One process at one moment. What the role that asks may not see is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    pub pid: u32,
    /// `client backend`, `checkpointer` and so on.
    pub backend: Option<String>,
    pub user: Option<String>,
    pub database: Option<String>,
    /// What it calls itself.
    pub application_name: Option<String>,
    /// The one that runs, or ran last.
    pub query: Option<String>,
    /// `LWLock` and `WALWrite`, or the like; `None`: it waits for nothing.
    pub event_type: Option<String>,
    pub event: Option<String>,
    /// When it began, in microseconds since 1970; 0 when it is not shown.
    pub started_us: u64,
}

/// The processes of the sessions whose application_name is this. From version 15 on the server has counted the look when it is over.
pub async fn read_named_sessions(connection: &mut PgConnection, name: &str) -> Result<Vec<u32>, Error> {
    let row = sqlx::query_scalar(telling!(connection, "sql/named_sessions_13.sql")).bind(name).fetch_one(connection);
    let pids: Vec<i32> = in_time("look for the job's sessions", row).await?;
    Ok(pids.into_iter().map(i32::unsigned_abs).collect())
}

/// Looks at all processes once. From version 15 on the server has counted the look when it is over.
pub async fn read_sessions(connection: &mut PgConnection) -> Result<Vec<Session>, Error> {
    let failed = |source| Error::Query { action: "ask what the backends do", source };
    let rows = sqlx::query(telling!(connection, "sql/sessions_13.sql")).fetch_all(connection).await.map_err(failed)?;
    let decode = |row: &PgRow| -> Result<Session, sqlx::Error> {
        Ok(Session {
            pid: row.try_get::<i32, _>("pid")? as u32,
            backend: row.try_get("backend_type")?,
            user: row.try_get("username")?,
            database: row.try_get("database")?,
            application_name: row.try_get("application_name")?,
            query: row.try_get("query")?,
            event_type: row.try_get("wait_event_type")?,
            event: row.try_get("wait_event")?,
            started_us: row.try_get::<Option<i64>, _>("started_us")?.unwrap_or_default() as u64,
        })
    };
    rows.iter().map(decode).collect::<Result<_, _>>().map_err(failed)
}
