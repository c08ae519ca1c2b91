use console::{Color, Style, measure_text_width, truncate_str};

use super::facts::{LABEL_CELLS, facts_of, help_lines, missing_line, told};
use super::state::{Kind, LiveTop};
use crate::waits::culprit_text::render_blocker;
use crate::waits::time_text::render_top_statistics;
use observe::stall::local_time;
use observe::top::{Activity, Brief};
use terminal::{Canvas, printable, shorten_middle, wrap_text};

const CHART_LINES: usize = 5;
const NAME_LINES: usize = 4;

const STALL_LINES: usize = 3;

/// The server's name is shortened to this width before other parts of the line are dropped.
const SUBJECT_CELLS: usize = 36;

const KEYS: [&str; 3] = [
    "q quit  ? help  l locks  s sort  i idle  p pause  ←→ step  PgUp PgDn  End now",
    "q quit  ? help  l locks  s sort  i idle  p pause  ←→ PgUp PgDn End",
    "q quit ? help l locks s sort i idle p pause",
];
const KEYS_OF_RECORD: [&str; 3] = [
    "q quit  ? help  l locks  s sort  i idle  p stop, resume  f faster  ←→ step  PgUp PgDn minute",
    "q quit  ? help  l locks  s sort  i idle  p stop  f faster  ←→ step",
    "q quit ? help l locks s sort i idle p stop f faster",
];

pub fn draw_top(live: &mut LiveTop, canvas: Canvas) -> Vec<String> {
    let (width, height) = (canvas.width.unwrap_or_default(), canvas.height.unwrap_or_default());
    let keys = if live.is_help { "Esc, ? close  ↑↓ scroll  q quit" } else { key_line(live, width, canvas) };
    let mut lines = match live.is_help {
        true => {
            let lines = help_lines(&live.shown, live.kind, canvas.unicode, width);
            live.scroll(height.saturating_sub(1), lines.len());
            lines.into_iter().skip(live.first).collect()
        }
        false => step_lines(live, width, height, canvas),
    };
    lines.resize(height.saturating_sub(1), String::new());
    let keys = if canvas.unicode { keys.to_owned() } else { keys.replace("←→", "<- ->").replace("↑↓", "k j") };
    lines.push(painted(Style::new().reverse(), &format!("{keys:<width$}")));
    lines.iter().map(|line| truncate_str(line, width, "").into_owned()).collect()
}

fn step_lines(live: &mut LiveTop, width: usize, height: usize, canvas: Canvas) -> Vec<String> {
    let mut lines = vec![status_line(live, width, canvas)];
    // Reserves lines for names, titles and keys.
    let most = height.saturating_sub(lines.len() + NAME_LINES + 2);
    lines.extend(fact_lines(live, width, most, canvas));
    // Splits the remaining lines evenly between chart and names, with minimums for both.
    let room = height.saturating_sub(lines.len() + 1);
    if room >= CHART_LINES + NAME_LINES + 2 && !live.with_locks {
        let chart_lines = ((room - 2) / 2).clamp(CHART_LINES, (room - 2 - NAME_LINES).max(CHART_LINES)).min(16);
        let end = live.place() + 1;
        let briefs: Vec<&Brief> =
            live.history.briefs(end.saturating_sub(width.saturating_sub(AXIS_CELLS)), end).collect();
        lines.extend(chart(&briefs, width, chart_lines, canvas));
        lines.push(legend(&live.shown.activity, canvas, width));
    }
    let room = height.saturating_sub(lines.len() + 1);
    let below = if live.with_locks { lock_lines } else { name_lines };
    lines.extend(below(live, width, room, canvas));
    lines
}

/// Applies the style even if colours are disabled: bold text needs none.
fn painted(style: Style, text: &str) -> String {
    style.force_styling(true).apply_to(text).to_string()
}

fn coloured(colour: Color, text: &str, canvas: Canvas) -> String {
    if canvas.colours { painted(Style::new().fg(colour), text) } else { text.to_owned() }
}

