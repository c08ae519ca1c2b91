//! The first hour of a stranger: Debian's own cluster with its own pg_hba.conf, no option, no PG* variable.

mod readme;
mod stock_cluster;
mod units;

use std::path::Path;

pub use stock_cluster::{StockCluster, program_for_everybody};

use crate::servers::{Home, Output};

/// Blocks of a relation in both tiers, as `map --json` has them: shared_buffers, then the page cache, where it was looked at.
fn resident_blocks(map: &Output, relation: &str) -> (u64, Option<u64>) {
    let map = map.json();
    let rows = map["relations"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == relation).unwrap_or_else(|| panic!("no {relation} in {map:#}"));
    (row["buffers_blocks"].as_u64().unwrap_or_else(|| panic!("{row:#}")), row["os_blocks"].as_u64())
}

/// One way to run a program on the server's own machine.
struct Way {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// What stands before pgthaw and its arguments. The last `SHELL` takes a command line instead.
    before: &'static [&'static str],
}

const SHELL: &str = "SHELL";

/// What root's shell has, and runuser hands on: a home and a name that are not postgres's.
const OF_ROOT: &[(&str, &str)] = &[("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root"), ("TERM", "xterm")];
const OF_CRON: &[(&str, &str)] = &[("HOME", "/var/lib/postgresql"), ("LOGNAME", "postgres"), ("SHELL", "/bin/sh")];
const OF_SYSTEMD: &[(&str, &str)] = &[
    ("HOME", "/var/lib/postgresql"),
    ("INVOCATION_ID", "9f5fd04ee9c44a25a4bf17e7e9e93b8b"),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "postgres"),
    ("SHELL", "/bin/bash"),
    ("SYSTEMD_EXEC_PID", "1"),
    ("USER", "postgres"),
];
const AS_POSTGRES: &[&str] = &["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups"];
const BY_RUNUSER: &[&str] = &["runuser", "-u", "postgres", "--"];

const WAYS: [Way; 9] = [
    Way { name: "runuser", environment: OF_ROOT, before: BY_RUNUSER },
    Way { name: "runuser, an empty PGUSER", environment: &[("PGUSER", ""), ("HOME", "/root")], before: BY_RUNUSER },
    Way { name: "su -", environment: OF_ROOT, before: &["su", "-", "postgres", "-c", SHELL] },
    Way { name: "root", environment: OF_ROOT, before: &[] },
    Way { name: "root, no environment", environment: &[], before: &[] },
    Way { name: "root's cron", environment: &[("HOME", "/root"), ("LOGNAME", "root")], before: &["sh", "-c", SHELL] },
    Way { name: "cron of postgres", environment: OF_CRON, before: AS_POSTGRES },
    Way { name: "systemd", environment: OF_SYSTEMD, before: AS_POSTGRES },
    Way { name: "postgres, no environment", environment: &[], before: AS_POSTGRES },
];

impl Way {
    fn run(&self, cluster: &StockCluster, more: &[(&str, &str)], arguments: &[&str]) -> Output {
        let environment = [self.environment, more].concat();
        match self.before {
            [before @ .., SHELL] => {
                let set: String = more.iter().map(|(name, value)| format!("{name}={value} ")).collect();
                let line = cluster.for_login_shell(&format!("{set}pgthaw {}", arguments.join(" ")));
                cluster.run(&environment, &[before, &[line.as_str()]].concat())
            }
            before => cluster.run(&environment, &[before, &["pgthaw"], arguments].concat()),
        }
    }
}

#[test]
fn a_stock_server_is_seen_and_kept_without_any_option() {
    let Some(cluster) = StockCluster::start() else { return };
    for way in &WAYS {
        let home = Home::new();
        let snapshots = [("PGTHAW_SNAPSHOTS", home.path().to_str().unwrap())];
        let run = |arguments: &[&str]| {
            let output = way.run(&cluster, &snapshots, arguments);
            assert_eq!(output.status, 0, "{}: {arguments:?}\n{}{}", way.name, output.stdout, output.stderr);
            output
        };
        let (buffers, os) = resident_blocks(&run(&["map", "--json", "--top", "0"]), "orders");
        assert!(buffers > 1000 && os.unwrap() > 1000, "{}: {buffers} buffers, {os:?} in the page cache", way.name);
        run(&["doctor", "--require", "os", "--require", "buffers"]);
        run(&["snapshot", "take"]);
        assert!(run(&["snapshot", "list"]).stdout.lines().count() > 1);
        run(&["restore", "--dry-run"]);
        run(&["evict", "-r", "orders", "--dry-run", "--tier", "os"]);
    }
}

