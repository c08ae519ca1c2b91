//! 275 curves with a known truth.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::synthetic::{Noise, Shape, make_modulated, make_series};
use super::{Bucket, Facts, Series, Undecided};
use super::{Judgement, Verdict, judge};
use crate::{WarmUp, compute_median};

const EACH: u64 = 25;
const KINDS: u64 = 11;

struct Case {
    kind: &'static str,
    series: Series,
    truth: Verdict,
    /// Range of the steady start, in seconds.
    steady_from: Option<(f64, f64)>,
    period: Option<f64>,
}

fn is_never_warm(case: &Case) -> bool {
    case.truth == Verdict::NotReached
}

fn is_called(judgement: &Judgement, is_warm: bool) -> bool {
    judgement.warmth.as_ref().is_some_and(|warmth| warmth.is_warm == Some(is_warm))
}

fn random_curve(random: &mut StdRng) -> WarmUp {
    let hit = 10_f64.powf(random.random_range(-4.3..-3.3));
    let pages = 10_f64.powf(random.random_range(4.3..5.7));
    WarmUp::simple(pages, hit * random.random_range(4.0..60.0), hit).unwrap()
}

fn random_noise(random: &mut StdRng) -> Noise {
    Noise { sigma: random.random_range(0.01..0.04), rho: random.random_range(0.0..0.6), stalls_per_second: 0.0 }
}

fn stretched(curve: &WarmUp, share: f64, seconds: f64) -> WarmUp {
    let factor = curve.seconds_to_share(share).unwrap() / seconds;
    let [cold, hit] = [curve.seconds_per_transaction(0.0), 1.0 / curve.steady_throughput()];
    let pages = curve.cached_share(1.0);
    WarmUp::simple(1.0 / pages / factor, cold, hit).unwrap()
}

fn make_case(kind: u64, seed: u64) -> Case {
    let mut random = StdRng::seed_from_u64(1000 * kind + seed);
    let noise = random_noise(&mut random);
    let plain = random_curve(&mut random);
    let rate = 10_f64.powf(random.random_range(3.3..4.6));
    let case = |kind, series, truth| Case { kind, series, truth, steady_from: None, period: None };
    match kind {
        0 => {
            let curve = stretched(&plain, 0.95, random.random_range(60.0..400.0));
            let [early, late] = [0.85, 0.95].map(|share| curve.seconds_to_share(share).unwrap());
            let seconds = late * random.random_range(1.5..4.0);
            let series = make_series(Shape::Warming(&curve), seconds as u32, noise, seed);
            let steady_from = Some((early - 10.0, late + 0.25 * seconds));
            Case { steady_from, ..case("warming", series, Verdict::Steady) }
        }
        1 => {
            let seconds = random.random_range(60.0..900.0);
            let curve = stretched(&plain, random.random_range(0.3..0.8), seconds);
            case("never warm", make_series(Shape::Warming(&curve), seconds as u32, noise, seed), Verdict::NotReached)
        }
        2 => {
            let seconds: u32 = random.random_range(60..600);
            let cold = 10_f64.powf(random.random_range(-3.0..-1.5));
            let pages = (f64::from(seconds) / cold / random.random_range(0.005..0.15)).min(4e6);
            let curve = WarmUp::simple(pages, cold, cold / random.random_range(4.0..60.0)).unwrap();
            case("cold plateau", make_series(Shape::Warming(&curve), seconds, noise, seed), Verdict::NotReached)
        }
        3 => {
            let period = f64::from(random.random_range(20_u32..120));
            let width = (period * random.random_range(0.08..0.25)).max(3.0);
            let depth = random.random_range(0.2..0.7);
            let phase = random.random_range(0.0..period);
            let dips = |second: f64| if (second + phase) % period < width { 1.0 - depth } else { 1.0 };
            let seconds = (period * random.random_range(4.0..10.0)) as u32;
            let series = make_modulated(Shape::Flat(rate), seconds, noise, seed, dips);
            Case { period: Some(period), ..case("checkpoint dips", series, Verdict::Periodic) }
        }
        4 => {
            let seconds: u32 = random.random_range(200..1200);
            let fall = random.random_range(0.15..0.5);
            let drift = |second: f64| 1.0 - fall * second / f64::from(seconds);
            case("drift", make_modulated(Shape::Flat(rate), seconds, noise, seed, drift), Verdict::Degrading)
        }
        5 => {
            let noise = Noise { stalls_per_second: random.random_range(0.01..0.04), ..noise };
            let series = make_series(Shape::Flat(rate), random.random_range(100..900), noise, seed);
            Case { steady_from: Some((0.0, 0.1 * series.seconds())), ..case("pauses", series, Verdict::Steady) }
        }
        6 => {
            let noise = Noise { sigma: noise.sigma, rho: random.random_range(0.6..0.9), stalls_per_second: 0.0 };
            let series = make_series(Shape::Flat(rate), random.random_range(200..900), noise, seed);
            case("autocorrelated", series, Verdict::Steady)
        }
        7 => make_slow_start(&mut random, noise, seed),
        9 => make_device_limited(&mut random, noise, seed),
        10 => {
            let wandering =
                Noise { sigma: random.random_range(0.03..0.06), rho: random.random_range(0.3..0.9), ..noise };
            make_device_limited(&mut random, wandering, seed)
        }
        _ => {
            let mut series = make_series(Shape::Flat(rate), random.random_range(60..600), noise, seed);
            series.facts = Facts { clients: Some(8), scale: Some(random.random_range(1..100)), ..Facts::default() };
            Case { steady_from: Some((0.0, 0.1 * series.seconds())), ..case("prewarmed", series, Verdict::Steady) }
        }
    }
}

