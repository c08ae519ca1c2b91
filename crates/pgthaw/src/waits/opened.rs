//! Opens what `waits` looks at, and again when the server had gone away.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;

use crate::Target;
use crate::looking::{Looking, open_again};
use host::linux::clock::read_wall_ms;
use observe::stall::StallWatch;
use observe::time::{Roster, Tier, TimeSource, WaitNames, Watch};
use observe::{BudgetedSource, Error, GivenUp, RefusedSource, open_time_source};
use postgres::read_postmaster_start;

/// What is told of a server that answers.
pub(super) struct Here {
    pub who: PgConnection,
    own_pids: Vec<u32>,
    pub postmaster_pid: Option<u32>,
    /// By its own clock.
    started_at: f64,
    pub names: WaitNames,
    pub source: Box<dyn TimeSource>,
    pub refused: Vec<RefusedSource>,
}

impl Here {
    /// Connects, and opens the source that is wanted, or the best.
    pub async fn open(target: &Target, wanted: Option<Tier>) -> anyhow::Result<Here> {
        let Looking { looks, mut who, own_pids, version_num, postmaster_pid, .. } = Looking::open(target).await?;
        let started_at = read_postmaster_start(&mut who).await?;
        let names = WaitNames::of_version(version_num);
        let (source, refused) = open_time_source(wanted, postmaster_pid, looks, None).await?;
        Ok(Here { who, own_pids, postmaster_pid, started_at, names, source, refused })
    }

    pub fn roster(&self) -> Roster {
        Roster::new(self.postmaster_pid, self.own_pids.clone())
    }

    pub fn stalls(&self, target: &Target) -> StallWatch {
        let directory = target.data_directory.as_ref().map(|directory| &*directory.path);
        StallWatch::new(self.names.clone(), directory)
    }
}

/// Looks on at a server that may go away and come back.
pub(super) struct Following<'a> {
    target: &'a Target,
    wanted: Option<Tier>,
    started_at: f64,
    /// Why there is no better source than the one that is read last.
    pub refused: Vec<RefusedSource>,
    /// When it was away.
    pub remarks: Vec<String>,
}

/// A server that is back, and when it had gone away, in milliseconds since 1970 UTC.
struct Back {
    here: Here,
    gone_ms: i64,
}

impl Following<'_> {
    /// With what was opened first.
    pub fn new<'a>(target: &'a Target, wanted: Option<Tier>, here: &Here) -> Following<'a> {
        let (started_at, refused) = (here.started_at, here.refused.clone());
        Following { target, wanted, started_at, refused, remarks: Vec::new() }
    }

    /// Reads at each `step` until `end` is there, of a server that was restarted too. `hear` is told of each step.
    pub async fn until<T>(
        &mut self,
        watch: &mut Watch,
        source: &mut BudgetedSource,
        step: Duration,
        end: impl Future<Output = T>,
        hear: impl Fn(),
    ) -> anyhow::Result<T> {
        let mut end = std::pin::pin!(end);
        loop {
            let (target, gone) = (self.target, watch.hear_gone());
            let has_given_up_programs = source.reductions().iter().any(|one| one.given_up == GivenUp::Programs);
            let wanted = if has_given_up_programs { Some(Tier::Memory) } else { self.wanted };
            let next = async {
                tokio::select! {
                    biased;
                    ended = &mut end => Ok(ended),
                    back = come_back(target, wanted, gone) => Err(Box::new(back)),
                }
            };
            match watch.until(source, step, next, |_, _, _| hear()).await? {
                Ok(ended) => return Ok(ended),
                Err(back) => self.go_on(*back, watch, source)?,
            }
        }
    }

    fn go_on(&mut self, back: Back, watch: &mut Watch, source: &mut BudgetedSource) -> Result<(), Error> {
        let Back { here, gone_ms } = back;
        let clock = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default().strftime("%H:%M:%S").to_string();
        let (gone, now) = (clock(gone_ms), clock(read_wall_ms()));
        let roster = here.roster();
        let was_restarted = here.started_at != self.started_at;
        if was_restarted {
            let stalls = here.stalls(self.target);
            watch.follow_restart(here.names, Some(stalls));
            self.started_at = here.started_at;
            self.remarks.push(format!(
                "the server was restarted: it went away at {gone} and is looked at again since {now} UTC; what was seen before is in all figures"
            ));
        } else {
            self.remarks
                .push(format!("the server ended pgthaw's sessions at {gone}, and has new ones since {now} UTC"));
        }
        watch.follow(here.who, roster);
        // Who does not need these sessions has looked on meanwhile.
        if was_restarted || source.tier() == Tier::Sql {
            self.refused = here.refused;
            source.follow(here.source, here.postmaster_pid)?;
        }
        Ok(())
    }
}

/// When the server has gone away: as soon as it can be looked at again.
async fn come_back(target: &Target, wanted: Option<Tier>, gone: oneshot::Receiver<()>) -> Back {
    if gone.await.is_err() {
        std::future::pending::<()>().await;
    }
    let gone_ms = read_wall_ms();
    let here = open_again(|| Here::open(target, wanted), |_| ()).await;
    Back { here, gone_ms }
}
