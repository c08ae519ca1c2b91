//! A server that speaks PostgreSQL's protocol and lies: whatever it says, pgthaw ends with an error, soon, without a panic, in
//! bounded memory and with nothing on the terminal that the terminal would obey.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::servers::{self, Home, Output};

/// A column's name, its type's oid and the value that an honest server would give, in binary.
type Column = (&'static str, u32, Option<Vec<u8>>);

const BOOL: u32 = 16;
const NAME: u32 = 19;
const INT8: u32 = 20;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const OID: u32 = 26;
const FLOAT8: u32 = 701;
const INT4S: u32 = 1007;

fn text(name: &'static str, value: &str) -> Column {
    (name, TEXT, Some(value.into()))
}

fn null(name: &'static str) -> Column {
    (name, TEXT, None)
}

fn name(name: &'static str, value: &str) -> Column {
    (name, NAME, Some(value.into()))
}

fn int4(name: &'static str, value: i32) -> Column {
    (name, INT4, Some(value.to_be_bytes().into()))
}

fn int8(name: &'static str, value: i64) -> Column {
    (name, INT8, Some(value.to_be_bytes().into()))
}

fn float8(name: &'static str, value: f64) -> Column {
    (name, FLOAT8, Some(value.to_be_bytes().into()))
}

fn int4s(name: &'static str, values: &[i32]) -> Column {
    // One dimension without NULLs, numbered from 1.
    let head = [1, 0, INT4 as i32, values.len() as i32, 1];
    let values = values.iter().flat_map(|value| [4, *value]);
    (name, INT4S, Some(head.into_iter().chain(values).flat_map(i32::to_be_bytes).collect()))
}

fn oid(name: &'static str, value: u32) -> Column {
    (name, OID, Some(value.to_be_bytes().into()))
}

fn yes(name: &'static str, value: bool) -> Column {
    (name, BOOL, Some(vec![value.into()]))
}

/// What a statement of pgthaw asks for, by a word of it.
fn kind_of(sql: &str) -> &'static str {
    let kinds = [
        ("current_setting('search_path')", "path"),
        ("set_config('lock_timeout'", "session"),
        ("pg_control_system", "facts"),
        ("datconnlimit", "databases"),
        ("pg_relation_filepath", "relations"),
        ("c.relkind = 'p'", "partitioned"),
        ("AS f (fork, kinds, persistences)", "forks"),
        ("pg_extension", "extension"),
        ("SELECT pg_catalog.pg_backend_pid()", "pid"),
        ("FROM pg_catalog.pg_postmaster_start_time()", "start"),
        ("pg_stat_get_activity(NULL) AS activity", "sessions"),
        ("pg_blocking_pids", "locks"),
        ("AS commits", "pulse"),
        ("pg_stat_bgwriter", "checkpoints"),
        ("pg_ls_tmpdir", "temporary"),
    ];
    kinds.iter().find(|(word, _)| sql.contains(word)).map_or("other", |(_, kind)| kind)
}

/// A client that waits for a lock.
fn session() -> Vec<Column> {
    let texts = [
        ("backend", "client backend"),
        ("user", "app"),
        ("database", "shop"),
        ("application_name", "web"),
        ("query", "UPDATE t SET a = 1"),
        ("event_type", "Lock"),
        ("event", "transactionid"),
        ("state", "active"),
    ];
    let numbers = [int4("pid", 4711), int8("started_us", 1_700_000_000_000_000), int8("state_ms", 3000)];
    texts.map(|(name, value)| text(name, value)).into_iter().chain(numbers).collect()
}

fn numbers(counts: &[&'static str], figures: &[&'static str]) -> Vec<Column> {
    let counts = counts.iter().map(|name| int8(name, 3));
    counts.chain(figures.iter().map(|name| float8(name, 3.0))).collect()
}

