//! A secret in every place where one can stand, and nothing that pgthaw writes, prints, answers or runs has one of them.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use pgthaw_lab::study::{Finding, SweepRun, SweepTrial};
use pgthaw_lab::verdict::{WrittenForecast, judge_forecast};

use crate::agent::Agent;
use crate::bench::Place;
use crate::culprits::{Open, wait_for};
use crate::results_import::REPORT;
use crate::servers::{self, Home, Output, TestServer};
use crate::sweep::{spec, sweep};
use crate::top;

/// Each place has a secret of its own, so that a failure says which.
const SECRETS: [(&str, &str); 30] = [
    ("primary_conninfo", "gq7primaryconninfo"),
    ("archive_command", "gq7archivecommand"),
    ("restore_command", "gq7restorecommand"),
    ("ssl_passphrase_command", "gq7sslpassphrase"),
    ("a setting of an extension", "gq7extensionapikey"),
    ("a database's setting", "gq7databasesetting"),
    ("a role's setting", "gq7rolesetting"),
    ("a script's comment", "gq7scriptcomment"),
    ("a script's shell", "gq7scriptshell"),
    ("the question", "gq7question"),
    ("a study's setting", "gq7studysetting"),
    ("the command of a database", "gq7databasecommand"),
    ("PGPASSWORD", "gq7pgpassword"),
    ("the password file", "gq7pgpass"),
    ("the service file", "gq7servicefile"),
    ("pgthaw.toml", "gq7settingsfile"),
    ("the address of results", "gq7resultsaddress"),
    ("the token", "gq7tokengq7tokengq7token"),
    ("a connection string", "gq7connectionstring"),
    ("a connection string with a mistake", "gq7mistake"),
    ("the server's log", "gq7serverlog"),
    ("a job's command", "gq7jobcommand"),
    ("a running statement", "gq7runningstatement"),
    ("a waiting statement", "gq7waitingstatement"),
    ("a holder's statement", "gq7holdersstatement"),
    ("an imported file", "gq7importedfile"),
    ("an imported directory", "gq7importeddirectory"),
    ("an import's question", "gq7importquestion"),
    ("a verdict", "gq7verdict"),
    ("a judged forecast", "gq7judgedforecast"),
];

/// Secrets that a test types on a command line, or that are in a command of a study or a script. No process may have any other secret
/// among its arguments.
const TYPED: [&str; 7] = [
    "a script's shell",
    "the command of a database",
    "a connection string",
    "a connection string with a mistake",
    "a job's command",
    "an imported directory",
    "an import's question",
];

/// How the statements of `run_statements` are shown.
const HIDDEN: &str = "ALTER ROLE app PASSWORD ?";

fn secret(place: &str) -> &'static str {
    SECRETS.iter().find(|(known, _)| *known == place).unwrap_or_else(|| panic!("{place}")).1
}

/// Where secrets were found, and how many compressed files have a statement without its secret.
#[derive(Default)]
struct Search(BTreeSet<String>, usize);

impl Search {
    fn look(&mut self, place: &str, bytes: &[u8]) {
        self.look_for(place, bytes, |_| true);
    }

    fn look_for(&mut self, place: &str, bytes: &[u8], is_meant: impl Fn(&str) -> bool) {
        let text = String::from_utf8_lossy(bytes);
        for (name, secret) in SECRETS.into_iter().filter(|(name, _)| is_meant(name)) {
            if text.contains(secret) {
                self.0.insert(format!("the secret of {name} is in {place}"));
            }
        }
    }

    fn look_at(&mut self, what: &str, output: &Output) {
        self.look(&format!("what {what} printed"), output.stdout.as_bytes());
        self.look(&format!("the errors of {what}"), output.stderr.as_bytes());
    }

    /// Every file, and the rows of those that are compressed.
    fn look_below(&mut self, directory: &Path) {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.display().to_string();
            if path.is_dir() {
                self.look_below(&path);
            } else if path.extension().is_some_and(|end| end == "parquet") {
                let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
                let metadata = format!("{:?}", reader.metadata().file_metadata().key_value_metadata());
                self.look(&name, metadata.as_bytes());
                for row in reader.get_row_iter(None).unwrap() {
                    self.look(&name, format!("{:?}", row.unwrap()).as_bytes());
                }
            } else {
                let bytes = fs::read(&path).unwrap();
                self.look(&name, &bytes);
                if bytes.starts_with(&[0x1f, 0x8b]) {
                    let mut unpacked = Vec::new();
                    // What is still being written has no end.
                    let _ = MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
                    self.look(&name, &unpacked);
                    self.1 += usize::from(String::from_utf8_lossy(&unpacked).contains(HIDDEN));
                }
            }
        }
    }

    #[track_caller]
    fn assert_nothing(&self) {
        assert!(self.0.is_empty(), "{:#?}", self.0);
    }
}

