//! A command that pgthaw prints does what it says when it is pasted, whatever databases, roles, directories and files are called.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::kills::moments::Moments;
use crate::servers::{self, Output, TestServer};
use crate::{results, synthetic_run};

/// Built from what pgthaw completes in a command, from what ends a quoted word, and from what leads psql elsewhere.
const NAMES: [&str; 15] = [
    "`pgthaw map $(touch x)`",
    "pgthaw map $(touch x)",
    "pgthaw … $(touch x)",
    "sudo pgthaw … $(touch x)",
    "psql -d $(touch x)",
    "x; do psql -d $(touch x)",
    "'x; do psql -d '$(touch x)",
    "`GRANT pg_monitor TO …`; touch x",
    "CREATE EXTENSION '; touch x; '",
    "\"; do psql -d \"$(touch x)",
    "a'\u{2028}`touch x`\\",
    "dbname=x host=$(touch x)",
    "postgresql://x/$(touch x)",
    "-c \\! touch x",
    "x -- $(touch x)",
];

/// Generated names are of parts of the same kinds. A URI only begins one: elsewhere it would be hidden as a possible password.
const BEGINNINGS: [&str; 9] = ["", "-", "--", "dbname=", "postgresql://x/", "'", "\"", "`", "\\"];
const MIDDLES: [&str; 24] = [
    "`pgthaw … ",
    "`sudo pgthaw … ",
    "pgthaw …(no -U)",
    "`GRANT pg_monitor TO …`",
    "GRANT ",
    "CREATE EXTENSION ",
    "psql -d ",
    "psql -c ",
    "psql -l",
    "; do psql -d ",
    "for d in ",
    "; done",
    " -- ",
    "…",
    "`",
    "'",
    "\"",
    "\\",
    "$",
    ";",
    "\u{2028}",
    "\u{2060}",
    "host=x ",
    " -d x ",
];
/// N is the name's number.
const ENDS: [&str; 6] = ["$(touch N)", "`touch N`", "'; touch N; '", "\"; touch N; \"", "\\! touch N", "| touch N #"];

/// PostgreSQL cuts names of 64 bytes, and a socket's path may have 107.
const NAME_BYTES: usize = 60;

fn generate(moments: &mut Moments, number: usize) -> String {
    let mut name = (*moments.pick(&BEGINNINGS)).to_owned();
    let end = moments.pick(&ENDS).replace('N', &format!("y{number}"));
    for _ in 0..4 {
        let middle = moments.pick(&MIDDLES);
        if name.len() + middle.len() + end.len() <= NAME_BYTES {
            name.push_str(middle);
        }
    }
    name + &end
}

/// PGTHAW_KILLS_SEED generates others, PGTHAW_PASTED_NAMES more.
fn names() -> Vec<String> {
    let count = std::env::var("PGTHAW_PASTED_NAMES").map_or(10, |count| count.parse().unwrap());
    let mut moments = Moments::new(46);
    let fixed = NAMES.into_iter().map(str::to_owned);
    fixed.chain((0..count).map(|number| generate(&mut moments, number))).collect()
}

/// The name of a file: without a slash, and with a line feed, which a server of version 19 allows in no name.
fn file_of(name: &str) -> String {
    name.replace('/', "_").replace('\u{2028}', "\n")
}

/// In quotes of a connection string.
fn escape(value: &str) -> String {
    value.replace('\\', r"\\").replace('\'', r"\'")
}

/// The longest name that a word has, as a word, a connection string, an identifier or a file have it.
fn name_in<'a>(word: &str, names: &'a [String]) -> Option<&'a String> {
    let forms = |form: String| [escape(&form), form.replace('"', "\"\""), form];
    let is_of = |name: &&String| {
        [name.as_str().to_owned(), file_of(name)].into_iter().flat_map(forms).any(|form| word.contains(form.as_str()))
    };
    names.iter().filter(is_of).max_by_key(|name| name.len())
}

