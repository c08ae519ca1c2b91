//! `pgthaw doctor` against real servers.

use serde_json::{Value, json};

use crate::map::leave_links;
use crate::servers::{self, Home};

/// The line called `name`.
fn line<'a>(lines: &'a Value, name: &str) -> &'a Value {
    let found = lines.as_array().unwrap().iter().find(|line| line["name"] == name);
    found.unwrap_or_else(|| panic!("no line {name} in {lines:#}"))
}

#[track_caller]
fn assert_answer(lines: &Value, name: &str, ok: bool, words: &str) {
    let line = line(lines, name);
    assert_eq!(line["ok"], ok, "{line:#}");
    let text = format!("{} {}", line["detail"], line["remedy"]);
    assert!(text.contains(words), "{words:?} in {line:#}");
}

/// The verdict: tiers that can be kept, tiers that can be brought back, and which checks tell what is missing.
#[track_caller]
fn assert_verdict(lines: &Value, snapshot: &[&str], restore: &[&str], missing: &[&str]) {
    let verdict = &lines[0];
    assert_eq!(verdict["name"], "verdict");
    assert_eq!((&verdict["snapshot"], &verdict["restore"]), (&json!(snapshot), &json!(restore)), "{verdict:#}");
    let names: Vec<&str> =
        verdict["missing"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, missing, "{verdict:#}");
    assert_eq!(verdict["ok"], missing.is_empty(), "{verdict:#}");
}

const BOTH: &[&str] = &["os", "buffers"];
const OS: &[&str] = &["os"];
const BUFFERS: &[&str] = &["buffers"];

test_every_version! {
    fn tells_what_a_server_lets_it_do(version) {
        let server = servers::start(version, &[]);
        let before = server.pgthaw(&["doctor", "--json"]).ok().json();
        assert_verdict(&before, OS, OS, &["buffers", "pg_prewarm"]);
        assert_answer(&before, "server", true, &format!("PostgreSQL {version}"));
        assert_answer(&before, "data-dir", true, "is this server's");
        assert_answer(&before, "buffered-io", true, "page cache");
        assert_answer(&before, "os", true, "mincore");
        assert_answer(&before, "evict", true, "scratch file");
        assert_answer(&before, "direct-io", true, "global/");
        assert_answer(&before, "buffers", false, "CREATE EXTENSION pg_buffercache");
        assert_answer(&before, "pg_prewarm", false, "-d postgres -c 'CREATE EXTENSION pg_prewarm'");

        server.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm; CREATE DATABASE \"my app\"");
        let after = server.pgthaw(&["doctor", "--json"]).ok().json();
        assert_verdict(&after, BOTH, OS, &["pg_prewarm"]);
        assert_answer(&after, "buffers", true, "used buffers");
        assert_answer(&after, "pg_buffercache", true, "in postgres");
        assert_answer(&after, "pg_prewarm", false, "-d 'my app' -c");
        let one = server.pgthaw(&["doctor", "--json", "-d", "postgres"]).ok().json();
        assert_verdict(&one, BOTH, BOTH, &[]);
        assert_answer(&one, "pg_prewarm", true, "in postgres");
        let text = server.pgthaw(&["doctor", "-d", "postgres"]).ok().stdout;
        assert!(text.starts_with("you can snapshot and restore both caches; nothing is missing\n"), "{text}");
        let text = server.pgthaw(&["doctor"]).ok().stdout;
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(", and shared_buffers of some databases; one command is left to run:"), "{text}");
        let command = lines[1].trim_start();
        assert!(command.starts_with("psql ") && command.ends_with("-c 'CREATE EXTENSION pg_prewarm'"), "{text}");
        assert_eq!(&lines[2..4], ["", "needed for both caches"]);
        server.pgthaw(&["doctor", "--require", "buffers", "--require", "os"]).ok();
        server.pgthaw(&["doctor", "--require", "pg_prewarm"]).ends_with(3);
    }
}

#[test]
fn direct_reads_are_noticed() {
    let (newest, _) = servers::servers().pop().unwrap();
    let server = servers::start(newest, &[("debug_io_direct", "data")]);
    let lines = server.pgthaw(&["doctor", "--json", "--require", "buffered-io"]).ends_with(3).json();
    assert_answer(&lines, "buffered-io", false, "RESET debug_io_direct");
    assert_verdict(&lines, OS, &[], &["buffered-io", "buffers", "pg_prewarm"]);
}

