use std::io;
use std::path::{Path, PathBuf};

use super::sealed_file::Flaw;
use super::{BEST, NEWEST, Tiers};
use host::failure::{ErrorKind, Explain, FullDisk, TOO_FEW_FILES, is_too_few_files};
use host::linux;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", flaw.told("snapshot", path))]
    Flawed { path: PathBuf, flaw: Flaw },
    #[error("snapshot {} is of another cluster (system identifier {snapshot}, this cluster has {cluster})", path.display())]
    OtherCluster { path: PathBuf, snapshot: u64, cluster: u64 },
    #[error("there is no snapshot in {}", .0.display())]
    NoSnapshot(PathBuf),
    #[error("there is no snapshot in {}", directory.display())]
    KeptElsewhere { directory: PathBuf, elsewhere: PathBuf },
    #[error("no snapshot in {} contains blocks of {}", directory.display(), tiers.words())]
    NothingHeld { directory: PathBuf, tiers: Tiers },
    #[error("no snapshot is called \"{name}\" in {}", directory.display())]
    UnknownSnapshot { name: String, directory: PathBuf },
    #[error("\"{name}\" is ambiguous: it could be {}", candidates.join(", "))]
    AmbiguousSnapshot { name: String, candidates: Vec<String> },
    #[error("{0:?} is not a valid label")]
    Label(String),
    #[error("{} already exists", .0.display())]
    Exists(PathBuf),
    #[error("neither cache is visible. OS page cache: {os}; shared_buffers: {buffers}")]
    NothingMeasured { os: String, buffers: String },
    #[error("relation \"{name}\" does not exist")]
    UnknownRelation { name: String, near: Vec<String> },
    #[error("schema \"{name}\" contains no relation")]
    UnknownSchema { name: String, near: Vec<String> },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

host::file_error!(Error);

impl Error {
    pub fn of_flaw(flaw: Flaw, path: &Path) -> Error {
        match flaw {
            Flaw::Failed { action, source } => Error::file(action, path, source),
            flaw => Error::Flawed { path: path.to_owned(), flaw },
        }
    }

    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Flawed { flaw, .. } if flaw.is_damage())
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Linux(inner) => inner.kind(),
            Error::Postgres(inner) => inner.kind(),
            Error::NothingMeasured { .. } => ErrorKind::Privilege,
            Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            Error::Flawed { flaw: Flaw::NotOne(_) | Flaw::OtherFormat { .. }, .. } => ErrorKind::Usage,
            Error::Flawed { .. } | Error::File { .. } => ErrorKind::Failed,
            _ => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Error::Linux(inner) => return inner.hint(),
            Error::Postgres(inner) => return inner.hint(),
            Error::UnknownRelation { near, .. } | Error::UnknownSchema { near, .. } if !near.is_empty() => {
                return Some(format!("did you mean {}?", near.join(" or ")));
            }
            Error::File { action: "open", source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "`pgthaw snapshot list` lists the snapshots"
            }
            Error::File { action: "open", path, .. } if path.is_dir() => {
                let directory = postgres::quote_argument(&path.display().to_string());
                return Some(format!(
                    "this path is a directory: `pgthaw snapshot list --dir {directory}` lists the snapshots in it, and `pgthaw restore --dir {directory}` restores the best one"
                ));
            }
            Error::File { source, .. } => match source.kind() {
                _ if is_too_few_files(source) => TOO_FEW_FILES,
                io::ErrorKind::PermissionDenied => {
                    "run pgthaw as the owner of this path, or give another directory with --dir"
                }
                io::ErrorKind::FileTooLarge => {
                    "existing snapshots are intact; free some space, or give another directory with --dir"
                }
                io::ErrorKind::NotADirectory => "a part of this path is a file: give a directory with --dir",
                _ => return None,
            },
            Error::Flawed { flaw: Flaw::NotOne(_), .. } => "`pgthaw snapshot list` lists the snapshots",
            Error::Flawed { flaw: Flaw::Damaged(_), path } => {
                let file = postgres::quote_argument(&path.display().to_string());
                return Some(format!(
                    "use an older snapshot (`pgthaw snapshot list`), or remove this one: `rm -- {file}`"
                ));
            }
            Error::Flawed { flaw: Flaw::OtherFormat { .. }, .. } => {
                "use the pgthaw version that wrote it, or take a new snapshot"
            }
            Error::Flawed { .. } => "pgthaw did not write this file; use a snapshot from `pgthaw snapshot list`",
            Error::OtherCluster { .. } => "connect to the cluster of the snapshot, or take a snapshot of this one",
            Error::KeptElsewhere { elsewhere, .. } => return Some(kept_elsewhere(elsewhere)),
            // Other users cannot list root's home directory.
            Error::NoSnapshot(_) if !postgres::SystemUser::is_root() => {
                "take one with `pgthaw snapshot take`; if root took one, it is in root's home: `sudo pgthaw …`"
            }
            Error::NoSnapshot(_) => {
                "take one with `pgthaw snapshot take`; for another user's snapshot, give its directory with --dir"
            }
            Error::NothingHeld { .. } => {
                "take one with `pgthaw snapshot take` once the server is warm; `pgthaw doctor` shows whether both caches are visible"
            }
            Error::UnknownSnapshot { .. } => {
                "use best, newest, newest~1 or the beginning of a name that `pgthaw snapshot list` shows; a file's path must contain a / or end in .parquet"
            }
            Error::AmbiguousSnapshot { .. } => "give more characters of the name",
            Error::Label(label) if [BEST, NEWEST].contains(&&**label) => {
                "the words best and newest are reserved for choosing an existing snapshot: choose another label"
            }
            Error::Label(_) => {
                "use 1 to 40 letters, digits, dots, underscores and hyphens, beginning with a letter or digit"
            }
            Error::Exists(_) => "give another file name, or remove this file",
            Error::NothingMeasured { .. } => "`pgthaw doctor` shows what is missing and how to get it",
            Error::UnknownRelation { .. } | Error::UnknownSchema { .. } => "`pgthaw map --top 0` shows all relations",
        };
        Some(text.to_owned())
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::Linux(inner) => inner.full_disk(),
            Error::Postgres(inner) => inner.full_disk(),
            Error::File { path, source, .. } => {
                FullDisk::of_file(source, path, Some("--dir (or -o FILE for a snapshot)"))
            }
            _ => None,
        }
    }
}

pub fn kept_elsewhere(directory: &Path) -> String {
    let directory = postgres::quote_argument(&directory.display().to_string());
    format!("the server's owner keeps snapshots in {directory}: `pgthaw … --dir {directory}`")
}
