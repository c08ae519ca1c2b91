use std::io;
use std::path::{Path, PathBuf};

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

use super::connect::{NoSuchUser, SOCKET_DIRECTORIES};
use super::remedy::{create_extension, grant};
use super::trust::Finding;
use super::{SystemUser, quote_argument};
use host::failure::{ErrorKind, Explain, FullDisk, TOO_FEW_FILES, is_too_few_files, name_some, permission_hint};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot connect to {address}: {}", reason(source))]
    Connect { address: String, source: sqlx::Error },
    #[error("cannot connect to {address}: no answer within {seconds} s")]
    ConnectTimeout { address: String, seconds: u64 },
    #[error("found no server that runs in {}", path.display())]
    NotRunning { path: PathBuf },
    #[error(
        "the server of {} runs in a container (process {pid} of this host), where pgthaw cannot {action}",
        path.display()
    )]
    InContainer { path: PathBuf, pid: u32, action: &'static str },
    #[error("the schema pgthaw in the database \"{database}\" has no table for the warm set")]
    NoWarmSet { database: String },
    #[error("another version of pgthaw wrote the warm set (format {format})")]
    OtherWarmSet { format: i32 },
    #[error("the warm set is of another cluster (system identifier {identifier}), as after pg_upgrade or from a dump")]
    WarmSetOfOther { identifier: u64 },
    #[error("the schema pgthaw is not safe to use: {finding}")]
    Untrusted { finding: Finding },
    #[error("cannot find a container \"{container}\" on this host")]
    ContainerMissing { container: String },
    #[error("cannot find a PostgreSQL server in the container \"{container}\" (process {pid} of this host)")]
    NoServerInContainer { container: String, pid: u32 },
    #[error("cannot connect to any of {} servers: {}", failures.len(), name_some(failures))]
    NoHost { failures: Vec<Error> },
    #[error("cannot connect to {address} as \"{user}\": the server asks for a password, and none was given")]
    PasswordMissing { address: String, user: String },
    #[error(
        "cannot connect to {address}: the server asks for a password, but pgthaw sends none to an address read from a data directory"
    )]
    PasswordWithheld { address: String },
    #[error("cannot use {}: it contains a password, and other users can read it", path.display())]
    PasswordFileOpen { path: PathBuf },
    #[error("{address} is not {wanted}, which target_session_attrs requires")]
    OtherKindOfServer { address: String, wanted: &'static str },
    #[error("the server at {address} did not receive pgthaw's session options (its search_path is {path:?})")]
    ForeignPath { address: String, path: String },
    #[error("sessions of \"{wanted}\" in database \"{database}\" act as \"{role}\"")]
    OtherRole { database: String, role: String, wanted: String },
    #[error("invalid connection string: {reason}")]
    ConnectionString { reason: String },
    #[error(
        "no root certificate to verify the server: ~/.postgresql/root.crt does not exist, and sslrootcert is not set"
    )]
    RootCertificateMissing,
    #[error(
        "the server at {} runs as operating-system user \"{user}\", not as {}: pgthaw sends it nothing",
        socket.display(),
        wanted.as_deref().unwrap_or("postgres, root or you (any user can create a socket in that directory)")
    )]
    Peer { socket: PathBuf, user: String, wanted: Option<String> },
    #[error("pgthaw does not support this value of {parameter}")]
    Unsupported { parameter: &'static str },
    #[error("no service file defines the service \"{name}\"")]
    ServiceMissing { name: String, files: Vec<PathBuf> },
    #[error(transparent)]
    SystemUserUnknown(#[from] NoSuchUser),
    #[error("only root can connect as operating-system user \"{user}\"")]
    CannotActAs { user: String },
    #[error("the port is not a number from 1 to 65535 (not shown, because it may be part of a password)")]
    NoPort,
    #[error("{value:?} is not a valid {what}")]
    Option { what: &'static str, value: String },
    #[error("cannot {action}: {}", reason(source))]
    Query { action: &'static str, source: sqlx::Error },
    #[error("cannot {action}: the server did not answer within {seconds} s")]
    Silent { action: &'static str, seconds: u64 },
    #[error("there is no database \"{database}\" in the cluster at {cluster}")]
    DatabaseMissing { database: String, cluster: String },
    #[error(
        "no server runs in {cluster}, so database \"{database}\" cannot be found by name: only the oids {oids} are known"
    )]
    DatabaseUnknown { database: String, cluster: String, oids: String },
    #[error("PostgreSQL {0} is not supported: pgthaw supports 13 to 19")]
    Version(String),
    #[error("extension {name} does not exist in database \"{database}\"")]
    ExtensionMissing { name: &'static str, database: String },
    #[error("role \"{role}\" may not use extension {name} in database \"{database}\"")]
    ExtensionPrivilege {
        name: &'static str,
        database: String,
        role: String,
        /// Role or privilege to GRANT.
        lacking: String,
    },
    #[error("cannot {action}: role \"{role}\" is not a superuser")]
    NoSuperuser { action: &'static str, role: String },
    #[error("role \"{role}\" lacks SELECT on a table in database \"{database}\", which pg_prewarm requires")]
    TableUnreadable { database: String, role: String },
    #[error("{holder} in database \"{database}\": its open transaction has changed a schema")]
    SchemasLocked { database: String, holder: String },
    #[error("{} is not a PostgreSQL data directory: {reason}", path.display())]
    DataDirectory { path: PathBuf, reason: String },
    #[error("{} belongs to another cluster (system identifier {directory}) than the server at {address} ({server})", path.display())]
    OtherCluster { path: PathBuf, directory: u64, server: u64, address: String },
    #[error("cannot parse {}: {reason}", path.display())]
    DataFile { path: PathBuf, reason: String },
    #[error("cannot find PostgreSQL's program {0}")]
    ProgramMissing(String),
    #[error("cannot listen on {host}: {reason}")]
    Listen { host: String, reason: String },
    /// A wait for initdb or a start was interrupted.
    #[error("stopped by the user")]
    Interrupted,
    #[error("{program} failed: {output}")]
    Program { program: String, output: String },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

host::file_error!(Error);

impl Error {
    /// Hides a text that is not a number: in a URI it may be part of a password.
    pub fn wrong_port(text: &str) -> Error {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        match is_number {
            true => Error::Option { what: "port, a number from 1 to 65535", value: text.to_owned() },
            false => Error::NoPort,
        }
    }

    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Error::Connect { source, .. } | Error::Query { source, .. } => sqlstate(source),
            _ => None,
        }
    }

    pub fn is_too_few_files(&self) -> bool {
        match self {
            Error::Connect { source: sqlx::Error::Io(source), .. }
            | Error::Query { source: sqlx::Error::Io(source), .. }
            | Error::File { source, .. } => is_too_few_files(source),
            Error::NoHost { failures } => failures.iter().any(Error::is_too_few_files),
            _ => false,
        }
    }

    /// Whether the connection broke or no server accepts a connection. Excludes undecodable replies.
    pub fn is_server_gone(&self) -> bool {
        if self.is_too_few_files() {
            return false;
        }
        match self.sqlstate().as_deref() {
            Some(state) => matches!(state, ADMIN_SHUTDOWN | CRASH_SHUTDOWN | CANNOT_CONNECT_NOW),
            None => match self {
                Error::NoHost { failures } => failures.iter().all(Error::is_server_gone),
                Error::Query { source: sqlx::Error::Protocol(told), .. } => !told.contains(UNREADABLE_ERROR),
                Error::Query { source, .. } => matches!(source, sqlx::Error::Io(_) | sqlx::Error::Tls(_)),
                _ => matches!(self, Error::Connect { .. } | Error::ConnectTimeout { .. }),
            },
        }
    }

    pub(super) fn has_state(&self, states: &[&str]) -> bool {
        self.sqlstate().is_some_and(|state| states.contains(&&*state))
    }

    /// Whether the error ends the search for a host that accepts the connection.
    pub(super) fn is_refusal(&self) -> bool {
        let is_attempt =
            matches!(self, Error::Connect { .. } | Error::ConnectTimeout { .. } | Error::OtherKindOfServer { .. });
        !is_attempt || self.sqlstate().is_some_and(|state| state != CANNOT_CONNECT_NOW)
    }

    /// Whether the database does not exist or refuses connections (template0).
    pub fn is_closed_database(&self) -> bool {
        self.has_state(&[INVALID_CATALOG_NAME, NOT_IN_PREREQUISITE_STATE])
    }

    pub fn is_about_database(&self) -> bool {
        self.has_state(&[INVALID_CATALOG_NAME, INSUFFICIENT_PRIVILEGE])
    }

    /// Whether another database may accept the connection. Excludes timeouts and wrong passwords: a retry would be a
    /// second failed login.
    pub(super) fn may_spare_another_database(&self) -> bool {
        let is_of_database =
            self.is_about_database() || self.is_closed_database() || self.has_state(&[INVALID_AUTHORIZATION]);
        is_of_database || matches!(self, Error::ForeignPath { .. })
    }
}

pub(super) const CREATE_DIRECTORY_IN: &str = "create a directory in";

/// Poolers reject or drop unknown startup parameters.
const POOLER_HINT: &str = "connect to the server directly (-h, -p), not to a connection pooler: pgthaw starts its \
    sessions with an empty search_path, so that database owners cannot substitute functions";

pub(super) const CREATE_EXTENSION: &str = "create an extension";

pub(super) const INSUFFICIENT_PRIVILEGE: &str = "42501";
const INVALID_CATALOG_NAME: &str = "3D000";
const NOT_IN_PREREQUISITE_STATE: &str = "55000";
pub(super) const INVALID_PASSWORD: &str = "28P01";
pub(super) const INVALID_AUTHORIZATION: &str = "28000";
const ADMIN_SHUTDOWN: &str = "57P01";
const CRASH_SHUTDOWN: &str = "57P02";
const UNDEFINED_OBJECT: &str = "42704";
const INVALID_PARAMETER_VALUE: &str = "22023";
const CANNOT_CONNECT_NOW: &str = "57P03";
const PROTOCOL_VIOLATION: &str = "08P01";
const TOO_MANY_CONNECTIONS: &str = "53300";
const DISK_FULL: &str = "53100";
const QUERY_CANCELED: &str = "57014";
pub const LOCK_NOT_AVAILABLE: &str = "55P03";
/// character_not_in_repertoire, untranslatable_character.
pub(super) const OF_ENCODING: [&str; 2] = ["22021", "22P05"];

/// sqlx's error for a message that is not UTF-8. sqlx drops the SQLSTATE; the session stays usable.
const UNREADABLE_ERROR: &str = "non-UTF-8 string for its error message";

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::ExtensionMissing { .. }
            | Error::ExtensionPrivilege { .. }
            | Error::NoSuperuser { .. }
            | Error::TableUnreadable { .. }
            | Error::ProgramMissing(_)
            | Error::PasswordMissing { .. }
            | Error::PasswordWithheld { .. }
            | Error::PasswordFileOpen { .. }
            | Error::Peer { .. }
            | Error::CannotActAs { .. } => ErrorKind::Privilege,
            Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::Connect { source, .. } | Error::Query { source, .. } if is_privilege(source) => ErrorKind::Privilege,
            Error::Connect { .. }
            | Error::ConnectTimeout { .. }
            | Error::NotRunning { .. }
            | Error::InContainer { .. }
            | Error::NoHost { .. }
            | Error::OtherKindOfServer { .. }
            | Error::Query { .. }
            | Error::Silent { .. }
            | Error::SchemasLocked { .. }
            | Error::DataFile { .. }
            | Error::Program { .. }
            | Error::File { .. } => ErrorKind::Failed,
            Error::Interrupted => ErrorKind::Interrupted,
            _ => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        if self.is_too_few_files() {
            return Some(TOO_FEW_FILES.to_owned());
        }
        let hint: &str = match self {
            Error::ConnectTimeout { .. } => {
                "check the host and the firewall; PGCONNECT_TIMEOUT sets the timeout in seconds"
            }
            Error::ContainerMissing { .. } => {
                "`docker ps`, `podman ps` or `crictl ps` lists containers; --container also accepts the PID of any process in the container"
            }
            Error::NoServerInContainer { .. } => {
                "start the server; only root and the server's user can inspect the container"
            }
            Error::NoWarmSet { .. } => "`pgthaw agent setup` creates it on the primary",
            Error::OtherWarmSet { .. } => "use the same version of pgthaw for all agents of a primary and its standbys",
            Error::WarmSetOfOther { .. } => "the agent of the primary replaces it",
            Error::Untrusted { finding } => return Some(finding.remedy()),
            Error::InContainer { .. } => "use -h and -p to give an address that leads to the server",
            Error::NotRunning { .. } => "start the server, or give its address with -h and -p",
            Error::PasswordMissing { .. } => {
                "`pgthaw … -W` asks for it on a terminal; otherwise use PGPASSWORD or ~/.pgpass (mode 0600)"
            }
            Error::PasswordWithheld { .. } => "if it is your server, give its address with -h and -p",
            Error::Peer { .. } => {
                "give the directory of the right server's socket with -h; requirepeer=USER (PGREQUIREPEER) sets the expected user"
            }
            Error::OtherKindOfServer { .. } => {
                "give the host of a suitable server with -h, or omit target_session_attrs (PGTARGETSESSIONATTRS)"
            }
            Error::ForeignPath { .. } => POOLER_HINT,
            Error::ConnectionString { .. } => {
                "use a form such as -d 'host=db.example user=app dbname=shop' or -d postgresql://app@db.example/shop"
            }
            Error::RootCertificateMissing => {
                "set sslrootcert (PGSSLROOTCERT) to the authority's certificate, or to system for the certificates of this machine"
            }
            Error::SystemUserUnknown(_) => "name the role with -U (`getent passwd` does not list this OS user)",
            Error::Option { .. } | Error::NoPort => {
                "correct the value in the option, settings file, connection string, service file or variable (`env | grep ^PG`) that sets it"
            }
            Error::NoSuperuser { .. } => "connect as a superuser",
            Error::SchemasLocked { .. } => "try again after COMMIT or ROLLBACK of that transaction",
            Error::DataDirectory { .. } => {
                "give the directory that contains PG_VERSION, as printed by SHOW data_directory"
            }
            Error::Listen { .. } => "`ip address` lists the addresses of this machine",
            Error::DatabaseMissing { .. } => "`psql -l` lists the databases",
            Error::DatabaseUnknown { .. } => {
                "start the server, give an oid with -d, or omit -d (a snapshot, if any, supplies the names)"
            }
            Error::OtherCluster { .. } => {
                "use -h and -p to give the address of the server that runs on the directory of --data-dir, or omit --data-dir"
            }
            Error::ProgramMissing(_) => {
                "`apt-get install postgresql`, or give the directory of the programs with --bin-dir or PGTHAW_BIN_DIR"
            }
            Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                return permission_hint(source).map(str::to_owned);
            }
            Error::Silent { .. } => "`psql -c 'SELECT * FROM pg_stat_activity'` shows what the sessions wait for",
            Error::NoHost { failures } => return failures.iter().find_map(Explain::hint),
            Error::Query { action, source } => return query_hint(action, source).map(str::to_owned),
            Error::Connect { address, source } => &connect_hint(address, source),
            Error::PasswordFileOpen { path } => &format!("`chmod 600 {}`", quote_argument(&path.display().to_string())),
            Error::OtherRole { database, role, .. } => &format!(
                "ALTER DATABASE or ALTER ROLE … SET role changes the role in database {}: ask {} to RESET this setting, or omit the database",
                quote_argument(database),
                quote_argument(role)
            ),
            Error::Unsupported { parameter } => &format!(
                "remove {parameter} (connection string, service file or PG* variable) if you do not need it: pgthaw does not \
                 ignore unsupported settings"
            ),
            Error::ServiceMissing { files, .. } => {
                let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                &format!("pgthaw searched {}; PGSERVICEFILE sets another file", files.join(" and "))
            }
            Error::CannotActAs { user } => &format!("`sudo -u {} pgthaw …`", quote_argument(user)),
            Error::ExtensionMissing { name, database } => &format!(
                "create it with {} (Debian's package: postgresql-contrib or postgresql-VERSION)",
                create_extension(std::slice::from_ref(database), name)
            ),
            Error::ExtensionPrivilege { database, role, lacking, .. } => {
                &format!("{}, or connect as a superuser", grant(database, lacking, role))
            }
            Error::TableUnreadable { database, role } => &format!(
                "{} (PostgreSQL 14 and later), or GRANT SELECT on only the tables to load",
                grant(database, "pg_read_all_data", role)
            ),
            Error::File { action: CREATE_DIRECTORY_IN, path, source } if source.kind() == io::ErrorKind::NotFound => {
                let directory = quote_argument(&path.display().to_string());
                &format!("create it (`mkdir -p {directory}`), or use another directory with --dir")
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::File { path, source, .. } => FullDisk::of_file(source, path, None),
            Error::Program { output, .. } => FullDisk::of_output(output, None),
            Error::Query { source, .. } if sqlstate(source).as_deref() == Some(DISK_FULL) => {
                Some(FullDisk { path: None, instead: None })
            }
            _ => None,
        }
    }
}

fn reason(error: &sqlx::Error) -> String {
    let mut told = match error {
        sqlx::Error::Database(refusal) => with_detail(refusal.as_ref()),
        sqlx::Error::Tls(error) => error.to_string(),
        sqlx::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    };
    // Untrusted text may be long.
    if let Some((end, _)) = told.char_indices().nth(TOLD_CHARACTERS) {
        told.truncate(end);
        told.push('…');
    }
    told
}

/// Only CANNOT_CONNECT_NOW has a useful detail. Other details may quote rows.
fn with_detail(refusal: &dyn DatabaseError) -> String {
    let detail = refusal.try_downcast_ref::<PgDatabaseError>().and_then(|refusal| refusal.detail());
    match detail.filter(|_| refusal.code().as_deref() == Some(CANNOT_CONNECT_NOW)) {
        Some(detail) => format!("{} ({})", refusal.message(), detail.trim_end_matches('.')),
        None => refusal.message().to_owned(),
    }
}

const TOLD_CHARACTERS: usize = 2000;

fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error().and_then(|refusal| refusal.code()).map(|code| code.into_owned())
}

