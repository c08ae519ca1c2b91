//! The file's columns, and events as columns.

use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::cache::sealed_file::{Kind, build_schema, properties};
use crate::trace::event::{Event, FilmRelation};

/// The columns in the file's order, each with its type.
const COLUMNS: [(&str, Kind); 12] = [
    ("time_us", Kind::Long),
    ("database", Kind::Text),
    ("schema", Kind::Text),
    ("name", Kind::Text),
    ("path", Kind::Text),
    ("relfilenumber", Kind::Long),
    ("fork", Kind::Text),
    ("first_block", Kind::Long),
    ("blocks", Kind::Long),
    ("kind", Kind::Text),
    ("pid", Kind::Long),
    ("job_bytes", Kind::Long),
];

/// The file's schema.
pub fn schema() -> Result<TypePtr> {
    build_schema("film", &COLUMNS)
}

/// Columns that are kept as their differences: times and bytes only grow, and by little, and a block is often near the one before. Of their
/// eight bytes zstd would keep half as much again (docs/films.md).
const DIFFERENCES: [&str; 3] = ["time_us", "first_block", "job_bytes"];

/// How the file is written.
pub fn film_properties() -> Result<WriterPropertiesBuilder> {
    Ok(DIFFERENCES.iter().fold(properties()?, |properties, name| {
        properties.set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED)
    }))
}

/// Rows of one row group, split into columns: what the Parquet writer takes and the reader gives.
#[derive(Debug, Default)]
pub struct Columns {
    pub time_us: Vec<i64>,
    pub database: Vec<ByteArray>,
    pub schema: Vec<ByteArray>,
    pub name: Vec<ByteArray>,
    pub path: Vec<ByteArray>,
    pub relfilenumber: Vec<i64>,
    pub fork: Vec<ByteArray>,
    pub first_block: Vec<i64>,
    pub blocks: Vec<i64>,
    pub kind: Vec<ByteArray>,
    pub pid: Vec<i64>,
    pub job_bytes: Vec<i64>,
}

/// A relation's texts, which its rows share.
#[derive(Debug)]
pub struct RelationTexts {
    relation: Arc<FilmRelation>,
    texts: [ByteArray; 4],
}

impl RelationTexts {
    pub fn new(relation: &Arc<FilmRelation>) -> RelationTexts {
        let name = &relation.name;
        let path = relation.path.to_string();
        let texts = [&*name.database, &*name.schema, &*name.name, &*path].map(ByteArray::from);
        RelationTexts { relation: Arc::clone(relation), texts }
    }

    /// Are they those of this relation?
    pub fn are_of(&self, relation: &Arc<FilmRelation>) -> bool {
        Arc::ptr_eq(&self.relation, relation)
    }
}

impl Columns {
    /// Adds an event of the relation whose texts these are.
    pub fn push(&mut self, event: &Event, relation: &RelationTexts) {
        let [database, schema, name, path] = relation.texts.clone();
        self.time_us.push(event.time.as_micros() as i64);
        self.database.push(database);
        self.schema.push(schema);
        self.name.push(name);
        self.path.push(path);
        self.relfilenumber.push(relation.relation.path.relfilenumber().into());
        self.fork.push(ByteArray::from(event.fork.name()));
        self.first_block.push(event.blocks.start as i64);
        self.blocks.push(event.blocks.blocks() as i64);
        self.kind.push(ByteArray::from(event.kind.name()));
        self.pid.push(event.pid.into());
        self.job_bytes.push(event.job_bytes.0 as i64);
    }

    /// Rows in it.
    pub fn len(&self) -> usize {
        self.time_us.len()
    }
}
