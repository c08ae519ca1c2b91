use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fs, io};

use host::files::{SMALL_FILE_BYTES_MAX, Tree};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use tempfile::TempDir;

use super::programs::{keep_plain_environment, run};
use super::scratch::Owner;
use super::secrets::keep_setting;
use super::{DataDirectory, Error, Programs, Result};

/// A stopped cluster. Dropping it restarts the server if that was running.
#[derive(Debug)]
pub struct Lender {
    data_directory: DataDirectory,
    programs: Programs,
    log: Option<OwnedFd>,
    log_file: PathBuf,
    was_running: bool,
    pub options: Vec<String>,
}

impl Lender {
    /// The server writes a checkpoint and ends all sessions.
    pub fn stop(data_directory: DataDirectory, programs: &Programs) -> Result<Lender> {
        let options = read_options(&data_directory.files);
        if let Some(option) = options.iter().find(|option| option.contains('"')) {
            let output =
                format!("postmaster.opts does not escape the quotes in {option}: start the server without this option");
            return Err(Error::Program { program: "pg_ctl".into(), output });
        }
        require_host_server(&data_directory, "stop and start it")?;
        let postmaster = data_directory.read_postmaster();
        let found = postmaster.as_ref().and_then(|server| find_log(server.pid, data_directory.owner_uid));
        let (log, log_file) = found.map_or((None, "/dev/null".into()), |(log, path)| (Some(log), path));
        let programs = programs.clone();
        let mut lender = Lender { data_directory, programs, log, log_file, was_running: false, options };
        // Set before the stop: the drop restarts the server even if pg_ctl gives up.
        lender.was_running = postmaster.is_some();
        if lender.was_running {
            run(lender.pg_ctl("stop")?.args(["-m", "fast"]))?;
        }
        Ok(lender)
    }

    pub fn start_again(mut self) -> Result<()> {
        self.start()
    }

    fn start(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.was_running) {
            return Ok(());
        }
        let options = self.options.iter().map(|option| quote(option)).collect::<Vec<_>>().join(" ");
        let mut command = self.pg_ctl("start")?;
        // The log is passed open: the server's owner may not be allowed to open it.
        command.arg("-o").arg(options).stdin(Stdio::null());
        command.stdout(self.log_output()?).stderr(self.log_output()?);
        let status = command.status().map_err(|e| self.log_error(e))?;
        if status.success() {
            return Ok(());
        }
        let output = format!("the server did not start again; see {}", self.log_file.display());
        Err(Error::Program { program: "pg_ctl".into(), output })
    }

    fn log_output(&self) -> Result<Stdio> {
        let Some(log) = &self.log else { return Ok(Stdio::null()) };
        log.try_clone().map(Stdio::from).map_err(|source| self.log_error(source))
    }

    fn log_error(&self, source: io::Error) -> Error {
        Error::File { action: "start the server again with its log in", path: self.log_file.clone(), source }
    }

    fn pg_ctl(&self, action: &str) -> Result<Command> {
        let mut command = Command::new(self.programs.path("pg_ctl")?);
        let path = &self.data_directory.path;
        command.arg(action).arg("-D").arg(path).args(["-w", "-s", "-t", "300"]).current_dir(path);
        // Keeps Ctrl-C from the server.
        command.process_group(0);
        keep_plain_environment(&mut command);
        if rustix::process::geteuid().is_root() {
            Owner::of(&self.data_directory)?.run(&mut command);
        }
        Ok(command)
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        let _ = self.start();
    }
}

/// Options of the last start, from `postmaster.opts`, which quotes them.
pub(super) fn read_options(data_directory: &Tree) -> Vec<String> {
    let line = data_directory.read_at_most("postmaster.opts", SMALL_FILE_BYTES_MAX).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let mut options = line.trim_end().split(" \"").skip(1).map(|part| part.trim_end_matches('"').to_owned());
    let mut kept = Vec::new();
    while let Some(option) = options.next() {
        match option.as_str() {
            // pg_ctl sets -D.
            "-D" => drop(options.next()),
            joined if joined.starts_with("-D") => {}
            _ => kept.push(option),
        }
    }
    kept
}

