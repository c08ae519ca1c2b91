//! Which snapshot `pgthaw restore` takes by itself, on real servers that are restarted while takes go on.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use cache::{ForkMap, Snapshot, SnapshotStore};
use jiff::{SignedDuration, Timestamp};
use postgres::StopMode;
use serde_json::Value;

use crate::films::pgthaw_with_owners_home;
use crate::servers::{self, TestServer};

const NOBODY: u32 = 65_534;

/// Of what was asked for, the share that has to be there: the kernel may take a page back at any time.
const RESIDENT_MIN: f64 = 0.95;

/// Some 60 MB in both tiers.
const TABLES: &str = "
    CREATE EXTENSION pg_prewarm;
    CREATE EXTENSION pg_buffercache;
    CREATE TABLE hot (id int PRIMARY KEY, body text);
    CREATE TABLE cold (id int PRIMARY KEY, body text);
    INSERT INTO hot SELECT i, repeat('h', 300) FROM generate_series(1, 80000) AS i;
    INSERT INTO cold SELECT i, repeat('c', 300) FROM generate_series(1, 80000) AS i;
    VACUUM ANALYZE hot;
    VACUUM ANALYZE cold;
    CHECKPOINT;
    SELECT pg_prewarm('hot', 'buffer', 'main', 0, 999) FROM generate_series(1, 4);
";

fn warm_server() -> TestServer {
    let server = servers::start_any(&[("shared_buffers", "128MB")]);
    server.psql(TABLES);
    server
}

/// Takes a snapshot as a cron job does, and returns its name.
fn take(server: &TestServer) -> String {
    let taken = server.pgthaw(&["snapshot", "take", "--keep", "7", "--json"]).ok().json();
    std::path::Path::new(taken["path"].as_str().unwrap()).file_stem().unwrap().to_str().unwrap().to_owned()
}

fn evict(server: &TestServer) {
    let receipt = server.pgthaw(&["evict", "--all", "--tier", "os", "--json"]).ok().json();
    let (before, after) = (&receipt["os"]["resident_before_bytes"], &receipt["os"]["resident_after_bytes"]);
    assert!(after.as_u64().unwrap() * 10 < before.as_u64().unwrap(), "{receipt:#}");
}

fn restart_cold(server: &mut TestServer) {
    server.restart();
    evict(server);
}

fn restore(server: &TestServer, arguments: &[&str]) -> Value {
    server.pgthaw(&[&["restore", "--json"], arguments].concat()).ok().json()
}

fn resident_share(tier: &Value) -> f64 {
    tier["resident_after_bytes"].as_f64().unwrap() / tier["asked_bytes"].as_f64().unwrap()
}

/// The names in the list, and of them the one that is marked.
fn listed(server: &TestServer, arguments: &[&str]) -> (Vec<String>, Value) {
    let list = server.pgthaw(&[&["snapshot", "list", "--json"], arguments].concat()).ok().json();
    let lines = list["snapshots"].as_array().unwrap();
    let names = lines.iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect();
    let marked: Vec<&Value> = lines.iter().filter(|line| !line["restore"].is_null()).collect();
    assert_eq!(marked.len(), 1, "{list:#}");
    assert_eq!(marked[0]["name"], marked[0]["restore"]["name"]);
    (names, marked[0]["restore"].clone())
}

fn store_of(server: &TestServer) -> SnapshotStore {
    SnapshotStore::open(Some(server.home().join("state/pgthaw/snapshots")))
}

