//! The types of columns. Every one is required.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Bytes,
    Boolean,
    Integer,
    Long,
}

/// The schema of a file whose columns have these names and types, in this order.
pub fn build_schema(name: &str, columns: &[(&str, Kind)]) -> Result<TypePtr> {
    let fields = columns.iter().map(|(name, kind)| column_type(name, *kind).map(Arc::new));
    let fields = fields.collect::<Result<Vec<TypePtr>>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(fields).build()?))
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
