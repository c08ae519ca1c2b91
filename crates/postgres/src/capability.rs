use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use host::failure::{Capability, Explain as _, Lack, name_some};
use host::units::{Fork, counted};
use rustix::process::geteuid;
use sqlx::postgres::PgConnection;

use super::answer::{ask_one, in_time};
use super::extension::read_lacking;
use super::remedy::{create_extension, grant, grant_in};
use super::{
    DataDirectory, Error, PG_BUFFERCACHE, PG_PREWARM, Programs, RelationPath, Result, Server, ServerFacts, SystemUser,
    find_extension, quote_argument, read_databases, read_usage_summary,
};

const SERVER: &str = "server";
const EXTENSIONS: &str = "extensions";
const PGFINCORE: &str = "pgfincore";

const OF_SERVER: [(&str, &str); 6] = [
    (SERVER, "role"),
    (SERVER, "buffered-io"),
    (EXTENSIONS, "buffers"),
    (EXTENSIONS, PG_BUFFERCACHE),
    (EXTENSIONS, PG_PREWARM),
    (EXTENSIONS, PGFINCORE),
];

type Found = Result<String, Lack>;

#[derive(Debug)]
pub struct Checked {
    pub capabilities: Vec<Capability>,
    /// `None` unless it is readable and belongs to this server.
    pub directory: Option<DataDirectory>,
    pub relation_file: Option<PathBuf>,
    pub server_pid: Option<u32>,
}

/// Checks the data directory `named` (default: the server's) and the extensions in `databases` (default: all).
pub async fn check_server(
    connection: &Result<Server>,
    databases: &[String],
    named: Option<Result<DataDirectory>>,
) -> Checked {
    let server = connection.as_ref().ok();
    let answer = match connection {
        Ok(server) => Capability::yes(SERVER, "server", describe_server(server)),
        Err(error) => Capability::failed(SERVER, "server", error),
    };
    let found = find_data_directory(server, named);
    let (ownership, tablespaces) = (check_ownership(&found), check_tablespaces(&found));
    let directory = found.as_ref().ok().cloned();
    let found = found.map(|directory| describe_directory(server, &directory));
    let mut capabilities =
        vec![answer, Capability::of(SERVER, "data-dir", found), Capability::of(SERVER, "ownership", ownership)];
    capabilities.push(Capability::of(SERVER, "tablespaces", tablespaces));
    match server {
        Some(server) => {
            capabilities.push(Capability::of(SERVER, "role", check_role(server).await));
            capabilities.push(Capability::of(SERVER, "buffered-io", check_io(&server.facts)));
            capabilities.extend(check_extensions(server, databases).await);
        }
        None => {
            let remedy = "start the server, or give its address: -h, -p, -U, -d";
            capabilities
                .extend(OF_SERVER.map(|(group, name)| Capability::no(group, name, "no server answered", remedy)));
        }
    }
    let server_pid = match server {
        Some(server) => server.facts.postmaster_pid,
        None => directory.as_ref().and_then(DataDirectory::find_postmaster_pid),
    };
    let relation_file = directory.as_ref().and_then(find_relation_file);
    Checked { capabilities, directory, relation_file, server_pid }
}

pub fn check_pgbench() -> Capability {
    let found = Programs::find(None).and_then(|programs| programs.path("pgbench"));
    Capability::of("other tools", "pgbench", found.map(|path| path.display().to_string()).map_err(Lack::from))
}

fn describe_server(server: &Server) -> String {
    let facts = &server.facts;
    let state = if facts.in_recovery { "standby" } else { "primary" };
    let buffers = facts.shared_buffers_bytes.0 / u64::from(facts.block_size);
    let remark = server.version_remark().map(|remark| format!("; {remark}")).unwrap_or_default();
    format!(
        "PostgreSQL {} at {}, {state}, block size {}, shared_buffers {buffers} blocks ({}){remark}",
        facts.version, server.address, facts.block_size, facts.shared_buffers_bytes
    )
}

async fn check_role(server: &Server) -> Found {
    let role = &server.facts.role;
    let mut connection = server.connect_to(&server.database).await?;
    let asked = sqlx::query("SELECT pg_catalog.pg_has_role(current_user, 'pg_monitor', 'USAGE')");
    let is_monitor = ask_one(&mut connection, "read the role's privileges", asked).await?;
    match is_monitor {
        _ if server.facts.is_superuser => Ok(format!("{role} is a superuser")),
        true => Ok(format!("{role} has the privileges of pg_monitor")),
        false => Err(Lack::new(
            format!("{role} lacks the privileges of pg_monitor"),
            grant(&server.database, "pg_monitor", role),
        )),
    }
}

