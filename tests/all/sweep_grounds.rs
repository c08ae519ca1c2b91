//! `bench` on file systems that it makes, and with servers of several versions; the studies in lab/.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::bench::{Place, text};
use super::servers::{self, Home, Output};
use super::sweep::{run_until, spec, sweep, trials};

/// Where file systems can be made; elsewhere the refusal says what to do.
fn can_mount() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists()
}

fn is_named(listed: &str, place: &Place) -> bool {
    listed.contains(place.0.path().to_str().unwrap())
}

#[track_caller]
fn assert_unmounted(place: &Place) {
    assert!(!is_named(&fs::read_to_string("/proc/self/mountinfo").unwrap(), place));
    let attached = Command::new("losetup").arg("--all").output().unwrap();
    let attached = String::from_utf8(attached.stdout).unwrap();
    assert!(!is_named(&attached, place), "{attached}");
}

fn kinds(trial: &Value) -> Vec<&str> {
    trial["verdicts"].as_array().unwrap().iter().map(|verdict| text(verdict, "/kind")).collect()
}

#[test]
fn a_trial_runs_on_the_file_system_that_it_asks_for_and_writes_no_faster_than_it_may() {
    let (home, place) = (Home::new(), Place::new());
    let study = "repeats = 1\n[points]\nclients = 4\nseconds = 3\nscript = 'tpcb-like'\nstart = 'cold'\ndisk = 'slow'\n\
                 file_system = ['native', 'own']\n[disks]\nslow = ',,,150,'\n\
                 [file_systems]\nown = { mount = 'ext4,noatime,commit=9', size = '512MiB' }\n\
                 [settings]\nmax_wal_size = '64MB'\n";
    let path = spec(&home, study);
    let child = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]);
    let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = Output::from(child.wait_with_output().unwrap());
    if !can_mount() {
        let output = output.ends_with(3);
        assert!(output.stderr.contains("root") || output.stderr.contains("loop"), "{}", output.stderr);
        untested!("{}", output.stderr);
    }
    let printed = output.ok().json();
    place.assert_nothing_is_left(pid);
    assert_unmounted(&place);
    assert_eq!(printed["sweep"]["varied"], json!(["file_system"]));
    let of = |name: &str| {
        trials(&printed)
            .iter()
            .find(|trial| trial["point"]["file_system"] == name)
            .unwrap_or_else(|| panic!("{printed}"))
    };
    let own = of("own");
    assert_eq!(own["failure"], Value::Null, "{own}");
    assert_eq!(own["start_state"]["verdict"], "cold", "{}", own["verdicts"]);
    assert!(!kinds(own).contains(&"not_in_force"), "{}", own["verdicts"]);
    assert_eq!(own["file_system"]["kind"], "ext4", "{own}");
    assert!(own["file_system"]["options"].as_array().unwrap().contains(&json!("commit=9")), "{}", own["file_system"]);
    assert_eq!(own["file_system"]["image_bytes"], 512 << 20);
    assert_eq!(of("native")["file_system"], Value::Null);
    // What was kept comes back.
    assert_eq!(home.pgthaw(&["results", "show", "--json"]).ok().json(), printed);
    // A commit is a write at least, and so is what the journal does for it.
    let writes: u64 =
        own["os_samples"].as_array().unwrap().iter().map(|second| second["device"]["writes"].as_u64().unwrap()).sum();
    assert!(writes > 0 && writes <= 4 * 150, "{writes} writes in 3 s");
    // Where it cannot be limited that is said, and it is not.
    let told = &printed["sweep"]["verdicts"];
    let is_told = told.as_array().unwrap().iter().any(|one| text(one, "/sentence").contains("limit on writes"));
    assert_eq!(is_told, Path::new("/sys/fs/cgroup/blkio").exists(), "{told}");
    // Of each trial that is without it, and to people once.
    assert_eq!(kinds(of("native")).contains(&"not_in_force"), is_told, "{}", of("native")["verdicts"]);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert_eq!(shown.matches("limit on writes").count(), usize::from(is_told), "{shown}");
}

