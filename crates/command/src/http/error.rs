//! Failures of listening.

use std::net::SocketAddr;
use std::path::PathBuf;

use host::failure::{ErrorKind, Explain};

/// What can go wrong before anybody asks for something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0} can be reached from other machines, and no token keeps them out")]
    NoToken(SocketAddr),
    #[error("a series of metrics for each query or process would be without end")]
    TooManySeries,
    #[error("a token needs at least {fewest} characters")]
    WeakToken { fewest: usize },
    #[error("cannot read the token in {}: {source}", path.display())]
    TokenFile { path: PathBuf, source: std::io::Error },
    #[error("others can read the token in {} (its mode is {mode:04o})", path.display())]
    TokenIsShown { path: PathBuf, mode: u32 },
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("cannot serve: {0}")]
    Serve(std::io::Error),
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::NoToken(_) | Error::TooManySeries | Error::WeakToken { .. } | Error::TokenIsShown { .. } => {
                ErrorKind::Usage
            }
            Error::Listen { source, .. } | Error::TokenFile { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                ErrorKind::Privilege
            }
            Error::TokenFile { .. } => ErrorKind::Usage,
            Error::Listen { .. } | Error::Serve(_) => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::NoToken(_) | Error::WeakToken { .. } | Error::TokenFile { .. } => Some(
                "write a secret into a file that only you can read, and name it: (umask 077; openssl rand -hex 16 > token); --token-file token"
                    .into(),
            ),
            Error::TokenIsShown { path, .. } => {
                let path = path.display().to_string();
                Some(format!("chmod 600 {}, and a new secret where somebody may have read it", shlex::try_quote(&path).unwrap_or_default()))
            }
            Error::TooManySeries => Some("--by kind, user or database".into()),
            Error::Listen { .. } => Some("name another port; 0 is any that is free".into()),
            Error::Serve(_) => None,
        }
    }
}
