//! `pgthaw run --record-only` and `film record` by the kernel's account: what a job asks the page cache for, and nobody else.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::servers::{self, Output, TestServer};

const TABLES: &str = "
    CREATE TABLE t AS SELECT i, (i * 7919) % 40000 AS j, repeat('t', 1500) AS body FROM generate_series(0, 39999) AS i;
    CREATE INDEX t_j ON t (j);
    CREATE TABLE u AS SELECT i, repeat('u', 900) AS body FROM generate_series(1, 40000) AS i;
    CREATE INDEX u_i ON u (i);
    VACUUM ANALYZE;
    CHECKPOINT;
";

/// Row by row: no I/O worker reads for it, on any version.
pub const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;";

/// Blocks of `t`.
const BLOCKS: u64 = 8000;

pub fn server(version: u32) -> TestServer {
    let server = servers::start(version, &[("shared_buffers", "8MB")]);
    server.psql(TABLES);
    server
}

fn psql(server: &TestServer, name: &str, sql: &str) -> Child {
    let mut command = server.command_of("psql");
    command.args(["-XAtqc", sql]).env("PGAPPNAME", name).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Somebody else who reads `u` until he is stopped.
fn start_other(server: &TestServer) -> Child {
    let scan = format!("{BY_INDEX} SELECT sum(length(body)) FROM (SELECT body FROM u ORDER BY i) AS all_of_it;");
    psql(server, "other", &scan.repeat(400))
}

fn stop(mut child: Child) {
    // It may have ended.
    let _ = child.kill();
    let _ = child.wait();
}

/// The last line, which is pgthaw's own.
pub fn film(output: &Output) -> Value {
    let said = if output.stdout.starts_with('{') { &output.stdout } else { &output.stderr };
    serde_json::from_str(said.trim_end().lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

/// Blocks of a relation that a film has.
fn blocks_of(server: &TestServer, film: &str, relation: &str) -> u64 {
    let shown = server.pgthaw(&["film", "show", film, "--json"]).ok().json();
    let relations = shown["relations"].as_array().unwrap();
    relations.iter().filter(|one| one["name"] == relation).map(|one| one["blocks"].as_u64().unwrap()).sum()
}

/// Can programs be loaded here? Else it was said that there are none.
pub fn is_seen(film: &Value) -> bool {
    let recorder = film["recorder"].as_str().unwrap();
    assert!(
        recorder.contains("page cache for each block") || film["remarks"].to_string().contains("recorded by polling")
    );
    recorder.contains("page cache for each block")
}

test_every_version! {
    fn a_warm_job_is_recorded_by_what_it_asks_for(version) {
        needs_root!();
        let server = server(version);
        let job = format!("{BY_INDEX} SELECT sum(length(body)) FROM (SELECT body FROM t ORDER BY j) AS in_no_order");
        let program = server.command_of("psql").get_program().to_str().unwrap().to_owned();
        let other = start_other(&server);
        let output = server.pgthaw(&["run", "--record-only", "--like", "warm", "--json", "--", &program, "-XAtqc", &job]).ok();
        stop(other);
        // Its server process goes on for a moment, and would ask for `u` in the next film's stead.
        wait_until_gone(&server, "other");
        let film = film(&output);
        if !is_seen(&film) {
            untested!("the kernel takes no program here");
        }
        let asked = number(&film, "/totals/requested_blocks") + number(&film, "/totals/fetched_blocks");
        assert!((BLOCKS..BLOCKS + 1000).contains(&asked), "{film:#}");
        assert!(number(&film, "/totals/requested_blocks") > BLOCKS / 2, "it was in memory: {film:#}");
        assert_eq!(film["lost_events"], 0);
        assert!(number(&film, "/probe/runs") > BLOCKS && number(&film, "/probe/total_ns") > 0, "{film:#}");
        assert_eq!(blocks_of(&server, "warm", "t"), BLOCKS);
        assert_eq!(blocks_of(&server, "warm", "u"), 0, "another reads it");
        // Of its 40,000 requests some are answered by shared_buffers.
        let shown = server.pgthaw(&["film", "show", "warm", "--json"]).ok().json();
        assert_eq!(shown["curve"]["sampling"], 0, "{shown:#}");
        assert!(number(&shown, "/curve/requests") > 30_000, "{shown:#}");
        assert!(number(&shown, "/curve/sufficient_blocks") > 1000, "{shown:#}");
        let text = server.pgthaw(&["film", "show", "warm"]).ok().stdout;
        assert!(text.contains("of page cache, almost no request would have missed, except the first"), "{text}");
        films_are_told_apart_and_drawn(&server);
    }
}

/// The film `warm` has `t`; of a second film `u` is the most.
fn films_are_told_apart_and_drawn(server: &TestServer) {
    let program = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let job = "SET enable_seqscan = off; SELECT sum(length(body)) FROM (SELECT body FROM u ORDER BY i) AS all_of_it";
    server.pgthaw(&["run", "--record-only", "--like", "other", "--json", "--", &program, "-XAtqc", job]).ok();
    assert_eq!((blocks_of(server, "other", "t"), blocks_of(server, "warm", "t")), (0, BLOCKS));
    assert!(blocks_of(server, "other", "u") > 1000);

    let page = server.home().join("film.html");
    server.pgthaw(&["film", "show", "warm", "--html", page.to_str().unwrap()]).ok();
    let html = std::fs::read_to_string(page).unwrap();
    for part in ["public.t</h3>", "Working set", "Missed requests by page cache size", "<polyline"] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn parallel_workers_belong_to_their_job() {
    needs_root!();
    let server = server(15);
    let program = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let job =
        "SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;
               SET parallel_tuple_cost = 0; SET parallel_leader_participation = off;
               SELECT count(body) FROM t; SELECT count(body) FROM t; SELECT count(body) FROM t";
    let output =
        server.pgthaw(&["run", "--record-only", "--like", "parallel", "--json", "--", &program, "-XAtqc", job]).ok();
    if !is_seen(&film(&output)) {
        untested!("the kernel takes no program here");
    }
    assert!(blocks_of(&server, "parallel", "t") > BLOCKS * 9 / 10, "{:#}", film(&output));
}

#[test]
fn sessions_are_recorded_by_their_names_and_a_backend_by_its_pid() {
    needs_root!();
    let server = server(15);
    let named = psql(&server, "report", &"SELECT pg_sleep(0.5); SELECT count(body) FROM t;".repeat(200));
    let arguments = ["film", "record", "--application-name", "report", "--seconds", "4", "--like", "named", "--json"];
    let recorded = film(&server.pgthaw(&arguments).ok());
    stop(named);
    if !is_seen(&recorded) {
        untested!("the kernel takes no program here");
    }
    assert!(blocks_of(&server, "named", "t") > BLOCKS * 9 / 10, "{recorded:#}");

    let other = start_other(&server);
    let backend = psql(&server, "one", "SELECT pg_sleep(8); SELECT count(body) FROM t");
    let pid = wait_for_pid(&server, "one");
    let begun = Instant::now();
    let recorded = film(&server.pgthaw(&["film", "record", "--backend", &pid, "--like", "backend", "--json"]).ok());
    assert!(begun.elapsed() < Duration::from_secs(60), "it ends with the backend");
    stop(backend);
    stop(other);
    assert!(blocks_of(&server, "backend", "t") > BLOCKS * 9 / 10, "{recorded:#}");
    assert_eq!(blocks_of(&server, "backend", "u"), 0, "{recorded:#}");
}

#[test]
fn what_is_no_server_process_or_database_is_not_waited_for() {
    let server = servers::start_any(&[]);
    let other = servers::start_new(15, &[]);
    let record =
        |option: &str, name: &str| server.pgthaw(&["film", "record", option, name, "--seconds", "1", "--like", "x"]);
    let postmaster = server.psql("SELECT pg_read_file('postmaster.pid')").lines().next().unwrap().to_owned();
    let of_other = other.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    let gone = Command::new("true").spawn().map(|mut child| (child.id().to_string(), child.wait())).unwrap().0;
    for (pid, why) in [
        ("1", "the process belongs to another program"),
        (of_other.trim(), "to another server"),
        (&*gone, "there is no such process"),
        (&*postmaster, "the process is the postmaster"),
    ] {
        for option in ["--backend", "--pid"] {
            let refused = record(option, pid).ends_with(2).stderr;
            assert!(refused.contains(&format!("process {pid} is not a server process of the cluster")), "{refused}");
            assert!(refused.contains(why) && refused.contains("pg_stat_activity"), "{refused}");
        }
    }
    let refused = record("--database", "shopp").ends_with(2).stderr;
    assert!(refused.contains("there is no database \"shopp\"") && refused.contains(" -l"), "{refused}");
    let films = server.pgthaw(&["film", "show", "--json"]).ok().json();
    assert!(films["films"].as_array().unwrap().is_empty(), "{films:#}");

    // Sessions may come yet; that none came is told.
    let recorded =
        server.pgthaw(&["film", "record", "--application-name", "nobody", "--seconds", "1", "--json"]).ok().json();
    if is_seen(&recorded) {
        assert!(recorded["remarks"].to_string().contains("no recorded session read anything"), "{recorded:#}");
    }
    record("--database", "postgres").ok();
    let own = server.psql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
    record("--backend", own.trim()).ok();
}

/// The job's connection leads to another server: nothing of this one is its own.
#[test]
fn a_run_whose_job_asks_another_server_says_so() {
    let server = server(15);
    let other = servers::start_new(15, &[]);
    let elsewhere = other.cluster.connect_options("postgres");
    let elsewhere = format!(" -h {} -p {}", elsewhere.host.unwrap(), elsewhere.port.unwrap());
    let program = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let ask = |way: &str| format!("{program}{way} -XAtqc 'SELECT pg_sleep(0.5)' postgres");
    let told = |way: &str| {
        let told = server.pgthaw(&["run", "--like", "x", "--json", "--", "sh", "-c", &ask(way)]).ok();
        film(&Output { stdout: String::new(), ..told })
    };
    let elsewhere = told(&elsewhere);
    assert_eq!(elsewhere["attended"]["sessions"], 0, "{elsewhere:#}");
    assert!(elsewhere["remarks"].to_string().contains("no session of the job was found"), "{elsewhere:#}");
    let here = told("");
    assert_eq!(here["attended"]["sessions"], 1, "{here:#}");
    assert!(!here["remarks"].to_string().contains("no session of the job"), "{here:#}");
    let text = server.pgthaw(&["run", "--like", "x", "--", "true"]).ok().stderr;
    assert!(text.contains("note: no session of the job was found on this server"), "{text}");
}

/// A session as a pooler's, which no process of the job opens: the job sends its commands.
#[test]
fn sessions_that_a_run_names_are_in_its_film() {
    needs_root!();
    let server = server(15);
    let pipe = server.home().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for writing too: it does not end with the job's shell.
    let commands = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let mut pooled = server.command_of("psql");
    pooled.arg("-XAtq").env("PGAPPNAME", "pooled").current_dir(server.home()).stdin(commands);
    let pooled = pooled.stdout(Stdio::null()).spawn().unwrap();
    wait_for_pid(&server, "pooled");
    let other = start_other(&server);
    let job = r"printf 'SELECT count(body) FROM t;\n\\! touch done\n' >pipe; while [ ! -e done ]; do sleep 0.05; done";
    let named = ["run", "--like", "named", "--application-name", "pooled", "--", "sh", "-c", job];
    server.pgthaw(&named).ok();
    let shown = server.pgthaw(&["film", "show", "named", "--json"]).ok().json();
    stop(pooled);
    stop(other);
    if !is_seen(&shown["header"]) {
        untested!("the kernel takes no program here");
    }
    assert!(blocks_of(&server, "named", "t") > BLOCKS * 9 / 10, "{shown:#}");
    assert_eq!(blocks_of(&server, "named", "u"), 0, "another reads it: {shown:#}");
}

/// Waits for the end of the sessions with this name.
fn wait_until_gone(server: &TestServer, name: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    let there =
        format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{name}'");
    while server.psql(&there).trim() != "0" {
        assert!(Instant::now() < until, "{name} does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The server process of a session, by its name.
fn wait_for_pid(server: &TestServer, name: &str) -> String {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let pid = server.psql(&format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'"));
        if !pid.trim().is_empty() {
            return pid.trim().to_owned();
        }
        assert!(Instant::now() < until, "nobody is called {name}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_connection_by_tcp_is_the_commands_too() {
    needs_root!();
    let server = server(15);
    let program = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let script = format!(
        "PGHOST=127.0.0.1 {program} -XAtqc 'SELECT pg_sleep(1); SELECT count(body) FROM t; SELECT pg_sleep(1)'"
    );
    let output = server.pgthaw(&["run", "--record-only", "--like", "tcp", "--json", "--", "sh", "-c", &script]);
    if output.status != 0 {
        untested!(machine: "the server does not listen on 127.0.0.1");
    }
    let recorded = film(&output);
    if !is_seen(&recorded) {
        untested!("the kernel takes no program here");
    }
    assert_eq!(recorded["remarks"].as_array().unwrap().len(), 0, "{recorded:#}");
    assert!(blocks_of(&server, "tcp", "t") > BLOCKS * 9 / 10, "{recorded:#}");
}

#[test]
fn who_may_load_no_program_looks_and_says_so() {
    needs_root!();
    let server = server(15);
    let looked = film(&server.pgthaw(&["film", "record", "--source", "polling", "--seconds", "1", "--json"]).ok());
    assert!(looked["recorder"].as_str().unwrap().contains("several times a second"), "{looked:#}");
    assert_eq!((&looked["probe"], &looked["sampling"]), (&Value::Null, &Value::Null));
    server.pgthaw(&["evict", "-r", "t", "--tier", "os"]).ok();
    let others = film(
        &server
            .pgthaw(&["film", "record", "--source", "polling", "--database", "postgres", "--seconds", "1", "--json"])
            .ok(),
    );
    assert!(others["remarks"].to_string().contains("cannot distinguish the reads of different sessions"), "{others:#}");
}

#[test]
fn a_command_without_a_server_process_is_told() {
    needs_root!();
    let server = servers::start_any(&[]);
    let script = "true";
    let nothing =
        film(&server.pgthaw(&["run", "--record-only", "--like", "none", "--json", "--", "sh", "-c", script]).ok());
    if !is_seen(&nothing) {
        untested!("the kernel takes no program here");
    }
    assert!(nothing["remarks"].to_string().contains("no server process of the command was found"), "{nothing:#}");
}

#[test]
fn a_full_disk_takes_the_film_and_not_the_job() {
    needs_root!();
    let server = server(15);
    let small = server.home().join("small");
    std::fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4k", "none"]).arg(&small).status().unwrap();
    if !mounted.success() {
        untested!("nothing can be mounted");
    }
    let program = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let job = format!("{BY_INDEX} SELECT sum(length(body)) FROM (SELECT body FROM t ORDER BY j) AS in_no_order");
    let file = small.join("film.parquet");
    let output = server.pgthaw(&["run", "--record-only", "-o", file.to_str().unwrap(), "--", &program, "-XAtqc", &job]);
    let left = std::fs::read_dir(&small).unwrap().count();
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    assert_eq!(output.stdout.trim(), "60000000");
    let error = output.ends_with(1).stderr;
    assert!(error.contains("No space left on device") && error.contains("free some space"), "{error}");
    assert_eq!(left, 0);
}

/// Ctrl-C ends a film tidily: it is kept.
#[test]
fn an_interrupted_recording_is_kept() {
    let server = servers::start_any(&[]);
    let mut command = server.command(&["film", "record", "--seconds", "600", "--like", "cut", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Until it has begun, on a crowded machine too.
    std::thread::sleep(Duration::from_secs(8));
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let film = film(&Output::from(child.wait_with_output().unwrap()));
    assert!(film["seconds"].as_f64().unwrap() < 60.0, "{film:#}");
    assert!(server.pgthaw(&["film", "show"]).ok().stdout.contains("cut"));
}
