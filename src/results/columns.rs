//! What stands in a column of a row, as the types that it is read into.

use jiff::Timestamp;

use super::database::Row;
use crate::units::Bytes;

pub(super) fn json_of<T: serde::de::DeserializeOwned>(row: &Row, column: &str) -> Result<T, sqlx::Error> {
    row.json(column)?.ok_or_else(|| missing(column))
}

/// JSON of a column that older rows do not have.
pub(super) fn optional_json_of<T: serde::de::DeserializeOwned>(
    row: &Row,
    column: &str,
) -> Result<Option<T>, sqlx::Error> {
    row.json(column)
}

pub(super) fn time_of(row: &Row, column: &str) -> Result<Timestamp, sqlx::Error> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|error: jiff::Error| unreadable(column, error))
}

pub(super) fn optional_time_of(row: &Row, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| text.parse().map_err(|error: jiff::Error| unreadable(column, error))).transpose()
}

/// A count that must fit, and must not be negative.
pub(super) fn number_of<T: TryFrom<i64>>(row: &Row, column: &str) -> Result<T, sqlx::Error>
where
    T::Error: std::error::Error + Send + Sync + 'static,
{
    let number = row.integer(column)?.ok_or_else(|| missing(column))?;
    T::try_from(number).map_err(|error| unreadable(column, error))
}

pub(super) fn optional_number_of(row: &Row, column: &str) -> Result<Option<u64>, sqlx::Error> {
    row.integer(column)?.map(|number| u64::try_from(number).map_err(|error| unreadable(column, error))).transpose()
}

pub(super) fn bytes_of(row: &Row, column: &str) -> Result<Bytes, sqlx::Error> {
    number_of(row, column).map(Bytes)
}

pub(super) fn unreadable(column: &str, error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(error) }
}

pub(super) fn missing(column: &str) -> sqlx::Error {
    unreadable(column, std::io::Error::other("there is none"))
}
