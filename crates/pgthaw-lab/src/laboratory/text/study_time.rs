use console::measure_text_width;

use crate::verdict::TimedPoint;
use host::units::counted;
use observe::time::TimeFigures;
use terminal::{Column, printable, render_columns, render_ns, wrap_text};

pub fn render_study_time(points: &[TimedPoint], processors: u32, width: Option<usize>) -> String {
    if points.is_empty() {
        return "the study did not measure where its servers' time went: it sets time = false".to_owned();
    }
    let mut lines = Vec::new();
    lines.extend(render_groups(points, groups(points), width));
    lines.push(String::new());
    lines.push("mean number of client backends, by state".to_owned());
    lines.extend(render_groups(points, vec![kinds(points), sums(points, processors)], width));
    lines.push(String::new());
    lines.extend(notes(points, processors).iter().map(|note| wrap_text(&printable(note), width)));
    lines.join("\n")
}

fn render_groups(points: &[TimedPoint], groups: Vec<Vec<Column>>, width: Option<usize>) -> Vec<String> {
    let all: Vec<Column> = keys(points).into_iter().chain(groups.iter().flatten().cloned()).collect();
    let side_by_side = render_columns(all, None, "…");
    let needed = side_by_side.iter().map(|line| measure_text_width(line)).max().unwrap_or(0);
    if width.is_none_or(|width| needed <= width) {
        return side_by_side;
    }
    let render = |group: Vec<Column>| render_columns(keys(points).into_iter().chain(group).collect(), width, "…");
    // An empty line between two groups.
    groups.into_iter().map(render).collect::<Vec<_>>().join(&String::new())
}

fn keys(points: &[TimedPoint]) -> Vec<Column> {
    let users = column(points, "USERS", |one| or_dash(one.clients, |clients| clients.to_string()));
    match points.iter().any(|one| !one.others.is_empty()) {
        true => vec![users, Column::text("POINT", 10, cells(points, |one| printable(&one.others).into_owned()))],
        false => vec![users],
    }
}

fn cells(points: &[TimedPoint], cell: impl Fn(&TimedPoint) -> String) -> Vec<String> {
    points.iter().map(cell).collect()
}

fn column(points: &[TimedPoint], title: &str, cell: impl Fn(&TimedPoint) -> String) -> Column {
    Column::number(title, 0, cells(points, cell))
}

fn or_dash<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), write)
}

fn statistic(points: &[TimedPoint], title: &str, of: impl Fn(&TimedPoint) -> (Option<f64>, f64)) -> Vec<Column> {
    let of = &of;
    let mean = |one: &TimedPoint| match of(one) {
        (Some(count), total) if count >= 1.0 => render_ns((total / count * 1e9) as u64),
        _ => "-".to_owned(),
    };
    vec![
        column(points, title, |one| or_dash(of(one).0, |count| format!("{count:.0}"))),
        column(points, "TOTAL", |one| format!("{:.1} s", of(one).1)),
        column(points, "MEAN", mean),
    ]
}

/// Returns `None` if times were sampled: samples count neither commands nor context switches.
fn if_counted(one: &TimedPoint, number: f64) -> Option<f64> {
    one.time.total.is_exact().then_some(number)
}

fn groups(points: &[TimedPoint]) -> Vec<Vec<Column>> {
    let load = vec![
        column(points, "PER MINUTE", |one| or_dash(one.tps, |tps| format!("{:.0}", 60.0 * tps))),
        column(points, "RESPONSE", |one| or_dash(one.response_us, |us| render_ns((us * 1e3) as u64))),
        column(points, "EXPLAINED", |one| or_dash(one.explained_seconds, |seconds| format!("{seconds:.2} s"))),
        column(points, "OF", |one| format!("{:.2} s", one.time.length_seconds)),
    ];
    vec![
        statistic(points, "UPDATES", |one| (one.time.total.activity_reports, one.time.total.statistics_seconds)),
        statistic(points, "READ", |one| (if_counted(one, one.time.total.commands), one.time.reading_seconds())),
        statistic(points, "HANDLED", |one| (if_counted(one, one.time.total.handled), one.time.total.handled_seconds)),
        statistic(points, "LWLOCK", |one| (Some(one.time.total.lwlock_waits), one.time.total.lwlock_seconds)),
        load,
    ]
}

const KINDS: [&str; 9] = ["RUNNING", "READY", "LWLOCK", "LOCK", "IO", "OTHER", "NO EVENT", "UNKNOWN", "CLIENT"];

fn kinds(points: &[TimedPoint]) -> Vec<Column> {
    let mean = |place: usize| {
        move |one: &TimedPoint| format!("{:.2}", one.time.total.kinds()[place].1 / one.time.length_seconds)
    };
    KINDS.iter().enumerate().map(|(place, title)| column(points, title, mean(place))).collect()
}

