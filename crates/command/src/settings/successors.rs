//! Commands and options that are gone, each with its successor in one sentence.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::SettingsError;

/// What stands behind `pgthaw`, up to the word that is gone, and what to use instead. A row may
/// name several options of a command.
pub const GONE: &[(&str, &str)] = &[
    ("rows", "pgthaw map --rows shows how densely rows lie, with the same --riops and --hit"),
    ("waits --lwlocks", "pgthaw waits counts LWLock waits by tranche without it: client backend::LWLock::WALWrite"),
    ("record", "pgthaw run --record-only -- COMMAND records a job, pgthaw film record the server's own sessions"),
    ("replay", "pgthaw run --film FILM -- COMMAND goes by one film"),
    ("trace list", "pgthaw film list"),
    ("trace show", "pgthaw film show FILM"),
    ("trace diff", "pgthaw film show FILM --json lists the relations of each film, to compare"),
    ("trace cut", "pgthaw film record --seconds N records the part that you need"),
    ("trace merge", "pgthaw run --like NAME chooses among all films of a name"),
    ("trace", "pgthaw film list, show or drop"),
    ("demo", "pgthaw bench demo"),
    ("steady", "pgthaw judge"),
    ("results list", "pgthaw results lists the runs, newest first"),
    (
        "results send",
        "pgthaw results --results ADDRESS sends what waits, as every command does that is given the address",
    ),
    ("results noise", "pgthaw results compare, with a sweep of bench --aa or without"),
    ("results time", "pgthaw results show --time"),
    ("results export --format", "pgthaw results export -o FILE.parquet (or .json, .csv), or --json"),
    (
        "results import --question --scale --clients --jobs --script --query-mode --seconds --connect --rate --start",
        "pgthaw results import PATH... KEY=VALUE, such as scale=10 query_mode=prepared",
    ),
    ("serve --port", "pgthaw serve --listen PORT"),
    ("bench --print-study", "pgthaw bench STUDY --print"),
    ("bench --until-steady", "pgthaw bench STUDY until=steady"),
    (
        "bench --disk --named-disk --riops --rbps --read-ahead",
        "pgthaw bench STUDY disks.NAME=RIOPS,RBPS,READ_AHEAD disk=NAME",
    ),
    ("bench --loaders --strategies", "pgthaw bench STUDY strategy=NAME,..."),
    (
        "bench --clients --jobs --memory --name --patience --popularity --query-mode --repeats --scale --script --script-seconds --seconds --seed --setup --shared-buffers",
        "pgthaw bench STUDY KEY=VALUE, such as scale=10 settings.shared_buffers=1GB; --print shows the keys",
    ),
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
    let parts = |gone: &'static str| gone.split(' ').partition::<Vec<&str>, _>(|word| word.starts_with('-'));
    let is_it = |gone: &'static str| {
        let (options, command) = parts(gone);
        let is_refused = if options.is_empty() { &command } else { &options }.contains(&refused.as_str());
        is_refused && words.starts_with(&command)
    };
    let &(gone, instead) = GONE.iter().find(|row| is_it(row.0))?;
    let (options, command) = parts(gone);
    let named = if options.is_empty() { command } else { [command, vec![refused.as_str()]].concat() };
    Some(SettingsError::Gone { gone: named.join(" "), instead })
}
