//! Service files: connection parameters under a name.

use std::path::{Path, PathBuf};
use std::{env, io};

use super::super::Error;
use super::parameters::{Parameters, variable};
use crate::files::{SMALL_FILE_BYTES_MAX, read_text_at_most};

/// The parameters of a service, from the user's file or the system's.
pub fn read_service(name: &str) -> Result<Parameters, Error> {
    for file in service_files() {
        if let Some(parameters) = read_service_file(&file, name)? {
            return Ok(parameters);
        }
    }
    Err(Error::ServiceMissing { name: name.to_owned(), files: service_files() })
}

/// The user's service file, then the system's.
fn service_files() -> Vec<PathBuf> {
    let of_user =
        variable("PGSERVICEFILE").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".pg_service.conf")));
    let of_system = variable("PGSYSCONFDIR").map_or_else(|| PathBuf::from("/etc/postgresql-common"), PathBuf::from);
    of_user.into_iter().chain([of_system.join("pg_service.conf")]).collect()
}

/// One service of one file; `None` when there is no such file or no such service in it. Read as libpq reads it, line by line:
/// no quotes, no escapes, and what stands in other sections is nobody's business here.
fn read_service_file(file: &Path, service: &str) -> Result<Option<Parameters>, Error> {
    let text = match read_text_at_most(file, SMALL_FILE_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", file, error)),
    };
    let heading = format!("[{service}]");
    let mut parameters: Option<Parameters> = None;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        match &mut parameters {
            _ if line.is_empty() || line.starts_with('#') => {}
            None if line == heading => parameters = Some(Parameters::default()),
            None => {}
            Some(_) if line.starts_with('[') => break,
            // The line itself is not shown: it may be a password's.
            Some(parameters) => {
                let known = line
                    .split_once('=')
                    .is_some_and(|(key, value)| parameters.set(key.trim(), value.trim().to_owned()));
                if !known {
                    let reason = format!("line {number} is no option that libpq knows, key=value");
                    return Err(Error::DataFile { path: file.to_owned(), reason });
                }
            }
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_file_is_read_as_libpq_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pg_service.conf");
        std::fs::write(&file, "# ours\n[other]\nhost=b\n\n[lab]\nhost=/tmp\nport=5555\npassword=a\"b\\n'c\n").unwrap();
        let lab = read_service_file(&file, "lab").unwrap().unwrap();
        assert_eq!((lab.get("host"), lab.get("port")), (Some("/tmp"), Some("5555")));
        assert_eq!(lab.get("password"), Some("a\"b\\n'c"));
        assert_eq!(read_service_file(&file, "absent").unwrap(), None);
        assert_eq!(read_service_file(&directory.path().join("absent"), "lab").unwrap(), None);
        std::fs::write(&file, "[a]\nhostt\n[lab]\nhots=geheim\n[b]\nhost=x").unwrap();
        let told = read_service_file(&file, "lab").unwrap_err().to_string();
        assert!(told.contains("line 4") && !told.contains("geheim"), "{told}");
        assert_eq!(read_service_file(&file, "b").unwrap().unwrap().get("host"), Some("x"));
    }
}
