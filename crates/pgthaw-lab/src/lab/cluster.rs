use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

use crate::study::{DATABASE, Error, Part, Result, StartState};
use host::linux::{CachedFile, DiskLimit, PageCache as _, SystemPageCache, machine, pages_out_idle};
use host::units::{Bytes, PageRange};
use observe::{STRATEGY_ROLE, WORKLOAD_ROLE};
use postgres::{
    ConnectOptions, DataDirectory, Lender, Listening, PG_PREWARM, Programs, ScratchCluster, Server, StopMode,
};

/// Number of failed evictions after which a start counts as lukewarm: the kernel may not evict pages in use.
const EVICTION_TRIES: u32 = 3;

/// Minimum size of a database for which `make_cold` touches memory: trials of smaller databases end before the kernel
/// pages out idle memory.
const AGEING_BYTES: Bytes = Bytes(256 << 20);

#[derive(Clone, Debug)]
pub enum Place {
    /// A new cluster in a directory below `parent`.
    Scratch { parent: PathBuf },
    /// An existing lab server's cluster, with a temporary database. The lab server is stopped meanwhile.
    Borrowed { data_directory: DataDirectory },
}

impl Place {
    pub fn directory(&self) -> &Path {
        match self {
            Place::Scratch { parent } => parent,
            Place::Borrowed { data_directory } => &data_directory.path,
        }
    }
}

/// Dropping a `Lab` that borrows a lab server's cluster restarts the lab server.
#[derive(Debug)]
pub struct Lab {
    // Fields are dropped in this order: the measured server stops before the borrowed lab server restarts.
    pub cluster: ScratchCluster,
    lender: Option<Lender>,
    /// Value of shared_preload_libraries in the borrowed lab server.
    pub preloaded: String,
    pub programs: Programs,
    pub page_cache: SystemPageCache,
    /// Address for pgbench on other hosts.
    pub listening: Option<Listening>,
    database: String,
    /// Image files of file systems. Their pages must be evicted too.
    pub backing_files: Vec<PathBuf>,
    /// Parts of the cluster (such as WAL) on other file systems, with their mount points.
    pub parts: Vec<(Part, PathBuf)>,
    database_oid: Option<u32>,
}

/// With the index of its relation.
pub type DatabaseFile = (Option<usize>, Box<dyn CachedFile>);

impl Lab {
    /// Stops the lab server to borrow its cluster, which is not started.
    pub fn borrow(programs: &Programs, data_directory: &DataDirectory) -> Result<Lab> {
        let lender = Lender::stop(data_directory.clone(), programs)?;
        let cluster = ScratchCluster::borrow(programs, data_directory, &lender.options)?;
        Lab::of(cluster, Some(lender), programs)
    }

    pub fn of(cluster: ScratchCluster, lender: Option<Lender>, programs: &Programs) -> Result<Lab> {
        let page_cache = SystemPageCache::of(&DataDirectory::open_files(&cluster.data_directory())?);
        Ok(Lab {
            database_oid: None,
            database: DATABASE.to_owned(),
            preloaded: String::new(),
            backing_files: Vec::new(),
            parts: Vec::new(),
            programs: programs.clone(),
            page_cache,
            listening: None,
            cluster,
            lender,
        })
    }

    pub fn is_borrowed(&self) -> bool {
        self.lender.is_some()
    }

    /// Takes effect at the next start.
    pub fn configure_autoprewarm(&self, is_on: bool) -> Result<()> {
        let (libraries, switch) = (libraries_with(&self.preloaded, is_on), if is_on { "on" } else { "off" });
        let settings = [("shared_preload_libraries", libraries.as_str()), ("pg_prewarm.autoprewarm", switch)];
        Ok(self.cluster.configure(&settings)?)
    }

    /// Takes effect at the next start.
    pub fn listen(&mut self, host: &str) -> Result<()> {
        let listening = Listening::find(host, WORKLOAD_ROLE)?;
        self.cluster.listen(&listening)?;
        self.listening = Some(listening);
        Ok(())
    }

    pub fn open_again(&mut self) -> Result<()> {
        self.page_cache = SystemPageCache::of(&DataDirectory::open_files(&self.data_directory())?);
        Ok(())
    }

    pub fn use_database(&mut self, name: &str, oid: u32) {
        name.clone_into(&mut self.database);
        self.database_oid = Some(oid);
    }

    pub fn database(&self) -> &str {
        &self.database
    }

