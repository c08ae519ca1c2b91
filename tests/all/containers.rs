//! Servers in containers, seen from their host: namespaces and a root file system (overlayfs) made by hand, as a container runtime does,
//! with the data directory on a volume.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use host::linux::cgroup::{DeviceLimit, DiskLimit, ReadLimit, WriteLimit};
use host::linux::page_cache::{PageCache as _, SystemPageCache};
use host::units::Bytes;
use postgres::StopMode;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::map::{main_fork, relation};
use crate::memory_limit::MemoryLimit;
use crate::servers::{self, Output, TestServer, below, output_of, wait_until};
use crate::waits::can_probe;

/// Arguments: place, volume, user, server program, port.
const START: &str = r#"
set -e
mount --make-rprivate /
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mkdir -p pgdata space old run/contained
chown "$3" space run/contained
mount --bind "$2" pgdata
pivot_root . old
mount -t proc proc /proc
mount -t devtmpfs dev /dev && mount -t tmpfs shm /dev/shm
umount -l /old
exec setpriv --reuid "$3" --clear-groups "$4" -D /pgdata -k /run/contained -p "$5" -c listen_addresses=127.0.0.1
"#;

const TABLES: &str = "
    CREATE EXTENSION pg_buffercache;
    CREATE EXTENSION pg_prewarm;
    CREATE TABLESPACE space LOCATION '/space';
    CREATE TABLE kept AS SELECT i AS id, repeat('x', 500) AS filler FROM generate_series(1, 21000) AS i;
    CREATE TABLE elsewhere TABLESPACE space AS SELECT * FROM kept;
    VACUUM kept, elsewhere;
    CHECKPOINT;
";

/// Ends with its server.
struct Contained {
    server: TestServer,
    runtime: Child,
    _place: TempDir,
}

impl Drop for Contained {
    fn drop(&mut self) {
        // A process that changes its user outlives its parent.
        let first = Pid::from_raw(self.pid() as i32).filter(|pid| !pid.is_init());
        let _ = first.map(|first| kill_process(first, Signal::KILL));
        let _ = self.runtime.kill();
        let _ = self.runtime.wait();
    }
}

impl Contained {
    /// With a network of its own or the host's.
    fn start(network: &[&str]) -> Contained {
        Contained::of(servers::start_any(&[]), network)
    }

