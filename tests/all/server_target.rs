//! What pgthaw takes the connection options and `--data-dir` to mean.

use std::path::PathBuf;

use pgthaw::commands::{ConnectionArguments, Target, explain, is_lab_server, require_lab_server};
use pgthaw::failure::ErrorKind;
use pgthaw::postgres::StopMode;

use crate::servers::{self, TestServer};

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
    ConnectionArguments { host: options.host, port: options.port, username: options.user, ..Default::default() }
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
        assert!(target.remarks[0].contains("no server runs in"), "{:?}", target.remarks);
        assert!(target.data_directory.as_ref().unwrap().scan().unwrap().len() > 100);
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
    assert!(remark.contains("role \"unknown\" does not exist") && remark.contains("runuser"), "{remark}");
    arguments.databases = vec!["postgres".into()];
    assert_refused(&arguments, ErrorKind::Failed, "role \"unknown\" does not exist");
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
    assert!(target.remarks[0].contains("is taken for it"), "{:?}", target.remarks);
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
    std::fs::write(empty.path().join("PG_VERSION"), "15\n").unwrap();
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
    let error = require_lab_server(&target, &[], false, "evict").unwrap_err();
    assert!(error.to_string().contains("evict"), "{error}");
    let (kind, hint) = explain(&error.into());
    assert_eq!(kind, ErrorKind::Usage);
    assert!(hint.unwrap().contains("--yes"));
    assert!(require_lab_server(&target, &[], true, "evict").is_ok());
    let identifier = target.system_identifier().unwrap();
    assert!(require_lab_server(&target, &[identifier], false, "evict").is_ok());
}
