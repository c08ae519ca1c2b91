//! Files in a data directory that are none of PostgreSQL's.

use std::fs::{self, File};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use pgthaw::postgres::StopMode;

use super::{ends_by_itself, is_root, make_pipe};
use crate::servers::{self, Output, TestServer};

/// A stopped cluster with tables, and the files of three of them below the data directory.
fn stopped_cluster() -> (TestServer, [PathBuf; 3]) {
    let mut server = servers::start_any(&[]);
    let make = |name: &str| {
        server.psql(&format!("CREATE TABLE {name} AS SELECT generate_series(1, 5000) AS i"));
        server.data_directory().join(server.psql(&format!("SELECT pg_relation_filepath('{name}')")))
    };
    let files = ["one", "two", "three"].map(make);
    server.psql("CHECKPOINT");
    server.cluster.stop(StopMode::Fast).unwrap();
    (server, files)
}

fn run(server: &TestServer, arguments: &[&str]) -> Output {
    let directory = server.data_directory();
    let mut command = server.home.command(arguments);
    ends_by_itself(command.arg("-D").arg(directory))
}

#[test]
fn what_is_no_file_of_the_servers_is_left_out_and_the_rest_is_done() {
    let (server, [pipe, link, whole]) = stopped_cluster();
    run(&server, &["snapshot", "take"]).ok();
    let secret = server.home().join("secret");
    fs::write(&secret, vec![7; 80 << 10]).unwrap();
    for file in [&pipe, &link] {
        fs::remove_file(file).unwrap();
    }
    make_pipe(&pipe);
    symlink(&secret, &link).unwrap();
    let map = run(&server, &["map", "--json"]).ok();
    assert!(
        map.stdout.contains("1 files could not be looked at") && map.stdout.contains("symbolic link"),
        "{}",
        map.stdout
    );
    run(&server, &["snapshot", "take"]).ok();
    let evicted = run(&server, &["evict", "--json", "--all", "--tier", "os"]);
    assert!(!evicted.stdout.contains("panicked"), "{}", evicted.stdout);
    let restored = run(&server, &["restore", "--json"]);
    assert!(restored.stdout.contains(&relation_name(&whole)), "{}", restored.stdout);
    run(&server, &["hydrate", "--json"]).ok();
    run(&server, &["doctor", "--json"]);
}

fn relation_name(file: &Path) -> String {
    file.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn a_file_of_another_user_is_not_the_servers() {
    if !is_root() {
        return;
    }
    let (server, [foreign, ..]) = stopped_cluster();
    chown(&foreign, Some(0), Some(0)).unwrap();
    let map = run(&server, &["map", "--json"]).ok();
    assert!(map.stdout.contains("it belongs to user 0"), "{}", map.stdout);
}

#[test]
fn what_says_whose_directory_it_is_may_be_anything() {
    let (server, _) = stopped_cluster();
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