/// A server with secrets in its settings.
fn server() -> TestServer {
    let conninfo = format!("host=/nowhere user=replica password={}", secret("primary_conninfo"));
    let commands = ["archive_command", "restore_command", "ssl_passphrase_command"]
        .map(|name| (name, format!("fetch --key {} %p", secret(name))));
    let server = servers::start_any(&[
        ("primary_conninfo", &conninfo),
        (commands[0].0, &commands[0].1),
        (commands[1].0, &commands[1].1),
        (commands[2].0, &commands[2].1),
        ("shop.api_key", secret("a setting of an extension")),
        ("log_statement", "all"),
    ]);
    server.psql(&format!(
        "ALTER DATABASE postgres SET shop.db_token = '{}'; ALTER ROLE postgres SET shop.role_secret = '{}';
         CREATE TABLE t AS SELECT generate_series(1, 1000) AS i",
        secret("a database's setting"),
        secret("a role's setting"),
    ));
    server
}

/// The files in which libpq and pgthaw look for passwords.
fn plant_files(home: &Path) {
    let write = |name: &str, text: String| {
        fs::write(home.join(name), text).unwrap();
        fs::set_permissions(home.join(name), Permissions::from_mode(0o600)).unwrap();
    };
    fs::create_dir(home.join("secret")).unwrap();
    write("secret/pgpass", format!("*:*:*:*:{}\n", secret("the password file")));
    write("secret/service", format!("[shop]\npassword={}\n", secret("the service file")));
    write("secret/pgthaw.toml", format!("[connection]\npassfile = \"x\"\n# {}\n", secret("pgthaw.toml")));
    write(
        "secret/settings.toml",
        format!("[map]\ndbname = \"postgres://u:{}@127.0.0.1:1/x?connect_timeout=1\"\n", secret("pgthaw.toml")),
    );
    write("secret/token", format!("{}\n", secret("the token")));
}

#[test]
fn commands_that_ask_a_server_tell_no_secret() {
    let server = server();
    plant_files(server.home());
    let mut search = Search::default();
    watched(&mut search, |search| run_commands(&server, search));
    fs::remove_dir_all(server.home().join("secret")).unwrap();
    let films = fs::read(server.home().join("film.html")).unwrap();
    assert!(String::from_utf8_lossy(&films).contains("not kept: it may hold a password"), "its job is shown");
    search.look_below(server.home());
    assert_eq!(search.1, 2, "a record of top and the agent's history are looked into");
    search.assert_nothing();
}

/// Sessions with secrets in their statements: one is idle in a transaction, one waits for its lock, one sleeps.
fn run_statements(server: &TestServer) -> [Open; 3] {
    server.psql("CREATE ROLE app");
    let [holds, waits, sleeps] = ["a holder's statement", "a waiting statement", "a running statement"].map(secret);
    let holder = Open::start(server, "holder", &format!("BEGIN; ALTER ROLE app PASSWORD '{holds}';"));
    wait_for(server, "state = 'idle in transaction'", "1");
    let waiter = Open::start(server, "waiter", &format!("ALTER ROLE app PASSWORD '{waits}';"));
    wait_for(server, "wait_event_type = 'Lock'", "1");
    let sleeps = format!("SELECT pg_sleep(600) /* password={sleeps} */, '{sleeps}', $x${sleeps}$x$;");
    let sleeper = Open::start(server, "sleeper", &sleeps);
    wait_for(server, "wait_event = 'PgSleep'", "1");
    [holder, waiter, sleeper]
}