#[test]
fn what_an_ended_run_leaves_of_a_file_system_is_taken_over_or_removed() {
    let (home, place) = (Home::new(), Place::new());
    if !can_mount() {
        untested!("file systems are made by root alone, of loop devices");
    }
    let study = |seconds: u32| {
        format!(
            "repeats = 3\n[points]\nseconds = {seconds}\nrate = 100\nstart = 'as-is'\nfile_system = 'own'\nplaces = 'apart'\n\
             [places.apart]\nwal = 'native'\ntables = 'native'\n\
             [file_systems]\nown = {{ mount = 'xfs', size = '512MiB' }}\n[settings]\nmax_wal_size = '64MB'\n"
        )
    };
    let path = spec(&home, &study(1));
    let run = || sweep(&place, &home, 15, path.to_str().unwrap(), &[]);
    // A person stops it.
    let (child, lines) = run_until(run(), 1);
    let pid = child.id();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
    drop(lines);
    Output::from(child.wait_with_output().unwrap()).ends_with(130);
    place.assert_nothing_is_left(pid);
    assert_unmounted(&place);

    // A power cut, as far as one process can have one: the same study goes on with the same image.
    let (mut child, _lines) = run_until(run(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let images = || -> Vec<PathBuf> {
        let entries = fs::read_dir(place.0.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.join("image").exists()).collect()
    };
    let left = images();
    assert_eq!(left.len(), 1);
    let (mut child, _lines) = run_until(run(), 1);
    assert_eq!(images(), left);
    child.kill().unwrap();
    child.wait().unwrap();

    // Another study has no use for it.
    fs::write(&path, study(2)).unwrap();
    let output = Output::from(run().output().unwrap()).ok();
    assert!(output.stderr.contains("removed a file system left by a killed run"), "{}", output.stderr);
    assert!(images().is_empty());
    assert_unmounted(&place);
}

#[test]
fn parts_lie_on_devices_of_their_own_each_with_its_limit() {
    let (home, place) = (Home::new(), Place::new());
    if !can_mount() {
        untested!("file systems are made by root alone, of loop devices");
    }
    fs::write(
        home.path().join("more.sql"),
        "CREATE TABLE more AS SELECT generate_series(1, 1000) AS n;\nCREATE INDEX ON more (n);\n",
    )
    .unwrap();
    let study = "repeats = 1\n[points]\nclients = 4\nseconds = 3\nscript = 'tpcb-like'\nstart = 'cold'\n\
                 file_system = 'ext4'\nplaces = ['together', 'apart']\n[disks]\nlog = ',,64KiB,100,'\n\
                 [places.apart]\nwal = 'log'\nslru = 'native'\ntables = 'native'\nindexes = 'native'\n\
                 [file_systems]\next4 = { mount = 'ext4', size = '512MiB' }\n[database]\nsetup = 'more.sql'\n\
                 [settings]\nmax_wal_size = '64MB'\n";
    let path = spec(&home, study);
    let child = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]);
    let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
    place.assert_nothing_is_left(pid);
    assert_unmounted(&place);
    let of = |name: &str| trials(&printed).iter().find(|trial| trial["point"]["places"] == name).unwrap();
    let (together, apart) = (of("together"), of("apart"));
    assert!(together.get("devices").is_none() && apart["failure"].is_null(), "{apart}");
    // All of the database is seen wherever it lies, and was out of memory.
    let total = |trial: &Value| trial["start_state"]["total_bytes"].as_u64().unwrap();
    assert!(total(apart).abs_diff(total(together)) < total(together) / 20, "{} {}", total(apart), total(together));
    assert_eq!(apart["start_state"]["verdict"], "cold", "{}", apart["verdicts"]);
    assert!(!kinds(apart).contains(&"not_in_force"), "{}", apart["verdicts"]);
    let devices = apart["devices"].as_array().unwrap();
    let parts: Vec<&str> = devices.iter().map(|one| text(one, "/part")).collect();
    assert_eq!(parts, ["rest", "wal", "slru", "tables", "indexes"]);
    let figure = |part: usize, name: &str| devices[part][name].as_f64().unwrap();
    assert!(figure(3, "reads_per_second") > 0.0 && figure(4, "reads_per_second") > 0.0, "{devices:?}");
    // It may begin with a burst of a tenth of a second.
    let writes = figure(1, "writes_per_second");
    assert!(writes > 10.0 && writes <= 110.0, "{devices:?}");
    assert_eq!(
        (&devices[1]["disk"], &devices[1]["file_system"]["read_ahead_bytes"]),
        (&json!("log"), &json!(64 << 10))
    );
    let second = &apart["os_samples"][1];
    let sum: u64 = parts.iter().map(|part| second["parts"][part]["writes"].as_u64().unwrap()).sum();
    // Each is rounded by itself.
    assert!(sum.abs_diff(second["device"]["writes"].as_u64().unwrap()) <= 3, "{second}");
    assert_eq!(home.pgthaw(&["results", "show", "--json"]).ok().json(), printed);
    let exported = home.pgthaw(&["results", "export"]).ok().stdout;
    assert!(exported.lines().any(|line| line.contains(",apart,")), "{exported}");
}

