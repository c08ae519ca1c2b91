//! What pgthaw takes the connection options and `--data-dir` to mean.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use command::{ConnectionArguments, LabArguments, Target, explain, is_lab_server, require_lab_server};
use host::failure::ErrorKind;
use postgres::StopMode;

use crate::servers::{self, Home, TestServer};

fn open(arguments: &ConnectionArguments) -> anyhow::Result<Target> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(Target::open(arguments))
}

fn database_names(target: &Target) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(target.databases()).unwrap().into_iter().map(|database| database.name).collect()
}

/// The server by its address.
fn by_address(server: &TestServer) -> ConnectionArguments {
    let options = server.cluster.connect_options("postgres");
    let port = options.port.map(|port| port.to_string());
    ConnectionArguments { host: options.host, port, username: options.user, ..Default::default() }
}

/// The server by its directory alone.
fn by_directory(directory: PathBuf) -> ConnectionArguments {
    ConnectionArguments { data_dir: Some(directory), username: Some("postgres".into()), ..Default::default() }
}

#[track_caller]
fn assert_refused(arguments: &ConnectionArguments, kind: ErrorKind, message: &str) {
    let error = open(arguments).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
    assert_eq!(explain(&error).0, kind, "{error}");
    assert!(explain(&error).1.is_some(), "{error}");
}

test_every_version! {
    fn a_local_server_brings_its_directory(version) {
        let server = servers::start(version, &[]);
        let target = open(&by_address(&server)).unwrap();
        let directory = target.data_directory.as_ref().unwrap();
        assert_eq!(directory.path, server.data_directory());
        let facts = &target.server.as_ref().unwrap().facts;
        assert_eq!(directory.system_identifier, facts.system_identifier);
        assert_eq!(directory.version_major, version);
        assert_eq!((directory.block_size, directory.segment_blocks), (facts.block_size, facts.segment_blocks));
        assert_eq!(target.remarks, Vec::<String>::new());
        assert_eq!(database_names(&target), ["postgres", "template0", "template1"]);
    }
}

test_every_version! {
    fn a_directory_brings_its_server_while_it_runs(version) {
        let mut server = servers::start(version, &[]);
        let arguments = by_directory(server.data_directory());
        let target = open(&arguments).unwrap();
        let identifier = target.server.as_ref().unwrap().facts.system_identifier;
        assert!(target.server.unwrap().address.starts_with(server.cluster.socket_directory().to_str().unwrap()));
        server.cluster.stop(StopMode::Fast).unwrap();
        let target = open(&arguments).unwrap();
        assert!(target.server.is_none());
        assert_eq!(target.system_identifier(), Some(identifier));
        assert!(target.remarks[0].contains("no server that runs in"), "{:?}", target.remarks);
        assert!(target.data_directory.as_ref().unwrap().scan(&mut Vec::new()).unwrap().len() > 100);
        assert_eq!(database_names(&target).len(), 3);
        server.cluster.start().unwrap();
        server.cluster.crash();
        assert!(open(&arguments).unwrap().server.is_none(), "the pid file of a killed server proves nothing");
    }
}

#[test]
fn a_running_server_that_refuses_leaves_its_files() {
    let server = servers::start_any(&[]);
    let mut arguments = by_directory(server.data_directory());
    arguments.username = Some("unknown".into());
    let target = open(&arguments).unwrap();
    assert!(target.server.is_none() && target.data_directory.is_some());
    let remark = &target.remarks[0];
    assert!(remark.contains("role \"unknown\" does not exist") && remark.contains("-U"), "{remark}");
    arguments.databases = vec!["postgres".into()];
    assert_refused(&arguments, ErrorKind::Privilege, "role \"unknown\" does not exist");
}

#[test]
fn a_directory_and_a_server_must_be_the_same_cluster() {
    let version = servers::servers().last().unwrap().0;
    let (one, other) = (servers::start_new(version, &[]), servers::start_new(version, &[]));
    let mut arguments = by_address(&one);
    arguments.data_dir = Some(other.data_directory());
    assert_refused(&arguments, ErrorKind::Usage, "belongs to another cluster");
    arguments.data_dir = Some(one.data_directory());
    let target = open(&arguments).unwrap();
    assert!(target.server.is_some() && target.data_directory.is_some() && target.remarks.is_empty());
}

