//! libpq's connection parameters: which there are, where each may come from, and which of them pgthaw honours.
//! Source: the manual's chapter "Database Connection Control Functions", of PostgreSQL 13 to 18.

use std::collections::BTreeMap;
use std::env;
use std::fmt;

use super::super::{Error, quote_value};

/// Named values, as a connection string, a service file or the environment gives them. The password is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Parameters(BTreeMap<&'static str, String>);

/// What pgthaw does with a parameter.
enum Support {
    /// What libpq does.
    Honoured,
    /// Nothing: it changes nothing that a user of pgthaw would notice.
    Harmless,
    /// These values ask for nothing beyond what happens anyway. Any other is refused: a wish for more safety that is
    /// silently ignored is a trap.
    Only(&'static [&'static str]),
}

use Support::{Harmless, Honoured, Only};

/// Each parameter with its environment variable, or an empty name.
const KNOWN: [(&str, &str, Support); 47] = [
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
    /// Parameters that environment variables give; an empty one is unset, as for libpq.
    pub fn of_environment() -> Parameters {
        let given = |(key, variable, _): &(&'static str, &str, Support)| {
            (!variable.is_empty()).then(|| self::variable(variable)).flatten().map(|value| (*key, value))
        };
        Parameters(KNOWN.iter().filter_map(given).collect())
    }

    /// The value; empty is unset.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Sets a value. An unknown name is left out, and false is answered.
    pub fn set(&mut self, key: &str, value: String) -> bool {
        let known = KNOWN.iter().find(|(known, _, _)| *known == key);
        known.is_some_and(|(known, _, _)| {
            self.0.insert(known, value);
            true
        })
    }

    /// These, and from `others` what these do not have. One that is empty here is had: a connection string can say that what
    /// the environment says does not count.
    pub fn or(mut self, others: Parameters) -> Parameters {
        for (key, value) in others.0 {
            self.0.entry(key).or_insert(value);
        }
        self
    }

    /// Is there anything in it that nobody else should see?
    pub fn has_secret(&self) -> bool {
        self.0.iter().any(|(key, value)| is_secret(key) && !value.is_empty())
    }

    /// Refuses what is asked for here and cannot be had.
    pub fn check(&self) -> Result<(), Error> {
        for (key, _, support) in &KNOWN {
            let (Some(value), Only(values)) = (self.get(key), support) else { continue };
            if !values.contains(&value) {
                return Err(Error::Unsupported { parameter: key });
            }
        }
        Ok(())
    }

    /// The parameters as a connection string without its password; empty when there is nothing else in it.
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

/// Is the value of this parameter nobody else's business?
fn is_secret(key: &str) -> bool {
    matches!(key, "password" | "sslpassword" | "oauth_client_secret")
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Parameters").field(&self.render_without_password()).finish()
    }
}

/// The names that libpq knows, for whoever misspelt one.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _, _)| *name)
}

/// The value of an environment variable; empty is unset, as for libpq.
pub fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
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
