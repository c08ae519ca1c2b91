//! Settings from `pgthaw.toml`: each value becomes the default of the option that it names. A flag overrides the
//! environment, which overrides the file (docs/settings.md).

mod file;
mod successors;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Args as _, Command, FromArgMatches as _, Parser};

use file::Setting;
pub use file::{SettingsError, SettingsFile};
use successors::RUN;
pub use successors::{explain_refused, find_successor, is_option, list_gone};

use super::{ConnectionArguments, PositionalArguments};
use crate::help::{ask_short_help, with_help};

/// Table whose keys apply to every command that connects.
const CONNECTION: &str = "connection";

/// Options of `run` that a settings file may not set, so that it cannot prevent the job.
const TYPED_ONLY: [&str; 4] = ["film", "like", "output", "record-only"];

/// Exits after help or clap's errors. `elsewhere` lists the other program's commands, whose tables are ignored.
pub fn read_command_line<C: Parser>(arguments: &[OsString], elsewhere: &[&str]) -> Result<C, SettingsError> {
    let arguments = &ask_short_help(arguments);
    let file = SettingsFile::find(arguments);
    let mut command = match file.and_then(|file| apply_settings(make_command::<C>(), &file, elsewhere)) {
        Ok(command) => command,
        // An invalid file prevents neither help nor a job.
        Err(problem) => match make_command::<C>().try_get_matches_from(arguments) {
            Err(error) if !error.use_stderr() => error.exit(),
            Ok(matches) if matches.subcommand_name() == Some(RUN) => {
                terminal::print_complaint(&format!("note: {problem}; the job runs without the settings file"));
                make_command::<C>()
            }
            _ => return Err(problem),
        },
    };
    know_commands(&command);
    let commands: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let parsed = command.try_get_matches_from_mut(arguments).or_else(|error| {
        match without_environment(command).try_get_matches_from(arguments) {
            Ok(matches) if matches.subcommand_name() == Some(RUN) => {
                let problem = first_line(&error);
                terminal::print_complaint(&format!("note: {problem}; the job runs without the environment's settings"));
                Ok(matches)
            }
            _ => Err(error),
        }
    });
    let parsed = parsed.and_then(|mut matches| {
        complete_printed_commands(&matches)?;
        C::from_arg_matches_mut(&mut matches)
    });
    parsed.or_else(|error| explain_refused(&error, arguments).map_or_else(|| refuse(with_near(error, &commands)), Err))
}

/// Adds the connection options of the called command, if it has any, to the commands that pgthaw suggests.
fn complete_printed_commands(mut matches: &ArgMatches) -> Result<(), clap::Error> {
    while let Some((_, of_subcommand)) = matches.subcommand() {
        matches = of_subcommand;
    }
    let has = |id: &str| matches.ids().any(|one| one == id);
    // This flag has a value even if it was not given.
    if has("ask_password") {
        let positional = has("PositionalArguments").then(|| PositionalArguments::from_arg_matches(matches));
        let connection = ConnectionArguments::from_arg_matches(matches)?;
        connection.with(positional.transpose()?.unwrap_or_default()).complete_printed_commands();
    }
    Ok(())
}

fn without_environment(command: Command) -> Command {
    command.mut_args(|argument| argument.env(None::<&str>)).mut_subcommands(without_environment)
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or(&text).trim_start_matches("error: ").to_owned()
}

/// Registers options, so that printed commands repeat this run's.
fn know_commands(command: &Command) {
    let mut known: Vec<(String, Vec<String>)> = Vec::new();
    visit(command, &mut Vec::new(), &mut |command, path| {
        let above = path.split_last().map(|(_, above)| above.join(" "));
        let above = known.iter().find(|(name, _)| Some(name) == above.as_ref()).map(|(_, options)| options.clone());
        let own = command.get_arguments().filter_map(|argument| argument.get_long().map(str::to_owned));
        known.push((path.join(" "), above.into_iter().flatten().chain(own).collect()));
    });
    terminal::know_commands(known);
}

/// Limits the width. clap assumes 100 columns for a terminal of unknown size.
fn make_command<C: Parser>() -> Command {
    let command = with_help(C::command());
    match terminal::Canvas::of_stdout(true).width {
        Some(width) => command.max_term_width(width),
        None => command,
    }
}

const TYPING_ERRORS: usize = 1;

/// Suggests `map` for `mpa`, which clap does not.
fn with_near(mut error: clap::Error, commands: &[String]) -> clap::Error {
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand)
        && error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(near) = commands.iter().find(|name| strsim::damerau_levenshtein(typed, name) <= TYPING_ERRORS)
    {
        let near = ContextValue::Strings(vec![near.clone()]);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
    error
}

/// Exits as clap does, but wraps the error for the terminal.
fn refuse(mut error: clap::Error) -> ! {
    if !error.use_stderr() {
        error.exit();
    }
    let code = error.exit_code();
    // clap's tip to pass an unknown option as a value is never right.
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    let text = error.render();
    let text = if console::colors_enabled_stderr() { text.ansi().to_string() } else { text.to_string() };
    terminal::print_complaint(text.trim_end());
    terminal::exit(code)
}

