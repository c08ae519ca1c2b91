//! Pages that other processes requested stay cached after a protected job, also if the job loaded them, beside any number of connections.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use host::linux::machine::pages_out_idle;
use postgres::Listening;
use serde_json::Value;

use crate::films::{JOB, assert_gone, assert_resident, brought_stays, make_cold, os_blocks, psql, receipt, server};
use crate::servers::{self, Output, TestServer, wait_until};

/// Its first half as somebody else reads it, and what part of it that is.
const HALF: &str = "SELECT count(body) FROM t WHERE ctid < '(4000,0)'";

/// A job of its own: it tells when it has read, and ends when it is let.
struct Job(Child);

impl Job {
    fn start(server: &TestServer, options: &[&str], reads: &str) -> Job {
        for name in ["is_started", "may_read", "has_read", "may_end"] {
            let _ = fs::remove_file(server.home().join(name));
        }
        let home = server.home().display();
        let wait = |name: &str| format!("until [ -e {home}/{name} ]; do sleep 0.02; done");
        let script = format!(
            "touch {home}/is_started; {}; {reads} && touch {home}/has_read; {}",
            wait("may_read"),
            wait("may_end")
        );
        let run = ["run", "--protect", "--json"];
        let mut command = server.command(&[&run, options, &["--", "sh", "-c", &script]].concat());
        let job = Job(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
        wait_until("the job", || server.home().join("is_started").exists());
        job
    }

    fn read(&self, server: &TestServer) {
        fs::write(server.home().join("may_read"), "").unwrap();
        wait_until("what the job reads", || server.home().join("has_read").exists());
    }

    fn end(self, server: &TestServer) -> Value {
        fs::write(server.home().join("may_end"), "").unwrap();
        receipt(&Output::from(self.0.wait_with_output().unwrap()).ok())
    }
}

/// Checks that these parts of relations are cached after a job, to 99 %. Some kernels evict idle pages (DAMON), on a slow machine a tenth of a
/// relation: there one of four jobs has to show it. If pgthaw evicted the pages, none would.
fn assert_kept(server: &mut TestServer, parts: &[(&str, f64)], mut job: impl FnMut(&mut TestServer) -> Value) -> Value {
    let mut tries = if pages_out_idle() { 4 } else { 1 };
    loop {
        let receipt = job(server);
        let kept = |(name, part): &(&str, f64)| {
            let (resident, blocks) = os_blocks(server, name);
            resident as f64 / (blocks as f64 * part)
        };
        let kept: Vec<f64> = parts.iter().map(kept).collect();
        if kept.iter().all(|kept| *kept >= 0.99) {
            return receipt;
        }
        tries -= 1;
        assert!(tries > 0, "{kept:?} of {parts:?}: {receipt:#}");
    }
}

fn scan(server: &TestServer) -> String {
    format!("{} -XAtqc 'SELECT count(body) FROM t'", psql(server))
}

#[test]
fn what_others_ask_for_before_and_while_a_job_runs_stays() {
    needs_root!();
    let mut server = server(15);
    server.psql("CREATE TABLE v AS TABLE u; CREATE TABLE w AS TABLE u; VACUUM v, w; CHECKPOINT");
    let file = server.data_directory().join(server.psql("SELECT pg_relation_filepath('t')"));
    let copies = format!("cat {} > /dev/null", file.display());
    let by_polling = ["--source", "polling"].as_slice();
    // Of a session, of a process that reads files itself, and of one that is preloaded.
    for (options, reads) in [
        (["--like", "x"].as_slice(), scan(&server)),
        (&["--like", "x", "--riops", "100", "--rbps", "1GB"], scan(&server)),
        (&[], copies),
        (by_polling, scan(&server)),
    ] {
        let receipt = assert_kept(&mut server, &[("u", 1.0), ("v", 1.0), ("w", 1.0), ("t", 0.5)], |server| {
            make_cold(server);
            server.psql("SELECT count(body) FROM u");
            let job = Job::start(server, options, &reads);
            // Before any session of the job is there.
            server.psql("SELECT count(body) FROM v");
            job.read(server);
            server.psql(HALF);
            server.psql("SELECT count(body) FROM w");
            job.end(server)
        });
        // What nobody else asked for goes where the kernel tells who did.
        assert!(options != by_polling || brought_stays(&receipt), "{receipt:#}");
        if !brought_stays(&receipt) {
            assert_resident(&server, "t", 0.0, 0.52);
        }
    }
}

#[test]
fn by_looking_nobody_knows_who_else_asked_and_what_a_job_brought_stays() {
    needs_root!();
    let mut server = server(15);
    let receipt = assert_kept(&mut server, &[("t", 1.0)], |server| {
        make_cold(server);
        let job = Job::start(server, &["--source", "polling"], &scan(server));
        job.read(server);
        job.end(server)
    });
    assert!(brought_stays(&receipt), "{receipt:#}");
    assert_eq!(receipt["put_back"]["brought_bytes"], 0, "{receipt:#}");
}

#[test]
fn what_others_ask_for_stays_where_io_workers_read_for_everybody() {
    needs_root!();
    let mut server = server(servers::newest());
    let receipt = assert_kept(&mut server, &[("t", 0.5)], |server| {
        make_cold(server);
        let job = Job::start(server, &[], &scan(server));
        job.read(server);
        server.psql(HALF);
        job.end(server)
    });
    assert!(brought_stays(&receipt), "{receipt:#}");
    // What a session reads by itself goes.
    make_cold(&mut server);
    let job = ["run", "--protect", "--json", "--", &psql(&server), "-XAtqc", JOB];
    server.pgthaw(&job).ok();
    assert_gone(&server, "t");
}

/// Connections that do nothing, by TCP.
fn connect_idle(server: &TestServer, port: u16, connections: usize) -> Vec<TcpStream> {
    let user = server.psql("SELECT current_user");
    let words = format!("user\0{user}\0database\0postgres\0\0");
    let connect = |_| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let length = (words.len() + 8) as u32;
        socket.write_all(&[&length.to_be_bytes(), &196_608_u32.to_be_bytes(), words.as_bytes()].concat()).unwrap();
        let (mut answer, mut some) = (Vec::new(), [0; 4096]);
        while !answer.ends_with(b"Z\0\0\0\x05I") {
            let length = socket.read(&mut some).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend(&some[..length]);
        }
        socket
    };
    (0..connections).map(connect).collect()
}

#[test]
fn however_many_others_are_connected_the_jobs_session_is_found() {
    needs_root!();
    let mut server = servers::start(15, &[("max_connections", "350")]);
    server.cluster.listen(&Listening::find("127.0.0.1", "postgres").unwrap()).unwrap();
    fs::write(server.data_directory().join("pg_hba.conf"), "local all all trust\nhost all all 127.0.0.1/32 trust\n")
        .unwrap();
    server.restart();
    let port = server.cluster.connect_options("postgres").port.unwrap();
    let idle = connect_idle(&server, port, 300);
    for mode in ["--protect", "--protect=isolate"] {
        let job = ["run", mode, "--json", "--", &psql(&server), "-h", "127.0.0.1", "-XAtqc", "SELECT pg_sleep(1)"];
        let receipt = receipt(&server.pgthaw(&job).ok());
        assert_eq!(receipt["attended"]["sessions"], 1, "{receipt:#}");
        assert!(!receipt["remarks"].to_string().contains("for its last session to finish"), "{receipt:#}");
    }
    drop(idle);
}
