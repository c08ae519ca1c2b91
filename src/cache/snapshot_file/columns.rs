//! The file's columns, and rows as columns.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};

use super::row::Row;

/// The columns in the file's order, each with its type. Every one is required.
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Bytes,
    Boolean,
    Integer,
    Long,
}

/// The file's schema.
pub fn schema() -> Result<TypePtr> {
    let fields = COLUMNS.iter().map(|(name, kind)| column_type(name, *kind).map(Arc::new));
    let fields = fields.collect::<Result<Vec<TypePtr>>>()?;
    Ok(Arc::new(Type::group_type_builder("snapshot").with_fields(fields).build()?))
}

fn column_type(name: &str, kind: Kind) -> Result<Type> {
    let (physical, logical) = match kind {
        Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Bytes => (PhysicalType::BYTE_ARRAY, None),
        Kind::Boolean => (PhysicalType::BOOLEAN, None),
        Kind::Integer => (PhysicalType::INT32, None),
        Kind::Long => (PhysicalType::INT64, None),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .build()
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
