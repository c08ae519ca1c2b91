//! `pgthaw evict` on real servers.

use std::fs::File;
use std::io::Write as _;

use postgres::StopMode;
use serde_json::Value;

use crate::servers;

const TABLES: &str = "
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE t AS SELECT i, repeat('t', 300) FROM generate_series(1, 40000) AS i;
    CREATE TABLE u AS SELECT i, repeat('u', 300) FROM generate_series(1, 40000) AS i;
    CHECKPOINT;
";

fn bytes(receipt: &Value, tier: &str, when: &str) -> u64 {
    receipt[tier][format!("resident_{when}_bytes")].as_u64().unwrap_or_else(|| panic!("{receipt:#}"))
}

test_every_version! {
    fn a_relation_is_cold_and_its_neighbour_warm(version) {
        let server = servers::start(version, &[("shared_buffers", "64MB")]);
        server.psql(TABLES);
        // Before 17 shared_buffers stay, which the status tells, of a dry run too.
        let status = if version >= 17 { 0 } else { 3 };
        let evict_both = |arguments: &[&str]| {
            server.pgthaw(&[&["evict", "--json"], arguments].concat()).ends_with(status).json()
        };
        let before = evict_both(&["-r", "u", "--dry-run"]);
        assert!(bytes(&before, "os", "before") > 10_000_000, "{before:#}");
        let shown = server.pgthaw(&["evict", "--all", "--dry-run"]).ends_with(status).stdout;
        assert!(shown.contains("page cache: would evict "), "{shown}");
        assert_eq!(shown.contains("shared_buffers: would evict "), version >= 17, "{shown}");
        assert_eq!(shown.contains("restart the server"), version < 17, "{shown}");
        let receipt = evict_both(&["-r", "t"]);
        assert!(bytes(&receipt, "os", "before") > 10_000_000, "{receipt:#}");
        assert_eq!(bytes(&receipt, "os", "after"), 0, "{receipt:#}");
        assert!(bytes(&receipt, "buffers", "before") > 5_000_000, "{receipt:#}");
        if version >= 17 {
            assert_eq!(bytes(&receipt, "buffers", "after"), 0, "{receipt:#}");
        } else {
            assert_eq!(bytes(&receipt, "buffers", "after"), bytes(&receipt, "buffers", "before"));
            assert!(receipt["remarks"].to_string().contains("restart the server"), "{receipt:#}");
            assert_eq!(receipt["buffers_stay"], true);
        }
        let after = evict_both(&["-r", "u", "--dry-run"]);
        assert_eq!(after["buffers_stay"], version < 17, "{after:#}");
        assert!(bytes(&after, "os", "before") > 10_000_000, "{after:#}");
        assert!(bytes(&after, "buffers", "before") > 5_000_000, "{after:#}");
        let whole = evict_both(&["--all"]);
        assert!(bytes(&whole, "os", "after") * 20 < bytes(&whole, "os", "before"), "{whole:#}");
    }
}

#[test]
fn something_has_to_be_named() {
    let server = servers::start_any(&[]);
    let refused = server.pgthaw(&["evict"]).ends_with(2);
    assert!(refused.stderr.contains("--all"), "{}", refused.stderr);
    server.pgthaw(&["evict", "-r", "absent"]).ends_with(2);
}

#[test]
fn a_server_that_is_no_lab_is_left_alone() {
    let mut server = servers::start_any(&[("cluster_name", "production")]);
    let refused = server.pgthaw(&["evict", "--all"]).ends_with(2);
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    server.pgthaw(&["evict", "--all", "--yes", "--tier", "os"]).ok();
    let identifier = server.psql("SELECT system_identifier FROM pg_control_system()");
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let directory = directory.to_str().unwrap();
    server.pgthaw(&["evict", "--all", "--tier", "os", "-D", directory]).ends_with(2);
    let settings = server.home().join("pgthaw.toml");
    std::fs::write(&settings, format!("lab_servers = [{identifier}]\n")).unwrap();
    let mut command = server.command(&["evict", "--all", "-D", directory, "--json"]);
    let output = servers::output_of(command.env("PGTHAW_CONFIG", &settings)).ok();
    assert_eq!(bytes(&output.json(), "buffers", "after"), 0);
}

#[test]
fn a_stopped_server_says_by_its_configuration_that_it_is_a_lab() {
    let mut server = servers::start(servers::installed(), &[("cluster_name", "production")]);
    let included = server.data_directory().join("lab.conf");
    std::fs::write(&included, "cluster_name = 'lab-of-mine'\n").unwrap();
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let arguments = ["evict", "--all", "--tier", "os", "-D", directory.to_str().unwrap()];
    server.pgthaw(&arguments).ends_with(2);
    let mut configuration = File::options().append(true).open(directory.join("postgresql.conf")).unwrap();
    configuration.write_all(b"include 'lab.conf'\n").unwrap();
    server.pgthaw(&arguments).ok();
}

#[test]
fn dropping_all_caches_is_for_root_alone() {
    needs_root!();
    let server = servers::start_any(&[]);
    let refused = server.pgthaw_as(65534, &["evict", "--all", "--drop-caches"]);
    assert_eq!(refused.status, 3, "{refused:?}");
}