#[test]
fn a_database_that_lets_nobody_in_is_told() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE closed; CREATE EXTENSION pg_prewarm");
    server.psql("ALTER DATABASE closed CONNECTION LIMIT 0; CREATE ROLE app LOGIN; GRANT pg_monitor TO app");
    let lines = server.pgthaw(&["doctor", "--json", "-U", "app"]).ok().json();
    assert_answer(&lines, "pg_prewarm", false, "could not check closed");
    assert_answer(&lines, "role", true, "pg_monitor");
    server.psql("REVOKE pg_monitor FROM app");
    let lines = server.pgthaw(&["doctor", "--json", "-U", "app", "-D", server.data_directory().to_str().unwrap()]);
    assert_answer(&lines.ok().json(), "role", false, "GRANT pg_monitor");
}

#[test]
fn a_directory_leads_to_the_server_that_runs_in_it() {
    let server = servers::start_any(&[]);
    let directory = server.data_directory();
    // Nothing else says where it is.
    let lines = Home::new().pgthaw(&["doctor", "--json", "-U", "postgres", "-D", directory.to_str().unwrap()]);
    let lines = lines.ok().json();
    assert_answer(&lines, "server", true, server.cluster.socket_directory().to_str().unwrap());
    assert_answer(&lines, "data-dir", true, "is this server's");
}

/// Only root can run it as another user.
#[test]
fn one_grant_is_enough_and_nothing_possible_is_told_by_the_status() {
    needs_root!();
    let server = servers::start_any(&[]);
    server.psql("CREATE ROLE app LOGIN; CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm");
    server.psql("REVOKE EXECUTE ON FUNCTION pg_prewarm FROM PUBLIC");
    let doctor = |arguments: &[&str]| server.pgthaw_as(65534, &[&["doctor", "-U", "app"], arguments].concat());
    let text = doctor(&[]).ends_with(3).stdout;
    let (answer, _) = text.split_once("needed for").unwrap();
    assert!(answer.contains("neither snapshot nor restore") && answer.contains("3 commands are left to run"), "{text}");
    // The one that mends all comes first, and is nobody else's.
    let first = answer.lines().find(|line| line.contains("sudo")).unwrap();
    assert!(first.contains(" pgthaw doctor ") && !first.contains("-U app"), "{text}");
    assert_eq!(answer.matches("GRANT pg_monitor TO").count(), 1, "{text}");
    assert!(!text.contains("pg_read_all"), "{text}");
    doctor(&["--require", "evict"]).ok();
    server.psql("GRANT pg_monitor TO app");
    doctor(&[]).ok();
}

#[test]
fn tablespaces_that_cannot_be_read_are_told() {
    needs_root!();
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm");
    assert_answer(&server.pgthaw(&["doctor", "--json"]).ok().json(), "tablespaces", true, "");
    let of_root = tempfile::tempdir().unwrap();
    let left = leave_links(&server, of_root.path());
    let lines = server.pgthaw(&["doctor", "--json", "-d", "postgres"]).ok().json();
    assert_verdict(&lines, BOTH, BOTH, &["tablespaces"]);
    for link in left {
        assert_answer(&lines, "tablespaces", false, &link);
    }
    let text = server.pgthaw(&["doctor", "-d", "postgres"]).ok().stdout;
    assert!(!text.contains("nothing is missing"), "{text}");
    server.pgthaw(&["doctor", "--require", "tablespaces"]).ends_with(3);
}

#[test]
fn a_stopped_server_has_its_directory() {
    let mut server = servers::start_any(&[]);
    let directory = server.data_directory();
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let directory = directory.to_str().unwrap();
    let lines = Home::new().pgthaw(&["doctor", "--json", "-D", directory, "--require", "os"]).ok().json();
    assert_answer(&lines, "data-dir", true, "contains cluster");
    assert_answer(&lines, "server", false, "no server that runs in");
    assert_verdict(&lines, OS, OS, &["server"]);
    // Neither a server nor a directory.
    let nothing = Home::new().pgthaw(&["doctor", "--json", "-h", "/nowhere"]).ends_with(3).json();
    assert_verdict(&nothing, &[], &[], &["server"]);
}

#[test]
fn a_role_that_may_not_read_every_table_restores_no_buffers() {
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache; CREATE TABLE secret AS SELECT 1");
    server.psql("CREATE ROLE app LOGIN; GRANT pg_monitor TO app");
    let lines = server.pgthaw(&["doctor", "--json", "-U", "app"]).ok().json();
    assert_verdict(&lines, BOTH, OS, &["pg_prewarm"]);
    assert_answer(&lines, "pg_prewarm", false, "it requires SELECT on all tables, which app lacks");
    server.psql("GRANT pg_read_all_data TO app");
    assert_verdict(&server.pgthaw(&["doctor", "--json", "-U", "app"]).ok().json(), BOTH, BOTH, &[]);
}

