use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::units::is_treacherous;

pub const NO_THREADS: &str = "raise the limit on processes and threads (ulimit -u, TasksMax= of a service, pids.max of a container), \
     or stop other processes under this limit";

/// Kind of a failure, which decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Exit status 1.
    Failed = 1,
    /// Exit status 2.
    Usage = 2,
    /// Exit status 3.
    Privilege = 3,
    /// Exit status 130 after Ctrl-C, otherwise 128 plus the signal's number.
    Interrupted = 130,
}

impl ErrorKind {
    pub fn exit_code(self) -> u8 {
        self as u8
    }
}

pub trait Explain: std::error::Error {
    fn kind(&self) -> ErrorKind;

    fn hint(&self) -> Option<String>;

    fn with_hint(&self) -> String {
        let hint = self.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{self}{hint}")
    }

    /// The full disk, if it caused the error; its remedy replaces `hint`.
    fn full_disk(&self) -> Option<FullDisk> {
        None
    }
}

/// Adds a constructor `file` for an error's variant `File`.
#[macro_export]
macro_rules! file_error {
    ($error:ident) => {
        impl $error {
            /// `action` is a verb, such as "open".
            pub fn file(action: &'static str, path: &::std::path::Path, source: ::std::io::Error) -> $error {
                $error::File { action, path: path.to_owned(), source }
            }
        }
    };
}

pub fn name_some(failures: &[impl std::error::Error]) -> String {
    let shown = failures.iter().take(NAMED).map(ToString::to_string);
    let more = failures.len().saturating_sub(NAMED);
    let rest = (more > 0).then(|| format!("and {more} more"));
    shown.chain(rest).collect::<Vec<_>>().join("; ")
}

const NAMED: usize = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullDisk {
    pub path: Option<PathBuf>,
    /// Option that selects another directory or file, such as `--dir`.
    pub instead: Option<&'static str>,
}

/// Messages of strerror(3) and SQLite for a full disk or quota.
const SAID: [&str; 3] = ["No space left on device", "Disk quota exceeded", "database or disk is full"];

impl FullDisk {
    pub fn of_file(source: &io::Error, path: &Path, instead: Option<&'static str>) -> Option<FullDisk> {
        let is_full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        // Libraries that write file formats keep only the text of an I/O error.
        let is_said = || source.raw_os_error().is_none() && has_said(&source.to_string());
        (is_full || is_said()).then(|| FullDisk { path: Some(path.to_owned()), instead })
    }

    pub fn of_output(output: &str, instead: Option<&'static str>) -> Option<FullDisk> {
        let line = output.lines().find(|line| has_said(line))?;
        let path = line.split(['"', '“', '”']).find(|part| part.starts_with('/')).map(PathBuf::from);
        Some(FullDisk { path, instead })
    }
}

fn has_said(text: &str) -> bool {
    SAID.iter().any(|said| text.contains(said))
}

pub const TOO_FEW_FILES: &str = "raise the limit on open files to 1024 (ulimit -n, or LimitNOFILE= of a service)";

pub fn is_too_few_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

pub(crate) const AS_OWNER: &str = "run pgthaw as the owner of the data directory (usually postgres) or as root";

/// Hint for denied access. Only pgthaw's refusal of another user's file has an inner error.
pub fn permission_hint(error: &io::Error) -> Option<&'static str> {
    let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
    is_denied.then_some(match error.get_ref() {
        Some(_) => {
            "pgthaw reads only files of the data directory's owner: chown this one to that user, or remove it if it is a leftover"
        }
        None => AS_OWNER,
    })
}

/// Result of a check of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Capability {
    /// Name for `--require`, such as `os`, `buffers`, `evict` or `disk-limit`.
    pub name: &'static str,
    /// Heading, such as `server`, `extensions` or `page cache`.
    pub group: &'static str,
    pub ok: bool,
    /// The finding, or why the check failed.
    pub detail: String,
    /// `None` if `ok`.
    pub remedy: Option<String>,
    #[serde(skip)]
    pub is_partly: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub detail: String,
    pub remedy: Option<String>,
}

impl Lack {
    pub fn new(detail: impl Into<String>, remedy: impl Into<String>) -> Lack {
        Lack { detail: detail.into(), remedy: Some(remedy.into()) }
    }
}

impl<E: Explain> From<E> for Lack {
    fn from(error: E) -> Lack {
        Lack { detail: error.to_string(), remedy: error.hint() }
    }
}

