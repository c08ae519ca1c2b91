//! Databases of owners who wish whoever visits them ill: nothing of theirs is run, and nobody else's database suffers.

use crate::servers::{self, TestServer, say_untested};

const SHADOWS: &str = include_str!("shadows.sql");

/// A server with a database of mallory's, a plain role, in which everything has a namesake that would make him superuser.
fn start(version: u32, extensions: &str) -> TestServer {
    let server = servers::start(version, &[("shared_preload_libraries", "pg_stat_statements")]);
    server.psql("CREATE ROLE mallory LOGIN; CREATE DATABASE evil OWNER mallory; CREATE TABLE t AS SELECT generate_series(1, 9999)");
    for database in ["postgres", "evil"] {
        server.psql_in(database, extensions);
    }
    // A table of his, so that there is something to snapshot and to load.
    let as_mallory = |sql: &str| format!("SET SESSION AUTHORIZATION mallory; {sql}");
    server.psql_in("evil", &as_mallory(SHADOWS));
    server.psql_in("evil", &as_mallory("CREATE TABLE x.mine AS SELECT generate_series(1, 9999) AS i"));
    server.psql("SET SESSION AUTHORIZATION mallory; ALTER DATABASE evil SET search_path = x, public, pg_catalog");
    server
}

/// Has anything of mallory's been run as somebody else?
#[track_caller]
fn assert_unharmed(server: &TestServer, after: &str) {
    let path = "SET search_path = pg_catalog; ";
    let ran = server.psql_in("evil", &format!("{path}SELECT is_called FROM x.runs"));
    let what = server.psql_in("evil", &format!("{path}SELECT * FROM x.seized LIMIT 3"));
    let is_superuser = server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'");
    assert_eq!((ran.as_str(), is_superuser.as_str()), ("f", "f"), "{after}: {what}");
}

const EXTENSIONS: &str =
    "CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_stat_statements";

/// Each command that visits databases, with what it needs; it may fail.
const VISITS: [&[&str]; 14] = [
    &["map"],
    &["map", "-d", "evil", "--json"],
    &["doctor"],
    &["doctor", "-d", "evil"],
    &["snapshot", "take", "--dir", "snapshots"],
    &["snapshot", "take", "-d", "evil", "--dir", "others"],
    &["restore", "--dir", "snapshots", "--dry-run"],
    &["evict", "--all", "--yes"],
    &["restore", "--dir", "snapshots"],
    &["evict", "-d", "evil", "--yes"],
    &["restore", "-d", "evil", "--dir", "others", "--create-extensions"],
    &["hydrate", "-d", "evil", "--dir", "snapshots"],
    &["predict", "-d", "evil", "--observe", "1", "--dir", "snapshots"],
    &["predict", "-d", "evil", "--dir", "snapshots", "--observe", "1", "--clients", "2"],
];

test_every_version! {
    fn nothing_of_an_owner_is_run_as_his_visitor(version) {
        let server = start(version, EXTENSIONS);
        for visit in VISITS {
            let output = server.pgthaw(visit);
            assert_unharmed(&server, &format!("{visit:?}\n{}\n{}", output.stdout, output.stderr));
        }
        let map = server.pgthaw(&["map", "--json"]).ok().json();
        let tables = map["relations"].as_array().unwrap();
        assert!(tables.iter().any(|one| one["database"] == "evil" && one["name"] == "mine"), "{map:#}");
    }
}

#[test]
fn neither_is_it_for_other_users() {
    let server = start(servers::servers().last().unwrap().0, EXTENSIONS);
    if !rustix::process::getuid().is_root() {
        return say_untested(&"only root can become others");
    }
    for uid in [65534, server_uid(&server)] {
        for visit in [&VISITS[0], &VISITS[2], &VISITS[4]] {
            let output = server.pgthaw_as(uid, visit);
            assert_unharmed(&server, &format!("{visit:?} as {uid}\n{}\n{}", output.stdout, output.stderr));
        }
    }
}

fn server_uid(server: &TestServer) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(server.data_directory()).unwrap().uid()
}
