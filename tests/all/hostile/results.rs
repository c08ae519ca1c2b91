//! A results server that others use too: nothing that a third role has put into its schema runs when results are read or written, even
//! if that role may add nothing any more.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use pgthaw_lab::results::{Place, ServerPlace, Store};

use crate::bench;
use crate::results::wait;
use crate::results_import::transactions;
use crate::servers::{self, Home, Output, TestServer};
use crate::synthetic_run;

/// Of mallory's: each makes mallory a superuser when a superuser runs it.
const CODE: &str = "
    CREATE SCHEMA his AUTHORIZATION mallory; GRANT USAGE ON SCHEMA his TO PUBLIC;
    SET SESSION AUTHORIZATION mallory;
    CREATE FUNCTION his.seize() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = session_user) THEN
            RESET ROLE; ALTER ROLE mallory SUPERUSER;
        END IF; RETURN 'x'; EXCEPTION WHEN OTHERS THEN RETURN 'x'; END $$;
    CREATE FUNCTION his.constant() RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN PERFORM his.seize(); RETURN 'x'; END $$;
    CREATE FUNCTION his.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM his.seize(); RETURN NULL; END $$;
    CREATE FUNCTION his.event() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM his.seize(); END $$;
    RESET SESSION AUTHORIZATION;
";

/// What was planted: by whom, and what the refusal names.
struct Plant {
    name: &'static str,
    /// What mallory could do once.
    granted: &'static str,
    /// What he did then.
    planted: &'static str,
    /// What the superuser has done since.
    since: &'static str,
    told: &'static str,
}

const CREATE: &str = "GRANT USAGE, CREATE ON SCHEMA pgthaw TO mallory";
const REVOKE: &str = "REVOKE CREATE ON SCHEMA pgthaw FROM mallory";
const TRIGGER: &str =
    "GRANT USAGE ON SCHEMA pgthaw TO mallory; GRANT TRIGGER, REFERENCES ON ALL TABLES IN SCHEMA pgthaw TO mallory";
const NO_TRIGGER: &str = "REVOKE TRIGGER, REFERENCES ON ALL TABLES IN SCHEMA pgthaw FROM mallory";

const fn plant(
    name: &'static str,
    granted: &'static str,
    planted: &'static str,
    since: &'static str,
    told: &'static str,
) -> Plant {
    Plant { name, granted, planted, since, told }
}

const BY_MALLORY: &str = "belongs to mallory";
const NOT_OURS: &str = "was not created by pgthaw";

