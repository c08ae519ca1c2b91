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

/// What the server's processes did at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitLook {
    /// How many did the same.
    pub seen: Vec<(Wait, u32)>,
    /// Transactions under way beside the one for which the log was flushed just then; `None`: nobody flushed it.
    pub others_at_flush: Option<u32>,
}

impl WaitLook {
    /// Of processes that did the same how many there were, and how many of them have a transaction that has written.
    fn new(rows: Vec<(Wait, u32, u32)>) -> WaitLook {
        // As commit_siblings counts them (MinimumActiveBackends of procarray.c): those that wait for a lock commit no time soon.
        let is_held_up = |wait: &Wait| wait.event_type.as_deref() == Some("Lock");
        let is_flushing = |wait: &Wait| wait.event.as_deref().is_some_and(|event| WAL_SYNC.contains(&event));
        let writing: u32 = rows.iter().filter(|(wait, ..)| !is_held_up(wait)).map(|(_, _, writing)| writing).sum();
        let flushing = rows.iter().filter(|(wait, ..)| is_flushing(wait)).map(|(_, _, own)| *own);
        // The walwriter flushes for nobody in particular, and one process at a time flushes.
        let others_at_flush = flushing.max().map(|own| writing - own.min(1));
        let seen = rows.into_iter().map(|(wait, observed, _)| (wait, observed)).collect();
        WaitLook { seen, others_at_flush }
    }
}

/// What a process waits for that has the device write the log: until PostgreSQL 16, and since.
const WAL_SYNC: [&str; 2] = ["WALSync", "WalSync"];

/// The process that serves this connection.
pub async fn read_backend_pid(connection: &mut PgConnection) -> Result<u32, Error> {
    let pid: Result<i32, _> = sqlx::query_scalar(include_str!("sql/backend_pid_13.sql")).fetch_one(connection).await;
    pid.map(|pid| pid as u32).map_err(|source| Error::Query { action: "ask for the connection's process", source })
}

/// When the server was started, by its own clock, in seconds since 1970 UTC: another number is another start.
pub async fn read_postmaster_start(connection: &mut PgConnection) -> Result<f64, Error> {
    let asked = sqlx::query_scalar(include_str!("sql/postmaster_start_13.sql")).fetch_one(connection).await;
    asked.map_err(|source| Error::Query { action: "ask when the server was started", source })
}

/// One look. The process that serves this connection is left out, and so are background
/// processes that sleep.
pub async fn read_waits(connection: &mut PgConnection) -> Result<WaitLook, Error> {
    let failed = |source| Error::Query { action: "ask what the backends wait for", source };
    let rows = sqlx::query(include_str!("sql/waits_13.sql")).fetch_all(connection).await.map_err(failed)?;
    let decode = |row: &PgRow| -> Result<(Wait, u32, u32), sqlx::Error> {
        let wait = Wait {
            // A process that has just begun has no type yet.
            backend: row.try_get::<Option<String>, _>("backend_type")?.unwrap_or_default(),
            state: row.try_get("state")?,
            event_type: row.try_get("wait_event_type")?,
            event: row.try_get("wait_event")?,
        };
        Ok((wait, row.try_get::<i64, _>("observed")? as u32, row.try_get::<i64, _>("writing")? as u32))
    };
    rows.iter().map(decode).collect::<Result<_, _>>().map(WaitLook::new).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_at_a_flush_are_those_that_have_written_and_wait_for_no_lock() {
        let wait = |event_type: &str, event: &str| Wait {
            backend: "client backend".into(),
            state: Some("active".into()),
            event_type: Some(event_type.into()),
            event: Some(event.into()),
        };
        let waiting = || {
            vec![
                (wait("LWLock", "WALWrite"), 3, 3),
                (wait("Lock", "transactionid"), 2, 2),
                (wait("Client", "ClientRead"), 4, 1),
            ]
        };
        assert_eq!(WaitLook::new(waiting()).others_at_flush, None);
        for event in WAL_SYNC {
            let flushing = |own| [waiting(), vec![(wait("IO", event), 1, own)]].concat();
            assert_eq!(WaitLook::new(flushing(1)).others_at_flush, Some(4));
            assert_eq!(WaitLook::new(flushing(0)).others_at_flush, Some(4));
        }
    }
}
