//! What `pgthaw waits` says of files and stalls, and what it gives up above its budget.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use observe::open_time_probe;
use observe::time::{FileTimes, SLOW_CALLS, TimeSource};
use serde_json::Value;

use crate::kills::strace;
use crate::servers::{self, TestServer};
use crate::waits::can_probe;

/// What pgthaw tells of the time in which a shell runs this.
fn watch(server: &TestServer, options: &[&str], script: &str) -> Value {
    let command = ["--", "bash", "-c", script];
    server.pgthaw(&[&["waits", "--json", "--budget", "100"], options, &command].concat()).ok().json()
}

fn program(server: &TestServer, name: &str) -> String {
    server.command_of(name).get_program().to_str().unwrap().to_owned()
}

fn postmaster_pid(server: &TestServer) -> u32 {
    let text = fs::read_to_string(server.data_directory().join("postmaster.pid")).unwrap();
    text.lines().next().unwrap().trim().parse().unwrap()
}

test_every_version! {
    fn a_slow_sync_has_its_file_its_relation_and_its_writes(version) {
        if !can_probe() || !strace::is_here() {
            return;
        }
        let server = servers::start(version, &[("fsync", "on"), ("bgwriter_lru_maxpages", "0")]);
        server.psql("CREATE TABLE t AS SELECT generate_series(1, 10000) AS id");
        server.psql("CREATE TABLE updated AS SELECT DISTINCT (ctid::text::point)[0] AS block FROM t");
        server.psql("CHECKPOINT");
        server.psql("UPDATE t SET id = id + 1");
        let path = server.psql("SELECT pg_relation_filepath('t')");
        // Newer versions make a file longer than what they need at the moment, and leave blocks of it empty.
        let written = "SELECT count(*) FROM (SELECT block FROM updated UNION SELECT (ctid::text::point)[0] FROM t) AS blocks";
        let blocks: u64 = server.psql(written).parse().unwrap();
        let checkpointer = server.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
        // Each of its syncs takes four tenths of a second more.
        let script = format!(
            "strace -qq -o /dev/null -p {checkpointer} -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_enter=400000 & \
             sleep 1; {} -Xqc CHECKPOINT -d postgres; kill $!; wait",
            program(&server, "psql")
        );
        let report = watch(&server, &["--source", "bpf"], &script);
        let files = report["files"].as_array().unwrap();
        let named: Vec<&Value> = files.iter().filter(|file| file["path"] == path.as_str()).collect();
        assert_eq!(named.len(), 1, "{files:#?}");
        let file = named[0];
        assert_eq!((&file["relation"], &file["kind"], &file["syncs"]["count"]), (&"t".into(), &"relation".into(), &1.into()));
        let longest = file["syncs"]["max_ns"].as_u64().unwrap();
        assert!((400_000_000..2_000_000_000).contains(&longest), "{longest}");
        assert_eq!(file["written"]["writes"], blocks, "each block is a write, in however many pieces: {file}");
        assert_eq!(file["written"]["bytes"], blocks * 8192);
        assert_eq!(file["unsynced"]["writes"], 0);
        // It is the server's own event too.
        let events = report["statistics"].as_array().unwrap().iter();
        let sync = events.clone().find(|one| one["name"] == "checkpointer::IO::DataFileSync");
        assert!(sync.is_some_and(|one| one["total_ns"].as_u64().unwrap() >= longest / 10 * 9), "{report}");
        let log = files.iter().find(|file| file["kind"] == "wal");
        assert!(log.is_some_and(|log| log["path"].as_str().unwrap().starts_with("pg_wal/")), "{files:#?}");
    }
}

