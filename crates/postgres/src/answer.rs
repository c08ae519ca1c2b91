use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArguments, PgConnection, PgHasArrayType, PgRow, PgTypeInfo, PgValueRef};
use sqlx::query::Query;
use sqlx::{ColumnIndex, Decode, Postgres, Type};

use super::{Error, Result};

/// Timeout: catalog queries take up to a minute on a cold server with a throttled disk.
pub(super) const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Maximum number of rows in a query's result. So many rows take less than 2 GB of memory, even if each row contains
/// names of up to 63 bytes.
pub(super) const ROWS_MAX: usize = 4_000_000;

pub(super) async fn in_time<T>(action: &'static str, asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T> {
    within(LIMIT, action, asked).await
}

pub(super) async fn within<T>(
    limit: Duration,
    action: &'static str,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer.map_err(|source| Error::Query { action, source }),
        Err(_) => Err(Error::Silent { action, seconds: limit.as_secs() }),
    }
}

pub(super) async fn ask_one<T: Answer>(
    connection: &mut PgConnection,
    action: &'static str,
    question: &'static str,
) -> Result<T> {
    let asked = async { T::of(&sqlx::query(question).fetch_one(connection).await?) };
    in_time(action, asked).await
}

pub(super) async fn ask_all<T: Answer>(
    connection: &mut PgConnection,
    action: &'static str,
    question: &'static str,
) -> Result<Vec<T>> {
    ask_rows(connection, action, || sqlx::query(question), |row| T::of(row).map(Some)).await
}

/// If the server cannot convert a text to UTF-8, repeats the query without conversion.
pub(super) async fn ask_rows<T>(
    connection: &mut PgConnection,
    action: &'static str,
    question: impl Fn() -> Query<'static, Postgres, PgArguments>,
    mut decode: impl FnMut(&PgRow) -> Result<Option<T>, sqlx::Error>,
) -> Result<Vec<T>> {
    match in_time(action, collect_rows(question().fetch(&mut *connection), &mut decode)).await {
        Err(error) if error.is_about_encoding() => {
            let unconverted = sqlx::query("SET client_encoding = 'SQL_ASCII'").execute(&mut *connection);
            in_time(action, unconverted).await?;
            in_time(action, collect_rows(question().fetch(connection), decode)).await
        }
        answer => answer,
    }
}

pub(super) async fn collect_rows<T>(
    rows: impl Stream<Item = Result<PgRow, sqlx::Error>>,
    mut decode: impl FnMut(&PgRow) -> Result<Option<T>, sqlx::Error>,
) -> Result<Vec<T>, sqlx::Error> {
    let mut rows = std::pin::pin!(rows);
    let (mut collected, mut count) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        if count > ROWS_MAX {
            return Err(sqlx::Error::Protocol(format!("the server returned more than {ROWS_MAX} rows")));
        }
        collected.extend(decode(&row)?);
    }
    Ok(collected)
}

/// Text in any encoding, perhaps truncated. Invalid UTF-8 becomes `�`.
struct Text(String);

impl Type<Postgres> for Text {
    fn type_info() -> PgTypeInfo {
        <str as Type<Postgres>>::type_info()
    }

    fn compatible(found: &PgTypeInfo) -> bool {
        <str as Type<Postgres>>::compatible(found)
    }
}

impl PgHasArrayType for Text {
    fn array_type_info() -> PgTypeInfo {
        <String as PgHasArrayType>::array_type_info()
    }
}

impl<'r> Decode<'r, Postgres> for Text {
    fn decode(value: PgValueRef<'r>) -> Result<Text, sqlx::error::BoxDynError> {
        Ok(Text(String::from_utf8_lossy(value.as_bytes()?).into_owned()))
    }
}

/// Reads columns without sqlx's check, which rejects invalid UTF-8.
pub(super) trait Columns {
    fn try_get<T: Column, I: ColumnIndex<PgRow>>(&self, index: I) -> Result<T, sqlx::Error>;
}

impl Columns for PgRow {
    fn try_get<T: Column, I: ColumnIndex<PgRow>>(&self, index: I) -> Result<T, sqlx::Error> {
        T::read(self, index)
    }
}

pub(super) trait Column: Sized {
    fn read<I: ColumnIndex<PgRow>>(row: &PgRow, index: I) -> Result<Self, sqlx::Error>;
}

macro_rules! read_as {
    ($($column:ty: $sent:ty, $take:expr;)*) => {$(
        impl Column for $column {
            fn read<I: ColumnIndex<PgRow>>(row: &PgRow, index: I) -> Result<Self, sqlx::Error> {
                sqlx::Row::try_get::<$sent, I>(row, index).map($take)
            }
        }
    )*};
}

macro_rules! read_as_sqlx_does {
    ($($column:ty),*) => {
        read_as! { $($column: $column, |value| value; Option<$column>: Option<$column>, |value| value;)* }
    };
}

fn strings(texts: Vec<Text>) -> Vec<String> {
    texts.into_iter().map(|text| text.0).collect()
}

read_as_sqlx_does!(bool, i16, i32, i64, f64, Oid, Vec<i32>, Vec<bool>);
read_as! {
    String: Text, |text| text.0;
    Option<String>: Option<Text>, |text| text.map(|text| text.0);
    Option<Vec<String>>: Option<Vec<Text>>, |texts| texts.map(strings);
    u64: Option<i64>, counted;
    u32: Option<i64>, |count| counted(count) as u32;
    Option<u64>: Option<i64>, |length| length.map(|length| counted(Some(length)));
}

/// 0 for NULL, and for negative values after the clock was set back.
fn counted(count: Option<i64>) -> u64 {
    count.unwrap_or(0).max(0) as u64
}

/// Reads columns into fields of the same name. Other fields follow after `;`.
macro_rules! columns {
    ($row:expr => $type:ident { $($field:ident),+ $(; $($others:tt)+)? }) => {
        $type { $($field: $row.try_get(stringify!($field))?,)+ $($($others)+)? }
    };
}
pub(super) use columns;

pub(super) trait Answer: Sized {
    fn of(row: &PgRow) -> Result<Self, sqlx::Error>;
}

macro_rules! read_rows {
    ($($(($column:ident, $index:literal)),+;)*) => {$(
        impl<$($column: Column),+> Answer for ($($column,)+) {
            fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
                Ok(($($column::read(row, $index)?,)+))
            }
        }
    )*};
}

read_rows! {
    (A, 0);
    (A, 0), (B, 1);
    (A, 0), (B, 1), (C, 2), (D, 3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silence_is_an_error_and_an_error_stays_one() {
        let silent = within(Duration::from_millis(1), "ask", std::future::pending::<Result<(), sqlx::Error>>()).await;
        assert!(matches!(silent, Err(Error::Silent { action: "ask", .. })), "{silent:?}");
        let refused = in_time("ask", async { Err::<(), _>(sqlx::Error::RowNotFound) }).await;
        assert!(matches!(refused, Err(Error::Query { action: "ask", .. })), "{refused:?}");
        assert_eq!(in_time("ask", async { Ok(1) }).await.unwrap(), 1);
    }
}
