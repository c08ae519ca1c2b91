//! `pgthaw restore` on real servers: what comes back, what does not and why, and what happens when it is disturbed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use postgres::StopMode;
use serde_json::Value;

use crate::servers::{self, Output, TestServer};

/// Of what was asked for, the share that has to be there: the kernel may take a page back at any time.
const RESIDENT_MIN: f64 = 0.95;

/// Two tables of some 30 MB with indexes, in the page cache; the hot one in shared_buffers.
const TABLES: &str = "
    CREATE EXTENSION pg_prewarm;
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE hot (id int PRIMARY KEY, body text);
    CREATE TABLE cold (id int PRIMARY KEY, body text);
    INSERT INTO hot SELECT i, repeat('h', 300) FROM generate_series(1, 80000) AS i;
    INSERT INTO cold SELECT i, repeat('c', 300) FROM generate_series(1, 80000) AS i;
    VACUUM ANALYZE hot;
    VACUUM ANALYZE cold;
    CHECKPOINT;
    SELECT pg_prewarm(oid::regclass, 'read') FROM pg_class WHERE relname IN ('hot', 'cold', 'hot_pkey', 'cold_pkey');
    SELECT pg_prewarm('hot', 'buffer', 'main', 0, 999) FROM generate_series(1, 4);
";

fn warm_server(version: u32) -> TestServer {
    let server = servers::start(version, &[("shared_buffers", "128MB")]);
    server.psql(TABLES);
    server.pgthaw(&["snapshot", "take"]).ok();
    server
}

fn any_warm_server() -> TestServer {
    warm_server(servers::servers().last().unwrap().0)
}

/// Cold: no buffer, no page.
fn make_cold(server: &mut TestServer) {
    server.restart();
    evict(server);
}

fn evict(server: &TestServer) {
    let receipt = server.pgthaw(&["evict", "--all", "--tier", "os", "--json"]).ok().json();
    let (before, after) = (&receipt["os"]["resident_before_bytes"], &receipt["os"]["resident_after_bytes"]);
    assert!(after.as_u64().unwrap() * 10 < before.as_u64().unwrap(), "{receipt:#}");
}

fn restore(server: &TestServer, arguments: &[&str]) -> Output {
    server.pgthaw(&[&["restore", "--json"], arguments].concat())
}

fn resident_share(tier: &Value) -> f64 {
    tier["resident_after_bytes"].as_f64().unwrap() / tier["asked_bytes"].as_f64().unwrap()
}

/// The skips of a relation, as (fork, tier, reason).
fn skips(receipt: &Value, relation: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let skipped = receipt["skipped"].as_array().unwrap().iter().filter(|one| one["name"] == relation);
    // Pages that the kernel took back in this very moment are no concern of these tests.
    let skipped = skipped.filter(|one| one["reason"] != "did_not_stay");
    skipped.map(|one| (text(&one["fork"]), text(&one["tier"]), text(&one["reason"]))).collect()
}

fn row<'a>(receipt: &'a Value, relation: &str, tier: &str) -> &'a Value {
    let is_it = |row: &&Value| row["name"] == relation && row["tier"] == tier && row["fork"] == "main";
    receipt["relations"].as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("{relation}: {receipt:#}"))
}

test_every_version! {
    fn both_tiers_come_back(version) {
        let mut server = warm_server(version);
        make_cold(&mut server);
        let receipt = restore(&server, &[]).ok().json();
        assert!(receipt["os"]["resident_before_bytes"].as_u64() < receipt["os"]["asked_bytes"].as_u64(), "{receipt:#}");
        assert!(resident_share(&receipt["os"]) >= RESIDENT_MIN, "{receipt:#}");
        assert!(resident_share(&receipt["buffers"]) >= RESIDENT_MIN, "{receipt:#}");
        assert!(receipt["os"]["reads"].as_u64().unwrap() > 0);
        assert_eq!(receipt["stopped_by"], Value::Null);
        let usage = "SELECT min(usagecount) FROM pg_buffercache
            WHERE relfilenode = pg_relation_filenode('hot') AND relforknumber = 0 AND relblocknumber < 1000";
        assert!(server.psql(usage).parse::<u8>().unwrap() >= 3, "hot buffers are hot again");
        // What is there is not read again.
        let again = restore(&server, &[]).ok().json();
        let read = again["os"]["read_bytes"].as_f64().unwrap();
        assert!(read < 0.05 * again["os"]["asked_bytes"].as_f64().unwrap(), "{again:#}");
        assert_eq!(again["buffers"]["read_bytes"], 0, "{again:#}");
    }
}