    fn of(mut server: TestServer, network: &[&str]) -> Contained {
        server.cluster.stop(StopMode::Fast).unwrap();
        let place = tempfile::Builder::new().prefix("pgthaw-test-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let owner = fs::metadata(server.data_directory()).unwrap().uid().to_string();
        let port = server.cluster.connect_options("postgres").port.unwrap().to_string();
        let mut runtime = Command::new("unshare");
        runtime.args(["--mount", "--pid", "--ipc", "--fork", "--kill-child"]).args(network);
        runtime.args(["sh", "-c", START, "sh"]).arg(place.path()).arg(server.data_directory());
        runtime.arg(owner).arg(server.command_of("postgres").get_program()).arg(port);
        let runtime = runtime.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let contained = Contained { server, runtime, _place: place };
        wait_until("the server in the container", || {
            contained.path("/run/contained").is_dir() && contained.psql("SELECT").status == 0
        });
        contained
    }

    fn pid(&self) -> u32 {
        below(self.runtime.id()).first().copied().unwrap_or_default()
    }

    /// A path of the container on the host.
    fn path(&self, inside: &str) -> PathBuf {
        format!("/proc/{}/root{inside}", self.pid()).into()
    }

    fn port(&self) -> String {
        self.server.cluster.connect_options("postgres").port.unwrap().to_string()
    }

    fn command_of_psql(&self) -> Command {
        let mut psql = self.server.command_of("psql");
        psql.args(["-XAtq", "-d", "postgres"]).env("PGHOST", self.path("/run/contained"));
        psql
    }

    fn psql(&self, sql: &str) -> Output {
        let mut psql = self.command_of_psql();
        output_of(psql.args(sql.split_terminator(';').flat_map(|one| ["-c", one])))
    }

    /// The tables' files, as the host sees them.
    fn files(&self) -> [PathBuf; 2] {
        ["kept", "elsewhere"].map(|table| {
            let path = self.psql(&format!("SELECT pg_relation_filepath('{table}')")).ok().stdout;
            let path = format!("/pgdata/{}", path.trim());
            let Some(below) = path.strip_prefix("/pgdata/pg_tblspc/") else { return self.path(&path) };
            self.path(&format!("/space/{}", below.split_once('/').unwrap().1))
        })
    }

    fn evict(&self) {
        self.files().iter().for_each(|file| open(file).apply_evict().unwrap());
    }

    /// Without the variables that lead to the server.
    fn pgthaw(&self, arguments: &[&str]) -> Output {
        output_of(self.server.home.command(arguments).env("PGUSER", "postgres"))
    }

    /// pgthaw in a second container: only the files and the network are shared, and nobody is root.
    fn beside(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        let pgthaw = self.server.home.command_for_others(arguments);
        let owner = fs::metadata(self.server.data_directory()).unwrap().uid().to_string();
        let mut sidecar = Command::new("nsenter");
        sidecar.args(["-t", &self.pid().to_string(), "--mount", "--net", "unshare"]);
        sidecar.args(["--mount", "--pid", "--fork", "--mount-proc", "setpriv", "--clear-groups", "--reuid", &owner]);
        sidecar.arg(pgthaw.get_program()).args(pgthaw.get_args());
        sidecar.envs(pgthaw.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let own =
            [("HOME", "/run/contained"), ("PGTHAW_SNAPSHOTS", "/run/contained/snapshots"), ("PGUSER", "postgres")];
        output_of(sidecar.envs(own).envs(environment.iter().copied()))
    }
}

fn open(file: &Path) -> Box<dyn host::linux::page_cache::CachedFile + '_> {
    SystemPageCache::new().open(file).unwrap().unwrap()
}

/// Cached blocks of each table: by pgthaw's map, and by the kernel.
#[track_caller]
fn assert_cached(map: &Value, contained: &Contained, share: f64) {
    for (name, file) in ["kept", "elsewhere"].into_iter().zip(contained.files()) {
        let fork = main_fork(relation(map, name));
        let (cached, all) = (fork["os_blocks"].as_u64().unwrap(), fork["blocks"].as_u64().unwrap());
        let listed = output_of(Command::new("fincore").args(["-nbo", "RES"]).arg(&file)).ok().stdout;
        // The kernel may evict a few pages in between.
        let listed = listed.trim().parse::<u64>().unwrap() / 8192;
        assert!(cached.abs_diff(listed) <= all / 50, "{name}: {cached} by pgthaw, {listed} by the kernel");
        assert!((cached as f64 / all as f64 - share).abs() < 0.02, "{name}: {cached} of {all}");
    }
}

#[test]
fn a_server_with_a_network_of_its_own_is_found_by_any_process_and_restored() {
    needs_root!();
    let contained = Contained::start(&["--net"]);
    contained.psql(TABLES).ok();
    let (pid, backend) = (contained.pid().to_string(), below(contained.pid())[0].to_string());
    let map = |of: &str| contained.pgthaw(&["map", "--json", "--container", of]).ok().json();
    assert_cached(&map(&pid), &contained, 1.0);
    contained.pgthaw(&["snapshot", "take", "--quiet", "--container", &backend]).ok();
    contained.evict();
    assert_cached(&map(&backend), &contained, 0.0);
    let restored = contained.pgthaw(&["restore", "--tier", "os", "--container", &pid]).ok();
    assert!(!restored.stderr.contains("another"), "{restored:?}");
    assert_cached(&map(&pid), &contained, 1.0);
    // Its directory leads to it, too.
    let data = contained.server.data_directory();
    let by_directory = contained.pgthaw(&["map", "--json", "-D", data.to_str().unwrap()]).ok();
    assert_cached(&by_directory.json(), &contained, 1.0);
    let checked = contained.pgthaw(&["doctor", "--container", &pid]);
    assert!(checked.stdout.contains("/run/contained") && checked.stdout.contains("postmaster"), "{checked:?}");
}

/// As a runtime limits a container: its memory, and its reads.
#[test]
fn a_restore_stays_within_the_limits_of_the_servers_cgroup() {
    needs_root!();
    let Some(memory) = MemoryLimit::create(512 << 20) else { return };
    let contained = Contained::start(&["--net"]);
    contained.psql(TABLES).ok();
    let pid = contained.pid().to_string();
    let device = host::linux::block_device::read_block_device(&contained.server.data_directory()).unwrap();
    let reads = ReadLimit { reads_per_second: Some(4000), read_bytes_per_second: Some(Bytes(40_000_000)) };
    let limit = DeviceLimit { number: device.number, reads, writes: WriteLimit::default() };
    let Ok(disk) = DiskLimit::create(vec![limit], false, None) else { untested!("no disk limit can be set") };
    // Backends that the server starts later are limited too.
    memory.add(contained.pid());
    disk.join(contained.pid()).unwrap();
    contained.pgthaw(&["snapshot", "take", "--quiet", "--container", &pid]).ok();
    contained.evict();
    let (read, cached) = (disk.read_usage().unwrap(), memory.cached_bytes());
    let planned =
        contained.pgthaw(&["restore", "--dry-run", "--json", "--tier", "os", "--container", &pid]).ok().json();
    let restored = contained.pgthaw(&["restore", "--json", "--tier", "os", "--container", &pid]).ok().json();
    for receipt in [planned, restored] {
        assert_eq!(receipt["device"]["source"], "cgroup", "{receipt}");
        assert_eq!(receipt["device"]["bandwidth"], 40_000_000, "{receipt}");
    }
    assert_cached(&contained.pgthaw(&["map", "--json", "--container", &pid]).ok().json(), &contained, 1.0);
    let read = disk.read_usage().unwrap().read_bytes.0 - read.read_bytes.0;
    assert!(read > 20_000_000, "{read} bytes within the limit");
    let charged = memory.cached_bytes() - cached;
    assert!(charged > 20_000_000, "{charged} bytes charged");
}

#[test]
fn a_server_at_the_hosts_address_is_looked_at_below_its_own_root() {
    needs_root!();
    // A copy's backend in another test's container could have the same number.
    let contained = Contained::of(servers::start_new(servers::newest(), &[]), &[]);
    contained.psql(TABLES).ok();
    let port = contained.port();
    let by_address = contained.pgthaw(&["map", "--json", "-h", "127.0.0.1", "-p", &port]).ok();
    assert_cached(&by_address.json(), &contained, 1.0);
}

/// The server's process is invisible there. Its socket or its directory leads to it.
#[test]
fn a_sidecar_finds_its_server_and_restores_it() {
    needs_root!();
    let contained = Contained::start(&["--net"]);
    contained.psql(TABLES).ok();
    let by_socket = [("PGHOST", "/run/contained"), ("PGPORT", &contained.port())];
    let map = |environment: &[(&str, &str)], way: &[&str]| {
        contained.beside(environment, &[&["map", "--json"], way].concat()).ok().json()
    };
    assert_cached(&map(&by_socket, &[]), &contained, 1.0);
    assert_cached(&map(&[], &["-D", "/pgdata"]), &contained, 1.0);
    let checked = contained.beside(&by_socket, &["doctor"]);
    assert!(checked.stdout.contains("its processes are not visible here"), "{checked:?}");
    contained.beside(&by_socket, &["snapshot", "take", "--quiet"]).ok();
    for (environment, way) in [(&by_socket[..], &[][..]), (&[], &["-D", "/pgdata"])] {
        contained.evict();
        assert_cached(&map(&by_socket, &[]), &contained, 0.0);
        let receipt = contained.beside(environment, &[&["restore", "--json"], way].concat()).ok().json();
        assert_eq!(receipt["snapshot"]["reason"], "newest_since_start", "{receipt}");
        assert_cached(&map(&by_socket, &[]), &contained, 1.0);
    }
    // A lock file that a crash left behind leads nowhere.
    let first = Pid::from_raw(contained.pid() as i32).unwrap();
    let volume = contained.server.data_directory();
    let lock = fs::read_to_string(volume.join("postmaster.pid")).unwrap();
    kill_process(first, Signal::QUIT).unwrap();
    wait_until("the end of the server", || !volume.join("postmaster.pid").exists());
    fs::write(volume.join("postmaster.pid"), lock).unwrap();
    let stopped = output_of(&mut contained.server.home.command(&["map", "-D", volume.to_str().unwrap()])).ok();
    assert!(stopped.stdout.contains("no server that runs in"), "{stopped:?}");
}

#[test]
fn who_is_not_there_is_named_and_commands_lead_into_the_container() {
    needs_root!();
    let contained = Contained::start(&["--net"]);
    let missing = contained.pgthaw(&["map", "--container", "no-such-one"]).ends_with(2);
    assert!(missing.stderr.contains("a container \"no-such-one\""), "{missing:?}");
    let own = std::process::id().to_string();
    let without = contained.pgthaw(&["map", "--container", &own]).ends_with(2);
    assert!(without.stderr.contains("a PostgreSQL server in the container"), "{without:?}");
    let pid = contained.pid().to_string();
    let hint = contained.pgthaw(&["doctor", "--container", &pid]).stdout;
    let command = hint.lines().find(|line| line.contains("CREATE EXTENSION pg_prewarm")).unwrap().trim().to_owned();
    assert!(command.starts_with(&format!("setpriv --no-new-privs nsenter -t {pid} -a -S ")), "{hint}");
    output_of(Command::new("sh").args(["-c", &command])).ok();
    let hint = contained.pgthaw(&["doctor", "--container", &pid]).stdout;
    assert!(!hint.contains(&command), "{hint}");
}

/// Copies of one cluster have one system identifier.
#[test]
fn what_another_container_does_is_in_no_figure() {
    if !can_probe() {
        return;
    }
    let (one, other) = (Contained::start(&["--net"]), Contained::start(&["--net"]));
    one.psql(TABLES).ok();
    let (pid, pid_of_other) = (one.pid().to_string(), other.pid().to_string());
    let relations = |pid: &str| one.pgthaw(&["map", "--json", "--container", pid]).ok().json()["relations"].to_string();
    assert!(relations(&pid).contains("\"kept\"") && !relations(&pid_of_other).contains("\"kept\""));
    let mut sleep = one.command_of_psql();
    let mut sleep = sleep.args(["-c", "SELECT pg_sleep(60)"]).stdout(Stdio::null()).spawn().unwrap();
    let waits = |pid: &str| {
        one.pgthaw(&["waits", "--json", "--source", "bpf", "--seconds", "1", "--container", pid]).ok().stdout
    };
    wait_until("the sleep", || {
        !one.psql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'").stdout.is_empty()
    });
    assert!(waits(&pid).contains("PgSleep"));
    assert!(!waits(&pid_of_other).contains("PgSleep"));
    sleep.kill().unwrap();
    sleep.wait().unwrap();
}

/// With the container's root directory, its user could lead pgthaw to the host's server, or have it load a library.
#[test]
fn what_a_container_puts_in_the_way_leads_nowhere() {
    needs_root!();
    let contained = Contained::start(&["--net"]);
    let host = servers::start_any(&[]);
    let pid = contained.pid().to_string();
    let socket = contained.path("/run/contained/.s.PGSQL.5432");
    let of_host = host.cluster.socket_directory().join(".s.PGSQL.5432");
    fs::rename(&socket, contained.path("/run/contained/other")).unwrap();
    symlink(&of_host, &socket).unwrap();
    let owner = fs::metadata(host.data_directory()).unwrap().uid();
    lchown(&socket, Some(owner), None).unwrap();
    let refused = contained.pgthaw(&["map", "--json", "--container", &pid]).ok().json()["remarks"].to_string();
    assert!(refused.contains("cannot open its socket"), "{refused}");
    // The socket that it has is not replaced while pgthaw works.
    fs::remove_file(&socket).unwrap();
    fs::rename(contained.path("/run/contained/other"), &socket).unwrap();
    contained.pgthaw(&["map", "--container", &pid]).ok();
    let options = contained.path("/pgdata/postmaster.opts");
    fs::write(&options, "postgres \"-C\" \"shared_memory_size\" \"-c\" \"shared_preload_libraries=./evil\"\n").unwrap();
    fs::write(contained.path("/pgdata/evil.so"), "").unwrap();
    let evicted = contained.pgthaw(&["evict", "--all", "--yes", "--container", &pid]);
    assert!(evicted.status != 0 && !evicted.stderr.contains("evil"), "{evicted:?}");
}
