//! `bench` of a study file from end to end: what is kept of each trial, going on after a kill, and studies that make no sense.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::bench::{Place, text};
use super::servers::{Home, Output};

/// A study file in the home directory.
pub fn spec(home: &Home, text: &str) -> PathBuf {
    let path = home.path().join("study.toml");
    fs::write(&path, text).unwrap();
    path
}

pub fn sweep(place: &Place, home: &Home, version: u32, spec: &str, more: &[&str]) -> Command {
    place.command(home, version, &[["bench", spec].as_slice(), more].concat())
}

pub fn trials(printed: &Value) -> &Vec<Value> {
    printed["trials"].as_array().unwrap()
}

test_every_version! {
    fn a_trial_keeps_all_that_was_counted(version) {
        let (home, place) = (Home::new(), Place::new());
        let study = "question = 'cold or <b>warm</b>?'\nrepeats = 1\n[points]\nclients = 2\nseconds = 3\n\
                     script = { select-only = 1, simple-update = 1 }\nstart = ['cold', 'warm']\n\
                     [settings]\nwork_mem = '5MB'\nshared_buffers = '16MB'\n";
        let path = spec(&home, study);
        let child = sweep(&place, &home, version, path.to_str().unwrap(), &["--json"]);
        let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
        place.assert_nothing_is_left(pid);

        assert!(printed["sweep"]["ended_at"].is_string());
        assert_eq!(printed["sweep"]["varied"], json!(["start"]));
        assert_eq!(trials(&printed).len(), 2);
        trials(&printed).iter().for_each(check_trial);
        check_verdicts(&printed["sweep"]["verdicts"], &printed["sweep"]["warnings"]);
        assert!(has_kind(&printed["sweep"]["verdicts"], "one_repeat"));
        assert!(printed["sweep"]["generator"][0]["tps"].as_f64().unwrap() > 0.0, "{}", printed["sweep"]["generator"]);
        let configuration = printed["sweep"]["configuration"].as_array().unwrap();
        assert!(configuration.iter().any(|one| one["name"] == "autovacuum" && one["value"] == "off"));
        let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
        assert!(kept == printed, "what was kept differs from what was printed");
        let shown = home.pgthaw(&["results", "show", text(&printed, "/sweep/id")]).ok();
        assert!(shown.stdout.contains("p50 ms") && shown.stdout.contains("<b>warm</b>"), "{}", shown.stdout);
        let listed = home.pgthaw(&["results", "--json"]).ok().json();
        assert_eq!(listed["studies"][0]["trials"], 2);
    }
}

/// Each begins with the load on a cold server, and says what it did.
#[test]
fn cold_servers_are_warmed_by_what_the_study_names() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(
        &home,
        "repeats = 1\n[points]\nscale = 2\nseconds = 15\nrate = 2000\nstart = 'cold'\n\
         strategy = ['nothing', 'cat', 'autoprewarm', 'pgthaw']\n[settings]\nshared_buffers = '64MB'\n",
    );
    let output = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap();
    let printed = Output::from(output).ok().json();
    assert_eq!(printed["sweep"]["varied"], json!(["strategy"]));
    let of = |name: &str| trials(&printed).iter().find(|one| one["point"]["strategy"] == name).unwrap();
    assert!(of("nothing")["strategy_outcome"].is_null());
    let resident =
        |name: &str| of(name)["samples"].as_array().unwrap().last().unwrap()["os_resident_bytes"].as_u64().unwrap();
    for (name, command) in [("cat", "cat"), ("autoprewarm", "shared_preload_libraries"), ("pgthaw", "restore")] {
        let outcome = &of(name)["strategy_outcome"];
        assert!(text(outcome, "/command").contains(command) && outcome["failure"].is_null(), "{outcome}");
        assert!(outcome["ended_after_seconds"].as_f64().is_some(), "{name}: {outcome}");
        assert_eq!(of(name)["start_state"]["verdict"], "cold", "{name}");
        // autoprewarm brings back what was in shared_buffers, which saw the workload alone.
        let share = if name == "autoprewarm" { 0.4 } else { 0.9 };
        assert!(resident(name) as f64 > share * resident("cat") as f64, "{name} left {}", resident(name));
    }
    let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert!(kept == printed, "what was kept differs from what was printed");
}

