//! The options that say which server and which databases are meant.

use std::path::PathBuf;

use clap::Args;

use crate::postgres::ConnectOptions;

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
