//! What a server says before it lets anybody in, or what keeps one from being reached: each error says what happened, and its
//! hint what to do about that.

use std::net::TcpListener;
use std::thread;

use crate::lying_server::{listen, message};
use crate::servers::Home;

/// Commands that begin with a connection.
const COMMANDS: [&[&str]; 5] =
    [&["map"], &["snapshot", "take"], &["waits", "--seconds", "1"], &["top", "--json"], &["doctor"]];

/// The port of a server that lets nobody in: with this SQLSTATE, message and detail.
fn refuse(state: &str, told: &str, detail: &str) -> u16 {
    let fields = format!("SFATAL\0VFATAL\0C{state}\0M{told}\0D{detail}\0\0");
    listen(Some(message(b'E', fields.as_bytes())), Box::new(|_, _, _| None))
}

/// The port of one that breaks each connection off.
fn break_off() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().for_each(drop));
    port
}

/// What each command says of such a server has all of these words.
#[track_caller]
fn assert_told(port: u16, sslmode: &str, words: &[&str]) {
    let home = Home::new();
    let port = port.to_string();
    for command in COMMANDS {
        let way = [command, &["-h", "127.0.0.1", "-p", &port, "-U", "ann"]].concat();
        let output = crate::servers::output_of(home.command(&way).env("PGSSLMODE", sslmode));
        let told = format!("{}{}", output.stdout, output.stderr);
        assert!(output.status == 1 || output.status == 3, "{told}");
        for word in words {
            assert!(told.contains(word), "{command:?} does not say {word:?}:\n{told}");
        }
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    let cases: [(u16, &[&str]); 6] = [
        (
            refuse("57P03", "the database system is not accepting connections", "Hot standby mode is disabled."),
            &["not accepting connections (Hot standby mode is disabled)", "hot_standby = off"],
        ),
        (refuse("57P03", "the database system is shutting down", ""), &["shutting down: try again"]),
        (
            refuse("53300", "sorry, too many clients already", ""),
            &["too many clients already", "all connections of the server are in use: try again", "superuser"],
        ),
        (
            refuse("28000", "no pg_hba.conf entry for host \"127.0.0.1\", user \"ann\", no encryption", ""),
            &["no pg_hba.conf entry", "sslmode"],
        ),
        (refuse("55000", "database \"x\" is not currently accepting connections", ""), &["use another one with -d"]),
        (refuse("42501", "permission denied for database \"x\"", ""), &["lacks CONNECT"]),
    ];
    for (port, words) in cases {
        assert_told(port, "prefer", words);
    }
}

#[test]
fn who_was_reached_and_broke_off_is_not_said_to_be_missing() {
    assert_told(break_off(), "disable", &["the connection broke, or the listener is not PostgreSQL"]);
    let refused = refuse("08006", "never said", "");
    assert_told(refused, "require", &["server does not support TLS", "sslmode=prefer"]);
}

#[test]
fn who_was_not_reached_may_have_been_stopped() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_told(free, "prefer", &["Connection refused", "no server listens at this address: start the server"]);
}
