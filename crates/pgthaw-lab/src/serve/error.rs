//! Failures of serving.

use command::{document, http};
use host::failure::{ErrorKind, Explain, FullDisk};

/// What can go wrong before anybody asks for something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Listen(#[from] http::Error),
    #[error(transparent)]
    Page(#[from] document::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Listen(error) => error.kind(),
            Error::Page(error) => error.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Listen(error) => error.hint(),
            Error::Page(error) => error.hint(),
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::Listen(error) => error.full_disk(),
            Error::Page(error) => error.full_disk(),
        }
    }
}
