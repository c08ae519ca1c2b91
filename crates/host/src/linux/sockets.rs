use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use procfs::net::TcpNetEntry;
use procfs::process::{FDTarget, Process};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, getpeername, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::Error;
use super::process::read_start_ticks;

/// Addresses of a TCP connection; the client's is first.
type Connection = (SocketAddr, SocketAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Process that connected to a Unix socket, as recorded by the kernel.
    Process(u32),
    Connection(Connection),
}

/// Process at the client end of a backend's socket, perhaps a pooler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Member(u32),
    Other,
    Ended,
}

/// Processes that may be clients. Connection lists may be long, so they are read once, if needed.
#[derive(Debug, Default)]
pub struct Clients {
    members: BTreeSet<u32>,
    connections: OnceCell<HashMap<Connection, u32>>,
}

impl Clients {
    pub fn among(members: impl IntoIterator<Item = u32>) -> Clients {
        Clients { members: members.into_iter().collect(), ..Clients::default() }
    }

    /// # Errors
    /// If this user may not trace the process, or if it has ended.
    pub fn of(&self, pid: u32) -> Result<Client, Error> {
        let mut client = Client::Other;
        for end in read_ends(pid)? {
            match end {
                End::Process(peer) if self.members.contains(&peer) => return Ok(Client::Member(peer)),
                End::Process(peer) if read_start_ticks(peer).is_err() => client = Client::Ended,
                End::Process(_) => {}
                End::Connection(connection) => {
                    let connections = self.connections.get_or_init(|| read_connections(&self.members));
                    if let Some(member) = connections.get(&connection) {
                        return Ok(Client::Member(*member));
                    }
                }
            }
        }
        Ok(client)
    }
}

fn read_ends(pid: u32) -> Result<Vec<End>, Error> {
    let failed = |source: std::io::Error| Error::Call { action: "look at the sockets of a process", source };
    let raw = Pid::from_raw(pid as i32).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let process = pidfd_open(raw, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let mut ends = Vec::new();
    for (number, _) in read_sockets(pid)? {
        let socket = match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            Ok(socket) => socket,
            // The socket was closed, or its process ended.
            Err(rustix::io::Errno::BADF | rustix::io::Errno::SRCH) => continue,
            Err(error) => return Err(failed(error.into())),
        };
        ends.extend(end_of(&socket));
    }
    Ok(ends)
}

fn end_of(socket: &OwnedFd) -> Option<End> {
    let peer = getpeername(socket.as_fd()).ok()?;
    match peer.as_ref().map(|peer| peer.address_family()) {
        // The kernel may report an unnamed Unix peer without an address.
        None | Some(AddressFamily::UNIX) => {
            let pid = socket_peercred(socket.as_fd()).ok()?.pid;
            Some(End::Process(pid.as_raw_nonzero().get() as u32))
        }
        Some(_) => {
            let own = canonical(SocketAddr::try_from(peer?).ok()?);
            let to = canonical(SocketAddr::try_from(getsockname(socket.as_fd()).ok()?).ok()?);
            (own != to).then_some(End::Connection((own, to)))
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

/// Reads one list per network namespace.
fn read_connections(members: &BTreeSet<u32>) -> HashMap<Connection, u32> {
    let (mut networks, mut sockets) = (BTreeMap::new(), HashMap::new());
    for member in members {
        networks.insert(std::fs::read_link(format!("/proc/{member}/ns/net")).ok(), *member);
        sockets.extend(read_sockets(*member).into_iter().flatten().map(|(_, inode)| (inode, *member)));
    }
    let of_network = |member: u32| Process::new(member as i32).ok().map(|one| one.tcp().into_iter().chain(one.tcp6()));
    let all = networks.into_values().filter_map(of_network).flatten().flatten();
    let ends = |one: &TcpNetEntry| (canonical(one.local_address), canonical(one.remote_address));
    all.filter_map(|one| Some((ends(&one), *sockets.get(&one.inode)?))).collect()
}

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
        let strangers = Clients::among([other.id()]);
        let mine = || Clients::among([own]);
        assert_eq!(strangers.of(own).unwrap(), Client::Other);

        let place = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(place.path().join("socket")).unwrap();
        let _client = UnixStream::connect(place.path().join("socket")).unwrap();
        let _server = listener.accept().unwrap();
        assert_eq!(mine().of(own).unwrap(), Client::Member(own));
        assert_eq!(strangers.of(own).unwrap(), Client::Other);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(mine().of(other.id()).is_err());
    }

    #[test]
    fn who_connects_by_tcp_is_found_by_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read line <&3");
        let mut client = Command::new("bash").args(["-c", &script]).spawn().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let found = Clients::among([client.id()]).of(std::process::id());
        client.kill().unwrap();
        client.wait().unwrap();
        assert_eq!(found.unwrap(), Client::Member(client.id()));
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
        assert_eq!(end_of(&OwnedFd::from(mine)), Some(End::Process(me)));
        let mine = TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let (theirs, _) = tcp.accept().unwrap();
        let Some(End::Connection((own, to))) = end_of(&OwnedFd::from(theirs)) else { panic!("no address") };
        assert_eq!((own, to), (mine.local_addr().unwrap(), tcp.local_addr().unwrap()));
        let found = read_connections(&BTreeSet::from([me]));
        assert!(found.contains_key(&(own, to)) && !found.contains_key(&(to, to)));
        assert_eq!(Clients::among([me]).of(me).unwrap(), Client::Member(me));
    }
}
