//! The contrib modules, database by database.

use sqlx::postgres::PgConnection;

use crate::failure::Capability;
use crate::postgres::{
    Error, PG_BUFFERCACHE, PG_PREWARM, Psql, Server, find_extension, read_databases, read_usage_summary,
};

pub const GROUP: &str = "extensions";

/// What needs an answering server.
pub const NAMES: [&str; 4] = [BUFFERS, PG_BUFFERCACHE, PG_PREWARM, PGFINCORE];

const BUFFERS: &str = "buffers";
const PGFINCORE: &str = "pgfincore";

/// Nobody's data is in it.
const TEMPLATE: &str = "template1";

/// Where an extension is.
#[derive(Debug, Default)]
struct Presence {
    /// Databases that have it, each with the version.
    present: Vec<(String, String)>,
    absent: Vec<String>,
    /// The version that could be installed.
    installable: Option<String>,
}

/// Looks for the extensions in `named`, or else in every database that lets this role in.
pub async fn check_extensions(server: &Server, named: &[String]) -> Vec<Capability> {
    let databases = match named {
        [] => match list_databases(server).await {
            Ok(databases) => databases,
            Err(error) => return vec![Capability::failed(GROUP, PG_PREWARM, &error)],
        },
        named => named.to_vec(),
    };
    let mut lines = vec![check_buffers(server, &databases).await];
    // One database that has pg_buffercache shows the buffers of all; pg_prewarm loads only its own.
    for (name, is_one_enough) in [(PG_BUFFERCACHE, true), (PG_PREWARM, false), (PGFINCORE, true)] {
        lines.push(match find_presence(server, name, &databases).await {
            Ok(presence) => describe(server, name, &presence, is_one_enough),
            Err(error) => Capability::failed(GROUP, name, &error),
        });
    }
    lines
}

async fn list_databases(server: &Server) -> Result<Vec<String>, Error> {
    let mut connection = server.connect_to(&server.database).await?;
    let databases = read_databases(&mut connection).await?;
    let ours = databases.into_iter().filter(|database| database.allows_connections && database.name != TEMPLATE);
    Ok(ours.map(|database| database.name).collect())
}

/// Can shared_buffers be looked into? Asks for its summary.
async fn check_buffers(server: &Server, databases: &[String]) -> Capability {
    match read_used_buffers(server, databases).await {
        Ok(used) => Capability::yes(GROUP, BUFFERS, format!("pg_buffercache tells what is in the {used} used buffers")),
        Err(Error::ExtensionMissing { .. }) => {
            let remedy = install_remedy(server, PG_BUFFERCACHE, std::slice::from_ref(&server.database));
            Capability::no(GROUP, BUFFERS, "no database has the extension pg_buffercache", remedy)
        }
        Err(error) => Capability::failed(GROUP, BUFFERS, &error),
    }
}

async fn read_used_buffers(server: &Server, databases: &[String]) -> Result<u64, Error> {
    let mut connection = server.connect_with_extension(PG_BUFFERCACHE, databases).await?;
    let summary = read_usage_summary(&mut connection).await?;
    Ok(summary.iter().map(|level| level.buffers).sum())
}

async fn find_presence(server: &Server, name: &'static str, databases: &[String]) -> Result<Presence, Error> {
    let mut presence = Presence::default();
    for database in databases {
        let mut connection = server.connect_to(database).await?;
        match find_extension(&mut connection, name).await? {
            Some(extension) => presence.present.push((database.clone(), extension.version)),
            None => presence.absent.push(database.clone()),
        }
        if presence.installable.is_none() {
            presence.installable = read_installable(&mut connection, name).await?;
        }
    }
    Ok(presence)
}

async fn read_installable(connection: &mut PgConnection, name: &str) -> Result<Option<String>, Error> {
    sqlx::query_scalar(include_str!("../sql/available_extension_13.sql"))
        .bind(name)
        .fetch_optional(connection)
        .await
        .map_err(|source| Error::Query { action: "look for an installable extension", source })
}

fn describe(server: &Server, name: &'static str, presence: &Presence, is_one_enough: bool) -> Capability {
    let present: Vec<String> =
        presence.present.iter().map(|(database, version)| format!("{version} in {database}")).collect();
    let present = present.join(", ");
    let is_enough = presence.absent.is_empty() || (is_one_enough && !presence.present.is_empty());
    if is_enough {
        return Capability::yes(GROUP, name, present);
    }
    let absent = presence.absent.join(", ");
    match &presence.installable {
        None => {
            let detail = "its files are not on the server's host";
            Capability::no(GROUP, name, detail, package_remedy(name, server.facts.version_num / 10_000))
        }
        Some(version) => {
            let found = if present.is_empty() { String::new() } else { format!("{present}; ") };
            let detail = format!("{found}version {version} is installable, but not in {absent}");
            Capability::no(GROUP, name, detail, install_remedy(server, name, &presence.absent))
        }
    }
}

fn install_remedy(server: &Server, name: &str, databases: &[String]) -> String {
    let command = Psql::at(&server.address).create_extension(databases, name);
    if server.facts.in_recovery { format!("{command} (on the primary)") } else { command }
}

fn package_remedy(name: &str, major: u32) -> String {
    match name {
        PGFINCORE => format!("apt-get install postgresql-{major}-pgfincore"),
        _ => format!("apt-get install postgresql-contrib postgresql-{major}"),
    }
}
