//! Reads a source each second until it is to end, and adds up what it says.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::account::{Accounting, By};
use super::names::WaitNames;
use super::roster::Roster;
use super::source::{Reading, TimeSource};
use crate::observe::Error;
use crate::postgres::read_sessions;

const SECOND: Duration = Duration::from_secs(1);

/// Adds up what a source says, and asks the server at about the same time who its processes are.
#[derive(Debug)]
pub struct Watch {
    roster: Roster,
    connection: Option<PgConnection>,
    accounting: Accounting,
}

impl Watch {
    /// Begins with what the source says now.
    pub async fn begin(
        source: &mut dyn TimeSource,
        connection: PgConnection,
        roster: Roster,
        by: By,
        names: WaitNames,
    ) -> Result<Watch, Error> {
        let accounting = Accounting::begin(source.read()?, by, names);
        Ok(Watch { roster, connection: Some(connection), accounting })
    }

    /// Reads each second until `end` is there, and once more then.
    pub async fn until<T>(&mut self, source: &mut dyn TimeSource, end: impl Future<Output = T>) -> Result<T, Error> {
        let mut end = std::pin::pin!(end);
        let mut ticks = interval_at(Instant::now() + SECOND, SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                ended = &mut end => {
                    self.add(source).await?;
                    return Ok(ended);
                }
                _ = ticks.tick() => self.add(source).await?,
            }
        }
    }

    async fn add(&mut self, source: &mut dyn TimeSource) -> Result<(), Error> {
        // A server that is stopped meanwhile ends no measurement.
        let sessions = match &mut self.connection {
            Some(connection) => match read_sessions(connection).await {
                Ok(sessions) => sessions,
                Err(_) => {
                    self.connection = None;
                    Vec::new()
                }
            },
            None => Vec::new(),
        };
        let reading: Reading = source.read()?;
        self.roster.learn(&reading.processes, &sessions);
        let roster = &self.roster;
        self.accounting.add(reading, |process| roster.who(process));
        Ok(())
    }

    /// What was added up, and whether the server answered until the end.
    pub fn finish(mut self) -> (Accounting, bool) {
        self.accounting.finish();
        (self.accounting, self.connection.is_some())
    }
}
