//! Checks that no foreign code can run in a session that uses pgthaw's schema. Owners of objects in it, and roles that may
//! add triggers, could run code with its users' rights. So the check covers the contents, not only privileges.

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

/// The SQL files repeat this name.
pub const SCHEMA: &str = "pgthaw";

/// Each statement must see earlier commits.
pub const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// An object of the schema that an untrusted role owns or may change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {how} {role}")]
pub struct Finding {
    pub rank: i32,
    pub what: String,
    pub how: String,
    pub role: String,
    /// Role, quoted as GRANT expects it.
    pub grantee: String,
}

impl Finding {
    pub fn remedy(&self) -> String {
        let Finding { rank, what, grantee, .. } = self;
        match rank {
            1 => "a superuser can drop it, or rename it (ALTER SCHEMA pgthaw RENAME TO …): pgthaw then creates its own"
                .into(),
            3 => format!(
                "REVOKE CREATE ON SCHEMA pgthaw FROM {grantee}; pgthaw then looks for objects that this role created there"
            ),
            4 => format!("REVOKE TRIGGER, REFERENCES ON ALL TABLES IN SCHEMA pgthaw FROM {grantee}"),
            6 => format!("end {what}, then look for objects that it added to the schema pgthaw"),
            _ => format!(
                "inspect the {what} and drop it; or rename the schema (ALTER SCHEMA pgthaw RENAME TO …): pgthaw \
                 then creates its own"
            ),
        }
    }
}

/// Locks the tables: no trigger can be added until the transaction ends.
pub async fn check_before_writing(transaction: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    use_path(transaction, "").await?;
    let tables: Option<String> =
        sqlx::query_scalar(include_str!("sql/write_locks_13.sql")).fetch_one(&mut *transaction).await?;
    if let Some(tables) = tables {
        let lock = format!("LOCK TABLE {tables} IN ROW EXCLUSIVE MODE");
        sqlx::query(AssertSqlSafe(lock)).persistent(false).execute(&mut *transaction).await?;
    }
    let finding = find_stranger(transaction).await?;
    use_path(transaction, SCHEMA).await?;
    Ok(finding)
}

pub async fn find_stranger(transaction: &mut PgConnection) -> Result<Option<Finding>, sqlx::Error> {
    use_path(transaction, "").await?;
    let found: Option<(i32, String, String, String, String)> =
        sqlx::query_as(include_str!("sql/strangers_13.sql")).fetch_optional(transaction).await?;
    Ok(found.map(|(rank, what, how, role, grantee)| Finding { rank, what, how, role, grantee }))
}

async fn use_path(transaction: &mut PgConnection, path: &str) -> Result<(), sqlx::Error> {
    sqlx::query(include_str!("sql/use_path_13.sql")).bind(path).execute(transaction).await.map(drop)
}
