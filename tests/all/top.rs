//! `pgthaw top`: what is waited for is seen while it lasts, a record is what was shown, Prometheus gets what it reads, and a terminal is
//! given back.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::servers::{self, TestServer};
use crate::waits::can_probe;

/// Steps as lines of JSON.
fn steps_of(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// The statistics of a step whose names end so.
fn ending<'a>(step: &'a Value, name: &str) -> Vec<&'a Value> {
    let all = step["statistics"].as_array().unwrap();
    all.iter().filter(|one| one["name"].as_str().unwrap().ends_with(name)).collect()
}

/// SQL that runs beside, until it is dropped.
pub struct Beside(Child);

impl Beside {
    fn start(server: &TestServer, sql: &str) -> Beside {
        let mut psql = server.command_of("psql");
        Beside(psql.args(["-XAtq", "-d", "postgres", "-c", sql]).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_asleep(server: &TestServer) -> bool {
    server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
}

test_every_version! {
    fn a_wait_is_seen_while_it_lasts(version) {
        let server = servers::start(version, &[]);
        let _sleeper = Beside::start(&server, "SELECT pg_sleep(60)");
        while !is_asleep(&server) {}
        let steps = steps_of(&server.pgthaw(&["top", "--seconds", "3"]).ok().stdout);
        assert_eq!(steps.len(), 3);
        for step in &steps {
            let sleeps = ending(step, "client backend::Timeout::PgSleep");
            assert_eq!(sleeps.len(), 1, "{step}");
            let share = sleeps[0]["total_ns"].as_f64().unwrap() / step["length_ns"].as_f64().unwrap();
            // Looks are estimates, and a busy machine looks late.
            assert!((0.5..=1.5).contains(&share), "{share}: {step}");
            assert_eq!(step["failure"], Value::Null);
            assert!(step["cost"]["own_cpu_ns"].as_u64().unwrap() > 0, "{step}");
        }
        let last = &steps[2];
        if last["source"] == "bpf" {
            let sleep = ending(last, "client backend::Timeout::PgSleep")[0];
            assert_eq!((&sleep["open"], &sleep["count"]), (&Value::from(1), &Value::from(0)), "it is not counted before it ends");
            assert!(sleep["open_ns"].as_u64() > steps[0]["length_ns"].as_u64(), "{sleep}");
            assert!((last["explained"].as_f64().unwrap() - 1.0).abs() < 0.01, "{last}");
        }
        let server_steps: Vec<&Value> = steps.iter().map(|step| &step["server"]).filter(|one| !one.is_null()).collect();
        assert!(!server_steps.is_empty());
        // pgthaw's own sessions are no clients.
        assert!(server_steps.iter().all(|one| one["clients"] == 1 && one["active"] == 1), "{server_steps:?}");
        let checkpoint = steps.iter().rev().find(|step| !step["checkpoint"].is_null()).unwrap();
        assert_eq!(checkpoint["checkpoint"]["timeout_seconds"], 3600.0);
        assert_eq!(checkpoint["checkpoint"]["phase"], "idle");
    }
}

#[test]
fn transactions_hits_and_checkpoints_are_those_of_the_server() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT generate_series(1, 200000) AS i");
    let counted = || -> u64 { server.psql("SELECT sum(blks_hit + blks_read) FROM pg_stat_database").parse().unwrap() };
    let before = counted();
    let mut command = server.command(&["top", "--source", "sql", "--seconds", "6"]);
    let mut top = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    // From here on it counts.
    let first = lines.next().unwrap();
    for _ in 0..3 {
        server.psql("SELECT count(*) FROM t");
    }
    server.psql("CHECKPOINT");
    let steps: Vec<Value> = steps_of(&[vec![first], lines.collect()].concat().join("\n"));
    assert!(top.wait().unwrap().success());
    assert_eq!(steps.len(), 6);
    let sum = |path: &str| -> u64 { steps.iter().filter_map(|step| step.pointer(path)?.as_u64()).sum() };
    assert!(sum("/server/commits") >= 4, "{steps:?}");
    let (blocks, table) = (sum("/server/blocks_hit") + sum("/server/blocks_read"), 3 * 200_000 / 226);
    assert!((table..=counted() - before).contains(&blocks), "{blocks} of at least {table}");
    assert!(sum("/checkpoint/requested_added") >= 1 && sum("/checkpoint/buffers_added") > 0, "{steps:?}");
    let last = steps.iter().rev().find_map(|step| step.pointer("/checkpoint/last").filter(|last| !last.is_null()));
    assert!(last.unwrap()["buffers"].as_u64().unwrap() > 0);
    let rates = &steps.last().unwrap()["rates"];
    assert!(rates["transactions_per_second"].as_f64().unwrap() > 0.0, "{rates}");
    assert!((0.0..=1.0).contains(&rates["buffers_hit_ratio"].as_f64().unwrap()), "{rates}");
    assert_eq!(rates["commands_per_second"], Value::Null, "SQL alone counts none");
}

/// Sessions of pgthaw that may ask something while the server counts.
const UNDER_WAY: i64 = 2;

#[test]
fn a_server_that_idles_has_no_transactions_of_ours() {
    let server = servers::start_any(&[("autovacuum", "off")]);
    for source in ["sql", "memory"] {
        let steps = steps_of(&server.pgthaw(&["top", "--source", source, "--seconds", "12"]).ok().stdout);
        let sum = |name: &str| -> u64 { steps.iter().filter_map(|step| step["server"][name].as_u64()).sum() };
        assert!(sum("own_transactions") >= 12, "the server counts them: {}", sum("own_transactions"));
        // At the begin and at the end some are under way. A rate is of ten seconds, or of nine where one went by unasked.
        let (most, last) =
            (2 * UNDER_WAY as u64, steps.last().unwrap()["rates"]["transactions_per_second"].as_f64().unwrap());
        assert!(sum("commits") <= most && last <= most as f64 / 9.0, "{source}: {last}, {} in all", sum("commits"));
    }
}

/// What a step's server counted without pgthaw's own.
fn transactions_of(step: &Value) -> Option<i64> {
    let count = |name: &str| step.pointer("/server")?.get(name)?.as_i64();
    Some(count("commits")? + count("rollbacks")?)
}

test_every_version! {
    fn from_the_first_step_on_ours_are_told_when_they_are_taken_off(version) {
        if version < 15 {
            untested!(machine: "no server tells before version 15 which transactions were pgthaw's");
        }
        let server = servers::start(version, &[]);
        for source in ["sql", "memory"] {
            let steps = steps_of(&server.pgthaw(&["top", "--source", source, "--seconds", "5"]).ok().stdout);
            let told: Vec<i64> = steps.iter().filter_map(transactions_of).collect();
            assert!(told.len() >= 4 && told.iter().all(|one| one.abs() <= UNDER_WAY), "{source}: {told:?}");
            assert!(told.iter().sum::<i64>().abs() <= UNDER_WAY, "{source}: {told:?}");
        }
    }
}

test_every_version! {
    fn no_transaction_of_others_is_hidden(version) {
        if version < 15 {
            untested!(machine: "no server tells before version 15 which transactions were pgthaw's");
        }
        let server = servers::start(version, &[]);
        let mut command = server.command(&["top", "--source", "memory", "--seconds", "5"]);
        let mut top = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut steps = steps_of(&lines.next().unwrap());
        for _ in 0..4 {
            server.psql("SELECT 1");
        }
        steps.extend(steps_of(&lines.collect::<Vec<_>>().join("\n")));
        assert!(top.wait().unwrap().success());
        // To connect is one, too.
        let told: Vec<i64> = steps.iter().filter_map(transactions_of).collect();
        assert!((told.iter().sum::<i64>() - 2 * 4).abs() <= UNDER_WAY, "{told:?}");
    }
}

#[test]
fn above_the_budget_less_is_looked_at_and_each_step_says_so() {
    if !can_probe() {
        return;
    }
    let server = servers::start_any(&[]);
    let _sleeper = Beside::start(&server, "SELECT pg_sleep(60)");
    let top = server.pgthaw(&["top", "--source", "bpf", "--budget", "0", "--seconds", "9", "--json"]).ok().stdout;
    let steps = steps_of(&top);
    let given_up = |step: &Value| -> Vec<String> {
        let reductions = step["reductions"].as_array().unwrap().iter();
        reductions.map(|one| one["given_up"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((given_up(&steps[0]), &steps[0]["source"]), (Vec::new(), &Value::from("bpf")));
    let last = steps.last().unwrap();
    assert_eq!(
        (&given_up(last)[..2], &last["source"]),
        (&["receives".into(), "programs".into()][..], &Value::from("memory"))
    );
    assert_eq!((&last["time"]["commands"], &last["explained"]), (&Value::Null, &Value::Null), "{last}");
    // Who waits is seen all the same.
    assert_eq!(ending(last, "client backend::Timeout::PgSleep").len(), 1, "{last}");
    server.pgthaw(&["top", "--budget", "101"]).ends_with(2);
}

#[test]
fn a_record_is_what_was_shown() {
    let server = servers::start_any(&[]);
    let path = server.home().join("record");
    let path = path.to_str().unwrap();
    let shown =
        server.pgthaw(&["top", "--seconds", "2", "--interval", "200ms", "--source", "sql", "--record", path]).ok();
    let steps = steps_of(&shown.stdout);
    assert_eq!(steps.len(), 10);
    let replayed = server.home.pgthaw(&["top", "--replay", path]).ok();
    assert_eq!(steps_of(&replayed.stdout), steps);
    // A record is written over by nobody, and what is none is told.
    let taken = server.pgthaw(&["top", "--seconds", "1", "--record", path]).ends_with(1);
    assert!(taken.stderr.contains("File exists") && taken.stderr.contains("use another file"), "{}", taken.stderr);
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    let cut = server.home.pgthaw(&["top", "--replay", path]).ok();
    assert!(steps.starts_with(&steps_of(&cut.stdout)), "{}", cut.stdout);
    assert!(cut.stderr.contains("ends within a step"), "{}", cut.stderr);
    std::fs::write(path, "no record").unwrap();
    let refused = server.home.pgthaw(&["top", "--replay", path]).ends_with(1);
    assert!(refused.stderr.contains("is not a record of `pgthaw top`"), "{}", refused.stderr);
}

/// A `top` that answers, and its address: `127.0.0.1:40123`.
pub fn listen(server: &TestServer, options: &[&str]) -> (Beside, String) {
    let arguments = [&["top", "--source", "sql", "--listen", "127.0.0.1:0"], options].concat();
    let mut child = server.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
    let host = told.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/metrics"));
    (Beside(child), host.unwrap_or_else(|| panic!("{told}")).to_owned())
}

pub fn get(host: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The sample of this name and these labels.
fn sample(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}\n{page}")).parse().unwrap()
}

#[test]
fn prometheus_reads_what_is_answered() {
    let mut server = servers::start_any(&[]);
    let (mut top, host) = listen(&server, &[]);
    let loopback = format!("Host: {host}\r\n");
    let page = get(&host, "/metrics", &loopback);
    assert!(page.starts_with("HTTP/1.0 200") && page.contains("text/plain; version=0.0.4"), "{page}");
    assert_eq!(sample(&page, "pgthaw_up"), 1.0);
    let checkpointer =
        "pgthaw_process_time_seconds_total{where=\"checkpointer\",class=\"Activity\",event=\"CheckpointerMain\"}";
    let first = sample(&page, checkpointer);
    while sample(&get(&host, "/metrics", &loopback), "pgthaw_steps_total") < sample(&page, "pgthaw_steps_total") + 2.0 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(sample(&get(&host, "/metrics", &loopback), checkpointer) > first);
    // Nobody else's pages reach it, and there is nothing else.
    assert!(get(&host, "/metrics", "Host: evil.example\r\n").starts_with("HTTP/1.0 403"));
    assert!(get(&host, "/", &loopback).starts_with("HTTP/1.0 404"));
    // A restart of the server is outlived, and told.
    server.restart();
    let is_up = |up: f64| sample(&get(&host, "/metrics", &loopback), "pgthaw_up") == up;
    while !is_up(0.0) {}
    while !is_up(1.0) {}
    kill_process(Pid::from_child(&top.0), Signal::TERM).unwrap();
    assert!(top.0.wait().unwrap().success());
}

#[test]
fn who_says_nothing_keeps_nobody_waiting() {
    let server = servers::start_any(&[]);
    let (_top, host) = listen(&server, &[]);
    let loopback = format!("Host: {host}\r\n");
    // More than are let in at once: half of them idle, half within a head.
    let silent: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(&host).unwrap()).collect();
    for mut stream in silent.iter().step_by(2) {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc");
    }
    let (told, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || told.send(get(&host, "/metrics", &loopback)));
    // Sooner than any of them is given up for its silence.
    let page = answered.recv_timeout(std::time::Duration::from_secs(7)).expect("it is answered beside them");
    assert!(page.starts_with("HTTP/1.0 200"), "{page}");
    drop(silent);
}

#[test]
fn an_address_that_others_reach_takes_a_token() {
    let server = servers::start_any(&[]);
    let refused = server.pgthaw(&["top", "--listen", "0.0.0.0:0"]).ends_with(2);
    assert!(refused.stderr.contains("no token is set"), "{}", refused.stderr);
    let endless = server.pgthaw(&["top", "--listen", "127.0.0.1:0", "--by", "query"]).ends_with(2);
    assert!(endless.stderr.contains("--by kind"), "{}", endless.stderr);
    let token = server.home().join("token");
    std::fs::write(&token, "0123456789abcdef\n").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&token, private).unwrap();
    let (_top, host) = listen(&server, &["--token-file", token.to_str().unwrap()]);
    assert!(get(&host, "/metrics", "").starts_with("HTTP/1.0 401"));
    let told = get(&host, "/metrics", "Authorization: Bearer 0123456789abcdef\r\n");
    assert!(told.contains("\npgthaw_up 1\n"), "{told}");
}

#[test]
fn who_may_do_less_sees_less_and_is_told_why() {
    let server = servers::start_any(&[]);
    needs_root!();
    server.psql("CREATE ROLE guest LOGIN");
    let mut command = server.command_for_others(&["top", "--seconds", "1", "-U", "guest"]);
    std::os::unix::process::CommandExt::uid(&mut command, 65534);
    std::os::unix::process::CommandExt::gid(&mut command, 65534);
    let steps = steps_of(&servers::Output::from(command.output().unwrap()).ok().stdout);
    assert_eq!((&steps[0]["source"], &steps[0]["machine"]), (&Value::from("sql"), &Value::Null));
    assert!(steps[0]["activity"]["unseen"].as_f64() > Some(0.0), "what a role may not see is no wait: {}", steps[0]);
    let missing = steps[0]["missing"].as_array().unwrap();
    for what in ["counts and lengths of waits", "the device", "other roles' sessions"] {
        let told = missing.iter().find(|one| one["what"].as_str().unwrap().starts_with(what));
        assert!(told.is_some_and(|one| !one["why"].as_str().unwrap().is_empty()), "{what}: {missing:?}");
    }
    let remedies = missing.iter().filter_map(|one| one["remedy"].as_str()).collect::<Vec<_>>().join("; ");
    assert!(remedies.contains("psql -h ") && remedies.contains("-c 'GRANT pg_monitor TO \"guest\"'"), "{remedies}");
}

/// Steps of a `top` that runs beside, until it is dropped.
fn steps_beside(server: &TestServer, options: &[&str]) -> (Beside, impl Iterator<Item = Value>) {
    let arguments = [&["top", "--source", "sql", "--seconds", "600"], options].concat();
    let mut child = server.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (Beside(child), lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()))
}

/// Is this among what a step says that it does not see?
fn lacks(step: &Value, what: &str) -> bool {
    step["missing"].as_array().unwrap().iter().any(|one| one["what"] == what)
}

const ASKING: &str = "EXECUTE ON FUNCTION pg_stat_get_activity(integer)";

#[test]
fn a_question_that_fails_is_told_and_asked_again() {
    let server = servers::start_any(&[]);
    server.psql("CREATE ROLE app LOGIN; GRANT pg_monitor TO app");
    let (_top, mut steps) = steps_beside(&server, &["-U", "app"]);
    let first = steps.next().unwrap();
    assert!(!lacks(&first, "identities of the processes") && !lacks(&first, "the server's counters"), "{first}");
    server.psql(&format!("REVOKE {ASKING} FROM PUBLIC"));
    let mut find = |is_meant: &dyn Fn(&Value) -> bool| {
        let found = steps.find(|step| {
            assert_eq!(step["failure"], Value::Null, "the server is there");
            is_meant(step)
        });
        found.unwrap()
    };
    find(&|step| lacks(step, "the server's counters"));
    let blind = find(&|step| lacks(step, "identities of the processes"));
    assert!(blind["missing"].to_string().contains("permission denied for function pg_stat_get_activity"), "{blind}");
    assert!(blind["activity"]["unseen"].as_f64() > Some(0.0), "{blind}");
    server.psql(&format!("GRANT {ASKING} TO PUBLIC"));
    find(&|step| !lacks(step, "identities of the processes") && !step["server"].is_null());
}

#[test]
fn a_session_of_ours_that_is_ended_alone_is_opened_again() {
    let server = servers::start_any(&[]);
    let (_top, mut steps) = steps_beside(&server, &[]);
    // One looks, one asks who the processes are, one reads the counters.
    for place in 0..3 {
        assert!(steps.any(|step| step["failure"].is_null()));
        let ended = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pgthaw' \
             ORDER BY backend_start OFFSET {place} LIMIT 1"
        );
        assert_eq!(server.psql(&ended), "t");
        // Whether the server's last words or the broken connection are read first is not certain.
        assert!(steps.any(|step| !step["failure"].is_null()), "{place}");
    }
}

#[test]
fn a_question_that_fails_at_first_ends_it_in_good_order() {
    let server = servers::start_any(&[]);
    server.psql(&format!("CREATE ROLE app LOGIN; GRANT pg_monitor TO app; REVOKE {ASKING} FROM PUBLIC"));
    for options in [&["--seconds", "2"][..], &["--listen", "127.0.0.1:0"]] {
        let refused = server.pgthaw(&[&["top", "-U", "app"], options].concat()).ends_with(3).stderr;
        assert!(refused.contains("permission denied for function") && !refused.contains("panicked"), "{refused}");
    }
}

/// The live screen on a terminal of this size, and once it shows this, these keys: what was written, and how it ended.
fn on_screen(server: &TestServer, size: (u16, u16), arguments: &[&str], shown: &str, keys: &str) -> servers::Output {
    let command = server.command(arguments);
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words = shlex::try_join(words.map(|word| word.to_str().unwrap())).unwrap();
    let mut script = std::process::Command::new("script");
    let (columns, rows) = size;
    // What the terminal was like before is what it has to be like afterwards.
    let shell = format!(
        "stty rows {rows} cols {columns}; before=$(stty -g); {words}; status=$?; [ \"$(stty -g)\" = \"$before\" ] && echo GIVEN BACK; exit $status"
    );
    script
        .args(["-qec", &shell, "/dev/null"])
        .env("LC_ALL", "C.UTF-8")
        .env("SHELL", "/bin/sh")
        .env("TERM", "xterm-256color");
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.current_dir(command.get_current_dir().unwrap());
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    // The first screen is there before a key is pressed.
    while !String::from_utf8_lossy(&seen).contains(shown) {
        let count = stdout.read(&mut buffer).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(keys.as_bytes()).unwrap();
    stdin.flush().unwrap();
    stdout.read_to_end(&mut seen).unwrap();
    let output = child.wait_with_output().unwrap();
    servers::Output { stdout: String::from_utf8_lossy(&seen).into_owned(), ..servers::Output::from(output) }
}

#[test]
fn a_terminal_is_given_back_however_it_ends() {
    let server = servers::start_any(&[]);
    for keys in ["?q", "\u{3}", "p\u{1b}[D\u{1b}[Fsiq"] {
        let output = on_screen(&server, (80, 24), &["top", "--source", "sql"], "help", keys).ok();
        assert!(output.stdout.contains("GIVEN BACK"), "{keys:?}: {}", output.stdout);
        assert!(output.stdout.contains("throughput") && output.stdout.contains("estimates"), "{}", output.stdout);
    }
    let timed = on_screen(&server, (200, 50), &["top", "--source", "sql", "--seconds", "2"], "help", "").ok();
    assert!(timed.stdout.contains("GIVEN BACK"), "{}", timed.stdout);
}

#[test]
fn a_map_is_watched_on_a_screen_that_is_given_back() {
    let server = servers::start_any(&[]);
    server.psql("CREATE TABLE t AS SELECT 1 AS i");
    for keys in ["q", "\u{3}"] {
        let output = on_screen(&server, (80, 24), &["map", "--watch"], "+-: loads (+)", keys).ok();
        assert!(output.stdout.contains("public.t") && output.stdout.contains("GIVEN BACK"), "{}", output.stdout);
    }
    for size in [(20, 3), (200, 60)] {
        on_screen(&server, size, &["map", "--watch"], "every 1 s", "q").ok();
    }
}
