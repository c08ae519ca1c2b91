use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};
use strum::{EnumString, IntoStaticStr};

use super::Result;
use super::answer::{Columns as _, answer, ask_all, ask_one, ask_rows, columns};
use crate::JsonSchema;
use host::units::Fork;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    pub oid: u32,
    pub name: String,
    /// Whether this role may connect; false for template0.
    pub allows_connections: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkBlocks {
    pub relation_oid: u32,
    pub fork: Fork,
    pub blocks: u64,
}

/// Block reads that missed shared_buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockReads {
    pub relation_oid: u32,
    pub is_shared: bool,
    /// Since the last reset.
    pub reads: u64,
}

answer!(row => BlockReads { relation_oid, is_shared, reads });

/// Row count of a table at the last ANALYZE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowCount {
    pub relation_oid: u32,
    pub rows: f64,
    /// Above 0.
    pub blocks: u64,
    /// Primary key, else the first index.
    pub index_oid: Option<u32>,
}

answer!(row => RowCount { relation_oid, rows, blocks, index_oid });

pub async fn read_databases(connection: &mut PgConnection) -> Result<Vec<Database>> {
    let question = || sqlx::query(include_str!("sql/databases_13.sql"));
    let decode = |row: &PgRow| {
        let name = decode_name(row, "datname")?.unwrap_or_default();
        Ok(Some(columns!(row => Database { oid, allows_connections; name })))
    };
    ask_rows(connection, "list the databases", question, decode).await
}

/// Sorted by schema and name; from all tablespaces, without temporary relations.
pub async fn read_relations(connection: &mut PgConnection, database: &Database, shared: bool) -> Result<Vec<Relation>> {
    let question = || sqlx::query(include_str!("sql/relations_13.sql")).bind(shared);
    let decode = |row: &PgRow| decode_relation(row, &database.name);
    let mut relations = ask_rows(connection, "list the relations", question, decode).await?;
    relations.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(relations)
}

/// Sorted by schema and name.
pub async fn read_partitioned_tables(
    connection: &mut PgConnection,
    database: &Database,
) -> Result<Vec<PartitionedTable>> {
    let question = || sqlx::query(include_str!("sql/partitioned_13.sql"));
    let decode = |row: &PgRow| {
        Ok(Some(PartitionedTable { name: decode_relation_name(row, &database.name)?, parent: decode_parent(row)? }))
    };
    let mut tables = ask_rows(connection, "list the partitioned tables", question, decode).await?;
    tables.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(tables)
}

/// Skips empty forks, and relations that are dropped or locked exclusively.
pub async fn read_fork_blocks(connection: &mut PgConnection, relation_oids: &[u32]) -> Result<Vec<ForkBlocks>> {
    let oids: Vec<Oid> = relation_oids.iter().copied().map(Oid).collect();
    let question = || sqlx::query(include_str!("sql/fork_blocks_13.sql")).bind(oids.clone());
    let decode = |row: &PgRow| {
        let Some(fork) = Fork::from_name(&row.try_get::<String, _>("fork")?) else { return Ok(None) };
        Ok(Some(columns!(row => ForkBlocks { relation_oid, blocks; fork })).filter(|found| found.blocks > 0))
    };
    ask_rows(connection, "read the sizes of the relations", question, decode).await
}

pub async fn read_block_reads(connection: &mut PgConnection) -> Result<Vec<BlockReads>> {
    ask_all(connection, "read the statistics of the relations", include_str!("sql/block_reads_13.sql")).await
}

/// Analysed tables only.
pub async fn read_row_counts(connection: &mut PgConnection) -> Result<Vec<RowCount>> {
    let question = include_str!("sql/row_counts_13.sql");
    let counts = ask_all::<RowCount>(connection, "read the tables' row counts", question).await?;
    let is_known = |count: &RowCount| count.rows.is_finite() && count.rows >= 0.0 && count.blocks > 0;
    Ok(counts.into_iter().filter(is_known).collect())
}