fn make_slow_start(random: &mut StdRng, noise: Noise, seed: u64) -> Case {
    let seconds: u32 = random.random_range(30..300);
    let cold = 10_f64.powf(random.random_range(-3.3..-2.0));
    let pages = (f64::from(seconds) / cold / random.random_range(0.005..0.15)).min(4e6);
    let curve = WarmUp::simple(pages, cold, cold / random.random_range(4.0..60.0)).unwrap();
    let slow = f64::from(random.random_range(1_u32..8));
    let pace = random.random_range(0.1..0.7);
    let start = |second: f64| if second < slow { pace } else { 1.0 };
    let mut series = make_modulated(Shape::Warming(&curve), seconds, noise, seed, start);
    let scale = seed.is_multiple_of(2).then_some((pages / 1913.0).ceil() as u32);
    series.facts = Facts { clients: Some(8), scale, ..Facts::default() };
    let kind = "slow start of a cold plateau";
    Case { kind, series, truth: Verdict::NotReached, steady_from: None, period: None }
}

fn make_device_limited(random: &mut StdRng, noise: Noise, seed: u64) -> Case {
    let seconds: u32 = random.random_range(30..600);
    let reads_per_second = 10_f64.powf(random.random_range(2.0..4.0));
    let read = f64::from(seconds) * reads_per_second;
    let pages = (read / random.random_range(0.2..0.85)).min(4e6).max(read / 0.85);
    let table_pages = pages * 6.0 / 7.0;
    let mut series = make_series(Shape::DeviceLimited { table_pages, reads_per_second }, seconds, noise, seed);
    let scale = seed.is_multiple_of(2).then_some((pages / 1913.0).ceil() as u32);
    series.facts = Facts { clients: Some(8), scale, ..Facts::default() };
    Case { kind: "table and index at the limit", series, truth: Verdict::NotReached, steady_from: None, period: None }
}

fn is_right(case: &Case, judgement: &Judgement) -> bool {
    let from = judgement.steady_from_seconds.unwrap_or(0.0);
    let is_from = case.steady_from.is_none_or(|(early, late)| early <= from && from <= late);
    let found = judgement.period_seconds.unwrap_or(0.0);
    let is_period = case.period.is_none_or(|period| (found / period - 1.0).abs() < 0.1);
    let is_level = is_never_warm(case) && !is_called(judgement, true);
    let is_verdict = judgement.verdict == case.truth && !is_called(judgement, false);
    is_level || is_verdict && is_from && is_period
}

#[test]
fn curves_with_a_known_truth() {
    let (mut right, mut hidden, mut cold_called_warm, mut refused, mut warm_called_cold) = (0_u64, 0, 0, 0, 0);
    let mut wrong = Vec::new();
    for (kind, seed) in (0..KINDS).flat_map(|kind| (0..EACH).map(move |seed| (kind, seed))) {
        let case = make_case(kind, seed);
        let judgement = judge(&case.series, None);
        if is_right(&case, &judgement) {
            right += 1;
            continue;
        }
        hidden += u32::from(judgement.verdict == Verdict::Steady && case.truth == Verdict::Degrading);
        refused += u32::from(judgement.verdict != Verdict::Steady && case.truth == Verdict::Steady);
        warm_called_cold += u32::from(!is_never_warm(&case) && is_called(&judgement, false));
        cold_called_warm += u32::from(is_never_warm(&case) && is_called(&judgement, true));
        wrong.push(format!(
            "{} {seed}: {:?} from {:?}, period {:?} ({:?}), {}",
            case.kind,
            judgement.verdict,
            judgement.steady_from_seconds,
            judgement.period_seconds,
            case.steady_from.or(case.period.map(|p| (p, p))),
            judgement.reason
        ));
    }
    let summary = format!(
        "{right} right, {hidden} falls hidden, {refused} levels refused, {warm_called_cold} warm ones called cold, \
         {cold_called_warm} cold ones called warm"
    );
    assert!(cold_called_warm + warm_called_cold <= 2, "{summary}\n{}", wrong.join("\n"));
    assert!(right * 100 >= KINDS * EACH * 95, "{summary}\n{}", wrong.join("\n"));
}

