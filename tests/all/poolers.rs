//! A connection pooler in front of the server: pgthaw refuses it in the same words each time, and leaves nothing in its session.

use std::io::{Read, Result, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::thread;

use tempfile::TempDir;

use crate::lying_server::message;
use crate::servers::{self, TestServer};

/// Length and content of a startup packet, or of the rest of a message.
fn read_packet(from: &mut impl Read) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let mut content = vec![0; u32::from_be_bytes(length) as usize - 4];
    from.read_exact(&mut content)?;
    Ok(content)
}

fn read_message(from: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    let content = read_packet(from)?;
    Ok((kind[0], message(kind[0], &content)))
}

/// Reads what the server sends until it waits for the next question.
fn read_answer(server: &mut UnixStream) -> Result<Vec<u8>> {
    let mut answer = Vec::new();
    loop {
        let (kind, message) = read_message(server)?;
        answer.extend(message);
        if kind == b'Z' {
            return Ok(answer);
        }
    }
}

/// Hands a client's questions to the server, until the client goes.
fn serve(client: &mut UnixStream, server: &mut UnixStream, greeting: &[u8]) -> Result<()> {
    read_packet(client)?;
    client.write_all(greeting)?;
    loop {
        let (kind, message) = read_message(client)?;
        if kind == b'X' {
            return Ok(());
        }
        server.write_all(&message)?;
        if matches!(kind, b'S' | b'Q') {
            client.write_all(&read_answer(server)?)?;
        }
    }
}

/// The directory of the socket of a pooler in small. As pgbouncer with `pool_mode = transaction`, `default_pool_size = 1` and
/// `ignore_startup_parameters = options`, it has one session of the server's, which all clients get in turn with what the clients
/// before left in it, and drops what a client asks for in its first message.
fn start_pooler(server: &TestServer) -> TempDir {
    let name = format!(".s.PGSQL.{}", server.cluster.connect_options("postgres").port.unwrap());
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join(&name)).unwrap();
    let mut session = UnixStream::connect(server.cluster.socket_directory().join(&name)).unwrap();
    // Version 3.0.
    let startup = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    session.write_all(&[&(startup.len() as u32 + 4).to_be_bytes()[..], startup].concat()).unwrap();
    let greeting = read_answer(&mut session).unwrap();
    thread::spawn(move || {
        for mut client in listener.incoming().map(|client| client.unwrap()) {
            // One that breaks off is followed by the next.
            let _ = serve(&mut client, &mut session, &greeting);
        }
    });
    directory
}

#[test]
fn a_pooler_is_refused_in_the_same_words_each_time_and_keeps_nothing() {
    let server = servers::start_any(&[]);
    // With an empty path the mark of the session alone tells.
    for path in ["RESET search_path", "SET search_path = ''"] {
        server.psql(&format!("ALTER ROLE postgres {path}"));
        let pooler = start_pooler(&server);
        let run = |mut command: Command| servers::output_of(command.env("PGHOST", pooler.path()));
        let kept = || {
            let asked = "SELECT pg_backend_pid(), (SELECT count(*) FROM pg_prepared_statements), \
                         (SELECT string_agg(name || setting, ',' ORDER BY name) FROM pg_settings WHERE source = 'session')";
            let mut psql = server.command_of("psql");
            psql.args(["-XAtq", "-d", "postgres", "-c", asked]);
            run(psql).ok().stdout
        };
        let before = kept();
        for arguments in [&["map"][..], &["snapshot", "take"], &["top", "--seconds", "1"], &["map"]] {
            let refused = run(server.command(arguments)).ends_with(2).stderr;
            assert!(refused.contains("did not receive pgthaw's session options"), "{path}, {arguments:?}: {refused}");
            assert!(refused.contains("not to a connection pooler"), "{path}, {arguments:?}: {refused}");
        }
        assert_eq!(kept(), before, "{path}");
    }
}