test_every_version! {
    fn what_changed_is_handled_and_told(version) {
        let mut server = servers::start(version, &[("shared_buffers", "128MB")]);
        server.psql(TABLES);
        server.psql(
            "CREATE TABLE dropped AS SELECT i, repeat('d', 300) FROM generate_series(1, 10000) AS i;
             CREATE TABLE truncated AS SELECT i, repeat('d', 300) FROM generate_series(1, 10000) AS i;
             CREATE TABLE emptied AS TABLE truncated;
             CREATE TABLE grown AS TABLE truncated;
             CREATE TABLE rewritten AS TABLE truncated;
             CREATE TABLE half_cold AS SELECT i, repeat('d', 300) FROM generate_series(1, 80000) AS i;
             CHECKPOINT",
        );
        server.pgthaw(&["evict", "-r", "half_cold", "--tier", "os"]).ok();
        server.psql("SELECT pg_prewarm('half_cold', 'read', 'main', 0, 50)");
        server.pgthaw(&["snapshot", "take"]).ok();
        server.psql(
            "DROP TABLE dropped;
             DELETE FROM truncated WHERE i > 5000;
             VACUUM (TRUNCATE) truncated;
             TRUNCATE emptied;
             INSERT INTO grown TABLE grown;
             VACUUM FULL rewritten;
             VACUUM FULL half_cold",
        );
        make_cold(&mut server);
        let receipt = restore(&server, &["--tier", "os"]).ok().json();
        let os = |fork: &str, reason: &str| (fork.to_owned(), "os".to_owned(), reason.to_owned());
        assert_eq!(skips(&receipt, "dropped").first(), Some(&os("main", "dropped")), "{receipt:#}");
        assert_eq!(skips(&receipt, "truncated"), [os("main", "truncated")], "{receipt:#}");
        assert_eq!(skips(&receipt, "half_cold").first(), Some(&os("main", "rewritten")), "{receipt:#}");
        assert_eq!(skips(&receipt, "rewritten"), [], "{receipt:#}");
        assert_eq!(row(&receipt, "rewritten", "os")["found"], "whole_rewritten");
        assert!(row(&receipt, "grown", "os")["grown_blocks"].as_u64().unwrap() > 100, "{receipt:#}");
        for name in ["rewritten", "grown"] {
            assert!(resident_share(row(&receipt, name, "os")) >= RESIDENT_MIN, "{receipt:#}");
        }
        // TRUNCATE gives a new, empty file: there is nothing that could be read.
        assert_eq!(row(&receipt, "emptied", "os")["resident_after_bytes"].as_u64().unwrap_or(0), 0, "{receipt:#}");
    }
}

#[test]
fn no_block_is_cached_twice_when_that_is_asked_for() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    // Room for the hottest thousand blocks of the table alone.
    let receipt = restore(&server, &["--tier", "exclusive", "--budget", "buffers=8MiB"]).ok().json();
    let double = |when: &str| receipt["no_double"][when].as_u64().unwrap();
    assert!(double("cached_before_bytes") > 7_000_000, "{receipt:#}");
    assert!(double("cached_after_bytes") * 10 < double("cached_before_bytes"), "{receipt:#}");
    let map = server.pgthaw(&["map", "-r", "hot", "--json"]).ok().json();
    let hot = map["relations"].as_array().unwrap().iter().find(|one| one["name"] == "hot").unwrap();
    let blocks = |of: &str| hot[of].as_u64().unwrap();
    assert!(blocks("buffers_blocks") > 900 && blocks("both_blocks") < 100, "{hot:#}");
    assert!(blocks("os_blocks") > 2000, "what has no buffer stays: {hot:#}");
    assert_eq!(restore(&server, &[]).ok().json()["no_double"], Value::Null);
}

#[test]
fn a_stopped_server_is_warmed_before_its_start() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let directory = directory.to_str().unwrap();
    // The snapshot that is meant is that of the directory's cluster.
    let receipt = restore(&server, &["-D", directory]).ok().json();
    assert!(resident_share(&receipt["os"]) >= RESIDENT_MIN, "{receipt:#}");
    assert!(receipt["skipped"].as_array().unwrap().iter().any(|one| one["reason"] == "no_server"), "{receipt:#}");
    server.cluster.start().unwrap();
    let receipt = restore(&server, &[]).ok().json();
    assert!(resident_share(&receipt["buffers"]) >= RESIDENT_MIN, "{receipt:#}");
    let read = receipt["os"]["read_bytes"].as_f64().unwrap();
    assert!(read < 0.05 * receipt["os"]["asked_bytes"].as_f64().unwrap(), "it was warm already: {receipt:#}");
}

