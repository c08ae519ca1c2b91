use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;

use super::answer::{Answer as _, Columns as _, answer};
use super::container::find_postmaster_of;
use super::data_directory::is_child;
use super::remedy::psql_as;
use super::{
    Address, ConnectOptions, DataDirectory, Error, Reached, Result, SystemUser, find_extension, read_databases,
};
use host::linux::threads::lock;
use host::units::Bytes;

const UNTESTED_VERSION_NUM: u32 = 200_000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct ServerFacts {
    /// Such as 150018.
    pub version_num: u32,
    /// Such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub version: String,
    /// A 64-bit number; browsers round it.
    pub system_identifier: u64,
    pub cluster_name: String,
    pub block_size: u32,
    /// Blocks of a full segment file.
    pub segment_blocks: u32,
    pub shared_buffers_bytes: Bytes,
    /// `None` without the privilege.
    pub data_directory: Option<PathBuf>,
    /// Whether data files bypass the page cache (`debug_io_direct`, since PostgreSQL 16).
    pub io_direct: bool,
    /// Set since PostgreSQL 18.
    pub io_method: Option<String>,
    pub in_recovery: bool,
    /// WAL position written, or replayed on a standby (empty before the first replay).
    pub lsn: String,
    pub timeline: u32,
    pub role: String,
    pub is_superuser: bool,
    /// Set if the server is on this host with a readable data directory.
    pub postmaster_pid: Option<u32>,
}

/// Tolerance between the lock file's time and `pg_postmaster_start_time()`: allocating shared_buffers takes seconds.
const START_TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

#[derive(Clone, Debug)]
pub struct Server {
    reached: Reached,
    pub facts: ServerFacts,
    pub address: String,
    /// Database of the first connection.
    pub database: String,
    /// Start of the server by this machine's clock.
    pub started_at: Option<Timestamp>,
    /// A standby's WAL source, if visible.
    sender: Address,
    /// `None` if connections are not kept.
    first: Option<Arc<Mutex<Option<PgConnection>>>>,
}

impl Server {
    /// Tries `postgres`, then `template1`, if no database is named.
    pub async fn connect(options: &ConnectOptions) -> Result<Server> {
        let (reached, mut connection) = Reached::reach(options).await?;
        let (address, database) = (reached.address(), reached.database.clone());
        let asked = async {
            prepare(&mut connection, &address).await?;
            read_facts(&mut connection, options.postmaster_pid).await
        };
        let (facts, started_at, sender) = reached.within(asked).await?;
        let first = options.keeps_first.then(|| Arc::new(Mutex::new(Some(connection))));
        Ok(Server { reached, facts, address, database, started_at, sender, first })
    }

    pub async fn connect_to(&self, database: &str) -> Result<PgConnection> {
        if let Some(kept) = self.kept().filter(|_| database == self.database).and_then(|mut kept| kept.take()) {
            return Ok(kept);
        }
        let mut connection = self.reached.connect_to(database).await?;
        let role = self.reached.within(prepare(&mut connection, &self.address)).await?;
        if role != self.facts.role {
            return Err(Error::OtherRole { database: database.to_owned(), role, wanted: self.facts.role.clone() });
        }
        Ok(connection)
    }

    /// Stores a connection for reuse, as another session would start cold.
    pub fn give_back(&self, connection: PgConnection) {
        if let Some(mut kept) = self.kept() {
            *kept = Some(connection);
        }
    }

    pub fn let_go(&mut self) {
        self.kept().and_then(|mut kept| kept.take());
        self.first = None;
    }

