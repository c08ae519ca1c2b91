//! `pgthaw waits`: what is waited for has its name and its length, the sum closes, and less is told where less can be seen.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Value, json};

use postgres::StopMode;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::servers::{self, Output, TestServer};

/// Three lines of psql: the clock before and after something took its time.
fn timed(sql: &str) -> String {
    format!("SELECT extract(epoch FROM clock_timestamp());\n{sql};\nSELECT extract(epoch FROM clock_timestamp());\n")
}

/// Runs SQL with psql while pgthaw looks on; what it told, and what psql printed.
fn watch_sql(server: &TestServer, options: &[&str], sql: &str) -> (Value, Vec<String>) {
    let script = server.home().join("watched.sql");
    std::fs::write(&script, sql).unwrap();
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let command = ["--", &psql, "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-f", script.to_str().unwrap()];
    let output = server.pgthaw(&[&["waits", "--json"], options, &command].concat()).ok();
    let printed = output.stderr.lines().map(str::to_owned).collect();
    (output.json(), printed)
}

/// Nanoseconds between the first and the last line.
fn elapsed_ns(printed: &[String]) -> u64 {
    let numbers: Vec<f64> = printed.iter().filter_map(|line| line.parse().ok()).collect();
    ((numbers.last().unwrap() - numbers.first().unwrap()) * 1e9) as u64
}

/// The statistics whose names end so.
fn ending<'a>(report: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = report["statistics"].as_array().unwrap();
    all.iter().filter(|one| one["name"].as_str().unwrap().ends_with(name)).collect()
}

fn explained(report: &Value) -> f64 {
    report["explained"].as_f64().unwrap()
}

/// The program in the kernel takes root, a kernel that describes its types, and clang where pgthaw was built.
pub fn can_probe() -> bool {
    needs_root!();
    if !observe::HAS_PROBES {
        untested!(machine: "clang was missing where pgthaw was built");
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        untested!(machine: "the kernel does not describe its types");
    }
    true
}