// Text search parsers and templates are missing: they have no owner, and only a superuser creates them.
const PLANTS: [Plant; 42] = [
    plant("table", CREATE, "CREATE TABLE pgthaw.more (i int DEFAULT length(his.seize()))", REVOKE, BY_MALLORY),
    plant("view", CREATE, "CREATE VIEW pgthaw.more AS SELECT his.seize()", REVOKE, BY_MALLORY),
    plant("materialized", CREATE, "CREATE MATERIALIZED VIEW pgthaw.more AS SELECT 1", REVOKE, BY_MALLORY),
    plant("sequence", CREATE, "CREATE SEQUENCE pgthaw.more", REVOKE, BY_MALLORY),
    plant("function", CREATE, "CREATE FUNCTION pgthaw.max(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'", REVOKE, BY_MALLORY),
    plant("aggregate", CREATE, "CREATE AGGREGATE pgthaw.count(*) (SFUNC = int8inc, STYPE = int8, INITCOND = '0')", REVOKE, BY_MALLORY),
    plant("operator", CREATE, "CREATE OPERATOR pgthaw.= (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq)", REVOKE, BY_MALLORY),
    plant("type", CREATE, "CREATE TYPE pgthaw.more AS (i int)", REVOKE, BY_MALLORY),
    plant("enum", CREATE, "CREATE TYPE pgthaw.more AS ENUM ('a')", REVOKE, BY_MALLORY),
    plant("domain", CREATE, "CREATE DOMAIN pgthaw.json AS text CHECK (his.seize() = 'x')", REVOKE, BY_MALLORY),
    plant("collation", CREATE, "CREATE COLLATION pgthaw.more FROM \"C\"", REVOKE, BY_MALLORY),
    plant("conversion", CREATE, "CREATE CONVERSION pgthaw.more FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8", REVOKE, BY_MALLORY),
    plant("search", CREATE, "CREATE TEXT SEARCH CONFIGURATION pgthaw.more (COPY = pg_catalog.simple)", REVOKE, BY_MALLORY),
    plant("dictionary", CREATE, "CREATE TEXT SEARCH DICTIONARY pgthaw.more (TEMPLATE = pg_catalog.simple)", REVOKE, BY_MALLORY),
    plant("procedure", CREATE, "CREATE PROCEDURE pgthaw.more() LANGUAGE sql AS 'SELECT 1'", REVOKE, BY_MALLORY),
    plant("range", CREATE, "CREATE TYPE pgthaw.more AS RANGE (SUBTYPE = text)", REVOKE, BY_MALLORY),
    plant("foreign", "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; GRANT USAGE ON FOREIGN SERVER s TO mallory; GRANT USAGE, CREATE ON SCHEMA pgthaw TO mallory",
        "CREATE FOREIGN TABLE pgthaw.more (i text DEFAULT his.seize()) SERVER s", REVOKE, BY_MALLORY),
    plant("statistics", CREATE, "CREATE TABLE his.more (a int, b int); CREATE STATISTICS pgthaw.more ON a, b FROM his.more", REVOKE, BY_MALLORY),
    plant("partitioned", CREATE, "CREATE TABLE pgthaw.more (i int) PARTITION BY RANGE (i)", REVOKE, BY_MALLORY),
    plant("partition", CREATE, "CREATE TABLE his.whole (i int) PARTITION BY RANGE (i); CREATE TABLE pgthaw.more PARTITION OF his.whole DEFAULT", REVOKE, BY_MALLORY),
    // Only a superuser creates operator families and classes. A family can be handed over, and a class can use mallory's function.
    plant("family", "CREATE OPERATOR FAMILY pgthaw.more USING btree; ALTER OPERATOR FAMILY pgthaw.more USING btree OWNER TO mallory", "SELECT 1", "SELECT 1", BY_MALLORY),
    plant("class", "SELECT 1", "CREATE FUNCTION his.compare(text, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 0'",
        "CREATE OPERATOR CLASS pgthaw.more FOR TYPE text USING btree AS FUNCTION 1 his.compare(text, text)", BY_MALLORY),
    plant("trigger", TRIGGER, "CREATE TRIGGER t AFTER INSERT OR UPDATE ON pgthaw._sqlx_migrations EXECUTE FUNCTION his.fire()", NO_TRIGGER, BY_MALLORY),
    plant("builtin", TRIGGER, "CREATE TRIGGER t BEFORE UPDATE ON pgthaw.sweeps FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()", NO_TRIGGER, NOT_OURS),
    plant("reference", TRIGGER, "CREATE TABLE his.r (id text REFERENCES pgthaw.sweeps ON DELETE CASCADE);
        CREATE CONSTRAINT TRIGGER t AFTER DELETE ON his.r DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION his.fire()", NO_TRIGGER, BY_MALLORY),
    plant("mayadd", CREATE, "SELECT 1", "SELECT 1", "can be added to by mallory"),
    plant("maytrigger", TRIGGER, "SELECT 1", "SELECT 1", "can be given triggers by mallory"),
    plant("mayrefer", "GRANT REFERENCES (id) ON pgthaw.sweeps TO PUBLIC", "SELECT 1", "SELECT 1", "can be given triggers by everybody"),
    plant("owner", "ALTER TABLE pgthaw.sweeps OWNER TO mallory", "SELECT 1", "SELECT 1", BY_MALLORY),
    plant("schema", "ALTER SCHEMA pgthaw OWNER TO mallory", "SELECT 1", "SELECT 1", "schema pgthaw belongs to mallory"),
    // What was his, and was handed over as it was.
    plant("default", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "ALTER TABLE pgthaw.sweeps ADD more text DEFAULT his.seize()",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", BY_MALLORY),
    plant("generated", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "ALTER TABLE pgthaw.sweeps ADD more text GENERATED ALWAYS AS (his.constant()) STORED",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", BY_MALLORY),
    plant("check", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "ALTER TABLE pgthaw.sweeps ADD CHECK (his.seize() = 'x')",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", BY_MALLORY),
    plant("index", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE, CREATE ON SCHEMA pgthaw TO mallory", "CREATE INDEX ON pgthaw.sweeps ((his.constant()))",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER; REVOKE CREATE ON SCHEMA pgthaw FROM mallory", BY_MALLORY),
    plant("rule", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "CREATE RULE r AS ON INSERT TO pgthaw.sweeps DO ALSO SELECT 1",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", NOT_OURS),
    plant("policy", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "CREATE POLICY p ON pgthaw.sweeps USING (true)",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", NOT_OURS),
    plant("child", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "CREATE TABLE his.child () INHERITS (pgthaw.sweeps)",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", BY_MALLORY),
    plant("measured", "ALTER TABLE pgthaw.sweeps OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory", "CREATE STATISTICS his.more ON id, digest FROM pgthaw.sweeps",
        "ALTER TABLE pgthaw.sweeps OWNER TO CURRENT_USER", BY_MALLORY),
    plant("attached", "ALTER TABLE pgthaw._sqlx_migrations OWNER TO mallory; GRANT USAGE ON SCHEMA pgthaw TO mallory",
        "CREATE TABLE his.whole (LIKE pgthaw._sqlx_migrations) PARTITION BY RANGE (version); ALTER TABLE his.whole ATTACH PARTITION pgthaw._sqlx_migrations DEFAULT",
        "ALTER TABLE pgthaw._sqlx_migrations OWNER TO CURRENT_USER", BY_MALLORY),
    plant("body", "CREATE VIEW pgthaw.more AS SELECT 1::text AS x; ALTER VIEW pgthaw.more OWNER TO mallory; GRANT USAGE, CREATE ON SCHEMA pgthaw TO mallory",
        "CREATE OR REPLACE VIEW pgthaw.more AS SELECT his.seize() AS x", "ALTER VIEW pgthaw.more OWNER TO CURRENT_USER; REVOKE CREATE ON SCHEMA pgthaw FROM mallory", BY_MALLORY),
    plant("event", "SELECT 1", "SELECT 1", "CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION his.event()", BY_MALLORY),
    plant("dbowner", "ALTER SCHEMA pgthaw OWNER TO pg_database_owner; ALTER DATABASE dbowner OWNER TO mallory", "SELECT 1", "SELECT 1", "schema pgthaw belongs to mallory"),
];

/// The commands that open a results server, with what they need beside its address; `assert_nothing_is_sent` has the others.
const COMMANDS: [&[&str]; 9] = [
    &["results"],
    &["results", "show"],
    &["results", "compare", "clients=1", "clients=2"],
    &["results", "show", "--time"],
    &["results", "compare"],
    &["results", "export"],
    &["results", "drop", "x"],
    &["report", "newest", "--output", "out.html"],
    &["serve", "--listen", "0"],
];

fn address(server: &TestServer, user: &str, database: &str) -> String {
    let port = server.psql("SHOW port");
    format!("postgres://{user}@/{database}?host={}&port={port}", server.cluster.socket_directory().display())
}

fn place(address: &str) -> ServerPlace {
    match address.parse().unwrap() {
        Place::Server(server) => server,
        Place::File(file) => panic!("{} is no server", file.display()),
    }
}

fn is_superuser(server: &TestServer) -> bool {
    server.psql("SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'") == "t"
}

/// A server with a database `base` whose schema pgthaw has made, and a role mallory with code of his own in another schema.
fn start(version: u32) -> (TestServer, String) {
    let server = servers::start(version, &[("max_prepared_transactions", "5")]);
    let user = server.psql("SELECT current_user");
    server.psql("CREATE ROLE mallory LOGIN; CREATE DATABASE base");
    server.psql_in("base", CODE);
    let (run, trials) = synthetic_run::make(1, 5);
    wait(async {
        let store = Store::connect_server(&place(&address(&server, &user, "base"))).await.unwrap();
        store.save_whole_sweep(&run, &trials).await.unwrap();
        store.close().await;
    });
    (server, user)
}

fn as_mallory(sql: &str) -> String {
    format!("SET SESSION AUTHORIZATION mallory; {sql}")
}

#[track_caller]
fn assert_refused(output: &Output, told: &str, what: &str) {
    let printed = format!("{}\n{}", output.stdout, output.stderr);
    assert!(
        output.status == 2 && printed.contains("is not safe to use") && printed.contains(told),
        "{what}: {output:?}"
    );
}

/// A study is refused before it begins. An import stays in the local file.
fn assert_nothing_is_sent(server: &TestServer, version: u32, results: &str, Plant { name, told, .. }: &Plant) {
    let (home, place) = (Home::new(), bench::Place::new());
    let study = ["bench", "warmup", "scale=1", "seconds=1", "--results", results];
    let begun = servers::output_of(&mut place.command(&home, version, &study));
    assert_refused(&begun, told, &format!("bench after {name}"));
    assert_eq!(fs::read_dir(place.0.path()).unwrap().count(), 0, "bench after {name}: {begun:?}");
    fs::write(home.path().join("pgbench_log.7"), transactions(1_650_260_550, 3, 100)).unwrap();
    let import = ["results", "import", "pgbench_log.7", "clients=4", "--results", results];
    let imported = home.pgthaw(&import).ok().stderr;
    assert!(imported.contains("is not safe to use") && imported.contains(told), "import after {name}: {imported}");
    assert!(!is_superuser(server), "{name}");
}

test_every_version! {
    fn what_a_third_role_planted_is_refused_by_every_command(version) {
        let (server, user) = start(version);
        for (number, plant) in PLANTS.iter().enumerate() {
            let Plant { name, granted, planted, since, told } = plant;
            // The role pg_database_owner came with 14.
            if *name == "dbowner" && version < 14 {
                continue;
            }
            server.psql(&format!("CREATE DATABASE \"{name}\" TEMPLATE base"));
            let results = address(&server, &user, name);
            server.home.pgthaw(&["results", "--results", &results]).ok();
            server.psql_in(name, granted);
            server.psql_in(name, &as_mallory(planted));
            server.psql_in(name, since);
            for command in COMMANDS {
                let output = server.home.pgthaw(&[command, &["--results", &results]].concat());
                let what = format!("{command:?} after {name}");
                assert!(!is_superuser(&server), "{what}");
                assert_refused(&output, told, &what);
            }
            // These take longer, and the kind of object makes no difference to them.
            if number.is_multiple_of(8) {
                assert_nothing_is_sent(&server, version, &results, plant);
            }
        }
    }
}

test_every_version! {
    fn who_may_read_and_write_only_harms_nobody(version) {
        let (server, user) = start(version);
        let results = address(&server, &user, "base");
        // What he may do with rows does not matter, nor what he makes elsewhere of the tables.
        server.psql_in("base", "GRANT USAGE ON SCHEMA pgthaw TO mallory; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pgthaw TO mallory");
        server.psql_in("base", &as_mallory("CREATE VIEW his.v AS SELECT * FROM pgthaw.sweeps; CREATE TABLE his.t (s pgthaw.sweeps)"));
        server.home.pgthaw(&["results", "--results", &results]).ok();
        // A database whose owner has the session act as him: the superuser's rights are still there to be had.
        server.psql("CREATE DATABASE other OWNER mallory");
        server.psql_in("other", &as_mallory("CREATE SCHEMA pgthaw"));
        server.psql("ALTER DATABASE other SET role = mallory");
        let acting = server.home.pgthaw(&["results", "--results", &address(&server, &user, "other")]);
        assert_refused(&acting, "schema pgthaw belongs to mallory", "acting as mallory");
        // Plain roles: each with a store of its own, or with one of a group that they are in.
        server.psql("CREATE ROLE lab; CREATE ROLE alice LOGIN IN ROLE lab; CREATE ROLE bob LOGIN IN ROLE lab; CREATE DATABASE labs OWNER lab");
        server.psql("ALTER ROLE alice SET role = lab");
        for role in ["alice", "bob", "alice"] {
            server.home.pgthaw(&["results", "--results", &address(&server, role, "labs")]).ok();
        }
        assert_eq!(server.psql_in("labs", "SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'pgthaw'"), "lab");
        let third = server.home.pgthaw(&["results", "--results", &address(&server, "mallory", "labs")]);
        assert_refused(&third, "schema pgthaw belongs to lab", "of a group that he is not in");
    }
}

test_every_version! {
    fn what_is_being_planted_is_waited_for(version) {
        let (server, user) = start(version);
        for (name, granted, begun, since) in [
            ("one", CREATE, "CREATE TABLE pgthaw.more (i int)", REVOKE),
            // A REVOKE on the table would wait for him.
            ("two", TRIGGER, "CREATE TRIGGER t AFTER INSERT ON pgthaw.sweeps EXECUTE FUNCTION his.fire()", "REVOKE USAGE ON SCHEMA pgthaw FROM mallory"),
        ] {
            server.psql(&format!("CREATE DATABASE \"{name}\" TEMPLATE base"));
            let results = address(&server, &user, name);
            server.psql_in(name, granted);
            let mut psql = server.command_of("psql");
            psql.args(["-XAtq", "-U", "mallory", "-d", name]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut open = psql.spawn().unwrap();
            let mut pipe = open.stdin.take().unwrap();
            pipe.write_all(format!("BEGIN; {begun}; SELECT 'begun';\n").as_bytes()).unwrap();
            let mut said = BufReader::new(open.stdout.take().unwrap()).lines();
            assert_eq!(said.next().unwrap().unwrap(), "begun");
            server.psql_in(name, since);
            if name == "one" {
                let waited = server.home.pgthaw(&["results", "--results", &results]);
                assert_refused(&waited, "may be adding objects to the schema pgthaw for mallory", name);
            }
            // He ends it while it is waited for.
            let mut list = server.home.command(&["results", "--results", &results]);
            let list = list.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(400));
            pipe.write_all(b"COMMIT;\n").unwrap();
            drop(pipe);
            open.wait().unwrap();
            let listed = Output::from(list.wait_with_output().unwrap());
            assert!(listed.status == 2 && listed.stderr.contains("is not safe to use"), "{name}: {listed:?}");
            assert!(!is_superuser(&server), "{name}");
        }
        // One that is prepared may be committed at any time.
        server.psql("CREATE DATABASE three TEMPLATE base");
        server.psql_in("three", CREATE);
        server.psql_in("three", &as_mallory("BEGIN; CREATE TABLE pgthaw.more (i int); PREPARE TRANSACTION 'later'"));
        server.psql_in("three", REVOKE);
        let prepared = server.home.pgthaw(&["results", "--results", &address(&server, &user, "three")]);
        assert_refused(&prepared, "prepared transaction later", "prepared");
        server.psql_in("three", "ROLLBACK PREPARED 'later'");
    }
}

test_every_version! {
    fn what_is_planted_while_a_store_is_open_does_not_run_when_it_is_written_to(version) {
        let (server, user) = start(version);
        wait(async {
            let store = Store::connect_server(&place(&address(&server, &user, "base"))).await.unwrap();
            server.psql_in("base", TRIGGER);
            server.psql_in("base", &as_mallory("CREATE TRIGGER t AFTER INSERT OR UPDATE OR DELETE ON pgthaw.sweeps EXECUTE FUNCTION his.fire()"));
            server.psql_in("base", NO_TRIGGER);
            let (mut run, _) = synthetic_run::make(1, 5);
            run.id = "20260101-000000-bbbb".into();
            let refused = store.save_whole_sweep(&run, &[]).await;
            assert!(refused.unwrap_err().to_string().contains("is not safe to use"));
        });
        assert!(!is_superuser(&server));
    }
}
