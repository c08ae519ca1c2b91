//! Who holds up the others: the holder of a lock with those behind it, commands that were under way before pgthaw looked, writers of temporary
//! files; and pgthaw's own sessions, which are nowhere.

use std::io::Write as _;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::servers::{self, TestServer};
use crate::waits::can_probe;

/// A session of psql that stays open, until it is dropped.
pub struct Open(Child);

impl Open {
    pub fn start(server: &TestServer, name: &str, sql: &str) -> Open {
        let mut psql = server.command_of("psql");
        psql.args(["-XAtq", "-d", "postgres"]).env("PGAPPNAME", name).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = psql.spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{sql}").unwrap();
        Open(child)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn wait_for(server: &TestServer, condition: &str, expected: &str) {
    let count = format!("SELECT count(*) FROM pg_stat_activity WHERE {condition}");
    servers::wait_until(condition, || server.psql(&count) == expected);
}

/// A client that is silent in a transaction which has changed a row of `t`, and six that want that row.
fn hang(server: &TestServer) -> Vec<Open> {
    server.psql("CREATE TABLE t AS SELECT 1 AS id");
    let mut sessions = vec![Open::start(server, "forgetful", "BEGIN; UPDATE t SET id = 2 WHERE id = 1;")];
    wait_for(server, "state = 'idle in transaction'", "1");
    let wanted = "UPDATE t SET id = 3 WHERE id = 1;\nSELECT pg_sleep(60);";
    sessions.extend((0..6).map(|_| Open::start(server, "patient", wanted)));
    wait_for(server, "wait_event_type = 'Lock'", "6");
    sessions
}

fn sources() -> &'static [&'static str] {
    if can_probe() { &["bpf", "sql"] } else { &["sql"] }
}

test_every_version! {
    fn the_holder_of_a_lock_is_told_with_those_behind_it(version) {
        let server = servers::start(version, &[("deadlock_timeout", "60s")]);
        let _hanging = hang(&server);
        let pid: u64 = server.psql("SELECT pid FROM pg_stat_activity WHERE application_name = 'forgetful'").parse().unwrap();
        for source in sources() {
            let report = server.pgthaw(&["waits", "--json", "--source", source, "--seconds", "4"]).ok().json();
            let blockers = report["blockers"].as_array().unwrap();
            assert_eq!(blockers.len(), 1, "{blockers:#?}");
            assert_culprit(&blockers[0], pid, version);
            let waited = blockers[0]["held_up_ns"].as_u64().unwrap();
            // Six processes for four seconds, seen late on a crowded machine.
            assert!((6_000_000_000..26_000_000_000).contains(&waited), "{waited}");
            let text = server.pgthaw(&["waits", "--source", source, "--seconds", "1"]).ok().stdout;
            let told = text.lines().find(|line| line.starts_with(&format!("{pid} "))).unwrap_or_else(|| panic!("{text}"));
            for part in ["@postgres forgetful, idle in transaction for ", ", holds t: 6 processes wait behind it"] {
                assert!(told.contains(part), "{part}: {text}");
            }
            let stdout = server.pgthaw(&["top", "--source", source, "--seconds", "2"]).ok().stdout;
            let step: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
            assert_culprit(&step["blockers"][0], pid, version);
        }
    }
}

#[test]
fn a_holder_is_told_however_many_wait() {
    let settings = [("deadlock_timeout", "60s"), ("max_connections", "250"), ("log_lock_waits", "off")];
    let server = servers::start_any(&settings);
    server.psql("CREATE TABLE t AS SELECT 1 AS id");
    let _holder = Open::start(&server, "forgetful", "BEGIN; UPDATE t SET id = 2 WHERE id = 1;");
    wait_for(&server, "state = 'idle in transaction'", "1");
    let script = server.home().join("update.sql");
    std::fs::write(&script, "UPDATE t SET id = 3 WHERE id = 1;\n").unwrap();
    let mut pgbench = server.command_of("pgbench");
    pgbench.args(["-n", "-c", "200", "-t", "1", "-f", script.to_str().unwrap(), "postgres"]);
    let mut pgbench = pgbench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(&server, "wait_event_type = 'Lock'", "200");
    let report = server.pgthaw(&["waits", "--json", "--source", "sql", "--seconds", "4"]).ok().json();
    pgbench.kill().unwrap();
    pgbench.wait().unwrap();
    let blockers = report["blockers"].as_array().unwrap();
    assert_eq!((blockers.len(), &blockers[0]["application_name"]), (1, &"forgetful".into()), "{blockers:#?}");
    fn count(blocker: &Value) -> usize {
        blocker["behind"].as_array().unwrap().iter().map(|one| 1 + count(one)).sum()
    }
    assert_eq!(count(&blockers[0]), 200);
}

#[test]
fn what_a_role_may_not_see_is_not_told_as_if_it_were_seen() {
    let server = servers::start_any(&[("deadlock_timeout", "60s")]);
    server.psql("CREATE TABLE t AS SELECT 1 AS id; GRANT UPDATE, SELECT ON t TO PUBLIC; CREATE ROLE poor LOGIN");
    let _holder = Open::start(&server, "forgetful", "BEGIN; UPDATE t SET id = 2 WHERE id = 1;");
    wait_for(&server, "state = 'idle in transaction'", "1");
    let _waiter = Open::start(&server, "patient", "\\c - poor\nUPDATE t SET id = 3 WHERE id = 1;");
    // Another, which waits for a lock of no table, and has written to one.
    let _advisory = Open::start(&server, "first", "BEGIN; SELECT pg_advisory_lock(1);");
    wait_for(&server, "state = 'idle in transaction'", "2");
    let _behind = Open::start(
        &server,
        "second",
        "BEGIN; CREATE TABLE other (); INSERT INTO other DEFAULT VALUES; SELECT pg_advisory_lock(1);",
    );
    wait_for(&server, "wait_event_type = 'Lock'", "2");
    let text = server.pgthaw(&["waits", "--source", "sql", "--seconds", "1", "-U", "poor"]).ok().stdout;
    assert!(text.contains("in a state hidden from this role") && !text.contains("at work"), "{text}");
    assert!(!text.contains("insufficient privilege"), "{text}");
    let text = server.pgthaw(&["waits", "--source", "sql", "--seconds", "1"]).ok().stdout;
    assert!(text.contains("holds advisory lock: 1 process waits behind it"), "{text}");
    assert!(text.contains("holds t: 1 process waits behind it"), "{text}");
}

fn assert_culprit(blocker: &Value, pid: u64, version: u32) {
    assert_eq!((&blocker["pid"], &blocker["application_name"]), (&pid.into(), &"forgetful".into()), "{blocker:#}");
    assert_eq!((&blocker["state"], &blocker["database"]), (&"idle in transaction".into(), &"postgres".into()));
    assert_eq!(blocker["query"], "UPDATE t SET id = ? WHERE id = ?;");
    assert!(blocker["user"].is_string() && blocker["state_ms"].as_u64() > Some(0), "{blocker:#}");
    // The first has the row's lock and waits for the transaction; the others wait for the first.
    fn all<'a>(blocker: &'a Value, found: &mut Vec<&'a Value>) {
        for one in blocker["behind"].as_array().unwrap() {
            found.push(one);
            all(one, found);
        }
    }
    let mut behind = Vec::new();
    all(blocker, &mut behind);
    assert_eq!(behind.len(), 6, "{blocker:#}");
    for one in behind {
        assert_eq!((&one["relation"], &one["application_name"]), (&"t".into(), &"patient".into()), "{blocker:#}");
        assert!(one["waited_ms"].as_u64().is_some() || version < 14, "{one}");
    }
}

