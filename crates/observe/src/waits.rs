//! Looks several times a second at what the server's backends wait for, in a task of its own, and adds up by seconds.
//!
//! Field names are part of `--json` (docs/formats.md): add, never rename.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::{WaitSample, WaitSum};
use host::linux::clock;
use postgres::{WaitLook, read_waits};

/// Four looks a second find what lasts; each costs the server well under a millisecond.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// One look, and when it was, since the machine booted.
pub type Look = (Duration, WaitLook);

/// The task that looks. Dropping it ends it.
#[derive(Debug)]
pub struct WaitSampler {
    task: JoinHandle<Vec<Look>>,
    stop: oneshot::Sender<()>,
}

impl WaitSampler {
    /// Looks through this connection from now on. Where the server does not answer any more it looks no more.
    pub fn start(connection: PgConnection) -> WaitSampler {
        let (stop, stopped) = oneshot::channel();
        WaitSampler { task: tokio::spawn(look(connection, stopped)), stop }
    }

    /// Ends, and returns what was seen in each of the first `seconds` seconds since `start` in which there was a look.
    pub async fn stop(self, start: Duration, seconds: u32) -> Vec<WaitSample> {
        drop(self.stop);
        // It ends by itself, and is aborted by nobody.
        let looks = self.task.await.unwrap_or_default();
        compute_wait_samples(looks, start, seconds)
    }
}

pub async fn look(mut connection: PgConnection, mut stopped: oneshot::Receiver<()>) -> Vec<Look> {
    let mut looks = Vec::new();
    let mut ticks = interval(LOOK_INTERVAL);
    // After a late look there is no hurry to make up for it.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = &mut stopped => return looks,
            _ = ticks.tick() => {}
        }
        let Ok(seen) = read_waits(&mut connection).await else { return looks };
        looks.push((clock::read_monotonic(), seen));
    }
}

fn compute_wait_samples(looks: Vec<Look>, start: Duration, seconds: u32) -> Vec<WaitSample> {
    let mut sums = BTreeMap::<u32, WaitSum>::new();
    for (at, seen) in looks {
        let Some(since) = at.checked_sub(start) else { continue };
        let sum = sums.entry(since.as_secs() as u32 + 1).or_default();
        sum.looks += 1;
        sum.add_flush(seen.others_at_flush);
        seen.seen.into_iter().for_each(|(wait, observed)| sum.add(wait, observed));
    }
    let sample = |(second, sum): (u32, WaitSum)| WaitSample { second, seen: sum.finish() };
    sums.into_iter().map(sample).filter(|sample| sample.second <= seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flushes, ObservedWait, Waits};
    use postgres::Wait;

    fn wait(state: &str, event: Option<&str>) -> Wait {
        Wait {
            backend: "client backend".into(),
            state: Some(state.into()),
            event_type: event.map(|_| "Client".into()),
            event: event.map(str::to_owned),
        }
    }

    #[test]
    fn looks_are_added_up_by_seconds_and_those_outside_belong_to_none() {
        let start = Duration::from_secs(100);
        let at = |ms: u64| Duration::from_millis(100_000 + ms);
        let (idle, active) = (wait("idle", Some("ClientRead")), wait("active", None));
        let seen = |seen: &[(&Wait, u32)], others_at_flush| WaitLook {
            seen: seen.iter().map(|(wait, observed)| ((*wait).clone(), *observed)).collect(),
            others_at_flush,
        };
        let looks = vec![
            (Duration::from_secs(99), seen(&[(&active, 7)], Some(9))),
            (at(250), seen(&[(&idle, 3), (&active, 1)], Some(2))),
            (at(900), seen(&[(&idle, 2), (&active, 2)], None)),
            (at(2100), seen(&[(&active, 4)], Some(5))),
            (at(3100), seen(&[(&active, 9)], None)),
        ];
        let samples = compute_wait_samples(looks, start, 3);
        assert_eq!(samples.iter().map(|one| (one.second, one.seen.looks)).collect::<Vec<_>>(), [(1, 2), (3, 1)]);
        assert_eq!(samples[0].seen.waits[0], ObservedWait { wait: idle, observed: 5 });
        let total = Waits::total(&samples);
        assert_eq!((total.looks, total.waits[0].observed), (3, 7));
        assert_eq!(total.flushes, Flushes { looks: 2, others: 7 });
        let is_idle = |wait: &Wait| wait.state.as_deref() == Some("idle");
        assert!((total.mean(is_idle) - 5.0 / 3.0).abs() < 1e-9);
        assert_eq!(Waits::default().mean(is_idle), 0.0);
        let text = serde_json::to_value(&samples[1]).unwrap();
        assert_eq!(text["waits"][0]["state"], "active");
        assert_eq!(serde_json::from_value::<WaitSample>(text).unwrap(), samples[1]);
    }
}
