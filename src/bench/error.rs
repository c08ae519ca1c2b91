//! Failures of a study, beside those of the layers below.

use crate::failure::{ErrorKind, Explain};

/// What can go wrong with a study.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("pgthaw.toml: {0}")]
    Settings(String),
    #[error("{0}")]
    Disk(String),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Settings(_) | Error::Disk(_) => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Settings(_) => {
                Some("a disk is written as [disk.NAME] with riops = 3000 and rbps = \"125MiB\"".into())
            }
            Error::Disk(_) => None,
        }
    }
}
