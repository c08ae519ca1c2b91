//! Two sides of a sweep held against each other.

use crate::verdict::{CellComparison, Noise, NoiseCell, SweepComparison, render_ratio};
use terminal::{Column, printable, render_columns};

/// A row per cell, and what speaks against the comparison.
pub fn render_sweep_comparison(comparison: &SweepComparison, width: Option<usize>) -> String {
    let cells = |cell: &dyn Fn(&CellComparison) -> String| comparison.cells.iter().map(cell).collect::<Vec<_>>();
    let columns = vec![
        Column::text("where", 12, cells(&|cell| render_label(&cell.label))),
        Column::number("B ÷ A", 0, cells(&|cell| render_ratio(&cell.ratio).0)),
        Column::number("interval", 0, cells(&|cell| render_ratio(&cell.ratio).1.unwrap_or_default())),
        Column::number("holds in", 3, cells(&|cell| format!("{:.0} %", 100.0 * cell.ratio.coverage))),
        Column::number("p", 2, cells(&|cell| format!("{:.3}", cell.p))),
        Column::number("p (Holm)", 0, cells(&|cell| format!("{:.3}", cell.p_holm))),
        Column::number("detectable", 1, cells(&|cell| render_change(cell.smallest_detectable))),
        Column::number("pairs", 0, cells(&|cell| cell.ratio.pairs.to_string())),
        Column::number("cycles", 4, cells(&|cell| render_cycles(cell.cycles))),
    ];
    let mut lines = vec![
        format!("{} of B against A", comparison.metric.name()),
        format!("A  {}", printable(&comparison.a)),
        format!("B  {}", printable(&comparison.b)),
        String::new(),
    ];
    lines.extend(render_columns(columns, width, "…"));
    lines.extend(
        comparison.noise_floor.map(|floor| format!("noise floor of the sweep: {}", render_change(Some(floor)))),
    );
    lines.extend(comparison.warnings.iter().map(|warning| format!("verdict  {warning}")));
    lines.join("\n")
}

/// What equal sides differ by: a row per figure and cell.
pub fn render_noise(sweep: &str, noises: &[Noise], width: Option<usize>) -> String {
    let rows: Vec<(&Noise, &NoiseCell)> =
        noises.iter().flat_map(|noise| noise.cells.iter().map(move |cell| (noise, cell))).collect();
    let cells = |cell: &dyn Fn(&NoiseCell) -> String| rows.iter().map(|(_, row)| cell(row)).collect::<Vec<_>>();
    let columns = vec![
        Column::word("of", 0, rows.iter().map(|(noise, _)| noise.metric.name().to_owned()).collect()),
        Column::text("where", 12, cells(&|cell| render_label(&cell.label))),
        Column::number("A' ÷ A", 0, cells(&|cell| render_ratio(&cell.ratio).0)),
        Column::number("interval", 2, cells(&|cell| render_ratio(&cell.ratio).1.unwrap_or_default())),
        Column::number("p", 0, cells(&|cell| format!("{:.3}", cell.p))),
        Column::number("noise floor", 0, cells(&|cell| render_change(cell.floor))),
        Column::number("detectable", 1, cells(&|cell| render_change(cell.smallest_detectable))),
        Column::number("taken for a difference", 3, cells(&render_false_share)),
        Column::number("pairs", 0, cells(&|cell| cell.ratio.pairs.to_string())),
    ];
    let mut lines = vec![format!("A' against A, which are the same, in {sweep}"), String::new()];
    lines.extend(render_columns(columns, width, "…"));
    lines.join("\n")
}

/// The share of studies of eight pairs that take equal sides for different, in percent.
fn render_false_share(cell: &NoiseCell) -> String {
    cell.false_share.map(|share| format!("{:.1} %", 100.0 * share)).unwrap_or_default()
}

/// Whole cycles of checkpoints that the trials were cut to.
fn render_cycles(cycles: u32) -> String {
    if cycles == 0 { String::new() } else { cycles.to_string() }
}

fn render_label(label: &str) -> String {
    if label.is_empty() { "the whole".to_owned() } else { printable(label).into_owned() }
}

/// A larger ratio is as good as any.
const TOLD_RATIO: f64 = 10.0;

/// `± 3.1 %`: a ratio above 1, in either direction.
fn render_change(ratio: Option<f64>) -> String {
    let told = |ratio: f64| match ratio {
        ..TOLD_RATIO => format!("± {:.1} %", 100.0 * (ratio - 1.0)),
        // So few pairs that any figure would be one of chance.
        _ => "> 10 ×".to_owned(),
    };
    ratio.map(told).unwrap_or_default()
}