#[test]
fn a_part_is_restored_alone() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let receipt = restore(&server, &["-r", "hot", "--tier", "os"]).ok().json();
    let names: Vec<&str> =
        receipt["relations"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"hot") && names.contains(&"hot_pkey") && !names.contains(&"cold"), "{names:?}");
    let map = server.pgthaw(&["map", "-r", "cold", "--json"]).ok().json().to_string();
    assert!(map.contains("\"cold\""), "{map}");
    restore(&server, &["-r", "nothing_like_it"]).ends_with(2);
}

#[test]
fn a_dry_run_tells_what_it_would_cost() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let receipt = restore(&server, &["--dry-run", "--riops", "1000", "--rbps", "10MB"]).ok().json();
    let forecast = &receipt["forecast"];
    let bound = forecast["read_bytes"].as_f64().unwrap() / 10e6;
    assert!(forecast["seconds"].as_f64().unwrap() >= bound && bound > 1.0, "{receipt:#}");
    let text = server.pgthaw(&["restore", "--dry-run"]).ok().stdout;
    assert!(text.starts_with("snapshot ") && text.contains("\nwould read "), "{text}");
    let receipt = restore(&server, &["--dry-run"]).ok().json();
    assert!(receipt["forecast"]["read_bytes"].as_f64().unwrap() > 0.9 * forecast["read_bytes"].as_f64().unwrap());
}

#[test]
fn a_budget_is_kept_hottest_first() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let receipt = restore(&server, &["--tier", "os", "--budget", "13MB"]).ok().json();
    assert!(receipt["os"]["read_bytes"].as_u64().unwrap() <= 13 << 20, "{receipt:#}");
    assert!(skips(&receipt, "cold").contains(&("main".into(), "os".into(), "over_budget".into())), "{receipt:#}");
    let hot = row(&receipt, "hot", "os")["read_bytes"].as_u64().unwrap();
    let cold = row(&receipt, "cold", "os")["read_bytes"].as_u64().unwrap();
    assert!(hot > cold, "{receipt:#}");
}

#[test]
fn a_snapshot_of_another_cluster_is_refused_unless_insisted() {
    let version = servers::servers().last().unwrap().0;
    let source = warm_server(version);
    let snapshots = source.home().join("elsewhere.parquet");
    let path = snapshots.to_str().unwrap();
    source.pgthaw(&["snapshot", "take", "-o", path]).ok();
    let mut other = servers::start_new(version, &[("shared_buffers", "128MB")]);
    other.psql(TABLES);
    make_cold(&mut other);
    let refused = other.pgthaw(&["restore", path]).ends_with(2);
    assert!(refused.stderr.contains("another cluster"), "{}", refused.stderr);
    let receipt = restore(&other, &[path, "--other-cluster"]).ok().json();
    assert_eq!(row(&receipt, "hot", "os")["found"], "whole_rewritten");
    assert_eq!(receipt["is_other_cluster"], true);
    let told = other.pgthaw(&["restore", path, "--other-cluster", "-v"]).ok().stdout;
    assert!(told.contains("the snapshot is from another cluster with another block layout: "), "{told}");
    assert!(told.contains("another cluster's") && !told.contains("rewritten"), "nothing was rewritten: {told}");
    assert!(resident_share(row(&receipt, "hot", "os")) >= RESIDENT_MIN, "{receipt:#}");
}

#[test]
fn a_database_without_pg_prewarm_is_told_or_given_it() {
    let mut server = any_warm_server();
    server.psql("DROP EXTENSION pg_prewarm");
    make_cold(&mut server);
    let receipt = restore(&server, &[]).ends_with(3).json();
    let hot = skips(&receipt, "hot");
    assert!(hot.contains(&("main".into(), "buffers".into(), "no_prewarm".into())), "{receipt:#}");
    assert!(resident_share(&receipt["os"]) >= RESIDENT_MIN, "{receipt:#}");
    restore(&server, &["--tier", "buffers"]).ends_with(3);
    let receipt = restore(&server, &["--create-extensions"]).ok().json();
    assert!(resident_share(&receipt["buffers"]) >= RESIDENT_MIN, "{receipt:#}");
}

