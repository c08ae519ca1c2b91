//! No sentence contradicts the curve beside it: the rules of `Judgement::find_contradictions` and those of a trial over
//! synthetic ramps, the recorded runs of the repository and whole stored runs, and over what is printed of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use host::units::Bytes;
use model::{Facts, Judgement, Series, Verdict, find_disorder, judge};
use pgthaw_lab::verdict::{Metric, TrialOutline, compute_outline_summary, outline_trials, render_sweep_headline};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::results::keep;
use crate::servers::Home;
use crate::synthetic_run::{self, measure_again};
use crate::synthetic_sweep::{self, Shape};

/// Ramps up to a plateau, and where the plateau begins.
struct Ramp {
    series: Series,
    plateau_from: f64,
    noise: f64,
}

/// A straight rise from a part of the plateau to the plateau, each second drawn by itself around it. The judge knows nothing
/// of how this is made.
fn ramp(seed: u64) -> Ramp {
    let mut random = StdRng::seed_from_u64(seed);
    let seconds: u32 = random.random_range(20..300);
    let plateau_from = f64::from(seconds) * random.random_range(0.05..1.2);
    let (noise, level) = (random.random_range(0.05..0.2), random.random_range(200.0..40_000.0));
    let begin = random.random_range(0.02..0.6);
    let mut collector = Series::new(1.0);
    for second in 0..seconds {
        let middle = f64::from(second) + 0.5;
        let shape = (begin + (1.0 - begin) * middle / plateau_from).min(1.0);
        // Two even draws are a triangle of this standard deviation.
        let draw = (random.random_range(-1.0..1.0) + random.random_range(-1.0..1.0_f64)) * 1.225 * noise;
        let count = (level * shape * (1.0 + draw).max(0.0)).round();
        collector.add(f64::from(second), f64::from(second) + 1.0, count, reads_of(seed, shape, count));
    }
    let facts = Facts { scale: Some(1), ..Facts::default() };
    Ramp { series: collector.finish(facts, Vec::new()).check().unwrap(), plateau_from, noise }
}

/// Of every other ramp the reads are known: none from the plateau on.
fn reads_of(seed: u64, shape: f64, count: f64) -> Option<f64> {
    seed.is_multiple_of(2).then_some(if shape < 1.0 { (1.0 - shape) * count } else { 0.0 })
}

fn complain(name: &str, found: &[String]) {
    assert!(found.is_empty(), "{name}: {found:?}");
}

#[test]
fn no_noisy_ramp_is_steady_before_its_own_95_percent() {
    let (mut steady, mut late) = (0, 0);
    for seed in 0..160 {
        let Ramp { series, plateau_from, noise } = ramp(seed);
        let judgement = judge(&series, None);
        complain(
            &format!("ramp {seed}, plateau from {plateau_from:.0} s, noise {noise:.2}"),
            &judgement.find_contradictions(),
        );
        steady += u32::from(judgement.verdict == Verdict::Steady);
        late += u32::from(judgement.steady_from_seconds.is_some_and(|from| from + 3.0 >= 0.9 * plateau_from));
    }
    // The rule does not make the judge dumb.
    assert!(steady >= 40, "{steady} of 160 are steady, {late} of them from near their plateau on");
}

/// A level that is first reached close to the end cannot be told from one that is not there.
#[test]
fn a_plateau_too_close_to_the_end_is_not_reached() {
    let rates: Vec<f64> =
        (0..40).map(|second| if second < 36 { 930.0 + f64::from(second % 2) } else { 1000.0 }).collect();
    let mut judgement = judge(&series_of(&rates), None);
    assert_eq!(judgement.verdict, Verdict::Steady, "{judgement:?}");
    judgement.settle(Some(36.0));
    assert_eq!((judgement.verdict, judgement.steady_from_seconds), (Verdict::NotReached, None));
    assert!(judgement.reason.contains("not for long enough") && judgement.should_have_run_seconds > Some(40.0));
    complain("settled late", &judgement.find_contradictions());
    let mut judgement = judge(&series_of(&rates), None);
    judgement.settle(Some(20.0));
    assert_eq!((judgement.verdict, judgement.steady_from_seconds), (Verdict::Steady, Some(20.0)));
    complain("settled", &judgement.find_contradictions());
}

fn series_of(rates: &[f64]) -> Series {
    let mut collector = Series::new(1.0);
    for (second, rate) in (0..).map(f64::from).zip(rates) {
        collector.add(second, second + 1.0, *rate, Some(0.0));
    }
    collector.finish(Facts::default(), Vec::new())
}

fn files_in(directory: &str, ending: &str) -> Vec<PathBuf> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(directory);
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.to_str().unwrap().ends_with(ending)).collect()
}

