//! docs/guides, as they stand there: every command is run, and every line shown has to be printed.

mod document;
mod situations;

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use document::{Block, User};
use host::linux::DiskLimit;
use situations::Clients;

use crate::first_contact::{StockCluster, program_for_everybody};
use crate::servers::{Home, Output, output_of};
use crate::waits::can_probe;

/// A guide's reader, with everything that he has.
struct Reader {
    // Dropped first: clients go before their server.
    clients: Clients,
    cluster: Option<StockCluster>,
    /// Where he types, and writes files.
    desk: Home,
    path_variable: String,
    /// What cron runs every few minutes: a line with its user.
    regular: Vec<(User, String)>,
    /// Does he look at a screen, of 100 columns?
    has_screen: bool,
}

impl Reader {
    fn new(cluster: Option<StockCluster>, path_variable: String) -> Reader {
        let desk = Home::new();
        for user in [User::Root, User::Postgres] {
            let home = home(&desk, user);
            fs::create_dir(&home).unwrap();
            if user == User::Postgres {
                let postgres = nix::unistd::User::from_name("postgres").unwrap().unwrap();
                chown(&home, Some(postgres.uid.as_raw()), Some(postgres.gid.as_raw())).unwrap();
            }
        }
        Reader { clients: Clients::default(), cluster, desk, path_variable, regular: Vec::new(), has_screen: false }
    }

    /// `None`, which is said, where there cannot be one.
    fn of_a_shop() -> Option<Reader> {
        let cluster = StockCluster::with_shop()?;
        let path_variable = cluster.path_variable();
        Some(Reader::new(Some(cluster), path_variable))
    }

    fn cluster(&self) -> &StockCluster {
        self.cluster.as_ref().expect("the guide has a server")
    }

