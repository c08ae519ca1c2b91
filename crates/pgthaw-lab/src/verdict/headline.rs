use std::collections::BTreeMap;

use super::metric::Metric;
use super::statistics::{Spread, missing_last};
use super::summary::PointSummary;
use crate::study::{NOTHING, PGTHAW, STRATEGY};
use host::failure::quote_argument;
use host::units::{counted, group_digits};
use model::tell_after;

/// The headline also names a point with less throughput, if its slowest second or its 99th percentile of latency is
/// better by this factor.
const TELLING: f64 = 1.25;

/// Reports which point was warm or done first, the point with the highest throughput, or both.
pub fn render_sweep_headline(varied: &[String], points: &[PointSummary]) -> String {
    let soonest = [("resident", Metric::ResidentAfter), ("warm", Metric::WarmAfter), ("done", Metric::Whole)];
    let soonest =
        soonest.into_iter().find_map(|(state, metric)| Some((metric, render_soonest(varied, points, state, metric)?)));
    // Throughput is no answer for short jobs, nor for comparisons of warmers.
    let is_answer = soonest.as_ref().is_some_and(|(metric, _)| *metric == Metric::Whole || varied == [STRATEGY]);
    let most = if is_answer { None } else { render_most(varied, points) };
    let soonest = soonest.map(|(_, told)| told);
    let told: Vec<String> = soonest.into_iter().chain(most).collect();
    if told.is_empty() { "No trial has figures.".to_owned() } else { told.join(" ") }
}

fn render_soonest(varied: &[String], points: &[PointSummary], state: &str, metric: Metric) -> Option<String> {
    let seconds = |point: &PointSummary| point.median(metric).unwrap_or(f64::INFINITY);
    let mut known: Vec<&PointSummary> = points.iter().filter(|point| point.figure(metric).is_some()).collect();
    known.sort_by(|one, other| seconds(one).total_cmp(&seconds(other)));
    match varied {
        [axis] if axis == STRATEGY => Warmers { state, metric, known: &known }.render(),
        _ => render_wins(varied, &known, state),
    }
}

/// Points that differ only in their warmer. `known` is sorted, fastest first.
struct Warmers<'a> {
    state: &'a str,
    metric: Metric,
    known: &'a [&'a PointSummary],
}

impl Warmers<'_> {
    /// Example: `with pgthaw, the server was warm after 5.2 s, 1.04 × the bound; the next, cat, after 7.5 s; …`. Without pgthaw, the
    /// fastest is the subject.
    fn render(&self) -> Option<String> {
        let find = |name: &str| self.known.iter().copied().find(|point| point.label == name);
        let subject = find(PGTHAW).or_else(|| self.known.first().copied())?;
        let is_peer = |point: &&&PointSummary| point.label != subject.label && point.label != NOTHING;
        let mut clauses = vec![self.subject(subject)];
        clauses.extend(self.known.iter().find(is_peer).map(|peer| self.peer(peer, subject)));
        let after = |point: &PointSummary| self.after(point).unwrap_or_else(|| format!("not {}", self.within(point)));
        let nothing = find(NOTHING).filter(|nothing| nothing.label != subject.label);
        clauses.extend(nothing.map(|nothing| format!("without a warmer, {}", after(nothing))));
        Some(format!("{}.", clauses.join("; ")))
    }

    /// Renders two decimals except for `WarmAfter`: other times often differ by less than a tenth of a second.
    fn after(&self, point: &PointSummary) -> Option<String> {
        let seconds = point.median(self.metric)?;
        let shown = if self.metric == Metric::WarmAfter { format!("{seconds:.1}") } else { format!("{seconds:.2}") };
        Some(tell_after(seconds, &format!("{shown} s")))
    }

    fn within(&self, point: &PointSummary) -> String {
        format!("within {} s", point.measured_seconds.unwrap_or_default())
    }

    fn subject(&self, subject: &PointSummary) -> String {
        let name = match subject.label.as_str() {
            NOTHING => "left to itself, the server".to_owned(),
            warmer => format!("with {warmer}, the {}", if self.metric == Metric::Whole { "job" } else { "server" }),
        };
        let Some(after) = self.after(subject) else {
            return format!("{name} was not {} {}", self.state, self.within(subject));
        };
        let ratio = subject.median(Metric::BoundRatio);
        let ratio = ratio.map(|ratio| format!(", {ratio:.2} × the bound")).unwrap_or_default();
        format!("{name} was {} {after}{ratio}", self.state)
    }

    fn peer(&self, peer: &PointSummary, subject: &PointSummary) -> String {
        let (name, within) = (&peer.label, self.within(peer));
        match (self.after(peer), self.after(subject)) {
            (None, None) if subject.label == NOTHING => "nor was it with any warmer".to_owned(),
            (None, _) if subject.label == NOTHING => format!("no warmer achieved this {within}"),
            (None, None) => "nor was it with any other warmer".to_owned(),
            (None, _) => format!("with no other warmer {within}"),
            (Some(peer), Some(subject)) if peer == subject => format!("with {name} too, at the same time"),
            (Some(after), Some(_)) if peer.median(self.metric) < subject.median(self.metric) => {
                format!("with {name} sooner, {after}")
            }
            (Some(after), None) => format!("with {name} it was, {after}"),
            (Some(after), _) => format!("the next, {name}, {after}"),
        }
    }
}

