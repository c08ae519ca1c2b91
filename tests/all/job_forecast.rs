//! `pgthaw predict --film`: how long a recorded job takes with other memory.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::films::{make_cold, number};
use crate::requests::{BY_INDEX, film, is_seen, server};
use crate::servers::{self, Home, TestServer};

/// shared_buffers of the server.
const BUFFERS_KB: u64 = 8192;

/// Blocks of `t` are asked for up to five times, and in no order, in each of the two passes: few enough requests for an exact curve.
fn record_two_passes(server: &TestServer) -> Value {
    let pass = "SELECT sum(length(body)) FROM (SELECT body FROM t WHERE j < 25000 ORDER BY j) AS in_no_order;";
    let job = format!("{BY_INDEX} {pass} {pass}");
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    film(&server.pgthaw(&["run", "--record-only", "--like", "passes", "--json", "--", &psql, "-XAtqc", &job]).ok())
}

fn seconds(case: &Value) -> f64 {
    case["seconds"].as_f64().unwrap_or_else(|| panic!("{case:#}"))
}

test_every_version! {
    fn with_enough_memory_only_first_requests_miss(version) {
        needs_root!();
        let mut server = server(version);
        make_cold(&mut server);
        if !is_seen(&record_two_passes(&server)) {
            untested!("the kernel takes no program here");
        }
        let shown = server.pgthaw(&["film", "show", "passes", "--json"]).ok().json();
        let (requests, first) = (number(&shown, "/curve/requests"), number(&shown, "/curve/first_requests"));
        assert!(first > 5000 && requests > 3 * first && shown["curve"]["sampling"] == 0, "{shown:#}");
        // The most that any request needs: with a block less one is missed.
        let points = shown["curve"]["points"].as_array().unwrap();
        let edge_kb = BUFFERS_KB + points.last().unwrap()["blocks"].as_u64().unwrap() * 8;
        let memory = |kb: u64| format!("memory={kb}kB");
        let cases = [memory(BUFFERS_KB), memory(BUFFERS_KB + 16384), memory(edge_kb - 8), memory(edge_kb), memory(edge_kb * 4)];
        let mut arguments = vec!["predict", "--film", "passes", "riops=3000", "--json"];
        cases.iter().for_each(|case| arguments.extend(["--what-if", case]));
        let told = server.pgthaw(&arguments).ok().json();
        let [now, none, little, short, edge, ample] = told["cases"].as_array().unwrap().as_slice() else {
            panic!("{told:#}")
        };
        assert!(told["assumptions"].to_string().contains("8 MB of the memory are shared_buffers"), "{told:#}");
        assert_eq!(number(edge, "/missed_requests"), first, "{told:#}");
        assert_eq!(number(ample, "/missed_requests"), first);
        assert_eq!(seconds(ample), seconds(edge));
        assert_eq!(number(now, "/missed_requests"), first, "this machine has more: {told:#}");
        assert!(number(short, "/missed_requests") > first, "{told:#}");
        assert!(number(little, "/missed_requests") > 2 * first, "{told:#}");
        assert_eq!(number(none, "/missed_requests"), requests, "{told:#}");
        for (more, less) in [(none, little), (little, short), (short, edge)] {
            assert!(seconds(more) > seconds(less) && number(more, "/device_reads") >= number(less, "/device_reads"));
        }
        // It was cold, so it is forecast to take what it took.
        if told["costs"]["source"] == "counted" {
            let recorded = seconds(&told["recorded"]);
            assert!((0.95..1.3).contains(&(seconds(now) / recorded)), "{told:#}");
            let reads = number(now, "/device_reads") as f64 / number(&told, "/recorded/device_reads") as f64;
            assert!((0.95..1.3).contains(&reads), "{told:#}");
        }
        let text = server.pgthaw(&["predict", "--film", "passes", "--what-if", "memory=24MiB"]).ok().stdout;
        for part in ["of page cache, almost no block", "memory=24MiB", "are the job's own", "now: "] {
            assert!(text.contains(part), "{part}: {text}");
        }
        what_a_film_cannot_tell_is_refused(&server);
    }
}

/// Of the film `passes`.
fn what_a_film_cannot_tell_is_refused(server: &TestServer) {
    for (arguments, message) in [
        (vec!["--film", "nobody"], "no film in"),
        (vec!["--film", "passes", "--what-if", "riops=500"], "another memory size, but not riops=500"),
        (vec!["--film", "passes", "--what-if", "memory=1kB"], "1 MB or more"),
        (vec!["--film", "passes", "--what-if", "memory=4MB"], "shared_buffers of 8 MB do not fit into 4 MB"),
        (vec!["--film", "passes", "clients=4"], "another memory size, but not clients=4"),
    ] {
        let told = server.pgthaw(&[&["predict"], &arguments[..]].concat()).ends_with(2).stderr;
        assert!(told.contains(message), "{message}: {told}");
    }
    server.pgthaw(&["film", "record", "--source", "polling", "--seconds", "1", "--like", "looked"]).ok();
    let told = server.pgthaw(&["predict", "--film", "looked"]).ends_with(2).stderr;
    assert!(told.contains("the loaded pages") && told.contains("--source bpf -- COMMAND"), "{told}");
    let file = server.home().join("no_film.parquet");
    std::fs::write(&file, "a letter").unwrap();
    let told = server.pgthaw(&["predict", "--film", file.to_str().unwrap()]).ends_with(2).stderr;
    assert!(told.contains("is not a film"), "{told}");
}

