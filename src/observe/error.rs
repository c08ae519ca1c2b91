//! Failures of observing.

use crate::failure::{ErrorKind, Explain, NO_THREADS};
use crate::{linux, postgres};

/// What can go wrong while sampling.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("the server's processes are not on this host, or this user may not know them")]
    NotHere,
    #[error("no server runs here whose time could be looked at")]
    NoServer,
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Linux(error) => error.kind(),
            Error::Postgres(error) => error.kind(),
            Error::Thread(_) | Error::NoServer => ErrorKind::Failed,
            Error::NotHere => ErrorKind::Privilege,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Linux(error) => error.hint(),
            Error::Postgres(error) => error.hint(),
            Error::Thread(_) => Some(NO_THREADS.to_owned()),
            Error::NotHere => Some("run pgthaw on the server's host, as root or as the server's owner".to_owned()),
            Error::NoServer => Some("start the server, or name the one that runs (-h, -p, -d)".to_owned()),
        }
    }
}