impl Capability {
    pub fn of(group: &'static str, name: &'static str, found: Result<String, Lack>) -> Capability {
        let (ok, detail, remedy) = match found {
            Ok(detail) => (true, detail, None),
            Err(Lack { detail, remedy }) => (false, detail, remedy),
        };
        Capability { name, group, ok, detail, remedy, is_partly: false }
    }

    pub fn yes(group: &'static str, name: &'static str, detail: impl Into<String>) -> Capability {
        Capability::of(group, name, Ok(detail.into()))
    }

    pub fn no(group: &'static str, name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Capability::of(group, name, Err(Lack::new(detail, remedy)))
    }

    pub fn failed(group: &'static str, name: &'static str, error: &dyn Explain) -> Capability {
        Capability::of(group, name, Err(Lack { detail: error.to_string(), remedy: error.hint() }))
    }
}

/// Quotes a word for a shell. Text with control characters becomes `$'…'` (bash, zsh, ksh) with octal escapes. Drops
/// NUL.
pub fn quote_argument(text: &str) -> String {
    if !text.contains(|one| one == '`' || is_treacherous(one)) {
        return shlex::try_quote(text).map(String::from).unwrap_or_default();
    }
    let mut quoted = String::from("$'");
    for byte in text.bytes().filter(|byte| *byte != 0) {
        match byte {
            b'`' | b'\'' | b'\\' | ..b' ' | 0x7f.. => quoted.push_str(&format!("\\{byte:03o}")),
            plain => quoted.push(char::from(plain)),
        }
    }
    quoted + "'"
}

/// Capabilities for snapshots and restores, in order of dependency.
pub const NEEDED: [&str; 9] =
    ["server", "data-dir", "ownership", "tablespaces", "os", "buffered-io", "role", "buffers", "pg_prewarm"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    pub os: bool,
    pub buffers: bool,
}

impl Tiers {
    pub const BOTH: Tiers = Tiers { os: true, buffers: true };

