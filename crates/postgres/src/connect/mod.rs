mod attempt;
mod conninfo;
mod resolved;
mod system_user;

#[cfg(fuzzing)]
pub use conninfo::split_line as split_password_line;

pub use attempt::{PlainServer, Reached};
pub use conninfo::{Parameters, hide_password, parse as parse_connection_string};
pub use resolved::ConnectOptions;
pub(super) use system_user::SOCKET_DIRECTORIES;
pub use system_user::{NoSuchUser, SystemUser};
