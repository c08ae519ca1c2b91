//! How to reach a server: psql's options, the PG* variables, the service and the password file, libpq's defaults.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use url::Url;

use super::Error;

/// How to reach a server, as psql's options say it. What is `None` comes from the service file, the PG* variables, the
/// password file and libpq's defaults, in libpq's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    pub database: Option<String>,
}

/// Where libpq looks for the socket: Debian's directory first, then PostgreSQL's own.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

const DEFAULT_PORT: u16 = 5432;

/// Seconds to wait for a connection unless PGCONNECT_TIMEOUT says otherwise.
const CONNECT_TIMEOUT_SECONDS: u64 = 10;

/// What the service file may say beside the address, and sqlx understands.
const SERVICE_PARAMETERS: [&str; 6] = ["password", "sslmode", "sslrootcert", "sslcert", "sslkey", "options"];

/// The options with every default filled in.
#[derive(Clone, Debug)]
pub(super) struct ResolvedOptions {
    pub sqlx: PgConnectOptions,
    /// For messages: `/var/run/postgresql:5432` or `host:5432`.
    pub address: String,
    /// Databases to try, in this order. One, when the user named it.
    pub databases: Vec<String>,
    pub timeout: Duration,
}

impl ConnectOptions {
    /// The file of the socket that these options lead to; `None` when they lead over the network, or nowhere.
    pub fn socket_file(&self) -> Option<PathBuf> {
        let address = self.resolve().ok()?.address;
        let (directory, port) = address.rsplit_once(':').filter(|(host, _)| host.starts_with('/'))?;
        Some(Path::new(directory).join(format!(".s.PGSQL.{port}")))
    }

    /// Fills in what was not given. Reads the environment, the service file and the password file.
    pub(super) fn resolve(&self) -> Result<ResolvedOptions, Error> {
        let service = read_service()?;
        let of_service = |key: &str| service.get(key).cloned();
        let port = match self.port {
            Some(port) => port,
            None => match of_service("port").or_else(|| variable("PGPORT")) {
                Some(text) => text.parse().map_err(|_| Error::Option { what: "port", value: text })?,
                None => DEFAULT_PORT,
            },
        };
        let host = self
            .host
            .clone()
            .filter(|host| !host.is_empty())
            .or_else(|| of_service("hostaddr"))
            .or_else(|| of_service("host"))
            .or_else(|| variable("PGHOSTADDR"))
            .or_else(|| variable("PGHOST"))
            .unwrap_or_else(|| default_host(port));
        let database = self.database.clone().or_else(|| of_service("dbname")).or_else(|| variable("PGDATABASE"));
        let databases = match database {
            Some(database) => vec![database],
            None => vec!["postgres".into(), "template1".into()],
        };
        let user = self.user.clone().or_else(|| of_service("user"));
        let sqlx = sqlx_options(&host, port, user.as_deref(), &databases[0], &service)?;
        let timeout = variable("PGCONNECT_TIMEOUT").and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0);
        Ok(ResolvedOptions {
            sqlx,
            address: format!("{host}:{port}"),
            databases,
            timeout: Duration::from_secs(timeout.unwrap_or(CONNECT_TIMEOUT_SECONDS)),
        })
    }
}

/// sqlx looks into the password file only while it reads a URL, so one is made for it.
fn sqlx_options(
    host: &str,
    port: u16,
    user: Option<&str>,
    database: &str,
    service: &HashMap<String, String>,
) -> Result<PgConnectOptions, Error> {
    // libpq looks for a socket of the default directory as localhost; here every socket is, as sqlx takes no path.
    let password_host = if host.starts_with('/') { "localhost" } else { host };
    let port_text = port.to_string();
    let mut parameters = vec![("host", password_host), ("port", port_text.as_str()), ("dbname", database)];
    parameters.extend(user.map(|user| ("user", user)));
    for key in SERVICE_PARAMETERS {
        parameters.extend(service.get(key).map(|value| (key, value.as_str())));
    }
    let wrong = |reason: String| Error::Option { what: "connection option", value: reason };
    let url = Url::parse_with_params("postgres://localhost", &parameters).map_err(|e| wrong(e.to_string()))?;
    let options = PgConnectOptions::from_str(url.as_str()).map_err(|e| wrong(e.to_string()))?;
    // Without extra_float_digits a connection pooler needs no exception for it.
    Ok(options.host(host).application_name("pgthaw").extra_float_digits(None))
}

