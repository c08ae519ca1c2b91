use std::borrow::Borrow;

use super::culprit_text::{render_blockers, render_temporary_files};
use host::units::{Bytes, counted};
use observe::stall::{Stall, local_time};
use observe::time::{FileKind, FileTimes, LookingCost, NamedStatistic, ProgramCost, Tier, TimeReport, TimeSecond};
use observe::top::TopStatistic;
use observe::{GivenUp, Reduction, looks_after, looks_in_words};
use terminal::{Column, printable, render_columns, render_ns, render_share, wrap_text};

/// Maximum rows in the main table; `--json` has all.
const NAMES_SHOWN: usize = 30;

/// Maximum lines in the table over time. In longer measurements, a line covers several seconds.
const SPANS_SHOWN: usize = 20;

pub fn render_time_report(report: &TimeReport, width: Option<usize>) -> String {
    let mut lines = vec![wrap_text(&render_head(report), width), String::new()];
    let mut culprits = [
        render_temporary_files(&report.temporary_files, width),
        render_blockers(&report.blockers, width),
        render_stalls(&report.stalls, width),
    ];
    let add = |lines: &mut Vec<String>, part: &mut Vec<String>| {
        if !part.is_empty() {
            lines.append(part);
            lines.push(String::new());
        }
    };
    if report.recorded_ms.is_some() {
        culprits.iter_mut().rev().for_each(|part| add(&mut lines, part));
    }
    let (idle, rest): (Vec<&NamedStatistic>, Vec<_>) = report.statistics.iter().partition(|one| one.is_aside());
    let shown: Vec<TopStatistic> = rest.iter().take(NAMES_SHOWN).map(|one| ended(report, one)).collect();
    lines.extend(render_columns(columns_of("NAME", &shown, |one| &one.name), width, "…"));
    let sum = |all: &[&NamedStatistic]| {
        render_ns(all.iter().fold(0, |sum: u64, one| sum.saturating_add(one.statistic.total_ns)))
    };
    if let Some(hidden) = rest.get(NAMES_SHOWN..).filter(|hidden| !hidden.is_empty()) {
        lines.push(format!("{} not shown, {} in total: --json has them", counted(hidden.len(), "name"), sum(hidden)));
    }
    if !idle.is_empty() {
        let told =
            format!("background processes were idle for {}; {} not shown", sum(&idle), counted(idle.len(), "name"));
        lines.push(wrap_text(&format!("{told}: --json has them"), width));
    }
    if !report.handled_by.is_empty() {
        lines.push(String::new());
        lines.extend(render_columns(handled_columns(report), width, "…"));
        lines.extend(render_unfinished(report).map(|told| wrap_text(&told, width)));
    }
    lines.push(String::new());
    lines.extend(render_columns(seconds_columns(report), width, "…"));
    lines.push(String::new());
    add(&mut lines, &mut render_files(report, width));
    culprits.iter_mut().for_each(|part| add(&mut lines, part));
    lines.extend(render_foot(report).iter().map(|text| wrap_text(&printable(text), width)));
    lines.join("\n")
}

fn render_head(report: &TimeReport) -> String {
    let processes = counted(report.processes, "process");
    if let Some((begin_ms, end_ms)) = report.recorded_ms {
        let day = |ms| local_time(ms).strftime("%F %T").to_string();
        return format!(
            "history from {} to {}: pgthaw sampled {processes} once a second for {}; times are estimates",
            day(begin_ms),
            day(end_ms),
            render_ns(report.length_ns)
        );
    }
    let how = match report.source {
        Tier::Bpf => "the kernel counted every process switch",
        Tier::Memory => {
            let looks = looks_in_words(looks_after(&report.reductions));
            &format!("wait events were read from the processes' memory {looks}; times are estimates")
        }
        Tier::Sql => "wait events were read from pg_stat_activity 10 times a second; times are estimates",
    };
    format!("measured {processes} for {}; {how}", render_ns(report.length_ns))
}

pub fn render_top_statistics(shown: &[&TopStatistic], width: usize, mark: &str) -> Vec<String> {
    let mut columns = columns_of("NAME", shown, |one| &one.name);
    for column in columns.iter_mut().skip(1) {
        column.cells.iter_mut().for_each(|cell| *cell = format!("{cell:>NUMBER_CELLS$}"));
    }
    // Pads names until the numbers reach the right edge.
    let numbers = |columns: usize| columns * (NUMBER_CELLS + GAP_CELLS);
    let with_share = NAME_CELLS + numbers(columns.len() - 1) < width;
    let wide =
        width.saturating_sub(if with_share { numbers(columns.len() - 1) + 1 } else { numbers(columns.len() - 2) });
    if let Some(name) = columns.first_mut() {
        name.cells.iter_mut().for_each(|cell| *cell = format!("{cell:<wide$}"));
        name.title = format!("{:<wide$}", name.title);
    }
    let mut lines = render_columns(columns, Some(width), mark);
    // Removes the line that lists dropped columns.
    lines.truncate(shown.len() + 1);
    lines
}

