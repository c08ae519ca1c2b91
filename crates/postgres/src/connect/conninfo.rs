//! Connection strings. No crate supports all of libpq: sqlx and url know one host; tokio-postgres lacks
//! `sslmode=verify-full`, `passfile` and `service`.

use std::collections::BTreeMap;
use std::io::ErrorKind::{InvalidInput, NotFound, PermissionDenied};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fmt};

use Support::{Harmless, Honoured, Only};
use host::files::{SMALL_FILE_BYTES_MAX, open_regular, read_open_at_most, read_text_at_most};
use percent_encoding::percent_decode_str;

use crate::{Error, Result, quote_value};

const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// `None` for a plain database name.
///
/// # Errors
/// Messages contain only parameter names: the rest may be a password.
pub fn parse(text: &str) -> Result<Option<Parameters>> {
    match SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => parse_uri(rest).map(Some),
        // A `://` after `=` is part of a value.
        None if text.split('=').next().is_some_and(|first| first.contains("://")) => {
            Err(invalid("a URI must begin with postgresql:// or postgres://".into()))
        }
        None if text.contains('=') => parse_pairs(text).map(Some),
        None if looks_like_login(text) => {
            Err(invalid("it looks like a URI, which must begin with postgresql:// or postgres://".into()))
        }
        None => Ok(None),
    }
}

/// `user:password@host` must not be sent as a database name.
fn looks_like_login(text: &str) -> bool {
    text.split_once('@').is_some_and(|(login, _)| login.contains(':'))
}

/// Hides a password in a command-line word, even in an invalid string. `None` if unchanged.
pub fn hide_password(word: &str) -> Option<String> {
    let behind_option = word.split_once('=').filter(|(option, _)| option.starts_with("--"));
    let (option, text) = match behind_option {
        Some((option, text)) => (format!("{option}="), text),
        None => word.strip_prefix("-d").map_or((String::new(), word), |text| ("-d".to_owned(), text)),
    };
    match parse(text) {
        Ok(Some(parameters)) if parameters.has_secret() => {
            Some(format!("{option}{}", parameters.render_without_password()))
        }
        _ if option == "--password=" => Some(format!("{option}…")),
        Ok(_) => None,
        Err(_) => {
            let may_be_secret = text.contains("pass") || text.contains("://") || looks_like_login(text);
            may_be_secret.then(|| format!("{option}…"))
        }
    }
}

fn invalid(reason: String) -> Error {
    Error::ConnectionString { reason }
}

fn set(parameters: &mut Parameters, key: &str, value: String) -> Result<()> {
    if parameters.set(key, value) {
        return Ok(());
    }
    let names = KNOWN.iter().map(|(name, _, _)| *name);
    let near = names.max_by(|one, other| strsim::jaro(key, one).total_cmp(&strsim::jaro(key, other)));
    let near = near.filter(|near| strsim::jaro(key, near) > 0.8);
    let shown =
        if parameters.get("password").is_some() { "an option after the password".into() } else { format!("{key:?}") };
    let near = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
    Err(invalid(format!("{shown} is not a libpq option{near}")))
}

fn parse_pairs(text: &str) -> Result<Parameters> {
    let mut parameters = Parameters::default();
    let mut rest = text.trim_start();
    let mut before = String::new();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let Some(behind) = behind.trim_start().strip_prefix('=') else {
            let place = match before.as_str() {
                "" => "its first word".to_owned(),
                before => format!("a word after the value of {before}"),
            };
            return Err(invalid(format!("{place} has no \"=\": put a value with spaces in single quotes")));
        };
        let (value, behind) = take_value(behind.trim_start())
            .ok_or_else(|| invalid(format!("the value of {key} has no closing quote")))?;
        set(&mut parameters, key, value)?;
        key.clone_into(&mut before);
        rest = behind.trim_start();
    }
    Ok(parameters)
}

/// `None` for an unclosed quote.
fn take_value(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('\'');
    let is_quoted = inside.is_some();
    let body = inside.unwrap_or(text);
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if is_quoted => return Some((value, &body[at + 1..])),
            c if c.is_whitespace() && !is_quoted => return Some((value, &body[at..])),
            c => value.push(c),
        }
    }
    (!is_quoted).then_some((value, ""))
}

