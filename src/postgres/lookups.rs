//! How many blocks of each relation were looked up, by the cumulative statistics. COPY, VACUUM and CREATE INDEX look nothing up, and
//! whoever reads a table from end to end does not either.

use std::collections::{BTreeMap, HashMap};

use sqlx::Row as _;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};

use super::Error;
use super::answer::{collect_rows, in_time};

/// What was counted of a relation since the statistics began.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    oid: u32,
    /// Of an index the table that it is of.
    table: Option<u32>,
    scans: u64,
    /// Of an index its entries that were read.
    read: u64,
    /// Rows that were fetched: of an index those that it led to one after the other, of a table those that bitmaps led to.
    fetched: u64,
    /// `None` as long as nobody has counted the rows.
    rows_per_block: Option<f64>,
}

impl Counted {
    /// Blocks that scans have asked for at least: the rows of each lie side by side.
    fn blocks(&self, scans: u64, rows: u64) -> u64 {
        let more = self.rows_per_block.map_or(0.0, |of_block| rows.saturating_sub(scans) as f64 / of_block.max(1.0));
        scans.saturating_add(more as u64)
    }
}

/// Blocks by `pg_class.oid`, at least so many of each relation of the connected database; of those that are not there none.
pub async fn read_lookups(connection: &mut PgConnection) -> Result<BTreeMap<u32, u64>, Error> {
    let rows = sqlx::query(include_str!("sql/lookups_13.sql")).fetch(connection);
    let count = |row: &PgRow, column: &str| row.try_get::<i64, _>(column).map(|count| count.max(0) as u64);
    let decode = |row: &PgRow| {
        let (tuples, blocks): (f64, i32) = (row.try_get("tuples")?, row.try_get("blocks")?);
        Ok(Some(Counted {
            oid: row.try_get::<Oid, _>("oid")?.0,
            table: row.try_get::<Option<Oid>, _>("indrelid")?.map(|oid| oid.0),
            scans: count(row, "scans")?,
            read: count(row, "rows_read")?,
            fetched: count(row, "rows_fetched")?,
            rows_per_block: (tuples > 0.0 && blocks > 0).then(|| tuples / f64::from(blocks)),
        }))
    };
    let counted = in_time("read how often the relations were looked up", collect_rows(rows, decode)).await?;
    Ok(compute_lookups(&counted))
}

fn compute_lookups(counted: &[Counted]) -> BTreeMap<u32, u64> {
    // Of each table the scans of its indexes, and the rows that these led to.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of 61 rows a block, and its index of 366 entries a leaf.
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
