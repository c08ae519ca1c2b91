//! The agent beside real servers: a primary, its standby, restarts and a promotion.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use host::linux::page_cache::{PageCache as _, SystemPageCache};
use postgres::StopMode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::culprits::{Open, wait_for};
use crate::schemas::check_document;
use crate::servers::{self, Output, TestServer, output_of, start_standby, wait_until};

const TABLE: &str = "
    CREATE TABLE kept AS SELECT i AS id, repeat('x', 500) AS filler FROM generate_series(1, 42000) AS i;
    VACUUM kept;
    CHECKPOINT;
";

pub struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Agent {
    fn start(server: &TestServer, options: &[&str]) -> Agent {
        Agent::start_by(server, options, None)
    }

    /// As systemd would: with a socket for sd_notify(3).
    fn start_by(server: &TestServer, options: &[&str], notify: Option<&std::path::Path>) -> Agent {
        let mut command = server.command(&[&["agent"], options].concat());
        notify.map(|socket| command.env("NOTIFY_SOCKET", socket));
        Agent::of(command)
    }

    pub fn of(mut command: Command) -> Agent {
        Agent(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// What it said, after SIGTERM.
    pub fn end(mut self) -> String {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), Signal::TERM).unwrap();
        let status = self.0.wait().unwrap();
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

fn status(server: &TestServer) -> Value {
    server.pgthaw(&["agent", "status", "--json"]).ok().json()
}

fn wait_for_state(server: &TestServer, state: &str) {
    wait_until(state, || {
        let found = server.pgthaw(&["agent", "status", "--json"]);
        found.status == 0 && found.json()["state"] == state
    });
}

fn ready(server: &TestServer, options: &[&str]) -> Output {
    server.pgthaw(&[&["ready"], options].concat())
}

/// Cached share of the table's file.
fn cached(server: &TestServer) -> f64 {
    let file = server.data_directory().join(server.psql("SELECT pg_relation_filepath('kept')"));
    let listed = output_of(std::process::Command::new("fincore").args(["-nbo", "RES"]).arg(&file)).ok().stdout;
    listed.trim().parse::<f64>().unwrap() / std::fs::metadata(&file).unwrap().len() as f64
}

fn evict(server: &TestServer) {
    let file = server.data_directory().join(server.psql("SELECT pg_relation_filepath('kept')"));
    SystemPageCache::new().open(&file).unwrap().unwrap().apply_evict().unwrap();
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_standby_is_kept_as_warm_as_its_primary_and_takes_over_warm() {
    let mut primary = servers::start_any(&[]);
    primary.psql(TABLE);
    let set_up = primary.pgthaw(&["agent", "setup"]).ok();
    assert!(set_up.stdout.contains("has the schema pgthaw"), "{set_up:?}");
    let mut standby = start_standby(&mut primary);
    primary.cluster.start().unwrap();
    primary.psql("SELECT count(*) FROM kept");
    primary.pgthaw(&["agent", "prepare-switchover"]).ok();
    let rows = primary.psql("SELECT count(*) FROM pgthaw.warm_set");
    wait_until("the warm set", || standby.psql("SELECT count(*) FROM pgthaw.warm_set") == rows);
    evict(&standby);
    assert!(cached(&standby) < 0.1);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let none = ready(&standby, &[]);
    assert!(none.status != 0 && none.stderr.contains("agent"), "{none:?}");
    let agent = Agent::start(&standby, &["--every", "10s", "--listen", &format!("127.0.0.1:{port}")]);
    let told = ready(&standby, &["--wait", "120s"]).ok().stdout;
    assert!(told.starts_with("ready: warmth "), "{told}");
    // Ready is who has the hot part.
    wait_until("the rest", || cached(&standby) > 0.95);
    wait_until("a look at it", || status(&standby)["missing_bytes"].as_u64() < Some(4 << 20));
    let now = status(&standby);
    assert_eq!(now["state"], "following", "{now:#}");
    assert!(now["warmth"]["os"].as_f64().unwrap() > 0.95, "{now:#}");
    assert!(now["snapshot"].as_str().unwrap().ends_with("-primary"), "{now:#}");
    assert_eq!(now["errors"], serde_json::json!({}), "{now:#}");
    assert!(get(port, "/ready?min=0.9").starts_with("HTTP/1.0 200"), "{}", get(port, "/ready?min=0.9"));
    check_document("agent-status", &now);
    let metrics = get(port, "/metrics");
    assert!(metrics.starts_with("HTTP/1.0 403"), "without a host name, only /ready answers: {metrics}");
    // What is lost is loaded again, as often as it is lost.
    for _ in 0..2 {
        wait_until("a look at it", || status(&standby)["missing_bytes"].as_u64() < Some(4 << 20));
        evict(&standby);
        wait_until("what was lost", || cached(&standby) > 0.95);
    }
    primary.cluster.stop(StopMode::Immediate).unwrap();
    standby.psql("SELECT pg_promote()");
    wait_for_state(&standby, "keeping");
    assert!(ready(&standby, &["--wait", "60s"]).ok().stdout.starts_with("ready: the primary"));
    let said = agent.end();
    assert!(said.contains("following") && said.contains("warming") && said.contains("keeping"), "{said}");
    let _ = standby.cluster.stop(StopMode::Fast);
}

#[test]
fn a_standby_notices_a_prepared_switchover() {
    let mut primary = servers::start_any(&[]);
    primary.psql(TABLE);
    primary.pgthaw(&["agent", "setup"]).ok();
    let mut standby = start_standby(&mut primary);
    primary.cluster.start().unwrap();
    let agent = Agent::start(&standby, &["--every", "24h"]);
    wait_until("a first look", || {
        ready(&standby, &[]).stdout.contains("the agent has not read the primary's warm set yet")
    });
    for _ in 0..2 {
        primary.pgthaw(&["agent", "prepare-switchover"]).ok();
        let taken_at = || status(&standby)["snapshot_taken_at"].as_str().map(str::to_owned);
        let before = taken_at();
        wait_until("the new warm set", || taken_at() != before);
    }
    assert!(ready(&standby, &["--wait", "60s"]).ok().stdout.starts_with("ready: warmth "));
    agent.end();
    let _ = standby.cluster.stop(StopMode::Fast);
}

#[test]
fn a_restart_is_followed_by_a_restore_and_the_end_by_a_snapshot() {
    let mut server = servers::start_any(&[]);
    server.psql(TABLE);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm");
    let socket = server.home().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let hear = || {
        let mut heard = [0; 100];
        let bytes = manager.recv(&mut heard).unwrap();
        String::from_utf8_lossy(&heard[..bytes]).trim_end().to_owned()
    };
    let agent = Agent::start_by(&server, &["--every", "1h"], Some(&socket));
    assert_eq!([hear(), hear()], ["READY=1", "WATCHDOG=1"]);
    drop(manager);
    wait_for_state(&server, "keeping");
    wait_until("a snapshot", || status(&server)["snapshot"].is_string());
    let second = server.pgthaw(&["agent"]).ends_with(1);
    assert!(second.stderr.contains("another agent of this server already runs"), "{second:?}");
    server.cluster.stop(StopMode::Fast).unwrap();
    wait_for_state(&server, "waiting");
    let not = ready(&server, &[]).ends_with(1);
    assert!(not.stdout.contains("not ready: the agent is waiting"), "{not:?}");
    let file = {
        server.cluster.start().unwrap();
        evict(&server);
        // The restore may have been faster than the eviction.
        server.cluster.stop(StopMode::Fast).unwrap();
        wait_for_state(&server, "waiting");
        server.cluster.start().unwrap();
        server.psql("SELECT pg_relation_filepath('kept')")
    };
    ready(&server, &["--wait", "60s"]).ok();
    wait_until("the restore", || cached(&server) > 0.95);
    assert!(status(&server)["restores"].as_u64().unwrap() >= 1, "{file}");
    let before = server.pgthaw(&["snapshot", "list", "--json"]).ok().json();
    thread::sleep(Duration::from_millis(1100));
    let said = agent.end();
    let after = server.pgthaw(&["snapshot", "list", "--json"]).ok().json();
    let count = |list: &Value| list["snapshots"].as_array().unwrap().len();
    assert_eq!(count(&after), count(&before) + 1, "{said}");
    let gone = server.pgthaw(&["agent", "status"]).ends_with(1);
    assert!(gone.stderr.contains("does not run"), "{gone:?}");
}

/// The postmaster stays, and its start time.
#[test]
fn a_killed_backend_empties_shared_buffers_and_they_are_filled_again() {
    let server = servers::start_any(&[]);
    server.psql(TABLE);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm; SELECT pg_prewarm('kept')");
    let cached = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('kept')";
    let before: u32 = server.psql(cached).parse().unwrap();
    assert!(before > 1000, "{before}");
    let _agent = Agent::start(&server, &["--every", "1h"]);
    wait_until("a snapshot", || server.pgthaw(&["agent", "status", "--json"]).stdout.contains("\"snapshot\": \""));
    let then = status(&server);
    let mut victim =
        server.command_of("psql").args(["-Xqc", "SELECT pg_sleep(600)"]).stderr(Stdio::null()).spawn().unwrap();
    let sleeping = "SELECT pid FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600)'";
    let mut pid = String::new();
    wait_until("the victim", || {
        pid = server.psql(sleeping);
        !pid.is_empty()
    });
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    victim.wait().unwrap();
    wait_until("the crash", || {
        let found = server.pgthaw(&["agent", "status", "--json"]);
        found.status == 0 && found.json()["server_start"] != then["server_start"]
    });
    ready(&server, &["--wait", "60s"]).ok();
    assert!(status(&server)["restores"].as_u64() > then["restores"].as_u64());
    let after: u32 = server.psql(cached).parse().unwrap();
    // Only free buffers are filled.
    assert!(after > before / 2, "{before} {after}");
}

#[test]
fn a_primary_and_its_standby_share_a_directory() {
    let mut primary = servers::start_any(&[]);
    primary.psql(TABLE);
    primary.pgthaw(&["agent", "setup"]).ok();
    let standby = start_standby(&mut primary);
    primary.cluster.start().unwrap();
    let directory = primary.home().join("shared");
    let place = ["--dir", directory.to_str().unwrap()];
    let ask = |server: &TestServer, words: &[&str]| server.pgthaw(&[words, &place].concat());
    let _agents = [Agent::start(&primary, &place), Agent::start(&standby, &place)];
    let states = [(&primary, "keeping"), (&standby, "following")];
    for (server, state) in states {
        wait_until(state, || {
            let found = ask(server, &["agent", "status", "--json"]);
            found.status == 0 && found.json()["state"] == state
        });
    }
    let own = |server: &TestServer| {
        let list = ask(server, &["snapshot", "list", "--json"]).ok().json();
        let names = list["snapshots"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.ends_with("-agent")).count()
    };
    wait_until("a snapshot of each", || own(&primary) >= 2);
    let another = ask(&standby, &["agent"]).ends_with(1);
    assert!(another.stderr.contains("another agent of this server already runs"), "{another:?}");
    assert!(ask(&primary, &["ready"]).ok().stdout.contains("the primary is running"));
}

/// Afterwards the agent's history names the holder of a lock, even without agent and server.
#[test]
fn the_history_names_the_culprit_first() {
    let mut server = servers::start_any(&[("deadlock_timeout", "60s")]);
    server.psql("CREATE TABLE t AS SELECT 1 AS id");
    let agent = Agent::start(&server, &["--every", "1h", "--history", "1h"]);
    wait_for_state(&server, "keeping");
    let now = || jiff::Timestamp::now().to_string();
    let from = now();
    let look_back = || server.pgthaw(&["waits", "--from", &from, "--json"]);
    let blockers = || look_back().json()["blockers"].as_array().cloned().unwrap_or_default();
    let forgetful = Open::start(&server, "forgetful", "BEGIN; UPDATE t SET id = 2 WHERE id = 1;");
    wait_for(&server, "state = 'idle in transaction'", "1");
    let patient = Open::start(&server, "patient", "UPDATE t SET id = 3 WHERE id = 1;");
    wait_until("the recorded wait", || look_back().status == 0 && blockers().iter().any(|one| one["waiters"] == 1));
    let to = now();
    drop((forgetful, patient));
    agent.end();
    server.cluster.stop(StopMode::Fast).unwrap();
    let text = server.pgthaw(&["waits", "--from", &from, "--to", &to]).ok().stdout;
    let first: Vec<&str> = text.lines().skip(2).take(4).collect();
    assert!(text.starts_with("history from ") && first[0] == "WHO BLOCKS WHOM", "{text}");
    assert!(
        first[1].contains(" forgetful, idle in transaction for ") && first[1].contains("holds t: 1 process"),
        "{text}"
    );
    assert!(first[2].contains("last query: UPDATE t SET id = ? WHERE id = ?"), "{text}");
    assert!(first[3].contains(" patient waits "), "{text}");
    let report = server.pgthaw(&["waits", "--from", &from, "--to", &to, "--json"]).ok();
    check_document("waits", &report.json());
    assert!(report.json()["blockers"][0]["seen_ms"].is_array(), "{report:?}");
    let steps = server.pgthaw(&["top", "--at", &from]).ok().stdout;
    assert!(steps.lines().any(|step| step.contains("forgetful")) && steps.lines().count() <= 60, "{steps}");
    let error = server.pgthaw(&["top", "--at", "2026-01-01 03:10"]).ends_with(1).stderr;
    assert!(error.contains("the history has no data for that time: it covers 2"), "{error}");
    let histories: Vec<PathBuf> =
        std::fs::read_dir(history_directory(&server)).unwrap().map(|one| one.unwrap().path()).collect();
    let [record] = &histories[..] else { panic!("{histories:?}") };
    // As if the agent had been killed in the middle.
    let bytes = std::fs::read(record).unwrap();
    std::fs::write(record, &bytes[..bytes.len() - 10]).unwrap();
    let cut = server.pgthaw(&["waits", "--from", &from]).ok().stdout;
    assert!(cut.contains("forgetful"), "{cut}");
}

fn history_directory(server: &TestServer) -> PathBuf {
    let store = server.home().join("state/pgthaw/snapshots");
    let cluster = std::fs::read_dir(store).unwrap().next().unwrap().unwrap().path();
    let mut files = std::fs::read_dir(&cluster).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
    cluster.join(files.find_map(|name| Some(format!("{}.history", name.strip_suffix(".json")?))).unwrap())
}

#[test]
fn a_full_disk_ends_the_history_and_not_the_agent() {
    needs_root!();
    let server = servers::start_any(&[]);
    let agent = Agent::start(&server, &["--every", "1h", "--history", "off"]);
    wait_for_state(&server, "keeping");
    agent.end();
    let small = history_directory(&server);
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k", "none"]).arg(&small).status().unwrap();
    if !mounted.success() {
        untested!("nothing can be mounted");
    }
    std::fs::write(small.join("filler"), [1; 4096]).unwrap();
    let agent = Agent::start(&server, &["--every", "1h"]);
    wait_until("the failure", || {
        let found = server.pgthaw(&["agent", "status"]);
        found.stdout.contains("history failed: cannot write ") && found.stdout.contains("No space left on device")
    });
    let failed = status(&server);
    let ready = ready(&server, &[]);
    let said = agent.end();
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    check_document("agent-status", &failed);
    assert_eq!((failed["errors"]["history"].as_u64(), ready.status), (Some(1), 0), "{failed}");
    assert_eq!(said.matches("history failed").count(), 1, "{said}");
}

/// A role that may write to the table can only cause blocks to be missing.
#[test]
fn what_is_planted_in_the_schema_is_refused_and_rows_that_cannot_be_are_left_out() {
    let server = servers::start_any(&[]);
    server.psql(TABLE);
    server.pgthaw(&["agent", "setup", "keeper"]).ok();
    server.psql("CREATE ROLE mallory LOGIN");
    let as_keeper = |words: &[&str]| server.pgthaw(&[words, &["-U", "keeper"]].concat());
    as_keeper(&["agent", "prepare-switchover"]).ok();
    let receive = || as_keeper(&["agent", "receive", "--json"]);
    let whole = receive().ok().json();
    assert_eq!(whole["refused_rows"], 0, "{whole:#}");
    assert!(whole["rows"].as_u64().unwrap() > 100, "{whole:#}");
    server.psql("CREATE TABLE saved AS TABLE pgthaw.warm_set");
    let kept = server.psql("SELECT pg_relation_filepath('kept')");
    let hostile = [
        "bitmaps[1] = '\\x00112233445566778899'",
        "bitmaps[1] = decode(repeat('00', 70000000), 'hex')",
        "bitmaps[1] = NULL",
        "bitmaps = ARRAY[bitmaps]",
        "bitmaps = '{}'",
        "bitmaps = bitmaps || bitmaps[1], tiers = tiers || tiers[1], heats = heats || heats[1]",
        "heats = '{}'",
        "heats[1] = -5",
        "heats[1] = 2000000000",
        "tiers[1] = 'disk'",
        "tiers[1] = repeat('x', 200000)",
        "tiers = tiers || 'os'::text",
        "relation_blocks = -1",
        "relation_blocks = 0",
        "relation_blocks = 9223372036854775807",
        "relation = '{}'",
        "relation = repeat(' ', 200000)::bytea",
        "fork = E'ma\\nin'",
        "path = '../../etc/passwd'",
        "path = path || '0'",
    ];
    for (at, change) in hostile.iter().enumerate() {
        let order = format!("path <> '{kept}' AND fork = 'main' ORDER BY path OFFSET {at} LIMIT 1");
        let one = format!("path = (SELECT path FROM saved WHERE {order}) AND fork = 'main'");
        server.psql(&format!("UPDATE pgthaw.warm_set SET {change} WHERE {one}"));
    }
    let some = receive().ok().json();
    assert_eq!(some["refused_rows"].as_u64(), Some(hostile.len() as u64), "{some:#}");
    assert!(some["failure"].as_str().unwrap().contains("left out 20 of"), "{some:#}");
    assert!(some["wanted_bytes"].as_u64() > Some(20_000_000), "nothing else is lost: {some:#}");
    server.psql("TRUNCATE pgthaw.warm_set; INSERT INTO pgthaw.warm_set TABLE saved");
    for (column, value, told) in [
        ("format", "2", "another version of pgthaw wrote the warm set"),
        ("system_identifier", "1", "of another cluster (system identifier 1)"),
        ("taken_at", "'infinity'", "read the warm set"),
    ] {
        server.psql(&format!(
            "CREATE TABLE state AS TABLE pgthaw.warm_set_state; UPDATE pgthaw.warm_set_state SET {column} = {value}"
        ));
        let refused = receive();
        assert!(refused.status != 0 && refused.stderr.contains(told), "{refused:?}");
        server.psql("TRUNCATE pgthaw.warm_set_state; INSERT INTO pgthaw.warm_set_state TABLE state; DROP TABLE state");
    }
    server.psql(
        "UPDATE pgthaw.warm_set_state SET taken_at = taken_at + interval '1 hour';
         ALTER TABLE pgthaw.warm_set DROP CONSTRAINT warm_set_pkey; INSERT INTO pgthaw.warm_set TABLE saved",
    );
    let twice = receive().ok().json();
    assert!(twice["refused_rows"].as_u64() > Some(100), "{twice:#}");
    assert!(twice["wanted_bytes"].as_u64() > Some(40_000_000), "{twice:#}");
    server.psql("UPDATE pgthaw.warm_set SET heats = '{}'");
    let none = receive();
    assert!(none.status != 0 && none.stderr.contains("no row of the warm set is readable"), "{none:?}");
    server.psql("TRUNCATE pgthaw.warm_set; ALTER TABLE pgthaw.warm_set ADD PRIMARY KEY (path, fork)");
    // After pg_upgrade, the primary writes everything anew.
    server.psql("UPDATE pgthaw.warm_set_state SET system_identifier = 1");
    as_keeper(&["agent", "prepare-switchover"]).ok();
    assert_eq!(receive().ok().json()["refused_rows"], 0);
    // The superuser does not use what another role may change; the role itself does.
    let superuser = server.pgthaw(&["agent", "receive"]).ends_with(2);
    assert!(superuser.stderr.contains("schema pgthaw belongs to keeper"), "{superuser:?}");
    server.psql("GRANT TRIGGER ON pgthaw.warm_set TO mallory");
    for words in [&["agent", "receive"][..], &["agent", "prepare-switchover"]] {
        let planted = as_keeper(words).ends_with(2);
        assert!(planted.stderr.contains("can be given triggers by mallory"), "{planted:?}");
    }
    let without = server.pgthaw(&["agent", "prepare-switchover", "-d", "template1"]).ends_with(2);
    assert!(without.stderr.contains("has no table for the warm set"), "{without:?}");
}

#[test]
fn what_is_printed_for_psql_sets_up_the_same() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE \"a 'b\" ");
    let script = server.pgthaw(&["agent", "setup", "the keeper", "--print"]).ok().stdout;
    let mut psql = server.command_of("psql");
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", "template1"]);
    let mut psql = psql.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    psql.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let ended = psql.wait_with_output().unwrap();
    assert!(ended.status.success(), "{script}\n{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(server.psql("SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'pgthaw'"), "\"the keeper\"");
    assert_eq!(server.psql_in("a 'b", "SELECT count(*) FROM pg_extension WHERE extname LIKE 'pg_%'"), "2");
    server.pgthaw(&["agent", "setup", "the keeper"]).ok();
}

#[test]
fn the_alerts_and_the_dashboard_name_metrics_that_there_are() {
    let exposition = include_str!("../../crates/pgthaw/src/agent/exposition.rs");
    for packaged in [
        include_str!("../../packaging/prometheus/pgthaw.rules.yml"),
        include_str!("../../packaging/grafana/pgthaw-agent.json"),
    ] {
        let words = packaged.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        let names: Vec<&str> = words.filter(|word| word.starts_with("pgthaw_")).collect();
        assert!(names.len() > 3, "{names:?}");
        names.iter().for_each(|name| assert!(exposition.contains(&format!("\"{name}\"")), "{name}"));
    }
}