/// The commands that an answer advises: in JSON those of its remedies and hints, in text what stands between backticks behind `hint: `.
fn commands_in(output: &Output) -> BTreeSet<String> {
    fn visit(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(all) => all.iter().for_each(|one| visit(one, found)),
            Value::Object(fields) => {
                let advice = ["remedy", "hint"].iter().filter_map(|name| fields.get(*name)?.as_str());
                found.extend(advice.map(str::to_owned));
                fields.values().for_each(|one| visit(one, found));
            }
            _ => {}
        }
    }
    let mut advice = Vec::new();
    for text in [&output.stdout, &output.stderr] {
        // An error stands behind remarks.
        let last = text.lines().last().unwrap_or_default();
        let answer = serde_json::from_str::<Value>(text).or_else(|_| serde_json::from_str(last)).ok();
        match answer.filter(|answer| answer.is_array() || answer.is_object()) {
            Some(answer) => visit(&answer, &mut advice),
            None => advice.extend(text.split("hint: ").skip(1).map(|hint| hint.replace("\n  ", " "))),
        }
    }
    // A line of its own is a command without backticks; with them it may be a name.
    advice.extend(output.stdout.lines().map(|line| line.trim().to_owned()).filter(|line| !line.contains('`')));
    let programs = ["psql ", "sudo ", "runuser ", "pgthaw ", "chmod ", "for "];
    let is_bare = |text: &&String| programs.iter().any(|begin| text.starts_with(begin));
    let bare = advice.iter().filter(is_bare).cloned();
    let marked = advice.iter().flat_map(|text| text.split('`').skip(1).step_by(2).map(str::to_owned));
    bare.chain(marked).collect()
}

/// Logs its arguments: a zero byte after each, and another one after the call.
const SHIM: &str = "#!/bin/sh\nprintf '%s\\0' \"$0\" \"$@\" >> \"$CALLS\"; printf '\\0' >> \"$CALLS\"\n";

type Call = Vec<String>;

/// Shells that start only programs that log their arguments, and `touch`: advice also names apt-get and mount.
struct Shells {
    shims: TempDir,
    place: TempDir,
    pasted: BTreeMap<String, Vec<Call>>,
}

impl Shells {
    fn new() -> Shells {
        let shims = tempfile::tempdir().unwrap();
        for program in ["psql", "sudo", "runuser", "pgthaw", "rm", "chmod", "mkdir", "sqlite3"] {
            let shim = shims.path().join(program);
            fs::write(&shim, SHIM).unwrap();
            fs::set_permissions(&shim, Permissions::from_mode(0o755)).unwrap();
        }
        symlink("/usr/bin/touch", shims.path().join("touch")).unwrap();
        Shells { shims, place: tempfile::tempdir().unwrap(), pasted: BTreeMap::new() }
    }

    /// The arguments that each program gets when the command is pasted, which are the same in every shell.
    fn paste(&mut self, command: &str) -> Vec<Call> {
        if let Some(known) = self.pasted.get(command) {
            return known.clone();
        }
        let [of_sh, of_bash] = ["/bin/sh", "/bin/bash"].map(|shell| self.split(shell, command));
        let is_same_word = |(one, other): (&String, &String)| one == other || decode(one).as_ref() == Some(other);
        let is_same =
            |(one, other): (&Call, &Call)| one.len() == other.len() && one.iter().zip(other).all(is_same_word);
        let are_same = of_sh.len() == of_bash.len() && of_sh.iter().zip(&of_bash).all(is_same);
        assert!(are_same, "{command}: sh has {of_sh:?}, bash {of_bash:?}");
        self.pasted.insert(command.to_owned(), of_bash.clone());
        of_bash
    }

