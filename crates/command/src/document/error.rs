//! Failures of making a report.

use std::path::PathBuf;

use host::failure::{ErrorKind, Explain, FullDisk};

/// What can go wrong with a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot put the run into the report: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("{} exists and is no report of pgthaw", .0.display())]
    Occupied(PathBuf),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Occupied(_) => ErrorKind::Usage,
            Error::Write { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                ErrorKind::Privilege
            }
            Error::Encode(_) | Error::Write { .. } => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Occupied(_) => {
                Some("name another file (-o, --html); `report` and `predict` replace it with --force".into())
            }
            Error::Write { .. } => {
                Some("name a file in a directory that is there and that you may write to (-o, --html)".into())
            }
            Error::Encode(_) => None,
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::Write { path, source } => FullDisk::of_file(source, path, Some("-o, --html")),
            Error::Encode(_) | Error::Occupied(_) => None,
        }
    }
}
