//! Commands and options that are gone, each with its successor in one sentence.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::SettingsError;

/// What stands behind `pgthaw`, up to the word that is gone, and what to use instead.
pub const GONE: [(&str, &str); 21] = [
    ("rows", "pgthaw map --rows shows how densely rows lie, with the same --riops and --hit"),
    ("restore --gentle", "pgthaw restore --pace gentle"),
    ("restore --full-speed", "pgthaw restore --pace full"),
    ("restore --max-rate", "pgthaw restore --pace 50MB reads no more than that in a second"),
    ("hydrate --full-speed", "pgthaw hydrate --pace full, gentle or a rate such as 50MB"),
    ("restore --buffers-budget", "pgthaw restore --budget buffers=1GB"),
    ("restore --no-double", "pgthaw restore --tier exclusive"),
    ("restore --connections", "pgthaw restore --threads N, which limits connections too"),
    (
        "restore --read-size",
        "pgthaw restore chooses it, by --riops and --rbps or by what pgthaw doctor --probe measured",
    ),
    ("restore --if-any", "pgthaw restore any"),
    ("map --forks", "pgthaw map --by fork"),
    ("map --system", "pgthaw map --top 0 shows all, the system catalogs too; pgthaw map -r 'pg_catalog.*' these alone"),
    ("waits --lwlocks", "pgthaw waits counts LWLock waits by tranche without it: client backend::LWLock::WALWrite"),
    ("record", "pgthaw run --record-only -- COMMAND records a job, pgthaw film record the server's own sessions"),
    ("replay", "pgthaw run --film FILM -- COMMAND goes by one film"),
    ("trace list", "pgthaw film list"),
    ("trace show", "pgthaw film show FILM"),
    ("trace diff", "pgthaw film show FILM --json lists the relations of each film, to compare"),
    ("trace cut", "pgthaw film record --seconds N records the part that you need"),
    ("trace merge", "pgthaw run --like NAME chooses among all films of a name"),
    ("trace", "pgthaw film list, show or drop"),
];

/// The successor of a command or an option that clap does not know.
pub fn find_successor(error: &clap::Error, arguments: &[OsString]) -> Option<SettingsError> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(refused)) = error.get(context) else { return None };
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let is_it = |gone: &str| match gone.rsplit_once(' ') {
        Some((command, option)) if option.starts_with('-') => {
            option == refused && words.starts_with(&command.split(' ').collect::<Vec<_>>())
        }
        _ => gone.split(' ').any(|word| word == refused) && words.starts_with(&gone.split(' ').collect::<Vec<_>>()),
    };
    let (gone, instead) = GONE.iter().find(|(gone, _)| is_it(gone))?;
    Some(SettingsError::Gone { gone, instead })
}