/// With direct I/O, a loaded page cache is useless.
fn check_io(facts: &ServerFacts) -> Found {
    if facts.io_direct {
        let detail =
            "debug_io_direct contains data: reads bypass the page cache, so only a restore of shared_buffers helps";
        return Err(Lack::new(detail, "`psql -c 'ALTER SYSTEM RESET debug_io_direct'`, then restart the server"));
    }
    let method = facts.io_method.as_deref().map_or(String::new(), |method| format!(" (io_method {method})"));
    Ok(format!("the server reads through the page cache{method}"))
}

fn find_data_directory(server: Option<&Server>, named: Option<Result<DataDirectory>>) -> Result<DataDirectory, Lack> {
    let of_server = || server.and_then(|server| Some(server.open_directory(server.facts.data_directory.as_deref()?)));
    let Some(opened) = named.or_else(of_server) else {
        return Err(match (server, server.and_then(Server::closed_owner)) {
            // No GRANT helps: a role that sees the path still cannot read the files.
            (_, Some(owner)) => Lack::new(
                format!("only root and the server's owner {} can see which pages of its files are cached", owner.name),
                run_as(owner.uid),
            ),
            (Some(server), None) => {
                let command = grant(&server.database, "pg_monitor", &server.facts.role);
                Lack::new("the role may not read data_directory", format!("{command}, or `pgthaw doctor -D DIRECTORY`"))
            }
            (None, None) => Lack::new("no server answered, no directory given", "`pgthaw doctor --data-dir DIRECTORY`"),
        });
    };
    let own = opened.and_then(|directory| {
        server.map_or(Ok(()), |server| server.require_cluster_of(&directory))?;
        Ok(directory)
    });
    own.map_err(|error| {
        let owner = if let Error::File { path, .. } = &error { owner_of_closed(path) } else { None };
        let lack = Lack::from(error);
        Lack { remedy: owner.map(run_as).or(lack.remedy), ..lack }
    })
}

fn owner_of_closed(path: &Path) -> Option<u32> {
    let owner = path.metadata().ok()?.uid();
    (std::fs::read_dir(path).err()?.kind() == std::io::ErrorKind::PermissionDenied).then_some(owner)
}

fn run_as(uid: u32) -> String {
    // sudo accepts a uid if the user has no name.
    let name = SystemUser::of_uid(uid).map_or_else(|| format!("#{uid}"), |user| user.name);
    format!("`sudo -u {} pgthaw doctor` (as the owner of the data directory)", quote_argument(&name))
}

fn describe_directory(server: Option<&Server>, directory: &DataDirectory) -> String {
    let path = directory.path.display();
    let identifier = directory.system_identifier;
    match server.map(|server| server.facts.postmaster_pid) {
        Some(Some(pid)) => format!("{path} is this server's data directory (cluster {identifier}, postmaster {pid})"),
        // Without the server's postmaster pid, `path` may be a copy of its cluster.
        Some(None) => match directory.find_postmaster_pid() {
            Some(pid) => format!("{path} belongs to this cluster ({identifier}) and to the postmaster {pid}"),
            None if server.is_some_and(|server| server.has_locked(directory)) => {
                format!(
                    "{path} is this server's data directory (cluster {identifier}); its processes are not visible here"
                )
            }
            None => format!("{path} belongs to this cluster ({identifier}), but has no postmaster on this host"),
        },
        None => format!("{path} contains cluster {identifier} of PostgreSQL {}", directory.version_major),
    }
}

fn require_directory(found: &Result<DataDirectory, Lack>) -> Result<&DataDirectory, Lack> {
    let remedy = |lack: &Lack| lack.remedy.clone().unwrap_or_default();
    found.as_ref().map_err(|lack| Lack::new("no data directory can be read", remedy(lack)))
}

