//! What the receipt of `pgthaw restore` says was left out, and the exit status that follows, on real servers.

use std::fs;

use postgres::StopMode;
use serde_json::Value;

use crate::servers::{self, Home, Output, TestServer};

const NOBODY: u32 = 65_534;

/// Two tables in both tiers, one of them with TOAST.
const TABLES: &str = "
    CREATE EXTENSION pg_prewarm;
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE t (id int PRIMARY KEY, body text);
    CREATE TABLE u (id int PRIMARY KEY, body text);
    ALTER TABLE u ALTER body SET STORAGE EXTERNAL;
    INSERT INTO t SELECT i, repeat('t', 300) FROM generate_series(1, 40000) AS i;
    INSERT INTO u SELECT i, repeat('u', 3000) FROM generate_series(1, 2000) AS i;
    VACUUM ANALYZE t;
    VACUUM ANALYZE u;
    CHECKPOINT;
";

fn warm_server(version: u32) -> TestServer {
    let server = servers::start(version, &[("shared_buffers", "128MB")]);
    server.psql(TABLES);
    server.pgthaw(&["snapshot", "take"]).ok();
    server
}

fn newest_version() -> u32 {
    servers::servers().last().unwrap().0
}

fn restore(server: &TestServer, arguments: &[&str]) -> Output {
    server.pgthaw(&[&["restore", "--json"], arguments].concat())
}

/// As a role, with a password.
fn restore_as(server: &TestServer, role: &str, arguments: &[&str]) -> Output {
    let mut command = server.command(&[&["restore", "--json"], arguments].concat());
    servers::output_of(command.env("PGUSER", role).env("PGPASSWORD", "wrong"))
}

/// Everything of the tier that was left out for this reason: blocks and the first detail.
fn left_out(receipt: &Value, tier: &str, reason: &str) -> (u64, String) {
    let is_it = |one: &&Value| one["tier"] == tier && one["reason"] == reason;
    let found: Vec<&Value> = receipt["skipped"].as_array().unwrap().iter().filter(is_it).collect();
    let detail = found.first().and_then(|one| one["detail"].as_str()).unwrap_or_default();
    (found.iter().map(|one| one["blocks"].as_u64().unwrap()).sum(), detail.to_owned())
}

fn assert_os_is_warm(receipt: &Value) {
    let os = &receipt["os"];
    let share = os["resident_after_bytes"].as_f64().unwrap() / os["asked_bytes"].as_f64().unwrap();
    assert!(share > 0.95, "{receipt:#}");
}

test_every_version! {
    fn a_refused_login_is_no_missing_server(version) {
        let mut server = warm_server(version);
        server.psql("CREATE ROLE app LOGIN PASSWORD 'right'");
        let rules = "local all app scram-sha-256\nlocal all all trust\n";
        fs::write(server.data_directory().join("pg_hba.conf"), rules).unwrap();
        server.restart();
        let directory = server.data_directory();
        for place in [&[][..], &["-D", directory.to_str().unwrap()]] {
            let receipt = restore_as(&server, "app", place).ends_with(3).json();
            let (blocks, detail) = left_out(&receipt, "buffers", "login_refused");
            assert!(blocks > 1000 && detail.contains("password authentication failed"), "{receipt:#}");
            assert!(detail.contains("PGPASSWORD"), "the detail says what to do: {detail}");
            assert_eq!(left_out(&receipt, "buffers", "no_server").0, 0, "{receipt:#}");
            assert_os_is_warm(&receipt);
        }
        restore_as(&server, "app", &["--tier", "os"]).ok();
        restore_as(&server, "app", &["--tier", "buffers"]).ends_with(3);
    }
}