fn render_wins(varied: &[String], known: &[&PointSummary], state: &str) -> Option<String> {
    let place = varied.iter().position(|axis| axis == STRATEGY)?;
    let mut cells: Vec<Vec<&String>> = Vec::new();
    let mut wins: BTreeMap<&str, u32> = BTreeMap::new();
    for point in known {
        let mut cell: Vec<&String> = point.values.iter().collect();
        let strategy = if place < cell.len() { cell.remove(place) } else { continue };
        if !cells.contains(&cell) {
            cells.push(cell);
            *wins.entry(strategy).or_default() += 1;
        }
    }
    let mut wins: Vec<(&str, u32)> = wins.into_iter().collect();
    wins.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let (first, times) = wins.first()?;
    let others: String = wins[1..].iter().map(|(name, times)| format!(", {name} in {times}")).collect();
    Some(format!(
        "Fastest warmer (first to be {state}): {first} in {times} of {} of the other axes' values{others}.",
        counted(cells.len(), "combination")
    ))
}

fn render_most(varied: &[String], points: &[PointSummary]) -> Option<String> {
    let tps = |point: &PointSummary| point.median(Metric::Tps).unwrap_or(f64::NEG_INFINITY);
    let measured: Vec<&PointSummary> = points.iter().filter(|point| point.figure(Metric::Tps).is_some()).collect();
    let (refused, as_asked): (Vec<_>, Vec<_>) = measured.iter().copied().partition(|point| is_refused(point));
    let points = if as_asked.is_empty() { measured } else { as_asked };
    let best = points.iter().copied().max_by(|a, b| tps(a).total_cmp(&tps(b)))?;
    let most = median_and_range(best.figure(Metric::Tps));
    let mut clauses = vec![format!("Most transactions per second: {most} at {}", best.label)];
    let worst = best.median(Metric::WorstSecond);
    let worst = worst.map(|worst| format!("its worst second served {} transactions in the median trial", whole(worst)));
    let p99 = best.median(Metric::P99).map(|p99| format!("1 % of transactions took {} or longer", latency(p99)));
    let hidden: Vec<String> = worst.into_iter().chain(p99).collect();
    clauses.extend((!hidden.is_empty()).then(|| hidden.join(", ")));
    clauses.extend(find_calmer(best, &points));
    clauses.extend(render_rivals(varied, best, &points));
    let faster: Vec<&PointSummary> = refused.into_iter().filter(|point| tps(point) > tps(best)).collect();
    if is_refused(best) {
        clauses.push("no point ran as requested".to_owned());
    } else if let Some(fastest) = faster.iter().copied().max_by(|a, b| tps(a).total_cmp(&tps(b))) {
        let (others, does, it) = match faster.len() - 1 {
            0 => (String::new(), "does", "it"),
            more => (format!(", and {} more,", counted(more, "point")), "do", "they"),
        };
        let figures = median_and_range(fastest.figure(Metric::Tps));
        let name = &fastest.label;
        clauses.push(format!("{name} with {figures}{others} {does} not count: {it} did not run as requested"));
    }
    Some(format!("{}.", clauses.join("; ")))
}