/// A report that is waited for: what it reads is brought in first, and the times of both add up.
#[test]
fn a_job_waits_for_what_warms_its_server() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("accounts.sql"), "SELECT sum(abalance) FROM pgbench_accounts WHERE aid <= 100000;\n")
        .unwrap();
    fs::write(home.path().join("tellers.sql"), "SELECT sum(tbalance) FROM pgbench_tellers;\n").unwrap();
    let text_of = |begins: &str| {
        format!(
            "repeats = 1\nwanted = 'script'\n[points]\nscale = 5\nscript = ['accounts.sql', 'tellers.sql']\ntransactions = 1\n\
             start = 'cold'\nstrategy = ['nothing', 'pgthaw']\nload_begins = '{begins}'\ndisk = 'gp3'\n"
        )
    };
    let path = spec(&home, &text_of("after-warmer"));
    let output = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap();
    let printed = Output::from(output).ok().json();
    let of = |script: &str, strategy: &str| {
        let is = |one: &&Value| one["point"]["script"] == script && one["point"]["strategy"] == strategy;
        let trial = trials(&printed).iter().find(is).unwrap();
        assert_eq!((&trial["failure"], &trial["transactions"]), (&Value::Null, &json!(1)), "{script} {strategy}");
        trial
    };
    let seconds = |trial: &Value, key: &str| trial["warming"]["job"][key].as_f64();
    for script in ["accounts.sql", "tellers.sql"] {
        let (alone, after) = (of(script, "nothing"), of(script, "pgthaw"));
        assert_eq!(seconds(alone, "warmer_seconds"), None);
        assert_eq!(seconds(alone, "load_seconds"), seconds(alone, "whole_seconds"));
        let [warmer, load, whole] =
            ["warmer_seconds", "load_seconds", "whole_seconds"].map(|key| seconds(after, key).unwrap());
        assert!(warmer > 0.0 && load > 0.0, "{script}: {warmer} {load}");
        // Between the end of the one and the beginning of the other somebody has to look.
        assert!((0.0..0.5).contains(&(whole - warmer - load)), "{script}: {warmer} + {load} is not {whole}");
    }
    // Of each script what it reads, and nothing else: 13,100 blocks of accounts would be 100 MB.
    let issued = |script: &str| of(script, "pgthaw")["strategy_outcome"]["issued_bytes"].as_u64().unwrap();
    assert!(issued("accounts.sql") > 12 << 20, "{}", issued("accounts.sql"));
    assert!(issued("tellers.sql") < 12 << 20, "{}", issued("tellers.sql"));
    let shown = home.pgthaw(&["results", "show"]).ok();
    assert!(shown.stdout.contains("in all, s"), "{}", shown.stdout);
    let compared =
        home.pgthaw(&["results", "compare", "--metric", "whole", "strategy=nothing", "strategy=pgthaw"]).ok();
    assert!(compared.stdout.contains("whole of B against A"), "{}", compared.stdout);
}

