//! What a strategy does to the traffic beside it: what each second served, beside the same second of `nothing` in the
//! same round. Pure.

use serde::Serialize;

use super::rounds::pair_rounds;
use super::spread::Spread;
use super::statistics::{Limits, Ratio, compute_ratio};
use super::summary::served_by;
use crate::model::compute_median;
use crate::study::{NOTHING, Sample, Strategy, Trial};

/// A strategy beside `nothing`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Interference {
    pub strategy: String,
    /// One for each second that all trials of the two have, from the first.
    pub seconds: Vec<SecondShare>,
    /// The second with the least share, the first of several.
    pub lowest: Option<SecondShare>,
    /// The least share of any second in any round.
    pub least: Option<LeastShare>,
    /// The least share that the strategy promises for every second; `None` when it promises none.
    pub floor: Option<f64>,
    /// Is no second's share below the floor, in any round?
    pub is_floor_held: Option<bool>,
    /// Transactions served by the deadline of the comparison.
    pub served_by_deadline: Option<Spread>,
    /// These ÷ those of `nothing`.
    pub served_ratio: Option<Ratio>,
    /// Those of pgthaw ÷ these; `None` for pgthaw itself, or where it took no part.
    pub pgthaw_ratio: Option<Ratio>,
    /// The first second from whose end on more was served in total than by `nothing`, up to the end (medians of the
    /// rounds' differences); `None`: at the end it was not more.
    pub ahead_from_second: Option<u32>,
}

/// Transactions of a second ÷ those of `nothing` in the same second of the same round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SecondShare {
    /// From 1.
    pub second: u32,
    /// The median over the rounds; `None` when `nothing` served nothing in it in any round.
    pub share: Option<f64>,
    /// The least of the rounds.
    pub least: Option<f64>,
}

/// Transactions of one second of one round ÷ those of `nothing`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LeastShare {
    /// From 1.
    pub second: u32,
    /// From 1.
    pub repeat: u32,
    pub share: f64,
}

/// A strategy beside `nothing`, and `pgthaw` beside the strategy.
pub fn compute_interference(name: &str, pgthaw: &str, trials: &[Trial], deadline: Option<f64>) -> Interference {
    let rounds = pair_rounds(trials, name, NOTHING);
    let seconds = compute_shares(&rounds);
    let known = seconds.iter().filter_map(|second| Some((second.share?, *second)));
    let lowest = known.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, second)| second);
    let least = find_least(&rounds);
    let floor = name.parse::<Strategy>().ok().and_then(Strategy::floor);
    let own = trials.iter().filter(|trial| trial.strategy == name);
    Interference {
        strategy: name.to_owned(),
        lowest,
        least,
        floor,
        is_floor_held: floor.zip(least).map(|(floor, least)| least.share >= floor),
        served_by_deadline: deadline.map(|at| Spread::of(own.map(|trial| Some(served_by(&trial.samples, at))))),
        served_ratio: deadline.and_then(|at| compute_served_ratio(&rounds, at)),
        pgthaw_ratio: deadline
            .filter(|_| name != pgthaw)
            .and_then(|at| compute_served_ratio(&pair_rounds(trials, pgthaw, name), at)),
        ahead_from_second: find_ahead(&rounds),
        seconds,
    }
}

fn compute_served_ratio(rounds: &[(&Trial, &Trial)], deadline: f64) -> Option<Ratio> {
    let served = |trial: &Trial| Limits::exactly(served_by(&trial.samples, deadline));
    compute_ratio(&rounds.iter().map(|(one, other)| (served(one), served(other))).collect::<Vec<_>>())
}

/// Seconds that every trial of the rounds has.
fn common_seconds(rounds: &[(&Trial, &Trial)]) -> usize {
    rounds.iter().map(|(one, other)| one.samples.len().min(other.samples.len())).min().unwrap_or(0)
}

fn compute_share(one: &Sample, nothing: &Sample) -> Option<f64> {
    (nothing.transactions > 0).then(|| one.transactions as f64 / nothing.transactions as f64)
}

fn find_least(rounds: &[(&Trial, &Trial)]) -> Option<LeastShare> {
    let all = common_seconds(rounds);
    let of_round = |(one, nothing): &(&Trial, &Trial)| {
        let repeat = one.repeat;
        let shares = one.samples.iter().zip(&nothing.samples).take(all).zip(1..);
        let shares = shares.filter_map(|((one, nothing), second)| {
            Some(LeastShare { second, repeat, share: compute_share(one, nothing)? })
        });
        shares.collect::<Vec<_>>()
    };
    rounds.iter().flat_map(of_round).min_by(|one, other| one.share.total_cmp(&other.share))
}

