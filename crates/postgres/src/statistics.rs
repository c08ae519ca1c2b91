//! Cumulative statistics and their differences, with all columns of any version.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnection, PgRow};

use super::answer::{Answer as _, Columns as _, LIMIT, answer, ask_all, ask_one, ask_rows};
use super::extension::ask_where_it_is;
use super::server::telling;
use super::{Error, Extension, Result};

const KEYS: [&str; 7] = ["datname", "backend_type", "object", "context", "schemaname", "relname", "locktype"];

const NUMBERS: [&str; 2] = ["datid", "relid"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStatistics {
    rows: BTreeMap<RowKey, BTreeMap<String, f64>>,
}

type RowKey = (String, Vec<(String, String)>);

/// Rows of statistics views that changed, by view.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
#[serde(transparent)]
pub struct StatisticsDelta(pub BTreeMap<String, Vec<RowDelta>>);

/// A row that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct RowDelta {
    /// Identity of the row: `backend_type`, `object`, `context`, `datname`, `schemaname`, `relname`. Empty for views
    /// with one row.
    pub key: BTreeMap<String, String>,
    /// Increase of each column, in the view's units. To pg_stat_user_tables, pgthaw adds the column `total_bytes`: the
    /// table's size with its indexes and TOAST.
    pub added: BTreeMap<String, f64>,
}

/// pg_stat_bgwriter, pg_stat_checkpointer, pg_stat_wal, pg_stat_io and pg_stat_lock, if they exist, and `database` in
/// pg_stat_database.
pub async fn read_server_statistics(
    connection: &mut PgConnection,
    version_num: u32,
    database: &str,
) -> Result<ServerStatistics> {
    const ACTION: &str = "read the server's statistics";
    let question = "SELECT 'pg_stat_database', pg_catalog.row_to_json(s)::pg_catalog.text \
                    FROM pg_catalog.pg_stat_database AS s WHERE datname = $1";
    let question = || sqlx::query(question).bind(database.to_owned());
    let decode = |row: &PgRow| <(String, String)>::of(row).map(Some);
    let mut rows = ask_rows(connection, ACTION, question, decode).await?;
    let views = [
        (0, "pg_stat_bgwriter"),
        (140_000, "pg_stat_wal"),
        (160_000, "pg_stat_io"),
        (170_000, "pg_stat_checkpointer"),
        (190_000, "pg_stat_lock"),
    ];
    for (_, view) in views.into_iter().filter(|(since, _)| version_num >= *since) {
        let question =
            format!("SELECT '{view}', pg_catalog.row_to_json(s)::pg_catalog.text FROM pg_catalog.{view} AS s");
        let question = || sqlx::query(AssertSqlSafe(question.clone()));
        rows.extend(ask_rows(connection, ACTION, question, decode).await?);
    }
    ServerStatistics::of(rows).map_err(|source| Error::Query { action: ACTION, source })
}

/// Transactions, and active clients except pgthaw's. Backends report at most once a second.
pub async fn read_all_transactions(connection: &mut PgConnection) -> Result<(u64, u64)> {
    let question = sqlx::query(include_str!("sql/all_transactions_13.sql"));
    ask_one(connection, "read the statistics of the databases", question).await
}

pub async fn read_table_statistics(connection: &mut PgConnection) -> Result<ServerStatistics> {
    const ACTION: &str = "read the tables' statistics";
    let rows = ask_all(connection, ACTION, include_str!("sql/table_statistics_13.sql")).await?;
    ServerStatistics::of(rows).map_err(|source| Error::Query { action: ACTION, source })
}

