use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::postgres::PgPoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio::sync::Mutex;

use super::database::{Database, Query, Row, Transaction, either};
use super::error::{Place, ServerPlace};
use super::{DamagedStudy, Error, Result, trust};
use host::files::{Directory, FILE_MODE, as_owner_of, directory_of, has_foreign_owner, open_regular};
use host::linux::own_program::state_home;
use postgres::{ConnectOptions, PlainServer, hide_password, parse_connection_string};

const APPLICATION_ID: i32 = i32::from_be_bytes(*b"thaw");

/// Finds triggers, and objects with a name from pgthaw's schema ($1) but another CREATE statement. Reading a
/// foreign view may never end; a virtual table or computed column (`AS`) may run code. SQLite keeps statements verbatim
/// and ignores the case of names.
const FACTS_OF_FILE: &str = "SELECT (SELECT application_id FROM pragma_application_id) AS application_id, \
    (SELECT count(*) FROM sqlite_schema) AS objects, (SELECT type || ' ' || name FROM sqlite_schema \
     WHERE sql IS NOT NULL AND instr($1, sql) = 0 \
     AND (type = 'trigger' OR (lower(name) = '_sqlx_migrations' AND (type || sql NOT LIKE 'tableCREATE TABLE%' OR instr(upper(sql), 'AS') > 0)) \
          OR instr($1, 'CREATE TABLE ' || lower(name) || ' (') > 0 OR instr($1, 'CREATE VIEW ' || lower(name) || ' AS') > 0) \
     LIMIT 1) AS stranger";

/// Another program that writes a trial locks the file for well under a second.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A shorter timeout would lose measured results. SQLite's limit is 24 days.
const WRITE_TIMEOUT: Duration = Duration::from_secs(20 * 24 * 60 * 60);

/// Another program creates the schema in well under a second.
const MIGRATION_TRIES: u32 = 10;
const MIGRATION_PAUSE: Duration = Duration::from_millis(200);

/// Timeouts for locks of other sessions, and for statements that pgthaw abandoned.
const SENDER_SESSION: &str = "SET lock_timeout = '10s'; SET statement_timeout = '60s'";

#[derive(Clone, Debug)]
pub struct Store {
    pub(super) database: Database,
    pub(super) place: Place,
    pub(super) queue: Option<Queue>,
}

#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub server: ServerPlace,
    pub link: Arc<Mutex<Link>>,
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub store: Option<Box<Store>>,
    pub failed_at: Option<Instant>,
}

pub fn default_path() -> Result<PathBuf> {
    Ok(state_home().ok_or(Error::NoHome)?.join("pgthaw/results.sqlite"))
}

impl Store {
    pub async fn open(path: &Path) -> Result<Store> {
        let made = as_owner_of(path, || make_file(path)).and_then(|made| made);
        made.map_err(|source| Error::File { action: "create", path: path.to_owned(), source })?;
        Store::connect_file(path, WRITE_TIMEOUT).await
    }

    fn before(self, server: &ServerPlace) -> Store {
        Store { queue: Some(Queue { server: server.clone(), link: Arc::default() }), ..self }
    }

    pub async fn open_existing(path: &Path) -> Result<Store> {
        match open_regular(path) {
            Ok(_) => Store::connect_file(path, READ_TIMEOUT).await,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Err(Error::Missing(path.to_owned())),
            Err(source) => Err(Error::File { action: "open", path: path.to_owned(), source }),
        }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Closing a file also removes its journal.
    pub async fn close(self) {
        either!(self.database, Database(pool) => pool.close().await);
    }

    async fn connect_file(path: &Path, timeout: Duration) -> Result<Store> {
        // Not WAL: with a rollback journal, a closed store is a single file and works on every file system, even
        // read-only. Slow commits do not matter.
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(false)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Delete)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(timeout);
        require_own_journals(path)?;
        // One permanent connection: its thread may run as the file's owner, as root must not open file and journal by
        // name in another user's directory.
        let pool = SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let runtime = tokio::runtime::Handle::current();
        let pool = match has_foreign_owner(path) {
            false => pool.connect_with(options).await,
            true => as_owner_of(path, || runtime.block_on(pool.connect_with(options)))
                .unwrap_or_else(|source| Err(sqlx::Error::Io(source))),
        };
        let place = Place::File(path.to_owned());
        let pool = pool.map_err(|source| Error::from_database("open", &place, source))?;
        let store = Store { database: Database::Sqlite(pool), place, queue: None };
        store.claim_file().await?;
        store.migrate().await?;
        Ok(store)
    }

