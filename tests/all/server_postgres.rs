//! What pgthaw reads from a real server and does through it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;

use host::failure::{ErrorKind, Explain as _};
use host::units::{BlockRange, Bytes, Fork};
use postgres::{
    ConnectOptions, DataDirectory, Database, Error, PrewarmMode, Prewarmer, Relation, RelationKind, Server,
    apply_create_extension, apply_evict_buffers, can_evict_buffers, read_buffers, read_databases, read_fork_blocks,
    read_relations, read_settings, read_usage_summary,
};
use sqlx::postgres::PgConnection;

use crate::servers::{self, TestServer};

/// A table with TOAST, an index and a sequence, a materialized view, a partitioned and an unlogged table, and a name
/// that tries to break things.
const RELATIONS: &str = r#"
    CREATE TABLE t (id serial PRIMARY KEY, body text);
    ALTER TABLE t ALTER body SET STORAGE EXTERNAL;
    INSERT INTO t (body) SELECT repeat('x', 3000) FROM generate_series(1, 1000);
    CREATE MATERIALIZED VIEW m AS SELECT id FROM t;
    CREATE TABLE p (i int) PARTITION BY RANGE (i);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
    CREATE UNLOGGED TABLE u AS SELECT 1 AS i;
    CREATE SCHEMA "s""'; DROP TABLE t;--";
    CREATE TABLE "s""'; DROP TABLE t;--"."n'""
%s \ 表é" AS SELECT 1 AS i;
    VACUUM t;
"#;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn connect(server: &TestServer) -> (Server, PgConnection) {
    let connected = Server::connect(&server.cluster.connect_options("postgres")).await.unwrap();
    let connection = connected.connect_to("postgres").await.unwrap();
    (connected, connection)
}

async fn database(connection: &mut PgConnection, name: &str) -> Database {
    read_databases(connection).await.unwrap().into_iter().find(|database| database.name == name).unwrap()
}

async fn relations(connection: &mut PgConnection, shared: bool) -> Vec<Relation> {
    let database = database(connection, "postgres").await;
    read_relations(connection, &database, shared).await.unwrap()
}