test_every_version! {
    fn a_sleep_and_a_lock_are_named_with_their_length(version) {
        if !can_probe() {
            return;
        }
        let server = servers::start(version, &[]);
        server.psql("CREATE TABLE t AS SELECT 1 AS id");
        let (report, printed) = watch_sql(&server, &["--source", "bpf"], &timed("SELECT pg_sleep(0.8)"));
        let sleeps = ending(&report, "client backend::Timeout::PgSleep");
        assert_eq!(sleeps.len(), 1, "{report}");
        let (sleep, elapsed) = (sleeps[0], elapsed_ns(&printed));
        assert_eq!(sleep["count"], 1);
        let longest = sleep["max_ns"].as_u64().unwrap();
        assert!((792_000_000..=elapsed).contains(&longest), "{longest} of {elapsed}");
        // Only the switch to the next statement is beside it.
        assert_eq!(sleep["total_ns"], sleep["max_ns"]);

        let mut holder = server.command_of("psql");
        let mut holder = holder.args(["-XAtq", "-d", "postgres"]).stdin(Stdio::piped()).spawn().unwrap();
        let mut typed = holder.stdin.take().unwrap();
        writeln!(typed, "BEGIN; UPDATE t SET id = 2;").unwrap();
        servers::wait_until("the holder", || {
            server.psql("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'") == "1"
        });
        // The server's own account is the judge.
        let update = "SET log_lock_waits = on; SET client_min_messages = log; UPDATE t SET id = 3";
        let (report, printed) = std::thread::scope(|scope| {
            let watched = scope.spawn(|| watch_sql(&server, &["--by", "database"], update));
            // From another database, whose statistics are not those that are looked at.
            servers::wait_until("the wait", || {
                server.psql_in("template1", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'") == "1"
            });
            // Longer than deadlock_timeout, and than two seconds of the report's.
            std::thread::sleep(Duration::from_millis(2300));
            writeln!(typed, "COMMIT;").unwrap();
            watched.join().unwrap()
        });
        drop(typed);
        assert!(holder.wait().unwrap().success());
        let locks = ending(&report, "postgres::Lock::transactionid");
        assert_eq!(locks.len(), 1, "{report}");
        let acquired = printed.iter().find_map(|line| line.split_once(" acquired ")?.1.split_once(" after ")).unwrap().1;
        let acquired_ns = acquired.split(' ').next().unwrap().parse::<f64>().unwrap() * 1e6;
        let lock = locks[0];
        // Who waits wakes after deadlock_timeout, and waits on: it is one wait.
        assert_eq!(lock["count"], 1);
        let longest = lock["max_ns"].as_u64().unwrap();
        // It was ready for a processor before it could look at its clock.
        let ready: u64 = ending(&report, "postgres::processor::ready").iter().map(|one| one["total_ns"].as_u64().unwrap()).sum();
        let bounds = longest as f64 * 0.99..=(longest + ready) as f64 * 1.01;
        assert!(bounds.contains(&acquired_ns), "{acquired_ns}: {bounds:?}");
        assert!((0.999..=1.001).contains(&explained(&report)), "{report}");
        for second in report["seconds"].as_array().unwrap() {
            let explained = second["explained"].as_f64().unwrap();
            assert!((0.99..=1.01).contains(&explained), "{second}");
        }
        let waiting = |second: &Value| second["waiting_ns"].as_u64().unwrap();
        let seconds = report["seconds"].as_array().unwrap();
        assert!(seconds.iter().any(|second| waiting(second) > 900_000_000), "it is seen while it lasts: {report}");
    }
}

test_every_version! {
    fn events_have_the_names_that_the_server_gives_them(version) {
        if !can_probe() {
            return;
        }
        let server = servers::start(version, &[]);
        let report = server.pgthaw(&["waits", "--json", "--seconds", "1", "--by", "backend"]).ok().json();
        // These do nothing but wait for something to do.
        let idle = "SELECT pid || ' ' || backend_type, wait_event_type || '::' || wait_event FROM pg_stat_activity \
                    WHERE wait_event IN ('CheckpointerMain', 'LogicalLauncherMain', 'IoWorkerMain')";
        let idle = server.psql(idle);
        assert!(idle.lines().count() >= 2, "{idle}");
        for line in idle.lines() {
            let (process, event) = line.split_once('|').unwrap();
            let named = ending(&report, &format!("::{event}"));
            assert!(named.iter().any(|one| one["where"].as_str().unwrap().starts_with(process)), "{line}: {report}");
        }
        assert_no_numbers(&report);
        // Nor is it a client who tells the statistics collector something, or no event what that waits for.
        let served = report["handled_by"].as_array().unwrap().iter().map(|one| one["where"].as_str().unwrap());
        let others: Vec<_> = served.filter(|who| !who.contains("client backend")).collect();
        assert!(others.is_empty(), "{others:?}");
        let collecting = ending(&report, "stats collector::sleep::no event");
        assert!(collecting.is_empty() && ending(&report, "logger::sleep::no event").is_empty(), "{report:#}");
    }
}

test_every_version! {
    fn a_pin_and_an_extension_have_the_names_that_the_server_gives_them(version) {
        needs_root!();
        let server = servers::start(version, &[]);
        server.psql("CREATE TABLE t AS SELECT generate_series(1, 10) AS id; CREATE EXTENSION dblink");
        let mut holder = server.command_of("psql");
        let mut holder = holder.args(["-XAtq", "-d", "postgres"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let cursor = b"BEGIN; DECLARE c CURSOR FOR TABLE t; FETCH 1 FROM c;\n";
        holder.stdin.as_mut().unwrap().write_all(cursor).unwrap();
        while server.psql("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'") != "1" {}
        let mut vacuum = server.command_of("psql");
        let mut vacuum = vacuum.args(["-XAtq", "-d", "postgres", "-c", "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t"]).spawn().unwrap();
        let (host, port) = (server.cluster.socket_directory(), server.cluster.connect_options("postgres").port.unwrap());
        let far = format!(
            "SELECT * FROM dblink('host={} port={port} user=postgres dbname=postgres', 'SELECT pg_sleep(1.5)') AS t (x text)",
            host.display()
        );
        let (report, _) = watch_sql(&server, &["--source", "memory"], &far);
        holder.stdin.as_mut().unwrap().write_all(b"COMMIT;\n").unwrap();
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success() && vacuum.wait().unwrap().success());
        let pin = if version >= 19 { "Buffer::BufferCleanup" } else { "BufferPin::BufferPin" };
        assert_eq!(ending(&report, &format!("client backend::{pin}")).len(), 1, "{report:#}");
        // What the extension waits for has a name of its own in the server since 18 at least.
        if version >= 18 {
            assert_eq!(ending(&report, "client backend::Extension::DblinkGetResult").len(), 1, "{report:#}");
        }
        assert_no_numbers(&report);
    }
}

fn assert_no_numbers(report: &Value) {
    let all = report["statistics"].as_array().unwrap().iter();
    let numbers: Vec<_> = all.filter(|one| one["detail"].as_str().unwrap().parse::<u32>().is_ok()).collect();
    assert!(numbers.is_empty(), "{numbers:?}");
}

/// The directory of a socket that leads to the server, which calls itself version 20 there, one that pgthaw does not know.
fn newer_door(server: &TestServer) -> TempDir {
    let number: u32 = server.psql("SHOW server_version_num").parse().unwrap();
    let wire = |number: u32| [4_u32.to_be_bytes(), number.to_be_bytes()].concat();
    let name = |number: u32| format!("server_version\0{}", number / 10_000).into_bytes();
    let newer = 200_000 + number % 10_000;
    let replaced = [(wire(number), wire(newer)), (name(number), name(newer))];
    servers::door(server, move |bytes| {
        for (from, to) in &replaced {
            for at in 0..bytes.len().saturating_sub(from.len() - 1) {
                if bytes[at..].starts_with(from) {
                    bytes[at..at + to.len()].copy_from_slice(to);
                }
            }
        }
    })
}

#[test]
fn events_of_a_version_that_is_not_known_yet_have_the_names_of_its_server() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT 1 AS id");
    let door = newer_door(&server);
    for source in ["bpf", "memory"] {
        let update = |sql: &str| {
            let mut psql = server.command_of("psql");
            psql.args(["-XAtq", "-d", "postgres", "-c", sql]).stdout(Stdio::null()).spawn().unwrap()
        };
        let mut holder = update("BEGIN; UPDATE t SET id = 2; SELECT pg_sleep(600)");
        while server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1" {}
        let mut waiter = update("UPDATE t SET id = 3");
        while server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid'") != "1" {}
        let host = door.path().to_str().unwrap();
        let report = server.pgthaw(&["waits", "--json", "-h", host, "--source", source, "--seconds", "2"]).ok().json();
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
        assert!(!holder.wait().unwrap().success() && waiter.wait().unwrap().success());
        assert!(report["remarks"].to_string().contains("is newer than the newest"), "{report:#}");
        let expected =
            ["client backend::Timeout::PgSleep", "client backend::Lock::transactionid", "::Activity::CheckpointerMain"];
        for name in expected {
            assert_eq!(ending(&report, name).len(), 1, "{source}, {name}: {report:#}");
        }
        assert_no_numbers(&report);
    }
}

#[test]
fn workers_that_come_and_go_are_all_io_workers() {
    if !servers::has(19) {
        untested!(machine: "until PostgreSQL 18 the number of io workers is fixed: scripts/test-servers 19");
    }
    if !can_probe() {
        return;
    }
    let settings = [
        ("io_method", "worker"),
        ("io_min_workers", "1"),
        ("io_max_workers", "6"),
        ("io_worker_launch_interval", "0"),
        ("io_worker_idle_timeout", "1s"),
        ("max_parallel_workers_per_gather", "0"),
    ];
    let server = servers::start(19, &settings);
    server.psql("CREATE TABLE t AS SELECT i, repeat('x', 500) AS x FROM generate_series(1, 200000) AS i");
    let workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'io worker'";
    assert_eq!(server.psql(workers), "1");
    let scans = format!(
        "CREATE PROCEDURE scan() LANGUAGE plpgsql AS $$ BEGIN LOOP PERFORM count(*) FROM t WHERE x = 'y'; \
         PERFORM pg_stat_clear_snapshot(); EXIT WHEN ({workers}) > 2; END LOOP; END $$"
    );
    server.psql(&scans);
    // More of them come for the scans, and go again.
    let scans = "\\! for scan in 1 2 3 4; do psql -XAtq -d postgres -c 'SET statement_timeout = 30000' -c 'CALL scan()' & done; wait; sleep 2";
    let (report, _) = watch_sql(&server, &["--source", "bpf", "--by", "backend"], &path_of_psql(&server, scans));
    let all = report["statistics"].as_array().unwrap().iter().map(|one| one["where"].as_str().unwrap());
    let of_workers: BTreeSet<&str> = all.filter(|who| who.contains("io worker")).collect();
    assert!(of_workers.len() >= 3, "{of_workers:?}: {report:#}");
    while server.psql(workers) != "1" {}
    assert!((0.99..=1.01).contains(&explained(&report)), "{report:#}");
    let nobody = ending(&report, "::Activity::IoWorkerMain");
    assert!(nobody.iter().all(|one| one["where"].as_str().unwrap().contains("io worker")), "{nobody:#?}");
}

/// psql's `\!` finds the server's own psql.
fn path_of_psql(server: &TestServer, line: &str) -> String {
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    format!("{}\n", line.replace("psql ", &format!("{psql} ")))
}

#[test]
fn what_the_server_counts_of_locks_is_told() {
    if !servers::has(19) {
        untested!(machine: "PostgreSQL 18 has no pg_stat_lock: scripts/test-servers 19");
    }
    let server = servers::start(19, &[("deadlock_timeout", "100ms")]);
    server.psql("CREATE TABLE t AS SELECT 1 AS id");
    let mut holder = server.command_of("psql");
    // Until somebody has waited for longer than deadlock_timeout.
    let holds = "BEGIN; UPDATE t SET id = 2; DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_locks WHERE NOT granted) LOOP \
                 PERFORM pg_sleep(0.05); END LOOP; PERFORM pg_sleep(0.5); END $$; COMMIT";
    holder.args(["-XAtq", "-d", "postgres", "-c", holds]);
    let mut holder = holder.stdout(Stdio::null()).spawn().unwrap();
    while server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != "1" {}
    let update = "UPDATE t SET id = 3; SELECT pg_stat_force_next_flush();\n";
    let (report, _) = watch_sql(&server, &["--source", "sql"], update);
    assert!(holder.wait().unwrap().success());
    let told = report["remarks"].to_string();
    assert!(told.contains("pg_stat_lock counted lock waits") && told.contains("1 for transactionid"), "{told}");
}

test_every_version! {
    fn the_logger_waits_for_something_to_do_and_serves_nobody(version) {
        if !can_probe() {
            return;
        }
        let mut server = servers::start(version, &[]);
        server.cluster.stop(StopMode::Fast).unwrap();
        server.cluster.start_with(|command| _ = command.args(["-c", "logging_collector=on"])).unwrap();
        let logged = "DO $$BEGIN FOR i IN 1..50 LOOP RAISE LOG 'line %', i; PERFORM pg_sleep(0.01); END LOOP; END$$";
        let (report, _) = watch_sql(&server, &["--by", "backend"], logged);
        let of_logger = |list: &str| -> Vec<Value> {
            let all = report[list].as_array().unwrap().iter();
            all.filter(|one| one["where"].as_str().unwrap().contains("logger")).cloned().collect()
        };
        assert!(!of_logger("statistics").is_empty(), "it did nothing: {report:#}");
        let unnamed = ending(&report, "logger::sleep::no event");
        assert!(unnamed.is_empty() && of_logger("handled_by").is_empty(), "{report:#}");
    }
}

#[test]
fn who_comes_and_goes_is_counted_and_who_only_has_the_name_is_not() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let mut impostor = Command::new("sleep").arg0("postgres: checkpointer").arg("60").spawn().unwrap();
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let many = format!("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do {psql} -XAtqc 'SELECT 1' postgres; done");
    let watched = ["waits", "--json", "--by", "backend", "--source", "bpf", "--", "sh", "-c", &many];
    let report = server.pgthaw(&watched).ok().json();
    impostor.kill().unwrap();
    impostor.wait().unwrap();
    // Beside those that were there: the postmaster and its background processes.
    let stayed = server.psql("SELECT count(*) + 1 FROM pg_stat_activity WHERE backend_type <> 'client backend'");
    let came = report["processes"].as_u64().unwrap() - stayed.parse::<u64>().unwrap();
    assert!(came >= 12, "{came}: {report}");
    assert_eq!(report["lost_processes"], 0);
    assert!((0.999..=1.001).contains(&explained(&report)), "{report}");
    let impostors = format!("{} ", impostor.id());
    let followed = report["statistics"].as_array().unwrap().iter();
    assert!(!followed.clone().any(|one| one["where"].as_str().unwrap().starts_with(&impostors)), "{report}");
    assert!(followed.clone().any(|one| one["where"].as_str().unwrap().ends_with("checkpointer")), "{report}");
    assert!(report["commands"].as_u64().unwrap() >= 12);
    let programs = report["cost"]["kernel"]["programs"].as_array().unwrap();
    assert!(programs.iter().any(|one| one["name"] == "time_switch" && one["total_ns"].as_u64() > Some(0)), "{report}");
}

