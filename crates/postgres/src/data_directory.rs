use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, io};

use host::files::{Directory, Entry, FileType, SMALL_FILE_BYTES_MAX, Tree, read_text_at_most};
use host::linux::process::{read_children, read_own_number, read_parent, read_start_ticks, read_title};
use host::units::Fork;
use jiff::Timestamp;
use procfs::Current as _;
use procfs::process::all_processes;

use super::catalog::{DEFAULT_OID, GLOBAL_OID};
use super::contained_socket::pin_socket;
use super::{Database, Error, Relation, RelationKind, RelationName, RelationPath, Result};

/// Paths that may be symbolic links: tablespaces and a relocated WAL.
pub(super) const DOORS: &[&str] = &["pg_tblspc/", "pg_wal"];

const CONFIGURATION_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug)]
pub struct DataDirectory {
    /// Absolute, without symbolic links.
    pub path: PathBuf,
    pub version_major: u32,
    pub system_identifier: u64,
    /// In bytes.
    pub block_size: u32,
    pub segment_blocks: u32,
    /// The server runs as this user.
    pub owner_uid: u32,
    pub files: Arc<Tree>,
    /// Pid of the postmaster that was last found in a container; 0 if none.
    pub last_found: Arc<AtomicU32>,
}

impl DataDirectory {
    pub fn open(path: &Path) -> Result<DataDirectory> {
        let path = path.canonicalize().map_err(|source| unusable(path, source))?;
        let files = DataDirectory::open_files(&path)?;
        DataDirectory::of(path, files)
    }

    /// Opens the directory of a running server, also in a container. `path` is the server's name for it.
    pub fn of_server(postmaster: u32, path: &Path) -> Result<DataDirectory> {
        let here = DataDirectory::open(path);
        let Ok(used) = Directory::open(format!("/proc/{postmaster}/cwd").as_ref()) else { return here };
        let is_used = |directory: &DataDirectory| directory.files.root().is_same(&used);
        if here.as_ref().is_ok_and(is_used) {
            return here;
        }
        let root = PathBuf::from(format!("/proc/{postmaster}/root"));
        let shown = root.join(path.strip_prefix("/").unwrap_or(path));
        let files = Directory::open(&root).and_then(|root| Tree::open_within(root, path, DOORS));
        let files = files.map_err(|source| unusable(&shown, source))?;
        let there = DataDirectory::of(shown, Arc::new(files))?;
        if is_used(&there) { Ok(there) } else { Err(not_a_data_directory(&there.path, "its server uses another one")) }
    }

    fn of(path: PathBuf, files: Arc<Tree>) -> Result<DataDirectory> {
        let version = read_required(&files, "PG_VERSION")?;
        let version = String::from_utf8_lossy(&version);
        let version_major: u32 = version
            .trim()
            .parse()
            .map_err(|_| not_a_data_directory(&path, format!("its PG_VERSION contains {:?}", version.trim())))?;
        if version_major < 13 {
            return Err(Error::Version(version_major.to_string()));
        }
        let control = ControlFile::parse(&read_required(&files, "global/pg_control")?)
            .map_err(|reason| not_a_data_directory(&path, format!("global/pg_control: {reason}")))?;
        Ok(DataDirectory {
            version_major,
            system_identifier: control.system_identifier,
            block_size: control.block_size,
            segment_blocks: control.segment_blocks,
            owner_uid: files.owner(),
            files,
            last_found: Arc::default(),
            path,
        })
    }

    /// Keeps links in the path.
    pub fn open_files(path: &Path) -> Result<Arc<Tree>> {
        Tree::open(path, DOORS).map(Arc::new).map_err(|source| unusable(path, source))
    }