/// The row of an honest server with one database and one table, in a session that began with this mark.
fn honest(kind: &str, mark: &str) -> Vec<Column> {
    match kind {
        "path" => vec![text("path", ""), text("mark", mark)],
        "session" => vec![text("role", "me")],
        "facts" => vec![
            text("version", "16.4"),
            int4("version_num", 160_004),
            int8("system_identifier", 7_000_000_000_000_000_000),
            int4("block_size", 8192),
            int8("segment_blocks", 131_072),
            int8("shared_buffers_bytes", 16_384 * 8192),
            null("data_directory"),
            text("cluster_name", "lab"),
            null("debug_io_direct"),
            null("io_method"),
            yes("is_superuser", true),
            text("role", "me"),
            int4("backend_pid", 1),
            float8("uptime_seconds", 60.0),
            yes("in_recovery", false),
            text("lsn", "0/1"),
            int4("timeline", 1),
            null("sender_host"),
            null("sender_port"),
        ],
        "databases" => vec![oid("oid", 5), name("datname", "shop"), yes("allows_connections", true)],
        "relations" => vec![
            oid("oid", 16_384),
            name("nspname", "public"),
            name("relname", "t"),
            text("relkind", "r"),
            yes("relisshared", false),
            text("path", "base/5/16384"),
            name("spcname", "pg_default"),
            null("parent_schema"),
            null("parent_name"),
            yes("is_system", false),
        ],
        "forks" => vec![oid("relation_oid", 16_384), text("fork", "main"), int8("blocks", 10)],
        "pid" => vec![int4("pg_backend_pid", 4712)],
        "start" => vec![float8("extract", 1_700_000_000.0)],
        "sessions" => session(),
        "locks" => {
            let wait = [text("mode", "ShareLock"), text("relation", "t"), int8("waited_ms", 3000)];
            session().into_iter().chain(wait).chain([int4s("blocked_by", &[4711])]).collect()
        }
        "pulse" => {
            let counts = ["commits", "rollbacks", "blocks_hit", "blocks_read", "temporary_bytes", "deadlocks"];
            let clients = ["clients", "active", "idle_in_transaction", "hidden"];
            let figures = ["active_ms", "longest_query_seconds", "longest_transaction_seconds"];
            let event = text("checkpointer_event", "CheckpointerMain");
            numbers(&[&counts[..], &clients].concat(), &figures).into_iter().chain([event]).collect()
        }
        "checkpoints" => numbers(
            &["timed", "requested", "buffers", "wal_bytes", "max_wal_bytes"],
            &["write_ms", "sync_ms", "since_seconds", "timeout_seconds"],
        ),
        "temporary" => vec![int4("pid", 4711), int8("files", 1), int8("bytes", 8192)],
        _ => vec![text("nothing", "")],
    }
}

/// Is there a row, where an honest server has one?
fn has_row(kind: &str) -> bool {
    !matches!(kind, "other" | "extension" | "partitioned")
}

pub fn message(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend((content.len() as u32 + 4).to_be_bytes());
    bytes.extend(content);
    bytes
}

fn error_response(code: &str, message_text: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    for (field, value) in [(b'S', &b"ERROR"[..]), (b'V', b"ERROR"), (b'C', code.as_bytes()), (b'M', message_text)] {
        content.push(field);
        content.extend(value);
        content.push(0);
    }
    content.push(0);
    message(b'E', &content)
}

fn row_description(columns: &[Column]) -> Vec<u8> {
    let mut content = (columns.len() as u16).to_be_bytes().to_vec();
    for (name, type_oid, _) in columns {
        content.extend(name.as_bytes());
        content.extend([0; 7]);
        content.extend(type_oid.to_be_bytes());
        content.extend([0xff; 6]);
        content.extend([0, 1]);
    }
    message(b'T', &content)
}

fn data_row(columns: &[Column]) -> Vec<u8> {
    let mut content = (columns.len() as u16).to_be_bytes().to_vec();
    for (_, _, value) in columns {
        match value {
            Some(value) => {
                content.extend((value.len() as u32).to_be_bytes());
                content.extend(value);
            }
            None => content.extend([0xff; 4]),
        }
    }
    message(b'D', &content)
}

