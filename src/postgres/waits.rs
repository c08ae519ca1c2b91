//! What the server's processes wait for: looks at one moment each, as pg_stat_activity shows it.

use serde::{Deserialize, Serialize};
use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use super::Error;

/// Processes of one type that were seen in the same state, waiting for the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wait {
    /// `client backend`, `checkpointer`, `io worker`, as pg_stat_activity has it.
    pub backend: String,
    /// `active`, `idle`, `idle in transaction`; `None` of a background process.
    pub state: Option<String>,
    /// `LWLock` and `WALWrite`, or the like; `None`: it waited for nothing, and was on a processor or ready to be.
    pub event_type: Option<String>,
    pub event: Option<String>,
}

/// The process that serves this connection.
pub async fn read_backend_pid(connection: &mut PgConnection) -> Result<u32, Error> {
    let pid: Result<i32, _> = sqlx::query_scalar(include_str!("sql/backend_pid_13.sql")).fetch_one(connection).await;
    pid.map(|pid| pid as u32).map_err(|source| Error::Query { action: "ask for the connection's process", source })
}

/// One look: how many processes are in each state. The one that serves this connection is left out, and so are background
/// processes that sleep.
pub async fn read_waits(connection: &mut PgConnection) -> Result<Vec<(Wait, u32)>, Error> {
    let failed = |source| Error::Query { action: "ask what the backends wait for", source };
    let rows = sqlx::query(include_str!("sql/waits_13.sql")).fetch_all(connection).await.map_err(failed)?;
    let decode = |row: &PgRow| -> Result<(Wait, u32), sqlx::Error> {
        let wait = Wait {
            // A process that has just begun has no type yet.
            backend: row.try_get::<Option<String>, _>("backend_type")?.unwrap_or_default(),
            state: row.try_get("state")?,
            event_type: row.try_get("wait_event_type")?,
            event: row.try_get("wait_event")?,
        };
        Ok((wait, row.try_get::<i64, _>("observed")? as u32))
    };
    rows.iter().map(decode).collect::<Result<_, _>>().map_err(failed)
}
