//! Each command with exactly the privileges that docs/privileges.md says it needs, and with one less.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use postgres::{StopMode, SystemUser};

use crate::servers::{self, Output, TestServer};

/// What a database has that pgthaw is to look at and to load.
const CONTENTS: &str = "CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache;
    CREATE TABLE t AS SELECT i, repeat('x', 500) AS body FROM generate_series(1, 20000) AS i;
    CREATE TABLE secret AS SELECT 1 AS one; CHECKPOINT";

/// The role `warmer` alone may use the extensions: nobody else gets them with pg_monitor or as everybody.
const ROLE: &str = "CREATE ROLE warmer LOGIN;
    REVOKE ALL ON FUNCTION pg_prewarm(regclass, text, text, bigint, bigint) FROM PUBLIC;
    REVOKE ALL ON FUNCTION pg_buffercache_pages() FROM pg_monitor;
    GRANT EXECUTE ON FUNCTION pg_prewarm(regclass, text, text, bigint, bigint) TO warmer;
    GRANT EXECUTE ON FUNCTION pg_buffercache_pages() TO warmer";

fn server_with_role(version: u32) -> TestServer {
    let server = servers::start(version, &[("shared_buffers", "32MB")]);
    server.psql(CONTENTS);
    server.psql(ROLE);
    server
}

/// Runs pgthaw as the role, as the system user that the server runs as.
fn as_warmer(server: &TestServer, arguments: &[&str]) -> Output {
    let arguments = [arguments, &["-U", "warmer", "-d", "postgres"]].concat();
    match rustix::process::getuid().is_root() {
        true => server.pgthaw_as(fs::metadata(server.data_directory()).unwrap().uid(), &arguments),
        false => server.pgthaw(&arguments),
    }
}

/// The words in which a restore says why something was not loaded. The kernel may take pages back at any moment.
fn reasons(receipt: &serde_json::Value) -> String {
    let reasons = receipt["skipped"].as_array().unwrap().iter().map(|one| one["reason"].as_str().unwrap());
    reasons.filter(|reason| *reason != "did_not_stay").collect::<Vec<_>>().join(" ")
}

/// The server's next transaction. Nothing is written into a cluster, not into a catalog either, without one.
fn next_transaction(server: &TestServer) -> String {
    server.psql("SELECT pg_snapshot_xmax(pg_current_snapshot())")
}

test_every_version! {
    fn a_role_with_pg_monitor_and_two_functions_is_enough(version) {
        let server = server_with_role(version);
        // pg_prewarm asks for the table too. 13 has no role that may read all.
        let reads = if version >= 14 { "GRANT pg_read_all_data TO warmer" } else { "GRANT SELECT ON t, secret TO warmer" };
        server.psql(&format!("GRANT pg_monitor TO warmer; {reads}"));
        as_warmer(&server, &["doctor", "--require", "os", "--require", "buffers", "--require", "pg_prewarm"]).ok();
        let map = as_warmer(&server, &["map", "--json", "-r", "t"]).ok().json();
        assert_eq!((&map["os"]["state"], &map["buffers"]["state"]), (&"measured".into(), &"measured".into()), "{map:#}");
        as_warmer(&server, &["snapshot", "take"]).ok();
        as_warmer(&server, &["evict", "-r", "t", "--tier", "os", "--yes"]).ok();
        let receipt = as_warmer(&server, &["restore", "--json", "-r", "t"]).ok().json();
        assert_eq!(reasons(&receipt), "", "{receipt:#}");
        as_warmer(&server, &["predict", "tps=5000", "clients=8"]).ok();
    }
}

/// No GRANT shows him a file of the server's.
#[test]
fn a_stranger_is_told_at_once_who_sees_the_page_cache() {
    needs_root!();
    const NOBODY: u32 = 65_534;
    let server = server_with_role(servers::servers()[0].0);
    let owner = SystemUser::of_uid(fs::metadata(server.data_directory()).unwrap().uid()).unwrap().name;
    let run = |arguments: &[&str]| server.pgthaw_as(NOBODY, &[arguments, &["-U", "warmer", "-d", "postgres"]].concat());
    let doctor = run(&["doctor"]).stdout;
    let first = doctor.lines().find(|line| line.starts_with("    sudo")).unwrap_or_default();
    assert!(first.starts_with(&format!("    sudo -u {owner} pgthaw doctor ")), "{doctor}");
    let is_mounted =
        ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].iter().any(|root| Path::new(root).join("events").exists());
    assert!(!is_mounted || !doctor.contains("mount -t tracefs"), "{doctor}");
    let map = run(&["map"]).ok().stdout;
    assert!(map.contains(&format!("run pgthaw as {owner} or as root")) && !map.contains("data_directory"), "{map}");
    let waits = run(&["waits", "--seconds", "1"]).ok().stdout;
    assert!(waits.contains("need pg_monitor") && waits.contains("'GRANT pg_monitor TO \"warmer\"'"), "{waits}");
}