pub fn apply_settings(mut command: Command, file: &SettingsFile, elsewhere: &[&str]) -> Result<Command, SettingsError> {
    // `--help` shows the file.
    command = command.mut_args(|argument| match argument.get_id() == "config" && file.path != Path::new("") {
        true => argument.default_value(file.path.clone().into_os_string()),
        false => argument,
    });
    let mut settings = file.settings()?;
    // The last setting wins; a command's own table is the most specific.
    settings.sort_by_key(|setting| match setting.table.as_deref() {
        None => 0,
        Some(CONNECTION) => 1,
        Some(_) => 2,
    });
    for setting in settings {
        let places = places_of(&command, &setting);
        let is_other = match setting.table.as_deref() {
            None => !elsewhere.is_empty(),
            Some(table) => elsewhere.contains(&table),
        };
        if places.is_empty() && is_other {
            continue;
        }
        if places.is_empty() {
            return Err(file.error(&setting.key(), unknown(&command, &setting)));
        }
        if setting.table.as_deref() == Some(RUN) && TYPED_ONLY.contains(&&*setting.option) {
            return Err(file.error(
                &setting.key(),
                "allowed only on the command line: a settings file must not prevent a job".into(),
            ));
        }
        for place in &places {
            check(&command, place, &setting).map_err(|problem| file.error(&setting.key(), problem))?;
            command = with_default(command, place, &setting);
        }
    }
    Ok(command)
}

fn places_of(command: &Command, setting: &Setting) -> Vec<Vec<String>> {
    let is_meant = |path: &[String]| match setting.table.as_deref() {
        None => true,
        Some(CONNECTION) => is_connection_option(&setting.option),
        Some(table) => path.first().is_some_and(|name| name == table),
    };
    let mut places = Vec::new();
    visit(command, &mut Vec::new(), &mut |command, path| {
        if is_meant(path) && has_option(command, &setting.option) {
            places.push(path.to_vec());
        }
    });
    places
}

fn visit(command: &Command, path: &mut Vec<String>, see: &mut impl FnMut(&Command, &[String])) {
    see(command, path);
    for subcommand in command.get_subcommands() {
        path.push(subcommand.get_name().to_owned());
        visit(subcommand, path, see);
        path.pop();
    }
}

fn has_option(command: &Command, option: &str) -> bool {
    command.get_arguments().any(|argument| argument.get_long() == Some(option))
}

fn is_connection_option(option: &str) -> bool {
    has_option(&ConnectionArguments::augment_args(Command::new(CONNECTION)), option)
}

fn check(command: &Command, place: &[String], setting: &Setting) -> Result<(), String> {
    let typed = setting.values.iter().map(|value| match takes_value(command, place, &setting.option) {
        true => Ok(format!("--{}={value}", setting.option)),
        false if value == "true" || value == "false" => Ok(format!("--{}", setting.option)),
        false => Err(format!("must be true or false, not {value}")),
    });
    let typed = typed.collect::<Result<Vec<String>, String>>()?;
    let program = [command.get_name().to_owned()];
    let arguments = program.iter().chain(place).chain(&typed);
    use clap::error::ErrorKind::{ArgumentConflict, InvalidValue, TooManyValues, ValueValidation};
    match command.clone().try_get_matches_from(arguments) {
        Err(error) if error.kind() == ArgumentConflict && typed.len() > 1 => Err("takes one value, not a list".into()),
        Err(error) if [InvalidValue, TooManyValues, ValueValidation].contains(&error.kind()) => Err(first_line(&error)),
        // Other errors, such as a missing option, belong to the real command line.
        _ => Ok(()),
    }
}

fn takes_value(command: &Command, place: &[String], option: &str) -> bool {
    let command = place.iter().try_fold(command, |command, name| command.find_subcommand(name));
    let mut arguments = command.into_iter().flat_map(Command::get_arguments);
    let argument = arguments.find(|argument| argument.get_long() == Some(option));
    argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::Set | ArgAction::Append))
}

fn with_default(command: Command, place: &[String], setting: &Setting) -> Command {
    let Some((name, rest)) = place.split_first() else {
        return command.mut_args(|argument| match argument.get_long() {
            Some(long) if long == setting.option => argument.required(false).default_values(&setting.values),
            _ => argument,
        });
    };
    command.mut_subcommand(name, |subcommand| with_default(subcommand, rest, setting))
}

fn unknown(command: &Command, setting: &Setting) -> String {
    let table = setting.table.as_deref().unwrap_or_default();
    if !table.is_empty() && table != CONNECTION && command.find_subcommand(table).is_none() {
        return format!("there is no command {table}");
    }
    if let Some(SettingsError::Gone { instead, .. }) =
        find_successor(&[table.to_owned()], Some(&format!("--{}", setting.option)))
    {
        return format!("there is no such key: {instead}");
    }
    match table {
        "" => format!("no command has an option --{}", setting.option),
        CONNECTION => format!("--{} is not a connection option", setting.option),
        command => format!("{command} has no option --{}", setting.option),
    }
}
