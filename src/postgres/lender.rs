//! A running server that makes way for a while, and is started again as it was.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::run;
use super::{DataDirectory, Error, Programs};

/// A server that was stopped. Dropping it starts it again.
#[derive(Debug)]
pub struct Lender {
    data_directory: DataDirectory,
    programs: Programs,
    /// Where it wrote what it says, when that was a file.
    log_file: PathBuf,
    was_running: bool,
    options: Vec<String>,
}

impl Lender {
    /// Stops the server of a data directory, if one runs, with a checkpoint. Its sessions end.
    pub fn stop(data_directory: DataDirectory, programs: &Programs) -> Result<Lender, Error> {
        let options = read_options(&data_directory.path);
        let postmaster = data_directory.read_postmaster();
        let log_file = postmaster.as_ref().and_then(|server| find_log_file(server.pid)).unwrap_or("/dev/null".into());
        let programs = programs.clone();
        let mut lender = Lender { data_directory, programs, log_file, was_running: false, options };
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
        let log = self.open_log()?;
        command
            .arg("-o")
            .arg(options)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(|e| self.log_error(e))?)
            .stderr(log);
        let status = command.status().map_err(|e| self.log_error(e))?;
        if status.success() {
            return Ok(());
        }
        let output = format!("the server did not start again; {} says why", self.log_file.display());
        Err(Error::Program { program: "pg_ctl".into(), output })
    }

    fn open_log(&self) -> Result<File, Error> {
        OpenOptions::new().append(true).open(&self.log_file).map_err(|source| self.log_error(source))
    }

    fn log_error(&self, source: io::Error) -> Error {
        Error::File { action: "start the server again with its log in", path: self.log_file.clone(), source }
    }

    /// pg_ctl as the owner of the data directory.
    fn pg_ctl(&self, action: &str) -> Result<Command, Error> {
        let mut command = Command::new(self.programs.path("pg_ctl")?);
        let path = &self.data_directory.path;
        command.arg(action).arg("-D").arg(path).args(["-w", "-s", "-t", "300"]).current_dir(path);
        let metadata =
            fs::metadata(path).map_err(|source| Error::File { action: "look at", path: path.clone(), source })?;
        if rustix::process::geteuid().is_root() {
            command.uid(metadata.uid()).gid(metadata.gid());
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
pub(super) fn read_options(data_directory: &Path) -> Vec<String> {
    let line = fs::read_to_string(data_directory.join("postmaster.opts")).unwrap_or_default();
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

/// The file that a process's standard output goes to.
fn find_log_file(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/1")).ok().filter(|path| path.is_file())
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
        fs::write(directory.path().join("postmaster.opts"), line).unwrap();
        assert_eq!(read_options(directory.path()), ["-c", "config_file=/etc/a b.conf"]);
        assert!(read_options(Path::new("/nowhere")).is_empty());
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
