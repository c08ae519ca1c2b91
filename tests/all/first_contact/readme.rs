//! README's "Three in the morning", as it stands there.

use std::fs;
use std::path::{Path, PathBuf};

use super::{StockCluster, resident_blocks};
use crate::servers::{Home, Output};

const README: &str = include_str!("../../../README.md");
const HEADING: &str = "## Three in the morning";

/// One line of the block.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Command(&'a str),
    /// `# ... the server is restarted ...`
    Restart,
}

fn section() -> &'static str {
    let (_, after) = README.split_once(HEADING).expect("README has no \"Three in the morning\"");
    after.split_once("\n## ").map_or(after, |(section, _)| section)
}

/// The section's first block. A comment that is neither is a line that this test does not understand.
fn lines(section: &str) -> Vec<Line<'_>> {
    let indented = section.lines().skip_while(|line| !line.starts_with("    "));
    let block = indented.take_while(|line| line.starts_with("    "));
    block
        .map(|line| match line.split('#').next().unwrap_or_default().trim() {
            "" if line.contains("restarted") => Line::Restart,
            "" => panic!("README, {HEADING}: what is to be done at {line:?}?"),
            command => Line::Command(command),
        })
        .collect()
}

/// The command in the prose that names a stopped server's directory.
fn directory_command(section: &str) -> &str {
    let mut codes = section.split('`').skip(1).step_by(2);
    codes.find(|code| code.starts_with("pgthaw restore --data-dir ")).expect("README restores before the start")
}

/// What postgres keeps where it keeps it by default; removed again.
pub struct DefaultSnapshots {
    cluster: PathBuf,
    /// Directories above it that were not there before, the innermost first.
    made: Vec<PathBuf>,
}

impl DefaultSnapshots {
    pub fn of(cluster: &StockCluster) -> DefaultSnapshots {
        let root = Path::new("/var/lib/postgresql/.local/state/pgthaw/snapshots");
        let below_home = root.ancestors().take_while(|path| *path != Path::new("/var/lib/postgresql"));
        let made = below_home.filter(|path| !path.exists()).map(Path::to_owned).collect();
        DefaultSnapshots { cluster: root.join(cluster.system_identifier()), made }
    }
}

impl Drop for DefaultSnapshots {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.cluster);
        for directory in &self.made {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// Runs the lines one after the other by `run`, and looks whether the restart's loss is mended.
fn follow(cluster: &StockCluster, run: &dyn Fn(&str) -> Output) {
    let buffers = || resident_blocks(&run("pgthaw map --json --top 0").ok(), "orders").0;
    let before = buffers();
    assert!(before > 1000, "{before} buffers of orders");
    for line in lines(section()) {
        match line {
            Line::Command(command) => {
                run(command).ok();
            }
            Line::Restart => {
                cluster.control("restart");
                let after = buffers();
                assert!(after < before / 10, "{after} buffers of {before} after a restart");
            }
        }
    }
    let restored = buffers();
    assert!(restored > before * 9 / 10, "{restored} buffers of {before} were restored");
}

#[test]
fn three_in_the_morning_works_as_it_is_written_for_postgres() {
    let Some(cluster) = StockCluster::start() else { return };
    let _kept = DefaultSnapshots::of(&cluster);
    let run = |command: &str| cluster.run(&[], &["su", "-", "postgres", "-c", &cluster.for_login_shell(command)]);
    follow(&cluster, &run);
    // Before the server is even started.
    cluster.control("stop");
    let command = directory_command(section());
    let (words, named) = command.rsplit_once(' ').unwrap();
    assert!(named.starts_with("/var/lib/postgresql/"), "{command}");
    let restored = run(&format!("{words} {}", cluster.data_directory().display())).ok();
    assert!(format!("{}{}", restored.stdout, restored.stderr).contains("no server"), "{}", restored.stdout);
    cluster.control("start");
}

#[test]
fn three_in_the_morning_works_as_it_is_written_for_root() {
    let Some(cluster) = StockCluster::start() else { return };
    let home = Home::new();
    follow(&cluster, &|command| cluster.run(&[("HOME", home.path().to_str().unwrap())], &["sh", "-c", command]));
}

#[test]
fn the_block_is_read_as_commands_and_one_restart() {
    let read =
        lines("\n    pgthaw a   # why\n    # ... the server is restarted ...\n    pgthaw b --c\n\nprose\n    no\n");
    assert_eq!(read, [Line::Command("pgthaw a"), Line::Restart, Line::Command("pgthaw b --c")]);
    assert!(lines(section()).contains(&Line::Restart) && lines(section()).len() > 3);
}
