//! A cluster as Debian's packages make it: `pg_createcluster`, its own pg_hba.conf, its own socket directory.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::Programs;
use tempfile::TempDir;

use crate::servers::{Output, output_of};

/// Its name; one such cluster is there at a time.
const NAME: &str = "pgthawcontact";

/// Where a stock server puts its socket, and the port of the first one on a machine.
const SOCKETS: &str = "/var/run/postgresql";
const FIRST_PORT: u16 = 5432;

/// What login shells and the units' default environment have.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A running stock cluster with pg_prewarm, pg_buffercache and a warm table, which goes with this value, and a program that
/// everybody can run. No option and no PG* variable leads to it, but PGPORT where somebody else has the first port.
#[derive(Debug)]
pub struct StockCluster {
    version: String,
    port: u16,
    bin: TempDir,
    _alone: File,
}

impl StockCluster {
    /// Makes and starts one; `None`, which is said, where Debian's tools or the right to use them are missing.
    pub fn start() -> Option<StockCluster> {
        let cluster = StockCluster::make(&[])?;
        for sql in [
            "CREATE EXTENSION pg_buffercache",
            "CREATE EXTENSION pg_prewarm",
            "CREATE TABLE orders AS SELECT i, repeat('x', 100) AS filler FROM generate_series(1, 100000) AS i",
            "SELECT pg_prewarm('orders')",
            // Since 16 a table grows without a page of it in the page cache: they come there when they are written.
            "CHECKPOINT",
        ] {
            cluster.psql(sql);
        }
        Some(cluster)
    }

    /// One with the guides' database `shop` and no extension. Its shared_buffers are smaller than the tables, as a large shop's are.
    pub fn with_shop() -> Option<StockCluster> {
        let cluster = StockCluster::make(&["--pgoption", "shared_buffers=32MB"])?;
        cluster.psql("CREATE DATABASE shop");
        cluster.psql_in("shop", include_str!("shop.sql"));
        cluster.psql_in("shop", "VACUUM ANALYZE");
        cluster.psql_in("shop", "CHECKPOINT");
        Some(cluster)
    }

    /// An empty one, with these options of pg_createcluster.
    fn make(options: &[&str]) -> Option<StockCluster> {
        needs_root!();
        let tools = ["pg_createcluster", "pg_ctlcluster", "pg_dropcluster", "runuser", "su"];
        let is_there =
            |tool: &&str| output_of(Command::new("sh").args(["-c", &format!("command -v {tool}")])).status == 0;
        if let Some(missing) = tools.iter().find(|tool| !is_there(tool)) {
            untested!("there is no {missing} here: apt-get install postgresql-common");
        }
        let newest =
            Programs::find_all().pop().expect("postgresql-common without a server: apt-get install postgresql");
        let version = newest.version().unwrap().major.to_string();
        // Each test is a process of its own: one cluster at a time, and the lock goes with the process.
        let alone = File::create("/var/tmp/pgthaw-first-contact.lock").unwrap();
        alone.lock().unwrap();
        drop_cluster(&version);
        let cluster = StockCluster { port: find_port(), bin: program_for_everybody(), version, _alone: alone };
        let port = cluster.port.to_string();
        let mut make = pg("pg_createcluster");
        make.args([&cluster.version, NAME, "-p", &port, "--start-conf", "manual"]).args(options);
        output_of(&mut make).ok();
        cluster.control("start");
        Some(cluster)
    }

    /// `start`, `restart` or `stop`.
    pub fn control(&self, action: &str) {
        let mut command = pg("pg_ctlcluster");
        // Where systemd runs it would be asked, and starts the server elsewhere; nothing else differs.
        command.args(["--skip-systemctl-redirect", &self.version, NAME, action]);
        if action != "start" {
            command.args(["-m", "fast"]);
        }
        // pg_ctlcluster's server would otherwise hold the pipes of the test.
        let log = tempfile::tempfile().unwrap();
        let status = command.stdout(log.try_clone().unwrap()).stderr(log).status().unwrap();
        assert!(status.success(), "pg_ctlcluster {action}: {}", self.server_log());
    }