/// Width in cells of `3000 s+`; the SHARE column is one cell wider.
const NUMBER_CELLS: usize = 7;
const GAP_CELLS: usize = 2;

/// Names are shortened to this width before columns are dropped.
const NAME_CELLS: usize = 34;

fn ended(report: &TimeReport, named: &NamedStatistic) -> TopStatistic {
    let share = report.lived.shares()(&named.place, named.statistic.total_ns);
    TopStatistic { named: named.clone(), share, open: 0, open_ns: 0 }
}

fn columns_of(title: &str, rows: &[impl Borrow<TopStatistic>], name: fn(&NamedStatistic) -> &str) -> Vec<Column> {
    let cells =
        |cell: &dyn Fn(&TopStatistic) -> String| rows.iter().map(|row| cell(row.borrow())).collect::<Vec<String>>();
    let optional = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), render_ns);
    let count = |row: &TopStatistic| match row.named.statistic.count {
        0 => "-".to_owned(),
        count => count.to_string(),
    };
    let share = |row: &TopStatistic| row.share.map_or_else(|| "-".to_owned(), render_share);
    let longest = |row: &TopStatistic| {
        let lasts = row.open > 0 && row.longest_ns() == Some(row.open_ns);
        optional(row.longest_ns()) + if lasts { "+" } else { "" }
    };
    vec![
        Column::text(title, NAME_CELLS, cells(&|row| printable(name(&row.named)).into_owned())),
        Column::number("COUNT", 1, cells(&count)),
        Column::number("TOTAL", 0, cells(&|row| render_ns(row.named.statistic.total_ns))),
        Column::number("SHARE", 4, cells(&share)),
        Column::number("AVERAGE", 3, cells(&|row| optional(row.named.average_ns))),
        Column::number("MAX", 2, cells(&longest)),
        Column::number("P99", 3, cells(&|row| optional(row.named.p99_ns))),
    ]
}

const HANDLED_SHOWN: usize = 5;

fn handled_columns(report: &TimeReport) -> Vec<Column> {
    let shown = report.handled_by.iter().take(HANDLED_SHOWN);
    let shown: Vec<TopStatistic> = shown.map(|one| ended(report, one)).collect();
    let mut columns = columns_of("COMMANDS HANDLED BY", &shown, |one| &one.place);
    // Omits SHARE: the main table's shares already include the commands' time.
    columns.retain(|column| column.title != "SHARE");
    columns
}

fn render_unfinished(report: &TimeReport) -> Option<String> {
    let parts = [(report.begun_before, "began before the measurement"), (report.lasting, "lasted beyond its end")];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = parts.map(|(count, what)| format!("{} {what}", counted(count, "command"))).collect();
    (!told.is_empty()).then(|| format!("{}: only the measured time counts", told.join(", ")))
}

fn seconds_columns(report: &TimeReport) -> Vec<Column> {
    let step = report.seconds.len().div_ceil(SPANS_SHOWN).max(1);
    let mut spans: Vec<TimeSecond> = report.seconds.chunks(step).map(TimeSecond::merge).collect();
    spans.push(TimeSecond::merge(&report.seconds));
    let last = spans.len() - 1;
    let named = spans.iter().enumerate().map(|(place, span)| match place {
        _ if place == last => "all".to_owned(),
        _ => format!("{:.1}", span.until_ns as f64 / 1e9),
    });
    let cells = |cell: &dyn Fn(&TimeSecond) -> String| spans.iter().map(cell).collect::<Vec<String>>();
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let running = if report.source == Tier::Bpf { "RUNNING" } else { "RUN/READY" };
    vec![
        Column::number("UNTIL", 0, named.collect()),
        Column::number("PROCS", 3, cells(&|span| span.processes.to_string())),
        Column::number(running, 0, cells(&|span| seconds(span.shares.running_ns))),
        Column::number("READY", 0, cells(&|span| or_dash(span.shares.ready_ns.map(seconds)))),
        Column::number("CLIENT", 0, cells(&|span| seconds(span.shares.client_ns))),
        Column::number("WAITING", 0, cells(&|span| seconds(span.shares.waiting_ns))),
        Column::number("IDLE", 2, cells(&|span| seconds(span.shares.idle_ns))),
        Column::number("NO EVENT", 1, cells(&|span| seconds(span.shares.no_event_ns))),
        Column::number("COMMANDS", 4, cells(&|span| or_dash(span.shares.commands.map(|count| count.to_string())))),
        Column::number("EXPLAINED", 0, cells(&|span| or_dash(span.explained.map(percent)))),
    ]
}

