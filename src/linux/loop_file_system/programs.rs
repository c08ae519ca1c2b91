//! The programs by which file systems are made and mounted.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

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
            |package| format!("apt-get install {package}"),
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
    let mut command = Command::new(find(program)?);
    // A group of its own: Ctrl-C is for pgthaw, which undoes what was begun.
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").process_group(0);
    let failed = |output: String| Error::Program { program: program.to_owned(), output };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    Err(failed(if said.is_empty() { output.status.to_string() } else { said.to_owned() }))
}

/// Runs programs, each with its arguments, one after the other.
pub fn run_each(commands: &[Vec<String>]) -> Result<(), Error> {
    for command in commands {
        let Some((program, arguments)) = command.split_first() else { continue };
        run(program, arguments.iter().map(String::as_str))?;
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
    fn arguments_reach_a_program_as_they_are() {
        let error = run("umount", ["/no; touch /tmp/pgthaw-no-such $(x)"]).unwrap_err().to_string();
        assert!(error.contains("/no; touch /tmp/pgthaw-no-such $(x)"), "{error}");
        assert!(!PathBuf::from("/tmp/pgthaw-no-such").exists());
    }
}
