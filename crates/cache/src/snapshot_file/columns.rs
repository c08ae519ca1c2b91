//! The file's columns, and rows as columns.

use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::schema::types::TypePtr;

use super::row::Row;
use crate::sealed_file::{Kind, build_schema};

/// The columns in the file's order, each with its type.
const COLUMNS: [(&str, Kind); 16] = [
    ("database", Kind::Text),
    ("schema", Kind::Text),
    ("name", Kind::Text),
    ("kind", Kind::Text),
    ("oid", Kind::Long),
    ("parent", Kind::Text),
    ("path", Kind::Text),
    ("relfilenumber", Kind::Long),
    ("tablespace", Kind::Text),
    ("is_system", Kind::Boolean),
    ("fork", Kind::Text),
    ("relation_blocks", Kind::Long),
    ("tier", Kind::Text),
    ("heat", Kind::Integer),
    ("blocks", Kind::Long),
    ("bitmap", Kind::Bytes),
];

/// The file's schema.
pub fn schema() -> Result<TypePtr> {
    build_schema("snapshot", &COLUMNS)
}

/// Rows of one row group, split into columns: what the Parquet writer takes and the reader gives.
#[derive(Debug, Default)]
pub struct Columns {
    pub database: Vec<ByteArray>,
    pub schema: Vec<ByteArray>,
    pub name: Vec<ByteArray>,
    pub kind: Vec<ByteArray>,
    pub oid: Vec<i64>,
    pub parent: Vec<ByteArray>,
    pub path: Vec<ByteArray>,
    pub relfilenumber: Vec<i64>,
    pub tablespace: Vec<ByteArray>,
    pub is_system: Vec<bool>,
    pub fork: Vec<ByteArray>,
    pub relation_blocks: Vec<i64>,
    pub tier: Vec<ByteArray>,
    pub heat: Vec<i32>,
    pub blocks: Vec<i64>,
    pub bitmap: Vec<ByteArray>,
}

impl Columns {
    /// Adds a row.
    pub fn push(&mut self, row: &Row<'_>, bitmap: Vec<u8>) {
        let relation = &row.relation.relation;
        let text = |text: &str| ByteArray::from(text);
        self.database.push(text(&relation.name.database));
        self.schema.push(text(&relation.name.schema));
        self.name.push(text(&relation.name.name));
        self.kind.push(text(relation.kind.name()));
        self.oid.push(relation.oid.into());
        self.parent.push(text(relation.parent.as_deref().unwrap_or_default()));
        self.path.push(text(&relation.path.to_string()));
        self.relfilenumber.push(relation.path.relfilenumber().into());
        self.tablespace.push(text(&relation.tablespace));
        self.is_system.push(relation.is_system);
        self.fork.push(text(row.fork.fork.name()));
        self.relation_blocks.push(row.fork.blocks as i64);
        self.tier.push(text(row.tier));
        self.heat.push(row.heat.into());
        self.blocks.push(row.bitmap.len() as i64);
        self.bitmap.push(ByteArray::from(bitmap));
    }

    /// Rows in it.
    pub fn len(&self) -> usize {
        self.bitmap.len()
    }
}
