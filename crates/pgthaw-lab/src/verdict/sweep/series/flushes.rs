//! How the log was flushed in a trial, beside the setting that counts the same.

use serde::Serialize;

use crate::study::SweepTrial;

/// PostgreSQL's own.
const COMMIT_SIBLINGS: &str = "5";

/// Flushes of the log, counted by the server and seen by looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FlushFigures {
    /// By everybody, as the server counts them; `None` where it does not (before PostgreSQL 14).
    pub per_second: Option<f64>,
    /// Looks, and those that saw one under way.
    pub looks: u32,
    pub seen: u32,
    /// Other transactions under way then, in the mean: they have written, and waited for no lock. `None` where none was seen.
    pub others: Option<f64>,
    pub commit_siblings: String,
}

impl FlushFigures {
    /// `None` where neither the server nor a look has seen one.
    pub fn of(trial: &SweepTrial) -> Option<FlushFigures> {
        let flushes = trial.waits.flushes;
        let seconds = trial.lasted_seconds;
        let per_second = count_flushes(trial).filter(|_| seconds > 0.0).map(|count| count / seconds);
        let is_set = |name: &str| name == "commit_siblings";
        let set = trial.settings.iter().find(|(name, _)| is_set(name)).map(|(_, value)| value.clone());
        let figures = FlushFigures {
            per_second,
            looks: trial.waits.looks,
            seen: flushes.looks,
            others: (flushes.looks > 0).then(|| f64::from(flushes.others) / f64::from(flushes.looks)),
            commit_siblings: set.unwrap_or_else(|| COMMIT_SIBLINGS.to_owned()),
        };
        (per_second.is_some() || flushes.looks > 0).then_some(figures)
    }
}

/// pg_stat_wal counts them until PostgreSQL 17, pg_stat_io since 18.
fn count_flushes(trial: &SweepTrial) -> Option<f64> {
    let own = trial.statistics.0.get("pg_stat_wal").into_iter().flatten();
    let of_wal =
        |key: &std::collections::BTreeMap<String, String>| key.get("object").is_some_and(|object| object == "wal");
    let of_io = trial.statistics.0.get("pg_stat_io").into_iter().flatten().filter(|row| of_wal(&row.key));
    let counted =
        own.filter_map(|row| row.added.get("wal_sync")).chain(of_io.filter_map(|row| row.added.get("fsyncs")));
    counted.copied().reduce(|sum, added| sum + added)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::study::record::tests::trial;
    use observe::{Flushes, Waits};

    #[test]
    fn flushes_are_told_beside_commit_siblings() {
        assert_eq!(FlushFigures::of(&trial()), None);
        let waits = Waits { looks: 40, flushes: Flushes { looks: 10, others: 35 }, ..Waits::default() };
        let of = |statistics: serde_json::Value, settings: Vec<(String, String)>| {
            let statistics = serde_json::from_value(statistics).unwrap();
            FlushFigures::of(&crate::study::SweepTrial {
                lasted_seconds: 10.0,
                waits: waits.clone(),
                statistics,
                settings,
                ..trial()
            })
            .unwrap()
        };
        let of_wal_view = of(json!({ "pg_stat_wal": [{ "key": {}, "added": { "wal_sync": 500.0 } }] }), Vec::new());
        assert_eq!(
            (of_wal_view.per_second, of_wal_view.others, of_wal_view.commit_siblings.as_str()),
            (Some(50.0), Some(3.5), "5")
        );
        let row = |object: &str| json!({ "key": { "object": object }, "added": { "fsyncs": 300.0 } });
        let of_io_view = of(
            json!({ "pg_stat_io": [row("wal"), row("relation"), row("wal")] }),
            vec![("commit_siblings".into(), "9".into())],
        );
        assert_eq!(
            (of_io_view.per_second, of_io_view.seen, of_io_view.commit_siblings.as_str()),
            (Some(60.0), 10, "9")
        );
        assert_eq!(of(json!({}), Vec::new()).per_second, None);
    }
}