test_every_version! {
    fn a_job_that_takes_through_restarts_keeps_the_warm_set(version) {
        let mut server = servers::start(version, &[("shared_buffers", "128MB")]);
        server.psql(TABLES);
        let warm: Vec<String> = (0..4).map(|_| take(&server)).collect();
        for _restart in 0..2 {
            restart_cold(&mut server);
            let cold: Vec<String> = (0..8).map(|_| take(&server)).collect();
            let (names, marked) = listed(&server, &[]);
            assert!(names.contains(&cold[7]) && !names.contains(&cold[0]), "{names:?}");
            let marked = marked["name"].as_str().unwrap().to_owned();
            assert!(warm.contains(&marked), "{marked} of {names:?}");
            let planned = restore(&server, &["--dry-run"]);
            assert_eq!(planned["snapshot"]["name"], marked, "{planned:#}");
        }
        let told = server.pgthaw(&["snapshot", "take", "--keep", "7"]).ok().stderr;
        assert!(told.contains(" does not use this new snapshot, but snapshot"), "{told}");

        let receipt = restore(&server, &[]);
        let chosen = &receipt["snapshot"];
        assert!(warm.iter().any(|name| chosen["name"] == *name.as_str()), "{chosen:#}");
        assert_eq!(chosen["reason"], "warmest_before_start");
        assert_eq!(chosen["warmer"], Value::Null);
        for (tier, held) in [("os", "os_bytes"), ("buffers", "buffers_bytes")] {
            assert!(chosen[held].as_u64().unwrap() > 50_000_000, "{tier}: {chosen:#}");
            assert!(receipt[tier]["asked_bytes"].as_u64().unwrap() > 50_000_000, "{tier}: {receipt:#}");
            assert!(resident_share(&receipt[tier]) >= RESIDENT_MIN, "{tier}: {receipt:#}");
        }
        let text = server.pgthaw(&["restore"]).ok().stdout;
        let head = format!("snapshot {}, taken ", chosen["name"].as_str().unwrap());
        assert!(text.starts_with(&head) && text.contains("\n  why: the warmest from before"), "{text}");

        // Now it is warm, and what is taken now is as good.
        let newest = take(&server);
        let planned = restore(&server, &["--dry-run"]);
        assert_eq!(planned["snapshot"]["name"], newest, "{planned:#}");
        assert!(!listed(&server, &[]).0.iter().any(|name| warm.contains(name)), "it was replaced");
    }
}

#[test]
fn a_server_that_never_restarted_gets_its_newest_and_hears_of_a_warmer_one() {
    let server = warm_server();
    let warm = take(&server);
    evict(&server);
    server.psql("SELECT pg_prewarm('hot', 'read', 'main', 0, 499)");
    let told = server.pgthaw(&["snapshot", "take"]).ok().stderr;
    assert!(told.contains(" uses this snapshot") && told.contains(&warm), "{told}");
    let newest = take(&server);
    for named in [&[][..], &["newest"]] {
        let chosen = restore(&server, &[&["--dry-run"], named].concat())["snapshot"].clone();
        assert_eq!((&chosen["name"], &chosen["warmer"]["name"]), (&Value::from(&*newest), &Value::from(&*warm)));
        assert_eq!(chosen["reason"], if named.is_empty() { "newest_since_start" } else { "named" });
        assert!(chosen["age_seconds"].as_i64().unwrap() >= 0, "{chosen:#}");
    }
    let text = server.pgthaw(&["restore", "--tier", "os", "--dry-run"]).ok().stdout;
    assert!(text.contains(&format!("a warmer one: {warm}, taken ")), "{text}");
    assert!(text.lines().any(|line| line.contains("pgthaw restore -h ") && line.ends_with(&*warm)), "{text}");
    let chosen = restore(&server, &[&warm, "--dry-run"])["snapshot"].clone();
    assert_eq!((&chosen["reason"], &chosen["warmer"]), (&Value::from("named"), &Value::Null));
}

#[test]
fn what_made_one_warm_and_was_dropped_since_does_not_count() {
    let mut server = warm_server();
    server.psql("CREATE DATABASE big");
    server.psql_in("big", "CREATE TABLE filler AS SELECT i, repeat('f', 300) FROM generate_series(1, 500000) AS i");
    let largest = take(&server);
    server.psql("DROP DATABASE big");
    let left = take(&server);
    restart_cold(&mut server);
    take(&server);
    let receipt = restore(&server, &["--tier", "os"]);
    let chosen = &receipt["snapshot"];
    assert_eq!((&chosen["name"], &chosen["warmer"]), (&Value::from(&*left), &Value::Null), "{chosen:#}");
    assert_eq!(chosen["dropped_databases"], serde_json::json!(["big"]));
    assert!(resident_share(&receipt["os"]) > RESIDENT_MIN, "{receipt:#}");
    assert_eq!(listed(&server, &[]).1["name"], left);
    let named = server.pgthaw(&["restore", &largest, "--tier", "os", "--dry-run"]).ok().stdout;
    assert!(named.contains("not counted (databases dropped since then): big"), "{named}");
}

