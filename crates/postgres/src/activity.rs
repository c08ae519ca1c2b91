use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgConnection, PgRow};

use super::answer::{Answer as _, Columns as _, answer, ask_all, ask_one, ask_rows, collect_rows, columns, in_time};
use super::server::telling;
use super::{RelationKind, Result};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    pub transactions: u64,
    /// Clients active within the last second, except this session.
    pub clients: u32,
    pub blocks_hit: u64,
    pub blocks_read: u64,
    /// Processes of sessions that worked, and whether they are new.
    pub sessions: Vec<(u32, bool)>,
    pub relations: Vec<RelationActivity>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RelationActivity {
    pub oid: u32,
    pub schema: String,
    pub name: String,
    pub kind: RelationKind,
    /// Main fork only.
    pub blocks: u64,
    /// Hits and misses.
    pub requests: u64,
    /// Index scans, or sequential scans of a table.
    pub scans: u64,
    pub rows: RowCounts,
    /// Table of an index.
    pub table: Option<u32>,
    /// `btree`, `gin`, `heap`; empty if unknown.
    pub access_method: String,
    /// As of the last VACUUM, ANALYZE or CREATE INDEX.
    pub tuples: Option<f64>,
}

answer!(row => RelationActivity {
    oid, schema, name, blocks, requests, scans, table, access_method;
    kind: RelationKind::from_relkind(&row.try_get::<String, _>("relkind")?).unwrap_or(RelationKind::Unknown),
    rows: RowCounts::of(row)?,
    tuples: Some(row.try_get::<f64, _>("tuples")?).filter(|tuples| *tuples > 0.0),
});

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowCounts {
    /// For a table, rows from sequential scans; for an index, entries returned.
    pub read: u64,
    /// For an index, rows fetched by plain index scans; for a table, by any index scan.
    pub fetched: u64,
    pub inserted: u64,
    /// Updated or deleted rows.
    pub changed: u64,
}

answer!(row => RowCounts { read, fetched, inserted, changed });

impl RowCounts {
    fn since(self, before: RowCounts) -> RowCounts {
        host::fieldwise!(RowCounts, self.saturating_sub(before): read, fetched, inserted, changed)
    }
}

/// `sessions` lists the sessions that worked during the last `within`.
pub async fn read_activity(connection: &mut PgConnection, within: Duration) -> Result<Activity> {
    let read = async {
        // Runs outside a transaction, which could cache statistics.
        let row = sqlx::query(include_str!("sql/transactions_13.sql"))
            .bind(within.as_secs_f64())
            .fetch_one(&mut *connection)
            .await?;
        let rows = sqlx::query(include_str!("sql/activity_13.sql")).fetch(connection);
        Ok(columns!(row => Activity {
            transactions, clients, blocks_hit, blocks_read;
            sessions: row.try_get::<Vec<u32>, _>("pids")?.into_iter()
                .zip(row.try_get::<Vec<bool>, _>("are_new")?).collect(),
            relations: collect_rows(rows, |row| RelationActivity::of(row).map(Some)).await?,
        }))
    };
    in_time("read the statistics of the database", read).await
}

impl Activity {
    /// Relations created since `before` count from 0.
    pub fn since(&self, before: &Activity) -> Activity {
        let earlier = |oid| before.relations.iter().find(|one| one.oid == oid);
        let relations = self.relations.iter().map(|now| {
            let Some(then) = earlier(now.oid) else { return now.clone() };
            RelationActivity {
                requests: now.requests.saturating_sub(then.requests),
                scans: now.scans.saturating_sub(then.scans),
                rows: now.rows.since(then.rows),
                ..now.clone()
            }
        });
        Activity {
            transactions: self.transactions.saturating_sub(before.transactions),
            clients: self.clients,
            blocks_hit: self.blocks_hit.saturating_sub(before.blocks_hit),
            blocks_read: self.blocks_read.saturating_sub(before.blocks_read),
            sessions: self.sessions.clone(),
            relations: relations.collect(),
        }
    }
}

