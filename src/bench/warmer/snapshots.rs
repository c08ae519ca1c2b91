//! What the warm state left behind for the strategies that bring a snapshot back: each has its own, taken at the same
//! time of the same state.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::postgres::PgConnection;

use super::job::StudyJob;
use crate::bench::resident::{Wanted, write_list};
use crate::cache::{HeatInputs, MapInputs, Snapshot, read_heat, read_map};
use crate::files::Directory;
use crate::lab::{Error, Lab, run_statement};
use crate::linux::SystemPageCache;
use crate::linux::page_cache::PageCache as _;
use crate::postgres::{DataDirectory, Server, read_databases};
use crate::study::Strategy;

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