fn is_privilege(source: &sqlx::Error) -> bool {
    let refusals = [INSUFFICIENT_PRIVILEGE, INVALID_PASSWORD, INVALID_AUTHORIZATION];
    sqlstate(source).is_some_and(|state| refusals.contains(&state.as_str()))
}

fn query_hint(action: &str, source: &sqlx::Error) -> Option<&'static str> {
    Some(match sqlstate(source)?.as_str() {
        INSUFFICIENT_PRIVILEGE if action == CREATE_EXTENSION => "connect as a superuser once",
        INSUFFICIENT_PRIVILEGE => "`GRANT pg_monitor TO …`, or connect as a superuser",
        QUERY_CANCELED => {
            "`psql -c '\\drds'` shows whether ALTER DATABASE or ALTER ROLE set statement_timeout: RESET the setting, or connect as a role \
             without that limit"
        }
        LOCK_NOT_AVAILABLE => "another session holds an exclusive lock on the relation: try again later",
        _ => return None,
    })
}

fn no_server_hint(address: &str) -> String {
    let elsewhere = if address.starts_with('/') { listening_sockets() } else { Vec::new() };
    let others = match elsewhere.as_slice() {
        [] => "Debian's pg_lsclusters lists the clusters of this machine; -h and -p select one, as in psql".to_owned(),
        ports => format!("other servers of this machine listen at {}", ports.join(", ")),
    };
    format!("no server listens at this address: start the server, or read its files with --data-dir; {others}")
}