/// A session. A field is `None` without the privilege to see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Session {
    /// 0 for a prepared transaction.
    pub pid: u32,
    /// Such as `client backend`.
    pub backend: Option<String>,
    pub user: Option<String>,
    pub database: Option<String>,
    pub application_name: Option<String>,
    /// Current or last query. Constants are shown as `?`.
    pub query: Option<String>,
    /// Such as `LWLock`; `None` if not waiting.
    pub event_type: Option<String>,
    pub event: Option<String>,
    /// Start of the process, in microseconds since 1970; 0 if not visible.
    pub started_us: u64,
    /// Such as `idle`; `None` for a background process.
    pub state: Option<String>,
    pub state_ms: Option<u64>,
}

answer!(row => Session {
    pid, backend, user, database, application_name, query, event_type, event, started_us, state, state_ms
});

pub async fn read_named_sessions(connection: &mut PgConnection, name: &str) -> Result<Vec<u32>> {
    let question = sqlx::query(telling!(connection, "sql/named_sessions_13.sql")).bind(name);
    ask_one(connection, "find the job's sessions", question).await
}

pub async fn read_sessions(connection: &mut PgConnection) -> Result<Vec<Session>> {
    ask_all(connection, "read the backends' activity", telling!(connection, "sql/sessions_13.sql")).await
}

// Titles are set in `src/backend/utils/misc/ps_status.c`.

const KINDS: &str = "checkpointer,background writer,walwriter,autovacuum launcher,autovacuum worker,io worker,\
    parallel worker,walsender,walreceiver,archiver,startup,logger,syslogger,logical replication launcher,\
    logical replication apply worker,slotsync worker,walsummarizer,stats collector";

const PARALLEL_WORKER: &str = "parallel worker";

/// A walsender's title contains the client's address.
pub const WALSENDER: &str = "walsender";

/// Parses a title such as `postgres: 15/main: checkpointer`. `None` for a client session, whatever names it contains.
pub fn background_kind(title: &str) -> Option<&'static str> {
    let told = title.strip_prefix("postgres: ")?;
    // The title may begin with cluster_name.
    let named = told.split_once(": ").map(|(_, told)| told);
    [Some(told), named].into_iter().flatten().find_map(kind_of)
}

/// The pid in a title such as `postgres: main: parallel worker for PID 4711`.
pub fn leader_of(title: &str) -> Option<u32> {
    background_kind(title).filter(|kind| *kind == PARALLEL_WORKER)?;
    let (_, leader) = title.split_once(PARALLEL_WORKER)?;
    leader.strip_prefix(" for PID ")?.split_whitespace().next()?.parse().ok()
}

fn kind_of(told: &str) -> Option<&'static str> {
    let begins = |kind: &&str| told.strip_prefix(*kind).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    let kind = KINDS.split(',').find(begins)?;
    (kind == WALSENDER || !told.split(' ').any(is_client)).then_some(kind)
}

fn is_client(word: &str) -> bool {
    let port = || word.strip_suffix(')')?.rsplit_once('(').map(|(_, port)| port);
    word == "[local]" || port().is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Type, state and wait event that processes share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, crate::JsonSchema)]