fn check_ownership(found: &Result<DataDirectory, Lack>) -> Found {
    let directory = require_directory(found)?;
    let user = |uid: u32| SystemUser::of_uid(uid).map_or_else(|| uid.to_string(), |user| user.name);
    let (owner, own) = (directory.owner_uid, geteuid().as_raw());
    match own {
        0 => Ok(format!("user {} owns the directory, pgthaw runs as root", user(owner))),
        _ if own == owner => Ok(format!("pgthaw runs as the owner of the directory, user {}", user(owner))),
        _ => Err(Lack::new(
            format!("user {} owns the directory, but pgthaw runs as user {}", user(owner), user(own)),
            run_as(owner),
        )),
    }
}

fn check_tablespaces(found: &Result<DataDirectory, Lack>) -> Found {
    let directory = require_directory(found)?;
    let mut refused = Vec::new();
    directory.list_databases(&mut refused)?;
    match refused.first() {
        None => Ok("all directories of databases can be read".to_owned()),
        Some(first) => {
            let remedy = "remove the link in pg_tblspc if it is a leftover, or repair its target";
            Err(Lack::new(name_some(&refused), first.hint().unwrap_or_else(|| remedy.to_owned())))
        }
    }
}

fn find_relation_file(directory: &DataDirectory) -> Option<PathBuf> {
    let entries = directory.files.directory("global").ok()?.entries().ok()?;
    let relations = entries.iter().filter_map(|entry| format!("global/{}", entry.name.to_str()?).parse().ok());
    let has_blocks = |path: &PathBuf| {
        let file = directory.files.open_file(path).and_then(|file| file.metadata());
        file.is_ok_and(|file| file.len() > 0)
    };
    let mut files = relations.map(|path: RelationPath| path.segment_file(Path::new(""), Fork::Main, 0));
    files.find(has_blocks).map(|below| directory.path.join(below))
}

/// Extension, and whether one database suffices. pg_buffercache shows all buffers; pg_prewarm only loads its own
/// database.
const LOOKED_FOR: [(&str, bool); 3] = [(PG_BUFFERCACHE, true), (PG_PREWARM, false), (PGFINCORE, true)];

const TEMPLATE: &str = "template1";

#[derive(Debug, Default)]
struct Presence {
    present: Vec<(String, String)>,
    absent: Vec<String>,
    unreachable: Vec<String>,
    unreadable: Vec<(String, u64)>,
    lacking: Vec<(String, String)>,
    installable: Option<String>,
}

async fn check_extensions(server: &Server, named: &[String]) -> Vec<Capability> {
    let databases = match named {
        [] => match list_databases(server).await {
            Ok(databases) => databases,
            Err(error) => return vec![Capability::failed(EXTENSIONS, PG_PREWARM, &error)],
        },
        named => named.to_vec(),
    };
    let mut lines = vec![Capability::of(EXTENSIONS, "buffers", check_buffers(server, &databases).await)];
    let presences = find_presences(server, &databases).await;
    lines.extend(LOOKED_FOR.iter().zip(presences).map(|(extension, presence)| match presence {
        Ok(presence) => describe_extension(server, *extension, &presence),
        Err(error) => Capability::failed(EXTENSIONS, extension.0, &error),
    }));
    lines
}

async fn list_databases(server: &Server) -> Result<Vec<String>> {
    let mut connection = server.connect_to(&server.database).await?;
    let databases = read_databases(&mut connection).await?;
    let ours = databases.into_iter().filter(|database| database.allows_connections && database.name != TEMPLATE);
    Ok(ours.map(|database| database.name).collect())
}

async fn check_buffers(server: &Server, databases: &[String]) -> Found {
    let mut connection = match server.connect_with_extension(PG_BUFFERCACHE, databases).await {
        Err(Error::ExtensionMissing { .. }) => {
            let remedy = install_remedy(server, PG_BUFFERCACHE, std::slice::from_ref(&server.database));
            return Err(Lack::new("no database has the extension pg_buffercache", remedy));
        }
        connected => connected?,
    };
    let used: u64 = read_usage_summary(&mut connection).await?.iter().map(|level| level.buffers).sum();
    Ok(format!("pg_buffercache shows the {used} used buffers"))
}

