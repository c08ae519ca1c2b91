//! Failures of talking to a server or of reading its directory.

use std::path::PathBuf;

use crate::failure::{ErrorKind, Explain};

/// What can go wrong with a server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot connect to {address}: {source}")]
    Connect { address: String, source: sqlx::Error },
    #[error("cannot {action}: {source}")]
    Query { action: &'static str, source: sqlx::Error },
    #[error("PostgreSQL {0} is not supported: pgthaw knows 13 to 18")]
    Version(String),
    #[error("extension {name} does not exist in database \"{database}\"")]
    ExtensionMissing { name: &'static str, database: String },
    #[error("{} is not a PostgreSQL data directory: {reason}", path.display())]
    DataDirectory { path: PathBuf, reason: String },
    #[error("{} belongs to another cluster (system identifier {directory}) than the server at {address} ({server})", path.display())]
    OtherCluster { path: PathBuf, directory: u64, server: u64, address: String },
    #[error("cannot find PostgreSQL's program {0}")]
    ProgramMissing(String),
    #[error("{program} failed: {output}")]
    Program { program: String, output: String },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::ExtensionMissing { .. } | Error::ProgramMissing(_) => ErrorKind::Privilege,
            Error::DataDirectory { .. } | Error::OtherCluster { .. } | Error::Version(_) => ErrorKind::Usage,
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::Query { source, .. } if is_insufficient_privilege(source) => ErrorKind::Privilege,
            Error::Connect { .. } | Error::Query { .. } | Error::Program { .. } | Error::File { .. } => {
                ErrorKind::Failed
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Connect { source, .. } => Some(connect_hint(source)),
            Error::ExtensionMissing { name, database } => Some(format!(
                "psql -d {database} -c 'CREATE EXTENSION {name}' (Debian: the package postgresql-contrib, or PostgreSQL's own, has it)"
            )),
            Error::DataDirectory { .. } => {
                Some("name the directory that holds PG_VERSION, as SHOW data_directory prints it".into())
            }
            Error::OtherCluster { .. } => {
                Some("give the connection of the cluster in --data-dir, or leave one of the two out".into())
            }
            Error::ProgramMissing(_) => Some(
                "apt-get install postgresql, or name the directory of the programs with --bin-dir or PGTHAW_BIN_DIR"
                    .into(),
            ),
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                Some("run pgthaw as the owner of the data directory (usually postgres) or as root".into())
            }
            Error::Query { source, .. } if is_insufficient_privilege(source) => {
                Some("GRANT pg_monitor TO the role, or connect as a superuser".into())
            }
            Error::Query { .. } | Error::Version(_) | Error::Program { .. } | Error::File { .. } => None,
        }
    }
}

/// SQLSTATE 42501.
fn is_insufficient_privilege(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|e| e.code()).is_some_and(|code| code == "42501")
}

fn connect_hint(error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(|e| e.code()).map(|code| code.into_owned());
    match code.as_deref() {
        Some("28P01") => "check the password: PGPASSWORD, ~/.pgpass or --password".into(),
        Some("28000") => "pg_hba.conf does not let this user in: run as the system user postgres, or give -U and -h".into(),
        Some("3D000") => "name a database that exists: -d".into(),
        Some("57P03") => "the server is starting up or shutting down: try again in a moment".into(),
        _ => "is the server running there? -h, -p, -U and -d mean what they mean to psql; a stopped server is read with --data-dir".into(),
    }
}
