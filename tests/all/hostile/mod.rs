//! Databases of owners who wish whoever visits them ill: nothing of theirs is run, and nobody else's database suffers.

mod results;

use host::units::{BlockRange, Fork};
use postgres::{PrewarmMode, Prewarmer, Server};

use crate::servers::{self, TestServer};

const SHADOWS: &str = include_str!("shadows.sql");

/// A server with a database of mallory's, a plain role, in which everything has a namesake that would make him superuser.
fn start(version: u32, extensions: &str) -> TestServer {
    let server = servers::start(version, &[("shared_preload_libraries", "pg_stat_statements")]);
    server.psql("CREATE ROLE mallory LOGIN; CREATE DATABASE evil OWNER mallory; CREATE TABLE t AS SELECT generate_series(1, 9999)");
    for database in ["postgres", "evil"] {
        server.psql_in(database, extensions);
    }
    // A table of his, so that there is something to snapshot and to load.
    let as_mallory = |sql: &str| format!("SET SESSION AUTHORIZATION mallory; {sql}");
    server.psql_in("evil", &as_mallory(SHADOWS));
    server.psql_in("evil", &as_mallory("CREATE TABLE x.mine AS SELECT generate_series(1, 9999) AS i"));
    server.psql("SET SESSION AUTHORIZATION mallory; ALTER DATABASE evil SET search_path = x, public, pg_catalog");
    server
}

/// Has anything of mallory's been run as somebody else?
#[track_caller]
fn assert_unharmed(server: &TestServer, after: &str) {
    let path = "SET search_path = pg_catalog; ";
    let ran = server.psql_in("evil", &format!("{path}SELECT is_called FROM x.runs"));
    let what = server.psql_in("evil", &format!("{path}SELECT * FROM x.seized LIMIT 3"));
    let is_superuser = server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'");
    assert_eq!((ran.as_str(), is_superuser.as_str()), ("f", "f"), "{after}: {what}");
}

const EXTENSIONS: &str =
    "CREATE EXTENSION pg_prewarm; CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_stat_statements";

