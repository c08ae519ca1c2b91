//! What the catalogs know: databases, relations and how large their forks are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};
use strum::{EnumString, IntoStaticStr};

use super::Error;
use super::answer::{Columns as _, ask_rows, collect_rows, in_time};
use host::units::Fork;

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

/// Blocks of a relation that were not found in shared_buffers.
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
    /// The primary key's index, else the first.
    pub index_oid: Option<u32>,
}

/// All databases of the cluster, by name.
pub async fn read_databases(connection: &mut PgConnection) -> Result<Vec<Database>, Error> {
    let question = || sqlx::query(include_str!("sql/databases_13.sql"));
    let decode = |row: &PgRow| {
        Ok(Some(Database {
            oid: row.try_get::<Oid, _>("oid")?.0,
            name: decode_name(row, "datname")?.unwrap_or_default(),
            allows_connections: row.try_get("allows_connections")?,
        }))
    };
    ask_rows(connection, "list the databases", question, decode).await
}

/// Every relation with storage in `database`, in all tablespaces, by schema and name; without temporary ones, with
/// shared catalogs if `shared`.
pub async fn read_relations(
    connection: &mut PgConnection,
    database: &Database,
    shared: bool,
) -> Result<Vec<Relation>, Error> {
    let question = || sqlx::query(include_str!("sql/relations_13.sql")).bind(shared);
    let decode = |row: &PgRow| decode_relation(row, &database.name);
    let mut relations = ask_rows(connection, "list the relations", question, decode).await?;
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

/// Blocks of every non-empty fork of these relations; without those that were dropped, or are locked exclusively.
pub async fn read_fork_blocks(connection: &mut PgConnection, relation_oids: &[u32]) -> Result<Vec<ForkBlocks>, Error> {
    let oids: Vec<Oid> = relation_oids.iter().copied().map(Oid).collect();
    let rows = sqlx::query(include_str!("sql/fork_blocks_13.sql")).bind(oids).fetch(connection);
    let decode = |row: &PgRow| {
        let (fork, blocks) = (row.try_get::<String, _>("fork")?, row.try_get::<Option<i64>, _>("blocks")?);
        let (Some(fork), Some(blocks @ 1..)) = (Fork::from_name(&fork), blocks) else { return Ok(None) };
        Ok(Some(ForkBlocks { relation_oid: row.try_get::<Oid, _>("oid")?.0, fork, blocks: blocks as u64 }))
    };
    in_time("read the sizes of the relations", collect_rows(rows, decode)).await
}

/// Statistics of every relation of the database, and of the shared catalogs.
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

/// `None` for a relation dropped meanwhile, or in an unknown place.
fn decode_relation(row: &PgRow, database: &str) -> Result<Option<Relation>, sqlx::Error> {
    let kind = row.try_get::<String, _>("relkind")?.chars().next().and_then(RelationKind::from_relkind);
    let path = row.try_get::<Option<String>, _>("path")?.and_then(|path| path.parse().ok());
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

/// PostgreSQL's names have 63 bytes; custom builds may have more.
const NAME_BYTES_MAX: usize = 1024;

fn decode_name(row: &PgRow, column: &str) -> Result<Option<String>, sqlx::Error> {
    let name: Option<String> = row.try_get(column)?;
    match &name {
        Some(name) if name.len() > NAME_BYTES_MAX => {
            Err(sqlx::Error::Decode(format!("a name of {} bytes", name.len()).into()))
        }
        _ => Ok(name),
    }
}

/// The comment on a database; `None` without one.
pub async fn read_database_comment(connection: &mut PgConnection, name: &str) -> Result<Option<String>, Error> {
    let question =
        "SELECT pg_catalog.shobj_description(oid, 'pg_database') FROM pg_catalog.pg_database WHERE datname = $1";
    let asked = async { sqlx::query(question).bind(name).fetch_one(connection).await?.try_get(0) };
    in_time("read the comment on a database", asked).await
}

// ---- relation ----

/// `pg_class.relkind`, where it has storage.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RelationKind {
    Table,
    Index,
    Toast,
    MaterializedView,
    Sequence,
    /// Found as a file whose catalog could not be read.
    Unknown,
}

impl RelationKind {
    /// The kind that `pg_class.relkind` stands for; `None` for kinds without storage.
    pub fn from_relkind(relkind: char) -> Option<RelationKind> {
        match relkind {
            'r' => Some(RelationKind::Table),
            'i' => Some(RelationKind::Index),
            't' => Some(RelationKind::Toast),
            'm' => Some(RelationKind::MaterializedView),
            'S' => Some(RelationKind::Sequence),
            _ => None,
        }
    }

    /// The word for tables, snapshots and `--json`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A relation's identity across rewrites, failovers and moves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RelationName {
    /// The database; empty for a shared catalog.
    pub database: String,
    /// Empty without a catalog: then the name is the path.
    pub schema: String,
    pub name: String,
}

impl fmt::Display for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.schema.as_str() {
            "" => f.pad(&self.name),
            schema => f.pad(&format!("{schema}.{}", self.name)),
        }
    }
}

