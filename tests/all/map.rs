//! `pgthaw map` against real servers: its numbers against what is known to be true.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use host::linux::page_cache::{PageCache as _, SystemPageCache};
use postgres::StopMode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::servers::{self, TestServer};

const BLOCK: u64 = 8192;
const NOBODY: u32 = 65_534;

/// About 1500 blocks of table `t`, with an index; nothing else writes.
const TABLE: &str = "
    CREATE EXTENSION pg_buffercache;
    CREATE EXTENSION pg_prewarm;
    CREATE TABLE t AS SELECT i AS id, repeat('x', 500) AS filler FROM generate_series(1, 21000) AS i;
    CREATE INDEX t_id ON t (id);
    VACUUM t;
    CHECKPOINT;
";

/// The only relation called `name`.
pub fn relation<'a>(map: &'a Value, name: &str) -> &'a Value {
    let mut found = map["relations"].as_array().unwrap().iter().filter(|relation| relation["name"] == name);
    let first = found.next().unwrap_or_else(|| panic!("no {name} in {map:#}"));
    assert!(found.next().is_none(), "several {name}");
    first
}

/// The main fork of a relation.
pub fn main_fork(relation: &Value) -> &Value {
    relation["forks"].as_array().unwrap().iter().find(|fork| fork["fork"] == "main").unwrap()
}

fn names(map: &Value) -> Vec<&str> {
    map["relations"].as_array().unwrap().iter().map(|relation| relation["name"].as_str().unwrap()).collect()
}

/// The file of a relation's main fork.
fn file_of(server: &TestServer, relation: &str) -> PathBuf {
    server.data_directory().join(server.psql(&format!("SELECT pg_relation_filepath('{relation}')")))
}

/// Makes a file cold, and then blocks `[start, end)` of it warm.
fn warm_only(file: &Path, start: u64, end: u64) {
    let file = SystemPageCache::new().open(file).unwrap().unwrap();
    file.apply_evict().unwrap();
    let mut blocks = vec![0; ((end - start) * BLOCK) as usize];
    assert_eq!(file.apply_read(start * BLOCK, &mut blocks).unwrap(), blocks.len());
}

/// Some pages may have been taken back by the kernel meanwhile, or never have left.
#[track_caller]
fn assert_close(found: &Value, expected: u64) {
    let found = found.as_u64().unwrap();
    assert!(found.abs_diff(expected) <= expected / 20 + 8, "{found}, expected about {expected}");
}

