//! Commands for hints. Other people may have chosen the names of databases and roles, so the names are quoted for SQL
//! and the shell. In sentences, commands are in backticks (`terminal::complete_commands`).

use std::fmt;

use super::SystemUser;
use host::failure::quote_argument;

/// Options of psql; `None` is its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
}

impl fmt::Display for Address {
    /// Options such as ` -h /tmp -p 5433`; empty for psql's defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port.map(|port| port.to_string());
        for (option, value) in [("-h", &self.host), ("-p", &port), ("-U", &self.user)] {
            if let Some(value) = value {
                write!(f, " {option} {}", quote_argument(value))?;
            }
        }
        Ok(())
    }
}

pub fn psql_as(user: &SystemUser, address: &Address) -> String {
    let name = quote_argument(&user.name);
    match SystemUser::is_root() {
        true => format!("runuser -u {name} -- psql{address}"),
        false => format!("sudo -u {name} psql{address}"),
    }
}

/// `Server::psql` adds the server's address when the command is printed.
pub(super) fn create_extension(databases: &[String], name: &str) -> String {
    run_in(databases, &format!("CREATE EXTENSION {name}"))
}

fn run_in(databases: &[String], statement: &str) -> String {
    let statement = quote_argument(statement);
    match databases {
        [only] => format!("`psql -d {} -c {statement}`", quote_database(only)),
        several => {
            let several: Vec<String> = several.iter().map(|database| quote_database(database)).collect();
            format!("`for d in {}; do psql -d \"$d\" -c {statement}; done`", several.join(" "))
        }
    }
}

pub fn grant(database: &str, granted: &str, role: &str) -> String {
    grant_in(&[database.to_owned()], granted, role)
}

pub(super) fn grant_in(databases: &[String], granted: &str, role: &str) -> String {
    run_in(databases, &format!("GRANT {granted} TO {}", quote_identifier(role)))
}

/// Writes a database name that looks like a connection string as `dbname=…`. Otherwise psql could connect to another
/// server.
fn quote_database(name: &str) -> String {
    match name.contains('=') || name.contains("://") {
        true => quote_argument(&format!("dbname={}", quote_value(name))),
        false => quote_argument(name),
    }
}

pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub fn quote_value(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::is_treacherous;

    #[test]
    fn names_cannot_break_out_of_a_command() {
        let several = create_extension(&["shop".into(), "$(reboot)".into()], "pg_prewarm");
        assert_eq!(several, "`for d in shop '$(reboot)'; do psql -d \"$d\" -c 'CREATE EXTENSION pg_prewarm'; done`");
        let hostile = grant("a'; rm -rf ~; '", "pg_monitor", "r\"; DROP ROLE x; --'");
        let words = shlex::split(hostile.trim_matches('`')).unwrap();
        assert_eq!(words[..4], ["psql", "-d", "a'; rm -rf ~; '", "-c"]);
        assert_eq!(words[4..], ["GRANT pg_monitor TO \"r\"\"; DROP ROLE x; --'\""]);
    }

    #[test]
    fn a_databases_name_leads_to_no_other_server() {
        for (name, named) in [
            ("host=127.0.0.1 dbname=evil", "dbname='host=127.0.0.1 dbname=evil'"),
            ("postgresql://127.0.0.1:7777/evil", "dbname='postgresql://127.0.0.1:7777/evil'"),
            (r"a' host=\x", r"dbname='a\' host=\\x'"),
        ] {
            let one = create_extension(&[name.into()], "pg_prewarm");
            let words = shlex::split(one.trim_matches('`')).unwrap();
            assert_eq!(words[2], named);
            let several = create_extension(&["shop".into(), name.into()], "pg_prewarm");
            assert_eq!(shlex::split(&several).unwrap()[4].trim_end_matches(';'), named);
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_never_within_a_command() {
        let name = "a'\n\x1b]0;x\x07\u{202e}\\ é; reboot";
        let quoted = quote_argument(name);
        assert!(!quoted.contains(is_treacherous), "{quoted}");
        assert_eq!(quoted, r"$'a\047\012\033]0;x\007\342\200\256\134 \303\251; reboot'");
        let echoed = std::process::Command::new("bash").args(["-c", &format!("printf %s {quoted}")]).output().unwrap();
        assert_eq!(String::from_utf8(echoed.stdout).unwrap(), name);
    }
}