pub struct Wait {
    /// Kind of process.
    pub backend: String,
    pub state: Option<String>,
    /// Class of the wait event. `None` if not waiting.
    pub event_type: Option<String>,
    pub event: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitLook {
    pub seen: Vec<(Wait, u32)>,
    /// Other writing transactions during a WAL flush; `None` if no flush was seen.
    pub others_at_flush: Option<u32>,
}

impl WaitLook {
    /// `rows`: wait, number of processes, number of those whose transaction has written.
    fn new(rows: Vec<(Wait, u32, u32)>) -> WaitLook {
        // Like commit_siblings (MinimumActiveBackends in procarray.c), excludes transactions that wait for a lock.
        let is_held_up = |wait: &Wait| wait.event_type.as_deref() == Some("Lock");
        let is_flushing = |wait: &Wait| wait.event.as_deref().is_some_and(|event| WAL_SYNC.contains(&event));
        let writing: u32 = rows.iter().filter(|(wait, ..)| !is_held_up(wait)).map(|(_, _, writing)| writing).sum();
        let flushing = rows.iter().filter(|(wait, ..)| is_flushing(wait)).map(|(_, _, own)| *own);
        // Excludes the flushing transaction. The walwriter flushes without a transaction.
        let others_at_flush = flushing.max().map(|own| writing - own.min(1));
        let seen = rows.into_iter().map(|(wait, observed, _)| (wait, observed)).collect();
        WaitLook { seen, others_at_flush }
    }
}

/// Wait event of a WAL flush: up to PostgreSQL 16, and since 17.
const WAL_SYNC: [&str; 2] = ["WALSync", "WalSync"];

pub async fn read_backend_pid(connection: &mut PgConnection) -> Result<u32> {
    let question = sqlx::query("SELECT pg_catalog.pg_backend_pid()");
    ask_one(connection, "read the connection's process id", question).await
}

/// Seconds since 1970 by the server's clock.
pub async fn read_postmaster_start(connection: &mut PgConnection) -> Result<f64> {
    let question = "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.float8";
    ask_one(connection, "read the server's start time", sqlx::query(question)).await
}

pub async fn read_wait_event_names(connection: &mut PgConnection) -> Result<Vec<(String, String)>> {
    let question = "SELECT type, name FROM pg_catalog.pg_get_wait_events()";
    ask_all(connection, "read the names of wait events", question).await
}

pub async fn read_waits(connection: &mut PgConnection) -> Result<WaitLook> {
    let question = || sqlx::query(include_str!("sql/waits_13.sql"));
    let decode = |row: &PgRow| {
        // A starting process has no type.
        let backend = row.try_get::<Option<String>, _>("backend_type")?.unwrap_or_default();
        let wait = columns!(row => Wait { state, event_type, event; backend });
        Ok(Some((wait, row.try_get("observed")?, row.try_get("writing")?)))
    };
    ask_rows(connection, "read the backends' wait events", question, decode).await.map(WaitLook::new)
}

/// A process that waits for a lock, blocks others, or both. For a prepared transaction, only the locks are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct LockProcess {
    #[serde(flatten)]
    pub session: Session,
    /// Number of directly blocked processes.
    pub waiters: u32,
    /// Process ids of its blockers, from pg_blocking_pids.
    pub blocked_by: Vec<u32>,
    /// Mode of the awaited lock, such as `ShareLock`.
    pub mode: Option<String>,
    /// Table of the awaited lock, such as `accounts`; `relation 16385` in another database. Otherwise the kind of lock,
    /// such as `advisory lock`.
    pub relation: Option<String>,
    /// Time waited so far. `None` before PostgreSQL 14.
    pub waited_ms: Option<u64>,
}

answer!(row => LockProcess { blocked_by, mode, relation, waited_ms; session: Session::of(row)?, waiters: 0 });

pub async fn read_lock_waits(connection: &mut PgConnection) -> Result<Vec<LockProcess>> {
    let question = include_str!("sql/lock_waits_13.sql");
    let mut all = ask_all::<LockProcess>(connection, "read the holders of locks", question).await?;
    let mut waiters: HashMap<u32, u32> = HashMap::new();
    // pg_blocking_pids may repeat a parallel query's leader.
    let blockers = all.iter().flat_map(|one| one.blocked_by.iter().collect::<BTreeSet<_>>());
    blockers.for_each(|pid| *waiters.entry(*pid).or_default() += 1);
    all.iter_mut().for_each(|one| one.waiters = waiters.remove(&one.session.pid).unwrap_or_default());
    Ok(all)
}

/// Returns pid, number of files, bytes. Needs pg_monitor.
pub async fn read_temporary_files(connection: &mut PgConnection) -> Result<Vec<(u32, u64, u64)>> {
    ask_all(connection, "list the temporary files", include_str!("sql/temporary_files_13.sql")).await
}

