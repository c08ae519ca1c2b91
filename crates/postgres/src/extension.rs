use std::time::Duration;

use futures_util::TryStreamExt as _;
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnection, PgRow};

use super::answer::{Columns as _, LIMIT, ask_one, columns, in_time, within};
use super::error::{CREATE_EXTENSION, INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE};
use super::{Error, Result};
use host::units::{BlockRange, Fork};

pub const PG_PREWARM: &str = "pg_prewarm";
pub const PG_BUFFERCACHE: &str = "pg_buffercache";

/// Keeps schemas from being renamed or dropped during a statement. Is sent with that statement as one transaction, so
/// that a suspended pgthaw holds no lock. Unlike a row lock, this lock needs no transaction id. The lock timeout is
/// below deadlock_timeout, so that no deadlock aborts another transaction.
const KEEP: &str = "SET LOCAL lock_timeout = '300ms'; LOCK TABLE pg_catalog.pg_namespace IN SHARE MODE";

const TRIES: u32 = 3;

const CURSOR: &str = "pgthaw_answer";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    name: &'static str,
    schema: String,
    schema_literal: String,
    pub version: String,
    /// Whether a role other than a superuser may rename or drop the schema.
    is_movable: bool,
    /// Whether this session may lock pg_namespace, which keeps the schema in place.
    is_holdable: bool,
}

impl Extension {
    /// Replaces each `{name}` by its entry in `values`, else by the schema. Braces in values stay. Drops comments,
    /// because a value may contain a line end.
    pub(super) fn place(&self, question: &str, values: &[(&str, String)]) -> String {
        let lines = question.lines().filter(|line| !line.trim_start().starts_with("--"));
        let question = lines.collect::<Vec<_>>().join("\n");
        let mut parts = question.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (name, rest) in parts.filter_map(|part| part.split_once('}')) {
            let value = values.iter().find(|(one, _)| *one == name).map_or(&self.schema, |(_, value)| value);
            text.push_str(value);
            text.push_str(rest);
        }
        text
    }

    fn keep(&self, text: &str) -> String {
        if !self.is_kept() {
            return text.to_owned();
        }
        let there = include_str!("sql/extension_there_13.sql");
        let there =
            self.place(there, &[("extension", self.name.into()), ("quoted_schema", self.schema_literal.clone())]);
        format!("{KEEP}; {there}; {text}")
    }

    fn is_kept(&self) -> bool {
        self.is_movable && self.is_holdable
    }