/// `runuser -u` leaves root's HOME to postgres, who may not write there.
#[test]
fn who_was_given_another_users_home_keeps_snapshots_in_his_own() {
    let Some(cluster) = StockCluster::start() else { return };
    let _kept = readme::DefaultSnapshots::of(&cluster);
    let way = &WAYS[0];
    let taken = way.run(&cluster, &[], &["snapshot", "take", "--json"]).ok().json();
    let path = taken["path"].as_str().unwrap_or_else(|| panic!("{taken:#}")).to_owned();
    assert!(path.starts_with("/var/lib/postgresql/.local/state/pgthaw/snapshots/"), "{path}");
    assert_eq!(way.run(&cluster, &[], &["restore", "--dry-run"]).status, 0);
    // psql's own way of asking for it finds the same one.
    let listed = WAYS[2].run(&cluster, &[], &["snapshot", "list"]).ok().stdout;
    assert!(listed.contains(Path::new(&path).file_stem().unwrap().to_str().unwrap()), "{listed}");
}

/// Who copies what is told gets there.
#[test]
fn root_is_told_where_the_servers_owner_keeps_snapshots() {
    let Some(cluster) = StockCluster::start() else { return };
    let kept = readme::DefaultSnapshots::of(&cluster);
    let home = Home::new();
    let as_root = |command: &[&str]| cluster.run(&[("HOME", home.path().to_str().unwrap())], command);
    let directory = "/var/lib/postgresql/.local/state/pgthaw/snapshots";
    WAYS[0].run(&cluster, &[], &["snapshot", "take"]).ok();
    for (arguments, status) in
        [(&["restore", "--dry-run"][..], 2), (&["hydrate"], 0), (&["snapshot", "show"], 2), (&["snapshot", "list"], 0)]
    {
        let told = as_root(&[&["pgthaw"], arguments].concat()).ends_with(status);
        let command = format!("pgthaw {} --dir {directory}", arguments.join(" "));
        assert!(format!("{}{}", told.stdout, told.stderr).contains(&command), "{told:?}");
        as_root(&["sh", "-c", &command]).ok();
    }
    // The reverse: nobody but root sees what is in root's home.
    let empty = [("XDG_STATE_HOME", "/var/lib/postgresql/no-such-state")];
    let told = WAYS[0].run(&cluster, &empty, &["snapshot", "show"]).ends_with(2).stderr;
    assert!(told.contains(&format!("pgthaw snapshot show --dir {directory}")), "{told}");
    drop(kept);
    let told = WAYS[0].run(&cluster, &empty, &["restore"]).ends_with(2).stderr;
    let port = cluster.port_option();
    assert!(told.contains(&format!("if root took one, it is in root's home: `sudo pgthaw restore{port}`\n")), "{told}");
}

#[test]
fn a_stranger_is_told_his_own_name_and_one_with_a_role_sees_what_sql_shows() {
    let Some(cluster) = StockCluster::start() else { return };
    let home = Home::new();
    let environment = [("HOME", home.path().to_str().unwrap()), ("USER", "root")];
    let as_nobody = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "pgthaw"];
    let run = |arguments: &[&str]| cluster.run(&environment, &[&as_nobody, arguments].concat());

    let refused = run(&["map"]).ends_with(3);
    assert!(refused.stderr.contains("role \"nobody\" does not exist"), "{}", refused.stderr);
    assert!(refused.stderr.contains("sudo -u postgres pgthaw map"), "{}", refused.stderr);
    // A command that is told can be copied.
    let refused = run(&["map", "-U", "postgres", "--top", "3"]).ends_with(3).stderr;
    let port = cluster.port_option();
    assert!(refused.contains(&format!("sudo -u postgres pgthaw map --top 3{port}`,")), "{refused}");
    // As psql has it.
    let psql = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "psql", "-c", "SELECT 1"];
    assert!(cluster.run(&environment, &psql).stderr.contains("role \"nobody\" does not exist"));

    cluster.psql("CREATE ROLE nobody LOGIN");
    cluster.psql("GRANT pg_monitor TO nobody");
    // psql goes to the database that is called like the user; a cluster is looked at from any.
    let map = run(&["map", "--json", "--top", "0"]).ok();
    let (buffers, os) = resident_blocks(&map, "orders");
    assert!(buffers > 1000 && os.is_none(), "{buffers} buffers, {os:?} in the page cache");
    let text = run(&["map"]).ok();
    assert!(format!("{}{}", text.stdout, text.stderr).contains("page cache"), "{}{}", text.stdout, text.stderr);
}
