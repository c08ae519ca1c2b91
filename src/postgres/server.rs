//! A running server: how to reach it, and what it says of itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};

use super::Error;
use crate::units::Bytes;

/// How to reach a server, as psql's options say it. What is `None` comes from the PG* variables, the password file and
/// libpq's defaults.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    pub database: Option<String>,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// `server_version_num`, such as 150018.
    pub version_num: u32,
    /// `server_version`, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub version: String,
    /// `pg_control_system().system_identifier`: which cluster this is.
    pub system_identifier: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks of a segment file.
    pub segment_blocks: u32,
    pub shared_buffers_bytes: Bytes,
    /// `None` when the role may not know it.
    pub data_directory: Option<PathBuf>,
    pub in_recovery: bool,
    /// The newest LSN, written or replayed.
    pub lsn: String,
    pub timeline: u32,
    pub is_superuser: bool,
    /// The server's process, from `postmaster.pid`, when it runs on this host and the directory can be read.
    pub postmaster_pid: Option<u32>,
}

/// A server that answered. Connections are opened per database when needed.
#[derive(Debug)]
pub struct Server {
    options: PgConnectOptions,
    pub facts: ServerFacts,
    /// For messages: `/var/run/postgresql:5432` or `host:5432`.
    pub address: String,
    /// The database of the first connection.
    pub database: String,
}

impl Server {
    /// Opens a connection to another database of this server, as the same user.
    pub async fn connect_to(&self, database: &str) -> Result<PgConnection, Error> {
        PgConnection::connect_with(&self.options.clone().database(database))
            .await
            .map_err(|source| Error::Connect { address: self.address.clone(), source })
    }
}
