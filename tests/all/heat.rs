//! How hot blocks of the page cache are: what a snapshot knows of it, and what a restore makes of it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use cache::{HeatSource, Snapshot};
use host::linux::page_cache::{PageCache as _, SystemPageCache};
use host::units::Fork;
use postgres::StopMode;
use serde_json::Value;

use crate::memory_limit::MemoryLimit;
use crate::servers::{self, TestServer};

/// Two tables of some 15 MB that do not fit into shared_buffers, cold.
const TABLES: &str = "
    CREATE EXTENSION pg_prewarm;
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE often AS SELECT i, repeat('o', 300) FROM generate_series(1, 45000) AS i;
    CREATE TABLE once AS SELECT i, repeat('1', 300) FROM generate_series(1, 45000) AS i;
    VACUUM ANALYZE often;
    VACUUM ANALYZE once;
    CHECKPOINT;
";

fn cold_server() -> TestServer {
    let mut server = servers::start_any(&[]);
    server.psql(TABLES);
    server.restart();
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    server
}

/// The share of a table's main fork in the page cache at this heat.
fn share_at(snapshot: &Snapshot, table: &str, heat: u8) -> f64 {
    let forks = snapshot.map.forks();
    let (_, fork) = forks.into_iter().find(|(one, fork)| one.name.name == table && fork.fork == Fork::Main).unwrap();
    fork.os_heat.get(&heat).map_or(0, |blocks| blocks.len()) as f64 / fork.os.len() as f64
}

#[test]
fn the_kernels_account_of_reads_is_kept() {
    needs_root!();
    if let Err(error) = SystemPageCache::new().test_activity() {
        untested!(machine: "{error}");
    }
    let server = cold_server();
    server.psql("SELECT pg_prewarm('often', 'read') FROM generate_series(1, 3); SELECT pg_prewarm('once', 'read')");
    let file = server.home().join("one.parquet");
    let taken = server.pgthaw(&["snapshot", "take", "-o", file.to_str().unwrap(), "--json"]).ok().json();
    assert_eq!(taken["header"]["os_heat"], "page_flags", "{taken:#}");
    let snapshot = Snapshot::read(&file).unwrap();
    assert_eq!(snapshot.map.os_heat, HeatSource::PageFlags);
    assert!(share_at(&snapshot, "often", 3) > 0.9, "{}", share_at(&snapshot, "often", 3));
    assert!(share_at(&snapshot, "once", 1) > 0.9, "{}", share_at(&snapshot, "once", 1));
    // Looking changed nothing, neither here nor in the map.
    server.pgthaw(&["map", "--json"]).ok();
    let again = server.home().join("two.parquet");
    server.pgthaw(&["snapshot", "take", "-o", again.to_str().unwrap()]).ok();
    assert!(share_at(&Snapshot::read(&again).unwrap(), "once", 1) > 0.9);
}

#[test]
fn who_may_not_see_page_flags_goes_by_statistics_and_then_by_snapshots() {
    // They are hidden from others than root, who runs the server as somebody else.
    needs_root!();
    let server = cold_server();
    let owner = fs::metadata(server.data_directory()).unwrap().uid();
    // Full scans of tables larger than a quarter of shared_buffers read past them every time.
    server.psql("SELECT pg_stat_reset()");
    server.psql(&"SELECT count(*) FROM often;".repeat(8));
    server.psql("SELECT count(*) FROM once");
    let take = |name: &str| {
        let taken = server.pgthaw_as(owner, &["snapshot", "take", "--json", "--label", name]).ok().json();
        Snapshot::read(taken["path"].as_str().unwrap().as_ref()).unwrap()
    };
    let first = take("a");
    assert_eq!(first.map.os_heat, HeatSource::Statistics);
    let heat_of = |table: &str| (0..=8).find(|heat| share_at(&first, table, *heat) > 0.9).unwrap_or(0);
    assert!(heat_of("often") >= heat_of("once") + 2, "{} {}", heat_of("often"), heat_of("once"));
    take("b");
    // What neither had is new, and what both had is not.
    server.psql("CREATE TABLE new AS TABLE once; CHECKPOINT");
    let third = take("c");
    assert_eq!(third.map.os_heat, HeatSource::Snapshots);
    assert!(share_at(&third, "often", 4) + share_at(&third, "often", 8) > 0.9);
    assert!((1..=8).all(|heat| share_at(&third, "new", heat) < 0.1));
}

fn cached_share(map: &Value, table: &str) -> f64 {
    let relations = map["relations"].as_array().unwrap();
    let found = relations.iter().find(|one| one["name"] == table).unwrap_or_else(|| panic!("{map:#}"));
    found["os_blocks"].as_f64().unwrap() / found["blocks"].as_f64().unwrap()
}

/// How much of a hot and of a cold table is cached.
#[derive(Debug)]
struct Shares {
    hot: f64,
    cold: f64,
}

/// The shares after a restore, and after a large file was read once by the same small cgroup; `None` where there can be no
/// such cgroup.
fn shares_after_large_read(server: &TestServer, large: &Path) -> Option<(Shares, Shares)> {
    let directory = server.data_directory();
    let directory = directory.to_str().unwrap();
    server.pgthaw(&["evict", "--all", "--tier", "os", "-D", directory, "--yes"]).ok();
    let limit = MemoryLimit::create(110 << 20)?;
    let shares = || {
        let map = server.pgthaw(&["map", "-D", directory, "--json", "--top", "0"]).ok().json();
        Shares { hot: cached_share(&map, "often"), cold: cached_share(&map, "cold") }
    };
    limit.run(server.command(&["restore", "-D", directory]));
    let restored = shares();
    let mut cat = Command::new("sh");
    cat.args(["-c", "cat \"$0\" > /dev/null"]).arg(large);
    limit.run(cat);
    Some((restored, shares()))
}

#[test]
fn the_hot_set_outlives_a_large_file_that_is_read_once() {
    let mut server = servers::start_any(&[("shared_buffers", "64MB")]);
    server.psql(TABLES);
    server.psql("CREATE TABLE cold AS SELECT i, repeat('c', 300) FROM generate_series(1, 150000) AS i; CHECKPOINT");
    server.restart();
    server.psql("SELECT pg_prewarm('often', 'buffer') FROM generate_series(1, 5); SELECT pg_prewarm('cold', 'read')");
    server.pgthaw(&["snapshot", "take"]).ok();
    server.cluster.stop(StopMode::Fast).unwrap();
    // Written past the page cache, so that it is the limited reader whose memory it takes.
    let large = server.home().join("large");
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "bs=1M", "count=300", "oflag=direct", "status=none"])
        .arg(format!("of={}", large.display()));
    servers::output_of(&mut dd).ok();

    // Some kernels page memory out at times of their own (DAMON), hot or not: such a try tells nothing of restore.
    let tries = (0..4).map_while(|_| shares_after_large_read(&server, &large));
    let mut seen = Vec::new();
    for (restored, after) in tries {
        // The kernel takes a few of the hot pages too, 15 % when other tests press on memory.
        if restored.hot > 0.95 && restored.cold > 0.95 && after.hot > 0.75 && after.cold < 0.5 {
            return;
        }
        seen.push((restored, after));
    }
    assert!(seen.is_empty(), "restored, and after the large file: {seen:?}");
}