    fn server_log(&self) -> String {
        fs::read_to_string(format!("/var/log/postgresql/postgresql-{}-{NAME}.log", self.version)).unwrap_or_default()
    }

    /// Runs SQL as postgres and returns what psql prints.
    pub fn psql(&self, sql: &str) -> String {
        self.psql_in("postgres", sql)
    }

    /// As [`StockCluster::psql`], in another database.
    pub fn psql_in(&self, database: &str, sql: &str) -> String {
        let port = self.port.to_string();
        let psql = ["runuser", "-u", "postgres", "--", "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-p", &port];
        self.run(&[], &[&psql[..], &["-d", database, "-c", sql]].concat()).ok().stdout.trim_end().to_owned()
    }

    /// Runs a command with this environment alone, and the program in PATH.
    pub fn run(&self, environment: &[(&str, &str)], command: &[&str]) -> Output {
        output_of(self.command(environment, command).current_dir("/"))
    }

    /// As [`StockCluster::run`], not started.
    pub fn command(&self, environment: &[(&str, &str)], command: &[&str]) -> Command {
        let mut run = Command::new(command[0]);
        run.args(&command[1..]).env_clear().env("PATH", self.path_variable()).envs(self.port_variable());
        run.envs(environment.iter().copied());
        run
    }

    /// A command line for `sh`, which a login shell gets: its profile sets PATH anew.
    pub fn for_login_shell(&self, command: &str) -> String {
        let port = self.port_variable().map(|(name, value)| format!("{name}={value} ")).unwrap_or_default();
        format!("export PATH={}; {port}{command}", self.path_variable())
    }

    /// Nothing, where the cluster has the port that everybody looks at by himself.
    pub fn port_variable(&self) -> Option<(&'static str, String)> {
        (self.port != FIRST_PORT).then(|| ("PGPORT", self.port.to_string()))
    }

    /// What a command that is told says of the port: nothing of the first one.
    pub fn port_option(&self) -> String {
        self.port_variable().map(|(_, port)| format!(" -p {port}")).unwrap_or_default()
    }

    pub fn path_variable(&self) -> String {
        format!("{}:{SYSTEM_PATH}", self.bin.path().display())
    }

    /// The program, where everybody can run it.
    pub fn program(&self) -> PathBuf {
        self.bin.path().join("pgthaw")
    }

    /// Debian's name of it, as in `postgresql@15-main`.
    pub fn instance(&self) -> String {
        format!("{}-{NAME}", self.version)
    }

    pub fn data_directory(&self) -> PathBuf {
        Path::new("/var/lib/postgresql").join(&self.version).join(NAME)
    }

    pub fn system_identifier(&self) -> String {
        self.psql("SELECT system_identifier FROM pg_control_system()")
    }
}

impl Drop for StockCluster {
    fn drop(&mut self) {
        drop_cluster(&self.version);
    }
}

/// Removes it; also one that a killed test has left.
fn drop_cluster(version: &str) {
    if Path::new("/etc/postgresql").join(version).join(NAME).exists() {
        output_of(pg("pg_dropcluster").args(["--stop", version, NAME]));
    }
}

/// One of Debian's programs, without anything of the tester's own that would change what it does.
fn pg(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", SYSTEM_PATH).current_dir("/");
    command
}

/// The first port where nobody has it, and any other that is free.
fn find_port() -> u16 {
    let has_socket = |port: u16| Path::new(SOCKETS).join(format!(".s.PGSQL.{port}")).exists();
    let is_free = |port: u16| !has_socket(port) && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    (FIRST_PORT..).find(|port| is_free(*port)).unwrap()
}

/// A directory for PATH with pgthaw in it.
pub fn program_for_everybody() -> TempDir {
    let bin = tempfile::Builder::new().prefix("pgthaw-bin-").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(bin.path(), Permissions::from_mode(0o755)).unwrap();
    crate::servers::copy_programs(bin.path());
    bin
}
