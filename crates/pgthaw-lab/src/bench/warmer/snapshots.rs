//! What the warm state left behind for the strategies that bring a snapshot back: each has its own, taken at the same
//! time of the same state.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use sqlx::postgres::PgConnection;

use crate::bench::resident::{Wanted, write_list};
use crate::lab::{Error, Lab, Launch, client_variables, run_statement};
use crate::study::{Disk, PGTHAW, Strategy};
use cache::warm::{DEVICES, STATE, state_directory};
use cache::{HeatInputs, MapInputs, Snapshot, read_heat, read_map};
use host::files::Directory;
use host::linux::SystemPageCache;
use host::linux::page_cache::PageCache as _;
use postgres::{DataDirectory, Server, read_databases};

/// Every relation with storage of the connected database, its catalogs too.
pub const WITH_STORAGE: &str =
    "FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'i', 't', 'm') AND pg_catalog.pg_relation_size(c.oid) > 0";

/// The statement that keeps pgfincore's snapshot in a table.
pub fn pgfincore_take_sql() -> String {
    format!(
        "CREATE TABLE public.pgfincore_snapshot AS SELECT c.oid::pg_catalog.regclass AS relation, p.segment, p.databit \
         FROM (SELECT c.oid {WITH_STORAGE}) c, public.pgfincore(c.oid::pg_catalog.regclass, 'main', true) p"
    )
}

/// autoprewarm's file, in the data directory.
const AUTOPREWARM_FILE: &str = "autoprewarm.blocks";

/// The snapshots of the warm state.
#[derive(Debug)]
pub struct WarmSnapshots {
    directory: PathBuf,
    wanted: Arc<Wanted>,
    job: StudyJob,
}

impl WarmSnapshots {
    /// Takes those that `strategies` need, of the server as it is now, and keeps them in `directory`. pgfincore's
    /// stands in a table of the database. `is_watched`: somebody looks whether what is wanted is back. The `job` has no films yet.
    pub async fn take(
        strategies: &[Strategy],
        job: &[String],
        is_watched: bool,
        lab: &Lab,
        server: &Server,
        directory: &Path,
    ) -> Result<WarmSnapshots, Error> {
        let job = StudyJob::new(job, directory);
        let mut snapshots = WarmSnapshots { directory: directory.to_owned(), wanted: Arc::default(), job };
        let mut connection = server.connect_to(lab.database()).await?;
        if strategies.contains(&Strategy::Pgfincore) {
            let drop_earlier = "DROP TABLE IF EXISTS public.pgfincore_snapshot";
            run_statement(&mut connection, "drop pgfincore's earlier snapshot", drop_earlier).await?;
            run_statement(&mut connection, "take pgfincore's snapshot", &pgfincore_take_sql()).await?;
        }
        if strategies.contains(&Strategy::Autoprewarm) {
            run_statement(&mut connection, "take autoprewarm's snapshot", "SELECT public.autoprewarm_dump_now()")
                .await?;
            snapshots.copy_autoprewarm(lab)?;
        }
        if is_watched || strategies.iter().any(|one| one.reads_snapshot()) {
            snapshots.take_pgthaw(lab, server, &mut connection).await?;
            let map = Snapshot::read(&snapshots.pgthaw_file())?.map;
            snapshots.wanted = Arc::new(Wanted::of(&map, &lab.data_directory(), lab.page_cache().page_bytes()));
        }
        if is_watched && snapshots.wanted.files.is_empty() {
            return Err(Error::NothingWanted);
        }
        if strategies.contains(&Strategy::Ranges) {
            write_list(&snapshots.range_list(), &snapshots.wanted)?;
        }
        Ok(snapshots)
    }

    /// What pgthaw's snapshot asks for; nothing where there is none.
    pub fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    /// The study's job.
    pub fn job(&self) -> &StudyJob {
        &self.job
    }

    pub fn job_mut(&mut self) -> &mut StudyJob {
        &mut self.job
    }

    /// The same as ranges of files.
    pub fn range_list(&self) -> PathBuf {
        self.directory.join("ranges")
    }

    /// The snapshot for `pgthaw restore`.
    pub fn pgthaw_file(&self) -> PathBuf {
        self.directory.join("warm.parquet")
    }

    async fn take_pgthaw(&self, lab: &Lab, server: &Server, connection: &mut PgConnection) -> Result<(), Error> {
        let mut databases = read_databases(connection).await?;
        databases.retain(|database| database.name == lab.database());
        let data_directory = DataDirectory::open(&lab.data_directory())?;
        let page_cache = SystemPageCache::of(&data_directory.files);
        let map = read_map(MapInputs {
            server: Some(server),
            data_directory: Some(&data_directory),
            page_cache: &page_cache,
            databases: &databases,
            named: None,
            names: None,
            progress: &|_, _| {},
        });
        let mut map = map.await?;
        let inputs = HeatInputs {
            server: Some(server),
            data_directory: Some(&data_directory),
            page_cache: &page_cache,
            databases: &databases,
            earlier: &[],
        };
        read_heat(&mut map, inputs).await;
        Ok(Snapshot::new(map, None).write(&self.pgthaw_file())?)
    }

    /// Prepares the stopped server for a trial: autoprewarm's library and file are there for its own trials only, as
    /// the server writes the file anew whenever it stops.
    pub fn place(&self, strategy: Strategy, lab: &Lab) -> Result<(), Error> {
        if strategy == Strategy::Autoprewarm {
            let data = DataDirectory::open_files(&lab.data_directory())?;
            let kept = Directory::open(&self.directory).and_then(|kept| kept.open_file(AUTOPREWARM_FILE));
            let placed = kept.and_then(|kept| data.replace(AUTOPREWARM_FILE, kept));
            placed.map_err(|source| Error::file("copy", &self.directory.join(AUTOPREWARM_FILE), source))?;
        }
        lab.configure_autoprewarm(strategy == Strategy::Autoprewarm)
    }

    /// Keeps autoprewarm's file: what the server's user wrote himself, and nothing that he has a link to.
    fn copy_autoprewarm(&self, lab: &Lab) -> Result<(), Error> {
        let data = DataDirectory::open_files(&lab.data_directory())?;
        let copy = || {
            let mut kept = Directory::open(&self.directory)?.create_file(AUTOPREWARM_FILE, 0o600)?;
            io::copy(&mut data.open_file(AUTOPREWARM_FILE)?, &mut kept)
        };
        let copied = copy().map_err(|source| Error::file("copy", &data.path().join(AUTOPREWARM_FILE), source));
        copied.map(drop)
    }
}

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

/// The tool, which is beside the laboratory.
pub fn own_program() -> Result<OsString, Error> {
    let missing = || Error::Launch { command: PGTHAW.into(), source: std::io::ErrorKind::NotFound.into() };
    Ok(host::linux::own_program::find_beside(PGTHAW).ok_or_else(missing)?.into())
}

/// What its user would tell it of the disk, as far as that is in force.
pub fn device_arguments(disk: &Disk) -> Vec<OsString> {
    let figures = [("--riops", disk.riops), ("--rbps", disk.rbps.map(|bytes| bytes.0))];
    let in_force = figures.into_iter().filter(|_| disk.not_enforced.is_none());
    let in_force = in_force.filter_map(|(option, figure)| Some((option, figure?)));
    in_force.flat_map(|(option, figure)| [option.into(), figure.to_string().into()]).collect()
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
