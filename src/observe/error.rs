//! Failures of observing.

use crate::failure::{ErrorKind, Explain};
use crate::linux;

/// What can go wrong while sampling.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Linux(#[from] linux::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Linux(error) => error.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Linux(error) => error.hint(),
        }
    }
}