/// psql options for each server that listens, such as `-p 5433`.
fn listening_sockets() -> Vec<String> {
    let mut options = Vec::new();
    for directory in SOCKET_DIRECTORIES {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let port = name.to_str().and_then(|name| name.strip_prefix(".s.PGSQL.")?.parse::<u16>().ok());
            // A killed server leaves its socket behind.
            let is_alive = |path: &Path| {
                SystemUser::is_trusted_owner(path) && std::os::unix::net::UnixStream::connect(path).is_ok()
            };
            if let Some(port) = port.filter(|_| is_alive(&entry.path())) {
                let host = if directory == SOCKET_DIRECTORIES[0] { String::new() } else { format!("-h {directory} ") };
                options.push(format!("{host}-p {port}"));
            }
        }
    }
    options.sort();
    options
}

fn connect_hint(address: &str, error: &sqlx::Error) -> String {
    let is_socket = address.starts_with('/');
    let hint = match sqlstate(error).as_deref() {
        Some(INVALID_PASSWORD) => {
            "correct the password in PGPASSWORD, ~/.pgpass or the connection string, or enter it with `pgthaw … -W`"
        }
        Some(INVALID_AUTHORIZATION) if is_socket && SystemUser::is_root() => {
            "root connects as the server's owner if no user is given (-U, --as, PGUSER, connection string): `pgthaw …(no -U)`"
        }
        Some(INVALID_AUTHORIZATION) if is_socket => {
            "through a socket, each system user may connect only as the role with the same name, unless pg_ident.conf maps the user to \
             another role: run `sudo -u postgres pgthaw …(no -U)`, or connect with -h localhost and the role's password"
        }
        Some(INVALID_AUTHORIZATION) => {
            "pg_hba.conf rejects this role from this host or with this encryption, or the role may not log in: \
             use another -U, -h or sslmode"
        }
        Some(INVALID_CATALOG_NAME) => "`psql -d postgres -l` lists the databases; give one of them with -d",
        Some(UNDEFINED_OBJECT | INVALID_PARAMETER_VALUE) => {
            "options or PGOPTIONS contains a setting that the server rejects: correct it there"
        }
        Some(PROTOCOL_VIOLATION) if reason(error).contains("startup parameter") => POOLER_HINT,
        Some(CANNOT_CONNECT_NOW) => {
            "the server is starting up, recovering or shutting down: try again in a moment; a standby with hot_standby = off \
             accepts no connections: use --data-dir with --tier os"
        }
        Some(TOO_MANY_CONNECTIONS) => {
            "all connections of the server are in use: try again later, or connect as a superuser (some are reserved); \
             `psql -c 'SELECT * FROM pg_stat_activity'` lists the sessions"
        }
        Some(NOT_IN_PREREQUISITE_STATE) => "this database accepts no connections: use another one with -d",
        Some(INSUFFICIENT_PRIVILEGE) => {
            "the role lacks CONNECT on this database, or may not change a setting in PGOPTIONS: \
             use another database with -d, or another role with -U"
        }
        Some(_) => "see the server's log for the reason",
        None => match unanswered_hint(is_socket, error) {
            Some(hint) => hint,
            None => return no_server_hint(address),
        },
    };
    hint.to_owned()
}