test_every_version! {
    fn a_setting_is_in_force_however_it_is_written_and_none_stops_pgthaw(version) {
        let (home, place) = (Home::new(), Place::new());
        let study = "repeats = 1\n[points]\nseconds = 1\n[settings]\nshared_buffers = '0.03GB'\nwal_buffers = -1\n\
                     checkpoint_timeout = '1.5min'\nmax_wal_size = '1GB'\nwork_mem = '6144kB'\njit = 'FALSE'\n\
                     vacuum_cost_delay = '1500us'\nrandom_page_cost = 1.25\nlog_file_mode = '0640'\nwal_compression = '1'\n\
                     synchronous_commit = 'yes'\nsearch_path = '\"$user\",   public'\nautovacuum_work_mem = -1\n\
                     default_text_search_config = 'english'\nstatement_timeout = '1min'\n\
                     idle_in_transaction_session_timeout = '90s'\ndefault_transaction_read_only = true\n";
        let later = if version >= 14 { "idle_session_timeout = '1s'\n" } else { "" };
        let path = spec(&home, &format!("{study}{later}"));
        let output = sweep(&place, &home, version, path.to_str().unwrap(), &["--json"]).output().unwrap();
        let printed = Output::from(output).ok().json();
        let trial = &trials(&printed)[0];
        assert!(!has_kind(&trial["verdicts"], "not_in_force"), "{}", trial["verdicts"]);
        let settings = trial["settings"].as_array().unwrap();
        for read_back in [
            json!(["statement_timeout", "1min"]),
            json!(["default_transaction_read_only", "on"]),
            json!(["shared_buffers", "31MB"]),
        ] {
            assert!(settings.contains(&read_back), "{read_back} is not among {settings:?}");
        }
        assert!(later.is_empty() || settings.contains(&json!(["idle_session_timeout", "1000ms"])), "{settings:?}");
    }
}

fn check_trial(trial: &Value) {
    assert_eq!(trial["failure"], Value::Null, "{trial}");
    assert_eq!(trial["start_state"]["verdict"], trial["point"]["start"], "{}", trial["warnings"]);
    let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} is no count"));
    let transactions = count(&trial["transactions"]);
    assert!(transactions > 0 && trial["tps"].as_f64().unwrap() > 0.0, "{trial}");
    // pgbench's report, its log by scripts, and its log by seconds count the same.
    let scripts = trial["scripts"].as_array().unwrap();
    let names: Vec<&str> = scripts.iter().map(|script| text(script, "/script")).collect();
    assert_eq!(names, ["select-only", "simple-update"]);
    assert!(scripts.iter().all(|script| count(&script["answered"]) > 0 && script["service"].is_null()));
    assert_eq!(scripts.iter().map(|script| count(&script["response"]["count"])).sum::<u64>(), transactions);
    assert_eq!(count(&trial["latency"]["count"]), transactions);
    let samples = trial["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 3);
    let by_seconds: u64 = samples.iter().map(|sample| count(&sample["transactions"])).sum();
    // What ended after the last whole second belongs to none.
    assert!(by_seconds <= transactions && by_seconds > transactions / 2, "{by_seconds} of {transactions}");
    check_os_samples(trial);
    check_waits(trial);
    check_verdicts(&trial["verdicts"], &trial["warnings"]);
    assert!(!has_kind(&trial["verdicts"], "not_in_force"), "{}", trial["verdicts"]);
    assert!(!has_kind(&trial["verdicts"], "fsync_off") && !has_kind(&trial["verdicts"], "autovacuum"));
    // The server counts more than the workload alone.
    let database = &trial["statistics"]["pg_stat_database"][0]["added"];
    assert!(database["xact_commit"].as_f64().unwrap() >= transactions as f64, "{}", trial["statistics"]);
    let settings = trial["settings"].as_array().unwrap();
    for asked in [json!(["work_mem", "5MB"]), json!(["shared_buffers", "16MB"])] {
        assert!(settings.contains(&asked), "{settings:?}");
    }
    assert!(!trial["buffers_after"].as_array().unwrap().is_empty());
}

/// Every verdict has its kind, its sentence and its remedy, and its text stands among the warnings.
fn check_verdicts(verdicts: &Value, warnings: &Value) {
    let verdicts = verdicts.as_array().unwrap();
    assert_eq!(verdicts.len(), warnings.as_array().unwrap().len());
    for (verdict, warning) in verdicts.iter().zip(warnings.as_array().unwrap()) {
        assert!(!text(verdict, "/kind").is_empty());
        assert_eq!(warning.as_str().unwrap(), format!("{}: {}", text(verdict, "/sentence"), text(verdict, "/remedy")));
    }
}

