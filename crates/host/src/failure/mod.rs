//! How a failure is told: each folder's error says its kind, which decides the exit status, and a hint, which says
//! what to do about it.

mod quoting;
mod readiness;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use quoting::quote_argument;
pub use readiness::{Missing, NEEDED, Readiness, Tiers, compute_readiness};

/// What to do where no thread can be started.
pub const NO_THREADS: &str = "ulimit -u limits the user's processes and threads, TasksMax= those of a service, pids.max those of a \
     container: raise it, or end what else runs under it";

/// What sort of failure this is. The exit status follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something went wrong while doing what was asked: exit 1.
    Failed,
    /// What was asked makes no sense, such as an unknown relation or a wrong directory: exit 2.
    Usage,
    /// A privilege or a capability is missing: exit 3.
    Privilege,
    /// Somebody stopped it: exit 130 after Ctrl-C, and 128 and the signal's number after another.
    Interrupted,
}

impl ErrorKind {
    /// The process's exit status; that of Ctrl-C, where somebody stopped it.
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorKind::Failed => 1,
            ErrorKind::Usage => 2,
            ErrorKind::Privilege => 3,
            ErrorKind::Interrupted => 130,
        }
    }

    /// The stable name that `--json` prints.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Failed => "failed",
            ErrorKind::Usage => "usage",
            ErrorKind::Privilege => "privilege",
            ErrorKind::Interrupted => "interrupted",
        }
    }
}

/// An error that can say what to do about it. Every folder's error type is one.
pub trait Explain: std::error::Error {
    fn kind(&self) -> ErrorKind;

    /// One sentence or command that mends it; `None` when the message already says all there is.
    fn hint(&self) -> Option<String>;

    /// The full disk that it is about; `None`: something else went wrong. Its remedy takes the place of the hint.
    fn full_disk(&self) -> Option<FullDisk> {
        None
    }
}

// ---- full disk ----
//
// A full disk: which one, and what is to be done, told in the same words by every command.

/// Something could not be written because a file system, or the user's share of it, is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullDisk {
    /// The file that was to be written, or its directory; `None` where nobody told.
    pub path: Option<PathBuf>,
    /// What names another place: `--dir`.
    pub instead: Option<&'static str>,
}

/// What programs and servers say of it: strerror's words.
const SAID: [&str; 3] = ["No space left on device", "Disk quota exceeded", "database or disk is full"];

impl FullDisk {
    /// Looks whether a failure to write `path` means a full disk.
    pub fn of_file(source: &io::Error, path: &Path, instead: Option<&'static str>) -> Option<FullDisk> {
        let is_full = matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        // Libraries that write formats pack it into errors of their own.
        let is_said = || source.raw_os_error().is_none() && has_said(&source.to_string());
        (is_full || is_said()).then(|| FullDisk { path: Some(path.to_owned()), instead })
    }

    /// Looks whether what a failed program said means a full disk. It may name the file, in quotes.
    pub fn of_output(output: &str, instead: Option<&'static str>) -> Option<FullDisk> {
        let line = output.lines().find(|line| has_said(line))?;
        let path = line.split(['"', '“', '”']).find(|part| part.starts_with('/')).map(PathBuf::from);
        Some(FullDisk { path, instead })
    }
}

fn has_said(text: &str) -> bool {
    SAID.iter().any(|said| text.contains(said))
}

// ---- too few files ----
//
// That no more files may be open: told in the same words whether a file or a connection was wanted.

/// What to do where they run out.
pub const TOO_FEW_FILES: &str = "ulimit -n limits the files that a process may have open, LimitNOFILE= those of a service: raise it (1024 is usual)";

/// Did something fail because no more may be open?
pub fn is_too_few_files(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMFILE)
}

// ---- capability ----
//
// Something that pgthaw can or cannot do here: a failure that was looked for before it happened.

/// One line of `pgthaw doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What `--require` takes: `os`, `disk-limit`.
    pub name: &'static str,
    /// The heading it stands under.
    pub group: &'static str,
    pub ok: bool,
    /// What was found, or why it is not possible.
    pub detail: String,
    /// The command that mends it; `None` when it is possible, or when nothing mends it.
    pub remedy: Option<String>,
    /// Is it possible somewhere, but not everywhere that was asked for?
    #[serde(skip)]
    pub is_partly: bool,
}

impl Capability {
    /// A capability that is there.
    pub fn yes(group: &'static str, name: &'static str, detail: impl Into<String>) -> Capability {
        Capability { name, group, ok: true, detail: detail.into(), remedy: None, is_partly: false }
    }

    /// A capability that is not there.
    pub fn no(
        group: &'static str,
        name: &'static str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Capability {
        Capability { name, group, ok: false, detail: detail.into(), remedy: Some(remedy.into()), is_partly: false }
    }

    /// A capability that is not there, for the reason and with the remedy that an error tells.
    pub fn failed(group: &'static str, name: &'static str, error: &dyn Explain) -> Capability {
        Capability { name, group, ok: false, detail: error.to_string(), remedy: error.hint(), is_partly: false }
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
