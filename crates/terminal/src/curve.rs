use super::screen::Canvas;

const HEIGHT: usize = 10;

const WIDTH: usize = 76;
const WIDEST: usize = 110;

const MARGIN: usize = 7;

/// Points by time in seconds; both axes start at 0.
#[derive(Clone, Debug)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Characters that draw the curves, in Unicode and in ASCII. Later curves cover earlier ones.
const MARKS: [(char, char); 4] = [('•', '*'), ('─', '-'), ('×', 'x'), ('+', '+')];

/// `seconds`: length of the time axis.
pub fn render_curves(curves: &[Curve], seconds: f64, unit: &str, canvas: Canvas) -> Vec<String> {
    let width = canvas.width.unwrap_or(WIDTH + MARGIN).min(WIDEST + MARGIN).saturating_sub(MARGIN).max(20);
    let highest = curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value).fold(0.0, f64::max);
    let mut grid = vec![vec![' '; width]; HEIGHT];
    for (curve, mark) in curves.iter().zip(marks(canvas).cycle()) {
        for (column, value) in column_means(&curve.points, seconds, width).into_iter().enumerate() {
            let Some(value) = value.filter(|_| highest > 0.0) else { continue };
            let row = ((value / highest) * (HEIGHT - 1) as f64).round().clamp(0.0, (HEIGHT - 1) as f64) as usize;
            grid[HEIGHT - 1 - row][column] = mark;
        }
    }
    let (axis, corner, floor) = if canvas.unicode { ('│', '└', "─") } else { ('|', '+', "-") };
    let mut lines = vec![format!("{unit:>5}")];
    for (row, cells) in grid.iter().enumerate() {
        let value = highest * (HEIGHT - 1 - row) as f64 / (HEIGHT - 1) as f64;
        let label = if row % 3 == 0 { render_short(value) } else { String::new() };
        lines.push(format!("{label:>5} {axis}{}", cells.iter().collect::<String>().trim_end()));
    }
    lines.push(format!("{:>5} {corner}{}", "", floor.repeat(width)));
    lines.push(render_time_axis(seconds, width));
    if curves.len() > 1 {
        let names = curves.iter().zip(marks(canvas).cycle()).map(|(curve, mark)| format!("{mark} {}", curve.name));
        lines.push(format!("{:MARGIN$}{}", "", names.collect::<Vec<_>>().join("   ")));
    }
    lines
}

fn marks(canvas: Canvas) -> impl Iterator<Item = char> + Clone {
    MARKS.into_iter().map(move |(unicode, ascii)| if canvas.unicode { unicode } else { ascii })
}

/// Mean of each column's points, interpolated linearly across gaps.
fn column_means(points: &[(f64, f64)], seconds: f64, width: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_u32); width];
    for (time, value) in points {
        let column = (time / seconds * width as f64) as usize;
        if let Some((sum, count)) = sums.get_mut(column) {
            *sum += value;
            *count += 1;
        }
    }
    let between = |column: usize| {
        let time = (column as f64 + 0.5) * seconds / width as f64;
        let next = points.iter().position(|(at, _)| *at > time).filter(|next| *next > 0)?;
        let ((t0, v0), (t1, v1)) = (points[next - 1], points[next]);
        Some(v0 + (v1 - v0) * (time - t0) / (t1 - t0))
    };
    let mean = |(column, (sum, count)): (usize, (f64, u32))| match count {
        0 => between(column),
        count => Some(sum / f64::from(count)),
    };
    sums.into_iter().enumerate().map(mean).collect()
}

fn render_time_axis(seconds: f64, width: usize) -> String {
    let middle = render_seconds(seconds / 2.0);
    let end = render_seconds(seconds);
    let gap = (width / 2).saturating_sub(1 + middle.len() / 2);
    let rest = width.saturating_sub(1 + gap + middle.len() + end.len());
    format!("{:MARGIN$}0{:gap$}{middle}{:rest$}{end}", "", "", "")
}

/// At most five cells: `4545`, `45.5k`.
pub fn render_short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        ..9.95 => format!("{value:.1}"),
        ..9999.5 => format!("{value:.0}"),
        ..99_950.0 => format!("{:.1}k", value / 1e3),
        ..999_500.0 => format!("{:.0}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

pub fn render_seconds(seconds: f64) -> String {
    match seconds {
        ..9.95 => format!("{seconds:.1} s"),
        ..599.5 => format!("{seconds:.0} s"),
        ..10_800.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASCII: Canvas = Canvas { width: Some(60), height: None, colours: false, unicode: false };

    #[test]
    fn a_rise_goes_from_bottom_left_to_top_right() {
        let points = (0..=100).map(|second| (f64::from(second), f64::from(second) * 10.0)).collect();
        let lines = render_curves(&[Curve { name: "a".into(), points }], 100.0, "tps", ASCII);
        assert_eq!(lines.len(), HEIGHT + 3);
        assert!(lines[1].ends_with('*') && lines[1].starts_with(" 1000 |"), "{lines:#?}");
        assert!(lines[HEIGHT].starts_with("    0 |*"), "{lines:#?}");
        assert!(lines[HEIGHT + 2].ends_with("100 s"), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{lines:#?}");
    }

    #[test]
    fn several_curves_have_a_legend_and_few_points_make_a_line() {
        let flat = |value: f64| vec![(0.0, value), (100.0, value)];
        let curves =
            [Curve { name: "one".into(), points: flat(5.0) }, Curve { name: "two".into(), points: flat(10.0) }];
        let lines = render_curves(&curves, 100.0, "tps", ASCII);
        assert!(lines[1].matches('-').count() > 45, "{lines:#?}");
        assert!(lines[HEIGHT + 3].ends_with("* one   - two"), "{lines:#?}");
        assert!(render_curves(&[], 10.0, "tps", ASCII).len() > HEIGHT);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 4.25, 941.7, 4545.0, 45_450.0, 454_500.0, 4.5e6].map(render_short);
        assert_eq!(texts, ["0", "4.2", "942", "4545", "45.5k", "454k", "4.5M"]);
        let texts = [0.25, 53.0, 942.0, 20_000.0].map(render_seconds);
        assert_eq!(texts, ["0.2 s", "53 s", "15.7 min", "5.6 h"]);
    }
}
