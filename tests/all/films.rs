//! `pgthaw run` and `film` on real servers: a cold job is recorded, preloaded, and leaves the cache as it was.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use host::linux::DiskLimit;
use postgres::StopMode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::probe;
use crate::requests;
use crate::servers::{self, Output, TestServer};

/// `t` is what the job reads, row by row from its end to its beginning, where no kernel reads ahead; `u` is what others have in memory.
const TABLES: &str = "
    CREATE EXTENSION pg_buffercache;
    CREATE EXTENSION pg_prewarm;
    CREATE TABLE t AS SELECT i, 39999 - i AS j, repeat('t', 1500) AS body FROM generate_series(0, 39999) AS i;
    CREATE INDEX t_j ON t (j);
    CREATE TABLE u AS SELECT i, repeat('u', 900) AS body FROM generate_series(1, 8000) AS i;
    VACUUM ANALYZE;
    CHECKPOINT;
";

/// Waits first, so that a preload has its time however fast the disk is.
pub const JOB: &str =
    "SELECT pg_sleep(2); SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
    SELECT sum(length(body)) FROM (SELECT body FROM t ORDER BY j) AS from_its_end";

/// The kernel may take a page back at any time, 0 to 1.
pub const RESIDENT_MIN: f64 = 0.9;

pub fn server(version: u32) -> TestServer {
    let server = servers::start(version, &[("shared_buffers", "16MB"), ("max_parallel_workers_per_gather", "0")]);
    server.psql(TABLES);
    server
}

/// No buffer, no page.
pub fn make_cold(server: &mut TestServer) {
    server.restart();
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
}

/// The same, of a server that reads slowly from now on, where that can be had.
pub fn make_cold_and_slow(server: &mut TestServer, limit: Option<&DiskLimit>) {
    match limit {
        Some(limit) => server.restart_limited(limit),
        None => server.restart(),
    }
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
}

/// psql's path and options, for the job.
pub fn psql(server: &TestServer) -> String {
    server.command_of("psql").get_program().to_str().unwrap().to_owned()
}

fn run(server: &TestServer, options: &[&str], sql: &str) -> (Output, Value) {
    let psql = psql(server);
    let arguments = ["run", "--json", "--riops", "3000", "--rbps", "125MiB"];
    let output = server.pgthaw(&[&arguments, options, &["--", &psql, "-XAtqc", sql]].concat()).ok();
    let receipt = receipt(&output);
    (output, receipt)
}

