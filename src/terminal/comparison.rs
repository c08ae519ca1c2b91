//! The strategies beside each other: ratios over the rounds, and what the traffic got meanwhile.

use comfy_table::Cell;

use super::screen::stdout_width;
use super::tournament::{Column, name_cell, render_count, render_fitting, spread_cell};
use crate::study::NOTHING;
use crate::verdict::{BOUND, Comparison, Interference, MIN_PAIRS, Ratio, StrategyRatios, render_ratio};

/// The peer that is shown beside `nothing`.
const CAT: &str = "cat";

/// Columns of the ratios that give way first where the terminal is too narrow.
const GIVING_WAY: [&str; 2] = ["50 %\n÷ cat", "warm\n÷ nothing"];

/// What the interference has beside the lowest second and, where there is a deadline, what was served by it. They give way where
/// the terminal is too narrow: one that is told beside another goes before that.
const PGTHAWS: &str = "pgthaw's\n÷ that";
const AHEAD: &str = "ahead in\nall from";
const THAT: &str = "that\n÷ nothing";
const FLOOR: &str = "floor";

/// A title, what stands beside the strategy, and the ratio.
type RatioColumn = (&'static str, &'static str, fn(&StrategyRatios) -> Option<Ratio>);

const RATIOS: [RatioColumn; 6] = [
    ("warm\n÷ bound", BOUND, |one| one.warm_after_seconds),
    ("warm\n÷ nothing", NOTHING, |one| one.warm_after_seconds),
    ("warm\n÷ cat", CAT, |one| one.warm_after_seconds),
    ("50 %\n÷ nothing", NOTHING, |one| one.to_50_seconds),
    ("50 %\n÷ cat", CAT, |one| one.to_50_seconds),
    ("served\n÷ nothing", NOTHING, |one| one.served),
];

/// Two tables: the ratios once there are three rounds, and the interference where `nothing` was measured.
pub fn render_comparison(comparison: &Comparison) -> Vec<String> {
    let width = stdout_width().unwrap_or(usize::MAX);
    [render_ratios(comparison, width), render_interference(comparison, width)].into_iter().flatten().collect()
}

