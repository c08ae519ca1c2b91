//! How to reach a server: psql's options, connection strings and URIs, the PG* variables, the service and the password
//! file, libpq's defaults, and who one is there.

mod attempt;
mod conninfo;
mod default_host;
mod password_file;
mod peer;
mod resolved;
mod system_user;

#[cfg(fuzzing)]
pub use password_file::split_line as split_password_line;

pub use attempt::{PlainServer, Reached};
pub use conninfo::{Parameters, hide_password, parse as parse_connection_string};
pub(super) use default_host::SOCKET_DIRECTORIES;
pub use resolved::ConnectOptions;
pub use system_user::{NoSuchUser, SystemUser};