fn run_commands(server: &TestServer, search: &mut Search) {
    let secrets = server.home().join("secret");
    let mut run = |arguments: &[&str], more: &dyn Fn(&mut Command)| {
        let mut command = server.command(arguments);
        command.env("PGPASSWORD", secret("PGPASSWORD")).env("PGSERVICEFILE", secrets.join("service"));
        command.env("PGPASSFILE", secrets.join("pgpass")).env("PGTHAW_CONFIG", "/dev/null");
        more(&mut command);
        let output = servers::output_of(&mut command);
        search.look_at(&arguments.join(" ").replace("gq7", "…"), &output);
        output
    };
    let nothing = |_: &mut Command| ();
    for arguments in [
        &["doctor", "--json"][..],
        &["doctor"],
        &["map", "--json"],
        &["snapshot", "take"],
        &["snapshot", "take", "-o", "mine.parquet"],
        &["snapshot", "list", "--json"],
        &["restore", "--dry-run", "--json"],
        &["predict", "--json", "tps=5000", "clients=8"],
        &["evict", "--all", "--tier", "os", "--json"],
        &["film", "record", "--seconds", "1", "--like", "looked", "--json"],
    ] {
        run(arguments, &nothing).ok();
    }
    // Not every file system has direct I/O.
    run(&["hydrate", "--json"], &nothing);
    let statements = run_statements(server);
    for arguments in [
        &["waits", "--seconds", "1", "--json"][..],
        &["waits", "--seconds", "1", "--by", "query", "--parquet", "waits.parquet"],
        &["top", "--seconds", "1", "--by", "query", "--record", "record"],
        &["top", "--replay", "record"],
    ] {
        let shown = run(arguments, &nothing).ok().stdout;
        assert!(shown.contains(HIDDEN), "the statements are shown: {shown}");
    }
    let from = jiff::Timestamp::now().to_string();
    let mut agent = server.command(&["agent", "--every", "1h", "--history", "1h"]);
    agent.env("PGPASSWORD", secret("PGPASSWORD"));
    let agent = Agent::of(agent);
    let look_back = ["waits", "--from", &from, "--json"];
    servers::wait_until("the agent's history", || run(&look_back, &nothing).stdout.contains(HIDDEN));
    for arguments in
        [&["agent", "status", "--json"][..], &["ready"], &["waits", "--from", &from], &["top", "--at", &from]]
    {
        run(arguments, &nothing).ok();
    }
    fs::write(server.home().join("agent.log"), agent.end()).unwrap();
    drop(statements);
    let address = format!("postgres://u:{}@127.0.0.1:1/x", secret("a connection string"));
    let mistakes = [
        format!("postgress://u:{}@127.0.0.1/x", secret("a connection string with a mistake")),
        format!("password={} hots=x", secret("a connection string with a mistake")),
        format!("--pasword={}", secret("a connection string with a mistake")),
    ];
    for named in [&address, &mistakes[0], &mistakes[1]] {
        run(&["map", "-d", named], &nothing);
        run(&["map", "--json", "-d", named], &nothing);
        run(&["results", "--results", named], &nothing);
        run(&["snapshot", "diff", "-d", named], &nothing);
    }
    run(&["map"], &|command| {
        command.env("PGTHAW_CONFIG", secrets.join("settings.toml"));
    });
    run(&["map"], &|command| {
        command.env("PGTHAW_CONFIG", secrets.join("token"));
    });
    run(&["map"], &|command| {
        command.env("PGSERVICE", "shop").env("PGHOST", "127.0.0.1").env("PGPORT", "1");
    });
    // A job's command, which prints what is listed of the process that started it.
    let job = secret("a job's command");
    let forms = [
        format!("postgresql://u:{job}@h/d"),
        format!("-dpostgres://u:a@{job}@h/d"),
        format!("postgresql:///d?user=u&password={job}"),
        format!("host=h password={job}"),
        format!("host=h password='a {job}' dbname=d"),
        format!(r"host=h password=a\ {job}"),
        format!("PGPASSWORD=a {job}"),
        format!("--password=a {job}"),
        format!("ALTER ROLE x PASSWORD 'a {job}'"),
        format!("CREATE SUBSCRIPTION s CONNECTION 'host=h password=''a {job}''' PUBLICATION p"),
        format!("PGPASSWORD='a {job}' psql"),
        format!("sh -c \"psql \\\"host=h password='a {job}'\\\"\""),
        format!("psql -c 'ALTER ROLE x PASSWORD '\\''a {job}'\\'''"),
    ];
    let listed = "cat /proc/$PPID/cmdline; psql -XAtqc 'SELECT count(*) FROM t'; true";
    let words: Vec<&str> =
        ["--", "sh", "-c", listed, "x", "--api-key", job].into_iter().chain(forms.iter().map(String::as_str)).collect();
    for options in [&["run", "--like", "job", "--json"][..], &["run", "--like", "job", "--protect"]] {
        run(&[options, &words[..]].concat(), &nothing).ok();
    }
    run(&[&["run", "--record-only", "--like", "job"][..], &words[..]].concat(), &nothing).ok();
    run(&[&["waits", "--source", "sql", "--json"][..], &words[..]].concat(), &nothing).ok();
    for arguments in [
        &["film", "show"][..],
        &["film", "show", "--json"],
        &["film", "show", "job", "--html", "film.html"],
        &["film", "show", "job", "--json"],
        &["predict", "--film", "job"],
        &["predict", "--film", "job", "--json"],
    ] {
        run(arguments, &nothing).ok();
    }
    let (_top, host) = top::listen(server, &["--by", "user"]);
    search.look("the metrics of top", top::get(&host, "/metrics", &format!("Host: {host}\r\n")).as_bytes());
}

