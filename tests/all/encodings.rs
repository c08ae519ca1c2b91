//! Texts that are not UTF-8, in queries and names of any session of the cluster: they end nothing, and are shown with replacement
//! characters.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::servers::{self, Output, TestServer};

/// SQL in bytes of any encoding that runs beside, until it is dropped.
struct Session(Child);

impl Session {
    /// Runs it, and waits until it sleeps.
    fn sleeping(server: &TestServer, (database, user): (&[u8], &[u8]), sql: &[u8]) -> Session {
        let mut psql = server.command_of("psql");
        psql.args(["-Xq", "-d"]).arg(OsStr::from_bytes(database)).arg("-U").arg(OsStr::from_bytes(user));
        psql.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = psql.spawn().unwrap();
        child.stdin.take().unwrap().write_all(sql).unwrap();
        while server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "0" {
            assert!(child.try_wait().unwrap().is_none(), "psql has ended");
        }
        Session(child)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn create(server: &TestServer, database: &str, encoding: &str) {
    let options = "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'";
    server.psql(&format!("CREATE DATABASE {database} ENCODING '{encoding}' {options}"));
}

/// Everything that looks at the sessions ends well, and shows this part of a query.
#[track_caller]
fn assert_seen(server: &TestServer, database: &str, shown: &str) {
    let run = |arguments: &[&str]| -> Output { server.pgthaw(&[arguments, &["-d", database]].concat()).ok() };
    for source in ["sql", "memory"] {
        let steps = run(&["top", "--seconds", "1", "--by", "query", "--source", source]).stdout;
        let step: Value = serde_json::from_str(steps.lines().next().unwrap()).unwrap();
        assert!(has_statistic(&step, shown), "{source}: {step:#}");
        let report = run(&["waits", "--json", "--seconds", "2", "--by", "query", "--source", source]).json();
        assert!(has_statistic(&report, shown), "{source}: {report:#}");
        assert_eq!(report["remarks"], Value::Array(Vec::new()), "{source}");
    }
}

fn has_statistic(report: &Value, shown: &str) -> bool {
    let all = report["statistics"].as_array().unwrap();
    all.iter().any(|one| one["name"].as_str().unwrap().contains(shown))
}

/// Memory is looked at by root or the server's owner.
#[test]
fn a_query_in_another_encoding_ends_nothing() {
    needs_root!();
    let server = servers::start_any(&[]);
    create(&server, "latin", "LATIN1");
    let sql = b"SET client_encoding TO latin1; SELECT pg_sleep(600) AS \"caf\xe9\";\n";
    let _session = Session::sleeping(&server, (b"latin", b"postgres"), sql);
    assert_seen(&server, "postgres", "caf\u{fffd}");
    // The server converts what is of the session's own database.
    assert_seen(&server, "latin", "caf\u{e9}");
}

#[test]
fn a_query_that_was_cut_within_a_character_ends_nothing() {
    needs_root!();
    let server = servers::start_any(&[]);
    create(&server, "plain", "SQL_ASCII");
    // The server keeps 1023 bytes. An even number of them stands before the letters, so the last letter loses its second byte.
    let mut sql = b"SELECT pg_sleep(600) AS cut, '".to_vec();
    sql.resize(sql.len() + sql.len() % 2, b'x');
    sql.extend("\u{e9}".repeat(800).bytes());
    sql.extend(b"';\n");
    let _session = Session::sleeping(&server, (b"plain", b"postgres"), &sql);
    assert_eq!(server.psql_in("plain", "SELECT max(length(query)) FROM pg_stat_activity"), "1023");
    assert_seen(&server, "plain", "AS cut");
}

/// The server fails where it shall convert what has no counterpart: then it is asked for the bytes as they are.
#[test]
fn a_query_that_the_server_cannot_convert_ends_nothing() {
    needs_root!();
    let server = servers::start_any(&[]);
    create(&server, "windows", "WIN1252");
    // Its second byte is no letter of WIN1252.
    let sql = "SELECT pg_sleep(600) AS \"\u{401}\";\n";
    let _session = Session::sleeping(&server, (b"postgres", b"postgres"), sql.as_bytes());
    let asked = "SET client_encoding TO utf8; SELECT query FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let refused = server.command_of("psql").args(["-XAtq", "-d", "windows", "-c", asked]).output().unwrap();
    assert!(!refused.status.success(), "the server converts it");
    assert_seen(&server, "windows", "\u{401}");
}

#[test]
fn names_in_another_encoding_end_nothing() {
    let server = servers::start_any(&[]);
    create(&server, "latin", "LATIN1");
    let sql = b"SET client_encoding TO latin1; CREATE ROLE \"ren\xe9\" LOGIN; CREATE DATABASE \"caf\xe9\";
        CREATE TABLE \"caf\xe9\" AS SELECT 1 AS i; SELECT pg_sleep(600);\n";
    drop(Session::sleeping(&server, (b"latin", b"postgres"), sql));
    let _session = Session::sleeping(&server, (b"caf\xe9", b"ren\xe9"), b"SELECT pg_sleep(600);\n");
    let map = server.pgthaw(&["map", "--json"]).ok().json();
    let named = |database: &str, name: &str| {
        map["relations"].as_array().unwrap().iter().any(|one| one["database"] == database && one["name"] == name)
    };
    assert!(named("latin", "caf\u{e9}"), "the server converts a name of the database itself");
    // It cannot be connected to by that name, so it has its files.
    let of_other = map["relations"].as_array().unwrap().iter().filter(|one| one["database"] == "caf\u{fffd}");
    assert!(of_other.count() > 100 && map["remarks"].to_string().contains("caf\u{fffd}"), "{}", map["remarks"]);
    server.pgthaw(&["snapshot", "take"]).ok();
    server.pgthaw(&["doctor"]).ok();
    for (by, name) in [("user", "ren\u{fffd}::"), ("database", "caf\u{fffd}::")] {
        let report = server.pgthaw(&["waits", "--json", "--seconds", "2", "--by", by]).ok().json();
        assert!(has_statistic(&report, name), "{report:#}");
    }
}
