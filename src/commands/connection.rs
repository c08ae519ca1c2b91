//! The options that say which server and which databases are meant.

use std::path::PathBuf;

use clap::Args;

use crate::postgres::ConnectOptions;

/// Commands in hints that connect to a server.
const COMMANDS: [&str; 5] =
    ["pgthaw doctor", "pgthaw map", "pgthaw evict", "pgthaw snapshot take", "pgthaw snapshot drop"];

/// Which server, and which of its databases.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connection (as psql's; PG* variables and ~/.pgpass count too)")]
pub struct ConnectionArguments {
    /// Server's host, or the directory of its socket
    #[arg(short = 'h', long, value_name = "HOST")]
    pub host: Option<String>,

    /// Server's port
    #[arg(short, long)]
    pub port: Option<u16>,

    /// User to connect as
    #[arg(short = 'U', long, value_name = "USER")]
    pub username: Option<String>,

    /// Only this database (and the shared catalogs); may be repeated. Without it: every database of the cluster
    #[arg(short = 'd', long = "dbname", value_name = "DATABASE")]
    pub databases: Vec<String>,

    /// The data directory: of a stopped server, or of the one connected to when it is not where the server says
    #[arg(short = 'D', long, value_name = "DIRECTORY", env = "PGTHAW_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

impl ConnectionArguments {
    /// Does a server have to answer? With `--data-dir` alone none has to.
    pub fn names_server(&self) -> bool {
        self.host.is_some() || self.port.is_some()
    }

    /// A text that tells the user to run pgthaw, with the options that lead to the same server in it.
    pub fn complete_commands(&self, text: &str) -> String {
        let options = self.options();
        COMMANDS.iter().fold(text.to_owned(), |text, command| text.replace(command, &format!("{command}{options}")))
    }

    /// What says which server and databases are meant, as it would be typed.
    fn options(&self) -> String {
        let port = self.port.map(|port| port.to_string());
        let directory = self.data_dir.as_ref().map(|path| path.display().to_string());
        let single = [("-h", &self.host), ("-p", &port), ("-U", &self.username), ("-D", &directory)];
        let single = single.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
        let databases = self.databases.iter().map(|database| ("-d", database));
        // A NUL, which cannot be quoted, cannot have been typed either.
        let quote = |value: &String| shlex::try_quote(value).map(String::from).unwrap_or_default();
        single.chain(databases).map(|(option, value)| format!(" {option} {}", quote(value))).collect()
    }

    /// The options for the first connection.
    pub fn connect_options(&self) -> ConnectOptions {
        ConnectOptions {
            host: self.host.clone(),
            port: self.port,
            user: self.username.clone(),
            database: self.databases.first().cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_leads_to_the_same_server() {
        let hint = "pgthaw doctor says what is missing, pgthaw snapshot list what there is";
        assert_eq!(ConnectionArguments::default().complete_commands(hint), hint);
        let typed = ConnectionArguments {
            host: Some("/tmp/a b".into()),
            port: Some(5433),
            username: None,
            databases: vec!["shop".into(), "$(reboot)".into()],
            data_dir: Some("/srv/pg".into()),
        };
        assert_eq!(
            typed.complete_commands(hint),
            "pgthaw doctor -h '/tmp/a b' -p 5433 -D /srv/pg -d shop -d '$(reboot)' says what is missing, \
             pgthaw snapshot list what there is"
        );
    }
}
