//! The primary's warm set in the table `pgthaw.warm_set`. Physical replication copies it to every standby.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::answer::{Answer as _, Columns as _, answer, columns, in_time, within};
use super::trust::{BEGIN, check_before_writing, find_stranger};
use super::{Error, Result};

/// Version of the tables that this pgthaw reads and writes.
const FORMAT: i32 = 1;

/// A warm set with every second block of 10 TB has some 300 MB.
const BYTES_MAX: usize = 512 << 20;
const ROW_MEMORY_BYTES: usize = 400;

/// A server that does not answer for so long hangs.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// The cached blocks of a fork. Untrusted, like a snapshot file.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmRow {
    /// Such as `base/5/16384`.
    pub path: String,
    /// Such as `main`.
    pub fork: String,
    /// JSON of a `Relation`; bytes, because names may be in any encoding.
    pub relation: Vec<u8>,
    pub relation_blocks: i64,
    /// `os` or `buffers`, with the heat and the Roaring bitmap at the same index.
    pub tiers: Vec<String>,
    pub heats: Vec<i32>,
    pub bitmaps: Vec<Vec<u8>>,
}

answer!(row => WarmRow { path, fork, relation, relation_blocks, tiers, heats, bitmaps });

impl WarmRow {
    /// Bytes in the table and in the WAL, without page headers.
    pub fn size(&self) -> usize {
        let bitmaps: usize = self.bitmaps.iter().map(|bitmap| bitmap.len() + 16).sum();
        self.path.len() + self.relation.len() + bitmaps + 100
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct WarmState {
    /// Differs from the server's after pg_upgrade or pg_dump.
    pub system_identifier: u64,
    pub taken_at: Timestamp,
    /// State of each tier, and source of the heat, as in a snapshot file.
    pub os: String,
    pub buffers: String,
    pub os_heat: String,
    /// Bytes written since `written_since`, to limit the WAL.
    pub written_bytes: i64,
    pub written_since: Timestamp,
}

#[derive(Clone, Debug)]
pub struct WarmSet {
    pub state: WarmState,
    pub rows: Vec<WarmRow>,
    /// Number of rows that are too large or of another type.
    pub refused: usize,
}

/// Statements that create the tables, for a superuser or an owner of the database.
pub fn render_setup() -> Vec<String> {
    let tables = include_str!("sql/warm_set_tables_13.sql");
    tables.split_terminator(";\n").map(str::to_owned).collect()
}

pub async fn has_warm_set(connection: &mut PgConnection) -> Result<bool> {
    in_time("look for the table of the warm set", is_there(connection)).await
}

async fn is_there(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let there = "SELECT pg_catalog.to_regclass('pgthaw.warm_set_state') IS NOT NULL";
    sqlx::query_scalar(there).fetch_one(connection).await
}

/// `None` without the tables, or before the first write.
///
/// # Errors
/// If an untrusted role may change the tables, or another version of pgthaw made them.
pub async fn read_warm_set(connection: &mut PgConnection) -> Result<Option<WarmSet>> {
    read_set(connection, true).await
}

/// As [`read_warm_set`], without rows.
pub async fn read_warm_state(connection: &mut PgConnection) -> Result<Option<WarmState>> {
    Ok(read_set(connection, false).await?.map(|set| set.state))
}

async fn read_set(connection: &mut PgConnection, with_rows: bool) -> Result<Option<WarmSet>> {
    const ACTION: &str = "read the warm set";
    let read = async {
        let mut transaction = connection.begin_with(BEGIN).await?;
        if let Some(finding) = find_stranger(&mut transaction).await? {
            return Ok(Err(Error::Untrusted { finding }));
        }
        let Some(state) = read_state(&mut transaction).await? else {
            // A dropped transaction would stay open while the caller computes.
            transaction.rollback().await?;
            return Ok(Ok(None));
        };
        let state = match state {
            Ok(state) => state,
            Err(format) => return Ok(Err(Error::OtherWarmSet { format })),
        };
        let mut bytes = 0;
        let mut rows = Vec::new();
        if !with_rows {
            transaction.rollback().await?;
            return Ok(Ok(Some(WarmSet { state, rows, refused: 0 })));
        }
        let mut found = sqlx::query(include_str!("sql/warm_set_13.sql")).fetch(&mut *transaction);
        while let Some(row) = found.try_next().await? {
            let Ok(row) = WarmRow::of(&row) else { continue };
            bytes += row.size() + ROW_MEMORY_BYTES;
            if bytes > BYTES_MAX {
                return Err(sqlx::Error::Protocol(format!("the warm set has more than {BYTES_MAX} bytes")));
            }
            rows.push(row);
        }
        drop(found);
        let count = sqlx::query_scalar("SELECT pg_catalog.count(*) FROM pgthaw.warm_set");
        let count: i64 = count.fetch_one(&mut *transaction).await?;
        transaction.rollback().await?;
        let refused = usize::try_from(count).unwrap_or(0).saturating_sub(rows.len());
        Ok(Ok(Some(WarmSet { state, rows, refused })))
    };
    in_time(ACTION, read).await?
}

/// `Err` holds the tables' format if it is not `FORMAT`.
async fn read_state(transaction: &mut PgConnection) -> Result<Option<Result<WarmState, i32>>, sqlx::Error> {
    if !is_there(transaction).await? {
        return Ok(None);
    }
    let Some(row) = sqlx::query(include_str!("sql/warm_set_state_13.sql")).fetch_optional(transaction).await? else {
        return Ok(None);
    };
    let time = |column: &str| -> Result<Timestamp, sqlx::Error> {
        let seconds: f64 = row.try_get(column)?;
        let since = SignedDuration::try_from_secs_f64(seconds).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Timestamp::from_duration(since).map_err(|error| sqlx::Error::Decode(error.into()))
    };
    match row.try_get("format")? {
        FORMAT => Ok(Some(Ok(columns!(row => WarmState {
            os, buffers, os_heat, written_bytes;
            system_identifier: row.try_get::<i64, _>("system_identifier")?.cast_unsigned(),
            taken_at: time("taken_at")?,
            written_since: time("written_since")?,
        })))),
        format => Ok(Some(Err(format))),
    }
}

/// Replaces the state and the `changed` rows, and removes `gone`, in one transaction that waits for no standby.
///
/// # Errors
/// If an untrusted role may change the tables.
pub async fn write_warm_set(
    connection: &mut PgConnection,
    state: &WarmState,
    changed: &[WarmRow],
    gone: &[(String, String)],
) -> Result<()> {
    let write = async {
        let mut transaction = connection.begin_with(BEGIN).await?;
        sqlx::query(include_str!("sql/warm_set_session_13.sql")).execute(&mut *transaction).await?;
        if let Some(finding) = check_before_writing(&mut transaction).await? {
            return Ok(Err(Error::Untrusted { finding }));
        }
        for row in changed {
            let query = sqlx::query(include_str!("sql/warm_set_put_13.sql"));
            let query = query.bind(&row.path).bind(&row.fork).bind(&row.relation).bind(row.relation_blocks);
            query.bind(&row.tiers).bind(&row.heats).bind(&row.bitmaps).execute(&mut *transaction).await?;
        }
        for (path, fork) in gone {
            let query = sqlx::query("DELETE FROM pgthaw.warm_set WHERE path = $1 AND fork = $2");
            query.bind(path).bind(fork).execute(&mut *transaction).await?;
        }
        let seconds = |time: Timestamp| time.as_duration().as_secs_f64();
        let query = sqlx::query(include_str!("sql/warm_set_state_put_13.sql")).bind(FORMAT);
        let query = query.bind(seconds(state.taken_at)).bind(&state.os).bind(&state.buffers).bind(&state.os_heat);
        let query = query.bind(state.written_bytes).bind(seconds(state.written_since));
        let query = query.bind(state.system_identifier.cast_signed());
        query.execute(&mut *transaction).await?;
        transaction.commit().await.map(Ok)
    };
    in_time("write the warm set", write).await?
}

/// State of the server, as the agent queries it every second.
#[derive(Clone, Copy, Debug)]
pub struct ServerLook {
    pub in_recovery: bool,
    /// Seconds since 1970 by the server's clock: identifies the start, or the restart after a crash.
    pub start: f64,
    pub uptime: Duration,
    /// Positions of a standby that receives WAL and does not pause its replay, in bytes.
    pub wal: Option<WalPositions>,
}

#[derive(Clone, Copy, Debug)]
pub struct WalPositions {
    pub received: i64,
    pub replayed: i64,
}

pub async fn read_server_look(connection: &mut PgConnection) -> Result<ServerLook> {
    let read = async {
        let row = sqlx::query(include_str!("sql/agent_look_13.sql")).fetch_one(connection).await?;
        let wal: (Option<i64>, Option<i64>) = (row.try_get("received")?, row.try_get("replayed")?);
        Ok(columns!(row => ServerLook {
            in_recovery, start;
            uptime: Duration::try_from_secs_f64(row.try_get("uptime_seconds")?).unwrap_or_default(),
            wal: wal.0.zip(wal.1).map(|(received, replayed)| WalPositions { received, replayed }),
        }))
    };
    within(LOOK_LIMIT, "look at the server", read).await
}