#[test]
fn a_sync_that_had_begun_before_has_its_file_while_it_lasts() {
    if !can_probe() || !strace::is_here() {
        return;
    }
    let server = servers::start_any(&[("fsync", "on"), ("bgwriter_lru_maxpages", "0")]);
    server.psql("CHECKPOINT");
    server.psql("CREATE TABLE t AS SELECT generate_series(1, 1000) AS id");
    let checkpointer = server.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let path = server.psql("SELECT pg_relation_filepath('t')");
    let file = server.data_directory().join(&path);
    let mut slow = Command::new("strace");
    slow.args(["-qq", "-o", "/dev/null", "-p", &checkpointer, "-P", file.to_str().unwrap()]);
    let mut slow = slow.args(["-e", "inject=fsync,fdatasync:delay_enter=20000000"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let mut checkpoint = server.command_of("psql").args(["-Xqc", "CHECKPOINT", "-d", "postgres"]).spawn().unwrap();
    let hangs = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'checkpointer' AND wait_event LIKE '%Sync'";
    while server.psql(hangs) != "1" {}
    let report =
        server.pgthaw(&["waits", "--source", "bpf", "--budget", "100", "--seconds", "2", "--json"]).ok().json();
    slow.kill().unwrap();
    slow.wait().unwrap();
    checkpoint.wait().unwrap();
    let lasting: Vec<&Value> =
        report["files"].as_array().unwrap().iter().filter(|file| file["lasts"] == true).collect();
    assert_eq!(lasting.len(), 1, "{report}");
    let syncs = &lasting[0]["syncs"];
    assert_eq!(lasting[0]["path"], *path);
    assert!(syncs["count"] == 1 && syncs["max_ns"].as_u64() >= Some(1_500_000_000), "{syncs}");
}

#[test]
fn the_syncs_of_a_checkpoint_have_each_their_file() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[("fsync", "on"), ("bgwriter_lru_maxpages", "0")]);
    let tables: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    let of_each = |sql: &dyn Fn(&str) -> String| tables.iter().map(|table| sql(table)).collect::<Vec<_>>().join(";\n");
    server.psql(&of_each(&|table| format!("CREATE TABLE {table} AS SELECT generate_series(1, 20000) AS id")));
    server.psql("CHECKPOINT");
    server.psql(&of_each(&|table| format!("UPDATE {table} SET id = id + 1")));
    let paths = server.psql(&of_each(&|table| format!("SELECT pg_relation_filepath('{table}')")));
    let mut probe = open_time_probe(postmaster_pid(&server), SLOW_CALLS).unwrap();
    server.psql("CHECKPOINT");
    let files = probe.files().unwrap();
    // The checkpoint opens each file when it has closed the one before: all have the same descriptor.
    let syncs_of = |path: &str| {
        let file = files.iter().find(|file| file.file.path == path);
        file.map(|file| file.syncs.count)
    };
    let syncs: Vec<Option<u64>> = paths.lines().map(syncs_of).collect();
    assert_eq!(syncs, vec![Some(1); tables.len()]);
}

/// Until its process is a zombie, which only its parent can change.
fn wait_for_zombie(pid: &str) {
    let path = format!("/proc/{pid}/stat");
    while !fs::read_to_string(&path).unwrap().rsplit(')').next().unwrap().starts_with(" Z") {
        std::thread::yield_now();
    }
}

#[test]
fn who_has_ended_and_whose_parent_has_not_asked_is_not_followed() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let postmaster = postmaster_pid(&server);
    let mut session = server.command_of("psql");
    session.args(["-XAtq", "-d", "postgres"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut session = session.spawn().unwrap();
    session.stdin.as_mut().unwrap().write_all(b"SELECT pg_backend_pid();\n").unwrap();
    let mut backend = String::new();
    BufReader::new(session.stdout.as_mut().unwrap()).read_line(&mut backend).unwrap();
    let backend = backend.trim();
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, &postmaster.to_string()]).status().unwrap().success());
    signal("-STOP");
    drop(session.stdin.take());
    session.wait().unwrap();
    wait_for_zombie(backend);
    let probe = open_time_probe(postmaster, SLOW_CALLS);
    let reading = probe.and_then(|mut probe| probe.read());
    signal("-CONT");
    let pids: Vec<u32> = reading.unwrap().processes.iter().map(|process| process.pid).collect();
    assert!(pids.contains(&postmaster) && !pids.contains(&backend.parse().unwrap()), "{pids:?} with {backend}");
}