impl ServerStatistics {
    /// `rows`: view and JSON object.
    pub fn of(rows: Vec<(String, String)>) -> Result<ServerStatistics, sqlx::Error> {
        let mut statistics = ServerStatistics::default();
        for (view, counters) in rows {
            let columns: BTreeMap<String, Value> =
                serde_json::from_str(&counters).map_err(|source| sqlx::Error::Decode(source.into()))?;
            let text = |name: &str| Some((name.to_owned(), columns.get(name)?.as_str()?.to_owned()));
            let key = KEYS.into_iter().filter_map(text).collect();
            let numbers = columns.iter().filter(|(name, _)| !NUMBERS.contains(&name.as_str()));
            let numbers = numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
            statistics.rows.insert((view, key), numbers);
        }
        Ok(statistics)
    }

    /// A column's value in each row, by the last part of the row's key (a table's name).
    pub fn column(&self, view: &str, column: &str) -> BTreeMap<&str, f64> {
        let rows = self.rows.iter().filter(|((name, _), _)| name == view);
        rows.filter_map(|((_, key), row)| Some((key.last()?.1.as_str(), *row.get(column)?))).collect()
    }

    pub fn since(&self, earlier: &ServerStatistics) -> StatisticsDelta {
        let mut delta = StatisticsDelta::default();
        for ((view, key), now) in &self.rows {
            let before = earlier.rows.get(&(view.clone(), key.clone()));
            let at = |name: &String| before.and_then(|row| row.get(name)).copied().unwrap_or(0.0);
            let added = now.iter().map(|(name, value)| (name.clone(), value - at(name)));
            let added: BTreeMap<String, f64> = added.filter(|(_, added)| *added != 0.0).collect();
            if !added.is_empty() {
                let key = key.iter().cloned().collect();
                delta.0.entry(view.clone()).or_default().push(RowDelta { key, added });
            }
        }
        delta
    }
}

impl StatisticsDelta {
    pub fn and(mut self, other: StatisticsDelta) -> StatisticsDelta {
        self.0.extend(other.0);
        self
    }

    pub fn sum(&self, view: &str, column: &str) -> f64 {
        let rows = self.0.get(view).into_iter().flatten();
        // `sum` of no floats is -0.0.
        rows.filter_map(|row| row.added.get(column)).fold(0.0, |sum, added| sum + added)
    }
}

// Lookups are block reads by index scans, not those of COPY, VACUUM, CREATE INDEX or sequential scans.

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    oid: u32,
    table: Option<u32>,
    scans: u64,
    read: u64,
    fetched: u64,
    /// `None` before the first ANALYZE.
    rows_per_block: Option<f64>,
}

answer!(row => Counted { oid, table, scans, read, fetched, rows_per_block });

impl Counted {
    /// Lower bound of the blocks read: assumes adjacent rows in each scan.
    fn blocks(&self, scans: u64, rows: u64) -> u64 {
        let more = self.rows_per_block.map_or(0.0, |of_block| rows.saturating_sub(scans) as f64 / of_block.max(1.0));
        scans.saturating_add(more as u64)
    }
}

/// Lower bound of the number of blocks looked up, by `pg_class.oid`.
pub async fn read_lookups(connection: &mut PgConnection) -> Result<BTreeMap<u32, u64>> {
    let question = include_str!("sql/lookups_13.sql");
    let counted = ask_all(connection, "read the relations' lookup counts", question).await?;
    Ok(compute_lookups(&counted))
}

fn compute_lookups(counted: &[Counted]) -> BTreeMap<u32, u64> {
    let mut by_indexes: HashMap<u32, (u64, u64)> = HashMap::new();
    for (table, index) in counted.iter().filter_map(|one| Some((one.table?, one))) {
        let (scans, rows) = by_indexes.entry(table).or_default();
        *scans = scans.saturating_add(index.scans);
        *rows = rows.saturating_add(index.fetched);
    }
    let blocks = |one: &Counted| match one.table {
        Some(_) => one.blocks(one.scans, one.read),
        None => {
            let (scans, rows) = by_indexes.get(&one.oid).copied().unwrap_or_default();
            let rows = rows.saturating_add(one.fetched);
            one.blocks(scans.min(rows), rows)
        }
    };
    counted.iter().map(|one| (one.oid, blocks(one))).filter(|(_, blocks)| *blocks > 0).collect()
}

