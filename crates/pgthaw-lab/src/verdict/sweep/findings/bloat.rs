//! Did the trial leave its tables larger, or full of dead rows? Then its end was measured on others than its beginning.

use crate::study::Finding;
use postgres::ServerStatistics;

const VIEW: &str = "pg_stat_user_tables";

/// So much of what the tables had before, or of their rows, is told.
const SHARE: f64 = 0.1;

/// Names of tables that are told, the worst first.
const TABLES_MAX: usize = 3;

/// The benchmark's tables around a trial.
#[derive(Clone, Copy, Debug)]
pub struct TableGrowth<'a> {
    pub before: &'a ServerStatistics,
    pub after: &'a ServerStatistics,
}

/// A table that nothing was inserted into.
struct Table<'a> {
    name: &'a str,
    bytes_before: f64,
    grown_bytes: f64,
    dead: f64,
    rows: f64,
}

impl TableGrowth<'_> {
    /// A table with inserts grows by what it was asked for, and says nothing.
    pub fn find_bloat(&self) -> Option<Finding> {
        let column = |statistics: &ServerStatistics, name: &str, table: &str| {
            statistics.column(VIEW, name).get(table).copied().unwrap_or(0.0)
        };
        let after = self.after.column(VIEW, "total_bytes");
        let tables = after.iter().map(|(name, bytes)| {
            let bytes_before = column(self.before, "total_bytes", name);
            let dead = column(self.after, "n_dead_tup", name);
            let inserted = column(self.after, "n_tup_ins", name) - column(self.before, "n_tup_ins", name);
            let rows = dead + column(self.after, "n_live_tup", name);
            (inserted, Table { name, bytes_before, grown_bytes: (bytes - bytes_before).max(0.0), dead, rows })
        });
        let mut tables: Vec<Table<'_>> =
            tables.filter(|(inserted, _)| *inserted == 0.0).map(|(_, table)| table).collect();
        let sum = |of: fn(&Table<'_>) -> f64| tables.iter().map(of).sum::<f64>();
        let grown_ratio = sum(|one| one.grown_bytes) / sum(|one| one.bytes_before).max(1.0);
        let dead_ratio = sum(|one| one.dead) / sum(|one| one.rows).max(1.0);
        if grown_ratio < SHARE && dead_ratio < SHARE {
            return None;
        }
        tables.retain(|one| one.grown_bytes > 0.0 || one.dead > 0.0);
        let left = |one: &Table<'_>| one.grown_bytes / one.bytes_before.max(1.0) + one.dead / one.rows.max(1.0);
        tables.sort_by(|one, other| left(other).total_cmp(&left(one)));
        let tables = tables.iter().take(TABLES_MAX).map(|one| one.name.to_owned()).collect();
        Some(Finding::Bloat { grown_ratio, dead_ratio, tables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres::statistics_of;

    fn tables(rows: &[(&str, u64, u64, u64, u64)]) -> ServerStatistics {
        let counters = |(name, bytes, inserted, live, dead): &(&str, u64, u64, u64, u64)| {
            format!(
                r#"{{"schemaname": "public", "relname": "{name}", "total_bytes": {bytes}, "n_tup_ins": {inserted}, "n_live_tup": {live}, "n_dead_tup": {dead}}}"#
            )
        };
        statistics_of(rows.iter().map(|row| (VIEW.to_owned(), counters(row))))
    }

    #[test]
    fn growth_without_inserts_and_dead_rows_are_bloat() {
        let before = tables(&[("a", 1000, 5, 100, 0), ("b", 1000, 0, 100, 0)]);
        let found =
            |after: &[(&str, u64, u64, u64, u64)]| TableGrowth { before: &before, after: &tables(after) }.find_bloat();
        assert_eq!(found(&[("a", 1000, 5, 100, 9), ("b", 1100, 0, 100, 9)]), None);
        // What was inserted is no bloat.
        assert_eq!(found(&[("a", 9000, 500, 600, 0), ("b", 1000, 0, 100, 0)]), None);
        let Some(Finding::Bloat { grown_ratio, tables, .. }) = found(&[("a", 1000, 5, 100, 0), ("b", 1400, 0, 100, 1)])
        else {
            panic!("not told");
        };
        assert_eq!((grown_ratio, tables), (0.2, vec!["b".to_owned()]));
        let Some(Finding::Bloat { dead_ratio, tables, .. }) =
            found(&[("a", 1000, 5, 100, 100), ("b", 1000, 0, 100, 0)])
        else {
            panic!("not told");
        };
        assert_eq!((dead_ratio, tables), (100.0 / 300.0, vec!["a".to_owned()]));
    }
}
