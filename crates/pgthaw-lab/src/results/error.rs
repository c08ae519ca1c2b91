use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use command::table;
use host::failure::{ErrorKind, Explain, FullDisk, quote_argument};
use postgres::PlainServer;
use postgres::trust::Finding;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no results store at {}", .0.display())]
    Missing(PathBuf),
    #[error("cannot locate the results store: neither XDG_STATE_HOME nor HOME is set")]
    NoHome,
    #[error("invalid address of a results server: {0}")]
    Address(String),
    #[error("{0} is not a results store of pgthaw")]
    Foreign(Place),
    #[error("the results store {0} has tables of another version of pgthaw, which this version ({version}) cannot read", version = env!("CARGO_PKG_VERSION"))]
    OtherVersion(Place),
    #[error("the results store {place} is damaged: {reason}")]
    Damaged { place: Place, reason: String },
    #[error("{} in {place} is damaged: {reason}", id.as_ref().map_or("a study".to_owned(), |id| format!("the study {id}")))]
    DamagedStudy { id: Option<String>, place: Place, reason: String },
    #[error("the results server {} does not answer: {source}", server.shown)]
    Away { server: ServerPlace, source: sqlx::Error },
    #[error("the results server belongs to another user: {0}")]
    Stranger(postgres::Error),
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Table(#[from] table::Error),
    #[error("cannot {action} {place}: {source}")]
    Access { action: &'static str, place: Place, source: sqlx::Error },
    #[error("the results server {} is not safe to use: {finding}", server.shown)]
    Untrusted { server: ServerPlace, finding: Finding },
    #[error("the results server {} did not apply pgthaw's session settings", server.shown)]
    Pooled { server: ServerPlace },
    #[error("the results store {0} holds no run yet")]
    Empty(Place),
    #[error("no run is called \"{0}\"")]
    UnknownRun(String),
    #[error("there is neither a file nor a stored run called \"{0}\"")]
    NeitherFileNorRun(String),
    #[error("\"{wanted}\" begins the names of several runs: {}", matches.join(", "))]
    AmbiguousRun { wanted: String, matches: Vec<String> },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Whether the server or its database is unsuitable: a retry would fail too.
    pub fn is_lasting(&self) -> bool {
        use Error::{Foreign, OtherVersion, Pooled, Stranger, Untrusted};
        matches!(self, Untrusted { .. } | Stranger(_) | Pooled { .. } | Foreign(_) | OtherVersion(_))
    }

    /// Classifies a database error; SQLite's by primary result code (<https://sqlite.org/rescode.html>).
    pub(super) fn from_database(action: &'static str, place: &Place, source: sqlx::Error) -> Error {
        use sqlx::Error::{ColumnDecode, ColumnNotFound, Decode};
        let place = place.clone();
        let code = primary_code(&source).filter(|_| matches!(place, Place::File(_)));
        let is_unreadable_value = matches!(source, ColumnDecode { .. } | Decode(_) | ColumnNotFound(_));
        match place {
            Place::File(_) if code == Some(26) => Error::Foreign(place),
            Place::Server(server) if is_away(&source) => Error::Away { server, source },
            _ if code == Some(11) || is_unreadable_value => Error::Damaged { place, reason: source.to_string() },
            _ => Error::Access { action, place, source },
        }
    }

    pub(super) fn of_study(self, id: Option<&str>) -> Error {
        match self {
            Error::Damaged { place, reason } => Error::DamagedStudy { id: id.map(str::to_owned), place, reason },
            error => error,
        }
    }

    pub(super) fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. } | Error::DamagedStudy { .. })
    }
}

/// Unreachable server: broken connection (class 08), shutdown, crash or start (57P01 to 57P03), too many connections
/// (53300), or lock or statement timeout (55P03, 57014).
fn is_away(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    match (error, code.as_deref()) {
        (_, Some(code)) => {
            code.starts_with("08") || ["57P01", "57P02", "57P03", "53300", "55P03", "57014"].contains(&code)
        }
        (sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_), None) => true,
        (sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed, None) => true,
        _ => false,
    }
}

const SQLITE_FULL: u32 = 13;

/// The low byte of SQLite's extended code.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    Some(code.parse::<u32>().ok()? & 0xff)
}