/// The value of an environment variable; empty is unset, as for libpq.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The directory that has the port's socket; without any, the one that psql would name in its complaint.
fn default_host(port: u16) -> String {
    let has_socket = |directory: &&&str| Path::new(directory).join(format!(".s.PGSQL.{port}")).exists();
    SOCKET_DIRECTORIES.iter().find(has_socket).unwrap_or(&SOCKET_DIRECTORIES[0]).to_string()
}

/// The parameters of the service that PGSERVICE names; empty when it names none.
fn read_service() -> Result<HashMap<String, String>, Error> {
    let Some(name) = variable("PGSERVICE") else { return Ok(HashMap::new()) };
    for file in service_files() {
        if let Some(parameters) = read_service_file(&file, &name)? {
            return Ok(parameters);
        }
    }
    Err(Error::Option { what: "PGSERVICE (no service file defines it)", value: name })
}

/// The user's service file, then the system's.
fn service_files() -> Vec<PathBuf> {
    let of_user =
        variable("PGSERVICEFILE").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".pg_service.conf")));
    let of_system = variable("PGSYSCONFDIR").map_or_else(|| PathBuf::from("/etc/postgresql-common"), PathBuf::from);
    of_user.into_iter().chain([of_system.join("pg_service.conf")]).collect()
}

/// One service of one file; `None` when there is no such file or no such service in it.
fn read_service_file(file: &Path, service: &str) -> Result<Option<HashMap<String, String>>, Error> {
    if !file.exists() {
        return Ok(None);
    }
    // libpq takes values as they stand: no quotes, no escapes.
    let as_libpq = ini::ParseOption { enabled_quote: false, enabled_escape: false, ..Default::default() };
    let unreadable = |error: ini::Error| Error::DataFile { path: file.to_owned(), reason: error.to_string() };
    let sections = ini::Ini::load_from_file_opt(file, as_libpq).map_err(unreadable)?;
    let found = sections.section(Some(service)).map(|properties| {
        properties.iter().map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_wins_over_the_environment() {
        let options = ConnectOptions {
            host: Some("/run/somewhere".into()),
            port: Some(6543),
            user: Some("o'neil @ home".into()),
            database: Some("a/b?c".into()),
        };
        let resolved = options.resolve().unwrap();
        assert_eq!(resolved.address, "/run/somewhere:6543");
        assert_eq!(resolved.sqlx.get_host(), "/run/somewhere");
        assert_eq!(resolved.sqlx.get_port(), 6543);
        assert_eq!(resolved.sqlx.get_username(), "o'neil @ home");
        assert_eq!(resolved.sqlx.get_database(), Some("a/b?c"));
        assert_eq!(resolved.databases, ["a/b?c"]);
    }

    #[test]
    fn a_service_file_is_read_as_libpq_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pg_service.conf");
        std::fs::write(&file, "# ours\n[other]\nhost=b\n\n[lab]\nhost=/tmp\nport=5555\npassword=a\"b\\n'c\n").unwrap();
        let lab = read_service_file(&file, "lab").unwrap().unwrap();
        assert_eq!(lab["host"], "/tmp");
        assert_eq!(lab["port"], "5555");
        assert_eq!(lab["password"], "a\"b\\n'c");
        assert_eq!(read_service_file(&file, "absent").unwrap(), None);
        assert_eq!(read_service_file(&directory.path().join("absent"), "lab").unwrap(), None);
    }
}