#[test]
fn a_file_system_is_made_by_commands_of_ones_own() {
    let (home, place) = (Home::new(), Place::new());
    if !can_mount() {
        untested!("file systems are made by root alone, of loop devices");
    }
    let run = |commands: &str| {
        let study = format!(
            "repeats = 1\n[points]\nclients = 2\nseconds = 2\nrate = 100\nscript = 'tpcb-like'\nfile_system = 'own'\n\
             [file_systems.own]\nsize = '512MiB'\n{commands}\n[settings]\nmax_wal_size = '64MB'\n"
        );
        let path = spec(&home, &study);
        Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap())
    };
    // The journal of ext4 on a device of its own, through which all data go.
    let printed = run("make = ['mke2fs -q -F -O journal_dev -b 4096 {log_device}', \
                       'mkfs.ext4 -q -F -b 4096 -J device={log_device} {device}']\n\
                       mount = 'mount -o noatime,commit=7,data=journal {device} {directory}'\nlog_device = '64MiB'");
    let printed = printed.ok().json();
    assert_unmounted(&place);
    let trial = &trials(&printed)[0];
    let made = &trial["file_system"];
    assert_eq!((&made["kind"], made["commands"].as_array().unwrap().len()), (&json!("ext4"), 3), "{made}");
    assert!(made["options"].as_array().unwrap().contains(&json!("commit=7")), "{made}");
    let devices = trial["devices"].as_array().unwrap();
    let log = devices.iter().find(|one| one["part"] == "log").unwrap();
    assert!(log["writes_per_second"].as_f64().unwrap() > 0.0 && log["disk"].is_null(), "{devices:?}");
    // How it is unmounted is the study's own too.
    let mount = "mount = 'mount {device} {directory}'";
    let said = home.path().join("said");
    let unmount = format!("unmount = ['touch {}', 'umount {{directory}}']", said.display());
    run(&format!("make = 'mkfs.ext4 -q -F {{device}}'\n{mount}\n{unmount}")).ok();
    assert!(said.exists());

    for (commands, status, parts) in [
        ("make = 'mkfs.ext4 -b 1 {device}'", 1, ["mkfs.ext4", "block size"]),
        ("make = 'mkfs.nothing {device}'", 3, ["there is no mkfs.nothing", "package"]),
        ("make = 'zpool create -m {directory} {name} {device}'", 3, ["z", "apt-get install zfs"]),
        ("make = 'mkfs.ext4 -q -F {device}'\nmount = 'ls {directory}'", 3, ["nothing is mounted at", "{directory}"]),
    ] {
        let mount = if commands.contains("mount =") { "" } else { mount };
        let output = run(&format!("{commands}\n{mount}")).ends_with(status);
        for part in parts {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
        assert_unmounted(&place);
    }
}

