//! Sessions with a results server, and the check that no foreign code can run in them.

use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection as _, Row as _};
use tokio::time::{sleep, timeout};

use super::error::{Place, ServerPlace};
use super::{Error, Result};
use postgres::trust::{BEGIN, Finding, SCHEMA, find_stranger};

/// Timeouts for the server's answers, and for the end of other sessions' transactions that may change the schema.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);
const UNFINISHED_TIMEOUT: Duration = Duration::from_secs(3);
const UNFINISHED_PAUSE: Duration = Duration::from_millis(50);

/// Releases the locks of a pgthaw process that is stopped within a transaction.
const IDLE_LIMIT: (&str, &str) = ("idle_in_transaction_session_timeout", "60s");

/// A statement reads or writes one study at most.
const STATEMENT_LIMIT: (&str, &str) = ("statement_timeout", "300s");

pub(super) async fn connect_pool(server: &ServerPlace, pool: PgPoolOptions) -> Result<PgPool> {
    let place = Place::Server(server.clone());
    let failed = |source| Error::from_database("open", &place, source);
    match server.check_peer().await {
        // Without a listener, the connection below fails with a better message.
        Ok(()) | Err(postgres::Error::Connect { .. }) => {}
        Err(error) => return Err(Error::Stranger(error)),
    }
    // The startup packet overrides settings of database and role.
    let options = server.options.clone().options([("search_path", SCHEMA), IDLE_LIMIT, STATEMENT_LIMIT]);
    let pool = pool.max_connections(2).acquire_timeout(SERVER_TIMEOUT).connect_with(options).await.map_err(failed)?;
    let opened = async {
        let mut connection = pool.acquire().await?;
        // A prepared statement would stay in a pooler's session.
        let asked = sqlx::raw_sql(include_str!("sql/session_path_13.sql")).fetch_one(&mut *connection).await?;
        let path: String = asked.try_get(0)?;
        if path != SCHEMA {
            return Ok(Err(Error::Pooled { server: server.clone() }));
        }
        // Checks first, because CREATE SCHEMA could fire an event trigger.
        let mut found = check_all(&mut connection).await?;
        if found.is_none() && create_schema(&mut connection).await? {
            found = check_all(&mut connection).await?;
        }
        Ok(found.map_or(Ok(()), |finding| Err(Error::Untrusted { server: server.clone(), finding })))
    };
    timeout(SERVER_TIMEOUT, opened).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)).map_err(failed)??;
    Ok(pool)
}

async fn create_schema(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let there = "SELECT pg_catalog.to_regnamespace('pgthaw') IS NOT NULL";
    if sqlx::query_scalar(there).fetch_one(&mut *connection).await? {
        return Ok(false);
    }
    match sqlx::query("CREATE SCHEMA pgthaw").execute(connection).await {
        // Another session has just created it.
        Err(sqlx::Error::Database(error)) if ["42P06", "23505"].contains(&&*error.code().unwrap_or_default()) => {
            Ok(true)
        }
        done => done.map(|_| true),
    }
}

/// Checks the schema, waits for transactions that may be adding objects to it, and checks again. The first check does
/// not see these, and accepts a role that lost its privileges after adding an object.
async fn check_all(connection: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    let begun = Instant::now();
    let mut transaction = connection.begin_with(BEGIN).await?;
    if let Some(finding) = find_stranger(&mut transaction).await? {
        return Ok(Some(finding));
    }
    loop {
        let unfinished: Option<(String, String)> =
            sqlx::query_as(include_str!("sql/unfinished_13.sql")).fetch_optional(&mut *transaction).await?;
        match unfinished {
            None => break,
            Some((what, role)) if begun.elapsed() > UNFINISHED_TIMEOUT => {
                let how = "may be adding objects to the schema pgthaw for".into();
                return Ok(Some(Finding { rank: 6, what, how, role, grantee: String::new() }));
            }
            Some(_) => sleep(UNFINISHED_PAUSE).await,
        }
    }
    let finding = find_stranger(&mut transaction).await?;
    transaction.commit().await?;
    Ok(finding)
}