/// Parses `[user[:password]@][host[:port][,…]][/dbname][?key=value&…]`.
fn parse_uri(text: &str) -> Result<Parameters> {
    let mut parameters = Parameters::default();
    let mut parts: Vec<(&str, String)> = Vec::new();
    // Like libpq: a login ends at an @, unless a slash comes first.
    let login_end = text.find(['@', '/']).filter(|at| text[*at..].starts_with('@'));
    let rest = login_end.map_or(text, |at| &text[at + 1..]);
    if let Some(at) = login_end {
        let (user, password) = text[..at].split_once(':').unwrap_or((&text[..at], ""));
        parts.extend([("user", decode(user, "user")?), ("password", decode(password, "password")?)]);
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
    let (hosts, ports) = split_hosts(hosts)?;
    parts.extend([("host", hosts), ("port", ports), ("dbname", decode(database, "dbname")?)]);
    for (key, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
        parameters.set(key, value);
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| invalid("an option after the question mark has no \"=\"".into()))?;
        match (&*decode(key, "option")?, &*decode(value, key)?) {
            // JDBC's spelling.
            ("ssl", "true") => set(&mut parameters, "sslmode", "require".into())?,
            (key, value) => set(&mut parameters, key, value.to_owned())?,
        }
    }
    Ok(parameters)
}

/// Hosts and ports, in lists of equal length. IPv6 addresses are in brackets.
fn split_hosts(text: &str) -> Result<(String, String)> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    if text.contains('@') {
        return Err(invalid("write @ as %40 and / as %2F in a URI's user and password".into()));
    }
    for one in text.split(',') {
        let (host, port) = match one.strip_prefix('[') {
            Some(rest) => {
                let closed = rest.split_once(']').filter(|(_, port)| port.is_empty() || port.starts_with(':'));
                let (host, port) = closed.ok_or_else(|| invalid("an IPv6 address has no closing bracket".into()))?;
                (host, port.trim_start_matches(':'))
            }
            None => one.split_once(':').unwrap_or((one, "")),
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid("a URI's port must be a number; write / as %2F in a password".into()));
        }
        hosts.push(decode(host, "host")?);
        ports.push(port.to_owned());
    }
    let has_port = ports.iter().any(|port| !port.is_empty());
    Ok((hosts.join(","), if has_port { ports.join(",") } else { String::new() }))
}

fn decode(text: &str, what: &str) -> Result<String> {
    let is_hex = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_hexdigit);
    if text.match_indices('%').any(|(at, _)| !is_hex(at + 1) || !is_hex(at + 2) || text[at..].starts_with("%00")) {
        let reason = format!(
            "a % in the URI's {what} must be followed by two hexadecimal digits other than 00 (write % itself as %25)"
        );
        return Err(invalid(reason));
    }
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(String::from).map_err(|_| invalid(format!("the URI's {what} is not UTF-8")))
}

// libpq's parameters, from "Database Connection Control Functions" in the manual (13 to 19).

/// Debug hides passwords.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<&'static str, String>);

enum Support {
    Honoured,
    /// Safe to ignore.
    Harmless,
    /// Accepts only these values: ignoring others would be a security risk.
    Only(&'static [&'static str]),
}

