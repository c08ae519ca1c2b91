//! A running server that makes way for a while, and is started again as it was.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::programs::{keep_plain_environment, run};
use super::scratch::Owner;
use super::{DataDirectory, Error, Programs};
use host::files::{SMALL_FILE_BYTES_MAX, Tree};

/// A server that was stopped. Dropping it starts it again.
#[derive(Debug)]
pub struct Lender {
    data_directory: DataDirectory,
    programs: Programs,
    /// Where it wrote what it says, when that was a file: its own descriptor of it.
    log: Option<OwnedFd>,
    /// What that was called.
    log_file: PathBuf,
    was_running: bool,
    options: Vec<String>,
}

impl Lender {
    /// Stops the server of a data directory, if one runs, with a checkpoint. Its sessions end.
    pub fn stop(data_directory: DataDirectory, programs: &Programs) -> Result<Lender, Error> {
        let options = read_options(&data_directory.files);
        let postmaster = data_directory.read_postmaster();
        let found = postmaster.as_ref().and_then(|server| find_log(server.pid));
        let (log, log_file) = found.map_or((None, "/dev/null".into()), |(log, path)| (Some(log), path));
        let programs = programs.clone();
        let mut lender = Lender { data_directory, programs, log, log_file, was_running: false, options };
        if postmaster.is_some() {
            run(lender.pg_ctl("stop")?.args(["-m", "fast"]))?;
            lender.was_running = true;
        }
        Ok(lender)
    }

    /// The options that its owner starts it with, `-D` aside.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    pub fn data_directory(&self) -> &DataDirectory {
        &self.data_directory
    }

    /// Starts the server again, if it ran before.
    pub fn start_again(mut self) -> Result<(), Error> {
        self.start()
    }

    fn start(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.was_running) {
            return Ok(());
        }
        let options = self.options.iter().map(|option| quote(option)).collect::<Vec<_>>().join(" ");
        let mut command = self.pg_ctl("start")?;
        // The server goes on writing to where it wrote before, also where its owner may not open that file itself.
        command.arg("-o").arg(options).stdin(Stdio::null());
        command.stdout(self.log_output()?).stderr(self.log_output()?);
        let status = command.status().map_err(|e| self.log_error(e))?;
        if status.success() {
            return Ok(());
        }
        let output = format!("the server did not start again; {} says why", self.log_file.display());
        Err(Error::Program { program: "pg_ctl".into(), output })
    }

    fn log_output(&self) -> Result<Stdio, Error> {
        let Some(log) = &self.log else { return Ok(Stdio::null()) };
        log.try_clone().map(Stdio::from).map_err(|source| self.log_error(source))
    }

    fn log_error(&self, source: io::Error) -> Error {
        Error::File { action: "start the server again with its log in", path: self.log_file.clone(), source }
    }

    /// pg_ctl as the owner of the data directory.
    fn pg_ctl(&self, action: &str) -> Result<Command, Error> {
        let mut command = Command::new(self.programs.path("pg_ctl")?);
        let path = &self.data_directory.path;
        command.arg(action).arg("-D").arg(path).args(["-w", "-s", "-t", "300"]).current_dir(path);
        // The server keeps what it is given for as long as it lives: no password of whoever runs pgthaw, and not his home.
        keep_plain_environment(&mut command);
        if rustix::process::geteuid().is_root() {
            let owner = Owner::of(&self.data_directory)?;
            command.uid(owner.uid).gid(owner.gid);
        }
        Ok(command)
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // Whoever wants to know calls `start_again`.
        let _ = self.start();
    }
}

/// `postmaster.opts`: the command line of the last start, the program first, each option in quotes.
pub(super) fn read_options(data_directory: &Tree) -> Vec<String> {
    let line = data_directory.read_at_most("postmaster.opts", SMALL_FILE_BYTES_MAX).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let options: Vec<String> =
        line.trim_end().split(" \"").skip(1).map(|part| part.trim_end_matches('"').to_owned()).collect();
    without_data_directory(options)
}

/// The directory is given anew.
fn without_data_directory(options: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut options = options.into_iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "-D" => drop(options.next()),
            joined if joined.starts_with("-D") => {}
            _ => kept.push(option),
        }
    }
    kept
}

/// The file that a process's standard output goes to: what it may write itself, whatever has the file's name by now.
fn find_log(pid: u32) -> Option<(OwnedFd, PathBuf)> {
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    let path = std::fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
    let log = match pidfd_getfd(&process, 1, PidfdGetfdFlags::empty()) {
        Ok(log) => log,
        // Some kernels let root alone do that; what others open, they open with no more than their own rights.
        Err(_) if !rustix::process::geteuid().is_root() => {
            File::options().append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&path).ok()?.into()
        }
        Err(_) => return None,
    };
    let is_file = FileType::from_raw_mode(fstat(&log).ok()?.st_mode) == FileType::RegularFile;
    let is_written = fcntl_getfl(&log).ok()?.intersects(OFlags::WRONLY | OFlags::RDWR);
    (is_file && is_written).then_some((log, path))
}

/// pg_ctl hands its options to a shell.
fn quote(option: &str) -> String {
    format!("'{}'", option.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_options_of_the_last_start() {
        let directory = tempfile::tempdir().unwrap();
        let line = "/usr/lib/postgresql/15/bin/postgres \"-D\" \"/var/lib/postgresql/15/main\" \"-c\" \"config_file=/etc/a b.conf\"\n";
        std::fs::write(directory.path().join("postmaster.opts"), line).unwrap();
        let tree = Tree::open(directory.path(), &[]).unwrap();
        assert_eq!(read_options(&tree), ["-c", "config_file=/etc/a b.conf"]);
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
