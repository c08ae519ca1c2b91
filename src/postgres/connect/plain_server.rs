//! A server that is connected to without pgthaw's tries and remarks, as a results store does: the first host, the first user.

use std::path::PathBuf;

use sqlx::postgres::PgConnectOptions;

use super::super::Error;
use super::peer::check_peer;
use super::resolved::ConnectOptions;

/// One server, one role, one database.
#[derive(Clone, Debug)]
pub struct PlainServer {
    pub options: PgConnectOptions,
    /// `postgres://USER@HOST:PORT/DATABASE`: without what is secret.
    pub shown: String,
    /// Its socket, where it has one.
    socket: Option<PathBuf>,
    /// libpq's requirepeer.
    required_peer: Option<String>,
    has_password: bool,
}

impl PlainServer {
    /// What the options and the environment come to.
    pub fn new(options: &ConnectOptions) -> Result<PlainServer, Error> {
        let resolved = options.resolve()?;
        let candidate = &resolved.candidates[0];
        let identities = resolved.identities(candidate)?;
        let oneself = identities.iter().find(|identity| identity.system_user.is_none()).unwrap_or(&identities[0]);
        let role = &oneself.role;
        let database = resolved.database.as_ref().unwrap_or(role);
        Ok(PlainServer {
            options: candidate.options(&resolved, role, database)?,
            shown: format!("postgres://{role}@{}/{database}", candidate.address()),
            socket: candidate.socket_file(),
            required_peer: resolved.required_peer().map(str::to_owned),
            has_password: resolved.has_password(candidate, role, database),
        })
    }

    /// Looks at who listens at its socket, where that matters: before anything is told to him.
    pub async fn check_peer(&self) -> Result<(), Error> {
        match &self.socket {
            Some(socket) => check_peer(socket, self.required_peer.as_deref(), self.has_password).await,
            None => Ok(()),
        }
    }
}
