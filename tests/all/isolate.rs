//! `pgthaw run --protect=isolate` on real servers: a job's sessions and workers are set apart while it runs, and go home whatever happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use host::linux::DiskLimit;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::films::{number, psql, receipt};
use crate::servers::{self, Output, TestServer, kill_run, wait_until};

/// What a session says of its own cgroups. It is found within a look, and every look is soon.
const WHERE: &str = "SELECT pg_sleep(1); SELECT pg_read_file('/proc/self/cgroup')";

/// How every cgroup of pgthaw's is called.
const OURS: &str = "pgthaw-";

/// Waits until something is so.
/// A server whose sessions can be set apart; `None` where no cgroup can be made.
fn server() -> Option<TestServer> {
    // Workers that read for the sessions are not set apart.
    let mut settings =
        vec![("shared_buffers", "16MB"), ("min_parallel_table_scan_size", "0"), ("parallel_setup_cost", "0")];
    settings.extend((servers::newest() >= 18).then_some(("io_method", "sync")));
    DiskLimit::available().ok().map(|_| servers::start_any(&settings))
}

fn isolated(server: &TestServer, script: &str) -> Output {
    server.pgthaw(&["run", "--protect=isolate", "--json", "--", "sh", "-c", script])
}

fn cgroups_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

fn is_apart(pid: u32) -> bool {
    cgroups_of(pid).contains(OURS)
}

/// The directories of a process's cgroups that pgthaw made, wherever they are mounted.
fn directories(pid: u32) -> Vec<PathBuf> {
    let of = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let root = Path::new("/sys/fs/cgroup").join(controllers);
        path.contains(OURS).then(|| root.join(path.trim_start_matches('/')))
    };
    cgroups_of(pid).lines().filter_map(of).collect()
}

/// The process of the session with this name.
fn pid_of(server: &TestServer, name: &str) -> Option<u32> {
    server.psql(&format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'")).parse().ok()
}

/// Starts a run whose job is one session with a name, and waits until that is set apart.
fn start_apart(server: &TestServer, name: &str) -> (Child, u32) {
    let script = format!("PGAPPNAME={name} exec {} -XAtqc 'SELECT pg_sleep(60)'", psql(server));
    let mut command = server.command(&["run", "--protect=isolate", "--json", "--", "sh", "-c", &script]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut pid = None;
    wait_until("a session that is set apart", || {
        pid = pid_of(server, name);
        pid.is_some_and(is_apart)
    });
    (child, pid.unwrap())
}

/// Files in which runs have written down where their jobs are set apart.
fn noted_cgroups(server: &TestServer) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries(&server.home().join("state/pgthaw/runs")).flat_map(move |cluster| entries(&cluster));
    files.filter(|file| file.to_string_lossy().ends_with(".cgroups.json"))
}

fn signal(pid: u32, number: Signal) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), number).unwrap();
}

#[test]
fn a_jobs_sessions_and_workers_are_set_apart_and_go_home() {
    needs_root!();
    let Some(server) = server() else { untested!(machine: "no cgroup can be made") };
    server.psql(
        "CREATE TABLE t AS SELECT i, repeat('t', 500) AS body FROM generate_series(1, 40000) AS i; ANALYZE; CHECKPOINT",
    );
    let psql = psql(&server);
    let script = format!("{psql} -XAtqc \"{WHERE}\" && {psql} -XAtqc 'SELECT pg_sleep(0.2), count(body) FROM t'");
    let output = isolated(&server, &script).ok();
    assert!(output.stdout.contains(OURS), "{}", output.stdout);
    let receipt = receipt(&output);
    assert_eq!(number(&receipt, "/attended/sessions"), 2, "{receipt:#}");
    let cache = &receipt["attended"]["isolated"]["cache_bytes"];
    assert!(cache.is_null() || cache.as_u64().unwrap() >= 8 << 20, "{receipt:#}");
    let share = receipt.pointer("/attended/isolated/share_mean").and_then(Value::as_f64).unwrap();
    assert!((0.1..=1.0).contains(&share), "{receipt:#}");
    assert_eq!(receipt["remarks"], serde_json::json!([]), "{receipt:#}");
    // Whoever is not the job's stays where he is.
    assert!(!server.psql(WHERE).contains(OURS));
    let plain = server.pgthaw(&["run", "--protect", "--json", "--", &psql, "-XAtqc", WHERE]).ok();
    assert!(!plain.stdout.contains(OURS), "{}", plain.stdout);
}

#[test]
fn a_job_without_a_session_is_told() {
    needs_root!();
    let Some(server) = server() else { untested!(machine: "no cgroup can be made") };
    let told = server.pgthaw(&["run", "--protect=isolate", "--", "true"]).ok().stderr;
    assert!(told.contains("no session of the job was found") && !told.contains("0 sessions"), "{told}");
    let receipt = receipt(&isolated(&server, "true").ok());
    assert_eq!(number(&receipt, "/attended/sessions"), 0, "{receipt:#}");
    // As short as the job is, there was a share for it.
    let share = receipt.pointer("/attended/isolated/share_mean").and_then(Value::as_f64).unwrap();
    assert!((0.1..=1.0).contains(&share), "{receipt:#}");
}

