//! The tournament: what each strategy achieved, as one table.

use comfy_table::{Attribute, Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::columns::render_left_out;
use super::screen::stdout_width;
use crate::model::{AT_ONCE, is_at_once};
use crate::study::PGTHAW;
use crate::units::Bytes;
use crate::verdict::{Spread, StrategySummary, Summary};

/// Columns that give way first where the terminal is too narrow for all.
const GIVING_WAY: [&str; 5] = ["served\nin all", "50 %\ns", "device\nread", "command\ntook, s", "95 %\ns"];

const BOUND_TITLE: &str = "× bound";

/// Lines above and below, and under the header.
pub(super) const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('─', '─', '─', '─'))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .bottom_border(LineStyle::new('─', '─', '─', '─'));

/// A column: its title, and a cell for every strategy.
pub(super) struct Column {
    pub title: String,
    pub cells: Vec<Cell>,
}

/// Medians, with the smallest and the largest of the repeats below them. Times are seconds since the workload began; a
/// time that was not reached within the trial stands as longer than it. Columns are left out, and named, where the
/// terminal is too narrow.
pub fn render_tournament(summary: &Summary) -> String {
    render_within(summary, stdout_width().unwrap_or(usize::MAX))
}

fn render_within(summary: &Summary, width: usize) -> String {
    let (table, left_out) = render_fitting(make_columns(summary), &GIVING_WAY, width);
    let mut lines = vec![table, render_legend(summary)];
    lines.extend(left_out);
    lines.extend(render_caveats(summary));
    lines.join("\n")
}

/// What speaks against the numbers, each thing once: of whom, and of whom the same with other figures.
fn render_caveats(summary: &Summary) -> Vec<String> {
    let mut said: Vec<(&str, Vec<&str>, Vec<&str>)> = Vec::new();
    for one in &summary.strategies {
        for caveat in &one.caveats {
            match said.iter_mut().find(|(known, ..)| without_digits(known) == without_digits(caveat)) {
                Some((known, same, _)) if known == caveat => same.push(&one.strategy),
                Some((.., alike)) => alike.push(&one.strategy),
                None => said.push((caveat, vec![&one.strategy], Vec::new())),
            }
        }
    }
    let line = |(caveat, same, alike): (&str, Vec<&str>, Vec<&str>)| {
        let alike = if alike.is_empty() { String::new() } else { format!(" (much the same: {})", alike.join(", ")) };
        format!("  {}: {caveat}{alike}", same.join(", "))
    };
    said.into_iter().map(line).collect()
}

fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect()
}

/// The table within `width` characters: the columns `giving_way` are left out, the first of them first, until it fits; and
/// the line that tells which.
pub(super) fn render_fitting(mut columns: Vec<Column>, giving_way: &[&str], width: usize) -> (String, Option<String>) {
    let mut left_out = Vec::new();
    let mut giving_way = giving_way.iter();
    let mut table = render_table(&columns);
    while table.lines().any(|line| console::measure_text_width(line) > width) {
        let Some(title) = giving_way.next() else { break };
        let all = columns.len();
        columns.retain(|column| column.title != *title);
        if columns.len() < all {
            left_out.push(title.replace('\n', " "));
            table = render_table(&columns);
        }
    }
    (table, render_left_out(&left_out))
}

