//! What processes did, step after step, as stacked columns: a column a step, the newest at the right.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use observe::top::{Activity, Brief};
use terminal::Canvas;

/// A part of the stack: its name, its colour, and what stands for it without colours or beyond ASCII.
struct Part {
    name: &'static str,
    colour: Color,
    glyph: char,
    of: fn(&Activity) -> f64,
}

/// From the bottom. What waits for something is above what works.
const PARTS: [Part; 7] = [
    Part { name: "running", colour: Color::Green, glyph: '#', of: |one| one.running },
    Part { name: "ready", colour: Color::Yellow, glyph: ':', of: |one| one.ready.unwrap_or(0.0) },
    Part { name: "Lock", colour: Color::Red, glyph: '%', of: |one| one.lock },
    Part { name: "LWLock", colour: Color::Magenta, glyph: '@', of: |one| one.lwlock },
    Part { name: "IO", colour: Color::Blue, glyph: '+', of: |one| one.io },
    Part { name: "other", colour: Color::Gray, glyph: '.', of: |one| one.other },
    Part { name: UNSEEN, colour: Color::DarkGray, glyph: '?', of: |one| one.unseen },
];

/// Of whom it is not known what they did.
const UNSEEN: &str = "unseen";

/// Cells of the numbers at the left, and of the line beside them.
const AXIS_CELLS: usize = 7;

/// The lowest top of the axis: half a process is no full column.
const LEAST_TOP: f64 = 1.0;

/// The legend, with how many processes did what in the step that is shown.
pub(super) fn legend(shown: &Activity, canvas: Canvas, width: usize) -> Line<'static> {
    let draw = |digits: usize, is_short: bool| {
        let gap = if is_short { " " } else { "  " };
        let mut spans = vec![Span::raw(if is_short { "" } else { "processes: " })];
        for part in PARTS.iter().filter(|part| part.name != UNSEEN || shown.unseen > 0.0) {
            let is_unseen = part.name == "ready" && shown.ready.is_none();
            let value = if is_unseen { "-".to_owned() } else { format!("{:.digits$}", (part.of)(shown)) };
            spans.push(Span::styled(glyph(part, canvas).to_string(), style(part, canvas)));
            spans.push(Span::raw(format!("{} {value}{gap}", part.name)));
        }
        spans.push(Span::raw(format!("client {:.digits$}", shown.client)));
        if !is_short {
            spans.push(Span::raw(format!("  idle {:.digits$}", shown.idle)));
        }
        Line::from(spans)
    };
    let ways = [(2, false), (1, false), (2, true), (1, true), (0, true)];
    let lines = ways.map(|(digits, is_short)| draw(digits, is_short));
    let last = lines.len() - 1;
    let fits = lines.iter().position(|line| line.width() <= width).unwrap_or(last);
    lines.into_iter().nth(fits).unwrap_or_default()
}

/// So many steps have room.
pub(super) fn columns(width: usize) -> usize {
    width.saturating_sub(AXIS_CELLS)
}

/// The stack of the steps, the last at the right, `height` lines high.
pub(super) fn chart(briefs: &[&Brief], width: usize, height: usize, canvas: Canvas) -> Vec<Line<'static>> {
    let room = columns(width);
    let shown = &briefs[briefs.len().saturating_sub(room)..];
    let top =
        nice(shown.iter().map(|brief| brief.activity.busy()).filter(|busy| busy.is_finite()).fold(LEAST_TOP, f64::max));
    let mut lines = Vec::new();
    for row in (0..height).rev() {
        // Every second line has its number; the highest stands for the whole height.
        let label = match row {
            _ if row + 1 == height => axis_number(top),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        let bar = if canvas.unicode { '│' } else { '|' };
        let mut spans = vec![Span::raw(format!("{label:>5} {bar}")), Span::raw(" ".repeat(room - shown.len()))];
        spans.extend(shown.iter().map(|brief| cell(brief, row, top / height.max(1) as f64, canvas)));
        lines.push(Line::from(spans));
    }
    lines
}

/// One cell: the part that has most of it; the highest one is as high as it reaches.
fn cell(brief: &Brief, row: usize, unit: f64, canvas: Canvas) -> Span<'static> {
    if brief.is_gap {
        return Span::raw(if row == 0 { "x" } else { " " });
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
            // What there is hardly any of is seen all the same.
            let glyph = match canvas.unicode && canvas.colours {
                true => ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][eighths.clamp(1, 8) - 1],
                false if eighths >= 4 || row == 0 => part.glyph,
                false => ' ',
            };
            Span::styled(glyph.to_string(), style(part, canvas))
        }
        _ => Span::raw(" "),
    }
}

fn glyph(part: &Part, canvas: Canvas) -> char {
    if canvas.unicode && canvas.colours { '█' } else { part.glyph }
}

fn style(part: &Part, canvas: Canvas) -> Style {
    if canvas.colours { Style::new().fg(part.colour) } else { Style::new() }
}

/// The next of 1, 1.5, 2, 3, 5, 7, 10 and so on: the axis does not change with every step.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| *step >= value).unwrap_or(value)
}

fn axis_number(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Canvas = Canvas { width: None, height: None, colours: false, unicode: true };
    const COLOURED: Canvas = Canvas { colours: true, ..PLAIN };

    fn brief(running: f64, lock: f64) -> Brief {
        let activity = Activity { running, ready: Some(0.0), lock, client: 50.0, ..Activity::default() };
        Brief { at_ms: 0, length_ns: 1, activity, is_gap: false }
    }

    fn texts(briefs: &[Brief], width: usize, height: usize, canvas: Canvas) -> Vec<String> {
        let briefs: Vec<&Brief> = briefs.iter().collect();
        chart(&briefs, width, height, canvas).iter().map(ToString::to_string).collect()
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
            assert!(line.width() <= width, "{line}");
            for part in ["running 1.5", "ready -", "Lock 0", "LWLock 0", "IO 0", "other 0", "client 51"] {
                assert!(line.to_string().contains(part), "{part}: {line}");
            }
        }
    }
}