/// `pgthaw top  /tmp:5432  14:03:10  by TOTAL  recorded to x`
fn status_line(live: &LiveTop, width: usize, canvas: Canvas) -> String {
    let mut parts = vec![local_time(live.shown.at_ms).strftime("%T").to_string()];
    match live.kind {
        Kind::Live if live.is_back() => parts.push("LOOKING BACK, End: now".to_owned()),
        Kind::Live => {}
        Kind::Record => {
            let state = if live.delay().is_some() { format!("{}x", live.speed()) } else { "stopped".to_owned() };
            parts.push(format!("step {} of {}, {state}", live.place() + 1, live.history.len()));
        }
    }
    parts.push(format!("by {}", live.order()));
    let subject = printable(&live.title.subject);
    let room = |parts: &[String]| {
        let rest: usize = parts.iter().map(|part| part.chars().count() + 2).sum();
        width.saturating_sub(rest + "pgthaw top  ".len())
    };
    for text in &live.title.beside {
        let more = [&parts[..], &[printable(text).into_owned()]].concat();
        if room(&more) >= subject.chars().count().min(SUBJECT_CELLS) {
            parts = more;
        }
    }
    let subject = shorten_middle(&subject, room(&parts), canvas.mark());
    painted(Style::new().bold(), &format!("pgthaw top  {subject}  {}", parts.join("  ")))
}

/// At most `most` lines, but always the failure and the throughput.
fn fact_lines(live: &LiveTop, width: usize, most: usize, canvas: Canvas) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(failure) = &live.shown.failure {
        let text = format!("no server: {}", printable(failure));
        lines.push(coloured(Color::Red, &shorten_middle(&text, width, canvas.mark()), canvas));
    }
    let least = lines.len() + 1;
    let room = width.saturating_sub(LABEL_CELLS);
    for fact in facts_of(&live.shown, live.server_at_ms, room, canvas.mark()) {
        let label = format!("{:<LABEL_CELLS$}", fact.label);
        lines.push(coloured(Color::Cyan, &label, canvas) + &fact.text(room));
    }
    let stall = live.shown.stalls.last().map(|stall| told(&format!("stall: {stall}"), canvas.unicode));
    let stall = stall.map(|text| cut_lines(&text, width, canvas)).unwrap_or_default();
    lines.truncate(most.saturating_sub(stall.len()).max(least));
    lines.extend(stall.into_iter().map(|line| coloured(Color::Red, &line, canvas)));
    let missing = missing_line(&live.shown);
    lines.extend(missing.map(|text| painted(Style::new().dim(), &truncate_str(&text, width, canvas.mark()))));
    lines.truncate(most.max(least));
    lines
}

fn cut_lines(text: &str, width: usize, canvas: Canvas) -> Vec<String> {
    let wrapped = wrap_text(text, Some(width));
    let mut lines: Vec<String> = wrapped.lines().map(str::to_owned).collect();
    if lines.len() > STALL_LINES {
        lines.truncate(STALL_LINES);
        let more = format!("{} (?)", canvas.mark());
        if let Some(last) = lines.last_mut() {
            *last = truncate_str(last, width.saturating_sub(measure_text_width(&more)), "").into_owned() + &more;
        }
    }
    lines
}

fn name_lines(live: &mut LiveTop, width: usize, room: usize, canvas: Canvas) -> Vec<String> {
    let fitting = room.saturating_sub(1);
    let count = live.rows().len();
    live.scroll(fitting, count);
    let rows = live.rows();
    let shown = &rows[live.first.min(count)..(live.first + fitting).min(count)];
    let mut lines = render_top_statistics(shown, width, canvas.mark());
    if let Some(titles) = lines.first_mut() {
        *titles = painted(Style::new().underlined(), titles);
    }
    lines
}