/// Databases that nobody works in: what others are made from.
const TEMPLATES: [&str; 2] = ["template0", "template1"];

impl RelationName {
    /// Is it of a database that nobody works in?
    pub fn is_of_template(&self) -> bool {
        TEMPLATES.contains(&self.database.as_str())
    }
}

/// A relation with storage, as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    #[serde(flatten)]
    pub name: RelationName,
    pub kind: RelationKind,
    /// `pg_class.oid`; 0 when the catalog could not be read.
    pub oid: u32,
    /// Where its files are. The relfilenumber is the path's last part.
    pub path: RelationPath,
    /// The tablespace's name.
    pub tablespace: String,
    /// An index's table, a TOAST table's owner, a partition's parent, as `schema.name`.
    pub parent: Option<String>,
    /// Is it one of PostgreSQL's own catalogs (schema pg_catalog, information_schema, or their TOAST)?
    pub is_system: bool,
}

/// A partitioned table: it has no storage, its partitions have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionedTable {
    #[serde(flatten)]
    pub name: RelationName,
    /// The partitioned table that it is itself a partition of, `schema.name`.
    pub parent: Option<String>,
}

// ---- relation path ----

/// The place of a relation's first main-fork segment below the data directory, as `pg_relation_filepath()` prints it
/// (`src/common/relpath.c`). Made only of numbers and a checked version directory, so that a snapshot file cannot name
/// anything outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RelationPath {
    /// `global/RELFILENUMBER`: a shared catalog.
    Global { relfilenumber: u32 },
    /// `base/DATABASE/RELFILENUMBER`: the default tablespace.
    Base { database_oid: u32, relfilenumber: u32 },
    /// `pg_tblspc/TABLESPACE/PG_15_202209061/DATABASE/RELFILENUMBER`.
    Tablespace { tablespace_oid: u32, version_directory: String, database_oid: u32, relfilenumber: u32 },
}

/// The text is not the path of a relation.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not the path of a relation below a data directory")]
pub struct RelationPathError(pub String);

impl RelationPath {
    /// The file's number, which a rewrite changes.
    pub fn relfilenumber(&self) -> u32 {
        match self {
            RelationPath::Global { relfilenumber }
            | RelationPath::Base { relfilenumber, .. }
            | RelationPath::Tablespace { relfilenumber, .. } => *relfilenumber,
        }
    }

    /// The database's oid; 0 for a shared catalog, as pg_buffercache has it.
    pub fn database_oid(&self) -> u32 {
        match self {
            RelationPath::Global { .. } => 0,
            RelationPath::Base { database_oid, .. } | RelationPath::Tablespace { database_oid, .. } => *database_oid,
        }
    }