/// The trials of lab/predict: transactions, blocks read and bytes resident of each second.
#[test]
fn the_recorded_trials_do_not_contradict_themselves() {
    let files =
        [files_in("lab/predict/2026-11-22", ".json"), files_in("lab/predict/2026-11-22-pilots", ".json")].concat();
    assert!(files.len() >= 20, "{files:?}");
    for path in files {
        let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut collector = Series::new(1.0);
        for (second, sample) in (0..).map(f64::from).zip(kept["seconds"].as_array().unwrap()) {
            let figure = |place: usize| sample[place].as_f64().unwrap();
            collector.add(second, second + 1.0, figure(0), Some(figure(1)));
        }
        let scale = kept["scale"].as_u64().map(|scale| scale as u32);
        let judgement = judge(&collector.finish(Facts { scale, ..Facts::default() }, Vec::new()), None);
        complain(path.to_str().unwrap(), &judgement.find_contradictions());
        if kept["warm_after_seconds"].is_f64() {
            let says_cold = judgement.warmth.as_ref().is_some_and(|warmth| warmth.evidence.contains("a cold server"));
            assert!(!says_cold, "{}: {:?}", path.display(), judgement.warmth);
        }
    }
}

/// Seconds that a text tells after a word, `None` of what is told otherwise; what is at once is 0.
fn seconds_after(text: &str, word: &str) -> Option<f64> {
    let rest = text.split_once(word)?.1.trim_start();
    if rest.starts_with("at once") {
        return Some(0.0);
    }
    let mut words = rest.split([' ', ',', ':']).filter(|word| !["after", "from"].contains(word));
    let number: f64 = words.next()?.parse().ok()?;
    Some(number * if words.next()? == "min" { 60.0 } else { 1.0 })
}

/// What `pgthaw judge` prints of a curve, beside what it says in JSON.
fn check_printed(name: &str, file: &str, home: &Home) {
    let json = home.pgthaw(&["judge", file, "--json"]).json();
    let judgement: Judgement = serde_json::from_value(json["curves"][0].clone()).unwrap();
    complain(name, &judgement.find_contradictions());
    let text = home.pgthaw(&["judge", file]).stdout;
    assert!(!text.contains("after 0.0 s") && !text.contains("from 0.0 s"), "{name}: {text}");
    let first = text.lines().next().unwrap();
    let (Some(from), Some(reached)) = (seconds_after(first, "steady"), seconds_after(&text, "95 %")) else {
        assert!(judgement.verdict != Verdict::Steady, "{name}: {text}");
        return;
    };
    // Both are rounded as they are printed.
    assert!(from + 0.51 >= reached, "{name}: steady from {from}, 95 % after {reached}: {text}");
}

#[test]
fn what_is_printed_of_recorded_and_made_curves_agrees() {
    let home = Home::new();
    for path in files_in("tests/fixtures/pgbench", ".txt") {
        let file = path.to_str().unwrap();
        check_printed(file, file, &home);
    }
    for seed in 0..12 {
        let mut lines = String::new();
        for (second, bucket) in (1..).zip(&ramp(seed).series.buckets) {
            writeln!(lines, "progress: {second}.0 s, {:.1} tps, lat 1.0 ms stddev 1.0", bucket.transactions).unwrap();
        }
        std::fs::write(home.path().join("ramp.txt"), lines).unwrap();
        check_printed(&format!("ramp {seed}"), "ramp.txt", &home);
    }
}

/// Which figures of a trial contradict each other; none of one that may be shown.
fn find_contradictions(trial: &TrialOutline) -> Vec<String> {
    let figure = |metric| trial.figures.get(metric);
    let times = [Metric::To50, Metric::To90, Metric::To95].map(figure);
    let mut found: Vec<String> = find_disorder(times).into_iter().collect();
    let lasted = f64::from(trial.warming.as_ref().unwrap().measured_seconds);
    let mut refuse = |is_broken: bool, rule: &str| found.extend(is_broken.then(|| rule.to_owned()));
    refuse(trial.judgement.is_some() == trial.no_verdict.is_some(), "it has a verdict, and it has none");
    refuse(times.iter().flatten().any(|at| *at > lasted), "a share of the throughput is reached after its end");
    refuse(figure(Metric::WarmAfter).is_some_and(|at| at > lasted), "it is warm after its end");
    let Some(judgement) = &trial.judgement else { return found };
    let says_cold = judgement.warmth.as_ref().is_some_and(|warmth| warmth.evidence.contains("a cold server"));
    let is_warm = figure(Metric::WarmAfter).is_some();
    refuse(is_warm && says_cold, "its reads show that it is warm, and it may be a cold server");
    // Is it said to be steady before the time to 95 % that stands beside it, which is of the common steady level?
    let is_before = match (judgement.steady_from_seconds, figure(Metric::To95)) {
        (Some(from), Some(reached)) => from < reached,
        (Some(_), None) => trial.steady_tps.is_some() && judgement.level_share.is_none(),
        (None, _) => false,
    };
    refuse(is_before, "it is steady before its own 95 %, or at a level that it never had");
    found.extend(judgement.find_contradictions());
    found
}