    pub(super) fn is_at_least(&self, major: u32, minor: u32) -> bool {
        let mut parts = self.version.split('.').map(|part| part.parse().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (major, minor)
    }
}

pub(super) async fn ask_extension(
    connection: &mut PgConnection,
    extension: &Extension,
    statement: &str,
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut rows = sqlx::raw_sql(AssertSqlSafe(extension.keep(statement))).fetch_all(connection).await?;
    // The first row is the result of extension_there_13.sql, not of `text`.
    Ok(if extension.is_kept() { rows.split_off(rows.len().min(1)) } else { rows })
}

/// Runs the SQL returned by `statement`, if any; first with the `known` extension. Errors name the missing privilege.
pub(super) async fn ask_where_it_is(
    connection: &mut PgConnection,
    name: &'static str,
    (action, limit): (&'static str, Duration),
    mut known: Option<Extension>,
    statement: impl Fn(&Extension) -> Option<String>,
) -> Result<Option<Vec<PgRow>>> {
    let mut tries = 1..TRIES;
    loop {
        let extension = match known.take() {
            Some(known) => known,
            None => require_extension(connection, name).await?,
        };
        let Some(statement) = statement(&extension) else { return Ok(None) };
        match within(limit, action, ask_extension(connection, &extension, &statement)).await {
            Err(error) if was_moved(&error) && tries.next().is_some() => {}
            Err(Error::Query { source, .. }) => return Err(explain_refusal(connection, name, action, source).await),
            answer => return answer.map(Some),
        }
    }
}

/// Visits a query's rows. If the query needs the lock of `KEEP`, fetches the rows after the end of its transaction
/// (`WITH HOLD`), so that a suspended pgthaw holds no lock.
pub(super) async fn visit_where_it_is<R>(
    connection: &mut PgConnection,
    name: &'static str,
    action: &'static str,
    question: &str,
    rows_max: u32,
    mut visit: impl FnMut(R),
) -> Result<()>
where
    R: for<'r> sqlx::FromRow<'r, PgRow> + Send + Unpin,
{
    let mut tries = 1..TRIES;
    let statement = loop {
        let extension = require_extension(connection, name).await?;
        let statement = extension.place(question, &[]);
        if !extension.is_kept() {
            break statement;
        }
        let declare = format!("DECLARE {CURSOR} NO SCROLL CURSOR WITH HOLD FOR {statement}");
        match in_time(action, ask_extension(connection, &extension, &declare)).await {
            Err(error) if was_moved(&error) && tries.next().is_some() => {}
            declared => break declared.map(|_| format!("FETCH ALL FROM {CURSOR}"))?,
        }
    };
    let is_declared = statement.starts_with("FETCH");
    let visited = async {
        let mut rows = sqlx::query_as::<_, R>(AssertSqlSafe(statement)).persistent(false).fetch(&mut *connection);
        for _ in 0..rows_max {
            match in_time(action, rows.try_next()).await? {
                Some(row) => visit(row),
                None => return Ok(()),
            }
        }
        let source = sqlx::Error::Protocol(format!("the server returned more than {rows_max} rows"));
        Err(Error::Query { action, source })
    };
    let visited = visited.await;
    if is_declared && visited.is_ok() {
        let close = sqlx::raw_sql(AssertSqlSafe(format!("CLOSE {CURSOR}")));
        in_time(action, close.execute(connection)).await?;
    }
    visited
}

/// extension_there_13.sql fails if the extension was moved to another schema.
fn was_moved(error: &Error) -> bool {
    error.has_state(&["22P02"])
}

pub async fn find_extension(connection: &mut PgConnection, name: &'static str) -> Result<Option<Extension>> {
    let look = async {
        let row = sqlx::query(include_str!("sql/extension_13.sql")).bind(name).fetch_optional(connection).await?;
        let extension = |row: PgRow| {
            Ok(columns!(row => Extension { schema, schema_literal, version, is_movable, is_holdable; name }))
        };
        row.map(extension).transpose()
    };
    in_time("find an extension", look).await
}

pub(super) async fn require_extension(connection: &mut PgConnection, name: &'static str) -> Result<Extension> {
    match find_extension(connection, name).await? {
        Some(extension) => Ok(extension),
        None => Err(Error::ExtensionMissing { name, database: read_identity(connection).await?.0 }),
    }
}

pub async fn apply_create_extension(connection: &mut PgConnection, name: &'static str) -> Result<()> {
    let question = "SELECT coalesce((SELECT pg_catalog.quote_ident(nspname) FROM pg_catalog.pg_namespace \
                    WHERE nspname = 'public'), 'pg_catalog')";
    let schema: String = ask_one(connection, "find a schema to install into", sqlx::query(question)).await?;
    let statement = format!("CREATE EXTENSION IF NOT EXISTS {name} SCHEMA {schema}");
    let done = sqlx::query(AssertSqlSafe(statement)).execute(connection).await;
    done.map(drop).map_err(|source| Error::Query { action: CREATE_EXTENSION, source })
}

pub(super) async fn explain_refusal(
    connection: &mut PgConnection,
    name: &'static str,
    action: &'static str,
    source: sqlx::Error,
) -> Error {
    let error = Error::Query { action, source };
    if error.has_state(&[LOCK_NOT_AVAILABLE]) {
        return find_schema_lock(connection).await.unwrap_or(error);
    }
    if !error.has_state(&[INSUFFICIENT_PRIVILEGE]) {
        return error;
    }
    match (read_identity(connection).await, read_lacking(connection, name).await) {
        // pg_prewarm requires SELECT.
        (Ok((database, role)), Ok(None)) if name == PG_PREWARM => Error::TableUnreadable { database, role },
        (Ok((database, role)), Ok(Some(lacking))) => Error::ExtensionPrivilege { name, database, role, lacking },
        // No grantable privilege is missing.
        (Ok((_, role)), Ok(None)) => Error::NoSuperuser { action, role },
        _ => error,
    }
}

pub(super) async fn read_lacking(connection: &mut PgConnection, name: &str) -> Result<Option<String>, sqlx::Error> {
    // pg_monitor does not help pg_prewarm.
    let members = if name == PG_PREWARM { None } else { Some("pg_monitor") };
    let question = include_str!("sql/extension_lacking_13.sql");
    let row = sqlx::query(question).bind(name).bind(members).fetch_optional(connection).await?;
    row.map(|row| row.try_get(0)).transpose()
}

async fn find_schema_lock(connection: &mut PgConnection) -> Option<Error> {
    let row = sqlx::query_as(include_str!("sql/schema_lock_13.sql")).fetch_one(connection).await.ok();
    row.map(|(database, holder)| Error::SchemasLocked { database, holder })
}

async fn read_identity(connection: &mut PgConnection) -> Result<(String, String)> {
    let question = "SELECT pg_catalog.current_database()::pg_catalog.text, current_user::pg_catalog.text";
    ask_one(connection, "read the role and database", sqlx::query(question)).await
}

const ACTION: &str = "prewarm a relation";

/// Usually 16 MB. Bounds the work after Ctrl-C: dropping the future does not cancel the statement.
const BATCH_BLOCKS: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum PrewarmMode {
    /// Into shared_buffers.
    Buffer,
    /// Into the page cache.
    Read,
    /// Into the page cache, asynchronously.
    Prefetch,
}

host::named!(PrewarmMode);

#[derive(Debug)]
pub struct Prewarmer {
    connection: PgConnection,
    /// `None` if its schema may be renamed or dropped meanwhile.
    known: Option<Extension>,
}

impl Prewarmer {
    pub async fn open(mut connection: PgConnection) -> Result<Prewarmer> {
        let extension = require_extension(&mut connection, PG_PREWARM).await?;
        Ok(Prewarmer { connection, known: Some(extension).filter(|extension| !extension.is_movable) })
    }

    /// Returns the number of loaded blocks; 0 for a dropped relation. Each extra pass raises the usage count by one.
    pub async fn apply_prewarm(
        &mut self,
        relation_oid: u32,
        mode: PrewarmMode,
        fork: Fork,
        ranges: &[BlockRange],
        passes: u32,
    ) -> Result<u64> {
        let mut loaded = 0;
        for batch in batches(ranges) {
            let list = |bound: fn(&BlockRange) -> u64| {
                let bounds: Vec<String> = batch.iter().map(|range| bound(range).to_string()).collect();
                format!("{{{}}}", bounds.join(","))
            };
            let values = [
                ("relation", relation_oid.to_string()),
                ("mode", mode.name().to_owned()),
                ("fork", fork.name().to_owned()),
                ("starts", list(|range| range.start)),
                ("ends", list(|range| range.end)),
                ("passes", passes.to_string()),
            ];
            let statement = |extension: &Extension| Some(extension.place(include_str!("sql/prewarm_13.sql"), &values));
            let (limits, known) = ((ACTION, LIMIT), self.known.clone());
            let rows = ask_where_it_is(&mut self.connection, PG_PREWARM, limits, known, statement).await?;
            let row = rows.iter().flatten().next().ok_or(sqlx::Error::RowNotFound);
            let blocks: Result<u64, _> = row.and_then(|row| row.try_get("blocks"));
            let blocks = blocks.map_err(|source| Error::Query { action: ACTION, source })?;
            loaded += blocks / u64::from(passes.max(1));
        }
        Ok(loaded)
    }
}

fn batches(ranges: &[BlockRange]) -> Vec<Vec<BlockRange>> {
    let mut batches: Vec<Vec<BlockRange>> = Vec::new();
    let mut room = 0;
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            if room == 0 {
                batches.push(Vec::new());
                room = BATCH_BLOCKS;
            }
            let end = range.end.min(start + room);
            room -= end - start;
            batches.last_mut().into_iter().for_each(|batch| batch.push(BlockRange::new(start, end)));
            start = end;
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        let version = |text: &str| Extension { version: text.into(), ..Extension::default() };
        assert!(version("1.10").is_at_least(1, 4));
        assert!(version("2.0").is_at_least(1, 4));
        assert!(!version("1.3").is_at_least(1, 4));
        assert!(!version("unreleased").is_at_least(1, 4));
    }

    #[test]
    fn a_schemas_name_is_nothing_but_a_name() {
        let schema = "\"{a}\nSELECT evil() UNION ALL --{schema}\"".to_owned();
        let extension = Extension { schema, ..Extension::default() };
        let placed = extension.place("-- {schema} is where it is.\nSELECT {schema}.f({a})", &[("a", "1".into())]);
        assert_eq!(placed, "SELECT \"{a}\nSELECT evil() UNION ALL --{schema}\".f(1)");
    }
}

#[cfg(test)]
mod prewarm_tests {
    use super::*;

    #[test]
    fn batches_cover_the_ranges_once() {
        let range = BlockRange::new;
        let found = batches(&[range(10, 20), range(30, 4200), range(7, 7), range(9000, 9001)]);
        let second = range(2068, 4116);
        assert_eq!(
            found,
            [vec![range(10, 20), range(30, 2068)], vec![second], vec![range(4116, 4200), range(9000, 9001)]]
        );
        assert!(batches(&[range(5, 5)]).is_empty());
    }
}
