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

/// The server is asked so often who its processes are: one that came and went between two questions is nobody in particular.
const LOOK: Duration = Duration::from_millis(250);

/// The source is read at every so many looks: once a second.
const LOOKS_OF_READING: u32 = 4;

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

    /// Reads each second until `end` is there, and once more then. `hear` is told of each second.
    pub async fn until<T>(
        &mut self,
        source: &mut dyn TimeSource,
        end: impl Future<Output = T>,
        hear: impl Fn(),
    ) -> Result<T, Error> {
        let mut end = std::pin::pin!(end);
        let mut ticks = interval_at(Instant::now() + LOOK, LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut looks = 0;
        loop {
            looks += 1;
            let ended = tokio::select! {
                biased;
                ended = &mut end => Some(ended),
                _ = ticks.tick() => None,
            };
            self.look().await;
            if looks % LOOKS_OF_READING == 0 || ended.is_some() {
                self.add(source.read()?);
                hear();
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn look(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        match read_sessions(connection).await {
            Ok(sessions) => self.roster.see(sessions),
            // A server that is stopped meanwhile ends no measurement.
            Err(_) => self.connection = None,
        }
    }

    fn add(&mut self, reading: Reading) {
        self.roster.learn(&reading.processes);
        let roster = &self.roster;
        self.accounting.add(reading, |process| roster.who(process));
    }

    /// What was added up, and whether the server answered until the end.
    pub fn finish(mut self) -> (Accounting, bool) {
        self.accounting.finish();
        (self.accounting, self.connection.is_some())
    }
}
