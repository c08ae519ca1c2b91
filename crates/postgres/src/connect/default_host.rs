//! Where libpq looks for a server when nobody says where it is.

use std::path::Path;

use super::system_user::SystemUser;

/// Where libpq looks for the socket: Debian's directory first, then PostgreSQL's own.
pub const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub const DEFAULT_PORT: u16 = 5432;

/// The directory that has the port's socket; without any, the one that psql would name in its complaint. In /tmp anybody may
/// put a socket and wait for passwords: one that nobody named is taken there only when it is postgres's, root's or one's own.
pub fn default_host(port: u16) -> String {
    let has_socket = |directory: &&&str| {
        let socket = Path::new(directory).join(format!(".s.PGSQL.{port}"));
        socket.exists() && (**directory == SOCKET_DIRECTORIES[0] || SystemUser::is_trusted_owner(&socket))
    };
    SOCKET_DIRECTORIES.iter().find(has_socket).unwrap_or(&SOCKET_DIRECTORIES[0]).to_string()
}
