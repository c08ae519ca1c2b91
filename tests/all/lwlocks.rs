//! `pgthaw waits --lwlocks`: waits for lightweight locks at the server's own probes, and that nothing of it stays.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pgthaw::linux::user_probes::read_user_probes;
use serde_json::Value;

use crate::servers::{self, TestServer};
use crate::waits::{can_probe, rows_of};

const START: &str = "lwlock__wait__start";

fn postmaster_pid(server: &TestServer) -> u32 {
    let text = fs::read_to_string(server.data_directory().join("postmaster.pid")).unwrap();
    text.lines().next().unwrap().trim().parse().unwrap()
}

/// By its program's own bytes, not by what pgthaw makes of them.
fn has_probes(server: &TestServer) -> bool {
    let program = fs::read(format!("/proc/{}/exe", postmaster_pid(server))).unwrap();
    program.windows(START.len()).any(|bytes| bytes == START.as_bytes())
}

/// A server with these probes, when one is installed.
fn with_probes(settings: &[(&str, &str)]) -> Option<TestServer> {
    servers::servers().into_iter().map(|(version, _)| servers::start(version, settings)).find(has_probes)
}

/// Where the postmaster has the count of those who look at a probe, which the kernel keeps.
fn find_semaphore(pid: u32) -> u64 {
    let probes = read_user_probes(pid, |_, name| name == START).unwrap();
    let wanted = probes[0].semaphore.unwrap();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let holds = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let (start, end, offset) = (hex(start), hex(end), hex(fields[2]));
        let is_it = fields[1].starts_with("rw") && fields.last() == Some(&program.to_str().unwrap());
        (is_it && (offset..offset + (end - start)).contains(&wanted)).then(|| start + wanted - offset)
    };
    maps.lines().find_map(holds).unwrap()
}

/// How many look at the probe.
fn lookers(pid: u32, semaphore: u64) -> u16 {
    let mut count = [0; 2];
    fs::File::open(format!("/proc/{pid}/mem")).unwrap().read_exact_at(&mut count, semaphore).unwrap();
    u16::from_ne_bytes(count)
}

/// Nobody looks any more. Others may, at the same program: a test beside this one.
fn wait_until_nobody_looks(pid: u32, semaphore: u64) {
    let begun = Instant::now();
    while lookers(pid, semaphore) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays attached");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A load of many small commits, which stand in line for the log.
fn commits(server: &TestServer) -> String {
    server.psql("CREATE TABLE t (i int)");
    let script = server.home().join("commit.sql");
    fs::write(&script, "INSERT INTO t VALUES (1);\n").unwrap();
    let pgbench = server.command_of("pgbench").get_program().to_str().unwrap().to_owned();
    format!("{pgbench} -n -c 8 -t 300 -f {} postgres", script.display())
}

#[test]
fn waits_are_counted_by_tranche_and_nothing_stays_attached() {
    if !can_probe() {
        return;
    }
    let Some(server) = with_probes(&[("fsync", "on")]) else {
        untested!(machine: "no server here has probes of its own: Debian's have");
    };
    let load = commits(&server);
    let pid = postmaster_pid(&server);
    let semaphore = find_semaphore(pid);
    wait_until_nobody_looks(pid, semaphore);
    let words: Vec<&str> = load.split(' ').collect();
    let file = server.home().join("waits.parquet");
    let options = ["waits", "--json", "--budget", "100", "--lwlocks", "--parquet", file.to_str().unwrap(), "--"];
    let mut looking = server.command(&[&options[..], &words].concat());
    let mut looking = looking.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut seen = 0;
    while seen == 0 && looking.try_wait().unwrap().is_none() {
        seen = lookers(pid, semaphore);
    }
    let output = looking.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(seen > 0, "the server was never told that somebody looks");
    wait_until_nobody_looks(pid, semaphore);

    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lwlocks = &report["lwlocks"];
    assert_eq!((&lwlocks["ended"], &lwlocks["lost"]), (&"end".into(), &0.into()), "{lwlocks}");
    assert_eq!(lwlocks["limit_ns"], 30_000_000_000_u64);
    let statistics = lwlocks["statistics"].as_array().unwrap();
    let log = statistics.iter().find(|one| one["name"] == "server::LWLock::WALWrite");
    let log = log.unwrap_or_else(|| panic!("{lwlocks}"));
    let (count, total) = (log["count"].as_u64().unwrap(), log["total_ns"].as_u64().unwrap());
    assert!(count > 0 && total >= count, "{log}");
    let counted: u64 = log["histogram"].as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).sum();
    assert_eq!(counted, count, "every wait has a bucket");
    // The scheduler's account of the same waits has those that slept, and the sleep alone.
    let slept = report["statistics"].as_array().unwrap().iter();
    let slept: u64 = slept
        .filter(|one| one["part"] == "LWLock" && one["detail"] == "WALWrite")
        .map(|one| one["total_ns"].as_u64().unwrap())
        .sum();
    assert!(slept > 0 && total >= slept / 2, "{total} of {slept}");
    let written: Vec<Value> = rows_of(&file).into_iter().filter(|row| row["kind"] == "lwlock").collect();
    let pairs =
        |rows: &[Value]| rows.iter().map(|row| (row["name"].clone(), row["total_ns"].clone())).collect::<Vec<_>>();
    assert_eq!(pairs(&written), pairs(statistics));
    // What it costs is told, the stops too.
    let programs = report["cost"]["kernel"]["programs"].as_array().unwrap();
    let cost = |name: &str| programs.iter().find(|one| one["name"] == name).unwrap()["total_ns"].as_u64().unwrap();
    assert!(cost("lwlock_wait_start") > 0 && cost("lwlock_stops") >= 2 * 2000 * count, "{programs:?}");
}