fn decode_relation(row: &PgRow, database: &str) -> Result<Option<Relation>, sqlx::Error> {
    let kind = RelationKind::from_relkind(&row.try_get::<String, _>("relkind")?);
    let path = row.try_get::<Option<String>, _>("path")?.and_then(|path| path.parse().ok());
    let (Some(kind), Some(path)) = (kind, path) else { return Ok(None) };
    let is_shared: bool = row.try_get("relisshared")?;
    Ok(Some(columns!(row => Relation {
        oid, is_system;
        name: decode_relation_name(row, if is_shared { "" } else { database })?,
        kind,
        path,
        tablespace: decode_name(row, "spcname")?.unwrap_or_default(),
        parent: decode_parent(row)?,
    })))
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

/// Maximum length of a name: 63 by default, but custom builds may allow more.
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

pub async fn read_database_comment(connection: &mut PgConnection, name: &str) -> Result<Option<String>> {
    let question =
        "SELECT pg_catalog.shobj_description(oid, 'pg_database') FROM pg_catalog.pg_database WHERE datname = $1";
    ask_one(connection, "read the comment on a database", sqlx::query(question).bind(name)).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, EnumString, IntoStaticStr, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RelationKind {
    Table,
    Index,
    Toast,
    MaterializedView,
    Sequence,
    /// Known only from its files, without a readable catalog.
    Unknown,
}

impl RelationKind {
    /// `None` without storage.
    pub fn from_relkind(relkind: &str) -> Option<RelationKind> {
        match relkind {
            "r" => Some(RelationKind::Table),
            "i" => Some(RelationKind::Index),
            "t" => Some(RelationKind::Toast),
            "m" => Some(RelationKind::MaterializedView),
            "S" => Some(RelationKind::Sequence),
            _ => None,
        }
    }
}

host::named!(RelationKind);

/// Name of a relation, unchanged by rewrites, failovers and moves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct RelationName {
    /// Empty for a shared catalog.
    pub database: String,
    /// Empty without a catalog; `name` is then the path.
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

const TEMPLATES: [&str; 2] = ["template0", "template1"];

impl RelationName {
    pub fn is_of_template(&self) -> bool {
        TEMPLATES.contains(&self.database.as_str())
    }
}

/// A relation with files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Relation {
    #[serde(flatten)]
    pub name: RelationName,
    pub kind: RelationKind,
    /// `pg_class.oid`; 0 without a catalog.
    pub oid: u32,
    /// First segment of the main fork, below the data directory.
    pub path: RelationPath,
    pub tablespace: String,
    /// Table of an index, owner of a TOAST table, or partitioned table of a partition, as `schema.name`.
    pub parent: Option<String>,
    /// Whether the relation is PostgreSQL's own: in pg_catalog, information_schema or their TOAST.
    pub is_system: bool,
}

/// A partitioned table. It has no files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionedTable {
    #[serde(flatten)]
    pub name: RelationName,
    /// Partitioned table that contains this one, as `schema.name`.
    pub parent: Option<String>,
}

/// Path of the main fork's first segment below the data directory, as in `pg_relation_filepath()`
/// (`src/common/relpath.c`). Contains only numbers and a checked version directory, so that a snapshot cannot name
/// outside files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct RelationPath {
    /// Oid and version directory, as in `pg_tblspc/TABLESPACE/PG_15_202209061/DATABASE/RELFILENUMBER`. `None` for
    /// `global/RELFILENUMBER` and `base/DATABASE/RELFILENUMBER`.
    tablespace: Option<(u32, String)>,
    /// 0 for a shared catalog, as in pg_buffercache.
    pub database_oid: u32,
    /// Changes if the relation is rewritten.
    pub relfilenumber: u32,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a relation's path in a data directory")]
pub struct RelationPathError(pub String);

// As in pg_buffercache.
pub(super) const DEFAULT_OID: u32 = 1663;
pub(super) const GLOBAL_OID: u32 = 1664;

impl RelationPath {
    /// In pg_default, or in pg_global if `database_oid` is 0.
    pub const fn base(database_oid: u32, relfilenumber: u32) -> RelationPath {
        RelationPath { tablespace: None, database_oid, relfilenumber }
    }

    pub fn is_global(&self) -> bool {
        self.tablespace.is_none() && self.database_oid == 0
    }

    pub fn tablespace_oid(&self) -> u32 {
        match (&self.tablespace, self.database_oid) {
            (Some((oid, _)), _) => *oid,
            (None, 0) => GLOBAL_OID,
            (None, _) => DEFAULT_OID,
        }
    }

    /// Such as `base/5/16384_vm` or `base/5/16384.1`.
    pub fn segment_file(&self, data_directory: &Path, fork: Fork, segment: u32) -> PathBuf {
        let segment = if segment == 0 { String::new() } else { format!(".{segment}") };
        data_directory.join(format!("{self}{}{segment}", fork.suffix()))
    }
}

impl fmt::Display for RelationPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelationPath { tablespace, database_oid, relfilenumber } = self;
        match tablespace {
            Some((oid, version)) => write!(f, "pg_tblspc/{oid}/{version}/{database_oid}/{relfilenumber}"),
            None if self.is_global() => write!(f, "global/{relfilenumber}"),
            None => write!(f, "base/{database_oid}/{relfilenumber}"),
        }
    }
}

impl FromStr for RelationPath {
    type Err = RelationPathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || RelationPathError(text.to_owned());
        let number = |part: &str| parse_oid(part).ok_or_else(wrong);
        let parts: Vec<&str> = text.split('/').collect();
        let (tablespace, database_oid, file) = match parts.as_slice() {
            ["global", file] => (None, 0, file),
            ["base", database, file] => (None, Some(number(database)?).filter(|oid| *oid > 0).ok_or_else(wrong)?, file),
            ["pg_tblspc", tablespace, version, database, file] if is_version_directory(version) => {
                (Some((number(tablespace)?, (*version).to_owned())), number(database)?, file)
            }
            _ => return Err(wrong()),
        };
        Ok(RelationPath { tablespace, database_oid, relfilenumber: number(file)? })
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

/// Accepts digits only; `u32::from_str` also accepts a sign.
fn parse_oid(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Such as `PG_15_202209061`.
fn is_version_directory(text: &str) -> bool {
    let numbers = text.strip_prefix("PG_").and_then(|rest| rest.split_once('_'));
    numbers.is_some_and(|(major, catalog)| parse_oid(major).is_some() && parse_oid(catalog).is_some())
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
            "base/0/1262",
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