async fn find_presences(server: &Server, databases: &[String]) -> [Result<Presence>; LOOKED_FOR.len()] {
    let mut presences = LOOKED_FOR.map(|_| Ok(Presence::default()));
    for database in databases {
        let connection = server.connect_to(database).await;
        let refusal = connection.as_ref().err().map(|error| format!("{database}: {error}"));
        let mut connection = connection.ok();
        for ((name, _), presence) in LOOKED_FOR.iter().zip(&mut presences) {
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
) -> Result<()> {
    match find_extension(connection, name).await? {
        Some(extension) => {
            found.present.push((database.to_owned(), extension.version));
            if name == PG_PREWARM {
                // Counts user tables (oid from 16384) that the role, and so pg_prewarm, may not read.
                let asked = sqlx::query(
                    "SELECT pg_catalog.count(*) FROM pg_catalog.pg_class \
                     WHERE relkind IN ('r', 'm') AND oid >= 16384 AND NOT pg_catalog.has_table_privilege(oid, 'SELECT')",
                );
                let unreadable: u64 = ask_one(connection, "check which tables the role may read", asked).await?;
                found.unreadable.extend((unreadable > 0).then(|| (database.to_owned(), unreadable)));
                let lacking = in_time("check the role's privileges", read_lacking(connection, name)).await?;
                found.lacking.extend(lacking.map(|privilege| (database.to_owned(), privilege)));
            }
        }
        None => found.absent.push(database.to_owned()),
    }
    if found.installable.is_none() {
        let asked =
            sqlx::query_scalar("SELECT default_version FROM pg_catalog.pg_available_extensions WHERE name = $1");
        let asked = asked.bind(name).fetch_optional(connection);
        found.installable = in_time("find an installable extension", asked).await?;
    }
    Ok(())
}

fn describe_extension(server: &Server, (name, is_one_enough): (&'static str, bool), presence: &Presence) -> Capability {
    let present = presence.present.iter().map(|(database, version)| format!("version {version} in {database}"));
    let unreachable = presence.unreachable.iter().map(|reason| format!("could not check {reason}"));
    let mut found: Vec<String> = present.chain(unreachable).collect();
    let is_everywhere = presence.absent.is_empty() && presence.unreachable.is_empty();
    if let Some((_, privilege)) = presence.lacking.first() {
        let role = &server.facts.role;
        let told: Vec<String> = presence.lacking.iter().map(|(database, _)| database.clone()).collect();
        found.push(format!("but {role} may not use it in {}", told.join(", ")));
        let remedy = grant_in(&told, privilege, role);
        let refused = Capability::no(EXTENSIONS, name, found.join(", "), remedy);
        return Capability { is_partly: told.len() < presence.present.len(), ..refused };
    }
    if !presence.unreadable.is_empty() && is_everywhere {
        let told = presence.unreadable.iter().map(|(name, count)| format!("{} of {name}", counted(*count, "table")));
        let (role, tables) = (&server.facts.role, told.collect::<Vec<_>>().join(", "));
        found.push(format!("but it requires SELECT on all tables, which {role} lacks: {tables}"));
        let refused = Capability::no(EXTENSIONS, name, found.join(", "), reading_remedy(server));
        return Capability { is_partly: true, ..refused };
    }
    if is_everywhere || (is_one_enough && !presence.present.is_empty()) {
        return Capability::yes(EXTENSIONS, name, found.join(", "));
    }
    let is_partly = !presence.present.is_empty();
    let (detail, remedy) = match &presence.installable {
        _ if presence.absent.is_empty() => (found.join(", "), "use -d to name the databases to check".to_owned()),
        None => {
            let remedy = package_remedy(name, server.facts.version_num / 10_000);
            ("its files are not installed on the server's host".to_owned(), remedy)
        }
        Some(version) => {
            found.push(format!(
                "the extension is not created in {} (version {version} is available)",
                presence.absent.join(", ")
            ));
            (found.join("; "), install_remedy(server, name, &presence.absent))
        }
    };
    Capability { is_partly, ..Capability::no(EXTENSIONS, name, detail, remedy) }
}

fn reading_remedy(server: &Server) -> String {
    if server.facts.version_num < 140_000 {
        return "connect as a superuser".to_owned();
    }
    let command = grant(&server.database, "pg_read_all_data", &server.facts.role);
    format!("{command} (as a superuser)")
}

fn install_remedy(server: &Server, name: &str, databases: &[String]) -> String {
    let command = create_extension(databases, name);
    if server.facts.in_recovery { format!("{command} (on the primary)") } else { command }
}

fn package_remedy(name: &str, major: u32) -> String {
    match name {
        PGFINCORE => format!("`apt-get install postgresql-{major}-pgfincore`"),
        _ => format!("`apt-get install postgresql-contrib postgresql-{major}`"),
    }
}
