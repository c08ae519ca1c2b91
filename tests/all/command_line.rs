//! The command line as a whole: help, settings file, completions, manual pages, how failures are told.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use clap::CommandFactory as _;
use command::{SettingsError, explain_refused, find_successor, list_gone};

use crate::servers::{self, Home};

/// Where a test's settings are looked for.
const SETTINGS: &str = "config/pgthaw/pgthaw.toml";

fn home_with_settings(text: &str) -> Home {
    let home = Home::new();
    fs::create_dir_all(home.path().join("config/pgthaw")).unwrap();
    fs::write(home.path().join(SETTINGS), text).unwrap();
    home
}

#[test]
fn a_wrong_setting_is_a_usage_error_that_names_the_file() {
    let home = home_with_settings("[restore]\nno_such_option = 1\n");
    let output = home.pgthaw(&["doctor"]).ends_with(2);
    assert!(
        output.stderr.contains("config/pgthaw/pgthaw.toml: restore.no-such-option: restore has no option"),
        "{}",
        output.stderr
    );
    assert!(output.stderr.contains("hint: "), "{}", output.stderr);
}

#[test]
fn with_json_the_failure_is_one_object() {
    let home = home_with_settings("[[");
    let output = home.pgthaw(&["doctor", "--json"]).ends_with(2);
    let failure: serde_json::Value = serde_json::from_str(&output.stderr).unwrap();
    assert_eq!(failure["kind"], "usage");
}

