//! Scratch clusters: made with initdb, reachable only through a private socket, removed on drop. Calls block.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::{IpAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::files::{OwnDirectory, SMALL_FILE_BYTES_MAX};
use host::linux::process::read_listed_children;
use host::linux::signals;
use host::linux::threads::lock;

use self::owner::{DATA, LOG, MARK, SOCKETS, let_through, make_for, new_directory, remove_own_cluster};
use super::error::CREATE_DIRECTORY_IN;
use super::programs::{command_name, keep_plain_environment};
use super::{ConnectOptions, DataDirectory, Error, Programs, Result};

mod changing;
mod owner;

pub use owner::{
    CLUSTER_PREFIX, MarkedDirectory, OwnerMark, has_cluster, has_server, remove_abandoned, remove_cluster,
};
pub(super) use owner::{Owner, server_owner};

/// `cluster_name` of scratch clusters, whose caches may be emptied without confirmation.
pub const LAB_CLUSTER_NAME: &str = "pgthaw-lab";

const HBA: &str = "pg_hba.conf";

const SUPERUSER: &str = "postgres";
/// Without TCP, the port is only part of the socket's name.
const PORT: u16 = 5432;
/// Recovery of a large cluster is slow.
const START_LIMIT: Duration = Duration::from_secs(300);
/// Stopping includes a checkpoint, perhaps to a throttled disk.
const STOP_LIMIT: Duration = Duration::from_secs(300);

const START_TRIES: u32 = 20;

/// The postmaster kills remaining processes 5 s after SIGQUIT.
const QUIT_LIMIT: Duration = Duration::from_secs(20);

/// Starts a watcher, then becomes the server by `exec`. The watcher stops the server if the pipe on standard input
/// closes without a message. It is detached, so that the postmaster does not reap an unknown child.
const START_SCRIPT: &str = r#"
exec 3<&0 </dev/null
( { read -r goodbye <&3 || kill -INT $$; } & )
exec 3<&-
exec "$@"
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    Fast,
    /// The next start runs recovery.
    Immediate,
}

/// Dropping it stops the server and removes the directory, unless kept or borrowed.
#[derive(Debug)]
pub struct ScratchCluster {
    programs: Programs,
    /// Owned by this process's user, so that the server's user cannot add files.
    directory: OwnDirectory,
    /// Locked marker file; `None` for an adopted cluster.
    mark: Option<OwnerMark>,
    borrowed: Option<Borrowed>,
    /// Short path, because socket paths have at most 107 bytes. Private, because the server requires no password.
    _sockets: MarkedDirectory,
    /// Owned by the server's user.
    socket_directory: PathBuf,
    port: u16,
    is_kept: bool,
    server: Option<RunningServer>,
}

#[derive(Debug)]
struct Borrowed {
    data_directory: PathBuf,
    owner: Option<Owner>,
    options: Vec<String>,
    settings: Mutex<BTreeMap<String, String>>,
    /// From `ScratchCluster::replace_settings`; override `settings`.
    replaceable: Mutex<Vec<(String, String)>>,
}

impl ScratchCluster {
    /// If pgthaw runs as root, `postgres` must be able to reach `parent`. Cleans up after a failure.
    pub fn create(programs: &Programs, parent: &Path, settings: &[(&str, &str)]) -> Result<ScratchCluster> {
        let cluster = ScratchCluster::in_new_directory(programs, parent, server_owner())?;
        let made = make_for(server_owner(), cluster.directory.directory(), DATA);
        made.map_err(|source| Error::file(CREATE_DIRECTORY_IN, &cluster.directory.path(), source))?;
        cluster.run_initdb()?;
        cluster.configure(&[("listen_addresses", ""), ("cluster_name", LAB_CLUSTER_NAME)])?;
        cluster.configure(settings)?;
        Ok(cluster)
    }

    /// Takes over the stopped cluster in `directory/data`.
    pub fn adopt(programs: &Programs, directory: &Path) -> Result<ScratchCluster> {
        let own = OwnDirectory::open(directory).map_err(|source| Error::file("take over", directory, source))?;
        let cluster = ScratchCluster::in_directory(programs, own, None, server_owner())?;
        if has_cluster(directory) {
            let _ = cluster.directory.directory().remove_file(MARK);
            return Ok(cluster);
        }
        let path = cluster.data_directory();
        cluster.keep();
        Err(Error::DataDirectory { path, reason: "it has no PG_VERSION".into() })
    }

