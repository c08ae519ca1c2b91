use std::collections::BTreeSet;

use super::curves::{render_fit, verdict_name};
use super::figures::render_count;
use super::told;
use crate::study::NOTHING;
use crate::verdict::{
    Interference, LeastShare, MIN_PAIRS, Metric, PointSummary, Ratio, Spread, Traffic, TrialOutline, WarmerRatio,
    render_ratio,
};
use host::units::counted;
use model::{Judgement, Verdict, tell_from};
use terminal::{Column, printable, render_columns, render_seconds};

pub fn render_warm_legend(points: &[PointSummary]) -> String {
    let bound = points.iter().find_map(|point| point.median(Metric::Bound));
    let bound = bound.map(|bound| format!(" · bound: {bound:.1} s = bytes ÷ bandwidth")).unwrap_or_default();
    format!("medians · warm: time after which fewer than 1 % of transactions read from the device{bound}")
}

/// Table of ratios between warmers: row ÷ column. Empty if a ratio has fewer than three rounds.
pub fn render_ratios(ratios: &[WarmerRatio], width: Option<usize>) -> Vec<String> {
    let Some(fewest) = ratios.iter().map(|one| one.ratio).min_by_key(|ratio| ratio.pairs) else { return Vec::new() };
    if (fewest.pairs as usize) < MIN_PAIRS {
        return Vec::new();
    }
    let row_of = |one: &WarmerRatio| match one.cell.is_empty() {
        true => told(&one.dividend),
        false => told(&format!("{}, {}", one.dividend, one.cell)),
    };
    let half = |one: &WarmerRatio| if one.of == Metric::To50 { "50 % " } else { "" };
    let column_of = |one: &WarmerRatio| format!("{}÷ {}", half(one), told(&one.divisor));
    let rows = distinct(ratios.iter().map(row_of));
    let mut columns = distinct(ratios.iter().map(column_of));
    columns.sort_by_key(|column| !column.starts_with('÷'));
    let cell = |row: &str, column: &str| {
        let one = ratios.iter().find(|one| row_of(one) == row && column_of(one) == column)?;
        let what = match one.of {
            Metric::LoadRate => " loaded",
            Metric::BuffersAfter => " buffers",
            _ => "",
        };
        Some(render_ratio_cell(Some(one.ratio)) + what)
    };
    let mut shown = vec![Column::text("ratios", 12, rows.clone())];
    shown.extend(columns.iter().zip(0..).map(|(column, place)| {
        let cells = rows.iter().map(|row| cell(row, column).unwrap_or_default()).collect();
        Column::number(column, place, cells)
    }));
    let mut lines = vec![String::new()];
    lines.extend(render_columns(shown, width, "…"));
    lines.push(format!(
        "ratio of the times in a round, row ÷ column: median over {}, with its {:.0} % interval · < and >: only a bound is known, as a trial was too short",
        counted(fewest.pairs, "round"),
        100.0 * fewest.coverage
    ));
    lines
}

fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    all.filter(|one| seen.insert(one.clone())).collect()
}

fn render_ratio_cell(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return String::new() };
    let (median, interval) = render_ratio(&ratio);
    let interval = interval.filter(|interval| *interval != median).map(|interval| format!(" ({interval})"));
    median + &interval.unwrap_or_default()
}

pub fn render_traffic(traffic: &Traffic, width: Option<usize>) -> Vec<String> {
    let all = &traffic.warmers;
    if all.is_empty() {
        return Vec::new();
    }
    let cells = |cell: &dyn Fn(&Interference) -> String| all.iter().map(cell).collect::<Vec<_>>();
    let share = |share: Option<LeastShare>| {
        share.map(|one| format!("{:.2} in s {}", one.share, one.second)).unwrap_or_default()
    };
    let served = |spread: Option<Spread>| spread.and_then(|spread| spread.median).map(render_count).unwrap_or_default();
    let floor = |one: &Interference| match one.floor.zip(one.is_floor_held) {
        Some((floor, is_held)) => format!("{floor:.2} {}", if is_held { "held" } else { "missed" }),
        None => String::new(),
    };
    let ahead = |one: &Interference| one.ahead_from_second.map_or("–".to_owned(), |second| format!("s {second}"));
    let by = traffic.deadline_seconds.map(|deadline| format!("served by {deadline:.1} s")).unwrap_or_default();
    let columns = vec![
        Column::text("traffic", 12, cells(&|one| told(&one.strategy))),
        Column::number("lowest ÷ nothing", 0, cells(&|one| share(one.lowest))),
        Column::number("least", 1, cells(&|one| share(one.least))),
        Column::number("floor", 2, cells(&floor)),
        Column::number("ahead from", 6, cells(&ahead)),
        Column::number("nothing by warm", 3, cells(&|one| served(one.nothing_served_by_then))),
        Column::number("in all ÷ nothing", 5, cells(&|one| render_ratio_cell(one.served_ratio))),
        Column::number(by, 4, cells(&|one| served(one.served_by_deadline))),
        Column::number("that ÷ nothing", 7, cells(&|one| render_ratio_cell(one.deadline_ratio))),
        Column::number("pgthaw's ÷ that", 8, cells(&|one| render_ratio_cell(one.pgthaw_ratio))),
    ];
    let mut lines = vec![String::new()];
    lines.extend(render_columns(columns, width, "…"));
    lines.push(
        "ratio: transactions in a second ÷ transactions with `nothing` (no warmer) in the same second · lowest: \
         for each second, pgthaw takes the median ratio of all rounds, and shows the lowest of these medians · least: \
         the lowest ratio of any second in any single round · floor: the lowest ratio that the warmer promises · \
         ahead from: from the end of this second on, the total of transactions stays above that with `nothing`"
            .to_owned(),
    );
    lines
}