#[test]
fn who_may_not_read_the_files_is_told() {
    needs_root!();
    let server = any_warm_server();
    let directory = server.data_directory();
    let snapshot = server.home().join("readable.parquet");
    server.pgthaw(&["snapshot", "take", "-o", snapshot.to_str().unwrap()]).ok();
    fs::set_permissions(&snapshot, fs::Permissions::from_mode(0o644)).unwrap();
    server.show_state();
    let output = server.pgthaw_as(65534, &["restore", snapshot.to_str().unwrap(), "--tier", "os", "--json"]);
    let receipt = output.ends_with(3).json();
    assert_eq!(receipt["os"]["read_bytes"], 0, "{receipt:#}");
    let refused = server.pgthaw_as(65534, &["restore", snapshot.to_str().unwrap(), "-D", directory.to_str().unwrap()]);
    assert_eq!(refused.status, 3, "{refused:?}");
}

/// Starts a restore that takes long, and waits until it has begun to read.
fn slow_restore(server: &TestServer) -> Child {
    let fetched = || server.pgthaw(&["map", "--json"]).ok().json()["os"]["resident_blocks"].as_u64();
    let before = fetched();
    let mut command = server.command(&["restore", "--pace", "2MB", "--json", "--tier", "os"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while fetched().zip(before).is_some_and(|(now, before)| now < before + 200) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    child
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn ctrl_c_gives_the_receipt() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let child = slow_restore(&server);
    signal(&child, rustix::process::Signal::INT);
    let receipt = Output::from(child.wait_with_output().unwrap()).ends_with(130).json();
    assert_eq!(receipt["stopped_by"], "interrupted");
    let os = &receipt["os"];
    assert!(os["resident_after_bytes"].as_u64() < os["asked_bytes"].as_u64(), "{receipt:#}");
    assert!(receipt["skipped"].as_array().unwrap().iter().any(|one| one["reason"] == "interrupted"), "{receipt:#}");
}

/// Whoever started it knows by the status which signal it was, as of a program that handles none.
#[test]
fn other_signals_give_the_receipt_and_their_own_status() {
    use rustix::process::Signal;
    let mut server = any_warm_server();
    for (asked, status) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        make_cold(&mut server);
        let child = slow_restore(&server);
        signal(&child, asked);
        let receipt = Output::from(child.wait_with_output().unwrap()).ends_with(status).json();
        assert_eq!(receipt["stopped_by"], "interrupted", "{asked:?}");
    }
}

#[test]
fn a_restore_beside_another_says_so() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let first = slow_restore(&server);
    let pid = first.id().to_string();
    // It would have read everything as soon as the next has.
    signal(&first, rustix::process::Signal::STOP);
    let told = server.pgthaw(&["restore"]).ok();
    assert!(told.stderr.contains(&format!("(process {pid}) is already running")), "{}", told.stderr);
    let receipt = restore(&server, &[]).ok().json();
    assert!(receipt["remarks"].to_string().contains(&pid), "{receipt:#}");
    signal(&first, rustix::process::Signal::INT);
    signal(&first, rustix::process::Signal::CONT);
    let interrupted = Output::from(first.wait_with_output().unwrap());
    assert!(!interrupted.json()["remarks"].to_string().contains("already running"), "nobody was there before it");
    let alone = server.pgthaw(&["restore"]).ok();
    assert!(!alone.stderr.contains("already running"), "{}", alone.stderr);
}

#[test]
fn a_killed_restore_harms_nothing() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let mut child = slow_restore(&server);
    child.kill().unwrap();
    child.wait().unwrap();
    server.pgthaw(&["snapshot", "list", "--verify"]).ok();
    let receipt = restore(&server, &[]).ok().json();
    assert!(resident_share(&receipt["os"]) >= RESIDENT_MIN, "{receipt:#}");
}

#[test]
fn a_server_that_stops_meanwhile_loses_only_its_buffers() {
    let mut server = any_warm_server();
    make_cold(&mut server);
    let mut command = server.command(&["restore", "--pace", "20MB", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    server.cluster.stop(StopMode::Fast).unwrap();
    let receipt = Output::from(child.wait_with_output().unwrap()).ends_with(1).json();
    assert!(resident_share(&receipt["os"]) >= RESIDENT_MIN, "{receipt:#}");
    assert!(skips(&receipt, "hot").contains(&("main".into(), "buffers".into(), "server_gone".into())), "{receipt:#}");
    server.cluster.start().unwrap();
}
