//! Commands that hints suggest. Names are chosen by others, so they are quoted, for SQL and the shell. Within a sentence a command stands
//! between backticks (`terminal::complete_commands`).

use std::borrow::Cow;
use std::fmt;

use super::SystemUser;
use host::failure::quote_argument;

/// A server's address as psql's options; `None` is psql's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
}

impl fmt::Display for Address {
    /// As options: ` -h /tmp -p 5433`; empty for psql's defaults.
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

/// psql, with what makes it a superuser's on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Psql(String);

impl Psql {
    /// Without a word of where: whatever prints it completes it ([`Server::psql`](super::Server::psql)).
    pub fn anywhere() -> Psql {
        Psql("psql".into())
    }

    /// psql at an address, as whoever that names.
    pub fn at(address: &Address) -> Psql {
        Psql(format!("psql{address}"))
    }

    /// As a user of the operating system.
    pub fn as_user(user: &SystemUser, address: &Address) -> Psql {
        let name = quote_argument(&user.name);
        match SystemUser::is_root() {
            true => Psql(format!("runuser -u {name} -- psql{address}")),
            false => Psql(format!("sudo -u {name} psql{address}")),
        }
    }

    /// The command that installs an extension in these databases.
    pub fn create_extension(&self, databases: &[String], name: &str) -> String {
        let statement = format!("CREATE EXTENSION {name}");
        match databases {
            [only] => self.run(only, &statement),
            several => {
                let several: Vec<String> =
                    several.iter().map(|database| quote_argument(&name_database(database))).collect();
                let statement = quote_argument(&statement);
                format!("`for d in {}; do {} -d \"$d\" -c {statement}; done`", several.join(" "), self.0)
            }
        }
    }

    /// The command that makes a role a member of another one.
    pub fn grant(&self, database: &str, granted: &str, role: &str) -> String {
        self.run(database, &format!("GRANT {granted} TO {}", quote_identifier(role)))
    }

    fn run(&self, database: &str, statement: &str) -> String {
        format!("`{} -d {} -c {}`", self.0, quote_argument(&name_database(database)), quote_argument(statement))
    }
}

impl fmt::Display for Psql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A database for psql's `-d`. A name that looks like a connection string could lead to another server, so it becomes
/// `dbname=…`.
fn name_database(name: &str) -> Cow<'_, str> {
    if !name.contains('=') && !name.contains("://") {
        return Cow::Borrowed(name);
    }
    Cow::Owned(format!("dbname={}", quote_value(name)))
}

/// A value in quotes, as a connection string has it.
pub fn quote_value(value: &str) -> String {
    format!("'{}'", value.replace('\\', r"\\").replace('\'', r"\'"))
}

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::units::is_treacherous;

    #[test]
    fn names_cannot_break_out_of_a_command() {
        let several = at_tmp().create_extension(&["shop".into(), "$(reboot)".into()], "pg_prewarm");
        assert_eq!(
            several,
            "`for d in shop '$(reboot)'; do psql -h /tmp -p 5433 -d \"$d\" -c 'CREATE EXTENSION pg_prewarm'; done`"
        );
        let hostile = Psql::anywhere().grant("a'; rm -rf ~; '", "pg_monitor", "r\"; DROP ROLE x; --'");
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
            let one = Psql::anywhere().create_extension(&[name.into()], "pg_prewarm");
            let words = shlex::split(one.trim_matches('`')).unwrap();
            assert_eq!(words[2], named);
            let several = Psql::anywhere().create_extension(&["shop".into(), name.into()], "pg_prewarm");
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

    fn at_tmp() -> Psql {
        Psql::at(&Address { host: Some("/tmp".into()), port: Some(5433), user: None })
    }
}