    pub fn words(self) -> &'static str {
        match self {
            Tiers { os: true, buffers: false } => "the page cache",
            Tiers { os: false, buffers: true } => "shared_buffers",
            _ => "shared_buffers or the page cache",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Missing {
    /// Name of the check.
    pub name: &'static str,
    pub remedy: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub snapshot: Tiers,
    pub restore: Tiers,
    pub restores_some_buffers: bool,
    /// First missing capability of each tier (page cache, shared_buffers).
    pub missing: Vec<Missing>,
}

impl Readiness {
    pub fn is_complete(&self) -> bool {
        self.snapshot == Tiers::BOTH && self.restore == Tiers::BOTH && self.missing.is_empty()
    }

    pub fn is_anything_possible(&self) -> bool {
        self.snapshot != Tiers::default() || self.restore != Tiers::default() || self.restores_some_buffers
    }
}

pub fn compute_readiness(capabilities: &[Capability]) -> Readiness {
    let find = |name: &str| capabilities.iter().find(|one| one.name == name);
    let is_ok = |name: &str| find(name).is_some_and(|one| one.ok);
    let (has_server, has_os) = (is_ok("server"), is_ok("os"));
    let is_os_used = !has_server || is_ok("buffered-io");
    let for_os = match () {
        () if has_os && is_os_used => None,
        () if has_os => Some("buffered-io"),
        () if !has_server && !is_ok("data-dir") => Some("server"),
        () => ["data-dir", "ownership", "os"].into_iter().find(|name| !is_ok(name)),
    };
    let for_buffers = match has_server {
        true => ["buffers", "pg_prewarm"].into_iter().filter(|name| !is_ok(name)).collect(),
        false => vec!["server"],
    };
    let mut missing: Vec<Missing> = Vec::new();
    let left_out = ["tablespaces"].into_iter().filter(|name| has_os && find(name).is_some_and(|one| !one.ok));
    for name in for_os.into_iter().chain(left_out).chain(for_buffers) {
        let remedy = find(name).map(|one| one.remedy.clone().unwrap_or_else(|| one.detail.clone())).unwrap_or_default();
        if !missing.iter().any(|known| known.name == name || known.remedy == remedy) {
            missing.push(Missing { name, remedy });
        }
    }
    Readiness {
        snapshot: Tiers { os: has_os, buffers: is_ok("buffers") },
        restore: Tiers { os: has_os && is_os_used, buffers: is_ok("pg_prewarm") },
        restores_some_buffers: find("pg_prewarm").is_some_and(|one| one.is_partly),
        missing,
    }
}

#[cfg(test)]
mod full_disk_tests {
    use super::*;

    #[test]
    fn what_programs_say_is_understood() {
        let initdb = "initdb: error: could not write file \"/mnt/data/PG_VERSION\": No space left on device\n";
        let told = FullDisk::of_output(initdb, Some("--dir")).unwrap();
        assert_eq!(told.path.as_deref(), Some(Path::new("/mnt/data/PG_VERSION")));
        let server = "ERROR:  could not extend file \"base/5/16396\": No space left on device";
        assert_eq!(FullDisk::of_output(server, None).unwrap().path, None);
        assert_eq!(FullDisk::of_output("initdb: error: no such locale", None), None);
    }

    #[test]
    fn only_a_full_disk_is_one() {
        let full = io::Error::from_raw_os_error(28);
        assert!(FullDisk::of_file(&full, Path::new("/x"), None).is_some());
        let packed = io::Error::other(full.to_string());
        assert!(FullDisk::of_file(&packed, Path::new("/x"), None).is_some());
        assert!(FullDisk::of_file(&io::ErrorKind::NotFound.into(), Path::new("/x"), None).is_none());
    }
}

#[cfg(test)]
mod readiness_tests {
    use super::*;

    const NONE: Tiers = Tiers { os: false, buffers: false };
    const OS: Tiers = Tiers { os: true, buffers: false };
    const BUFFERS: Tiers = Tiers { os: false, buffers: true };

    fn without(lacking: &[&str]) -> Readiness {
        let capability = |name: &'static str| match lacking.contains(&name) {
            true => Capability::no("group", name, "why", format!("mend {name}")),
            false => Capability::yes("group", name, "found"),
        };
        compute_readiness(&NEEDED.map(capability))
    }

    #[track_caller]
    fn assert_ready(lacking: &[&str], snapshot: Tiers, restore: Tiers, missing: &[&str]) {
        let readiness = without(lacking);
        assert_eq!((readiness.snapshot, readiness.restore), (snapshot, restore), "{lacking:?}");
        let names: Vec<&str> = readiness.missing.iter().map(|one| one.name).collect();
        assert_eq!(names, missing, "{lacking:?}");
        assert_eq!(readiness.is_complete(), missing.is_empty(), "{lacking:?}");
    }

    #[test]
    fn what_is_missing_is_told_once_and_by_its_cause() {
        assert_ready(&[], Tiers::BOTH, Tiers::BOTH, &[]);
        assert_ready(&["buffers"], OS, Tiers::BOTH, &["buffers"]);
        assert_ready(&["pg_prewarm"], Tiers::BOTH, OS, &["pg_prewarm"]);
        assert_ready(&["buffers", "pg_prewarm"], OS, OS, &["buffers", "pg_prewarm"]);
        assert_ready(&["role"], Tiers::BOTH, Tiers::BOTH, &[]);
        assert_ready(&["tablespaces"], Tiers::BOTH, Tiers::BOTH, &["tablespaces"]);
        assert_ready(&["data-dir", "ownership", "os"], BUFFERS, BUFFERS, &["data-dir"]);
        assert_ready(&["ownership", "os"], BUFFERS, BUFFERS, &["ownership"]);
        assert_ready(&["os"], BUFFERS, BUFFERS, &["os"]);
        assert_ready(&["ownership"], Tiers::BOTH, Tiers::BOTH, &[]);
        assert_ready(&["buffered-io"], Tiers::BOTH, BUFFERS, &["buffered-io"]);
    }

    #[test]
    fn without_a_server_its_directory_is_enough_for_the_page_cache() {
        let of_server = ["server", "role", "buffered-io", "buffers", "pg_prewarm"];
        assert_ready(&of_server, OS, OS, &["server"]);
        assert_ready(&NEEDED, NONE, NONE, &["server"]);
    }

    #[test]
    fn one_command_that_mends_two_is_told_once() {
        let both = ["buffers", "pg_prewarm"].map(|name| Capability::no("group", name, "why", "the same"));
        let server = [Capability::yes("group", "server", ""), Capability::yes("group", "os", "")];
        let server = server.into_iter().chain([Capability::yes("group", "buffered-io", "")]);
        assert_eq!(compute_readiness(&server.chain(both).collect::<Vec<_>>()).missing.len(), 1);
    }

    #[test]
    fn some_databases_are_not_all() {
        let partly = Capability { is_partly: true, ..Capability::no("group", "pg_prewarm", "", "") };
        assert!(compute_readiness(&[partly]).restores_some_buffers);
        assert!(!without(&["pg_prewarm"]).restores_some_buffers);
    }
}
