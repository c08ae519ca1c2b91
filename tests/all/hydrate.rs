//! `pgthaw hydrate`: every block once, past the page cache, and again only what was not done.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{self, Output};

#[test]
fn every_block_is_read_once_and_an_interruption_loses_little() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('x', 900) AS body FROM generate_series(1, 60000) AS i; CHECKPOINT");
    server.pgthaw(&["snapshot", "take"]).ok();
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    let started = Instant::now();
    let mut slow = server.command(&["hydrate", "--pace", "20MB", "--threads", "2", "--json"]);
    let child = slow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = Output::from(child.wait_with_output().unwrap());
    if output.stderr.contains("O_DIRECT") || output.stdout.contains("O_DIRECT") {
        untested!(machine: "{}", output.stderr);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let first = output.ends_with(130).json();
    let bytes = |receipt: &serde_json::Value, of: &str| receipt[of].as_u64().unwrap();
    assert_eq!(first["is_interrupted"], true);
    assert!(bytes(&first, "left_bytes") > 0 && bytes(&first, "read_bytes") > 0, "{first:#}");
    assert!((bytes(&first, "read_bytes") as f64) < 20e6 * elapsed + 4e6, "{first:#}");

    let second = server.pgthaw(&["hydrate", "--json"]).ok().json();
    let done_before = bytes(&second, "done_before_bytes");
    assert!(done_before > 0 && !second["resumed_from"].is_null(), "{second:#}");
    assert_eq!(bytes(&second, "left_bytes"), 0, "{second:#}");
    assert!(bytes(&second, "read_bytes") + done_before <= bytes(&second, "total_bytes") + 4_000_000, "{second:#}");
    assert!(!second["snapshot_taken_at"].is_null());

    // Nothing of it is in the page cache.
    let map = server.pgthaw(&["map", "-r", "t", "--json"]).ok().json();
    let table = map["relations"].as_array().unwrap().iter().find(|one| one["name"] == "t").unwrap();
    assert!(table["os_blocks"].as_u64().unwrap() * 10 < table["blocks"].as_u64().unwrap(), "{table:#}");

    // A finished run is not gone on with, and nothing is claimed of blocks that nobody read.
    let text = server.pgthaw(&["hydrate"]).ok().stdout;
    assert!(text.starts_with("nothing read: an earlier run") && text.contains("--again"), "{text}");
    assert!(!text.contains("every block has been read"), "{text}");
    let again = server.pgthaw(&["hydrate", "--again", "--pace", "full", "--json"]).ok().json();
    assert_eq!((bytes(&again, "done_before_bytes"), &again["resumed_from"]), (0, &serde_json::Value::Null));
    assert!(bytes(&again, "read_bytes") > 50_000_000, "{again:#}");
    assert_eq!((&second["traffic"]["sharing"], &again["traffic"]["sharing"]), (&"fair".into(), &"full_speed".into()));

    let refused = server.pgthaw(&["hydrate", "-d", "nosuchdb"]).ends_with(2).stderr;
    assert!(refused.contains("omit -d"), "{refused}");
    server.pgthaw(&["hydrate", "1999"]).ends_with(2);
}
