//! Help texts: adds examples, folds the connection options into one line.

use std::ffi::OsString;

use clap::{Arg, Args as _, Command};

use super::{ConnectionArguments, is_option};

/// A section per command: the command's name, then two example command lines.
const EXAMPLES: &str = include_str!("examples.txt");

const TOPIC: &str = "connection";

const FOLDED: &str = "{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}\n\n\
                      Connection: -h, -p, -U and -d as in psql; `pgthaw help connection` lists all{after-help}";

pub fn connection_topic() -> Command {
    let topic = ConnectionArguments::augment_args(Command::new(TOPIC)).arg_required_else_help(true);
    topic.mut_args(|argument| argument.hide_short_help(false)).override_usage("pgthaw COMMAND [OPTIONS]")
}

/// Adds examples to the help of all commands and folds their connection options. A command that is called without its
/// required arguments shows its short help.
pub fn with_help(command: Command) -> Command {
    let usual = ConnectionArguments::augment_args(Command::new(TOPIC));
    fold_connection(with_examples(command.bin_name("pgthaw"), ""), &usual)
}

pub fn with_examples(command: Command, words: &str) -> Command {
    let needs_more = command.is_arg_required_else_help_set() || command.get_arguments().any(Arg::is_required_set);
    let examples = EXAMPLES.split("\n\n").find_map(|section| section.strip_prefix(words)?.strip_prefix('\n'));
    let command = match examples {
        Some(lines) => command.after_help(format!("Examples:\n{}", lines.trim_end())),
        None => command,
    };
    command.arg_required_else_help(needs_more).mut_subcommands(|one| {
        let words = format!("{words} {}", one.get_name());
        with_examples(one, words.trim_start())
    })
}

fn fold_connection(command: Command, usual: &Command) -> Command {
    let is_usual = |one: &Arg| usual.get_arguments().any(|known| known.get_help() == one.get_help());
    if command.get_name() == TOPIC {
        return command;
    }
    let has_usual = command.get_arguments().any(is_usual);
    let command = if has_usual { command.help_template(FOLDED) } else { command };
    let command = command.mut_args(|one| match is_usual(&one) {
        true => one.hide_short_help(true).hide_long_help(true),
        false => one,
    });
    command.mut_subcommands(|one| fold_connection(one, usual))
}

/// Turns `help map` into `map -?`, because clap's own `help` prints the long text.
pub fn ask_short_help(arguments: &[OsString]) -> Vec<OsString> {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some(at) = (1..words.len()).find(|at| !is_option(&words, *at)).filter(|at| words[*at] == "help") else {
        return arguments.to_vec();
    };
    let named = arguments[at..].iter().take_while(|word| *word != "--").filter(|word| *word != "help");
    arguments[..at].iter().chain(named).cloned().chain(["-?".into()]).collect()
}
