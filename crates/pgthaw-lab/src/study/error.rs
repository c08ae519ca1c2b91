use std::io;
use std::path::PathBuf;

use host::failure::{ErrorKind, Explain, FullDisk};
use host::linux;
use host::units::Bytes;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {problem}", path.display())]
    Spec { path: PathBuf, problem: String },
    #[error("{needed} are needed in {}, but only {free} are free", directory.display())]
    NoRoom { needed: Bytes, free: Bytes, directory: PathBuf },
    #[error("{0}")]
    Selection(String),
    #[error("{0}")]
    Import(String),
    /// The request does not fit the files, the machine or the stored results.
    #[error("{problem}")]
    Unfit { problem: String, remedy: String },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Linux(#[from] linux::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

pub const ANOTHER_PLACE: &str = "--dir (a smaller scale needs less)";

host::file_error!(Error);

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Linux(error) => error.kind(),
            Error::File { .. } | Error::NoRoom { .. } => ErrorKind::Failed,
            _ => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Spec { .. } => Some("docs/study-file.md lists all keys; `--dry-run` shows a study's plan".into()),
            Error::Selection(_) => Some("`pgthaw results show` shows the axes of a sweep and their values".into()),
            Error::Import(_) => Some(
                "name log files of `pgbench --log`, files with pgbench's output, or directories with such files; see docs/queries.md".into(),
            ),
            Error::Unfit { remedy, .. } => Some(remedy.clone()),
            Error::File { action: "read", source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("name an existing file; for study files, see docs/study-file.md".into())
            }
            Error::NoRoom { .. } => Some("choose smaller scales, or another directory with --dir".into()),
            Error::Linux(error) => error.hint(),
            _ => None,
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        let full = match self {
            Error::File { path, source, .. } => FullDisk::of_file(source, path, Some(ANOTHER_PLACE)),
            Error::Linux(error) => error.full_disk(),
            _ => None,
        };
        full.map(|full| FullDisk { instead: full.instead.or(Some(ANOTHER_PLACE)), ..full })
    }
}
