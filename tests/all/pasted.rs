//! A command that pgthaw prints does what it says when it is pasted, whatever databases, roles and directories are called.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::servers::{self, TestServer};

/// Built from what pgthaw completes in a command, from what ends a quoted word, and from what leads psql elsewhere.
const NAMES: [&str; 14] = [
    "`pgthaw map $(touch x)`",
    "pgthaw map $(touch x)",
    "pgthaw … $(touch x)",
    "sudo pgthaw … $(touch x)",
    "psql -d $(touch x)",
    "x; do psql -d $(touch x)",
    "'x; do psql -d '$(touch x)",
    "`GRANT pg_monitor TO …`; touch x",
    "CREATE EXTENSION '; touch x; '",
    "\"; do psql -d \"$(touch x)",
    "a'\u{2028}`touch x`\\",
    "dbname=x host=$(touch x)",
    "postgresql://x/$(touch x)",
    "-c \\! touch x",
];

/// Logs its arguments: a zero byte after each, and another one after the call.
const SHIM: &str = "#!/bin/sh\nprintf '%s\\0' \"$0\" \"$@\" >> \"$CALLS\"; printf '\\0' >> \"$CALLS\"\n";

/// The commands that an answer advises: in JSON those of its remedies and hints, in text what stands between backticks behind `hint: `.
fn commands_in(answer: &str) -> BTreeSet<String> {
    fn visit(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| visit(one, found)),
            Value::Object(fields) => {
                let advice = ["remedy", "hint"].iter().filter_map(|name| fields.get(*name)?.as_str());
                found.extend(advice.map(str::to_owned));
                fields.values().for_each(|one| visit(one, found));
            }
            _ => {}
        }
    }
    let mut advice = Vec::new();
    match serde_json::from_str(answer) {
        Ok(answer) => visit(&answer, &mut advice),
        Err(_) => {
            advice.extend(answer.split("hint: ").skip(1).map(|hint| hint.replace("\n  ", " ")));
            // A line of its own is a command without backticks; with them it may be a name.
            advice.extend(answer.lines().map(|line| line.trim().to_owned()).filter(|line| !line.contains('`')));
        }
    }
    let is_bare = |text: &&String| ["psql ", "sudo ", "pgthaw ", "for "].iter().any(|begin| text.starts_with(begin));
    let bare = advice.iter().filter(is_bare).cloned();
    let marked = advice.iter().flat_map(|text| text.split('`').skip(1).step_by(2).map(str::to_owned));
    bare.chain(marked).collect()
}

/// The arguments that each program gets when the command is pasted into a shell.
fn paste(command: &str, shims: &Path) -> Vec<Vec<String>> {
    let place = tempfile::tempdir().unwrap();
    let calls = shims.join("calls");
    let _ = fs::remove_file(&calls);
    let path = format!("{}:/usr/bin:/bin", shims.display());
    let pasted = Command::new("bash")
        .args(["-c", command])
        .current_dir(place.path())
        .env("PATH", path)
        .env("CALLS", &calls)
        .output();
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{command} made {left:?}: {:?}", pasted.unwrap());
    let calls = fs::read_to_string(&calls).unwrap_or_default();
    calls.split("\0\0").map(|call| call.split('\0').map(str::to_owned).collect()).collect()
}

fn server_of(names: &[&str]) -> TestServer {
    let server = servers::start_any(&[]);
    for name in names {
        let name = name.replace('"', "\"\"");
        server.psql(&format!("CREATE DATABASE \"{name}\""));
        server.psql(&format!("CREATE ROLE \"{name}\" LOGIN"));
    }
    server
}

#[test]
fn what_a_shell_splits_is_what_was_meant() {
    let server = server_of(&NAMES);
    let shims = tempfile::tempdir().unwrap();
    for program in ["psql", "sudo", "pgthaw"] {
        fs::write(shims.path().join(program), SHIM).unwrap();
        fs::set_permissions(shims.path().join(program), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let advised = |arguments: &[&str]| {
        let output = server.pgthaw(arguments);
        commands_in(&output.stdout).into_iter().chain(commands_in(&output.stderr))
    };
    // Of all of them at once.
    let mut commands: BTreeSet<String> = advised(&["doctor", "--json"]).chain(advised(&["doctor"])).collect();
    for name in NAMES {
        let database = format!("dbname='{}'", name.replace('\\', r"\\").replace('\'', r"\'"));
        let store = server.home().join(name.replace('/', "_"));
        let store = store.to_str().unwrap();
        for command in [
            &["doctor"][..],
            &["map", "--json"],
            &["snapshot", "take", "--dir", store],
            &["restore", "best", "--json", "--dir", store],
        ] {
            commands.extend(advised(&[command, &["-U", name, "-d", &database]].concat()));
        }
    }
    let loops = commands.iter().filter(|command| command.starts_with("for d in "));
    assert!(loops.clone().count() > 1, "{commands:#?}");
    assert!(loops.clone().all(|command| command.contains(" -h ")), "each leads to the server: {commands:#?}");
    let mut named = BTreeSet::new();
    for command in &commands {
        for call in paste(command, shims.path()) {
            for word in call.iter().filter(|word| word.contains("touch")) {
                // As a word, a connection string, an identifier or a file have it.
                let is_of = |name: &&&str| {
                    let escaped = name.replace('\\', r"\\").replace('\'', r"\'");
                    let forms = [(**name).to_owned(), escaped, name.replace('"', "\"\""), name.replace('/', "_")];
                    forms.iter().any(|form| word.contains(&**form))
                };
                let of = NAMES.iter().filter(is_of).max_by_key(|name| name.len());
                named.insert(*of.unwrap_or_else(|| panic!("{command} has {word:?} in {call:?}")));
            }
        }
    }
    assert_eq!(named.len(), NAMES.len(), "{named:?} of {commands:#?}");
}
