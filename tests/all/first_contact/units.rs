//! The systemd units: as `systemd-analyze` reads them, and their own command lines as systemd would run them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{StockCluster, resident_blocks};
use crate::servers::{Home, Output, output_of};

/// The keys of a unit's `[Service]`, each with its values in order; specifiers are filled in.
struct Service(BTreeMap<String, Vec<String>>);

fn unit_files() -> Vec<PathBuf> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("packaging/systemd");
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

impl Service {
    fn read(unit: &str, instance: &str, state: &Path) -> Service {
        let file = unit_files().into_iter().find(|file| file.ends_with(unit)).unwrap();
        let text = fs::read_to_string(file).unwrap();
        let (_, service) = text.split_once("[Service]\n").unwrap();
        let service = service.split("\n[").next().unwrap();
        let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in
            service.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='))
        {
            let value = value.replace("%i", instance).replace("%S", state.to_str().unwrap());
            assert!(!value.contains('%'), "{key}={value}: this test knows no such specifier");
            keys.entry(key.to_owned()).or_default().push(value);
        }
        Service(keys)
    }

    fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    fn one(&self, key: &str) -> &str {
        &self.all(key)[0]
    }

    /// Runs the unit: its conditions, then its command. `None`: a condition kept it from running.
    fn run(&self, cluster: &StockCluster, state: &Path) -> Option<Output> {
        let user = self.one("User");
        let state = state.join(self.one("StateDirectory"));
        fs::create_dir_all(&state).unwrap();
        assert!(output_of(Command::new("chown").arg(user).arg(&state)).status == 0);
        for condition in self.all("ExecCondition") {
            match self.execute(cluster, &state, condition) {
                // As systemd has it: up to 254 the unit is skipped.
                skipped if (1..=254).contains(&skipped.status) => return None,
                passed => passed.ok(),
            };
        }
        Some(self.execute(cluster, &state, self.one("ExecStart")))
    }

    fn execute(&self, cluster: &StockCluster, state: &Path, line: &str) -> Output {
        let words = shlex::split(line).unwrap();
        let program = match words[0].as_str() {
            "/usr/bin/pgthaw" => cluster.program().display().to_string(),
            other => other.to_owned(),
        };
        let user = self.one("User");
        let mut become_user = vec!["setpriv", "--reuid", user, "--regid", user, "--init-groups"];
        if self.all("NoNewPrivileges").iter().any(|value| value == "yes") {
            become_user.push("--no-new-privs");
        }
        let home = format!("/var/lib/{}", if user == "postgres" { "postgresql" } else { user });
        let mut environment = vec![
            ("LANG", "C.UTF-8"),
            ("HOME", &home),
            ("LOGNAME", user),
            ("USER", user),
            ("SHELL", "/bin/bash"),
            ("INVOCATION_ID", "0fb35c7f6f1c4c8da06eb58ca4ad3d7d"),
            ("STATE_DIRECTORY", state.to_str().unwrap()),
        ];
        environment.extend(self.all("Environment").iter().map(|set| set.split_once('=').unwrap()));
        let words = words[1..].iter().map(String::as_str);
        let command: Vec<&str> = become_user.into_iter().chain([program.as_str()]).chain(words).collect();
        cluster.run(&environment, &command)
    }
}

#[test]
fn the_units_snapshot_and_restore_in_their_own_environment() {
    let Some(cluster) = StockCluster::start() else { return };
    let home = Home::new();
    let read = |unit| Service::read(unit, &cluster.instance(), home.path());
    let (take, restore) = (read("pgthaw-snapshot@.service"), read("pgthaw-restore@.service"));
    let buffers = || {
        let psql = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('orders')";
        cluster.psql(psql).parse::<u64>().unwrap()
    };

    // The first start has no snapshot to restore: those of another cluster are none of this one's.
    let others = home.path().join("pgthaw/42");
    fs::create_dir_all(&others).unwrap();
    fs::write(others.join("20261121-233005.123.1-timer.parquet"), "another cluster's").unwrap();
    let first = restore.run(&cluster, home.path()).expect("it decides by itself").ok();
    assert!(first.stdout.contains("there is no snapshot in"), "{}", first.stdout);
    let before = buffers();
    take.run(&cluster, home.path()).expect("a running server is no reason to skip").ok();
    cluster.control("stop");
    assert!(take.run(&cluster, home.path()).is_none(), "a server that is down is no failure of the timer's");
    cluster.control("start");
    assert!(buffers() < before / 10);
    let restored = restore.run(&cluster, home.path()).expect("there is a snapshot").ok();
    assert!(buffers() > before * 9 / 10, "{} of {before} buffers: {}", buffers(), restored.stdout);

    // docs/systemd.md's way to look at them.
    let snapshots = home.path().join("pgthaw");
    let look = [("PGTHAW_SNAPSHOTS", snapshots.to_str().unwrap())];
    let listed = cluster.run(&look, &["runuser", "-u", "postgres", "--", "pgthaw", "snapshot", "list"]).ok();
    assert!(listed.stdout.contains("timer"), "{}", listed.stdout);
    let map = cluster.run(&[], &["runuser", "-u", "postgres", "--", "pgthaw", "map", "--json", "--top", "0"]).ok();
    assert!(resident_blocks(&map, "orders").0 > before * 9 / 10);
}

#[test]
fn systemd_reads_the_units_without_a_word() {
    if output_of(Command::new("sh").args(["-c", "command -v systemd-analyze"])).status != 0 {
        untested!(machine: "there is no systemd-analyze: it comes with systemd");
    }
    let directory = Home::new();
    let instances = unit_files().into_iter().map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        // Where the program is that the package would install.
        let text =
            text.replace("/usr/bin/pgthaw", env!("CARGO_BIN_EXE_pgthaw")).replace("/usr/bin/pg_isready", "/bin/true");
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::write(directory.path().join(name), text).unwrap();
        name.replace('@', "@15-main")
    });
    let instances: Vec<String> = instances.collect();
    assert_eq!(instances.len(), 4);
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no", "--recursive-errors=no"]).args(&instances).current_dir(directory.path());
    let said = output_of(verify.env("SYSTEMD_UNIT_PATH", format!("{}:", directory.path().display()))).ok();
    // Other packages' units are none of ours.
    let ours: Vec<&str> = said.stderr.lines().filter(|line| line.contains("pgthaw-")).collect();
    assert_eq!(ours, Vec::<&str>::new(), "{}", said.stderr);
}