    fn split(&self, shell: &str, command: &str) -> Vec<Call> {
        let calls = self.shims.path().join("calls");
        let _ = fs::remove_file(&calls);
        let mut pasted = Command::new(shell);
        pasted.args(["-c", command]).current_dir(self.place.path());
        pasted.env("PATH", self.shims.path()).env("CALLS", &calls);
        let ended = pasted.output().unwrap();
        let left: Vec<_> = fs::read_dir(self.place.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{shell}: {command} made {left:?}: {ended:?}");
        let calls = fs::read_to_string(&calls).unwrap_or_default();
        calls.split_terminator("\0\0").map(|call| call.split('\0').map(str::to_owned).collect()).collect()
    }
}

/// What $'…' stands for. dash before 0.5.13 leaves it as it is, and runs nothing of it.
fn decode(word: &str) -> Option<String> {
    let (plain, coded) = word.strip_prefix('$')?.split_once('\\')?;
    let mut bytes = plain.as_bytes().to_vec();
    for part in coded.split('\\') {
        let (octal, rest) = part.split_at_checked(3)?;
        bytes.push(u8::from_str_radix(octal, 8).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Each name is a database's and a role's; `locked` needs a password.
fn server_of(names: &[String]) -> TestServer {
    let server = servers::start_any(&[]);
    let hba = server.data_directory().join("pg_hba.conf");
    let rules = fs::read_to_string(&hba).unwrap();
    fs::write(&hba, format!("local all locked scram-sha-256\n{rules}")).unwrap();
    let create = |name: &String| {
        let name = name.replace('"', "\"\"");
        format!("CREATE DATABASE \"{name}\"; CREATE ROLE \"{name}\" LOGIN;\n")
    };
    server.psql(&names.iter().map(create).collect::<String>());
    server.psql("CREATE ROLE locked LOGIN PASSWORD 'x'; SELECT pg_reload_conf()");
    server
}

/// Each name is a file's of every kind that an option may name.
fn make_files(root: &Path, names: &[String], server: &TestServer) {
    let store = root.join("results.sqlite");
    let (run, trials) = synthetic_run::make(1, 5);
    results::keep(&store, &run, &trials);
    let mut damaged = fs::read(&store).unwrap();
    damaged[4096..].fill(0xa5);
    for kind in ["socket", "data", "directory", "parquet", "sqlite"] {
        fs::create_dir(root.join(kind)).unwrap();
    }
    for name in names {
        let at = |kind: &str| root.join(kind).join(file_of(name));
        symlink(server.cluster.socket_directory(), at("socket")).unwrap();
        symlink(server.data_directory(), at("data")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("parquet"), "PAR1, and no end of a Parquet file").unwrap();
        // A password file that others can read, too.
        fs::set_permissions(at("parquet"), Permissions::from_mode(0o644)).unwrap();
        fs::write(at("sqlite"), &damaged).unwrap();
    }
}

fn words(words: &[&str], options: &[(&str, &str)]) -> Call {
    let options = options.iter().map(|(option, value)| format!("--{option}={value}"));
    words.iter().map(|word| (*word).to_owned()).chain(options).collect()
}

/// Commands whose advice repeats the names they were given, and the words that it then has to have, one after another.
fn echoes(name: &str, root: &Path, bin_dir: &str) -> Vec<(Call, Call)> {
    let paths = ["socket", "data", "directory", "parquet", "sqlite", "absent", "snapshots"];
    let paths = paths.map(|kind| root.join(kind).join(file_of(name)).to_str().unwrap().to_owned());
    let [socket, data, directory, parquet, sqlite, absent, snapshots] = paths.each_ref().map(String::as_str);
    let database = format!("dbname='{}'", escape(name));
    let with_password_file = format!("dbname=postgres passfile='{}'", escape(parquet));
    let locked = [("username", "locked"), ("host", socket), ("data-dir", data), ("dbname", &*database)];
    let take = words(
        &["snapshot", "take"],
        &[&locked[..], &[("dir", snapshots), ("label", name), ("output", absent)]].concat(),
    );
    let own = [("username", name), ("host", socket), ("data-dir", data), ("dbname", &*database)];
    let more = [("like", name), ("film", name), ("output", absent), ("application-name", name)];
    let run = words(&["run"], &[own, more].concat());
    let only = |alone: &[&str]| words(alone, &[]);
    vec![
        // As it was typed.
        ([take.clone(), only(&["-w"])].concat(), [take, only(&["-W"])].concat()),
        ([run.clone(), only(&["true"])].concat(), [run, only(&["--", "true"])].concat()),
        (only(&["snapshot", "show", directory]), only(&["--dir", directory])),
        (only(&["snapshot", "show", parquet]), only(&["--", parquet])),
        (only(&["film", "show", parquet]), only(&["--", parquet])),
        (
            words(&["map", "-w"], &[("username", "locked"), ("host", socket), ("dbname", &*with_password_file)]),
            only(&["600", parquet]),
        ),
        (words(&["serve", "--listen", "0"], &[("token-file", parquet)]), only(&["600", parquet])),
        (words(&["results"], &[("results", absent)]), only(&["--results", absent])),
        (words(&["results"], &[("results", sqlite)]), only(&[sqlite, ".recover"])),
        (
            words(&["bench", "warmup", "scale=1", "seconds=5"], &[("dir", absent), ("bin-dir", bin_dir)]),
            only(&["-p", absent]),
        ),
    ]
}

#[test]
fn what_a_shell_splits_is_what_was_meant() {
    // A command looks into every database of its server: few names on each of several servers cost a third.
    names().chunks(9).for_each(paste_what_names);
}

/// Pastes what commands advise where everything has these names.
fn paste_what_names(names: &[String]) {
    let server = server_of(names);
    let files = tempfile::tempdir().unwrap();
    make_files(files.path(), names, &server);
    let mut shells = Shells::new();
    let advised = |arguments: &[&str]| commands_in(&server.pgthaw(arguments));
    // Of all of them at once.
    let mut commands: BTreeSet<String> =
        advised(&["doctor", "--json"]).into_iter().chain(advised(&["doctor"])).collect();
    for name in names {
        let at = |kind: &str| files.path().join(kind).join(file_of(name)).to_str().unwrap().to_owned();
        let (socket, data, snapshots) = (at("socket"), at("data"), at("snapshots"));
        let database = format!("dbname='{}'", escape(name));
        let own = words(&[], &[("host", &*socket), ("username", &**name), ("dbname", &*database)]);
        for command in [
            words(&["doctor"], &[("data-dir", &*data)]),
            words(&["map", "--json"], &[]),
            words(&["snapshot", "take"], &[("dir", &*snapshots)]),
            words(&["restore", "best", "--json"], &[("dir", &*snapshots)]),
        ] {
            commands.extend(advised(&as_strs(&[command, own.clone()].concat())));
        }
    }
    let loops = commands.iter().filter(|command| command.starts_with("for d in "));
    assert!(loops.clone().count() > 1, "{commands:#?}");
    assert!(loops.clone().all(|command| command.contains(" -h ")), "each leads to the server: {commands:#?}");
    let mut named = BTreeSet::new();
    for command in &commands {
        let calls = shells.paste(command);
        named.extend(calls.iter().flatten().filter_map(|word| name_in(word, names)));
    }
    assert_eq!(named.len(), names.len(), "{named:?} of {commands:#?}");

    let mut assert_told = |output: &Output, meant: &[String]| {
        // Each is pasted, also those behind the one that is looked for.
        let calls: Vec<Call> = commands_in(output).iter().flat_map(|command| shells.paste(command)).collect();
        let is_told = calls.iter().any(|call| call.windows(meant.len()).any(|words| words == meant));
        assert!(is_told, "{meant:?} is not in {calls:#?} of {output:?}");
    };
    let programs = servers::programs(servers::newest());
    let bin_dir = programs.bin_dir().to_str().unwrap();
    for (number, name) in names.iter().enumerate() {
        for (place, (arguments, meant)) in echoes(name, files.path(), bin_dir).iter().enumerate() {
            // The first two have every option; of the others each name gets half.
            if place < 2 || (place + number).is_multiple_of(2) {
                assert_told(&server.pgthaw(&as_strs(arguments)), meant);
            }
        }
        // What sudo needs beside is not put into a name.
        let absent = server.home().join(file_of(name));
        let typed = words(&["restore", "best"], &[("dir", absent.to_str().unwrap()), ("username", name)]);
        let output = match rustix::process::getuid().is_root() {
            true => server.pgthaw_as(65_534, &as_strs(&typed)),
            false => server.pgthaw(&as_strs(&typed)),
        };
        assert_told(&output, &[words(&["pgthaw"], &[]), typed].concat());
    }

    let users = [server.psql("SELECT current_user"), "postgres".to_owned()];
    for (command, calls) in &shells.pasted {
        for call in calls {
            for word in call.iter().filter(|word| word.contains("touch")) {
                assert!(name_in(word, names).is_some(), "{command} has {word:?} in {call:?}");
            }
            for two in call.windows(2).filter(|two| two[0] == "-U") {
                assert!(names.contains(&two[1]) || users.contains(&two[1]), "{command} has {:?} in {call:?}", two[1]);
            }
        }
    }
}

fn as_strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}
