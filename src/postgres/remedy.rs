//! Commands that a hint tells the user to run. Names come from the server, and whoever made them chose them: they are
//! quoted, for SQL and for the shell.

/// psql, with the options that lead to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Psql(String);

impl Psql {
    /// Where the address is not known: the user has to add what leads there.
    pub(super) fn anywhere() -> Psql {
        Psql("psql".into())
    }

    /// At an address such as `/tmp:5433`; without options where psql looks by itself.
    pub fn at(address: &str) -> Psql {
        match address.rsplit_once(':') {
            Some((host, port)) if address != "/var/run/postgresql:5432" => {
                Psql(format!("psql -h {} -p {port}", quote_argument(host)))
            }
            _ => Psql::anywhere(),
        }
    }

    /// Installs an extension in these databases.
    pub fn create_extension(&self, databases: &[String], name: &str) -> String {
        let statement = format!("CREATE EXTENSION {name}");
        match databases {
            [only] => self.run(only, &statement),
            several => {
                let several: Vec<String> = several.iter().map(|database| quote_argument(database)).collect();
                let statement = quote_argument(&statement);
                format!("for d in {}; do {} -d \"$d\" -c {statement}; done", several.join(" "), self.0)
            }
        }
    }

    /// Makes a role a member of another one.
    pub fn grant(&self, database: &str, granted: &str, role: &str) -> String {
        self.run(database, &format!("GRANT {granted} TO {}", quote_identifier(role)))
    }

    fn run(&self, database: &str, statement: &str) -> String {
        format!("{} -d {} -c {}", self.0, quote_argument(database), quote_argument(statement))
    }
}

fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// As one word of a shell. The server's names never have the NUL that cannot be quoted.
fn quote_argument(text: &str) -> String {
    shlex::try_quote(text).map(String::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_a_command() {
        let several = Psql::at("/tmp:5433").create_extension(&["shop".into(), "$(reboot)".into()], "pg_prewarm");
        assert_eq!(
            several,
            "for d in shop '$(reboot)'; do psql -h /tmp -p 5433 -d \"$d\" -c 'CREATE EXTENSION pg_prewarm'; done"
        );
        let hostile = Psql::anywhere().grant("a'; rm -rf ~; '", "pg_monitor", "r\"; DROP ROLE x; --'");
        let words = shlex::split(&hostile).unwrap();
        assert_eq!(words[..4], ["psql", "-d", "a'; rm -rf ~; '", "-c"]);
        assert_eq!(words[4..], ["GRANT pg_monitor TO \"r\"\"; DROP ROLE x; --'\""]);
    }

    #[test]
    fn psql_finds_the_usual_server_itself() {
        assert_eq!(Psql::at("/var/run/postgresql:5432"), Psql::anywhere());
        assert_eq!(Psql::at("::1:5432").0, "psql -h ::1 -p 5432");
    }
}
