//! Writes a report, whole or not at all.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::{Error, SIGNATURE};
use host::files::{directory_of, draft_beside, open_regular, write_whole};

/// Fails as [`write_report`] would: for whoever works for minutes before there is a report to write.
pub fn check_report_place(path: &Path, replaces_anything: bool) -> Result<(), Error> {
    check_replaced(path, replaces_anything)?;
    let failed = |source| Error::Write { path: path.to_owned(), source };
    draft_beside(path).map(drop).map_err(failed)
}

/// Writes the document. An older report is replaced; any other file, or a link, only with `replaces_anything`, and never what
/// is neither.
pub fn write_report(path: &Path, html: &str, replaces_anything: bool) -> Result<(), Error> {
    check_replaced(path, replaces_anything)?;
    write_whole(path, html.as_bytes()).map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn check_replaced(path: &Path, replaces_anything: bool) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let directory = directory_of(path);
    // A directory that was mistyped is not made.
    std::fs::metadata(directory).map_err(failed)?;
    match std::fs::symlink_metadata(path).map(|facts| facts.file_type()) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(kind) if kind.is_file() || kind.is_symlink() => {
            let is_report = kind.is_file() && is_report(path).map_err(failed)?;
            if !is_report && !replaces_anything {
                return Err(Error::Occupied(path.to_owned()));
            }
            Ok(())
        }
        // open(2)'s own words for a directory, and ours for a pipe or a device.
        other => Err(failed(other.and_then(|_| open_regular(path)).err().unwrap_or(ErrorKind::Other.into()))),
    }
}

fn is_report(path: &Path) -> std::io::Result<bool> {
    let mut beginning = vec![0; SIGNATURE.len()];
    match open_regular(path)?.read_exact(&mut beginning) {
        Ok(()) => Ok(beginning == SIGNATURE.as_bytes()),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_report_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        write_report(&path, &format!("{SIGNATURE}one"), false).unwrap();
        write_report(&path, &format!("{SIGNATURE}two"), false).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("two"));

        std::fs::write(&path, "my letters").unwrap();
        assert!(matches!(write_report(&path, SIGNATURE, false), Err(Error::Occupied(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "my letters");
        write_report(&path, SIGNATURE, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), SIGNATURE);
    }

    #[test]
    fn a_link_is_replaced_when_that_is_said_and_a_pipe_never() {
        let directory = tempfile::tempdir().unwrap();
        let [letters, link, pipe] = ["letters", "link", "pipe"].map(|name| directory.path().join(name));
        std::fs::write(&letters, SIGNATURE).unwrap();
        std::os::unix::fs::symlink("letters", &link).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(matches!(write_report(&link, SIGNATURE, false), Err(Error::Occupied(_))));
        write_report(&link, &format!("{SIGNATURE}new"), true).unwrap();
        assert_eq!(std::fs::read_to_string(&letters).unwrap(), SIGNATURE, "it was not written through");
        for other in [&*pipe, directory.path(), Path::new("/dev/null")] {
            let told = write_report(other, SIGNATURE, true).unwrap_err().to_string();
            assert!(told.contains("not a regular file"), "{told}");
        }
    }

    #[test]
    fn the_place_is_looked_at_without_a_report() {
        let directory = tempfile::tempdir().unwrap();
        let [report, letters, missing] =
            ["report.html", "letters", "missing/a.html"].map(|it| directory.path().join(it));
        std::fs::write(&letters, "my letters").unwrap();
        check_report_place(&report, false).unwrap();
        assert!(matches!(check_report_place(&letters, false), Err(Error::Occupied(_))));
        for nowhere in [&*missing, Path::new("/proc/report.html")] {
            assert!(matches!(check_report_place(nowhere, false), Err(Error::Write { .. })));
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 1, "the letters");
    }

    #[test]
    fn leaves_nothing_behind_when_it_cannot() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing/report.html");
        assert!(matches!(write_report(&missing, SIGNATURE, false), Err(Error::Write { .. })));
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