fn is_refused(point: &PointSummary) -> bool {
    point.verdicts.iter().any(|verdict| verdict.is_refusing)
}

fn median_and_range(spread: Option<Spread>) -> String {
    let Some(spread) = spread else { return "–".to_owned() };
    let [median, min, max] = [spread.median, spread.min, spread.max].map(|end| whole(end.unwrap_or_default()));
    if min == max { median } else { format!("{median} ({min}–{max})") }
}

/// Names points whose fastest trial reached the throughput of the best point's slowest trial.
fn render_rivals(varied: &[String], best: &PointSummary, points: &[&PointSummary]) -> Option<String> {
    let slowest = best.figure(Metric::Tps)?.min;
    let others = points.iter().copied().filter(|point| point.number != best.number);
    let rivals = others.filter_map(|point| Some((point, point.figure(Metric::Tps)?)));
    let mut rivals: Vec<(&PointSummary, Spread)> = rivals.filter(|(_, tps)| tps.max >= slowest).collect();
    rivals.sort_by(|(_, one), (_, other)| missing_last(other.median, one.median));
    let (first, tps) = rivals.first()?;
    let more = match rivals.len() - 1 {
        0 => String::new(),
        more => format!(", and {} more,", counted(more, "point")),
    };
    let first = format!("{} with {}", first.label, median_and_range(Some(*tps)));
    let side = |point: &PointSummary| {
        let values: Vec<String> =
            varied.iter().zip(&point.values).map(|(axis, value)| format!("{axis}={value}")).collect();
        quote_argument(&values.join(","))
    };
    let (one, other, most) = (side(rivals[0].0), side(best), &best.label);
    let command = format!("`pgthaw results compare {one} {other}`");
    Some(format!(
        "{first}{more} may be as fast as {most}, since the trials overlap in throughput: compare trials in pairs ({command})"
    ))
}

fn find_calmer(best: &PointSummary, points: &[&PointSummary]) -> Option<String> {
    let others = || points.iter().copied().filter(|point| point.number != best.number);
    let worst = |point: &PointSummary| point.median(Metric::WorstSecond).unwrap_or_default();
    let steadiest = others().max_by(|a, b| worst(a).total_cmp(&worst(b)));
    if let Some(point) = steadiest.filter(|point| worst(point) > worst(best) * TELLING) {
        return Some(format!("the worst second at {} served more: {}", point.label, whole(worst(point))));
    }
    let p99 = |point: &PointSummary| point.median(Metric::P99).unwrap_or(f64::INFINITY);
    let quickest = others().min_by(|a, b| p99(a).total_cmp(&p99(b)));
    let point = quickest.filter(|point| p99(point) * TELLING < p99(best))?;
    let served = point.median(Metric::Tps).map_or_else(|| "–".to_owned(), whole);
    let (name, took) = (&point.label, latency(p99(point)));
    Some(format!("1 % of transactions at {name} took {took} or longer, with {served} per second"))
}

fn whole(value: f64) -> String {
    group_digits(format_args!("{value:.0}"))
}

