//! `pgthaw predict`: from bare numbers the source's own case, a device with limits, what would be if.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::servers::{self, Home, TestServer};

const SOURCE: [&str; 5] = ["predict", "pages=163968", "pages=27392", "miss=4.7ms", "hit=0.22ms"];

fn predict(more: &[&str]) -> Value {
    Home::new().pgthaw(&[&SOURCE[..], more, &["--json"]].concat()).ok().json()
}

fn seconds(scenario: &Value, field: &str) -> f64 {
    scenario[field]["seconds"].as_f64().unwrap_or_else(|| panic!("{field}: {scenario}"))
}

#[test]
fn the_case_of_the_source_is_drawn_again() {
    let prediction = predict(&["clients=1"]);
    let knee = &prediction["knees"]["simple"]["by_transaction"];
    assert_eq!(knee["transaction"].as_f64().unwrap().round(), 576_711.0);
    assert_eq!(knee["seconds"].as_f64().unwrap().round(), 942.0);
    let (both, simple) = (&prediction["scenarios"][0], &prediction["scenarios"][1]);
    // Half of the steady throughput is where the closed form's knee is.
    assert!((seconds(simple, "to_50_seconds") / 942.0 - 1.0).abs() < 0.002, "{simple}");
    // The blue curve begins slower than the red one and is steeper: 15.5 and 17.4 minutes.
    assert!((both["cold_tps"].as_f64().unwrap() / 108.9 - 1.0).abs() < 0.002, "{both}");
    assert!((simple["cold_tps"].as_f64().unwrap() / 212.8 - 1.0).abs() < 0.002, "{simple}");
    assert!((seconds(both, "to_50_seconds") / 930.0 - 1.0).abs() < 0.002, "{both}");
    assert!((seconds(both, "to_90_seconds") / 1041.0 - 1.0).abs() < 0.002, "{both}");
    assert!(both["points"].as_array().unwrap().len() > 50);
    let text = Home::new().pgthaw(&SOURCE).ok().stdout;
    for part in [
        "191360 pages x 4.70 ms = 15.0 min",
        "cold restart: 50 % of 4545 tps after",
        "as one relation",
        "throughput rises most steeply at transaction 576711",
        "\nassumed:\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn limits_bring_a_restore_and_cases_to_compare() {
    // So many that the device is at its limit, whatever a read takes.
    let limits = ["clients=32", "cores=2", "riops=3000", "rbps=125MiB"];
    let cases = ["--what-if", "riops=10000", "--what-if", "memory=500MiB,clients=16"];
    let prediction = predict(&[&limits[..], &cases[..]].concat());
    let scenarios = prediction["scenarios"].as_array().unwrap();
    let names: Vec<&str> = scenarios.iter().map(|one| one["name"].as_str().unwrap()).collect();
    let expected = [
        "cold restart",
        "with a restore",
        "riops=10000, restore",
        "riops=10000",
        "memory=500MiB,clients=16, restore",
        "memory=500MiB,clients=16",
    ];
    assert_eq!(names, expected);
    let warm = |place: usize| seconds(&scenarios[place], "warm_after_seconds");
    assert!(warm(1) < warm(0) && warm(3) < warm(0), "{} {} {}", warm(0), warm(1), warm(3));
    // 1.5 GB at 125 MiB/s are 12 s.
    assert!((11.0..16.0).contains(&warm(1)), "{}", warm(1));
    assert!(scenarios[5]["warm_after_seconds"].is_null(), "a cache of a third of the data is never warm");
    assert!(prediction["knees"].is_null());
}

/// shared_buffers are a part of the memory: what is in both tiers is held twice.
#[test]
fn larger_shared_buffers_are_no_additional_memory() {
    let numbers = ["predict", "pages=1000000", "riops=3000", "rbps=125MiB", "hit=0.1ms"];
    let machine = ["clients=8", "cores=2", "memory=4GiB", "--json"];
    let steady = |case: &str| {
        let prediction = Home::new().pgthaw(&[&numbers[..], &machine, &["--what-if", case]].concat()).ok().json();
        let scenarios = prediction["scenarios"].as_array().unwrap().clone();
        let tps = |place: usize| scenarios[place]["steady_tps"].as_f64().unwrap();
        (tps(0), tps(scenarios.len() - 1))
    };
    let (base, half) = steady("shared_buffers=2GiB");
    assert!(half < 0.95 * base, "{base} {half}");
    // All or nearly nothing of the memory: one tier.
    for case in ["shared_buffers=4GiB", "shared_buffers=8MiB"] {
        let (base, changed) = steady(case);
        assert!((changed / base - 1.0).abs() < 0.02, "{case}: {base} {changed}");
    }
    let (_, larger) = steady("shared_buffers=2GiB,memory=16GiB");
    assert!(larger > 2.0 * base, "{base} {larger}");
    let refused = [&numbers[..], &machine, &["--what-if", "shared_buffers=5GiB"]].concat();
    let refused = Home::new().pgthaw(&refused).ends_with(2);
    assert!(refused.stderr.contains("do not fit into 4"), "{}", refused.stderr);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    for (arguments, message) in [
        (vec!["predict", "pages=0", "miss=2ms", "hit=1ms"], "must be a number above 0"),
        (vec!["predict", "pages=nan", "miss=2ms", "hit=1ms"], "must be a number above 0"),
        (vec!["predict", "pages=5", "miss=1ms", "hit=2ms"], "cannot take less time"),
        (vec!["predict", "pages=5", "miss=fast", "hit=2ms"], "write a time above 0"),
        (vec!["predict", "pages=5", "hit=2ms", "riops=0"], "must be a number above 0"),
        (vec!["predict", "pages=1e12", "miss=2ms", "hit=1ms"], "must be from 1 to 4294967295 blocks"),
        (vec!["predict", "pages=4e9", "miss=3600s", "hit=3599s"], "take more than a hundred years"),
        (vec!["predict", "pages=5", "hit=2ms"], "the time of a read is unknown"),
        (vec!["predict", "pages=5"], "hit=0.22ms"),
        (vec!["predict", "pages=5", "miss=2ms", "hit=1ms", "--what-if", "luck=1"], "there is no figure"),
        (vec!["predict", "pages=5", "miss=2ms", "hit=1ms", "--what-if", "miss=1s"], "cannot change"),
        (vec!["predict", "pages=5", "miss=2ms", "hit=1ms", "popularity=zipf"], "write uniform"),
    ] {
        let output = home.pgthaw(&arguments).ends_with(2);
        assert!(output.stderr.contains(message), "{message}: {}", output.stderr);
    }
}

fn pgbench(server: &TestServer, version: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new(servers::programs(version).path("pgbench").unwrap());
    let options = server.cluster.connect_options("postgres");
    command.env("PGHOST", options.host.unwrap()).env("PGPORT", options.port.unwrap().to_string());
    command.env("PGUSER", options.user.unwrap()).args(arguments).arg("postgres");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A load that ends with the test.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

test_every_version! {
    fn a_running_server_is_watched(version) {
        let server = servers::start(version, &[]);
        assert!(pgbench(&server, version, &["-i", "-q", "-s", "2"]).status().unwrap().success());
        server.psql("VACUUM ANALYZE pgbench_accounts");
        let idle = server.pgthaw(&["predict", "--seconds", "1", "-d", "postgres"]).ends_with(2);
        assert!(idle.stderr.contains("is idle"), "{}", idle.stderr);
        let load = Load(pgbench(&server, version, &["-S", "-c", "2", "-T", "60"]).spawn().unwrap());
        let arguments = ["predict", "-d", "postgres", "--seconds", "3", "riops=100", "rbps=10MiB"];
        let prediction = server.pgthaw(&[&arguments[..], &["--what-if", "riops=1000", "--json"]].concat()).ok().json();
        drop(load);
        let [cold, restore, _, faster] = &prediction["scenarios"].as_array().unwrap()[..] else {
            panic!("{prediction}");
        };
        // 3828 blocks at 100 reads/s are tens of seconds, and 30 MB at 10 MiB/s are three.
        let warm = |scenario: &Value| seconds(scenario, "warm_after_seconds");
        assert!((20.0..120.0).contains(&warm(cold)), "{cold}");
        assert!((2.5..8.0).contains(&warm(restore)), "{restore}");
        assert!(warm(faster) < 0.3 * warm(cold), "{faster}");
        let assumptions = prediction["assumptions"].to_string();
        for part in ["were observed for 3 s", "100 reads/s", "there is no snapshot", "2 clients"] {
            assert!(assumptions.contains(part), "{part}: {assumptions}");
        }
    }
}

/// By the server's counters alone: each script runs while it is watched.
#[test]
fn ranges_and_scans_are_told_from_points_and_what_is_not_known_is_refused() {
    let server = servers::start_any(&[("max_parallel_workers_per_gather", "0")]);
    let version = servers::servers().last().unwrap().0;
    assert!(pgbench(&server, version, &["-i", "-q", "-s", "2"]).status().unwrap().success());
    server.psql("CREATE TABLE small AS SELECT i, repeat('x', 100) AS note FROM generate_series(1, 6000) i");
    server.psql("VACUUM ANALYZE pgbench_accounts, small");
    let watch = |statement: &str, json: bool| {
        let script = server.home.path().join("script.sql");
        std::fs::write(&script, format!("\\set aid random(1, 199000)\n{statement};\n")).unwrap();
        let load = ["-n", "-c", "2", "-T", "60", "-f", script.to_str().unwrap()];
        let _load = Load(pgbench(&server, version, &load).spawn().unwrap());
        let device = ["riops=1000", "rbps=100MiB", "tps=500"];
        let arguments = ["predict", "-d", "postgres", "--seconds", "3"];
        server.pgthaw(&[&arguments[..], &device, if json { &["--json"] } else { &[] }].concat())
    };
    let range = "SELECT aid, abalance FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 599";
    let prediction = watch(range, true).ok().json();
    let class = |name: &str| {
        let classes = prediction["classes"].as_array().unwrap();
        classes.iter().find(|class| class["name"] == name).unwrap_or_else(|| panic!("{name}: {prediction}")).clone()
    };
    // 600 rows of 61 a block begin in the middle of one, and 366 entries are on a leaf.
    let (rows, leaves) = (class("public.pgbench_accounts"), class("public.pgbench_accounts_pkey"));
    assert!(rows["kind"] == "range" && leaves["kind"] == "range", "{rows} {leaves}");
    assert!((10.0..12.0).contains(&rows["run_blocks"].as_f64().unwrap()), "{rows}");
    assert!((2.0..3.5).contains(&leaves["run_blocks"].as_f64().unwrap()), "{leaves}");
    assert!((0.9..1.1).contains(&rows["runs_per_transaction"].as_f64().unwrap()), "{rows}");
    // Each statement is a transaction.
    let both = watch(
        "SELECT count(*) FROM small WHERE note LIKE '%y%'; SELECT abalance FROM pgbench_accounts WHERE aid = :aid",
        false,
    );
    let text = both.ok().stdout;
    assert!(text.contains("public.small: ") && text.contains(" full scans per transaction"), "{text}");
    for after in [" full scans per transaction", " single blocks per transaction"] {
        // At the ends of what was watched one of two statements may be missing.
        let often = text.split(after).next().and_then(|before| before.rsplit(' ').next()?.parse::<f64>().ok());
        assert!(often.is_some_and(|often| (0.45..0.55).contains(&often)), "{after}: {text}");
    }
    let by_ctid = "SELECT abalance FROM pgbench_accounts WHERE ctid = ('(' || :aid / 61 || ',1)')::tid";
    let refused = watch(by_ctid, false).ends_with(2);
    for part in ["the access pattern of public.pgbench_accounts is unknown", "by ctid, TABLESAMPLE", "pages="] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[test]
fn a_snapshot_says_what_is_popular() {
    let server = servers::start_any(&[]);
    let version = servers::servers().last().unwrap().0;
    assert!(pgbench(&server, version, &["-i", "-q", "-s", "2"]).status().unwrap().success());
    server.psql("VACUUM ANALYZE pgbench_accounts");
    // Each of the table's 3279 blocks and of its index's 549 several times.
    assert!(pgbench(&server, version, &["-S", "-t", "15000"]).status().unwrap().success());
    let taken = server.pgthaw(&["snapshot", "take", "--json"]).ok().json();
    // Idle by now: what the statistics have counted is taken.
    let predict = || {
        let arguments = ["predict", "-d", "postgres", "--seconds", "2", "hit=0.2ms", "--json"];
        server.pgthaw(&arguments).ok().json()
    };
    let prediction = predict();
    let assumptions = prediction["assumptions"].to_string();
    assert!(
        assumptions.contains("popularity and restore by snapshot") && assumptions.contains("is idle"),
        "{assumptions}"
    );
    assert!(seconds(&prediction["scenarios"][0], "warm_after_seconds") > 0.0);
    std::fs::write(taken["path"].as_str().unwrap(), "").unwrap();
    let assumptions = predict()["assumptions"].to_string();
    assert!(
        assumptions.contains("no snapshot of this cluster can be read") && assumptions.contains("is empty"),
        "{assumptions}"
    );
}

#[test]
fn a_stopped_server_is_forecast_from_its_files_and_its_snapshot() {
    let mut server = servers::start_any(&[]);
    let version = servers::servers().last().unwrap().0;
    assert!(pgbench(&server, version, &["-i", "-q", "-s", "2"]).status().unwrap().success());
    server.psql("VACUUM ANALYZE pgbench_accounts");
    assert!(pgbench(&server, version, &["-S", "-t", "2000"]).status().unwrap().success());
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let stopped = ["predict", "-D", directory.to_str().unwrap()];
    let refused = server.home.pgthaw(&stopped).ends_with(2);
    assert!(refused.stderr.contains("requires a running server or a snapshot"), "{}", refused.stderr);
    server.cluster.start().unwrap();
    assert!(pgbench(&server, version, &["-S", "-t", "2000"]).status().unwrap().success());
    server.pgthaw(&["snapshot", "take"]).ok();
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let refused = server.home.pgthaw(&stopped).ends_with(2);
    assert!(refused.stderr.contains("the server is not running, so the time"), "{}", refused.stderr);
    let told = ["hit=0.2ms", "clients=4", "riops=1000", "rbps=100MiB", "--json"];
    let prediction = server.home.pgthaw(&[&stopped[..], &told].concat()).ok().json();
    let assumptions = prediction["assumptions"].to_string();
    assert!(
        assumptions.contains("the server is not running") && assumptions.contains("restore by snapshot "),
        "{assumptions}"
    );
    // The two relations have 3828 blocks.
    let [cold, restore] = &prediction["scenarios"].as_array().unwrap()[..] else { panic!("{prediction}") };
    assert!((1.5..10.0).contains(&seconds(cold, "warm_after_seconds")), "{cold}");
    assert!(seconds(restore, "warm_after_seconds") < 0.5 * seconds(cold, "warm_after_seconds"), "{restore}");
}

/// What a forecast says of each class: its name, and how often a transaction asks for it.
fn asked_for(prediction: &Value, name: &str) -> f64 {
    let classes = prediction["classes"].as_array().unwrap();
    let found = classes.iter().find(|class| class["name"] == name).unwrap_or_else(|| panic!("{name}: {prediction}"));
    found["runs_per_transaction"].as_f64().unwrap()
}

/// A server with 8197 blocks of accounts and 1373 of their index, just loaded, and a script that asks for the first accounts most often.
fn loaded_server() -> (TestServer, u32, String) {
    let server = servers::start_any(&[]);
    let version = servers::servers().last().unwrap().0;
    server.psql("CREATE EXTENSION pg_buffercache");
    assert!(pgbench(&server, version, &["-i", "-q", "-s", "5"]).status().unwrap().success());
    let script = server.home.path().join("first_ones.sql");
    let lines =
        "\\set aid random_exponential(1, 500000, 30)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
    std::fs::write(&script, lines).unwrap();
    let script = script.to_str().unwrap().to_owned();
    (server, version, script)
}

#[test]
fn the_heat_that_a_load_left_is_not_the_workloads() {
    let (server, version, script) = loaded_server();
    let skewed = ["-n", "-f", &script, "-c", "2"];
    server.pgthaw(&["snapshot", "take", "--label", "load"]).ok();
    let load = Load(pgbench(&server, version, &[&skewed[..], &["-T", "60"]].concat()).spawn().unwrap());
    let machine = ["tps=5000", "clients=2", "cores=2", "riops=1000", "rbps=20MiB"];
    let predict = |more: &[&str]| {
        let arguments = ["predict", "-d", "postgres", "--seconds", "2", "--json"];
        server.pgthaw(&[&arguments[..], &machine, more].concat()).ok().json()
    };
    let half = |prediction: &Value, scenario: usize| seconds(&prediction["scenarios"][scenario], "to_50_seconds");
    let uniform = predict(&["popularity=uniform"]);
    let after_load = predict(&[]);
    drop(load);
    // Who asks is not known, so all is taken to be asked for alike.
    let ratio = half(&after_load, 0) / half(&uniform, 0);
    assert!((0.9..1.1).contains(&ratio), "{ratio}: {after_load}");
    assert!(half(&after_load, 1) < half(&after_load, 0), "{after_load}");
    assert_eq!(after_load["remarks"].as_array().unwrap().len(), 0, "{after_load}");
    let told = after_load["assumptions"].to_string();
    for part in [
        "\"restore by snapshot ",
        "all blocks of public.pgbench_accounts and public.pgbench_accounts_pkey are assumed to be equally popular",
        "(0 lookups, ",
        "or give popularity=",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // With what readers asked for it is the heat's again.
    assert!(pgbench(&server, version, &[&skewed[..], &["-t", "10000"]].concat()).status().unwrap().success());
    server.pgthaw(&["snapshot", "take", "--label", "readers"]).ok();
    let _load = Load(pgbench(&server, version, &[&skewed[..], &["-T", "60"]].concat()).spawn().unwrap());
    let after_readers = predict(&[]);
    let told = after_readers["assumptions"].to_string();
    assert!(told.contains("popularity and restore by snapshot ") && told.contains("-readers,"), "{told}");
    assert!(!told.contains("equally popular"), "{told}");
    assert!(half(&after_readers, 0) < 0.6 * half(&uniform, 0), "{} {after_readers}", half(&uniform, 0));
}

/// A leaf and a row for each lookup, whoever left the heat.
#[test]
fn beside_a_stopped_server_relations_count_by_what_was_looked_up() {
    let (mut server, version, script) = loaded_server();
    let predict = |server: &TestServer, snapshots: &str| {
        let directory = server.data_directory();
        let machine = ["hit=0.2ms", "clients=4", "riops=1000", "rbps=20MiB"];
        let stopped = ["predict", "-D", directory.to_str().unwrap(), "--dir", snapshots, "--json"];
        let prediction = server.home.pgthaw(&[&stopped[..], &machine].concat()).ok().json();
        for name in ["public.pgbench_accounts", "public.pgbench_accounts_pkey"] {
            let asked = asked_for(&prediction, name);
            assert!((0.9..1.1).contains(&asked), "{name}: {asked}: {prediction}");
        }
        (seconds(&prediction["scenarios"][0], "to_50_seconds"), prediction["assumptions"].to_string())
    };
    server.pgthaw(&["snapshot", "take", "--dir", "load"]).ok();
    assert!(pgbench(&server, version, &["-n", "-f", &script, "-c", "2", "-t", "10000"]).status().unwrap().success());
    server.pgthaw(&["snapshot", "take", "--dir", "readers"]).ok();
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let (after_load, told) = predict(&server, "load");
    assert!(
        told.contains("half from tables and half from indexes") && told.contains("may stem from a bulk load"),
        "{told}"
    );
    let (after_readers, told) = predict(&server, "readers");
    assert!(told.contains("in proportion to the lookups in each relation") && !told.contains("bulk load"), "{told}");
    assert!(after_readers < 0.6 * after_load, "{after_readers} {after_load}");
}

#[test]
fn an_idle_servers_statements_say_what_a_transaction_takes() {
    let server = servers::start_any(&[("shared_preload_libraries", "pg_stat_statements")]);
    let version = servers::servers().last().unwrap().0;
    assert!(pgbench(&server, version, &["-i", "-q", "-s", "1"]).status().unwrap().success());
    server.psql("CREATE EXTENSION pg_stat_statements");
    assert!(pgbench(&server, version, &["-S", "-t", "2000"]).status().unwrap().success());
    let prediction = server.pgthaw(&["predict", "-d", "postgres", "--seconds", "2", "--json"]).ok().json();
    assert!(
        prediction["assumptions"].to_string().contains("calls in pg_stat_statements counts as one"),
        "{prediction}"
    );
    let steady = prediction["scenarios"][0]["steady_tps"].as_f64().unwrap();
    assert!(steady > 100.0, "{steady}");
}

#[test]
fn a_database_is_named_as_of_map() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE shop");
    let told = |words: &[&str]| server.pgthaw(&[&["predict", "--seconds", "1"], words].concat()).ends_with(2).stderr;
    // Of an idle one there is no forecast; what it says is of the database.
    for words in [&["shop"][..], &["-d", "shop"], &["riops=1000", "shop", "postgres"], &["dbname=shop user=postgres"]] {
        let told = told(words);
        assert!(told.contains("shop") && told.contains("idle") && !told.contains("KEY=VALUE"), "{words:?}: {told}");
    }
    let absent = server.pgthaw(&["predict", "nowhere"]).ends_with(1).stderr;
    assert!(absent.contains("\"nowhere\" does not exist"), "{absent}");
    assert!(told(&["shop", "postgres", "third"]).contains("\"third\" is not KEY=VALUE"));
}

#[test]
fn without_a_server_there_is_no_forecast_of_one() {
    let mut server = servers::start_any(&[]);
    server.cluster.stop(postgres::StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let stopped = Home::new().pgthaw(&["predict", "-D", directory.to_str().unwrap()]).ends_with(2);
    assert!(
        stopped.stderr.contains("requires a running server or a snapshot") && stopped.stderr.contains("pages="),
        "{}",
        stopped.stderr
    );
}
