//! Writes a report, whole or not at all.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use super::Error;
use super::page::SIGNATURE;

/// Writes the document. An older report is replaced; any other file only with `replaces_anything`.
pub fn write_report(path: &Path, html: &str, replaces_anything: bool) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    if !replaces_anything && !is_free(path).map_err(failed)? {
        return Err(Error::Occupied(path.to_owned()));
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new()
        .prefix(".pgthaw-report")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(failed)?;
    draft.write_all(html.as_bytes()).map_err(failed)?;
    draft.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// Nothing stands there, or a report.
fn is_free(path: &Path) -> std::io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let mut beginning = vec![0; SIGNATURE.len()];
    match file.read_exact(&mut beginning) {
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
    fn leaves_nothing_behind_when_it_cannot() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing/report.html");
        assert!(matches!(write_report(&missing, SIGNATURE, false), Err(Error::Write { .. })));
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
