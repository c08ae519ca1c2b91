//! Stalls, and what was asked of files, for people.

use host::units::Bytes;
use observe::stall::Stall;
use observe::time::{FileKind, FileUse, TimeReport, or_nameless};
use observe::{GivenUp, Reduction, looks_in_words};
use terminal::{Column, printable, render_columns, render_ns, render_share, wrap_text};

/// So many stalls are shown, the worst; `--json` has all.
const STALLS_SHOWN: usize = 10;

/// So many files are shown.
const FILES_SHOWN: usize = 8;

/// Each stall in its sentence, in their order; nothing where there was none.
pub fn render_stalls(stalls: &[Stall], width: Option<usize>) -> Vec<String> {
    let mut shown: Vec<&Stall> = stalls.iter().collect();
    shown.sort_by_key(|stall| std::cmp::Reverse(stall.length_ns));
    shown.truncate(STALLS_SHOWN);
    shown.sort_by_key(|stall| stall.begin_ms);
    let mut lines: Vec<String> =
        shown.iter().map(|stall| wrap_text(&printable(&format!("stall: {stall}")), width)).collect();
    if stalls.len() > STALLS_SHOWN {
        lines.push(format!("{} shorter stalls more: --json has them", stalls.len() - STALLS_SHOWN));
    }
    lines
}

/// The files with the longest syncs; nothing where no process slept in one.
pub fn render_files(report: &TimeReport, width: Option<usize>) -> Vec<String> {
    let is_of_use = |file: &&FileUse| file.syncs.count + file.sleeps > 0;
    let shown: Vec<&FileUse> = report.files.iter().filter(is_of_use).take(FILES_SHOWN).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let cells = |cell: &dyn Fn(&FileUse) -> String| shown.iter().map(|file| cell(file)).collect::<Vec<String>>();
    let or_dash = |is_known: bool, text: String| if is_known { text } else { "-".to_owned() };
    render_columns(
        vec![
            Column::text("FILE", 24, cells(&render_name)),
            Column::number("SYNCS", 1, cells(&|file| file.syncs.count.to_string())),
            Column::number("TOTAL", 0, cells(&|file| render_ns(file.syncs.total_ns))),
            Column::number("SHARE", 5, cells(&|file| render_share(file.syncs.total_ns, report.total.lived_ns))),
            Column::number("MAX", 2, cells(&|file| or_dash(file.syncs.count > 0, render_longest(file)))),
            Column::number(
                "WRITES",
                3,
                cells(&|file| or_dash(file.written.writes > 0, file.written.writes.to_string())),
            ),
            Column::number(
                "WRITTEN",
                4,
                cells(&|file| or_dash(file.written.writes > 0, Bytes(file.written.bytes).to_string())),
            ),
        ],
        width,
        "…",
    )
}

/// With a `+` where it lasts.
fn render_longest(file: &FileUse) -> String {
    render_ns(file.syncs.max_ns) + if file.lasts { "+" } else { "" }
}

fn render_name(file: &FileUse) -> String {
    let path = or_nameless(&file.path);
    let relation = file.relation.as_ref().map(|relation| format!(" ({relation})"));
    let temporary = if file.kind == FileKind::Temporary { ", all" } else { "" };
    printable(&format!("{path}{temporary}{}", relation.unwrap_or_default())).into_owned()
}

/// What was given up to stay within the budget.
pub fn render_reduction(reduction: &Reduction) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    format!(
        "over the budget of {} after {}: looking cost {} of all processors; since then {}",
        percent(reduction.budget),
        render_ns(reduction.after_ns),
        percent(reduction.share),
        render_given_up(reduction)
    )
}

/// What is since something was given up.
pub fn render_given_up(reduction: &Reduction) -> String {
    let looks = reduction.looks_per_second.unwrap_or_default();
    match reduction.given_up {
        GivenUp::Receives => "commands are counted no more, and stalls are looked for no more".to_owned(),
        GivenUp::Programs => format!(
            "there are no programs in the kernel: processes are looked at in their memory {}, and times are estimates",
            looks_in_words(looks)
        ),
        GivenUp::Looks => format!("processes are looked at {}", looks_in_words(looks)),
        GivenUp::Questions => "the server is asked every other second who its processes are".to_owned(),
        GivenUp::NothingLeft => "nothing is left to give up that would cost less: it goes on".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::stall::StallKind;

    #[test]
    fn the_worst_stalls_are_shown_in_their_order() {
        let stall = |begin_ms: i64, length_ns: u64| Stall {
            begin_ms,
            end_ms: None,
            length_ns,
            kind: StallKind::Unexplained,
            sentence: format!("nothing for {length_ns}."),
            least_per_second: 0.0,
            usual_per_second: 1.0,
        };
        let stalls: Vec<Stall> = (0..12).map(|number| stall(number * 1000, 100 - number as u64)).collect();
        let lines = render_stalls(&stalls, None);
        assert_eq!(lines.len(), STALLS_SHOWN + 1);
        assert_eq!(lines[0], "stall: 00:00:00–now UTC: nothing for 100.");
        assert_eq!(lines[STALLS_SHOWN], "2 shorter stalls more: --json has them");
        assert!(render_stalls(&[], None).is_empty());
    }

    #[test]
    fn what_was_given_up_is_told_with_the_reason() {
        let reduction = Reduction {
            after_ns: 2_000_000_000,
            given_up: GivenUp::Receives,
            share: 0.031,
            budget: 0.02,
            looks_per_second: None,
        };
        let told = render_reduction(&reduction);
        assert!(told.starts_with("over the budget of 2.00 % after 2.00 s: looking cost 3.10 %"), "{told}");
    }
}