/// SQLITE_PERM, READONLY, CANTOPEN and AUTH; for servers, failed logins and missing privileges.
fn is_refused(place: &Place, error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    match place {
        Place::File(_) => matches!(primary_code(error), Some(3 | 8 | 14 | 23)),
        Place::Server(_) => code.is_some_and(|code| code.starts_with("28") || code == "42501"),
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Stranger(error) => error.kind(),
            Error::Table(error) => error.kind(),
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::Access { place, source, .. } if is_refused(place, source) => ErrorKind::Privilege,
            Error::OtherVersion(_) | Error::Damaged { .. } | Error::DamagedStudy { .. } => ErrorKind::Failed,
            Error::Away { .. } | Error::File { .. } | Error::Access { .. } => ErrorKind::Failed,
            // The user can fix the other errors by naming another study or results store.
            _ => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint: &str = match self {
            Error::Stranger(error) => return error.hint(),
            Error::Missing(_) | Error::Empty(_) => {
                "run `pgthaw bench` to create results, or name another file with --results or PGTHAW_RESULTS"
            }
            Error::NeitherFileNorRun(_) => {
                "name a file with its directory or extension (./run.log); `pgthaw results` lists stored runs"
            }
            Error::Address(_) => "write postgres://USER@HOST:PORT/DATABASE",
            Error::Away { .. } => {
                "results stay in the local file; commands that use the server, such as `pgthaw results`, send them when it answers again"
            }
            Error::NoHome => "name the file with --results or PGTHAW_RESULTS",
            Error::Foreign(_) => "name another store with --results or PGTHAW_RESULTS; pgthaw does not change this one",
            Error::Untrusted { finding, .. } => return Some(finding.remedy()),
            Error::Pooled { .. } => "use the server's own address, not that of a connection pooler",
            Error::OtherVersion(_) => {
                "use the version of pgthaw that created it, or name another file with --results or PGTHAW_RESULTS"
            }
            Error::Damaged { place: Place::File(path), .. } => {
                let file = quote_argument(&path.display().to_string());
                &format!("move it away, and pgthaw creates a new one; `sqlite3 {file} .recover` may recover rows")
            }
            Error::DamagedStudy { id, .. } => {
                let id = quote_argument(id.as_ref()?);
                &format!("the other studies are readable; `pgthaw results drop {id}` removes this one")
            }
            Error::UnknownRun(_) => "`pgthaw results` lists the runs; the first characters of a name are enough",
            Error::AmbiguousRun { .. } => "use more characters of its name",
            Error::Access { place: place @ Place::Server(_), source, .. } if is_refused(place, source) => {
                "the role needs a password (in the address or the password file) and privileges on the schema pgthaw; a superuser creates the schema with CREATE SCHEMA pgthaw AUTHORIZATION …"
            }
            Error::Access { place, source, .. } if is_refused(place, source) => {
                "the file and its directory must be readable and writable: SQLite keeps its journal beside the file"
            }
            // SQLITE_BUSY.
            Error::Access { place: Place::File(_), source, .. } if primary_code(source) == Some(5) => {
                "another program (such as `sqlite3` with an open transaction) has locked the file; wait until that program releases the lock"
            }
            Error::Damaged { .. } | Error::Table(_) | Error::File { .. } | Error::Access { .. } => return None,
        };
        Some(hint.to_owned())
    }

    fn full_disk(&self) -> Option<FullDisk> {
        let another = Some("--results FILE");
        match self {
            Error::Table(error) => error.full_disk(),
            Error::File { path, source, .. } => FullDisk::of_file(source, path, another),
            Error::Access { place: Place::File(path), source, .. } => (primary_code(source) == Some(SQLITE_FULL))
                .then(|| FullDisk { path: Some(path.clone()), instead: another }),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Place {
    File(PathBuf),
    Server(ServerPlace),
}

pub type ServerPlace = Box<PlainServer>;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => path.display().fmt(f),
            Place::Server(server) => server.shown.fmt(f),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct DamagedStudy {
    /// `None`: even the id is unreadable.
    pub id: Option<String>,
    pub reason: String,
}

impl DamagedStudy {
    pub(super) fn new(id: Option<String>, error: &Error) -> DamagedStudy {
        DamagedStudy { id, reason: error.to_string() }
    }
}
