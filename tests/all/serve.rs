//! `pgthaw serve`: who may ask, what is answered, and its pages in a browser.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bench::Place;
use crate::report_sweep::{HOSTILE, SHAPE, assert_clean, keep, look, look_by, make_hostile};
use crate::schemas::check_document;
use crate::servers::Home;
use crate::synthetic_sweep::{self, Shape};
use crate::{results, synthetic_run};

const SECRET: &str = "0123456789abcdef";

/// A server that runs as long as this is there.
pub struct Served {
    pub child: Child,
    /// `127.0.0.1:40123`.
    pub host: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serve(home: &Home, options: &[&str]) -> Served {
    let port: &[&str] = if options.contains(&"--listen") { &[] } else { &["--listen", "0"] };
    let mut command = home.command(&[&["serve", "--json"], port, options].concat());
    let mut child = command.env("XDG_RUNTIME_DIR", home.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    // One document, on several lines, which ends with the brace of its first.
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        told += &line.unwrap();
        if serde_json::from_str::<Value>(&told).is_ok() {
            break;
        }
    }
    let told: Value = serde_json::from_str(&told).unwrap();
    check_document("serve", &told);
    let host = told["address"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    Served { child, host }
}

/// An answer, as it came.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Name of the schema of an answer below /api/.
fn schema_of(path: &str, status: u16) -> Option<&'static str> {
    let path = path.split('?').next()?.strip_prefix("/api/")?;
    Some(match path.split('/').collect::<Vec<&str>>()[..] {
        _ if status != 200 => "serve-error",
        ["studies"] => "serve-studies",
        ["studies", _] => "serve-study",
        ["studies", _, "trials", ..] => "serve-trial",
        ["compare"] => "results-compare",
        ["live"] => "serve-live",
        _ => return None,
    })
}

impl Served {
    fn get(&self, path: &str) -> Answer {
        self.ask(path, &format!("Host: {}\r\n", self.host))
    }

