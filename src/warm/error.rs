//! Failures of warming and of making cold.

use crate::failure::{ErrorKind, Explain};
use crate::{cache, linux, postgres};

/// What can go wrong before there is a receipt. What goes wrong later is in the receipt.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the snapshot's blocks have {snapshot} bytes, this cluster's {cluster}")]
    BlockSize { snapshot: u32, cluster: u32 },
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
            Error::BlockSize { .. } => ErrorKind::Usage,
            Error::Linux(inner) => inner.kind(),
            Error::Postgres(inner) => inner.kind(),
            Error::Cache(inner) => inner.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::BlockSize { .. } => Some("blocks of different sizes do not correspond: warm this cluster with a workload and take a snapshot of it".into()),
            Error::Linux(inner) => inner.hint(),
            Error::Postgres(inner) => inner.hint(),
            Error::Cache(inner) => inner.hint(),
        }
    }
}