fn render_ratios(comparison: &Comparison, width: usize) -> Option<String> {
    let known = |column: &RatioColumn| comparison.ratios.iter().filter(|one| one.to == column.1).find_map(column.2);
    let shown: Vec<&RatioColumn> = RATIOS.iter().filter(|column| known(column).is_some()).collect();
    let rounds = shown.iter().filter_map(|column| known(column));
    let fewest = rounds.min_by_key(|ratio| ratio.pairs).filter(|ratio| ratio.pairs as usize >= MIN_PAIRS)?;
    let mut names: Vec<&str> = Vec::new();
    for one in &comparison.ratios {
        if !names.contains(&one.strategy.as_str()) {
            names.push(&one.strategy);
        }
    }
    let cell = |name: &str, column: &RatioColumn| {
        let beside = comparison.ratios.iter().find(|one| one.strategy == name && one.to == column.1);
        ratio_cell(beside.and_then(column.2))
    };
    let mut columns =
        vec![Column { title: "ratios".into(), cells: names.iter().map(|name| name_cell(name)).collect() }];
    columns.extend(shown.iter().map(|column| Column {
        title: column.0.to_owned(),
        cells: names.iter().map(|name| cell(name, column)).collect(),
    }));
    let (table, left_out) = render_fitting(columns, &GIVING_WAY, width);
    let legend = format!(
        "medians of the ratios within each of {} rounds, and where the true median is in {:.0} % of cases · < and >: a time \
         was not reached",
        fewest.pairs,
        fewest.coverage * 100.0
    );
    Some([Some(table), Some(legend), left_out].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

fn render_interference(comparison: &Comparison, width: usize) -> Option<String> {
    let all = &comparison.interference;
    let first = all.first()?;
    let column =
        |title: String, cell: &dyn Fn(&Interference) -> Cell| Column { title, cells: all.iter().map(cell).collect() };
    let mut columns = vec![
        column("interference".into(), &|one| name_cell(&one.strategy)),
        column("lowest\n÷ nothing".into(), &|one| Cell::new(render_lowest(one))),
        column(FLOOR.into(), &|one| Cell::new(render_floor(one))),
        column(AHEAD.into(), &|one| {
            Cell::new(one.ahead_from_second.map_or("–".to_owned(), |second| format!("s {second}")))
        }),
    ];
    let mut served = String::new();
    if let Some(deadline) = comparison.deadline_seconds {
        served = format!("served by\n{deadline:.1} s");
        columns.extend([
            column(served.clone(), &|one| spread_cell(one.served_by_deadline, "", render_count)),
            column(THAT.into(), &|one| ratio_cell(one.served_ratio)),
            column(PGTHAWS.into(), &|one| ratio_cell(one.pgthaw_ratio)),
        ]);
    }
    let (table, left_out) = render_fitting(columns, &[PGTHAWS, AHEAD, THAT, &served, FLOOR], width);
    let rounds = match first.seconds.is_empty() {
        true => "",
        false => {
            ", the second with the lowest median of the rounds and the least of any second of any round, by which the floor is judged"
        }
    };
    let legend = format!(
        "lowest: transactions of a second ÷ those of nothing in the same second{rounds} · ahead: from the end of that second on \
         more served in total than by nothing"
    );
    Some([Some(table), Some(legend), left_out].into_iter().flatten().collect::<Vec<_>>().join("\n"))
}

fn ratio_cell(ratio: Option<Ratio>) -> Cell {
    let Some(ratio) = ratio else { return Cell::new("–") };
    let (median, interval) = render_ratio(&ratio);
    let interval = interval.filter(|interval| *interval != median).map(|interval| format!("\n{interval}"));
    Cell::new(median + &interval.unwrap_or_default())
}

/// `0.52 in s 7` above `least 0.41 in s 8`.
fn render_lowest(one: &Interference) -> String {
    let Some((second, share)) = one.lowest.and_then(|lowest| Some((lowest.second, lowest.share?))) else {
        return "–".to_owned();
    };
    let median = format!("{share:.2} in s {second}");
    match one.least {
        Some(least) if format!("{:.2}", least.share) != format!("{share:.2}") => {
            format!("{median}\nleast {:.2} in s {}", least.share, least.second)
        }
        _ => median,
    }
}

/// `0.30 held`
fn render_floor(one: &Interference) -> String {
    match one.floor.zip(one.is_floor_held) {
        Some((floor, true)) => format!("{floor:.2} held"),
        Some((floor, false)) => format!("{floor:.2} missed"),
        None => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{LeastShare, Limits, SecondShare, Spread};

    fn comparison() -> Comparison {
        let ends = Limits { at_least: 0.91, at_most: Some(1.27) };
        let ratio = Some(Ratio { median: ends, interval: Some(ends), coverage: 0.97, pairs: 6 });
        let interference = Interference {
            strategy: "pg_prewarm-prefetch".to_owned(),
            seconds: Vec::new(),
            lowest: Some(SecondShare { second: 17, share: Some(0.52), least: Some(0.41) }),
            least: Some(LeastShare { second: 18, repeat: 2, share: 0.41 }),
            floor: Some(0.3),
            is_floor_held: Some(false),
            served_by_deadline: Some(Spread::of([Some(201_000.0), Some(240_000.0)])),
            served_ratio: ratio,
            pgthaw_ratio: ratio,
            ahead_from_second: Some(12),
        };
        Comparison { ratios: Vec::new(), deadline_seconds: Some(12.5), interference: vec![interference] }
    }

    #[test]
    fn the_interference_is_no_wider_than_the_terminal() {
        let wide = render_interference(&comparison(), usize::MAX).unwrap();
        assert!(wide.contains("pgthaw's") && !wide.contains("left out"), "{wide}");
        for width in [60, 80, 100] {
            let narrow = render_interference(&comparison(), width).unwrap();
            let table: Vec<&str> = narrow.lines().filter(|line| !line.contains(": ")).collect();
            assert!(table.iter().all(|line| console::measure_text_width(line) <= width), "{width}:\n{narrow}");
            assert!(narrow.contains("left out, for the terminal is narrow: pgthaw's"), "{narrow}");
        }
    }
}
