//! A command to run before which `--` was forgotten.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::SettingsError;
use postgres::quote_argument;

/// The command that runs one.
const RUNNING: &str = "run";

/// The option of every command that has a value.
const WITH_VALUE: &str = "--mode";

/// What to say where clap refuses the word by which a command to run begins: its usage line alone says neither what is wrong nor what
/// would be right.
pub fn find_forgotten_dashes(error: &clap::Error, arguments: &[OsString]) -> Option<SettingsError> {
    let Some(ContextValue::String(refused)) = error.get(ContextKind::InvalidArg) else { return None };
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let has_dashes = words.iter().any(|word| word == "--");
    if error.kind() != ErrorKind::UnknownArgument || refused.starts_with('-') || has_dashes {
        return None;
    }
    let is_option = |at: usize| words[at].starts_with('-') || (at > 0 && words[at - 1] == WITH_VALUE);
    let command = (0..words.len()).find(|at| !is_option(*at)).filter(|at| words[*at] == RUNNING)?;
    let mut places = (command + 1..words.len()).filter(|at| words[*at] == *refused);
    // What follows an option may be its value.
    let job = places.clone().find(|at| !is_option(at - 1)).or_else(|| places.next())?;
    let render = |words: &[String]| words.iter().map(|word| quote_argument(word)).collect::<Vec<_>>().join(" ");
    let right = format!("pgthaw {} -- {}", render(&words[..job]), render(&words[job..]));
    Some(SettingsError::ForgottenDashes { word: refused.clone(), right })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn found(line: &str) -> Option<String> {
        let job = Arg::new("job").last(true).num_args(1..);
        let run = Command::new("run").args([Arg::new("like").long("like"), job]);
        let command = Command::new("pgthaw").arg(Arg::new("mode").long("mode").global(true));
        let command = command.subcommands([run, Command::new("map").arg(Arg::new("database"))]);
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = command.try_get_matches_from(&words).err()?;
        let SettingsError::ForgottenDashes { right, .. } = find_forgotten_dashes(&error, &words)? else { panic!() };
        Some(right)
    }

    #[test]
    fn the_right_command_is_told() {
        assert_eq!(found("pgthaw run psql -f x.sql").as_deref(), Some("pgthaw run -- psql -f x.sql"));
        let with_options = found("pgthaw --mode 640 run --like psql psql -c $x").unwrap();
        assert_eq!(with_options, "pgthaw --mode 640 run --like psql -- psql -c '$x'");
    }

    #[test]
    fn other_mistakes_are_claps_to_tell() {
        for line in ["pgthaw run --like x --no", "pgthaw map a run", "pgthaw run -- psql", "pgthaw run --like x -f"] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