fn render_foot(report: &TimeReport) -> Vec<String> {
    let mut lines = Vec::new();
    let imperfect = report.imperfect;
    let unknown = render_share(report.total.unknown_ns as f64 / report.total.lived_ns.max(1) as f64);
    lines.push(format!(
        "not explained: {} ({unknown}) in waits whose event could not be read; {} not measured",
        render_ns(report.total.unknown_ns),
        counted(imperfect.lost_processes, "process")
    ));
    // Over SQL, unknown events mean a missing privilege.
    if report.source == Tier::Sql && report.total.unknown_ns > 0 {
        lines.push("wait events of other roles need pg_monitor: `GRANT pg_monitor TO …`".to_owned());
    }
    if imperfect.lost_calls + imperfect.lost_of_files > 0 {
        lines.push(format!(
            "lost: {} (ring buffer full), {} (too many files)",
            counted(imperfect.lost_calls, "slow call"),
            counted(imperfect.lost_of_files, "file operation")
        ));
    }
    if imperfect.recovered + imperfect.wakes_missed > 0 {
        lines.push(format!(
            "the kernel did not report the start of {} in which a process ran. The total time of these intervals, {}, is from the scheduler's counters. The kernel did not report the end of {}. pgthaw counted these waits until the process ran again.",
            counted(imperfect.recovered, "interval"),
            render_ns(imperfect.recovered_ns),
            counted(imperfect.wakes_missed, "wait")
        ));
    }
    lines.push(render_cost(&report.cost, report.length_ns));
    lines.extend(report.reductions.iter().map(render_reduction));
    for refused in &report.refused {
        let source = refused.source.name();
        let remedy = refused.remedy.as_ref().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
        lines.push(format!("the source {source} is unavailable: {}{remedy}", refused.reason));
    }
    if report.source != Tier::Bpf {
        lines.push(BIAS.to_owned());
    }
    lines.extend(report.remarks.iter().map(|remark| format!("note: {remark}")));
    lines
}

const BIAS: &str = "a sample stands for all the time until the next one: shorter waits are missed or overcounted, and a woken process that waits for a processor may still show its event";

fn render_cost(cost: &LookingCost, length_ns: u64) -> String {
    let kernel = cost.kernel.as_ref().and_then(|kernel| {
        let runs: u64 = kernel.programs.iter().map(|program: &ProgramCost| program.runs).sum();
        let each = kernel.total_ns().checked_div(runs)?;
        Some(format!("{} in {} of BPF programs ({each} ns each), ", render_ns(kernel.total_ns()), counted(runs, "run")))
    });
    let processors = counted(cost.processors as u32, "processor");
    let share = |share: f64| format!(": {:.2} % of {processors}", 100.0 * share);
    let uncounted = cost.kernel_refusal.as_ref();
    let uncounted =
        uncounted.map(|why| format!(" not counting the BPF programs, whose cost cannot be limited here ({why})"));
    format!(
        "cost: {}{} of processor time in pgthaw itself{}{}",
        kernel.unwrap_or_default(),
        render_ns(cost.own_cpu_ns),
        cost.share(length_ns).map(share).unwrap_or_default(),
        uncounted.unwrap_or_default()
    )
}

const STALLS_SHOWN: usize = 10;

const FILES_SHOWN: usize = 8;

pub fn render_stalls(stalls: &[Stall], width: Option<usize>) -> Vec<String> {
    let mut shown: Vec<&Stall> = stalls.iter().collect();
    shown.sort_by_key(|stall| std::cmp::Reverse(stall.length_ns));
    shown.truncate(STALLS_SHOWN);
    shown.sort_by_key(|stall| stall.begin_ms);
    let mut lines: Vec<String> =
        shown.iter().map(|stall| wrap_text(&printable(&format!("stall: {stall}")), width)).collect();
    if stalls.len() > STALLS_SHOWN {
        lines.push(format!("{} shorter stalls: --json has them", stalls.len() - STALLS_SHOWN));
    }
    lines
}

/// Table of the files for which a process slept in a system call, those with the longest sync time first; empty without
/// such files.
pub fn render_files(report: &TimeReport, width: Option<usize>) -> Vec<String> {
    let is_of_use = |file: &&FileTimes| file.syncs.count + file.sleeps > 0;
    let shown: Vec<&FileTimes> = report.files.iter().filter(is_of_use).take(FILES_SHOWN).collect();
    if shown.is_empty() {
        return Vec::new();
    }
    let cells = |cell: &dyn Fn(&FileTimes) -> String| shown.iter().map(|file| cell(file)).collect::<Vec<String>>();
    let or_dash = |is_known: bool, text: String| if is_known { text } else { "-".to_owned() };
    let longest = |file: &FileTimes| render_ns(file.syncs.max_ns.unwrap_or(0)) + if file.lasts { "+" } else { "" };
    let written = |file: &FileTimes, text: String| or_dash(file.written.writes > 0, text);
    let columns = vec![
        Column::text("FILE", 24, cells(&render_name)),
        Column::number("SYNCS", 1, cells(&|file| file.syncs.count.to_string())),
        Column::number("TOTAL", 0, cells(&|file| render_ns(file.syncs.total_ns))),
        Column::number("MAX", 2, cells(&|file| or_dash(file.syncs.count > 0, longest(file)))),
        Column::number("WRITES", 3, cells(&|file| written(file, file.written.writes.to_string()))),
        Column::number("WRITTEN", 4, cells(&|file| written(file, Bytes(file.written.bytes).to_string()))),
    ];
    render_columns(columns, width, "…")
}