/// What would make mallory a superuser, if it was taken for pg_buffercache's or pg_prewarm's.
const FAKES: &str = "
    CREATE FUNCTION public.seize() RETURNS bool LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN true; END $$;
    CREATE VIEW public.pg_buffercache AS SELECT 1 AS bufferid, 1::oid AS relfilenode WHERE public.seize();
    CREATE FUNCTION public.pg_prewarm(regclass, text, text, bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
        $$ BEGIN PERFORM public.seize(); RETURN 1; END $$;";

/// The owner of the schema moves the extension away, and puts something of his own in its place.
const SWAP: &str = "SET SESSION AUTHORIZATION mallory; ALTER SCHEMA shop RENAME TO away; CREATE SCHEMA shop;
    CREATE FUNCTION shop.pg_prewarm(regclass, text, text, bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RETURN 1; END $$";

test_every_version! {
    fn an_extension_that_was_moved_meanwhile_is_called_where_it_is(version) {
        let server = servers::start(version, &[]);
        server.psql("CREATE ROLE mallory LOGIN; CREATE DATABASE evil OWNER mallory");
        server.psql_in("evil", "CREATE SCHEMA shop AUTHORIZATION mallory; CREATE EXTENSION pg_prewarm SCHEMA shop");
        let options = server.cluster.connect_options("evil");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let reached = Server::connect(&options).await.unwrap();
            let mut prewarmer = Prewarmer::open(reached.connect_to("evil").await.unwrap()).await.unwrap();
            server.psql_in("evil", SWAP);
            // pg_class.
            let loaded = prewarmer.apply_prewarm(1259, PrewarmMode::Buffer, Fork::Main, &[BlockRange::new(0, 5)], 1).await;
            assert_eq!(loaded.unwrap(), 5);
        });
        assert_eq!(server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"), "f");
    }
}

/// Names of a schema that would end a comment or a literal, and go on as statements of their own: of pg_buffercache's columns, of
/// pg_prewarm's, and of none.
const BREAKOUTS: [&str; 3] =
    ["x\nTABLE s.v UNION ALL --", "x\nSELECT s.f()::int8 UNION ALL --", "{schema}' AS x; SELECT s.f(); --"];

/// What would be run. A sequence keeps its count where a transaction is taken back.
const BEHIND_A_NAME: &str = "SET SESSION AUTHORIZATION mallory; CREATE SCHEMA s; CREATE SEQUENCE s.ran;
    CREATE FUNCTION s.f() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
        IF current_user <> 'mallory' THEN PERFORM pg_catalog.nextval('s.ran'); END IF; RETURN 1; END $$;
    CREATE VIEW s.v AS SELECT 0::oid AS a, 0::oid AS b, s.f()::oid AS c, 0::int2 AS d, 0::int8 AS e, 0::int2 AS f, false AS g;
    ALTER SCHEMA shop RENAME TO x";

test_every_version! {
    fn a_schemas_name_is_nothing_but_a_name(version) {
        let server = servers::start(version, &[("shared_preload_libraries", "pg_stat_statements")]);
        server.psql("CREATE ROLE mallory LOGIN; CREATE DATABASE evil OWNER mallory");
        server.psql_in("evil", "CREATE SCHEMA shop AUTHORIZATION mallory; CREATE TABLE t AS SELECT generate_series(1, 99999) AS i");
        for extension in ["pg_prewarm", "pg_buffercache", "pg_stat_statements"] {
            server.psql_in("evil", &format!("CREATE EXTENSION {extension} SCHEMA shop"));
        }
        server.pgthaw(&["snapshot", "take", "--dir", "snapshots"]).ok();
        server.psql_in("evil", BEHIND_A_NAME);
        let mut name = "x";
        for breakout in BREAKOUTS {
            server.psql_in("evil", &format!("ALTER SCHEMA \"{name}\" RENAME TO \"{breakout}\""));
            name = breakout;
            for visit in VISITS {
                let output = server.pgthaw(visit);
                assert_eq!(server.psql_in("evil", "SELECT is_called FROM s.ran"), "f", "{breakout}: {visit:?}: {output:?}");
            }
            let map = server.pgthaw(&["map", "-d", "evil", "--json"]).ok().json();
            assert_eq!(map["buffers"]["state"], "measured", "{map:#}");
        }
    }
}

/// Each command that visits databases, with what it needs; it may fail.
const VISITS: [&[&str]; 14] = [
    &["map"],
    &["map", "-d", "evil", "--json"],
    &["doctor"],
    &["doctor", "-d", "evil"],
    &["snapshot", "take", "--dir", "snapshots"],
    &["snapshot", "take", "-d", "evil", "--dir", "others"],
    &["restore", "--dir", "snapshots", "--dry-run"],
    &["evict", "--all", "--yes"],
    &["restore", "--dir", "snapshots"],
    &["evict", "-d", "evil", "--yes"],
    &["restore", "-d", "evil", "--dir", "others", "--create-extensions"],
    &["hydrate", "-d", "evil", "--dir", "snapshots"],
    &["predict", "-d", "evil", "--seconds", "1", "--dir", "snapshots"],
    &["predict", "-d", "evil", "--dir", "snapshots", "--seconds", "1", "clients=2"],
];

test_every_version! {
    fn nothing_of_an_owner_is_run_as_his_visitor(version) {
        let server = start(version, EXTENSIONS);
        for visit in VISITS {
            let output = server.pgthaw(visit);
            assert_unharmed(&server, &format!("{visit:?}\n{}\n{}", output.stdout, output.stderr));
        }
        let map = server.pgthaw(&["map", "--json"]).ok().json();
        let tables = map["relations"].as_array().unwrap();
        assert!(tables.iter().any(|one| one["database"] == "evil" && one["name"] == "mine"), "{map:#}");
    }
}

test_every_version! {
    fn extensions_in_his_schema_are_called_and_their_namesakes_are_not(version) {
        let server = start(version, "SELECT 1");
        let extensions = ["pg_prewarm", "pg_buffercache", "pg_stat_statements"];
        for extension in extensions {
            server.psql_in("evil", &format!("SET search_path = pg_catalog; CREATE EXTENSION {extension} SCHEMA x"));
        }
        let body = "LANGUAGE plpgsql AS $$ BEGIN PERFORM x.seize(); RETURN NULL; END $$";
        for namesake in [
            "pg_prewarm(regclass, text, text, bigint, integer) RETURNS bigint",
            "pg_prewarm(oid, text, text, bigint, bigint) RETURNS bigint",
            "pg_prewarm(regclass, text, text, bigint, bigint, integer DEFAULT 1) RETURNS bigint",
            "pg_prewarm(regclass, text, text, numeric, numeric) RETURNS bigint",
            "pg_buffercache_usage_counts(integer DEFAULT 1) RETURNS integer",
            "pg_buffercache_summary(integer DEFAULT 1) RETURNS integer",
            "pg_buffercache_evict(bigint) RETURNS bool",
            "pg_buffercache_evict(integer, integer DEFAULT 1) RETURNS bool",
            "pg_buffercache_pages(integer DEFAULT 1) RETURNS integer",
        ] {
            let create = format!("CREATE FUNCTION x.{namesake} {body}");
            server.psql_in("evil", &format!("SET SESSION AUTHORIZATION mallory; SET search_path = pg_catalog; {create}"));
        }
        // What is called like an extension's, where an extension would be, is none.
        server.psql("CREATE DATABASE fake OWNER mallory");
        server.psql_in("fake", "GRANT ALL ON SCHEMA public TO mallory");
        server.psql_in("fake", &format!("SET SESSION AUTHORIZATION mallory; {FAKES}"));
        for visit in VISITS {
            let output = server.pgthaw(visit);
            assert_unharmed(&server, &format!("{visit:?}\n{}\n{}", output.stdout, output.stderr));
        }
        let map = server.pgthaw(&["map", "-d", "evil", "--json"]).ok().json();
        assert_eq!(map["buffers"]["state"], "measured", "{map:#}");
    }
}

#[test]
fn neither_is_it_for_other_users() {
    let server = start(servers::servers().last().unwrap().0, EXTENSIONS);
    needs_root!();
    for uid in [65534, server_uid(&server)] {
        for visit in [&VISITS[0], &VISITS[2], &VISITS[4]] {
            let output = server.pgthaw_as(uid, visit);
            assert_unharmed(&server, &format!("{visit:?} as {uid}\n{}\n{}", output.stdout, output.stderr));
        }
    }
}

fn server_uid(server: &TestServer) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(server.data_directory()).unwrap().uid()
}

