//! What the keys do, what the figures are, and what cannot be seen and why.

use crate::waits::stalls_text::render_reduction;
use observe::top::TopFrame;
use terminal::{printable, wrap_text};

use super::state::Kind;

const KEYS: [&str; 6] = [
    "← →        a step back, and forward",
    "PgUp PgDn  a minute back, and forward",
    "Home End   the oldest step, and now",
    "↑ ↓        scroll the names",
    "s  i       sort by the next column; show who has nothing to do, and pgthaw's own",
    "?  q       this; quit, as Ctrl-C does",
];

const LIVE: &str = "p          pause: looking goes on behind, and the last hour is kept";
const RECORD: &str = "p  f       stop and go on; faster";

const FIGURES: [&str; 14] = [
    "(10 s)          over so long, and not in this step alone: sessions tell their transactions and blocks about once a second",
    "tps             transactions by pg_stat_database",
    "commands/s      receipts from clients in this step, by the kernel",
    "each            of the commands, in the mean: time of client backends that was no waiting for the client, by commands; in the server, without the network",
    "a transaction   in the mean: time of sessions in statements, by transactions (14 and later)",
    "shared_buffers  blocks found there, of all that were asked for",
    "page cache      of what was read into shared_buffers, the part that no device had to deliver; read-ahead counts against it",
    "the chart       how many processes did what in the mean of each step; waiting for a client and for something to do is left out",
    "COUNT           waits that have ended; of a processor how often it was given",
    "AVERAGE         of waits that have ended: the time that they had of this step, by their number",
    "MAX             longest, up to twice too much where a longer one was before; with a + it lasts still",
    "P99             the upper bound of a bucket: up to twice too much",
    "recovered       times on a processor whose begin the kernel did not tell; their length is known",
    "lost            processes that were not followed, and steps that were not shown",
];

/// All lines, no wider than `width`.
pub(super) fn help_lines(frame: &TopFrame, kind: Kind, with_unicode: bool, width: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        KEYS.iter().map(|key| if with_unicode { (*key).to_owned() } else { plain(key) }).collect();
    lines.push(if kind == Kind::Live { LIVE } else { RECORD }.to_owned());
    lines.push(String::new());
    lines.extend(frame.stalls.iter().rev().map(|stall| told(&format!("stall           {stall}"), with_unicode)));
    lines.extend(frame.reductions.iter().map(|one| format!("given up        {}", render_reduction(one))));
    lines.extend(frame.missing.iter().map(|one| {
        let remedy = one.remedy.as_ref().map(|remedy| format!(" ({})", printable(remedy))).unwrap_or_default();
        format!("not seen        {}: {}{remedy}", printable(&one.what), printable(&one.why))
    }));
    lines.push(String::new());
    lines.extend(FIGURES.map(str::to_owned));
    lines.iter().flat_map(|line| wrap_text(line, Some(width)).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// A sentence as the terminal can show it.
pub(super) fn told(sentence: &str, with_unicode: bool) -> String {
    let sentence = printable(sentence).into_owned();
    if with_unicode { sentence } else { sentence.replace('–', "-").replace('…', "...") }
}

/// Without arrows.
fn plain(key: &str) -> String {
    key.replace("← →  ", "<- ->").replace("↑ ↓", "k j")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::frame;
    use super::*;

    #[test]
    fn it_fits_and_says_what_is_not_seen_and_why() {
        for (width, with_unicode) in [(60, true), (80, false), (200, true)] {
            let lines = help_lines(&frame(1), Kind::Live, with_unicode, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
            let text = lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
            assert!(text.contains("waits that do not sleep") && text.contains("a spinlock"), "{text}");
            assert_eq!(text.is_ascii(), !with_unicode);
        }
    }
}