/// pgthaw's own words, which are the last line of standard error.
pub fn receipt(output: &Output) -> Value {
    let line = output.stderr.trim_end().lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

pub fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

/// Blocks of a relation that are in the page cache, and all of it.
pub fn os_blocks(server: &TestServer, name: &str) -> (u64, u64) {
    let map = server.pgthaw(&["map", "-r", name, "--json"]).ok().json();
    let one = map["relations"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap();
    (one["os_blocks"].as_u64().unwrap(), one["blocks"].as_u64().unwrap())
}

pub fn assert_resident(server: &TestServer, name: &str, least: f64, most: f64) {
    let (resident, blocks) = os_blocks(server, name);
    let ratio = resident as f64 / blocks as f64;
    assert!((least..=most).contains(&ratio), "{name}: {resident} of {blocks} blocks are resident");
}

/// Does what the job brought stay, for want of knowing who else asked for it?
pub fn brought_stays(receipt: &Value) -> bool {
    receipt["put_back"]["remarks"].to_string().contains("because other processes may use them")
}

/// What the job alone brought went, where the kernel shows requests.
pub fn assert_gone(server: &TestServer, name: &str) {
    let (resident, blocks) = os_blocks(server, name);
    if resident * 50 > blocks {
        let film = requests::film(&server.pgthaw(&["film", "record", "--seconds", "1", "--json"]).ok());
        assert!(!requests::is_seen(&film), "{name}: {resident} of {blocks} blocks are resident");
    }
}

test_every_version! {
    fn a_cold_job_is_recorded_and_preloaded(version) {
        // More than 8,000 reads at 3,000 a second: beside two seconds of sleep they are worth a preload, whatever the disk is. It outlives the server.
        let limit = probe::limit();
        let mut server = server(version);
        make_cold_and_slow(&mut server, limit.as_ref());
        let (first, cold) = run(&server, &["--like", "nightly"], JOB);
        assert_eq!(first.stdout.trim(), "60000000");
        assert_eq!(cold["decision"]["way"], "nothing", "{cold:#}");
        assert!(cold["decision"]["reason"].as_str().unwrap().contains("no film named nightly"), "{cold:#}");
        let fetched = number(&cold, "/kept/totals/fetched_blocks");
        assert!(fetched > 7500, "{cold:#}");
        // On a fast disk a preload may rightly gain too little.
        if limit.is_none() {
            return;
        }

        make_cold_and_slow(&mut server, limit.as_ref());
        let (second, warm) = run(&server, &["--like", "nightly"], JOB);
        assert_eq!(second.stdout, first.stdout);
        assert!(["sorted", "region"].contains(&warm["decision"]["way"].as_str().unwrap()), "{warm:#}");
        // Each block that the job fetches itself is a read at most.
        let reads = number(&warm, "/preloaded/reads") + number(&warm, "/kept/totals/fetched_blocks");
        assert!(reads * 2 < fetched, "{reads} reads, and {fetched} without: {warm:#}");
        assert!(number(&warm, "/kept/totals/preloaded_blocks") * 2 > fetched, "{warm:#}");

        // The forecast is held against what it came to, and the job's session was found.
        let forecast = warm.pointer("/judged/forecast_seconds").and_then(Value::as_f64).unwrap();
        let error = warm.pointer("/judged/error_ratio").and_then(Value::as_f64).unwrap();
        let took = warm.pointer("/judged/took_seconds").and_then(Value::as_f64).unwrap();
        assert!((took / forecast - 1.0 - error).abs() < 1e-6, "{warm:#}");
        assert!(number(&warm, "/attended/sessions") == 1 && number(&warm, "/attended/requested_bytes") > 0, "{warm:#}");

        // By that film alone; a new one is not kept.
        make_cold_and_slow(&mut server, limit.as_ref());
        let psql = psql(&server);
        let told = ["run", "--film", "nightly", "--json", "--riops", "3000", "--rbps", "125MiB", "--", &psql, "-XAtqc", JOB];
        let replayed = server.pgthaw(&told).ok();
        assert_eq!(replayed.stdout, first.stdout);
        let replayed = receipt(&replayed);
        assert!(number(&replayed, "/preloaded/bytes") > 0 && replayed["kept"].is_null(), "{replayed:#}");

        // Nothing is saved for a job that fails, or that asks no server.
        for (job, status) in [(&[psql.as_str(), "-XAtqc", "SELECT 1/0"][..], 1), (&["true"], 0)] {
            let done = server.pgthaw(&[&["run", "--film", "nightly", "--json", "--"], job].concat()).ends_with(status);
            assert!(receipt(&done)["judged"].is_null(), "{done:?}");
        }

        // What is in memory is not brought again; the kernel may have taken a little back.
        let (_, again) = run(&server, &["--like", "nightly"], JOB);
        let brought = again["preloaded"]["bytes"].as_u64().unwrap_or(0);
        assert!(brought < fetched * 8192 / 10, "{again:#}");

        let films = server.pgthaw(&["film", "show", "--json"]).ok().json();
        assert_eq!(films["films"].as_array().unwrap().len(), 3, "{films:#}");
        let oldest = films["films"][2]["name"].as_str().unwrap();
        let film = server.pgthaw(&["film", "show", oldest, "--json"]).ok().json();
        assert_eq!(film["relations"][0]["name"], "t", "{film:#}");
        assert!(number(&film, "/relations/0/blocks") > 7500, "{film:#}");
        assert_eq!(film["moments"].as_array().unwrap().len(), 20);
        let text = server.pgthaw(&["film", "show", oldest]).ok().stdout;
        assert!(text.contains("public.t") && text.contains("recorded "), "{text}");
        assert!(server.pgthaw(&["film", "show"]).ok().stdout.contains("nightly"));
    }
}

#[test]
fn a_film_in_which_nothing_came_is_told() {
    let server = server(15);
    run(&server, &["--like", "idle"], "SELECT 1");
    let (_, receipt) = run(&server, &["--like", "idle"], "SELECT 1");
    assert!(receipt["decision"]["reason"].as_str().unwrap().contains("with blocks to preload"), "{receipt:#}");
    assert!(receipt["remarks"].to_string().contains("has no blocks to preload"), "{receipt:#}");
}

#[test]
fn the_databases_of_its_films_are_asked_alone_and_over_one_connection() {
    let mut server = servers::start_any(&[("log_connections", "on")]);
    server.psql("CREATE DATABASE shop");
    server.psql("CREATE DATABASE other");
    for database in ["shop", "other"] {
        server.psql_in(database, "CREATE TABLE t AS SELECT generate_series(1, 100000) AS i; CHECKPOINT");
    }
    let psql = psql(&server);
    let log = server.data_directory().with_file_name("server.log");
    let mut run_in = |database: &str| {
        make_cold(&mut server);
        let before = fs::read_to_string(&log).unwrap().len();
        let job = ["--", &psql, "-XAtqd", database, "-c", "SELECT count(*) FROM t"];
        let receipt = receipt(&server.pgthaw(&[&["run", "--json", "--like", "x"][..], &job].concat()).ok());
        let log = fs::read_to_string(&log).unwrap().split_off(before);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains("connection authorized")).collect();
        let of_job = lines.iter().position(|line| line.contains("application_name=psql")).unwrap();
        assert_eq!(lines.len(), of_job + 1, "nobody is asked after a job that nothing is put back for: {log}");
        let lines = lines[..of_job].iter();
        let databases: Vec<&str> =
            lines.filter_map(|line| line.split("database=").nth(1)?.split_whitespace().next()).collect();
        (databases.join(" "), receipt)
    };
    // Nobody knows where it will go: the first connection is that of its database too.
    assert_eq!(run_in("shop").0.split(' ').count(), 4, "postgres, template1, shop, other");
    assert_eq!(run_in("shop").0, "shop");
    // What the job asks another for is in its film, and next time that one is asked too.
    let (asked, receipt) = run_in("other");
    assert_eq!(asked, "shop");
    assert!(number(&receipt, "/kept/totals/fetched_blocks") > 400, "{receipt:#}");
    let (asked, receipt) = run_in("other");
    assert!(asked.contains("shop") && asked.contains("other"), "{asked}");
    assert!(!receipt["remarks"].to_string().contains("dropped"), "{receipt:#}");
}

#[test]
fn a_server_whose_films_name_no_database_of_it_is_asked_for_all_its_names() {
    let first = servers::start_any(&[]);
    first.psql("CREATE DATABASE shop");
    let mut other = servers::start_new(servers::installed(), &[("log_connections", "on")]);
    other.psql("CREATE DATABASE stock");
    for (server, database) in [(&first, "shop"), (&other, "stock")] {
        server.psql_in(database, "CREATE TABLE t AS SELECT generate_series(1, 100000) AS i; CHECKPOINT");
    }
    [&first, &other].into_iter().for_each(|server| _ = server.pgthaw(&["evict", "--all", "--tier", "os"]).ok());
    let state = first.home().join("state");
    let run_in = |server: &TestServer, database: &str| {
        let job = ["--", &psql(server), "-XAtqd", database, "-c", "SELECT count(*) FROM t"];
        let mut command = server.command(&[&["run", "--json", "--like", "x"][..], &job].concat());
        let receipt = receipt(&servers::output_of(command.env("XDG_STATE_HOME", &state)).ok());
        let film = receipt["kept"]["path"].as_str().unwrap().to_owned();
        servers::output_of(server.command(&["film", "show", &film]).env("XDG_STATE_HOME", &state)).ok().stdout
    };
    assert!(run_in(&first, "shop").contains("public.t"));
    // The films of that name are of another cluster, whose databases say nothing of this one's.
    let shown = run_in(&other, "stock");
    assert!(shown.contains("public.t"), "{shown}");

    // Recorded without a server: the oid of a database stands for its name.
    fs::remove_dir_all(&state).unwrap();
    let file = other.psql_in("stock", "SELECT pg_relation_filepath('t')");
    let oid = file.split('/').nth(1).unwrap().to_owned();
    other.cluster.stop(StopMode::Fast).unwrap();
    let directory = other.data_directory();
    let file = directory.join(file);
    let (directory, file) = (directory.to_str().unwrap(), file.to_str().unwrap());
    other.pgthaw(&["evict", "--all", "--tier", "os", "-D", directory]).ok();
    let way =
        ["run", "--record-only", "-D", directory, "--like", "x", "--json", "--source", "polling", "--", "cat", file];
    let film = servers::output_of(other.command(&way).env("XDG_STATE_HOME", &state)).ok();
    let film = fs::read(receipt(&film)["path"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8_lossy(&film).contains(&format!("[\"{oid}\"]")), "it names no database");
    other.cluster.start().unwrap();
    other.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    let log = other.data_directory().with_file_name("server.log");
    let before = fs::read_to_string(&log).unwrap().len();
    let shown = run_in(&other, "stock");
    assert!(shown.contains("public.t"), "{shown}");
    let log = fs::read_to_string(&log).unwrap().split_off(before);
    assert!(!log.contains("FATAL") && !log.contains("database=template1"), "{log}");
}

#[test]
fn a_film_of_a_rewritten_table_helps_with_the_others() {
    let mut server = server(15);
    make_cold(&mut server);
    let both = "SELECT sum(length(body)) FROM u; SELECT pg_sleep(1); SELECT count(body) FROM t";
    run(&server, &["--like", "both"], both);
    server.psql("VACUUM FULL u; CHECKPOINT");
    make_cold(&mut server);
    let (_, receipt) = run(&server, &["--like", "both"], both);
    assert!(
        receipt["remarks"].to_string().contains("dropped or rewritten since the recording: public.u"),
        "{receipt:#}"
    );
}

#[test]
fn afterwards_the_cache_is_as_it_was() {
    let mut server = server(15);
    make_cold(&mut server);
    server.psql("SELECT count(body) FROM u");
    server.restart();
    let u_before = os_blocks(&server, "u").0;
    assert!(u_before > 500, "{u_before}");
    // The job reads t, and pushes u out.
    let program = env!("CARGO_BIN_EXE_pgthaw");
    let script = format!("{} -XAtqc \"{JOB}\" && {program} evict -q -r u --tier os >/dev/null", psql(&server));
    let output = server.pgthaw(&["run", "--protect", "--json", "--", "sh", "-c", &script]).ok();
    let receipt = receipt(&output);
    assert_gone(&server, "t");
    assert_resident(&server, "u", RESIDENT_MIN, 1.0);
    let done = &receipt["put_back"];
    assert!(brought_stays(&receipt) || number(done, "/brought_bytes") > 60_000_000, "{receipt:#}");
    assert!(number(done, "/gone_bytes") > 5_000_000, "{receipt:#}");
    assert!(number(done, "/back_bytes") as f64 >= number(done, "/gone_bytes") as f64 * RESIDENT_MIN, "{receipt:#}");
    assert_eq!(receipt["kept"], Value::Null);
}

#[test]
fn a_job_is_itself_under_pgthaw() {
    let server = servers::start_any(&[]);
    let pgthaw = |arguments: &[&str]| server.pgthaw(&[&["run", "--like", "x", "--"], arguments].concat());
    pgthaw(&["sh", "-c", "exit 7"]).ends_with(7);
    pgthaw(&["sh", "-c", "kill -TERM $$"]).ends_with(128 + 15);
    pgthaw(&["sh", "-c", "kill -SEGV $$"]).ends_with(128 + 11);
    let absent = pgthaw(&["no-such-command", "x"]).ends_with(127).stderr;
    assert!(absent.contains("cannot run no-such-command") && absent.contains("hint"), "{absent}");
    pgthaw(&["/"]).ends_with(126);
    server.pgthaw(&["run", "--like", "a/b", "--", "true"]).ends_with(2);
    server.pgthaw(&["run"]).ends_with(2);

    // Its input and output, and the mode of its files.
    let mut command = server.command(&["run", "--like", "x", "--", "sh", "-c", "cat; umask; echo wrong >&2"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from outside\n").unwrap();
    let output = Output::from(child.wait_with_output().unwrap()).ok();
    let own = servers::output_of(Command::new("sh").args(["-c", "umask"])).ok().stdout;
    assert_eq!(output.stdout, format!("from outside\n{own}"));
    assert!(output.stderr.starts_with("wrong\npgthaw: "), "{}", output.stderr);

    // A signal for pgthaw is the job's.
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let mut command = server.command(&["run", "--like", "x", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::USR1).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn a_film_of_a_command_that_failed_is_kept_without_its_name() {
    let server = servers::start_any(&[]);
    server.pgthaw(&["run", "--record-only", "--like", "x", "--", "sh", "-c", "exit 3"]).ends_with(3);
    let killed =
        server.pgthaw(&["run", "--record-only", "--like", "x", "--", "sh", "-c", "kill -TERM $$"]).ends_with(128 + 15);
    assert!(killed.stderr.contains("the film is not stored as x, because its command failed"), "{}", killed.stderr);
    let films = server.pgthaw(&["film", "show", "--json"]).ok().json();
    let labels: Vec<&Value> = films["films"].as_array().unwrap().iter().map(|film| &film["label"]).collect();
    assert_eq!(labels, [&Value::Null, &Value::Null], "{films:#}");
    let (_, receipt) = run(&server, &["--like", "x"], "SELECT 1");
    assert!(receipt["decision"]["reason"].as_str().unwrap().contains("no film named x"), "{receipt:#}");
}

#[test]
fn a_job_waits_for_what_takes_its_time_but_not_for_a_server_that_says_nothing() {
    let server = servers::start_any(&[]);
    let mut command = server.command(&["run", "--like", "x", "--protect", "--", "date", "+%s"]);
    // One connection until it is known what there is, and several to look at it, which take longer than it waits for an answer.
    let door = servers::slow_door(&server, 1, Duration::from_secs(3));
    command.env("PGHOST", door.path()).stdin(Stdio::null());
    let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let slow = Output::from(command.output().unwrap()).ok();
    let started: u64 = slow.stdout.trim().parse().unwrap();
    assert!(started - begun > 5, "the job had {} s to wait", started - begun);
    assert!(slow.stderr.contains("there is no film named x"), "{}", slow.stderr);

    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let home = servers::Home::new();
    let told = home.pgthaw(&["run", "-h", "127.0.0.1", "-p", &port, "--like", "x", "--", "echo", "done"]).ok();
    assert!(told.stdout == "done\n" && told.stderr.contains("the server did not answer within 5s"), "{told:?}");
}

#[test]
fn where_pgthaw_cannot_help_the_job_just_runs() {
    let home = servers::Home::new();
    let output = home.pgthaw(&["run", "-h", "/nowhere", "--like", "x", "--protect", "--", "echo", "done"]).ok();
    assert_eq!(output.stdout, "done\n");
    assert!(output.stderr.contains("nothing was preloaded: cannot connect"), "{}", output.stderr);
    let bare = home.pgthaw(&["run", "--", "echo", "done"]).ok();
    assert!(bare.stdout == "done\n" && bare.stderr.contains("--like NAME"), "{}", bare.stderr);
    assert!(home.pgthaw(&["film", "show"]).ok().stdout.contains("no film"));
    home.pgthaw(&["film", "show", "newest"]).ends_with(2);
}

#[test]
fn a_film_that_is_damaged_or_of_another_cluster_is_passed_over() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT generate_series(1, 100000) AS i; CHECKPOINT");
    server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
    run(&server, &["--like", "x"], "SELECT count(*) FROM t");
    let list = || server.pgthaw(&["film", "show", "--json"]).ok().json();
    let path = PathBuf::from(list()["films"][0]["path"].as_str().unwrap());
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() * 2 / 3]).unwrap();
    let (_, receipt) = run(&server, &["--like", "x"], "SELECT count(*) FROM t");
    let remarks = receipt["remarks"].to_string();
    assert!(remarks.contains("skipped film") && remarks.contains("truncated"), "{receipt:#}");
    let shown = server.pgthaw(&["film", "show", path.to_str().unwrap()]).ends_with(1).stderr;
    assert!(shown.contains("is damaged") && shown.contains("record the job again"), "{shown}");
    assert!(list()["films"].to_string().contains("truncated"));

    let other = servers::start_new(15, &[]);
    let identifier = other.psql("SELECT system_identifier FROM pg_control_system()");
    let stranger = server.home().join("state/pgthaw/films").join(identifier).join(path.file_name().unwrap());
    fs::create_dir_all(stranger.parent().unwrap()).unwrap();
    fs::write(stranger, whole).unwrap();
    let mut command = other.command(&["run", "--like", "x", "--json", "--", "true"]);
    let output = servers::output_of(command.env("XDG_STATE_HOME", server.home().join("state"))).ok();
    assert!(output.stderr.contains("of another cluster"), "{}", output.stderr);
}

#[test]
fn whatever_runs_is_recorded_too() {
    let mut server = server(15);
    make_cold(&mut server);
    server.psql("SELECT count(*) FROM pg_class");
    let file = server.home().join("film.parquet");
    let file = file.to_str().unwrap();
    let mut command = server.command(&["film", "record", "--seconds", "6", "-o", file, "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let descriptors = format!("/proc/{}/fd", child.id());
    let is_probe = |entry: &std::io::Result<fs::DirEntry>| {
        fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|link| link.to_string_lossy().ends_with("bpf_link"))
    };
    // A check of the kernel has one, the recording two.
    servers::wait_until("the probe", || fs::read_dir(&descriptors).unwrap().filter(is_probe).count() >= 2);
    std::thread::sleep(Duration::from_secs(1));
    server.psql("SELECT count(body) FROM u");
    let film = Output::from(child.wait_with_output().unwrap()).ok().json();
    assert!(number(&film, "/totals/fetched_blocks") >= 900, "{film:#}");
    assert!(number(&film, "/totals/buffers_blocks") > 0, "what shared_buffers had is there: {film:#}");
    assert_eq!(film["lost_events"], 0);
    let shown = server.pgthaw(&["film", "show", file]).ok().stdout;
    assert!(shown.contains("public.u") && shown.contains("does not show whether they were used"), "{shown}");
    assert!(shown.contains("never fetched: ") && !shown.contains(" 0 bytes"), "{shown}");
    let again = server.pgthaw(&["run", "--record-only", "-o", file, "--", "true"]).ends_with(2).stderr;
    assert!(again.contains("already exists"), "{again}");
    let told = server.pgthaw(&["film", "record"]).ends_with(2).stderr;
    assert!(
        told.contains("pgthaw run -h ") && told.contains(" --record-only -- COMMAND") && told.contains("--seconds N"),
        "{told}"
    );
    server.pgthaw(&["run", "--record-only", "--like", "x", "--", "sh", "-c", "exit 3"]).ends_with(3);
}

#[test]
fn what_a_killed_recording_left_goes_with_the_next() {
    let server = server(15);
    let drafts = || {
        let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = below(server.home().join("state/pgthaw/films")).flat_map(below);
        files.filter(|path| path.to_string_lossy().contains(".pgthaw-taking-")).collect::<Vec<_>>()
    };
    let start = || {
        let had = drafts();
        let mut command = server.command(&["film", "record", "--seconds", "60", "--like", "killed"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while drafts().iter().all(|draft| had.contains(draft)) {
            assert!(Instant::now() < until, "it makes no draft");
            std::thread::sleep(Duration::from_millis(50));
        }
        child
    };
    let mut killed = start();
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = drafts();
    assert_eq!(left.len(), 1, "{left:?}");
    let mut alive = start();
    assert!(drafts().iter().all(|draft| !left.contains(draft)), "the next one sweeps it");
    let of_living = drafts();
    server.pgthaw(&["run", "--like", "another", "--", &psql(&server), "-XAtqc", "SELECT 1"]).ok();
    assert_eq!(drafts(), of_living, "one that is being written stays");
    alive.kill().unwrap();
    alive.wait().unwrap();
    server.pgthaw(&["run", "--like", "another", "--", &psql(&server), "-XAtqc", "SELECT 1"]).ok();
    assert!(drafts().is_empty(), "{:?}", drafts());
}

#[test]
fn who_may_not_see_the_page_cache_records_nothing() {
    needs_root!();
    let server = servers::start_any(&[]);
    let refused = server.pgthaw_as(65534, &["run", "--record-only", "-U", "postgres", "--", "true"]);
    assert_eq!(refused.status, 3, "{refused:?}");
    let output = server.pgthaw_as(65534, &["run", "-U", "postgres", "--like", "x", "--", "echo", "done"]).ok();
    assert_eq!(output.stdout, "done\n");
}

#[test]
fn what_is_told_of_shared_buffers_is_there() {
    // One job pushes out nearly all of `u`. The other pushes out a part, and leaves free buffers and idle ones of `u` side by side.
    let part = JOB.replace("ORDER BY j", "WHERE j < 2500 ORDER BY j");
    for (version, job) in [(15, JOB), (servers::newest(), JOB), (15, &*part), (servers::newest(), &*part)] {
        let server = server(version);
        server.psql("SELECT pg_prewarm('u')");
        let buffers = || {
            let of_u = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('u')";
            server.psql(of_u).trim().parse::<u64>().unwrap()
        };
        let before = buffers();
        let (_, receipt) = run(&server, &["--protect"], job);
        let still_gone = before.saturating_sub(buffers());
        let of = |path| number(&receipt["put_back"], path) / 8192;
        let (gone, back) = (of("/buffers_gone_bytes"), of("/buffers_back_bytes"));
        assert!(gone > if job == JOB { 500 } else { 100 }, "{version}: too few were pushed out: {receipt:#}");
        assert!((gone - back).abs_diff(still_gone) <= 60, "{version}: {still_gone} are not there: {receipt:#}");
        // Since 17 a server lets go what the job brought.
        assert!(version < 17 || back as f64 >= 0.95 * gone as f64, "{version}: {receipt:#}");
    }
}

#[test]
fn what_the_first_to_read_a_table_makes_dirty_goes_too() {
    let mut server = server(15);
    // More than is read into shared_buffers as a whole, and hint bits on none of its rows.
    server.psql("CREATE TABLE fresh AS SELECT i, repeat('f', 100) AS body FROM generate_series(1, 300000) AS i");
    make_cold(&mut server);
    let (_, receipt) = run(&server, &["--protect"], "SELECT count(body) FROM fresh");
    let done = &receipt["put_back"];
    assert!(brought_stays(&receipt) || number(done, "/brought_bytes") > 30_000_000, "{receipt:#}");
    assert_eq!(number(done, "/unwritten_bytes"), 0, "{receipt:#}");
    assert_gone(&server, "fresh");
}

/// pgthaw against this server, where the password database says that its owner's home is `home`. Needs root.
pub fn pgthaw_with_owners_home(server: &TestServer, home: &Path, arguments: &[&str]) -> Output {
    let owner = fs::metadata(server.data_directory()).unwrap().uid().to_string();
    let moved = |line: &str| {
        let mut fields: Vec<&str> = line.split(':').collect();
        if fields.get(2) == Some(&&*owner) {
            fields[5] = home.to_str().unwrap();
        }
        fields.join(":") + "\n"
    };
    let users: String = fs::read_to_string("/etc/passwd").unwrap().lines().map(moved).collect();
    let file = server.home().join("passwd");
    fs::write(&file, users).unwrap();
    let command = server.command(arguments);
    let script = format!("mount --bind {} /etc/passwd && exec \"$0\" \"$@\"", file.display());
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", &script]).arg(command.get_program()).args(command.get_args());
    inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    servers::output_of(&mut inside)
}

#[test]
fn a_film_that_the_servers_owner_has_is_told_to_who_lacks_it() {
    needs_root!();
    let server = server(15);
    run(&server, &["--like", "nightly"], "SELECT count(body) FROM u");
    let home = server.home().join("owner");
    fs::create_dir_all(home.join(".local/state/pgthaw")).unwrap();
    let films = home.join(".local/state/pgthaw/films");
    fs::rename(server.home().join("state/pgthaw/films"), &films).unwrap();
    let told = |arguments: &[&str]| pgthaw_with_owners_home(&server, &home, arguments);

    let listed = told(&["film", "show"]).ok().stdout.replace("\n  ", " ");
    assert!(listed.contains("the server's owner keeps films in") && listed.contains("owner/.local"), "{listed}");
    for refused in [
        &["film", "show", "nightly"][..],
        &["run", "--film", "nightly", "--", "true"],
        &["predict", "--film", "nightly"],
    ] {
        let refused = told(refused).ends_with(2).stderr;
        assert!(refused.contains("owner has a matching film") && refused.contains("-nightly.parquet"), "{refused}");
    }
    let first = told(&["run", "--json", "--like", "nightly", "--", "true"]).ok();
    let remarks = receipt(&first)["remarks"].to_string();
    assert!(remarks.contains(" --film ") && remarks.contains("-nightly.parquet"), "{remarks}");
    // By now this user has one.
    let second = told(&["run", "--json", "--like", "nightly", "--", "true"]).ok();
    assert!(!receipt(&second)["remarks"].to_string().contains("owner"), "{second:?}");
}
