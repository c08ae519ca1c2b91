use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Error, Result};

const DEBIAN_ROOT: &str = "/usr/lib/postgresql";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    bin_dir: PathBuf,
    /// Searched first for pgbench.
    pgbench_dir: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramsVersion {
    pub major: u32,
    /// Such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub text: String,
}

impl Programs {
    /// Uses `bin_dir`, else `pg_config --bindir` if it contains a server, else the newest below `/usr/lib/postgresql`.
    pub fn find(bin_dir: Option<&Path>) -> Result<Programs> {
        let found = match bin_dir {
            Some(named) => Some(named.to_owned()).filter(|directory| has_server(directory)),
            None => {
                let asked = run(Command::new("pg_config").arg("--bindir")).ok();
                let named = asked.map(|text| PathBuf::from(text.trim()));
                named.filter(|directory| has_server(directory)).or_else(newest_debian_bin_dir)
            }
        };
        let place = || bin_dir.map_or("postgres".into(), |named| named.join("postgres")).display().to_string();
        let bin_dir = found.ok_or_else(|| Error::ProgramMissing(place()))?;
        Ok(Programs { bin_dir, pgbench_dir: None })
    }

    /// Uses `bin_dir`, else the result of `find` if its version fits, else `/usr/lib/postgresql`.
    pub fn find_version(bin_dir: Option<&Path>, major: u32) -> Result<Programs> {
        if bin_dir.is_some() {
            return Programs::find(bin_dir);
        }
        let candidates = Programs::find(None).into_iter().chain(Programs::find_all());
        let mut fitting = candidates.filter(|programs| programs.version().is_ok_and(|version| version.major == major));
        fitting.next().ok_or_else(|| Error::ProgramMissing(format!("postgres of version {major}")))
    }

    /// Installations below `/usr/lib/postgresql`, oldest first.
    pub fn find_all() -> Vec<Programs> {
        let found = debian_bin_dirs(Path::new(DEBIAN_ROOT)).into_iter();
        found.map(|(_, bin_dir)| Programs { bin_dir, pgbench_dir: None }).collect()
    }

    pub fn with_pgbench_of(self, other: &Programs) -> Programs {
        Programs { pgbench_dir: Some(other.bin_dir.clone()), ..self }
    }

    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// Also searches PATH and the newest version below `/usr/lib/postgresql` for client programs.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let other = self.pgbench_dir.iter().filter(|_| name == "pgbench");
        let mut places: Vec<PathBuf> = other.chain([&self.bin_dir]).cloned().collect();
        if ["psql", "pgbench", "pg_dump", "pg_restore", "pg_isready"].contains(&name) {
            places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
            places.extend(newest_debian_bin_dir());
        }
        let found = places.into_iter().map(|directory| directory.join(name)).find(|file| file.is_file());
        found.ok_or_else(|| Error::ProgramMissing(name.to_owned()))
    }

    pub fn version(&self) -> Result<ProgramsVersion> {
        let text = run(Command::new(self.path("postgres")?).arg("--version"))?;
        parse_version(&text).ok_or(Error::Version(text))
    }
}

fn has_server(bin_dir: &Path) -> bool {
    bin_dir.join("postgres").is_file()
}

fn newest_debian_bin_dir() -> Option<PathBuf> {
    debian_bin_dirs(Path::new(DEBIAN_ROOT)).pop().map(|(_, bin_dir)| bin_dir)
}

/// Servers in `MAJOR/bin` below `root`, oldest first.
fn debian_bin_dirs(root: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let mut found: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .filter(|(_, bin_dir)| has_server(bin_dir))
        .collect();
    found.sort();
    found
}

/// Also parses `18beta1` and `19devel`.
fn parse_version(text: &str) -> Option<ProgramsVersion> {
    let text = text.trim().split_once("(PostgreSQL) ")?.1;
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some(ProgramsVersion { major: text[..digits].parse().ok()?, text: text.to_owned() })
}

pub(super) fn run(command: &mut Command) -> Result<String> {
    let program = command_name(command);
    let output = match command.output() {
        Ok(output) => output,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Err(Error::ProgramMissing(program)),
        Err(source) => return Err(Error::Program { program, output: source.to_string() }),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = if output.stderr.trim_ascii().is_empty() { output.stdout } else { output.stderr };
    Err(Error::Program { program, output: String::from_utf8_lossy(&said).trim().to_owned() })
}

const PLAIN_VARIABLES: [&str; 7] = ["PATH", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "LC_ALL", "TZ", "TMPDIR"];

/// Clears all variables except PLAIN_VARIABLES: they may contain passwords.
pub(super) fn keep_plain_environment(command: &mut Command) {
    command.env_clear();
    command.envs(PLAIN_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
}

pub(super) fn command_name(command: &Command) -> String {
    let path = Path::new(command.get_program());
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, major: &str) {
        let bin_dir = root.join(major).join("bin");
        std::fs::create_dir_all(&bin_dir).unwrap();
        std::fs::write(bin_dir.join("postgres"), "").unwrap();
    }

    #[test]
    fn sorts_versions_as_numbers_and_skips_what_is_no_server() {
        let root = tempfile::tempdir().unwrap();
        for major in ["9", "17", "10"] {
            install(root.path(), major);
        }
        std::fs::create_dir_all(root.path().join("18/bin")).unwrap();
        std::fs::create_dir_all(root.path().join("common")).unwrap();
        let majors: Vec<u32> = debian_bin_dirs(root.path()).into_iter().map(|(major, _)| major).collect();
        assert_eq!(majors, [9, 10, 17]);
    }

    #[test]
    fn a_named_directory_without_a_server_is_an_error_that_names_it() {
        let empty = tempfile::tempdir().unwrap();
        let error = Programs::find(Some(empty.path())).unwrap_err().to_string();
        assert!(error.contains(&empty.path().display().to_string()), "{error}");
    }

    #[test]
    fn server_programs_are_never_taken_from_another_place() {
        let root = tempfile::tempdir().unwrap();
        install(root.path(), "15");
        let programs = Programs::find(Some(&root.path().join("15/bin"))).unwrap();
        assert!(matches!(programs.path("initdb"), Err(Error::ProgramMissing(_))));
    }

    #[test]
    fn finds_the_version_that_a_cluster_needs() {
        let newest = Programs::find_all().pop().unwrap();
        let major = newest.version().unwrap().major;
        assert_eq!(Programs::find_version(None, major).unwrap().version().unwrap().major, major);
        let error = Programs::find_version(None, 9).unwrap_err().to_string();
        assert!(error.contains("postgres of version 9"), "{error}");
    }

    #[test]
    fn reads_versions() {
        let major = |text| parse_version(text).map(|version| version.major);
        assert_eq!(major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 19devel"), Some(19));
        assert_eq!(major("mysqld 8"), None);
    }
}
