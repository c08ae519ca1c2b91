//! Tests as root. Otherwise only the refusal's hint is tested.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use super::{DeviceLimit, DiskLimit, ReadLimit, WriteLimit, read_limit_of};
use crate::failure::Explain as _;
use crate::linux::DeviceNumber;
use crate::linux::block_device::read_block_device;
use crate::units::Bytes;

const FAST: ReadLimit =
    ReadLimit { reads_per_second: Some(1_000_000), read_bytes_per_second: Some(Bytes(4_000_000_000)) };

fn create_limit() -> Option<DiskLimit> {
    if let Err(error) = DiskLimit::available() {
        assert!(error.hint().is_some(), "{error}");
        untested!("{error}");
    }
    let device = match read_block_device("/var/tmp".as_ref()) {
        Ok(device) => device,
        Err(error) => untested!(machine: "{error}"),
    };
    Some(DiskLimit::create(vec![reads(device.number, FAST)], false, None).unwrap())
}

fn reads(number: DeviceNumber, reads: ReadLimit) -> DeviceLimit {
    DeviceLimit { number, reads, writes: WriteLimit::default() }
}

fn start_sleeper() -> Child {
    Command::new("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_limit_that_somebody_has_lifted_is_noticed_at_its_end() {
    let Some(limit) = create_limit() else { return };
    let directory = limit.procs_file().parent().unwrap().to_owned();
    limit.lift().unwrap();
    let error = limit.remove().unwrap_err();
    assert!(error.to_string().contains("the kernel applied"), "{error}");
    assert!(!directory.exists());
}

#[test]
fn the_kernel_has_the_limit_that_was_asked_for() {
    let Some(limit) = create_limit() else { return };
    limit.enforce().unwrap();
    let directory = limit.procs_file().parent().unwrap().to_owned();
    assert!(directory.exists());
    limit.remove().unwrap();
    assert!(!directory.exists());
}

#[test]
fn counts_what_its_processes_read() {
    let Some(limit) = create_limit() else { return };
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("file");
    fs::write(&path, vec![7; 8 << 20]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    let before = limit.read_usage().unwrap();
    let procs = limit.procs_file();
    let script = format!("echo 0 >{} && dd if={} bs=1M iflag=direct status=none", procs.display(), path.display());
    let status = Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    let after = limit.read_usage().unwrap();
    assert!(after.read_bytes.0 - before.read_bytes.0 >= 8 << 20, "{after:?}");
    assert!(after.reads > before.reads, "{after:?}");
}

#[test]
fn a_command_starts_limited_whoever_it_runs_as() {
    let Some(limit) = create_limit() else { return };
    let mut command = Command::new("cat");
    command.arg("/proc/self/cgroup").uid(65534).gid(65534);
    limit.limit_command(&mut command).unwrap();
    let output = command.output().unwrap();
    let groups = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && groups.contains("/pgthaw-"), "{groups}");
}

#[test]
fn the_limit_of_a_process_is_seen() {
    let Some(limit) = create_limit() else { return };
    let mut sleeper = start_sleeper();
    limit.join(sleeper.id()).unwrap();
    let device = read_block_device("/var/tmp".as_ref()).unwrap();
    let in_force = || read_limit_of(sleeper.id(), device.number).unwrap();
    assert_eq!(in_force(), FAST);
    limit.lift().unwrap();
    assert_eq!(in_force(), ReadLimit::default());
    limit.enforce().unwrap();
    assert_eq!(in_force(), FAST);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn dropping_it_frees_its_processes() {
    let Some(limit) = create_limit() else { return };
    let mut sleeper = start_sleeper();
    let home = fs::read_to_string(format!("/proc/{}/cgroup", sleeper.id())).unwrap();
    limit.join(sleeper.id()).unwrap();
    let inside = fs::read_to_string(format!("/proc/{}/cgroup", sleeper.id())).unwrap();
    assert!(inside.contains("/pgthaw-"), "{inside}");
    let directory = limit.procs_file().parent().unwrap().to_owned();
    drop(limit);
    assert!(!directory.exists());
    assert_eq!(fs::read_to_string(format!("/proc/{}/cgroup", sleeper.id())).unwrap(), home);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn what_a_killed_process_left_is_swept_away() {
    let Some(limit) = create_limit() else { return };
    let own = limit.procs_file().parent().unwrap().to_owned();
    let name = own.file_name().unwrap().to_str().unwrap();
    let parts: Vec<&str> = name.split('-').collect();
    let leftover = own.parent().unwrap().join(format!("{}-{}-{}-1-0", parts[0], parts[1], parts[2]));
    let below = leftover.join(format!("{}-{}-{}-2-0", parts[0], parts[1], parts[2]));
    fs::create_dir_all(&below).unwrap();
    let mut sleeper = start_sleeper();
    let _ = fs::write(below.join("cgroup.procs"), sleeper.id().to_string());

    let next = create_limit().unwrap();
    assert!(!leftover.exists());
    assert!(own.exists(), "the cgroup of a living process stays");
    assert!(sleeper.try_wait().unwrap().is_none(), "its processes live on");
    drop(next);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn refuses_a_limit_that_the_kernel_does_not_take() {
    let Some(limit) = create_limit() else { return };
    drop(limit);
    let device = read_block_device("/var/tmp".as_ref()).unwrap();
    let nothing = ReadLimit { reads_per_second: Some(0), ..ReadLimit::default() };
    assert!(DiskLimit::create(vec![reads(device.number, nothing)], false, None).is_err());
}