test_every_version! {
    fn a_privilege_that_a_role_lacks_is_named(version) {
        let mut server = warm_server(version);
        server.psql("CREATE ROLE poor LOGIN; GRANT pg_monitor TO poor");
        server.restart();
        let receipt = restore_as(&server, "poor", &[]).ends_with(3).json();
        let (blocks, detail) = left_out(&receipt, "buffers", "no_privilege");
        assert!(blocks > 1000 && detail.contains("GRANT pg_read_all_data TO \"poor\""), "{receipt:#}");
        assert_os_is_warm(&receipt);

        let function = "public.pg_prewarm(regclass,text,text,bigint,bigint)";
        server.psql(&format!("REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC; GRANT SELECT ON t, u TO poor"));
        let receipt = restore_as(&server, "poor", &["-r", "t"]).ends_with(3).json();
        let detail = left_out(&receipt, "buffers", "no_privilege").1;
        assert!(detail.contains(&format!("GRANT EXECUTE ON FUNCTION {function} TO \"poor\"")), "{detail}");
        server.psql(&format!("GRANT EXECUTE ON FUNCTION {function} TO poor"));
        // Not the table with all that belongs to it: for its TOAST index pg_prewarm asks for more than SELECT on the table.
        restore_as(&server, "poor", &["-r", "t_pkey"]).ok();

        server.psql("REVOKE EXECUTE ON FUNCTION public.pg_buffercache_pages() FROM pg_monitor");
        let mut command = server.command(&["map"]);
        let map = servers::output_of(command.env("PGUSER", "poor")).ok();
        let told = format!("{}{}", map.stdout, map.stderr);
        assert!(told.contains("GRANT EXECUTE ON FUNCTION public.pg_buffercache_pages() TO \"poor\""), "{told}");
    }
}

#[test]
fn before_its_start_a_server_is_not_missed() {
    let mut server = warm_server(newest_version());
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let directory = directory.to_str().unwrap();
    let text = server.pgthaw(&["restore", "-D", directory]).ok().stdout;
    assert!(
        text.contains("no server runs; start the server, then `pgthaw restore ")
            && text.contains(&format!("-D {directory}")),
        "{text}"
    );
    restore(&server, &["-D", directory, "--tier", "os"]).ok();
    let receipt = restore(&server, &["-D", directory, "--tier", "buffers"]).ends_with(1).json();
    assert!(left_out(&receipt, "buffers", "no_server").0 > 1000, "{receipt:#}");
}

test_every_version! {
    fn what_was_truncated_renamed_and_rewritten_is_told_apart(version) {
        let mut server = warm_server(version);
        server.psql("CREATE TABLE full_of AS TABLE t; CREATE TABLE gone AS TABLE t; CREATE TABLE partly AS TABLE t; CHECKPOINT");
        server.psql("VACUUM full_of; VACUUM t; VACUUM partly; CREATE INDEX ON partly (id); CHECKPOINT");
        server.pgthaw(&["evict", "-r", "partly", "--tier", "os"]).ok();
        server.psql("SELECT pg_prewarm('partly', 'read', 'main', 0, 50)");
        let blocks: u64 = server.psql("SELECT pg_relation_size('t') / 8192").parse().unwrap();
        server.restart();
        server.pgthaw(&["snapshot", "take"]).ok();
        server.psql("TRUNCATE t; TRUNCATE partly; ALTER TABLE u RENAME TO renamed; VACUUM FULL full_of; DROP TABLE gone");
        server.psql("DELETE FROM renamed; VACUUM renamed; CHECKPOINT");
        let output = server.pgthaw(&["restore", "newest", "--tier", "os", "-v"]).ok();
        let text = &output.stdout;
        assert!(!text.contains("0 bytes of") && !text.contains("look alike"), "{text}");
        let text = server.pgthaw(&["restore", "newest", "--tier", "os"]).ok().stdout;
        let rewritten = "rewritten since the snapshot, with a new block layout: ";
        let told = text.lines().find_map(|line| line.strip_prefix(rewritten)).unwrap_or_else(|| panic!("{text}"));
        assert!(told.contains(" requested in full, ") && told.contains(" resident before and ") && told.ends_with(" after"), "was it read? {told}");
        let dry = server.pgthaw(&["restore", "newest", "--tier", "os", "--dry-run"]).ok().stdout;
        assert!(dry.contains(rewritten) && dry.contains(" already resident"), "{dry}");
        let receipt = restore(&server, &["newest", "--tier", "os"]).ok().json();
        let reasons = |name: &str| -> Vec<(String, String, u64)> {
            let skipped = receipt["skipped"].as_array().unwrap().iter().filter(|one| one["name"] == name);
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            skipped.map(|one| (text(&one["fork"]), text(&one["reason"]), one["blocks"].as_u64().unwrap())).collect()
        };
        let main = |name: &str| reasons(name).into_iter().find(|(fork, ..)| fork == "main");
        let truncated = |blocks| Some(("main".to_owned(), "truncated".to_owned(), blocks));
        assert_eq!(main("t"), truncated(blocks), "{receipt:#}");
        assert_eq!(main("partly").map(|(_, reason, _)| reason).as_deref(), Some("truncated"), "{receipt:#}");
        assert!(reasons("t").iter().chain(&reasons("partly")).all(|(_, reason, _)| reason == "truncated"), "{receipt:#}");
        assert_eq!(main("gone").map(|(_, reason, _)| reason).as_deref(), Some("dropped"), "{receipt:#}");
        for one in receipt["skipped"].as_array().unwrap() {
            assert!(one["blocks"].as_u64().unwrap() > 0, "{one:#}");
            assert_ne!(one["reason"], "file_gone", "a server runs: {one:#}");
            assert!(one["reason"] != "dropped" || one["name"] == "gone" || one["name"].as_str().unwrap().starts_with("pg_toast"), "{one:#}");
        }
        let toast = server.psql("SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'renamed'");
        let of_renamed = reasons(toast.trim_start_matches("pg_toast."));
        assert!(!of_renamed.is_empty() && of_renamed.iter().all(|(_, reason, _)| reason == "truncated"), "{of_renamed:?}");
    }
}