test_every_version! {
    fn its_numbers_are_true(version) {
        let mut server = servers::start(version, &[]);
        server.psql(TABLE);
        server.restart();
        warm_only(&file_of(&server, "t"), 400, 800);
        let map = server.pgthaw(&["map", "--json", "-r", "public.t"]).ok().json();
        assert_eq!((&map["os"]["state"], &map["buffers"]["state"]), (&"measured".into(), &"measured".into()));
        let fork = main_fork(relation(&map, "t"));
        let blocks: u64 = server.psql("SELECT pg_relation_size('t') / 8192").parse().unwrap();
        assert_eq!(fork["blocks"], blocks);
        assert_close(&fork["os_blocks"], 400);
        assert_eq!((&fork["buffers_blocks"], &fork["dirty_blocks"]), (&0.into(), &0.into()));
        let bar: Vec<f64> = fork["os_bar"].as_array().unwrap().iter().map(|cell| cell.as_f64().unwrap()).collect();
        let cell = |block: u64| bar[(block * bar.len() as u64 / blocks) as usize];
        assert!(cell(100) < 0.1 && cell(600) > 0.9 && cell(1200) < 0.1, "{bar:?}");

        // Blocks 1000 to 1099 into shared_buffers; one of them dirty.
        server.psql("SELECT pg_prewarm('t', 'buffer', 'main', 1000, 1099)");
        server.psql("DELETE FROM t WHERE ctid = '(1050,1)'");
        let map = server.pgthaw(&["map", "--json", "-r", "t"]).ok().json();
        let fork = main_fork(relation(&map, "t"));
        assert_eq!(fork["buffers_blocks"], 100);
        assert_eq!(fork["dirty_blocks"], 1);
        let counts: Vec<u64> = fork["usage_counts"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!((counts[0], counts.iter().sum::<u64>()), (0, 100));
        assert_close(&fork["both_blocks"], 100);
        assert_eq!(fork["buffers_bar"][26], 0.0);
    }
}

test_every_version! {
    fn every_kind_of_relation_is_there(version) {
        let server = servers::start(version, &[]);
        let space = server.home().join("space");
        std::fs::create_dir(&space).unwrap();
        std::os::unix::fs::chown(&space, Some(owner_of(&server)), None).unwrap();
        server.psql(&format!("CREATE TABLESPACE space LOCATION '{}'", space.display()));
        server.psql("
            CREATE TABLE t (id serial PRIMARY KEY, body text);
            ALTER TABLE t ALTER body SET STORAGE EXTERNAL;
            INSERT INTO t (body) SELECT repeat('x', 3000) FROM generate_series(1, 300);
            CREATE MATERIALIZED VIEW m AS SELECT id FROM t;
            CREATE TABLE p (i int) PARTITION BY RANGE (i);
            CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
            INSERT INTO p VALUES (1);
            CREATE TABLE elsewhere TABLESPACE space AS SELECT 1 AS i;
            CREATE UNLOGGED TABLE u AS SELECT 1 AS i;
            VACUUM t;
            CREATE DATABASE other;
        ");
        server.psql_in("other", "CREATE TABLE in_other AS SELECT 1 AS i; CHECKPOINT");
        let map = server.pgthaw(&["map", "--json"]).ok().json();
        let kind = |name: &str| relation(&map, name)["kind"].as_str().unwrap();
        assert_eq!([kind("t"), kind("t_pkey"), kind("t_id_seq")], ["table", "index", "sequence"]);
        assert_eq!([kind("m"), kind("p1"), kind("u")], ["materialized_view", "table", "table"]);
        let elsewhere = relation(&map, "elsewhere");
        assert_eq!(elsewhere["tablespace"], "space");
        assert!(elsewhere["path"].as_str().unwrap().starts_with("pg_tblspc/"));
        assert_eq!(elsewhere["os_blocks"], 1);
        assert_eq!(relation(&map, "in_other")["database"], "other");
        assert_eq!((&relation(&map, "pg_database")["database"], &relation(&map, "pg_database")["is_system"]),
            (&"".into(), &true.into()));
        let forks: Vec<&str> =
            relation(&map, "t")["forks"].as_array().unwrap().iter().map(|fork| fork["fork"].as_str().unwrap()).collect();
        assert_eq!(forks, ["main", "fsm", "vm"]);

        let family = server.pgthaw(&["map", "--json", "--relation", "t"]).ok().json();
        let toast = format!("pg_toast_{}", server.psql("SELECT 't'::regclass::oid"));
        let mut found = names(&family);
        found.sort_unstable();
        let mut expected = [toast.as_str(), &format!("{toast}_index"), "t", "t_pkey"];
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert!(relation(&family, &toast)["blocks"].as_u64().unwrap() >= 100);
        let one_database = server.pgthaw(&["map", "--json", "-d", "other"]).ok().json();
        assert!(names(&one_database).contains(&"in_other") && !names(&one_database).contains(&"t"));
    }
}

fn owner_of(server: &TestServer) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(server.data_directory()).unwrap())
}

#[test]
fn sql_alone_shows_shared_buffers() {
    needs_root!();
    let server = servers::start_any(&[]);
    server.psql(TABLE);
    server.psql("SELECT pg_prewarm('t')");
    let map = server.pgthaw_as(NOBODY, &["map", "--json", "-n", "public"]).ok().json();
    assert_eq!((&map["os"]["state"], &map["buffers"]["state"]), (&"unknown".into(), &"measured".into()));
    let t = relation(&map, "t");
    assert_eq!(
        t["blocks"].to_string(),
        server.psql(
            "
        SELECT (pg_relation_size('t') + pg_relation_size('t', 'fsm') + pg_relation_size('t', 'vm')) / 8192"
        )
    );
    assert!(t["buffers_blocks"].as_u64().unwrap() >= 1400 && t["os_blocks"].is_null(), "{t:#}");
    let text = server.pgthaw_as(NOBODY, &["map"]).ok().stdout;
    assert!(text.contains("OS page cache: unknown") && text.contains("uses only SQL"), "{text}");
}