    /// Directory named in the socket's lock file. `None` without a server or permission.
    pub fn of_socket(socket: &Path) -> Option<DataDirectory> {
        let mut lock = socket.as_os_str().to_owned();
        lock.push(".lock");
        let text = read_text_at_most(Path::new(&lock), SMALL_FILE_BYTES_MAX).ok()?;
        let mut lines = text.lines();
        let pid: u32 = lines.next()?.trim().parse().ok()?;
        let directory = DataDirectory::open(Path::new(lines.next()?)).ok()?;
        (directory.read_postmaster()?.pid == pid).then_some(directory)
    }

    /// `None` without `postmaster.pid`, or if its process does not serve this directory: the file survives a crash,
    /// pids are reused, and containers have their own pids.
    pub fn read_postmaster(&self) -> Option<Postmaster> {
        self.read_lock().filter(|server| self.files.container().is_none() && is_server_of(server.pid, &self.files))
    }

    /// Also finds a server in a container. The pid is valid on this host, the addresses in the container. Requires the
    /// server's user or root.
    pub fn find_postmaster(&self) -> Option<Postmaster> {
        if let Some(server) = self.read_postmaster() {
            return Some(server);
        }
        let server = self.read_lock()?;
        let pid = self.find_in_namespaces(server.pid)?;
        Some(Postmaster { pid, is_here: self.files.container().is_none() && has_our_root(pid), ..server })
    }

    /// `postmaster.pid`, which remains after a crash.
    pub fn read_lock(&self) -> Option<Postmaster> {
        let text = self.files.read_at_most("postmaster.pid", SMALL_FILE_BYTES_MAX).ok()?;
        parse_postmaster(&String::from_utf8_lossy(&text))
    }

    /// Finds the pid on this host; `number` is the pid in the server's container.
    fn find_in_namespaces(&self, number: u32) -> Option<u32> {
        let is_it = |pid: &u32| {
            read_own_number(*pid).is_ok_and(|called| called == number)
                && Directory::open(format!("/proc/{pid}/cwd").as_ref())
                    .is_ok_and(|used| self.files.root().is_same(&used))
        };
        let known = Some(self.last_found.load(Ordering::Relaxed)).filter(is_it);
        let pid = known.or_else(|| all_pids().find(is_it))?;
        self.last_found.store(pid, Ordering::Relaxed);
        Some(pid)
    }

    /// The server with an address that is valid here. `None` if its socket in its container cannot be opened.
    pub fn reach(&self, server: Postmaster) -> Option<Postmaster> {
        if server.is_here {
            return Some(server);
        }
        let (place, port) = (server.socket_directory.as_deref()?, server.port?);
        let socket_directory = Some(pin_socket(self.files.container()?, place, port, server.pid).ok()?);
        Some(Postmaster { socket_directory, ..server })
    }

    pub fn find_postmaster_pid(&self) -> Option<u32> {
        self.find_postmaster().map(|server| server.pid)
    }

    /// Whether a configuration file, except included ones, contains the word.
    pub fn mentions(&self, word: &str) -> bool {
        let files = ["postgresql.auto.conf", "postgresql.conf", "postmaster.opts"];
        let read = |file: &&str| self.files.read_at_most(file, CONFIGURATION_BYTES_MAX);
        files.iter().any(|file| read(file).is_ok_and(|text| String::from_utf8_lossy(&text).contains(word)))
    }

    /// Finds relations by their files, and names them by path and the database's oid. Follows links only in
    /// `pg_tblspc`. Adds errors outside of `base` to `refused`.
    pub fn scan(&self, refused: &mut Vec<Error>) -> Result<Vec<Relation>> {
        let mut found = BTreeSet::new();
        for directory in [vec!["global".to_owned()], self.database_directories(refused)?].concat() {
            let entries = found_or_refused(self.entries(&directory), refused);
            for entry in entries.iter().filter(|entry| entry.kind == FileType::RegularFile) {
                let number = entry.name.to_str().and_then(relation_of_file);
                found.extend(number.and_then(|number| format!("{directory}/{number}").parse::<RelationPath>().ok()));
            }
        }
        Ok(found.into_iter().map(unnamed_relation).collect())
    }