#[test]
fn a_command_that_was_under_way_before_counts_with_the_part_that_was_seen() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[("deadlock_timeout", "60s")]);
    let _hanging = hang(&server);
    let options = ["waits", "--source", "bpf", "--budget", "100", "--seconds", "2"];
    let report = server.pgthaw(&[&options[..], &["--json"]].concat()).ok().json();
    let [handled] = &report["handled_by"].as_array().unwrap()[..] else { panic!("{report:#}") };
    let of = |name: &str| handled[name].as_u64().unwrap();
    assert_eq!((of("count"), &report["begun_before"], &report["lasting"]), (6, &6.into(), &6.into()), "{report:#}");
    let length = report["length_ns"].as_u64().unwrap();
    assert!((length / 100 * 99..=length).contains(&of("max_ns")), "{length}: {handled:#}");
    assert!((6 * (length / 100 * 99)..=6 * length).contains(&of("total_ns")), "{length}: {handled:#}");
    assert_eq!(report["commands"], 0, "none was received since");
    let text = server.pgthaw(&options).ok().stdout;
    assert!(text.contains("6 commands began before the measurement, 6 commands lasted beyond its end"), "{text}");
}

#[test]
fn a_wait_keeps_the_query_that_it_began_in() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[("deadlock_timeout", "60s")]);
    let _hanging = hang(&server);
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'forgetful'";
    // They get the row one after the other, and sleep then.
    let script = format!(
        "sleep 1; {psql} -XAtqd postgres -c \"{end}\"; \
         until [ $({psql} -XAtqd postgres -c \"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'\") = 6 ]; do :; done; sleep 1"
    );
    let report = server
        .pgthaw(&["waits", "--json", "--source", "bpf", "--budget", "100", "--by", "query", "--", "sh", "-c", &script])
        .ok()
        .json();
    let update = "UPDATE t SET id = ? WHERE id = ?;";
    let locks = report["statistics"].as_array().unwrap().iter().filter(|one| one["part"] == "Lock");
    let (of_update, of_sleep): (Vec<&Value>, Vec<&Value>) = locks.partition(|one| one["where"] == update);
    let sum = |all: &[&Value]| all.iter().map(|one| one["total_ns"].as_u64().unwrap()).sum::<u64>();
    // What is shorter than a second may have the name of the query at its end.
    assert!(sum(&of_update) > 5_000_000_000 && sum(&of_sleep) < sum(&of_update) / 10, "{report:#}");
    let update = report["handled_by"].as_array().unwrap().iter().find(|one| one["where"] == update).unwrap();
    assert_eq!((&update["count"], &report["begun_before"]), (&6.into(), &6.into()), "{report:#}");
}

