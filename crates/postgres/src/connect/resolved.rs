use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::files::{OPEN_DIRECTORIES, open_regular};
use rand::seq::SliceRandom as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::net::UnixStream;

use super::conninfo::{Parameters, find_password, read_service, variable};
use super::system_user::{DEFAULT_PORT, SOCKET_DIRECTORIES, SystemUser, default_host};
use crate::contained_socket::PLACE;
use crate::{Address, Error, Result};

/// Timeout per host.
const CONNECT_TIMEOUT_SECONDS: u64 = 10;

/// psql's options. `None` fields come from the service file, PG* variables, password file and libpq's defaults, in that
/// order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    pub database: Option<String>,
    /// From the connection string; override the fields above, as in libpq.
    pub parameters: Parameters,
    /// User for peer authentication; requires root.
    pub system_user: Option<String>,
    /// Host and port come from a data directory, possibly an attacker's.
    pub address_was_read: bool,
    /// PID of the postmaster, if it is known before connecting, as for a server in a container.
    pub postmaster_pid: Option<u32>,
    /// Tried first if no database is named.
    pub preferred_database: Option<String>,
    /// Keeps the first connection open for the next query in its database.
    pub keeps_first: bool,
}

impl ConnectOptions {
    pub fn socket_file(&self) -> Option<PathBuf> {
        ResolvedOptions::new(self).ok()?.candidates.first()?.socket_file()
    }

    /// Address without defaults and password.
    pub fn describe(&self) -> Result<Address> {
        let resolved = ResolvedOptions::new(self)?;
        Ok(resolved.candidates[0].describe(resolved.user.clone()))
    }

    /// Address of the first host, if pgthaw withholds the password from all hosts.
    pub fn withheld_from(&self) -> Result<Option<String>> {
        let resolved = ResolvedOptions::new(self)?;
        let are_all = resolved.candidates.iter().all(|candidate| resolved.withholds_password(candidate));
        Ok(are_all.then(|| resolved.candidates[0].address()))
    }
}

#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub described: &'static str,
    pub fits: fn(in_recovery: bool, is_read_only: bool) -> bool,
}

static KINDS: [Kind; 5] = [
    Kind { name: "any", described: "a server", fits: |_, _| true },
    Kind { name: "read-write", described: "a server with writable sessions", fits: |_, is_read_only| !is_read_only },
    Kind { name: "read-only", described: "a server with read-only sessions", fits: |_, is_read_only| is_read_only },
    Kind { name: "primary", described: "a primary", fits: |in_recovery, _| !in_recovery },
    Kind { name: "standby", described: "a standby", fits: |in_recovery, _| in_recovery },
];

