//! What a statement takes, by pg_stat_statements.

use sqlx::Row as _;
use sqlx::postgres::PgConnection;

use super::Error;
use super::extension::hold_extension;

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
    let (extension, mut held) = match hold_extension(connection, "pg_stat_statements").await {
        Err(Error::ExtensionMissing { .. }) => return Ok(None),
        held => held?,
    };
    let question = match extension.is_at_least(RENAMED_IN.0, RENAMED_IN.1) {
        true => include_str!("sql/statements_17.sql"),
        false => include_str!("sql/statements_13.sql"),
    };
    // Not preloaded it answers with an error, and a forecast goes on without.
    let Ok(row) = sqlx::query(extension.place(question)).fetch_one(&mut *held).await else { return Ok(None) };
    let failed = |source| Error::Query { action: "read pg_stat_statements", source };
    let calls: f64 = row.try_get("calls").map_err(failed)?;
    let milliseconds: f64 = row.try_get("milliseconds").map_err(failed)?;
    Ok((calls >= FEWEST_CALLS && milliseconds > 0.0)
        .then(|| Statements { calls, seconds: milliseconds * 1e-3 / calls }))
}