fn find<'a>(relations: &'a [Relation], name: &str) -> &'a Relation {
    relations.iter().find(|relation| relation.name.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// A directory that the server may use as a tablespace.
fn new_tablespace_directory(server: &TestServer) -> tempfile::TempDir {
    let owner = std::fs::metadata(server.data_directory()).unwrap();
    let directory = tempfile::Builder::new().prefix("pgthaw-tablespace-").tempdir_in("/var/tmp").unwrap();
    std::os::unix::fs::chown(directory.path(), Some(owner.uid()), Some(owner.gid())).unwrap();
    directory
}

test_every_version! {
    fn a_server_says_what_it_is(version) {
        let server = servers::start(version, &[("shared_buffers", "12MB"), ("cluster_name", "it's")]);
        let facts = run(connect(&server)).0.facts;
        assert_eq!(facts.version_num / 10_000, version);
        assert!(facts.version.starts_with(&version.to_string()));
        assert_eq!(facts.system_identifier.to_string(), server.psql("SELECT system_identifier FROM pg_control_system()"));
        assert_eq!((facts.block_size, facts.segment_blocks), (8192, 131_072));
        assert_eq!(facts.shared_buffers_bytes, Bytes(12 << 20));
        assert_eq!(facts.data_directory, Some(server.data_directory()));
        assert_eq!(facts.cluster_name, "it's");
        assert!(!facts.io_direct && !facts.in_recovery && facts.is_superuser);
        assert_eq!(facts.io_method.is_some(), version >= 18);
        assert_eq!((facts.timeline, facts.role.as_str()), (1, "postgres"));
        assert!(facts.lsn.contains('/'));
        assert_eq!(facts.postmaster_pid, server.cluster.postmaster_pid());
    }
}

test_every_version! {
    fn settings_are_the_servers_and_not_those_of_this_session(version) {
        let set = [("work_mem", "7MB"), ("lock_timeout", "5s"), ("search_path", "app, public"), ("jit", "off")];
        let server = servers::start(version, &set);
        let settings = run(async {
            let connected = connect(&server).await.0;
            let mut connection = connected.connect_to("postgres").await.unwrap();
            let settings = read_settings(&mut connection).await.unwrap();
            let own: String = sqlx::query_scalar("SHOW work_mem").fetch_one(&mut connection).await.unwrap();
            assert_eq!(own, "64MB");
            settings
        });
        for (name, value) in set {
            assert!(settings.contains(&(name.into(), value.into())), "{name}: {settings:?}");
        }
        let absent = settings.iter().find(|(name, _)| name == "max_parallel_workers_per_gather");
        assert_eq!(absent, None, "nobody set it");
    }
}

test_every_version! {
    fn the_catalog_knows_everything_with_storage(version) {
        let server = servers::start(version, &[]);
        server.psql(RELATIONS);
        let relations = run(async {
            let mut connection = connect(&server).await.1;
            sqlx::query("CREATE TEMP TABLE temporary AS SELECT 1 AS i").execute(&mut connection).await.unwrap();
            relations(&mut connection, true).await
        });
        let kind = |name: &str| find(&relations, name).kind;
        assert_eq!(kind("t"), RelationKind::Table);
        assert_eq!(kind("t_pkey"), RelationKind::Index);
        assert_eq!(kind("t_id_seq"), RelationKind::Sequence);
        assert_eq!(kind("m"), RelationKind::MaterializedView);
        assert_eq!(kind("p1"), RelationKind::Table);
        assert_eq!(kind("u"), RelationKind::Table);
        assert_eq!(find(&relations, "t_pkey").parent.as_deref(), Some("public.t"));
        let toast = relations.iter().find(|one| one.parent.as_deref() == Some("public.t") && one.kind == RelationKind::Toast);
        let toast_name = &toast.unwrap().name;
        let toast_index = find(&relations, &format!("{}_index", toast_name.name));
        assert_eq!(toast_index.parent, Some(toast_name.to_string()));
        assert!(!toast_index.is_system && find(&relations, "pg_class").is_system);
        let hostile = find(&relations, "n'\"\n%s \\ 表é");
        assert_eq!(hostile.name.schema, "s\"'; DROP TABLE t;--");
        let shared = find(&relations, "pg_database");
        assert_eq!((shared.name.database.as_str(), shared.tablespace.as_str()), ("", "pg_global"));
        for absent in ["p", "temporary"] {
            assert!(relations.iter().all(|relation| relation.name.name != absent), "{absent}");
        }
        for relation in &relations {
            let file = relation.path.segment_file(&server.data_directory(), Fork::Main, 0);
            assert!(file.exists(), "{} at {}", relation.name, file.display());
        }
    }
}

test_every_version! {
    fn buffers_are_loaded_and_seen(version) {
        let server = servers::start(version, &[]);
        server.psql(RELATIONS);
        run(async {
            let (connected, mut connection) = connect(&server).await;
            let error = read_buffers(&mut connection, |_| ()).await.unwrap_err();
            assert!(matches!(&error, Error::ExtensionMissing { name: "pg_buffercache", database } if database == "postgres"));
            apply_create_extension(&mut connection, "pg_buffercache").await.unwrap();
            apply_create_extension(&mut connection, "pg_prewarm").await.unwrap();
            let m = find(&relations(&mut connection, false).await, "m").clone();
            let sizes = read_fork_blocks(&mut connection, &[m.oid, 4_000_000_000]).await.unwrap();
            let blocks = sizes.iter().find(|size| size.fork == Fork::Main).unwrap().blocks;
            let mut prewarmer = Prewarmer::open(connected.connect_to("postgres").await.unwrap()).await.unwrap();
            let whole = BlockRange::new(0, blocks);
            assert_eq!(prewarmer.apply_prewarm(m.oid, PrewarmMode::Buffer, Fork::Main, &[whole], 1).await.unwrap(), blocks);
            let beyond = BlockRange::new(1, blocks + 5000);
            assert_eq!(prewarmer.apply_prewarm(m.oid, PrewarmMode::Read, Fork::Main, &[beyond], 1).await.unwrap(), blocks - 1);
            assert_eq!(prewarmer.apply_prewarm(4_000_000_000, PrewarmMode::Read, Fork::Main, &[whole], 1).await.unwrap(), 0);
            let hot = [BlockRange::new(0, 2), BlockRange::new(3, 4)];
            assert_eq!(prewarmer.apply_prewarm(m.oid, PrewarmMode::Buffer, Fork::Main, &hot, 3).await.unwrap(), 3);
            let mut buffers = Vec::new();
            read_buffers(&mut connection, |buffer| buffers.push(buffer)).await.unwrap();
            let of_m = buffers.iter().filter(|buffer| {
                (buffer.relfilenumber, buffer.database_oid, buffer.tablespace_oid, buffer.fork)
                    == (m.path.relfilenumber, m.path.database_oid, m.path.tablespace_oid(), Fork::Main)
            });
            let usage: BTreeMap<u32, u8> = of_m.map(|buffer| (buffer.block, buffer.usage_count)).collect();
            assert_eq!(usage.len() as u64, blocks);
            assert!(usage[&0] > usage[&2] && usage[&3] > usage[&2] && usage[&0] >= 4, "{usage:?}");
            let summary = read_usage_summary(&mut connection).await.unwrap();
            let used: u64 = summary.iter().map(|level| level.buffers).sum();
            assert!(used.abs_diff(buffers.len() as u64) < 100, "{used} of {}", buffers.len());
        });
    }
}

#[test]
fn tablespaces_and_hostile_databases_are_found() {
    let server = servers::start_any(&[]);
    let place = new_tablespace_directory(&server);
    server.psql(&format!("CREATE TABLESPACE fast LOCATION '{}'", place.path().display()));
    server
        .psql(r#"CREATE DATABASE "d""'\ é" TABLESPACE fast; CREATE TABLE elsewhere TABLESPACE fast AS SELECT 1 AS i"#);
    run(async {
        let (connected, mut connection) = connect(&server).await;
        let elsewhere = find(&relations(&mut connection, false).await, "elsewhere").clone();
        assert_eq!(elsewhere.tablespace, "fast");
        assert!(elsewhere.path.segment_file(&server.data_directory(), Fork::Main, 0).exists());
        let hostile = database(&mut connection, "d\"'\\ é").await;
        assert!(hostile.allows_connections);
        assert!(!database(&mut connection, "template0").await.allows_connections);
        let mut connection = connected.connect_to(&hostile.name).await.unwrap();
        let theirs = read_relations(&mut connection, &hostile, false).await.unwrap();
        assert!(theirs.iter().all(|one| one.name.database == hostile.name && one.tablespace == "fast"));
        let directory = DataDirectory::open(&server.data_directory()).unwrap();
        let files: Vec<_> = directory.scan(&mut Vec::new()).unwrap().into_iter().map(|one| one.path).collect();
        for relation in theirs.iter().chain([&elsewhere]) {
            assert!(files.contains(&relation.path), "{} at {}", relation.name, relation.path);
        }
        let databases = directory.list_databases(&mut Vec::new()).unwrap();
        assert!(databases.iter().any(|database| database.oid == hostile.oid));
    });
}

#[test]
fn a_prewarm_that_is_given_up_leaves_the_connection_in_order() {
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_prewarm; CREATE TABLE t AS SELECT generate_series(1, 500000) AS i");
    run(async {
        let (_, mut connection) = connect(&server).await;
        let t = find(&relations(&mut connection, false).await, "t").oid;
        let mut prewarmer = Prewarmer::open(connection).await.unwrap();
        let mut given_up = 0;
        for _ in 0..10 {
            let whole = [BlockRange::new(0, 2000)];
            // The first poll sends a statement; its answer is not waited for, but it may be there already.
            let loading = prewarmer.apply_prewarm(t, PrewarmMode::Read, Fork::Main, &whole, 1);
            tokio::select! {
                biased;
                loaded = loading => assert_eq!(loaded.unwrap(), 2000),
                () = std::future::ready(()) => given_up += 1,
            }
            let few = BlockRange::new(7, 10);
            assert_eq!(prewarmer.apply_prewarm(t, PrewarmMode::Read, Fork::Main, &[few], 1).await.unwrap(), 3);
        }
        assert!(given_up > 0, "each answer was there at once");
    });
}

#[test]
fn names_that_are_no_text_are_shown_all_the_same() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE raw ENCODING 'SQL_ASCII' TEMPLATE template0");
    server.psql_in("raw", r#"DO $$ BEGIN EXECUTE 'CREATE TABLE "n' || chr(255) || '" (i int)'; END $$"#);
    run(async {
        let (connected, mut connection) = connect(&server).await;
        let raw = database(&mut connection, "raw").await;
        let mut connection = connected.connect_to("raw").await.unwrap();
        let relations = read_relations(&mut connection, &raw, false).await.unwrap();
        assert_eq!(find(&relations, "n\u{fffd}").name.schema, "public");
    });
}

#[test]
fn dropped_and_locked_relations_are_left_out() {
    let server = servers::start_any(&[]);
    for table in ["stays", "dropped", "locked"] {
        server.psql(&format!("CREATE TABLE {table} AS SELECT generate_series(1, 1000) AS i"));
    }
    server.psql("CREATE EXTENSION pg_prewarm");
    run(async {
        let (connected, mut connection) = connect(&server).await;
        let relations = relations(&mut connection, false).await;
        let oid = |name: &str| find(&relations, name).oid;
        let mut other = connected.connect_to("postgres").await.unwrap();
        server.psql("DROP TABLE dropped");
        sqlx::raw_sql("BEGIN; LOCK TABLE public.locked").execute(&mut other).await.unwrap();
        let oids = [oid("stays"), oid("dropped"), oid("locked")];
        let sizes = read_fork_blocks(&mut connection, &oids).await.unwrap();
        assert!(!sizes.is_empty() && sizes.iter().all(|size| size.relation_oid == oid("stays")), "{sizes:?}");
        let mut prewarmer = Prewarmer::open(connection).await.unwrap();
        let first = BlockRange::new(0, 1);
        let error =
            prewarmer.apply_prewarm(oid("locked"), PrewarmMode::Read, Fork::Main, &[first], 1).await.unwrap_err();
        assert_eq!(error.sqlstate().as_deref(), Some("55P03"));
        assert!(error.hint().is_some_and(|hint| hint.contains("lock")));
        assert_eq!(
            prewarmer.apply_prewarm(oid("dropped"), PrewarmMode::Read, Fork::Main, &[first], 1).await.unwrap(),
            0
        );
    });
}

test_every_version! {
    fn a_role_without_privileges_is_told_what_it_lacks(version) {
        let server = servers::start(version, &[]);
        server.psql("CREATE ROLE poor LOGIN; CREATE TABLE secret AS SELECT 1 AS i");
        server.psql("CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache");
        run(async {
            let options = ConnectOptions { user: Some("poor".into()), ..server.cluster.connect_options("postgres") };
            let poor = Server::connect(&options).await.unwrap();
            assert_eq!((poor.facts.role.as_str(), poor.facts.is_superuser), ("poor", false));
            assert_eq!((&poor.facts.data_directory, poor.facts.postmaster_pid), (&None, None));
            let mut connection = poor.connect_to("postgres").await.unwrap();
            let secret = find(&relations(&mut connection, false).await, "secret").oid;
            for error in [
                read_buffers(&mut connection, |_| ()).await.unwrap_err(),
                read_usage_summary(&mut connection).await.unwrap_err(),
            ] {
                assert_eq!(
                    error.to_string(),
                    "role \"poor\" may not use extension pg_buffercache in database \"postgres\""
                );
                assert_eq!(error.kind(), ErrorKind::Privilege);
                assert!(error.hint().is_some_and(|hint| hint.contains("GRANT pg_monitor TO \"poor\"")));
            }
            server.psql("GRANT pg_monitor TO poor");
            let evicted = apply_evict_buffers(&mut connection, &[1]).await.map(|()| false);
            // Only a superuser may; before PostgreSQL 17 there is nothing to be refused.
            for answer in [evicted, can_evict_buffers(&mut connection, &poor.facts).await] {
                match answer {
                    Err(error) => assert!(error.to_string() == "cannot evict buffers: role \"poor\" is not a superuser", "{error}"),
                    Ok(can) => assert!(!can && version < 17, "a role that cannot evict is refused from 17 on"),
                }
            }
            let mut prewarmer = Prewarmer::open(connection).await.unwrap();
            let first = BlockRange::new(0, 1);
            let error = prewarmer.apply_prewarm(secret, PrewarmMode::Read, Fork::Main, &[first], 1).await.unwrap_err();
            assert!(matches!(&error, Error::TableUnreadable { role, .. } if role == "poor"));
        });
    }
}

#[test]
fn the_extension_is_found_in_another_database_and_another_schema() {
    let server = servers::start_any(&[]);
    server.psql("CREATE DATABASE other");
    server.psql_in("other", r#"CREATE SCHEMA "odd ""one"; CREATE EXTENSION pg_buffercache SCHEMA "odd ""one""#);
    run(async {
        let (connected, _) = connect(&server).await;
        let databases = ["template0".to_owned(), "postgres".to_owned(), "other".to_owned()];
        let mut connection = connected.connect_with_extension("pg_buffercache", &databases).await.unwrap();
        let mut buffers = 0;
        read_buffers(&mut connection, |_| buffers += 1).await.unwrap();
        assert!(buffers > 0);
        let error = connected.connect_with_extension("pg_prewarm", &databases).await.unwrap_err();
        assert!(matches!(error, Error::ExtensionMissing { name: "pg_prewarm", .. }));
        assert_eq!(error.kind(), ErrorKind::Privilege);
    });
}

#[test]
fn without_a_database_named_the_one_that_exists_is_taken() {
    let server = servers::start_any(&[]);
    let options = ConnectOptions { database: None, ..server.cluster.connect_options("postgres") };
    assert_eq!(run(Server::connect(&options)).unwrap().database, "postgres");
    server.psql_in("template1", "DROP DATABASE postgres");
    assert_eq!(run(Server::connect(&options)).unwrap().database, "template1");
    let named = ConnectOptions { database: Some("absent".into()), ..options };
    let error = run(Server::connect(&named)).unwrap_err();
    assert_eq!(error.sqlstate().as_deref(), Some("3D000"));
}

#[test]
fn a_wrong_password_and_an_unknown_role_are_told() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE ROLE app LOGIN PASSWORD 'right'");
    let rules = "local all app scram-sha-256\nlocal all all trust\n";
    std::fs::write(server.data_directory().join("pg_hba.conf"), rules).unwrap();
    server.restart();
    let refusal = |user: &str| {
        let options = ConnectOptions { user: Some(user.into()), ..server.cluster.connect_options("postgres") };
        run(Server::connect(&options)).unwrap_err()
    };
    let error = refusal("app");
    assert!(error.to_string().contains("password"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("~/.pgpass")), "{:?}", error.hint());
    let error = refusal("nobody_known");
    assert!(error.to_string().contains("role \"nobody_known\" does not exist"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("-U")), "{:?}", error.hint());
}

#[test]
fn a_server_that_is_killed_is_no_missing_extension() {
    let mut server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_buffercache");
    let connected = run(Server::connect(&server.cluster.connect_options("postgres"))).unwrap();
    server.cluster.crash();
    let error = run(connected.connect_with_extension("pg_buffercache", &["postgres".into()])).unwrap_err();
    assert!(error.is_server_gone() && error.to_string().contains("cannot connect"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Failed);
}

#[test]
fn no_server_is_told_with_a_hint() {
    let nowhere = ConnectOptions { host: Some("/nowhere".into()), ..ConnectOptions::default() };
    let error = run(Server::connect(&nowhere)).unwrap_err();
    assert!(error.to_string().contains("/nowhere:"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Failed);
    let hint = error.hint().unwrap();
    let begin = "no server listens at this address: start the server, or read its files with --data-dir; ";
    let rest = hint.strip_prefix(begin);
    // What comes last depends on whether this machine has other servers.
    let names_others = |rest: &str| rest.starts_with("other servers") || rest.contains("pg_lsclusters");
    assert!(rest.is_some_and(names_others), "{hint}");
}
