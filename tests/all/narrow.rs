//! What is printed on a terminal of 80 columns, and on narrower ones: no line is wider, unless it is a command that a reader
//! pastes, or the name of a file.

use std::ffi::OsStr;
use std::process::Command;

use clap::CommandFactory as _;
use console::{measure_text_width, strip_ansi_codes};
use pgthaw::Cli;

use crate::every_study::make_residency;
use crate::results::keep;
use crate::servers::{self, Home, Output, output_of};
use crate::synthetic_sweep::{self, Shape};
use crate::{report_sweep, synthetic_run};

/// Runs a command on a terminal of this width. What it prints on standard error comes with the rest.
fn on_terminal(command: &Command, width: usize) -> Output {
    on_terminal_of(command, 24, width)
}

/// Runs a command on a terminal that says that it has so many lines and columns.
fn on_terminal_of(command: &Command, rows: usize, width: usize) -> Output {
    let words = [command.get_program()].into_iter().chain(command.get_args()).map(OsStr::to_str);
    let words = shlex::try_join(words.map(Option::unwrap)).unwrap();
    let mut script = Command::new("script");
    script
        .args(["-qec", &format!("stty rows {rows} cols {width}; exec {words}"), "/dev/null"])
        .env("TERM", "xterm-256color");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.current_dir(command.get_current_dir().unwrap()).env("LC_ALL", "C.UTF-8").env("SHELL", "/bin/sh");
    let output = output_of(&mut script);
    let stdout = strip_ansi_codes(&output.stdout).replace('\r', "");
    Output { stdout, ..output }
}

#[test]
fn a_terminal_without_a_screen_gets_lines_or_is_told() {
    let server = servers::start_any(&[]);
    let mut top = server.command(&["top", "--source", "sql"]);
    let refused = on_terminal(top.env("TERM", "dumb"), 80).ends_with(1).stdout;
    assert!(refused.contains("TERM is dumb") && refused.contains("--json"), "{refused}");
    let mut lines = server.command(&["top", "--source", "sql", "--seconds", "1", "--json"]);
    assert!(on_terminal(lines.env("TERM", "dumb"), 80).ok().stdout.contains("{\""));
}

#[test]
fn who_records_seconds_sees_them_go_by() {
    let server = servers::start_any(&[]);
    let shown =
        on_terminal(&server.command(&["film", "record", "--seconds", "2", "--like", "seconds"]), 80).ok().stdout;
    assert!(shown.contains("recording (seconds)") && shown.contains("kept a film"), "{shown}");
    let quiet =
        on_terminal(&server.command(&["film", "record", "--seconds", "1", "--like", "quiet", "-q"]), 80).ok().stdout;
    assert!(!quiet.contains("(seconds)"), "{quiet}");
}

/// Panics with the lines that are too wide.
#[track_caller]
fn assert_fits(text: &str, width: usize) {
    // A command of its own line, or the name of a file.
    const BEGINS: [&str; 10] =
        ["pgthaw ", "psql ", "sudo ", "runuser ", "for d in ", "setcap ", "mount ", "apt-get ", "chmod ", "'/"];
    let is_command = |line: &str| BEGINS.iter().any(|begin| line.trim().starts_with(begin));
    let is_word = |line: &str| !line.trim().contains(' ');
    let is_wide = |line: &&str| measure_text_width(line) > width && !is_command(line) && !is_word(line);
    let wide: Vec<&str> = text.lines().filter(is_wide).collect();
    assert!(wide.is_empty(), "wider than {width}: {wide:#?} of\n{text}");
}

/// The words that lead to every command.
fn command_paths() -> Vec<Vec<String>> {
    fn walk(command: &clap::Command, path: &[String], paths: &mut Vec<Vec<String>>) {
        for one in command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
            let path = [path, &[one.get_name().to_owned()]].concat();
            walk(one, &path, paths);
            paths.push(path);
        }
    }
    let mut paths = Vec::new();
    for program in [Cli::command(), pgthaw_lab::Cli::command()] {
        walk(&program, &[], &mut paths);
    }
    // The tool shows the laboratory's commands beside its own.
    paths.sort();
    paths.dedup();
    paths
}

#[test]
fn every_help_fits() {
    let home = Home::new();
    for path in [vec![]].into_iter().chain(command_paths()) {
        let mut arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = on_terminal(&home.command(&arguments), 80).ok().stdout;
        assert!(help.contains("Usage: pgthaw"), "{help}");
        assert_fits(&help, 80);
    }
}

