//! Waits for lightweight locks that were counted at the server's own probes, for people.

use super::columns::render_columns;
use super::nanoseconds::render_ns;
use super::printable;
use super::statistics::statistic_columns;
use super::wrap::wrap_text;
use crate::observe::LwlocksEnd;
use crate::observe::time::{LwlockUse, NamedStatistic};
use crate::units::counted;

/// So many tranches are shown.
const SHOWN: usize = 12;

/// The tranches, and for how long they were counted, or why they were not.
pub fn render_lwlocks(lwlocks: &LwlockUse, width: Option<usize>) -> Vec<String> {
    let shown: Vec<&NamedStatistic> = lwlocks.statistics.iter().take(SHOWN).collect();
    let columns = statistic_columns("COUNTED BY USDT", &shown, |one| &one.name);
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
        LwlocksEnd::Restart => "then the server was restarted",
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