    fn kept(&self) -> Option<MutexGuard<'_, Option<PgConnection>>> {
        self.first.as_ref().map(|first| lock(first))
    }

    /// psql command that connects as a superuser: the connected role, else the local server's owner, else `postgres`.
    pub fn psql(&self) -> String {
        if let Some(inside) = self.facts.postmaster_pid.and_then(|pid| self.reached.psql_inside(pid)) {
            return inside;
        }
        let address = self.describe();
        if let Some(user) = self.reached.acting_as() {
            return psql_as(user, &address);
        }
        if self.facts.is_superuser {
            return format!("psql{address}");
        }
        match self.reached.socket_owner() {
            Some(owner) => psql_as(&owner, &Address { user: None, ..address }),
            None => format!("psql{}", Address { user: Some("postgres".into()), ..address }),
        }
    }

    /// psql command for catalog changes; for a standby, on its primary.
    pub fn writing_psql(&self) -> String {
        if !self.facts.in_recovery {
            return self.psql();
        }
        let user = if self.facts.is_superuser { self.describe().user } else { Some("postgres".into()) };
        let host = self.sender.host.clone().or(Some("PRIMARY".into()));
        format!("psql{}", Address { host, user, ..self.sender })
    }

    /// Owner of a local server's files if this user may not read them.
    pub fn closed_owner(&self) -> Option<SystemUser> {
        self.reached.socket_owner().filter(|owner| !owner.can_be_taken())
    }

    pub fn describe(&self) -> Address {
        self.reached.describe()
    }

    /// Tries the connected database, `preferred`, then all others, because any database with the extension shows all of
    /// shared_buffers.
    pub async fn connect_with_extension(&self, name: &'static str, preferred: &[String]) -> Result<PgConnection> {
        let mut tried: Vec<&str> = Vec::new();
        for database in [&self.database].into_iter().chain(preferred) {
            if !tried.contains(&&**database) {
                tried.push(database);
                if let Some(connection) = self.connect_if_it_has(name, database).await? {
                    return Ok(connection);
                }
            }
        }
        let all = read_databases(&mut self.connect_to(&self.database).await?).await?;
        for database in all.iter().filter(|one| one.allows_connections && !tried.contains(&&*one.name)) {
            if let Some(connection) = self.connect_if_it_has(name, &database.name).await? {
                return Ok(connection);
            }
        }
        Err(Error::ExtensionMissing { name, database: self.database.clone() })
    }

    async fn connect_if_it_has(&self, name: &'static str, database: &str) -> Result<Option<PgConnection>> {
        let look = async || -> Result<Option<PgConnection>> {
            let mut connection = self.connect_to(database).await?;
            Ok(find_extension(&mut connection, name).await?.map(|_| connection))
        };
        match look().await {
            Err(_) if database != self.database => Ok(None),
            Err(error) if !error.is_server_gone() => Ok(None),
            found => found,
        }
    }

    pub fn require_cluster_of(&self, directory: &DataDirectory) -> Result<()> {
        if directory.system_identifier == self.facts.system_identifier {
            return Ok(());
        }
        Err(Error::OtherCluster {
            path: directory.path.clone(),
            directory: directory.system_identifier,
            server: self.facts.system_identifier,
            address: self.address.clone(),
        })
    }

    /// Whether this server wrote the directory's `postmaster.pid`. Its process may be invisible, as from another container.
    pub fn has_locked(&self, directory: &DataDirectory) -> bool {
        let locked = directory.read_lock().and_then(|lock| lock.started_at);
        let is_start =
            |(locked, started): (Timestamp, Timestamp)| started.duration_since(locked).abs() < START_TOLERANCE;
        self.reached.is_on_this_host()
            && self.require_cluster_of(directory).is_ok()
            && locked.zip(self.started_at).is_some_and(is_start)
    }

    /// Opens the server's data directory, also in a container on this host.
    pub fn open_directory(&self, path: &Path) -> Result<DataDirectory> {
        match self.facts.postmaster_pid {
            Some(pid) => DataDirectory::of_server(pid, path),
            None => DataDirectory::open(path),
        }
    }

    pub async fn is_there(&self) -> bool {
        self.connect_to(&self.database).await.is_ok()
    }

    pub fn is_local_socket(&self) -> bool {
        self.reached.is_local_socket()
    }

    pub fn version_remark(&self) -> Option<String> {
        (self.facts.version_num >= UNTESTED_VERSION_NUM)
            .then(|| format!("PostgreSQL {} is newer than the newest tested version (19)", self.facts.version))
    }
}

/// Overrides settings of ALTER DATABASE, and returns the role.
async fn prepare(connection: &mut PgConnection, address: &str) -> Result<String> {
    let row = sqlx::query(include_str!("sql/session_13.sql")).fetch_one(connection).await;
    row.and_then(|row| row.try_get("role")).map_err(|source| Error::Connect { address: address.to_owned(), source })
}

