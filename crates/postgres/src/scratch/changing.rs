use std::io;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::owner::{DATA, LOG, make_for};
use super::{POLL_INTERVAL, STOP_LIMIT, ScratchCluster, run_until_stopped, server_owner};
use crate::{DataDirectory, Error, Programs, Result};
use host::files::{Directory, Tree};
use host::linux::threads::lock;

const REPLACEABLE_FILE: &str = "pgthaw.conf";

/// Longer lines are split.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// The server reports invalid settings as LOG.
const SEVERITIES: [&str; 7] = ["PANIC:", "FATAL:", "ERROR:", "WARNING:", "LOG:", "DETAIL:", "HINT:"];

impl ScratchCluster {
    /// Enables `replace_settings`, whose settings override those of earlier `configure` calls.
    pub fn allow_replaceable_settings(&self) -> Result<()> {
        if self.borrowed.is_some() {
            return Ok(());
        }
        self.configure(&[("include_if_exists", REPLACEABLE_FILE)])
    }

    /// Applies at the next start or reload. Values must not contain line breaks.
    pub fn replace_settings(&self, settings: &[(String, String)]) -> Result<()> {
        if let Some(borrowed) = &self.borrowed {
            settings.clone_into(&mut lock(&borrowed.replaceable));
            return Ok(());
        }
        let quote = |value: &str| value.replace('\\', r"\\").replace('\'', "''");
        let lines: String = settings.iter().map(|(name, value)| format!("{name} = '{}'\n", quote(value))).collect();
        self.replace_file(REPLACEABLE_FILE, &lines)
    }

    /// Fails for a borrowed cluster.
    pub(super) fn data(&self) -> std::io::Result<Tree> {
        Tree::of(self.directory.directory().subdirectory(DATA)?, &[])
    }

    pub(super) fn replace_file(&self, name: &str, text: &str) -> Result<()> {
        let replaced = self.data().and_then(|data| data.replace(name, text.as_bytes()));
        replaced.map_err(|source| Error::file("write", &self.data_directory().join(name), source))
    }

    pub fn log_tail(&self) -> String {
        let skipped = self.log_bytes().saturating_sub(LINE_BYTES_MAX);
        let log = self.log_since(skipped, |_| true).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }

    /// Log messages without times and pids; if there are none, the log's last lines.
    pub(super) fn said_since(&self, skipped: u64) -> String {
        let words = |line: &str| SEVERITIES.iter().find_map(|sign| Some(line[line.find(sign)?..].trim().to_owned()));
        let log = self.log_since(skipped, |_| true).unwrap_or_default();
        let said: Vec<String> = log.lines().filter_map(words).collect();
        if said.is_empty() { self.log_tail() } else { said.join("; ") }
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.directory.path().join(LOG)
    }

    pub fn log_bytes(&self) -> u64 {
        self.directory.directory().facts_of(LOG).map_or(0, |facts| facts.st_size.cast_unsigned())
    }

    /// Returns only `wanted` lines: a log may exceed memory.
    pub fn log_since(&self, skipped: u64, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let path = self.log_file();
        let mut kept = String::new();
        let mut read = || -> std::io::Result<()> {
            let mut log = BufReader::new(self.directory.directory().open_file(LOG)?);
            log.seek(SeekFrom::Start(skipped))?;
            let mut line = Vec::new();
            while (&mut log).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
                let text = String::from_utf8_lossy(&line);
                if wanted(&text) {
                    kept.push_str(&text);
                }
                line.clear();
            }
            Ok(())
        };
        read().map_err(|source| Error::File { action: "read", path: path.clone(), source })?;
        Ok(kept)
    }

    /// Adopts the cluster of a killed process, once its server has stopped.
    pub fn adopt_when_stopped(programs: &Programs, directory: &Path) -> Result<ScratchCluster> {
        let began = Instant::now();
        let is_running =
            || DataDirectory::open(&directory.join("data")).is_ok_and(|data| data.read_postmaster().is_some());
        while is_running() {
            if began.elapsed() > STOP_LIMIT {
                let path = directory.to_owned();
                return Err(Error::DataDirectory { path, reason: "its server does not stop".into() });
            }
            std::thread::sleep(POLL_INTERVAL.max(Duration::from_millis(100)));
        }
        ScratchCluster::adopt(programs, directory)
    }

    /// Moves a directory of the stopped cluster to `elsewhere`, where it replaces an existing one, and leaves a link.
    pub fn move_directory(&self, name: &str, elsewhere: &Path) -> Result<()> {
        let (from, to) = (self.data_directory().join(name), elsewhere.join(name));
        remove_from(elsewhere, name).map_err(|source| Error::file("remove", &to, source))?;
        run_until_stopped(Command::new("cp").args(["-aT".as_ref(), from.as_os_str(), to.as_os_str()]))?;
        let linked = self.data().and_then(|data| {
            data.root().remove_tree(name)?;
            data.root().link(name, &to)
        });
        linked.map_err(|source| Error::file("replace by a link", &from, source))
    }

    pub fn make_directory(&self, name: &str, elsewhere: &Path) -> Result<()> {
        let made =
            remove_from(elsewhere, name).and_then(|()| make_for(server_owner(), &Directory::open(elsewhere)?, name));
        made.map_err(|source| Error::file("make", &elsewhere.join(name), source))
    }
}

fn remove_from(directory: &Path, name: &str) -> io::Result<()> {
    match Directory::open(directory)?.remove_tree(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_replaced_as_a_whole_and_the_log_is_read_from_where_it_was() {
        let programs = Programs::find(None).unwrap();
        let mut cluster = ScratchCluster::create(&programs, Path::new("/tmp"), &[("fsync", "off")]).unwrap();
        cluster.allow_replaceable_settings().unwrap();
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        cluster.replace_settings(&[set("application_name", r"it's a \ here"), set("work_mem", "no amount")]).unwrap();
        assert!(cluster.start().unwrap_err().to_string().contains("work_mem"));
        cluster.replace_settings(&[set("shared_buffers", "12 apples")]).unwrap();
        let told = cluster.start().unwrap_err().to_string();
        assert!(told.contains("12 apples") && told.contains("FATAL:") && !told.contains("work_mem"), "{told}");
        cluster.replace_settings(&[set("application_name", r"it's a \ here")]).unwrap();
        let before = cluster.log_bytes();
        cluster.start().unwrap();
        let logged = cluster.log_since(before, |_| true).unwrap();
        assert!(logged.contains("ready to accept connections") && !logged.contains("work_mem"), "{logged}");
        assert!(cluster.log_since(0, |_| true).unwrap().contains("work_mem"));
        let ready = cluster.log_since(0, |line| line.contains("ready to accept")).unwrap();
        assert!(ready.lines().count() == 1 && ready.ends_with('\n'), "{ready}");
    }
}
