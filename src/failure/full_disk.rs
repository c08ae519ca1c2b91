//! A full disk: which one, and what is to be done, told in the same words by every command.

use std::io;
use std::path::{Path, PathBuf};

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

#[cfg(test)]
mod tests {
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
