//! Bounds on a server's answer, in time and rows.

use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{FromRow, Row as _};

use super::Error;

/// A catalog query takes seconds, a minute on a cold server behind a limited disk. Longer ones hang.
pub(super) const LIMIT: Duration = Duration::from_secs(5 * 60);

/// More relations than any known cluster has; under 2 GB with their names.
pub(super) const ROWS_MAX: usize = 4_000_000;

pub(super) async fn in_time<T>(
    action: &'static str,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Error> {
    within(LIMIT, action, asked).await
}

pub(super) async fn within<T>(
    limit: Duration,
    action: &'static str,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(limit, asked).await {
        Ok(answer) => answer.map_err(|source| Error::Query { action, source }),
        Err(_) => Err(Error::Silent { action, seconds: limit.as_secs() }),
    }
}

pub(super) async fn ask_one<T: for<'r> FromRow<'r, PgRow> + Send + Unpin>(
    connection: &mut PgConnection,
    action: &'static str,
    question: &'static str,
) -> Result<T, Error> {
    in_time(action, sqlx::query_as(question).fetch_one(connection)).await
}

pub(super) async fn ask_all<T: for<'r> FromRow<'r, PgRow> + Send + Unpin>(
    connection: &mut PgConnection,
    action: &'static str,
    question: &'static str,
) -> Result<Vec<T>, Error> {
    in_time(action, sqlx::query_as(question).fetch_all(connection)).await
}

/// A column that counts; NULL is 0.
pub(super) fn count(row: &PgRow, name: &str) -> Result<u64, sqlx::Error> {
    Ok(row.try_get::<Option<i64>, _>(name)?.unwrap_or(0).max(0) as u64)
}

/// The rows that `decode` makes something of. More than [`ROWS_MAX`] are an error.
pub(super) async fn collect_rows<T>(
    rows: impl Stream<Item = Result<PgRow, sqlx::Error>>,
    mut decode: impl FnMut(&PgRow) -> Result<Option<T>, sqlx::Error>,
) -> Result<Vec<T>, sqlx::Error> {
    let mut rows = std::pin::pin!(rows);
    let (mut collected, mut count) = (Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        if count > ROWS_MAX {
            return Err(sqlx::Error::Protocol(format!("more than {ROWS_MAX} rows came")));
        }
        collected.extend(decode(&row)?);
    }
    Ok(collected)
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
