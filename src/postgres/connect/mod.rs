//! How to reach a server: psql's options, connection strings and URIs, the PG* variables, the service and the password
//! file, libpq's defaults, and who one is there.

mod attempt;
mod conninfo;
mod parameters;
mod password_file;
mod peer;
mod resolved;
mod service_file;
mod system_user;

use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(fuzzing)]
pub use password_file::split_line as split_password_line;

pub use conninfo::{hide_password, parse as parse_connection_string};
pub use parameters::Parameters;
pub use system_user::SystemUser;

pub use attempt::Reached;

use super::{Error, quote_argument};
use resolved::ResolvedOptions;

/// How to reach a server, as psql's options say it. What is `None` comes from the service file, the PG* variables, the
/// password file and libpq's defaults, in libpq's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    pub database: Option<String>,
    /// What a connection string or URI says, and a password that was asked for. It wins over the fields above, as
    /// libpq lets a connection string in `-d` win over `-h`.
    pub parameters: Parameters,
    /// Connect as this user of the operating system (only root can): peer authentication believes it.
    pub system_user: Option<String>,
}

impl ConnectOptions {
    /// The file of the socket that these options lead to; `None` when they lead over the network, or nowhere.
    pub fn socket_file(&self) -> Option<PathBuf> {
        self.resolve().ok()?.candidates.first()?.socket_file()
    }

    /// Fills in what was not given. Reads the environment, the service file and the password file.
    fn resolve(&self) -> Result<ResolvedOptions, Error> {
        ResolvedOptions::new(self)
    }

    /// The options of whoever connects without pgthaw's tries and remarks, as a results store does: the first host,
    /// the first user. And what to show of them: `postgres://USER@HOST:PORT/DATABASE`.
    pub fn plain_options(&self) -> Result<(sqlx::postgres::PgConnectOptions, String), Error> {
        let resolved = self.resolve()?;
        let candidate = &resolved.candidates[0];
        let identities = resolved.identities(candidate)?;
        let oneself = identities.iter().find(|identity| identity.system_user.is_none()).unwrap_or(&identities[0]);
        let role = &oneself.role;
        let database = resolved.database.as_ref().unwrap_or(role);
        let shown = format!("postgres://{role}@{}/{database}", candidate.address());
        Ok((candidate.options(&resolved, role, database)?, shown))
    }

    /// What the options and the environment say, in psql's words, for commands that are shown to be pasted: without
    /// what psql and pgthaw find by themselves, and without a password.
    pub fn describe(&self) -> Result<Address, Error> {
        let resolved = self.resolve()?;
        Ok(resolved.candidates[0].describe(resolved.user.clone()))
    }
}

/// Where a server is, as psql's options would say it. `None` is what psql would find by itself without any variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address {
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
}

impl fmt::Display for Address {
    /// Writes the address as options behind a command: ` -h /tmp -p 5433`; nothing where psql finds everything by itself.
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

/// Where libpq looks for the socket: Debian's directory first, then PostgreSQL's own.
pub(super) const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

const DEFAULT_PORT: u16 = 5432;

/// The directory that has the port's socket; without any, the one that psql would name in its complaint. In /tmp anybody may
/// put a socket and wait for passwords: one that nobody named is taken there only when it is postgres's, root's or one's own.
fn default_host(port: u16) -> String {
    let has_socket = |directory: &&&str| {
        let socket = Path::new(directory).join(format!(".s.PGSQL.{port}"));
        socket.exists() && (**directory == SOCKET_DIRECTORIES[0] || SystemUser::is_trusted_owner(&socket))
    };
    SOCKET_DIRECTORIES.iter().find(has_socket).unwrap_or(&SOCKET_DIRECTORIES[0]).to_string()
}
