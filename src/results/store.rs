//! Opens the store, and brings its schema up to date.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row as _, SqlSafeStr as _};

use super::Error;

/// `PRAGMA application_id` of a results store: "thaw" in ASCII. It tells our file from any other SQLite file.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"thaw");

/// How long to wait for another pgthaw that is writing. A trial is written in well under a second.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The results of runs, kept in one file.
#[derive(Debug)]
pub struct Store {
    pub(super) pool: SqlitePool,
    path: PathBuf,
}

/// Where results are kept when nobody says otherwise: `$XDG_STATE_HOME/pgthaw/results.sqlite`, by default under
/// `~/.local/state`.
pub fn default_path() -> Result<PathBuf, Error> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    Ok(state.ok_or(Error::NoHome)?.join("pgthaw/results.sqlite"))
}

impl Store {
    /// Opens the store to write to it, and makes it (and its directory) when it is not there.
    pub async fn open(path: &Path) -> Result<Store, Error> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory).map_err(|source| Error::File {
                action: "make the directory",
                path: directory.to_owned(),
                source,
            })?;
        }
        Store::connect(path).await
    }

    /// Opens a store that must be there: readers never make one.
    pub async fn open_existing(path: &Path) -> Result<Store, Error> {
        match std::fs::metadata(path) {
            Ok(_) => Store::connect(path).await,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Err(Error::Missing(path.to_owned())),
            Err(source) => Err(Error::File { action: "open", path: path.to_owned(), source }),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file, so that its journal is gone.
    pub async fn close(self) {
        self.pool.close().await;
    }

    async fn connect(path: &Path) -> Result<Store, Error> {
        // A rollback journal and not WAL: one file at rest, works on every file system, and after kill -9 the next
        // opening rolls back. Trials are seconds apart, so its slower commits do not matter.
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Delete)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await;
        let pool = pool.map_err(|source| Error::from_sqlite("open", path.to_owned(), source))?;
        let store = Store { pool, path: path.to_owned() };
        store.claim().await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Marks a new file as ours; refuses one that is not.
    async fn claim(&self) -> Result<(), Error> {
        let facts = "SELECT (SELECT application_id FROM pragma_application_id) AS application_id, \
                     (SELECT count(*) FROM sqlite_schema) AS objects";
        let row = sqlx::query(facts).fetch_one(&self.pool).await.map_err(self.failed_to("open"))?;
        let (application_id, objects): (i32, i64) = (row.get("application_id"), row.get("objects"));
        if application_id == APPLICATION_ID {
            return Ok(());
        }
        if application_id != 0 || objects != 0 {
            return Err(Error::Foreign(self.path.clone()));
        }
        let claim = sqlx::AssertSqlSafe(format!("PRAGMA application_id = {APPLICATION_ID}"));
        sqlx::query(claim).execute(&self.pool).await.map_err(self.failed_to("write"))?;
        Ok(())
    }

    async fn migrate(&self) -> Result<(), Error> {
        migrator().run(&self.pool).await.map_err(|error| match error {
            MigrateError::VersionMissing(_) | MigrateError::VersionMismatch(_) => Error::Newer(self.path.clone()),
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) => {
                self.failed_to("bring up to date")(source)
            }
            other => Error::Damaged { path: self.path.clone(), reason: other.to_string() },
        })
    }

    /// Turns what SQLite said while doing `action` into this folder's error.
    pub(super) fn failed_to(&self, action: &'static str) -> impl Fn(sqlx::Error) -> Error {
        let path = self.path.clone();
        move |source| Error::from_sqlite(action, path.clone(), source)
    }
}

/// The schema's history. A migration is never changed once it was released.
fn migrator() -> Migrator {
    let migrations = [
        (1, "runs, trials, samples", include_str!("migrations/0001_runs_trials_samples.sql")),
        (2, "what a strategy printed", include_str!("migrations/0002_strategy_output.sql")),
        (3, "the workload's reads by tenths of a second", include_str!("migrations/0003_foreground_tenths.sql")),
        (4, "the model's judgements", include_str!("migrations/0004_judgements.sql")),
        (5, "sweeps", include_str!("migrations/0005_sweeps.sql")),
        (6, "runs of loaders", include_str!("migrations/0006_loadings.sql")),
        (7, "what the machine did in each second of a trial", include_str!("migrations/0007_sweep_os_samples.sql")),
        (8, "what the server's processes waited for", include_str!("migrations/0008_sweep_wait_samples.sql")),
        (9, "what speaks against trials and sweeps", include_str!("migrations/0009_sweep_verdicts.sql")),
    ];
    Migrator::with_migrations(
        migrations
            .into_iter()
            .map(|(version, description, sql)| {
                Migration::new(version, description.into(), MigrationType::Simple, sql.into_sql_str(), false)
            })
            .collect(),
    )
}
