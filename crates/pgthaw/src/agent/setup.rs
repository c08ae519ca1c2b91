//! `pgthaw agent setup`.

use anyhow::{Result, bail};
use sqlx::AssertSqlSafe;
use sqlx::Connection as _;

use super::arguments::SetupArguments;
use crate::{ExitStatus, OutputArguments, Target, describe};
use host::failure::ErrorKind;
use postgres::trust::{BEGIN, find_stranger};
use postgres::{
    Error, PG_BUFFERCACHE, PG_PREWARM, Server, apply_create_extension, has_warm_set, quote_identifier, quote_value,
    read_databases, render_setup,
};

/// Statements of a database. The first database gets the tables.
struct Part {
    database: String,
    statements: Vec<String>,
}

pub async fn run(arguments: SetupArguments, output: OutputArguments) -> Result<ExitStatus> {
    let target = Target::open(&arguments.connection).await?;
    let server = target.require_server()?;
    let parts = plan(server, arguments.role.as_deref()).await?;
    if arguments.print {
        terminal::print_verbatim(&render(&parts)?);
        return Ok(ExitStatus::Done);
    }
    let (mut databases, mut failed) = (Vec::new(), None);
    for part in &parts {
        match apply(server, part).await {
            Ok(()) => databases.push(&*part.database),
            Err(error) if part.database == server.database => return Err(error),
            Err(error) => {
                terminal::print_complaint(&format!("database \"{}\": {}", part.database, describe(&error)));
                failed = Some(ErrorKind::Failed);
            }
        }
    }
    let answer = serde_json::json!({ "schema": "pgthaw", "database": server.database, "extensions": databases });
    terminal::print_answer(&answer, output.json, || {
        format!(
            "the database \"{}\" has the schema pgthaw, and these databases have the extensions: {}. To keep a server's caches warm, run `pgthaw agent` on it",
            server.database,
            databases.join(", ")
        )
    })?;
    Ok(failed.map_or(ExitStatus::Done, ExitStatus::Because))
}

async fn plan(server: &Server, role: Option<&str>) -> Result<Vec<Part>> {
    let mut connection = server.connect_to(&server.database).await?;
    let mut first = Vec::new();
    if let Some(role) = role {
        let there = "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)";
        let is_there: bool = sqlx::query_scalar(there).bind(role).fetch_one(&mut connection).await?;
        let quoted = quote_identifier(role);
        if !is_there {
            first.push(format!("CREATE ROLE {quoted} LOGIN"));
        }
        // PostgreSQL 14 added pg_read_all_data.
        let rights = if server.facts.version_num >= 140_000 { "pg_monitor, pg_read_all_data" } else { "pg_monitor" };
        first.push(format!("GRANT {rights} TO {quoted}"));
    }
    if !has_warm_set(&mut connection).await? {
        let there = "SELECT pg_catalog.to_regnamespace('pgthaw') IS NOT NULL";
        let has_schema: bool = sqlx::query_scalar(there).fetch_one(&mut connection).await?;
        if has_schema {
            let mut transaction = connection.begin_with(BEGIN).await?;
            if let Some(finding) = find_stranger(&mut transaction).await? {
                bail!(Error::Untrusted { finding });
            }
            transaction.rollback().await?;
        }
        first.extend(render_setup());
    }
    if let Some(role) = role {
        let quoted = quote_identifier(role);
        first.push(format!("ALTER SCHEMA pgthaw OWNER TO {quoted}"));
        first.extend(
            ["warm_set", "warm_set_state"].map(|table| format!("ALTER TABLE pgthaw.{table} OWNER TO {quoted}")),
        );
    }
    let databases = read_databases(&mut connection).await?;
    let others = databases.into_iter().filter(|one| one.allows_connections && one.name != server.database);
    let others =
        others.filter(|one| one.name != "template1").map(|one| Part { database: one.name, statements: Vec::new() });
    let own = Part { database: server.database.clone(), statements: first };
    Ok([own].into_iter().chain(others).collect())
}

async fn apply(server: &Server, part: &Part) -> Result<()> {
    let mut connection = server.connect_to(&part.database).await?;
    let mut transaction = connection.begin().await?;
    for statement in &part.statements {
        let done = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut *transaction).await;
        done.map_err(|source| Error::Query { action: "set up the schema pgthaw", source })?;
    }
    transaction.commit().await?;
    for name in [PG_BUFFERCACHE, PG_PREWARM] {
        apply_create_extension(&mut connection, name).await?;
    }
    Ok(())
}

fn render(parts: &[Part]) -> Result<String> {
    // psql would run the rest of the name as a command.
    if let Some(part) = parts.iter().find(|part| part.database.contains(['\n', '\r'])) {
        bail!(
            "the name of the database {:?} contains a line feed, so psql cannot connect to it by a script",
            part.database
        );
    }
    let part = |part: &Part| {
        let extensions =
            [PG_BUFFERCACHE, PG_PREWARM].map(|name| format!("CREATE EXTENSION IF NOT EXISTS {name} SCHEMA public"));
        let statements: Vec<String> =
            part.statements.iter().chain(&extensions).map(|one| format!("{};\n", one.trim())).collect();
        let database = quote_identifier(&format!("dbname={}", quote_value(&part.database)));
        format!("\\connect -reuse-previous=on {database}\nBEGIN;\n{}COMMIT;\n", statements.concat())
    };
    Ok(parts.iter().map(part).collect::<Vec<String>>().concat().trim_end().to_owned())
}
