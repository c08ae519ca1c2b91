//! The verdict and the fit that every trial gets, and which show them.

use host::units::Bytes;
use model::{Judgement, Verdict, WarmUp};
use pgthaw_lab::study::{NOTHING, Sample, SweepRun, SweepTrial};
use pgthaw_lab::verdict::{compute_outline_summary, outline_trials};

use crate::results::{keep, sqlite};
use crate::servers::Home;
use crate::synthetic_run::{self, measure_again};

const PAGES: f64 = 1912.0;

/// A trial of so many seconds with one client on a device of 150 reads a second; its pages are those of scale 1.
fn warming(strategy: &str, seconds: u32) -> (SweepRun, SweepTrial) {
    let curve = WarmUp::simple(PAGES, 1.0 / 150.0, 1e-3).unwrap();
    let (run, trials) = synthetic_run::make(1, seconds);
    let mut trial = trials.into_iter().find(|trial| trial.point.strategy == strategy).unwrap();
    (trial.point.clients, trial.point.scale) = (1, 1);
    let make = |sample: &Sample| {
        let [from, to] = [sample.second - 1, sample.second].map(|time| curve.transactions_after(time.into()));
        let misses = (curve.cached_share(to) - curve.cached_share(from)) * PAGES;
        Sample { transactions: (to - from) as u64, foreground_read_bytes: Bytes((misses * 8192.0) as u64), ..*sample }
    };
    trial.samples = trial.samples.iter().map(make).collect();
    measure_again(&mut trial);
    (run, trial)
}

/// Its verdict, or why there is none.
fn judged(trial: &SweepTrial) -> Result<Judgement, String> {
    let outline = outline_trials([trial]).remove(0);
    assert_eq!(outline.judgement.is_some(), outline.no_verdict.is_none());
    outline.judgement.ok_or_else(|| outline.no_verdict.unwrap())
}

#[test]
fn a_trial_without_a_warmer_has_its_fit() {
    let judgement = judged(&warming(NOTHING, 120).1).unwrap();
    let fit = judgement.fit.unwrap();
    assert_eq!((judgement.verdict, judgement.no_fit), (Verdict::Steady, None));
    assert!((fit.pages.value / PAGES - 1.0).abs() < 0.05 && fit.residual_share < 0.05, "{fit:?}");
}

#[test]
fn a_warmer_beside_it_leaves_a_verdict_without_a_fit() {
    let judgement = judged(&warming("cat", 120).1).unwrap();
    assert_eq!((judgement.verdict, judgement.fit), (Verdict::Steady, None));
    assert!(judgement.no_fit.unwrap().contains("a warmer ran beside"));
}

#[test]
fn what_cannot_be_judged_says_why() {
    let (_, mut idle) = warming(NOTHING, 20);
    idle.samples.iter_mut().for_each(|sample| sample.transactions = 0);
    measure_again(&mut idle);
    assert_eq!(judged(&idle).unwrap_err(), "not a single transaction was served");
    assert!(judged(&warming(NOTHING, 4).1).unwrap_err().starts_with("4 intervals are too few"));
}

#[test]
fn a_trial_that_ended_as_steady_and_is_not_has_a_warning() {
    let warned = |seconds: u32, at_most: u32| {
        let (run, mut trial) = warming(NOTHING, seconds);
        trial.point.seconds = Some(at_most);
        let points = compute_outline_summary(&run, &outline_trials([&trial]));
        points[0].warnings.keys().any(|warning| warning.contains("because it looked steady"))
    };
    assert!(warned(12, 120), "a cold trial that ended early");
    assert!(!warned(12, 12), "it lasted as long as it might");
    assert!(!warned(120, 600), "steady");
}

#[test]
fn the_view_shows_verdict_and_fit_flat() {
    let home = Home::new();
    let (run, trial) = warming(NOTHING, 120);
    let file = home.path().join("state/pgthaw/results.sqlite");
    keep(&file, &run, std::slice::from_ref(&trial));
    let fit = judged(&trial).unwrap().fit.unwrap();
    let answer = sqlite(&file, "SELECT verdict, fit_pages, fit_residual_share FROM trial_verdicts");
    assert_eq!(answer, format!("steady|{:?}|{:?}", fit.pages.value, fit.residual_share));
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(
        shown.contains("  nothing:  steady from ")
            && shown.contains("the model's fit of trial 1: a transaction takes 6."),
        "{shown}"
    );
}
