//! What can be wrong with `pgthaw.toml`, and with a command line in ways of which clap says too little.

use std::path::PathBuf;

use host::failure::{ErrorKind, Explain};

/// A settings file or a command line that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read the settings in {}: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not a TOML file: {problem}", path.display())]
    Syntax { path: PathBuf, problem: String },
    #[error("{}: {key}: {problem}", path.display())]
    Setting { path: PathBuf, key: String, problem: String },
    #[error("{} belongs to another user", .0.display())]
    NotOwned(PathBuf),
    #[error("a command to run stands behind `--`, and there is none before {word:?}")]
    ForgottenDashes { word: String, right: String },
    #[error("there is no pgthaw {gone}")]
    Gone { gone: String, instead: &'static str },
}

impl Explain for SettingsError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hint(&self) -> Option<String> {
        match self {
            SettingsError::Read { .. } => Some("PGTHAW_CONFIG names another file".into()),
            SettingsError::Syntax { .. } => None,
            SettingsError::Setting { .. } => {
                Some("a table is a command and its keys are the command's long options: pgthaw COMMAND --help".into())
            }
            SettingsError::ForgottenDashes { right, .. } => Some(right.clone()),
            SettingsError::Gone { instead, .. } => Some((*instead).to_owned()),
            SettingsError::NotOwned(path) => Some(format!(
                "its settings could run that user's programs as you; if you trust it: PGTHAW_CONFIG={}",
                path.display()
            )),
        }
    }
}