    /// A command line for `sh`, as a user types it at the desk; errors stand among the output.
    fn command(&self, user: User, line: &str) -> Command {
        let line = format!("exec 2>&1\n{line}");
        let words: &[&str] = match user {
            User::Root => &["sh", "-c", &line],
            User::Postgres => &["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "sh", "-c", &line],
        };
        let mut command = Command::new(words[0]);
        let name = if user == User::Root { "root" } else { "postgres" };
        command.args(&words[1..]).env_clear().current_dir(self.desk.path()).stdin(Stdio::null());
        command.env("PATH", &self.path_variable).env("HOME", home(&self.desk, user)).env("TERM", "dumb");
        command.env("LANG", "C.UTF-8").env("USER", name).env("LOGNAME", name).env("COLUMNS", "100");
        command.envs(self.cluster.as_ref().and_then(StockCluster::port_variable));
        command
    }

    fn run(&self, user: User, line: &str) -> Output {
        output_of(&mut self.command(user, line))
    }

    /// Are requests recorded here, hits included?
    fn has_requests(&self) -> bool {
        self.run(User::Root, "pgthaw doctor").stdout.contains("(includes hits)")
    }

    /// What stood on the screen at any time, line by line.
    fn run_on_screen(&self, user: User, line: &str) -> Output {
        assert!(!line.contains('\''), "{line}");
        let line = format!("TERM=xterm script -qec 'stty cols 100 rows 40; {line}' /dev/null");
        let mut screen = self.command(user, &line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // As long as a keyboard is there, nothing has been typed.
        let _keyboard = screen.stdin.take();
        let mut output = Output::from(screen.wait_with_output().unwrap());
        output.stdout = document::without_escapes(&output.stdout);
        output
    }

    /// Runs the lines of a file for cron, each as its user. Those of every few minutes have to wait for a situation.
    fn run_cron(&mut self, text: &str) {
        for line in text.lines() {
            let Some((when, command)) = split_cron_line(line) else { continue };
            if when.starts_with("*/") {
                self.regular.push(command);
            } else {
                self.run_by_cron(&command);
            }
        }
    }

    fn run_by_cron(&self, (user, command): &(User, String)) {
        // Where a reader who has no server to spare has the files.
        let command = command.replace("/srv/", "");
        let output = self.run(*user, &command);
        assert_eq!(output.status, 0, "{command}\n{}", output.stdout);
    }

    /// Does everything that a guide says, with these of its sizes and lengths replaced by smaller ones.
    #[allow(clippy::print_stdout)]
    fn follow(&mut self, name: &str, smaller: &[(&str, &str)]) {
        let mut guide = read(name);
        for (written, tried) in smaller {
            assert!(guide.contains(written), "{name} has no {written:?}");
            guide = guide.replace(written, tried);
        }
        for block in document::parse(&guide) {
            match block {
                Block::File { name, text } if name.starts_with("/etc/cron.d/") => self.run_cron(&text),
                Block::File { name, text } => fs::write(self.desk.path().join(name), text).unwrap(),
                Block::Console { situation, commands } => {
                    if let Some(situation) = situation {
                        self.bring_about(&situation);
                    }
                    for shown in commands {
                        let output = match self.has_screen {
                            true => self.run_on_screen(shown.user, &shown.command),
                            false => self.run(shown.user, &shown.command),
                        };
                        let told = format!("{}\nprinted:\n{}", shown.command, output.stdout);
                        // What an editor of the guide may copy.
                        println!("{told}");
                        if let Some(line) = document::find_missing(&shown.output, &output.stdout) {
                            panic!("this line is missing:\n{line}\nof {told}");
                        }
                        assert!(!shown.output.is_empty() || output.status == 0, "status {} of {told}", output.status);
                    }
                }
            }
        }
    }
}

fn home(desk: &Home, user: User) -> PathBuf {
    desk.path().join(if user == User::Root { "root" } else { "postgres" })
}

/// When cron runs a line of a file in /etc/cron.d, as whom, and what.
fn split_cron_line(line: &str) -> Option<(&str, (User, String))> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let is_command = line.starts_with(|first: char| "*@".contains(first) || first.is_ascii_digit());
    let mut words = line.splitn(fields + 2, ' ');
    let when = words.next().filter(|_| is_command)?;
    let user = if words.nth(fields - 1)? == "root" { User::Root } else { User::Postgres };
    Some((when, (user, words.next()?.to_owned())))
}

fn read(name: &str) -> String {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides"));
    fs::read_to_string(directory.join(name).with_extension("md")).unwrap()
}

#[test]
fn after_a_restart() {
    let Some(mut reader) = Reader::of_a_shop() else { return };
    reader.follow("after-a-restart", &[]);
}

#[test]
fn how_long_will_it_take() {
    if !can_probe() {
        return;
    }
    let Some(mut reader) = Reader::of_a_shop() else { return };
    if !reader.has_requests() {
        untested!(machine: "the kernel reports no requests to the page cache: it takes Linux 6.12");
    }
    for (database, extension) in [("postgres", "pg_buffercache"), ("postgres", "pg_prewarm"), ("shop", "pg_prewarm")] {
        reader.cluster().psql_in(database, &format!("CREATE EXTENSION {extension}"));
    }
    // Less than the tables, as in the guide.
    let smaller = [("memory=150MiB", "memory=64MiB"), ("memory=192MiB", "memory=64MiB")];
    reader.follow("how-long-will-it-take", &smaller);
}

#[test]
fn the_nightly_report() {
    if !can_probe() {
        return;
    }
    let Some(mut reader) = Reader::of_a_shop() else { return };
    if !reader.has_requests() {
        untested!(machine: "the kernel reports no requests to the page cache: it takes Linux 6.12");
    }
    reader.follow("the-nightly-report", &[]);
}

#[test]
fn three_in_the_morning() {
    if !can_probe() || !crate::kills::strace::is_here() {
        return;
    }
    let Some(mut reader) = Reader::of_a_shop() else { return };
    if reader.run(User::Root, "command -v jq").status != 0 {
        untested!("there is no jq: apt-get install jq");
    }
    // Beside other tests the scheduler switches far more often than on a reader's machine, and every switch costs the measurement.
    let smaller = [
        ("--seconds 20", "--budget 20 --seconds 12"),
        ("--seconds 8", "--budget 20 --seconds 3"),
        ("--seconds 5", "--budget 20 --seconds 2"),
        ("--seconds 4", "--budget 20 --seconds 2"),
        ("# pgthaw waits -d shop\n", "# pgthaw waits -d shop --budget 20 --seconds 3\n"),
    ];
    reader.follow("three-in-the-morning", &smaller);
}

#[test]
fn which_is_faster() {
    needs_root!();
    if DiskLimit::available().is_err() {
        untested!(machine: "no cgroup can be made");
    }
    let bin = program_for_everybody();
    let path_variable = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.path().display());
    // Trials of one second have the same verdicts.
    let smaller = [("\nseconds = 5\n", "\nseconds = 1\n"), ("\nscale = 10\n", "\nscale = 1\n")];
    Reader::new(None, path_variable).follow("which-is-faster", &smaller);
}

#[test]
fn lines_of_cron_are_told_from_variables() {
    assert_eq!(split_cron_line("PATH=/bin"), None);
    let of = |user, command: &str| (user, command.to_owned());
    assert_eq!(split_cron_line("*/5 * * * * postgres a b"), Some(("*/5", of(User::Postgres, "a b"))));
    assert_eq!(split_cron_line("@reboot root a"), Some(("@reboot", of(User::Root, "a"))));
}

#[test]
fn every_guide_has_its_test() {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides"));
    let source = include_str!("mod.rs");
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(source.contains(&format!("follow(\"{name}\"")), "nobody follows {name}");
    }
}
