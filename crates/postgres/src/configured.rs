//! What a cluster is configured to, and what a server would take, asked without any server.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tempfile::TempDir;

use super::lender::read_options;
use super::programs::run;
use super::scratch::Owner;
use super::secrets::keep_setting;
use super::{DataDirectory, Error, Programs};

/// The value of a setting that the cluster's server would start with: in its files, those that they include, and the
/// options of its last start. PostgreSQL's own `postgres -C` reads them, as the directory's owner when this is root.
///
/// # Errors
/// When there are no programs of the cluster's version, or its files cannot be read.
pub fn read_configured_setting(directory: &DataDirectory, name: &str) -> Result<String, Error> {
    let programs = Programs::find_version(None, directory.version_major)?;
    let path = &directory.path;
    let mut command = Command::new(programs.path("postgres")?);
    command
        .args(["-C", name, "-D"])
        .arg(path)
        .args(read_options(&directory.files))
        .current_dir("/")
        .env_remove("PGDATA");
    if rustix::process::geteuid().is_root() {
        let owner = Owner::of(directory)?;
        command.uid(owner.uid).gid(owner.gid);
    }
    Ok(run(&mut command)?.trim_end_matches('\n').to_owned())
}

/// Why a server does not start with a value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingRefusal {
    /// No such setting; some that it knows are called nearly so, the nearest first.
    Unknown { nearest: Option<String> },
    /// The setting was fixed when the server was built.
    Fixed,
    /// What it says against the value.
    Value(String),
}

/// Says of settings what a server would, which need not be there: it has no libraries loaded and no files of its own.
#[derive(Debug)]
pub struct SettingJudge<'a> {
    programs: &'a Programs,
    /// What stands for a data directory: an empty postgresql.conf.
    directory: TempDir,
}

impl SettingJudge<'_> {
    /// # Errors
    /// When no file can be written in the directory for temporary ones.
    pub fn new(programs: &Programs) -> Result<SettingJudge<'_>, Error> {
        let parent = std::env::temp_dir();
        let directory =
            tempfile::tempdir().map_err(|source| Error::file(super::error::CREATE_DIRECTORY_IN, &parent, source))?;
        let file = directory.path().join("postgresql.conf");
        fs::write(&file, "").map_err(|source| Error::file("write", &file, source))?;
        Ok(SettingJudge { programs, directory })
    }

    /// What speaks against a value; `None`: nothing. Every name with a point is taken, as long as its library is not
    /// loaded.
    ///
    /// # Errors
    /// When `postgres` cannot be run.
    pub fn judge(&self, name: &str, value: &str) -> Result<Option<SettingRefusal>, Error> {
        let mut command = Command::new(self.programs.path("postgres")?);
        // Everybody sees the arguments of a program. No text that may be a secret is refused for what it says.
        let value = if keep_setting(name, value.to_owned()) == value { value } else { "" };
        // -C first: with it the program also runs as root.
        command.args(["-C", name, "-c", &format!("{name}={value}"), "-D"]).arg(self.directory.path());
        match run(command.env("LC_ALL", "C").current_dir("/").env_remove("PGDATA")) {
            Ok(_) => Ok(None),
            Err(Error::Program { program, output }) => match find_fatal(&output) {
                Some(fatal) if fatal.starts_with("unrecognized configuration parameter") => {
                    Ok(Some(SettingRefusal::Unknown { nearest: self.find_nearest(name)? }))
                }
                Some(fatal) if fatal.ends_with("cannot be changed") => Ok(Some(SettingRefusal::Fixed)),
                Some(fatal) => Ok(Some(SettingRefusal::Value(fatal))),
                None => Err(Error::Program { program, output }),
            },
            Err(error) => Err(error),
        }
    }

    /// The setting that is called most like it, of those that may stand in a file.
    fn find_nearest(&self, name: &str) -> Result<Option<String>, Error> {
        let described = run(Command::new(self.programs.path("postgres")?).arg("--describe-config").current_dir("/"))?;
        let names = described.lines().filter_map(|line| line.split('\t').next());
        let likeness = |known: &str| strsim::jaro_winkler(known, name);
        let nearest = names.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
        Ok(nearest.map(str::to_owned))
    }
}

/// What a server said when it gave up, and the hint that goes with it.
fn find_fatal(log: &str) -> Option<String> {
    let told = |word: &str| log.lines().find_map(|line| Some(line.split_once(word)?.1.trim().to_owned()));
    let fatal = told("FATAL:  ")?;
    Some(told("HINT:  ").map(|hint| format!("{fatal}: {hint}")).unwrap_or(fatal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_judged_as_the_server_would() {
        for programs in Programs::find_all() {
            let judge = SettingJudge::new(&programs).unwrap();
            let refusal = |name, value| judge.judge(name, value).unwrap();
            for (name, value) in [("work_mem", "5MB"), ("jit_tuple_deforming", "off"), ("no_library.size", "3")] {
                assert_eq!(refusal(name, value), None, "{name}");
            }
            let unknown = SettingRefusal::Unknown { nearest: Some("shared_buffers".into()) };
            assert_eq!(refusal("shared_bufers", "1GB"), Some(unknown));
            assert_eq!(refusal("block_size", "8192"), Some(SettingRefusal::Fixed));
            let Some(SettingRefusal::Value(why)) = refusal("work_mem", "5 XB") else { panic!("5 XB") };
            assert!(why.contains("invalid value") && why.contains("Valid units"), "{why}");
        }
    }
}
