//! Asks the server for its counters, in a task of its own: one that answers late keeps nobody else waiting.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::time::OwnTransactions;
use host::failure::Explain as _;
use host::linux::read_monotonic;
use postgres::{CheckpointPulse, Error, ServerPulse, read_checkpoint_pulse, read_pulse};

/// What the server said, and when by the monotonic clock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PulseReading {
    pub at_ns: u64,
    pub server: ServerPulse,
    /// What pgthaw had asked by then; since version 15 all of it is among what the server counts.
    pub own: u64,
    /// `None` where it may not be known.
    pub checkpoints: Option<CheckpointPulse>,
}

/// The task that asks. Dropping it ends it.
#[derive(Debug)]
pub(super) struct PulseReader {
    /// What was said at the begin.
    pub first: PulseReading,
    /// Why nothing is known of checkpoints.
    pub checkpoint_refusal: Option<String>,
    latest: Arc<Mutex<Option<PulseReading>>>,
    task: JoinHandle<()>,
}

impl PulseReader {
    /// Asks at each `period` from now on, a little before it is over. When the server does not answer any more, `gone` is told why.
    pub async fn start(
        mut connection: PgConnection,
        version_num: u32,
        (own_pids, own): (Vec<u32>, OwnTransactions),
        period: Duration,
        gone: oneshot::Sender<String>,
    ) -> Result<PulseReader, Error> {
        let (checkpoints, checkpoint_refusal) = match read_checkpoint_pulse(&mut connection, version_num).await {
            Ok(checkpoints) => (Some(checkpoints), None),
            Err(error) if error.is_server_gone() => return Err(error),
            Err(error) => (None, Some(error.to_string())),
        };
        let knows_checkpoints = checkpoints.is_some();
        // The first time statements are prepared, which the server counts too.
        read_pulse(&mut connection, &own_pids).await?;
        let (server, own_before) = read_apart(&mut connection, &own_pids, &own, 0).await?;
        let first = PulseReading { at_ns: read_monotonic().as_nanos() as u64, server, own: own_before, checkpoints };
        let latest = Arc::new(Mutex::new(None));
        let to_fill = Arc::clone(&latest);
        let ask = async move {
            let mut ticks = interval_at(Instant::now() + period - period / 5, period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                // A session that has looked into no table tells nothing, so this is told with the next question.
                let checkpoints = match knows_checkpoints {
                    true => read_checkpoint_pulse(&mut connection, version_num).await.ok(),
                    false => None,
                };
                let (server, own_before) =
                    match read_apart(&mut connection, &own_pids, &own, knows_checkpoints.into()).await {
                        Ok(read) => read,
                        Err(error) => {
                            let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                            // Who does not listen has ended.
                            let _ = gone.send(format!("{error}{hint}"));
                            return;
                        }
                    };
                let at_ns = read_monotonic().as_nanos() as u64;
                let reading = PulseReading { at_ns, server, own: own_before, checkpoints };
                *to_fill.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
            }
        };
        Ok(PulseReader { first, checkpoint_refusal, latest, task: tokio::spawn(ask) })
    }

    /// What was said since it was taken the last time.
    pub fn take(&self) -> Option<PulseReading> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The counters, and how many of pgthaw's own transactions are among them: the question itself is not. Where another of pgthaw's sessions
/// asked something meanwhile, which may be among them or not, they are asked for once more. `untold`: transactions of this connection that
/// the server counts with the question.
async fn read_apart(
    connection: &mut PgConnection,
    own_pids: &[u32],
    own: &OwnTransactions,
    mut untold: u64,
) -> Result<(ServerPulse, u64), Error> {
    let mut is_again = false;
    loop {
        let (begun, ended) = own.counts();
        let asked = own.begin();
        let server = read_pulse(connection, own_pids).await?;
        let is_apart = (begun, ended) == (ended, own.counts().0 - 1);
        drop(asked);
        own.add(std::mem::take(&mut untold));
        if is_apart || is_again {
            return Ok((server, ended));
        }
        is_again = true;
    }
}

impl Drop for PulseReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}
