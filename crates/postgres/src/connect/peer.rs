//! Whose server listens at a socket: where anybody may put one, it is asked before it hears a password.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tokio::net::UnixStream;

use super::super::Error;
use super::system_user::SystemUser;

/// Bits of a mode: others may write.
const WORLD_WRITABLE: u32 = 0o002;

/// Only its owner may remove or rename a file of this directory.
const STICKY: u32 = 0o1000;

/// Makes sure that the user of the operating system who listens at a socket is `wanted` (libpq's requirepeer); and, where anybody
/// may put a socket and a password would go through it, that he is root, postgres or this process's own.
///
/// The kernel says of a connection who called listen(2). This one is closed again: whoever takes the socket's place before the real
/// connection is made is not seen. In a directory with the sticky bit he needs the right server to go away at that moment; the
/// distribution's directory, which others cannot write to, has no such moment.
///
/// # Errors
/// `Error::Peer`; `Error::Connect` when nobody listens.
pub async fn check_peer(socket: &Path, wanted: Option<&str>, has_password: bool) -> Result<(), Error> {
    let is_open_place = socket.parent().is_some_and(is_world_writable);
    if wanted.is_none() && !(has_password && is_open_place) {
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

/// Has nobody but root, postgres and this process's user a say in where this file is: neither as it is called nor where its links lead?
/// Where others may put files too, they may not take this one's place (the sticky bit).
pub fn is_in_trusted_place(file: &Path) -> bool {
    let is_trusted = |path: &Path| {
        std::fs::symlink_metadata(path).is_ok_and(|found| {
            let may_be_replaced = found.is_dir() && found.mode() & (WORLD_WRITABLE | STICKY) == WORLD_WRITABLE;
            SystemUser::is_trusted(found.uid()) && !may_be_replaced
        })
    };
    let all_trusted = |path: &Path| path.ancestors().all(is_trusted);
    file.canonicalize().is_ok_and(|real| all_trusted(file) && all_trusted(&real))
}

async fn read_peer(socket: &Path) -> io::Result<u32> {
    Ok(UnixStream::connect(socket).await?.peer_cred()?.uid())
}

fn is_world_writable(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|found| found.mode() & WORLD_WRITABLE != 0)
}