#[test]
fn files_alone_show_the_page_cache() {
    let mut server = servers::start_any(&[]);
    server.psql(TABLE);
    let path = server.psql("SELECT pg_relation_filepath('t')");
    let data_directory = server.data_directory();
    let arguments = ["map", "--json", "-D", data_directory.to_str().unwrap()];
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    warm_only(&data_directory.join(&path), 100, 300);
    let unnamed = server.pgthaw(&arguments).ok().json();
    assert_eq!((&unnamed["os"]["state"], &unnamed["buffers"]["state"]), (&"measured".into(), &"unknown".into()));
    let t = relation(&unnamed, &path);
    assert_eq!((&t["kind"], &t["is_system"], &t["buffers_blocks"]), (&"unknown".into(), &false.into(), &Value::Null));
    assert_close(&main_fork(t)["os_blocks"], 200);

    // A snapshot knows the names.
    server.cluster.start().unwrap();
    server.pgthaw(&["snapshot", "take"]).ok();
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let named = server.pgthaw(&arguments).ok().json();
    assert_eq!(relation(&named, "t")["schema"], "public");
    assert!(named["remarks"].to_string().contains("names are from the snapshot"), "{}", named["remarks"]);
}

#[test]
fn without_pg_buffercache_it_says_what_would_help() {
    let server = servers::start_any(&[]);
    let text = server.pgthaw(&["map", "--top", "0"]).ok().stdout;
    assert!(text.contains("shared_buffers: unknown") && text.contains("CREATE EXTENSION pg_buffercache"), "{text}");
    assert!(text.contains("pg_catalog.pg_class"), "{text}");
}

#[test]
fn an_unknown_relation_gets_near_names() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE orders AS SELECT 1 AS i");
    let error = server.pgthaw(&["map", "--relation", "order"]).ends_with(2).stderr;
    assert!(error.contains("relation \"order\" does not exist") && error.contains("public.orders"), "{error}");
    let error = server.pgthaw(&["map", "--schema", "publik", "--json"]).ends_with(2).stderr;
    assert!(error.contains("public"), "{error}");
}

#[test]
fn a_hostile_name_cannot_touch_the_terminal() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE \"\u{1b}[2J\u{202e}evil\u{7}\" AS SELECT 1 AS i");
    let text = server.pgthaw(&["map"]).ok().stdout;
    assert!(text.contains("\\u{1b}[2J\\u{202e}evil\\u{7}"), "{text}");
    assert!(!text.contains('\u{1b}'));
    let map = server.pgthaw(&["map", "--json"]).ok().json();
    relation(&map, "\u{1b}[2J\u{202e}evil\u{7}");
    server.pgthaw(&["snapshot", "take"]).ok();
    let text = server.pgthaw(&["snapshot", "show"]).ok().stdout;
    assert!(text.contains("\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn direct_reads_are_remarked_on() {
    let (newest, _) = servers::servers().pop().unwrap();
    let server = servers::start(newest, &[("debug_io_direct", "data")]);
    let map = server.pgthaw(&["map", "--json"]).ok().json();
    assert!(map["remarks"].to_string().contains("bypass the OS page cache"), "{}", map["remarks"]);
}

#[test]
fn a_database_that_lets_nobody_in_keeps_its_files() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE closed");
    server.psql_in("closed", "CREATE TABLE hidden AS SELECT 1 AS i; CHECKPOINT");
    server.psql("ALTER DATABASE closed ALLOW_CONNECTIONS false");
    let map = server.pgthaw(&["map", "--json"]).ok().json();
    let closed: Vec<&Value> =
        map["relations"].as_array().unwrap().iter().filter(|one| one["database"] == "closed").collect();
    assert!(closed.iter().any(|one| one["is_system"] == false && one["name"].as_str().unwrap().starts_with("base/")));
    assert!(closed.len() > 100);
}

/// Links to a directory of root, to a file, to themselves and to nothing, as an upgrade or a move leaves them, in `pg_tblspc`.
pub fn leave_links(server: &TestServer, of_root: &Path) -> [String; 4] {
    let (data, links) = (server.data_directory(), server.data_directory().join("pg_tblspc"));
    let names = ["99991", "99992", "99993", "99994"];
    let leads_to = [of_root, &data.join("PG_VERSION"), &links.join(names[2]), Path::new("/nowhere")];
    for (name, to) in names.into_iter().zip(leads_to) {
        symlink(to, links.join(name)).unwrap();
    }
    names.map(|name| format!("pg_tblspc/{name}: "))
}