fn lock_lines(live: &mut LiveTop, width: usize, room: usize, canvas: Canvas) -> Vec<String> {
    let of_root = |root| render_blocker(root, Some(width), canvas.mark());
    let mut lines: Vec<String> =
        live.shown.blockers.iter().flat_map(of_root).map(|line| told(&line, canvas.unicode)).collect();
    if lines.is_empty() {
        lines.push("no session waits for a lock or is idle in a transaction".to_owned());
    }
    let fitting = room.saturating_sub(1);
    live.scroll(fitting, lines.len());
    let titles = painted(Style::new().underlined(), &format!("{:<width$}", "WHO BLOCKS WHOM  (l: back to the table)"));
    [titles].into_iter().chain(lines.into_iter().skip(live.first).take(fitting)).collect()
}

fn key_line(live: &LiveTop, width: usize, canvas: Canvas) -> &'static str {
    let ways = if live.kind == Kind::Live { KEYS } else { KEYS_OF_RECORD };
    // Arrows take 3 cells more in ASCII.
    let longer = if canvas.unicode { 0 } else { 3 };
    let fits = ways.iter().find(|way| way.chars().count() + longer <= width);
    fits.unwrap_or(&ways[ways.len() - 1])
}

struct Part {
    name: &'static str,
    colour: Color,
    glyph: char,
    of: fn(&Activity) -> f64,
}

const PARTS: [Part; 7] = [
    Part { name: "running", colour: Color::Green, glyph: '#', of: |one| one.running },
    Part { name: "ready", colour: Color::Yellow, glyph: ':', of: |one| one.ready.unwrap_or(0.0) },
    Part { name: "Lock", colour: Color::Red, glyph: '%', of: |one| one.lock },
    Part { name: "LWLock", colour: Color::Magenta, glyph: '@', of: |one| one.lwlock },
    Part { name: "IO", colour: Color::Blue, glyph: '+', of: |one| one.io },
    Part { name: "other", colour: Color::White, glyph: '.', of: |one| one.other },
    Part { name: UNSEEN, colour: Color::Color256(8), glyph: '?', of: |one| one.unseen },
];

const UNSEEN: &str = "unseen";

const AXIS_CELLS: usize = 7;

/// Minimum scale of the axis, in processes.
const LEAST_TOP: f64 = 1.0;

fn legend(shown: &Activity, canvas: Canvas, width: usize) -> String {
    let draw = |digits: usize, is_short: bool| {
        let gap = if is_short { " " } else { "  " };
        let mut line = if is_short { String::new() } else { "processes: ".to_owned() };
        for part in PARTS.iter().filter(|part| part.name != UNSEEN || shown.unseen > 0.0) {
            let is_unseen = part.name == "ready" && shown.ready.is_none();
            let value = if is_unseen { "-".to_owned() } else { format!("{:.digits$}", (part.of)(shown)) };
            let glyph = if canvas.unicode && canvas.colours { '█' } else { part.glyph };
            line +=
                &format!("{}{} {value}{gap}", coloured(part.colour, glyph.encode_utf8(&mut [0; 4]), canvas), part.name);
        }
        line += &format!("client {:.digits$}", shown.client);
        if is_short { line } else { format!("{line}  idle {:.digits$}", shown.idle) }
    };
    let ways = [(2, false), (1, false), (2, true), (1, true)];
    let mut lines = ways.iter().map(|(digits, is_short)| draw(*digits, *is_short));
    lines.find(|line| measure_text_width(line) <= width).unwrap_or_else(|| draw(0, true))
}

