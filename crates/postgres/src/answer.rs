use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArguments, PgConnection, PgRow, PgValueRef};
use sqlx::query::Query;
use sqlx::{ColumnIndex, Decode, Postgres, Type, ValueRef as _};

use super::error::OF_ENCODING;
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
    question: Query<'_, Postgres, PgArguments>,
) -> Result<T> {
    let asked = async { T::of(&question.fetch_one(connection).await?) };
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
        Err(error) if error.has_state(&OF_ENCODING) => {
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

impl<'r> Decode<'r, Postgres> for Text {
    fn decode(value: PgValueRef<'r>) -> Result<Text, sqlx::error::BoxDynError> {
        require(is::<str>(&value))?;
        Ok(Text(String::from_utf8_lossy(value.as_bytes()?).into_owned()))
    }
}

/// Whole number of any type. 0 for negative values, as after the clock was set back.
#[derive(Default)]
struct Count(u64);

impl<'r> Decode<'r, Postgres> for Count {
    fn decode(value: PgValueRef<'r>) -> Result<Count, sqlx::error::BoxDynError> {
        if is::<Oid>(&value) {
            return Ok(Count(<Oid as Decode<Postgres>>::decode(value)?.0.into()));
        }
        require(is::<i16>(&value) || is::<i32>(&value) || is::<i64>(&value))?;
        Ok(Count(<i64 as Decode<Postgres>>::decode(value)?.max(0) as u64))
    }
}

fn is<T: Type<Postgres> + ?Sized>(value: &PgValueRef<'_>) -> bool {
    T::compatible(&value.type_info())
}

fn require(is_compatible: bool) -> Result<(), sqlx::error::BoxDynError> {
    is_compatible.then_some(()).ok_or_else(|| "the column has another type".into())
}

/// Reads columns without sqlx's checks, which reject invalid UTF-8 and numbers of another width.
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
    ($($column:ty: $get:ident $sent:ty, $take:expr;)*) => {$(
        impl Column for $column {
            fn read<I: ColumnIndex<PgRow>>(row: &PgRow, index: I) -> Result<Self, sqlx::Error> {
                sqlx::Row::$get::<$sent, I>(row, index).map($take)
            }
        }
    )*};
}

macro_rules! read_as_sqlx_does {
    ($($column:ty),*) => {
        read_as! { $($column: try_get $column, |value| value;)* }
    };
}

read_as_sqlx_does!(bool, i32, i64, f64, Option<i32>, Option<i64>, Option<f64>);
read_as_sqlx_does!(Vec<bool>, Vec<i32>, Vec<u8>, Vec<Vec<u8>>, Vec<String>, Option<Vec<String>>);
// NULL counts as 0 in a plain number.
read_as! {
    String: try_get_unchecked Text, |text| text.0;
    Option<String>: try_get_unchecked Option<Text>, |text| text.map(|text| text.0);
    u8: try_get_unchecked Option<Count>, |count| count.unwrap_or_default().0 as u8;
    u64: try_get_unchecked Option<Count>, |count| count.unwrap_or_default().0;
    u32: try_get_unchecked Option<Count>, |count| count.unwrap_or_default().0 as u32;
    Option<u64>: try_get_unchecked Option<Count>, |count| count.map(|count| count.0);
    Option<u32>: try_get_unchecked Option<Count>, |count| count.map(|count| count.0 as u32);
    Vec<u32>: try_get Vec<i32>, |pids| pids.into_iter().map(|pid| pid.max(0) as u32).collect();
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

macro_rules! answer {
    ($row:ident => $type:ident $columns:tt) => {
        impl $crate::answer::Answer for $type {
            fn of($row: &sqlx::postgres::PgRow) -> Result<$type, sqlx::Error> {
                Ok($crate::answer::columns!($row => $type $columns))
            }
        }
    };
}
pub(super) use answer;

impl<T: Column> Answer for T {
    fn of(row: &PgRow) -> Result<T, sqlx::Error> {
        T::read(row, 0)
    }
}

impl<A: Column, B: Column> Answer for (A, B) {
    fn of(row: &PgRow) -> Result<(A, B), sqlx::Error> {
        Ok((A::read(row, 0)?, B::read(row, 1)?))
    }
}

impl<A: Column, B: Column, C: Column> Answer for (A, B, C) {
    fn of(row: &PgRow) -> Result<(A, B, C), sqlx::Error> {
        Ok((A::read(row, 0)?, B::read(row, 1)?, C::read(row, 2)?))
    }
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
