//! Ctrl-C and SIGTERM end pgthaw wherever it waits for somebody.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{self, Home};

/// A second is promised; a busy machine may take some more.
const LIMIT: Duration = Duration::from_secs(4);

const SIGNALS: [Signal; 2] = [Signal::INT, Signal::TERM];

/// Starts a command, waits until `is_waiting` says that it waits, and interrupts it.
#[track_caller]
fn ends_when_told(mut command: Command, signal: Signal, is_waiting: impl FnOnce()) {
    let shown = format!("{:?}", command.get_args().collect::<Vec<_>>());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    is_waiting();
    let told = Instant::now();
    kill_process(Pid::from_child(&child), signal).unwrap();
    while child.try_wait().unwrap().is_none() {
        if told.elapsed() > LIMIT {
            end(&mut child);
            panic!("{shown} goes on after {signal:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A server that takes connections and says nothing; tells whenever somebody has said something.
fn mute_server() -> (u16, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, came) = mpsc::channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 8]);
            held.push(stream);
            let _ = sender.send(());
        }
    });
    (port, came)
}

#[test]
fn where_a_server_never_answers() {
    let (port, came) = mute_server();
    let port = port.to_string();
    let home = Home::new();
    let url = format!("postgres://someone@127.0.0.1:{port}/postgres");
    let commands: [&[&str]; 8] = [
        &["map"],
        &["doctor"],
        &["evict", "--all"],
        &["snapshot", "take"],
        &["restore", "newest"],
        &["hydrate"],
        &["predict"],
        &["results", "--results", &url],
    ];
    for arguments in commands {
        for signal in SIGNALS {
            let mut command = home.command(arguments);
            command.env("PGHOST", "127.0.0.1").env("PGPORT", &port).env("PGUSER", "someone");
            // Some end by themselves before they come to it.
            let is_waiting = || _ = came.recv_timeout(Duration::from_secs(1));
            ends_when_told(command, signal, is_waiting);
        }
    }
}

#[test]
fn where_a_table_is_locked() {
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE TABLE t AS SELECT 1 AS i");
    let mut psql = server.command_of("psql");
    let mut holder = psql.args(["-X", "-c", "BEGIN; LOCK pg_class, pg_database; SELECT pg_sleep(60)"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for arguments in [&["map"][..], &["snapshot", "take"], &["evict", "--all", "--yes"], &["doctor"]] {
        for signal in SIGNALS {
            ends_when_told(server.command(arguments), signal, || std::thread::sleep(Duration::from_millis(500)));
        }
    }
    end(&mut holder);
}

#[test]
fn where_a_program_of_postgresql_does_not_end() {
    let home = Home::new();
    let programs = home.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    for name in ["initdb", "postgres", "pg_ctl", "pgbench", "psql"] {
        let text = match name {
            "initdb" => "#!/bin/sh\nexec sleep 60\n".to_owned(),
            _ => format!("#!/bin/sh\necho '{name} (PostgreSQL) 15.1'\n"),
        };
        std::fs::write(programs.join(name), text).unwrap();
        std::fs::set_permissions(programs.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for signal in SIGNALS {
        let mut command = home.command(&["bench", "demo", "scale=1", "seconds=1", "--dir"]);
        command.arg(home.path()).env("PGTHAW_BIN_DIR", &programs);
        ends_when_told(command, signal, || std::thread::sleep(Duration::from_millis(1500)));
    }
}
