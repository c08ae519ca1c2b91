//! The agent's state, in a file that `agent status` and `ready` read.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jiff::{SignedDuration, Timestamp};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::arguments::ReadyArguments;
use crate::{ConnectionArguments, ExitStatus, OutputArguments, SnapshotPlace, connect_to_meant, find_address};
use cache::{SnapshotStore, Warmth};
use host::failure::{ErrorKind, Explain};
use host::files::{Directory, SMALL_FILE_BYTES_MAX, as_owner_of, write_whole};
use host::units::Bytes;
use observe::stall::local_time;
use postgres::{Address, read_server_look};
use terminal::{printable, render_age};

const PREFIX: &str = "agent-";
const STATUS: &str = "json";
const LOCK: &str = "lock";
const DEFAULT_PORT: u16 = 5432;

const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// An agent writes its status every 30 s.
const STALE: SignedDuration = SignedDuration::from_secs(120);

const POLL: Duration = Duration::from_millis(250);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[derive(Serialize, Deserialize, IntoStaticStr, VariantArray, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AgentState {
    /// The server does not answer.
    #[default]
    Waiting,
    /// A restore runs after a start or a promotion.
    Warming,
    /// The server is a primary; the agent takes snapshots.
    Keeping,
    /// The server is a standby; the agent loads what its primary has cached.
    Following,
    Stopped,
}

host::named!(AgentState);

/// State of the agent and its server. Times are UTC.
#[derive(Clone, Debug, Default, Serialize, Deserialize, crate::JsonSchema)]
pub struct AgentStatus {
    pub pid: u32,
    pub state: AgentState,
    /// Start of this state.
    pub since: Timestamp,
    /// At most 30 s ago while the agent runs.
    pub written_at: Timestamp,
    /// A string, because JSON numbers lose the last digits.
    pub system_identifier: String,
    pub address: String,
    /// Start of the server, in seconds since 1970 by its own clock.
    pub server_start: Option<f64>,
    /// Whether the restore after this start ended or is unneeded.
    pub is_restored: bool,
    /// Age of the oldest WAL that is not replayed; `None` on a primary.
    pub replay_lag_seconds: Option<f64>,
    /// Newest snapshot, or newest warm set from the primary.
    pub snapshot: Option<String>,
    pub snapshot_taken_at: Option<Timestamp>,
    /// Cached bytes at the last look.
    pub os_bytes: Option<Bytes>,
    pub buffers_bytes: Option<Bytes>,
    /// On a standby, cached share of the primary's warm set.
    pub warmth: Option<Warmth>,
    /// Bytes of the primary's warm set, and of its part that is not cached here.
    pub wanted_bytes: Option<Bytes>,
    pub missing_bytes: Option<Bytes>,
    /// Rows of the warm set's table that were last written or read.
    pub warm_set_rows: Option<u64>,
    /// Restores that ended.
    pub restores: u64,
    /// Failures by step.
    pub errors: BTreeMap<String, u64>,
    /// Last failure by step, until the step succeeds.
    pub failing: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("no agent of this server has run on this host with the snapshot directory {}", directory.display())]
    None { directory: PathBuf },
    #[error("the agent of this server does not run: it wrote its last status {ago}")]
    Gone { ago: String },
    #[error("the agent of this server hangs, or cannot write its status: it wrote the last one {ago}")]
    Hangs { ago: String },
    #[error("another agent of this server already runs (process {pid})")]
    Another { pid: u32 },
}

impl Explain for AgentError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Failed
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            AgentError::Another { .. } => {
                "`pgthaw agent status` shows its state; agents of servers with the same port need different directories (--dir)"
                    .into()
            }
            AgentError::Hangs { .. } => "look at its log and at the free disk space, and restart it".into(),
            _ => "start `pgthaw agent`, or give the agent's snapshot directory with --dir".into(),
        })
    }
}

/// Holds the lock while the agent runs.
#[derive(Debug)]
pub struct StatusPlace {
    path: PathBuf,
    pub system_identifier: u64,
    _lock: File,
}