    pub async fn connect_server(server: &ServerPlace) -> Result<Store> {
        Store::connect_pool(server, PgPoolOptions::new()).await
    }

    pub(super) async fn connect_sender(server: &ServerPlace) -> Result<Store> {
        let pool = PgPoolOptions::new().after_connect(|connection, _| {
            Box::pin(async move { sqlx::raw_sql(SENDER_SESSION).execute(connection).await.map(drop) })
        });
        Store::connect_pool(server, pool).await
    }

    async fn connect_pool(server: &ServerPlace, pool: PgPoolOptions) -> Result<Store> {
        let pool = trust::connect_pool(server, pool).await?;
        let store = Store { database: Database::Postgres(pool), place: Place::Server(server.clone()), queue: None };
        store.check_server().await?;
        store.migrate().await?;
        Ok(store)
    }

    /// Begins a transaction. On a server, first checks that no foreign code, such as a trigger, could run then.
    pub(super) async fn begin(&self) -> Result<Transaction> {
        let mut transaction = self.database.begin().await.map_err(self.failed_to("write"))?;
        if let (Transaction::Postgres(inner), Place::Server(server)) = (&mut transaction, &self.place) {
            let checked = postgres::trust::check_before_writing(inner).await.map_err(self.failed_to("write"))?;
            if let Some(finding) = checked {
                return Err(Error::Untrusted { server: server.clone(), finding });
            }
        }
        Ok(transaction)
    }

    async fn claim_file(&self) -> Result<()> {
        let fact =
            |row: &Row| Ok((row.get::<i64>("application_id")?, row.get::<i64>("objects")?, row.text("stranger")?));
        let facts = self.read(Query::new(FACTS_OF_FILE).bind(SCHEMA_SQL), fact).await?;
        match facts.into_iter().next() {
            Some((application_id, _, stranger)) if application_id == i64::from(APPLICATION_ID) => {
                let Some(what) = stranger else { return Ok(()) };
                let reason = format!("its {what} was not created by this version of pgthaw");
                Err(Error::Damaged { place: self.place.clone(), reason })
            }
            Some((0, 0, _)) => self.execute(Query::new(format!("PRAGMA application_id = {APPLICATION_ID}"))).await,
            _ => Err(Error::Foreign(self.place.clone())),
        }
    }

    async fn check_server(&self) -> Result<()> {
        let facts = "SELECT CAST(pg_catalog.to_regclass('pgthaw.sweeps') IS NOT NULL AS INTEGER) AS ours, \
                     CAST(pg_catalog.to_regclass('pgthaw._sqlx_migrations') IS NOT NULL AS INTEGER) AS history";
        let facts = self.read(Query::new(facts), |row| Ok((row.integer("ours")?, row.integer("history")?))).await?;
        match facts.first() {
            Some((Some(1), Some(0))) => Err(Error::Foreign(self.place.clone())),
            _ => Ok(()),
        }
    }

