//! When the server counts what a session has done: about once a second, or at once.

use sqlx::postgres::PgConnection;

use super::Error;

/// A question to which the session adds, where it can, that the statistics are told at once what it has done.
macro_rules! telling {
    ($connection:expr, $question:literal) => {
        match $crate::postgres::telling::tells_at_once($connection) {
            true => concat!(include_str!($question), "CROSS JOIN pg_catalog.pg_stat_force_next_flush() AS told\n"),
            false => include_str!($question),
        }
    };
}

pub(super) use telling;

pub(super) fn tells_at_once(connection: &PgConnection) -> bool {
    connection.server_version_num().is_some_and(can_tell_at_once)
}

/// Does the server tell its statistics what pgthaw's sessions do when they do it? Until version 14 it cannot be asked to.
pub fn can_tell_at_once(version_num: u32) -> bool {
    version_num >= 150_000
}

/// Has the statistics told what the session has done so far, where that can be asked for.
pub async fn tell_statistics(connection: &mut PgConnection) -> Result<(), Error> {
    if !tells_at_once(connection) {
        return Ok(());
    }
    let told = sqlx::query(include_str!("sql/tell_15.sql")).execute(connection).await;
    told.map(drop).map_err(|source| Error::Query { action: "have the statistics told", source })
}
