//! `pgthaw doctor --probe`: what it finds under a limit that is known, what it keeps, and that it can be stopped.

use std::process::{Command, Stdio};
use std::time::Duration;

use host::linux::block_device::read_block_device;
use host::linux::cgroup::{DiskLimit, ReadLimit};
use host::linux::{DeviceLimit, WriteLimit};
use host::units::Bytes;
use serde_json::Value;

use crate::servers::{self, Output, TestServer};

/// As a small gp3 volume of AWS.
const LIMIT: ReadLimit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: Some(Bytes(125 << 20)) };

/// A server with a table of some 100 MB, which is on the disk and not on its way there.
fn server_with_a_table() -> TestServer {
    let server = servers::start_any(&[]);
    server.psql(
        "CREATE TABLE t WITH (autovacuum_enabled = off) AS
             SELECT i, repeat('x', 900) AS body FROM generate_series(1, 100000) AS i;
         CHECKPOINT",
    );
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    server
}

/// A limit of 3000 reads and 125 MiB a second for commands and servers; `None` where none can be made, as without root.
pub fn limit() -> Option<DiskLimit> {
    limit_with_memory(None)
}

/// The same with so much memory.
pub fn limit_with_memory(memory: Option<Bytes>) -> Option<DiskLimit> {
    needs_root!();
    let device = match read_block_device("/var/tmp".as_ref()) {
        Ok(device) => device,
        Err(error) => untested!(machine: "{error}"),
    };
    let limit = DeviceLimit { number: device.number, reads: LIMIT, writes: WriteLimit::default() };
    match DiskLimit::create(vec![limit], false, memory) {
        Ok(limit) => Some(limit),
        Err(error) => untested!(machine: "no cgroup can be made: {error}"),
    }
}

fn limited(server: &TestServer, limit: &DiskLimit, arguments: &[&str]) -> Output {
    let mut command = server.command(arguments);
    limit.limit_command(&mut command).unwrap();
    servers::output_of(&mut command)
}

fn profile_line(server: &TestServer) -> Value {
    let lines = server.pgthaw(&["doctor", "--json"]).ok().json();
    lines.as_array().unwrap().iter().find(|line| line["name"] == "profile").unwrap().clone()
}

#[test]
fn a_limit_is_found_and_restore_plans_with_it() {
    let server = server_with_a_table();
    let Some(limit) = limit() else { return };
    server.pgthaw(&["snapshot", "take"]).ok();
    let record = limited(&server, &limit, &["doctor", "--probe", "--json"]).ok().json();
    let profile = &record["measurement"]["profile"];
    let is_near = |value: &Value, truth: f64| (value.as_f64().unwrap() / truth - 1.0).abs() <= 0.1;
    assert!(is_near(&profile["reads_per_second"], 3000.0), "{record:#}");
    assert!(is_near(&profile["bandwidth"], 131_072_000.0), "{record:#}");
    assert_eq!(record["limit"], serde_json::json!({ "riops": 3000, "rbps": 131_072_000 }));
    assert!(record["measurement"]["read_bytes"].as_u64().unwrap() <= 1 << 30);

    let receipt = limited(&server, &limit, &["restore", "newest", "--dry-run", "--json"]).ok().json();
    assert_eq!(receipt["device"]["source"], "probed", "{receipt:#}");
    assert_eq!(receipt["device"]["measured_at"], record["measured_at"]);
    assert_eq!(receipt["device"]["reads_per_second"], profile["reads_per_second"]);
    let text = limited(&server, &limit, &["restore", "newest", "--dry-run"]).ok().stdout;
    assert!(text.contains("measured just now"), "{text}");

    // Without the limit it is another device, which nobody has measured; and what the user tells counts more.
    assert_eq!(server.pgthaw(&["restore", "newest", "--dry-run", "--json"]).ok().json()["device"]["source"], "default");
    assert_eq!(profile_line(&server)["ok"], false);
    let told = limited(&server, &limit, &["restore", "newest", "--dry-run", "--json", "--riops", "77"]).ok().json();
    assert_eq!((&told["device"]["source"], &told["device"]["reads_per_second"]), (&"told".into(), &77.0.into()));
}

#[test]
fn a_probe_keeps_its_budget_and_what_it_found() {
    let server = server_with_a_table();
    server.pgthaw(&["doctor", "--probe=1MB"]).ends_with(2);
    let output = server.pgthaw(&["doctor", "--probe=64MiB", "--json"]);
    if output.stderr.contains("O_DIRECT") {
        untested!(machine: "{}", output.stderr);
    }
    let record = output.ok().json();
    assert!(record["measurement"]["read_bytes"].as_u64().unwrap() <= 64 << 20, "{record:#}");
    assert!(record["measurement"]["seconds"].as_f64().unwrap() > 0.0);
    let line = profile_line(&server);
    assert_eq!(line["ok"], true, "{line:#}");
    assert!(line["detail"].as_str().unwrap().contains("measured just now"), "{line:#}");
}

#[test]
fn a_small_cluster_is_refused() {
    let server = servers::start_any(&[]);
    let refused = server.pgthaw(&["doctor", "--probe"]).ends_with(1);
    assert!(refused.stderr.contains("--riops"), "{}", refused.stderr);
}

#[test]
fn a_probe_that_is_stopped_keeps_nothing() {
    let server = server_with_a_table();
    let Some(limit) = limit() else { return };
    let mut command: Command = server.command(&["doctor", "--probe", "--json"]);
    limit.limit_command(&mut command).unwrap();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = Output::from(child.wait_with_output().unwrap()).ends_with(130);
    assert_eq!(output.stdout, "");
    assert!(!server.home().join("state/pgthaw/devices").exists());
}