#[test]
fn a_quiet_take_says_nothing() {
    let server = warm_server();
    let quiet = server.pgthaw(&["snapshot", "take", "--quiet"]).ok();
    assert_eq!((&*quiet.stdout, &*quiet.stderr), ("", ""));
    server.pgthaw(&["snapshot", "take", "--quiet", "--json"]).ok().json();
    let refused = server.pgthaw(&["snapshot", "take", "--quiet", "--label", "a b"]).ends_with(2);
    assert!(refused.stderr.contains("is not a valid label"), "{refused:?}");
}

#[test]
fn a_better_one_of_the_servers_owner_is_told() {
    needs_root!();
    let mut server = warm_server();
    let warm = take(&server);
    let home = server.home().join("owner");
    let state = home.join(".local/state/pgthaw");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::rename(server.home().join("state/pgthaw/snapshots"), state.join("snapshots")).unwrap();
    restart_cold(&mut server);
    take(&server);
    let remarks = || {
        let told = pgthaw_with_owners_home(&server, &home, &["restore", "--json", "--dry-run"]).ok().json();
        told["remarks"].to_string()
    };
    assert!(
        remarks().contains(&warm) && remarks().contains("`pgthaw restore ") && remarks().contains(" --dir "),
        "{}",
        remarks()
    );
}

#[test]
fn one_that_holds_nothing_is_never_taken() {
    let server = servers::start_any(&[]);
    let path = server.pgthaw(&["snapshot", "take", "--json"]).ok().json()["path"].as_str().unwrap().to_owned();
    let name = listed(&server, &[]).0.remove(0);
    let mut empty = Snapshot::read(path.as_ref()).unwrap();
    for fork in empty.map.relations.iter_mut().flat_map(|one| &mut one.forks) {
        *fork = ForkMap::empty(fork.fork, fork.blocks);
    }
    empty.map.taken_at = Timestamp::now();
    store_of(&server).keep(&empty).unwrap();
    assert_eq!(restore(&server, &["--tier", "os"])["snapshot"]["name"], name);
    assert_eq!(restore(&server, &["--tier", "os", "newest"])["snapshot"]["os_bytes"], 0, "it was named");
    server.pgthaw(&["snapshot", "drop", &name]).ok();
    for arguments in [&["restore"][..], &["restore", "--dry-run"], &["snapshot", "diff"]] {
        let error = server.pgthaw(arguments).ends_with(2).stderr;
        assert!(error.contains("contains blocks of shared_buffers or") && error.contains("snapshot take"), "{error}");
    }
    let list = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    assert!(!list.contains("`pgthaw restore` uses "), "{list}");
}

#[test]
fn a_list_of_several_clusters_gives_no_command_that_leads_to_one_of_them() {
    let mut server = warm_server();
    let path = server.pgthaw(&["snapshot", "take", "--json"]).ok().json()["path"].as_str().unwrap().to_owned();
    let mut other = Snapshot::read(path.as_ref()).unwrap();
    other.map.source.system_identifier += 1;
    store_of(&server).keep(&other).unwrap();
    server.cluster.stop(StopMode::Fast).unwrap();
    let text = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    for cluster in [other.map.source.system_identifier - 1, other.map.source.system_identifier] {
        assert!(text.contains(&format!("* a restore of cluster {cluster} uses ")), "{text}");
    }
    assert!(!text.contains("pgthaw restore"), "{text}");
}

#[test]
fn a_list_says_that_no_server_is_where_one_was_named() {
    let server = warm_server();
    let warm = take(&server);
    let listed = server.pgthaw(&["snapshot", "list", "-h", "127.0.0.1", "-p", "1"]).ok();
    assert!(listed.stderr.contains("cannot connect") && listed.stderr.contains("127.0.0.1"), "{}", listed.stderr);
    assert!(listed.stderr.contains("snapshots of all servers") && listed.stdout.contains(&warm), "{listed:?}");
    let known = server.pgthaw(&["snapshot", "list"]).ok();
    assert!(!known.stderr.contains("all servers"), "{}", known.stderr);
}

