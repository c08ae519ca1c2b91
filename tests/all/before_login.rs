//! What a server says before it lets anybody in, or what keeps one from being reached: each error says what happened, and its
//! hint what to do about that.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::servers::Home;

/// Commands that begin with a connection.
const COMMANDS: [&[&str]; 5] =
    [&["map"], &["snapshot", "take"], &["waits", "--seconds", "1"], &["top", "--json"], &["doctor"]];

/// How each connection ends.
#[derive(Clone, Copy)]
enum End {
    /// SQLSTATE, message and detail.
    Refused(&'static str, &'static str, &'static str),
    BrokenOff,
}

/// The port of a server that lets nobody in.
fn serve(end: End) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || listener.incoming().flatten().for_each(|client| drop(answer(client, end))));
    port
}

fn answer(mut client: TcpStream, end: End) -> std::io::Result<()> {
    let End::Refused(state, message, detail) = end else { return Ok(()) };
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut rest)?;
        // It has no encryption.
        if rest != 80_877_103_u32.to_be_bytes() {
            break;
        }
        client.write_all(b"N")?;
    }
    let fields = format!("SFATAL\0VFATAL\0C{state}\0M{message}\0D{detail}\0\0");
    client.write_all(b"E")?;
    client.write_all(&(fields.len() as u32 + 4).to_be_bytes())?;
    client.write_all(fields.as_bytes())
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
    let cases: [(End, &[&str]); 6] = [
        (
            End::Refused("57P03", "the database system is not accepting connections", "Hot standby mode is disabled."),
            &["not accepting connections (Hot standby mode is disabled)", "hot_standby = off"],
        ),
        (End::Refused("57P03", "the database system is shutting down", ""), &["shutting down: try again"]),
        (
            End::Refused("53300", "sorry, too many clients already", ""),
            &["too many clients already", "its connections are taken: try again", "superuser"],
        ),
        (
            End::Refused("28000", "no pg_hba.conf entry for host \"127.0.0.1\", user \"ann\", no encryption", ""),
            &["no pg_hba.conf entry", "sslmode"],
        ),
        (
            End::Refused("55000", "database \"x\" is not currently accepting connections", ""),
            &["name another one with -d"],
        ),
        (End::Refused("42501", "permission denied for database \"x\"", ""), &["needs CONNECT"]),
    ];
    for (end, words) in cases {
        assert_told(serve(end), "prefer", words);
    }
}

#[test]
fn who_was_reached_and_broke_off_is_not_said_to_be_missing() {
    assert_told(serve(End::BrokenOff), "disable", &["broke off, or is no PostgreSQL"]);
    let refused = serve(End::Refused("08006", "never said", ""));
    assert_told(refused, "require", &["server does not support TLS", "sslmode=prefer"]);
}

#[test]
fn who_was_not_reached_may_have_been_stopped() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert_told(free, "prefer", &["Connection refused", "no server runs there: if it was stopped, start it"]);
}
