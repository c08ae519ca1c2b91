//! The programs by which file systems are made and mounted.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::linux::Error;

/// Where they are on every distribution, and not always in PATH.
const PLACES: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// The file of a program; an error that names the package that has it.
pub fn find(program: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    let found = places.map(|directory| directory.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| Error::Unavailable {
        what: "a file system of one's own",
        reason: format!("there is no {program}"),
        remedy: package_of(program).map_or_else(
            || format!("install the package that has {program}, or write its whole path"),
            |package| format!("`apt-get install {package}`"),
        ),
    })
}

fn package_of(program: &str) -> Option<&'static str> {
    Some(match program {
        "mkfs.ext4" => "e2fsprogs",
        "mkfs.xfs" => "xfsprogs",
        "mkfs.btrfs" => "btrfs-progs",
        "zfs" | "zpool" => "zfsutils-linux",
        "mkfs.f2fs" => "f2fs-tools",
        "mkfs.jfs" => "jfsutils",
        "mkfs.nilfs2" => "nilfs-tools",
        "bcachefs" | "mkfs.bcachefs" => "bcachefs-tools",
        "losetup" | "mount" | "umount" => "mount",
        _ => return None,
    })
}

/// Runs one to its end, and returns what it printed. Arguments go to it as they are, past any shell.
pub fn run<'a>(program: &str, arguments: impl IntoIterator<Item = &'a str>) -> Result<String, Error> {
    run_while(program, arguments, &|| true)
}

/// So often somebody looks whether a program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Of what a program said when it failed, so much of the end is told.
const SAID_BYTES_MAX: u64 = 4096;

/// The same, for as long as `goes_on` says so; then it is killed with all that it has started.
fn run_while<'a>(
    program: &str,
    arguments: impl IntoIterator<Item = &'a str>,
    goes_on: &dyn Fn() -> bool,
) -> Result<String, Error> {
    let failed = |output: String| Error::Program { program: program.to_owned(), output };
    let wrong = |error: io::Error| failed(error.to_string());
    // Files, which hold whatever it prints while nobody reads.
    let (mut printed, mut complained) = (tempfile::tempfile().map_err(wrong)?, tempfile::tempfile().map_err(wrong)?);
    let mut command = Command::new(find(program)?);
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C");
    command.stdout(printed.try_clone().map_err(wrong)?).stderr(complained.try_clone().map_err(wrong)?);
    // A group of its own: Ctrl-C is for pgthaw, which undoes what was begun.
    let mut child = command.process_group(0).spawn().map_err(wrong)?;
    let status = loop {
        match child.try_wait().map_err(wrong)? {
            Some(status) => break status,
            None if goes_on() => std::thread::sleep(POLL_INTERVAL),
            None => {
                let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                group.map(|group| rustix::process::kill_process_group(group, rustix::process::Signal::KILL));
                child.wait().map_err(wrong)?;
                return Err(failed("it had not ended, and was stopped".to_owned()));
            }
        }
    };
    if status.success() {
        return read_end(&mut printed, u64::MAX).map_err(wrong);
    }
    let said = read_end(&mut complained, SAID_BYTES_MAX).and_then(|complaint| match complaint.trim() {
        "" => read_end(&mut printed, SAID_BYTES_MAX),
        complaint => Ok(complaint.to_owned()),
    });
    let said = said.map_err(wrong)?;
    Err(failed(if said.trim().is_empty() { status.to_string() } else { said.trim().to_owned() }))
}

/// The last of what was printed into a file, so many bytes at most.
fn read_end(file: &mut File, most: u64) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Runs programs, each with its arguments, one after the other, for as long as `goes_on` says so.
pub fn run_each(commands: &[Vec<String>], goes_on: &dyn Fn() -> bool) -> Result<(), Error> {
    for command in commands {
        let Some((program, arguments)) = command.split_first() else { continue };
        run_while(program, arguments.iter().map(String::as_str), goes_on)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Explain as _;

    #[test]
    fn what_is_missing_names_its_package() {
        for (program, package) in [("mkfs.xfs", "xfsprogs"), ("mkfs.btrfs", "btrfs-progs"), ("mount", "mount")] {
            assert_eq!(package_of(program), Some(package));
        }
        let error = find("mkfs.no-such").unwrap_err();
        assert!(error.to_string().contains("there is no mkfs.no-such"), "{error}");
        assert!(error.hint().unwrap().contains("the package that has mkfs.no-such"), "{error}");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_with_what_it_started() {
        let looks = std::cell::Cell::new(0);
        let goes_on = || looks.replace(looks.get() + 1) < 3;
        let mark = format!("{}.25", 1000 + std::process::id());
        let sleeps = vec!["sh".to_owned(), "-c".to_owned(), format!("sleep {mark} & wait")];
        let error = run_each(&[sleeps], &goes_on).unwrap_err().to_string();
        assert!(error.contains("was stopped"), "{error}");
        let left = || run("pgrep", ["-f", mark.as_str()]).is_ok();
        assert!((0..100).any(|_| !left() || {
            std::thread::sleep(POLL_INTERVAL);
            false
        }));
    }

    #[test]
    fn of_much_that_a_program_says_the_end_is_told() {
        let loud = ["-c", "head -c 300000 /dev/zero | tr '\\0' x >&2; echo the reason >&2; exit 1"];
        let error = run("sh", loud).unwrap_err().to_string();
        assert!(error.contains("the reason") && error.len() < 5000, "{}", error.len());
    }

    #[test]
    fn arguments_reach_a_program_as_they_are() {
        let error = run("umount", ["/no; touch /tmp/pgthaw-no-such $(x)"]).unwrap_err().to_string();
        assert!(error.contains("/no; touch /tmp/pgthaw-no-such $(x)"), "{error}");
        assert!(!PathBuf::from("/tmp/pgthaw-no-such").exists());
    }
}