fn chart(briefs: &[&Brief], width: usize, height: usize, canvas: Canvas) -> Vec<String> {
    let room = width.saturating_sub(AXIS_CELLS);
    let shown = &briefs[briefs.len().saturating_sub(room)..];
    let top =
        nice(shown.iter().map(|brief| brief.activity.busy()).filter(|busy| busy.is_finite()).fold(LEAST_TOP, f64::max));
    let mut lines = Vec::new();
    for row in (0..height).rev() {
        let label = match row {
            _ if row + 1 == height && top < 10.0 => format!("{top:.1}"),
            _ if row + 1 == height => format!("{top:.0}"),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        let bar = if canvas.unicode { '│' } else { '|' };
        let cells = shown.iter().map(|brief| cell(brief, row, top / height.max(1) as f64, canvas));
        let empty = room - shown.len();
        lines.push(format!("{label:>5} {bar}{:empty$}{}", "", cells.collect::<String>()));
    }
    lines
}

/// Draws the kind of activity that fills most of the cell. A column's top cell may be partly filled.
fn cell(brief: &Brief, row: usize, unit: f64, canvas: Canvas) -> String {
    if brief.is_gap {
        return if row == 0 { "x" } else { " " }.to_owned();
    }
    let (floor, ceiling) = (row as f64 * unit, (row + 1) as f64 * unit);
    let mut below = 0.0;
    let mut most: Option<(f64, &Part)> = None;
    for part in &PARTS {
        let value = (part.of)(&brief.activity).max(0.0);
        let share = (below + value).min(ceiling) - below.max(floor);
        if share > 0.0 && most.is_none_or(|(least, _)| share > least) {
            most = Some((share, part));
        }
        below += value;
    }
    let filled = ((below.min(ceiling) - floor) / unit).clamp(0.0, 1.0);
    let eighths = (filled * 8.0).round() as usize;
    match most {
        Some((_, part)) if eighths > 0 || row == 0 => {
            // Small values must stay visible.
            let glyph = match canvas.unicode && canvas.colours {
                true => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.clamp(1, 8) - 1],
                false if eighths >= 4 || row == 0 => part.glyph,
                false => ' ',
            };
            coloured(part.colour, glyph.encode_utf8(&mut [0; 4]), canvas)
        }
        _ => " ".to_owned(),
    }
}

