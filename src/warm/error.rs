//! Failures of warming and of making cold.

use crate::failure::{ErrorKind, Explain};
use crate::{cache, linux, postgres};

/// What can go wrong before there is a receipt. What goes wrong later is in the receipt.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the snapshot's blocks have {snapshot} bytes, this cluster's {cluster}")]
    BlockSize { snapshot: u32, cluster: u32 },
    #[error("nothing was named that shall be cold")]
    NothingNamed,
    #[error("the OS page cache cannot be evicted: the data directory is not on this host, or not known")]
    NoDataDirectory,
    #[error("the OS page cache cannot be seen: {reason}")]
    OsTierHidden { reason: String },
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Cache(#[from] cache::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::BlockSize { .. } | Error::NothingNamed => ErrorKind::Usage,
            Error::NoDataDirectory | Error::OsTierHidden { .. } => ErrorKind::Privilege,
            Error::Linux(inner) => inner.kind(),
            Error::Postgres(inner) => inner.kind(),
            Error::Cache(inner) => inner.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::NothingNamed => Some("--relation, --schema, -d DATABASE or --all".into()),
            Error::NoDataDirectory => Some("name it with --data-dir, or give --tier buffers".into()),
            Error::OsTierHidden { .. } => Some("give --tier buffers to empty shared_buffers alone".into()),
            Error::BlockSize { .. } => Some("blocks of different sizes do not correspond: warm this cluster with a workload and take a snapshot of it".into()),
            Error::Linux(inner) => inner.hint(),
            Error::Postgres(inner) => inner.hint(),
            Error::Cache(inner) => inner.hint(),
        }
    }
}