#[test]
fn what_is_said_of_a_server_fits() {
    let server = servers::start_any(&[("shared_buffers", "16MB")]);
    let name = "a_name_as_long_as_postgresql_lets_one_be_which_is_63_characters";
    server.psql(&format!(
        "CREATE EXTENSION pg_buffercache; CREATE TABLE {name} AS SELECT generate_series(1, 200000) AS i"
    ));
    server.pgthaw(&["snapshot", "take"]).ok();
    let model = ["pages=100000", "hit=0.2ms", "riops=3000", "clients=8", "--what-if", "riops=16000"];
    let predict = [&["predict"], &model[..]].concat();
    let commands: [&[&str]; 25] = [
        &["doctor"],
        &["map"],
        &["map", "--by", "fork", "--top", "0"],
        &["map", "-r", "no_such_relation"],
        &["snapshot", "take"],
        &["snapshot", "list"],
        &["snapshot", "show", "newest"],
        &["snapshot", "show", "no-such-snapshot"],
        &["snapshot", "diff", "newest~1", "newest"],
        &["restore", "--dry-run", "-q"],
        &["evict", "--all"],
        &["evict", "--all", "--yes", "-q", "-v"],
        &["restore", "-q", "-v"],
        &["hydrate", "-q"],
        &["film", "record", "--seconds", "1", "--like", "a", "-q"],
        &["film", "show"],
        &["film", "show", "a"],
        &["predict", "--film", "a", "--what-if", "memory=1GiB"],
        &["film", "record", "--seconds", "1", "--like", "b", "-q"],
        &["film", "drop", "b"],
        &predict,
        &["waits", "--seconds", "1", "-q"],
        &["waits", "--seconds", "1", "-q", "--by", "query", "--source", "sql"],
        &["top", "--listen", "127.0.0.1:0", "--by", "query"],
        &["doctor", "--require", "no-such-thing"],
    ];
    for arguments in commands {
        for width in [80, 60] {
            assert_fits(&on_terminal(&server.command(arguments), width).stdout, width);
        }
    }
}

/// Only root can be a user without privileges.
#[test]
fn what_is_to_be_copied_stays_whole() {
    needs_root!();
    let server = servers::start_any(&[]);
    let setcap = "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v pgthaw)";
    let state = server.home().join("a state with a long name and with spaces in it");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let as_stranger = |arguments: &[&str]| {
        let mut command = server.command_for_others(&[]);
        let program = command.get_program().to_owned();
        let mut wrapped = Command::new("setpriv");
        wrapped.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]).arg(program).args(arguments);
        command.env("XDG_STATE_HOME", &state).get_envs().for_each(|(name, value)| {
            wrapped.env(name, value.unwrap_or_default());
        });
        on_terminal(wrapped.current_dir(server.home()), 80).stdout
    };
    let told = as_stranger(&["doctor"]);
    assert!(told.lines().any(|line| line.trim() == setcap), "{told}");
    server.psql("CREATE EXTENSION pg_buffercache");
    let taken = as_stranger(&["snapshot", "take", "-U", "postgres"]);
    let path = |line: &&str| line.trim().starts_with(&format!("'{}/pgthaw/snapshots/", state.display()));
    let line = taken.lines().find(path).unwrap_or_else(|| panic!("{taken}"));
    assert!(line.ends_with(".parquet'"), "{taken}");
    let mut record = server.command(&["run", "--record-only", "--like", "a", "--", "true"]);
    let recorded = on_terminal(record.env("XDG_STATE_HOME", &state), 80).stdout;
    let path = |line: &str| line.trim().starts_with(&format!("'{}/pgthaw/films/", state.display()));
    assert!(recorded.lines().any(|line| path(line) && line.ends_with("-a.parquet'")), "{recorded}");
}

#[test]
fn what_was_measured_fits() {
    let home = Home::new();
    let path = home.path().join("state/pgthaw/results.sqlite");
    let (run, trials) = synthetic_run::make(3, 20);
    keep(&path, &run, &trials);
    let (idle, idle_trials) = make_residency();
    let (sweep, sweep_trials) = synthetic_sweep::make(&Shape {
        scales: &[10, 1000],
        clients: &[1, 64],
        buffers: &["128MB", "16GB"],
        strategies: &["nothing", "pgthaw"],
        repeats: 3,
        seconds: 20,
    });
    report_sweep::keep(&path, &idle, &idle_trials);
    report_sweep::keep(&path, &sweep, &sweep_trials);
    for id in [&run.id, &idle.id, &sweep.id] {
        for width in [80, 60] {
            assert_fits(&on_terminal(&home.command(&["results", "show", id]), width).ok().stdout, width);
        }
    }
    assert_fits(&on_terminal(&home.command(&["results"]), 80).ok().stdout, 80);
    assert_fits(&on_terminal(&home.command(&["judge", &run.id]), 80).stdout, 80);
}

#[test]
fn a_terminal_that_does_not_know_its_size_has_80_columns() {
    let home = Home::new();
    for arguments in [["doctor", "-h", "/nowhere"].as_slice(), &["doctor", "--help"]] {
        for (rows, columns) in [(0, 0), (0, 200), (24, 0)] {
            let shown = on_terminal_of(&home.command(arguments), rows, columns).stdout;
            assert!(shown.lines().count() > 3, "{shown}");
            assert_fits(&shown, 80);
        }
    }
}

#[test]
fn a_pipe_gets_whole_lines() {
    let home = Home::new();
    let refused = home.pgthaw(&["doctor", "--require", "no-such-thing"]).ends_with(2);
    assert!(refused.stderr.lines().any(|line| line.contains("verdict, server, data-dir") && line.ends_with("fio]")));
    let lines = home.pgthaw(&["doctor", "-h", "/nowhere"]).ends_with(3).stdout;
    assert!(lines.lines().any(|line| measure_text_width(line) > 100), "{lines}");
}