    /// Databases with their oids as names.
    pub fn list_databases(&self, refused: &mut Vec<Error>) -> Result<Vec<Database>> {
        let directories = self.database_directories(refused)?;
        let oids: BTreeSet<u32> =
            directories.iter().filter_map(|directory| directory.rsplit('/').next()?.parse().ok()).collect();
        let as_database = |oid: u32| Database { oid, name: oid.to_string(), allows_connections: false };
        Ok(oids.into_iter().map(as_database).collect())
    }

    pub fn directories_of(&self, oid: u32) -> Result<Vec<PathBuf>> {
        let own = format!("/{oid}");
        let directories = self.database_directories(&mut Vec::new())?;
        let directories = directories.into_iter().filter(|directory| directory.ends_with(&own));
        Ok(directories.map(|directory| self.path.join(directory)).collect())
    }

    /// Directories of databases' files: one per database and tablespace.
    fn database_directories(&self, refused: &mut Vec<Error>) -> Result<Vec<String>> {
        let below = |parent: &str| -> Result<Vec<String>> {
            Ok(self.list(parent)?.into_iter().map(|name| format!("{parent}/{name}")).collect())
        };
        let mut directories = below("base")?;
        // Each major version has its own directory.
        let prefix = format!("PG_{}_", self.version_major);
        for tablespace in found_or_refused(below("pg_tblspc"), refused) {
            let versions = found_or_refused(self.list(&tablespace), refused);
            for version in versions.into_iter().filter(|name| name.starts_with(&prefix)) {
                directories.extend(found_or_refused(below(&format!("{tablespace}/{version}")), refused));
            }
        }
        Ok(directories)
    }

    /// Subdirectories; in pg_tblspc also links.
    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let is_wanted = |entry: &Entry| match entry.kind {
            FileType::Directory => true,
            FileType::Symlink => directory == "pg_tblspc",
            _ => false,
        };
        let entries = self.entries(directory)?;
        Ok(entries.into_iter().filter(is_wanted).filter_map(|entry| entry.name.into_string().ok()).collect())
    }

    /// Entries of the directory; empty if missing. Fails for the link to an unmounted tablespace.
    fn entries(&self, directory: &str) -> Result<Vec<Entry>> {
        let path = self.path.join(directory);
        match self.files.directory(directory).and_then(|found| found.entries()) {
            Ok(entries) => Ok(entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => Ok(Vec::new()),
            Err(source) => Err(Error::file("list", &path, source)),
        }
    }
}

/// Adds an error to `refused`, and returns an empty list for it.
fn found_or_refused<T>(found: Result<Vec<T>>, refused: &mut Vec<Error>) -> Vec<T> {
    found.unwrap_or_else(|error| {
        refused.push(error);
        Vec::new()
    })
}

fn read_required(files: &Tree, file: &str) -> Result<Vec<u8>> {
    files.read_at_most(file, SMALL_FILE_BYTES_MAX).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => not_a_data_directory(files.path(), format!("it has no {file}")),
        _ => Error::file("read", &files.path().join(file), source),
    })
}

fn unusable(path: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => not_a_data_directory(path, "there is no such directory"),
        io::ErrorKind::NotADirectory => not_a_data_directory(path, "it is not a directory"),
        _ => Error::file("open", path, source),
    }
}

fn not_a_data_directory(path: &Path, reason: impl Into<String>) -> Error {
    Error::DataDirectory { path: path.to_owned(), reason: reason.into() }
}

/// Relfilenumber of `16384_vm.1`; `None` for other files and temporary relations (`t3_16384`).
fn relation_of_file(name: &str) -> Option<&str> {
    let (first_segment, segment) = name.split_once('.').unwrap_or((name, "0"));
    let (number, fork) = first_segment.split_once('_').unwrap_or((first_segment, Fork::Main.name()));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(segment) && Fork::from_name(fork).is_some()).then_some(number)
}