#[test]
fn a_copy_with_the_same_identifier_is_remarked_upon() {
    let (one, copy) = (servers::start_any(&[]), servers::start_any(&[]));
    let mut arguments = by_address(&one);
    arguments.data_dir = Some(copy.data_directory());
    let target = open(&arguments).unwrap();
    assert!(target.remarks[0].contains("which has the same system identifier"), "{:?}", target.remarks);
}

#[test]
fn a_role_that_may_not_see_the_directory_uses_sql_alone() {
    let server = servers::start_any(&[]);
    server.psql("CREATE ROLE poor LOGIN");
    let mut arguments = by_address(&server);
    arguments.username = Some("poor".into());
    let target = open(&arguments).unwrap();
    assert!(target.data_directory.is_none());
    assert!(target.remarks[0].contains("GRANT pg_monitor TO \"poor\""), "{:?}", target.remarks);
    arguments.data_dir = Some(server.data_directory());
    assert!(open(&arguments).unwrap().data_directory.is_some());
}

#[test]
fn wrong_directories_are_refused() {
    let empty = tempfile::tempdir().unwrap();
    let refused = |directory: PathBuf, message| assert_refused(&by_directory(directory), ErrorKind::Usage, message);
    refused(empty.path().join("absent"), "there is no such directory");
    refused(empty.path().to_owned(), "it has no PG_VERSION");
    fs::write(empty.path().join("PG_VERSION"), "15\n").unwrap();
    refused(empty.path().to_owned(), "it has no global/pg_control");
}

#[test]
fn a_named_server_has_to_answer() {
    let server = servers::start_any(&[]);
    let mut arguments = by_directory(server.data_directory());
    arguments.host = Some("/nowhere".into());
    assert_refused(&arguments, ErrorKind::Failed, "cannot connect to /nowhere:");
}

#[test]
fn the_scope_is_the_databases_named() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE shop");
    let mut arguments = by_address(&server);
    arguments.databases = vec!["shop".into()];
    let target = open(&arguments).unwrap();
    assert_eq!(target.server.as_ref().unwrap().database, "shop");
    assert_eq!(database_names(&target), ["shop"]);
    arguments.databases.push("absent".into());
    let target = open(&arguments).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(target.databases()).unwrap_err();
    assert!(error.to_string().contains("no database \"absent\""), "{error}");
}

#[test]
fn only_lab_servers_are_made_cold_without_asking() {
    let lab = open(&by_address(&servers::start_any(&[]))).unwrap();
    assert!(is_lab_server(&lab, &[]));
    let production = servers::start_any(&[("cluster_name", "main")]);
    let target = open(&by_address(&production)).unwrap();
    let error = require_lab_server(&target, &LabArguments::default(), "evict").unwrap_err();
    assert!(error.to_string().contains("evict"), "{error}");
    let (kind, hint) = explain(&error.into());
    assert_eq!(kind, ErrorKind::Usage);
    assert!(hint.unwrap().contains("--yes"));
    assert!(require_lab_server(&target, &LabArguments { yes: true, ..Default::default() }, "evict").is_ok());
    let identifier = target.system_identifier().unwrap();
    assert!(
        require_lab_server(&target, &LabArguments { lab_servers: vec![identifier], ..Default::default() }, "evict")
            .is_ok()
    );
}

/// What `doctor --json` says of one thing, as text.
fn doctor_says(command: &mut Command, name: &str) -> String {
    let lines = servers::output_of(command.args(["doctor", "--json"])).json();
    let line = lines.as_array().unwrap().iter().find(|line| line["name"] == name).unwrap().clone();
    format!("{} {} {}", line["ok"], line["detail"], line["remedy"])
}

