//! Failures of observing.

use crate::failure::{ErrorKind, Explain, NO_THREADS};
use crate::linux;

/// What can go wrong while sampling.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Linux(error) => error.kind(),
            Error::Thread(_) => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Linux(error) => error.hint(),
            Error::Thread(_) => Some(NO_THREADS.to_owned()),
        }
    }
}