#[test]
fn a_command_is_handled_from_its_receipt_until_the_next_is_waited_for() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let sql = format!("{}SELECT pg_sleep(0.4);\n", "SELECT 1;\n".repeat(200));
    let (report, _) = watch_sql(&server, &["--source", "bpf"], &sql);
    let handled = report["handled_by"].as_array().unwrap();
    let own = handled.iter().find(|one| one["where"] == "client backend").unwrap();
    assert_eq!(own["name"], "client backend::command::handled");
    // Beside these the session's begin, its settings and its end.
    let count = own["count"].as_u64().unwrap();
    assert!((201..210).contains(&count), "{count}: {report}");
    let longest = own["max_ns"].as_u64().unwrap();
    assert!((400_000_000..1_000_000_000).contains(&longest), "{longest}");
    let waited: u64 =
        ending(&report, "client backend::Client::ClientRead").iter().map(|one| one["total_ns"].as_u64().unwrap()).sum();
    assert!(waited + own["total_ns"].as_u64().unwrap() <= report["lived_ns"].as_u64().unwrap(), "{report}");
}

/// docs/sources.md, B9 and B43.
#[test]
fn waits_for_lightweight_locks_are_counted_by_tranche() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[("fsync", "on")]);
    server.psql("CREATE TABLE t (i int)");
    let script = server.home().join("commit.sql");
    fs::write(&script, "INSERT INTO t VALUES (1);\n").unwrap();
    let pgbench = server.command_of("pgbench").get_program().to_str().unwrap().to_owned();
    // Many small commits stand in line for the log.
    let load = ["--", &pgbench, "-n", "-c", "8", "-t", "300", "-f", script.to_str().unwrap(), "postgres"];
    let run = |options: &[&str]| {
        server.pgthaw(&[&["waits", "--source", "bpf", "--budget", "100"], options, &load].concat()).ok()
    };
    let report = run(&["--json"]).json();
    let tranches = ending(&report, "client backend::LWLock::WALWrite");
    assert_eq!(tranches.len(), 1, "{report}");
    let of = |name: &str| tranches[0][name].as_u64().unwrap();
    let (count, total, longest, mean) = (of("count"), of("total_ns"), of("max_ns"), of("average_ns"));
    assert!(count > 0 && longest <= total && mean <= longest, "{}", tranches[0]);
    assert!(mean.abs_diff(total / count) <= longest, "{}", tranches[0]);
    let counted: u64 = tranches[0]["histogram"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).sum();
    assert_eq!(counted, count, "every wait has a bucket");
    let text = run(&[]).stdout;
    let titles = text.lines().find(|line| line.starts_with("NAME")).unwrap();
    assert!(["COUNT", "TOTAL", "AVERAGE", "MAX"].iter().all(|title| titles.contains(title)), "{text}");
    assert!(text.contains("client backend::LWLock::WALWrite"), "{text}");
    let gone = server.pgthaw(&["waits", "--lwlocks"]).ends_with(2).stderr;
    assert!(gone.contains("counts LWLock waits by tranche"), "{gone}");
}