    async fn migrate(&self) -> Result<()> {
        let description = "studies and their trials".into();
        // A released migration never changes.
        let first = Migration::new(1, description, MigrationType::Simple, SCHEMA_SQL.into_sql_str(), false);
        let migrator = Migrator::with_migrations(vec![first]);
        for tried in 1.. {
            let migrated = either!(&self.database, Database(pool) => migrator.run(pool).await);
            let source = match migrated {
                Ok(()) => break,
                Err(MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _)) => source,
                Err(MigrateError::VersionMissing(_) | MigrateError::VersionMismatch(_)) => {
                    return Err(Error::OtherVersion(self.place.clone()));
                }
                Err(other) => return Err(Error::Damaged { place: self.place.clone(), reason: other.to_string() }),
            };
            // SQLite does not lock migrations, so another program's may have caused the error. Code 5 is a lock timeout.
            let code = source.as_database_error().and_then(|error| error.code());
            let may_be_done = matches!(self.database, Database::Sqlite(_)) && code.is_some_and(|code| code != "5");
            if tried == MIGRATION_TRIES || !may_be_done {
                return Err(self.failed_to("create tables in")(source));
            }
            tokio::time::sleep(MIGRATION_PAUSE).await;
        }
        Ok(())
    }

    pub(super) async fn read<T>(&self, query: Query, from: impl Fn(&Row) -> Result<T, sqlx::Error>) -> Result<Vec<T>> {
        let rows = query.fetch(&self.database).await.map_err(self.failed_to("read"))?;
        rows.iter().map(|row| from(row).map_err(|error| self.failed_to("read")(error))).collect()
    }

    /// An unreadable row counts as damage of the study.
    pub(super) async fn read_of_study<T>(
        &self,
        id: &str,
        query: Query,
        from: impl Fn(&Row) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>> {
        let of_study = |row: &Row| Ok(from(row).map_err(|error| self.failed_to("read")(error).of_study(Some(id))));
        self.read(query, of_study).await?.into_iter().collect()
    }

    pub(super) async fn execute(&self, query: Query) -> Result<()> {
        let mut transaction = self.begin().await?;
        query.execute(&mut transaction).await.map_err(self.failed_to("write"))?;
        transaction.commit().await.map_err(self.failed_to("write"))
    }

    pub(super) fn failed_to(&self, action: &'static str) -> impl Fn(sqlx::Error) -> Error {
        let place = self.place.clone();
        move |source| Error::from_database(action, &place, source)
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place> {
        let told = |error: postgres::Error| Error::Address(error.to_string());
        // Every string can be a file name, but also an address with a password.
        let parameters = match parse_connection_string(text) {
            Ok(Some(parameters)) => parameters,
            Err(error) if hide_password(text).is_some() => return Err(told(error)),
            Ok(None) | Err(_) => return Ok(Place::File(PathBuf::from(text))),
        };
        let connection = ConnectOptions { parameters, ..ConnectOptions::default() };
        Ok(Place::Server(Box::new(PlainServer::new(&connection).map_err(told)?)))
    }
}

impl Place {
    /// Opens the local file, which first stores results for a results server.
    pub async fn open(&self) -> Result<Store> {
        match self {
            Place::File(path) => Store::open(path).await,
            Place::Server(server) => Ok(Store::open(&default_path()?).await?.before(server)),
        }
    }

    /// Returns damaged studies, which cannot be sent.
    pub async fn open_existing(&self) -> Result<(Store, Vec<DamagedStudy>)> {
        match self {
            Place::File(path) => Ok((Store::open_existing(path).await?, Vec::new())),
            Place::Server(server) => {
                let mut lacking = Vec::new();
                if let Some(copy) = self.open_local_copy().await? {
                    let queue = copy.before(server);
                    if queue.count_unsent().await? > 0 {
                        lacking = queue.send().await?;
                    }
                    queue.close().await;
                }
                Ok((Store::connect_server(server).await?, lacking))
            }
        }
    }

    pub async fn open_local_copy(&self) -> Result<Option<Store>> {
        let Place::Server(_) = self else { return Ok(None) };
        let path = default_path()?;
        Ok(if path.exists() { Some(Store::open_existing(&path).await?) } else { None })
    }
}

/// SQLite trusts a journal beside the file, even another user's.
fn require_own_journals(path: &Path) -> Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for suffix in ["-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let (journal, file) = (std::fs::symlink_metadata(&name), std::fs::metadata(&path));
        let (Ok(journal), Ok(file)) = (journal, file) else { continue };
        // This user may write to another user's results store.
        let is_own = [file.uid(), rustix::process::geteuid().as_raw()].contains(&journal.uid());
        if !journal.is_file() || !is_own {
            let reason = "another user created a journal beside the results store; remove it, or store results where only you can write";
            let source = io::Error::new(io::ErrorKind::PermissionDenied, reason);
            return Err(Error::File { action: "use", path: name.into(), source });
        }
    }
    Ok(())
}

/// Creates the file, which SQLite would make readable by other users.
fn make_file(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let directory = Directory::create(directory_of(path))?;
    match directory.create_file(name, FILE_MODE) {
        // The existing file may be a symbolic link.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_regular(path).map(drop),
        made => made.map(drop),
    }
}

const SCHEMA_SQL: &str = include_str!("migrations/0001.sql");