/// Minimum number of calls for a meaningful mean.
const FEWEST_CALLS: f64 = 200.0;

/// Extension version that renamed columns (PostgreSQL 17).
const RENAMED_IN: (u32, u32) = (1, 11);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statements {
    pub calls: f64,
    /// Seconds per statement, without I/O waits if track_io_timing is on.
    pub seconds: f64,
}

/// `None` without the extension or the privilege to read it, or with fewer than `FEWEST_CALLS` calls.
pub async fn read_statements(connection: &mut PgConnection) -> Result<Option<Statements>> {
    const ACTION: &str = "read pg_stat_statements";
    let statement = |extension: &Extension| {
        let prefix = if extension.is_at_least(RENAMED_IN.0, RENAMED_IN.1) { "shared_" } else { "" };
        Some(extension.place(include_str!("sql/statements_13.sql"), &[("prefix", prefix.to_owned())]))
    };
    let rows = match ask_where_it_is(connection, "pg_stat_statements", (ACTION, LIMIT), None, statement).await {
        // Fails if the extension is not preloaded. Forecasts work without it.
        Err(error) if !error.is_server_gone() => return Ok(None),
        rows => rows?,
    };
    let Some(row) = rows.as_ref().and_then(|rows| rows.first()) else { return Ok(None) };
    let failed = |source| Error::Query { action: ACTION, source };
    let calls: f64 = row.try_get("calls").map_err(failed)?;
    let milliseconds: f64 = row.try_get("milliseconds").map_err(failed)?;
    Ok((calls >= FEWEST_CALLS && milliseconds > 0.0)
        .then(|| Statements { calls, seconds: milliseconds * 1e-3 / calls }))
}

/// Cumulative counters and numbers of sessions, without pgthaw's sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPulse {
    pub commits: u64,
    pub rollbacks: u64,
    pub blocks_hit: u64,
    pub blocks_read: u64,
    pub temporary_bytes: u64,
    pub deadlocks: u64,
    /// Execution time of finished statements; `None` before 14.
    pub active_ms: Option<f64>,
    pub clients: u32,
    /// Clients that run a statement.
    pub active: u32,
    pub idle_in_transaction: u32,
    /// Longest among clients.
    pub longest_query_seconds: Option<f64>,
    pub longest_transaction_seconds: Option<f64>,
    /// Sessions that this role may not see.
    pub hidden: u32,
    /// `None` without a wait, or if hidden.
    pub checkpointer_event: Option<String>,
}

answer!(row => ServerPulse {
    commits, rollbacks, blocks_hit, blocks_read, temporary_bytes, deadlocks, active_ms, clients, active,
    idle_in_transaction, longest_query_seconds, longest_transaction_seconds, hidden, checkpointer_event
});

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckpointPulse {
    /// Checkpoints started by timeout, and by request or WAL volume.
    pub timed: u64,
    pub requested: u64,
    /// Milliseconds, updated when a checkpoint ends.
    pub write_ms: f64,
    pub sync_ms: f64,
    /// Buffers written; updated while a checkpoint writes.
    pub buffers: u64,
    /// WAL since the last completed checkpoint's redo point, and seconds since that checkpoint started.
    pub wal_bytes: u64,
    pub since_seconds: f64,
    /// checkpoint_timeout and max_wal_size.
    pub timeout_seconds: f64,
    pub max_wal_bytes: u64,
}

answer!(row => CheckpointPulse {
    write_ms, sync_ms, wal_bytes, since_seconds, timeout_seconds, max_wal_bytes;
    // A column that a later server calls differently is an error, not 0.
    timed: row.try_get::<i64, _>("timed")?.max(0) as u64,
    requested: row.try_get::<i64, _>("requested")?.max(0) as u64,
    buffers: row.try_get::<i64, _>("buffers")?.max(0) as u64,
});

