//! Part of `--json`: never rename fields.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use host::linux::clock;
use postgres::{Wait, WaitLook, read_waits};

/// Samples of server processes in one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct WaitSample {
    /// Second since the workload's start, from 1.
    pub second: u32,
    #[serde(flatten)]
    pub seen: Waits,
}

/// Samples of server processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Waits {
    /// Number of samples.
    pub looks: u32,
    /// Most frequent first, without idle background processes.
    pub waits: Vec<ObservedWait>,
    /// Waits for a flush of WAL.
    pub flushes: Flushes,
}

/// Samples with the wait event `WALSync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Flushes {
    pub looks: u32,
    /// Number of transactions active besides the flushing one, as `commit_siblings` counts; summed over these samples.
    pub others: u32,
}

impl Flushes {
    fn plus(self, other: Flushes) -> Flushes {
        Flushes { looks: self.looks.saturating_add(other.looks), others: self.others.saturating_add(other.others) }
    }
}

/// A wait. `observed` ÷ `looks` is the mean number of waiting processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ObservedWait {
    #[serde(flatten)]
    pub wait: Wait,
    /// Number of processes seen in this wait, summed over all samples.
    pub observed: u32,
}

impl Waits {
    pub fn mean(&self, is_meant: impl Fn(&Wait) -> bool) -> f64 {
        let seen: f64 = self.waits.iter().filter(|one| is_meant(&one.wait)).map(|one| f64::from(one.observed)).sum();
        seen / f64::from(self.looks.max(1))
    }

    /// Saturating, because documents are untrusted.
    pub fn total<'a>(samples: impl IntoIterator<Item = &'a WaitSample>) -> Waits {
        let mut sum = Waits::default();
        for sample in samples {
            sum.looks = sum.looks.saturating_add(sample.seen.looks);
            sum.flushes = sum.flushes.plus(sample.seen.flushes);
            sample.seen.waits.iter().for_each(|one| sum.add(one.wait.clone(), one.observed));
        }
        sum.sorted()
    }

    fn add(&mut self, wait: Wait, observed: u32) {
        match self.waits.iter_mut().find(|one| one.wait == wait) {
            Some(known) => known.observed = known.observed.saturating_add(observed),
            None => self.waits.push(ObservedWait { wait, observed }),
        }
    }

    fn sorted(mut self) -> Waits {
        self.waits.sort_by(|one, other| other.observed.cmp(&one.observed).then_with(|| one.wait.cmp(&other.wait)));
        self
    }
}

/// Each sample costs the server well under a millisecond.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Dropping it stops the task.
#[derive(Debug)]
pub struct WaitSampler {
    task: JoinHandle<Vec<(Duration, WaitLook)>>,
    stop: oneshot::Sender<()>,
}

impl WaitSampler {
    pub fn start(mut connection: PgConnection) -> WaitSampler {
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut looks = Vec::new();
            let mut ticks = interval(LOOK_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _ = &mut stopped => return looks,
                    _ = ticks.tick() => {}
                }
                let Ok(seen) = read_waits(&mut connection).await else { return looks };
                looks.push((clock::read_monotonic(), seen));
            }
        });
        WaitSampler { task, stop }
    }

    pub async fn stop(self, start: Duration, seconds: u32) -> Vec<WaitSample> {
        drop(self.stop);
        let looks = self.task.await.unwrap_or_default();
        compute_wait_samples(looks, start, seconds)
    }
}

fn compute_wait_samples(looks: Vec<(Duration, WaitLook)>, start: Duration, seconds: u32) -> Vec<WaitSample> {
    let mut sums = BTreeMap::<u32, Waits>::new();
    for (at, seen) in looks {
        let Some(since) = at.checked_sub(start) else { continue };
        let sum = sums.entry(since.as_secs() as u32 + 1).or_default();
        sum.looks += 1;
        sum.flushes = seen.others_at_flush.map_or(sum.flushes, |others| sum.flushes.plus(Flushes { looks: 1, others }));
        seen.seen.into_iter().for_each(|(wait, observed)| sum.add(wait, observed));
    }
    let sample = |(second, sum): (u32, Waits)| WaitSample { second, seen: sum.sorted() };
    sums.into_iter().map(sample).filter(|sample| sample.second <= seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
