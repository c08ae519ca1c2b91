//! What the trials of a run say: the summary that the table, `--json` and the report show, and its sentence.

use pgthaw::study::{Run, Trial};
use pgthaw::terminal::{Canvas, RunLine, render_comparison, render_runs};
use pgthaw::units::Bytes;
use pgthaw::verdict::{
    Comparison, Limits, StrategyRatios, StrategySummary, compute_comparison, compute_summary, render_headline,
};

use crate::synthetic_run;

/// A strategy, and the warm time of each of its repeats.
type Times<'a> = (&'a str, &'a [Option<f64>]);

/// Strategies with the warm times of their repeats, within 10 s and with a bound of 5. Each serves 100 transactions a
/// second.
fn run_of(warm_after: &[Times]) -> (Run, Vec<Trial>) {
    let (mut run, trials) = synthetic_run::make(1, 10);
    run.study.bound_seconds = Some(5.0);
    run.study.strategies = warm_after.iter().map(|(strategy, _)| (*strategy).to_owned()).collect();
    let mut made = Vec::new();
    for (strategy, times) in warm_after {
        for (time, repeat) in times.iter().zip(1..) {
            let mut trial = trials[0].clone();
            (trial.strategy, trial.repeat, trial.warm_after_seconds) = ((*strategy).to_owned(), repeat, *time);
            trial.samples.iter_mut().for_each(|sample| sample.transactions = 100);
            made.push(trial);
        }
    }
    (run, made)
}

fn strategies((run, trials): &(Run, Vec<Trial>)) -> Vec<StrategySummary> {
    compute_summary(run, trials).strategies
}

fn headline((run, trials): &(Run, Vec<Trial>)) -> String {
    render_headline(&compute_summary(run, trials))
}

#[test]
fn the_soonest_comes_first_and_what_never_got_warm_last() {
    let order = strategies(&run_of(&[
        ("nothing", &[None]),
        ("cat", &[Some(7.0), None, Some(9.0)]),
        ("vmtouch", &[Some(9.0), None, None]),
        ("pgthaw", &[Some(6.0)]),
    ]));
    let names: Vec<&str> = order.iter().map(|one| one.strategy.as_str()).collect();
    assert_eq!(names, ["pgthaw", "cat", "vmtouch", "nothing"]);
    let cat = order[1].warm_after_seconds;
    assert_eq!((cat.median, cat.min, cat.max, cat.reached, cat.repeats), (Some(9.0), Some(7.0), None, 2, 3));
    assert_eq!(order[1].bound_ratio.unwrap().median, Some(9.0 / 5.0));
    assert_eq!((order[2].warm_after_seconds.median, order[2].warm_after_seconds.min), (None, Some(9.0)));
}

#[test]
fn nothing_by_then_is_what_nothing_served_at_the_median_warm_time() {
    let order = strategies(&run_of(&[
        ("nothing", &[None, None]),
        ("cat", &[Some(7.0), Some(8.0)]),
        ("pg_prewarm-prefetch", &[None]),
    ]));
    let by_then = |name: &str| order.iter().find(|one| one.strategy == name).unwrap().nothing_served_by_then;
    // Half of the eighth second's.
    assert_eq!(by_then("cat").unwrap().median, Some(750.0));
    assert_eq!(by_then("pg_prewarm-prefetch").unwrap().median, Some(1000.0));
    assert_eq!(by_then("nothing"), None);
    let without = strategies(&run_of(&[("cat", &[Some(7.0)])]));
    assert_eq!(without[0].nothing_served_by_then, None);
}

#[test]
fn shares_of_an_unknown_steady_level_are_unknown_and_not_unreached() {
    let (mut run, trials) = run_of(&[("cat", &[Some(7.0)])]);
    assert!(strategies(&(run.clone(), trials.clone()))[0].to_50_seconds.is_some());
    (run.steady_tps, run.study.bound_seconds) = (None, None);
    let cat = &strategies(&(run, trials))[0];
    assert_eq!((cat.to_50_seconds, cat.to_95_seconds, cat.bound_ratio), (None, None, None));
}

#[test]
fn what_speaks_against_a_strategy_names_its_repeats() {
    let (run, mut trials) = run_of(&[("cat", &[Some(7.0), Some(7.0), Some(7.0)])]);
    trials[0].outcome.failure = Some("no such file".into());
    trials[2].outcome.failure = Some("no such file".into());
    trials[1].start_state.verdict = "lukewarm".into();
    (trials[1].start_state.os_resident_bytes, trials[1].start_state.total_bytes) = (Bytes(20 << 20), Bytes(1 << 30));
    assert_eq!(
        strategies(&(run, trials))[0].caveats,
        ["failed: no such file (repeats 1, 3 of 3)", "started lukewarm: 20 MB of 1 GB were resident (repeat 2 of 3)"]
    );
}