#[test]
fn looks_at_memory_or_over_sql_tell_less_and_say_so() {
    let server = servers::start_any(&[]);
    let sources: &[&str] = if rustix::process::geteuid().is_root() { &["memory", "sql"] } else { &["sql"] };
    for source in sources {
        let (report, _) = watch_sql(&server, &["--source", source], "SELECT pg_sleep(1)");
        let sleeps = ending(&report, "client backend::Timeout::PgSleep");
        assert_eq!(sleeps.len(), 1, "{source}: {report}");
        // A look more or less, and how late a busy machine looks.
        let total = sleeps[0]["total_ns"].as_u64().unwrap();
        assert!((500_000_000..1_500_000_000).contains(&total), "{source}: {total}");
        assert_eq!((&sleeps[0]["count"], &sleeps[0]["p99_ns"]), (&Value::from(0), &Value::Null));
        assert_eq!((&report["source"], &report["ready_ns"]), (&Value::from(*source), &Value::Null));
        for part in [&report, &report["seconds"][0]] {
            for counted in ["commands", "handled", "handled_ns", "switches"] {
                assert_eq!(part.get(counted), Some(&Value::Null), "{counted} is counted by nobody: {part}");
            }
        }
        let text = server.pgthaw(&["waits", "--seconds", "1", "--source", source]).ok().stdout;
        assert!(text.contains("times are estimates") && text.contains("a sample stands for all the time"), "{text}");
    }
}

