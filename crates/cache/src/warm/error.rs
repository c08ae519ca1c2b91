use std::io;
use std::path::PathBuf;

use crate as cache;
use host::failure::{ErrorKind, Explain, FullDisk};
use host::linux;
use host::units::Bytes;

/// Errors before a receipt exists. Later ones are in the receipt.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the snapshot's blocks have {snapshot} bytes, this cluster's {cluster}")]
    BlockSize { snapshot: u32, cluster: u32 },
    #[error("no target given")]
    NothingNamed,
    #[error("the OS page cache is not visible: {reason}")]
    OsTierHidden { reason: String },
    #[error("the device cannot be probed: the data directory is not on this host, or unknown")]
    NothingToProbe,
    #[error("the device cannot be probed: relation files of 1 MiB or larger hold {found}, but {needed} are needed")]
    TooLittleToProbe { found: Bytes, needed: Bytes },
    #[error("the device cannot be probed: it completed too few {0}")]
    TooFewReads(String),
    #[error("there is nothing to hydrate: the data directory is not on this host, or unknown")]
    NothingToHydrate,
    #[error("-d selects a database, but hydrate reads a whole cluster")]
    DatabaseToHydrate,
    #[error("cannot {action} {what} {}: {source}", path.display())]
    StateFile { action: &'static str, what: &'static str, path: PathBuf, source: io::Error },
    #[error("the device's profile {} cannot be used: {reason}", path.display())]
    ProfileUnusable { path: PathBuf, reason: String },
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn inner(&self) -> Option<&dyn Explain> {
        match self {
            Error::Linux(error) => Some(error),
            Error::Postgres(error) => Some(error),
            Error::Cache(error) => Some(error),
            _ => None,
        }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::BlockSize { .. } | Error::NothingNamed | Error::DatabaseToHydrate => ErrorKind::Usage,
            Error::NothingToProbe | Error::NothingToHydrate | Error::OsTierHidden { .. } => ErrorKind::Privilege,
            Error::StateFile { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Privilege,
                _ => ErrorKind::Failed,
            },
            other => other.inner().map_or(ErrorKind::Failed, Explain::kind),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::DatabaseToHydrate => Some("omit -d (in pgthaw.toml: dbname)".into()),
            Error::NothingNamed => Some("give --relation, --schema, -d DATABASE or --all".into()),
            Error::NothingToProbe | Error::NothingToHydrate => {
                Some("give the data directory with --data-dir, on the server's host".into())
            }
            Error::TooLittleToProbe { .. } | Error::TooFewReads(_) => {
                Some("run `restore` with the device's rates: --riops READS --rbps BYTES".into())
            }
            Error::StateFile { action: "use", .. } => Some("--again starts over".into()),
            Error::StateFile { .. } => Some("set XDG_STATE_HOME to a directory that can be written".into()),
            Error::ProfileUnusable { .. } => Some("`pgthaw doctor --probe` creates a new one".into()),
            Error::OsTierHidden { .. } => Some("give --tier buffers to evict only shared_buffers".into()),
            Error::BlockSize { .. } => Some("blocks of different sizes do not correspond: warm this cluster with a workload and take a snapshot of it".into()),
            other => other.inner().and_then(Explain::hint),
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::StateFile { path, source, .. } => FullDisk::of_file(source, path, Some("XDG_STATE_HOME")),
            other => other.inner().and_then(Explain::full_disk),
        }
    }
}