#[test]
fn reads_at_their_floor_prove_a_short_tail_and_falling_ones_refuse_a_long_one() {
    let series = |seconds: u32, reads: &dyn Fn(u32) -> Option<f64>| {
        let mut collector = Series::new(1.0);
        for second in 0..seconds {
            let rate = if second < 8 { 1000.0 } else { 20_000.0 };
            let start = f64::from(second);
            collector.add(start, start + 1.0, rate + f64::from(second % 3), reads(second));
        }
        collector.finish(Facts::default(), Vec::new())
    };
    let warm = |second: u32| Some(if second < 8 { 2000.0 } else { 3.0 });
    let falling = |second: u32| Some(2000.0 - 15.0 * f64::from(second));
    let of = |series| {
        let judgement = judge(&series, None);
        (judgement.verdict, judgement.warmth.as_ref().and_then(|warmth| warmth.is_warm), judgement.exit_code())
    };
    assert_eq!(of(series(16, &|_| None)), (Verdict::NotReached, None, 10));
    assert_eq!(of(series(16, &warm)), (Verdict::Steady, Some(true), 0));
    assert_eq!(of(series(80, &warm)), (Verdict::Steady, Some(true), 0));
    assert_eq!(of(series(80, &falling)), (Verdict::Steady, Some(false), 10));
    assert_eq!(of(series(80, &|_| None)), (Verdict::Steady, None, 0));
}

#[test]
fn a_limited_rate_proves_nothing_but_its_reads_may() {
    let series = |reads: Option<f64>, is_rate_limited: bool| {
        let mut collector = Series::new(1.0);
        for second in 0..600 {
            let start = f64::from(second);
            collector.add(start, start + 1.0, 5000.0 + f64::from(second % 7), reads);
        }
        collector.finish(Facts { scale: Some(1), is_rate_limited, ..Facts::default() }, Vec::new())
    };
    let warmth = |series| judge(&series, None).warmth.unwrap();
    assert_eq!(warmth(series(None, false)).is_warm, Some(true));
    let limited = judge(&series(None, true), None);
    assert_eq!((limited.verdict, limited.fit), (Verdict::Steady, None));
    let unknown = warmth(series(None, true));
    assert_eq!((unknown.is_warm, unknown.evidence.contains("the rate was limited")), (None, true));
    assert!(unknown.would_tell.unwrap().contains("the device's reads"));
    let beyond_memory = warmth(series(Some(400.0), true));
    assert!(beyond_memory.is_warm.is_none() && beyond_memory.would_tell.unwrap().contains("fit into memory"));
    assert_eq!(warmth(series(Some(3.0), true)).is_warm, Some(true));
}

#[test]
fn counts_at_random_are_no_trend() {
    let mut moved = Vec::new();
    for (rate, seed) in [3.0, 20.0, 400.0].into_iter().flat_map(|rate| (0..40).map(move |seed| (rate, seed))) {
        let mut random = StdRng::seed_from_u64(9000 + seed);
        let mut collector = Series::new(1.0);
        let (mut due, mut second) = (0.0, 0);
        let mut counts = [0.0_f64; 120];
        while due < 120.0 {
            counts[due as usize] += 1.0;
            due -= random.random::<f64>().max(1e-12).ln() / rate;
        }
        for count in counts {
            collector.add(f64::from(second), f64::from(second) + 1.0, count, None);
            second += 1;
        }
        let series = collector.finish(Facts { is_rate_limited: true, ..Facts::default() }, Vec::new());
        let judgement = judge(&series, None);
        moved.extend((judgement.verdict != Verdict::Steady).then(|| format!("{rate} {seed}: {}", judgement.reason)));
    }
    assert!(moved.len() <= 3, "{} of 120: {moved:#?}", moved.len());
}