#[test]
fn each_trial_has_a_fresh_copy_of_the_database() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("make.sql"), "CREATE TABLE grown (n integer);\n").unwrap();
    // Once a session, so that a history adds the same however long it takes.
    let grow = "INSERT INTO grown SELECT generate_series(1, 200000) WHERE current_setting('grown.done', true) IS NULL;\n\
                SELECT set_config('grown.done', 'yes', false);\n";
    fs::write(home.path().join("grow.sql"), grow).unwrap();
    let own = if can_mount() {
        "file_system = ['native', 'xfs']\n[file_systems]\nxfs = { mount = 'xfs', size = '2GiB' }\n"
    } else {
        ""
    };
    let study = format!(
        "repeats = 3\nfresh_copy = true\n[points]\nseconds = 1\nrate = 100\nscript = 'grow.sql'\n{own}\
         [database]\npgbench = false\nsetup = 'make.sql'\n"
    );
    let path = spec(&home, &study);
    let child = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]);
    let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
    place.assert_nothing_is_left(pid);
    assert_unmounted(&place);
    for file_system in ["native", "xfs"] {
        let of = |repeat: u32| {
            let is_meant = |trial: &&Value| trial["point"]["file_system"] == file_system && trial["repeat"] == repeat;
            trials(&printed).iter().find(is_meant)
        };
        let (Some(first), Some(last)) = (of(1), of(3)) else {
            assert!(!can_mount());
            continue;
        };
        assert!(first["failure"].is_null() && last["failure"].is_null(), "{first} {last}");
        let bytes = |trial: &Value| trial["start_state"]["total_bytes"].as_u64().unwrap();
        // Else the third would have what three histories and two trials have added.
        assert!(bytes(last) < 2 * bytes(first), "{} {}", bytes(first), bytes(last));
        let way = text(last, "/fresh_copy/way");
        assert!(if file_system == "xfs" { way == "reflink" } else { ["reflink", "copy"].contains(&way) }, "{way}");
        assert!(last["fresh_copy"]["bytes"].as_u64() > Some(5_000_000), "{}", last["fresh_copy"]);
    }
    let path = spec(&home, "fresh_copy = true\n[points]\nstart = 'as-is'\n");
    let output = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &[]).output().unwrap()).ends_with(2);
    assert!(
        output.stderr.contains("fresh_copy") && output.stderr.contains("another value for points.start"),
        "{}",
        output.stderr
    );
}

#[test]
fn servers_of_several_versions_are_measured_by_one_pgbench() {
    let (home, place) = (Home::new(), Place::new());
    let newest = servers::newest();
    let bin_dirs = [15, newest].map(|version| servers::programs(version).bin_dir().display().to_string());
    let study = format!(
        "repeats = 1\n[points]\nseconds = 2\nrate = 100\nstart = 'restored'\nserver = ['old', 'new']\n[servers]\nold = '{}'\nnew = '{}'\n",
        bin_dirs[0], bin_dirs[1]
    );
    let path = spec(&home, &study);
    let child = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]);
    let child = { child }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let printed = Output::from(child.wait_with_output().unwrap()).ok().json();
    place.assert_nothing_is_left(pid);
    assert!(
        text(&printed, "/sweep/pgbench_version").contains(&format!("(PostgreSQL) {newest}")),
        "{}",
        printed["sweep"]
    );
    assert_eq!(trials(&printed).len(), 2);
    for trial in trials(&printed) {
        assert_eq!(trial["failure"], Value::Null, "{trial}");
        assert!(text(trial, "/command").contains(&bin_dirs[1]), "{}", trial["command"]);
        // From a snapshot of its own server.
        assert_eq!(text(trial, "/start_state/verdict"), "restored", "{trial}");
        let major = if trial["point"]["server"] == "new" { newest } else { 15 };
        assert!(text(trial, "/server_version").starts_with(&major.to_string()), "{trial}");
        // PostgreSQL has this view since 16.
        let is_new = trial["statistics"].get("pg_stat_io").is_some();
        assert_eq!(is_new, trial["point"]["server"] == "new", "{}", trial["statistics"]);
    }
}

