//! Who is at the other end of a process's sockets, where that is another process of this host.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use procfs::process::{FDTarget, Process};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, getpeername, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::Error;
use super::process::read_parent;

/// More generations than anybody starts one from another.
const GENERATIONS_MAX: usize = 256;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    /// The process that connected.
    Process(u32),
    /// Its address, and the one that it connected to.
    Address { own: SocketAddr, to: SocketAddr },
}

/// Is `pid` a process that `ancestor` has started, or one of these has, or `ancestor` itself? `None` of one that has ended.
pub fn descends_from(pid: u32, ancestor: u32) -> Option<bool> {
    let mut at = pid;
    for _ in 0..GENERATIONS_MAX {
        if at == ancestor {
            return Some(true);
        }
        match read_parent(at) {
            Ok(parent) => at = parent,
            // The first process has no parent.
            Err(_) if at == 1 || Process::new(at as i32).is_ok() => return Some(false),
            Err(_) => return None,
        }
    }
    Some(false)
}

/// Does a server's process serve `family`, a process and all that it has started? `None` where that cannot be known any more.
///
/// # Errors
/// Without the right to trace the process (its owner, or root), or when it has ended.
pub fn serves(server_pid: u32, family: u32) -> Result<Option<bool>, Error> {
    let mut known = Some(false);
    for client in read_clients(server_pid)? {
        let is_one = match client {
            Client::Process(pid) => descends_from(pid, family),
            Client::Address { own, to } => Some(has_connection(family, own, to)),
        };
        match is_one {
            Some(true) => return Ok(Some(true)),
            Some(false) => {}
            None => known = None,
        }
    }
    Ok(known)
}

/// Whom a process talks to through sockets of its own.
fn read_clients(pid: u32) -> Result<Vec<Client>, Error> {
    let failed = |source: std::io::Error| Error::Call { action: "look at the sockets of a process", source };
    let raw = Pid::from_raw(pid as i32).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let mut clients = Vec::new();
    for (number, _) in read_sockets(pid)? {
        let socket = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // Closed meanwhile.
            Err(rustix::io::Errno::BADF) => continue,
            Err(error) => return Err(failed(error.into())),
        };
        clients.extend(client_of(&socket));
    }
    Ok(clients)
}

fn client_of(socket: &OwnedFd) -> Option<Client> {
    let peer = getpeername(socket.as_fd()).ok()?;
    match peer.as_ref().map(|peer| peer.address_family()) {
        // A name that is empty may be told as none.
        None | Some(AddressFamily::UNIX) => {
            let pid = socket_peercred(socket.as_fd()).ok()?.pid;
            Some(Client::Process(pid.as_raw_nonzero().get() as u32))
        }
        Some(_) => {
            let own = canonical(SocketAddr::try_from(peer?).ok()?);
            let to = canonical(SocketAddr::try_from(getsockname(socket.as_fd()).ok()?).ok()?);
            (own != to).then_some(Client::Address { own, to })
        }
    }
}

/// The descriptors of a process that are sockets, with their inodes.
fn read_sockets(pid: u32) -> Result<Vec<(i32, u64)>, Error> {
    let all = Process::new(pid as i32).and_then(|process| process.fd());
    let all = all.map_err(|error| Error::proc("read /proc/PID/fd", error))?;
    let socket = |fd: procfs::process::FDInfo| match fd.target {
        FDTarget::Socket(inode) => Some((fd.fd, inode)),
        _ => None,
    };
    Ok(all.filter_map(|fd| socket(fd.ok()?)).collect())
}

/// Has one of the family a TCP connection between these two?
fn has_connection(family: u32, own: SocketAddr, to: SocketAddr) -> bool {
    let Ok(all) = procfs::process::all_processes() else { return false };
    let members = all.filter_map(Result::ok).filter(|one| descends_from(one.pid as u32, family) == Some(true));
    members.into_iter().any(|member| {
        let sockets: HashSet<u64> =
            read_sockets(member.pid as u32).into_iter().flatten().map(|(_, inode)| inode).collect();
        let connections = member.tcp().into_iter().chain(member.tcp6()).flatten();
        connections.into_iter().any(|one| {
            (canonical(one.local_address), canonical(one.remote_address)) == (own, to) && sockets.contains(&one.inode)
        })
    })
}

/// An IPv4 address as that, where it is told as one of IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_process_serves_those_who_connected_to_it() {
        let me = std::process::id();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let (unix, tcp) = (UnixListener::bind(&path).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (mine, _peer) = (UnixStream::connect(&path).unwrap(), unix.accept().unwrap());
        assert_eq!(client_of(&OwnedFd::from(mine)), Some(Client::Process(me)));
        let mine = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let (theirs, _) = tcp.accept().unwrap();
        let Some(Client::Address { own, to }) = client_of(&OwnedFd::from(theirs)) else { panic!("no address") };
        assert_eq!((own, to), (mine.local_addr().unwrap(), tcp.local_addr().unwrap()));
        assert!(has_connection(me, own, to) && !has_connection(me, to, to));
        assert_eq!(serves(me, me).unwrap(), Some(true));
    }

    #[test]
    fn descent_is_known_while_a_process_lives() {
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(descends_from(child.id(), me), Some(true));
        assert_eq!(descends_from(me, child.id()), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(descends_from(child.id(), me), None);
    }
}