#[test]
fn the_list_marks_what_a_restore_takes_with_and_without_a_server() {
    let mut server = warm_server();
    let warm = take(&server);
    restart_cold(&mut server);
    take(&server);
    let text = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    let marked: Vec<&str> = text.lines().filter(|line| line.starts_with("*  ")).collect();
    assert!(marked.len() == 1 && marked[0].contains(&warm), "{text}");
    assert!(text.contains(&format!(" uses snapshot {warm}")), "{text}");
    assert!(text.contains("why: the warmest from before the server's start of "), "{text}");
    assert_eq!(listed(&server, &[]).1["reason"], "warmest_before_start");
    server.cluster.stop(StopMode::Fast).unwrap();
    let text = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    assert!(text.contains("* once its server runs, `pgthaw restore "), "{text}");
    let marked = |arguments: &[&str]| listed(&server, arguments).1;
    assert_eq!(
        (&marked(&[])["name"], &marked(&[])["reason"]),
        (&Value::from(&*warm), &Value::from("warmest_start_unknown"))
    );
    let directory = server.data_directory();
    let there = marked(&["-D", directory.to_str().unwrap()]);
    assert_eq!((&there["name"], &there["reason"]), (&Value::from(&*warm), &Value::from("warmest_of_all")));
    let receipt = restore(&server, &["-D", directory.to_str().unwrap(), "--dry-run"]);
    assert_eq!(receipt["snapshot"]["name"], *warm);
}

#[test]
fn a_difference_without_arguments_is_since_what_a_restore_takes() {
    let mut server = warm_server();
    let warm = take(&server);
    restart_cold(&mut server);
    take(&server);
    let difference = server.pgthaw(&["snapshot", "diff", "--json"]).ok().json();
    assert_eq!(difference["snapshot"]["name"], *warm);
    assert!(difference["os"]["lost_blocks"].as_u64().unwrap() > 5000, "{:#}", difference["os"]);
    let text = server.pgthaw(&["snapshot", "diff"]).ok().stdout;
    assert!(text.starts_with(&format!("snapshot {warm}, taken ")), "{text}");
    let named = server.pgthaw(&["snapshot", "diff", "newest", "--json"]).ok().json();
    assert_eq!(named["snapshot"], Value::Null);
    assert_eq!(
        server
            .pgthaw(&["snapshot", "show", "best"])
            .ok()
            .stdout
            .lines()
            .next()
            .map(|line| line.starts_with(&format!("snapshot {warm} of "))),
        Some(true)
    );
}

#[test]
fn a_forecast_is_of_the_restore_that_would_happen() {
    let mut server = warm_server();
    let warm = take(&server);
    restart_cold(&mut server);
    take(&server);
    let numbers = ["predict", "hit=0.2ms", "--seconds", "1", "--json"];
    server.psql("SELECT count(*) FROM hot WHERE id < 100");
    let same = |forecast: &Value, planned: &Value| {
        for field in ["name", "path", "reason", "server_started_at", "os_bytes", "buffers_bytes", "warmer"] {
            // Both find out when the server was started to some hundredths of a second.
            let text = |value: &Value| value[field].to_string().chars().take(20).collect::<String>();
            assert_eq!(text(forecast), text(planned), "{field}: {forecast:#} {planned:#}");
        }
        assert_eq!(forecast["name"], *warm);
    };
    let forecast = server.pgthaw(&numbers).ok().json();
    same(&forecast["snapshot"], &restore(&server, &["--dry-run"])["snapshot"]);
    assert!(forecast["assumptions"].to_string().contains("why: the warmest from before"), "{forecast:#}");
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let directory = ["-D", directory.to_str().unwrap()];
    let forecast = server.pgthaw(&[&numbers[..], &directory[..]].concat()).ok().json();
    same(&forecast["snapshot"], &restore(&server, &[&["--dry-run"], &directory[..]].concat())["snapshot"]);
    assert_eq!(forecast["snapshot"]["reason"], "warmest_of_all");
}