#[test]
fn counting_ends_with_its_time_above_the_budget_and_with_pgthaw() {
    if !can_probe() {
        return;
    }
    let Some(server) = with_probes(&[]) else {
        untested!(machine: "no server here has probes of its own: Debian's have");
    };
    let pid = postmaster_pid(&server);
    let semaphore = find_semaphore(pid);
    let of = |options: &[&str]| server.pgthaw(&[&["waits", "--json"], options].concat()).ok().json();
    let limited = of(&["--budget", "100", "--lwlocks=1", "--seconds", "3"]);
    assert_eq!(limited["lwlocks"]["ended"], "limit", "{limited}");
    let length = limited["lwlocks"]["length_ns"].as_u64().unwrap();
    assert!((1_000_000_000..limited["length_ns"].as_u64().unwrap()).contains(&length), "{limited}");

    let dear = of(&["--budget", "0", "--lwlocks", "--seconds", "4"]);
    assert_eq!(dear["lwlocks"]["ended"], "budget", "{dear}");
    assert_eq!(dear["reductions"][0]["given_up"], "lightweight_locks", "{dear}");
    wait_until_nobody_looks(pid, semaphore);

    let mut killed = server.command(&["waits", "--budget", "100", "--lwlocks", "--seconds", "600"]);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while lookers(pid, semaphore) == 0 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended by itself");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until_nobody_looks(pid, semaphore);
    assert_eq!(server.psql("SELECT 1"), "1");
    server.pgthaw(&["waits", "--lwlocks=0"]).ends_with(2);
}

test_every_version! {
    fn a_server_without_probes_is_looked_at_without_them_and_that_is_told(version) {
        let server = servers::start(version, &[]);
        if rustix::process::geteuid().is_root() && cfg!(probes) && has_probes(&server) {
            return;
        }
        let report = server.pgthaw(&["waits", "--json", "--lwlocks", "--seconds", "1"]).ok().json();
        assert_eq!(report["lwlocks"]["ended"], "refused", "{report}");
        assert!(!report["statistics"].as_array().unwrap().is_empty(), "{report}");
        let text = server.pgthaw(&["waits", "--lwlocks", "--seconds", "1"]).ok().stdout;
        assert!(text.contains("not from usdt: "), "{text}");
        if !has_probes(&server) && rustix::process::geteuid().is_root() && cfg!(probes) {
            let reason = report["lwlocks"]["reason"].as_str().unwrap();
            assert!(reason.contains("has no probe lwlock__wait__done"), "{reason}");
            assert!(report["lwlocks"]["remedy"].as_str().unwrap().contains("--enable-dtrace"), "{report}");
            let source = report["source"].as_str().unwrap();
            assert!(["bpf", "memory"].contains(&source), "{source}");
        }
    }
}