#[test]
fn the_environment_counts_as_for_psql() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'it''s:a\\secret'; CREATE DATABASE shop");
    let rules = "local shop app scram-sha-256\nlocal postgres postgres trust\n";
    fs::write(server.data_directory().join("pg_hba.conf"), rules).unwrap();
    server.restart();
    let socket = server.cluster.socket_directory().display().to_string();
    let answer = |variables: &[(&str, &str)]| {
        let mut command = server.command(&[]);
        command.env_remove("PGHOST").env_remove("PGUSER").envs(variables.iter().copied());
        doctor_says(&mut command, "server")
    };
    let app = [("PGHOST", socket.as_str()), ("PGUSER", "app"), ("PGDATABASE", "shop")];
    let with = |more: (&'static str, &'static str)| answer(&[app[0], app[1], app[2], more]);
    assert!(answer(&app).starts_with("false") && answer(&app).contains("~/.pgpass"), "{}", answer(&app));
    assert!(with(("PGPASSWORD", "wrong")).contains("password authentication failed"));
    assert!(with(("PGPASSWORD", "it's:a\\secret")).starts_with("true"));

    let password_file = server.home().join(".pgpass");
    let password_for =
        |host: &str| fs::write(&password_file, format!("{host}:*:shop:app:it's\\:a\\\\secret\n")).unwrap();
    password_for(&socket);
    fs::set_permissions(&password_file, Permissions::from_mode(0o644)).unwrap();
    assert!(answer(&app).starts_with("false"), "a password file that others can read does not count");
    fs::set_permissions(&password_file, Permissions::from_mode(0o600)).unwrap();
    assert!(answer(&app).starts_with("true"), "{}", answer(&app));
    password_for("localhost");
    assert!(answer(&app).starts_with("false"), "localhost is the socket where libpq looks by itself, and no other");
    password_for(&socket);

    let service = format!("[mine]\nhost={socket}\nuser=app\ndbname=shop\n");
    fs::write(server.home().join(".pg_service.conf"), service).unwrap();
    assert!(answer(&[("PGSERVICE", "mine")]).starts_with("true"), "{}", answer(&[("PGSERVICE", "mine")]));
    let unknown = answer(&[("PGSERVICE", "theirs")]);
    assert!(unknown.contains("theirs") && unknown.contains("service file"), "{unknown}");
}

#[test]
fn a_user_without_permission_is_told_which_and_what_helps() {
    needs_root!();
    let server = servers::start_any(&[]);
    const NOBODY: u32 = 65_534;
    let lines = server.pgthaw_as(NOBODY, &["doctor", "--json"]).json();
    let line = lines.as_array().unwrap().iter().find(|line| line["name"] == "data-dir").unwrap();
    assert_eq!(line["ok"], false);
    let detail = line["detail"].as_str().unwrap();
    assert!(detail.contains(server.data_directory().to_str().unwrap()) && detail.contains("ermission"), "{line:#}");
    assert!(line["remedy"].as_str().unwrap().contains("owner of the data directory"), "{line:#}");
}

/// What doctor says of a server that sends `greeting` to whoever connects, and nothing more.
fn doctor_of_fake(greeting: Vec<u8>) -> String {
    let home = Home::new();
    let listener = UnixListener::bind(home.path().join(".s.PGSQL.5432")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        client.write_all(&greeting).unwrap();
        // Until the client goes away.
        std::io::copy(&mut client, &mut std::io::sink())
    });
    let mut command = home.command(&[]);
    command.env("PGHOST", home.path()).env("PGSSLMODE", "disable").env("PGCONNECT_TIMEOUT", "1");
    let told = doctor_says(&mut command, "server");
    server.join().unwrap().unwrap();
    told
}

#[test]
fn a_server_that_never_answers_is_not_waited_for() {
    let told = doctor_of_fake(Vec::new());
    assert!(told.contains("no answer within 1 s") && told.contains("firewall"), "{told}");
}

#[test]
fn an_old_server_is_refused() {
    // Authentication is fine, ParameterStatus, ReadyForQuery: see "Message Formats" in PostgreSQL's manual.
    let version = b"server_version\x0012.22\0";
    let length = u32::try_from(4 + version.len()).unwrap().to_be_bytes();
    let greeting = [b"R\0\0\0\x08\0\0\0\0S", length.as_slice(), version, b"Z\0\0\0\x05I"].concat();
    let told = doctor_of_fake(greeting);
    assert!(told.contains("PostgreSQL 12.22 is not supported"), "{told}");
}
