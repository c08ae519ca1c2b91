//! What a server that pgthaw starts is told of the environment that pgthaw runs in.

use std::fs;
use std::path::Path;

use postgres::{DataDirectory, Lender};

use crate::bench::terminate;
use crate::servers;

/// Where programs and libraries are, languages and the time zone; and what sh and pg_ctl set themselves.
const HARMLESS: [&str; 12] =
    ["PATH", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "LC_ALL", "TZ", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "PGDATA"];

/// The variables that the server of a data directory was started with, a line each.
fn variables(data_directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(data_directory.join("postmaster.pid")).unwrap();
    let environment = fs::read(format!("/proc/{}/environ", text.lines().next().unwrap())).unwrap();
    let variables = environment.split(|byte| *byte == 0).filter(|variable| !variable.is_empty());
    variables.map(|variable| String::from_utf8_lossy(variable).into_owned()).collect()
}

/// Has it none of this process's?
#[track_caller]
fn assert_plain(data_directory: &Path) {
    let variables = variables(data_directory);
    assert!(variables.iter().any(|variable| variable.starts_with("PATH=")), "{variables:?}");
    let own: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
    for variable in &variables {
        let name = variable.split('=').next().unwrap_or_default();
        assert!(HARMLESS.contains(&name) || !own.iter().any(|one| one == name), "{name} was handed over");
    }
}

#[test]
fn a_server_has_no_variable_of_who_started_it_but_what_it_needs() {
    // The tester's own, which a server needs as little as a password.
    if std::env::var_os("CARGO_MANIFEST_DIR").is_none() || std::env::var_os("HOME").is_none() {
        untested!(machine: "this process has no variables that could be handed over");
    }
    let server = servers::start_any(&[]);
    let directory = server.data_directory();
    assert_plain(&directory);
    let version = servers::servers().last().unwrap().0;
    let lender = Lender::stop(DataDirectory::open(&directory).unwrap(), &servers::programs(version)).unwrap();
    lender.start_again().unwrap();
    assert_eq!(server.psql("SELECT 1"), "1");
    assert_plain(&directory);
    terminate(&directory);
}

/// With the program itself, as a user runs it who has secrets.
#[test]
fn a_scratch_server_does_not_know_the_secrets_of_who_started_it() {
    use std::process::Stdio;
    let (home, place) = (servers::Home::new(), crate::bench::Place::new());
    let mut command =
        place.command(&home, 15, &["bench", "warmup", "scale=1", "seconds=3", "rate=100", "strategy=nothing"]);
    command.env("PGPASSWORD", "gq7password").env("SECRET_X", "gq7secret").env("AWS_SESSION", "gq7session");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = 0;
    while child.try_wait().unwrap().is_none() {
        for entry in fs::read_dir(place.0.path()).unwrap().flatten() {
            let directory = entry.path().join("data");
            // It comes and goes.
            let Ok(text) = fs::read_to_string(directory.join("postmaster.pid")) else { continue };
            let pid = text.lines().next().unwrap_or_default().to_owned();
            let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { continue };
            let environment = String::from_utf8_lossy(&environment).into_owned();
            assert!(!environment.contains("gq7"), "{environment:?}");
            seen += usize::from(environment.contains("PATH="));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(child.wait().unwrap().success() && seen > 0, "{seen}");
}
