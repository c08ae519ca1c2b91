use std::io;
use std::path::{Path, PathBuf};

use procfs::ProcError;

use crate::failure::{
    AS_OWNER, ErrorKind, Explain, FullDisk, TOO_FEW_FILES, is_too_few_files, permission_hint, quote_argument,
};

pub(super) const LOOK_AT_FILE_SYSTEM: &str = "check the file system of";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {action} {}: {source}", path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the kernel does not show this user which pages of {} are cached", .0.display())]
    ResidencyHidden(PathBuf),
    #[error("cannot {action}: {source}")]
    Call { action: &'static str, source: io::Error },
    #[error("cannot {action} {}: {source}", path.display())]
    Cgroup { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot {action} {}: {source}", path.display())]
    Setting { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is not on a block device: {reason}", path.display())]
    NoBlockDevice { path: PathBuf, reason: String },
    #[error("{program} failed: {output}")]
    Program { program: String, output: String },
    #[error("{what} is not possible here: {reason}")]
    Unavailable { what: &'static str, reason: String, remedy: String },
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

crate::file_error!(Error);

impl Error {
    pub fn cgroup(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Cgroup { action, path: path.to_owned(), source }
    }

    pub fn setting(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Setting { action, path: path.to_owned(), source }
    }

    pub fn directory(&self) -> &Path {
        match self {
            Error::File { path, .. } | Error::ResidencyHidden(path) => path.parent(),
            _ => None,
        }
        .unwrap_or(Path::new(""))
    }

    pub fn is_too_few_files(&self) -> bool {
        matches!(self, Error::File { source, .. } | Error::Call { source, .. } if is_too_few_files(source))
    }

    pub fn proc(action: &'static str, source: ProcError) -> Error {
        let source = match source {
            ProcError::PermissionDenied(_) => io::ErrorKind::PermissionDenied.into(),
            ProcError::NotFound(_) => io::ErrorKind::NotFound.into(),
            ProcError::Io(source, _) => source,
            other => io::Error::other(other.to_string()),
        };
        Error::Call { action, source }
    }
}

impl Explain for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Error::ResidencyHidden(_) | Error::NoBlockDevice { .. } | Error::Unavailable { .. } => ErrorKind::Privilege,
            Error::Program { .. } => ErrorKind::Failed,
            Error::File { source, .. }
            | Error::Call { source, .. }
            | Error::Cgroup { source, .. }
            | Error::Setting { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Privilege,
                _ => ErrorKind::Failed,
            },
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::ResidencyHidden(_) => Some(AS_OWNER.into()),
            Error::File { action: LOOK_AT_FILE_SYSTEM, path, source } if source.kind() == io::ErrorKind::NotFound => {
                let directory = quote_argument(&path.display().to_string());
                Some(format!("create it (`mkdir -p {directory}`), or use another directory with --dir"))
            }
            _ if self.is_too_few_files() => Some(TOO_FEW_FILES.to_owned()),
            Error::File { source, .. } | Error::Call { source, .. } => permission_hint(source).map(str::to_owned),
            Error::Cgroup { source, .. } => Some(cgroup_hint(source)),
            Error::Setting { .. } => Some("run pgthaw as root; in a container: `docker run --privileged`".into()),
            Error::NoBlockDevice { .. } => Some("move the data directory to a file system on a disk".into()),
            Error::Program { program, .. } if program == "mount" => {
                Some("dmesg may show the cause, such as a mount option that the kernel rejects".into())
            }
            Error::Program { program, .. } => {
                Some(format!("run {program} by hand, with any arguments from the study file; dmesg may show the cause"))
            }
            Error::Unavailable { remedy, .. } => Some(remedy.clone()),
        }
    }

    fn full_disk(&self) -> Option<FullDisk> {
        match self {
            Error::File { path, source, .. } => FullDisk::of_file(source, path, None),
            Error::Program { output, .. } => FullDisk::of_output(output, None),
            _ => None,
        }
    }
}

fn cgroup_hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "run pgthaw as root; in a container: `docker run --privileged --cgroupns=host`".into()
        }
        Some(libc::EBUSY) => {
            "a cgroup with processes cannot enable the controller: run pgthaw on the host, not in a container".into()
        }
        Some(libc::ENODEV) => "limit a whole disk, not a partition".into(),
        _ => "dmesg may show the cause".into(),
    }
}
