//! Failures of writing a table.

use std::path::PathBuf;

use host::failure::{ErrorKind, Explain, FullDisk};

/// What can go wrong with a table that is exported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot export to {}: {source}", path.display())]
    ExportTo { path: PathBuf, option: &'static str, source: std::io::Error },
    #[error("cannot write what is exported: {0}")]
    Export(std::io::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::ExportTo { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
                ErrorKind::Privilege
            }
            Error::ExportTo { .. } | Error::Export(_) => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        None
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::ExportTo { path, option, source } => FullDisk::of_file(source, path, Some(option)),
            Error::Export(_) => None,
        }
    }
}
