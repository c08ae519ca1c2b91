//! Real servers for tests, and pgthaw run against them as a user runs it.
//!
//! ```ignore
//! test_every_version! {
//!     fn map_shows_a_table(version) {
//!         let server = servers::start(version, &[("shared_buffers", "16MB")]);
//!         server.psql("CREATE TABLE t AS SELECT generate_series(1, 100000) AS i");
//!         let map = server.pgthaw(&["map", "--json"]).ok().json();
//!     }
//! }
//! ```
//!
//! `make test` runs such a test on the newest version there is; `make test-all-versions` on 13 to 18 too. A test that does not
//! depend on the version uses [`start_any`].

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use host::linux::DiskLimit;
use postgres::{Programs, ScratchCluster, StopMode};
use tempfile::TempDir;

use crate::schemas::check_output;
use crate::strict_json::Strict;

/// Servers for tests trade safety for speed, and do nothing of their own accord.
const SETTINGS: [(&str, &str); 6] = [
    ("fsync", "off"),
    ("full_page_writes", "off"),
    ("autovacuum", "off"),
    ("shared_buffers", "16MB"),
    ("max_connections", "20"),
    ("checkpoint_timeout", "1h"),
];

/// Makes one test per major version, `NAME::on_15` and so on, and `NAME::on_newest`.
macro_rules! test_every_version {
    ($(#[$attribute:meta])* fn $name:ident($version:ident) $body:block) => {
        $(#[$attribute])*
        mod $name {
            use super::*;

            fn check($version: u32) $body

            #[test]
            #[ignore = "make test-all-versions"]
            fn on_13() {
                check(13);
            }
            #[test]
            #[ignore = "make test-all-versions"]
            fn on_14() {
                check(14);
            }
            #[test]
            #[ignore = "make test-all-versions"]
            fn on_15() {
                check(15);
            }
            #[test]
            #[ignore = "make test-all-versions"]
            fn on_16() {
                check(16);
            }
            #[test]
            #[ignore = "make test-all-versions"]
            fn on_17() {
                check(17);
            }
            #[test]
            #[ignore = "make test-all-versions"]
            fn on_18() {
                check(18);
            }
            #[test]
            fn on_newest() {
                check(crate::servers::newest());
            }
        }
    };
}

/// A server of its own for one test, with a home directory for pgthaw. Both go with it.
#[derive(Debug)]
pub struct TestServer {
    pub cluster: ScratchCluster,
    programs: Programs,
    pub home: Home,
}

/// Where pgthaw keeps its state and looks for its settings while a test runs.
#[derive(Debug)]
pub struct Home(TempDir);

/// What a program printed and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The exit status; 128 + the signal when a signal ended it, as a shell has it.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// The installations to test against, oldest first: what PGTHAW_TEST_BIN_DIRS names
/// (`15=/usr/lib/postgresql/15/bin:19=/opt/19/bin`), else Debian's and those that `scripts/test-servers` got.
pub fn servers() -> Vec<(u32, PathBuf)> {
    if let Ok(named) = std::env::var("PGTHAW_TEST_BIN_DIRS") {
        return named.split(':').filter(|part| !part.is_empty()).map(parse_server).collect();
    }
    let downloaded = fs::read_dir(servers_directory()).into_iter().flatten().flatten();
    let downloaded = downloaded.map(|entry| entry.path().join("bin"));
    let debian = Programs::find_all().into_iter().map(|programs| programs.bin_dir().to_owned());
    let programs = debian.chain(downloaded).filter_map(|bin_dir| Programs::find(Some(&bin_dir)).ok());
    let mut servers: Vec<(u32, PathBuf)> =
        programs.map(|programs| (programs.version().unwrap().major, programs.bin_dir().to_owned())).collect();
    servers.sort();
    servers
}

fn parse_server(part: &str) -> (u32, PathBuf) {
    let (major, bin_dir) = part.split_once('=').expect("PGTHAW_TEST_BIN_DIRS is VERSION=DIRECTORY:VERSION=DIRECTORY");
    (major.parse().expect("PGTHAW_TEST_BIN_DIRS begins with a major version"), bin_dir.into())
}

/// Where `scripts/test-servers` puts its servers, and where the templates are. Not below the checkout, which the user that a server runs as may be
/// unable to reach.
fn servers_directory() -> PathBuf {
    format!("/var/tmp/pgthaw-test-servers-{}", rustix::process::getuid().as_raw()).into()
}

/// The programs of a major version.
pub fn programs(version: u32) -> Programs {
    let found = servers().into_iter().find(|(major, _)| *major == version);
    let (_, bin_dir) = found.unwrap_or_else(|| panic!("no PostgreSQL {version}: run scripts/test-servers {version}"));
    Programs::find(Some(&bin_dir)).unwrap()
}

/// Starts a server of a major version with these settings on top of [`SETTINGS`]. The cluster is a copy, so all
/// servers of a version have one system identifier: use [`start_new`] where that matters.
pub fn start(version: u32, settings: &[(&str, &str)]) -> TestServer {
    let programs = programs(version);
    let directory = copy_of_template(&programs);
    let cluster = ScratchCluster::adopt(&programs, &directory).unwrap();
    TestServer::start(cluster, programs, settings)
}

/// Starts a server of the newest version there is: for tests of what does not depend on it.
pub fn start_any(settings: &[(&str, &str)]) -> TestServer {
    start(newest(), settings)
}

/// The newest version there is: 19, or 18 where no Debian archive has 19.
pub fn newest() -> u32 {
    servers().last().expect("no PostgreSQL: run scripts/test-servers 19").0
}

/// The newest version whose programs are installed, as a cluster's own are wherever it is used: what a stopped server is set to is asked of
/// them.
pub fn installed() -> u32 {
    Programs::find_all().last().expect("no PostgreSQL is installed: make setup").version().unwrap().major
}

/// Is there a server of this major version?
pub fn has(version: u32) -> bool {
    servers().iter().any(|(major, _)| *major == version)
}

/// Looks again and again, for as long as a crowded machine may take.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(180);
    while !is_so() {
        assert!(Instant::now() < until, "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes that this one has started, each before those that it has.
pub fn below(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().filter_map(|one| one.parse().ok()).collect();
    children.iter().flat_map(|child| [vec![*child], below(*child)].concat()).collect()
}

/// Is a process in this state of /proc/PID/status, such as `T` (stopped) or `Z` (ended, and not yet waited for)?
pub fn is_in_state(pid: u32, state: char) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| status.contains(&format!("\nState:\t{state}")))
}

/// Kills a `pgthaw run`: who waits for it at once, and who works ends with him. Returns the processes of its job.
pub fn kill_run(run: &mut Child) -> Vec<u32> {
    let processes = below(run.id());
    let (works, job) = processes.split_first().expect("nobody works");
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the end of who works", || !Path::new(&format!("/proc/{works}")).exists());
    job.to_vec()
}

/// Starts a standby of the server, which is stopped: the standby waits for it.
pub fn start_standby(primary: &mut TestServer) -> TestServer {
    let mut standby = start_any(&[]);
    [&mut *primary, &mut standby].into_iter().for_each(|server| server.cluster.stop(StopMode::Fast).unwrap());
    let (from, to) = (primary.data_directory(), standby.data_directory());
    fs::remove_dir_all(&to).unwrap();
    assert!(Command::new("cp").arg("-a").args([&from, &to]).status().unwrap().success());
    let address = primary.cluster.connect_options("postgres");
    let (host, port) = (address.host.unwrap(), address.port.unwrap());
    standby.cluster.configure(&[("primary_conninfo", &format!("host={host} port={port} user=postgres"))]).unwrap();
    fs::write(to.join("standby.signal"), "").unwrap();
    standby.cluster.start().unwrap();
    standby
}

/// Starts a server of a cluster made by initdb: slower, with a system identifier of its own.
pub fn start_new(version: u32, settings: &[(&str, &str)]) -> TestServer {
    let programs = programs(version);
    let cluster = ScratchCluster::create(&programs, Path::new("/var/tmp"), &[]).unwrap();
    TestServer::start(cluster, programs, settings)
}

/// A copy of the cluster that initdb made for this version on this machine the first time that it was needed.
fn copy_of_template(programs: &Programs) -> PathBuf {
    let version = programs.version().unwrap().text.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let template = servers_directory().join(format!("template-{version}"));
    fs::create_dir_all(servers_directory()).unwrap();
    let lock = File::create(template.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if !template.exists() {
        let cluster = ScratchCluster::create(programs, Path::new("/var/tmp"), &[]).unwrap();
        fs::rename(cluster.keep(), &template).unwrap();
    }
    let copy = tempfile::Builder::new().prefix("pgthaw-test-").tempdir_in("/var/tmp").unwrap().keep();
    let copied = Command::new("cp").args(["-a", "--reflink=auto"]).arg(template.join(".")).arg(&copy).status();
    assert!(copied.unwrap().success());
    // The place is the tester's own; what is in it stays the server's.
    chown(&copy, Some(rustix::process::getuid().as_raw()), None).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o711)).unwrap();
    copy
}

impl TestServer {
    fn start(mut cluster: ScratchCluster, programs: Programs, settings: &[(&str, &str)]) -> TestServer {
        cluster.configure(&SETTINGS).unwrap();
        cluster.configure(settings).unwrap();
        cluster.start().unwrap();
        // pgthaw is also run as somebody who is not the server's user.
        fs::set_permissions(cluster.socket_directory(), Permissions::from_mode(0o755)).unwrap();
        TestServer { cluster, programs, home: Home::new() }
    }

    /// Runs SQL in the database postgres and returns what psql prints: columns separated by `|`, no headers.
    pub fn psql(&self, sql: &str) -> String {
        self.psql_in("postgres", sql)
    }

    /// Runs SQL on the tables of a results store, in the database `postgres`.
    pub fn psql_of_results(&self, sql: &str) -> String {
        self.psql(&format!("SET search_path = pgthaw, pg_catalog; {sql}"))
    }

    /// Runs SQL in a database.
    pub fn psql_in(&self, database: &str, sql: &str) -> String {
        let mut command = self.command_of("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database]);
        // Not -c, which makes one transaction of it all: some commands refuse that.
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        psql.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        Output::from(psql.wait_with_output().unwrap()).ok().stdout.trim_end().to_owned()
    }

    /// One of PostgreSQL's own programs against this server.
    pub fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.path(program).unwrap());
        self.address(&mut command);
        command
    }

    /// Runs pgthaw against this server.
    pub fn pgthaw(&self, arguments: &[&str]) -> Output {
        output_of(&mut self.command(arguments))
    }

    /// Runs pgthaw against this server as another system user. Only root can.
    pub fn pgthaw_as(&self, uid: u32, arguments: &[&str]) -> Output {
        output_of(self.command_for_others(arguments).uid(uid).gid(uid))
    }

    /// Lets everybody read what pgthaw has kept so far, which is its owner's alone.
    pub fn show_state(&self) {
        let shown = Command::new("chmod").args(["-R", "a+rX"]).arg(self.home().join("state")).status();
        assert!(shown.unwrap().success());
    }

    /// pgthaw's command against this server, of a copy of the program that other users can reach.
    pub fn command_for_others(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command_for_others(arguments);
        self.address(&mut command);
        command
    }

    /// pgthaw's command against this server, for tests that start it and look on, or add to its environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        self.address(&mut command);
        command
    }

    /// pgthaw's home directory.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The server's data directory.
    pub fn data_directory(&self) -> PathBuf {
        self.cluster.data_directory()
    }

    /// Stops the server and starts it again: its buffers are empty then, its files stay in the page cache.
    pub fn restart(&mut self) {
        self.cluster.stop(StopMode::Fast).unwrap();
        self.cluster.start().unwrap();
    }

    /// As [`TestServer::restart`]: whatever the server starts from now on reads no faster than this allows.
    pub fn restart_limited(&mut self, limit: &DiskLimit) {
        self.cluster.stop(StopMode::Fast).unwrap();
        self.cluster.start_with(|command| limit.limit_command(command).unwrap()).unwrap();
    }

    fn address(&self, command: &mut Command) {
        let options = self.cluster.connect_options("postgres");
        command.env("PGHOST", options.host.unwrap()).env("PGPORT", options.port.unwrap().to_string());
        command.env("PGUSER", options.user.unwrap());
    }
}

