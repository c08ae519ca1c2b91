//! Names that somebody took before pgthaw came: journals beside results, links where an export goes, a pipe instead of a snapshot.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{NOBODY, attackers, ends_by_itself, make_pipe};
use crate::servers::{self, Home, Output, TestServer};

/// The results of a small log.
fn results() -> (Home, PathBuf) {
    let home = Home::new();
    let log = home.path().join("pgbench_log.7");
    fs::write(&log, "0 0 100 0 1700000000 10\n0 1 120 0 1700000000 20\n").unwrap();
    home.pgthaw(&["results", "import", log.to_str().unwrap(), "clients=1"]).ok();
    let store = home.path().join("state/pgthaw/results.sqlite");
    (home, store)
}

/// What SQLite would believe, beside the store.
fn journals(store: &Path) -> [PathBuf; 3] {
    ["-journal", "-wal", "-shm"].map(|suffix| format!("{}{suffix}", store.display()).into())
}

/// Nobody reads or writes this store.
#[track_caller]
fn assert_refused(home: &Home, store: &Path) {
    let before = fs::read(store).unwrap();
    let log = home.path().join("pgbench_log.7");
    let results = ["--results", store.to_str().unwrap()];
    for arguments in [&["results"][..], &["results", "import", log.to_str().unwrap(), "question=again?"], &["report"]] {
        let told = ends_by_itself(&mut home.command(&[arguments, &results].concat()));
        assert!(told.status != 0 && told.stderr.contains("a journal beside the results store"), "{}", told.stderr);
    }
    assert!(fs::read(store).unwrap() == before, "it is as it was");
}

#[test]
fn a_journal_that_is_no_file_is_none_of_the_results() {
    let (home, store) = results();
    let plants: [fn(&Path); 3] =
        [make_pipe, |path| symlink("/etc/passwd", path).unwrap(), |path| fs::create_dir(path).unwrap()];
    for journal in journals(&store) {
        for plant in plants {
            plant(&journal);
            assert_refused(&home, &store);
            fs::remove_file(&journal).or_else(|_| fs::remove_dir(&journal)).unwrap();
        }
    }
    home.pgthaw(&["results"]).ok();
}

#[test]
fn a_journal_of_another_user_is_none_of_the_results() {
    needs_root!();
    let (home, store) = results();
    for journal in journals(&store) {
        fs::write(&journal, "his").unwrap();
        chown(&journal, Some(NOBODY), Some(NOBODY)).unwrap();
        assert_refused(&home, &store);
        // SQLite looks beside the file, wherever a link to it is.
        let link = home.path().join("link.sqlite");
        symlink(&store, &link).unwrap();
        assert_refused(&home, &link);
        fs::remove_file(&link).unwrap();
        assert_eq!(fs::read_to_string(&journal).unwrap(), "his");
        fs::remove_file(&journal).unwrap();
    }
    home.pgthaw(&["results"]).ok();
}

/// Several users share a store; one of them was killed while he wrote.
#[test]
fn a_journal_of_ones_own_beside_a_shared_store_is_taken() {
    needs_root!();
    let (home, store) = results();
    let shared = home.path().join("shared.sqlite");
    fs::rename(&store, &shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o666)).unwrap();
    let [journal, ..] = journals(&shared);
    let list = |uid: u32| {
        let mut command = home.command_for_others(&["results", "--results", shared.to_str().unwrap()]);
        ends_by_itself(command.uid(uid).gid(uid))
    };
    for (owner, status) in [(NOBODY, 0), (0, 0), (54_321, 3)] {
        fs::write(&journal, "").unwrap();
        chown(&journal, Some(owner), Some(owner)).unwrap();
        list(NOBODY).ends_with(status);
    }
}