    pub fn has_database(&self) -> bool {
        self.database_oid.is_some()
    }

    /// All processes of the server are under the limit.
    pub fn start(&mut self, limit: Option<&DiskLimit>) -> Result<()> {
        let mut limited = Ok(());
        self.cluster.start_with(|command| {
            limited = limit.map_or(Ok(()), |limit| limit.limit_command(command));
        })?;
        Ok(limited?)
    }

    pub fn stop(&mut self) -> Result<()> {
        Ok(self.cluster.stop(StopMode::Fast)?)
    }

    /// Returns 0, which no process has, if the server is stopped.
    pub fn postmaster_pid(&self) -> u32 {
        self.cluster.postmaster_pid().unwrap_or_default()
    }

    pub fn data_directory(&self) -> PathBuf {
        self.cluster.data_directory()
    }

    pub fn database_directories(&self) -> Result<Vec<PathBuf>> {
        let base = self.data_directory().join("base");
        match self.database_oid {
            Some(oid) if !self.parts.is_empty() => {
                Ok(DataDirectory::open(&self.data_directory())?.directories_of(oid)?)
            }
            Some(oid) => Ok(vec![base.join(oid.to_string())]),
            None => Ok(vec![base]),
        }
    }

    pub fn workload_options(&self) -> ConnectOptions {
        ConnectOptions { user: Some(WORKLOAD_ROLE.into()), ..self.cluster.connect_options(&self.database) }
    }

    pub fn strategy_options(&self) -> ConnectOptions {
        ConnectOptions { user: Some(STRATEGY_ROLE.into()), ..self.cluster.connect_options(&self.database) }
    }

    /// Returns each file with the index of its relation in `first_segments`.
    pub fn open_files_of(&self, first_segments: &[PathBuf]) -> Result<Vec<DatabaseFile>> {
        let mut files = Vec::new();
        for directory in self.database_directories()? {
            visit_files(&directory, &mut |path| {
                let of = first_segments.iter().position(|first| is_segment_of(path, first));
                files.extend(self.page_cache.open(path)?.map(|file| (of, file)));
                Ok(())
            })?;
        }
        Ok(files)
    }

    pub fn apply_read_all(&self, mut goes_on: impl FnMut() -> bool) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for (_, file) in self.open_files_of(&[])? {
            let mut offset = 0;
            while goes_on() {
                match file.apply_read(offset, &mut buffer)? {
                    0 => break,
                    read => offset += read as u64,
                }
            }
        }
        Ok(())
    }

    pub fn read_resident(&self) -> Result<(Bytes, Bytes)> {
        let (mut pages, mut total) = (0, 0);
        for (_, file) in self.open_files_of(&[])? {
            let range = PageRange::new(0, file.size_bytes().div_ceil(self.page_cache.page_bytes()));
            pages += file.read_counts(range)?.cached;
            total += file.size_bytes();
        }
        Ok((Bytes(pages * self.page_cache.page_bytes()), Bytes(total)))
    }

    /// PostgreSQL's programs stay cached, as after a restart.
    pub fn apply_evict(&self) -> Result<StartState> {
        let unless_cold = |state: StartState| if state.verdict == "cold" { Ok(state) } else { self.evict_once() };
        (1..EVICTION_TRIES).try_fold(self.evict_once()?, |state, _| unless_cold(state))
    }

    /// Evicts the database. If the kernel pages out idle memory, also touches the memory that the trial will fill
    /// (docs/decisions/same-history.md).
    pub fn make_cold(&self) -> Result<StartState> {
        let state = self.apply_evict()?;
        if state.total_bytes >= AGEING_BYTES && pages_out_idle() {
            machine::apply_use(Bytes(state.total_bytes.0 * 3))?;
        }
        Ok(state)
    }

    fn evict_once(&self) -> Result<StartState> {
        evict_files(&self.page_cache, &self.data_directory())?;
        self.parts.iter().try_for_each(|(_, elsewhere)| evict_files(&SystemPageCache::new(), elsewhere))?;
        let backing: Bytes =
            self.backing_files.iter().map(|path| self.evict_backing_file(path)).sum::<Result<Bytes>>()?;
        let (os_resident_bytes, total_bytes) = self.read_resident()?;
        Ok(StartState::of(os_resident_bytes + backing, total_bytes))
    }

    /// Returns the number of bytes that stay cached.
    fn evict_backing_file(&self, path: &Path) -> Result<Bytes> {
        let Some(file) = SystemPageCache::new().open(path)? else { return Ok(Bytes(0)) };
        file.apply_evict()?;
        let page_bytes = self.page_cache.page_bytes();
        let pages = file.read_counts(PageRange::new(0, file.size_bytes().div_ceil(page_bytes)))?.cached;
        Ok(Bytes(pages * page_bytes))
    }

    /// Restarts a borrowed lab server. With `keep`, returns the directory of the kept cluster or database.
    pub async fn finish(mut self, keep: bool) -> Result<Option<PathBuf>> {
        if self.is_borrowed() && !keep {
            self.stop()?;
            self.configure_autoprewarm(false)?;
            self.cluster.start_to_tidy()?;
            let server = Server::connect(&self.cluster.connect_options("postgres")).await?;
            drop_benchmark(&mut server.connect_to("postgres").await?).await?;
        }
        self.stop()?;
        let Lab { cluster, lender, .. } = self;
        let kept = keep.then(|| cluster.keep());
        lender.map_or(Ok(()), Lender::start_again)?;
        Ok(kept)
    }
}

