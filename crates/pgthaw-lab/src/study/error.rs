use std::io;
use std::path::PathBuf;

use host::failure::{ErrorKind, Explain, FullDisk};
use host::linux;
use host::units::Bytes;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {problem}", path.display())]
    Spec { path: PathBuf, problem: String },
    #[error("{needed} are needed in {}, but only {free} are free", directory.display())]
    NoRoom { needed: Bytes, free: Bytes, directory: PathBuf },
    #[error("{0}")]
    Selection(String),
    #[error("{0}")]
    Import(String),
    /// The request does not fit the files, the machine or the stored results.
    #[error("{problem}")]
    Unfit { problem: String, remedy: String },
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("no requested strategy can run here: {0}")]
    NoStrategy(String),
    #[error("the script read nothing into the page cache, so there is nothing to load")]
    NothingWanted,
    #[error("the sweep {id} is running already, {who}")]
    RunningAlready { id: String, who: String },
    #[error("the sweep {id} started with {began}, but would continue with {now}")]
    OtherGround { id: String, began: String, now: String },
    #[error("{0}")]
    Setting(String),
    #[error("settings.{name}: {why}")]
    SettingRefused { name: String, why: String },
    #[error("cannot start {command}: {source}")]
    Launch { command: String, source: io::Error },
    #[error("pgbench on {host} failed: {output}")]
    Generator { host: String, output: String },
    #[error("{program} failed: {output}")]
    Program { program: &'static str, output: String },
    #[error("stopped by the user")]
    Interrupted,
    #[error(transparent)]
    Linux(#[from] linux::Error),
    #[error(transparent)]
    Postgres(postgres::Error),
    #[error(transparent)]
    Cache(#[from] cache::Error),
    #[error(transparent)]
    Observe(#[from] observe::Error),
    #[error(transparent)]
    Model(#[from] model::Error),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

const ANOTHER_PLACE: &str = "--dir (a smaller scale needs less)";

host::file_error!(Error);

impl From<postgres::Error> for Error {
    fn from(error: postgres::Error) -> Error {
        match error {
            postgres::Error::Interrupted => Error::Interrupted,
            error => Error::Postgres(error),
        }
    }
}

impl Error {
    fn inner(&self) -> Option<&dyn Explain> {
        match self {
            Error::Linux(error) => Some(error),
            Error::Postgres(error) => Some(error),
            Error::Cache(error) => Some(error),
            Error::Observe(error) => Some(error),
            Error::Model(error) => Some(error),
            _ => None,
        }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::Spec { .. } | Error::Selection(_) | Error::Import(_) | Error::Unfit { .. } => ErrorKind::Usage,
            Error::OtherGround { .. } | Error::Setting(_) | Error::SettingRefused { .. } => ErrorKind::Usage,
            Error::NoStrategy(_) => ErrorKind::Privilege,
            Error::Interrupted => ErrorKind::Interrupted,
            other => other.inner().map_or(ErrorKind::Failed, Explain::kind),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Spec { .. } => "docs/study-file.md lists all keys; `--dry-run` shows a study's plan",
            Error::Selection(_) => "`pgthaw results show` shows the axes of a sweep and their values",
            Error::Import(_) => {
                "name log files of `pgbench --log`, files with pgbench's output, or directories with such files; see docs/queries.md"
            }
            Error::Unfit { remedy, .. } => remedy,
            Error::File { action: "read", source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "name an existing file; for study files, see docs/study-file.md"
            }
            Error::NoRoom { .. } => "choose smaller scales, or another directory with --dir",
            Error::NoStrategy(_) => {
                "use strategy=nothing,cat, which needs only coreutils; for an idle server, strategy=cat"
            }
            Error::NothingWanted => "run the script longer: wanted_seconds=10",
            Error::Generator { .. } => "test the study's generators.command by hand: let it run `true` on the host",
            Error::SettingRefused { .. } => {
                "correct or remove it in [settings]; `postgres --describe-config` lists all settings"
            }
            Error::RunningAlready { .. } => "wait until the sweep ends, or start another run with --anew",
            Error::OtherGround { .. } => "use the sweep's --bin-dir and --dir, or start another run with --anew",
            other => return other.inner().and_then(Explain::hint),
        };
        Some(hint.to_owned())
    }

    fn full_disk(&self) -> Option<FullDisk> {
        let another = Some(ANOTHER_PLACE);
        let full = match self {
            Error::File { path, source, .. } => FullDisk::of_file(source, path, another),
            Error::Generator { output, .. } | Error::Program { output, .. } => FullDisk::of_output(output, another),
            other => other.inner().and_then(Explain::full_disk),
        };
        full.map(|full| FullDisk { instead: full.instead.or(another), ..full })
    }
}
