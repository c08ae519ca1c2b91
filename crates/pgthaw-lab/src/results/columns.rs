//! What a column may hold, and which columns a record has: declared once, for writing and for reading.

use std::error::Error;
use std::str::FromStr;

use jiff::Timestamp;

use super::database::{Row, Value, Values, unreadable};
use crate::study::{LatencyHistogram, Record};
use host::units::Bytes;

/// A type that a column may have.
pub(super) trait Column: Sized {
    /// As it is bound; `None` is SQL's NULL.
    fn bound(value: Option<&Self>) -> Value;

    /// `None` where the column is NULL.
    fn read(row: &Row, column: &str) -> Result<Option<Self>, sqlx::Error>;
}

/// The value of a column, or one that may be missing.
pub(super) trait Field: Sized {
    fn to_value(&self) -> Value;
    fn from_row(row: &Row, column: &str) -> Result<Self, sqlx::Error>;
}

/// A record, or a part of one, as columns side by side.
pub(super) trait Columns: Sized {
    /// Puts its columns behind those that are there.
    fn put(&self, values: Values) -> Values;
    fn read(row: &Row) -> Result<Self, sqlx::Error>;
}

/// Declares the columns of a record. A field is a column of its name (or of another, with `as`), or it stands behind one of these:
/// - `json`: a document, `optional_json`: one that may be missing;
/// - `text`: a number that SQL has no type for, as text;
/// - `flat`: a part with columns of its own;
/// - `apart`: kept elsewhere, and the default as it is read.
///
/// A field that is in none of them does not compile.
macro_rules! columns {
    ($record:ident {
        $($field:ident $(as $column:literal)?),*
        $(; json $($json:ident),*)?
        $(; optional_json $($optional_json:ident),*)?
        $(; text $($text:ident),*)?
        $(; flat $($flat:ident),*)?
        $(; apart $($apart:ident),*)?
    }) => {
        impl Columns for $record {
            fn put(&self, values: Values) -> Values {
                let values = values $(.bind(columns!(@name $field $($column)?), &self.$field))*;
                $(let values = values $(.bind_json(stringify!($json), Some(&self.$json)))*;)?
                $(let values = values $(.bind_json(stringify!($optional_json), self.$optional_json.as_ref()))*;)?
                $(let values = values $(.bind(stringify!($text), &self.$text.to_string()))*;)?
                $($(let values = self.$flat.put(values);)*)?
                values
            }

            fn read(row: &Row) -> Result<$record, sqlx::Error> {
                Ok($record {
                    $($field: row.get(columns!(@name $field $($column)?))?,)*
                    $($($json: row.json(stringify!($json))?,)*)?
                    $($($optional_json: row.json(stringify!($optional_json))?,)*)?
                    $($($text: row.parsed(stringify!($text))?,)*)?
                    $($($flat: Columns::read(row)?,)*)?
                    $($($apart: Default::default(),)*)?
                })
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $column:literal) => { $column };
}
pub(super) use columns;

impl Row {
    pub fn get<T: Field>(&self, column: &str) -> Result<T, sqlx::Error> {
        T::from_row(self, column)
    }

    /// What stands there as text.
    pub fn parsed<T>(&self, column: &str) -> Result<T, sqlx::Error>
    where
        T: FromStr<Err: Error + Send + Sync + 'static>,
    {
        self.get::<String>(column)?.parse().map_err(|error| unreadable(column, error))
    }

    /// A record as it was kept, without what may be secret in it.
    pub fn record<T: Columns + Record>(&self) -> Result<T, sqlx::Error> {
        let mut record = T::read(self)?;
        record.hide_secrets();
        Ok(record)
    }
}

impl<T: Column> Field for T {
    fn to_value(&self) -> Value {
        T::bound(Some(self))
    }

    fn from_row(row: &Row, column: &str) -> Result<T, sqlx::Error> {
        T::read(row, column)?.ok_or_else(|| missing(column))
    }
}

fn missing(column: &str) -> sqlx::Error {
    unreadable(column, std::io::Error::other("there is none"))
}

impl<T: Column> Field for Option<T> {
    fn to_value(&self) -> Value {
        T::bound(self.as_ref())
    }

    fn from_row(row: &Row, column: &str) -> Result<Option<T>, sqlx::Error> {
        T::read(row, column)
    }
}

impl<T: Field> From<&T> for Value {
    fn from(field: &T) -> Value {
        field.to_value()
    }
}

impl Column for String {
    fn bound(text: Option<&String>) -> Value {
        Value::Text(text.cloned())
    }

    fn read(row: &Row, column: &str) -> Result<Option<String>, sqlx::Error> {
        row.try_get(column)
    }
}

/// Of NaN and infinities, which a database may hold, nothing can be computed, and a page draws none: there is no figure.
impl Column for f64 {
    fn bound(number: Option<&f64>) -> Value {
        Value::Float(number.copied())
    }

    fn read(row: &Row, column: &str) -> Result<Option<f64>, sqlx::Error> {
        Ok(row.try_get::<Option<f64>>(column)?.filter(|number| number.is_finite()))
    }
}

impl Column for i64 {
    fn bound(number: Option<&i64>) -> Value {
        Value::Integer(number.copied())
    }

    fn read(row: &Row, column: &str) -> Result<Option<i64>, sqlx::Error> {
        row.integer(column)
    }
}

/// SQL has no unsigned integers. No count of a trial comes near 2⁶³.
impl Column for u64 {
    fn bound(count: Option<&u64>) -> Value {
        Value::Integer(count.map(|count| i64::try_from(*count).unwrap_or(i64::MAX)))
    }

    fn read(row: &Row, column: &str) -> Result<Option<u64>, sqlx::Error> {
        row.integer(column)?.map(|number| number.try_into().map_err(|error| unreadable(column, error))).transpose()
    }
}

impl Column for u32 {
    fn bound(count: Option<&u32>) -> Value {
        Value::Integer(count.copied().map(i64::from))
    }

    fn read(row: &Row, column: &str) -> Result<Option<u32>, sqlx::Error> {
        row.integer(column)?.map(|number| number.try_into().map_err(|error| unreadable(column, error))).transpose()
    }
}

impl Column for Bytes {
    fn bound(amount: Option<&Bytes>) -> Value {
        u64::bound(amount.map(|amount| &amount.0))
    }

    fn read(row: &Row, column: &str) -> Result<Option<Bytes>, sqlx::Error> {
        Ok(u64::read(row, column)?.map(Bytes))
    }
}

/// Nanoseconds, always nine digits: the text sorts by time.
impl Column for Timestamp {
    fn bound(time: Option<&Timestamp>) -> Value {
        Value::Text(time.map(|time| format!("{time:.9}")))
    }

    fn read(row: &Row, column: &str) -> Result<Option<Timestamp>, sqlx::Error> {
        String::read(row, column)?.map(|_| row.parsed(column)).transpose()
    }
}

impl Column for LatencyHistogram {
    fn bound(latency: Option<&LatencyHistogram>) -> Value {
        Value::Bytes(latency.map(|latency| latency.encoded().to_owned()))
    }

    fn read(row: &Row, column: &str) -> Result<Option<LatencyHistogram>, sqlx::Error> {
        let encoded: Option<Vec<u8>> = row.try_get(column)?;
        let decode = |encoded: Vec<u8>| LatencyHistogram::decode(&encoded).map_err(|error| unreadable(column, error));
        encoded.map(decode).transpose()
    }
}
