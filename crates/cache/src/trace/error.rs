use std::io;
use std::path::{Path, PathBuf};

use crate as cache;
use crate::sealed_file::Flaw;
use host::failure::{ErrorKind, Explain, FullDisk};
use host::linux;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}", flaw.told("film", path))]
    Flawed { path: PathBuf, flaw: Flaw },
    #[error("film {} is of another cluster (system identifier {film}, this cluster has {cluster})", path.display())]
    OtherCluster { path: PathBuf, film: u64, cluster: u64 },
    #[error("there is no film in {}", .0.display())]
    NoFilm(PathBuf),
    #[error("no film in {} is named \"{name}\"", directory.display())]
    UnknownFilm { name: String, directory: PathBuf },
    #[error("{error}")]
    KeptElsewhere { error: Box<Error>, film: PathBuf },
    #[error("\"{name}\" is ambiguous: it could be {}", candidates.join(", "))]
    AmbiguousFilm { name: String, candidates: Vec<String> },
    #[error("films named \"{name}\" belong to {} clusters; the newest film of each cluster: {}", candidates.len(), candidates.join(" and "))]
    SeveralClusters { name: String, candidates: Vec<String> },
    #[error("film {} allows no forecast for other memory sizes: {reason}", path.display())]
    NoCurve { path: PathBuf, reason: &'static str },
    #[error("no recording target given")]
    NothingNamed,
    #[error("process {pid} is not a server process of the cluster at {cluster}: {reason}")]
    NoBackend { pid: u32, cluster: String, reason: &'static str },
    #[error("requests to the page cache are not visible: {0}")]
    NothingSeen(String),
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cache(cache::Error),
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Observe(#[from] observe::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<cache::Error> for Error {
    fn from(error: cache::Error) -> Error {
        match error {
            cache::Error::Flawed { path, flaw } => Error::Flawed { path, flaw },
            cache::Error::File { action, path, source } => Error::File { action, path, source },
            other => Error::Cache(other),
        }
    }
}

host::file_error!(Error);

impl Error {
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Flawed { flaw, .. } if flaw.is_damage())
    }

    pub fn of_flaw(flaw: Flaw, path: &Path) -> Error {
        cache::Error::of_flaw(flaw, path).into()
    }

    fn inner(&self) -> Option<&dyn Explain> {
        match self {
            Error::Cache(error) => Some(error),
            Error::Linux(error) => Some(error),
            Error::Observe(error) => Some(error),
            Error::Postgres(error) => Some(error),
            _ => None,
        }
    }

    fn explain(&self) -> (ErrorKind, Option<String>) {
        use ErrorKind::{Failed, Privilege, Usage};
        let quote = |path: &Path| postgres::quote_argument(&path.display().to_string());
        let (kind, hint) = match self {
            Error::Flawed { flaw: Flaw::NotOne(_), .. } | Error::UnknownFilm { .. } => (Usage, LISTED),
            Error::Flawed { flaw: Flaw::Damaged(_), path } => {
                return (Failed, Some(format!("record the job again, and remove this film: `rm -- {}`", quote(path))));
            }
            Error::KeptElsewhere { film, .. } => {
                let hint = format!("the server's owner has a matching film; give its path: {}", quote(film));
                return (Usage, Some(hint));
            }
            Error::Flawed { flaw: Flaw::OtherFormat { .. }, .. } => {
                (Usage, "use the pgthaw version that wrote it, or record the job again")
            }
            Error::Flawed { .. } => {
                (Failed, "pgthaw did not write this file, or the recording is too long: record only a part of the job")
            }
            Error::OtherCluster { .. } => {
                (Usage, "connect to the cluster on which the film was recorded, or record the job on this one")
            }
            Error::NoFilm(_) => (Usage, "`pgthaw run --like NAME -- COMMAND` records one"),
            Error::NoCurve { .. } => (
                Usage,
                "record the job again as root, on Linux 6.12 or later: `pgthaw run --record-only --source bpf -- COMMAND`",
            ),
            Error::NothingNamed => (
                Usage,
                "--seconds N records all reads of the server; --backend PID, --application-name NAME or --database DB selects processes; `pgthaw run --record-only -- COMMAND` records a command",
            ),
            Error::NoBackend { .. } => (
                Usage,
                "`psql -c 'SELECT pid, application_name, query FROM pg_stat_activity'` lists the server processes; -h and -p select another server",
            ),
            Error::AmbiguousFilm { .. } => (Usage, "give more characters of the name"),
            Error::SeveralClusters { .. } => {
                (Usage, "select the server with -h and -p, or -D, or give one of these names")
            }
            Error::NothingSeen(_) => (
                Privilege,
                "run pgthaw on the server's host, as the owner of the data directory or as root; `pgthaw doctor` shows what is missing",
            ),
            Error::File { action, source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                return (Privilege, (!matches!(*action, "open" | "read")).then(|| OWN_STATE.to_owned()));
            }
            Error::File { action: "open", source, .. } if source.kind() == io::ErrorKind::NotFound => (Failed, LISTED),
            Error::File { .. } => return (Failed, None),
            other => return other.inner().map_or((Failed, None), |inner| (inner.kind(), inner.hint())),
        };
        (kind, Some(hint.to_owned()))
    }
}

const OWN_STATE: &str = "set XDG_STATE_HOME to a directory of your own, or run pgthaw as the owner of this path";
const LISTED: &str = "`pgthaw film show` lists the films";

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        self.explain().0
    }

    fn hint(&self) -> Option<String> {
        self.explain().1
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::File { path, source, .. } => FullDisk::of_file(source, path, Some("-o FILE, or XDG_STATE_HOME")),
            other => other.inner().and_then(Explain::full_disk),
        }
    }
}