#[test]
fn transactions_above_the_limit_are_late_and_programs_of_the_study_make_its_database() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("slow.sql"), "SELECT pg_sleep(0.01);\nUPDATE pgbench_branches SET bbalance = 1;\n")
        .unwrap();
    // No shell reads the name or the arguments.
    let (name, said) = ("./load; touch $(x).sh", home.path().join("said"));
    let script =
        format!("#!/bin/sh\necho \"$PGDATABASE $PGUSER $PGTHAW_SCALE ${{PGHOST:+socket}} $1\" >'{}'\n", said.display());
    fs::write(home.path().join(name), script).unwrap();
    fs::set_permissions(home.path().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    let study = format!(
        "repeats = 1\n[points]\nclients = 2\nseconds = 2\nrate = 40\nscript = 'slow.sql'\nlatency_limit_ms = ['none', 5]\n\
         [database]\ncommands = [['{name}', '$(id) `id` ; |']]\n"
    );
    let path = spec(&home, &study);
    let child = sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]);
    let printed = Output::from({ child }.output().unwrap()).ok().json();
    assert_eq!(fs::read_to_string(&said).unwrap(), "pgthaw_bench_1 pgthaw_workload 1 socket $(id) `id` ; |\n");
    let of = |limit: Value| trials(&printed).iter().find(|one| one["point"]["latency_limit_ms"] == limit).unwrap();
    assert_eq!((&of(Value::Null)["late"], &of(Value::Null)["skipped"]), (&json!(0), &json!(0)));
    let limited = of(json!(5.0));
    // One that is skipped has a latency above the limit too, and pgbench counts it there.
    assert!(limited["transactions"].as_u64() <= limited["late"].as_u64(), "{limited}");
    assert!(text(limited, "/command").contains("--latency-limit=5"), "{}", limited["command"]);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("late"), "{shown}");
    let tables = limited["statistics"]["pg_stat_user_tables"].as_array().unwrap();
    let branches = tables.iter().find(|table| table["key"]["relname"] == "pgbench_branches").unwrap();
    assert!(branches["added"]["n_tup_upd"].as_f64().unwrap() > 0.0, "{branches}");

    for (command, part) in [
        ("[]", "a program is missing"),
        ("['']", "a program is missing"),
        ("['-S', 'sh']", "is not a program"),
        ("['A=b']", "is not a program"),
        ("['./no-such']", "no-such"),
    ] {
        let path = spec(&home, &format!("[database]\ncommands = [{command}]\n"));
        let output = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &[]).output().unwrap()).ends_with(2);
        assert!(output.stderr.contains("database.commands") && output.stderr.contains(part), "{}", output.stderr);
    }
    for limit in ["0", "-1", "'fast'", "[]"] {
        let path = spec(&home, &format!("[points]\nlatency_limit_ms = {limit}\n"));
        let output = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &[]).output().unwrap()).ends_with(2);
        assert!(output.stderr.contains("points.latency_limit_ms"), "{}", output.stderr);
    }
}

#[test]
fn databases_made_in_several_ways_are_measured_side_by_side() {
    let (home, place) = (Home::new(), Place::new());
    fs::write(home.path().join("shop.sql"), "CREATE TABLE shop AS SELECT generate_series(1, 1000 * :scale) AS id;\n")
        .unwrap();
    fs::write(home.path().join("look.sql"), "SELECT count(*) FROM shop;\n").unwrap();
    let study = "repeats = 1\n[points]\nseconds = 2\nscript = 'look.sql'\ndatabase = ['default', 'shop']\n\
                 [database]\nsetup = 'shop.sql'\ninitialize = ['--partitions=2']\n\
                 [databases.shop]\npgbench = false\nsetup = 'shop.sql'\n";
    let path = spec(&home, study);
    let printed = Output::from(sweep(&place, &home, 15, path.to_str().unwrap(), &["--json"]).output().unwrap());
    let printed = printed.ok().json();
    assert_eq!(printed["sweep"]["varied"], json!(["database"]));
    let bytes = |name: &str| {
        let trial = trials(&printed).iter().find(|trial| trial["point"]["database"] == name).unwrap();
        assert_eq!(trial["failure"], Value::Null, "{trial}");
        assert!(trial["transactions"].as_u64() > Some(0), "{trial}");
        trial["start_state"]["total_bytes"].as_u64().unwrap()
    };
    // pgbench's accounts have 13 MB.
    assert!(bytes("default") > bytes("shop") + 12_000_000, "{} and {}", bytes("default"), bytes("shop"));
}

#[test]
fn every_study_of_the_lab_is_one() {
    let (home, place) = (Home::new(), Place::new());
    let mut seen = 0;
    for directory in fs::read_dir(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("lab")).unwrap() {
        for file in fs::read_dir(directory.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let command = sweep(&place, &home, 15, file.to_str().unwrap(), &["--dry-run", "--json"]).output().unwrap();
            let plan = Output::from(command).ok().json();
            assert!(!text(&plan, "/plan/question").is_empty(), "{}: {plan}", file.display());
            assert!(file.with_file_name("README.md").exists(), "{}", file.display());
            seen += 1;
        }
    }
    assert!(seen >= 10, "{seen}");
}
