//! Help that fits a screen, its examples, and docs/options, which is written from the same command lines.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use clap::{Arg, Args as _, Command, CommandFactory as _};
use command::{ConnectionArguments, OutputArguments, with_examples, with_help};

use crate::servers::Home;

/// A terminal's rows, less one for the prompt.
const ROWS: usize = 23;
const COLUMNS: usize = 80;

fn programs(complete: fn(Command) -> Command) -> [Command; 2] {
    [pgthaw::Cli::command(), pgthaw_lab::Cli::command()].map(complete)
}

fn is_shown(command: &Command) -> bool {
    command.get_name() != "help" && !command.is_hide_set()
}

/// The laboratory's commands in the tool are names without help of their own.
fn is_elsewhere(command: &Command) -> bool {
    command.get_arguments().all(Arg::is_global_set) && !command.has_subcommands()
}

/// Every command of the program with its words.
fn visit(command: &mut Command, path: &str, see: &mut impl FnMut(&str, &mut Command)) {
    for one in command.get_subcommands_mut().filter(|one| is_shown(one)) {
        let path = format!("{path} {}", one.get_name()).trim_start().to_owned();
        see(&path, one);
        visit(one, &path, see);
    }
}

/// Short and long help of each command.
fn helps() -> BTreeMap<String, [String; 2]> {
    let mut helps = BTreeMap::new();
    for mut program in programs(with_help) {
        program = program.term_width(COLUMNS);
        program.build();
        visit(&mut program, "", &mut |path, one| {
            if !is_elsewhere(one) {
                helps.insert(path.to_owned(), [one.render_help(), one.render_long_help()].map(|help| help.to_string()));
            }
        });
    }
    helps
}

#[track_caller]
fn assert_fits(help: &str, rows: usize) {
    assert!(help.lines().count() <= rows, "{} lines of {rows}:\n{help}", help.lines().count());
    let wide = help.lines().find(|line| line.chars().count() > COLUMNS);
    assert!(wide.is_none(), "{wide:?} is wide:\n{help}");
}

#[test]
fn every_short_help_fits_a_screen() {
    let helps = helps();
    assert!(helps.len() > 30, "{:?}", helps.keys());
    for [short, _] in helps.values() {
        assert_fits(short, ROWS);
    }
}

#[test]
fn all_commands_are_on_one_screen_in_their_groups() {
    let home = Home::new();
    let help = home.command(&["--help"]).env("COLUMNS", "80").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert_fits(&help, ROWS);
    let mut commands: Vec<String> = helps().into_keys().filter(|path| !path.contains(' ')).collect();
    commands.retain(|command| !help.contains(&format!("`pgthaw help {command}`")));
    for command in &commands {
        let about = programs(|program| program)
            .iter()
            .rev()
            .find_map(|one| one.find_subcommand(command)?.get_about().map(ToString::to_string));
        let row = format!("{command:<8} {}", about.unwrap());
        assert_eq!(help.matches(&row).count(), 1, "{row} in\n{help}");
    }
    assert_eq!(help.lines().count(), commands.len() + 5, "{help}");
    for group in ["look", "restart", "always", "jobs", "watch", "lab"] {
        assert!(help.lines().any(|line| line.split(' ').next() == Some(group)), "{group} in\n{help}");
    }
    for same in [&["help"][..], &["-?"]] {
        assert_eq!(home.command(same).env("COLUMNS", "80").output().unwrap().stdout, help.as_bytes(), "{same:?}");
    }
}

#[test]
fn two_examples_end_every_help_and_are_valid() {
    for (path, texts) in helps() {
        for help in texts {
            let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{path}: {help}"));
            assert_eq!(examples.lines().count(), 2, "{path}: {examples}");
            for example in examples.lines() {
                let words = shlex::split(example).unwrap();
                let begin = words.iter().rposition(|word| word == "pgthaw").unwrap();
                let end = words.iter().position(|word| word == ">").unwrap_or(words.len());
                let [tool, lab] = programs(with_help);
                let is_lab = lab.find_subcommand(&words[begin + 1]).is_some_and(|one| !one.is_hide_set());
                let parsed = if is_lab { lab } else { tool }.try_get_matches_from(&words[begin..end]);
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}

#[test]
fn the_help_command_is_short_and_missing_words_get_it() {
    let home = Home::new();
    let ask = |words: &[&str]| home.command(words).env("COLUMNS", "80").output().unwrap();
    for command in ["map", "run", "bench"] {
        let short = ask(&[command, "-?"]).stdout;
        let asked = ask(&["help", command]);
        assert!(asked.status.success() && asked.stdout == short, "{}", String::from_utf8_lossy(&asked.stdout));
        assert!(ask(&[command, "--help"]).stdout.len() > short.len());
    }
    let short = String::from_utf8(ask(&["film", "drop", "-?"]).stdout).unwrap();
    assert_eq!(String::from_utf8(ask(&["help", "film", "drop"]).stdout).unwrap(), short);
    for words in [&["film", "drop"][..], &["run"], &["bench"], &["judge"], &["film"], &["connection"]] {
        let refused = ask(words);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && told.contains("Examples:"), "{words:?}: {told}");
    }
    home.pgthaw(&["help", "mpa"]).ends_with(2);
    assert_eq!(home.pgthaw(&["help", "run", "--", "echo", "ran"]).ok().stdout, home.pgthaw(&["run", "-?"]).ok().stdout);
    // A job's own words are not pgthaw's.
    assert_eq!(home.pgthaw(&["run", "--", "echo", "help", "map"]).ok().stdout, "help map\n");
}

#[test]
fn connection_options_are_one_line_of_a_help_and_all_of_their_own() {
    let home = Home::new();
    for help in [["map", "-?"], ["map", "--help"]] {
        let help = home.pgthaw(&help).ok().stdout;
        assert_eq!(help.matches("pgthaw help connection").count(), 1, "{help}");
        assert!(!help.contains("--username"), "{help}");
    }
    for help in [&["help", "connection"][..], &["connection", "--help"]] {
        let help = home.pgthaw(help).ok().stdout;
        let connection = ConnectionArguments::augment_args(Command::new("connection"));
        for option in connection.get_arguments().filter_map(Arg::get_long) {
            assert!(help.contains(&format!("--{option}")), "{option}: {help}");
        }
    }
    home.pgthaw(&["completions", "man", "man"]).ok();
    let page = fs::read_to_string(home.path().join("man/pgthaw-map.1")).unwrap();
    assert!(page.contains("User to connect as") && page.contains("pgthaw map shop"), "{page}");
}

// ---- docs/options ----

const WRITTEN: &str = "<!-- Written by help::the_reference -->\n\n";

#[test]
fn the_reference_has_every_option() {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/options");
    let pages = reference();
    if std::env::var_os("PGTHAW_WRITE_DOCS").is_some() {
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).unwrap();
        pages.iter().for_each(|(name, page)| fs::write(directory.join(name), page).unwrap());
    }
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    };
    let found: BTreeMap<String, String> = fs::read_dir(&directory).unwrap().map(read).collect();
    assert!(found == pages, "PGTHAW_WRITE_DOCS=1 writes it");
}

