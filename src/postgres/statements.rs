//! What a statement takes, by pg_stat_statements.

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::answer::LIMIT;
use super::extension::ask_where_it_is;
use super::{Error, Extension};

/// Fewer say nothing.
const FEWEST_CALLS: f64 = 200.0;

/// The version of the extension that came with PostgreSQL 17.
const RENAMED_IN: (u32, u32) = (1, 11);

/// The statements of the connected database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statements {
    pub calls: f64,
    /// Seconds of one, without what it waited for reads where track_io_timing is on.
    pub seconds: f64,
}

/// `None` without the extension, where it is not preloaded or not for this role, and where too few statements were run.
pub async fn read_statements(connection: &mut PgConnection) -> Result<Option<Statements>, Error> {
    const ACTION: &str = "read pg_stat_statements";
    let statement = |extension: &Extension| {
        Some(match extension.is_at_least(RENAMED_IN.0, RENAMED_IN.1) {
            true => extension.place(include_str!("sql/statements_17.sql"), &[]),
            false => extension.place(include_str!("sql/statements_13.sql"), &[]),
        })
    };
    let rows = match ask_where_it_is(connection, "pg_stat_statements", (ACTION, LIMIT), statement).await {
        // Not preloaded it answers with an error, and a forecast goes on without.
        Err(Error::ExtensionMissing { .. } | Error::Query { .. }) => return Ok(None),
        rows => rows?,
    };
    let Some(row) = rows.as_ref().and_then(|rows| rows.first()) else { return Ok(None) };
    let failed = |source| Error::Query { action: ACTION, source };
    let calls: f64 = row.try_get("calls").map_err(failed)?;
    let milliseconds: f64 = row.try_get("milliseconds").map_err(failed)?;
    Ok((calls >= FEWEST_CALLS && milliseconds > 0.0)
        .then(|| Statements { calls, seconds: milliseconds * 1e-3 / calls }))
}
