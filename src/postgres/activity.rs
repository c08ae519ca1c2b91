//! What clients ask of a database: transactions, and blocks of each relation, by the cumulative statistics.

use sqlx::Row as _;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};

use super::answer::{collect_rows, in_time};
use super::{Error, RelationKind};

/// Counts since the statistics began. Backends report them once a second at most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    pub transactions: u64,
    /// Client backends that did something within the last second, without the one that asked.
    pub clients: u32,
    /// Blocks that were found in shared_buffers, and those that were not: read from the page cache or from the device.
    pub blocks_hit: u64,
    pub blocks_read: u64,
    /// The processes that read for its clients.
    pub pids: Vec<u32>,
    pub relations: Vec<RelationActivity>,
}

/// One relation's part.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationActivity {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    /// Blocks of the relation's main fork.
    pub blocks: u64,
    /// Blocks that were asked for, cached or not.
    pub requests: u64,
    /// Scans begun: of an index descents from its root, of a table readings in the order of its blocks.
    pub scans: u64,
    pub rows: RowCounts,
    /// Of an index the table that it is of.
    pub table: Option<u32>,
    /// `btree`, `gin`, `heap`; empty where it is not known.
    pub access_method: String,
    /// Rows as VACUUM, ANALYZE or CREATE INDEX last counted or estimated them; `None` when they never did.
    pub tuples: Option<f64>,
}

/// Rows, by how a relation was asked for them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowCounts {
    /// Of a table those that its scans came by, of an index its entries that were read.
    pub read: u64,
    /// Of an index the rows of its table that were fetched by them one after the other; of a table those that bitmaps led to.
    pub fetched: u64,
    /// Of a table those that were inserted, and those that were updated or deleted.
    pub inserted: u64,
    pub changed: u64,
}

impl RowCounts {
    fn since(self, before: RowCounts) -> RowCounts {
        RowCounts {
            read: self.read.saturating_sub(before.read),
            fetched: self.fetched.saturating_sub(before.fetched),
            inserted: self.inserted.saturating_sub(before.inserted),
            changed: self.changed.saturating_sub(before.changed),
        }
    }
}

/// The counts of the connected database.
pub async fn read_activity(connection: &mut PgConnection) -> Result<Activity, Error> {
    const ACTION: &str = "read the statistics of the database";
    let failed = |source| Error::Query { action: ACTION, source };
    // Within a transaction statistics may be those of its first look.
    let row = sqlx::query(include_str!("sql/transactions_13.sql")).fetch_one(&mut *connection);
    let row = in_time(ACTION, row).await?;
    let rows = sqlx::query(include_str!("sql/activity_13.sql")).fetch(connection);
    let count = |row: &PgRow, column: &str| row.try_get::<i64, _>(column).map(|count| count.max(0) as u64);
    let relation = |row: &PgRow| {
        let kind = row.try_get::<&str, _>("relkind")?.chars().next().and_then(RelationKind::from_relkind);
        Ok(Some(RelationActivity {
            oid: row.try_get::<Oid, _>("oid")?.0,
            schema: row.try_get("nspname")?,
            name: row.try_get("relname")?,
            kind: kind.unwrap_or(RelationKind::Unknown),
            blocks: count(row, "blocks")?,
            requests: count(row, "requests")?,
            scans: count(row, "scans")?,
            rows: RowCounts {
                read: count(row, "rows_read")?,
                fetched: count(row, "rows_fetched")?,
                inserted: count(row, "rows_inserted")?,
                changed: count(row, "rows_changed")?,
            },
            table: row.try_get::<Option<Oid>, _>("indrelid")?.map(|oid| oid.0),
            access_method: row.try_get("access_method")?,
            tuples: Some(row.try_get::<f64, _>("tuples")?).filter(|tuples| *tuples > 0.0),
        }))
    };
    Ok(Activity {
        transactions: count(&row, "transactions").map_err(failed)?,
        clients: count(&row, "clients").map_err(failed)? as u32,
        blocks_hit: count(&row, "blocks_hit").map_err(failed)?,
        blocks_read: count(&row, "blocks_read").map_err(failed)?,
        pids: row.try_get::<Vec<i32>, _>("pids").map_err(failed)?.into_iter().map(i32::unsigned_abs).collect(),
        relations: in_time(ACTION, collect_rows(rows, relation)).await?,
    })
}

impl Activity {
    /// What was counted since `before`; relations that were made meanwhile count from 0.
    pub fn since(&self, before: &Activity) -> Activity {
        let earlier = |oid| before.relations.iter().find(|one| one.oid == oid);
        let relations = self.relations.iter().map(|now| {
            let Some(then) = earlier(now.oid) else { return now.clone() };
            RelationActivity {
                requests: now.requests.saturating_sub(then.requests),
                scans: now.scans.saturating_sub(then.scans),
                rows: now.rows.since(then.rows),
                ..now.clone()
            }
        });
        Activity {
            transactions: self.transactions.saturating_sub(before.transactions),
            clients: self.clients,
            blocks_hit: self.blocks_hit.saturating_sub(before.blocks_hit),
            blocks_read: self.blocks_read.saturating_sub(before.blocks_read),
            pids: self.pids.clone(),
            relations: relations.collect(),
        }
    }
}
