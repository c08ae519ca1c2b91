use std::borrow::Cow;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgPool, PgRow, PgTypeInfo};
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Encode, Postgres, Row as _, Sqlite, Type};

/// SQLite accepts 32,766 values in a statement, PostgreSQL 65,535.
const VALUES_MAX: usize = 30_000;

/// `json` in pg_type.
const JSON_OID: Oid = Oid(114);

#[derive(Clone, Debug)]
pub(super) enum Database {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Option<String>),
    Integer(Option<i64>),
    Float(Option<f64>),
    Bytes(Option<Vec<u8>>),
    Json(Option<JsonText>),
}

/// A JSON document, stored as text because jsonb would reorder its keys.
#[derive(Clone, Debug)]
pub(super) struct JsonText(String);

#[derive(Clone, Debug)]
pub(super) struct Query {
    sql: Cow<'static, str>,
    values: Vec<Value>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Values(Vec<(&'static str, Value)>);

#[derive(Debug)]
pub(super) enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

pub(super) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

macro_rules! either {
    ($value:expr, $type:ident($inner:ident) => $expression:expr) => {
        match $value {
            $type::Sqlite($inner) => $expression,
            $type::Postgres($inner) => $expression,
        }
    };
}
pub(super) use either;

/// `$document` converts a JSON document to the type of the database.
macro_rules! bind_all {
    ($query:expr, $document:expr) => {{
        // Generated statements would fill the cache of prepared statements.
        let Query { sql, values } = $query;
        let is_fixed = matches!(sql, Cow::Borrowed(_));
        let mut query = sqlx::query(AssertSqlSafe(sql.into_owned())).persistent(is_fixed);
        for value in values {
            query = match value {
                Value::Text(value) => query.bind(value),
                Value::Integer(value) => query.bind(value),
                Value::Float(value) => query.bind(value),
                Value::Bytes(value) => query.bind(value),
                Value::Json(value) => query.bind(value.map($document)),
            };
        }
        query
    }};
}

impl Query {
    pub fn new(sql: impl Into<Cow<'static, str>>) -> Query {
        Query { sql: sql.into(), values: Vec::new() }
    }

    pub fn bind(mut self, value: impl Into<Value>) -> Query {
        self.values.push(value.into());
        self
    }

    pub async fn fetch(self, database: &Database) -> Result<Vec<Row>, sqlx::Error> {
        Ok(match database {
            Database::Sqlite(pool) => {
                let rows = bind_all!(self, |document| document.0).fetch_all(pool).await?;
                rows.into_iter().map(Row::Sqlite).collect()
            }
            Database::Postgres(pool) => {
                let rows = bind_all!(self.without_nul(), |document| document).fetch_all(pool).await?;
                rows.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    pub async fn execute(self, transaction: &mut Transaction) -> Result<u64, sqlx::Error> {
        Ok(match transaction {
            Transaction::Sqlite(inner) => {
                bind_all!(self, |document| document.0).execute(&mut **inner).await?.rows_affected()
            }
            Transaction::Postgres(inner) => {
                bind_all!(self.without_nul(), |document| document).execute(&mut **inner).await?.rows_affected()
            }
        })
    }

    /// PostgreSQL's text type rejects NUL, which a program's output may contain.
    fn without_nul(mut self) -> Query {
        for value in &mut self.values {
            if let Value::Text(Some(text)) = value
                && text.contains('\0')
            {
                *text = text.replace('\0', "\u{fffd}");
            }
        }
        self
    }
}

impl Values {
    pub fn bind(mut self, column: &'static str, value: impl Into<Value>) -> Values {
        self.0.push((column, value.into()));
        self
    }

    pub fn bind_json(self, column: &'static str, document: Option<&impl Serialize>) -> Values {
        let text = |document| serde_json::to_string(document).unwrap_or_else(|_| unreachable!("records become JSON"));
        self.bind(column, Value::Json(document.map(|document| JsonText(text(document)))))
    }
}

impl Database {
    pub async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Database::Sqlite(pool) => Transaction::Sqlite(pool.begin().await?),
            Database::Postgres(pool) => Transaction::Postgres(pool.begin_with(postgres::trust::BEGIN).await?),
        })
    }
}

impl Transaction {
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        either!(self, Transaction(inner) => inner.commit().await)
    }

    /// `more`, such as `ON CONFLICT`, follows the values.
    pub async fn insert(&mut self, table: &str, rows: Vec<Values>, more: &str) -> Result<u64, sqlx::Error> {
        let Some(first) = rows.first() else { return Ok(0) };
        let names: Vec<&str> = first.0.iter().map(|(name, _)| *name).collect();
        let into = format!("INSERT INTO {table} ({})", names.join(", "));
        let mut inserted = 0;
        for chunk in rows.chunks(VALUES_MAX / names.len()) {
            let row = |place: usize| {
                let values = (1..=names.len()).map(|column| format!("${}", place * names.len() + column));
                format!("({})", values.collect::<Vec<_>>().join(", "))
            };
            let values: Vec<String> = (0..chunk.len()).map(row).collect();
            let sql = format!("{into} VALUES {} {more}", values.join(", "));
            let values = chunk.iter().flat_map(|row| row.0.iter().map(|(_, value)| value.clone())).collect();
            inserted += Query { sql: sql.into(), values }.execute(self).await?;
        }
        Ok(inserted)
    }
}

impl Row {
    pub fn try_get<T>(&self, column: &str) -> Result<T, sqlx::Error>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        either!(self, Row(row) => row.try_get(column))
    }

    pub fn integer(&self, column: &str) -> Result<Option<i64>, sqlx::Error> {
        match self {
            Row::Sqlite(row) => row.try_get(column),
            Row::Postgres(row) => {
                row.try_get(column).or_else(|_| Ok(row.try_get::<Option<i32>, _>(column)?.map(i64::from)))
            }
        }
    }

    pub fn text(&self, column: &str) -> Result<Option<String>, sqlx::Error> {
        either!(self, Row(row) => row.try_get_unchecked(column))
    }

    /// A document; NULL reads as JSON null.
    pub fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T, sqlx::Error> {
        let text = self.text(column)?;
        serde_json::from_str(text.as_deref().unwrap_or("null")).map_err(|error| unreadable(column, error))
    }
}

impl Type<Postgres> for JsonText {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(JSON_OID)
    }
}

impl Encode<'_, Postgres> for JsonText {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(Some(text.to_owned()))
    }
}

pub(super) fn unreadable(column: &str, error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::ColumnDecode { index: column.to_owned(), source: Box::new(error) }
}
