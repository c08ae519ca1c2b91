//! Who is connected to whom on this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use nix::sys::socket::{getsockopt, sockopt};
use procfs::net::TcpNetEntry;
use procfs::process::{FDTarget, Process};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::Error;

/// Does a process hold a socket whose other end one of `clients` has opened? Of a Unix socket that is who connected, as the kernel
/// noted it then; of TCP who holds the other end now. A pooler in between is who connected.
///
/// # Errors
/// When the process's files may not be looked at: its owner or root may.
pub fn is_connected(pid: u32, clients: &BTreeSet<u32>) -> Result<bool, Error> {
    let process = open(pid)?;
    let sockets = sockets_of(&process)?;
    if sockets.is_empty() {
        return Ok(false);
    }
    for (number, _) in &sockets {
        // What is no Unix socket tells nobody. A process may close any of them meanwhile.
        if read_peer(pid, *number)?.is_some_and(|peer| clients.contains(&peer)) {
            return Ok(true);
        }
    }
    let inodes: BTreeSet<u64> = sockets.into_iter().map(|(_, inode)| inode).collect();
    let own: Vec<_> = tcp_of(&process, &inodes).map(|(local, remote)| (remote, local)).collect();
    if own.is_empty() {
        return Ok(false);
    }
    let is_other_end = |client: &u32| {
        let Ok(client) = open(*client) else { return false };
        let inodes: BTreeSet<u64> = sockets_of(&client).into_iter().flatten().map(|(_, inode)| inode).collect();
        !inodes.is_empty() && tcp_of(&client, &inodes).any(|end| own.contains(&end))
    };
    Ok(clients.iter().any(is_other_end))
}

fn open(pid: u32) -> Result<Process, Error> {
    Process::new(pid as i32).map_err(|error| Error::proc("look at a process", error))
}

/// A process's sockets: the numbers of their files, and their inodes.
fn sockets_of(process: &Process) -> Result<Vec<(RawFd, u64)>, Error> {
    let files = process.fd().map_err(|error| Error::proc("list the files of a process", error))?;
    let socket = |file: procfs::process::FDInfo| match file.target {
        FDTarget::Socket(inode) => Some((file.fd, inode)),
        _ => None,
    };
    Ok(files.flatten().filter_map(socket).collect())
}

/// Who connected to a process's Unix socket; `None` of another kind of socket, or when it is gone.
fn read_peer(pid: u32, number: RawFd) -> Result<Option<u32>, Error> {
    let failed =
        |error: rustix::io::Errno| Error::Call { action: "look at a socket of a process", source: error.into() };
    let Some(pid) = Pid::from_raw(pid as i32) else { return Ok(None) };
    let socket = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => pidfd_getfd(process, number, PidfdGetfdFlags::empty()),
        Err(error) => Err(error),
    };
    match socket {
        Ok(socket) => {
            let peer = getsockopt(&socket, sockopt::PeerCredentials).map_or(0, |peer| peer.pid());
            Ok(u32::try_from(peer).ok().filter(|peer| *peer > 0))
        }
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::BADF) => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Where the TCP connections among these sockets begin and end, in the network of the process.
fn tcp_of(process: &Process, inodes: &BTreeSet<u64>) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
    let entries = [process.tcp(), process.tcp6()].into_iter().flat_map(Result::unwrap_or_default);
    let ends = |entry: TcpNetEntry| (canonical(entry.local_address), canonical(entry.remote_address));
    entries.filter(|entry| inodes.contains(&entry.inode) && entry.remote_address.port() != 0).map(ends)
}

/// An address of version 4 may be written as one of version 6.
fn canonical(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = address.ip().to_canonical();
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_connection_is_found_by_either_kind_of_socket() {
        let own = std::process::id();
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let strangers = BTreeSet::from([other.id()]);
        assert!(!is_connected(own, &strangers).unwrap());

        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("socket")).unwrap();
        let _client = UnixStream::connect(place.path().join("socket")).unwrap();
        let _server = listener.accept().unwrap();
        assert!(is_connected(own, &BTreeSet::from([own])).unwrap());
        assert!(!is_connected(own, &strangers).unwrap());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(is_connected(other.id(), &BTreeSet::from([own])).is_err());
    }

    #[test]
    fn who_connects_by_tcp_is_found_by_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read line <&3");
        let mut client = Command::new("bash").args(["-c", &script]).spawn().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let found = is_connected(std::process::id(), &BTreeSet::from([client.id()]));
        client.kill().unwrap();
        client.wait().unwrap();
        assert!(found.unwrap());
        assert_eq!(server.read(&mut [0]).unwrap_or(0), 0);
    }
}
