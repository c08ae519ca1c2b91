//! Two sides of a sweep held against each other.

use super::columns::{Column, render_columns};
use super::printable::printable;
use crate::bench::{CellComparison, SweepComparison, render_ratio};

/// A row per cell, and what speaks against the comparison.
pub fn render_sweep_comparison(comparison: &SweepComparison, width: Option<usize>) -> String {
    let cells = |cell: &dyn Fn(&CellComparison) -> String| comparison.cells.iter().map(cell).collect::<Vec<_>>();
    let columns = vec![
        Column::text("where", 12, cells(&render_label)),
        Column::number("B ÷ A", 0, cells(&|cell| render_ratio(&cell.ratio).0)),
        Column::number("interval", 0, cells(&|cell| render_ratio(&cell.ratio).1.unwrap_or_default())),
        Column::number("holds in", 3, cells(&|cell| format!("{:.0} %", 100.0 * cell.ratio.coverage))),
        Column::number("p", 2, cells(&|cell| format!("{:.3}", cell.p))),
        Column::number("p (Holm)", 0, cells(&|cell| format!("{:.3}", cell.p_holm))),
        Column::number("detectable", 1, cells(&render_detectable)),
        Column::number("pairs", 0, cells(&|cell| cell.ratio.pairs.to_string())),
    ];
    let mut lines = vec![
        format!("{} of B against A", comparison.metric.name()),
        format!("A  {}", printable(&comparison.a)),
        format!("B  {}", printable(&comparison.b)),
        String::new(),
    ];
    lines.extend(render_columns(columns, width, "…"));
    lines.extend(comparison.warnings.iter().map(|warning| format!("warning  {warning}")));
    lines.join("\n")
}

fn render_label(cell: &CellComparison) -> String {
    if cell.label.is_empty() { "the whole".to_owned() } else { printable(&cell.label).into_owned() }
}

/// `± 3.1 %`: what so many pairs would find.
fn render_detectable(cell: &CellComparison) -> String {
    cell.smallest_detectable.map(|ratio| format!("± {:.1} %", 100.0 * (ratio - 1.0))).unwrap_or_default()
}
