//! Service files: connection parameters under a name.

use std::env;
use std::path::{Path, PathBuf};

use super::super::Error;
use super::parameters::{Parameters, variable};

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

/// One service of one file; `None` when there is no such file or no such service in it.
fn read_service_file(file: &Path, service: &str) -> Result<Option<Parameters>, Error> {
    if !file.exists() {
        return Ok(None);
    }
    // libpq takes values as they stand: no quotes, no escapes.
    let as_libpq = ini::ParseOption { enabled_quote: false, enabled_escape: false, ..Default::default() };
    let unreadable = |reason: String| Error::DataFile { path: file.to_owned(), reason };
    let sections = match ini::Ini::load_from_file_opt(file, as_libpq) {
        Ok(sections) => sections,
        // The reason would quote the line, which may be a password's.
        Err(ini::Error::Parse(error)) => return Err(unreadable(format!("line {} is no key=value", error.line))),
        Err(ini::Error::Io(error)) => return Err(Error::file("read", file, error)),
    };
    let Some(properties) = sections.section(Some(service)) else { return Ok(None) };
    let mut parameters = Parameters::default();
    for (key, value) in properties.iter() {
        if !parameters.set(key.trim(), value.trim().to_owned()) {
            return Err(unreadable(format!("service \"{service}\" has an option that libpq does not know")));
        }
    }
    Ok(Some(parameters))
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
        std::fs::write(&file, "[lab]\nhots=geheim\n").unwrap();
        assert!(!read_service_file(&file, "lab").unwrap_err().to_string().contains("geheim"));
    }
}