/// `None` if no process listens.
fn unanswered_hint(is_socket: bool, error: &sqlx::Error) -> Option<&'static str> {
    let told = reason(error);
    Some(match error {
        _ if told.contains("lookup") => "check the host's name: `getent hosts NAME` resolves it as pgthaw does",
        sqlx::Error::Tls(_) if told.contains("does not support TLS") => {
            "the server offers no encryption (ssl = off), or none to this host, but sslmode requires it: sslmode=prefer also allows unencrypted connections"
        }
        sqlx::Error::Tls(_) => ENCRYPTION_HINT,
        // An untrusted certificate is reported this way.
        sqlx::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => ENCRYPTION_HINT,
        sqlx::Error::Io(error) => match error.kind() {
            io::ErrorKind::NotFound if is_socket => return None,
            io::ErrorKind::PermissionDenied if is_socket => {
                "this user may not use the socket: use another host with -h"
            }
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => CERTIFICATE_HINT,
            io::ErrorKind::ConnectionRefused => return None,
            io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable | io::ErrorKind::TimedOut => {
                "the host is unreachable: check its address and the network"
            }
            _ => BROKEN_OFF_HINT,
        },
        sqlx::Error::Protocol(_) if told.contains("authentication") => {
            "pgthaw supports the methods peer, trust, password and certificate: use a role or a host for which pg_hba.conf has one of these"
        }
        _ => BROKEN_OFF_HINT,
    })
}

