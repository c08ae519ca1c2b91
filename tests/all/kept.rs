//! What pgthaw keeps, where others may write, and where no file stands.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

use crate::servers::{self, Home, Output, TestServer};

const NOBODY: u32 = 65_534;

/// What waits for somebody who never comes is ended, and fails.
const PATIENCE: Duration = Duration::from_secs(20);

fn ended(mut command: Command) -> Output {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            let output = Output::from(child.wait_with_output().unwrap());
            panic!("it waits: {command:?}\n{}\n{}", output.stdout, output.stderr);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap().into()
}

fn list(server: &TestServer) -> Vec<Value> {
    server.pgthaw(&["snapshot", "list", "--json"]).ok().json()["snapshots"].as_array().unwrap().clone()
}

fn take(server: &TestServer) -> PathBuf {
    server.pgthaw(&["snapshot", "take", "--json"]).ok().json()["path"].as_str().unwrap().into()
}

#[test]
fn a_snapshot_from_the_future_costs_no_later_one() {
    let server = servers::start_any(&[]);
    let first = take(&server);
    // Taken by a clock that was ahead: seven of them are all that is kept.
    for number in 0..7 {
        fs::copy(&first, first.with_file_name(format!("2099010{}-000000.000.parquet", number + 1))).unwrap();
    }
    for _ in 0..3 {
        let taken = take(&server);
        assert!(taken.exists(), "what was just taken is there");
        assert_eq!(list(&server)[0]["path"].as_str(), taken.to_str(), "and it is the newest");
    }
}

#[test]
fn nothing_is_dropped_by_no_name() {
    let server = servers::start_any(&[]);
    let kept = take(&server);
    for name in ["", "..", "/", ".", "*", " "] {
        server.pgthaw(&["snapshot", "drop", name]).ends_with(2);
    }
    server.pgthaw(&["snapshot", "drop", kept.to_str().unwrap()]).ends_with(2);
    assert!(kept.exists());
}