fn latency(us: f64) -> String {
    match us {
        ..1000.0 => format!("{us:.0} µs"),
        ..10_000.0 => format!("{:.1} ms", us / 1000.0),
        ..1_000_000.0 => format!("{:.0} ms", us / 1000.0),
        _ => format!("{:.1} s", us / 1_000_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{Finding, MeasurementVerdict};
    use crate::verdict::summary::PointVerdict;

    fn point(number: u32, tps: f64, worst: f64, p99: f64) -> PointSummary {
        let figures = [(Metric::Tps, tps), (Metric::WorstSecond, worst), (Metric::P99, p99)];
        let figures = figures.into_iter().map(|(metric, figure)| (metric, Some(Spread::of([Some(figure)]))));
        PointSummary {
            number,
            label: format!("clients {number}"),
            values: vec![number.to_string()],
            trials: 1,
            figures: figures.collect(),
            ..PointSummary::default()
        }
    }

    #[test]
    fn the_fastest_point_is_told_with_what_it_hides() {
        let told =
            render_sweep_headline(&[], &[point(1, 12_345.0, 100.0, 90_000.0), point(2, 11_000.0, 9000.0, 2000.0)]);
        assert_eq!(
            told,
            "Most transactions per second: 12,345 at clients 1; its worst second served 100 transactions in the median trial, 1 % of \
             transactions took 90 ms or longer; the worst second at clients 2 served more: 9,000."
        );
        let told = render_sweep_headline(&[], &[point(1, 10.0, 9.0, 9000.0), point(2, 9.0, 9.0, 500.0)]);
        assert!(
            told.ends_with("; 1 % of transactions at clients 2 took 500 µs or longer, with 9 per second."),
            "{told}"
        );
        let told = render_sweep_headline(&[], &[point(1, 10.0, 9.0, 1000.0), point(2, 9.0, 9.0, 950.0)]);
        assert!(told.ends_with("took 1.0 ms or longer."), "{told}");
        assert_eq!(render_sweep_headline(&[], &[]), "No trial has figures.");
    }

    #[test]
    fn what_measured_something_else_is_not_the_answer() {
        let verdict = MeasurementVerdict::from(Finding::StrategyFailed { strategy: "cat".into(), reason: "no".into() });
        let fast = PointSummary { verdicts: vec![PointVerdict::new(&verdict)], ..point(1, 12_000.0, 9.0, 1000.0) };
        let told = render_sweep_headline(&[], &[fast.clone(), point(2, 10.0, 9.0, 1000.0)]);
        assert!(told.starts_with("Most transactions per second: 10 at clients 2;"), "{told}");
        assert!(told.contains("clients 1 with 12,000 does not count"), "{told}");
        let told = render_sweep_headline(&[], &[fast]);
        assert!(told.contains("12,000") && told.ends_with("; no point ran as requested."), "{told}");
    }

    #[test]
    fn what_the_trials_do_not_tell_apart_is_told() {
        let between = |number, median, min, max| {
            let mut point = point(number, median, 9.0, 1000.0);
            point.figures.update([(Metric::Tps, Some(Spread::of([min, median, max].map(Some))))]);
            point
        };
        let (best, rival) = (between(1, 2000.0, 1900.0, 2050.0), between(2, 1850.0, 1700.0, 1900.0));
        let (slow, other) = (between(3, 1800.0, 1700.0, 1899.0), between(4, 1840.0, 1700.0, 1950.0));
        let varied = ["clients".to_owned()];
        let told = render_sweep_headline(&varied, &[best.clone(), rival.clone(), slow.clone()]);
        assert!(told.starts_with("Most transactions per second: 2,000 (1,900–2,050) at clients 1;"), "{told}");
        let compare = "may be as fast as clients 1, since the trials overlap in throughput: compare trials in pairs (`pgthaw results compare 'clients=2' 'clients=1'`).";
        assert!(told.ends_with(&format!("; clients 2 with 1,850 (1,700–1,900) {compare}")), "{told}");
        let told = render_sweep_headline(&varied, &[other, slow.clone(), rival, best.clone()]);
        assert!(
            told.contains("(1,700–1,900), and 1 point more, may be as fast as clients 1, since the trials overlap"),
            "{told}"
        );
        assert!(!render_sweep_headline(&varied, &[best, slow]).contains("overlap"));
    }

    #[test]
    fn cold_points_begin_with_who_was_there_soonest() {
        let idle = |number: u32, scale: &str, strategy: &str, seconds: f64| PointSummary {
            number,
            label: strategy.into(),
            values: vec![scale.into(), strategy.into()],
            figures: [(Metric::ResidentAfter, Some(Spread::of([Some(seconds)])))].into_iter().collect(),
            ..PointSummary::default()
        };
        let points = [idle(0, "1", "cat", 5.0), idle(1, "1", "pgthaw-os", 4.0), idle(2, "9", "cat", 50.0)];
        let told = render_sweep_headline(&["strategy".into()], &points[..2]);
        assert_eq!(told, "with pgthaw-os, the server was resident after 4.00 s; the next, cat, after 5.00 s.");
        let job = |strategy: &str, seconds: f64| PointSummary {
            figures: [Metric::Whole, Metric::Tps]
                .map(|metric| (metric, Some(Spread::of([Some(seconds)]))))
                .into_iter()
                .collect(),
            ..idle(0, "1", strategy, 0.0)
        };
        let told = render_sweep_headline(&["strategy".into()], &[job("cat", 5.0), job("pgthaw", 2.5)]);
        assert_eq!(told, "with pgthaw, the job was done after 2.50 s; the next, cat, after 5.00 s.");
        let told = render_sweep_headline(&["scale".into(), "strategy".into()], &points);
        assert_eq!(
            told,
            "Fastest warmer (first to be resident): cat in 1 of 2 combinations of the other axes' values, pgthaw-os in 1."
        );
    }

    type Times<'a> = (&'a str, &'a [Option<f64>]);

    #[test]
    fn the_sentence_of_warmers_tells_the_answer_whatever_it_is() {
        let told = |all: &[Times<'_>]| {
            let point = |(strategy, times): &Times<'_>| {
                let warm = Spread::of(times.iter().copied());
                let bound_ratio = Spread::of(times.iter().map(|time| time.map(|seconds| seconds / 5.0)));
                let figures = [(Metric::WarmAfter, warm), (Metric::BoundRatio, bound_ratio), (Metric::Tps, warm)];
                PointSummary {
                    label: (*strategy).into(),
                    figures: figures.map(|(metric, spread)| (metric, Some(spread))).into_iter().collect(),
                    measured_seconds: Some(10),
                    ..PointSummary::default()
                }
            };
            render_sweep_headline(&["strategy".into()], &all.iter().map(point).collect::<Vec<_>>())
        };
        let cases: [(&[Times<'_>], &str); 10] = [
            (
                &[("nothing", &[None]), ("cat", &[Some(7.5)]), ("pgthaw", &[Some(5.2)])],
                "with pgthaw, the server was warm after 5.2 s, 1.04 × the bound; the next, cat, after 7.5 s; without a warmer, not within 10 s.",
            ),
            (
                &[("nothing", &[Some(9.0)]), ("cat", &[Some(5.1)]), ("pgthaw", &[Some(6.0)])],
                "with pgthaw, the server was warm after 6.0 s, 1.20 × the bound; with cat sooner, after 5.1 s; without a warmer, after 9.0 s.",
            ),
            (
                &[("nothing", &[None]), ("cat", &[Some(4.9)]), ("pgthaw", &[None])],
                "with pgthaw, the server was not warm within 10 s; with cat it was, after 4.9 s; without a warmer, not within 10 s.",
            ),
            (
                &[("pgthaw", &[Some(6.0)]), ("cat", &[None])],
                "with pgthaw, the server was warm after 6.0 s, 1.20 × the bound; with no other warmer within 10 s.",
            ),
            (
                &[("cat", &[Some(5.0), Some(6.02), Some(7.0)]), ("pgthaw", &[Some(6.0), Some(6.0), Some(6.0)])],
                "with pgthaw, the server was warm after 6.0 s, 1.20 × the bound; with cat too, at the same time.",
            ),
            (&[("nothing", &[Some(9.0)])], "left to itself, the server was warm after 9.0 s, 1.80 × the bound."),
            (
                &[("nothing", &[None]), ("cat", &[None])],
                "left to itself, the server was not warm within 10 s; nor was it with any warmer.",
            ),
            (
                &[("nothing", &[Some(9.0)]), ("cat", &[None])],
                "left to itself, the server was warm after 9.0 s, 1.80 × the bound; no warmer achieved this within 10 s.",
            ),
            (
                &[("cat", &[None]), ("pgthaw", &[None])],
                "with pgthaw, the server was not warm within 10 s; nor was it with any other warmer.",
            ),
            (&[], "No trial has figures."),
        ];
        for (times, expected) in cases {
            assert_eq!(told(times), expected);
        }
    }
}
