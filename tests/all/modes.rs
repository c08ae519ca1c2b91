//! What pgthaw writes is its owner's alone, whatever the umask was; more is asked for.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::Place;
use crate::places::attackers;
use crate::servers::{self, Home, Output, TestServer};
use crate::sweep::spec;

/// The command, begun with another umask.
fn with_umask(umask: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(command.get_program());
    shell.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// All that is below a directory, with its mode.
fn walk(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let facts = fs::symlink_metadata(&entry).unwrap();
        found.push((entry.clone(), facts.mode() & 0o7777));
        if facts.is_dir() {
            found.extend(walk(&entry));
        }
    }
    found
}

#[track_caller]
fn assert_modes(written: &[(PathBuf, u32)], file: u32, directory: u32) {
    assert!(!written.is_empty());
    for (path, mode) in written {
        let wanted = if path.is_dir() { directory } else { file };
        assert_eq!(*mode, wanted, "{}: {mode:o} is not {wanted:o}", path.display());
    }
}

/// What each command writes that keeps something, of a server.
fn write_all(server: &TestServer, umask: &str, more: &[&str]) -> Vec<(PathBuf, u32)> {
    let place = server.home().join("written");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir(&place).unwrap();
    let log = server.home().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = server.command(&[arguments, more].concat());
        command.env("XDG_STATE_HOME", place.join("state")).current_dir(&place);
        Output::from(with_umask(umask, &command).output().unwrap())
    };
    run(&["snapshot", "take"]).ok();
    run(&["snapshot", "take", "-o", "mine.parquet"]).ok();
    run(&["results", "import", log.to_str().unwrap(), "clients=1"]).ok();
    run(&["report"]).ok();
    for format in ["csv", "json", "parquet"] {
        run(&["results", "export", "-o", &format!("trials.{format}")]).ok();
    }
    // On a file system that has no device there is nothing to read from.
    run(&["hydrate"]);
    run(&["doctor", "--probe=16MiB"]);
    walk(&place)
}

#[test]
fn all_that_is_written_is_its_owners_alone() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('x', 900) FROM generate_series(1, 2000) AS i; CHECKPOINT");
    for umask in ["000", "022"] {
        let written = write_all(&server, umask, &[]);
        assert_modes(&written, 0o600, 0o700);
        let names: Vec<String> = written.iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect();
        for wanted in ["results.sqlite", ".html", "mine.parquet", "trials.csv", "trials.parquet", "snapshots/"] {
            assert!(names.iter().any(|name| name.contains(wanted)), "{wanted} is not among {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("/.pgthaw")), "no draft stays: {names:?}");
    }
}

#[test]
fn so_it_is_of_the_servers_user_and_of_nobody() {
    needs_root!();
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_buffercache");
    for uid in attackers() {
        let place = server.home().join(format!("of-{uid}"));
        fs::create_dir(&place).unwrap();
        chown(&place, Some(uid), Some(uid)).unwrap();
        fs::set_permissions(&place, Permissions::from_mode(0o700)).unwrap();
        fs::write(place.join("pgbench_log.7"), "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
        chown(place.join("pgbench_log.7"), Some(uid), Some(uid)).unwrap();
        fs::set_permissions(place.join("pgbench_log.7"), Permissions::from_mode(0o600)).unwrap();
        for arguments in [
            &["snapshot", "take"][..],
            &["snapshot", "take", "-o", "mine.parquet"],
            &["results", "import", "pgbench_log.7", "clients=1"],
            &["report"],
            &["results", "export", "-o", "trials.csv"],
        ] {
            let mut command = server.command_for_others(arguments);
            command.env("XDG_STATE_HOME", place.join("state")).env("HOME", &place).current_dir(&place);
            Output::from(with_umask("000", &command).uid(uid).gid(uid).output().unwrap()).ok();
        }
        let written = walk(&place);
        assert_modes(&written, 0o600, 0o700);
        assert!(written.len() > 6, "{written:?}");
        assert!(written.iter().all(|(path, _)| fs::metadata(path).unwrap().uid() == uid), "{uid}: {written:?}");
    }
}

#[test]
fn a_wider_mode_is_asked_for() {
    let server = servers::start_any(&[]);
    assert_modes(&write_all(&server, "077", &["--mode", "640"]), 0o640, 0o750);
    fs::create_dir(server.home().join("config")).unwrap();
    fs::create_dir(server.home().join("config/pgthaw")).unwrap();
    fs::write(server.home().join("config/pgthaw/pgthaw.toml"), "mode = '644'\n").unwrap();
    assert_modes(&write_all(&server, "077", &[]), 0o644, 0o755);
    let refused = server.pgthaw(&["map", "--mode", "777"]).ends_with(2).stderr;
    assert!(refused.contains("--mode"), "{refused}");
}

#[test]
fn a_store_keeps_the_mode_that_its_owner_gave_it() {
    let home = Home::new();
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    let import = |question: &str| {
        home.pgthaw(&["results", "import", log.to_str().unwrap(), "clients=1", &format!("question={question}")]).ok();
    };
    import("one");
    let store = home.path().join("state/pgthaw/results.sqlite");
    fs::set_permissions(&store, Permissions::from_mode(0o664)).unwrap();
    home.pgthaw(&["results", "drop", "newest"]).ok();
    import("two");
    assert_eq!(fs::metadata(&store).unwrap().mode() & 0o777, 0o664);
}

/// Logs and tables that a study makes while it runs.
#[test]
fn what_a_study_makes_while_it_runs_is_private_too() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(&home, "repeats = 1\n[points]\nclients = 1\nseconds = 2\nrate = 100\n");
    let command = crate::sweep::sweep(&place, &home, 15, path.to_str().unwrap(), &["--quiet"]);
    let mut running = with_umask("000", &command).spawn().unwrap();
    let mut seen = BTreeSet::new();
    while running.try_wait().unwrap().is_none() {
        seen.extend(look(place.0.path()));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(running.wait().unwrap().success());
    assert!(seen.iter().any(|(path, _)| path.to_string_lossy().contains("pgbench")), "{seen:?}");
    for (path, mode) in &seen {
        // Its directory is entered by the server's user; what is in it is not read by others.
        assert_eq!(mode & 0o066, 0, "{}: {mode:o}", path.display());
    }
    assert_modes(&walk(&home.path().join("state")), 0o600, 0o700);
}

/// As [`walk`], of what comes and goes; sockets have modes of their own, and what is below a directory that is closed is nobody's.
fn look(directory: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Ok(facts) = fs::symlink_metadata(&entry) else { continue };
        if facts.is_file() || facts.is_dir() {
            found.push((entry.clone(), facts.mode() & 0o7777));
        }
        if facts.is_dir() {
            found.extend(look(&entry));
        }
    }
    found
}

#[test]
fn manual_pages_are_for_everybody() {
    let home = Home::new();
    home.pgthaw(&["completions", "man", "man"]).ok();
    assert_modes(&walk(&home.path().join("man")), 0o644, 0o755);
}