#[test]
fn a_full_standard_error_changes_no_exit_status() {
    let home = Home::new();
    for (arguments, status) in [(&["run", "--", "sh", "-c", "exit 9"][..], 9), (&["film", "show", "/nonexistent"], 1)] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = home.command(arguments).stderr(full).status().unwrap();
        assert_eq!(ended.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn forgotten_dashes_before_a_job_are_told_with_the_command_that_is_right() {
    let home = Home::new();
    for (arguments, right) in [
        (&["run", "psql", "-f", "x.sql"][..], "hint: pgthaw run -- psql -f x.sql"),
        (
            &["run", "--record-only", "--like", "nightly", "psql", "-f", "x.sql"],
            "hint: pgthaw run --record-only --like nightly -- psql -f x.sql",
        ),
    ] {
        let told = home.pgthaw(arguments).ends_with(2).stderr;
        assert!(told.contains("must follow `--`") && told.contains(right), "{told}");
    }
}

#[test]
fn help_comes_whatever_the_settings_are_like() {
    let home = home_with_settings("[[");
    assert!(home.pgthaw(&["restore", "--help"]).ok().stdout.contains("Usage: pgthaw restore"));
    // A forecast is of one database's workload, whatever -d means to others.
    for (command, is_of_all) in [("connection", true), ("predict", false)] {
        let help = home.pgthaw(&[command, "--help"]).ok().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(help.contains("every database of the cluster"), is_of_all, "{command}: {help}");
    }
    home.pgthaw(&["--version"]).ok();
}

#[test]
fn the_settings_of_the_documents_are_taken() {
    let document = include_str!("../../docs/settings.md");
    let (_, settings) = document.split_once("```toml\n").unwrap();
    home_with_settings(settings.split("```").next().unwrap()).pgthaw(&["completions", "bash"]).ok();
}

/// Commands that come to an end without a server.
const COMMANDS: [&str; 20] = [
    "agent setup -p 1",
    "agent status -p 1",
    "bench -p 1 --yes",
    "completions bash",
    "doctor -p 1 --require server",
    "evict -p 1",
    "film show",
    "hydrate -p 1",
    "judge /dev/null",
    "map -p 1",
    "predict -p 1",
    "ready -p 1",
    "report",
    "restore newest -p 1",
    "results list",
    "run -p 1 -- true",
    "snapshot list",
    "snapshot take -p 1",
    "top -p 1 --json",
    "waits -p 1 1",
];

/// Whoever can write to the directory could have put them there.
#[test]
fn settings_of_the_working_directory_are_not_read() {
    let home = Home::new();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pgthaw.toml");
    let hostile = "mode = '666'\nlab_servers = [1]\n[connection]\nhost = 'elsewhere.invalid'\n[serve]\nlisten = '0.0.0.0:1'\n\
                   [demo]\nbin-dir = 'elsewhere'\n[restore]\nno-such = 1\n";
    for command in COMMANDS {
        let end = || {
            let words: Vec<&str> = command.split(' ').collect();
            let output = servers::output_of(home.command(&words).current_dir(place.path()));
            assert!(
                !output.stderr.contains("elsewhere") && !output.stderr.contains("toml"),
                "{command}: {}",
                output.stderr
            );
            output.status
        };
        let _ = fs::remove_file(&file);
        let without = end();
        for (text, mode, owner) in
            [(hostile, 0o644, None), ("[[", 0o644, Some(65534)), ("", 0o644, None), (hostile, 0, None)]
        {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            if owner.is_some() && rustix::process::geteuid().is_root() {
                chown(&file, owner, None).unwrap();
            }
            assert_eq!(end(), without, "{command} beside {text:?} of {mode:o}");
            fs::remove_file(&file).unwrap();
        }
    }
}

#[test]
fn another_users_settings_are_refused() {
    let home = home_with_settings("");
    let file = home.path().join(SETTINGS);
    needs_root!();
    chown(&file, Some(65534), None).unwrap();
    let output = home.pgthaw(&["completions", "bash"]).ends_with(2);
    assert!(output.stderr.contains("belongs to another user"), "{}", output.stderr);
    let mut named = home.command(&["completions", "bash"]);
    assert!(named.env("PGTHAW_CONFIG", &file).status().unwrap().success());
    let file = file.to_str().unwrap();
    let help = home.pgthaw(&["--config", file, "map", "--help"]).ok().stdout;
    assert!(help.contains(&format!("[default: {file}]")), "the file is named: {help}");
    fs::write(file, "[[").unwrap();
    let named = format!("--config={file}");
    for arguments in [[&named, "completions", "bash"], ["completions", "bash", &named]] {
        let output = home.pgthaw(&arguments).ends_with(2);
        assert!(output.stderr.contains(file) && output.stderr.contains("TOML"), "{}", output.stderr);
    }
}

#[test]
fn what_was_mistyped_is_no_value() {
    let error = Home::new().pgthaw(&["map", "--bogus"]).ends_with(2).stderr;
    assert!(error.contains("unexpected argument '--bogus'") && !error.contains("as a value"), "{error}");
    let error = Home::new().pgthaw(&["map", "--schem"]).ends_with(2).stderr;
    assert!(error.contains("a similar argument exists: '--schema'"), "{error}");
    for (typed, meant) in [("mpa", "map"), ("fillm", "film"), ("prdict", "predict"), ("ma", "map")] {
        let error = Home::new().pgthaw(&[typed]).ends_with(2).stderr;
        assert!(error.contains("similar subcommand") && error.contains(&format!("'{meant}'")), "{typed}: {error}");
    }
    let error = Home::new().pgthaw(&["xyzzy"]).ends_with(2).stderr;
    assert!(error.contains("unrecognized subcommand") && !error.contains("similar"), "{error}");
}

#[test]
fn completions_know_every_command() {
    let script = Home::new().pgthaw(&["completions", "bash"]).ok().stdout;
    for command in ["doctor", "map", "snapshot", "restore", "evict", "bench", "results", "report", "judge", "predict"] {
        assert!(script.contains(command), "{command}");
    }
    Home::new().pgthaw(&["completions"]).ends_with(2);
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let home = Home::new();
    home.pgthaw(&["completions", "man", "man"]).ok();
    let page = fs::read_to_string(home.path().join("man/pgthaw-restore.1")).unwrap();
    assert!(page.contains(".TH"), "{page}");
}

#[test]
fn what_is_gone_names_its_successor() {
    for (gone, now) in [
        (
            &["bench", "warmup", "--scale", "10", "--disk", "gp3"][..],
            "`pgthaw bench STUDY KEY=VALUE`, such as scale=10",
        ),
        (&["bench", "sweep", "study.toml"], "hint: pgthaw bench FILE"),
        (&["demo"], "hint: pgthaw bench demo"),
        (&["steady", "run.txt"], "hint: pgthaw judge FILE"),
    ] {
        let told = Home::new().pgthaw(gone).ends_with(2).stderr;
        assert!(told.contains(now), "{told}");
    }
}

#[test]
fn what_stands_at_the_top_of_the_settings_is_known_to_the_commands() {
    let home = home_with_settings("lab_servers = [7391827364501928374]\n");
    assert!(home.pgthaw(&["evict", "--help"]).ok().stdout.contains("7391827364501928374"));
    assert!(home.pgthaw(&["bench", "--help"]).ok().stdout.contains("7391827364501928374"));
}

/// What the program that a line is for answers to it: pgthaw hands on the laboratory's commands.
fn explain_line(line: &str) -> Option<SettingsError> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let is_lab = ["bench", "results", "report", "serve", "judge"].iter().any(|command| words[1] == *command);
    let command = if is_lab { pgthaw_lab::Cli::command() } else { pgthaw::Cli::command() };
    match command.try_get_matches_from(&words) {
        Err(error) => explain_refused(&error, &words),
        // `bench` takes any word for a study, and asks when there is none of that name.
        Ok(_) => find_successor(&line.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>(), None),
    }
}

/// Every row is refused by the command line of today, and answered by its successor.
#[test]
fn whoever_types_what_is_gone_gets_its_successor() {
    for (gone, instead) in list_gone() {
        let found = explain_line(&format!("pgthaw {gone}"));
        assert!(matches!(found, Some(SettingsError::Gone { instead: found, .. }) if found == instead), "{gone}");
    }
    assert!(explain_line("pgthaw waits --lwlocks=5").is_some());
    for line in
        ["pgthaw map --lwlocks", "pgthaw no-such-command", "pgthaw waits --seconds x", "pgthaw bench study.toml"]
    {
        assert!(explain_line(line).is_none(), "{line}");
    }
}