fn unnamed_relation(path: RelationPath) -> Relation {
    let database = match path.database_oid {
        0 => String::new(),
        oid => oid.to_string(),
    };
    let tablespace = match path.tablespace_oid() {
        GLOBAL_OID => "pg_global".to_owned(),
        DEFAULT_OID => "pg_default".to_owned(),
        oid => oid.to_string(),
    };
    Relation {
        name: RelationName { database, schema: String::new(), name: path.to_string() },
        kind: RelationKind::Unknown,
        oid: 0,
        is_system: path.is_global(),
        path,
        tablespace,
        parent: None,
    }
}

// `global/pg_control` (`src/include/catalog/pg_control.h`). The first four fields have been in place since 8.x. The
// block and segment sizes always follow the constant `floatFormat`.

/// `FLOATFORMAT_VALUE`.
const FLOAT_FORMAT: f64 = 1234567.0;

const SYSTEM_IDENTIFIER: usize = 0;
const PG_CONTROL_VERSION: usize = 8;
const STATE: usize = 16;

/// `DB_IN_PRODUCTION`, the last state.
const LAST_STATE: u32 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ControlFile {
    pub system_identifier: u64,
    /// `blcksz`, in bytes.
    pub block_size: u32,
    /// `relseg_size`.
    pub segment_blocks: u32,
}

impl ControlFile {
    pub(super) fn parse(contents: &[u8]) -> Result<ControlFile, String> {
        let number = |at: usize| read_bytes(contents, at).map(u32::from_ne_bytes);
        let version = number(PG_CONTROL_VERSION)?;
        if !(1300..100_000).contains(&version) {
            return Err(format!("pgthaw does not know its format {version}"));
        }
        match number(STATE)? {
            ..=LAST_STATE => {}
            state => return Err(format!("{state} is not a cluster state")),
        }
        // The sizes follow the constant, which is aligned to 8 bytes.
        let mut words = contents.chunks_exact(8);
        let constant = words.position(|bytes| bytes == FLOAT_FORMAT.to_ne_bytes()).ok_or("it has no block size")?;
        let sizes = (constant + 1) * 8;
        let block_size = number(sizes)?;
        let segment_blocks = number(sizes + 4)?;
        if !(1024..=32_768).contains(&block_size) || !block_size.is_power_of_two() || segment_blocks == 0 {
            return Err(format!("{block_size} is not a valid block size"));
        }
        Ok(ControlFile {
            system_identifier: u64::from_ne_bytes(read_bytes(contents, SYSTEM_IDENTIFIER)?),
            block_size,
            segment_blocks,
        })
    }
}

fn read_bytes<const N: usize>(contents: &[u8], at: usize) -> Result<[u8; N], String> {
    let bytes = contents.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "it is truncated".to_owned())
}

/// Content of `postmaster.pid` (`src/include/utils/pidfile.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postmaster {
    pub pid: u32,
    /// False for a server in a container: its addresses are valid only there.
    pub is_here: bool,
    pub port: Option<u16>,
    pub socket_directory: Option<PathBuf>,
    pub listen_address: Option<String>,
    /// Start time by the system clock, which may have been changed since.
    pub started_at: Option<Timestamp>,
}

impl Postmaster {
    /// Start time from the process's age, which clock changes do not affect; else `started_at`. After a crash, the
    /// start of the new shared memory.
    pub fn read_start(&self) -> Option<Timestamp> {
        read_start(self.pid).or(self.started_at).max(find_checkpointer(self.pid).and_then(read_start))
    }
}

/// `number` is the child's pid in its own pid namespace.
pub(super) fn is_child(postmaster: u32, number: u32) -> bool {
    let is_it = |pid: u32| read_own_number(pid).is_ok_and(|own| own == number);
    // Outside of containers, `number` is also the pid here.
    (read_parent(number).is_ok_and(|parent| parent == postmaster) && is_it(number))
        || read_children(postmaster).is_ok_and(|children| children.into_iter().any(is_it))
}