fn render_table(columns: &[Column]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_header(columns.iter().map(|column| &column.title));
    for row in 0..columns[0].cells.len() {
        table.add_row(columns.iter().map(|column| column.cells[row].clone()));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn render_legend(summary: &Summary) -> String {
    let bound = match summary.bound_seconds {
        Some(bound) if !summary.is_bounded() => format!(
            "no × bound: the work needs a part of what was resident, and is warm before all of it is loaded ({bound:.1} s at the disk's bandwidth)"
        ),
        Some(bound) => format!("bound: {bound:.1} s = bytes ÷ bandwidth"),
        None => "bound: not known on a device without a limit".to_owned(),
    };
    let repeats = if summary.strategies.iter().any(|one| one.trials > 1) {
        "medians, with the smallest and the largest of the repeats · "
    } else {
        ""
    };
    format!("{repeats}warm: fewer than 1 % of transactions read from the device, sustained · {bound}")
}

fn make_columns(summary: &Summary) -> Vec<Column> {
    let limit = format!("> {}", summary.trial_seconds);
    let ratio_limit = summary.bound_seconds.map(|bound| format!("> {:.2}", f64::from(summary.trial_seconds) / bound));
    let column = |title: &str, cell: &dyn Fn(&StrategySummary) -> Cell| Column {
        title: title.to_owned(),
        cells: summary.strategies.iter().map(cell).collect(),
    };
    let time = |title, of: fn(&StrategySummary) -> Option<Spread>| {
        column(title, &|one| spread_cell(of(one), &limit, render_instant))
    };
    let count = |title, of: fn(&StrategySummary) -> Option<Spread>| {
        column(title, &|one| spread_cell(of(one), "", render_count))
    };
    let mut columns = vec![
        column("strategy", &|one| name_cell(&one.strategy)),
        time("warm\nafter, s", |one| Some(one.warm_after_seconds)),
        time("50 %\ns", |one| one.to_50_seconds),
        time("90 %\ns", |one| one.to_90_seconds),
        time("95 %\ns", |one| one.to_95_seconds),
        column(BOUND_TITLE, &|one| {
            spread_cell(one.bound_ratio, ratio_limit.as_deref().unwrap_or(""), |ratio| format!("{ratio:.2}"))
        }),
        count("served\nby then", |one| Some(one.served_until_warm)),
        count("nothing\nby then", |one| one.nothing_served_by_then),
        count("served\nin all", |one| Some(one.served)),
        time("command\ntook, s", |one| one.ended_after_seconds),
        column("device\nread", &|one| {
            spread_cell(Some(one.device_read_bytes), "", |bytes| Bytes(bytes as u64).to_string())
        }),
    ];
    columns.retain(|column| column.title != BOUND_TITLE || summary.bound_seconds.is_none() || summary.is_bounded());
    columns
}

pub(super) fn name_cell(strategy: &str) -> Cell {
    let cell = Cell::new(strategy);
    if strategy == PGTHAW { cell.add_attribute(Attribute::Bold) } else { cell }
}

/// Seconds, or at once.
fn render_instant(seconds: f64) -> String {
    if is_at_once(seconds) { AT_ONCE.to_owned() } else { format!("{seconds:.1}") }
}

/// `6.1` above `5.9–6.4`; `beyond` for what was not reached; `–` for what does not exist.
pub(super) fn spread_cell(spread: Option<Spread>, beyond: &str, render: impl Fn(f64) -> String) -> Cell {
    let Some(spread) = spread.filter(|spread| spread.repeats > 0) else {
        return Cell::new("–");
    };
    let or_beyond = |value: Option<f64>| value.map_or_else(|| beyond.to_owned(), &render);
    let (median, low, high) = (or_beyond(spread.median), or_beyond(spread.min), or_beyond(spread.max));
    if low == high { Cell::new(median) } else { Cell::new(format!("{median}\n{}", join_ends(&low, &high))) }
}

/// `21–24 k`: a unit that both ends have is said once.
fn join_ends(low: &str, high: &str) -> String {
    let unit = high.rsplit_once(' ').map_or("", |(_, unit)| unit);
    let short = low.strip_suffix(unit).map(str::trim_end).filter(|_| !low.starts_with('>') && !unit.is_empty());
    format!("{}–{high}", short.unwrap_or(low))
}

/// A count of transactions in at most four figures.
pub(super) fn render_count(count: f64) -> String {
    match count {
        ..9_999.5 => format!("{count:.0}"),
        ..999_500.0 => format!("{:.0} k", count / 1e3),
        ..9_995_000.0 => format!("{:.2} M", count / 1e6),
        _ => format!("{:.1} M", count / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategy(spread: Spread) -> StrategySummary {
        StrategySummary {
            strategy: "pg_prewarm-prefetch".into(),
            trials: 3,
            warm_after_seconds: spread,
            to_50_seconds: Some(spread),
            to_90_seconds: Some(spread),
            to_95_seconds: Some(spread),
            bound_ratio: Some(spread),
            served_until_warm: spread,
            nothing_served_by_then: Some(spread),
            served: spread,
            ended_after_seconds: Some(spread),
            device_read_bytes: spread,
            caveats: vec!["one".into()],
        }
    }

    fn text(spread: Spread) -> String {
        spread_cell(Some(spread), "> 20", |value| format!("{value:.1}")).content()
    }

    #[test]
    fn what_was_not_reached_is_longer_than_the_trial() {
        assert_eq!(text(Spread::of([Some(6.1), Some(5.9), Some(6.4)])), "6.1\n5.9–6.4");
        assert_eq!(text(Spread::of([Some(18.0), None, None])), "> 20\n18.0–> 20");
        assert_eq!(text(Spread::of([None, None])), "> 20");
        assert_eq!(text(Spread::of([])), "–");
    }

    #[test]
    fn a_unit_that_both_ends_have_is_said_once() {
        assert_eq!(join_ends("782 MB", "801 MB"), "782–801 MB");
        assert_eq!(join_ends("999 kB", "1.2 MB"), "999 kB–1.2 MB");
        assert_eq!(join_ends("0", "12"), "0–12");
    }

    #[test]
    fn counts_have_few_figures() {
        let counts = [512.0, 9999.0, 207_431.0, 999_600.0, 12_345_678.0].map(render_count);
        assert_eq!(counts, ["512", "9999", "207 k", "1.00 M", "12.3 M"]);
    }

    #[test]
    fn a_bound_that_is_none_is_not_drawn() {
        let strategy = |warm: f64| StrategySummary {
            strategy: "pgthaw".into(),
            trials: 1,
            warm_after_seconds: Spread::of([Some(warm)]),
            to_50_seconds: None,
            to_90_seconds: None,
            to_95_seconds: None,
            bound_ratio: Some(Spread::of([Some(warm / 5.0)])),
            served_until_warm: Spread::of([Some(1.0)]),
            nothing_served_by_then: None,
            served: Spread::of([Some(1.0)]),
            ended_after_seconds: None,
            device_read_bytes: Spread::of([Some(1.0)]),
            caveats: Vec::new(),
        };
        let render = |warm: f64| {
            let summary = Summary { bound_seconds: Some(5.0), trial_seconds: 20, strategies: vec![strategy(warm)] };
            (render_within(&summary, usize::MAX), crate::verdict::render_headline(&summary))
        };
        let (hot, sentence) = render(1.5);
        assert!(
            hot.contains("no × bound") && !hot.contains("0.30") && !sentence.contains("bound"),
            "{hot}\n{sentence}"
        );
        let (whole, sentence) = render(6.0);
        assert!(whole.contains("1.20") && sentence.contains("1.20 × the bound"), "{whole}\n{sentence}");
    }

    #[test]
    fn what_is_said_of_several_is_said_once() {
        let strategy = |name: &str, caveats: &[&str]| StrategySummary {
            strategy: name.into(),
            caveats: caveats.iter().map(|one| (*one).to_owned()).collect(),
            ..strategy(Spread::of([Some(1.0)]))
        };
        let strategies = vec![
            strategy("cat", &["took 7 %", "one"]),
            strategy("nothing", &["took 12.5 %"]),
            strategy("dd", &["one"]),
        ];
        let summary = Summary { bound_seconds: None, trial_seconds: 20, strategies };
        assert_eq!(render_caveats(&summary), ["  cat: took 7 % (much the same: nothing)", "  cat, dd: one"]);
    }

    #[test]
    fn a_narrow_terminal_gets_fewer_columns_and_is_told() {
        let spread = Spread::of([Some(5.0), Some(7.0), Some(11.0)]);
        let strategy = strategy(spread);
        let summary = Summary { bound_seconds: Some(5.0), trial_seconds: 20, strategies: vec![strategy] };
        let wide = render_within(&summary, usize::MAX);
        assert!(wide.contains("took, s") && !wide.contains("left out"), "{wide}");
        let narrow = render_within(&summary, 100);
        let table_width = narrow.lines().next().map(console::measure_text_width);
        assert!(table_width.is_some_and(|width| width <= 100 && width > 80), "{narrow}");
        assert!(narrow.contains("left out, for the terminal is narrow: served in all"), "{narrow}");
        assert!(narrow.ends_with("  pg_prewarm-prefetch: one"), "{narrow}");
    }
}