/// Renders verdicts, a line per warmer. The model's fits follow `nothing`.
pub fn render_trial_verdicts(points: &[PointSummary], trials: &[TrialOutline]) -> Vec<String> {
    let width = points.iter().map(|point| point.label.chars().count() + 1).max().unwrap_or(0);
    let mut lines =
        vec![String::new(), "verdicts on the curves of each warmer (pgthaw judge STUDY draws the curves):".to_owned()];
    for point in points {
        let is_own = |trial: &&TrialOutline| trial.number == point.number && trial.failure.is_none();
        let own: Vec<&TrialOutline> = trials.iter().filter(is_own).collect();
        let judged: Vec<&Judgement> = own.iter().filter_map(|trial| trial.judgement.as_ref()).collect();
        let no_verdict = own.iter().find_map(|trial| trial.no_verdict.as_deref());
        let name = format!("{}:", printable(&point.label));
        lines.push(format!("  {name:<width$}  {}", render_counts(&judged, no_verdict, own.len())));
        if point.label == NOTHING {
            lines.extend(own.iter().filter_map(|trial| render_trial_fit(trial)).map(|fit| format!("    {fit}")));
        }
    }
    lines
}

fn render_counts(judged: &[&Judgement], no_verdict: Option<&str>, trials: usize) -> String {
    let mut counted: Vec<String> = Vec::new();
    let is_of_other_kind = |one: &Judgement| one.level_share.is_some() || one.undecided.is_some();
    for verdict in [Verdict::Steady, Verdict::Periodic, Verdict::Degrading, Verdict::NotReached] {
        for (is_otherwise, is_cold) in [(false, false), (false, true), (true, false), (true, true)] {
            let is_such = |one: &&Judgement| is_of_other_kind(one) == is_otherwise && one.is_known_cold() == is_cold;
            let of_verdict = judged.iter().copied().filter(|one| one.verdict == verdict);
            let such: Vec<&Judgement> = of_verdict.filter(is_such).collect();
            let Some(first) = such.first() else { continue };
            let level = match first.level_share.is_some() {
                true => ", below the study's steady level",
                false if is_cold => ", but cold",
                false => "",
            };
            counted.push(format!("{}{}{level} ({} of {trials})", verdict_name(first), render_from(&such), such.len()));
        }
    }
    counted.extend(no_verdict.map(|why| format!("no verdict: {why}")));
    counted.join("; ")
}

/// ` from 6 s`, ` from 6 s to 8 s`, ` at once`, ` at once to 3.0 s`, or empty.
fn render_from(judgements: &[&Judgement]) -> String {
    let from: Vec<f64> = judgements.iter().filter_map(|one| one.steady_from_seconds).collect();
    let (low, high) = (from.iter().copied().reduce(f64::min), from.iter().copied().reduce(f64::max));
    let Some((low, high)) = low.zip(high) else { return String::new() };
    let [shown_low, shown_high] = [low, high].map(render_seconds);
    let to = if shown_low == shown_high { String::new() } else { format!(" to {shown_high}") };
    format!(" {}{to}", tell_from(low, &shown_low))
}

fn render_trial_fit(trial: &TrialOutline) -> Option<String> {
    let judgement = trial.judgement.as_ref()?;
    let repeat = trial.repeat;
    let fit = judgement.fit.as_ref().map(|fit| format!("the model's fit of trial {repeat}: {}", render_fit(fit)));
    fit.or_else(|| Some(format!("no fit of trial {repeat}: {}", judgement.no_fit.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bucket, Facts, Series, Undecided, judge};

    #[test]
    fn what_was_not_reached_is_told_in_words_of_its_own() {
        let judged = |undecided| {
            let second = Bucket { transactions: 100.0, covered_seconds: 1.0, ..Bucket::default() };
            let buckets = vec![second; 20];
            let series =
                Series { width_seconds: 1.0, buckets, has_reads: false, facts: Facts::default(), remarks: Vec::new() };
            Judgement { verdict: Verdict::NotReached, steady_from_seconds: None, undecided, ..judge(&series, None) }
        };
        let (seen, open) = (judged(None), judged(Some(Undecided::TooShort)));
        assert_eq!(
            render_counts(&[&seen, &open, &open], None, 3),
            "steady state not reached (1 of 3); steady state undecided (2 of 3)"
        );
    }
}
