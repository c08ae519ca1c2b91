//! The answer of a run in one sentence.

use super::summary::{StrategySummary, Summary};
use crate::model::tell_after;
use crate::study::{NOTHING, PGTHAW};

/// One sentence: when pgthaw was warm, how near the bound, and beside it the best of the others and doing nothing. When
/// pgthaw did not take part, the soonest strategy takes its place.
pub fn render_headline(summary: &Summary) -> String {
    let others = |subject: &str| {
        let subject = subject.to_owned();
        move |one: &&StrategySummary| one.strategy != subject && one.strategy != NOTHING
    };
    let find = |name: &str| summary.strategies.iter().find(|one| one.strategy == name);
    let Some(subject) = find(PGTHAW).or_else(|| summary.strategies.first()) else {
        return "No trial was kept.".to_owned();
    };
    let mut clauses = vec![subject_clause(subject, summary)];
    clauses.extend(
        summary.strategies.iter().find(others(&subject.strategy)).map(|peer| peer_clause(peer, subject, summary)),
    );
    clauses.extend(
        find(NOTHING).filter(|one| one.strategy != subject.strategy).map(|nothing| nothing_clause(nothing, summary)),
    );
    format!("{}.", clauses.join("; "))
}

/// `after 6.1 s`, or at once.
fn after(seconds: f64) -> String {
    tell_after(seconds, &format!("{seconds:.1} s"))
}

fn subject_clause(subject: &StrategySummary, summary: &Summary) -> String {
    let name = if subject.strategy == NOTHING { "left to itself, the server" } else { &subject.strategy };
    let Some(seconds) = subject.warm_after_seconds.median else {
        return format!("{name} was not warm within {} s", summary.trial_seconds);
    };
    match subject.bound_ratio.filter(|_| summary.is_bounded()).and_then(|ratio| ratio.median) {
        Some(ratio) => format!("{name} was warm {}, {ratio:.2} × the bound", after(seconds)),
        None => format!("{name} was warm {}", after(seconds)),
    }
}

fn peer_clause(peer: &StrategySummary, subject: &StrategySummary, summary: &Summary) -> String {
    let name = &peer.strategy;
    match (peer.warm_after_seconds.median, subject.warm_after_seconds.median) {
        (None, None) if subject.strategy == NOTHING => "nor was it with any warmer".to_owned(),
        (None, _) if subject.strategy == NOTHING => {
            format!("with none of the warmers it was within {} s", summary.trial_seconds)
        }
        (None, None) => "nor was any other warmer".to_owned(),
        (None, _) => format!("no other warmer was within {} s", summary.trial_seconds),
        // As they are shown: what reads the same is no order.
        (Some(peer), Some(subject)) if format!("{peer:.1}") == format!("{subject:.1}") => {
            format!("{name} was too, at the same time")
        }
        (Some(peer), Some(subject)) if peer < subject => format!("{name} was sooner, {}", after(peer)),
        (Some(peer), None) => format!("{name} was, {}", after(peer)),
        (Some(peer), _) => format!("the next, {name}, {}", after(peer)),
    }
}

fn nothing_clause(nothing: &StrategySummary, summary: &Summary) -> String {
    match nothing.warm_after_seconds.median {
        Some(seconds) => format!("doing nothing, {}", after(seconds)),
        None => format!("doing nothing was not within {} s", summary.trial_seconds),
    }
}