/// Name such as `accounts` or `sales.orders (TOAST)`; `None` in another database. `database_oid` is 0 for a shared
/// catalog.
pub async fn read_relation_of_file(
    connection: &mut PgConnection,
    database_oid: u32,
    relfilenumber: u32,
) -> Result<Option<String>> {
    let question =
        || sqlx::query(include_str!("sql/relation_of_file_13.sql")).bind(Oid(relfilenumber)).bind(Oid(database_oid));
    let decode = |row: &PgRow| {
        let (schema, name): (String, String) = (row.try_get("nspname")?, row.try_get("relname")?);
        let name = if schema == "public" { name } else { format!("{schema}.{name}") };
        Ok(Some(if row.try_get("is_toast")? { format!("{name} (TOAST)") } else { name }))
    };
    let found = ask_rows(connection, "find the relation of a file", question, decode).await?;
    Ok(found.into_iter().next())
}

#[cfg(test)]
mod process_title_tests {
    use super::*;

    #[test]
    fn who_works_for_the_server_says_so() {
        for (title, kind) in [
            ("postgres: checkpointer ", "checkpointer"),
            ("postgres: 15/main: background writer", "background writer"),
            ("postgres: logger ", "logger"),
            ("postgres: 19/main: syslogger ", "syslogger"),
            ("postgres: archiver last was 000000010000000000000007", "archiver"),
            ("postgres: startup recovering 000000010000000000000007", "startup"),
            ("postgres: a: io worker 2", "io worker"),
            ("postgres: parallel worker for PID 4711", "parallel worker"),
            ("postgres: walsender rep 10.0.0.7(51234) streaming 0/3000060", "walsender"),
        ] {
            assert_eq!(background_kind(title), Some(kind), "{title}");
        }
    }

    #[test]
    fn a_parallel_worker_names_its_leader() {
        assert_eq!(leader_of("postgres: main: parallel worker for PID 4711 "), Some(4711));
        assert_eq!(leader_of("postgres: 15/main: parallel worker for PID 4711   "), Some(4711));
        assert_eq!(leader_of("postgres: parallel worker for PID 17"), Some(17));
        assert_eq!(leader_of("postgres: main: joe db [local] SELECT"), None);
        assert_eq!(leader_of("postgres: app db [local] SELECT"), None);
        assert_eq!(leader_of("tail -f parallel worker for PID 17"), None);
    }

    #[test]
    fn a_session_is_one_whatever_its_names_are() {
        for title in [
            "postgres: app shop [local] startup",
            "postgres: 15/main: app shop 10.0.0.7(51234) authentication",
            "postgres: archiver: app shop [local] idle",
            "postgres: checkpointer logger [local] idle",
            "postgres: main: app archiver ::1(51234) SELECT",
            "postgres",
            "psql checkpointer",
        ] {
            assert_eq!(background_kind(title), None, "{title}");
        }
    }
}

#[cfg(test)]
mod waits_tests {
    use super::*;

    #[test]
    fn others_at_a_flush_are_those_that_have_written_and_wait_for_no_lock() {
        let wait = |event_type: &str, event: &str| Wait {
            backend: "client backend".into(),
            state: Some("active".into()),
            event_type: Some(event_type.into()),
            event: Some(event.into()),
        };
        let waiting = || {
            vec![
                (wait("LWLock", "WALWrite"), 3, 3),
                (wait("Lock", "transactionid"), 2, 2),
                (wait("Client", "ClientRead"), 4, 1),
            ]
        };
        assert_eq!(WaitLook::new(waiting()).others_at_flush, None);
        for event in WAL_SYNC {
            let flushing = |own| [waiting(), vec![(wait("IO", event), 1, own)]].concat();
            assert_eq!(WaitLook::new(flushing(1)).others_at_flush, Some(4));
            assert_eq!(WaitLook::new(flushing(0)).others_at_flush, Some(4));
        }
    }
}