#[test]
fn a_renamed_table_is_loaded_by_its_file() {
    let mut server = warm_server(newest_version());
    server.psql("ALTER TABLE t RENAME TO renamed");
    server.restart();
    let receipt = restore(&server, &[]).ok().json();
    assert_eq!(left_out(&receipt, "buffers", "dropped").0, 0, "{receipt:#}");
    let loaded = "SELECT count(*) > 1000 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('renamed')";
    assert_eq!(server.psql(loaded), "t");
}

#[test]
fn files_that_a_user_may_not_read_are_not_elsewhere() {
    needs_root!();
    let server = warm_server(newest_version());
    let snapshot = server.home().join("readable.parquet");
    server.pgthaw(&["snapshot", "take", "-o", snapshot.to_str().unwrap()]).ok();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(&snapshot, mode).unwrap();
    server.show_state();
    let receipt = server.pgthaw_as(NOBODY, &["restore", "--json", snapshot.to_str().unwrap()]).ends_with(3).json();
    let (blocks, detail) = left_out(&receipt, "os", "no_permission");
    assert!(blocks > 1000 && detail.contains(server.data_directory().to_str().unwrap()), "{receipt:#}");
    assert_eq!(left_out(&receipt, "os", "no_data_directory").0, 0);
    let refused = server.pgthaw_as(NOBODY, &["evict", "--all", "--tier", "os"]).ends_with(3).stderr;
    assert!(refused.contains("no permission on") && !refused.contains("not on this host"), "{refused}");
    let map = server.pgthaw_as(NOBODY, &["map", "--json"]).ok().json();
    assert!(map["os"]["reason"].as_str().unwrap().contains("no permission on"), "{}", map["os"]);
}

