//! The contrib modules inside the server: where they are, how to call them, and what to say when they are not there.

use std::ops::{Deref, DerefMut};

use sqlx::postgres::{PgConnection, PgRow, Postgres};
use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqlSafeStr as _, SqlStr, Transaction};

use super::Error;
use super::answer::in_time;
use super::error::CREATE_EXTENSION;

/// The extension that loads blocks, and the one that tells what is in shared_buffers.
pub const PG_PREWARM: &str = "pg_prewarm";
pub const PG_BUFFERCACHE: &str = "pg_buffercache";

/// An extension that is installed in the connected database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The schema, quoted for use in SQL.
    schema: String,
    /// The extension's version, such as `1.4`.
    pub version: String,
    /// May somebody rename or drop the schema who is no superuser and not the connected role?
    is_movable: bool,
    /// Could the session keep him from that?
    is_holdable: bool,
}

/// A connection on which an extension stays where it was found, as far as the session can see to that.
#[derive(Debug)]
pub(super) enum Held<'c> {
    /// Nobody may move it, or this session cannot keep anybody from it.
    AsIs(&'c mut PgConnection),
    /// The extension's schema stays until the transaction ends. There is nothing to commit.
    Locked(Transaction<'c, Postgres>),
}

impl Held<'_> {
    /// Lets go at once: a transaction that is only dropped ends with the connection's next question.
    pub(super) async fn release(self) -> Result<(), sqlx::Error> {
        match self {
            Held::AsIs(_) => Ok(()),
            Held::Locked(transaction) => transaction.rollback().await,
        }
    }
}

impl Deref for Held<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Held::AsIs(connection) => connection,
            Held::Locked(transaction) => transaction,
        }
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Held::AsIs(connection) => connection,
            Held::Locked(transaction) => transaction,
        }
    }
}

impl Extension {
    /// The text of a question whose `{schema}` is where the extension is.
    pub(super) fn place(&self, question: &'static str) -> SqlStr {
        AssertSqlSafe(question.replace("{schema}", &self.schema)).into_sql_str()
    }

    /// May it be somewhere else a moment later?
    pub(super) fn is_movable(&self) -> bool {
        self.is_movable
    }

    /// Is the extension at least `major.minor`?
    pub(super) fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
    }
}

/// The extension `name` in the connected database; `None` when it is not installed there.
pub async fn find_extension(connection: &mut PgConnection, name: &str) -> Result<Option<Extension>, Error> {
    let look = async {
        let row = sqlx::query(include_str!("sql/extension_13.sql")).bind(name).fetch_optional(connection).await?;
        let extension = |row: PgRow| {
            Ok(Extension {
                schema: row.try_get("schema")?,
                version: row.try_get("version")?,
                is_movable: row.try_get("is_movable")?,
                is_holdable: row.try_get("is_holdable")?,
            })
        };
        row.map(extension).transpose()
    };
    in_time("look for an extension", look).await
}

/// The extension `name` in the connected database, where it stays until what is held is dropped. The owner of its schema, who may
/// be anybody, could otherwise rename that between looking and calling, and be called himself in its place.
pub(super) async fn hold_extension<'c>(
    connection: &'c mut PgConnection,
    name: &'static str,
) -> Result<(Extension, Held<'c>), Error> {
    let extension = require_extension(connection, name).await?;
    if !extension.is_movable || !extension.is_holdable {
        return Ok((extension, Held::AsIs(connection)));
    }
    let failed = |source| Error::Query { action: "hold an extension where it is", source };
    let mut transaction = connection.begin().await.map_err(failed)?;
    let hold = sqlx::query(include_str!("sql/extension_hold_13.sql")).bind(name);
    hold.execute(&mut *transaction).await.map_err(failed)?;
    // It may have been moved a moment before.
    let extension = require_extension(&mut transaction, name).await?;
    Ok((extension, Held::Locked(transaction)))
}

/// The extension `name` in the connected database, or what to do to have it.
pub(super) async fn require_extension(connection: &mut PgConnection, name: &'static str) -> Result<Extension, Error> {
    match find_extension(connection, name).await? {
        Some(extension) => Ok(extension),
        None => Err(Error::ExtensionMissing { name, database: read_identity(connection).await?.0 }),
    }
}

/// Installs an extension in the connected database, in the schema `public` when there is one.
pub async fn apply_create_extension(connection: &mut PgConnection, name: &'static str) -> Result<(), Error> {
    let failed = |source| Error::Query { action: CREATE_EXTENSION, source };
    let statement = format!("CREATE EXTENSION IF NOT EXISTS {name} SCHEMA {}", read_target_schema(connection).await?);
    sqlx::query(AssertSqlSafe(statement)).execute(connection).await.map_err(failed)?;
    Ok(())
}

/// Says who lacks which privilege where, when that is what went wrong.
pub(super) async fn explain_refusal(
    connection: &mut PgConnection,
    name: &'static str,
    action: &'static str,
    source: sqlx::Error,
) -> Error {
    let error = Error::Query { action, source };
    if error.sqlstate().as_deref() != Some("42501") {
        return error;
    }
    match (read_identity(connection).await, read_lacking(connection, name).await) {
        // It loads what its caller may read.
        (Ok((database, role)), Ok(None)) if name == PG_PREWARM => Error::TableUnreadable { database, role },
        (Ok((database, role)), Ok(lacking)) => Error::ExtensionPrivilege { name, database, role, lacking },
        _ => error,
    }
}

/// What the connected role needs to use an extension, as GRANT takes it before TO: the predefined role whose members
/// may, or, when these may not either, the privilege. `None`: nothing that can be granted.
pub(super) async fn read_lacking(connection: &mut PgConnection, name: &str) -> Result<Option<String>, sqlx::Error> {
    // Members of it may do more than use one function: for pg_prewarm the function alone is named.
    let members = if name == PG_PREWARM { None } else { Some("pg_monitor") };
    let question = include_str!("sql/extension_lacking_13.sql");
    sqlx::query_scalar(question).bind(name).bind(members).fetch_optional(connection).await
}

/// The connected database and role.
async fn read_identity(connection: &mut PgConnection) -> Result<(String, String), Error> {
    let asked = sqlx::query_as(include_str!("sql/identity_13.sql")).fetch_one(connection);
    in_time("ask for the role and database", asked).await
}

/// The schema, quoted, that CREATE EXTENSION would take by default: `public`, or pg_catalog where that was dropped.
async fn read_target_schema(connection: &mut PgConnection) -> Result<String, Error> {
    let asked = sqlx::query_scalar(include_str!("sql/extension_schema_13.sql")).fetch_one(connection);
    in_time("look for a schema to install into", asked).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let version = |text: &str| Extension {
            schema: "public".into(),
            version: text.into(),
            is_movable: false,
            is_holdable: false,
        };
        assert!(version("1.10").is_at_least(1, 4));
        assert!(version("2.0").is_at_least(1, 4));
        assert!(!version("1.3").is_at_least(1, 4));
        assert!(!version("unreleased").is_at_least(1, 4));
    }
}
