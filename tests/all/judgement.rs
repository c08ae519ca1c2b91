//! The verdict and the fit that every trial gets, and which show them.

use pgthaw::model::{Verdict, WarmUp};
use pgthaw::study::{NOTHING, Run, Sample, Trial};
use pgthaw::units::Bytes;
use pgthaw::verdict::judge_trial;

use crate::results::{keep, sqlite};
use crate::servers::Home;
use crate::synthetic_run;

const PAGES: f64 = 1912.0;

/// A trial of so many seconds with one client on a device of 150 reads a second; its pages are those of scale 1.
fn warming(strategy: &str, seconds: u32) -> (Run, Trial) {
    let curve = WarmUp::simple(PAGES, 1.0 / 150.0, 1e-3).unwrap();
    let (mut run, trials) = synthetic_run::make(1, seconds);
    (run.study.clients, run.study.scale) = (1, 1);
    let trial = trials.into_iter().find(|trial| trial.strategy == strategy).unwrap();
    let make = |sample: &Sample| {
        let [from, to] = [sample.second - 1, sample.second].map(|time| curve.transactions_after(time.into()));
        let misses = (curve.cached_share(to) - curve.cached_share(from)) * PAGES;
        Sample { transactions: (to - from) as u64, foreground_read_bytes: Bytes((misses * 8192.0) as u64), ..*sample }
    };
    let samples = trial.samples.iter().map(make).collect();
    (run, Trial { samples, judgement: None, no_verdict: None, ..trial })
}

fn judged((run, mut trial): (Run, Trial)) -> Trial {
    judge_trial(&run, &mut trial);
    trial
}

#[test]
fn a_trial_without_a_warmer_has_its_fit() {
    let judgement = judged(warming(NOTHING, 120)).judgement.unwrap();
    let fit = judgement.fit.unwrap();
    assert_eq!((judgement.verdict, judgement.no_fit), (Verdict::Steady, None));
    assert!((fit.pages.value / PAGES - 1.0).abs() < 0.05 && fit.residual_share < 0.05, "{fit:?}");
}

#[test]
fn a_warmer_beside_it_leaves_a_verdict_without_a_fit() {
    let judgement = judged(warming("cat", 120)).judgement.unwrap();
    assert_eq!((judgement.verdict, judgement.fit), (Verdict::Steady, None));
    assert!(judgement.no_fit.unwrap().contains("a warmer read beside"));
}

#[test]
fn what_cannot_be_judged_says_why() {
    let (run, mut idle) = warming(NOTHING, 20);
    idle.samples.iter_mut().for_each(|sample| sample.transactions = 0);
    assert_eq!(judged((run, idle)).no_verdict.as_deref(), Some("not a single transaction was served"));
    let short = judged(warming(NOTHING, 4));
    assert!(short.judgement.is_none() && short.no_verdict.unwrap().starts_with("4 intervals are too few"));
}

#[test]
fn a_trial_that_ended_as_steady_and_is_not_has_a_warning() {
    let warned = |seconds: u32, until_steady: bool, at_most: u32| {
        let (mut run, trial) = warming(NOTHING, seconds);
        (run.study.until_steady, run.study.seconds) = (until_steady, at_most);
        judged((run, trial)).warnings.iter().any(|warning| warning.contains("as it looked steady"))
    };
    assert!(warned(12, true, 120), "a cold trial that ended early");
    assert!(!warned(12, true, 12), "it lasted as long as it might");
    assert!(!warned(12, false, 120), "it was not to end by its verdict");
    assert!(!warned(120, true, 600), "steady");
}

#[test]
fn a_verdict_that_is_there_stays() {
    let (run, mut trial) = warming(NOTHING, 20);
    trial.no_verdict = Some("told before".into());
    assert_eq!(judged((run, trial.clone())), trial);
}

#[test]
fn the_view_shows_verdict_and_fit_flat() {
    let home = Home::new();
    let (mut run, trial) = warming(NOTHING, 120);
    run.study.strategies = vec![NOTHING.to_owned()];
    let trial = judged((run.clone(), trial));
    let file = home.path().join("state/pgthaw/results.sqlite");
    keep(&file, &run, std::slice::from_ref(&trial));
    let fit = trial.judgement.unwrap().fit.unwrap();
    let answer = sqlite(&file, "SELECT verdict, fit_pages, fit_residual_share FROM trial_verdicts");
    assert_eq!(answer, format!("steady|{:?}|{:?}", fit.pages.value, fit.residual_share));
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(
        shown.contains("  nothing:  steady from ") && shown.contains("what the model makes of trial 1: cold 6."),
        "{shown}"
    );
}