/// Standard output of the server's process, if it is a writable file. Checks the process's user, because the owner can
/// write any pid into postmaster.pid.
fn find_log(pid: u32, owner_uid: u32) -> Option<(OwnedFd, PathBuf)> {
    let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    if fs::metadata(format!("/proc/{pid}")).ok()?.uid() != owner_uid {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
    let log = match pidfd_getfd(&process, 1, PidfdGetfdFlags::empty()) {
        Ok(log) => log,
        // Some kernels restrict pidfd_getfd to root.
        Err(_) if !rustix::process::geteuid().is_root() => {
            File::options().append(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&path).ok()?.into()
        }
        Err(_) => return None,
    };
    let is_file = FileType::from_raw_mode(fstat(&log).ok()?.st_mode) == FileType::RegularFile;
    let is_written = fcntl_getfl(&log).ok()?.intersects(OFlags::WRONLY | OFlags::RDWR);
    (is_file && is_written).then_some((log, path))
}

/// A container's user controls the files that PostgreSQL's programs would use here.
fn require_host_server(directory: &DataDirectory, action: &'static str) -> Result<()> {
    match (directory.read_postmaster(), directory.find_postmaster_pid()) {
        (None, Some(pid)) => Err(Error::InContainer { path: directory.path.clone(), pid, action }),
        _ => Ok(()),
    }
}

/// pg_ctl passes options to a shell.
fn quote(option: &str) -> String {
    format!("'{}'", option.replace('\'', r"'\''"))
}

/// Value of the setting if the server were started with its last options.
pub fn read_configured_setting(directory: &DataDirectory, name: &str) -> Result<String> {
    let programs = Programs::find_version(None, directory.version_major)?;
    let path = &directory.path;
    require_host_server(directory, "ask for its settings")?;
    // A FIFO among the configuration files would block postgres forever. Uses SIGKILL, because postgres blocks SIGTERM.
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "10"]).arg(programs.path("postgres")?).arg("-D").arg(path);
    // The last -C wins, so a -C among the server's own options has no effect. -C is not the first argument, because
    // postgres would then also run as root.
    command.args(read_options(&directory.files)).args(["-C", name]).current_dir("/");
    // If a configuration file is a FIFO, postgres waits, and the directory's owner can meanwhile read the environment
    // of postgres.
    keep_plain_environment(&mut command);
    if rustix::process::geteuid().is_root() {
        Owner::of(directory)?.run(&mut command);
    }
    Ok(run(&mut command)?.trim_end_matches('\n').to_owned())
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingRefusal {
    Unknown {
        nearest: Option<String>,
    },
    /// Fixed at build time.
    Fixed,
    Value(String),
}

/// Validates settings as a server without extension libraries and configuration files would.
#[derive(Debug)]
pub struct SettingJudge<'a> {
    programs: &'a Programs,
    directory: TempDir,
}

impl SettingJudge<'_> {
    pub fn new(programs: &Programs) -> Result<SettingJudge<'_>> {
        let parent = std::env::temp_dir();
        let directory =
            tempfile::tempdir().map_err(|source| Error::file(super::error::CREATE_DIRECTORY_IN, &parent, source))?;
        let file = directory.path().join("postgresql.conf");
        fs::write(&file, "").map_err(|source| Error::file("write", &file, source))?;
        Ok(SettingJudge { programs, directory })
    }

    /// Accepts any name with a dot.
    pub fn judge(&self, name: &str, value: &str) -> Result<Option<SettingRefusal>> {
        let mut command = Command::new(self.programs.path("postgres")?);
        // All users can see arguments.
        let value = if keep_setting(name, value.to_owned()) == value { value } else { "" };
        // With -C as first argument, postgres also runs as root.
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

    fn find_nearest(&self, name: &str) -> Result<Option<String>> {
        let described = run(Command::new(self.programs.path("postgres")?).arg("--describe-config").current_dir("/"))?;
        let names = described.lines().filter_map(|line| line.split('\t').next());
        let likeness = |known: &str| strsim::jaro_winkler(known, name);
        let nearest = names.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
        Ok(nearest.map(str::to_owned))
    }
}

fn find_fatal(log: &str) -> Option<String> {
    let told = |word: &str| log.lines().find_map(|line| Some(line.split_once(word)?.1.trim().to_owned()));
    let fatal = told("FATAL:  ")?;
    Some(told("HINT:  ").map(|hint| format!("{fatal}: {hint}")).unwrap_or(fatal))
}

#[cfg(test)]
mod lender_tests {
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

    /// The owner of a data directory can name any process in postmaster.pid.
    #[test]
    fn the_log_is_a_file_to_which_a_process_of_the_owner_writes() {
        needs_root!();
        const OWNER: u32 = 65_534;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        fs::write(&path, "").unwrap();
        let find = |uid: u32, output: Stdio| {
            let mut process = Command::new("sleep").arg("60").uid(uid).gid(uid).stdout(output).spawn().unwrap();
            let found = find_log(process.id(), OWNER);
            process.kill().unwrap();
            process.wait().unwrap();
            found.map(|(_, path)| path)
        };
        let appending = || Stdio::from(File::options().append(true).open(&path).unwrap());
        assert_eq!(find(OWNER, appending()), Some(path.clone()));
        assert_eq!(find(0, appending()), None, "a process of root");
        assert_eq!(find(54_321, appending()), None, "a process of another user");
        assert_eq!(find(OWNER, Stdio::from(File::open(&path).unwrap())), None, "a file that it only reads");
        assert_eq!(find(OWNER, Stdio::piped()), None, "a pipe");
        assert_eq!(find(OWNER, Stdio::null()), None, "a device");
    }
}

#[cfg(test)]
mod configured_tests {
    use std::os::unix::fs::chown;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;
    use crate::scratch::server_owner;

    #[test]
    fn a_configuration_that_never_ends_does_not_block() {
        for programs in Programs::find_all() {
            let root = tempfile::tempdir().unwrap();
            let data = root.path().join("data");
            let mut command = Command::new(programs.path("initdb").unwrap());
            command.args(["--auth=trust", "--no-sync", "-D"]).arg(&data).current_dir("/");
            if let Some(owner) = server_owner() {
                chown(root.path(), Some(owner.uid), Some(owner.gid)).unwrap();
                owner.run(&mut command);
            }
            run(&mut command).unwrap();
            let configuration = data.join("postgresql.conf");
            fs::remove_file(&configuration).unwrap();
            mkfifoat(CWD, &configuration, Mode::RUSR | Mode::WUSR | Mode::ROTH).unwrap();
            let directory = DataDirectory::open(&data).unwrap();
            assert!(read_configured_setting(&directory, "cluster_name").is_err());
        }
    }

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