    /// Prepares a stopped cluster to run with its owner's `options`, only on the private socket, with trust
    /// authentication. Leaves the configuration files unchanged: settings of `configure` apply only until this
    /// `ScratchCluster` is dropped.
    pub fn borrow(programs: &Programs, data_directory: &DataDirectory, options: &[String]) -> Result<ScratchCluster> {
        let owner = rustix::process::geteuid().is_root().then(|| Owner::of(data_directory)).transpose()?;
        let mut cluster = ScratchCluster::in_new_directory(programs, Path::new("/tmp"), owner)?;
        cluster.borrowed = Some(Borrowed {
            data_directory: data_directory.path.clone(),
            owner,
            options: options.to_vec(),
            settings: Mutex::default(),
            replaceable: Mutex::default(),
        });
        cluster.write_hba().map_err(|source| Error::file("write", &cluster.hba_file(), source))?;
        Ok(cluster)
    }

    fn in_new_directory(programs: &Programs, parent: &Path, owner: Option<Owner>) -> Result<ScratchCluster> {
        let (directory, mark) = new_directory(parent, owner)?;
        ScratchCluster::in_directory(programs, directory, Some(mark), owner)
    }

    fn in_directory(
        programs: &Programs,
        directory: OwnDirectory,
        mark: Option<OwnerMark>,
        owner: Option<Owner>,
    ) -> Result<ScratchCluster> {
        let make = || {
            let sockets = MarkedDirectory::create("pgthaw-", Path::new("/tmp"))?;
            make_for(owner, sockets.directory(), SOCKETS)?;
            let_through(sockets.directory(), owner)?;
            Ok(sockets)
        };
        let failed = |source| Error::File { action: CREATE_DIRECTORY_IN, path: "/tmp".into(), source };
        let sockets: MarkedDirectory = make().map_err(failed)?;
        Ok(ScratchCluster {
            programs: programs.clone(),
            directory,
            mark,
            borrowed: None,
            socket_directory: sockets.path().join(SOCKETS),
            _sockets: sockets,
            port: PORT,
            is_kept: false,
            server: None,
        })
    }

    /// Applies at the next start. The last value of a setting wins.
    pub fn configure(&self, settings: &[(&str, &str)]) -> Result<()> {
        if let Some(borrowed) = &self.borrowed {
            let mut kept = lock(&borrowed.settings);
            kept.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            return Ok(());
        }
        let lines: String =
            settings.iter().map(|(name, value)| format!("{name} = '{}'\n", value.replace('\'', "''"))).collect();
        let appended = self.data().and_then(|data| data.append("postgresql.conf", &lines));
        appended.map_err(|source| Error::file("write", &self.data_directory().join("postgresql.conf"), source))
    }

    /// Takes effect at the next start. TCP connections require the role's password (SCRAM).
    pub fn listen(&mut self, listening: &Listening) -> Result<()> {
        self.port = listening.port;
        self.configure(&[("listen_addresses", &listening.address.to_string())])?;
        self.replace_file(HBA, &format!("local all all trust\nhost all {} all scram-sha-256\n", listening.role))
    }

    /// Waits until the server is ready, or `hurry_clusters` is called.
    pub fn start(&mut self) -> Result<()> {
        self.start_with(|_| {})
    }

    /// Ignores `hurry_clusters`: only a running server can remove leftovers of a study or crash.
    pub fn start_to_tidy(&mut self) -> Result<()> {
        self.start_unless(|| false, |_| {})
    }

    pub fn start_with(&mut self, prepare: impl FnOnce(&mut Command)) -> Result<()> {
        self.start_unless(is_hurried, prepare)
    }

    fn start_unless(&mut self, is_given_up: impl Fn() -> bool, prepare: impl FnOnce(&mut Command)) -> Result<()> {
        let logged = self.log_bytes();
        let mut command = self.start_command()?;
        prepare(&mut command);
        let postmaster = command
            .spawn()
            .map_err(|source| Error::Program { program: "postgres".into(), output: source.to_string() })?;
        self.server = Some(RunningServer(postmaster));
        self.wait_until_ready(logged, is_given_up)
    }

