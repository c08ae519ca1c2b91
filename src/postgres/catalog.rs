//! What the catalogs know: databases, relations and how large their forks are.

use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row as _, ValueRef as _};

use super::answer::{collect_rows, in_time};
use super::{Error, PartitionedTable, Relation, RelationKind, RelationName};
use crate::units::Fork;

/// A database of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub oid: u32,
    pub name: String,
    /// Can this role connect to it? Nobody can to template0.
    pub allows_connections: bool,
}

/// How large a fork is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkBlocks {
    /// `pg_class.oid` of the relation.
    pub relation_oid: u32,
    pub fork: Fork,
    pub blocks: u64,
}

/// How often blocks of a relation had to be fetched from outside of shared_buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReads {
    /// `pg_class.oid` of the relation.
    pub relation_oid: u32,
    /// Is it a shared catalog?
    pub is_shared: bool,
    /// Blocks, since the statistics were last reset.
    pub reads: u64,
}

/// How many rows a table had when it was last analysed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowCount {
    /// `pg_class.oid` of the table.
    pub relation_oid: u32,
    pub rows: f64,
    /// Blocks that it had then, above 0.
    pub blocks: u64,
    /// The index that finds a row: of the primary key, else the first; `None` without any.
    pub index_oid: Option<u32>,
}

/// All databases of the cluster, by name.
pub async fn read_databases(connection: &mut PgConnection) -> Result<Vec<Database>, Error> {
    let rows = sqlx::query(include_str!("sql/databases_13.sql")).fetch(connection);
    in_time("list the databases", collect_rows(rows, |row| decode_database(row).map(Some))).await
}

/// Every relation with storage in the connected `database`, in all of its tablespaces, by schema and name. Temporary
/// ones are left out; the shared catalogs are there when `shared`.
pub async fn read_relations(
    connection: &mut PgConnection,
    database: &Database,
    shared: bool,
) -> Result<Vec<Relation>, Error> {
    let rows = sqlx::query(include_str!("sql/relations_13.sql")).bind(shared).fetch(connection);
    let relations = collect_rows(rows, |row| decode_relation(row, &database.name));
    let mut relations: Vec<Relation> = in_time("list the relations", relations).await?;
    relations.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(relations)
}

/// The partitioned tables of the connected `database`, by schema and name.
pub async fn read_partitioned_tables(
    connection: &mut PgConnection,
    database: &Database,
) -> Result<Vec<PartitionedTable>, Error> {
    let rows = sqlx::query(include_str!("sql/partitioned_13.sql")).fetch(connection);
    let decode = |row: &PgRow| {
        Ok(Some(PartitionedTable { name: decode_relation_name(row, &database.name)?, parent: decode_parent(row)? }))
    };
    let mut tables = in_time("list the partitioned tables", collect_rows(rows, decode)).await?;
    tables.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(tables)
}

/// Blocks of every fork with at least one, of relations of the connected database. Relations that were dropped
/// meanwhile, or that somebody has locked exclusively, are left out.
pub async fn read_fork_blocks(connection: &mut PgConnection, relation_oids: &[u32]) -> Result<Vec<ForkBlocks>, Error> {
    let oids: Vec<Oid> = relation_oids.iter().copied().map(Oid).collect();
    let rows = sqlx::query(include_str!("sql/fork_blocks_13.sql")).bind(oids).fetch(connection);
    in_time("read the sizes of the relations", collect_rows(rows, decode_fork_blocks)).await
}

/// What the statistics say of every relation of the connected database and of the shared catalogs.
pub async fn read_block_reads(connection: &mut PgConnection) -> Result<Vec<BlockReads>, Error> {
    let rows = sqlx::query(include_str!("sql/block_reads_13.sql")).fetch(connection);
    let decode = |row: &PgRow| {
        let reads: i64 = row.try_get("reads")?;
        Ok(Some(BlockReads {
            relation_oid: row.try_get::<Oid, _>("oid")?.0,
            is_shared: row.try_get("relisshared")?,
            reads: reads.unsigned_abs(),
        }))
    };
    in_time("read the statistics of the relations", collect_rows(rows, decode)).await
}