/// What a liar changes: given what is asked for, the columns and how often their row comes; or bytes of his own instead.
type Lie = dyn Fn(&str, &mut Vec<Column>, &mut usize) -> Option<Vec<u8>> + Send + Sync;

/// A port where a liar listens, until the test ends. `greeting` is what he says to a startup packet; `None`: nothing at all.
pub fn listen(greeting: Option<Vec<u8>>, lie: Box<Lie>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lie: Arc<Lie> = lie.into();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (greeting, lie) = (greeting.clone(), lie.clone());
            // Whoever is lied to goes away sooner or later.
            thread::spawn(move || _ = serve(stream, greeting, &*lie));
        }
    });
    port
}

fn welcome() -> Vec<u8> {
    let mut bytes = message(b'R', &[0; 4]);
    bytes.extend(message(b'S', b"server_version\x0016.4\0"));
    bytes.extend(message(b'K', &[0; 8]));
    bytes.extend(message(b'Z', b"I"));
    bytes
}

/// Reads the startup packet, and refuses encryption before it. Returns the mark of the session.
fn read_startup(stream: &mut TcpStream) -> std::io::Result<String> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut packet = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut packet)?;
        // Only a wish for encryption is as short as that.
        if packet.len() > 4 {
            let text = String::from_utf8_lossy(&packet);
            let mark = text.split("pgthaw.session=").nth(1).unwrap_or_default();
            return Ok(mark.chars().take_while(char::is_ascii_digit).collect());
        }
        stream.write_all(b"N")?;
    }
}

fn serve(mut stream: TcpStream, greeting: Option<Vec<u8>>, lie: &Lie) -> std::io::Result<()> {
    let mark = read_startup(&mut stream)?;
    let Some(greeting) = greeting else {
        return stream.read_exact(&mut [0]);
    };
    stream.write_all(&greeting)?;
    let (mut statements, mut asked) = (std::collections::HashMap::new(), String::new());
    loop {
        let mut header = [0; 5];
        stream.read_exact(&mut header)?;
        let mut content = vec![0; u32::from_be_bytes(header[1..].try_into().unwrap()) as usize - 4];
        stream.read_exact(&mut content)?;
        let parts: Vec<String> =
            content.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into()).collect();
        let (mut columns, mut rows);
        match header[0] {
            b'P' => {
                _ = statements.insert(parts[0].clone(), parts[1].clone());
                asked = parts[1].clone();
                stream.write_all(&message(b'1', b""))?;
            }
            b'D' => {
                let parameters = asked.matches('$').count().min(6) as u16;
                let mut description = parameters.to_be_bytes().to_vec();
                (0..parameters).for_each(|_| description.extend(TEXT.to_be_bytes()));
                stream.write_all(&message(b't', &description))?;
                columns = honest(kind_of(&asked), &mark);
                _ = lie(kind_of(&asked), &mut columns, &mut 1);
                stream.write_all(&row_description(&columns))?;
            }
            b'B' => {
                asked = statements.get(&parts[1]).cloned().unwrap_or_default();
                stream.write_all(&message(b'2', b""))?;
            }
            b'E' => {
                let kind = kind_of(&asked);
                columns = honest(kind, &mark);
                rows = usize::from(has_row(kind));
                if let Some(bytes) = lie(kind, &mut columns, &mut rows) {
                    return hang_up(stream, &bytes);
                }
                let row = data_row(&columns);
                let many = row.repeat(rows.min(1000));
                for _ in 0..rows / 1000 {
                    stream.write_all(&many)?;
                }
                stream.write_all(&row.repeat(rows % 1000))?;
                stream.write_all(&message(b'C', b"SELECT 1\0"))?;
            }
            b'C' => stream.write_all(&message(b'3', b""))?,
            b'Q' if kind_of(&parts[0]) == "path" => {
                (columns, rows) = (honest("path", &mark), 1);
                if let Some(bytes) = lie("path", &mut columns, &mut rows) {
                    return hang_up(stream, &bytes);
                }
                stream.write_all(&row_description(&columns))?;
                stream.write_all(&data_row(&columns).repeat(rows))?;
                stream.write_all(&message(b'C', b"SELECT 1\0"))?;
            }
            b'Q' => stream.write_all(&message(b'C', b"SET\0"))?,
            b'X' => return Ok(()),
            _ => {}
        }
        if matches!(header[0], b'S' | b'Q') {
            stream.write_all(&message(b'Z', b"I"))?;
        }
    }
}