#[test]
fn what_is_missing_is_named() {
    let mut server = server_with_role(servers::servers()[0].0);
    server.psql("GRANT pg_monitor TO warmer; GRANT SELECT ON t, secret TO warmer");
    as_warmer(&server, &["snapshot", "take"]).ok();
    server.restart();
    server.psql("REVOKE SELECT ON t FROM warmer");
    let refused = as_warmer(&server, &["restore", "-r", "t"]).ends_with(3).stdout;
    assert!(refused.contains("SELECT"), "{refused}");
    server.psql("REVOKE EXECUTE ON FUNCTION pg_prewarm(regclass, text, text, bigint, bigint) FROM warmer");
    let refused = as_warmer(&server, &["restore", "-r", "t"]).ends_with(3).stdout;
    assert!(refused.contains("GRANT EXECUTE ON FUNCTION"), "{refused}");
    let refused = as_warmer(&server, &["doctor", "--require", "pg_prewarm"]).ends_with(3).stdout;
    assert!(refused.contains("GRANT EXECUTE ON FUNCTION"), "{refused}");
    server.psql("REVOKE EXECUTE ON FUNCTION pg_buffercache_pages() FROM warmer");
    let refused = as_warmer(&server, &["doctor", "--require", "buffers"]).ends_with(3).stdout;
    assert!(refused.contains("GRANT EXECUTE ON FUNCTION"), "{refused}");
    server.psql("REVOKE pg_monitor FROM warmer");
    let refused = as_warmer(&server, &["snapshot", "take"]).ends_with(3).stderr;
    assert!(refused.contains("GRANT pg_monitor"), "{refused}");
}

#[test]
fn a_user_of_the_servers_group_reads_and_sees_no_page_cache() {
    needs_root!();
    let mut server = server_with_role(servers::servers()[0].0);
    server.psql("GRANT pg_monitor TO warmer; GRANT SELECT ON t, secret TO warmer; CHECKPOINT");
    server.cluster.stop(StopMode::Fast).unwrap();
    open_to_group(&server.data_directory());
    // Through the directory that the test made.
    fs::set_permissions(server.data_directory().parent().unwrap(), Permissions::from_mode(0o711)).unwrap();
    server.cluster.start().unwrap();
    let group = fs::metadata(server.data_directory()).unwrap().gid();
    let as_member = |arguments: &[&str]| {
        let mut command = server.command_for_others(&[arguments, &["-U", "warmer"]].concat());
        servers::output_of(command.uid(65534).gid(group))
    };
    let map = as_member(&["map"]).ok().stdout;
    assert!(map.contains("OS page cache: unknown"), "{map}");
    as_member(&["snapshot", "take"]).ok();
    as_member(&["hydrate"]).ok();
    let refused = as_member(&["restore", "--tier", "os", "--json"]).ends_with(3).json();
    assert_eq!(reasons(&refused).split(' ').next(), Some("no_permission"), "{refused:#}");
    let refused = as_member(&["evict", "--tier", "os", "--yes", "-r", "t"]).ends_with(3).stderr;
    assert!(refused.contains("as the owner of the data directory"), "{refused}");
}

/// What `initdb --allow-group-access` gives.
fn open_to_group(path: &Path) {
    let metadata = fs::symlink_metadata(path).unwrap();
    if metadata.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| open_to_group(&entry.unwrap().path()));
    }
    if !metadata.is_symlink() {
        fs::set_permissions(path, Permissions::from_mode(if metadata.is_dir() { 0o750 } else { 0o640 })).unwrap();
    }
}

test_every_version! {
    fn nothing_is_written_into_a_cluster(version) {
        let server = servers::start(version, &[("shared_buffers", "32MB")]);
        server.psql(CONTENTS);
        server.psql("CREATE DATABASE other");
        let before = next_transaction(&server);
        for arguments in [
            ["doctor"].as_slice(),
            &["map"],
            &["map", "--by", "partition"],
            &["snapshot", "take"],
            &["evict", "--all", "--tier", "os"],
            &["restore", "--pace", "full"],
            &["snapshot", "diff"],
            &["predict", "tps=5000", "clients=8"],
            &["hydrate"],
        ] {
            let output = server.pgthaw(arguments);
            assert!([0, 3].contains(&output.status), "{arguments:?}: {output:?}");
        }
        assert_eq!(next_transaction(&server), before);
        // It would be told.
        server.psql("CREATE SCHEMA made");
        assert_ne!(next_transaction(&server), before);
    }
}