#[test]
fn who_may_do_less_is_told_why_it_is_less() {
    let server = servers::start_any(&[]);
    needs_root!();
    let report = server.pgthaw_as(65534, &["waits", "--json", "--seconds", "1"]).ok().json();
    assert_eq!(report["source"], "sql");
    let refused: Vec<&str> =
        report["refused"].as_array().unwrap().iter().map(|one| one["source"].as_str().unwrap()).collect();
    assert_eq!(refused, ["bpf", "memory"]);
    assert!(report["refused"][0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()));
    // Asked for by name it is not replaced by something else.
    let refused: Output = server.pgthaw_as(65534, &["waits", "--source", "bpf"]);
    assert_eq!(refused.status, 3, "{refused:?}");
}

#[test]
fn the_command_decides_how_it_ends() {
    let server = servers::start_any(&[]);
    let run = |command: &[&str]| server.pgthaw(&[&["waits", "--source", "sql", "--"], command].concat());
    let failed = run(&["sh", "-c", "echo said; exit 7"]);
    assert_eq!(failed.status, 7);
    assert!(failed.stdout.starts_with("said\n") && failed.stdout.contains("EXPLAINED"), "{}", failed.stdout);
    let missing = run(&["/no/such/program"]);
    assert_eq!(missing.status, 1);
    assert!(missing.stderr.contains("cannot start /no/such/program"), "{}", missing.stderr);
    server.pgthaw(&["waits", "--seconds", "1", "--", "true"]).ends_with(2);
}