#[test]
fn what_is_no_file_in_the_store_is_listed_with_its_reason() {
    let server = servers::start_any(&[]);
    let kept = take(&server);
    let secret = server.home().join("elsewhere.parquet");
    fs::copy(&kept, &secret).unwrap();
    symlink(&secret, kept.with_file_name("20990101-000000.000.5.parquet")).unwrap();
    mknodat(CWD, kept.with_file_name("20990101-000000.000.6.parquet"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    fs::create_dir(kept.with_file_name("20990101-000000.000.7.parquet")).unwrap();
    let _socket = UnixListener::bind(kept.with_file_name("20990101-000000.000.8.parquet")).unwrap();
    for arguments in [
        &["snapshot", "list", "--json"][..],
        &["snapshot", "list", "--verify", "--all", "--json"],
        &["snapshot", "show", "newest"],
        &["snapshot", "diff"],
        &["snapshot", "take"],
        &["restore", "--dry-run"],
        &["snapshot", "drop", "20990101-000000.000.6"],
    ] {
        let output = ended(server.command(arguments));
        assert!(!output.stderr.contains("panicked"), "{arguments:?}: {}", output.stderr);
    }
    let listed = list(&server);
    let reasons: Vec<String> = listed.iter().map(|one| one["error"].to_string()).collect();
    for reason in ["a directory", "a symbolic link", "a pipe, a socket or a device"] {
        assert!(reasons.iter().any(|told| told.contains(reason)), "{reason}: {listed:?}");
    }
    server.pgthaw(&["snapshot", "drop", "20990101-000000.000.5"]).ok();
    assert!(secret.exists());
}

/// A pipe, a socket and a device, where a file is meant.
fn no_files(home: &Path) -> (UnixListener, Vec<String>) {
    let path = |name: &str| home.join(name);
    mknodat(CWD, path("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let socket = UnixListener::bind(path("socket")).unwrap();
    let named = ["pipe", "socket"].map(|name| path(name).to_str().unwrap().to_owned());
    (socket, named.into_iter().chain(["/dev/zero".to_owned()]).collect())
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let home = Home::new();
    let (_socket, named) = no_files(home.path());
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    home.pgthaw(&["results", "import", log.to_str().unwrap(), "clients=1"]).ok();
    let made = |mut command: Command, more: &dyn Fn(&mut Command)| {
        more(&mut command);
        command
    };
    for name in &named {
        let told = |arguments: &[&str]| {
            let output = ended(home.command(arguments));
            assert!(output.status != 0 && !output.stderr.contains("panicked"), "{arguments:?}: {}", output.stderr);
            output.stderr
        };
        for text in [
            told(&["results", "--results", name]),
            told(&["results", "import", log.to_str().unwrap(), "clients=1", "--results", name]),
            told(&["serve", "--token-file", name, "--listen", "0"]),
            told(&["report", "--force", "-o", name]),
            ended(made(home.command(&["results"]), &|command| {
                command.env("PGTHAW_CONFIG", name);
            }))
            .stderr,
        ] {
            assert!(text.contains("not a regular file"), "{name}: {text}");
        }
        assert!(fs::symlink_metadata(name).is_ok_and(|facts| !facts.is_file()), "{name} stays what it was");
    }
    let told = ended(home.command(&["results", "export", "-o", &named[0]])).ends_with(1).stderr;
    assert!(told.contains("no process reads"), "{told}");
    home.pgthaw(&["results", "export", "-o", "/dev/null"]).ok();
}

#[test]
fn a_token_comes_through_a_pipe_that_has_no_name() {
    let home = Home::new();
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    home.pgthaw(&["results", "import", log.to_str().unwrap(), "clients=1"]).ok();
    for named in ["-", "/dev/stdin", "/dev/fd/0"] {
        let mut shell = Command::new("sh");
        let serve = home.command(&["serve", "--listen", "0", "--json", "--token-file", named]);
        // It serves: a second is enough to see that it did not refuse.
        shell.args(["-c", "echo 0123456789abcdef | timeout 1 \"$0\" \"$@\""]).arg(serve.get_program());
        shell.args(serve.get_args()).current_dir(home.path()).env("XDG_STATE_HOME", home.path().join("state"));
        let output = servers::output_of(&mut shell);
        assert!(output.stdout.contains("\"needs_token\": true"), "{named}: {}{}", output.stdout, output.stderr);
    }
}

/// A directory of another user, whom root must not follow.
fn foreign(home: &Home) -> PathBuf {
    let directory = home.path().join("his");
    fs::create_dir(&directory).unwrap();
    chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    directory
}

#[test]
fn root_writes_in_a_directory_of_another_as_he() {
    needs_root!();
    let home = Home::new();
    let his = foreign(&home);
    let roots = home.path().join("roots");
    fs::create_dir(&roots).unwrap();
    fs::set_permissions(&roots, Permissions::from_mode(0o700)).unwrap();
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    let import = ["results", "import", log.to_str().unwrap(), "clients=1"];
    let store = his.join("state/results.sqlite");
    let results = ["--results", store.to_str().unwrap()];
    home.pgthaw(&[&import[..], &results].concat()).ok();
    let written = |name: &str| his.join(name);
    for (command, name) in [(["report", "-o"], "report.html"), (["results", "export"], "trials.csv")] {
        let output = if command[1] == "-o" { &[][..] } else { &["-o"][..] };
        home.pgthaw(&[&command[..], output, &[written(name).to_str().unwrap()], &results].concat()).ok();
    }
    for path in [store.clone(), his.join("state"), written("report.html"), written("trials.csv")] {
        assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY, "{}", path.display());
    }
    // He puts links to what is root's in the way.
    let victim = roots.join("victim");
    fs::write(&victim, "mine").unwrap();
    for (name, target) in [("report2.html", &victim), ("trials2.csv", &victim), ("store2.sqlite", &roots.join("new"))] {
        symlink(target, written(name)).unwrap();
        std::os::unix::fs::lchown(written(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    home.pgthaw(&[&["report", "--force", "-o", written("report2.html").to_str().unwrap()][..], &results].concat());
    home.pgthaw(&[&["results", "export", "-o", written("trials2.csv").to_str().unwrap()][..], &results].concat());
    let planted = written("store2.sqlite");
    home.pgthaw(&[&import[..], &["--results", planted.to_str().unwrap()]].concat());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(fs::read_dir(&roots).unwrap().count(), 1, "nothing was made there");
}

#[test]
fn what_a_kill_left_is_swept() {
    let home = Home::new();
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    home.pgthaw(&["results", "import", log.to_str().unwrap(), "clients=1"]).ok();
    for run in [&["report", "-o", "report.html"][..], &["results", "export", "-o", "trials.csv"]] {
        let left = home.path().join(".pgthaw-draft-0123456789abcdef");
        fs::write(&left, "half").unwrap();
        home.pgthaw(run).ok();
        assert!(!left.exists(), "{run:?}");
    }
}