/// A whole answer is never to come. What is asked meanwhile is read: else the kernel takes back what was said.
fn hang_up(mut stream: TcpStream, said: &[u8]) -> std::io::Result<()> {
    stream.write_all(said)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
}

/// Bytes that pgthaw may have at most: a liar shall not fill the machine. Room for a message of 2 GB is asked for when it is
/// announced, and not used before it comes.
const MEMORY_LIMIT: u64 = 6 << 30;

/// The commands that connect, each led to the liar.
const COMMANDS: [&[&str]; 10] = [
    &["map"],
    &["map", "--json"],
    &["doctor"],
    &["snapshot", "take", "--dir", "snapshots"],
    &["restore", "--dir", "snapshots"],
    &["evict", "--all", "--yes"],
    &["predict", "--seconds", "1"],
    &["top", "--json", "--seconds", "1"],
    &["waits", "--seconds", "1"],
    &["results", "--results"],
];

fn pgthaw(port: u16, arguments: &[&str]) -> Output {
    let home = Home::new();
    let plain = home.command(arguments);
    // Whatever it takes beyond the limit is refused to it, and a failure here.
    let mut command = Command::new("prlimit");
    command.arg(format!("--data={MEMORY_LIMIT}")).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(home.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if arguments.last() == Some(&"--results") {
        command.arg(format!("postgres://me@127.0.0.1:{port}/shop"));
    }
    command
        .env_remove("RUST_BACKTRACE")
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", port.to_string())
        .env("PGUSER", "me")
        .env("PGCONNECT_TIMEOUT", "3");
    servers::output_of(command.stdin(Stdio::null()))
}

/// No panic, an exit status of pgthaw's own, and nothing that moves a cursor.
#[track_caller]
fn assert_sober(what: &str, arguments: &[&str], output: &Output) {
    let told = format!("{what}, {arguments:?}: {}\n{:.2000}\n{:.2000}", output.status, output.stdout, output.stderr);
    assert!(!output.stderr.contains("panicked"), "{told}");
    assert!((0..=3).contains(&output.status), "{told}");
    for text in [&output.stdout, &output.stderr] {
        let obeyed =
            |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        assert!(!text.contains(obeyed), "{told}");
        assert!(text.len() < 1 << 20, "{what}, {arguments:?}: {} bytes", text.len());
    }
}

fn tell_the_truth() -> Box<Lie> {
    Box::new(|_, _, _| None)
}

#[test]
fn one_that_tells_the_truth_is_believed() {
    let port = listen(Some(welcome()), tell_the_truth());
    let map = pgthaw(port, &["map", "--json"]).ok().json();
    assert_eq!(map["relations"][0]["name"], "t", "{map:#}");
    let top = pgthaw(port, &["top", "--json", "--seconds", "3"]).ok().stdout;
    let steps = top.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
    // On a busy machine, a step may lack an answer.
    let step = { steps }.find(|step| !step["server"].is_null() && !step["temporary_files"][0].is_null()).unwrap();
    assert_eq!((&step["server"]["clients"], &step["checkpoint"]["timed"]), (&3.into(), &3.into()), "{step:#}");
    assert_eq!(step["temporary_files"][0]["bytes"], 8192, "{step:#}");
    let waits = pgthaw(port, WAITS).ok().stdout;
    assert!(waits.contains("client backend::Lock::transactionid"), "{waits}");
}

#[test]
fn the_remedy_of_a_timeout_names_whoever_may_have_set_it() {
    let cancelled = || error_response("57014", b"canceling statement due to statement timeout");
    let port = listen(Some(welcome()), Box::new(move |kind, _, _| (kind == "databases").then(cancelled)));
    let told = pgthaw(port, &["map"]).ends_with(1).stderr;
    assert!(told.contains(r"\drds") && told.contains("ALTER DATABASE or ALTER ROLE"), "{told}");
}

#[test]
fn whoever_never_greets_or_greets_badly_is_left() {
    let huge = [&b"R\x7f\xff\xff\xff"[..], &[0; 4]].concat();
    let notices = message(b'N', b"SWARNING\0VWARNING\0C01000\0Mhello\x1b[2J\0\0").repeat(10_000);
    let greetings: [(&str, Option<Vec<u8>>); 14] = [
        ("silence", None),
        ("no bytes", Some(Vec::new())),
        ("half a message", Some(b"R\0\0".to_vec())),
        ("a length of 2 GB", Some(huge)),
        ("a length of 0", Some(b"R\0\0\0\0".to_vec())),
        ("a length of 3", Some(b"Z\0\0\0\x03".to_vec())),
        ("an unknown message", Some(message(b'?', b"x"))),
        ("an unknown authentication", Some(message(b'R', &[0, 0, 0, 99]))),
        ("an empty authentication", Some(message(b'R', b""))),
        ("Kerberos", Some(message(b'R', &[0, 0, 0, 2]))),
        ("SASL without end", Some(message(b'R', &[0, 0, 0, 10, b'S', b'C', b'R']))),
        ("an error in colours", Some(error_response("28000", "no\x1b[31m\r\n\u{202e}\u{9b}2J`rm -rf /`".as_bytes()))),
        ("an error of a megabyte", Some(error_response("XX000", &[b'x'; 1 << 20]))),
        ("notices", Some([notices, welcome()].concat())),
    ];
    // All wait for their time to be over: side by side.
    thread::scope(|scope| {
        for (what, greeting) in greetings {
            let port = listen(greeting, tell_the_truth());
            scope.spawn(move || {
                for command in [COMMANDS[0], COMMANDS[2], COMMANDS[9]] {
                    assert_sober(what, command, &pgthaw(port, command));
                }
            });
        }
    });
}

type Change = fn(&mut Vec<Column>, &mut usize) -> Option<Vec<u8>>;

/// What a liar may do to any answer.
const CHANGES: [(&str, Change); 13] = [
    ("nothing", |_, rows| {
        *rows = 0;
        None
    }),
    ("NULLs", |columns, _| {
        columns.iter_mut().for_each(|column| column.2 = None);
        None
    }),
    ("other types", |columns, _| {
        columns.iter_mut().for_each(|column| column.1 = 600);
        None
    }),
    ("unknown types", |columns, _| {
        columns.iter_mut().for_each(|column| column.1 = u32::MAX);
        None
    }),
    ("one column", |columns, _| {
        columns.truncate(1);
        None
    }),
    ("ones", |columns, _| {
        let ones = |value: &mut Vec<u8>| value.fill(0xff);
        columns.iter_mut().filter_map(|column| column.2.as_mut()).for_each(ones);
        None
    }),
    ("zeros", |columns, _| {
        columns.iter_mut().filter_map(|column| column.2.as_mut()).for_each(|value| value.fill(0));
        None
    }),
    ("names that move the cursor", |columns, _| {
        let texts = columns.iter_mut().filter(|column| matches!(column.1, TEXT | NAME));
        texts.for_each(|column| column.2 = Some("\x1b]0;x\x07\n\r\u{202e}'; $(reboot) `id` \u{7f}".into()));
        None
    }),
    ("names of a megabyte", |columns, _| {
        let names = columns.iter_mut().filter(|column| column.1 == NAME);
        names.for_each(|column| column.2 = Some(vec![b'n'; 1 << 20]));
        None
    }),
    ("names that are no UTF-8", |columns, _| {
        let texts = columns.iter_mut().filter(|column| matches!(column.1, TEXT | NAME));
        texts.for_each(|column| column.2 = Some(b"\xff\xfe\x00\x80".to_vec()));
        None
    }),
    ("a row that ends too soon", |columns, _| Some(data_row(columns)[..7].to_vec())),
    ("an error in colours", |_, _| Some(error_response("22012", b"\x1b[2J\x1b]0;t\x07"))),
    ("numbers that leap to the greatest and back", |columns, _| {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let is_greatest = ASKED.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        for (_, type_oid, value) in columns {
            let greatest = match *type_oid {
                INT4 => i32::MAX.to_be_bytes().to_vec(),
                INT8 => i64::MAX.to_be_bytes().to_vec(),
                FLOAT8 => f64::MAX.to_be_bytes().to_vec(),
                _ => continue,
            };
            *value = Some(if is_greatest { greatest } else { vec![0; greatest.len()] });
        }
        None
    }),
];

/// Tells pgthaw a changed answer to one question, and all others honestly.
fn try_change((what, change): (&str, Change), asked: &'static str, command: &[&str]) {
    let lie = move |kind: &str, columns: &mut Vec<Column>, rows: &mut usize| {
        if kind == asked { change(columns, rows) } else { None }
    };
    let port = listen(Some(welcome()), Box::new(lie));
    assert_sober(&format!("{what} for {asked}"), command, &pgthaw(port, command));
}

#[test]
fn what_it_says_of_itself_is_not_believed() {
    let kinds = ["path", "session", "facts", "databases", "relations", "forks", "extension", "other"];
    thread::scope(|scope| {
        for (number, change) in CHANGES.into_iter().enumerate() {
            scope.spawn(move || {
                for (place, asked) in kinds.into_iter().enumerate() {
                    // Each command meets each lie in the end, of another answer each time.
                    try_change(change, asked, COMMANDS[(number + place) % 9]);
                }
            });
        }
    });
}

const TOP: &[&str] = COMMANDS[7];
const WAITS: &[&str] = COMMANDS[8];

#[test]
fn what_it_says_of_its_sessions_and_counters_is_not_believed() {
    let kinds = ["pid", "start", "sessions", "locks", "pulse", "checkpoints", "temporary"];
    let many: (&str, Change) = ("a thousand rows", |_, rows| {
        *rows = 1000;
        None
    });
    thread::scope(|scope| {
        for (number, change) in CHANGES.into_iter().chain([many]).enumerate() {
            scope.spawn(move || {
                for (place, asked) in kinds.into_iter().enumerate() {
                    let command = match asked {
                        "start" => WAITS,
                        "pulse" | "checkpoints" => TOP,
                        _ if (number + place) % 2 == 0 => TOP,
                        _ => WAITS,
                    };
                    try_change(change, asked, command);
                }
            });
        }
    });
}

/// A process that passes for the postmaster of a data directory, and a child of it that passes for a backend.
struct FakePostmaster {
    process: Child,
    backend_pid: i32,
    /// Not read any further: so the program stays in its first write.
    _output: BufReader<ChildStdout>,
}

impl FakePostmaster {
    /// `then` is what its shell does after it has started the child.
    fn start(directory: &Path, then: &str) -> FakePostmaster {
        let program = servers::programs(servers::newest()).path("postgres").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("sleep 600 & echo $!; {then}")]).arg(program).current_dir(directory);
        let mut process = shell.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        FakePostmaster { process, backend_pid: line.trim().parse().unwrap(), _output: output }
    }
}

