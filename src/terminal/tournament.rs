//! The tournament: what each strategy achieved, as one table.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::bench::{PGTHAW, Spread, StrategySummary, Summary};
use crate::units::Bytes;

const HEADER: [&str; 11] = [
    "strategy",
    "warm after",
    "50 %",
    "90 %",
    "95 %",
    "× bound",
    "served by then",
    "nothing by then",
    "served in all",
    "command took",
    "device read",
];

/// Medians, with the smallest and the largest of the repeats below them. Times are seconds since the workload began; a
/// time that was not reached within the trial stands as longer than it.
pub fn render_tournament(summary: &Summary) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(HEADER);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for strategy in &summary.strategies {
        table.add_row(tournament_row(strategy, summary));
    }
    let notes = summary
        .strategies
        .iter()
        .flat_map(|strategy| strategy.caveats.iter().map(move |caveat| format!("\n  {}: {caveat}", strategy.strategy)));
    let legend = format!("{}\n{}", table.trim_fmt(), legend(summary));
    notes.fold(legend, |text, note| text + &note)
}

fn legend(summary: &Summary) -> String {
    let bound = match summary.bound_seconds {
        Some(bound) => format!("bound: {bound:.1} s = bytes ÷ bandwidth"),
        None => "bound: not known on a device without a limit".to_owned(),
    };
    format!("warm: fewer than 1 % of transactions read from the device, sustained · {bound}")
}

fn tournament_row(strategy: &StrategySummary, summary: &Summary) -> Vec<Cell> {
    let limit = format!("{} s", summary.trial_seconds);
    let seconds = |spread: Option<Spread>| spread_cell(spread, &limit, |value| format!("{value:.1} s"));
    let ratio_limit = summary.bound_seconds.map(|bound| format!("{:.2}", f64::from(summary.trial_seconds) / bound));
    let count = |spread: Option<Spread>| spread_cell(spread, "", render_count);
    let name = if strategy.strategy == PGTHAW {
        Cell::new(PGTHAW).add_attribute(comfy_table::Attribute::Bold)
    } else {
        Cell::new(&strategy.strategy)
    };
    vec![
        name,
        seconds(Some(strategy.warm_after_seconds)),
        seconds(strategy.to_50_seconds),
        seconds(strategy.to_90_seconds),
        seconds(strategy.to_95_seconds),
        spread_cell(strategy.bound_ratio, &ratio_limit.unwrap_or_default(), |value| format!("{value:.2}")),
        count(Some(strategy.served_until_warm)),
        count(strategy.nothing_served_by_then),
        count(Some(strategy.served)),
        seconds(strategy.ended_after_seconds),
        spread_cell(Some(strategy.device_read_bytes), "", |value| Bytes(value as u64).to_string()),
    ]
}

/// `6.1 s` above `(5.9 – 6.4 s)`; `> 20 s` for what lies beyond the `limit`; `–` for what does not exist.
fn spread_cell(spread: Option<Spread>, limit: &str, render: impl Fn(f64) -> String) -> Cell {
    let Some(spread) = spread.filter(|spread| spread.repeats > 0) else {
        return Cell::new("–");
    };
    let or_beyond = |value: Option<f64>| value.map_or_else(|| format!("> {limit}"), &render);
    let median = or_beyond(spread.median);
    let (low, high) = (or_beyond(spread.min), or_beyond(spread.max));
    if low == high { Cell::new(median) } else { Cell::new(format!("{median}\n({})", join_ends(&low, &high))) }
}

/// `5.9 – 6.4 s`: a unit that both ends have is said once.
fn join_ends(low: &str, high: &str) -> String {
    let unit = high.rsplit_once(' ').map_or("", |(_, unit)| unit);
    let short = low.strip_suffix(unit).map(str::trim_end).filter(|_| !low.starts_with('>') && !unit.is_empty());
    format!("{} – {high}", short.unwrap_or(low))
}

/// A count of transactions in at most four figures.
fn render_count(count: f64) -> String {
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

    fn text(spread: Spread) -> String {
        spread_cell(Some(spread), "20 s", |value| format!("{value:.1} s")).content()
    }

    #[test]
    fn what_was_not_reached_is_longer_than_the_trial() {
        assert_eq!(text(Spread::of([Some(6.1), Some(5.9), Some(6.4)])), "6.1 s\n(5.9 – 6.4 s)");
        assert_eq!(text(Spread::of([Some(18.0), None, None])), "> 20 s\n(18.0 – > 20 s)");
        assert_eq!(text(Spread::of([None, None])), "> 20 s");
        assert_eq!(text(Spread::of([])), "–");
        assert_eq!(join_ends("999 kB", "1.20 MB"), "999 kB – 1.20 MB");
        assert_eq!(join_ends("0", "12"), "0 – 12");
    }

    #[test]
    fn counts_have_few_figures() {
        let counts = [512.0, 9999.0, 207_431.0, 999_600.0, 12_345_678.0].map(render_count);
        assert_eq!(counts, ["512", "9999", "207 k", "1.00 M", "12.3 M"]);
    }
}