#[test]
fn an_export_where_everybody_may_put_a_link_follows_none() {
    let (home, _) = results();
    let (shared, victim) = (home.path().join("shared"), home.path().join("victim"));
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    fs::write(&victim, "mine").unwrap();
    for (planter, leads_to) in attackers().into_iter().flat_map(|uid| [(uid, "victim"), (uid, "new")]) {
        for (arguments, name) in [
            (&["results", "export", "-o"][..], "trials.csv"),
            (&["results", "export", "-o"], "trials.parquet"),
            (&["report", "--force", "-o"], "report.html"),
        ] {
            let path = shared.join(name);
            symlink(home.path().join(leads_to), &path).unwrap();
            lchown(&path, Some(planter), Some(planter)).unwrap();
            home.pgthaw(&[arguments, &[path.to_str().unwrap()]].concat()).ok();
            let facts = fs::symlink_metadata(&path).unwrap();
            assert!(facts.is_file() && facts.len() > 4, "{name} of {planter}: {facts:?}");
            // Whoever had the name before gets nothing to read.
            let own = rustix::process::geteuid().as_raw();
            assert_eq!((facts.uid(), facts.mode() & 0o777), (own, 0o600), "{name} of {planter}");
            fs::remove_file(&path).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!(!home.path().join("new").exists());
    // Where nobody else can put one, a link is the user's own.
    let (own, kept) = (home.path().join("own"), home.path().join("kept.csv"));
    fs::create_dir(&own).unwrap();
    fs::write(&kept, "").unwrap();
    symlink(&kept, own.join("trials.csv")).unwrap();
    home.pgthaw(&["results", "export", "-o", own.join("trials.csv").to_str().unwrap()]).ok();
    assert!(fs::metadata(&kept).unwrap().len() > 4 && own.join("trials.csv").is_symlink());
}

/// Everything that reads snapshots, none of which waits for somebody.
fn read_snapshots(server: &TestServer, named: &Path) -> Vec<Output> {
    let named = named.to_str().unwrap();
    let commands = [
        &["snapshot", "list", "--verify"][..],
        &["snapshot", "list", "--verify", "--all"],
        &["snapshot", "list", "--verify", named],
        &["snapshot", "list", "--json"],
        &["snapshot", "show", named],
        &["restore", "--dry-run"],
        &["restore", "--dry-run", named],
    ];
    let outputs: Vec<Output> = commands.map(|arguments| ends_by_itself(&mut server.command(arguments))).into();
    for (output, arguments) in outputs.iter().zip(commands) {
        assert!(!output.stderr.contains("panicked"), "{arguments:?}: {}", output.stderr);
    }
    outputs
}

#[test]
fn a_pipe_instead_of_a_snapshot_is_told_at_once() {
    let server = servers::start_any(&[]);
    let taken = server.pgthaw(&["snapshot", "take", "--json"]).ok().json();
    let taken = Path::new(taken["path"].as_str().unwrap());
    fs::remove_file(taken).unwrap();
    make_pipe(taken);
    let [verify, verify_all, verify_named, list, show, restore, restore_named] =
        read_snapshots(&server, taken).try_into().unwrap();
    for output in [verify, verify_all, verify_named, show, restore, restore_named] {
        assert_ne!(output.status, 0, "{}{}", output.stdout, output.stderr);
    }
    let listed = list.ok().json();
    assert!(listed["snapshots"][0]["error"].as_str().unwrap().contains("a pipe"), "{listed:#}");
}

/// The store's owner swaps the file with a pipe, again and again, while root reads it.
#[test]
fn a_snapshot_that_is_swapped_with_a_pipe_is_not_waited_for() {
    let server = servers::start_any(&[]);
    let taken = server.pgthaw(&["snapshot", "take", "--json"]).ok().json();
    let taken = Path::new(taken["path"].as_str().unwrap());
    let pipe = taken.with_file_name("pipe");
    make_pipe(&pipe);
    let end = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < end {
                renameat_with(CWD, taken, CWD, &pipe, RenameFlags::EXCHANGE).unwrap();
            }
        });
        while Instant::now() < end {
            read_snapshots(&server, taken);
        }
    });
}
