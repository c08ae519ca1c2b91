//! The stalls of a trial: seconds far below those around them, and what was seen meanwhile.

use serde::Serialize;

use super::waits::{BackendWaits, Event};
use crate::study::{Checkpoint, SweepTrial};
use model::{StallSpan, find_stalls};
use observe::WaitSample;

/// What was seen in so many seconds before a stall is compared with what was seen in it.
const SECONDS_BEFORE: u32 = 30;

/// A wait that grew by less than this share of the backends names nothing.
const TELLING: f64 = 0.1;

/// Seconds in which throughput fell far below its surroundings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Stall {
    /// It begins at the end of this second of the trial, and ends with that one.
    pub from_second: u32,
    pub until_second: u32,
    /// Transactions of its slowest second, and what was usual around it.
    pub least_tps: f64,
    pub usual_tps: f64,
    /// What was seen meanwhile and not before: a wait of the backends, a checkpoint; empty when nothing was.
    pub seen: Vec<String>,
}

/// The stalls of a trial, in their order.
pub fn compute_stalls(trial: &SweepTrial) -> Vec<Stall> {
    let rates: Vec<f64> = trial.samples.iter().map(|sample| sample.transactions as f64).collect();
    find_stalls(&rates, 1).into_iter().map(|span| describe(trial, span)).collect()
}

fn describe(trial: &SweepTrial, span: StallSpan) -> Stall {
    let second = |place: usize| trial.samples.get(place).map_or(0, |sample| sample.second);
    let (from_second, until_second) = (second(span.steps.start).saturating_sub(1), second(span.steps.end - 1));
    let within = |from: u32, until: u32| -> Vec<WaitSample> {
        trial.wait_samples.iter().filter(|one| one.second > from && one.second <= until).cloned().collect()
    };
    let before = within(from_second.saturating_sub(SECONDS_BEFORE), from_second);
    let wait = find_wait(&within(from_second, until_second), &before, trial.point.clients);
    let checkpoints = trial.checkpoints.iter().filter_map(|one| overlap(one, from_second, until_second));
    Stall {
        from_second,
        until_second,
        least_tps: span.least,
        usual_tps: span.usual,
        seen: wait.into_iter().chain(checkpoints).collect(),
    }
}

/// The wait that more backends were in than before.
fn find_wait(during: &[WaitSample], before: &[WaitSample], clients: u32) -> Option<String> {
    let (during, before) = (BackendWaits::of(during), BackendWaits::of(before));
    let grown = |(event, now): (&Event, f64)| (event.clone(), now, now - before.mean_of(event));
    let most = during.means().map(grown).max_by(|one, other| one.2.total_cmp(&other.2));
    let ((kind, event), now, _) = most.filter(|(_, _, more)| *more >= TELLING * f64::from(clients))?;
    let earlier = before.mean_of(&(kind.clone(), event.clone()));
    let what = match (kind.as_deref(), event.as_deref()) {
        (Some("Client"), _) => "waited for pgbench".to_owned(),
        (Some(kind), Some(event)) => format!("waited for {kind} {event}"),
        _ => "were on a processor or ready to be".to_owned(),
    };
    Some(format!("{now:.1} of {clients} backends {what} ({earlier:.1} before)"))
}

/// What a checkpoint did within these seconds.
fn overlap(checkpoint: &Checkpoint, from_second: u32, until_second: u32) -> Option<String> {
    let common = |begin: f64, end: f64| end.min(f64::from(until_second)) - begin.max(f64::from(from_second));
    let Checkpoint { ended_after_seconds: end, write_seconds, total_seconds, reason, .. } = checkpoint;
    let begin = end - total_seconds;
    let written = begin + write_seconds;
    let phases = [("wrote buffers", common(begin, written)), ("synchronised files", common(written, *end))];
    let did: Vec<&str> = phases.into_iter().filter(|(_, seconds)| *seconds > 0.0).map(|(phase, _)| phase).collect();
    let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    (!did.is_empty()).then(|| format!("a checkpoint{reason} {}", did.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::{ObservedWait, Waits};
    use postgres::Wait;

    #[test]
    fn what_was_seen_is_named() {
        let sample = |second: u32, event: Option<&str>, observed: u32| WaitSample {
            second,
            seen: Waits {
                looks: 4,
                waits: vec![ObservedWait {
                    wait: Wait {
                        backend: "client backend".into(),
                        state: Some("active".into()),
                        event_type: event.map(|_| "LWLock".into()),
                        event: event.map(str::to_owned),
                    },
                    observed,
                }],
                ..Waits::default()
            },
        };
        let before: Vec<WaitSample> = (1..10).map(|second| sample(second, None, 32)).collect();
        let told = find_wait(&[sample(10, Some("WALWrite"), 28)], &before, 8).unwrap();
        assert_eq!(told, "7.0 of 8 backends waited for LWLock WALWrite (0.0 before)");
        assert_eq!(find_wait(&[sample(10, None, 33)], &before, 8), None);
        let checkpoint = Checkpoint {
            began_after_seconds: 10.0,
            ended_after_seconds: 20.0,
            reason: "time".into(),
            buffers: 1,
            write_seconds: 8.0,
            sync_seconds: 2.0,
            total_seconds: 10.0,
            sync_files: 1,
            longest_sync_seconds: 1.0,
        };
        assert_eq!(overlap(&checkpoint, 12, 14).unwrap(), "a checkpoint (time) wrote buffers");
        assert_eq!(overlap(&checkpoint, 18, 19).unwrap(), "a checkpoint (time) synchronised files");
        assert_eq!(overlap(&checkpoint, 20, 22), None);
    }
}
