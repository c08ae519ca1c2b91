//! Reads a source at each step until it is to end, and adds up what it says.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use super::account::{Accounting, By};
use super::names::WaitNames;
use super::roster::Roster;
use super::source::{Reading, TimeSource};
use crate::observe::Error;
use crate::postgres::read_sessions;

/// The server is asked at least so often who its processes are: one that came and went between two questions is nobody in particular.
const LOOK: Duration = Duration::from_millis(250);

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

    /// Reads at each `step` until `end` is there, and once more then. `hear` is told of each reading, and may take out what was
    /// added up.
    pub async fn until<T>(
        &mut self,
        source: &mut dyn TimeSource,
        step: Duration,
        end: impl Future<Output = T>,
        mut hear: impl FnMut(&mut Accounting, &dyn TimeSource),
    ) -> Result<T, Error> {
        let mut end = std::pin::pin!(end);
        // As many looks, evenly, as fit into a step.
        let looks_of_step = step.as_nanos().div_ceil(LOOK.as_nanos()).max(1) as u32;
        let between = step / looks_of_step;
        let mut ticks = interval_at(Instant::now() + between, between);
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
            if looks % looks_of_step == 0 || ended.is_some() {
                self.add(source.read()?);
                hear(&mut self.accounting, &*source);
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn look(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        // One that answers late keeps no reading waiting: what it says then is passed over.
        match timeout(LOOK, read_sessions(connection)).await {
            Ok(Ok(sessions)) => self.roster.see(sessions),
            // A server that is stopped meanwhile ends no measurement.
            Ok(Err(_)) => self.connection = None,
            Err(_) => {}
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
