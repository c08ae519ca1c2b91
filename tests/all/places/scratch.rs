//! Scratch clusters, marks and locks of root in places that the server's user or anybody can write.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host::files::OwnDirectory;
use postgres::{Programs, ScratchCluster, StopMode, remove_abandoned, remove_cluster};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::{attackers, run_as};

/// Files in the directory that root is led to.
const VICTIMS: usize = 600;

fn victim(place: &Path) -> PathBuf {
    let victim = place.join("victim");
    fs::create_dir(&victim).unwrap();
    (0..VICTIMS).for_each(|number| fs::write(victim.join(number.to_string()), "mine").unwrap());
    victim
}

fn cluster(parent: &Path) -> ScratchCluster {
    ScratchCluster::create(&Programs::find(None).unwrap(), parent, &[("fsync", "off")]).unwrap()
}

#[test]
fn the_servers_user_puts_nothing_beside_its_data() {
    needs_root!();
    let mut cluster = cluster(Path::new("/var/tmp"));
    cluster.start().unwrap();
    let data = cluster.data_directory();
    let (own, sockets) = (data.parent().unwrap().to_owned(), cluster.socket_directory().to_owned());
    for directory in [own.as_path(), sockets.parent().unwrap()] {
        let facts = fs::metadata(directory).unwrap();
        assert_eq!((facts.uid(), facts.permissions().mode() & 0o777), (0, 0o711), "{}", directory.display());
        for user in ["postgres", "nobody"] {
            for name in ["server.log", "other", ".pgthaw-owner"] {
                let planted = run_as(user, &["ln", "-sf", "/etc/planted", directory.join(name).to_str().unwrap()]);
                assert_ne!(planted.status, 0, "{name} as {user}");
            }
            let moved = run_as(user, &["mv", data.to_str().unwrap(), own.join("x").to_str().unwrap()]);
            assert_ne!(moved.status, 0, "as {user}");
        }
    }
    for place in [&data, &sockets] {
        assert_eq!(run_as("postgres", &["ls", place.to_str().unwrap()]).status, 0, "it is the server's");
        assert_ne!(run_as("nobody", &["ls", place.to_str().unwrap()]).status, 0, "and nobody else's");
    }
    for directory in [&data, &sockets] {
        let facts = fs::metadata(directory).unwrap();
        assert!(facts.uid() != 0 && facts.permissions().mode() & 0o077 == 0, "{}", directory.display());
    }
    drop(cluster);
    assert!(!own.exists() && !sockets.parent().unwrap().exists());
}

#[test]
fn what_is_configured_goes_to_files_of_the_servers_user_alone() {
    needs_root!();
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let secret = place.path().join("secret");
    fs::write(&secret, "mine").unwrap();
    let mut cluster = cluster(Path::new("/var/tmp"));
    cluster.start().unwrap();
    cluster.stop(StopMode::Fast).unwrap();
    let data = cluster.data_directory();
    cluster.allow_replaceable_settings().unwrap();
    symlink(&secret, data.join("pgthaw.conf")).unwrap();
    cluster.replace_settings(&[("work_mem".to_owned(), "5MB".to_owned())]).unwrap();
    let written = fs::symlink_metadata(data.join("pgthaw.conf")).unwrap();
    assert!(written.is_file() && written.uid() == fs::metadata(&data).unwrap().uid(), "{written:?}");
    fs::rename(data.join("postgresql.conf"), data.join("kept.conf")).unwrap();
    symlink(&secret, data.join("postgresql.conf")).unwrap();
    cluster.configure(&[("work_mem", "6MB")]).unwrap_err();
    fs::remove_file(data.join("postgresql.conf")).unwrap();
    // A name of root's own file, as far as the kernel lets anybody make one.
    fs::hard_link(&secret, data.join("postgresql.conf")).unwrap();
    cluster.configure(&[("work_mem", "6MB")]).unwrap_err();
    fs::remove_file(data.join("postgresql.conf")).unwrap();
    fs::rename(data.join("kept.conf"), data.join("postgresql.conf")).unwrap();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "mine");
}

#[test]
fn a_swapped_link_makes_root_remove_nothing_of_others() {
    attackers().into_iter().for_each(check_swapped_link);
}

/// Somebody who owns the place swaps the directory of a cluster with a link to another one, again and again.
fn check_swapped_link(attacker: u32) {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let victim = victim(place.path());
    let parent = place.path().join("parent");
    fs::create_dir(&parent).unwrap();
    let (left, link) = (parent.join("pgthaw-lab-left"), parent.join("swapped"));
    symlink(&victim, &link).unwrap();
    lchown(&link, Some(attacker), None).unwrap();
    chown(&parent, Some(attacker), None).unwrap();
    let stop = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The kernel knows users by thread.
            set_thread_res_uid(None::<Uid>, Uid::from_raw(attacker), None::<Uid>).unwrap();
            while !stop.load(Ordering::Relaxed) {
                // One of them is gone for a moment, now and then.
                let _ = renameat_with(CWD, &left, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        while began.elapsed() < Duration::from_millis(1500) {
            let _ = fs::create_dir(&left);
            for name in ["1", "2", "3"] {
                let _ = fs::write(parent.join("pgthaw-lab-left").join(name), "");
            }
            let _ = remove_cluster(&left);
            remove_abandoned(&parent);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let stayed = (0..VICTIMS).filter(|number| victim.join(number.to_string()).exists()).count();
    assert_eq!(stayed, VICTIMS, "user {attacker}");
}

#[test]
fn a_directory_of_somebody_else_is_not_taken_for_a_cluster() {
    needs_root!();
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let planted = place.path().join("pgthaw-lab-planted");
    fs::create_dir_all(planted.join("data")).unwrap();
    fs::write(planted.join("data/PG_VERSION"), "15").unwrap();
    chown(&planted, Some(65_534), None).unwrap();
    let error = remove_cluster(&planted).unwrap_err().to_string();
    assert!(error.contains("belongs to user 65534"), "{error}");
    let programs = Programs::find(None).unwrap();
    let error = ScratchCluster::adopt(&programs, &planted).unwrap_err().to_string();
    assert!(error.contains("belongs to user 65534"), "{error}");
    assert!(OwnDirectory::open(&planted).is_err() && planted.join("data/PG_VERSION").exists());
}