/// Parameter, environment variable (may be empty), support.
const KNOWN: [(&str, &str, Support); 49] = [
    ("application_name", "PGAPPNAME", Honoured),
    ("channel_binding", "PGCHANNELBINDING", Only(&["prefer", "disable"])),
    ("client_encoding", "PGCLIENTENCODING", Harmless),
    ("connect_timeout", "PGCONNECT_TIMEOUT", Honoured),
    ("dbname", "PGDATABASE", Honoured),
    ("fallback_application_name", "", Harmless),
    ("gssdelegation", "PGGSSDELEGATION", Harmless),
    ("gssencmode", "PGGSSENCMODE", Only(&["prefer", "disable"])),
    ("gsslib", "PGGSSLIB", Harmless),
    ("host", "PGHOST", Honoured),
    ("hostaddr", "PGHOSTADDR", Honoured),
    ("keepalives", "", Harmless),
    ("keepalives_count", "", Harmless),
    ("keepalives_idle", "", Harmless),
    ("keepalives_interval", "", Harmless),
    ("krbsrvname", "PGKRBSRVNAME", Harmless),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", Honoured),
    ("max_protocol_version", "PGMAXPROTOCOLVERSION", Harmless),
    ("min_protocol_version", "PGMINPROTOCOLVERSION", Only(&["3.0"])),
    ("oauth_ca_file", "PGOAUTHCAFILE", Harmless),
    ("oauth_client_id", "", Only(&[])),
    ("oauth_client_secret", "", Only(&[])),
    ("oauth_issuer", "", Only(&[])),
    ("oauth_scope", "", Only(&[])),
    ("options", "PGOPTIONS", Honoured),
    ("passfile", "PGPASSFILE", Honoured),
    ("password", "PGPASSWORD", Honoured),
    ("port", "PGPORT", Honoured),
    ("replication", "", Only(&["false", "off", "no", "0"])),
    ("require_auth", "PGREQUIREAUTH", Only(&[])),
    ("requirepeer", "PGREQUIREPEER", Honoured),
    ("service", "PGSERVICE", Honoured),
    ("servicefile", "PGSERVICEFILE", Honoured),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", Only(&["TLSv1.3"])),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", Only(&["TLSv1", "TLSv1.1", "TLSv1.2"])),
    ("sslcert", "PGSSLCERT", Honoured),
    ("sslcertmode", "PGSSLCERTMODE", Only(&["allow"])),
    ("sslcompression", "PGSSLCOMPRESSION", Harmless),
    ("sslcrl", "PGSSLCRL", Only(&[])),
    ("sslcrldir", "PGSSLCRLDIR", Only(&[])),
    ("sslkey", "PGSSLKEY", Honoured),
    ("sslmode", "PGSSLMODE", Honoured),
    ("sslnegotiation", "PGSSLNEGOTIATION", Only(&["postgres"])),
    ("sslpassword", "", Only(&[])),
    ("sslrootcert", "PGSSLROOTCERT", Honoured),
    ("sslsni", "PGSSLSNI", Harmless),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", Honoured),
    ("tcp_user_timeout", "", Harmless),
    ("user", "PGUSER", Honoured),
];

impl Parameters {
    pub fn of_environment() -> Parameters {
        let given = |(key, variable, _): &(&'static str, &str, Support)| {
            (!variable.is_empty()).then(|| self::variable(variable)).flatten().map(|value| (*key, value))
        };
        Parameters(KNOWN.iter().filter_map(given).collect())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns false for an unknown name.
    pub fn set(&mut self, key: &str, value: String) -> bool {
        let known = KNOWN.iter().find(|(known, _, _)| *known == key);
        known.is_some_and(|(known, _, _)| {
            self.0.insert(known, value);
            true
        })
    }

    /// An empty value counts as set: a connection string can override the environment.
    pub fn or(mut self, others: Parameters) -> Parameters {
        for (key, value) in others.0 {
            self.0.entry(key).or_insert(value);
        }
        self
    }

    pub fn has_secret(&self) -> bool {
        self.0.iter().any(|(key, value)| is_secret(key) && !value.is_empty())
    }

    pub fn check(&self) -> Result<()> {
        for (key, _, support) in &KNOWN {
            let (Some(value), Only(values)) = (self.get(key), support) else { continue };
            if !values.contains(&value) {
                return Err(Error::Unsupported { parameter: key });
            }
        }
        Ok(())
    }

    pub fn render_without_password(&self) -> String {
        let shown = self.0.iter().filter(|(key, value)| !is_secret(key) && !value.is_empty());
        let is_plain = |value: &str| value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:,*".contains(&b));
        let render = |(key, value): (&&str, &String)| match is_plain(value) {
            true => format!("{key}={value}"),
            false => format!("{key}={}", quote_value(value)),
        };
        shown.map(render).collect::<Vec<_>>().join(" ")
    }
}

fn is_secret(key: &str) -> bool {
    matches!(key, "password" | "sslpassword" | "oauth_client_secret")
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parameters").field(&self.render_without_password()).finish()
    }
}

/// Like libpq, treats an empty variable as unset.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

// ---- password file ----
//
// Lines of `host:port:database:user:password`; `*` matches all. sqlx's reader ignores PGPASSFILE and `passfile`, and
// does not match sockets as libpq does.

