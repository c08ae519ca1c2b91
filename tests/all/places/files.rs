//! Files in a data directory that are none of PostgreSQL's.

use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use postgres::StopMode;

use super::{ends_by_itself, make_pipe};
use crate::servers::{self, Output, TestServer};

/// A stopped cluster.
fn stopped_cluster() -> TestServer {
    let (mut server, _) = cluster();
    server.cluster.stop(StopMode::Fast).unwrap();
    server
}

/// A server with tables, and the files of three of them.
fn cluster() -> (TestServer, [PathBuf; 3]) {
    let server = servers::start_any(&[]);
    let make = |name: &str| {
        server.psql(&format!("CREATE TABLE {name} AS SELECT generate_series(1, 5000) AS i"));
        server.data_directory().join(server.psql(&format!("SELECT pg_relation_filepath('{name}')")))
    };
    let files = ["one", "two", "three"].map(make);
    server.psql("CHECKPOINT");
    (server, files)
}

fn run(server: &TestServer, arguments: &[&str]) -> Output {
    let directory = server.data_directory();
    let mut command = server.home.command(arguments);
    ends_by_itself(command.arg("-D").arg(directory))
}

#[test]
fn what_is_no_file_of_the_servers_is_left_out_and_the_rest_is_done() {
    let (server, [pipe, link, _]) = cluster();
    run(&server, &["snapshot", "take"]).ok();
    let secret = server.home().join("secret");
    fs::write(&secret, vec![7; 80 << 10]).unwrap();
    for file in [&pipe, &link] {
        fs::remove_file(file).unwrap();
    }
    make_pipe(&pipe);
    symlink(&secret, &link).unwrap();
    let map = run(&server, &["map", "--json"]).ok().json();
    let remarks = map["remarks"].to_string();
    assert!(remarks.contains("2 files could not be inspected"), "{remarks}");
    assert!(remarks.contains("symbolic link") || remarks.contains("it is a pipe"), "{remarks}");
    run(&server, &["snapshot", "take"]).ok();
    for arguments in [&["evict", "--json", "--all", "--tier", "os"][..], &["restore", "--json"], &["hydrate", "--json"]]
    {
        let done = run(&server, arguments);
        assert!(!done.stderr.contains("panicked"), "{arguments:?}: {}", done.stderr);
    }
    run(&server, &["doctor", "--json"]);
}

#[test]
fn a_file_of_another_user_is_not_the_servers() {
    needs_root!();
    let (server, [foreign, ..]) = cluster();
    chown(&foreign, Some(0), Some(0)).unwrap();
    let remarks = run(&server, &["map", "--json"]).ok().json()["remarks"].to_string();
    assert!(remarks.contains("it belongs to user 0"), "{remarks}");
}

#[test]
fn what_says_whose_directory_it_is_may_be_anything() {
    let server = stopped_cluster();
    let directory = server.data_directory();
    for name in ["PG_VERSION", "global/pg_control", "postmaster.pid"] {
        let (path, kept) = (directory.join(name), server.home().join("kept"));
        let _ = fs::rename(&path, &kept);
        let plants: [fn(&Path); 6] = [
            make_pipe,
            |path| symlink("/dev/zero", path).unwrap(),
            |path| symlink("/etc/shadow", path).unwrap(),
            |path| File::create(path).unwrap().set_len(10 << 30).unwrap(),
            |path| fs::create_dir(path).unwrap(),
            |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        ];
        for plant in plants {
            plant(&path);
            let map = run(&server, &["map"]);
            assert_eq!(map.status != 0, name != "postmaster.pid", "{name}: {}{}", map.stdout, map.stderr);
            assert!(map.status == 0 || map.stderr.contains(path.to_str().unwrap()), "{name}: {}", map.stderr);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
        let _ = fs::rename(&kept, &path);
    }
}
