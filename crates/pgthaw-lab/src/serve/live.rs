//! The running trial. Every second, its process writes that second's figures to the board, a file in memory (below
//! XDG_RUNTIME_DIR or /dev/shm), because writes to a disk would distort the measurement. `serve` reads the board.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use crate::study::{Event, LiveSecond, SweepRun, SweepTrialStarted};
use host::files::{Directory, read_open_at_most};

/// Maximum size of a board file: room for weeks, at 100 bytes a second.
const BOARD_BYTES_MAX: u64 = 256 << 20;

const BOARD: &str = "jsonl";

/// Attempts to lock a board. Readers hold the lock for microseconds, or a few time slices on a busy machine.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct LiveTrial {
    pub sweep_id: String,
    pub question: String,
    #[serde(flatten)]
    pub started: SweepTrialStarted,
    pub began_at: Timestamp,
    pub samples: Vec<LiveSecond>,
}

/// Writes the figures of the running trial to the board. Ignores errors.
#[derive(Debug, Default)]
pub struct LiveBoard(Option<Board>);

impl LiveBoard {
    pub fn hear(&mut self, event: &Event) {
        match (event, &mut self.0) {
            (Event::SweepStarted(sweep), board) => *board = Board::new(sweep),
            (Event::SweepTrialStarted(trial), Some(board)) => board.begin(trial),
            (Event::Second(second), Some(board)) => board.write(second),
            _ => {}
        }
    }
}

#[derive(Debug)]
struct Board {
    sweep_id: String,
    question: String,
    directory: Directory,
    file: File,
}

impl Board {
    /// The file stays locked while the board exists.
    fn new(sweep: &SweepRun) -> Option<Board> {
        let name = format!("{}.{BOARD}", sweep.id);
        let directory = open_directory(true)?;
        remove_left(&directory);
        let file = open_locked(&directory, &name)?;
        Some(Board { sweep_id: sweep.id.clone(), question: sweep.subject(), directory, file })
    }

    fn begin(&mut self, trial: &SweepTrialStarted) {
        let header = LiveTrial {
            sweep_id: self.sweep_id.clone(),
            question: self.question.clone(),
            started: trial.clone(),
            began_at: Timestamp::now(),
            samples: Vec::new(),
        };
        let _ = self.file.set_len(0).and_then(|()| self.file.rewind());
        self.write(&header);
    }

    fn write(&mut self, line: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(line) {
            let _ = writeln!(self.file, "{text}");
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.directory.remove_file(format!("{}.{BOARD}", self.sweep_id));
    }
}

pub fn read_live() -> Vec<LiveTrial> {
    let Some(directory) = open_directory(false) else { return Vec::new() };
    let entries = directory.entries().unwrap_or_default().into_iter();
    let read = |name: &OsStr| {
        let file = open_written(&directory, name)?;
        let text = read_open_at_most(file, BOARD_BYTES_MAX).ok()?;
        parse_board(&String::from_utf8_lossy(&text))
    };
    let mut trials: Vec<LiveTrial> = entries.filter_map(|entry| read(&entry.name)).collect();
    trials.sort_by(|one, other| one.sweep_id.cmp(&other.sweep_id));
    trials
}

fn remove_left(directory: &Directory) {
    for entry in directory.entries().unwrap_or_default() {
        open_written(directory, &entry.name);
    }
}

fn open_written(directory: &Directory, name: &OsStr) -> Option<File> {
    // Other files may not be pgthaw's.
    if Path::new(name).extension() != Some(OsStr::new(BOARD)) {
        return None;
    }
    let file = directory.open_file(name).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return Some(file);
    }
    remove_dead(directory, name, &file);
    None
}

/// Removes the board `name`, opened as `file`, unless another process has removed `file`: `name` may then be a
/// new board. Under the exclusive lock, no other process removes `file`.
fn remove_dead(directory: &Directory, name: &OsStr, file: &File) {
    if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() && has_name(file) {
        let _ = directory.remove_file(name);
    }
}

fn has_name(file: &File) -> bool {
    file.metadata().is_ok_and(|facts| facts.nlink() > 0)
}

