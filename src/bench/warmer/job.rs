//! The job of a study: how it is run beside the load, and the films that pgthaw goes by then. Every trial finds the same films.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::own_program::{device_arguments, own_program};
use crate::lab::{Error, Lab, Launch, client_variables};
use crate::study::{Disk, Strategy};
use crate::warm::{DEVICES, STATE, state_directory};

/// The name that its films are kept under.
const LABEL: &str = "job";

/// The study's job.
#[derive(Debug)]
pub struct StudyJob {
    command: Vec<String>,
    directory: PathBuf,
    /// State directories with a film of the job, by the name of the disk that it was recorded on: how fast a cold job was says what
    /// the device can give.
    films: BTreeMap<String, PathBuf>,
}

impl StudyJob {
    /// One that keeps what it needs in `directory`.
    pub fn new(command: &[String], directory: &Path) -> StudyJob {
        StudyJob { command: command.to_vec(), directory: directory.to_owned(), films: BTreeMap::new() }
    }

    /// Records a film of the job. The server is cold.
    pub fn plan_recording(&self, lab: &Lab) -> Result<Launch, Error> {
        let record = ["run", "--record-only", "--like", LABEL, "--"].map(OsString::from);
        Ok(self.launch(lab, [own_program()?].into_iter().chain(record)))
    }

    /// Keeps what was recorded on a disk.
    pub fn keep_film(&mut self, disk: &Disk) -> Result<(), Error> {
        let kept = self.directory.join(format!("films-{}", self.films.len()));
        fs::rename(self.state_home(), &kept).map_err(|source| Error::file("keep", &kept, source))?;
        self.films.insert(disk.name.clone(), kept);
        Ok(())
    }

    /// Gives the next trial on this disk a state directory as every other one had it: what the last one kept is gone.
    pub fn place_films(&self, disk: &Disk) -> Result<(), Error> {
        let state = self.state_home();
        let place = || {
            if state.exists() {
                fs::remove_dir_all(&state)?;
            }
            let devices = state_directory().join(DEVICES);
            if devices.is_dir() {
                copy_files(&devices, &state.join(STATE).join(DEVICES))?;
            }
            self.films.get(&disk.name).map_or(Ok(()), |films| copy_files(films, &state))
        };
        place().map_err(|source| Error::file("place films in", &state, source))
    }

    /// The job, by itself or helped by pgthaw, on this disk.
    pub fn plan_launch(&self, strategy: Strategy, lab: &Lab, disk: &Disk) -> Result<Launch, Error> {
        let words: &[&str] = match strategy {
            Strategy::Run => &["run", "--like", LABEL],
            Strategy::Isolate => &["run", "--like", LABEL, "--protect=isolate"],
            Strategy::Replay => &["run", "--film", LABEL],
            _ => return Ok(self.launch(lab, [])),
        };
        let words = words.iter().map(OsString::from).chain(device_arguments(disk)).chain([OsString::from("--")]);
        Ok(self.launch(lab, [own_program()?].into_iter().chain(words)))
    }

    /// The job behind these words, told where the server is as every client of PostgreSQL is. The films of whoever runs the study are
    /// not touched.
    fn launch(&self, lab: &Lab, before: impl IntoIterator<Item = OsString>) -> Launch {
        let mut state_home = OsString::from("XDG_STATE_HOME=");
        state_home.push(self.state_home());
        let variables = client_variables(lab.strategy_options()).into_iter().map(OsString::from).chain([state_home]);
        Launch::new("env", variables.chain(before).chain(self.command.iter().map(OsString::from)))
    }

    fn state_home(&self) -> PathBuf {
        self.directory.join("state")
    }
}

/// Copies a directory with all that is in it.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_files(&entry.path(), &place)?,
            false => drop(fs::copy(entry.path(), place)?),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::disk::tests::named;

    #[test]
    fn what_a_trial_leaves_is_not_there_in_the_next() {
        let place = tempfile::tempdir().unwrap();
        let mut job = StudyJob::new(&["true".to_owned()], place.path());
        let film = |name: &str| job_films(place.path()).join(name);
        fs::create_dir_all(job_films(place.path())).unwrap();
        fs::write(film("of-gp3"), "film").unwrap();
        job.keep_film(&named("gp3")).unwrap();
        for _ in 0..2 {
            job.place_films(&named("gp3")).unwrap();
            assert_eq!(fs::read_to_string(film("of-gp3")).unwrap(), "film");
            assert!(!film("of-the-trial").exists());
            fs::write(film("of-the-trial"), "film").unwrap();
        }
        job.place_films(&named("hdd")).unwrap();
        assert!(!film("of-gp3").exists() && !film("of-the-trial").exists());
    }

    fn job_films(place: &Path) -> PathBuf {
        place.join("state/pgthaw/films/1")
    }
}