#[test]
fn pgthaws_own_sessions_are_in_no_figure_table_or_metric() {
    let server = servers::start_any(&[]);
    // On an idle server nobody else is there, but for the postmaster, which pg_stat_activity does not have.
    let others = server.psql("SELECT count(*) FROM pg_stat_activity WHERE backend_type <> 'client backend'");
    let others = others.parse::<u64>().unwrap();
    let names = |report: &Value| -> Vec<String> {
        let all = report["statistics"].as_array().unwrap().iter();
        let all = all.map(|one| one["where"].as_str().unwrap().to_owned());
        all.filter(|place| ["pgthaw", "client backend", "short-lived"].contains(&place.as_str())).collect()
    };
    for source in sources() {
        let others: Value = (others + u64::from(*source != "sql")).into();
        let report = server.pgthaw(&["waits", "--json", "--source", source, "--seconds", "2"]).ok().json();
        assert_eq!((names(&report), &report["processes"]), (Vec::new(), &others), "{source}: {report:#}");
        assert_eq!(report["handled_by"], Value::Array(Vec::new()), "{source}");
        let counted = [&report["commands"], &report["clients"]["lived_ns"], &report["client_ns"]];
        assert!(counted.iter().all(|one| one.as_u64().unwrap_or(0) == 0), "{source}: {counted:?}");
        let text = server.pgthaw(&["waits", "--source", source, "--seconds", "1"]).ok().stdout;
        assert!(!text.contains("client backend::") && !text.contains("short-lived::"), "{text}");
        assert!(text.contains("background processes were idle for ") && !text.contains("::Activity::"), "{text}");
        let steps = server.pgthaw(&["top", "--source", source, "--seconds", "4"]).ok().stdout;
        for step in steps.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            assert_eq!((names(&step), &step["processes"]), (Vec::new(), &others), "{source}: {step:#}");
            assert!(
                step["time"]["commands"].as_u64().unwrap_or(0) == 0 && step["activity"]["client"] == 0.0,
                "{step:#}"
            );
            // One of pgthaw's may be asked while the server counts.
            assert!(step["server"]["commits"].as_u64().unwrap_or(0) <= 1, "{step:#}");
        }
    }
}

test_every_version! {
    fn temporary_files_have_their_writer(version) {
        let server = servers::start(version, &[]);
        // A cursor keeps the files of its sort.
        let sorts = "SET work_mem = '64kB'; BEGIN; \
                     DECLARE c CURSOR FOR SELECT i, repeat('x', 100) FROM generate_series(1, 100000) AS i ORDER BY i DESC; FETCH 1 FROM c;";
        let _sorting = Open::start(&server, "sorter", sorts);
        wait_for(&server, "state = 'idle in transaction' AND query LIKE 'FETCH%'", "1");
        let is_writer = |one: &Value| {
            assert_eq!((&one["application_name"], &one["query"]), (&"sorter".into(), &"FETCH ? FROM c;".into()), "{one:#}");
            assert!(one["bytes"].as_u64() > Some(10_000_000) && one["files"].as_u64() > Some(0), "{one:#}");
        };
        let options = ["--source", "sql", "--seconds", "2"];
        let report = server.pgthaw(&[&["waits", "--json"], &options[..]].concat()).ok().json();
        is_writer(&report["temporary_files"][0]);
        let text = server.pgthaw(&[&["waits"], &options[..]].concat()).ok().stdout;
        assert!(text.contains("TEMPORARY FILES OF") && text.contains("@postgres sorter"), "{text}");
        let steps = server.pgthaw(&[&["top"], &options[..]].concat()).ok().stdout;
        let step: Value = serde_json::from_str(steps.lines().last().unwrap()).unwrap();
        is_writer(&step["temporary_files"][0]);
        // Nor does anybody wait for it, though it is idle in a transaction.
        let idle = &step["blockers"][0];
        assert_eq!((&idle["application_name"], &idle["behind"]), (&"sorter".into(), &Value::Array(Vec::new())), "{step:#}");
    }
}