#[test]
fn three_dips_in_a_few_seconds_are_no_period() {
    let quiet = Noise { sigma: 0.01, rho: 0.0, stalls_per_second: 0.0 };
    let dips = |second: f64| if second as u32 % 4 == 2 { 0.5 } else { 1.0 };
    let judged = |seconds: u32| {
        let mut series = make_modulated(Shape::Flat(10_000.0), seconds, quiet, 1, dips);
        series.facts.scale = Some(1);
        judge(&series, None).verdict
    };
    assert_ne!(judged(14), Verdict::Periodic);
    assert_eq!(judged(60), Verdict::Periodic, "these come back");
}

#[test]
fn a_run_that_ends_in_a_stall_is_not_steady() {
    let ending_in = |silent: u32, seconds: u32| {
        let mut series =
            make_series(Shape::Flat(10_000.0), seconds, Noise { sigma: 0.02, rho: 0.0, stalls_per_second: 0.0 }, 1);
        series.facts.scale = Some(1);
        let from = series.buckets.len() - silent as usize;
        series.buckets[from..].iter_mut().for_each(|bucket| bucket.transactions = 0.0);
        judge(&series, None).verdict
    };
    assert_eq!((ending_in(0, 210), ending_in(2, 210)), (Verdict::Steady, Verdict::Steady));
    for (silent, seconds) in [(10, 210), (10, 3600), (60, 260)] {
        assert_eq!(ending_in(silent, seconds), Verdict::Degrading, "{silent} of {seconds} s");
    }
}

fn neighbours(seconds: u32, seed: u64) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut factors = Vec::new();
    while factors.len() < seconds as usize {
        let level = [0.85, 1.0, 1.0, 1.15][random.random_range(0..4)];
        factors.extend(std::iter::repeat_n(level, random.random_range(5..40)));
    }
    factors
}

#[test]
fn neighbours_are_noise_and_a_rise_beneath_them_is_none() {
    let quiet = Noise { sigma: 0.02, rho: 0.3, stalls_per_second: 0.0 };
    let (mut refused, mut called, mut early) = (Vec::new(), Vec::new(), Vec::new());
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(7000 + seed);
        let seconds = random.random_range(200..900);
        let factors = neighbours(seconds, seed);
        let factor = |second: f64| factors[second as usize];
        let plain = random_curve(&mut random);
        let done = stretched(&plain, 0.95, f64::from(seconds) * random.random_range(0.2..0.5));
        let judged = judge(&make_modulated(Shape::Warming(&done), seconds, quiet, seed, factor), None);
        let reached = done.seconds_to_share(0.9).unwrap();
        if judged.steady_from_seconds.is_none() {
            refused.push(format!("{seed}: {}", judged.reason));
        }
        early.extend(judged.steady_from_seconds.filter(|from| *from < 0.9 * reached).map(|from| (seed, from, reached)));
        let cut = stretched(&plain, random.random_range(0.3..0.7), f64::from(seconds));
        let judged = judge(&make_modulated(Shape::Warming(&cut), seconds, quiet, seed, factor), None);
        called.extend(judged.steady_from_seconds.filter(|_| is_called(&judged, true)).map(|from| (seed, from)));
    }
    assert!(refused.len() <= 4, "{} of 40 are refused: {refused:#?}", refused.len());
    assert!(called.is_empty() && early.len() <= 1, "called warm: {called:?}, too early: {early:?}");
}

#[test]
fn a_plateau_of_the_hot_part_is_no_warm_server_where_the_pages_are_known() {
    let (quiet, pages) = (Noise { sigma: 0.02, rho: 0.0, stalls_per_second: 0.0 }, 500_000.0);
    let curve = WarmUp::simple(0.05 * pages, 1e-3, 1e-4).unwrap();
    let series = make_series(Shape::Warming(&curve), 120, quiet, 3);
    let warmth = |pages| {
        let judged = judge(&series, pages);
        assert_eq!(judged.verdict, Verdict::Steady, "{judged:?}");
        judged.warmth.unwrap()
    };
    assert_eq!(warmth(None).is_warm, None);
    let rest = warmth(Some(pages));
    assert!(rest.is_warm.is_none() && rest.evidence.contains("too few to have read most of 500000 pages"), "{rest:?}");
    assert_eq!(warmth(Some(0.05 * pages)).is_warm, Some(true));
}

#[test]
fn a_level_that_something_else_warmed_is_one() {
    let quiet = Noise { sigma: 0.02, rho: 0.0, stalls_per_second: 0.0 };
    let leap = |second: f64| if second < 8.0 { 0.02 } else { 1.0 };
    let mut series = make_modulated(Shape::Flat(4200.0), 60, quiet, 1, leap);
    series.facts = Facts { scale: Some(30), clients: Some(8), ..Facts::default() };
    let judged = judge(&series, None);
    assert_eq!((judged.verdict, judged.exit_code()), (Verdict::Steady, 0), "{judged:?}");
    assert!((8.0..12.0).contains(&judged.steady_from_seconds.unwrap()), "{judged:?}");
    assert_eq!(judged.warmth.unwrap().is_warm, Some(true));
}