/// A row of a Parquet file as an object.
fn object_of(row: &Row) -> Value {
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Str(text) => json!(text),
        Field::Long(number) => json!(number),
        other => panic!("{other}"),
    };
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect::<serde_json::Map<_, _>>().into()
}

/// All rows of a Parquet file.
pub fn rows_of(path: &Path) -> Vec<Value> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| object_of(&row.unwrap())).collect()
}

#[test]
fn what_is_written_as_parquet_is_what_is_told() {
    let server = servers::start_any(&[]);
    let file = server.home().join("waits.parquet");
    let (report, _) = watch_sql(&server, &["--parquet", file.to_str().unwrap()], "SELECT 1; SELECT pg_sleep(1.2)");
    let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
    let facts = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let fact = |key: &str| facts.iter().find(|one| one.key == key).and_then(|one| one.value.clone());
    assert_eq!(fact("pgthaw.source").as_deref(), report["source"].as_str());
    assert_eq!(fact("pgthaw.by").as_deref(), Some("kind"));
    assert_eq!(fact("pgthaw.length_ns"), Some(report["length_ns"].to_string()));
    let rows = rows_of(&file);
    let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).collect::<Vec<_>>();
    for (kind, told) in [("statistic", &report["statistics"]), ("command", &report["handled_by"])] {
        let (written, told) = (of(kind), told.as_array().unwrap());
        assert_eq!(written.len(), told.len(), "{kind}");
        for (row, told) in written.into_iter().zip(told) {
            let has_lengths = told["histogram"].as_array().unwrap().iter().any(|count| *count != 0);
            let or_null = |value: &Value| if has_lengths { value.clone() } else { Value::Null };
            let buckets: Vec<&Value> = (0..32).map(|bucket| &row[format!("bucket_{bucket:02}")]).collect();
            assert_eq!(json!(buckets), told["histogram"]);
            for (column, expected) in [
                ("second", Value::Null),
                ("who", told["where"].clone()),
                ("part", told["part"].clone()),
                ("detail", told["detail"].clone()),
                ("name", told["name"].clone()),
                ("count", told["count"].clone()),
                ("total_ns", told["total_ns"].clone()),
                ("min_ns", or_null(&told["min_ns"])),
                ("max_ns", or_null(&told["max_ns"])),
            ] {
                assert_eq!(row[column], expected, "{column} of {row}");
            }
        }
    }
    let seconds = report["seconds"].as_array().unwrap();
    assert!(!seconds.is_empty() && !report["statistics"].as_array().unwrap().is_empty());
    let names =
        ["lived", "running", "ready", "client", "idle", "waiting", "no_event", "unknown", "commands", "handled"];
    for (number, second) in (1..).zip(seconds) {
        let in_it: Vec<_> = of("second").into_iter().filter(|row| row["second"] == number).collect();
        assert!(in_it.iter().all(|row| row["until_ns"] == second["until_ns"] && row["max_ns"].is_null()), "{in_it:?}");
        let ns = |name: &str| in_it.iter().find(|row| row["name"] == name).map(|row| row["total_ns"].clone());
        for name in names {
            // What the source cannot tell has no row.
            let expected = &second[format!("{name}_ns")];
            assert_eq!(ns(name).unwrap_or_default(), *expected, "{name} of {second}");
        }
        let commands = in_it.iter().find(|row| row["name"] == "commands").unwrap();
        assert_eq!(commands["count"], second["commands"]);
    }
    assert_eq!(of("second").iter().map(|row| row["second"].as_u64()).max().flatten(), Some(seconds.len() as u64));
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_looked_at() {
    let server = servers::start_any(&[]);
    let missing = server.home().join("no/such/waits.parquet");
    let refused = server.pgthaw(&["waits", "--parquet", missing.to_str().unwrap(), "--", "sh", "-c", "echo ran"]);
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(refused.stderr.contains("cannot export to") && !refused.stdout.contains("ran"), "{refused:?}");
    // Neither is a file there when somebody did not want to look any longer, or nothing could be looked at.
    let file = server.home().join("waits.parquet");
    server.pgthaw(&["waits", "--parquet", file.to_str().unwrap(), "--", "/no/such/program"]).ends_with(1);
    let left = fs::read_dir(server.home()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = left.filter(|name| name.contains("parquet") || name.contains("draft")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_command_that_a_signal_ends_has_the_status_of_a_shell() {
    let server = servers::start_any(&[]);
    server.pgthaw(&["waits", "--source", "sql", "--", "sh", "-c", "kill -TERM $$"]).ends_with(143);
}

#[test]
fn a_full_disk_is_told_with_the_option_that_names_another_place() {
    let server = servers::start_any(&[]);
    let output = server.pgthaw(&["waits", "--source", "sql", "--parquet", "/dev/full", "--", "true"]).ends_with(1);
    assert!(output.stderr.contains("No space left on device"), "{}", output.stderr);
    assert!(output.stderr.contains("another disk with --parquet FILE"), "{}", output.stderr);
}

/// Looks on for long in another process, and what it tells when it is interrupted.
fn watch_beside(server: &mut TestServer, options: &[&str], meanwhile: impl FnOnce(&mut TestServer)) -> Value {
    let arguments = [&["waits", "--json", "--seconds", "600"], options].concat();
    let child = server.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_sessions(server);
    meanwhile(server);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    Output::from(child.wait_with_output().unwrap()).ends_with(130).json()
}

/// Until pgthaw is there and asks.
fn wait_for_sessions(server: &TestServer) {
    let asks =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgthaw' AND query LIKE '%backend_type%'";
    while server.psql(asks) == "0" {
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_server_that_is_restarted_is_looked_at_again() {
    let sources: &[&str] = match (can_probe(), rustix::process::geteuid().is_root()) {
        (true, _) => &["bpf", "memory", "sql"],
        (_, true) => &["memory", "sql"],
        _ => &["sql"],
    };
    for source in sources {
        let mut server = servers::start_any(&[]);
        let report = watch_beside(&mut server, &["--source", source], |server| {
            server.psql("SELECT pg_sleep(1.5)");
            server.restart();
            wait_for_sessions(server);
            server.psql("SELECT pg_sleep(1.5)");
        });
        let remarks = report["remarks"].as_array().unwrap();
        assert_eq!(remarks.len(), 1, "{source}: {report:#}");
        assert!(remarks[0].as_str().unwrap().starts_with("the server restarted: it stopped at "), "{remarks:?}");
        assert_eq!(report["source"], *source);
        let sleeps = ending(&report, "client backend::Timeout::PgSleep");
        assert_eq!(sleeps.len(), 1, "{source}: {report:#}");
        // One before, and one after; a busy machine looks late.
        let total = sleeps[0]["total_ns"].as_u64().unwrap();
        assert!((2_200_000_000..4_000_000_000).contains(&total), "{source}: {total}");
        if *source == "bpf" {
            assert_eq!(sleeps[0]["count"], 2, "{report:#}");
            assert!((0.99..=1.001).contains(&explained(&report)), "{report:#}");
            for second in report["seconds"].as_array().unwrap() {
                // Nobody lived while the server was away.
                let explained = second["explained"].as_f64().unwrap_or(1.0);
                assert!((0.99..=1.001).contains(&explained), "{second}");
            }
        }
        // The new server's processes are known by their kind, and nobody else's.
        assert_eq!(ending(&report, "checkpointer::Activity::CheckpointerMain").len(), 1, "{source}: {report:#}");
    }
}

#[test]
fn whose_sessions_are_ended_opens_new_ones_and_says_so() {
    let mut server = servers::start_any(&[]);
    let report = watch_beside(&mut server, &["--source", "sql"], |server| {
        let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'pgthaw'";
        assert_eq!(server.psql(ended), "2");
        wait_for_sessions(server);
        server.psql("SELECT pg_sleep(1.5)");
    });
    let remarks = report["remarks"].to_string();
    assert!(remarks.contains("ended pgthaw's sessions at") && !remarks.contains("restarted"), "{remarks}");
    assert_eq!(ending(&report, "client backend::Timeout::PgSleep").len(), 1, "{report:#}");
}

#[test]
fn a_question_that_fails_ends_no_session_and_is_told() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE ROLE app LOGIN; GRANT pg_monitor TO app");
    let report = watch_beside(&mut server, &["--source", "sql", "-U", "app"], |server| {
        server.psql("REVOKE EXECUTE ON FUNCTION pg_stat_get_activity(integer) FROM PUBLIC; SELECT pg_sleep(1.5)");
        server.psql("GRANT EXECUTE ON FUNCTION pg_stat_get_activity(integer) TO PUBLIC; SELECT pg_sleep(1.5)");
    });
    let remarks = report["remarks"].to_string();
    assert!(remarks.contains("for the process list failed") && remarks.contains("permission denied"), "{remarks}");
    assert!(!remarks.contains("ended pgthaw's sessions"), "{remarks}");
    assert_eq!(ending(&report, "client backend::Timeout::PgSleep").len(), 1, "it goes on: {report:#}");
}

/// Of a container only its pid namespace: its server's pids are others out here.
#[test]
fn a_server_in_a_container_is_seen_from_its_host() {
    if !can_probe() {
        return;
    }
    let mut server = servers::start_any(&[]);
    server.cluster.stop(StopMode::Fast).unwrap();
    let (data, program) = (server.data_directory(), server.command_of("postgres"));
    let options = std::fs::read_to_string(data.join("postmaster.opts")).unwrap();
    let owner = std::fs::metadata(&data).unwrap().uid().to_string();
    // The options as they were, without the program and the quotes around each.
    let words = options.split('"').skip(1).step_by(2);
    let mut contained = Command::new("unshare");
    contained.args(["--pid", "--fork", "--kill-child", "setpriv", "--clear-groups", "--reuid", &owner]);
    contained.arg(program.get_program()).args(words).stdout(Stdio::null()).stderr(Stdio::null());
    let mut contained = contained.spawn().unwrap();
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let is_up = || server.command_of("psql").args(["-Xc", "", "postgres"]).output().unwrap().status.success();
    while !is_up() {
        assert!(contained.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    let sleep = ["--by", "query", "--", &psql, "-Xqd", "postgres", "-c", "SELECT pg_sleep(0.8)"];
    let output = server.pgthaw(&[&["waits", "--json", "--source", "bpf"], &sleep[..]].concat());
    let _ = contained.kill();
    let _ = contained.wait();
    let report = output.ok().json();
    let slept = ending(&report, "::Timeout::PgSleep");
    assert_eq!(slept.len(), 1, "{report}");
    assert!(slept[0]["name"].as_str().unwrap().starts_with("SELECT pg_sleep("), "it is known who slept: {}", slept[0]);
}