#[test]
fn over_sql_alone_the_server_says_when_it_was_started() {
    needs_root!();
    let mut server = warm_server();
    let over_sql = |server: &TestServer, arguments: &[&str]| server.pgthaw_as(NOBODY, arguments).ok().json();
    let warm = over_sql(&server, &["snapshot", "take", "--json"])["path"].clone();
    server.restart();
    let cold = over_sql(&server, &["snapshot", "take", "--json"]);
    assert_eq!(cold["restore"]["path"], warm, "{cold:#}");
    assert_eq!(cold["restore"]["os_bytes"], Value::Null);
    let planned = over_sql(&server, &["restore", "--dry-run", "--json"]);
    assert_eq!(
        (&planned["snapshot"]["path"], &planned["snapshot"]["reason"]),
        (&warm, &Value::from("warmest_before_start"))
    );
    let list = over_sql(&server, &["snapshot", "list", "--json"]);
    let marked: Vec<bool> =
        list["snapshots"].as_array().unwrap().iter().map(|one| one["restore"].is_object()).collect();
    assert_eq!(marked, [false, true], "{list:#}");
}

#[test]
fn a_clock_that_was_set_back_is_told() {
    let mut server = warm_server();
    let path = server.pgthaw(&["snapshot", "take", "--json"]).ok().json()["path"].as_str().unwrap().to_owned();
    let mut ahead = Snapshot::read(path.as_ref()).unwrap();
    ahead.map.taken_at = Timestamp::now() + SignedDuration::from_hours(1);
    let ahead = store_of(&server).keep(&ahead).unwrap();
    std::fs::remove_file(path).unwrap();
    restart_cold(&mut server);
    take(&server);
    let receipt = restore(&server, &["--dry-run"]);
    assert_eq!(receipt["snapshot"]["name"], *ahead.name);
    assert!(receipt["remarks"].to_string().contains("is dated in the future"), "{receipt:#}");
    let text = server.pgthaw(&["snapshot", "list"]).ok().stdout;
    assert!(text.contains("in the future"), "{text}");
}

#[test]
fn a_budget_holds_for_both_tiers() {
    let mut server = warm_server();
    take(&server);
    restart_cold(&mut server);
    let held = || {
        let totals = server.pgthaw(&["map", "--json"]).ok().json()["totals"].clone();
        [&totals["os_blocks"], &totals["buffers_blocks"]].map(|blocks| blocks.as_u64().unwrap() * 8192)
    };
    let before = held();
    const BUDGET: u64 = 40 << 20;
    let planned = restore(&server, &["--budget", "40MB", "--dry-run"]);
    let promised = ["forecast", "buffers_forecast"].map(|tier| planned[tier].clone());
    let promised = promised[0]["read_bytes"].as_u64().unwrap() + promised[1]["load_bytes"].as_u64().unwrap();
    assert!((BUDGET / 2..=BUDGET).contains(&promised), "{planned:#}");
    let receipt = restore(&server, &["--budget", "40MB"]);
    let [os, buffers] = ["os", "buffers"].map(|tier| receipt[tier]["read_bytes"].as_u64().unwrap());
    assert!(os + buffers <= BUDGET && os > 15_000_000 && buffers > 1_000_000, "{os} {buffers}");
    let after = held();
    // What shared_buffers load was in the page cache by then. Some catalogs are read beside.
    let slack = 3_000_000;
    assert!(after[0] <= before[0] + os + slack, "{before:?} {after:?} {os}");
    assert!(after[1] <= before[1] + buffers + slack, "{before:?} {after:?} {buffers}");
    for tier in ["os", "buffers"] {
        let skipped = receipt["skipped"].as_array().unwrap().iter();
        assert!(skipped.clone().any(|one| one["tier"] == tier && one["reason"] == "over_budget"), "{tier}");
    }
    restart_cold(&mut server);
    let receipt = restore(&server, &["--budget", "40MB", "--budget", "buffers=4MB"]);
    let [os, buffers] = ["os", "buffers"].map(|tier| receipt[tier]["read_bytes"].as_u64().unwrap());
    assert!(os + buffers <= BUDGET && buffers <= 4 << 20 && os > 30_000_000, "{os} {buffers}");
    let receipt = restore(&server, &["--budget", "40MB", "--tier", "buffers"]);
    assert!(receipt["buffers"]["read_bytes"].as_u64().unwrap() <= BUDGET, "{receipt:#}");
}