#[test]
fn a_level_says_how_sure_it_is() {
    let error = |sigma: f64| {
        let noise = Noise { sigma, rho: 0.0, stalls_per_second: 0.0 };
        judge(&make_series(Shape::Flat(40_000.0), 400, noise, 5), None).level_error_share.unwrap()
    };
    // σ ÷ √400 for independent seconds, times the factor for 95 %.
    assert!((2.0..6.0).contains(&(error(0.05) / (0.05 / 20.0))), "{}", error(0.05));
    assert!(error(0.1) > 1.5 * error(0.05));
}

proptest::proptest! {
    #[test]
    fn any_curve_has_a_verdict_without_contradictions(
        rates in proptest::collection::vec(proptest::option::of(0.0..1e12_f64), 10..120),
        flat in proptest::bool::ANY,
        pages in proptest::option::of(0.0..1e12_f64),
    ) {
        let mut collector = Series::new(1.0);
        for (second, rate) in (0..).map(f64::from).zip(&rates) {
            let Some(rate) = rate else { continue };
            collector.add(second, second + 1.0, if flat { rates[0].unwrap_or(0.0) } else { *rate }, None);
        }
        if let Ok(series) = collector.finish(Facts::default(), Vec::new()).check() {
            proptest::prop_assert_eq!(judge(&series, pages).find_contradictions(), Vec::<String>::new());
        }
    }
}

#[test]
fn an_end_unlike_the_rest_is_no_level() {
    let quiet = Noise { sigma: 0.03, rho: 0.0, stalls_per_second: 0.0 };
    let mut open = 0;
    for (periods, phase) in
        [2.2, 2.6, 3.0, 3.4, 3.8].into_iter().flat_map(|periods| (0..5_u32).map(move |phase| (periods, phase)))
    {
        let wave = |second: f64| {
            let turn = second / 60.0 + f64::from(phase) / 5.0;
            if turn.fract() < 0.4 { 0.6 } else { 1.0 }
        };
        let series = make_modulated(Shape::Flat(1000.0), (60.0 * periods) as u32, quiet, u64::from(phase), wave);
        let judged = judge(&series, None);
        let usual = compute_median(series.buckets.iter().filter_map(Bucket::rate).collect()).unwrap();
        let is_level = judged.exit_code() == 0;
        assert!(!is_level || judged.steady_tps.unwrap() > 0.74 * usual, "{periods} {phase}: {judged:?}");
        if judged.undecided == Some(Undecided::TooShort) && judged.reason.contains("run that might be steady") {
            open += 1;
            assert_eq!(judged.should_have_run_seconds, Some(2.0 * judged.run_seconds), "{judged:?}");
        }
    }
    assert!(open > 0);
}

#[test]
fn standstills_within_a_level_are_named() {
    let quiet = Noise { sigma: 0.02, rho: 0.0, stalls_per_second: 0.0 };
    let told = |still: &[(u32, u32)]| {
        let mut series = make_series(Shape::Flat(1000.0), 120, quiet, 1);
        for (from, until) in still {
            series.buckets[*from as usize..*until as usize].iter_mut().for_each(|bucket| bucket.transactions = 1.0);
        }
        let judged = judge(&series, None);
        assert_eq!(judged.verdict, Verdict::Steady, "{judged:?}");
        judged.remarks.join("; ")
    };
    assert_eq!(told(&[]), "");
    let one = "standstills after the throughput became steady: 1; the longest, 30 s into the run, lasted 3 s";
    assert_eq!(told(&[(30, 33)]), one);
    let many = "standstills after the throughput became steady: 3; the longest, 60 s into the run, lasted 5 s";
    assert_eq!(told(&[(20, 23), (60, 65), (75, 79)]), many);
}

#[test]
fn a_fall_in_the_last_fifth_is_one() {
    let quiet = Noise { sigma: 0.03, rho: 0.0, stalls_per_second: 0.0 };
    for fall in [300.0, 322.0, 330.0, 336.0] {
        let step = |second: f64| if second < fall { 1.0 } else { 0.7 };
        let judged = judge(&make_modulated(Shape::Flat(5000.0), 400, quiet, 1, step), None);
        assert_eq!(judged.verdict, Verdict::Degrading, "{fall}: {judged:?}");
    }
}