impl StatusPlace {
    /// Returns the status of the previous agent, too.
    ///
    /// # Errors
    /// If another agent runs.
    pub fn open(
        store: &SnapshotStore,
        system_identifier: u64,
        name: &str,
    ) -> Result<(StatusPlace, Option<AgentStatus>)> {
        let directory = store.cluster_directory(system_identifier);
        let (found, lock) = as_owner_of(store.root(), || {
            let found = Directory::create(&directory)?;
            let lock = found.open_or_create(format!("{name}.{LOCK}"), 0o600)?;
            Ok::<_, std::io::Error>((found, lock))
        })??;
        let previous = read(&found, name);
        // `agent status` holds the lock for a moment.
        let is_own = (0..LOCK_TRIES).any(|earlier| {
            std::thread::sleep(LOCK_PAUSE * earlier.min(1));
            flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        });
        if !is_own {
            bail!(AgentError::Another { pid: previous.map_or(0, |status| status.pid) });
        }
        Ok((StatusPlace { path: directory.join(format!("{name}.{STATUS}")), system_identifier, _lock: lock }, previous))
    }

    pub fn write(&self, status: &AgentStatus) -> std::io::Result<()> {
        write_whole(&self.path, &serde_json::to_vec_pretty(status)?)
    }
}

fn read(directory: &Directory, name: &str) -> Option<AgentStatus> {
    let text = directory.read_at_most(format!("{name}.{STATUS}"), SMALL_FILE_BYTES_MAX).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Name of the agent's files, which differs between a primary and its standby on one host.
pub fn name_of(address: &Address, container: Option<&str>) -> String {
    let socket = address.host.as_deref().filter(|host| host.starts_with('/'));
    let parts = [socket, container].into_iter().flatten().map(|part| format!("-{}", part.replace('/', "_")));
    format!("{PREFIX}{}{}", address.port.unwrap_or(DEFAULT_PORT), parts.collect::<String>())
}

/// If the options and variables name no server, chooses the only agent.
fn find_name(connection: &ConnectionArguments, directory: &Directory) -> Option<String> {
    let container = connection.container.as_deref();
    let address = find_address(connection).unwrap_or_default();
    let entries = directory.entries().ok()?.into_iter().filter_map(|entry| entry.name.into_string().ok());
    let names = entries.filter_map(|name| name.strip_suffix(&format!(".{STATUS}")).map(str::to_owned));
    let mut names = names.filter(|name| name.starts_with(PREFIX));
    let any = names.next().filter(|_| names.next().is_none());
    let is_named = address.host.is_some() || address.port.is_some() || container.is_some() || connection.names_server();
    any.filter(|_| !is_named).or_else(|| Some(name_of(&address, container)))
}

pub fn render_history_name(name: &str) -> String {
    format!("{name}.history")
}

/// Directory of the history that the agent recorded.
pub fn find_history(store: &SnapshotStore, cluster: u64, connection: &ConnectionArguments) -> PathBuf {
    let path = store.cluster_directory(cluster);
    let name = Directory::open(&path).ok().and_then(|directory| find_name(connection, &directory));
    path.join(render_history_name(&name.unwrap_or_default()))
}

/// Status of an agent, and whether it runs.
fn find_in(store: &SnapshotStore, cluster: u64, connection: &ConnectionArguments) -> Option<(AgentStatus, bool)> {
    let directory = Directory::open(&store.cluster_directory(cluster)).ok()?;
    let name = find_name(connection, &directory)?;
    let status = read(&directory, &name)?;
    let lock = directory.open_file(format!("{name}.{LOCK}"));
    Some((status, lock.is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())))
}

/// Status of a running agent.
async fn find(place: &SnapshotPlace) -> Result<AgentStatus> {
    let store = place.snapshots.open();
    let none = || AgentError::None { directory: store.root().to_owned() };
    if store.read_clusters()?.is_empty() {
        bail!(none());
    }
    let (status, is_running) = match place.find_cluster(&store).await {
        Ok(cluster) => find_in(&store, cluster, &place.connection).ok_or_else(none)?,
        Err(error) if error.is::<postgres::Error>() => {
            let all = store.read_clusters()?.into_iter();
            let mut found = all.filter_map(|cluster| find_in(&store, cluster, &place.connection));
            found.find(|(_, is_running)| *is_running).ok_or(error)?
        }
        Err(error) => return Err(error),
    };
    let ago = || render_age(status.written_at);
    if !is_running {
        bail!(AgentError::Gone { ago: ago() });
    }
    if Timestamp::now().duration_since(status.written_at) > STALE {
        bail!(AgentError::Hangs { ago: ago() });
    }
    Ok(status)
}

