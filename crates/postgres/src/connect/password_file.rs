//! The password file: `host:port:database:user:password`, a line for each, `*` for any.
//!
//! sqlx reads one too, but under a socket's host name only, and without PGPASSFILE's and `passfile`'s meaning.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, io};

use super::conninfo::{Parameters, variable};
use crate::Error;
use host::files::{SMALL_FILE_BYTES_MAX, open_regular, read_open_at_most, read_text_at_most};

/// Whose password is looked for.
pub struct Wanted<'a> {
    /// The host as the user named it; `localhost` for a socket in the directory where libpq looks by itself.
    pub host: &'a str,
    pub port: u16,
    pub database: &'a str,
    pub user: &'a str,
}

/// The password file that is meant: the one named, or the user's own.
pub fn place(named: Option<&str>) -> Option<PathBuf> {
    named.map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".pgpass")))
}

/// The password of the first line that fits; `None` when there is none, or no file.
///
/// # Errors
/// When others may read the file: libpq warns and goes on without it, which looks like a wrong password.
pub fn find_password(file: &Path, wanted: &Wanted<'_>) -> Result<Option<String>, Error> {
    let opened = match open_regular(file) {
        Ok(opened) => opened,
        // As libpq: what is no file has no password.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(Error::file("open", file, error)),
    };
    let metadata = opened.metadata().map_err(|error| Error::file("look at", file, error))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(Error::PasswordFileOpen { path: file.to_owned() });
    }
    let text = read_open_at_most(opened, SMALL_FILE_BYTES_MAX).map_err(|error| Error::file("read", file, error))?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.filter_map(split_line).find(|fields| fits(fields, wanted)).map(|[.., password]| password))
}

fn fits(fields: &[String; 5], wanted: &Wanted<'_>) -> bool {
    let port = wanted.port.to_string();
    let wanted = [wanted.host, &port, wanted.database, wanted.user];
    fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted)
}

/// The five fields; `None` for a line that has fewer. A backslash takes the next character as it is.
pub fn split_line(line: &str) -> Option<[String; 5]> {
    let mut fields: [String; 5] = Default::default();
    let mut at = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => fields[at].extend(characters.next()),
            // Behind the password's beginning nothing separates any more.
            ':' if at < 4 => at += 1,
            _ => fields[at].push(character),
        }
    }
    (at == 4).then_some(fields)
}

// ---- service file ----

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
    use std::os::unix::fs::OpenOptionsExt as _;

    use std::fs;

    use super::*;

    #[test]
    fn the_first_line_that_fits_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pgpass");
        let lines = "# ours\nother:*:*:*:no\nlocalhost:5433:shop:app:a\\:b\\\\c:d\n*:*:*:*:any\n";
        let options = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&file);
        io::Write::write_all(&mut options.unwrap(), lines.as_bytes()).unwrap();
        let find = |host, port, database| {
            find_password(&file, &Wanted { host, port, database, user: "app" }).unwrap().unwrap()
        };
        assert_eq!(find("localhost", 5433, "shop"), "a:b\\c:d");
        assert_eq!(find("localhost", 5433, "other"), "any");
        assert_eq!(find("other", 1, "x"), "no");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let wanted = Wanted { host: "x", port: 1, database: "x", user: "x" };
        assert!(matches!(find_password(&file, &wanted), Err(Error::PasswordFileOpen { .. })));
        assert_eq!(find_password(&directory.path().join("absent"), &wanted).unwrap(), None);
    }
}

#[cfg(test)]
mod service_file_tests {
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