/// `wanted`: host (`localhost` for default sockets), port, database, user.
///
/// # Errors
/// If others may read the file. libpq only warns and ignores the file, which looks like a wrong password.
pub fn find_password(file: &Path, wanted: [&str; 4]) -> Result<Option<String>> {
    let opened = match open_regular(file) {
        // Like libpq: no password without a regular file.
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied | InvalidInput) => return Ok(None),
        opened => opened.map_err(|error| Error::file("open", file, error))?,
    };
    let metadata = opened.metadata().map_err(|error| Error::file("look at", file, error))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(Error::PasswordFileOpen { path: file.to_owned() });
    }
    let text = read_open_at_most(opened, SMALL_FILE_BYTES_MAX).map_err(|error| Error::file("read", file, error))?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fits = |fields: &[String; 5]| fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
    Ok(lines.filter_map(split_line).find(fits).map(|[.., password]| password))
}

pub fn split_line(line: &str) -> Option<[String; 5]> {
    let mut fields: [String; 5] = Default::default();
    let mut at = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => fields[at].extend(characters.next()),
            // The password may contain colons.
            ':' if at < 4 => at += 1,
            _ => fields[at].push(character),
        }
    }
    (at == 4).then_some(fields)
}

/// Searches `file` or the user's service file, then the system's.
pub fn read_service(name: &str, file: Option<&str>) -> Result<Parameters> {
    let files = service_files(file);
    for file in &files {
        if let Some(parameters) = read_service_file(file, name)? {
            return Ok(parameters);
        }
    }
    Err(Error::ServiceMissing { name: name.to_owned(), files })
}

fn service_files(file: Option<&str>) -> Vec<PathBuf> {
    let of_user = file.map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".pg_service.conf")));
    let of_system = variable("PGSYSCONFDIR").map_or_else(|| PathBuf::from("/etc/postgresql-common"), PathBuf::from);
    of_user.into_iter().chain([of_system.join("pg_service.conf")]).collect()
}

/// `None` without such a file or service. Like libpq, supports neither quotes nor escapes.
fn read_service_file(file: &Path, service: &str) -> Result<Option<Parameters>> {
    let text = match read_text_at_most(file, SMALL_FILE_BYTES_MAX) {
        Err(error) if error.kind() == NotFound => return Ok(None),
        text => text.map_err(|error| Error::file("read", file, error))?,
    };
    let heading = format!("[{service}]");
    let mut parameters: Option<Parameters> = None;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        match &mut parameters {
            _ if line.is_empty() || line.starts_with('#') => {}
            None if line == heading => parameters = Some(Parameters::default()),
            None => {}
            Some(_) if line.starts_with('[') => break,
            // The error omits the line, which may contain a password.
            Some(parameters) => {
                let known = line
                    .split_once('=')
                    .is_some_and(|(key, value)| parameters.set(key.trim(), value.trim().to_owned()));
                if !known {
                    let reason = format!("line {number} is not a libpq option (key=value)");
                    return Err(Error::DataFile { path: file.to_owned(), reason });
                }
            }
        }
    }
    Ok(parameters)
}