#[derive(Clone, Debug)]
pub struct ResolvedOptions {
    /// Hosts to try; at least one.
    pub candidates: Vec<Candidate>,
    pub user: Option<String>,
    pub database: Option<String>,
    /// Acceptable kinds of server, in order of preference; at least one.
    pub wanted: Vec<&'static Kind>,
    pub timeout: Duration,
    system_user: Option<SystemUser>,
    parameters: Parameters,
    password_file: Option<PathBuf>,
    address_was_read: bool,
    preferred_database: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Candidate {
    /// Name, address or socket directory.
    pub host: String,
    pub port: u16,
    /// Host name that the user gave, if `host` is an address.
    name: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Identity {
    pub role: String,
    /// `None`: this process's user.
    pub system_user: Option<SystemUser>,
}

impl ResolvedOptions {
    pub fn new(options: &ConnectOptions) -> Result<ResolvedOptions> {
        let mut given = Parameters::default();
        let port = options.port.map(|port| port.to_string());
        let fields = [("host", &options.host), ("port", &port), ("user", &options.user), ("dbname", &options.database)];
        for (key, value) in fields {
            let value = value.as_ref().filter(|value| !value.is_empty());
            value.map(|value| given.set(key, value.clone()));
        }
        // An explicit host overrides hostaddr from the environment.
        let given = options.parameters.clone().or(given);
        let has_host = given.get("host").is_some();
        let mut environment = Parameters::of_environment();
        if has_host {
            environment.set("hostaddr", String::new());
        }
        let service = match given.get("service").or(environment.get("service")) {
            Some(name) => read_service(name, given.get("servicefile").or(environment.get("servicefile")))?,
            None => Parameters::default(),
        };
        let mut parameters = given.or(service).or(environment);
        if options.address_was_read {
            parameters.set("hostaddr", String::new());
        }
        parameters.check()?;
        ssl_mode(&parameters)?;
        let system_user = options.system_user.as_deref().map(SystemUser::named).transpose()?;
        if let Some(user) = system_user.as_ref().filter(|user| !user.can_be_taken()) {
            return Err(Error::CannotActAs { user: user.name.clone() });
        }
        let owned = |key| parameters.get(key).map(str::to_owned);
        Ok(ResolvedOptions {
            candidates: candidates(&parameters)?,
            user: owned("user"),
            database: owned("dbname"),
            wanted: wanted(&parameters)?,
            timeout: timeout(&parameters)?,
            system_user,
            password_file: parameters
                .get("passfile")
                .map(PathBuf::from)
                .or_else(|| Some(env::home_dir()?.join(".pgpass"))),
            parameters,
            address_was_read: options.address_was_read,
            preferred_database: options.preferred_database.clone(),
        })
    }

    pub fn databases(&self) -> Vec<String> {
        match &self.database {
            Some(named) => vec![named.clone()],
            None => {
                self.preferred_database.clone().into_iter().chain(["postgres".into(), "template1".into()]).collect()
            }
        }
    }

    /// Whether pgthaw tries other databases if `database` refuses.
    pub fn only_prefers(&self, database: &str) -> bool {
        self.database.is_none() && self.preferred_database.as_deref() == Some(database)
    }

    /// OS users and roles to connect as, in order. On a socket, root can also act as the server's owner: first if no
    /// user is named, else last.
    pub fn identities(&self, candidate: &Candidate) -> Result<Vec<Identity>> {
        if let Some(user) = &self.system_user {
            let role = self.user.clone().unwrap_or_else(|| user.name.clone());
            // Peer authentication does not exist over TCP.
            let is_other = user.uid != rustix::process::geteuid().as_raw() && candidate.socket_file().is_some();
            let system_user = is_other.then(|| user.clone());
            return Ok(vec![Identity { role, system_user }]);
        }
        let owner = candidate
            .socket_file()
            .filter(|_| SystemUser::is_root())
            .and_then(|file| SystemUser::owner_of_socket(&file));
        let as_owner = owner.map(|owner| Identity {
            role: self.user.clone().unwrap_or_else(|| owner.name.clone()),
            system_user: Some(owner),
        });
        let role = match (&self.user, &as_owner) {
            (Some(user), _) => user.clone(),
            (None, Some(_)) => "root".into(),
            (None, None) => SystemUser::current()?.name,
        };
        let as_oneself = Some(Identity { role, system_user: None });
        let in_order = if self.user.is_some() { [as_oneself, as_owner] } else { [as_owner, as_oneself] };
        Ok(in_order.into_iter().flatten().collect())
    }

    /// Verifies the user that listens at a socket: with requirepeer, or if a password would go through a socket in a
    /// world-writable directory. In the latter case only root, postgres and this process's user are trusted.
    ///
    /// Uses a separate connection, so a later replacement of the socket goes unnoticed. In a sticky directory (/tmp),
    /// another user can replace the socket only if the server stops at that moment; in the directory of the Linux
    /// distribution's package (/var/run/postgresql), never.
    pub async fn check_peer(&self, candidate: &Candidate, role: &str, database: &str) -> Result<()> {
        let Some(socket) = candidate.socket_file() else { return Ok(()) };
        let wanted = self.parameters.get("requirepeer");
        let place = socket.parent().and_then(|place| place.metadata().ok());
        let is_open_place = place.is_some_and(|place| place.mode() & WORLD_WRITABLE != 0);
        let has_password = || self.password(candidate, role, database).is_ok_and(|password| password.is_some());
        if wanted.is_none() && !(is_open_place && has_password()) {
            return Ok(());
        }
        let asked = UnixStream::connect(&socket).await.and_then(|peer| peer.peer_cred());
        let failed = |source| Error::Connect { address: socket.display().to_string(), source: sqlx::Error::Io(source) };
        let peer = asked.map_err(failed)?.uid();
        let is_trusted = match wanted {
            Some(name) => SystemUser::named(name)?.uid == peer,
            None => SystemUser::is_trusted(peer),
        };
        if is_trusted {
            return Ok(());
        }
        let user = SystemUser::of_uid(peer).map_or_else(|| peer.to_string(), |user| user.name);
        Err(Error::Peer { socket, user, wanted: wanted.map(str::to_owned) })
    }

    /// If the address is from a data directory, pgthaw sends the password only to a socket in a trusted place.
    pub fn withholds_password(&self, candidate: &Candidate) -> bool {
        let is_trusted = |socket: &Path| !candidate.is_in_container() && is_in_trusted_place(socket);
        self.address_was_read && !candidate.socket_file().is_some_and(|socket| is_trusted(&socket))
    }

    pub fn password(&self, candidate: &Candidate, role: &str, database: &str) -> Result<Option<String>> {
        if self.withholds_password(candidate) {
            return Ok(None);
        }
        if let Some(password) = self.parameters.get("password") {
            return Ok(Some(password.to_owned()));
        }
        let Some(file) = &self.password_file else { return Ok(None) };
        let is_default_socket = SOCKET_DIRECTORIES.contains(&candidate.host.as_str());
        let named = candidate.name.as_deref().unwrap_or(&candidate.host);
        let host = if is_default_socket { "localhost" } else { named };
        find_password(file, [host, &candidate.port.to_string(), database, role])
    }
}

impl Candidate {
    /// Such as `/var/run/postgresql:5432`.
    pub fn address(&self) -> String {
        match self.directory_in_container() {
            Some(directory) => format!("{}:{} in its container", directory.display(), self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }

    /// Whether the host is a container's directory that pgthaw opened.
    pub fn is_in_container(&self) -> bool {
        self.host.starts_with(OPEN_DIRECTORIES)
    }

    /// The socket's directory, as the container names it.
    pub fn directory_in_container(&self) -> Option<PathBuf> {
        std::fs::read_link(Path::new(&self.host).join(PLACE)).ok().filter(|_| self.is_in_container())
    }

    pub fn is_loopback(&self) -> bool {
        let is_address = self.host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback());
        is_address || self.host == "localhost"
    }

    pub fn socket_file(&self) -> Option<PathBuf> {
        let is_socket = self.host.starts_with('/');
        is_socket.then(|| Path::new(&self.host).join(format!(".s.PGSQL.{}", self.port)))
    }

    pub fn describe(&self, user: Option<String>) -> Address {
        // pgthaw finds this host without -h.
        let is_found = self.is_in_container() || self.host == default_host(self.port);
        Address {
            host: (!is_found).then(|| self.host.clone()),
            port: (self.port != DEFAULT_PORT && !self.is_in_container()).then_some(self.port),
            user,
        }
    }

    pub fn options(&self, resolved: &ResolvedOptions, role: &str, database: &str) -> Result<PgConnectOptions> {
        let parameters = &resolved.parameters;
        let mut options = PgConnectOptions::new_without_pgpass()
            .host(&self.host)
            .port(self.port)
            .username(role)
            .database(database)
            .application_name(parameters.get("application_name").unwrap_or("pgthaw"))
            // Connection poolers reject extra_float_digits by default.
            .extra_float_digits(None);
        // An empty password keeps sqlx from using PGPASSWORD.
        let password = resolved.password(self, role, database).ok().flatten();
        options = options.password(password.as_deref().unwrap_or_default());
        // sqlx already applies PGOPTIONS.
        if let Some(text) = parameters.get("options").filter(|text| Some(*text) != variable("PGOPTIONS").as_deref()) {
            options = options.options(option_pairs(text)?);
        }
        // Like libpq: no TLS over sockets.
        if self.host.starts_with('/') {
            return Ok(options.ssl_mode(PgSslMode::Disable));
        }
        let of_user = |file: &str| Some(env::home_dir()?.join(".postgresql").join(file)).filter(|path| path.exists());
        let file = |key: &str, default| parameters.get(key).map(PathBuf::from).or_else(|| of_user(default));
        let root = file("sslrootcert", "root.crt");
        options = options.ssl_mode(match (ssl_mode(parameters)?, &root) {
            // Like libpq: an existing root certificate implies verification.
            (PgSslMode::Require, Some(_)) => PgSslMode::VerifyCa,
            (PgSslMode::VerifyCa | PgSslMode::VerifyFull, None) => return Err(Error::RootCertificateMissing),
            (mode, _) => mode,
        });
        // `system` is sqlx's default.
        if let Some(path) = root.filter(|path| path != Path::new("system")) {
            open_regular(&path).map_err(|error| Error::file("open", &path, error))?;
            options = options.ssl_root_cert(path);
        }
        if let (Some(certificate), Some(key)) = (file("sslcert", "postgresql.crt"), file("sslkey", "postgresql.key")) {
            options = options.ssl_client_cert(certificate).ssl_client_key(key);
        }
        Ok(options)
    }
}

fn option_pairs(text: &str) -> Result<Vec<(String, String)>> {
    let wrong = || Error::Option { what: "options (-c name=value or --name=value)", value: text.to_owned() };
    let mut pairs = Vec::new();
    let mut words = split_words(text).into_iter();
    while let Some(word) = words.next() {
        let pair = match word.strip_prefix("--").or(word.strip_prefix("-c").filter(|rest| !rest.is_empty())) {
            Some(pair) => pair.to_owned(),
            None if word == "-c" => words.next().ok_or_else(wrong)?,
            None => return Err(wrong()),
        };
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        pairs.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(pairs)
}

fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = words.len() - 1;
        match character {
            '\\' => words[last].extend(characters.next()),
            c if c.is_whitespace() => words.push(String::new()),
            c => words[last].push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// `hostaddr` must list as many addresses as `host` lists hosts. A single `port` applies to all hosts.
fn candidates(parameters: &Parameters) -> Result<Vec<Candidate>> {
    let list = |key| parameters.get(key).map(|text: &str| text.split(',').map(str::trim).collect::<Vec<_>>());
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port").unwrap_or_else(|| vec![""]));
    let count = addresses.as_ref().or(hosts.as_ref()).map_or(1, Vec::len);
    let wrong = |what, key| Error::Option { what, value: parameters.get(key).unwrap_or_default().to_owned() };
    if hosts.as_ref().is_some_and(|hosts| hosts.len() != count) {
        return Err(wrong("list of hosts (as many as in hostaddr)", "host"));
    }
    if ports.len() != 1 && ports.len() != count {
        return Err(wrong("list of ports (one, or one for each host)", "port"));
    }
    let at = |list: &Option<Vec<&str>>, index: usize| {
        list.as_ref().map(|list| list[index]).filter(|one| !one.is_empty()).map(str::to_owned)
    };
    let mut candidates = Vec::new();
    for index in 0..count {
        let port = match ports[index.min(ports.len() - 1)] {
            "" => DEFAULT_PORT,
            text => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| Error::wrong_port(text))?,
        };
        let (name, address) = (at(&hosts, index), at(&addresses, index));
        let host = address.or(name.clone()).unwrap_or_else(|| default_host(port));
        candidates.push(Candidate { host, port, name });
    }
    match parameters.get("load_balance_hosts") {
        Some("random") => candidates.shuffle(&mut rand::rng()),
        None | Some("disable") => {}
        Some(other) => {
            return Err(Error::Option { what: "load_balance_hosts (disable or random)", value: other.into() });
        }
    }
    Ok(candidates)
}

fn wanted(parameters: &Parameters) -> Result<Vec<&'static Kind>> {
    let what = "target_session_attrs (any, read-write, read-only, primary, standby or prefer-standby)";
    let value = parameters.get("target_session_attrs").unwrap_or("any");
    let names = if value == "prefer-standby" { vec!["standby", "any"] } else { vec![value] };
    let kinds = names.iter().map(|name| KINDS.iter().find(|kind| kind.name == *name)).collect::<Option<_>>();
    kinds.ok_or_else(|| Error::Option { what, value: value.to_owned() })
}

fn ssl_mode(parameters: &Parameters) -> Result<PgSslMode> {
    let what = "sslmode (disable, allow, prefer, require, verify-ca or verify-full)";
    let value = parameters.get("sslmode").unwrap_or("prefer");
    value.parse().map_err(|_| Error::Option { what, value: value.to_owned() })
}

/// 0 or less means no limit, as in libpq.
fn timeout(parameters: &Parameters) -> Result<Duration> {
    let Some(text) = parameters.get("connect_timeout") else {
        return Ok(Duration::from_secs(CONNECT_TIMEOUT_SECONDS));
    };
    let wrong = || Error::Option { what: "connect_timeout (whole seconds)", value: text.to_owned() };
    let seconds: i64 = text.trim().parse().map_err(|_| wrong())?;
    Ok(if seconds > 0 { Duration::from_secs(seconds.unsigned_abs()) } else { Duration::MAX })
}

const WORLD_WRITABLE: u32 = 0o002;

/// Mode bit of a directory: only a file's owner may remove or rename it.
const STICKY: u32 = 0o1000;

/// True if only root, postgres and this process's user control the path and its links. Others may add files (sticky),
/// but not replace this one.
pub fn is_in_trusted_place(file: &Path) -> bool {
    let is_trusted = |path: &Path| {
        std::fs::symlink_metadata(path).is_ok_and(|found| {
            let may_be_replaced = found.is_dir() && found.mode() & (WORLD_WRITABLE | STICKY) == WORLD_WRITABLE;
            SystemUser::is_trusted(found.uid()) && !may_be_replaced
        })
    };
    let all_trusted = |path: &Path| path.ancestors().all(is_trusted);
    file.canonicalize().is_ok_and(|real| all_trusted(file) && all_trusted(&real))
}

#[cfg(test)]
mod tests {
    use super::super::parse_connection_string;
    use super::*;

    fn resolve(text: &str) -> Result<ResolvedOptions, Error> {
        let parameters = parse_connection_string(text).unwrap().unwrap();
        ResolvedOptions::new(&ConnectOptions { parameters, ..ConnectOptions::default() })
    }

    fn addresses(text: &str) -> Vec<String> {
        resolve(text).unwrap().candidates.iter().map(Candidate::address).collect()
    }

    #[test]
    fn what_is_given_wins_over_the_environment() {
        let options = ConnectOptions {
            host: Some("/run/somewhere".into()),
            port: Some(6543),
            user: Some("o'neil @ home".into()),
            database: Some("a/b?c".into()),
            ..ConnectOptions::default()
        };
        let resolved = ResolvedOptions::new(&options).unwrap();
        let candidate = &resolved.candidates[0];
        assert_eq!(candidate.address(), "/run/somewhere:6543");
        assert_eq!(candidate.socket_file().unwrap(), Path::new("/run/somewhere/.s.PGSQL.6543"));
        assert_eq!(resolved.databases(), ["a/b?c"]);
        let sqlx = candidate.options(&resolved, "o'neil @ home", "a/b?c").unwrap();
        assert_eq!((sqlx.get_host(), sqlx.get_port()), ("/run/somewhere", 6543));
        assert_eq!((sqlx.get_username(), sqlx.get_database()), ("o'neil @ home", Some("a/b?c")));
        assert!(matches!(sqlx.get_ssl_mode(), PgSslMode::Disable), "through a socket");
    }

    #[test]
    fn several_hosts_have_a_port_each_or_one() {
        assert_eq!(addresses("host=a,b port=5433"), ["a:5433", "b:5433"]);
        assert_eq!(addresses("host=a,b port=1,"), ["a:1", "b:5432"]);
        assert_eq!(addresses("postgres://a:1,b:2/x"), ["a:1", "b:2"]);
        assert_eq!(addresses("hostaddr=10.0.0.1 host=db"), ["10.0.0.1:5432"]);
        for wrong in ["host=a,b port=1,2,3", "host=a port=x", "host=a,b hostaddr=::1", "host=a port=0"] {
            assert!(resolve(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        for wrong in ["sslmode=maybe", "target_session_attrs=rw", "connect_timeout=soon", "load_balance_hosts=on"] {
            let error = resolve(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong.split('=').next().unwrap()), "{error}");
        }
        assert_eq!(resolve("host=a connect_timeout=1").unwrap().timeout, Duration::from_secs(1));
    }

    #[test]
    fn an_identity_is_a_name_and_never_anonymous() {
        let over_network = resolve("host=db").unwrap();
        let me = SystemUser::current().unwrap().name;
        assert_eq!(over_network.identities(&over_network.candidates[0]).unwrap()[0].role, me);
        let named = resolve("host=db user=app").unwrap();
        assert_eq!(named.identities(&named.candidates[0]).unwrap()[0].role, "app");
    }

    #[test]
    fn options_are_settings() {
        let pairs = option_pairs(r"-c work_mem=4MB  --lock-timeout=1s -cgeqo=off -c search_path=a,\ b").unwrap();
        let expected = [("work_mem", "4MB"), ("lock_timeout", "1s"), ("geqo", "off"), ("search_path", "a, b")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(option_pairs("work_mem=4MB").is_err());
    }
}