const OWN_DATABASES: &str = "SELECT pg_catalog.quote_ident(datname) FROM pg_catalog.pg_database \
                             WHERE datdba = pg_catalog.to_regrole($1)::pg_catalog.oid";

pub async fn drop_benchmark(connection: &mut PgConnection) -> Result<()> {
    let owned = sqlx::query_scalar(OWN_DATABASES).bind(WORKLOAD_ROLE).fetch_all(&mut *connection).await;
    let owned: Vec<String> =
        owned.map_err(|source| postgres::Error::Query { action: "find the benchmark's databases", source })?;
    for database in owned {
        run_statement(connection, "drop the benchmark's database", &format!("DROP DATABASE {database}")).await?;
    }
    for statement in [format!("DROP ROLE IF EXISTS {WORKLOAD_ROLE}"), format!("DROP ROLE IF EXISTS {STRATEGY_ROLE}")] {
        run_statement(connection, "drop the benchmark's roles", &statement).await?;
    }
    Ok(())
}

fn libraries_with(preloaded: &str, autoprewarm: bool) -> String {
    let own: Vec<&str> = preloaded.split(',').map(str::trim).filter(|library| !library.is_empty()).collect();
    let added = (autoprewarm && !own.contains(&PG_PREWARM)).then_some(PG_PREWARM);
    own.into_iter().chain(added).collect::<Vec<_>>().join(",")
}

pub fn evict_files(cache: &SystemPageCache, directory: &Path) -> Result<()> {
    visit_files(directory, &mut |path| Ok(cache.open(path)?.map_or(Ok(()), |file| file.apply_evict())?))
}

/// Does not follow links, and ignores files that vanish.
fn visit_files(directory: &Path, visit: &mut impl FnMut(&Path) -> Result<()>) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|source| Error::file("list", directory, source))?;
    for entry in entries.flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => visit_files(&entry.path(), visit)?,
            Ok(kind) if kind.is_file() => visit(&entry.path())?,
            _ => {}
        }
    }
    Ok(())
}

pub async fn run_statement(connection: &mut PgConnection, action: &'static str, sql: &str) -> Result<()> {
    let done = sqlx::query(AssertSqlSafe(sql)).execute(connection).await;
    Ok(done.map(drop).map_err(|source| postgres::Error::Query { action, source })?)
}

fn is_segment_of(path: &Path, first: &Path) -> bool {
    let is_number = |text: &OsStr| text.to_str().is_some_and(|text| text.parse::<u32>().is_ok());
    path == first || (path.with_extension("") == first && path.extension().is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autoprewarm_comes_beside_what_is_preloaded_anyway() {
        assert_eq!(libraries_with("", true), "pg_prewarm");
        assert_eq!(libraries_with("", false), "");
        assert_eq!(libraries_with("pg_stat_statements, x", true), "pg_stat_statements,x,pg_prewarm");
        assert_eq!(libraries_with("pg_prewarm", false), "pg_prewarm");
    }

    #[test]
    fn files_are_found_at_every_depth_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("1"), "").unwrap();
        fs::write(root.path().join("a/b/2"), "").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("a/again")).unwrap();
        let mut found = Vec::new();
        visit_files(root.path(), &mut |path| {
            found.push(path.file_name().unwrap().to_owned());
            Ok(())
        })
        .unwrap();
        found.sort();
        assert_eq!(found, ["1", "2"]);
    }
}
