//! A socket that somebody put where anybody may.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Receiver};

use postgres::StopMode;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::{NOBODY, attackers, ends_by_itself};
use crate::servers::{self, Home, Output};

/// Listens as somebody else, asks whoever comes for his password, and tells all that he says.
fn listen_as(uid: u32, directory: &Path) -> Receiver<Vec<u8>> {
    let (sender, heard) = mpsc::channel();
    let socket = directory.join(".s.PGSQL.5999");
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        // The kernel tells whoever connects who called listen(2).
        set_thread_res_uid(None::<Uid>, Uid::from_raw(uid), None::<Uid>).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
        ready.send(()).unwrap();
        listener.incoming().flatten().for_each(|stream| drop(sender.send(ask_for_password(stream))));
    });
    is_ready.recv().unwrap();
    heard
}

/// Listens at a port of this host, and does the same.
fn listen_on_network() -> (u16, Receiver<Vec<u8>>) {
    let (sender, heard) = mpsc::channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        listener.incoming().flatten().for_each(|mut stream| {
            // SSLRequest first: there is none.
            let _ = stream.read_exact(&mut [0; 8]);
            let _ = stream.write_all(b"N");
            drop(sender.send(ask_for_password(stream)));
        });
    });
    (port, heard)
}

/// What somebody says who is asked for his password in the clear.
fn ask_for_password(mut stream: impl Read + Write) -> Vec<u8> {
    let mut said = vec![0; 4096];
    let asked = stream.read(&mut said).unwrap_or(0);
    // AuthenticationCleartextPassword.
    let _ = stream.write_all(b"R\0\0\0\x08\0\0\0\x03");
    let answered = stream.read(&mut said[asked..]).unwrap_or(0);
    said.truncate(asked + answered);
    // Whatever it was, it is wrong.
    let refusal = b"SFATAL\0VFATAL\0C28P01\0Mno\0\0";
    let length = u32::try_from(refusal.len() + 4).unwrap().to_be_bytes();
    let _ = stream.write_all(&[b"E", &length[..], refusal].concat());
    said
}

fn open_place() -> tempfile::TempDir {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
    place
}

fn map(place: &Path, more: &[(&str, &str)]) -> Output {
    let home = Home::new();
    let mut command = home.command(&["map", "-p", "5999", "-U", "someone", "-d", "postgres", "-h"]);
    command.arg(place).env("PGPASSWORD", "geheim").envs(more.iter().copied());
    ends_by_itself(&mut command)
}

/// `map` of another user's, who has a password.
fn map_as(uid: u32, place: &Path) -> Output {
    let home = Home::new();
    let mut command = home.command_for_others(&["map", "-p", "5999", "-U", "someone", "-d", "postgres", "-h"]);
    ends_by_itself(command.arg(place).env("PGPASSWORD", "geheim").uid(uid).gid(uid))
}

fn has_password(heard: &Receiver<Vec<u8>>) -> bool {
    heard.try_iter().any(|said| String::from_utf8_lossy(&said).contains("geheim"))
}

#[test]
fn a_stranger_who_listens_where_anybody_may_hears_no_password() {
    needs_root!();
    let place = open_place();
    let heard = listen_as(NOBODY, place.path());
    let said = map(place.path(), &[]).ends_with(3).stderr;
    assert!(said.contains("runs as operating-system user \"nobody\"") && said.contains("requirepeer"), "{said}");
    assert!(!has_password(&heard));
}

#[test]
fn neither_does_one_who_listens_in_place_of_a_results_server() {
    needs_root!();
    let place = open_place();
    let heard = listen_as(NOBODY, place.path());
    let address = format!("host={} port=5999 user=someone dbname=postgres", place.path().display());
    let home = Home::new();
    let mut command = home.command(&["results", "--results", &address]);
    let said = ends_by_itself(command.env("PGPASSWORD", "geheim")).ends_with(3).stderr;
    assert!(said.contains("runs as operating-system user \"nobody\"") && said.contains("requirepeer"), "{said}");
    assert!(!has_password(&heard));
}