#[test]
fn a_cold_run_of_several_processes_takes_no_less_than_a_warm_one() {
    needs_root!();
    let server = server(servers::newest());
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let several = "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0";
    let sorts = "SELECT max(length(m)) FROM (SELECT md5(string_agg(body, '')) AS m FROM t GROUP BY i % 10) AS hashed; SELECT count(*) FROM t AS a, t AS b WHERE md5(a.body) = b.body";
    let job = format!("{several}; {sorts}");
    server.psql("SELECT sum(length(body)) FROM t");
    let recorded = server.pgthaw(&["run", "--record-only", "--like", "several", "--json", "--", &psql, "-XAtqc", &job]);
    if !is_seen(&film(&recorded.ok())) {
        untested!("the kernel takes no program here");
    }
    let told = server.pgthaw(&["predict", "--film", "several", "riops=3000", "--json"]).ok().json();
    let (cold, recorded) = (seconds(&told["cases"][0]), seconds(&told["recorded"]));
    let own = told["costs"]["own_seconds"].as_f64().unwrap();
    assert!(cold >= 0.99 * recorded && own <= 1.01 * recorded, "{told:#}");
}

#[test]
fn a_film_is_forecast_without_its_server() {
    needs_root!();
    let mut server = servers::start_any(&[("shared_buffers", "8MB")]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('t', 1500) AS body FROM generate_series(0, 9999) AS i");
    let (psql, file) = (server.command_of("psql"), server.home().join("film.parquet"));
    let (psql, file) = (psql.get_program().to_str().unwrap(), file.to_str().unwrap());
    let job = "SELECT count(body) FROM t; SELECT count(body) FROM t";
    let recorded =
        film(&server.pgthaw(&["run", "--record-only", "-o", file, "--json", "--", psql, "-XAtqc", job]).ok());
    if !is_seen(&recorded) {
        untested!("the kernel takes no program here");
    }
    let predict = ["predict", "--film", file, "--what-if", "memory=1GiB", "--json"];
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let alone = Home::new().pgthaw(&predict).ok().json();
    assert!(alone["assumptions"].to_string().contains("the memory does not include shared_buffers"), "{alone:#}");
    assert_eq!(alone["costs"]["source"], "warm", "it was just made: {alone:#}");
    assert_eq!(
        number(&alone["cases"][0], "/page_cache_bytes"),
        1 << 30,
        "of this machine's memory nothing is said: {alone:#}"
    );
    let nothing = Home::new().pgthaw(&["predict", "--film", file]).ok().stdout;
    for part in ["enough", "missed requests", "give memory=SIZE", "-D DIRECTORY"] {
        assert!(nothing.contains(part), "{part}: {nothing}");
    }
    let told = Home::new().pgthaw(&["predict", "--film", file, "memory=1GiB"]).ok().stdout;
    assert!(told.contains("memory=1 GB") && !told.contains("now: ") && !told.contains("SIZE"), "{told}");
    let directory = server.data_directory();
    let stopped = [&predict[..], &["-D", directory.to_str().unwrap()]].concat();
    // The server's own program reads its configuration.
    let programs = Path::new(psql).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let home = Home::new();
    let stopped = servers::output_of(home.command(&stopped).env("PATH", path)).ok().json();
    assert_eq!(number(&stopped["cases"][1], "/page_cache_bytes"), (1 << 30) - (8 << 20), "{stopped:#}");
    let other = servers::start_new(15, &[]);
    let mut command = other.command(&["predict", "--film", file, "-D", other.data_directory().to_str().unwrap()]);
    let told = servers::Output::from(command.stdin(Stdio::null()).output().unwrap()).ends_with(2).stderr;
    assert!(told.contains("of another cluster"), "{told}");
}

#[test]
fn what_a_job_fetches_again_is_counted() {
    needs_root!();
    let mut server = servers::start_any(&[("shared_buffers", "8MB")]);
    server.psql("CREATE TABLE t AS SELECT i, repeat('t', 1500) AS body FROM generate_series(0, 19999) AS i");
    make_cold(&mut server);
    let bytes: u64 = server.psql("SELECT pg_relation_size('t')").parse().unwrap();
    let psql = server.command_of("psql").get_program().to_str().unwrap().to_owned();
    let scan = format!("{psql} -XAtqc 'SELECT count(body) FROM t'");
    let evict = format!("{} evict --all --tier os -q", env!("CARGO_BIN_EXE_pgthaw"));
    let again = |job: &str| film(&server.pgthaw(&["run", "--record-only", "--json", "--", "sh", "-c", job]).ok());
    let once = again(&format!("{scan}; {scan}"));
    if !is_seen(&once) {
        untested!("the kernel takes no program here");
    }
    assert!(number(&once, "/fetched_again_bytes") < bytes / 100, "{once:#}");
    let twice = again(&format!("{evict}; {scan}; {evict}; {scan}"));
    let ratio = number(&twice, "/fetched_again_bytes") as f64 / bytes as f64;
    assert!((0.9..1.2).contains(&ratio), "{twice:#}");
    let shown = server.pgthaw(&["film", "show", "newest"]).ok().stdout;
    assert!(shown.contains("fetched again"), "{shown}");
}
