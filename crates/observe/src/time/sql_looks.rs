//! Looks at pg_stat_activity, for who may do no more than that.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval};

use super::looks::{Doing, LookSums, Seen};
use super::own_transactions::OwnTransactions;
use super::source::{Reading, Tier, TimeSource, WaitEvent};
use crate::Error;
use host::linux::read_monotonic;
use postgres::{Session, read_backend_pid, read_sessions};

/// Ten looks a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// A task that looks. Dropping it ends it.
#[derive(Debug)]
pub struct SqlLooks {
    sums: LookSums,
    _stop: oneshot::Sender<()>,
}

impl SqlLooks {
    /// Looks through this connection from now on, each of which is counted as `own`, where somebody wants to know. Where the server does not answer any more it looks no more.
    pub async fn start(
        mut connection: PgConnection,
        own: Option<OwnTransactions>,
    ) -> Result<SqlLooks, postgres::Error> {
        let (sums, (stop, mut stopped)) = (LookSums::default(), oneshot::channel::<()>());
        let to_add = sums.clone();
        let own_pid = read_backend_pid(&mut connection).await?;
        to_add.add(read_monotonic().as_nanos() as u64, seen(read_sessions(&mut connection).await?, own_pid));
        tokio::spawn(async move {
            let mut ticks = interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    _ = ticks.tick() => {}
                }
                let asked = own.as_ref().map(OwnTransactions::begin);
                let Ok(sessions) = read_sessions(&mut connection).await else { return };
                drop(asked);
                to_add.add(read_monotonic().as_nanos() as u64, seen(sessions, own_pid));
            }
        });
        Ok(SqlLooks { sums, _stop: stop })
    }
}

impl TimeSource for SqlLooks {
    fn tier(&self) -> Tier {
        Tier::Sql
    }

    fn read(&mut self) -> Result<Reading, Error> {
        Ok(self.sums.read())
    }
}

/// All but the one that looks, which is always seen looking.
fn seen(sessions: Vec<Session>, own_pid: u32) -> Vec<Seen> {
    let see = |session: Session| {
        let doing = match (session.event_type, session.event) {
            (Some(class), Some(event)) => Doing::Waiting(WaitEvent::Named(class, event)),
            // A process that it shows nothing of, for want of a privilege.
            _ if session.backend.is_none() => Doing::Waiting(WaitEvent::Unknown),
            _ => Doing::Running,
        };
        (session.pid, session.started_us, doing)
    };
    sessions.into_iter().filter(|session| session.pid != own_pid).map(see).collect()
}