/// Rounds up to 1, 1.5, 2, 3, 5, 7, 10 ...: keeps the axis stable.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use console::strip_ansi_codes;

    use super::super::fixture::{blocker, frame, spilled};
    use super::super::state::Title;
    use super::*;
    use observe::stall::{Stall, StallKind};
    use observe::top::{History, TopFrame};
    use terminal::Key;

    const PLAIN: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };

    fn live() -> LiveTop {
        let title = Title { subject: "/tmp:5432".into(), beside: Vec::new() };
        let mut live = LiveTop::new(title, Kind::Live, History::live());
        (0..100).for_each(|second| live.take(&frame(second)));
        live
    }

    fn screen_of(live: &mut LiveTop, width: usize, height: usize, canvas: Canvas) -> Vec<String> {
        let lines = draw_top(live, Canvas { width: Some(width), height: Some(height), ..canvas });
        assert!(lines.iter().all(|line| measure_text_width(line) <= width), "{lines:#?}");
        lines.iter().map(|line| strip_ansi_codes(line).trim_end().to_owned()).collect()
    }

    fn screen(live: &mut LiveTop, width: usize, height: usize) -> Vec<String> {
        screen_of(live, width, height, PLAIN)
    }

    #[test]
    fn all_of_it_is_there_at_80_by_24_and_at_200_by_50() {
        for (width, height, names) in [(80, 24, 3), (200, 50, 3), (80, 40, 3), (200, 24, 3)] {
            let mut live = live();
            let lines = screen(&mut live, width, height);
            let text = lines.join("\n");
            for part in [
                "pgthaw top  /tmp:5432",
                "2413 tps (10 s)",
                "16,893 commands/s",
                "420 µs each",
                "shared_buffers 98.2 %",
                "page cache 71.0 %",
                "1203 reads/s",
                "busy 87 %",
                "writing for 12.0 s",
                "dirty 123 MB",
                "costs 0.60 %",
                "bpf: everything counted",
                "lost 0",
                "not visible (? shows why): waits without sleep",
                "running 1.6",
                "LWLock 0.5",
                "client 9.5",
                "NAME",
                "AVERAGE",
                "P99",
                "3.00 s+",
            ] {
                assert!(text.contains(part), "{width}x{height}: {part}\n{text}");
            }
            assert!(lines.last().unwrap().starts_with("q quit  ? help"), "{text}");
            let shown = lines.iter().filter(|line| !line.starts_with(' ') && line.contains("::")).count();
            assert_eq!(shown, names, "{width}x{height}\n{text}");
            let columns = lines.iter().filter(|line| line.contains(" │")).count();
            assert!(columns >= CHART_LINES, "{text}");
        }
    }

    #[test]
    fn what_happens_beside_is_told_where_there_is_room() {
        let mut live = live();
        live.title.subject = "PostgreSQL 15.18 at /var/run/postgresql:5432".into();
        live.title.beside =
            vec!["every 1 s".into(), "to /var/tmp/record.gz".into(), "http://127.0.0.1:9187/metrics".into()];
        let (narrow, wide) = (screen(&mut live, 80, 24)[0].clone(), screen(&mut live, 200, 50)[0].clone());
        assert!(narrow.contains("PostgreSQL 15.18") && narrow.contains("every 1 s"), "{narrow}");
        assert!(
            wide.contains(":5432") && wide.ends_with("to /var/tmp/record.gz  http://127.0.0.1:9187/metrics"),
            "{wide}"
        );
    }

    #[test]
    fn who_looks_back_sees_that_he_does() {
        let mut live = live();
        live.press(Key::PageUp);
        let text = screen(&mut live, 80, 24).join("\n");
        assert!(text.contains("LOOKING BACK, End: now"), "{text}");
        live.press(Key::End);
        assert!(!screen(&mut live, 80, 24).join("\n").contains("LOOKING BACK"));
    }

    #[test]
    fn a_server_that_is_gone_is_told() {
        let mut live = live();
        let failure = Some("the server is shutting down".to_owned());
        live.take(&TopFrame { at_ms: 100_000, length_ns: 1, failure, ..TopFrame::default() });
        let text = screen(&mut live, 80, 24).join("\n");
        assert!(text.contains("no server: the server is shutting down"), "{text}");
        assert!(text.lines().any(|line| line.contains("0 │") && line.ends_with('x')), "{text}");
    }

    #[test]
    fn the_latest_stall_is_told_in_its_sentence() {
        let stall = |begin_ms: i64, end_ms, sentence: &str| Stall {
            begin_ms,
            end_ms,
            length_ns: 3_000_000_000,
            kind: StallKind::Lock,
            sentence: sentence.to_owned(),
            least_per_second: 0.0,
            usual_per_second: 5000.0,
        };
        let stalls = vec![
            stall(90_000, Some(93_000), "no command for 3.0 s."),
            stall(97_000, None, "no command for 3.0 s: a client backend that is idle in transaction holds a lock."),
        ];
        let mut live = live();
        live.take(&TopFrame { stalls, ..frame(100) });
        let lines = screen(&mut live, 80, 24);
        let at = lines.iter().position(|line| line.starts_with("stall: 00:01:37–now UTC: no command for 3.0 s"));
        assert!(at.is_some_and(|at| lines[at + 1].ends_with("holds a lock.")), "{lines:#?}");
        assert_eq!(lines.iter().filter(|line| line.starts_with("stall:")).count(), 1, "{lines:#?}");
        let ascii = screen_of(&mut live, 80, 24, Canvas { unicode: false, ..PLAIN }).join("\n");
        assert!(ascii.contains("stall: 00:01:37-now UTC"), "{ascii}");
        let long = format!("no command for 3.0 s: {}the end.", "somebody waits for somebody. ".repeat(20));
        live.take(&TopFrame { stalls: vec![stall(97_000, None, &long)], ..frame(101) });
        let lines = screen(&mut live, 80, 24);
        assert!(lines.iter().any(|line| line.ends_with("… (?)")), "{lines:#?}");
        live.press(Key::Char('?'));
        (0..99).for_each(|_| _ = live.press(Key::ArrowDown));
        assert!(screen(&mut live, 80, 60).join(" ").contains("the end."), "the help has all of it");
    }

    #[test]
    fn the_holder_of_a_lock_stands_on_the_screen_and_a_key_shows_the_tree() {
        let mut live = live();
        assert!(!screen(&mut live, 80, 24).join("\n").contains("locks      "), "nobody waits");
        live.take(&TopFrame { blockers: vec![blocker()], temporary_files: vec![spilled()], ..frame(100) });
        let text = screen(&mut live, 80, 24).join("\n");
        let told = "locks      2 wait for 4711 app@shop psql  idle in tx for 12.3 s  holds accounts\n";
        assert!(text.contains(told) && text.contains("temp files 312 MB of 4799 app@shop"), "{text}");
        let text = screen(&mut live, 100, 24).join("\n");
        assert!(text.contains("psql  idle in transaction for 12.3 s  holds accounts  (l)\n"), "{text}");
        let mut longer = blocker();
        longer.process.session.application_name = Some("a batch of the accounting department".into());
        live.take(&TopFrame { blockers: vec![longer], ..frame(101) });
        let text = screen(&mut live, 80, 24).join("\n");
        assert!(text.contains("4711 app@shop a ba…  idle in tx for 12.3 s  holds accounts\n"), "{text}");
        live.take(&TopFrame { blockers: vec![blocker()], ..frame(102) });
        live.press(Key::Char('l'));
        for (width, height, canvas) in [(80, 24, PLAIN), (200, 50, PLAIN), (80, 24, Canvas { unicode: false, ..PLAIN })]
        {
            let text = screen_of(&mut live, width, height, canvas).join("\n").replace('µ', "u");
            for part in
                ["WHO BLOCKS WHOM", "idle in transaction for 12.3 s, holds accounts", "last query: update", "4712 app"]
            {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(canvas.unicode || text.is_ascii(), "{text}");
        }
        assert!(!live.press(Key::Escape) && screen(&mut live, 80, 24).iter().any(|line| line.starts_with("NAME")));
        live.take(&frame(103));
        live.press(Key::Char('l'));
        assert!(screen(&mut live, 80, 24).join("\n").contains("no session waits for a lock"));
    }

    #[test]
    fn help_scrolls_and_is_left() {
        let mut live = live();
        live.press(Key::Char('?'));
        let first = screen(&mut live, 80, 24);
        assert!(first[0].contains("one step back") && first[23].contains("close"), "{first:#?}");
        (0..99).for_each(|_| _ = live.press(Key::ArrowDown));
        let last = screen(&mut live, 80, 24);
        assert!(last[20..23].iter().any(|line| line.starts_with("lost")), "{last:#?}");
        live.press(Key::Escape);
        assert!(screen(&mut live, 80, 24)[0].starts_with("pgthaw top"));
    }

    #[test]
    fn without_unicode_all_is_ascii() {
        let ascii = Canvas { unicode: false, ..PLAIN };
        let mut live = live();
        for help in [false, true] {
            live.is_help = help;
            let text = screen_of(&mut live, 80, 24, ascii).join("\n").replace('µ', "u");
            assert!(text.is_ascii(), "{text}");
        }
    }

    #[test]
    fn a_step_of_anybody_is_drawn() {
        fn leaves(value: &serde_json::Value, path: &str, found: &mut Vec<String>) {
            match value {
                serde_json::Value::Number(_) => found.push(path.to_owned()),
                serde_json::Value::Array(all) => {
                    all.iter().enumerate().for_each(|(at, one)| leaves(one, &format!("{path}/{at}"), found));
                }
                serde_json::Value::Object(all) => {
                    all.iter().for_each(|(name, one)| leaves(one, &format!("{path}/{name}"), found));
                }
                _ => {}
            }
        }
        let step = serde_json::to_value(frame(1)).unwrap();
        let mut paths = Vec::new();
        leaves(&step, "", &mut paths);
        paths.retain(|path| !path.contains("/histogram/") || path.ends_with("/histogram/3"));
        let extremes =
            [u64::MAX.into(), i64::MIN.into(), serde_json::json!(1e308), serde_json::json!(-1e308), 0.into()];
        let mut drawn = 0;
        for (path, extreme) in paths.iter().flat_map(|path| extremes.iter().map(move |extreme| (path, extreme))) {
            let mut edited = step.clone();
            *edited.pointer_mut(path).unwrap() = extreme.clone();
            let Ok(edited) = serde_json::from_value::<TopFrame>(edited) else { continue };
            let mut history = History::of_record();
            [&frame(0), &edited, &frame(2)].into_iter().for_each(|step| history.push(step));
            let mut live = LiveTop::new(Title::default(), Kind::Record, history);
            live.press(Key::ArrowRight);
            screen(&mut live, 80, 24);
            screen(&mut live, 200, 50);
            drawn += 1;
        }
        assert!(drawn > 200, "{drawn}");
    }

    #[test]
    fn a_small_screen_has_the_throughput_and_the_first_names() {
        let mut live = live();
        let lines = screen(&mut live, 40, 10);
        assert!(lines[1].starts_with("throughput 2413 tps (10 s)"), "{lines:#?}");
        let names = |lines: &[String]| lines.iter().filter(|line| line.contains("::")).count();
        assert!(lines.iter().any(|line| line.starts_with("NAME")) && names(&lines) == 3, "{lines:#?}");
        assert!(lines[9].starts_with("q quit ? help"), "{lines:#?}");
        let stall = Stall {
            begin_ms: 97_000,
            end_ms: None,
            length_ns: 3_000_000_000,
            kind: StallKind::Lock,
            sentence: "no command for 3.0 s: somebody waits for somebody, and another one for him.".into(),
            least_per_second: 0.0,
            usual_per_second: 5000.0,
        };
        live.take(&TopFrame { stalls: vec![stall], ..frame(100) });
        let lines = screen(&mut live, 40, 10);
        assert!(lines[1].contains("2413 tps") && lines[2].starts_with("stall:"), "{lines:#?}");
        assert_eq!(names(&lines), 3, "{lines:#?}");
        assert!(screen(&mut live, 80, 24).iter().any(|line| line.starts_with("not visible")));
        assert!(screen(&mut live, 40, 5)[1].contains("2413 tps"));
    }

    #[test]
    fn no_size_is_too_small_to_draw() {
        let mut live = live();
        for (width, height) in [(1, 1), (20, 5), (40, 10), (60, 20), (200, 60), (80, 3)] {
            let lines = screen(&mut live, width, height);
            assert_eq!(lines.len(), height);
        }
    }

    const COLOURED: Canvas = Canvas { colours: true, ..PLAIN };

    fn brief(running: f64, lock: f64) -> Brief {
        let activity = Activity { running, ready: Some(0.0), lock, client: 50.0, ..Activity::default() };
        Brief { at_ms: 0, length_ns: 1, activity, is_gap: false }
    }

    fn texts(briefs: &[Brief], width: usize, height: usize, canvas: Canvas) -> Vec<String> {
        let briefs: Vec<&Brief> = briefs.iter().collect();
        let lines = chart(&briefs, width, height, canvas);
        lines.iter().map(|line| strip_ansi_codes(line).into_owned()).collect()
    }

    #[test]
    fn parts_are_stacked_and_the_newest_is_at_the_right() {
        let briefs = [brief(1.0, 0.0), brief(2.0, 1.0), Brief { is_gap: true, ..brief(0.0, 0.0) }, brief(0.5, 0.0)];
        assert_eq!(texts(&briefs, 12, 3, PLAIN), ["  3.0 │  %  ", "      │  #  ", "    0 │ ##x#"]);
        assert_eq!(texts(&briefs, 9, 3, PLAIN), ["  1.0 │  ", "      │ #", "    0 │x#"].map(|line| line.to_owned()));
        let drawn = texts(&briefs, 12, 3, COLOURED);
        assert_eq!(drawn[2], "    0 │ ██x▄");
    }

    #[test]
    fn the_axis_is_steady() {
        assert_eq!([1.0, 1.2, 4.2, 11.0, 71.0, 99.0].map(nice), [1.0, 1.5, 5.0, 15.0, 100.0, 100.0]);
    }

    #[test]
    fn the_legend_fits_and_has_every_part() {
        let activity = Activity { running: 1.5, client: 51.25, ..Activity::default() };
        for width in [80, 120] {
            let line = legend(&activity, PLAIN, width);
            assert!(measure_text_width(&line) <= width, "{line}");
            for part in ["running 1.5", "ready -", "Lock 0", "LWLock 0", "IO 0", "other 0", "client 51"] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    }
}
