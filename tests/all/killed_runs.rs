//! What a run that was killed pushed out is put back by the next run or restore, and of two at once by the last.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::films::{RESIDENT_MIN, assert_gone, assert_resident, make_cold, psql, receipt, server};
use crate::servers::{self, TestServer, wait_until};

/// A job that has read `t`, has pushed out `u`, and now waits.
fn start_protected(server: &TestServer) -> Child {
    let marker = server.home().join("has_read");
    // Of an earlier one.
    let _ = fs::remove_file(&marker);
    let reads = format!("{} -XAtqc 'SELECT count(body) FROM t'", psql(server));
    let program = env!("CARGO_BIN_EXE_pgthaw");
    let evicts = format!("{program} evict -q -r u --tier os >/dev/null");
    let script = format!("{reads} && {evicts} && touch {} && exec sleep 60", marker.display());
    let mut command = server.command(&["run", "--protect", "--json", "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("what the job reads", || marker.exists());
    child
}

/// Ends what a killed pgthaw left running, too.
fn kill_with_child(mut run: Child) {
    for pid in servers::kill_run(&mut run) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM);
    }
}

#[test]
fn what_a_killed_run_pushed_out_is_put_back_by_the_next_and_what_it_brought_stays() {
    let mut server = server(15);
    make_cold(&mut server);
    let kill_one = || {
        server.psql("SELECT count(body) FROM u");
        kill_with_child(start_protected(&server));
        assert_resident(&server, "u", 0.0, 0.02);
    };
    let assert_put_back = || {
        assert_resident(&server, "u", RESIDENT_MIN, 1.0);
        // Who has used it since nobody knows.
        assert_resident(&server, "t", RESIDENT_MIN, 1.0);
    };
    kill_one();
    let receipt = receipt(&server.pgthaw(&["run", "--protect", "--json", "--", "true"]).ok());
    assert_put_back();
    assert_eq!(receipt["put_back"]["runs"], 2, "{receipt:#}");
    assert!(receipt["remarks"].to_string().contains("include pages that another run had evicted"), "{receipt:#}");

    // Or by a restore, before it brings back what it is asked for, if there is anything.
    kill_one();
    let none = server.pgthaw(&["restore", "--tier", "os"]).ends_with(2).stderr;
    assert!(none.contains("restored the cache after an earlier run"), "{none}");
    assert_put_back();
    server.pgthaw(&["snapshot", "take"]).ok();
    kill_one();
    let restored = server.pgthaw(&["restore", "newest", "--tier", "os"]).ok().stdout;
    assert!(restored.contains("restored the cache after an earlier run"), "{restored}");
}

#[test]
fn the_last_of_two_runs_puts_back_for_both() {
    let mut server = server(15);
    make_cold(&mut server);
    let mut longer = start_protected(&server);
    let psql = psql(&server);
    // So long that its session is seen on a busy machine: of a job of which none was, nothing is dropped.
    let statement = "SELECT count(body), pg_sleep(1) FROM u";
    let arguments = ["run", "--protect", "--json", "--", &psql, "-XAtqc", statement];
    let shorter = receipt(&server.pgthaw(&arguments).ok());
    assert_eq!(shorter["is_left_to_another"], true, "{shorter:#}");
    // What it brought alone goes with it; where the kernel pages out what is idle, some of the rest goes by itself.
    assert_resident(&server, "t", 0.5, 1.0);
    assert_gone(&server, "u");
    // Its signal ends the job, and the job's end is pgthaw's.
    kill_process(Pid::from_raw(longer.id() as i32).unwrap(), Signal::TERM).unwrap();
    assert!(!longer.wait().unwrap().success());
    assert_gone(&server, "t");
}

#[test]
fn what_others_read_beside_a_job_that_reads_nothing_stays() {
    let mut server = server(15);
    make_cold(&mut server);
    let mut command = server.command(&["run", "--protect", "--json", "--", "sleep", "4"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // By then it knows what was cached before.
    let began = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgthaw%'";
    let until = Instant::now() + Duration::from_secs(60);
    while server.psql(began) == "0" && child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(2));
    server.psql("SELECT count(body) FROM u");
    let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
    assert!(told.contains("no session of the job was found"), "{told}");
    assert_resident(&server, "u", RESIDENT_MIN, 1.0);
}

/// Runs a statement protected, until pgthaw has found its session.
fn start_statement(server: &TestServer, statement: &str) -> Child {
    let psql = psql(server);
    let mut command = server.command(&["run", "--protect", "--json", "--", &psql, "-XAtqc", statement]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query = '{statement}' AND now() - query_start > interval '500 ms'"
    );
    let until = Instant::now() + Duration::from_secs(60);
    while server.psql(&runs) != "1" {
        assert!(Instant::now() < until, "the job does not begin");
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

#[test]
fn a_session_that_works_on_for_a_while_is_waited_for() {
    let mut server = server(15);
    make_cold(&mut server);
    let statement = "SELECT count(CASE WHEN i % 400 = 0 THEN pg_sleep(0.05) IS NULL END) FROM t";
    let job = start_statement(&server, statement);
    kill_process(Pid::from_raw(job.id() as i32).unwrap(), Signal::TERM).unwrap();
    let told = String::from_utf8(job.wait_with_output().unwrap().stderr).unwrap();
    assert!(told.contains("for its last session to finish") && !told.contains("did not end with it"), "{told}");
    // What it read meanwhile went again.
    assert_gone(&server, "t");
}

#[test]
fn a_session_that_goes_on_after_its_job_is_told() {
    let server = server(15);
    let psql = psql(&server);
    let job = start_statement(&server, "SELECT pg_sleep(60)");
    // It reads nothing, and is not waited for to its end.
    kill_process(Pid::from_raw(job.id() as i32).unwrap(), Signal::TERM).unwrap();
    let told = String::from_utf8(job.wait_with_output().unwrap().stderr).unwrap();
    assert!(told.contains("1 session of the job did not end with it"), "{told}");
    server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'");
    let ended = receipt(&server.pgthaw(&["run", "--protect", "--json", "--", &psql, "-XAtqc", "SELECT 1"]).ok());
    assert!(!ended["remarks"].to_string().contains("did not end with it"), "{ended:#}");
}