/// `+` marks an unfinished sync.
fn render_name(file: &FileTimes) -> String {
    let path = &file.file;
    let relation = file.relation.as_ref().map(|relation| format!(" ({relation})"));
    let temporary = if file.file.kind == FileKind::Temporary { ", all" } else { "" };
    printable(&format!("{path}{temporary}{}", relation.unwrap_or_default())).into_owned()
}

pub fn render_reduction(reduction: &Reduction) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    format!(
        "the measurement was over the budget of {} after {}: it cost {} of all processors; since then {}",
        percent(reduction.budget),
        render_ns(reduction.after_ns),
        percent(reduction.share),
        render_given_up(reduction)
    )
}

pub fn render_given_up(reduction: &Reduction) -> String {
    let looks = reduction.looks_per_second.unwrap_or_default();
    match reduction.given_up {
        GivenUp::Receives => "commands are no longer counted, and stalls no longer detected".to_owned(),
        GivenUp::Programs => format!(
            "BPF programs no longer run: wait events are read from the processes' memory {}, and times are estimates",
            looks_in_words(looks)
        ),
        GivenUp::Looks => format!("processes are sampled {}", looks_in_words(looks)),
        GivenUp::Questions => "pgthaw queries pg_stat_activity every 2 s".to_owned(),
        GivenUp::NothingLeft => "no cheaper method is left".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_has_its_columns_where_they_were_and_says_what_lasts() {
        use observe::Statistic;
        use observe::time::StatisticName;
        let row = |detail: &str, statistic, open_ns| {
            let name = StatisticName { place: "client backend".into(), part: "Lock".into(), detail: detail.into() };
            let named = NamedStatistic::new(name, statistic);
            TopStatistic { named, share: Some(0.25), open: u32::from(open_ns > 0), open_ns }
        };
        let mut ended = Statistic::of_time(0, 7_000_000);
        ended.count(7_000_000);
        let (lasts, ended) =
            (row("transactionid", Statistic::of_time(0, 1_000_000_000), 3_000_000_000), row("tuple", ended, 0));
        for width in [80, 120] {
            let both = render_top_statistics(&[&lasts, &ended], width, "…");
            let alone = render_top_statistics(&[&ended], width, "…");
            assert_eq!((&both[0], &both[2]), (&alone[0], &alone[1]));
            assert!(both.iter().all(|line| line.chars().count() <= width), "{both:#?}");
            assert!(
                both[1].starts_with("client backend::Lock::transactionid") && both[1].contains(" 3.00 s+"),
                "{both:#?}"
            );
            for title in ["NAME", "COUNT", "TOTAL", "AVERAGE", "MAX", "P99"] {
                assert!(both[0].contains(title), "{width}: {both:#?}");
            }
            assert_eq!(both[0].contains("SHARE"), width == 120);
        }
        let walwriter = TopStatistic { share: None, ..lasts.clone() };
        let shares = |one: &TopStatistic| render_top_statistics(&[one], 120, "…")[1].contains("25.00 %");
        assert_eq!((shares(&lasts), shares(&walwriter)), (true, false));
    }

    #[test]
    fn the_worst_stalls_are_shown_in_their_order() {
        let stall = |begin_ms: i64, length_ns: u64| Stall {
            begin_ms,
            end_ms: None,
            length_ns,
            kind: observe::stall::StallKind::Unexplained,
            sentence: format!("nothing for {length_ns}."),
            least_per_second: 0.0,
            usual_per_second: 1.0,
        };
        let stalls: Vec<Stall> = (0..12).map(|number| stall(number * 1000, 100 - number as u64)).collect();
        let lines = render_stalls(&stalls, None);
        assert_eq!(lines.len(), STALLS_SHOWN + 1);
        assert_eq!(lines[0], "stall: 00:00:00–now UTC: nothing for 100.");
        assert_eq!(lines[STALLS_SHOWN], "2 shorter stalls: --json has them");
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
        assert!(
            told.starts_with("the measurement was over the budget of 2.00 % after 2.00 s: it cost 3.10 %"),
            "{told}"
        );
    }
}
