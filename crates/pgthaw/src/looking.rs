//! Sessions for observing a server, their cost limit, and reconnecting.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, Zoned};
use sqlx::postgres::PgConnection;
use tokio::time::sleep;

use super::agent::find_history;
use super::{ConnectionArguments, SnapshotPlace, SnapshotsArguments, Target};
use observe::Error;
use observe::time::ACCOUNT_DEAR;
use observe::top::HistoryReader;
use postgres::{Server, read_backend_pid};

pub const RETRY: Duration = Duration::from_secs(1);

pub struct Looking<'a> {
    pub server: &'a Server,
    /// Session for sampling. The session `who` identifies the sampled processes.
    pub looks: PgConnection,
    pub who: PgConnection,
    pub own_pids: Vec<u32>,
    pub version_num: u32,
    pub postmaster_pid: Option<u32>,
}

impl Looking<'_> {
    pub async fn open(target: &Target) -> Result<Looking<'_>> {
        let Some(server) = &target.server else { bail!(Error::NoServer) };
        let mut own_pids = Vec::new();
        let looks = connect(server, &mut own_pids).await?;
        let who = connect(server, &mut own_pids).await?;
        let version_num = looks.server_version_num().unwrap_or(server.facts.version_num);
        Ok(Looking { server, looks, who, own_pids, version_num, postmaster_pid: target.find_postmaster() })
    }
}

pub async fn connect(server: &Server, own_pids: &mut Vec<u32>) -> Result<PgConnection> {
    let mut connection = server.connect_to(&server.database).await?;
    own_pids.push(read_backend_pid(&mut connection).await?);
    Ok(connection)
}

/// Retries `open` until it succeeds. Passes the last error to `tell` before each attempt (`None` before the first).
pub async fn open_again<T, F: Future<Output = Result<T>>>(
    open: impl Fn() -> F,
    mut tell: impl FnMut(Option<&anyhow::Error>),
) -> T {
    let mut failure = None;
    loop {
        sleep(RETRY).await;
        tell(failure.as_ref());
        match open().await {
            Ok(opened) => return opened,
            Err(error) => failure = Some(error),
        }
    }
}

/// If the server does not answer, there must be only one history.
pub async fn open_history(snapshots: &SnapshotsArguments, connection: &ConnectionArguments) -> Result<HistoryReader> {
    let place = SnapshotPlace { snapshots: snapshots.clone(), connection: connection.clone() };
    let store = place.snapshots.open();
    let open = |cluster| HistoryReader::open(find_history(&store, cluster, connection));
    let mut known: Vec<u64> = store.read_clusters()?;
    known.retain(|cluster| open(*cluster).is_ok());
    let cluster = match (place.find_cluster(&store).await, &known[..]) {
        (Ok(cluster), _) => cluster,
        (Err(_), [only]) => *only,
        (Err(_), []) => bail!(Error::NoHistory { path: store.root().to_owned() }),
        (Err(error), _) => return Err(error),
    };
    Ok(open(cluster)?)
}

pub fn parse_past(text: &str) -> Result<Timestamp, String> {
    parse_before(text, &Zoned::now()).ok_or_else(|| "must be such as 03:10, 03:10:30 or 2026-11-30T03:10".to_owned())
}

fn parse_before(text: &str, now: &Zoned) -> Option<Timestamp> {
    let local = |at: DateTime| Some(at.to_zoned(now.time_zone().clone()).ok()?.timestamp());
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    if let Ok(at) = text.parse() {
        return local(at);
    }
    let time: Time = text.parse().ok()?;
    let today = local(now.date().to_datetime(time))?;
    if today <= now.timestamp() { Some(today) } else { local(now.date().yesterday().ok()?.to_datetime(time)) }
}

/// Option of the commands that observe a server.
#[derive(Clone, Copy, Debug, Args)]
pub struct BudgetArguments {
    /// Limit pgthaw's overhead, in percent of all processors; beyond it pgthaw measures less
    #[arg(long, value_name = "PERCENT", hide_short_help = true, value_parser = parse_percent, default_value_t = 100.0 * ACCOUNT_DEAR)]
    budget: f64,
}

impl BudgetArguments {
    /// Share of all processors, 0 to 1.
    pub fn share(self) -> f64 {
        self.budget / 100.0
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "must be a number from 0 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_a_date_is_the_last_one() {
        let now: Zoned = "2026-11-30T09:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let parsed = |text: &str| parse_before(text, &now).map(|at| at.to_string());
        for (text, at) in [
            ("03:10", "2026-11-30T02:10:00Z"),
            ("03:10:30", "2026-11-30T02:10:30Z"),
            ("23:10", "2026-11-29T22:10:00Z"),
            ("2026-07-30 03:10", "2026-07-30T01:10:00Z"),
            ("2026-07-30T03:10", "2026-07-30T01:10:00Z"),
            ("2026-07-30T03:10:00Z", "2026-07-30T03:10:00Z"),
            ("2026-07-30T03:10:00-02:00", "2026-07-30T05:10:00Z"),
        ] {
            assert_eq!(parsed(text).as_deref(), Some(at), "{text}");
        }
        assert!(["", "25:00", "yesterday", "3"].iter().all(|wrong| parsed(wrong).is_none()));
    }
}
