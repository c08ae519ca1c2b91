//! The server's cumulative statistics: what its views count, and what was added between two looks.
//!
//! The columns differ from version to version, so they are taken as the server names them: nothing is left out of a
//! version that this pgthaw does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::postgres::PgConnection;

use super::Error;
use super::answer::in_time;

/// Columns that say which row it is, in views with several.
const KEYS: [&str; 6] = ["datname", "backend_type", "object", "context", "schemaname", "relname"];

/// Columns that number what they stand for, and count nothing.
const NUMBERS: [&str; 2] = ["datid", "relid"];

/// What the views show at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerStatistics {
    rows: BTreeMap<RowKey, BTreeMap<String, f64>>,
}

/// A view, and the values of its [`KEYS`].
type RowKey = (String, Vec<(String, String)>);

/// What was added: of each view the rows in which anything changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(transparent)]
pub struct StatisticsDelta(pub BTreeMap<String, Vec<RowDelta>>);

/// One row of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct RowDelta {
    /// Which row: `backend_type` and the like. Nothing where the view has one row.
    pub key: BTreeMap<String, String>,
    /// What was added to each column, in the view's units; columns without a change are left out.
    pub added: BTreeMap<String, f64>,
}

/// Reads pg_stat_bgwriter, pg_stat_checkpointer, pg_stat_wal, pg_stat_io, as far as the version has them, and the row
/// of `database` in pg_stat_database.
pub async fn read_server_statistics(
    connection: &mut PgConnection,
    version_num: u32,
    database: &str,
) -> Result<ServerStatistics, Error> {
    let failed = |source| Error::Query { action: "read the server's statistics", source };
    let question = include_str!("sql/statistics_13.sql");
    let mut rows: Vec<(String, String)> =
        sqlx::query_as(question).bind(database).fetch_all(&mut *connection).await.map_err(failed)?;
    let newer = [
        (140_000, include_str!("sql/statistics_14.sql")),
        (160_000, include_str!("sql/statistics_16.sql")),
        (170_000, include_str!("sql/statistics_17.sql")),
    ];
    for (_, question) in newer.into_iter().filter(|(since, _)| version_num >= *since) {
        rows.extend(sqlx::query_as::<_, (String, String)>(question).fetch_all(&mut *connection).await.map_err(failed)?);
    }
    let mut statistics = ServerStatistics::default();
    for (view, counters) in rows {
        statistics.add(view, &counters).map_err(|source| failed(sqlx::Error::Decode(source.into())))?;
    }
    Ok(statistics)
}

/// Transactions of all databases since the statistics began, and client backends besides pgthaw's own that did something within the
/// last second. Backends report once a second at most.
pub async fn read_all_transactions(connection: &mut PgConnection) -> Result<(u64, u64), Error> {
    let row = sqlx::query_as(include_str!("sql/all_transactions_13.sql")).fetch_one(connection);
    let (transactions, clients): (i64, i64) = in_time("read the statistics of the databases", row).await?;
    Ok((transactions.max(0) as u64, clients.max(0) as u64))
}

/// Reads pg_stat_user_tables of the connected database, with the tables' sizes (`total_bytes`).
pub async fn read_table_statistics(connection: &mut PgConnection) -> Result<ServerStatistics, Error> {
    let failed = |source| Error::Query { action: "read the tables' statistics", source };
    let question = include_str!("sql/table_statistics_13.sql");
    let rows: Vec<(String, String)> = sqlx::query_as(question).fetch_all(connection).await.map_err(failed)?;
    let mut statistics = ServerStatistics::default();
    for (view, counters) in rows {
        statistics.add(view, &counters).map_err(|source| failed(sqlx::Error::Decode(source.into())))?;
    }
    Ok(statistics)
}

impl ServerStatistics {
    /// What a column of a view shows, by the last part of the rows' keys: of tables that is their name.
    pub fn column(&self, view: &str, column: &str) -> BTreeMap<&str, f64> {
        let rows = self.rows.iter().filter(|((name, _), _)| name == view);
        rows.filter_map(|((_, key), row)| Some((key.last()?.1.as_str(), *row.get(column)?))).collect()
    }

    fn add(&mut self, view: String, counters: &str) -> Result<(), serde_json::Error> {
        let columns: BTreeMap<String, Value> = serde_json::from_str(counters)?;
        let text = |name: &str| Some((name.to_owned(), columns.get(name)?.as_str()?.to_owned()));
        let key = KEYS.into_iter().filter_map(text).collect();
        let numbers = columns.iter().filter(|(name, _)| !NUMBERS.contains(&name.as_str()));
        let numbers = numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
        self.rows.insert((view, key), numbers);
        Ok(())
    }

    /// What was added since `earlier`. A row that was not there began at 0.
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
    /// Both.
    pub fn and(mut self, other: StatisticsDelta) -> StatisticsDelta {
        self.0.extend(other.0);
        self
    }

    /// What was added to a column of a view, over all of its rows; 0 when nothing was.
    pub fn sum(&self, view: &str, column: &str) -> f64 {
        let rows = self.0.get(view).into_iter().flatten();
        // The sum of no floats is -0.0.
        rows.filter_map(|row| row.added.get(column)).fold(0.0, |sum, added| sum + added)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// What views with these rows show.
    pub fn statistics_of(rows: impl IntoIterator<Item = (String, String)>) -> ServerStatistics {
        let mut statistics = ServerStatistics::default();
        rows.into_iter().for_each(|(view, counters)| statistics.add(view, &counters).unwrap());
        statistics
    }

    fn statistics(rows: &[(&str, &str)]) -> ServerStatistics {
        statistics_of(rows.iter().map(|(view, counters)| ((*view).to_owned(), (*counters).to_owned())))
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
