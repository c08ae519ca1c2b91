//! The contrib modules, database by database.

use sqlx::postgres::PgConnection;

use crate::extension::read_lacking;
use crate::{Error, PG_BUFFERCACHE, PG_PREWARM, Psql, Server, find_extension, read_databases, read_usage_summary};
use host::failure::Capability;

pub const GROUP: &str = "extensions";

/// What needs an answering server.
pub const NAMES: [&str; 4] = [BUFFERS, PG_BUFFERCACHE, PG_PREWARM, PGFINCORE];

const BUFFERS: &str = "buffers";
const PGFINCORE: &str = "pgfincore";

/// What is looked for, and whether one database that has it is enough: pg_buffercache shows the buffers of all,
/// pg_prewarm loads only its own.
const EXTENSIONS: [(&str, bool); 3] = [(PG_BUFFERCACHE, true), (PG_PREWARM, false), (PGFINCORE, true)];

/// Nobody's data is in it.
const TEMPLATE: &str = "template1";

/// Where an extension is.
#[derive(Debug, Default)]
struct Presence {
    /// Databases that have it, each with the version.
    present: Vec<(String, String)>,
    absent: Vec<String>,
    /// Databases that did not let us in, each with the reason.
    unreachable: Vec<String>,
    /// Databases with tables that the role may not read, and how many: pg_prewarm does not load them for it.
    unreadable: Vec<(String, i64)>,
    /// Databases in which the role may not use it, and what GRANT would have to give.
    lacking: Vec<(String, String)>,
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
    let presences = find_presences(server, &databases).await;
    lines.extend(EXTENSIONS.iter().zip(presences).map(|(extension, presence)| match presence {
        Ok(presence) => describe(server, *extension, &presence),
        Err(error) => Capability::failed(GROUP, extension.0, &error),
    }));
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

/// Where each of [`EXTENSIONS`] is: one connection a database.
async fn find_presences(server: &Server, databases: &[String]) -> [Result<Presence, Error>; EXTENSIONS.len()] {
    let mut presences = EXTENSIONS.map(|_| Ok(Presence::default()));
    for database in databases {
        let connection = server.connect_to(database).await;
        let refusal = connection.as_ref().err().map(|error| format!("{database}: {error}"));
        let mut connection = connection.ok();
        for ((name, _), presence) in EXTENSIONS.iter().zip(&mut presences) {
            let Ok(found) = presence else { continue };
            let looked = match &mut connection {
                Some(connection) => look_for(connection, name, database, found).await,
                None => {
                    found.unreachable.extend(refusal.clone());
                    Ok(())
                }
            };
            match looked {
                Ok(()) => {}
                Err(error) if *database == server.database => *presence = Err(error),
                // What one database does to its visitors is no matter of the others.
                Err(error) => found.unreachable.push(format!("{database}: {error}")),
            }
        }
    }
    presences
}

async fn look_for(
    connection: &mut PgConnection,
    name: &'static str,
    database: &str,
    found: &mut Presence,
) -> Result<(), Error> {
    match find_extension(connection, name).await? {
        Some(extension) => {
            found.present.push((database.to_owned(), extension.version));
            if name == PG_PREWARM {
                let unreadable = count_unreadable(connection).await?;
                found.unreadable.extend((unreadable > 0).then(|| (database.to_owned(), unreadable)));
                let lacking = read_lacking(connection, name).await;
                let lacking = lacking.map_err(|source| Error::Query { action: "ask what the role may use", source })?;
                found.lacking.extend(lacking.map(|privilege| (database.to_owned(), privilege)));
            }
        }
        None => found.absent.push(database.to_owned()),
    }
    if found.installable.is_none() {
        found.installable = read_installable(connection, name).await?;
    }
    Ok(())
}

async fn count_unreadable(connection: &mut PgConnection) -> Result<i64, Error> {
    sqlx::query_scalar(include_str!("../sql/unreadable_tables_13.sql"))
        .fetch_one(connection)
        .await
        .map_err(|source| Error::Query { action: "ask which tables the role may read", source })
}

async fn read_installable(connection: &mut PgConnection, name: &str) -> Result<Option<String>, Error> {
    sqlx::query_scalar(include_str!("../sql/available_extension_13.sql"))
        .bind(name)
        .fetch_optional(connection)
        .await
        .map_err(|source| Error::Query { action: "look for an installable extension", source })
}

fn describe(server: &Server, (name, is_one_enough): (&'static str, bool), presence: &Presence) -> Capability {
    let present = presence.present.iter().map(|(database, version)| format!("version {version} in {database}"));
    let unreachable = presence.unreachable.iter().map(|reason| format!("could not look into {reason}"));
    let mut found: Vec<String> = present.chain(unreachable).collect();
    let is_everywhere = presence.absent.is_empty() && presence.unreachable.is_empty();
    if let Some((database, privilege)) = presence.lacking.first() {
        let role = &server.facts.role;
        let told: Vec<&str> = presence.lacking.iter().map(|(database, _)| database.as_str()).collect();
        found.push(format!("but {role} may not use it in {}", told.join(", ")));
        let remedy = Psql::anywhere().grant(database, privilege, role);
        let refused = Capability::no(GROUP, name, found.join(", "), remedy);
        return Capability { is_partly: told.len() < presence.present.len(), ..refused };
    }
    if !presence.unreadable.is_empty() && is_everywhere {
        let told = presence.unreadable.iter().map(|(database, tables)| format!("{tables} of {database}"));
        let (role, tables) = (&server.facts.role, told.collect::<Vec<_>>().join(", "));
        found.push(format!("but {role} may not read all tables, which it asks for: not {tables}"));
        let refused = Capability::no(GROUP, name, found.join(", "), reading_remedy(server));
        return Capability { is_partly: true, ..refused };
    }
    if is_everywhere || (is_one_enough && !presence.present.is_empty()) {
        return Capability::yes(GROUP, name, found.join(", "));
    }
    let is_partly = !presence.present.is_empty();
    let (detail, remedy) = match &presence.installable {
        _ if presence.absent.is_empty() => (found.join(", "), "name the databases to look into: -d".to_owned()),
        None => {
            let remedy = package_remedy(name, server.facts.version_num / 10_000);
            ("its files are not on the server's host".to_owned(), remedy)
        }
        Some(version) => {
            found.push(format!("not created in {}, where version {version} can be", presence.absent.join(", ")));
            (found.join("; "), install_remedy(server, name, &presence.absent))
        }
    };
    Capability { is_partly, ..Capability::no(GROUP, name, detail, remedy) }
}

/// What lets the role read every table.
fn reading_remedy(server: &Server) -> String {
    const READ_ALL: &str = "pg_read_all_data";
    match server.facts.version_num {
        140_000.. => {
            let command = Psql::anywhere().grant(&server.database, READ_ALL, &server.facts.role);
            format!("{command} (as a superuser)")
        }
        _ => "connect as a superuser".to_owned(),
    }
}

fn install_remedy(server: &Server, name: &str, databases: &[String]) -> String {
    let command = Psql::anywhere().create_extension(databases, name);
    if server.facts.in_recovery { format!("{command} (on the primary)") } else { command }
}

fn package_remedy(name: &str, major: u32) -> String {
    match name {
        PGFINCORE => format!("`apt-get install postgresql-{major}-pgfincore`"),
        _ => format!("`apt-get install postgresql-contrib postgresql-{major}`"),
    }
}