#[test]
fn whoever_ends_while_the_probe_opens_is_followed_to_his_end() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let made = server.command_of("pgbench").args(["-i", "-q", "postgres"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut churn = server.command_of("pgbench");
    churn.args(["-n", "-S", "-C", "-c", "4", "-T", "600", "postgres"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut churn = churn.spawn().unwrap();
    let open = || open_time_probe(postmaster_pid(&server), SLOW_CALLS).unwrap();
    let mut probes: Vec<Box<dyn TimeSource>> = (0..6).map(|_| open()).collect();
    churn.kill().unwrap();
    churn.wait().unwrap();
    while server.psql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'") != "0" {}
    let postmaster = postmaster_pid(&server).to_string();
    let followed_and_gone = |probe: &mut Box<dyn TimeSource>| -> Vec<u32> {
        let living = probe.read().unwrap().processes.into_iter().filter(|process| process.ended_ns.is_none());
        living
            .map(|process| process.pid)
            .filter(|pid| {
                // Field 4 of proc(5), behind the name in brackets and the state.
                let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let parent = status.rsplit(')').next().unwrap().split_whitespace().nth(1).map(str::to_owned);
                pid.to_string() != postmaster && parent.as_ref() != Some(&postmaster)
            })
            .collect()
    };
    for probe in &mut probes {
        // A process may end between the probe's reading and the look at /proc: the next reading has its end.
        let gone = followed_and_gone(probe);
        let again = followed_and_gone(probe);
        let stays: Vec<&u32> = gone.iter().filter(|pid| again.contains(pid)).collect();
        assert!(stays.is_empty(), "{stays:?} are followed and gone");
    }
}

/// Calls of files that have ended.
fn count_calls(files: &[FileTimes]) -> u64 {
    files.iter().map(|file| file.syncs.count + file.sleeps).sum()
}

#[test]
fn slow_calls_that_are_lost_are_counted_to_the_last_one() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[("fsync", "on")]);
    server.psql("CREATE TABLE t (id int)");
    // Every call that sleeps is a slow one, and a page has room for some fifty.
    let mut probe = open_time_probe(postmaster_pid(&server), (Duration::ZERO, 4096)).unwrap();
    let before = probe.files().unwrap();
    assert_eq!(count_calls(&before), 0);
    server.psql(&"INSERT INTO t VALUES (1);\n".repeat(400));
    let mut told = 0;
    // The server may still have something to write: what is compared belongs to one moment.
    for _ in 0..100 {
        let counted = count_calls(&probe.files().unwrap());
        let reading = probe.read().unwrap();
        told += reading.slow_calls.len() as u64;
        assert!(reading.slow_calls.iter().all(|call| call.end_ns.is_some()));
        if counted == count_calls(&probe.files().unwrap()) {
            assert_eq!(told + reading.lost_calls, counted);
            // The WAL writer may have written some for them.
            assert!(counted >= 350, "of the commits only some waited for the disk: {counted}");
            assert!(reading.lost_calls > 0 && told >= 50, "{told} told, {} lost", reading.lost_calls);
            return;
        }
    }
    panic!("the server never came to rest");
}

#[test]
fn a_lock_that_stops_the_others_is_told_with_its_holder() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let pgbench = program(&server, "pgbench");
    let made = server.command_of("pgbench").args(["-i", "-q", "postgres"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let psql = program(&server, "psql");
    let connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench'";
    let script = format!(
        "{pgbench} -n -c 4 -T 100 postgres >/dev/null 2>&1 & \
         until [ $({psql} -XAtqd postgres -c \"{connected}\") = 4 ]; do sleep 0.1; done; sleep 8; \
         {psql} -Xqd postgres -c 'BEGIN; LOCK TABLE pgbench_branches; SELECT pg_sleep(6); COMMIT' >/dev/null; \
         sleep 4; kill $!; wait"
    );
    let report = watch(&server, &["--source", "bpf"], &script);
    let stalls = report["stalls"].as_array().unwrap();
    let locks: Vec<&Value> = stalls.iter().filter(|stall| stall["kind"] == "lock").collect();
    assert!(!locks.is_empty(), "{report:#}");
    let (sentence, length) = (locks[0]["sentence"].as_str().unwrap(), locks[0]["length_ns"].as_u64().unwrap());
    assert!(sentence.contains("LOCK TABLE pgbench_branches") && sentence.contains("holds a lock"), "{sentence}");
    // Who has a row may wait for the table, and others for his row.
    assert!(sentence.contains("backends waited in Lock:relation") && sentence.contains("behind it"), "{sentence}");
    assert!(length >= 3_000_000_000, "{sentence}");
}

/// What each program in the kernel cost, in the order of their names.
pub fn assert_switches_were_counted(programs: &Value) {
    let programs = programs.as_array().unwrap();
    assert!(programs.is_sorted_by_key(|one| one["name"].as_str()), "{programs:?}");
    let switch = programs.iter().find(|one| one["name"] == "time_switch").unwrap();
    assert!(switch["runs"].as_u64() > Some(0), "{switch}");
}

#[test]
fn above_the_budget_less_is_looked_at_and_that_is_told() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let made = server.command_of("pgbench").args(["-i", "-q", "postgres"]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut load = server.command_of("pgbench");
    load.args(["-n", "-S", "-c", "2", "-T", "600", "postgres"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = load.spawn().unwrap();
    let of =
        |options: &[&str]| server.pgthaw(&[&["waits", "--source", "bpf", "--seconds", "7"], options].concat()).ok();
    let report = of(&["--budget", "0", "--json"]).json();
    let given_up: Vec<&Value> = report["reductions"].as_array().unwrap().iter().map(|one| &one["given_up"]).collect();
    assert_eq!(given_up[..2], ["receives", "programs"]);
    // Looking at memory costs something too: where nothing may be paid for it is as seldom as can be from the begin.
    assert!(given_up[2..].iter().all(|what| *what == "questions" || *what == "nothing_left"), "{given_up:?}");
    assert_eq!(report["reductions"][1]["looks_per_second"], 1.0, "{report}");
    let first = &report["reductions"][0];
    assert!(first["share"].as_f64() > Some(0.0) && first["budget"] == 0.0, "{first}");
    assert_eq!(report["stalls"], Value::Array(Vec::new()), "the load goes on when it is counted no more");
    // What was seen by then is not lost.
    assert_eq!(report["source"], "memory");
    assert_switches_were_counted(&report["cost"]["kernel"]["programs"]);
    assert!((0.9..=1.1).contains(&report["explained"].as_f64().unwrap()), "{report}");
    let text = of(&["--budget", "0"]).stdout;
    load.kill().unwrap();
    load.wait().unwrap();
    assert!(text.contains("over the budget of 0.00 %") && text.contains("commands are no longer counted"), "{text}");
    server.pgthaw(&["waits", "--budget", "101"]).ends_with(2);
}