    fn ask(&self, path: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n{headers}\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        if let Some((name, document)) = schema_of(path, status).zip(serde_json::from_str(body).ok()) {
            check_document(name, &document);
        }
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }
}

fn with_sweep(home: &Home, shape: &Shape<'_>) -> String {
    let (run, trials) = synthetic_sweep::make(shape);
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    run.id
}

#[test]
fn what_is_stored_is_answered() {
    let home = Home::new();
    let id = with_sweep(&home, &SHAPE);
    let (run, trials) = synthetic_run::make(1, 20);
    results::keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let served = serve(&home, &[]);

    let lines = served.get("/api/studies").json();
    assert_eq!((&lines[0]["id"], &lines[0]["trials"]), (&json!(id), &json!(36)));
    assert_eq!((&lines[1]["id"], &lines[1]["trials"]), (&json!(run.id), &json!(10)));
    let study = served.get(&format!("/api/studies/{id}")).json();
    assert_eq!((study["points"].as_array().unwrap().len(), study["trials"].as_array().unwrap().len()), (18, 36));
    assert!(study["points"][0]["tps"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(study["points"][0]["background"]["checkpoints_timed"], 2.0);
    let trial = served.get(&format!("/api/studies/{id}/trials/3/2")).json();
    assert_eq!((&trial["trial"]["repeat"], &trial["trial"]["samples"]), (&json!(2), &json!([])));
    assert_eq!((&trial["series"]["width"], trial["series"]["second"].as_array().unwrap().len()), (&json!(1), 70));
    let compared = served.get("/api/compare?a=clients%3D1&b=clients%3D8&metric=tps").json();
    assert_eq!(compared["cells"].as_array().unwrap().len(), 6);
    assert!(compared["cells"][0]["ratio"]["median"]["at_least"].as_f64().unwrap() > 4.0);
    let warmers = served.get(&format!("/api/studies/{}", run.id)).json();
    assert_eq!(warmers["traffic"]["warmers"].as_array().unwrap().len(), 9);
    assert!(warmers["trials"][0]["steady_tps"].as_f64().unwrap() > 40_000.0);
    assert_eq!(served.get("/api/live").json(), json!([]));
}

#[test]
fn what_is_not_there_is_said_and_nothing_is_changed() {
    let home = Home::new();
    let id = with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let served = serve(&home, &[]);
    let missing = [
        "/api/studies/none".to_owned(),
        format!("/api/studies/{id}/trials/999/1"),
        "/api/studies/%27%3B%20DROP%20TABLE%20sweeps".to_owned(),
        "/api/compare?a=clients%3D1&b=clients%3D9&metric=tps".to_owned(),
        format!("/api/compare?a={id}%3Aclients%3D1&b=clients%3D8&metric=nonsense"),
    ];
    for path in &missing {
        let answer = served.get(path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.body);
        assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty());
    }
    let mut stream = TcpStream::connect(&served.host).unwrap();
    write!(stream, "DELETE /api/studies/{id} HTTP/1.0\r\nHost: {}\r\n\r\n", served.host).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.0 405"), "{text}");
    assert_eq!(served.get("/api/studies").json().as_array().unwrap().len(), 1);
}

#[test]
fn another_name_for_the_loopback_address_is_refused() {
    let home = Home::new();
    with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let served = serve(&home, &[]);
    assert_eq!(served.ask("/api/studies", "Host: evil.example\r\n").status, 403);
    let page = served.get("/");
    assert_eq!(page.status, 200);
    for header in ["cache-control: no-store", "x-frame-options: deny", "x-content-type-options: nosniff"] {
        assert!(page.head.contains(header), "{header}: {}", page.head);
    }
    assert!(page.body.contains("connect-src 'self'; script-src 'sha256-"));
}

/// That nobody else can read.
fn write_secret(path: &Path, secret: &str) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_token_that_others_can_read_is_refused_until_it_is_mended() {
    let home = Home::new();
    with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let token = home.path().join("a token");
    write_secret(&token, &format!("{SECRET}\n"));
    for mode in [0o640, 0o604, 0o644] {
        fs::set_permissions(&token, Permissions::from_mode(mode)).unwrap();
        let refused = home.pgthaw(&["serve", "--listen", "0", "--token-file", token.to_str().unwrap()]).ends_with(2);
        assert!(refused.stderr.contains("other users can read the token"), "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("{mode:04o}")), "{}", refused.stderr);
        let mend = &refused.stderr[refused.stderr.find("chmod 600 ").unwrap()..];
        let mend = mend.split('`').next().unwrap();
        assert!(Command::new("sh").args(["-c", mend]).status().unwrap().success(), "{mend}");
        let served = serve(&home, &["--token-file", token.to_str().unwrap()]);
        assert_eq!(served.get("/api/studies").status, 401);
    }
}

#[test]
fn every_address_of_loopback_is_this_machines() {
    let home = Home::new();
    with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let served = serve(&home, &["--listen", "127.3.2.1:0"]);
    assert!(served.host.starts_with("127.3.2.1:"), "{}", served.host);
    assert_eq!(served.get("/api/studies").status, 200);
    assert_eq!(served.ask("/api/studies", "Host: evil.example\r\n").status, 403);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = home.pgthaw(&["serve", "--listen", address]).ends_with(2);
        assert!(refused.stderr.contains("no token is set"), "{}", refused.stderr);
    }
}

#[test]
fn an_address_that_nothing_has_gets_a_page_that_leads_on() {
    let home = Home::new();
    let id = with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let served = serve(&home, &[]);
    let html = format!("Host: {}\r\nAccept: text/html,*/*\r\n", served.host);
    for path in ["/studies/%3Cb%3E", "/runs/none"] {
        let answer = served.ask(path, &html);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.head.contains("content-type: text/html"), "{}", answer.head);
        assert!(answer.body.contains(r#""kind":"missing""#) && !answer.body.contains("<b>"), "{path}");
    }
    let seen = look_by("open_missing.mjs", &format!("http://{}/studies/%3Cb%3Ebold", served.host));
    assert_eq!(seen["told"], "There is no page studies/<b>bold. The studies are listed below.", "{seen:#}");
    assert_eq!(seen["links"], json!([format!("#/study/{id}")]), "it leads to what there is");
    let api = served.ask("/api/nothing", &html);
    assert_eq!(api.status, 404);
    assert!(api.json()["error"]["message"].as_str().unwrap().contains("/api/nothing"));
}

#[test]
fn others_need_the_token() {
    let home = Home::new();
    with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let (weak, token) = (home.path().join("weak"), home.path().join("token"));
    write_secret(&weak, "short\n");
    write_secret(&token, &format!("{SECRET}\n"));
    let refused = home.pgthaw(&["serve", "--listen", "0.0.0.0:0"]).ends_with(2);
    assert!(refused.stderr.contains("no token is set"), "{}", refused.stderr);
    let refused = home.pgthaw(&["serve", "--listen", "0.0.0.0:0", "--token-file", weak.to_str().unwrap()]).ends_with(2);
    assert!(refused.stderr.contains("at least 16 characters"), "{}", refused.stderr);

    let served = serve(&home, &["--token-file", token.to_str().unwrap()]);
    let asked = served.get("/api/studies");
    assert_eq!(asked.status, 401);
    assert!(!asked.body.contains("sweep") && asked.body.contains("<form"));
    assert_eq!(served.get("/?token=fedcba9876543210").status, 401);
    let right = served.get(&format!("/?token={SECRET}"));
    assert_eq!(right.status, 303);
    assert!(
        right.head.contains("location: /\r\n") && right.head.contains("httponly; samesite=strict"),
        "{}",
        right.head
    );
    let cookie = right.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap().replace("PGTHAW", "pgthaw");
    assert_eq!(served.ask("/api/studies", &format!("Cookie: {cookie}\r\n")).status, 200);
    assert_eq!(served.ask("/api/studies", &format!("Authorization: Bearer {SECRET}\r\n")).status, 200);
}

#[test]
fn it_ends_when_it_is_asked_to() {
    let home = Home::new();
    with_sweep(&home, &Shape { scales: &[1], buffers: &["1GB"], repeats: 1, seconds: 8, ..SHAPE });
    let mut served = serve(&home, &[]);
    kill_process(Pid::from_child(&served.child), Signal::INT).unwrap();
    assert!(served.child.wait().unwrap().success());
}

#[test]
fn the_pages_show_what_is_stored() {
    let home = Home::new();
    with_sweep(&home, &SHAPE);
    let (run, trials) = synthetic_run::make(1, 8);
    results::keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let served = serve(&home, &[]);
    let seen = look(&format!("http://{}/", served.host));
    assert_clean(&seen);
    assert_eq!((seen["studies"]["all"].as_array().unwrap().len(), &seen["studies"]["none"]), (2, &json!(0)));
    assert_eq!(seen["heat"].as_array().unwrap().len(), 18);
    assert_eq!(
        (&seen["keyboard"]["metric"], &seen["keyboard"]["reloaded"]),
        (&json!("worst-second"), &json!("worst-second"))
    );
    assert_eq!(seen["compared"]["rows"], 6);
    assert!(seen["compared"]["charts"]["ratios"].as_array().unwrap().len() >= 2, "{}", seen["compared"]);
    assert!(seen["live"].as_str().unwrap().contains("No study runs"), "{}", seen["live"]);
}

#[test]
fn the_trial_that_runs_is_shown() {
    let (home, place) = (Home::new(), Place::new());
    let study = home.path().join("study.toml");
    fs::write(
        &study,
        "question = 'What runs?'\nrepeats = 9\n[points]\nclients = [1, 2]\nseconds = 9\nrate = 100\nstart = 'as-is'\n",
    )
    .unwrap();
    let mut sweep = place.command(&home, 15, &["bench", study.to_str().unwrap(), "--quiet"]);
    let mut sweep = Running(sweep.env("XDG_RUNTIME_DIR", home.path()).stdout(Stdio::null()).spawn().unwrap());
    // There is no store before the sweep has begun.
    while !home.path().join("state/pgthaw/results.sqlite").exists() {
        assert!(sweep.0.try_wait().unwrap().is_none(), "the sweep ended before it began");
        std::thread::sleep(Duration::from_millis(100));
    }
    let served = serve(&home, &[]);
    let seen = look_by("open_live.mjs", &format!("http://{}/", served.host));
    assert_eq!((&seen["errors"], &seen["requests"]), (&json!([]), &json!([])), "{seen:#}");
    assert!(seen["first"]["announced"].as_str().unwrap().contains(" of 18 runs: clients "), "{seen:#}");
    assert!(seen["later"]["points"].as_u64().unwrap() >= 4, "{seen:#}");
    for view in [&seen["light"], &seen["phone"]] {
        assert_eq!((&view["overflow"], &view["clipped"]), (&json!(0), &json!([])), "{view}");
    }
    assert_eq!(seen["study"], "What runs?");
    assert_runs(&seen, "Running now: trial ");
    kill_process(Pid::from_child(&sweep.0), Signal::INT).unwrap();
    drop(sweep);
    assert_eq!(served.get("/api/live").json(), json!([]));
}

/// Its page says so, and leads to where it is seen, as to all other pages.
#[track_caller]
fn assert_runs(seen: &Value, told: &str) {
    assert_eq!(seen["navigation"], json!(["pgthaw", "studies", "compare", "running now"]));
    assert!(seen["banner"].as_str().unwrap_or_default().starts_with(told), "{seen:#}");
}

#[test]
fn warmers_that_run_are_shown_too() {
    let (home, place) = (Home::new(), Place::new());
    let study = ["bench", "warmup", "scale=1", "seconds=12", "rate=100", "repeats=4", "strategy=nothing,cat"];
    let mut command = place.command(&home, 15, &[&study[..], &["--quiet"]].concat());
    let mut study = Running(command.env("XDG_RUNTIME_DIR", home.path()).stdout(Stdio::null()).spawn().unwrap());
    while !home.path().join("state/pgthaw/results.sqlite").exists() {
        assert!(study.0.try_wait().unwrap().is_none(), "the study ended before it began");
        std::thread::sleep(Duration::from_millis(100));
    }
    let served = serve(&home, &[]);
    let seen = look_by("open_live.mjs", &format!("http://{}/", served.host));
    assert_eq!((&seen["errors"], &seen["requests"]), (&json!([]), &json!([])), "{seen:#}");
    assert!(seen["first"]["announced"].as_str().unwrap().contains(" of 8 runs: "), "{seen:#}");
    assert!(seen["later"]["points"].as_u64().unwrap() >= 4, "{seen:#}");
    assert_runs(&seen, "Running now: trial ");
    let live = served.get("/api/live").json();
    assert_eq!(live[0]["seconds"], 12, "{live:#}");
    kill_process(Pid::from_child(&study.0), Signal::INT).unwrap();
    drop(study);
    assert_eq!(served.get("/api/live").json(), json!([]));
}

/// It has ended when this is gone.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let _ = self.0.wait();
    }
}

#[test]
fn hostile_names_stay_text_when_they_are_served() {
    let home = Home::new();
    let (mut run, mut trials) = synthetic_sweep::make(&Shape { scales: &[1], clients: &[1, 8], repeats: 1, ..SHAPE });
    make_hostile(&mut run, &mut trials);
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let served = serve(&home, &[]);
    let seen = look(&format!("http://{}/", served.host));
    assert_clean(&seen);
    assert_eq!(seen["studies"]["all"], json!([HOSTILE]));
    assert_eq!(seen["headline"], HOSTILE);
    assert_eq!(served.get("/api/studies").json().as_array().unwrap().len(), 1);
}

#[test]
fn a_name_of_thousands_of_letters_leaves_room_for_the_rest() {
    let home = Home::new();
    let (mut run, mut trials) = synthetic_sweep::make(&Shape { scales: &[1], clients: &[1, 8], repeats: 1, ..SHAPE });
    run.question = "question".repeat(800);
    trials.iter_mut().for_each(|trial| trial.point.script = "script".repeat(800));
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let served = serve(&home, &[]);
    let seen = look(&format!("http://{}/", served.host));
    assert_clean(&seen);
    assert!(seen["studies"]["tallest"].as_f64().unwrap() < 120.0, "{}", seen["studies"]["tallest"]);
    assert_eq!(seen["name"], json!({ "atFirst": false, "asked": true, "again": false }), "it can be read whole");
}

#[test]
fn a_damaged_study_is_named_and_hides_no_other() {
    let home = Home::new();
    let id = with_sweep(&home, &SHAPE);
    let (run, trials) = synthetic_run::make(1, 8);
    let store = home.path().join("state/pgthaw/results.sqlite");
    results::keep(&store, &run, &trials);
    results::sqlite(&store, &format!("UPDATE sweeps SET machine = '{{}}' WHERE id = '{}'", run.id));
    let served = serve(&home, &[]);
    let lines = served.get("/api/studies").json();
    assert_eq!((&lines[0]["id"], &lines[0]["damaged"]), (&json!(id), &Value::Null));
    assert_eq!((&lines[1]["id"], &lines[1]["trials"]), (&json!(run.id), &json!(10)), "{lines:#}");
    assert!(lines[1]["damaged"].as_str().unwrap().contains("column machine"), "{lines:#}");
    assert_eq!(served.get(&format!("/api/studies/{id}")).status, 200);
    let damaged = served.get(&format!("/api/studies/{}", run.id));
    assert!(damaged.status == 500 && damaged.body.contains("is damaged"), "{}", damaged.body);
    let seen = look(&format!("http://{}/", served.host));
    assert_clean(&seen);
    assert_eq!((&seen["studies"]["all"][1], &seen["studies"]["scrolls"]), (&json!(run.id), &json!(false)));
}