    pub fn stop(&mut self, mode: StopMode) -> Result<()> {
        let signal = match mode {
            StopMode::Fast => libc::SIGINT,
            StopMode::Immediate => libc::SIGQUIT,
        };
        let Some(mut server) = self.server.take() else { return Ok(()) };
        server.signal(signal);
        // Only a kept or borrowed cluster needs the shutdown checkpoint; an immediate stop has none.
        let is_of_use = self.borrowed.is_some() || self.is_kept || mode == StopMode::Immediate;
        if server.wait(STOP_LIMIT, || !is_of_use && is_hurried()) {
            return Ok(());
        }
        if !is_of_use {
            server.signal(libc::SIGQUIT);
            if server.wait(QUIT_LIMIT, || false) {
                return Ok(());
            }
        }
        let output = format!("it did not stop within {} s\n{}", STOP_LIMIT.as_secs(), self.log_tail());
        self.server = Some(server);
        self.crash();
        Err(Error::Program { program: "postgres".into(), output })
    }

    /// Kills the server, like a power failure. Shared memory stays until the next start or drop.
    pub fn crash(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let backends = read_listed_children(server.0.id()).unwrap_or_default();
        server.signal(libc::SIGKILL);
        backends.into_iter().for_each(|backend| signals::send(backend, libc::SIGKILL));
        server.wait(STOP_LIMIT, || false);
    }

    pub fn is_running(&mut self) -> bool {
        self.server.as_mut().is_some_and(RunningServer::is_alive)
    }

    pub fn postmaster_pid(&self) -> Option<u32> {
        self.server.as_ref().map(|server| server.0.id())
    }

    pub fn connect_options(&self, database: &str) -> ConnectOptions {
        options_of(&self.socket_directory.display().to_string(), self.port, SUPERUSER, database)
    }

    pub fn socket_directory(&self) -> &Path {
        &self.socket_directory
    }

    pub fn data_directory(&self) -> PathBuf {
        match &self.borrowed {
            Some(borrowed) => borrowed.data_directory.clone(),
            None => self.directory.path().join(DATA),
        }
    }