/// Of every table of the connected database that was analysed.
pub async fn read_row_counts(connection: &mut PgConnection) -> Result<Vec<RowCount>, Error> {
    let rows = sqlx::query(include_str!("sql/row_counts_13.sql")).fetch(connection);
    let decode = |row: &PgRow| {
        let (rows, blocks): (f64, i32) = (row.try_get("rows")?, row.try_get("relpages")?);
        let is_known = rows.is_finite() && rows >= 0.0 && blocks > 0;
        Ok(is_known.then_some(RowCount {
            relation_oid: row.try_get::<Oid, _>("oid")?.0,
            rows,
            blocks: blocks.unsigned_abs().into(),
            index_oid: row.try_get::<Option<Oid>, _>("indexrelid")?.map(|oid| oid.0),
        }))
    };
    in_time("read how many rows the tables have", collect_rows(rows, decode)).await
}

fn decode_database(row: &PgRow) -> Result<Database, sqlx::Error> {
    Ok(Database {
        oid: row.try_get::<Oid, _>("oid")?.0,
        name: decode_name(row, "datname")?.unwrap_or_default(),
        allows_connections: row.try_get("allows_connections")?,
    })
}

/// `None` for a relation that was dropped meanwhile, or whose files are in a place that pgthaw does not know.
fn decode_relation(row: &PgRow, database: &str) -> Result<Option<Relation>, sqlx::Error> {
    let kind = row.try_get::<&str, _>("relkind")?.chars().next().and_then(RelationKind::from_relkind);
    let path = row.try_get::<Option<&str>, _>("path")?.and_then(|path| path.parse().ok());
    let (Some(kind), Some(path)) = (kind, path) else { return Ok(None) };
    let is_shared: bool = row.try_get("relisshared")?;
    Ok(Some(Relation {
        name: decode_relation_name(row, if is_shared { "" } else { database })?,
        kind,
        oid: row.try_get::<Oid, _>("oid")?.0,
        path,
        tablespace: decode_name(row, "spcname")?.unwrap_or_default(),
        parent: decode_parent(row)?,
        is_system: row.try_get("is_system")?,
    }))
}

fn decode_relation_name(row: &PgRow, database: &str) -> Result<RelationName, sqlx::Error> {
    Ok(RelationName {
        database: database.to_owned(),
        schema: decode_name(row, "nspname")?.unwrap_or_default(),
        name: decode_name(row, "relname")?.unwrap_or_default(),
    })
}

fn decode_parent(row: &PgRow) -> Result<Option<String>, sqlx::Error> {
    let parent = decode_name(row, "parent_schema")?.zip(decode_name(row, "parent_name")?);
    Ok(parent.map(|(schema, name)| format!("{schema}.{name}")))
}

fn decode_fork_blocks(row: &PgRow) -> Result<Option<ForkBlocks>, sqlx::Error> {
    let fork = Fork::from_name(row.try_get("fork")?);
    let blocks: Option<i64> = row.try_get("blocks")?;
    let (Some(fork), Some(blocks @ 1..)) = (fork, blocks) else { return Ok(None) };
    Ok(Some(ForkBlocks { relation_oid: row.try_get::<Oid, _>("oid")?.0, fork, blocks: blocks as u64 }))
}

/// PostgreSQL's names have 63 bytes; whoever builds his own may have a few times that.
const NAME_BYTES_MAX: usize = 1024;

/// A name as text. A database with encoding SQL_ASCII may hold names that are no UTF-8: what is not is shown as `�`
/// rather than refused.
fn decode_name(row: &PgRow, column: &str) -> Result<Option<String>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(None);
    }
    let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
    if bytes.len() > NAME_BYTES_MAX {
        return Err(sqlx::Error::Decode(format!("a name of {} bytes", bytes.len()).into()));
    }
    Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
}

/// The comment on a database; `None` without one.
pub async fn read_database_comment(connection: &mut PgConnection, name: &str) -> Result<Option<String>, Error> {
    let question = include_str!("sql/database_comment_13.sql");
    in_time("read the comment on a database", sqlx::query_scalar(question).bind(name).fetch_one(connection)).await
}