/// A page per command, and one of the options that all have.
fn reference() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut rows = String::new();
    for mut program in programs(|program| with_examples(program, "")) {
        program = program.bin_name("pgthaw");
        program.build();
        visit(&mut program, "", &mut |path, one| {
            if is_elsewhere(one) {
                return;
            }
            let name = path.split(' ').next().unwrap();
            if !path.contains(' ') {
                rows += &format!("- [{name}]({name}.md): {}\n", one.get_about().unwrap());
            }
            let page = pages.entry(format!("{name}.md")).or_insert(WRITTEN.to_owned());
            *page += &section(path, one).lines().map(|line| shorten(line, page)).collect::<String>();
        });
    }
    let common = OutputArguments::augment_args(Command::new(""));
    let index = format!(
        "{WRITTEN}# Options\n\n`pgthaw COMMAND --help` describes each option in full.\n\n\
         {rows}\n## Options of every command\n\n{}",
        list(common.get_arguments())
    );
    pages.insert("README.md".into(), index);
    pages.into_iter().map(|(name, page)| (name, format!("{}\n", page.trim_end()))).collect()
}

/// An option that the page has described needs no second description.
fn shorten(line: &str, page: &str) -> String {
    match line.split_once("`: ") {
        Some((option, _)) if page.contains(&format!("{line}\n")) => format!("{option}`: As above\n"),
        _ => format!("{line}\n"),
    }
}

fn section(path: &str, command: &mut Command) -> String {
    let usage = command.render_usage().to_string().replace("Usage: ", "");
    let heading = if path.contains(' ') { "##" } else { "#" };
    let mut text = format!("{heading} pgthaw {path}\n\n{}\n\n    {usage}\n\n", command.get_about().unwrap());
    let is_same = |one: &Arg, other: &Arg| one.get_id() == other.get_id() && one.get_help() == other.get_help();
    let [common, connection] = [OutputArguments::augment_args, ConnectionArguments::augment_args]
        .map(|augment| augment(Command::new("")).get_arguments().cloned().collect::<Vec<Arg>>());
    let is_of = |known: &[Arg], one: &Arg| known.iter().any(|other| is_same(one, other));
    let is_topic = path == "connection";
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|one| !is_of(&common, one) && (is_topic || !is_of(&connection, one)))
        .filter(|one| !(path.contains(' ') && one.is_global_set()))
        .collect();
    if !own.is_empty() {
        text += &list(own.into_iter());
        text.push('\n');
    }
    if !is_topic && command.get_arguments().any(|one| is_of(&connection, one)) {
        text += "Also the [connection options](connection.md).\n\n";
    }
    text
}

fn list<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    arguments.map(|one| format!("- {}: {}\n", names(one), meaning(one))).collect()
}

fn names(argument: &Arg) -> String {
    let value = argument.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    let takes_value = argument.get_action().takes_values();
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| match (takes_value, argument.is_require_equals_set()) {
        (false, _) => format!("--{long}"),
        (true, false) => format!("--{long} {value}"),
        (true, true) => format!("--{long}[={value}]"),
    });
    let positional = argument.is_positional().then_some(value.clone());
    let words: Vec<String> = [short, long, positional].into_iter().flatten().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn meaning(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes_value && !values.is_empty() && !argument.is_hide_possible_values_set() {
        text += &format!(": {}", values.join(", "));
    }
    if takes_value && !argument.is_hide_default_value_set() && !argument.get_default_values().is_empty() {
        let values: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        text += &format!(" [default: {}]", values.join(" "));
    }
    if let Some(variable) = argument.get_env() {
        text += &format!(" [{}]", variable.to_string_lossy());
    }
    text.replace('\n', " ")
}