/// As `bench warmup` keeps it: verdicts of trials beside times to shares of the common level, table and headline.
#[test]
fn a_stored_study_does_not_contradict_itself() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(3, 30);
    let outlines = outline_trials(&trials);
    for trial in &outlines {
        complain(&format!("{} {}", trial.point.strategy, trial.repeat), &find_contradictions(trial));
    }
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(!shown.contains("after 0.0 s") && !shown.contains("from 0.0 s"), "{shown}");
    // Two commands say the same of each trial.
    let kept = home.pgthaw(&["results", "show", "--json"]).ok().json();
    let judged = home.pgthaw(&["judge", &run.id, "--json"]).json();
    let kept = kept["trials"].as_array().unwrap().iter().map(|trial| &trial["warming"]["judgement"]);
    for (kept, judged) in kept.zip(judged["curves"].as_array().unwrap()) {
        for field in ["verdict", "reason", "steady_from_seconds"] {
            assert_eq!(kept[field], judged[field], "{field} of {judged}");
        }
    }
    let headline = render_sweep_headline(&run.varied, &compute_outline_summary(&run, &outlines));
    assert!(shown.contains(&headline), "{shown}");
}

/// Steady from its first second, beside 90 % after 3 s.
#[test]
fn a_verdict_that_its_own_times_contradict_is_put_right_when_it_is_shown() {
    let home = Home::new();
    let (run, mut trials) = synthetic_run::make(1, 30);
    trials.retain(|trial| trial.point.strategy == "pgthaw");
    let trial = &mut trials[0];
    for sample in &mut trial.samples {
        sample.transactions = if sample.second <= 3 { 30_000 } else { 46_000 };
        sample.foreground_read_bytes = Bytes(0);
    }
    measure_again(trial);
    let judgement = trial.warming.as_mut().unwrap().figures.judgement.as_mut().unwrap();
    assert_eq!(judgement.verdict, Verdict::Steady, "{judgement:?}");
    (judgement.steady_from_seconds, judgement.to_90_seconds, judgement.to_95_seconds) =
        (Some(0.0), Some(0.0), Some(0.0));
    complain("put right", &find_contradictions(&outline_trials([&*trial])[0]));
    keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("pgthaw:  steady from 3.0 s (1 of 1)") && shown.contains("warm at once"), "{shown}");
    let json = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert_eq!(json["trials"][0]["warming"]["judgement"]["steady_from_seconds"], 3.0);
}

/// A trial that is steady below the level of the others never reaches 95 % of that: its verdict says so.
#[test]
fn a_level_of_its_own_is_told_as_one() {
    let (_, mut trials) = synthetic_run::make(1, 30);
    let place = trials.iter().position(|trial| trial.point.strategy == "pgthaw").unwrap();
    for sample in &mut trials[place].samples {
        (sample.transactions, sample.foreground_read_bytes) = (23_000, Bytes(0));
    }
    measure_again(&mut trials[place]);
    let outline = outline_trials(&trials).remove(place);
    complain("half as fast", &find_contradictions(&outline));
    let judgement = outline.judgement.unwrap();
    assert!(judgement.reason.contains(" tps where the run's steady throughput is "), "{judgement:?}");
}

#[test]
fn no_worst_second_is_above_the_throughput_beside_it() {
    let shape = Shape { scales: &[1], clients: &[1, 8], buffers: &["1GB"], strategies: &[], repeats: 2, seconds: 60 };
    let (run, mut trials) = synthetic_sweep::make(&shape);
    for excess in [0.0, 800.0] {
        trials.iter_mut().filter(|_| excess > 0.0).for_each(|trial| trial.worst_second_tps = Some(trial.tps + excess));
        let outlines: Vec<TrialOutline> = trials.iter().map(TrialOutline::from).collect();
        let points = compute_outline_summary(&run, &outlines);
        for point in &points {
            let most = |metric| point.figure(metric).and_then(|spread| spread.max);
            let worst = most(Metric::WorstSecond).unwrap_or_default();
            assert!(most(Metric::Tps).is_some_and(|tps| worst <= tps), "{point:?}");
        }
        assert_eq!(render_sweep_headline(&[], &points).contains("worst second"), excess == 0.0);
    }
}
