use std::io;
use std::path::Path;

use crate::study::{self, ANOTHER_PLACE};
use host::failure::{ErrorKind, Explain, FullDisk};
use host::linux;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Study(#[from] study::Error),
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

impl From<postgres::Error> for Error {
    fn from(error: postgres::Error) -> Error {
        match error {
            postgres::Error::Interrupted => Error::Interrupted,
            error => Error::Postgres(error),
        }
    }
}

impl Error {
    pub fn file(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Study(study::Error::file(action, path, source))
    }

    fn inner(&self) -> Option<&dyn Explain> {
        match self {
            Error::Study(error) => Some(error),
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
            Error::OtherGround { .. } | Error::Setting(_) | Error::SettingRefused { .. } => ErrorKind::Usage,
            Error::NoStrategy(_) => ErrorKind::Privilege,
            Error::Interrupted => ErrorKind::Interrupted,
            other => other.inner().map_or(ErrorKind::Failed, Explain::kind),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::NoStrategy(_) => {
                Some("use strategy=nothing,cat, which needs only coreutils; for an idle server, strategy=cat".into())
            }
            Error::NothingWanted => Some("run the script longer: wanted_seconds=10".into()),
            Error::Generator { .. } => {
                Some("test the study's generators.command by hand: let it run `true` on the host".into())
            }
            Error::SettingRefused { .. } => {
                Some("correct or remove it in [settings]; `postgres --describe-config` lists all settings".into())
            }
            Error::RunningAlready { .. } => Some("wait until the sweep ends, or start another run with --anew".into()),
            Error::OtherGround { .. } => {
                Some("use the sweep's --bin-dir and --dir, or start another run with --anew".into())
            }
            other => other.inner().and_then(Explain::hint),
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        let another = Some(ANOTHER_PLACE);
        let full = match self {
            Error::Generator { output, .. } | Error::Program { output, .. } => FullDisk::of_output(output, another),
            other => other.inner().and_then(Explain::full_disk),
        };
        full.map(|full| FullDisk { instead: full.instead.or(another), ..full })
    }
}