#[test]
fn a_dry_run_tells_of_both_tiers() {
    let mut server = warm_server(newest_version());
    server.restart();
    let receipt = restore(&server, &["--dry-run"]).ok().json();
    let (promised, asked) = (&receipt["buffers_forecast"], receipt["buffers"]["asked_bytes"].as_u64().unwrap());
    let loads = promised["load_bytes"].as_u64().unwrap();
    let before = receipt["buffers"]["resident_before_bytes"].as_u64().unwrap();
    assert_eq!(loads + before + 8192 * promised["over_budget_blocks"].as_u64().unwrap(), asked, "{receipt:#}");
    assert!(loads > 10_000_000 && promised["statements"].as_u64().unwrap() > 10, "{receipt:#}");
    let text = server.pgthaw(&["restore", "--dry-run", "--tier", "buffers"]).ok().stdout;
    assert!(text.contains("\nwould load ") && text.contains("statements"), "{text}");
    let again = restore(&server, &["--dry-run"]).ok().json();
    assert!(
        again["buffers_forecast"]["load_bytes"].as_u64().unwrap() > loads * 9 / 10,
        "nothing was loaded: {again:#}"
    );
    let part = restore(&server, &["--dry-run", "--budget", "buffers=1MiB"]).ok().json();
    assert_eq!(part["buffers_forecast"]["load_bytes"], 1 << 20, "{part:#}");
    assert!(left_out(&part, "buffers", "over_budget").0 > 1000, "{part:#}");

    let receipt = restore(&server, &[]).ok().json();
    let (read, planned) = (&receipt["buffers"]["reads"], &receipt["buffers_forecast"]["statements"]);
    assert_eq!(read, planned, "the forecast is that of the restore: {receipt:#}");
    server.psql("DROP EXTENSION pg_prewarm");
    server.restart();
    let receipt = restore(&server, &["--dry-run", "--tier", "buffers"]).ends_with(3).json();
    assert_eq!(receipt["buffers_forecast"]["load_bytes"], 0, "{receipt:#}");
    assert!(left_out(&receipt, "buffers", "no_prewarm").0 > 1000, "{receipt:#}");
    let receipt = restore(&server, &["--dry-run", "--tier", "buffers", "--create-extensions"]).ok().json();
    assert!(receipt["buffers_forecast"]["load_bytes"].as_u64().unwrap() > 10_000_000, "{receipt:#}");
    assert_eq!(server.psql("SELECT count(*) FROM pg_extension WHERE extname = 'pg_prewarm'"), "0");
}

#[test]
fn an_extension_is_created_by_one_connection() {
    let mut server = warm_server(newest_version());
    for _ in 0..4 {
        server.psql("DROP EXTENSION pg_prewarm");
        server.restart();
        let receipt = restore(&server, &["--create-extensions", "--threads", "12"]).ok().json();
        assert_eq!(left_out(&receipt, "buffers", "read_failed"), (0, String::new()), "{receipt:#}");
    }
}

#[test]
fn a_database_that_is_not_there_was_named_by_mistake() {
    let server = warm_server(newest_version());
    let error = restore(&server, &["-d", "absent"]).ends_with(1).stderr;
    assert!(error.contains("\\\"absent\\\" does not exist"), "{error}");
    assert_eq!(error.matches("does not exist").count(), 1, "the cause is told once: {error}");
}

/// What live sessions hold in shared_buffers of template0 is nobody's fault.
#[test]
fn a_closed_database_is_a_matter_of_course() {
    let server = warm_server(newest_version());
    server.psql("CREATE DATABASE other TEMPLATE template0");
    server.pgthaw(&["snapshot", "take"]).ok();
    restore(&server, &[]).ok();
}

#[test]
fn the_rule_of_the_exit_status_is_in_the_help() {
    assert!(Home::new().pgthaw(&["restore", "--help"]).ok().stdout.contains("Exit status: 0 when"));
}

#[test]
fn blocks_that_vacuum_cut_off_are_told_as_truncated_in_both_tiers() {
    let mut server = servers::start_any(&[("shared_buffers", "64MB")]);
    server.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache");
    server.psql("CREATE TABLE shrinks AS SELECT i, repeat('s', 300) FROM generate_series(1, 50000) AS i");
    server.psql("SELECT pg_prewarm('shrinks', 'buffer')");
    server.pgthaw(&["snapshot", "take"]).ok();
    server.psql("DELETE FROM shrinks WHERE i > 1000");
    server.psql("VACUUM shrinks");
    server.restart();
    let receipt = restore(&server, &["-r", "shrinks"]).ok().json();
    for tier in ["os", "buffers"] {
        assert!(left_out(&receipt, tier, "truncated").0 > 1000, "{tier}: {receipt:#}");
        assert_eq!(left_out(&receipt, tier, "did_not_stay").0, 0, "{tier}: {receipt:#}");
    }
}