/// Searches the command lines of all processes until `done`.
fn watch_command_lines(done: &AtomicBool) -> Search {
    let mut search = Search::default();
    while !done.load(Ordering::Relaxed) {
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            search.look_for("a command line", &line, |place| !TYPED.contains(&place));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    search
}

/// Ends the search of command lines when dropped. After a panic it would go on, and its scope would wait for it.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` while another thread searches the command lines of all processes.
fn watched<T>(search: &mut Search, work: impl FnOnce(&mut Search) -> T) -> T {
    let done = AtomicBool::new(false);
    let (result, listed) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch_command_lines(&done));
        let ended = Done(&done);
        let result = work(search);
        drop(ended);
        (result, watcher.join().unwrap())
    });
    search.0.extend(listed.0);
    result
}

#[test]
fn a_study_keeps_no_secret() {
    let (home, place) = (Home::new(), Place::new());
    plant_files(home.path());
    let script = home.path().join("shop.sql");
    let text = format!(
        "-- password={}\n\\setshell x sh -c 'PGPASSWORD={} echo 7'\nSELECT :x, 'password={}';\n",
        secret("a script's comment"),
        secret("a script's shell"),
        secret("the server's log")
    );
    fs::write(&script, text).unwrap();
    let study = spec(
        &home,
        &format!(
            "question = 'as fast as postgres://u:{}@old/x?'\nrepeats = 1\n[points]\nclients = 1\nseconds = 1\nrate = 100\n\
             script = '{}'\n[settings]\n'shop.api_key' = '{}'\nprimary_conninfo = 'password={}'\n\
             log_statement = 'all'\n[database]\ncommands = [['true', '--api-key', '{}']]\n",
            secret("the question"),
            script.display(),
            secret("a study's setting"),
            secret("primary_conninfo"),
            secret("the command of a database"),
        ),
    );
    let mut search = Search::default();
    let output = watched(&mut search, |search| {
        let mut command = sweep(&place, &home, 15, study.to_str().unwrap(), &["--json"]);
        command.env("PGPASSWORD", secret("PGPASSWORD"));
        let results = format!("postgres://lab:{}@127.0.0.1:1/x", secret("the address of results"));
        command.env("PGTHAW_RESULTS", results).env("PGPASSFILE", home.path().join("secret/pgpass"));
        let output = servers::output_of(&mut command);
        search.look_at("the study", &output);
        output
    });
    let output = output.ok();
    let printed = output.json();
    assert!(printed.to_string().contains("(not kept: it may hold a password)"), "{printed}");

    for (arguments, what) in [
        (&["results", "show", "--json"][..], "results show"),
        (&["results", "--json"], "results"),
        (&["report", "-o", "report.html"], "report"),
        (&["results", "export", "-o", "trials.csv"], "export"),
        (&["results", "export", "-o", "trials.json", "--rows", "points"], "export"),
        (&["results", "export", "-o", "trials.parquet"], "export"),
        (&["results", "export", "-o", "seconds.parquet", "--rows", "seconds"], "export"),
    ] {
        search.look_at(what, &home.pgthaw(arguments).ok());
    }
    look_at_answers(&home, printed["sweep"]["id"].as_str().unwrap(), &mut search);
    fs::remove_dir_all(home.path().join("secret")).unwrap();
    for planted in [&script, &study] {
        fs::remove_file(planted).unwrap();
    }
    search.look_below(home.path());
    search.assert_nothing();
}

