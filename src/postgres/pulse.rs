//! What a server counts of all of its databases, and what its clients' sessions do at this moment: two small questions, which may be
//! asked each second.

use sqlx::Row as _;
use sqlx::postgres::{PgConnection, PgRow};

use super::Error;
use super::telling::telling;

/// Counters since the server's statistics began, and levels of this moment. pgthaw's own sessions are no clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPulse {
    pub commits: u64,
    pub rollbacks: u64,
    /// Blocks that were found in shared_buffers, and those that were read.
    pub blocks_hit: u64,
    pub blocks_read: u64,
    /// Written to temporary files.
    pub temporary_bytes: u64,
    pub deadlocks: u64,
    /// Milliseconds that sessions spent in statements, told when a statement has ended; `None` before version 14.
    pub active_ms: Option<f64>,
    pub clients: u32,
    /// Of them: with a statement that runs, and in a transaction without one.
    pub active: u32,
    pub idle_in_transaction: u32,
    /// Since when the oldest statement and the oldest transaction of a client run; `None` without one.
    pub longest_query_seconds: Option<f64>,
    pub longest_transaction_seconds: Option<f64>,
    /// Sessions of which this role may see nothing.
    pub hidden: u32,
    /// What the checkpointer waits for; `None` where it works, or may not be seen.
    pub checkpointer_event: Option<String>,
}

/// What a server counts of checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckpointPulse {
    /// Begun, for it was time, or for somebody or much WAL asked for it.
    pub timed: u64,
    pub requested: u64,
    /// Milliseconds of writing and of synchronising, told when a checkpoint has ended.
    pub write_ms: f64,
    pub sync_ms: f64,
    /// Buffers that checkpoints have written, told while one writes.
    pub buffers: u64,
    /// Since the last checkpoint that has ended: WAL since its redo point, and time since its begin.
    pub wal_bytes: u64,
    pub since_seconds: f64,
    /// The next one begins after so long, or before WAL has this size.
    pub timeout_seconds: f64,
    pub max_wal_bytes: u64,
}

/// Asks for the counters. `own_pids` are pgthaw's own sessions. From version 15 on the server has counted the question when it is over.
pub async fn read_pulse(connection: &mut PgConnection, own_pids: &[u32]) -> Result<ServerPulse, Error> {
    let failed = |source| Error::Query { action: "read what the server counts", source };
    let own: Vec<i32> = own_pids.iter().map(|pid| *pid as i32).collect();
    let question = sqlx::query(telling!(connection, "sql/pulse_13.sql")).bind(own);
    let row = question.fetch_one(connection).await.map_err(failed)?;
    decode_pulse(&row).map_err(failed)
}

fn decode_pulse(row: &PgRow) -> Result<ServerPulse, sqlx::Error> {
    let count = |name: &str| Ok::<u64, sqlx::Error>(row.try_get::<Option<i64>, _>(name)?.unwrap_or(0).max(0) as u64);
    Ok(ServerPulse {
        commits: count("commits")?,
        rollbacks: count("rollbacks")?,
        blocks_hit: count("blocks_hit")?,
        blocks_read: count("blocks_read")?,
        temporary_bytes: count("temporary_bytes")?,
        deadlocks: count("deadlocks")?,
        active_ms: row.try_get("active_ms")?,
        clients: count("clients")? as u32,
        active: count("active")? as u32,
        idle_in_transaction: count("idle_in_transaction")? as u32,
        longest_query_seconds: row.try_get("longest_query_seconds")?,
        longest_transaction_seconds: row.try_get("longest_transaction_seconds")?,
        hidden: count("hidden")? as u32,
        checkpointer_event: row.try_get("checkpointer_event")?,
    })
}

/// Asks for the checkpoints. On a standby these are its own restartpoints.
pub async fn read_checkpoint_pulse(connection: &mut PgConnection, version_num: u32) -> Result<CheckpointPulse, Error> {
    let failed = |source| Error::Query { action: "read what the server counts of checkpoints", source };
    let question = match version_num {
        170_000.. => include_str!("sql/checkpoints_17.sql"),
        _ => include_str!("sql/checkpoints_13.sql"),
    };
    let row = sqlx::query(question).fetch_one(connection).await.map_err(failed)?;
    let decode = |row: &PgRow| {
        let count =
            |name: &str| Ok::<u64, sqlx::Error>(row.try_get::<Option<i64>, _>(name)?.unwrap_or(0).max(0) as u64);
        Ok(CheckpointPulse {
            timed: count("timed")?,
            requested: count("requested")?,
            write_ms: row.try_get("write_ms")?,
            sync_ms: row.try_get("sync_ms")?,
            buffers: count("buffers")?,
            wal_bytes: count("wal_bytes")?,
            since_seconds: row.try_get("since_seconds")?,
            timeout_seconds: row.try_get("timeout_seconds")?,
            max_wal_bytes: count("max_wal_bytes")?,
        })
    };
    decode(&row).map_err(failed)
}
