//! The processes of this host at the other ends of a process's sockets.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use procfs::process::{FDTarget, Process};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, getpeername, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::Error;
use super::process::read_start_ticks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Process(u32),
    /// Its address, and the one that it connected to.
    Address {
        own: SocketAddr,
        to: SocketAddr,
    },
}

/// Does a process hold a socket that one of `family` opened? For a Unix socket the kernel noted who connected; for TCP
/// the holder of the other end counts. Behind a pooler it is the pooler. `None` where who connected has ended.
///
/// # Errors
/// Without the right to trace the process (its owner, or root), or when it has ended.
pub fn serves(pid: u32, family: &[u32]) -> Result<Option<bool>, Error> {
    let mut known = Some(false);
    for client in read_clients(pid)? {
        match client {
            Client::Process(client) if family.contains(&client) => return Ok(Some(true)),
            Client::Process(client) if read_start_ticks(client).is_err() => known = None,
            Client::Process(_) => {}
            Client::Address { own, to } => {
                if family.iter().any(|member| holds_connection(*member, own, to)) {
                    return Ok(Some(true));
                }
            }
        }
    }
    Ok(known)
}

fn read_clients(pid: u32) -> Result<Vec<Client>, Error> {
    let failed = |source: std::io::Error| Error::Call { action: "look at the sockets of a process", source };
    let raw = Pid::from_raw(pid as i32).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let mut clients = Vec::new();
    for (number, _) in read_sockets(pid)? {
        let socket = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // Closed meanwhile, or ended with the process.
            Err(rustix::io::Errno::BADF | rustix::io::Errno::SRCH) => continue,
            Err(error) => return Err(failed(error.into())),
        };
        clients.extend(client_of(&socket));
    }
    Ok(clients)
}

fn client_of(socket: &OwnedFd) -> Option<Client> {
    let peer = getpeername(socket.as_fd()).ok()?;
    match peer.as_ref().map(|peer| peer.address_family()) {
        // The kernel may report an empty name as none.
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

fn read_sockets(pid: u32) -> Result<Vec<(i32, u64)>, Error> {
    let all = Process::new(pid as i32).and_then(|process| process.fd());
    let all = all.map_err(|error| Error::proc("read /proc/PID/fd", error))?;
    let socket = |fd: procfs::process::FDInfo| match fd.target {
        FDTarget::Socket(inode) => Some((fd.fd, inode)),
        _ => None,
    };
    Ok(all.flatten().filter_map(socket).collect())
}

/// Has the process a TCP connection between these two, in its own network?
fn holds_connection(pid: u32, own: SocketAddr, to: SocketAddr) -> bool {
    let sockets: HashSet<u64> = read_sockets(pid).into_iter().flatten().map(|(_, inode)| inode).collect();
    let Ok(process) = Process::new(pid as i32) else { return false };
    let mut connections = process.tcp().into_iter().chain(process.tcp6()).flatten();
    connections.any(|one| {
        (canonical(one.local_address), canonical(one.remote_address)) == (own, to) && sockets.contains(&one.inode)
    })
}

/// Maps IPv4-mapped addresses to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod sockets_tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_connection_is_found_by_either_kind_of_socket() {
        let own = std::process::id();
        let mut other = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let strangers = [other.id()];
        assert_eq!(serves(own, &strangers).unwrap(), Some(false));

        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("socket")).unwrap();
        let _client = UnixStream::connect(place.path().join("socket")).unwrap();
        let _server = listener.accept().unwrap();
        assert_eq!(serves(own, &[own]).unwrap(), Some(true));
        assert_eq!(serves(own, &strangers).unwrap(), Some(false));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(serves(other.id(), &[own]).is_err());
    }

    #[test]
    fn who_connects_by_tcp_is_found_by_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read line <&3");
        let mut client = Command::new("bash").args(["-c", &script]).spawn().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let found = serves(std::process::id(), &[client.id()]);
        client.kill().unwrap();
        client.wait().unwrap();
        assert_eq!(found.unwrap(), Some(true));
        assert_eq!(server.read(&mut [0]).unwrap_or(0), 0);
    }
}

#[cfg(test)]
mod clients_tests {
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
        assert!(holds_connection(me, own, to) && !holds_connection(me, to, to));
        assert_eq!(serves(me, &[me]).unwrap(), Some(true));
    }
}