#[test]
fn the_sentence_tells_the_answer_whatever_it_is() {
    let cases: [(&[Times], &str); 11] = [
        (
            &[("nothing", &[None]), ("cat", &[Some(7.5)]), ("pgthaw", &[Some(5.2)])],
            "pgthaw was warm after 5.2 s, 1.04 × the bound; the next, cat, after 7.5 s; doing nothing was not within 10 s.",
        ),
        (
            &[("nothing", &[Some(9.0)]), ("cat", &[Some(5.1)]), ("pgthaw", &[Some(6.0)])],
            "pgthaw was warm after 6.0 s, 1.20 × the bound; cat was sooner, after 5.1 s; doing nothing, after 9.0 s.",
        ),
        // Who was warm long before all could be read shows that not all was needed.
        (
            &[("cat", &[Some(2.0)]), ("pgthaw", &[Some(6.0)])],
            "pgthaw was warm after 6.0 s; cat was sooner, after 2.0 s.",
        ),
        (
            &[("nothing", &[None]), ("cat", &[Some(4.0)]), ("pgthaw", &[None])],
            "pgthaw was not warm within 10 s; cat was, after 4.0 s; doing nothing was not within 10 s.",
        ),
        (
            &[("pgthaw", &[Some(6.0)]), ("cat", &[None])],
            "pgthaw was warm after 6.0 s, 1.20 × the bound; no other warmer was within 10 s.",
        ),
        // The table puts cat first, for its soonest repeat: that is no order of the two.
        (
            &[("cat", &[Some(5.0), Some(6.02), Some(7.0)]), ("pgthaw", &[Some(6.0), Some(6.0), Some(6.0)])],
            "pgthaw was warm after 6.0 s, 1.20 × the bound; cat was too, at the same time.",
        ),
        (&[("nothing", &[Some(9.0)])], "left to itself, the server was warm after 9.0 s, 1.80 × the bound."),
        (
            &[("nothing", &[None]), ("cat", &[None])],
            "left to itself, the server was not warm within 10 s; nor was it with any warmer.",
        ),
        (
            &[("nothing", &[Some(9.0)]), ("cat", &[None])],
            "left to itself, the server was warm after 9.0 s, 1.80 × the bound; with none of the warmers it was within 10 s.",
        ),
        (&[("cat", &[None]), ("pgthaw", &[None])], "pgthaw was not warm within 10 s; nor was any other warmer."),
        (&[], "No trial was kept."),
    ];
    for (times, expected) in cases {
        assert_eq!(headline(&run_of(times)), expected);
    }
}

fn comparison((run, trials): &(Run, Vec<Trial>)) -> Comparison {
    compute_comparison(&compute_summary(run, trials), trials)
}

fn ratios<'a>(comparison: &'a Comparison, strategy: &str, to: &str) -> &'a StrategyRatios {
    comparison.ratios.iter().find(|one| one.strategy == strategy && one.to == to).unwrap()
}

#[test]
fn a_ratio_to_an_unreached_time_is_limited_by_what_was_watched() {
    let compared = comparison(&run_of(&[
        ("nothing", &[None, None, None]),
        ("cat", &[Some(7.0), Some(8.0), Some(9.0)]),
        ("pgthaw", &[Some(3.5), Some(6.0), Some(3.0)]),
    ]));
    let to = |peer| ratios(&compared, "pgthaw", peer).warm_after_seconds.unwrap();
    assert_eq!(to("cat").median, Limits::exactly(0.5));
    assert_eq!(to("cat").interval, Some(Limits { at_least: 3.0 / 9.0, at_most: Some(0.75) }));
    // A trial of 10 s that was not warm at its end had a cold second among its last three.
    assert_eq!(to("nothing").median, Limits { at_least: 0.0, at_most: Some(0.5) });
    assert_eq!(to("bound").median, Limits::exactly(0.7));
    assert_eq!(ratios(&compared, "pgthaw", "nothing").served.unwrap().median, Limits::exactly(1.0));
    // 1.25 bounds of 5 s, 100 transactions a second.
    assert_eq!(compared.interference[0].served_by_deadline.unwrap().median, Some(625.0));
}

#[test]
fn the_strategies_stand_beside_each_other_in_two_tables() {
    let (run, trials) = synthetic_run::make(3, 20);
    let tables = render_comparison(&comparison(&(run, trials)));
    let [ratios, interference] = &tables[..] else { panic!("{tables:?}") };
    for (table, titles) in
        [(ratios, ["÷ bound", "÷ cat", "75 % of cases"]), (interference, ["lowest", "floor", "7.1 s"])]
    {
        assert!(titles.iter().all(|title| table.contains(title)), "{table}");
        let widest = table.lines().filter(|line| !line.contains(" · ")).map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{widest:?}\n{table}");
    }
    let once = synthetic_run::make(1, 20);
    assert_eq!(render_comparison(&comparison(&once)).len(), 1, "one round has no interval");
    let alone = run_of(&[("pgthaw", &[Some(6.0)])]);
    assert_eq!(render_comparison(&comparison(&alone)), Vec::<String>::new());
}

#[test]
fn the_list_of_runs_fits_the_terminal() {
    let (run, trials) = synthetic_run::make(3, 20);
    let headline = render_headline(&compute_summary(&run, &trials));
    let lines = [RunLine { run: &run, trials: trials.len(), headline: headline.clone() }];
    let canvas = |width| Canvas { width, height: None, colours: false, unicode: true };
    let wide = render_runs(&lines, canvas(None));
    assert!(wide.contains("when (UTC)") && wide.contains(&headline), "{wide}");
    for width in 80..140 {
        let narrow = render_runs(&lines, canvas(Some(width)));
        let widest = narrow.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{width}: {narrow}");
        assert!(narrow.contains(&run.id) && narrow.contains("gp3"), "{narrow}");
    }
}