const CERTIFICATE_HINT: &str = "the server was reached, but this user cannot read the file in sslcert or sslkey";

const ENCRYPTION_HINT: &str =
    "the server was reached, but the encrypted connection failed: check sslmode, sslrootcert and sslcert";

const BROKEN_OFF_HINT: &str =
    "the connection broke, or the listener is not PostgreSQL; if PostgreSQL stopped or crashed, its log shows why";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_not_gone_where_no_more_files_may_be_open() {
        let connect = |code| Error::Connect {
            address: "/tmp:5432".to_owned(),
            source: sqlx::Error::Io(io::Error::from_raw_os_error(code)),
        };
        let (refused, too_few) = (connect(libc::ECONNREFUSED), connect(libc::EMFILE));
        assert!(refused.is_server_gone() && !refused.is_too_few_files());
        assert!(!too_few.is_server_gone() && too_few.hint().is_some_and(|hint| hint.contains("ulimit -n")));
        let one_of_several = Error::NoHost { failures: vec![refused, too_few] };
        assert!(
            !one_of_several.is_server_gone() && one_of_several.hint().is_some_and(|hint| hint.contains("ulimit -n"))
        );
    }

    #[test]
    fn a_server_whose_answer_cannot_be_read_is_not_gone() {
        let gone = |source| Error::Query { action: "ask", source }.is_server_gone();
        let unreadable = "Postgres returned a non-UTF-8 string for its error message. This is most likely".to_owned();
        assert!(!gone(sqlx::Error::Protocol(unreadable)));
        assert!(!gone(sqlx::Error::ColumnDecode { index: "query".into(), source: "invalid utf-8".into() }));
        assert!(!gone(sqlx::Error::RowNotFound));
        assert!(gone(sqlx::Error::Protocol("unknown message type: '?'".to_owned())));
        assert!(gone(sqlx::Error::Io(io::ErrorKind::UnexpectedEof.into())));
    }

    #[test]
    fn a_file_without_permission_is_a_missing_privilege() {
        let denied = Error::file("open", Path::new("/x"), io::ErrorKind::PermissionDenied.into());
        assert_eq!(denied.kind(), ErrorKind::Privilege);
        assert!(denied.hint().is_some_and(|hint| hint.contains("owner of the data directory")));
        let absent = Error::file("open", Path::new("/x"), io::ErrorKind::NotFound.into());
        assert_eq!(absent.kind(), ErrorKind::Failed);
    }
}