fn sums(points: &[TimedPoint], processors: u32) -> Vec<Column> {
    let percent = |ratio: f64| format!("{:.2} %", 100.0 * ratio);
    let range = |one: &TimedPoint| {
        let range = one.time.explained_ratio_min.zip(one.time.explained_ratio_max);
        or_dash(range, |(least, most)| format!("{:.2}–{:.2} %", 100.0 * least, 100.0 * most))
    };
    let cost = |one: &TimedPoint| one.time.total.cost_seconds / (one.time.length_seconds * f64::from(processors));
    let switches = |one: &TimedPoint| if_counted(one, one.time.total.switches / one.time.length_seconds);
    vec![
        column(points, "EXPLAINED", |one| or_dash(one.time.total.explained_ratio, percent)),
        column(points, "PER SECOND", range),
        column(points, "PROCESSORS", |one| format!("{:.2}", one.time.processors_used())),
        column(points, "SWITCHES/S", |one| or_dash(switches(one), |switches| format!("{switches:.0}"))),
        column(points, "COST", |one| percent(cost(one))),
    ]
}

fn notes(points: &[TimedPoint], processors: u32) -> Vec<String> {
    let there = f64::from(processors);
    let most = |of: fn(&TimeFigures) -> f64| points.iter().max_by(|a, b| of(&a.time).total_cmp(&of(&b.time)));
    let mut notes = Vec::new();
    if let Some(one) = most(TimeFigures::processors_used) {
        let used = one.time.processors_used();
        let judged = if used <= 1.02 * there { "plausible" } else { "impossible: the measurement is wrong" };
        let all = counted(processors, "processor");
        notes.push(format!("check: the server used at most {used:.2} of {all}, which is {judged}"));
    }
    let most = most(TimeFigures::processors_if_nothing_else);
    if let Some(one) = most.filter(|one| one.time.processors_if_nothing_else() > there) {
        let is_wait = |(kind, seconds): &(&str, f64)| {
            *seconds > 0.0 && !["on a processor", "LWLock", "the client"].contains(kind)
        };
        let mut waits: Vec<(&str, f64)> = one.time.total.kinds().into_iter().filter(is_wait).collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let told = |(kind, seconds): &(&str, f64)| format!("{kind} {:.1}", seconds / one.time.length_seconds);
        notes.push(format!(
            "on average, {:.1} backends{} handled commands outside LWLock waits, more than the number of processors ({processors}); mean number of backends in other states: {}",
            one.time.processors_if_nothing_else(),
            one.clients.map(|clients| format!(" at {}", counted(clients, "user"))).unwrap_or_default(),
            waits.iter().take(3).map(told).collect::<Vec<_>>().join(", ")
        ));
    }
    let (is_cut_short, is_estimated) =
        (points.iter().any(|one| one.time.is_cut_short), points.iter().any(|one| !one.time.total.is_exact()));
    let more = [(true, UPDATES), (true, READ), (is_cut_short, CUT_SHORT), (is_estimated, ESTIMATED)];
    notes.extend(more.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned()));
    notes
}

const UPDATES: &str = "UPDATES is the number of times that client backends updated pg_stat_activity; the column TOTAL beside it is the time \
                       that client backends waited for locks of the shared statistics; HANDLED includes the processor time of \
                       the updates";

const READ: &str = "READ is the time from the end of one command to the receipt of the next; HANDLED is the time from the receipt of a command to \
                    its end; EXPLAINED (in seconds) is the time per client that both account for: (total of READ + total of \
                    HANDLED) ÷ USERS, the number of clients";

const ESTIMATED: &str = "times from samples are estimates: samples count neither commands nor context switches, and show backends that run \
                         and backends that wait for a processor as one state (docs/waits.md)";

const CUT_SHORT: &str = "some trials have times of their first seconds only, because measuring them used more than 2 % of all processors; with \
                         time = true in the study file, pgthaw measures whole trials";

#[cfg(test)]
mod tests {
    use super::*;
    use observe::time::TimeUse;

    #[test]
    fn what_nobody_counts_is_no_nought() {
        let point = |ready_seconds| {
            let total = TimeUse { ready_seconds, lived_seconds: 10.0, ..TimeUse::default() };
            TimedPoint {
                number: 0,
                clients: Some(1),
                others: String::new(),
                tps: None,
                response_us: None,
                explained_seconds: None,
                time: TimeFigures { length_seconds: 10.0, total, ..TimeFigures::default() },
                reading_seconds: 0.0,
                processors_used: 0.0,
            }
        };
        let cells = |one: TimedPoint| {
            let points = [one];
            let columns = groups(&points).into_iter().flatten().chain(sums(&points, 2));
            let of = |title: &str| columns.clone().find(|column| column.title == title).unwrap().cells[0].clone();
            ["READ", "HANDLED", "SWITCHES/S"].map(of)
        };
        assert_eq!(cells(point(None)), ["-", "-", "-"]);
        assert_eq!(cells(point(Some(0.0))), ["0", "0", "0"]);
    }
}