#[test]
fn what_is_shown_verified_and_dropped_is_told_from_what_a_restore_takes() {
    let mut server = warm_server();
    let warm = take(&server);
    restart_cold(&mut server);
    let cold = take(&server);
    let shown = server.pgthaw(&["snapshot", "show"]).ok();
    assert!(shown.stdout.starts_with(&format!("snapshot {cold} of ")), "{shown:?}");
    let other = |text: &str| text.contains("uses another snapshot: ");
    assert!(other(&shown.stderr) && shown.stderr.contains(&warm), "{shown:?}");
    assert!(!other(&server.pgthaw(&["snapshot", "show", "best"]).ok().stderr));

    let verified = server.pgthaw(&["snapshot", "list", "--verify"]).ok().stdout;
    assert!(verified.contains(&warm) && verified.contains(&cold) && verified.lines().count() == 2, "{verified}");
    let path = store_of(&server).cluster_directory(identifier(&server)).join(format!("{warm}.parquet"));
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[10] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let verified = server.pgthaw(&["snapshot", "list", "--verify"]).ends_with(1).stdout;
    assert!(verified.contains("DAMAGED"), "{verified}");
    let error = server.pgthaw(&["restore", path.to_str().unwrap()]).ends_with(1).stderr;
    assert!(error.contains(&format!("rm -- {}", path.display())), "{error}");
    std::fs::write(&path, whole).unwrap();

    let newer = take(&server);
    let dropped = server.pgthaw(&["snapshot", "drop", &cold]).ok().stdout;
    assert!(!dropped.contains("now uses"), "{dropped}");
    let dropped = server.pgthaw(&["snapshot", "drop", &warm]).ok().stdout;
    assert!(dropped.contains(" now uses snapshot ") && dropped.contains(&newer), "{dropped}");
    let dropped = server.pgthaw(&["snapshot", "drop", &newer]).ok().stdout;
    assert!(dropped.contains("no snapshot is left for `pgthaw restore"), "{dropped}");
    let last = take(&server);
    let dropped = server.pgthaw(&["snapshot", "drop", &last, "--json"]).ok().json();
    assert_eq!(dropped["restore"], Value::Null);
}

fn identifier(server: &TestServer) -> u64 {
    server.psql("SELECT system_identifier FROM pg_control_system()").trim().parse().unwrap()
}

#[test]
fn a_database_that_is_younger_than_the_snapshot_is_named() {
    let server = warm_server();
    take(&server);
    server.psql("CREATE DATABASE newdb");
    // Without its extensions shared_buffers are another matter.
    for arguments in [&["--tier", "os", "--dry-run"][..], &["--tier", "os"]] {
        let remarks = restore(&server, &[arguments, &["-d", "newdb"]].concat())["remarks"].to_string();
        assert!(remarks.contains("not contain database newdb") && remarks.contains("shared catalogs"), "{remarks}");
        let remarks = restore(&server, &[arguments, &["-d", "postgres"]].concat())["remarks"].to_string();
        assert!(!remarks.contains("does not contain"), "{remarks}");
    }
    let both = restore(&server, &["--tier", "os", "--dry-run", "-d", "postgres", "-d", "newdb"])["remarks"].to_string();
    assert!(both.contains("database newdb") && !both.contains("shared catalogs"), "{both}");
}

#[test]
fn a_tier_that_was_not_seen_is_not_called_empty() {
    let server = servers::start_any(&[]);
    for _ in 0..2 {
        let taken = server.pgthaw(&["snapshot", "take", "--keep", "1"]).ok().stdout;
        assert!(!taken.contains("dropped") || taken.contains("(--keep 1)"), "{taken}");
    }
    let cells = |text: &str| text.lines().nth(1).unwrap().to_owned();
    let unseen = cells(&server.pgthaw(&["snapshot", "list"]).ok().stdout);
    assert!(unseen.contains(" ? "), "{unseen}");
    let planned = server.pgthaw(&["restore", "--dry-run"]).ok().stdout;
    assert!(!planned.contains("the resident part is unknown"), "{planned}");
    assert!(planned.contains("into shared_buffers") && planned.contains("nothing requested"), "{planned}");
    let bare = server.home().join("bare store");
    let bare = ["--dir", bare.to_str().unwrap()];
    let list = server.pgthaw(&[&["snapshot", "list"], &bare[..]].concat()).ok().stdout;
    assert!(list.contains(&format!("no snapshot in {} yet", bare[1])), "{list}");
    let error = server.pgthaw(&[&["restore"], &bare[..]].concat()).ends_with(2).stderr;
    let hint = error.lines().find(|line| line.contains("pgthaw snapshot take ")).unwrap();
    assert!(hint.contains(&format!(" --dir '{}'", bare[1])), "{error}");
}