/// Parses a header line, then one line per second. The last line may be incomplete.
fn parse_board(text: &str) -> Option<LiveTrial> {
    let (header, seconds) = text.split_once('\n')?;
    let mut trial: LiveTrial = serde_json::from_str(header).ok()?;
    trial.samples = seconds.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    Some(trial)
}

/// Directory in memory, owned by this user alone: /dev/shm is world-writable.
fn open_directory(is_made: bool) -> Option<Directory> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let user = rustix::process::geteuid().as_raw();
    let path = runtime.map_or(format!("/dev/shm/pgthaw-{user}").into(), |runtime| runtime.join("pgthaw"));
    if is_made {
        let _ = DirBuilder::new().mode(0o700).create(&path);
    }
    let directory = Directory::open_itself(&path).ok()?;
    let facts = directory.facts().ok()?;
    (facts.st_uid == user && facts.st_mode & 0o077 == 0).then_some(directory)
}

/// Tries again if a reader has locked or removed the file.
fn open_locked(directory: &Directory, name: &str) -> Option<File> {
    let open = |attempt| {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        let made = directory.create_file(name, 0o600);
        let file = made.or_else(|_| directory.open_file_with(name, OFlags::RDWR)).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        has_name(&file).then_some(file)
    };
    (0..ATTEMPTS).find_map(open)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn boards_of_killed_processes_go_when_the_next_is_made() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open_itself(place.path()).unwrap();
        let held = open_locked(&directory, "held.jsonl").unwrap();
        drop(open_locked(&directory, "killed.jsonl").unwrap());
        drop(directory.create_file("notes", 0o600).unwrap());
        remove_left(&directory);
        let mut names: Vec<_> = directory.entries().unwrap().into_iter().map(|entry| entry.name).collect();
        names.sort();
        assert_eq!(names, ["held.jsonl", "notes"]);
        assert!(open_locked(&directory, "held.jsonl").is_none(), "it has one owner");
        drop(held);
        assert!(open_locked(&directory, "held.jsonl").is_some());
    }

    #[test]
    fn of_two_who_find_a_dead_board_the_second_leaves_the_living_one_of_its_name_alone() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open_itself(place.path()).unwrap();
        let name = OsStr::new("again.jsonl");
        drop(open_locked(&directory, "again.jsonl").unwrap());
        let found_by_second = directory.open_file(name).unwrap();
        remove_left(&directory);
        let _living = open_locked(&directory, "again.jsonl").unwrap();
        remove_dead(&directory, name, &found_by_second);
        assert!(directory.open_file(name).is_ok());
    }

    #[test]
    fn a_board_is_made_while_others_look() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open_itself(place.path()).unwrap();
        let is_over = AtomicBool::new(false);
        let look = || {
            while !is_over.load(Ordering::Relaxed) {
                remove_left(&directory);
                std::thread::sleep(Duration::from_micros(50));
            }
        };
        let make = || {
            let board = open_locked(&directory, "made.jsonl")?;
            let is_there = directory.open_file(OsStr::new("made.jsonl")).is_ok() && has_name(&board);
            Some(is_there)
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            (0..2).for_each(|_| drop(scope.spawn(look)));
            let made = (0..2000).map(|_| make()).collect();
            is_over.store(true, Ordering::Relaxed);
            made
        });
        assert!(made.iter().all(|made| *made == Some(true)), "{made:?}");
    }

    #[test]
    fn a_board_is_read_up_to_the_line_that_is_being_written() {
        let header = r#"{"sweep_id":"s","question":"q","label":"clients 4","repeat":1,"position":2,"trials":6,"seconds":30,"left_seconds":90.0,"began_at":"2026-11-22T10:00:00Z","samples":[]}"#;
        let second = r#"{"second":1,"tps":100.0,"device_read_bytes":0,"os_resident_bytes":5}"#;
        let trial = parse_board(&format!("{header}\n{second}\n{}", &second[..20])).unwrap();
        assert_eq!((trial.started.label.as_str(), trial.samples.len()), ("clients 4", 1));
        assert_eq!(trial.samples[0].tps, Some(100.0));
        assert_eq!(parse_board(&header[..40]), None);
        assert_eq!(parse_board(""), None);
    }
}
