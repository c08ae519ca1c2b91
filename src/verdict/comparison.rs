//! The strategies of a run beside each other: ratios within the rounds, and what the traffic got meanwhile. Pure: all of it
//! follows from the trials that are stored.

use serde::Serialize;

use super::interference::{Interference, compute_interference};
use super::rounds::pair_rounds;
use super::statistics::{Limits, Ratio, compute_ratio};
use super::summary::{Summary, served_by};
use super::warm::SUSTAINED_SECONDS;
use crate::study::{NOTHING, PGTHAW, Strategy, Trial};

/// What everything is compared with, beside `nothing` and `cat`: the bound.
pub const BOUND: &str = "bound";

/// Seconds by which the transactions of all strategies are compared, as a multiple of the bound.
const DEADLINE_BOUNDS: f64 = 1.25;

/// The strategies beside each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Comparison {
    pub ratios: Vec<StrategyRatios>,
    /// 1.25 × the bound; `None` where that is not known, or longer than a trial.
    pub deadline_seconds: Option<f64>,
    /// Of every strategy but `nothing`; none where `nothing` was not measured.
    pub interference: Vec<Interference>,
}

/// One strategy ÷ another one, or ÷ the bound.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StrategyRatios {
    pub strategy: String,
    /// [`BOUND`], `nothing` or `cat`.
    pub to: String,
    /// Of the times until warm.
    pub warm_after_seconds: Option<Ratio>,
    /// Of the times to 50 % of steady; `None` beside the bound, and where steady is not known.
    pub to_50_seconds: Option<Ratio>,
    /// Of the transactions served over the whole trial, or over the shorter one of the two; `None` beside the bound.
    pub served: Option<Ratio>,
}

/// Compares the strategies of a summary, in its order.
pub fn compute_comparison(summary: &Summary, trials: &[Trial]) -> Comparison {
    let names: Vec<&str> = summary.strategies.iter().map(|one| one.strategy.as_str()).collect();
    let is_steady_known = summary.strategies.iter().any(|one| one.to_50_seconds.is_some());
    let mut ratios = Vec::new();
    for name in &names {
        ratios.extend(summary.bound_seconds.map(|bound| compare_with_bound(name, bound, trials)));
        let peers = [NOTHING, Strategy::Cat.name()].into_iter().filter(|peer| peer != name && names.contains(peer));
        ratios.extend(peers.map(|peer| compare(name, peer, trials, is_steady_known)));
    }
    let deadline_seconds = summary.bound_seconds.map(|bound| DEADLINE_BOUNDS * bound);
    let deadline_seconds = deadline_seconds.filter(|deadline| *deadline <= f64::from(summary.trial_seconds));
    let disturbing = names.iter().filter(|name| **name != NOTHING && names.contains(&NOTHING));
    let interference = disturbing.map(|name| compute_interference(name, PGTHAW, trials, deadline_seconds)).collect();
    Comparison { ratios, deadline_seconds, interference }
}

pub fn compare(strategy: &str, peer: &str, trials: &[Trial], is_steady_known: bool) -> StrategyRatios {
    let rounds = pair_rounds(trials, strategy, peer);
    let ratio = |value: fn(&Trial) -> Limits| {
        compute_ratio(&rounds.iter().map(|(one, other)| (value(one), value(other))).collect::<Vec<_>>())
    };
    StrategyRatios {
        strategy: strategy.to_owned(),
        to: peer.to_owned(),
        warm_after_seconds: ratio(warm_after),
        to_50_seconds: ratio(to_50).filter(|_| is_steady_known),
        served: compute_ratio(&rounds.iter().map(|(one, other)| served(one, other)).collect::<Vec<_>>()),
    }
}

fn compare_with_bound(strategy: &str, bound_seconds: f64, trials: &[Trial]) -> StrategyRatios {
    let own = trials.iter().filter(|trial| trial.strategy == strategy);
    let pairs: Vec<_> = own.map(|trial| (warm_after(trial), Limits::exactly(bound_seconds))).collect();
    StrategyRatios {
        strategy: strategy.to_owned(),
        to: BOUND.to_owned(),
        warm_after_seconds: compute_ratio(&pairs),
        to_50_seconds: None,
        served: None,
    }
}

/// A trial that was not warm at its end had a cold second among its last three, and so was at least not warm before.
fn warm_after(trial: &Trial) -> Limits {
    Limits::reached(trial.warm_after_seconds, trial.samples.len().saturating_sub(SUSTAINED_SECONDS) as f64)
}

/// By two trials, in the seconds that both have.
fn served(one: &Trial, other: &Trial) -> (Limits, Limits) {
    let common = one.samples.len().min(other.samples.len()) as f64;
    (Limits::exactly(served_by(&one.samples, common)), Limits::exactly(served_by(&other.samples, common)))
}

fn to_50(trial: &Trial) -> Limits {
    Limits::reached(trial.to_50_seconds, trial.samples.len() as f64)
}
