//! Pages that other processes requested stay cached after a protected job, also if the job loaded them, beside any number of connections.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use host::linux::DiskLimit;
use host::linux::machine::pages_out_idle;
use postgres::Listening;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::films::{JOB, assert_gone, assert_resident, brought_stays, make_cold, os_blocks, psql, receipt, server};
use crate::servers::{self, Output, TestServer, below, is_in_state, wait_until};

/// Its first half as somebody else reads it, and what part of it that is.
const HALF: &str = "SELECT count(body) FROM t WHERE ctid < '(4000,0)'";

/// The quarter after it.
const QUARTER: &str = "SELECT count(body) FROM t WHERE ctid >= '(4000,0)' AND ctid < '(6000,0)'";

/// A job that reads `t` with workers.
const PARALLEL_JOB: &str = "SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0;
    SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SELECT count(body) FROM t";

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
        let run = ["run", "--json"];
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

    /// As [`Job::end`]: between the job's end and the clean-up somebody else asks for something.
    fn end_before(self, server: &TestServer, statement: &str) -> Value {
        let processes = below(self.0.id());
        let (works, job) = (processes[0], processes[1]);
        let send = |signal| kill_process(Pid::from_raw(works as i32).unwrap(), signal).unwrap();
        send(Signal::STOP);
        wait_until("the stop", || is_in_state(works, 'T'));
        fs::write(server.home().join("may_end"), "").unwrap();
        wait_until("the job's end", || is_in_state(job, 'Z'));
        server.psql(statement);
        send(Signal::CONT);
        self.end(server)
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

fn session(server: &TestServer, sql: &str) -> String {
    format!("{} -XAtqc '{sql}'", psql(server))
}

fn scan(server: &TestServer) -> String {
    session(server, "SELECT count(body) FROM t")
}

fn server_of_others() -> TestServer {
    let server = server(15);
    server.psql("CREATE TABLE v AS TABLE u; CREATE TABLE w AS TABLE u; VACUUM v, w; CHECKPOINT");
    server
}

/// Checks that pages which others ask for before a job, beside it, and between its end and the clean-up are cached afterwards.
fn check_others(server: &mut TestServer, options: &[&str], reads: &str) {
    let receipt = assert_kept(server, &[("u", 1.0), ("v", 1.0), ("w", 1.0), ("t", 0.75)], |server| {
        make_cold(server);
        server.psql("SELECT count(body) FROM u");
        let job = Job::start(server, options, reads);
        // Before any session of the job is there.
        server.psql("SELECT count(body) FROM v");
        job.read(server);
        server.psql(HALF);
        server.psql("SELECT count(body) FROM w");
        job.end_before(server, QUARTER)
    });
    // What nobody else asked for goes where the kernel tells who did.
    assert!(!options.contains(&"polling") || brought_stays(&receipt), "{receipt:#}");
    if !brought_stays(&receipt) {
        assert_resident(server, "t", 0.0, 0.77);
    }
    let isolates = options.contains(&"--protect=isolate") && DiskLimit::available().is_ok();
    assert_eq!(receipt["attended"]["isolated"].is_object(), isolates, "{receipt:#}");
}

#[test]
fn what_others_ask_for_before_while_and_after_a_job_runs_stays() {
    needs_root!();
    let mut server = server_of_others();
    let file = server.data_directory().join(server.psql("SELECT pg_relation_filepath('t')"));
    let copies = format!("cat {} > /dev/null", file.display());
    let scan = scan(&server);
    // Of a session, of one that is preloaded, and of a process that reads files itself.
    for (options, reads) in [
        (["--protect", "--like", "x"].as_slice(), &scan),
        (&["--protect", "--like", "x", "--riops", "100", "--rbps", "1GB"], &scan),
        (&["--protect"], &copies),
        (&["--protect", "--source", "polling"], &scan),
    ] {
        check_others(&mut server, options, reads);
    }
}

#[test]
fn what_others_ask_for_beside_a_job_that_is_set_apart_or_has_workers_stays() {
    needs_root!();
    let mut server = server_of_others();
    let plan = server.psql(&PARALLEL_JOB.replace("SELECT", "EXPLAIN SELECT"));
    assert!(plan.contains("Parallel Seq Scan"), "{plan}");
    let (scan, in_parallel) = (scan(&server), session(&server, PARALLEL_JOB));
    let backwards = session(&server, JOB);
    for (options, reads) in [
        (["--protect=isolate", "--like", "x"].as_slice(), &scan),
        (&["--protect"], &in_parallel),
        (&["--protect=isolate", "--source", "polling"], &in_parallel),
        (&["--protect", "--source", "polling"], &backwards),
    ] {
        check_others(&mut server, options, reads);
    }
}

#[test]
fn by_looking_nobody_knows_who_else_asked_and_what_a_job_brought_stays() {
    needs_root!();
    let mut server = server(15);
    let receipt = assert_kept(&mut server, &[("t", 1.0)], |server| {
        make_cold(server);
        let job = Job::start(server, &["--protect", "--source", "polling"], &scan(server));
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
        let job = Job::start(server, &["--protect"], &scan(server));
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
