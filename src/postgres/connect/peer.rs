//! Whose server listens at a socket: where anybody may put one, it is asked before it hears a password.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tokio::net::UnixStream;

use super::super::Error;
use super::system_user::SystemUser;

/// Bits of a mode: others may write.
const WORLD_WRITABLE: u32 = 0o002;

/// Makes sure that the user of the operating system who listens at a socket is `wanted` (libpq's requirepeer); and, where anybody
/// may put a socket or nobody named it (`was_read`), and a password would go through it, that he is root, postgres or this
/// process's own.
///
/// The kernel says of a connection who called listen(2). This one is closed again: whoever takes the socket's place before the real
/// connection is made is not seen. In a directory with the sticky bit he needs the right server to go away at that moment; the
/// distribution's directory, which others cannot write to, has no such moment.
///
/// # Errors
/// `Error::Peer`; `Error::Connect` when nobody listens.
pub async fn check_peer(socket: &Path, wanted: Option<&str>, has_password: bool, was_read: bool) -> Result<(), Error> {
    let is_doubtful = was_read || socket.parent().is_some_and(is_world_writable);
    if wanted.is_none() && !(has_password && is_doubtful) {
        return Ok(());
    }
    let peer = read_peer(socket)
        .await
        .map_err(|source| Error::Connect { address: socket.display().to_string(), source: sqlx::Error::Io(source) })?;
    let is_trusted = match wanted {
        Some(name) => SystemUser::named(name)?.uid == peer,
        None => SystemUser::is_trusted(peer),
    };
    match is_trusted {
        true => Ok(()),
        false => {
            let user = SystemUser::of_uid(peer).map_or_else(|| peer.to_string(), |user| user.name);
            Err(Error::Peer { socket: socket.to_owned(), user, wanted: wanted.map(str::to_owned) })
        }
    }
}

async fn read_peer(socket: &Path) -> io::Result<u32> {
    Ok(UnixStream::connect(socket).await?.peer_cred()?.uid())
}

fn is_world_writable(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|found| found.mode() & WORLD_WRITABLE != 0)
}