/// Nobody else's server has this port.
fn without_server(home: &Home, arguments: &[&str]) -> servers::Output {
    servers::output_of(home.command(arguments).env("PGPORT", "5999"))
}

#[test]
fn only_what_was_asked_for_decides_the_status() {
    let home = Home::new();
    home.pgthaw(&["doctor", "-h", "/nowhere"]).ends_with(3);
    home.pgthaw(&["doctor", "-D", "/tmp"]).ends_with(3);
    let refused = home.pgthaw(&["doctor", "--require", "buffers", "--require", "evict", "-p", "5999"]).ends_with(3);
    assert!(refused.stderr.contains("required but not possible: server, buffers\n"), "{}", refused.stderr);
    assert!(refused.stdout.contains("pgthaw doctor -p 5999 --data-dir DIRECTORY"), "{}", refused.stdout);
    home.pgthaw(&["doctor", "--require", "nothing-like-it"]).ends_with(2);
    // Whatever else this machine lacks, and whichever servers it has.
    let text = without_server(&home, &["doctor", "--require", "evict"]).ok().stdout;
    assert!(text.contains("✓ yes  evict") && text.contains("✗ no:  buffers"), "{text}");
}

#[test]
fn every_line_can_be_required() {
    let home = Home::new();
    let lines = without_server(&home, &["doctor", "--json"]).ends_with(3).json();
    for line in lines.as_array().unwrap() {
        let name = line["name"].as_str().unwrap();
        let expected = if line["ok"] == true { 0 } else { 3 };
        without_server(&home, &["doctor", "--require", name]).ends_with(expected);
        assert_eq!(line["remedy"].is_null(), line["ok"] == true, "{line:#}");
    }
}

#[test]
fn another_clusters_directory_is_refused() {
    let server = servers::start_any(&[]);
    let other = servers::start_new(servers::servers()[0].0, &[]);
    let directory = other.data_directory();
    let socket = server.cluster.socket_directory();
    let both = ["-h", socket.to_str().unwrap(), "-D", directory.to_str().unwrap()];
    let output = server.pgthaw(&[&["doctor", "--json"], &both[..]].concat()).ends_with(3);
    assert_answer(&output.json(), "data-dir", false, "belongs to another cluster");
    assert_answer(&output.json(), "os", false, "data-dir above");
}

/// Only root can run it as another user.
#[test]
fn a_stranger_is_told_what_it_may_not() {
    needs_root!();
    let server = servers::start_any(&[]);
    let lines = server.pgthaw_as(65534, &["doctor", "--json"]).ends_with(3).json();
    assert_answer(&lines, "server", true, "PostgreSQL");
    assert_answer(&lines, "data-dir", false, "owner of the data directory");
    assert_answer(&lines, "os", false, "data-dir above");
    assert_answer(&lines, "evict", true, "scratch file");
    assert_answer(&lines, "drop-caches", false, "as root");
    assert_verdict(&lines, &[], &[], &["data-dir", "buffers", "pg_prewarm"]);
    server.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache");
    let lines = server.pgthaw_as(65534, &["doctor", "--json"]).ok().json();
    assert_verdict(&lines, BUFFERS, BUFFERS, &["data-dir"]);
    assert_answer(&lines, "verdict", false, "owner of the data directory");
    server.psql("CREATE ROLE bob LOGIN");
    let lines =
        server.pgthaw(&["doctor", "--json", "-U", "bob", "-D", server.data_directory().to_str().unwrap()]).json();
    assert_answer(&lines, "data-dir", true, "and to the postmaster");
}

/// The command of a check's remedy.
fn remedy<'a>(lines: &'a Value, name: &str) -> &'a str {
    line(lines, name)["remedy"].as_str().unwrap()
}

#[test]
fn what_a_standby_cannot_do_is_asked_of_its_primary() {
    let mut primary = servers::start_any(&[]);
    let standby = servers::start_standby(&mut primary);
    let address = primary.cluster.connect_options("postgres");
    let (host, port) = (address.host.unwrap(), address.port.unwrap());
    let alone = standby.pgthaw(&["doctor", "--json"]).ok().json();
    for name in ["buffers", "pg_prewarm"] {
        assert!(remedy(&alone, name).contains("psql -h PRIMARY "), "{alone:#}");
    }
    primary.cluster.start().unwrap();
    let sends = "SELECT count(sender_host) FROM pg_stat_wal_receiver";
    while standby.psql(sends) != "1" {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let beside = standby.pgthaw(&["doctor", "--json"]).ok().json();
    for name in ["buffers", "pg_prewarm"] {
        let command = format!("psql -h {host} -p {port} ");
        assert!(remedy(&beside, name).contains(&command), "{command}: {beside:#}");
    }
}