pub async fn read_pulse(connection: &mut PgConnection, own_pids: &[u32]) -> Result<ServerPulse> {
    let own: Vec<i32> = own_pids.iter().map(|pid| *pid as i32).collect();
    let question = sqlx::query(telling!(connection, "sql/pulse_13.sql")).bind(own);
    ask_one(connection, "read the server's counters", question).await
}

/// On a standby, counts restartpoints.
pub async fn read_checkpoint_pulse(connection: &mut PgConnection, version_num: u32) -> Result<CheckpointPulse> {
    let view = if version_num >= 170_000 { "pg_stat_checkpointer" } else { "pg_stat_bgwriter" };
    let question = include_str!("sql/checkpoints_13.sql").replace("{view}", view);
    ask_one(connection, "read the checkpoint counters", sqlx::query(AssertSqlSafe(question))).await
}

#[cfg(test)]
mod statistics_tests {
    use super::*;

    fn statistics(rows: &[(&str, &str)]) -> ServerStatistics {
        let rows = rows.iter().map(|(view, counters)| ((*view).to_owned(), (*counters).to_owned()));
        ServerStatistics::of(rows.collect()).unwrap()
    }

    #[test]
    fn rows_are_told_apart_by_their_keys_and_unchanged_ones_left_out() {
        let of = |backend: &str, reads: u32| {
            format!(
                r#"{{"backend_type": "{backend}", "object": "relation", "context": "normal", "reads": {reads}, "op_bytes": 8192, "extends": null}}"#
            )
        };
        let (bgwriter, client, other) = (of("background writer", 5), of("client backend", 7), of("client backend", 9));
        let before = statistics(&[("pg_stat_io", &bgwriter), ("pg_stat_io", &client)]);
        let after = statistics(&[("pg_stat_io", &bgwriter), ("pg_stat_io", &other)]);
        let delta = after.since(&before);
        let rows = &delta.0["pg_stat_io"];
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].key["backend_type"], "client backend");
        assert_eq!(rows[0].added, BTreeMap::from([("reads".to_owned(), 2.0)]));
        assert_eq!((delta.sum("pg_stat_io", "reads"), delta.sum("pg_stat_wal", "wal_bytes")), (2.0, 0.0));
    }

    #[test]
    fn a_row_that_appears_began_at_nothing() {
        let after = statistics(&[(
            "pg_stat_database",
            r#"{"datid": 5, "datname": "x", "xact_commit": 3, "stats_reset": "2026"}"#,
        )]);
        let delta = after.since(&ServerStatistics::default());
        assert_eq!(delta.0["pg_stat_database"][0].added, BTreeMap::from([("xact_commit".to_owned(), 3.0)]));
    }
}

#[cfg(test)]
mod lookups_tests {
    use super::*;

    fn look(index: Counted, by_bitmap: u64) -> [Option<u64>; 2] {
        let table = Counted { oid: 1, fetched: by_bitmap, rows_per_block: Some(61.0), ..Counted::default() };
        let index = Counted { oid: 2, table: Some(1), rows_per_block: Some(366.0), ..index };
        let lookups = compute_lookups(&[table, index]);
        [1, 2].map(|oid| lookups.get(&oid).copied())
    }

    #[test]
    fn a_scan_of_an_index_looks_up_where_it_begins_and_as_many_more_blocks_as_its_rows_fill() {
        let counted = |scans, read, fetched| Counted { scans, read, fetched, ..Counted::default() };
        assert_eq!(look(counted(500, 500, 500), 0), [Some(500), Some(500)]);
        assert_eq!(look(counted(10, 6110, 6110), 0), [Some(110), Some(26)], "ranges");
        assert_eq!(look(counted(10, 6110, 0), 6110), [Some(110), Some(26)], "bitmaps");
        assert_eq!(look(counted(10, 10, 0), 0), [None, Some(10)], "the index alone answers");
        assert_eq!(look(counted(0, 0, 0), 0), [None, None], "a load");
    }
}
