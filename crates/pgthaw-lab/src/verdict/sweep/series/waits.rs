//! What the workload's backends did in the spans of a trial.

use std::collections::BTreeMap;

use serde::Serialize;

use super::column::{Column, round};
use observe::{WaitSample, Waits};
use postgres::Wait;

/// So many kinds of waiting have curves of their own; what is left is added up.
const KINDS_MAX: usize = 7;

/// Backends of the workload that did the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WaitSeries {
    /// `IO` and `DataFileRead`; `None`: on a processor, or ready to be. `Others` is what has no curve of its own.
    pub kind: Option<String>,
    pub event: Option<String>,
    /// How many of them, in the mean; `None` in a span in which nobody looked.
    pub processes: Column,
}

/// What a backend waited for: type and event.
pub type Event = (Option<String>, Option<String>);

/// The kinds that were seen most often, the most frequent first.
pub fn compute_wait_series(spans: &[&[WaitSample]]) -> Vec<WaitSeries> {
    let spans: Vec<BackendWaits> = spans.iter().map(|span| BackendWaits::of(span)).collect();
    let mut totals: BTreeMap<&Event, u64> = BTreeMap::new();
    for (event, observed) in spans.iter().flat_map(|span| &span.observed) {
        *totals.entry(event).or_default() += u64::from(*observed);
    }
    let mut kinds: Vec<(&Event, u64)> = totals.into_iter().collect();
    kinds.sort_by_key(|(_, observed)| std::cmp::Reverse(*observed));
    // A single one that is left over may as well have its own name.
    let shown = if kinds.len() > KINDS_MAX + 1 { KINDS_MAX } else { kinds.len() };
    let (own, left) = kinds.split_at(shown);
    let series = |event: &Event, counted: &[&Event]| WaitSeries {
        kind: event.0.clone(),
        event: event.1.clone(),
        processes: spans.iter().map(|span| span.mean(counted)).collect(),
    };
    let mut all: Vec<WaitSeries> = own.iter().map(|(event, _)| series(event, &[event])).collect();
    if !left.is_empty() {
        let counted: Vec<&Event> = left.iter().map(|(event, _)| *event).collect();
        all.push(series(&(Some("Others".into()), None), &counted));
    }
    all
}

/// What was seen of the workload's backends within some seconds.
#[derive(Clone, Debug, Default)]
pub struct BackendWaits {
    looks: u32,
    observed: BTreeMap<Event, u32>,
}

impl BackendWaits {
    pub fn of(samples: &[WaitSample]) -> BackendWaits {
        let Waits { looks, waits, .. } = Waits::total(samples);
        let mut observed = BTreeMap::new();
        for one in waits.into_iter().filter(|one| is_of_workload(&one.wait)) {
            let known: &mut u32 = observed.entry((one.wait.event_type, one.wait.event)).or_default();
            *known = known.saturating_add(one.observed);
        }
        BackendWaits { looks, observed }
    }

    /// Backends that did one of these, in the mean; `None` when nobody looked.
    fn mean(&self, counted: &[&Event]) -> Option<f64> {
        let observed: f64 =
            counted.iter().filter_map(|event| self.observed.get(event)).map(|seen| f64::from(*seen)).sum();
        (self.looks > 0).then(|| round(observed / f64::from(self.looks)))
    }

    /// Every event with the backends that waited for it, in the mean.
    pub fn means(&self) -> impl Iterator<Item = (&Event, f64)> {
        self.observed.iter().map(|(event, observed)| (event, f64::from(*observed) / f64::from(self.looks.max(1))))
    }

    /// The same for one event.
    pub fn mean_of(&self, event: &Event) -> f64 {
        f64::from(self.observed.get(event).copied().unwrap_or_default()) / f64::from(self.looks.max(1))
    }
}

/// Background processes wait for work of their own.
fn is_of_workload(wait: &Wait) -> bool {
    matches!(wait.backend.as_str(), "client backend" | "parallel worker")
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::ObservedWait;

    fn sample(second: u32, seen: &[(&str, Option<&str>, u32)]) -> WaitSample {
        let waits = seen.iter().map(|(backend, event, observed)| ObservedWait {
            wait: Wait {
                backend: (*backend).into(),
                state: Some("active".into()),
                event_type: event.map(|_| "IO".into()),
                event: event.map(str::to_owned),
            },
            observed: *observed,
        });
        WaitSample { second, seen: Waits { looks: 4, waits: waits.collect(), ..Waits::default() } }
    }

    #[test]
    fn the_most_frequent_kinds_have_curves_and_the_rest_are_added_up() {
        let names: Vec<String> = (0..10).map(|number| format!("Event{number}")).collect();
        let mut seen: Vec<(&str, Option<&str>, u32)> =
            names.iter().map(|name| ("client backend", Some(name.as_str()), 4)).collect();
        seen.push(("client backend", None, 40));
        seen.push(("checkpointer", Some("DataFileSync"), 400));
        let (one, none) = ([sample(1, &seen)], []);
        let series = compute_wait_series(&[&one, &none]);
        assert_eq!(series.len(), KINDS_MAX + 1);
        assert_eq!((&series[0].event, &series[0].processes), (&None, &vec![Some(10.0), None]));
        let last = series.last().unwrap();
        assert_eq!((last.kind.as_deref(), last.processes[0]), (Some("Others"), Some(4.0)));
        assert!(compute_wait_series(&[&none]).is_empty());
    }
}