/// Of a container only its pid namespace: the number in its postmaster.pid means another process here.
#[test]
fn a_server_in_a_container_that_answers_runs() {
    needs_root!();
    let mut server = servers::start_any(&[]);
    let before = take(&server);
    let (data, program) = (server.data_directory(), server.command_of("postgres"));
    let options = std::fs::read_to_string(data.join("postmaster.opts")).unwrap();
    server.cluster.stop(StopMode::Fast).unwrap();
    let owner = std::fs::metadata(&data).unwrap().uid().to_string();
    let mut contained = Command::new("unshare");
    contained.args(["--pid", "--fork", "--kill-child", "setpriv", "--clear-groups", "--reuid", &owner]);
    contained.arg(program.get_program()).args(options.split('"').skip(1).step_by(2));
    let mut contained = contained.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_up = || server.command_of("psql").args(["-Xc", "", "postgres"]).output().unwrap().status.success();
    while !is_up() {
        assert!(contained.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let address = server.cluster.connect_options("postgres");
    let (host, port) = (address.host.unwrap(), address.port.unwrap().to_string());
    let way = ["-h", &*host, "-p", &*port, "-D", data.to_str().unwrap()];
    let listed = server.pgthaw(&[&["snapshot", "list"], &way[..]].concat());
    let restored = server.pgthaw(&[&["restore", "--tier", "os", "--dry-run", "--json"], &way[..]].concat());
    let by_directory = server.pgthaw(&["restore", "--dry-run", "-D", data.to_str().unwrap()]);
    let mut checked = server.command(&["doctor", "--json", "-D", data.to_str().unwrap()]);
    let checked = checked.env_remove("PGHOST").env_remove("PGPORT").output().unwrap();
    let _ = contained.kill();
    let _ = contained.wait();
    let (listed, restored) = (listed.ok(), restored.ok());
    assert!(!format!("{}{}", listed.stdout, listed.stderr).contains("no server"), "{listed:?}");
    let chosen = &restored.json()["snapshot"];
    assert_eq!((&chosen["name"], &chosen["reason"]), (&before.into(), &"warmest_before_start".into()), "{chosen:#}");
    let told = format!("{}{}", by_directory.stdout, by_directory.stderr);
    assert!(!told.contains("no server") && !told.contains("has stopped"), "{told}");
    let checked = String::from_utf8_lossy(&checked.stdout).into_owned();
    let checked: Value = serde_json::from_str(&checked).unwrap();
    let server = checked.as_array().unwrap().iter().find(|one| one["name"] == "server").unwrap();
    assert_eq!(server["ok"], true, "its directory leads to its socket: {server}");
}

/// The directory is one of a mount namespace of its own: the machine's stays as it is.
#[test]
fn what_the_servers_user_keeps_on_the_machine_root_restores() {
    needs_root!();
    let server = servers::start_any(&[]);
    let owner = std::fs::metadata(server.data_directory()).unwrap().uid().to_string();
    let take = server.command_for_others(&["snapshot", "take", "--quiet"]);
    let script = "mount -t tmpfs tmpfs /var/lib && install -d -o $0 -m 700 /var/lib/pgthaw && \
                  setpriv --clear-groups --reuid $0 \"$1\" snapshot take --quiet && ls /var/lib/pgthaw/*/*.parquet && \
                  \"$1\" restore --tier os --dry-run";
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", script, &owner]).arg(take.get_program());
    inside.envs(take.get_envs().filter_map(|(name, value)| Some((name, value?)))).env_remove("XDG_STATE_HOME");
    let output = servers::output_of(&mut inside).ok();
    assert!(output.stdout.starts_with("/var/lib/pgthaw/"), "{output:?}");
}