    pub fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.outlive_owner();
        match &self.borrowed {
            Some(borrowed) => borrowed.data_directory.clone(),
            None => self.directory.path(),
        }
    }

    /// Keeps the directory even if this process is killed.
    pub fn outlive_owner(&self) {
        let _ = self.mark.as_ref().map(OwnerMark::remove);
    }

    fn hba_file(&self) -> PathBuf {
        self.directory.path().join(HBA)
    }

    fn write_hba(&self) -> io::Result<()> {
        // The server's user must be able to read the file, whatever the umask.
        let mut file = self.directory.directory().create_file(HBA, 0o644)?;
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.write_all(b"local all all trust\n")
    }

    fn read_pid_file(&self) -> Option<String> {
        let files = DataDirectory::open_files(&self.data_directory()).ok()?;
        let text = files.read_at_most("postmaster.pid", SMALL_FILE_BYTES_MAX).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    fn run_initdb(&self) -> Result<()> {
        let mut command = self.as_owner(&self.programs.path("initdb")?);
        command.arg("-D").arg(self.data_directory());
        command.args(["--username", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        run_until_stopped(&mut command)
    }

    fn start_command(&self) -> Result<Command> {
        let path = self.log_file();
        let open_log = || -> io::Result<(File, File)> {
            let log = self.directory.directory().open_to_append(LOG, 0o600)?;
            match log.metadata()?.uid() {
                uid if uid == rustix::process::geteuid().as_raw() => Ok((log.try_clone()?, log)),
                uid => Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it belongs to user {uid}"))),
            }
        };
        let (stdout, stderr) =
            open_log().map_err(|source| Error::File { action: "open", path: path.clone(), source })?;
        let mut command = self.as_owner(Path::new("/bin/sh"));
        // Keeps Ctrl-C from the server.
        command.process_group(0).stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        command.args(["-c", START_SCRIPT, "sh"]).arg(self.programs.path("postgres")?);
        command.arg("-D").arg(self.data_directory());
        // The last of conflicting options wins, so the owner's precede pgthaw's.
        command.args(self.borrowed.iter().flat_map(|borrowed| &borrowed.options));
        command.arg("-k").arg(self.socket_directory());
        command.args(["-p", &self.port.to_string(), "-c", "logging_collector=off", "-c", "log_destination=stderr"]);
        if let Some(borrowed) = &self.borrowed {
            command.args(borrowed.arguments(&self.hba_file()));
        }
        Ok(command)
    }

    fn as_owner(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.directory.path());
        keep_plain_environment(&mut command);
        if let Some(owner) = self.borrowed.as_ref().map_or_else(server_owner, |borrowed| borrowed.owner) {
            owner.run(&mut command);
        }
        command
    }

    /// Like `pg_ctl -w`. Ignores the first `logged` bytes of the log.
    fn wait_until_ready(&mut self, logged: u64, is_given_up: impl Fn() -> bool) -> Result<()> {
        let started = Instant::now();
        while !self.read_pid_file().is_some_and(|text| is_ready(&text, self.postmaster_pid())) {
            if is_given_up() {
                // Stops the server, because a killed server does not remove its shared memory.
                self.stop(if self.borrowed.is_some() { StopMode::Fast } else { StopMode::Immediate })?;
                return Err(Error::Interrupted);
            }
            if self.is_running() && started.elapsed() < START_LIMIT {
                std::thread::sleep(POLL_INTERVAL);
                continue;
            }
            let output = self.said_since(logged);
            self.crash();
            return Err(Error::Program { program: "postgres".into(), output });
        }
        Ok(())
    }
}

impl Drop for ScratchCluster {
    fn drop(&mut self) {
        if self.is_kept || self.borrowed.is_some() {
            let _ = self.stop(StopMode::Fast);
            if self.borrowed.is_some() {
                let _ = self.directory.remove(MARK);
            }
            return;
        }
        if !self.is_running() && self.read_pid_file().is_some() {
            // Only a new server can remove the shared memory of a crashed one, once the old processes have ended.
            self.server = None;
            for _ in 0..START_TRIES {
                if self.start_to_tidy().is_ok() {
                    break;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        let _ = self.stop(StopMode::Immediate);
        let _ = remove_own_cluster(&self.directory);
    }
}

impl Borrowed {
    fn arguments(&self, hba_file: &Path) -> Vec<String> {
        let hba_file = format!("hba_file={}", hba_file.display());
        let own = ["listen_addresses=", "external_pid_file=", &hba_file].map(str::to_owned);
        let settings = lock(&self.settings);
        let replaceable = lock(&self.replaceable);
        let replaceable = replaceable.iter().map(|(name, value)| (name, value));
        let given = settings.iter().chain(replaceable).map(|(name, value)| format!("{name}={value}"));
        let pairs = own.into_iter().chain(given).flat_map(|setting| ["-c".to_owned(), setting]);
        pairs.collect()
    }
}

fn options_of(host: &str, port: u16, user: &str, database: &str) -> ConnectOptions {
    let [host, user, database] = [host, user, database].map(|text| Some(text.to_owned()));
    ConnectOptions { host, port: Some(port), user, database, ..ConnectOptions::default() }
}

/// Global, because the signal handler knows no cluster.
static IS_HURRIED: AtomicBool = AtomicBool::new(false);

/// Ends running initdb processes, stops waiting for starts, and skips unneeded checkpoints.
pub fn hurry_clusters() {
    IS_HURRIED.store(true, Ordering::Relaxed);
}

fn is_hurried() -> bool {
    IS_HURRIED.load(Ordering::Relaxed)
}

/// Reads standard error only at the command's end, so it must fit into the pipe.
fn run_until_stopped(command: &mut Command) -> Result<()> {
    let program = command_name(command);
    let failed = |output: String| Error::Program { program: program.clone(), output };
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = pipes.spawn().map_err(|error| failed(error.to_string()))?;
    while matches!(child.try_wait(), Ok(None)) {
        if is_hurried() {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Interrupted);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Ports to try: other servers may use some.
const PORTS: u16 = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Name or address for other hosts.
    pub host: String,
    address: IpAddr,
    port: u16,
    role: String,
}

impl Listening {
    /// `host` must be an address of this machine.
    pub fn find(host: &str, role: &str) -> Result<Listening> {
        let failed = |reason: String| Error::Listen { host: host.to_owned(), reason };
        let mut addresses = (host, 0).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
        let address = addresses.next().ok_or_else(|| failed("the name has no address".to_owned()))?.ip();
        let mut refused = String::new();
        for port in PORT..PORT + PORTS {
            match TcpListener::bind((address, port)) {
                Ok(_) => return Ok(Listening { host: host.to_owned(), address, port, role: role.to_owned() }),
                Err(error) => refused = error.to_string(),
            }
        }
        Err(failed(refused))
    }

    pub fn connect_options(&self, database: &str) -> ConnectOptions {
        options_of(&self.host, self.port, &self.role, database)
    }
}

pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The postmaster. Closing its standard input makes the watcher stop it.
#[derive(Debug)]
struct RunningServer(Child);

impl RunningServer {
    fn is_alive(&mut self) -> bool {
        // Unlike `wait`, keeps the pipe open.
        matches!(self.0.try_wait(), Ok(None))
    }

    fn signal(&mut self, signal: i32) {
        // `try_wait` reaps, so a live pid cannot be reused.
        if self.is_alive() {
            signals::send(self.0.id(), signal);
        }
    }

    /// False on timeout.
    fn wait(&mut self, limit: Duration, is_given_up: impl Fn() -> bool) -> bool {
        let started = Instant::now();
        while self.is_alive() {
            if started.elapsed() > limit || is_given_up() {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        let _ = self.0.stdin.as_mut().map(|pipe| pipe.write_all(b"goodbye\n"));
        true
    }
}

/// Parses postmaster.pid: line 1 is the pid, line 8 `ready`.
pub fn is_ready(text: &str, postmaster_pid: Option<u32>) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.first().and_then(|pid| pid.parse().ok()) == postmaster_pid && lines.get(7) == Some(&"ready")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use host::files::Directory;

    fn cluster(settings: &[(&str, &str)]) -> ScratchCluster {
        let programs = Programs::find(None).unwrap();
        ScratchCluster::create(&programs, Path::new("/tmp"), settings).unwrap()
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn a_start_is_waited_for_no_longer_than_somebody_wants_it() {
        let mut cluster = cluster(&[("fsync", "off"), ("hot_standby", "off")]);
        fs::write(cluster.data_directory().join("standby.signal"), "").unwrap();
        let began = Instant::now();
        let is_given_up = || began.elapsed() > Duration::from_millis(500);
        let error = cluster.start_unless(is_given_up, |_| {}).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert!(began.elapsed() < START_LIMIT / 10 && !cluster.is_running(), "{:?}", began.elapsed());
        let directory = cluster.data_directory();
        drop(cluster);
        assert!(!directory.exists());
    }

    #[test]
    fn starts_stops_crashes_and_leaves_nothing() {
        let mut cluster = cluster(&[("fsync", "off"), ("application_name", "it's")]);
        cluster.start().unwrap();
        let first = cluster.postmaster_pid().unwrap();
        assert!(cluster.is_running());
        assert!(cluster.socket_directory().join(".s.PGSQL.5432").exists());
        cluster.stop(StopMode::Fast).unwrap();
        assert!(!cluster.is_running() && !is_alive(first));
        cluster.start().unwrap();
        cluster.crash();
        assert!(!cluster.is_running());
        cluster.start().unwrap();
        assert!(cluster.log_tail().contains("ready to accept connections"), "{}", cluster.log_tail());
        let (last, directory) = (cluster.postmaster_pid().unwrap(), cluster.data_directory());
        let socket_directory = cluster.socket_directory().to_owned();
        drop(cluster);
        assert!(!is_alive(last) && !directory.exists() && !socket_directory.exists());
    }

    fn shared_memory_of(cluster: &ScratchCluster) -> (String, String) {
        let text = cluster.read_pid_file().unwrap();
        let mut words = text.lines().nth(6).unwrap().split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.next().unwrap())
    }

    fn exists(segment: &(String, String)) -> bool {
        let listed = fs::read_to_string("/proc/sysvipc/shm").unwrap();
        listed.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(&segment.0) && words.next() == Some(&segment.1)
        })
    }

    #[test]
    fn shared_memory_does_not_stay_behind() {
        for crashes in [false, true] {
            let mut cluster = cluster(&[("fsync", "off")]);
            cluster.start().unwrap();
            let segment = shared_memory_of(&cluster);
            assert!(exists(&segment));
            if crashes {
                cluster.crash();
            }
            drop(cluster);
            assert!(!exists(&segment), "crashed: {crashes}");
        }
    }

    #[test]
    fn a_kept_cluster_can_be_adopted() {
        let programs = Programs::find(None).unwrap();
        let directory = cluster(&[]).keep();
        assert!(directory.join("data/PG_VERSION").exists());
        let _left = OwnerMark::place(&Directory::open(&directory).unwrap()).unwrap();
        let adopted = ScratchCluster::adopt(&programs, &directory).unwrap();
        assert!(!directory.join(".pgthaw-owner").exists());
        drop(adopted);
        assert!(!directory.exists());
    }

    #[test]
    fn adopting_something_else_fails_and_does_not_remove_it() {
        let directory = tempfile::tempdir().unwrap();
        let programs = Programs::find(None).unwrap();
        let error = ScratchCluster::adopt(&programs, directory.path()).unwrap_err();
        assert!(matches!(error, Error::DataDirectory { .. }), "{error}");
        assert!(directory.path().exists());
    }

    #[test]
    fn a_borrowed_cluster_is_given_back_as_it_was() {
        let mut lender = cluster(&[("work_mem", "5MB")]);
        lender.start().unwrap();
        lender.stop(StopMode::Fast).unwrap();
        let data_directory = DataDirectory::open(&lender.data_directory()).unwrap();
        let configuration = || fs::read_to_string(data_directory.path.join("postgresql.conf")).unwrap();
        let before = configuration();
        let programs = Programs::find(None).unwrap();
        let options = ["-p", "5999", "-c", "work_mem=6MB"].map(str::to_owned);
        let mut borrower = ScratchCluster::borrow(&programs, &data_directory, &options).unwrap();
        borrower.configure(&[("shared_buffers", "a lot")]).unwrap();
        assert!(borrower.start().is_err(), "its own settings count");
        borrower.configure(&[("shared_buffers", "16MB")]).unwrap();
        borrower.start().unwrap();
        assert!(borrower.socket_directory().join(".s.PGSQL.5432").exists());
        let socket_directory = borrower.socket_directory().to_owned();
        drop(borrower);
        assert!(!socket_directory.exists() && configuration() == before);
        lender.start().unwrap();
    }

    #[test]
    fn a_bad_setting_fails_with_what_the_server_said() {
        let mut cluster = cluster(&[("shared_buffers", "a lot")]);
        let error = cluster.start().unwrap_err().to_string();
        assert!(error.contains("shared_buffers"), "{error}");
        assert!(!cluster.is_running());
    }

    #[test]
    fn the_watcher_stops_the_server_when_its_owner_is_gone() {
        let mut cluster = cluster(&[]);
        cluster.start().unwrap();
        let RunningServer(mut postmaster) = cluster.server.take().unwrap();
        drop(postmaster.stdin.take());
        assert!(postmaster.wait().unwrap().success());
    }
}

#[cfg(test)]
mod listening_tests {
    use super::*;

    #[test]
    fn an_address_of_another_machine_is_refused() {
        // Documentation address (RFC 5737).
        let error = Listening::find("192.0.2.1", "r").unwrap_err().to_string();
        assert!(error.contains("192.0.2.1"), "{error}");
    }

    #[test]
    fn a_port_that_is_taken_is_left_to_its_owner() {
        let first = Listening::find("127.0.0.1", "r").unwrap();
        let _taken = TcpListener::bind((first.address, first.port)).unwrap();
        let second = Listening::find("127.0.0.1", "r").unwrap();
        assert_ne!(first.port, second.port);
    }
}