#[cfg(test)]
mod conninfo_tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).unwrap().unwrap().render_without_password()
    }

    #[test]
    fn a_name_is_a_name() {
        assert_eq!(parse("shop").unwrap(), None);
        assert_eq!(parse("a b'c").unwrap(), None);
    }

    #[test]
    fn a_word_is_shown_without_what_is_secret() {
        for word in [
            "postgresql://u:geheim@h/d",
            "-dpostgres://u:geheim@h/d",
            "--dbname=password=geheim host=h",
            "u:geheim@h/d",
            "--results=postgress://u:geheim@h/d",
            "password='geheim",
            "sslpassword=geheim",
        ] {
            let shown = hide_password(word).unwrap_or_else(|| panic!("{word}"));
            assert!(!shown.contains("geheim"), "{shown}");
        }
        for word in ["-d", "shop", "--top=3", "riops=10000", "host=h dbname=d", "--what-if=rbps=500MiB", "-p", "5433"] {
            assert_eq!(hide_password(word), None, "{word}");
        }
    }

    #[test]
    fn pairs_are_read_with_quotes_and_escapes() {
        let text = r" host = /tmp user='o\'neil' password = 'a b=c' dbname=x\ y application_name=''  ";
        assert_eq!(shown(text), r"dbname='x y' host=/tmp user='o\'neil'");
        assert_eq!(parse(text).unwrap().unwrap().get("password"), Some("a b=c"));
    }

    #[test]
    fn a_value_may_hold_what_a_uri_begins_with() {
        assert_eq!(parse("user=me password=a://b").unwrap().unwrap().get("password"), Some("a://b"));
        assert!(parse("http://me@host/app?user=me").is_err());
    }

    #[test]
    fn uris_are_read_with_several_hosts() {
        assert_eq!(shown("postgresql://"), "");
        assert_eq!(
            shown("postgres://u:p%40@h1:5433,[::1],h3/d%2Fb?sslmode=require"),
            "dbname=d/b host=h1,::1,h3 port=5433,, sslmode=require user=u"
        );
        assert_eq!(shown("postgresql:///mydb?host=/tmp&port=5433"), "dbname=mydb host=/tmp port=5433");
        assert_eq!(shown("postgresql://%2Fvar%2Frun/x?ssl=true"), "dbname=x host=/var/run sslmode=require");
        assert_eq!(parse("postgres://u:p%40w@h/d").unwrap().unwrap().get("password"), Some("p@w"));
    }

    #[test]
    fn what_cannot_be_read_is_refused_without_its_secrets() {
        for text in [
            "password=geheim wort",
            "password=geheim wort=1",
            "postgress://u:geheim@h/d",
            "user=u password='geheim",
            "postgres://u:geheim%zz@h/d",
            "u:geheim@h/d",
            "postgres://u:geheim@[::1/d",
            "postgres://u:a@geheim@h/d",
            "postgres://u:geheim/x@h/d",
            "postgres://u:geheim@h/d?hots=1",
        ] {
            let told = parse(text).unwrap_err().to_string();
            assert!(!told.contains("geheim") && !told.contains("wort"), "{text}: {told}");
        }
        assert!(parse("hots=1").unwrap_err().to_string().contains("did you mean \"host\""));
    }
}

#[cfg(test)]
mod parameters_tests {
    use super::*;

    fn parameters(values: &[(&str, &str)]) -> Parameters {
        let mut parameters = Parameters::default();
        values.iter().for_each(|(key, value)| assert!(parameters.set(key, (*value).to_owned()), "{key}"));
        parameters
    }

    #[test]
    fn the_first_that_says_something_wins() {
        let all =
            parameters(&[("host", "a"), ("user", "")]).or(parameters(&[("host", "b"), ("user", "c"), ("port", "1")]));
        assert_eq!((all.get("host"), all.get("user"), all.get("port")), (Some("a"), None, Some("1")));
        assert!(!Parameters::default().set("hots", "a".into()));
    }

    #[test]
    fn a_wish_that_cannot_be_met_is_refused() {
        for (key, value) in [("require_auth", "none"), ("channel_binding", "require"), ("sslcrl", "/x")] {
            let error = parameters(&[(key, value)]).check().unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
        parameters(&[("channel_binding", "prefer"), ("keepalives", "0"), ("requirepeer", "x")]).check().unwrap();
    }

    #[test]
    fn the_password_is_not_shown() {
        let all = parameters(&[("password", "geheim"), ("host", "/a b"), ("dbname", "it's"), ("sslpassword", "auch")]);
        assert_eq!(all.render_without_password(), r"dbname='it\'s' host='/a b'");
        assert!(!format!("{all:?}").contains("geheim"));
    }
}

#[cfg(test)]
mod password_file_tests {
    use std::os::unix::fs::OpenOptionsExt as _;

    use std::fs;

    use super::*;

    #[test]
    fn the_first_line_that_fits_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pgpass");
        let lines = "# ours\nother:*:*:*:no\nlocalhost:5433:shop:app:a\\:b\\\\c:d\n*:*:*:*:any\n";
        let options = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&file);
        std::io::Write::write_all(&mut options.unwrap(), lines.as_bytes()).unwrap();
        let find = |host, port, database| find_password(&file, [host, port, database, "app"]).unwrap().unwrap();
        assert_eq!(find("localhost", "5433", "shop"), "a:b\\c:d");
        assert_eq!(find("localhost", "5433", "other"), "any");
        assert_eq!(find("other", "1", "x"), "no");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let wanted = ["x", "1", "x", "x"];
        assert!(matches!(find_password(&file, wanted), Err(Error::PasswordFileOpen { .. })));
        assert_eq!(find_password(&directory.path().join("absent"), wanted).unwrap(), None);
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