/// What an owner may set for his database, each with the version that brought it.
const SETTINGS: [(u32, &str); 22] = [
    (13, "statement_timeout = 1"),
    (13, "lock_timeout = 1"),
    (13, "idle_in_transaction_session_timeout = 1"),
    (14, "idle_session_timeout = 1"),
    (17, "transaction_timeout = 1"),
    (13, "default_transaction_read_only = on"),
    (13, "default_transaction_isolation = 'serializable'"),
    (13, "role = mallory"),
    (13, "local_preload_libraries = 'nosuch'"),
    (13, "client_encoding = 'LATIN1'"),
    (13, "DateStyle = 'German, DMY'"),
    (13, "IntervalStyle = 'sql_standard'"),
    (13, "extra_float_digits = -15"),
    (13, "bytea_output = 'escape'"),
    (13, "standard_conforming_strings = off"),
    (13, "TimeZone = 'Pacific/Chatham'"),
    (13, "row_security = off"),
    (13, "work_mem = '64kB'"),
    (13, "temp_buffers = 100"),
    (13, "array_nulls = off"),
    (13, "transform_null_equals = on"),
    (13, "quote_all_identifiers = on"),
];

test_every_version! {
    fn what_an_owner_sets_costs_his_database_at_most(version) {
        let server = servers::start(version, &[]);
        server.psql("CREATE ROLE mallory LOGIN; CREATE TABLE ours AS SELECT generate_series(1, 999); CREATE EXTENSION pg_buffercache");
        // Since PostgreSQL 19 all strings are standard ones.
        let is_there = |since: u32, setting: &str| since <= version && (version < 19 || !setting.starts_with("standard_"));
        let settings: Vec<&str> =
            SETTINGS.iter().filter(|(since, setting)| is_there(*since, setting)).map(|(_, setting)| *setting).collect();
        for (number, setting) in settings.iter().enumerate() {
            server.psql(&format!("CREATE DATABASE d{number} OWNER mallory"));
            server.psql_in(&format!("d{number}"), &format!("CREATE TABLE t{number} AS SELECT 1 AS i"));
            server.psql(&format!("ALTER DATABASE d{number} SET {setting}"));
        }
        server.psql("CREATE DATABASE unloadable; ALTER DATABASE unloadable SET session_preload_libraries = 'nosuch'");
        server.psql("CREATE DATABASE closed ALLOW_CONNECTIONS false; CREATE DATABASE crowded CONNECTION LIMIT 0");
        if version >= 17 {
            for (name, body) in [("raising", "RAISE EXCEPTION 'no'"), ("sleeping", "PERFORM pg_sleep(60)")] {
                server.psql(&format!("CREATE DATABASE {name}"));
                server.psql_in(name, &format!(
                    "CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$; \
                     CREATE EVENT TRIGGER e ON login EXECUTE FUNCTION f(); ALTER EVENT TRIGGER e ENABLE ALWAYS"
                ));
            }
        }
        let run = |arguments: &[&str]| servers::output_of(server.command(arguments).env("PGCONNECT_TIMEOUT", "2")).ok();
        let map = run(&["map", "--json"]).json();
        let names: Vec<&str> = map["relations"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
        let remarks = map["remarks"].to_string();
        assert!(names.contains(&"ours"), "{map:#}");
        // Of a limit of a millisecond a server may be quicker or not.
        let may_fail = ["statement_timeout", "idle", "transaction_timeout", "lock_timeout", "role", "local_preload"];
        for (number, setting) in settings.iter().enumerate() {
            let is_listed = names.contains(&format!("t{number}").as_str());
            let is_told = remarks.contains(&format!("\\\"d{number}\\\""));
            assert!(is_listed || is_told, "{setting}: {remarks}");
            assert!(is_listed || may_fail.iter().any(|one| setting.starts_with(one)), "{setting}: {remarks}");
        }
        assert!(remarks.contains("act as \\\"mallory\\\""), "{remarks}");
        let left_out = if version >= 17 { &["unloadable", "raising", "sleeping"][..] } else { &["unloadable"] };
        for name in left_out {
            assert!(remarks.contains(&format!("\\\"{name}\\\"")), "{name}: {remarks}");
        }
        run(&["snapshot", "take", "--dir", "snapshots"]);
        // What these databases have cannot be read: a restore says so with its status, doctor with a line.
        for command in [&["restore", "--dir", "snapshots", "--dry-run"][..], &["doctor"]] {
            let output = servers::output_of(server.command(command).env("PGCONNECT_TIMEOUT", "2"));
            assert!((0..=3).contains(&output.status), "{command:?}: {}\n{}", output.stdout, output.stderr);
        }
    }
}

#[test]
fn a_login_that_never_ends_is_left_with_control_c() {
    let Some((version, _)) = servers::servers().into_iter().rfind(|(version, _)| *version >= 17) else {
        untested!(machine: "no server has triggers on login");
    };
    let server = servers::start(version, &[]);
    server.psql("CREATE DATABASE sleeping");
    server.psql_in(
        "sleeping",
        "CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); END $$; \
         CREATE EVENT TRIGGER e ON login EXECUTE FUNCTION f()",
    );
    for command in [&["map"][..], &["snapshot", "take"], &["restore", "--dry-run"], &["doctor"]] {
        let mut command = server.command(command);
        command.env("PGCONNECT_TIMEOUT", "500").stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let mut pgthaw = command.spawn().unwrap();
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'sleeping' AND wait_event = 'PgSleep'";
        while server.psql(asleep) == "0" && pgthaw.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_child(&pgthaw);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        pgthaw.wait().unwrap();
        server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'sleeping'");
    }
}

#[test]
fn a_database_whose_schemas_are_locked_is_given_up_at_once_and_named() {
    let mut server = servers::start(15, &[("shared_buffers", "16MB"), ("lc_messages", "C")]);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm; CREATE ROLE bob LOGIN");
    server.psql("CREATE TABLE u AS SELECT repeat('u', 900) AS body FROM generate_series(1, 800)");
    server.psql("CREATE DATABASE shop OWNER bob");
    let tables: String = (0..20)
        .map(|at| format!("CREATE TABLE t{at} AS SELECT generate_series(1, 2000); SELECT count(*) FROM t{at};"))
        .collect();
    server.psql_in("shop", &format!("CREATE EXTENSION pg_prewarm; {tables}"));
    server.psql("CHECKPOINT; SELECT pg_prewarm('u')");
    server.pgthaw(&["snapshot", "take"]).ok();
    server.restart();
    let mut bob = server.command_of("psql");
    bob.args(["-XAtqd", "shop", "-c", "CREATE SCHEMA bobs", "-c", "BEGIN", "-c", "ALTER SCHEMA bobs RENAME TO his"]);
    bob.args(["-c", "SELECT pg_sleep(600)"]);
    let mut bob = bob.env("PGUSER", "bob").stdout(std::process::Stdio::null()).spawn().unwrap();
    let holds = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'bob' AND query LIKE '%pg_sleep%'";
    servers::wait_until("the lock", || server.psql(holds) == "1");
    let restored = server.pgthaw(&["restore", "newest", "--tier", "buffers", "--json"]).ends_with(1).json();
    let log = std::fs::read_to_string(server.data_directory().with_file_name("server.log")).unwrap();
    bob.kill().unwrap();
    bob.wait().unwrap();
    let timeouts = log.matches("canceling statement due to lock timeout").count();
    // One for each connection that had begun by then.
    assert!((1..=3).contains(&timeouts), "{timeouts}: {restored:#}");
    let named = "(role \\\"bob\\\") holds RowExclusiveLock on pg_namespace in database \\\"shop\\\"";
    assert!(restored["skipped"].to_string().contains(named), "{restored:#}");
    let buffers = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('u')";
    assert!(server.psql(buffers).parse::<u64>().unwrap() > 80, "{restored:#}");
}