/// The directory of a socket that leads to the server. All connections but the first few wait for so long before they are passed on.
pub fn slow_door(server: &TestServer, at_once: usize, delay: Duration) -> TempDir {
    open_door(server, move |place| thread::sleep(if place < at_once { Duration::ZERO } else { delay }), |_| ())
}

/// The directory of a socket that leads to the server, whose answers `change` may alter.
pub fn door(server: &TestServer, change: impl Fn(&mut [u8]) + Send + Sync + 'static) -> TempDir {
    open_door(server, |_| (), change)
}

fn open_door(
    server: &TestServer,
    wait: impl Fn(usize) + Send + Sync + 'static,
    change: impl Fn(&mut [u8]) + Send + Sync + 'static,
) -> TempDir {
    let name = format!(".s.PGSQL.{}", server.cluster.connect_options("postgres").port.unwrap());
    let (door, behind) = (tempfile::tempdir().unwrap(), server.cluster.socket_directory().join(&name));
    let listener = UnixListener::bind(door.path().join(&name)).unwrap();
    let (wait, change) = (Arc::new(wait), Arc::new(change));
    thread::spawn(move || {
        for (place, client) in listener.incoming().map(Result::unwrap).enumerate() {
            let (behind, wait, change) = (behind.clone(), Arc::clone(&wait), Arc::clone(&change));
            thread::spawn(move || {
                wait(place);
                let server = UnixStream::connect(behind).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
                let (mut from, mut to, mut bytes) = (server, client, vec![0; 1 << 16]);
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    change(&mut bytes[..count]);
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    door
}

/// Copies both programs into a directory: each finds the other beside itself.
pub fn copy_programs(directory: &Path) {
    let own = Path::new(env!("CARGO_BIN_EXE_pgthaw"));
    for program in [own.to_owned(), own.with_file_name("pgthaw-lab")] {
        fs::copy(&program, directory.join(program.file_name().unwrap())).unwrap();
    }
}

impl Home {
    /// A new, empty one that every user can write to.
    pub fn new() -> Home {
        let home = tempfile::Builder::new().prefix("pgthaw-home-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o777)).unwrap();
        Home(home)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs pgthaw, without any server meant.
    pub fn pgthaw(&self, arguments: &[&str]) -> Output {
        output_of(&mut self.command(arguments))
    }

    /// pgthaw's command, with nothing of the tester's own settings.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_pgthaw")), arguments)
    }

    /// As [`Home::command`], of a copy of the program that other users can reach.
    pub fn command_for_others(&self, arguments: &[&str]) -> Command {
        let copy = self.path().join("pgthaw");
        if !copy.exists() {
            copy_programs(self.path());
        }
        self.command_of(&copy, arguments)
    }

    fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command.args(arguments).current_dir(self.path()).env("HOME", self.path());
        command.env("XDG_STATE_HOME", self.path().join("state")).env("XDG_CONFIG_HOME", self.path().join("config"));
        command
    }
}

impl Output {
    /// Panics with everything that was printed unless the status is 0.
    #[track_caller]
    pub fn ok(self) -> Output {
        self.ends_with(0)
    }

    /// Panics with everything that was printed unless the status is this one.
    #[track_caller]
    pub fn ends_with(self, status: i32) -> Output {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as one JSON document.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        let strict = serde_json::from_str::<Strict>(&self.stdout);
        let document = strict.and_then(|Strict| serde_json::from_str(&self.stdout));
        document.unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Output {
        Output {
            status: output.status.code().or(output.status.signal().map(|signal| 128 + signal)).unwrap(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn output_of(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}")).into();
    check_output(command, &output);
    output
}

mod tests {
    use super::*;

    test_every_version! {
        fn a_server_of_the_version_runs_with_its_extensions(version) {
            let mut server = start(version, &[("work_mem", "7MB")]);
            assert_eq!(server.psql("SHOW server_version_num")[..2], version.to_string());
            assert_eq!(server.psql("SHOW work_mem; SHOW cluster_name"), "7MB\npgthaw-lab");
            server.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache; CREATE DATABASE other");
            server.restart();
            assert_eq!(server.psql_in("other", "SELECT count(*) > 0 FROM pg_class"), "t");
            assert!(server.data_directory().join("PG_VERSION").exists());
        }
    }

    #[test]
    fn new_clusters_differ_and_copies_do_not() {
        let version = servers().last().unwrap().0;
        let identifier = |server: TestServer| server.psql("SELECT system_identifier FROM pg_control_system()");
        assert_ne!(identifier(start_new(version, &[])), identifier(start_any(&[])));
        assert_eq!(identifier(start_any(&[])), identifier(start_any(&[])));
    }

    #[test]
    fn pgthaw_runs_for_anybody() {
        let server = start_any(&[]);
        assert!(server.pgthaw(&["--version"]).ok().stdout.starts_with("pgthaw "));
        assert!(server.home().is_dir());
        if rustix::process::getuid().is_root() {
            server.pgthaw_as(65534, &["--version"]).ok();
        }
        Home::new().pgthaw(&["--no-such-option"]).ends_with(2);
    }

    #[test]
    fn json_is_read_from_standard_output() {
        let output = Output { status: 0, stdout: r#"{"a": 1}"#.into(), stderr: String::new() };
        assert_eq!(output.json()["a"], 1);
    }

    #[test]
    fn reads_the_list_of_servers() {
        assert_eq!(parse_server("19=/opt/19/bin"), (19, PathBuf::from("/opt/19/bin")));
    }
}