impl Drop for FakePostmaster {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}

/// Files of a data directory of the liar's cluster, with this text in `postmaster.pid`.
fn write_data_directory(directory: &Path, postmaster: &str) {
    let mut control = vec![0; 256];
    control[..8].copy_from_slice(&7_000_000_000_000_000_000_u64.to_ne_bytes());
    control[8..12].copy_from_slice(&1300_u32.to_ne_bytes());
    control[208..216].copy_from_slice(&1_234_567_f64.to_ne_bytes());
    control[216..220].copy_from_slice(&8192_u32.to_ne_bytes());
    control[220..224].copy_from_slice(&131_072_u32.to_ne_bytes());
    fs::create_dir_all(directory.join("global")).unwrap();
    fs::write(directory.join("global/pg_control"), control).unwrap();
    fs::write(directory.join("PG_VERSION"), "16\n").unwrap();
    fs::write(directory.join("postmaster.pid"), postmaster).unwrap();
}

/// The owner of a data directory writes its postmaster.pid, and can run the process named there.
#[test]
fn a_process_that_is_no_postmaster_ends_neither_top_nor_waits() {
    let home = tempfile::Builder::new().prefix("pgthaw-liar-").tempdir_in("/var/tmp").unwrap();
    let directory = home.path().canonicalize().unwrap();
    // The shell lacks the server's variables. PostgreSQL's program has them, but its child has not. It blocks because its pipe is full.
    for (then, is_server) in [("wait", false), ("head -c 60000 /dev/zero; exec \"$0\" --describe-config", true)] {
        let fake = FakePostmaster::start(&directory, then);
        let (pid, backend_pid) = (fake.process.id(), fake.backend_pid);
        let program = || fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        servers::wait_until("its program", || program().ends_with("postgres") == is_server);
        write_data_directory(&directory, &format!("{pid}\n{}\n1700000000\n5432\n", directory.display()));
        let place = directory.display().to_string();
        let lie = move |kind: &str, columns: &mut Vec<Column>, _: &mut usize| {
            for column in columns.iter_mut().filter(|_| kind == "facts") {
                match column.0 {
                    "data_directory" => *column = text("data_directory", &place),
                    "backend_pid" => *column = int4("backend_pid", backend_pid),
                    _ => {}
                }
            }
            None
        };
        let port = listen(Some(welcome()), Box::new(lie));
        let [top, _] = [TOP, WAITS].map(|command| {
            let output = pgthaw(port, command);
            assert_sober(then, command, &output);
            output.ok()
        });
        let step: Value = serde_json::from_str(top.stdout.lines().next().unwrap()).unwrap();
        assert!(!step["machine"].is_null(), "it is taken for a server of this host: {step}");
        if rustix::process::geteuid().is_root() {
            assert_eq!(step["source"] != "sql", is_server, "{step}");
        }
        for rest in ["0\n/\x1b[2J\n\x1b[2J", "65536\n/\0\n'; $(reboot)", "-1\n/nowhere\n*"] {
            write_data_directory(&directory, &format!("{pid}\n/\n-9223372036854775808\n{rest}\n"));
            let command = [TOP, &["-D", directory.to_str().unwrap()]].concat();
            assert_sober(rest, &command, &Home::new().pgthaw(&command));
        }
    }
    // Numbers that no process has.
    for text in ["0", "4294967295", ""] {
        write_data_directory(&directory, text);
        assert_sober(text, &["map"], &Home::new().pgthaw(&["map", "-D", directory.to_str().unwrap()]));
    }
}

#[test]
fn every_command_ends_when_nothing_more_is_said() {
    for asked in ["path", "session", "facts"] {
        let lie = move |kind: &str, _: &mut Vec<Column>, _: &mut usize| {
            if kind == asked {
                thread::park()
            }
            None
        };
        let port = listen(Some(welcome()), Box::new(lie));
        thread::scope(|scope| {
            for command in COMMANDS {
                scope.spawn(move || assert_sober(&format!("silence after {asked}"), command, &pgthaw(port, command)));
            }
        });
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_server_with_more_relations_than_there_are_is_refused() {
    let lie = |kind: &str, _: &mut Vec<Column>, rows: &mut usize| {
        if kind == "relations" {
            *rows = 10_000_000;
        }
        None
    };
    let port = listen(Some(welcome()), Box::new(lie));
    assert_sober("10^7 rows", COMMANDS[1], &pgthaw(port, COMMANDS[1]));
}