pub async fn show(place: &SnapshotPlace, output: OutputArguments) -> Result<ExitStatus> {
    let status = find(place).await?;
    terminal::print_answer(&status, output.json, || render(&status))?;
    Ok(ExitStatus::Done)
}

fn render(status: &AgentStatus) -> String {
    let mut lines = vec![format!(
        "agent of {} (process {}): state {} since {}",
        printable(&status.address),
        status.pid,
        status.state.name(),
        local_time(status.since.as_millisecond()).strftime("%F %T %Z")
    )];
    if let (Some(name), Some(taken_at)) = (&status.snapshot, status.snapshot_taken_at) {
        lines.push(format!("newest snapshot {}, taken {}", printable(name), render_age(taken_at)));
    }
    if let (Some(os), Some(buffers)) = (status.os_bytes, status.buffers_bytes) {
        lines.push(format!("cached: {os} in the page cache, {buffers} in shared_buffers"));
    }
    if let Some(text) = render_warmth(status) {
        lines.push(text);
    }
    if let Some(lag) = status.replay_lag_seconds {
        lines.push(format!("replay lag {lag:.1} s"));
    }
    lines.extend(status.failing.iter().map(|(step, error)| format!("{step} failed: {}", printable(error))));
    lines.join("\n")
}

fn render_warmth(status: &AgentStatus) -> Option<String> {
    let (warmth, wanted, missing) = (status.warmth?, status.wanted_bytes?, status.missing_bytes?);
    let share = |share: Option<f64>| share.map_or("?".to_owned(), |share| format!("{:.1} %", 100.0 * share));
    Some(format!(
        "warmth {} (shared_buffers {}): {missing} of the primary's warm set ({wanted}) are not cached",
        share(warmth.os),
        share(warmth.buffers)
    ))
}

/// Whether the server is ready, with a sentence.
pub fn judge(status: &AgentStatus, least: f64) -> (bool, String) {
    match (status.state, status.warmth) {
        (AgentState::Keeping, _) => (true, "ready: the primary is running, and no restore is in progress".to_owned()),
        (AgentState::Following, Some(warmth)) => {
            let share = warmth.os.or(warmth.buffers).unwrap_or(0.0);
            let is_ready = share >= least;
            let text = render_warmth(status).unwrap_or_default();
            (is_ready, format!("{}: {text}", if is_ready { "ready" } else { "not ready" }))
        }
        (AgentState::Following, None) => {
            (false, "not ready: the agent has not read the primary's warm set yet".to_owned())
        }
        (state, _) => (false, format!("not ready: the agent is {}", state.name())),
    }
}

/// The agent notices a restart, or a server that stops, only after a second.
async fn find_obstacle(place: &SnapshotPlace, status: &AgentStatus) -> Option<String> {
    let connection = ConnectionArguments { no_password: true, ..place.connection.clone() };
    let look = async {
        let server = connect_to_meant(&connection).await?;
        read_server_look(&mut server.connect_to(&server.database).await?).await
    };
    match look.await {
        Ok(look) if Some(look.start) == status.server_start => None,
        Ok(_) => Some("the agent has not noticed the server's last start yet".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

pub async fn wait(arguments: &ReadyArguments, output: OutputArguments) -> Result<ExitStatus> {
    let until = arguments.wait.map(|time| Instant::now() + time);
    let progress = terminal::MovingLine::new(output.shows_progress());
    loop {
        let found = find(&arguments.place).await;
        let is_late = until.is_none_or(|until| Instant::now() >= until);
        let status = match found {
            Err(error) if is_late => return Err(error),
            Err(_) => None,
            Ok(status) => Some(status),
        };
        if let Some(status) = status {
            let (mut is_ready, mut text) = judge(&status, arguments.min);
            if is_ready && let Some(why) = find_obstacle(&arguments.place, &status).await {
                (is_ready, text) = (false, format!("not ready: {why}"));
            }
            if is_ready || is_late {
                progress.finish();
                let answer = serde_json::json!({ "ready": is_ready, "reason": text, "status": status });
                terminal::print_answer(&answer, output.json, || text)?;
                return Ok(if is_ready { ExitStatus::Done } else { ExitStatus::Because(ErrorKind::Failed) });
            }
            progress.show(vec![terminal::Part::text("", 0, text)]);
        }
        tokio::time::sleep(POLL).await;
    }
}
