//! Waits for lightweight locks that were counted at the server's own probes, for people.

use super::columns::{Column, render_columns};
use super::nanoseconds::render_ns;
use super::printable;
use super::wrap::wrap_text;
use crate::observe::LwlocksEnd;
use crate::observe::time::{LwlockUse, NamedStatistic};
use crate::units::counted;

/// So many tranches are shown.
const SHOWN: usize = 12;

/// The tranches, and for how long they were counted, or why they were not.
pub fn render_lwlocks(lwlocks: &LwlockUse, width: Option<usize>) -> Vec<String> {
    let shown = || lwlocks.statistics.iter().take(SHOWN);
    let cells = |cell: &dyn Fn(&NamedStatistic) -> String| shown().map(cell).collect::<Vec<String>>();
    let optional = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), render_ns);
    let columns = vec![
        Column::text("COUNTED BY USDT", 34, cells(&|one| printable(&one.name).into_owned())),
        Column::number("COUNT", 1, cells(&|one| one.statistic.count.to_string())),
        Column::number("TOTAL", 0, cells(&|one| render_ns(one.statistic.total_ns))),
        Column::number("AVERAGE", 3, cells(&|one| optional(one.average_ns))),
        Column::number("MAX", 2, cells(&|one| optional(one.statistic.longest_ns()))),
        Column::number("P99", 3, cells(&|one| optional(one.p99_ns))),
    ];
    let mut lines = if lwlocks.statistics.is_empty() { Vec::new() } else { render_columns(columns, width, "…") };
    lines.push(wrap_text(&printable(&render_end(lwlocks)), width));
    lines
}

fn render_end(lwlocks: &LwlockUse) -> String {
    let why = match &lwlocks.end {
        LwlocksEnd::Refused { reason, remedy } => {
            let remedy = remedy.as_ref().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
            return format!("not from usdt: {reason}{remedy}");
        }
        LwlocksEnd::End => "to the end",
        LwlocksEnd::Limit => "then the time for it was over",
        LwlocksEnd::Budget => "then it cost too much",
    };
    let counted_in = render_ns(lwlocks.length_ns);
    let waits: u64 = lwlocks.statistics.iter().map(|one| one.statistic.count).sum();
    let mut told =
        format!("from usdt, the server's own probes: {} in {counted_in}, {why}", counted(waits, "LWLock wait"));
    if lwlocks.lost > 0 {
        told += &format!("; {} of tranches beyond those that are kept apart", counted(lwlocks.lost, "more wait"));
    }
    told
}