fn has_kind(verdicts: &Value, kind: &str) -> bool {
    verdicts.as_array().unwrap().iter().any(|verdict| verdict["kind"] == kind)
}

/// What the server's processes were seen to do: in the mean as many client backends as there are clients.
fn check_waits(trial: &Value) {
    let looks = trial["waits"]["looks"].as_f64().unwrap();
    assert!(looks >= 6.0, "{}", trial["waits"]);
    let seen = |one: &Value| one["backend"] == "client backend";
    let waits = trial["waits"]["waits"].as_array().unwrap();
    let observed: f64 = waits.iter().filter(|one| seen(one)).map(|one| one["observed"].as_f64().unwrap()).sum();
    assert!((1.5..=2.0).contains(&(observed / looks)), "{}", trial["waits"]);
    let seconds = trial["wait_samples"].as_array().unwrap();
    assert_eq!(seconds.iter().map(|one| one["looks"].as_f64().unwrap()).sum::<f64>(), looks);
    assert!(trial["retries"] == 0 && trial["checkpoint_begun"].is_null(), "{trial}");
}

/// What the machine did: of each second, and the workload is seen in it.
fn check_os_samples(trial: &Value) {
    let seconds = trial["os_samples"].as_array().unwrap();
    assert_eq!(seconds.iter().map(|one| one["second"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    let sum = |pointer: &str| -> f64 {
        seconds.iter().map(|one| one.pointer(pointer).and_then(Value::as_f64).unwrap_or_default()).sum()
    };
    assert!(sum("/generator_threads/0/cpu_seconds") > 0.0, "{seconds:?}");
    assert!(sum("/server/client backend/cpu_seconds") > 0.0, "{seconds:?}");
    let is_counted = |part: &Value| part["involuntary_switches"].as_f64().is_some_and(|count| count >= 0.0);
    assert!(seconds.iter().all(|one| one["server"].as_object().unwrap().values().all(is_counted)), "{seconds:?}");
    // pgbench first asks for the scale in a session of its own, which a look may see; who has ended still counts.
    let backends = seconds[1]["server"]["client backend"]["tasks"].as_u64().unwrap();
    assert!((2..=3).contains(&backends), "{seconds:?}");
    assert_eq!(seconds[1]["server"]["checkpointer"]["tasks"], 1, "{seconds:?}");
    // What pgthaw does before a trial, such as opening its probe, is in none of its seconds.
    let own: Vec<f64> = seconds.iter().map(|one| one["pgthaw_cpu_seconds"].as_f64().unwrap()).collect();
    assert!(own.iter().all(|&cpu| cpu > 0.0) && own[0] < own[1..].iter().sum::<f64>(), "{own:?}");
    assert!(sum("/processors_busy_seconds") >= sum("/generator_threads/0/cpu_seconds"), "{seconds:?}");
    assert!(seconds.iter().all(|one| one["available_bytes"].as_u64().unwrap() > 0));
}

#[test]
fn a_trial_may_end_by_its_transactions_keep_a_rate_and_start_restored_or_as_it_is() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("wrong.sql"), "SELECT no_such_column FROM pgbench_accounts;\n").unwrap();
    let study = "repeats = 1\nseed = 1\n[points]\nclients = 2\ntransactions = 100\nrate = 400\n\
                 script = ['select-only', 'wrong.sql']\nstart = ['restored', 'as-is']\n[settings]\nwork_mem = ['5MB', '6MB']\n";
    let path = spec(&home, study);
    let output = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap();
    let printed = Output::from(output).ends_with(1).json();
    assert_eq!(trials(&printed).len(), 8);
    for trial in trials(&printed) {
        if text(trial, "/point/script") == "wrong.sql" {
            assert!(text(trial, "/failure").contains("no_such_column"), "{trial}");
            continue;
        }
        assert_eq!((&trial["failure"], &trial["transactions"]), (&Value::Null, &json!(200)), "{trial}");
        assert!(trial["scripts"][0]["service"]["count"] == 200, "{trial}");
        let asked = json!(["work_mem", trial["point"]["settings"][0][1]]);
        assert!(trial["settings"].as_array().unwrap().contains(&asked), "{trial}");
        if text(trial, "/point/start") == "restored" {
            assert_eq!(text(trial, "/start_state/verdict"), "restored", "{trial}");
        }
    }
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none());
}