#[test]
fn two_jobs_are_set_apart_from_each_other() {
    needs_root!();
    let Some(server) = server() else { untested!(machine: "no cgroup can be made") };
    let (one, first) = start_apart(&server, "one");
    let (two, second) = start_apart(&server, "two");
    assert_ne!(cgroups_of(first), cgroups_of(second));
    let places = [directories(first), directories(second)].concat();
    assert!(places.len() >= 2 && places.iter().all(|place| place.is_dir()), "{places:?}");
    // Ctrl-C is the job's: psql gives up its query, and its end is pgthaw's.
    for run in [&one, &two] {
        signal(run.id(), Signal::INT);
    }
    for run in [one, two] {
        let ended = Output::from(run.wait_with_output().unwrap());
        assert_eq!(ended.status, 1, "{ended:?}");
    }
    assert!(places.iter().all(|place| !place.exists()), "{places:?}");
}

#[test]
fn who_is_left_apart_by_a_killed_run_is_sent_home_by_the_next() {
    needs_root!();
    let Some(server) = server() else { untested!(machine: "no cgroup can be made") };
    for next in [&["run", "--like", "x", "--", "true"][..], &["run", "--protect=isolate", "--", "true"]] {
        let (mut run, session) = start_apart(&server, "left");
        let places = directories(session);
        // Its own process, and then the one that it left.
        kill_run(&mut run);
        // A run of another test may already have sent the session home.
        assert!(noted_cgroups(&server).next().is_some());
        server.pgthaw(next).ok();
        assert!(!is_apart(session), "{}", cgroups_of(session));
        assert!(places.iter().all(|place| !place.exists()), "{places:?}");
        server.psql(&format!("SELECT pg_terminate_backend({session})"));
        wait_until("the session's end", || pid_of(&server, "left").is_none());
    }
    // Or by a restore.
    server.pgthaw(&["snapshot", "take"]).ok();
    let (mut run, session) = start_apart(&server, "left");
    kill_run(&mut run);
    server.pgthaw(&["restore", "newest", "--tier", "os"]).ok();
    assert!(!is_apart(session), "{}", cgroups_of(session));
    server.psql(&format!("SELECT pg_terminate_backend({session})"));
    wait_until("the session's end", || pid_of(&server, "left").is_none());
    // As if it had been killed when they were there, and before it had written that down.
    let (mut run, session) = start_apart(&server, "left");
    let places = directories(session);
    kill_run(&mut run);
    let noted: Vec<PathBuf> = noted_cgroups(&server).collect();
    assert!(!noted.is_empty());
    noted.iter().for_each(|file| fs::remove_file(file).unwrap());
    server.pgthaw(&["restore", "newest", "--tier", "os"]).ok();
    assert!(!is_apart(session) && places.iter().all(|place| !place.exists()), "{places:?}");
}

#[test]
fn a_session_that_lives_on_is_put_back() {
    needs_root!();
    let Some(server) = server() else { untested!(machine: "no cgroup can be made") };
    // As a pooler's: no process of the job's opened it.
    let mut pooled = server.command_of("psql");
    pooled.env("PGAPPNAME", "pooled").stdin(Stdio::piped()).stdout(Stdio::null());
    let mut pooled = pooled.spawn().unwrap();
    wait_until("the pooled session", || pid_of(&server, "pooled").is_some());
    let session = pid_of(&server, "pooled").unwrap();
    let script = format!("for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; cat /proc/{session}/cgroup; done");
    let by_name = ["run", "--protect=isolate", "--application-name", "pooled", "--json", "--", "sh", "-c", &script];
    let output = server.pgthaw(&by_name).ok();
    assert!(output.stdout.contains(OURS), "{}", output.stdout);
    assert_eq!(number(&receipt(&output), "/attended/sessions"), 1);
    assert!(!is_apart(session));
    drop(pooled.stdin.take());
    pooled.wait().unwrap();

    // One that the job leaves behind.
    let script = format!("PGAPPNAME=behind {} -XAtqc 'SELECT pg_sleep(20)' >/dev/null 2>&1 & sleep 1", psql(&server));
    let left = receipt(&isolated(&server, &script).ok());
    assert_eq!(number(&left, "/attended/sessions"), 1, "{left:#}");
    let session = pid_of(&server, "behind").unwrap();
    assert!(!is_apart(session), "{}", cgroups_of(session));
    server.psql(&format!("SELECT pg_terminate_backend({session})"));
}

#[test]
fn a_server_may_restart_while_a_job_runs() {
    needs_root!();
    let Some(mut server) = server() else { untested!(machine: "no cgroup can be made") };
    let go = server.home().join("go");
    let script = format!("while [ ! -e {} ]; do sleep 0.05; done; {} -XAtqc \"{WHERE}\"", go.display(), psql(&server));
    let mut command = server.command(&["run", "--protect=isolate", "--json", "--", "sh", "-c", &script]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the run's beginning", || noted_cgroups(&server).next().is_some());
    server.restart();
    fs::write(&go, "").unwrap();
    let output = Output::from(run.wait_with_output().unwrap()).ok();
    assert!(output.stdout.contains(OURS), "{output:?}");
}

#[test]
fn without_the_privilege_a_job_is_only_put_back() {
    needs_root!();
    let server = servers::start_any(&[]);
    let owner = fs::metadata(server.data_directory()).map(|data| std::os::unix::fs::MetadataExt::uid(&data)).unwrap();
    let psql = psql(&server);
    let arguments = ["run", "--protect=isolate", "--json", "--", &psql, "-XAtqc", WHERE];
    let output = server.pgthaw_as(owner, &arguments).ok();
    assert!(!output.stdout.contains(OURS), "{}", output.stdout);
    let receipt = receipt(&output);
    assert!(receipt["remarks"].to_string().contains("isolation is unavailable"), "{receipt:#}");
    assert!(receipt["put_back"].is_object() && receipt["attended"]["isolated"].is_null(), "{receipt:#}");
}