pub(super) fn all_pids() -> impl Iterator<Item = u32> {
    all_processes().into_iter().flatten().flatten().map(|process| process.pid().cast_unsigned())
}

pub(super) fn parse_postmaster(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines().map(str::trim);
    // A standalone backend writes a negative pid.
    let pid = lines.next()?.parse().ok()?;
    let [_directory, start, port, socket, address] =
        std::array::from_fn(|_| lines.next().filter(|line| !line.is_empty()));
    Some(Postmaster {
        pid,
        is_here: true,
        port: port.and_then(|port| port.parse().ok()),
        socket_directory: socket.map(PathBuf::from),
        listen_address: address.filter(|address| *address != "*").map(str::to_owned),
        started_at: start.and_then(|start| Timestamp::from_second(start.parse().ok()?).ok()),
    })
}

fn find_checkpointer(postmaster: u32) -> Option<u32> {
    let is_it = |pid: &u32| read_title(*pid).is_ok_and(|title| title.ends_with("checkpointer"));
    read_children(postmaster).ok()?.into_iter().find(is_it)
}

fn read_start(pid: u32) -> Option<Timestamp> {
    Timestamp::now().checked_sub(read_age(pid)?).ok()
}

pub(super) fn read_age(pid: u32) -> Option<Duration> {
    let since_boot = read_start_ticks(pid).ok()? as f64 / procfs::ticks_per_second() as f64;
    Duration::try_from_secs_f64(procfs::Uptime::current().ok()?.uptime - since_boot).ok()
}

/// A server's working directory is its data directory, visible to its user and root. For other users, compares the
/// program's name.
fn is_server_of(pid: u32, files: &Tree) -> bool {
    match Directory::open(format!("/proc/{pid}/cwd").as_ref()) {
        Ok(used) => used.is_same(files.root()) && has_our_root(pid),
        Err(_) => fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| matches!(name.trim(), "postgres" | "postmaster")),
    }
}

/// Whether the process has this process's root directory, so that its paths are valid here.
fn has_our_root(pid: u32) -> bool {
    let root = |process: &str| Directory::open(format!("/proc/{process}/root").as_ref());
    root(&pid.to_string()).is_ok_and(|root_of_it| root("self").is_ok_and(|own| own.is_same(&root_of_it)))
}