#[test]
fn what_speaks_against_a_trial_is_found() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("setup.sql"), "ALTER ROLE pgthaw_workload SET work_mem = '7MB';\n").unwrap();
    let study = "repeats = 1\n[points]\nclients = 1\nseconds = 2\nrate = 20\nstart = 'as-is'\n\
                 [settings]\nfsync = 'off'\nwork_mem = '5MB'\nshared_buffers = '64MB'\nrandom_page_cost = 2\n\
                 [exceeds]\nshared_buffers = 1\n[database]\nsetup = 'setup.sql'\n\
                 commands = [['psql', '-XqU', 'postgres', '-c', 'ALTER SYSTEM SET random_page_cost = 3']]\n";
    let path = spec(&home, study);
    let output = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap();
    let printed = Output::from(output).ok().json();
    let verdicts = &trials(&printed)[0]["verdicts"];
    for kind in ["fsync_off", "fits_cache", "too_few_transactions", "not_in_force"] {
        assert!(has_kind(verdicts, kind), "{kind} is not among {verdicts}");
    }
    // At 20 transactions a second nobody is busy.
    assert!(!has_kind(verdicts, "generator_saturated"), "{verdicts}");
    let shown = home.pgthaw(&["results", "show", text(&printed, "/sweep/id")]).ok();
    assert!(
        shown.stdout.contains("fsync is off")
            && shown.stdout.contains("has set it to 7MB")
            && shown.stdout.contains("requested 2, but it is 3")
            && shown.stdout.contains("repeats = 3"),
        "{}",
        shown.stdout
    );
}

/// Runs until so many trials have ended, by what is printed.
pub fn run_until(mut command: Command, ended: usize) -> (Child, std::io::Lines<BufReader<ChildStderr>>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut seen = 0;
    while seen < ended {
        let line = lines.next().unwrap().unwrap();
        seen += usize::from(line.contains(" tps"));
    }
    (child, lines)
}

