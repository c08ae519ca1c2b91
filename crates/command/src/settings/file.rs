//! Finds and reads `pgthaw.toml`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use host::failure::{ErrorKind, Explain, quote_argument};
use host::files::{SMALL_FILE_BYTES_MAX, open_regular, open_regular_or_pipe, read_open_text_at_most};

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
    #[error("the command to run must follow `--`, which is missing before {word:?}")]
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
            SettingsError::Read { .. } => Some("use another file with --config".into()),
            SettingsError::Syntax { .. } => None,
            SettingsError::Setting { .. } => {
                Some("use commands as tables and their long options as keys; `pgthaw COMMAND --help` lists them".into())
            }
            SettingsError::ForgottenDashes { right, .. } => Some(right.clone()),
            SettingsError::Gone { instead, .. } => Some((*instead).to_owned()),
            SettingsError::NotOwned(path) => Some(format!(
                "its settings could run that user's programs as you; if you trust that user, set PGTHAW_CONFIG={}",
                quote_argument(&path.display().to_string())
            )),
        }
    }
}

const NAME: &str = "pgthaw.toml";
/// Top-level key, and option that it sets. The key `lab_servers` is a list; its option adds one element.
const TOP_KEYS: [(&str, &str); 2] = [("lab_servers", "lab-server"), ("mode", "mode")];

const ONLY_TOP_KEYS: &str =
    "only lab_servers and mode are allowed at the top level; put options below their command, as in [restore]";

const NAMED: &str = "PGTHAW_CONFIG";

/// Setting such as `connections = 4` in `[restore]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Name of a command, or `connection`; `None` for a top-level key.
    pub table: Option<String>,
    pub option: String,
    pub values: Vec<String>,
}

impl Setting {
    pub fn key(&self) -> String {
        self.table.iter().chain([&self.option]).cloned().collect::<Vec<_>>().join(".")
    }
}

/// Settings, not yet checked against the options.
#[derive(Clone, Debug, Default)]
pub struct SettingsFile {
    pub path: PathBuf,
    table: toml::Table,
}

impl SettingsFile {
    /// Finds `--config` or `PGTHAW_CONFIG`, else the first of `$XDG_CONFIG_HOME/pgthaw/pgthaw.toml` and
    /// `/etc/pgthaw/pgthaw.toml`. Ignores the working directory, which may be another user's: settings name programs to
    /// run and servers to trust.
    pub fn find(arguments: &[OsString]) -> Result<SettingsFile, SettingsError> {
        SettingsFile::find_in(|name| {
            let typed = find_named(arguments).filter(|_| name == NAMED);
            typed.or_else(|| std::env::var_os(name).filter(|value| !value.is_empty())).map(PathBuf::from)
        })
    }

    pub(super) fn find_in(environment: impl Fn(&str) -> Option<PathBuf>) -> Result<SettingsFile, SettingsError> {
        if let Some(named) = environment(NAMED) {
            return SettingsFile::read(&named);
        }
        let config = environment("XDG_CONFIG_HOME").or_else(|| Some(environment("HOME")?.join(".config")));
        // A relative path would depend on the working directory.
        let config = config.filter(|config| config.is_absolute());
        let places = [config.map(|config| config.join("pgthaw")), Some(PathBuf::from("/etc/pgthaw"))];
        for path in places.into_iter().flatten().map(|directory| directory.join(NAME)) {
            if path.exists() {
                let file = open_regular(&path).map_err(|source| cannot_read(&path, source))?;
                require_own(&path, &file)?;
                return SettingsFile::read_open(&path, file);
            }
        }
        Ok(SettingsFile::default())
    }

    /// Reads a file of any owner.
    pub fn read(path: &Path) -> Result<SettingsFile, SettingsError> {
        if path == Path::new("/dev/null") {
            return Ok(SettingsFile::default());
        }
        SettingsFile::read_open(path, open_regular_or_pipe(path).map_err(|source| cannot_read(path, source))?)
    }

    fn read_open(path: &Path, file: File) -> Result<SettingsFile, SettingsError> {
        let text = read_open_text_at_most(file, SMALL_FILE_BYTES_MAX);
        SettingsFile::parse(path, &text.map_err(|source| cannot_read(path, source))?)
    }

    pub fn parse(path: &Path, text: &str) -> Result<SettingsFile, SettingsError> {
        let table = text.parse().map_err(|error: toml::de::Error| {
            // Omits the line's text: it may contain a password, and the file may belong to another user.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            SettingsError::Syntax { path: path.to_owned(), problem: format!("line {line}: {}", error.message()) }
        })?;
        Ok(SettingsFile { path: path.to_owned(), table })
    }

    pub fn settings(&self) -> Result<Vec<Setting>, SettingsError> {
        let mut settings = Vec::new();
        for (name, value) in &self.table {
            let toml::Value::Table(table) = value else {
                let known = TOP_KEYS.iter().find(|(key, _)| key == name);
                let (_, option) = known.ok_or_else(|| self.error(name, ONLY_TOP_KEYS.into()))?;
                settings.push(self.setting(None, option, value)?);
                continue;
            };
            for (option, value) in table {
                settings.push(self.setting(Some(name), option, value)?);
            }
        }
        Ok(settings)
    }

    pub fn error(&self, key: &str, problem: String) -> SettingsError {
        SettingsError::Setting { path: self.path.clone(), key: key.to_owned(), problem }
    }

    fn setting(&self, table: Option<&str>, option: &str, value: &toml::Value) -> Result<Setting, SettingsError> {
        let values = match value {
            toml::Value::Array(list) => list.iter().map(as_typed).collect(),
            one => as_typed(one).map(|text| vec![text]),
        };
        let (table, option) = (table.map(str::to_owned), option.replace('_', "-"));
        let mut setting = Setting { table, option, values: Vec::new() };
        let wrong = || self.error(&setting.key(), "must be a string, a number, true, false, or a list of these".into());
        setting.values = values.ok_or_else(wrong)?;
        Ok(setting)
    }
}

fn as_typed(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Integer(_) | toml::Value::Boolean(_) => Some(value.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// The user or root must own a file that the command line does not name.
fn require_own(path: &Path, file: &File) -> Result<(), SettingsError> {
    // Another user's link could point to any of this user's files.
    let facts = [file.metadata(), path.symlink_metadata()];
    let owners = facts.map(|facts| facts.map(|facts| facts.uid()));
    let [file, link] = owners.map(|owner| owner.map_err(|source| cannot_read(path, source)));
    let is_own = |owner: u32| owner == 0 || owner == rustix::process::geteuid().as_raw();
    match is_own(file?) && is_own(link?) {
        true => Ok(()),
        false => Err(SettingsError::NotOwned(path.to_owned())),
    }
}

fn find_named(arguments: &[OsString]) -> Option<OsString> {
    let mut words = arguments.iter().take_while(|word| *word != "--");
    let value = words.find_map(|word| word.as_bytes().strip_prefix(b"--config"))?;
    match value.strip_prefix(b"=") {
        Some(value) => Some(OsStr::from_bytes(value).to_owned()),
        None => words.next().filter(|_| value.is_empty()).cloned(),
    }
}

fn cannot_read(path: &Path, source: io::Error) -> SettingsError {
    SettingsError::Read { path: path.to_owned(), source }
}