#[cfg(test)]
mod data_directory_tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::control_file_tests::control_file;
    use super::*;
    use host::failure::{ErrorKind, Explain as _};

    fn directory_of_version(version: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for directory in ["global", "base/5", "pg_tblspc"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("PG_VERSION"), format!("{version}\n")).unwrap();
        fs::write(root.path().join("global/pg_control"), control_file(7, 8192, 131_072)).unwrap();
        root
    }

    #[test]
    fn says_which_cluster_it_is() {
        let root = directory_of_version("15");
        let directory = DataDirectory::open(root.path()).unwrap();
        assert_eq!((directory.version_major, directory.system_identifier), (15, 7));
        assert_eq!((directory.block_size, directory.segment_blocks), (8192, 131_072));
        assert_eq!(directory.read_postmaster(), None);
    }

    #[test]
    fn a_process_that_is_no_server_does_not_run_here() {
        let root = directory_of_version("15");
        let directory = DataDirectory::open(root.path()).unwrap();
        for pid in [std::process::id(), 4_194_305] {
            fs::write(root.path().join("postmaster.pid"), format!("{pid}\n/data\n1\n5432\n")).unwrap();
            assert_eq!((directory.read_lock().unwrap().pid, directory.read_postmaster()), (pid, None));
        }
    }

    #[test]
    fn folds_forks_and_segments_into_relations() {
        let root = directory_of_version("15");
        let tablespace = tempfile::tempdir().unwrap();
        symlink(tablespace.path(), root.path().join("pg_tblspc/16390")).unwrap();
        for version in ["PG_15_202209061", "PG_14_202107181"] {
            fs::create_dir_all(tablespace.path().join(version).join("5")).unwrap();
            fs::write(tablespace.path().join(version).join("5/16391"), "").unwrap();
        }
        let files = ["16384", "16384.1", "16384.10", "16384_fsm", "16384_vm.1", "2619", "pg_internal.init"];
        for file in files.iter().chain(&["t3_16400", "16401.x", "16402_other", "pg_filenode.map", "PG_VERSION"]) {
            fs::write(root.path().join("base/5").join(file), "").unwrap();
        }
        symlink("/etc/passwd", root.path().join("base/5/9999")).unwrap();
        symlink("/etc", root.path().join("base/6")).unwrap();
        fs::write(root.path().join("global/1262"), "").unwrap();
        fs::create_dir_all(tablespace.path().join("PG_15_202209061/7")).unwrap();
        let directory = DataDirectory::open(root.path()).unwrap();
        let mut refused = Vec::new();
        let relations = directory.scan(&mut refused).unwrap();
        let names: Vec<&str> = relations.iter().map(|relation| relation.name.name.as_str()).collect();
        assert_eq!(names, ["global/1262", "base/5/2619", "base/5/16384", "pg_tblspc/16390/PG_15_202209061/5/16391"]);
        assert_eq!(relations[2].name.to_string(), "base/5/16384");
        assert_eq!(relations[2].name.database, "5");
        let databases = directory.list_databases(&mut refused).unwrap();
        assert_eq!(databases.iter().map(|database| database.oid).collect::<Vec<_>>(), [5, 7]);
        assert!(refused.is_empty(), "{refused:?}");
    }

    #[test]
    fn a_link_that_leads_nowhere_costs_what_is_behind_it() {
        let root = directory_of_version("15");
        fs::write(root.path().join("base/5/16384"), "").unwrap();
        let (file, itself) = (root.path().join("PG_VERSION"), root.path().join("pg_tblspc/3"));
        for (link, to) in [("1", Path::new("/nowhere")), ("2", &file), ("3", &itself)] {
            symlink(to, root.path().join("pg_tblspc").join(link)).unwrap();
        }
        let directory = DataDirectory::open(root.path()).unwrap();
        let mut refused = Vec::new();
        let relations = directory.scan(&mut refused).unwrap();
        assert_eq!(relations[0].name.name, "base/5/16384");
        let mut told: Vec<String> = refused.iter().map(ToString::to_string).collect();
        told.sort();
        for (link, told) in told.iter().enumerate() {
            assert!(told.contains(&format!("pg_tblspc/{}: ", link + 1)), "{told}");
        }
        assert_eq!(told.len(), 3, "{told:?}");
    }

    #[test]
    fn refuses_what_is_none() {
        let root = directory_of_version("15");
        let refusal = |path: &Path| DataDirectory::open(path).unwrap_err();
        assert!(refusal(&root.path().join("absent")).to_string().contains("there is no such directory"));
        assert!(refusal(&root.path().join("PG_VERSION")).to_string().contains("it is not a directory"));
        assert!(refusal(&root.path().join("base")).to_string().contains("it has no PG_VERSION"));
        assert_eq!(refusal(&root.path().join("base")).kind(), ErrorKind::Usage);
        fs::write(root.path().join("global/pg_control"), [0; 8192]).unwrap();
        assert!(refusal(root.path()).to_string().contains("pg_control"));
        assert!(matches!(refusal(directory_of_version("12").path()), Error::Version(_)));
        assert!(refusal(directory_of_version("fifteen").path()).to_string().contains("fifteen"));
    }

    #[test]
    fn a_word_is_looked_for_in_files_of_the_directory_alone() {
        let root = directory_of_version("15");
        let elsewhere = tempfile::tempdir().unwrap();
        let secret = elsewhere.path().join("secret");
        fs::write(&secret, "debug_io_direct = data").unwrap();
        let mentions = |word: &str| DataDirectory::open(root.path()).unwrap().mentions(word);
        for name in ["postgresql.auto.conf", "postgresql.conf", "postmaster.opts"] {
            let file = root.path().join(name);
            symlink(&secret, &file).unwrap();
            assert!(!mentions("debug_io_direct"), "{name} leads out");
            fs::remove_file(&file).unwrap();
            fs::copy(&secret, &file).unwrap();
            assert!(mentions("debug_io_direct") && !mentions("restore_command"), "{name}");
            if rustix::process::geteuid().is_root() {
                std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
                assert!(!mentions("debug_io_direct"), "{name} is another's");
            }
            fs::remove_file(&file).unwrap();
        }
    }
}