pub async fn apply_no_session_limits(connection: &mut PgConnection) -> Result<()> {
    let done = sqlx::query(include_str!("sql/session_no_limits_13.sql")).execute(connection).await;
    done.map(drop).map_err(|source| Error::Query { action: "set up pgthaw's own session", source })
}

async fn read_facts(
    connection: &mut PgConnection,
    known: Option<u32>,
) -> Result<(ServerFacts, Option<Timestamp>, Address)> {
    let failed = |source| Error::Query { action: "read the server's properties", source };
    let row = sqlx::query(include_str!("sql/server_facts_13.sql")).fetch_one(connection).await.map_err(failed)?;
    let backend_pid: u32 = row.try_get("backend_pid").map_err(failed)?;
    let uptime = Duration::try_from_secs_f64(row.try_get("uptime_seconds").map_err(failed)?).ok();
    let started_at = uptime.and_then(|uptime| Timestamp::now().checked_sub(uptime).ok());
    let mut facts = ServerFacts::of(&row).map_err(failed)?;
    facts.postmaster_pid = known.or_else(|| find_postmaster(&facts, backend_pid));
    let port: Option<u32> = row.try_get("sender_port").map_err(failed)?;
    let host = row.try_get("sender_host").map_err(failed)?;
    let sender = Address { host, port: port.and_then(|port| u16::try_from(port).ok()), user: None };
    Ok((facts, started_at, sender))
}

/// `None` unless the backend is a child of the directory's postmaster: another host's server may have the same
/// directory and identifier.
fn find_postmaster(facts: &ServerFacts, backend_pid: u32) -> Option<u32> {
    let path = facts.data_directory.as_deref()?;
    let here = DataDirectory::open(path).ok().filter(|here| here.system_identifier == facts.system_identifier);
    let postmaster = here.and_then(|directory| directory.find_postmaster_pid());
    let postmaster = postmaster.filter(|postmaster| is_child(*postmaster, backend_pid));
    postmaster.or_else(|| find_postmaster_of(backend_pid, path, facts.system_identifier))
}

answer!(row => ServerFacts {
    version, version_num, cluster_name, block_size, io_method, in_recovery, timeline, role, is_superuser;
    system_identifier: row.try_get::<i64, _>("system_identifier")? as u64,
    // Without these settings nothing could be computed.
    segment_blocks: row.try_get::<i64, _>("segment_blocks")? as u32,
    shared_buffers_bytes: Bytes(row.try_get::<i64, _>("shared_buffers_bytes")? as u64),
    data_directory: row.try_get::<Option<String>, _>("data_directory")?.map(PathBuf::from),
    io_direct: row.try_get::<Option<String>, _>("debug_io_direct")?.is_some_and(|what| has_data(&what)),
    lsn: row.try_get::<Option<String>, _>("lsn")?.unwrap_or_default(),
    postmaster_pid: None,
});

fn has_data(debug_io_direct: &str) -> bool {
    debug_io_direct.split(',').any(|part| part.trim().eq_ignore_ascii_case("data"))
}

// A session flushes its statistics about once a second, or on request (since 15). pgthaw subtracts its own sessions'
// statistics.

/// Query that also flushes the session's statistics, if supported.
macro_rules! telling {
    ($connection:expr, $question:literal) => {
        match $crate::server::tells_at_once($connection) {
            true => concat!(include_str!($question), "CROSS JOIN pg_catalog.pg_stat_force_next_flush() AS told\n"),
            false => include_str!($question),
        }
    };
}

pub(super) use telling;

pub(super) fn tells_at_once(connection: &PgConnection) -> bool {
    connection.server_version_num().is_some_and(can_tell_at_once)
}

pub fn can_tell_at_once(version_num: u32) -> bool {
    version_num >= 150_000
}

pub async fn tell_statistics(connection: &mut PgConnection) -> Result<()> {
    if !tells_at_once(connection) {
        return Ok(());
    }
    let told = sqlx::query("SELECT pg_catalog.pg_stat_force_next_flush()").execute(connection).await;
    told.map(drop).map_err(|source| Error::Query { action: "flush the statistics", source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_writing_of_the_log_is_not_that_of_data() {
        assert!(has_data("data") && has_data("wal, DATA"));
        assert!(!has_data("") && !has_data("wal, wal_init"));
    }
}