    /// The tablespace's oid as pg_buffercache has it: 1663 is pg_default, 1664 pg_global.
    pub fn tablespace_oid(&self) -> u32 {
        match self {
            RelationPath::Global { .. } => 1664,
            RelationPath::Base { .. } => 1663,
            RelationPath::Tablespace { tablespace_oid, .. } => *tablespace_oid,
        }
    }

    /// The file of a fork's segment: `base/5/16384_vm`, `base/5/16384.1`.
    pub fn segment_file(&self, data_directory: &Path, fork: Fork, segment: u32) -> PathBuf {
        let segment = if segment == 0 { String::new() } else { format!(".{segment}") };
        data_directory.join(format!("{self}{}{segment}", fork.suffix()))
    }
}

impl fmt::Display for RelationPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelationPath::Global { relfilenumber } => write!(f, "global/{relfilenumber}"),
            RelationPath::Base { database_oid, relfilenumber } => write!(f, "base/{database_oid}/{relfilenumber}"),
            RelationPath::Tablespace { tablespace_oid, version_directory, database_oid, relfilenumber } => {
                write!(f, "pg_tblspc/{tablespace_oid}/{version_directory}/{database_oid}/{relfilenumber}")
            }
        }
    }
}

impl FromStr for RelationPath {
    type Err = RelationPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || RelationPathError(text.to_owned());
        let number = |part: &str| parse_oid(part).ok_or_else(wrong);
        let parts: Vec<&str> = text.split('/').collect();
        match parts.as_slice() {
            ["global", file] => Ok(RelationPath::Global { relfilenumber: number(file)? }),
            ["base", database, file] => {
                Ok(RelationPath::Base { database_oid: number(database)?, relfilenumber: number(file)? })
            }
            ["pg_tblspc", tablespace, version, database, file] if is_version_directory(version) => {
                Ok(RelationPath::Tablespace {
                    tablespace_oid: number(tablespace)?,
                    version_directory: (*version).to_owned(),
                    database_oid: number(database)?,
                    relfilenumber: number(file)?,
                })
            }
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for RelationPath {
    type Error = RelationPathError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RelationPath> for String {
    fn from(path: RelationPath) -> String {
        path.to_string()
    }
}

/// Digits alone: `u32::from_str` would take a sign too.
fn parse_oid(text: &str) -> Option<u32> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// `PG_` major `_` catalog version.
fn is_version_directory(text: &str) -> bool {
    let Some((major, catalog)) = text.strip_prefix("PG_").and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    parse_oid(major).is_some() && parse_oid(catalog).is_some()
}

#[cfg(test)]
mod relation_path_tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in ["global/1262", "base/5/16384", "pg_tblspc/16390/PG_15_202209061/5/16391"] {
            assert_eq!(text.parse::<RelationPath>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_path_cannot_leave_the_data_directory() {
        let hostile = [
            "",
            "/etc/passwd",
            "../../etc/passwd",
            "base/../../etc/passwd",
            "base/5/..",
            "base/5/16384/..",
            "base//5",
            "base/5/+16384",
            "base/5/16384\0",
            "global/pg_control",
            "pg_tblspc/1/../5/6",
            "pg_tblspc/1/PG_x_1/5/6",
            "base/5/99999999999",
            "base/5/16384.1",
        ];
        for text in hostile {
            assert!(text.parse::<RelationPath>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_segments_of_forks() {
        let path: RelationPath = "base/5/16384".parse().unwrap();
        let root = Path::new("/data");
        assert_eq!(path.segment_file(root, Fork::Main, 0), Path::new("/data/base/5/16384"));
        assert_eq!(path.segment_file(root, Fork::Main, 2), Path::new("/data/base/5/16384.2"));
        assert_eq!(path.segment_file(root, Fork::Vm, 0), Path::new("/data/base/5/16384_vm"));
    }
}