#[test]
fn an_interrupted_sweep_goes_on_and_no_trial_is_lost_or_doubled() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(&home, "repeats = 3\n[points]\nclients = [1, 2]\nseconds = 1\nstart = 'as-is'\n");
    let again = || sweep(&place, &home, 15, path.to_str().unwrap(), &[]);
    let stored = || home.pgthaw(&["results", "show", "--json"]).ok().json();
    // A person stops it: nothing is left but what was kept.
    let (child, lines) = run_until(again(), 1);
    let pid = child.id();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
    drop(lines);
    let output = Output::from(child.wait_with_output().unwrap()).ends_with(130);
    for part in ["of 6 trials", "the same `pgthaw bench` command resumes the study"] {
        assert!(output.stdout.contains(part), "{}", output.stdout);
    }
    place.assert_nothing_is_left(pid);
    let first = stored();
    assert!(!trials(&first).is_empty());

    // A power cut, as far as one process can have one: twice.
    let mut before = first.clone();
    for _ in 0..2 {
        let (mut child, _lines) = run_until(again(), 1);
        child.kill().unwrap();
        child.wait().unwrap();
        let now = stored();
        assert!(trials(&now).len() >= trials(&before).len());
        before = now;
    }
    let printed = Output::from(again().arg("--json").output().unwrap()).ok().json();
    assert_eq!(text(&printed, "/sweep/id"), text(&first, "/sweep/id"));
    let mut keys: Vec<String> =
        trials(&printed).iter().map(|one| format!("{} {}", one["number"], one["repeat"])).collect();
    keys.sort();
    assert_eq!(keys, ["0 1", "0 2", "0 3", "1 1", "1 2", "1 3"]);
    for kept in trials(&before) {
        assert!(trials(&printed).contains(kept), "a finished trial changed");
    }
    let left: Vec<_> = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let is_cluster = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("pgthaw-lab-");
    assert!(!left.iter().any(is_cluster), "a cluster is left: {left:?}");

    let listed = home.pgthaw(&["results", "--json"]).ok().json();
    assert_eq!(listed["studies"].as_array().unwrap().len(), 1);
    assert_eq!(listed["studies"][0]["trials"], 6);

    // Its blocks are pairs, and three of them are too few to show anything.
    let compared = home.pgthaw(&["results", "compare", "clients=1", "clients=2", "--json"]).ok().json();
    assert_eq!(compared["cells"][0]["ratio"]["pairs"], 3);
    let ratio = compared["cells"][0]["ratio"]["median"]["at_least"].as_f64().unwrap();
    let tps = |clients: u64| {
        let of = trials(&printed).iter().filter(|one| one["point"]["clients"] == clients);
        of.map(|one| one["tps"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let range =
        |values: Vec<f64>| values.iter().fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
    let ((low_1, high_1), (low_2, high_2)) = (range(tps(1)), range(tps(2)));
    assert!(ratio >= low_2 / high_1 && ratio <= high_2 / low_1, "{ratio}: {:?} {:?}", tps(1), tps(2));
    assert!(compared["cells"][0]["p"].as_f64().unwrap() >= 0.25);
    assert!(text(&compared, "/warnings/0").contains("3 pairs cannot show a difference"));
    let told = home.pgthaw(&["results", "compare", "clients=1", "clients=2", "--metric", "p99"]).ok().stdout;
    assert!(told.contains("p99 of B against A") && told.contains("the whole"), "{told}");
    // Made of the seconds, which trials have apart.
    let compared = ["results", "compare", "clients=1", "clients=2", "--json", "--metric"];
    let told = home.pgthaw(&[&compared[..], &["cpu-per-transaction"]].concat()).ok().json();
    assert_eq!(told["cells"][0]["ratio"]["pairs"], 3, "{told}");
    let nothing = home.pgthaw(&[&compared[..], &["skipped"]].concat()).ends_with(2).stderr;
    assert!(nothing.contains("with skipped above 0"), "{nothing}");
    let wrong = home.pgthaw(&["results", "compare", "clients=1", "clients=64"]).ends_with(2);
    assert!(wrong.stderr.contains("clients=64 matches no trial; the sweep varies clients"), "{}", wrong.stderr);
}

#[test]
fn a_study_of_equal_sides_tells_its_noise() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(&home, "repeats = 3\n[points]\nclients = [1, 2]\nseconds = 1\nrate = 100\nstart = 'as-is'\n");
    let output = sweep(&place, &home, 15, path.to_str().unwrap(), &["--aa", "--json"]).output().unwrap();
    let printed = Output::from(output).ok().json();
    assert_eq!(printed["sweep"]["varied"], json!(["clients", "side"]));
    assert_eq!(trials(&printed).len(), 12);
    let tps = &printed["points"][0]["tps"];
    assert_eq!((&tps["interval"]["low"], &tps["interval"]["high"]), (&tps["min"], &tps["max"]), "the range of three");
    assert_eq!(tps["interval"]["coverage"], 0.75);

    let noise = home.pgthaw(&["results", "compare", "--json"]).ok().json();
    let of_tps = &noise["noise"][0];
    assert_eq!(of_tps["metric"], "tps");
    let labels: Vec<&str> = of_tps["cells"].as_array().unwrap().iter().map(|cell| text(cell, "/label")).collect();
    assert_eq!(labels, ["clients 1", "clients 2"]);
    let floor = of_tps["floor"].as_f64().unwrap();
    assert!(floor >= 1.0 && of_tps["cells"][0]["ratio"]["pairs"] == 3, "{of_tps}");
    let told = home.pgthaw(&["results", "compare"]).ok().stdout;
    assert!(told.contains("noise floor") && told.contains("clients 2"), "{told}");

    let compared = home.pgthaw(&["results", "compare", "clients=1", "clients=2", "--json"]).ok().json();
    let labels: Vec<&str> = compared["cells"].as_array().unwrap().iter().map(|cell| text(cell, "/label")).collect();
    assert_eq!(labels, ["side A", "side A'"]);
    assert_eq!(compared["noise_floor"].as_f64(), Some(floor));
}

#[test]
fn a_dry_run_tells_what_would_happen_and_does_nothing() {
    let (home, place) = (Home::new(), Place::new());
    let path = spec(
        &home,
        "question = 'how large?'\nseed = 7\n[points]\nscale = [1, 10]\nclients = [1, 4]\nstart = 'cold'\ndisk = 'gp3'\n",
    );
    let dry = |more: &[&str]| {
        let arguments = [["--dry-run"].as_slice(), more].concat();
        Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &arguments).output().unwrap()).ok()
    };
    let plan = dry(&["--json"]).json();
    assert_eq!(plan["plan"]["points"].as_array().unwrap().len(), 4);
    assert_eq!(plan["plan"]["order"].as_array().unwrap().len(), 12);
    assert_eq!(plan["plan"]["order"], dry(&["--json"]).json()["plan"]["order"], "the seed decides");
    let warm: Vec<f64> = plan["plan"]["points"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["warm_after_seconds"].as_f64().unwrap())
        .collect();
    assert!(warm[2] > warm[0], "a larger database takes longer: {warm:?}");
    let told = dry(&[]).stdout;
    for part in ["how large?", "scale 10, clients 4", "4 points × 3 repeats = 12", "seed 7", "168 MB of databases"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The run chooses another seed than a plan could show.
    let without = dry(&["seed=", "--json"]).json();
    assert_eq!((&without["plan"]["seed"], &without["plan"]["order"]), (&Value::Null, &json!([])));
    let told = dry(&["seed="]).stdout;
    assert!(told.contains("4 points × 3 repeats = 12") && told.contains("order     random"), "{told}");
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none());
    assert!(!home.path().join("state/pgthaw/results.sqlite").exists());
}

#[test]
fn a_study_that_makes_no_sense_is_refused_before_anything_is_made() {
    let (home, place) = (Home::new(), Place::new());
    let refused = |text: &str, parts: &[&str]| {
        let path = spec(&home, text);
        let output = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &[]).output().unwrap()).ends_with(2);
        for part in parts {
            assert!(output.stderr.contains(part), "{part}: {}", output.stderr);
        }
    };
    refused("[points]\nscales = 1\n", &["study.toml", "scales", "expected one of", "docs/study-file.md"]);
    let thousand: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
    let list = thousand.join(",");
    refused(
        &format!("[points]\nscale=[{list}]\nclients=[{list}]\nseconds=[1,2,3,4,5,6,7,8,9,10]\n"),
        &["10000000 points", "at most 100000 trials"],
    );
    refused("[settings]\nport = 1\n", &["settings.port"]);
    refused("[points]\nseconds = 1\n[settings]\nwork_men = '4MB'\n", &["settings.work_men", "did you mean work_mem?"]);
    assert!(fs::read_dir(place.0.path()).unwrap().next().is_none());
}
