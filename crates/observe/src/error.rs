use std::io;
use std::path::PathBuf;

use host::failure::{ErrorKind, Explain, FullDisk, NO_THREADS};
use host::linux;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    #[error("the server's processes are not on this host, or not visible to this user")]
    NotHere,
    #[error("no server runs here")]
    NoServer,
    #[error("this terminal cannot show a screen: TERM is dumb")]
    DumbTerminal,
    #[error("{} is not a record of `pgthaw top`: {reason}", path.display())]
    NotARecord { path: PathBuf, reason: String },
    #[error("record {} has format {found}, but this pgthaw reads format {known}", path.display())]
    OtherRecord { path: PathBuf, found: u32, known: u32 },
    #[error("no agent has recorded a history of this server in {}", path.display())]
    NoHistory { path: PathBuf },
    #[error("the history has no data for that time: it covers {begin} to {end}")]
    NotInHistory { begin: String, end: String },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
}

host::file_error!(Error);

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Linux(error) => error.kind(),
            Error::Postgres(error) => error.kind(),
            Error::NotHere => ErrorKind::Privilege,
            Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            _ => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Linux(error) => error.hint(),
            Error::Postgres(error) => error.hint(),
            Error::Thread(_) => Some(NO_THREADS.to_owned()),
            Error::NotHere => Some("run pgthaw on the server's host, as root or as the server's owner".to_owned()),
            Error::NoServer => Some("start the server, or give its address (-h, -p, -d)".to_owned()),
            Error::DumbTerminal => {
                Some("use --json for one line per step, or set TERM to the terminal's type: TERM=xterm".to_owned())
            }
            Error::NotARecord { .. } => Some("`pgthaw top --record FILE` writes one".to_owned()),
            Error::OtherRecord { .. } => Some("read it with the pgthaw version that wrote it".to_owned()),
            Error::NoHistory { .. } => {
                Some("start `pgthaw agent`, or give the agent's snapshot directory with --dir".to_owned())
            }
            Error::NotInHistory { .. } => Some("choose a time in this range; no agent ran during its gaps".to_owned()),
            Error::File { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some("use another file, or remove this one".to_owned())
            }
            Error::File { .. } => None,
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::File { path, source, .. } => FullDisk::of_file(source, path, Some("--record FILE")),
            _ => None,
        }
    }
}

pub(crate) fn refusal(reason: &str, remedy: &str) -> Error {
    let (reason, remedy) = (reason.to_owned(), remedy.to_owned());
    Error::Linux(host::linux::Error::Unavailable { what: "loading a BPF program", reason, remedy })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn another_place_for_a_record_is_named_by_its_option() {
        let full = Error::file("write", Path::new("/x"), io::Error::from_raw_os_error(28)).full_disk();
        assert_eq!(full.and_then(|full| full.instead), Some("--record FILE"));
    }
}