#[cfg(test)]
mod postmaster_tests {
    use super::*;

    #[test]
    fn reads_what_a_server_writes() {
        let text =
            "4242\n/var/lib/postgresql/15/main\n1700000000\n5433\n/var/run/postgresql\nlocalhost\n  6 0\nready   \n";
        let postmaster = parse_postmaster(text).unwrap();
        assert_eq!((postmaster.pid, postmaster.port), (4242, Some(5433)));
        assert_eq!(postmaster.socket_directory, Some(PathBuf::from("/var/run/postgresql")));
        assert_eq!(postmaster.listen_address.as_deref(), Some("localhost"));
        assert_eq!(postmaster.started_at, Timestamp::from_second(1_700_000_000).ok());
    }

    #[test]
    fn a_process_was_started_before_now() {
        let age = Timestamp::now().duration_since(read_start(std::process::id()).unwrap());
        assert!((-1.0..86_400.0).contains(&age.as_secs_f64()), "{age:?}");
    }

    #[test]
    fn a_server_that_is_starting_has_no_port_yet() {
        let postmaster = parse_postmaster("4242\n/data\n1700000000\n").unwrap();
        assert_eq!((postmaster.pid, postmaster.port, postmaster.socket_directory), (4242, None, None));
        assert_eq!(parse_postmaster(""), None);
        assert_eq!(parse_postmaster("-4242\n/data\n"), None);
    }
}

#[cfg(test)]
pub(super) mod control_file_tests {
    use super::*;

    /// As in PostgreSQL 13 to 17.
    pub fn control_file(system_identifier: u64, block_size: u32, segment_blocks: u32) -> Vec<u8> {
        let mut contents = vec![0; 8192];
        contents[0..8].copy_from_slice(&system_identifier.to_ne_bytes());
        contents[8..12].copy_from_slice(&1300_u32.to_ne_bytes());
        contents[16..20].copy_from_slice(&6_u32.to_ne_bytes());
        contents[208..216].copy_from_slice(&FLOAT_FORMAT.to_ne_bytes());
        contents[216..220].copy_from_slice(&block_size.to_ne_bytes());
        contents[220..224].copy_from_slice(&segment_blocks.to_ne_bytes());
        contents
    }

    #[test]
    fn reads_identity_state_and_sizes() {
        let parsed = ControlFile::parse(&control_file(7_300_000_000_000_000_001, 8192, 131_072)).unwrap();
        assert_eq!(parsed.system_identifier, 7_300_000_000_000_000_001);
        assert_eq!((parsed.block_size, parsed.segment_blocks), (8192, 131_072));
    }

    #[test]
    fn refuses_what_it_does_not_understand() {
        let good = control_file(7, 8192, 131_072);
        assert!(ControlFile::parse(&good[..100]).is_err());
        assert!(ControlFile::parse(&[]).is_err());
        assert!(ControlFile::parse(&[0; 8192]).is_err());
        assert!(ControlFile::parse(&control_file(7, 8000, 131_072)).is_err());
        let mut bad_state = good;
        bad_state[16] = 200;
        assert!(ControlFile::parse(&bad_state).is_err());
    }
}
