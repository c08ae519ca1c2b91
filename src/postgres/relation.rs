//! A relation and how people name it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::RelationPath;

/// `pg_class.relkind`, where it has storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        match self {
            RelationKind::Table => "table",
            RelationKind::Index => "index",
            RelationKind::Toast => "toast",
            RelationKind::MaterializedView => "materialized_view",
            RelationKind::Sequence => "sequence",
            RelationKind::Unknown => "unknown",
        }
    }

    /// The kind of a word written by [`RelationKind::name`].
    pub fn from_name(name: &str) -> Option<RelationKind> {
        use RelationKind::*;
        [Table, Index, Toast, MaterializedView, Sequence, Unknown].into_iter().find(|kind| kind.name() == name)
    }
}

/// Who a relation is: what survives a rewrite, a failover and a move to another host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RelationName {
    /// The database; empty for a shared catalog.
    pub database: String,
    /// Empty when the catalog could not be read: the name is the path then.
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
    /// What the relation belongs to, as `schema.name`: an index's table, a TOAST table's owner, a partition's parent.
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