fn compute_shares(rounds: &[(&Trial, &Trial)]) -> Vec<SecondShare> {
    let second = |index: usize| {
        let shares =
            rounds.iter().filter_map(|(one, nothing)| compute_share(&one.samples[index], &nothing.samples[index]));
        let shares: Vec<f64> = shares.collect();
        let least = shares.iter().copied().min_by(f64::total_cmp);
        SecondShare { second: index as u32 + 1, share: compute_median(shares), least }
    };
    (0..common_seconds(rounds)).map(second).collect()
}

fn find_ahead(rounds: &[(&Trial, &Trial)]) -> Option<u32> {
    let served = |trial: &Trial, seconds: usize| -> f64 {
        trial.samples[..seconds].iter().map(|sample| sample.transactions as f64).sum()
    };
    let is_ahead = |seconds: usize| {
        let leads = rounds.iter().map(|(one, nothing)| served(one, seconds) - served(nothing, seconds));
        compute_median(leads.collect()).is_some_and(|lead| lead > 0.0)
    };
    let all = common_seconds(rounds);
    let last_behind = (1..=all).rev().find(|seconds| !is_ahead(*seconds)).unwrap_or(0);
    (last_behind < all).then_some(last_behind as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::record::tests::{sample, trial};

    fn trial_of(strategy: &str, repeat: u32, transactions: &[u64]) -> Trial {
        trial(strategy, repeat, (1..).zip(transactions).map(|(second, count)| sample(second, *count, 0)).collect())
    }

    fn run() -> Vec<Trial> {
        vec![
            trial_of("nothing", 1, &[100, 100, 0, 200]),
            trial_of("pgthaw", 1, &[50, 40, 10, 900]),
            trial_of("nothing", 2, &[100, 100, 0, 200]),
            trial_of("pgthaw", 2, &[70, 20, 10, 900]),
            trial_of("cat", 1, &[10, 10, 10, 10]),
            trial_of("cat", 2, &[10, 10, 10, 50]),
        ]
    }

    #[test]
    fn a_second_is_compared_with_the_same_second_of_the_same_round() {
        let pgthaw = compute_interference("pgthaw", "pgthaw", &run(), Some(2.5));
        let shares: Vec<_> = pgthaw.seconds.iter().map(|second| (second.share, second.least)).collect();
        assert_eq!(shares[..3], [(Some(0.6), Some(0.5)), (Some(f64::midpoint(0.4, 0.2)), Some(0.2)), (None, None)]);
        assert_eq!(pgthaw.lowest.map(|lowest| lowest.second), Some(2));
        assert_eq!(pgthaw.least, Some(LeastShare { second: 2, repeat: 2, share: 0.2 }));
        assert_eq!((pgthaw.floor, pgthaw.is_floor_held), (Some(0.3), Some(false)));
        // 95 and 95 of 200 by the middle of the third second, in which nothing served nothing.
        assert_eq!(pgthaw.served_ratio.map(|ratio| ratio.median), Some(Limits::exactly(95.0 / 200.0)));
        assert_eq!((pgthaw.pgthaw_ratio, pgthaw.ahead_from_second), (None, Some(4)));
    }

    #[test]
    fn a_floor_is_held_in_every_second_or_not_at_all() {
        let mut trials = run();
        assert_eq!(compute_interference("pgthaw", "pgthaw", &trials, None).is_floor_held, Some(false), "in one round");
        trials[3].samples[1].transactions = 30;
        assert_eq!(compute_interference("pgthaw", "pgthaw", &trials, None).is_floor_held, Some(true));
        for trial in &mut trials {
            trial.strategy = trial.strategy.replace("pgthaw", "pgthaw-full-speed");
        }
        let full = compute_interference("pgthaw-full-speed", "pgthaw", &trials, None);
        assert_eq!((full.floor, full.is_floor_held, full.served_ratio), (None, None, None));
    }

    #[test]
    fn a_peer_is_told_what_pgthaw_served_in_its_stead() {
        let cat = compute_interference("cat", "pgthaw", &run(), Some(2.0));
        assert_eq!(cat.pgthaw_ratio.map(|ratio| ratio.median), Some(Limits::exactly(4.5)));
        assert_eq!(cat.served_by_deadline.and_then(|spread| spread.median), Some(20.0));
        assert_eq!((cat.floor, cat.ahead_from_second), (None, None));
    }
}
