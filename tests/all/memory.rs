//! What a restore does where memory is short, and where the server has no use for the page cache.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use host::linux::cgroup::memory_directory_of;
use host::units::Bytes;
use postgres::StopMode;
use serde_json::Value;

use crate::films::{self, make_cold_and_slow, psql, receipt};
use crate::memory_limit::MemoryLimit;
use crate::probe;
use crate::servers::{self, TestServer};

/// Some 120 MB in the page cache.
const TABLE: &str = "
    CREATE EXTENSION pg_prewarm;
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE large AS SELECT i, repeat('l', 300) FROM generate_series(1, 340000) AS i;
    CHECKPOINT;
    SELECT pg_prewarm('large', 'read');
";

fn warm_server(settings: &[(&str, &str)]) -> TestServer {
    let server = servers::start_any(settings);
    server.psql(TABLE);
    server.pgthaw(&["snapshot", "take"]).ok();
    server
}

fn megabytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}")) / 1_000_000
}

#[test]
fn no_more_is_loaded_than_the_cgroup_has_room_for() {
    let mut server = warm_server(&[]);
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let directory = directory.to_str().unwrap();
    server.pgthaw(&["evict", "--all", "--tier", "os", "-D", directory, "--yes"]).ok();
    let Some(limit) = MemoryLimit::create(64 << 20) else { return };
    let receipt = limit.run(server.command(&["restore", "-D", directory, "--json"])).json();
    assert_eq!(
        (receipt["stopped_by"].as_str(), receipt["memory"]["bound"].as_str()),
        (Some("no_memory"), Some("cgroup"))
    );
    let (asked, read) = (megabytes(&receipt["os"]["asked_bytes"]), megabytes(&receipt["os"]["read_bytes"]));
    assert!(asked > 100 && (20..68).contains(&read), "{receipt:#}");
    assert!(megabytes(&receipt["memory"]["room_bytes"]) < 68, "{receipt:#}");
    let kept = megabytes(&receipt["os"]["resident_after_bytes"]);
    assert!(kept * 10 >= read * 8, "what was read fits: {receipt:#}");
    assert!(receipt["skipped"].as_array().unwrap().iter().any(|one| one["reason"] == "no_memory"), "{receipt:#}");
}

#[test]
fn what_is_loaded_is_charged_to_the_server_or_that_is_said() {
    let mut server = warm_server(&[]);
    let Some(limit) = MemoryLimit::create(1 << 30) else { return };
    server.restart();
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    limit.add(server.cluster.postmaster_pid().unwrap());
    let before = limit.cached_bytes();
    server.pgthaw(&["restore", "--tier", "os"]).ok();
    let charged = limit.cached_bytes() - before;
    assert!(charged > 100_000_000, "{charged} bytes");

    server.show_state();
    let owner = fs::metadata(server.data_directory()).unwrap().uid();
    let receipt = server.pgthaw_as(owner, &["restore", "--tier", "os", "--json"]).ok().json();
    let remarks = receipt["remarks"].to_string();
    assert!(remarks.contains("charged to pgthaw's own memory cgroup"), "{receipt:#}");
    // An empty cgroup is all that can be removed.
    server.cluster.stop(StopMode::Fast).unwrap();
}

/// What pgthaw comes to use itself would be taken from the server's page cache.
#[test]
fn a_run_is_in_the_servers_memory_only_while_it_brings_something() {
    let Some(limit) = probe::limit_with_memory(Some(Bytes(1 << 30))) else { return };
    // Of pgthaw too: what it loads at once would be over before anybody looks.
    let own_limit = probe::limit().unwrap();
    let mut server = films::server(servers::servers()[0].0);
    let job = format!(
        "{} -XAtqc '{}' > /dev/null & \
         while kill -0 $! 2> /dev/null; do cat /proc/$PPID/cgroup; sleep 0.02; done; wait; sleep 0.5; echo afterwards; cat /proc/$PPID/cgroup",
        psql(&server),
        films::JOB
    );
    let mut ways = Vec::new();
    for _ in 0..2 {
        make_cold_and_slow(&mut server, Some(&limit));
        let memory = memory_directory_of(server.cluster.postmaster_pid().unwrap()).unwrap();
        let memory = memory.file_name().unwrap().to_str().unwrap();
        let told = ["run", "--json", "--riops", "3000", "--rbps", "125MiB", "--like", "n", "--", "sh", "-c", &job];
        let mut command = server.command(&told);
        own_limit.limit_command(&mut command).unwrap();
        let output = servers::output_of(&mut command).ok();
        let (meanwhile, afterwards) = output.stdout.split_once("afterwards").unwrap();
        assert!(!afterwards.contains(memory), "{afterwards}");
        let way = receipt(&output)["decision"]["way"].as_str().unwrap().to_owned();
        assert_eq!(meanwhile.contains(memory), way != "nothing", "{way}: {meanwhile}");
        ways.push(way);
    }
    assert!(ways[0] == "nothing" && ways[1] != "nothing", "{ways:?}");
    // An empty cgroup is all that can be removed.
    server.cluster.stop(StopMode::Fast).unwrap();
}

#[test]
fn a_server_that_bypasses_the_page_cache_gets_its_buffers_alone() {
    let newest = servers::servers().last().unwrap().0;
    let mut server = servers::start(newest, &[("debug_io_direct", "data"), ("shared_buffers", "32MB")]);
    server.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache");
    server.psql("CREATE TABLE t AS SELECT i, repeat('t', 300) FROM generate_series(1, 30000) AS i; CHECKPOINT");
    server.psql("SELECT pg_prewarm('t', 'buffer')");
    server.pgthaw(&["snapshot", "take"]).ok();
    server.restart();
    let receipt = server.pgthaw(&["restore", "--json"]).ok().json();
    assert_eq!(receipt["stopped_by"], "direct_io");
    assert_eq!((&receipt["os"]["reads"], &receipt["os"]["read_bytes"]), (&Value::from(0), &Value::from(0)));
    let buffers = &receipt["buffers"];
    let share = buffers["resident_after_bytes"].as_f64().unwrap() / buffers["asked_bytes"].as_f64().unwrap();
    assert!(share > 0.95, "{receipt:#}");
    // Whoever asks for the page cache alone asks in vain.
    server.pgthaw(&["restore", "--tier", "os"]).ends_with(3);
}
