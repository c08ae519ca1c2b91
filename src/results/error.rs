//! Failures of the results store.

use std::path::PathBuf;

use crate::failure::{ErrorKind, Explain};

/// What can go wrong with the results store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no results store at {}", .0.display())]
    Missing(PathBuf),
    #[error("neither XDG_STATE_HOME nor HOME says where results belong")]
    NoHome,
    #[error("{} is not a results store of pgthaw", .0.display())]
    Foreign(PathBuf),
    #[error("the results store {} was written by a newer pgthaw", .0.display())]
    Newer(PathBuf),
    #[error("the results store {} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("cannot {action} {}: {source}", path.display())]
    Access { action: &'static str, path: PathBuf, source: sqlx::Error },
    #[error("the results store {} holds no run yet", .0.display())]
    Empty(PathBuf),
    #[error("no run is called \"{0}\"")]
    UnknownRun(String),
    #[error("\"{wanted}\" begins the names of several runs: {}", matches.join(", "))]
    AmbiguousRun { wanted: String, matches: Vec<String> },
}

impl Error {
    /// Sorts what SQLite said, by its primary result code (<https://sqlite.org/rescode.html>).
    pub(super) fn from_sqlite(action: &'static str, path: PathBuf, source: sqlx::Error) -> Error {
        match primary_code(&source) {
            Some(11) => Error::Damaged { path, reason: source.to_string() },
            Some(26) => Error::Foreign(path),
            _ if is_unreadable_value(&source) => Error::Damaged { path, reason: source.to_string() },
            _ => Error::Access { action, path, source },
        }
    }
}

/// SQLite's extended codes have the primary one in their low byte.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?;
    Some(code.parse::<u32>().ok()? & 0xff)
}

fn is_unreadable_value(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_))
}

/// SQLITE_PERM, READONLY, CANTOPEN and AUTH.
fn is_refused(error: &sqlx::Error) -> bool {
    matches!(primary_code(error), Some(3 | 8 | 14 | 23))
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Missing(_)
            | Error::NoHome
            | Error::Foreign(_)
            | Error::Empty(_)
            | Error::UnknownRun(_)
            | Error::AmbiguousRun { .. } => ErrorKind::Usage,
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::Access { source, .. } if is_refused(source) => ErrorKind::Privilege,
            Error::Newer(_) | Error::Damaged { .. } | Error::File { .. } | Error::Access { .. } => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Missing(_) | Error::Empty(_) => Some(
                "`pgthaw bench warmup`, `bench residency`, `bench sweep` or `pgthaw demo` makes results; --results or PGTHAW_RESULTS names another file"
                    .into(),
            ),
            Error::NoHome => Some("name the file with --results or PGTHAW_RESULTS".into()),
            Error::Foreign(_) => {
                Some("name another file with --results or PGTHAW_RESULTS: this one is left as it is".into())
            }
            Error::Newer(_) => Some("use that pgthaw, or name another file with --results".into()),
            Error::Damaged { path, .. } => Some(format!(
                "move it away and a new one is made; `sqlite3 {} .recover` may get rows back",
                path.display()
            )),
            Error::UnknownRun(_) => {
                Some("`pgthaw results list` lists the runs; the first characters of a name are enough".into())
            }
            Error::AmbiguousRun { .. } => Some("give more of its name".into()),
            Error::Access { source, .. } if is_refused(source) => Some(
                "the file and its directory must be readable and writable: SQLite keeps its journal beside the file"
                    .into(),
            ),
            Error::File { .. } | Error::Access { .. } => None,
        }
    }
}