/// Whoever asks: root, the server's user and nobody.
#[test]
fn who_listens_where_anybody_may_is_root_the_servers_user_or_oneself() {
    needs_root!();
    let [root, postgres, nobody] = attackers().try_into().unwrap();
    const STRANGER: u32 = 54_321;
    for asking in [root, postgres, nobody] {
        for listening in [root, postgres, nobody, STRANGER] {
            let place = open_place();
            let heard = listen_as(listening, place.path());
            let output = map_as(asking, place.path());
            let is_trusted = [root, postgres, asking].contains(&listening);
            assert_eq!(has_password(&heard), is_trusted, "{asking} asks {listening}: {}", output.stderr);
        }
    }
}

#[test]
fn a_server_is_whose_requirepeer_says() {
    needs_root!();
    let place = open_place();
    let heard = listen_as(NOBODY, place.path());
    let said = map(place.path(), &[("PGREQUIREPEER", "postgres")]).ends_with(3).stderr;
    assert!(said.contains("\"nobody\", not as postgres"), "{said}");
    assert!(!has_password(&heard));
    map(place.path(), &[("PGREQUIREPEER", "nobody")]);
    assert!(has_password(&heard), "he was named");
}

#[test]
fn a_directory_that_others_cannot_write_to_is_trusted_as_before() {
    needs_root!();
    let place = open_place();
    let heard = listen_as(NOBODY, place.path());
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    map(place.path(), &[]);
    assert!(has_password(&heard));
}

/// A directory may be anybody's, and so may be the process that works in it and the address that it tells.
#[test]
fn an_address_that_stands_in_a_directory_hears_a_password_through_a_trusted_ones_socket_alone() {
    needs_root!();
    let mut server = servers::start_any(&[]);
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let process = Process(Command::new("sleep").arg("600").current_dir(&directory).spawn().unwrap());
    let said = |port: u16, socket: &str, address: &str, more: &[&str]| {
        let pid = process.0.id();
        let told = format!("{pid}\n{}\n1700000000\n{port}\n{socket}\n{address}\n", directory.display());
        let file = directory.join("postmaster.pid");
        fs::write(&file, told).unwrap();
        chown(&file, Some(directory.metadata().unwrap().uid()), None).unwrap();
        let home = Home::new();
        let mut command = home.command(&["map", "-U", "someone", "-d", "postgres", "-D"]);
        ends_by_itself(command.arg(&directory).args(more).env("PGPASSWORD", "geheim")).ends_with(3).stderr
    };
    let (port, heard) = listen_on_network();
    let text = said(port, "", "127.0.0.1", &[]);
    assert!(text.contains("sends none") && text.contains("-h and -p"), "{text}");
    assert!(!has_password(&heard) && !text.contains("-W"), "{text}");
    let (port, heard) = listen_on_network();
    let text = said(port, "", "127.0.0.1", &["-W"]);
    let told = text.find("-W has no effect").unwrap_or_else(|| panic!("{text}"));
    assert!(told < text.find("sends none").unwrap() && !has_password(&heard), "{text}");
    let [_, postgres, nobody] = attackers().try_into().unwrap();
    for (listening, of_place) in [(nobody, 0), (postgres, nobody), (postgres, 0)] {
        let place = open_place();
        let heard = listen_as(listening, place.path());
        // Nobody else may put a socket there.
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        chown(place.path(), Some(of_place), None).unwrap();
        let text = said(5999, place.path().to_str().unwrap(), "", &[]);
        let is_trusted = listening == postgres && of_place == 0;
        assert_eq!(has_password(&heard), is_trusted, "{listening} in a place of {of_place}: {text}");
        assert_eq!(text.contains("sends none"), !is_trusted, "{listening} in a place of {of_place}: {text}");
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