#[test]
fn a_tablespace_that_cannot_be_read_costs_what_is_in_it() {
    needs_root!();
    let mut server = servers::start_any(&[]);
    server.psql(TABLE);
    let place = tempfile::Builder::new().prefix("pgthaw-tablespace-").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    chown(place.path(), Some(owner_of(&server)), None).unwrap();
    server.psql(&format!("CREATE TABLESPACE far LOCATION '{}'", place.path().display()));
    server.psql("CREATE TABLE away TABLESPACE far AS SELECT 1 AS i; CHECKPOINT");
    let of_root = tempfile::tempdir().unwrap();
    let left = leave_links(&server, of_root.path());
    // The server itself reads it all the same.
    chown(place.path(), Some(0), None).unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let look = |output: &servers::Output| {
        let map = output.json();
        let remarks = map["remarks"].to_string();
        for link in &left {
            assert!(remarks.contains(link), "{link}: {remarks}");
        }
        assert!(remarks.contains("it belongs to user 0") && !remarks.contains("run pgthaw as"), "{remarks}");
        map
    };
    let map = look(&server.pgthaw(&["map", "--json"]).ok());
    assert!(relation(&map, "t")["os_blocks"].as_u64().unwrap() > 0, "{map:#}");
    assert!(map["remarks"].to_string().contains("1 file could not be inspected"), "{}", map["remarks"]);
    let taken = server.pgthaw(&["snapshot", "take"]).ok();
    assert!(left.iter().all(|link| taken.stderr.contains(link)), "{}", taken.stderr);
    let directory = server.data_directory();
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    look(&server.home.pgthaw(&["map", "--json", "-D", directory.to_str().unwrap()]).ok());
    // It cannot start with links that it does not know what to make of.
    for name in ["99991", "99992", "99993", "99994"] {
        fs::remove_file(directory.join("pg_tblspc").join(name)).unwrap();
    }
    chown(place.path(), Some(owner_of(&server)), None).unwrap();
}

#[test]
fn ascii_is_ascii() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT 1 AS i");
    let mut command = server.command(&["map"]);
    let output = servers::output_of(command.env("LC_ALL", "C"));
    assert!(output.ok().stdout.is_ascii());
}

#[test]
fn watch_goes_on_until_it_is_stopped() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT 1 AS i");
    let mut watch = server.command(&["map", "--watch", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = watch.stdout.take().unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 4096]);
    while seen.matches("public.t").count() < 2 {
        let read = stdout.read(&mut piece).unwrap();
        assert!(read > 0, "it ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    std::thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    assert!(watch.wait().unwrap().success());
}

/// The data directory as an overlay over itself, until this is dropped.
struct Overlay(PathBuf);

impl Overlay {
    fn over(data: &Path, beside: &Path) -> Option<Overlay> {
        let owner = fs::metadata(data).unwrap();
        let [upper, work] = ["upper", "work"].map(|name| beside.join(name));
        for directory in [&upper, &work] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, owner.permissions()).unwrap();
            chown(directory, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let [lower, upper, work] = [data, &upper, &work].map(|path| path.display());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mounted = Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]).arg(data).status();
        mounted.unwrap().success().then(|| Overlay(data.to_owned()))
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// As in a container without a volume: cachestat(2) returns 0 there for cached pages.
#[test]
fn on_overlayfs_it_sees_the_page_cache() {
    needs_root!();
    let mut server = servers::start_any(&[]);
    server.cluster.stop(StopMode::Fast).unwrap();
    let beside = tempfile::tempdir_in("/var/tmp").unwrap();
    let Some(overlay) = Overlay::over(&server.data_directory(), beside.path()) else {
        untested!(machine: "overlayfs cannot be mounted");
    };
    server.cluster.start().unwrap();
    server.psql(TABLE);
    warm_only(&file_of(&server, "t"), 400, 800);
    let map = server.pgthaw(&["map", "--json", "-r", "public.t"]).ok().json();
    assert_close(&main_fork(relation(&map, "t"))["os_blocks"], 400);
    let taken = server.pgthaw(&["snapshot", "take", "--json"]).ok().json();
    assert!(taken["header"]["os_blocks"].as_u64().unwrap() >= 380, "{taken:#}");
    let checks = server.pgthaw(&["doctor", "--json"]).ok().json();
    let os = checks.as_array().unwrap().iter().find(|check| check["name"] == "os").unwrap();
    assert!(os["ok"] == true && os["detail"].as_str().unwrap().starts_with("mincore works"), "{os:#}");
    server.cluster.stop(StopMode::Fast).unwrap();
    drop(overlay);
}