/// Every answer of `serve`, and what it says of a wrong token.
fn look_at_answers(home: &Home, sweep: &str, search: &mut Search) {
    let token = home.path().join("secret/token");
    let arguments = ["serve", "--json", "--listen", "0", "--token-file", token.to_str().unwrap()];
    let mut serving =
        home.command(&arguments).env("XDG_RUNTIME_DIR", home.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    for line in BufReader::new(serving.stdout.take().unwrap()).lines() {
        told += &line.unwrap();
        if serde_json::from_str::<serde_json::Value>(&told).is_ok() {
            break;
        }
    }
    search.look("what serve printed", told.as_bytes());
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let host = told["address"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut ask = |path: &str, headers: &str| {
        let mut stream = TcpStream::connect(&host).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n{headers}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        search.look(&format!("the answer to {path}"), &answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let known = format!("Authorization: Bearer {}\r\n", secret("the token"));
    assert!(ask("/", "").contains(" 401 "));
    let study = format!("/api/studies/{sweep}");
    let [trial, runs] = [format!("{study}/trials/0/1"), format!("/runs/{sweep}")];
    for path in ["/", "/api/studies", &study, &trial, &runs, "/api/compare", "/api/live", "/nothing"] {
        ask(path, &known);
    }
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn what_was_kept_with_a_secret_is_shown_without_it() {
    let home = Home::new();
    let (run, mut trials) = crate::synthetic_run::make(1, 3);
    trials[0].settings.push(("primary_conninfo".into(), format!("password={}", secret("primary_conninfo"))));
    trials[1].strategy_outcome.as_mut().unwrap().output = format!("PGPASSWORD={} psql", secret("PGPASSWORD"));
    let reason = format!("cannot connect to postgres://u:{}@h/d", secret("a verdict"));
    trials[2].verdicts.push(Finding::StrategyFailed { strategy: "cat".into(), reason }.into());
    trials[3].warnings.push(format!("password={}", secret("a judged forecast")));
    plant_forecasts(home.path(), &run, &trials[3]);
    crate::results::keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let mut search = Search::default();
    for arguments in [
        &["results", "show", "--json"][..],
        &["results", "show"],
        &["report", "-o", "report.html"],
        &["results", "export"],
    ] {
        search.look_at(&arguments.join(" "), &home.pgthaw(arguments).ok());
    }
    search.look("the report", &fs::read(home.path().join("report.html")).unwrap());
    for arguments in [
        &["judge", "forecast.json"][..],
        &["judge", "forecast.json", "--json"],
        &["judge", "broken.json"],
        &["judge", "broken.json", "--json"],
    ] {
        search.look_at(&arguments.join(" "), &home.pgthaw(arguments));
    }
    search.assert_nothing();
}

/// A judged forecast, as `bench forecast --json` prints it, and one that cannot be read.
fn plant_forecasts(home: &Path, run: &SweepRun, trial: &SweepTrial) {
    let written = WrittenForecast {
        written_at: trial.started_at,
        calibration_tps: 1.0,
        popularity: "uniform".into(),
        assumptions: Vec::new(),
        classes: Vec::new(),
        to_50_seconds: None,
        warm_after_seconds: None,
        steady_tps: 1.0,
    };
    let mut judged = serde_json::to_value(judge_forecast("x".into(), written, run, trial)).unwrap();
    fs::write(home.join("forecast.json"), judged.to_string()).unwrap();
    judged["scale"] = format!("password={}", secret("a judged forecast")).into();
    fs::write(home.join("broken.json"), judged.to_string()).unwrap();
}

#[test]
fn what_is_imported_with_a_secret_is_kept_without_it() {
    let home = Home::new();
    let directory = home.path().join(format!("password={}", secret("an imported directory")));
    let planted = format!("password={}\n", secret("an imported file"));
    let torn = home.path().join("torn.log");
    fs::create_dir(&directory).unwrap();
    // A verdict names the path of the second report.
    for name in ["results.txt", "other.out"] {
        fs::write(directory.join(name), format!("{planted}{REPORT}")).unwrap();
    }
    fs::write(&torn, format!("0 0 100 0 1650260550 1\n{planted}0 1 100 0 1650260550 2\n")).unwrap();
    let question = format!("question=as fast as postgres://u:{}@old/x?", secret("an import's question"));
    let mut search = Search::default();
    for (what, arguments, status) in [
        ("a refused import", &["results", "import", torn.to_str().unwrap()][..], 2),
        ("an import", &["results", "import", directory.to_str().unwrap(), &question, "--json"], 0),
        ("results", &["results", "--json"], 0),
        ("results show", &["results", "show"], 0),
        ("results show", &["results", "show", "--json"], 0),
        ("export", &["results", "export"], 0),
        ("report", &["report", "-o", "report.html"], 0),
    ] {
        search.look_at(what, &home.pgthaw(arguments).ends_with(status));
    }
    fs::remove_dir_all(&directory).unwrap();
    fs::remove_file(&torn).unwrap();
    search.look_below(home.path());
    search.assert_nothing();
}
