//! `pgthaw snapshot` against real servers, and against all that can go wrong with its files.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use postgres::StopMode;
use serde_json::Value;

use crate::map::{main_fork, relation};
use crate::servers::{self, Home, TestServer};

const NOBODY: u32 = 65_534;

fn list(server: &TestServer) -> Vec<Value> {
    server.pgthaw(&["snapshot", "list", "--json"]).ok().json()["snapshots"].as_array().unwrap().clone()
}

/// Takes a snapshot and returns its file.
fn take(server: &TestServer, arguments: &[&str]) -> PathBuf {
    let taken = server.pgthaw(&[&["snapshot", "take", "--json"], arguments].concat()).ok().json();
    PathBuf::from(taken["path"].as_str().unwrap())
}

/// The names of everything in a snapshot's directory.
fn files_beside(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn change<'a>(difference: &'a Value, name: &str) -> &'a str {
    relation(difference, name)["change"].as_str().unwrap()
}

/// The command, run by a shell that does something first.
fn through_shell(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

test_every_version! {
    fn what_is_taken_is_shown_and_compared(version) {
        let server = servers::start(version, &[]);
        server.psql("
            CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm;
            CREATE TABLE same AS SELECT i, repeat('x', 500) FROM generate_series(1, 5000) AS i;
            CREATE TABLE rewritten AS SELECT i, repeat('x', 500) FROM generate_series(1, 500) AS i;
            CREATE TABLE grown AS SELECT i FROM generate_series(1, 1000) AS i;
            CREATE TABLE truncated AS SELECT i FROM generate_series(1, 5000) AS i;
            CREATE TABLE gone AS SELECT i FROM generate_series(1, 1000) AS i;
            VACUUM same; CHECKPOINT;
        ");
        server.psql("SELECT pg_prewarm('same', 'buffer', 'main', 0, 99)");
        let path = take(&server, &["--label", "before"]);
        assert_eq!(list(&server).len(), 1);
        assert_eq!(list(&server)[0]["header"]["label"], "before");
        let map = server.pgthaw(&["map", "--json", "-r", "same"]).ok().json();
        let shown = server.pgthaw(&["snapshot", "show", "--json", "-r", "same"]).ok().json();
        let field = |map: &Value, name: &str| main_fork(relation(map, "same"))[name].clone();
        for name in ["blocks", "os_blocks", "buffers_blocks", "usage_counts", "buffers_bar"] {
            assert_eq!(field(&map, name), field(&shown, name), "{name}");
        }

        server.psql("
            VACUUM FULL rewritten;
            INSERT INTO grown SELECT generate_series(1, 5000);
            DELETE FROM truncated WHERE i > 100; VACUUM truncated;
            DROP TABLE gone;
            CREATE TABLE fresh AS SELECT 1 AS i;
            CHECKPOINT;
            SELECT pg_prewarm('same', 'buffer', 'main', 100, 149);
        ");
        let difference = server.pgthaw(&["snapshot", "diff", "newest", "--json"]).ok().json();
        let changes = ["rewritten", "grown", "truncated", "gone", "same"].map(|name| change(&difference, name));
        assert_eq!(changes, ["rewritten", "grown", "truncated", "gone", "same"]);
        assert_eq!(change(&difference, "fresh"), "new");
        let buffers = &main_fork(relation(&difference, "same"))["buffers"];
        assert_eq!(buffers["gained_blocks"].as_u64().unwrap() + buffers["kept_blocks"].as_u64().unwrap() , field(&server.pgthaw(&["map", "--json", "-r", "same"]).ok().json(), "buffers_blocks"));
        take(&server, &[]);
        let between = server.pgthaw(&["snapshot", "diff", "newest~1", "newest", "--json"]).ok().json();
        assert_eq!(change(&between, "rewritten"), "rewritten");
        let text = server.pgthaw(&["snapshot", "diff", path.to_str().unwrap()]).ok().stdout;
        assert!(text.contains("public.gone") && text.contains("relations unchanged"), "{text}");
        let arguments = ["snapshot", "diff", path.to_str().unwrap(), "-r", "gone", "-r", "fresh", "--top", "1"];
        let two = server.pgthaw(&arguments).ok().stdout;
        assert!(two.contains("public.gone") && !two.contains("public.grown"), "{two}");
        assert!(two.contains("and 1 relation with smaller changes"), "{two}");
        server.pgthaw(&["snapshot", "list", "--verify", "--all"]).ok();
    }
}

/// A snapshot does not keep PostgreSQL's own empty TOAST tables, whose indexes have a block each.
#[test]
fn nothing_is_new_or_gone_where_nothing_changed() {
    let server = servers::start_any(&[("autovacuum", "off")]);
    take(&server, &[]);
    take(&server, &[]);
    for since in [&["newest"][..], &["newest~1", "newest"]] {
        let arguments = [&["snapshot", "diff", "--json", "--top", "0"], since].concat();
        let difference = server.pgthaw(&arguments).ok().json();
        let relations = difference["relations"].as_array().unwrap();
        let other: Vec<&Value> =
            relations.iter().filter(|one| one["change"] == "new" || one["change"] == "gone").collect();
        assert!(relations.len() > 100 && other.is_empty(), "{since:?}: {other:#?}");
    }
}

#[test]
fn generations_are_kept_by_label() {
    let server = servers::start_any(&[]);
    for _ in 0..4 {
        take(&server, &["--keep", "2"]);
    }
    take(&server, &["--label", "nightly", "--keep", "2"]);
    let labels: Vec<Value> = list(&server).iter().map(|one| one["header"]["label"].clone()).collect();
    assert_eq!(labels, [Value::from("nightly"), Value::Null, Value::Null]);
    let name = list(&server)[0]["name"].as_str().unwrap().to_owned();
    server.pgthaw(&["snapshot", "drop", &name]).ok();
    assert_eq!(list(&server).len(), 2);
    let error = server.pgthaw(&["snapshot", "drop", &name]).ends_with(2).stderr;
    assert!(error.contains("no snapshot is called"), "{error}");
    let error = server.pgthaw(&["snapshot", "take", "--label", "../x"]).ends_with(2).stderr;
    assert!(error.contains("is not a valid label"), "{error}");
}

#[test]
fn a_file_of_ones_own_is_written_once() {
    let server = servers::start_any(&[]);
    let path = server.home().join("mine.parquet");
    let file = path.to_str().unwrap();
    server.pgthaw(&["snapshot", "take", "-o", file]).ok();
    server.pgthaw(&["snapshot", "list", "--verify", file]).ok();
    let error = server.pgthaw(&["snapshot", "take", "-o", file]).ends_with(2).stderr;
    assert!(error.contains("already exists"), "{error}");
    assert_eq!(list(&server).len(), 0);
}

#[test]
fn without_any_sight_nothing_is_taken() {
    needs_root!();
    let server = servers::start_any(&[]);
    let error = server.pgthaw_as(NOBODY, &["snapshot", "take"]).ends_with(3).stderr;
    assert!(error.contains("neither cache is visible") && error.contains("pgthaw doctor"), "{error}");
    assert_eq!(list(&server).len(), 0);
}

#[test]
fn a_full_disk_does_no_harm() {
    let server = servers::start_any(&[]);
    let good = take(&server, &[]);
    let size = fs::metadata(&good).unwrap().len();
    // The kernel's answer to one byte too many is EFBIG instead of ENOSPC; to what writes, it is the same. A signal comes with it, which
    // whoever started this may have had ignored.
    for ignored in ["", "trap '' XFSZ; "] {
        let limit = format!("{ignored}ulimit -f {}; exec \"$0\" \"$@\"", size / 2 / 512);
        let error =
            servers::output_of(&mut through_shell(&limit, &server.command(&["snapshot", "take"]))).ends_with(1).stderr;
        assert!(error.contains("cannot write") && error.contains("free some space"), "{error}");
    }
    assert_eq!(files_beside(&good).len(), 1, "{:?}", files_beside(&good));
    server.pgthaw(&["snapshot", "list", "--verify", "--all"]).ok();
}

#[test]
fn a_full_file_system_does_no_harm() {
    needs_root!();
    let server = servers::start_any(&[]);
    let small = server.home().join("small");
    fs::create_dir(&small).unwrap();
    // The second has room for bytes, and none for a file.
    for (options, told) in [("size=8k", "small is full ("), ("nr_inodes=1", "small has no inode left for a new file (")]
    {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(&small).status().unwrap();
        if !mounted.success() {
            untested!("nothing can be mounted");
        }
        let output = server.pgthaw(&["snapshot", "take", "--dir", small.to_str().unwrap()]);
        let left: Vec<PathBuf> = fs::read_dir(&small)
            .unwrap()
            .flatten()
            .flat_map(|one| fs::read_dir(one.path()))
            .flatten()
            .flatten()
            .map(|one| one.path())
            .collect();
        assert!(Command::new("umount").arg(&small).status().unwrap().success());
        let error = output.ends_with(1).stderr;
        assert!(error.contains("No space left on device") && error.contains(told), "{error}");
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

#[test]
fn killing_a_take_harms_no_good_one() {
    let server = servers::start_any(&[]);
    server.psql(
        "DO $$ BEGIN FOR i IN 1..200 LOOP EXECUTE format('CREATE TABLE t%s AS SELECT 1 AS i', i); END LOOP; END $$",
    );
    let good = take(&server, &[]);
    for milliseconds in (0..400).step_by(20) {
        let mut killed = server.command(&["snapshot", "take", "--keep", "100"]).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    server.pgthaw(&["snapshot", "list", "--verify", "--all"]).ok();
    assert!(list(&server).iter().any(|one| one["path"].as_str() == good.to_str()));

    // What a killed one left is swept by a later one.
    let stale = good.with_file_name(".pgthaw-taking-killed");
    File::create(&stale).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    take(&server, &[]);
    assert!(!stale.exists());
}

#[test]
fn damage_is_found_and_named() {
    let server = servers::start_any(&[]);
    let (older, newest) = (take(&server, &[]), take(&server, &[]));
    let mut bytes = fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&newest, &bytes).unwrap();
    let error = server.pgthaw(&["snapshot", "show"]).ends_with(1).stderr;
    assert!(error.contains("damaged") && error.contains("use an older snapshot"), "{error}");
    let verdicts = server.pgthaw(&["snapshot", "list", "--verify", "--all", "--json"]).ends_with(1).json();
    let whole = |path: &Path| {
        let verdicts = verdicts["snapshots"].as_array().unwrap();
        verdicts.iter().find(|one| one["path"].as_str() == path.to_str()).unwrap()["is_whole"].as_bool().unwrap()
    };
    assert_eq!((whole(&older), whole(&newest)), (true, false));

    let text = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    assert!(text.contains("cannot be read") && text.contains("checksum"), "{text}");

    fs::write(&newest, &bytes[..middle]).unwrap();
    let text = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    assert!(text.contains("truncated"), "{text}");
    server.pgthaw(&["snapshot", "show", "newest~1"]).ok();
}

#[test]
fn a_damaged_newest_one_gives_way_to_the_one_before() {
    let server = servers::start_any(&[]);
    let (older, newest) = (take(&server, &[]), take(&server, &[]));
    for content in [&fs::read(&newest).unwrap()[..100], b""] {
        fs::write(&newest, content).unwrap();
        let receipt = server.pgthaw(&["restore", "--tier", "os", "--json"]).ok().json();
        let remarks = receipt["remarks"].to_string();
        assert!(remarks.contains(newest.to_str().unwrap()), "{remarks}");
        assert!(remarks.contains("truncated") || remarks.contains("is empty"), "{remarks}");
        let damaged = newest.to_str().unwrap();
        let status = server.pgthaw(&["snapshot", "list", "--verify", damaged]).status;
        for named in [damaged, "newest~0"] {
            server.pgthaw(&["restore", "--tier", "os", named]).ends_with(status);
        }
    }
    fs::remove_file(&older).unwrap();
    server.pgthaw(&["restore", "--tier", "os"]).ends_with(2);
}

#[test]
fn a_snapshot_that_is_named_is_found_without_a_server() {
    let mut server = servers::start_any(&[]);
    let (first, second) = (take(&server, &["--label", "first"]), take(&server, &["--label", "second"]));
    // As if it were of another cluster: only a server can say now which one is meant by "newest".
    let other = first.parent().unwrap().with_file_name("42");
    fs::create_dir(&other).unwrap();
    fs::rename(&second, other.join(second.file_name().unwrap())).unwrap();
    server.cluster.stop(StopMode::Fast).unwrap();
    let error = server.pgthaw(&["snapshot", "list", "--verify", "newest"]).ends_with(1).stderr;
    assert!(error.contains("cannot connect"), "{error}");
    for path in [&first, &second] {
        let name = path.file_stem().unwrap().to_str().unwrap();
        for name in [name, &name[..name.len() - 1]] {
            server.pgthaw(&["snapshot", "list", "--verify", name]).ok();
            server.pgthaw(&["snapshot", "show", name]).ok();
            server.pgthaw(&["snapshot", "diff", name, name]).ok();
        }
        let error = server.pgthaw(&["snapshot", "drop", &name[..name.len() - 1]]).ends_with(1).stderr;
        assert!(error.contains("cannot connect"), "what is removed is said in full: {error}");
        server.pgthaw(&["snapshot", "drop", name]).ok();
    }
}

#[test]
fn what_cannot_be_verified_is_not_called_damaged() {
    let server = servers::start_any(&[]);
    take(&server, &[]);
    let error = server.pgthaw(&["snapshot", "list", "--verify", "nofile"]).ends_with(2).stderr;
    assert!(error.contains("no snapshot is called") && error.contains("end in .parquet"), "{error}");
    let text = server.pgthaw(&["snapshot", "list", "--verify", "./nofile.parquet"]).ends_with(1).stdout;
    assert!(text.starts_with("UNREAD") && !text.contains("DAMAGED"), "{text}");
    let error = server.pgthaw(&["restore", "./nofile.parquet"]).ends_with(1).stderr;
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
    assert!(error.contains("hint: `pgthaw snapshot list"), "{error}");
    let directory = server.home().join("state/pgthaw/snapshots");
    let directory = directory.to_str().unwrap();
    let error = server.pgthaw(&["restore", directory]).ends_with(1).stderr;
    assert!(error.contains("it is a directory") && error.contains(&format!("--dir {directory}` restores")), "{error}");
    server.pgthaw(&["restore", "--dry-run", "--dir", directory]).ok();
}

#[test]
fn a_cold_snapshot_points_to_the_warm_one() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('x', 500) FROM generate_series(1, 100000) AS i; CHECKPOINT");
    let warm = take(&server, &[]);
    server.restart();
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    let taken = server.pgthaw(&["snapshot", "take"]).ok();
    let name = warm.file_stem().unwrap().to_str().unwrap();
    assert!(taken.stderr.contains(&format!("does not use this new snapshot, but snapshot {name}, taken")), "{taken:?}");
    assert!(taken.stdout.contains("without shared_buffers (not visible)"), "{taken:?}");
    let taken = server.pgthaw(&["snapshot", "take", "--json"]).ok().json();
    assert_eq!(taken["warmer"]["name"], name, "not only the first time: {taken:#}");
    server.pgthaw(&["restore", "--tier", "os", name]).ok();
    let taken = server.pgthaw(&["snapshot", "take"]).ok();
    assert!(!taken.stderr.contains("warmer") && !taken.stderr.contains("pgthaw restore"), "{taken:?}");
}

#[test]
fn quiet_leaves_standard_error_to_failures() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('x', 500) FROM generate_series(1, 100000) AS i; CHECKPOINT");
    take(&server, &[]);
    server.restart();
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    let told = server.pgthaw(&["snapshot", "take"]).ok().stderr;
    assert!(told.contains("does not use this new snapshot, but") && told.contains("shared_buffers"), "{told}");
    let commands: [&[&str]; 9] = [
        &["snapshot", "take"],
        &["snapshot", "show", "newest"],
        &["snapshot", "diff", "best"],
        &["restore"],
        &["evict", "-r", "t", "--tier", "os"],
        &["hydrate"],
        &["film", "record", "--seconds", "1"],
        &["run", "--record-only", "--like", "job", "--", "true"],
        &["run", "--", "true"],
    ];
    for arguments in commands {
        let quiet = server.pgthaw(&[&["-q"], arguments].concat()).ok();
        assert_eq!(quiet.stderr, "", "{arguments:?}");
    }
    let receipt = server.pgthaw(&["run", "-q", "--json", "--", "true"]).ok().stderr;
    assert!(receipt.contains("wall_seconds"), "it was asked for: {receipt}");
    let error = server.pgthaw(&["-q", "snapshot", "show", "nosuch"]).ends_with(2).stderr;
    assert!(error.contains("hint: "), "{error}");
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let home = Home::new();
    let path = home.path().join("x.parquet");
    for (content, words) in [("", "is empty"), ("PAR1", "too short"), ("id,name\n1,2\n3,4\n", "not a Parquet file")] {
        fs::write(&path, content).unwrap();
        let error = home.pgthaw(&["snapshot", "show", path.to_str().unwrap()]).ends_with(2).stderr;
        assert!(error.contains(words), "{error}");
    }
    let error = home.pgthaw(&["snapshot", "show", "no/such.parquet"]).ends_with(1).stderr;
    assert!(error.contains("cannot open no/such.parquet"), "{error}");
    let error = home.pgthaw(&["snapshot", "show"]).ends_with(2).stderr;
    assert!(error.contains("there is no snapshot") && error.contains("snapshot take"), "{error}");
}

#[test]
fn two_clusters_are_told_apart() {
    let version = servers::servers().last().unwrap().0;
    let (one, other) = (servers::start(version, &[]), servers::start_new(version, &[]));
    let store = one.home().join("shared");
    let arguments =
        |action: &'static str| ["snapshot", action, "--dir", store.to_str().unwrap()].map(str::to_owned).to_vec();
    let run = |server: &TestServer, arguments: Vec<String>| {
        server.pgthaw(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    run(&one, arguments("take")).ok();
    run(&other, arguments("take")).ok();
    let text = run(&one, arguments("list")).ok().stdout;
    let identifier = |server: &TestServer| server.psql("SELECT system_identifier FROM pg_control_system()");
    assert!(text.contains(&identifier(&one)) && text.contains(&identifier(&other)), "{text}");
    let shown = run(&other, arguments("show")).ok().stdout;
    assert!(shown.contains(&identifier(&other)), "{shown}");
}
