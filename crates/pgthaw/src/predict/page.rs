//! The page of a forecast: a drawing, a table and the numbers, without any script.

use std::fmt::Write as _;

use command::document::{Error, class_of, escape_text, render_document};
use model::{Outlook, Span, show_computed};

/// The drawing's size in its own units, and the room for the axes' numbers.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 12.0;

/// Lines of the grid, above the axis.
const GRID: u32 = 4;

/// The time axis goes a little beyond what is slowest to reach 95 %.
const BEYOND: f64 = 1.15;

/// The forecast as one HTML document. Whatever names it holds, they stay text.
pub fn render_forecast(outlooks: &[Outlook], assumptions: &[String]) -> Result<String, Error> {
    let json = serde_json::to_string(&serde_json::json!({
        "format": 1, "assumptions": assumptions, "scenarios": outlooks,
    }))?;
    let notes: String = assumptions.iter().fold(String::new(), |mut notes, one| {
        // Writing into a string does not fail.
        let _ = write!(notes, "<li>{}</li>", escape_text(one));
        notes
    });
    let (drawing, table) = (render_drawing(outlooks), render_table(outlooks));
    let body = format!(
        r#"<h1>Forecast of a warm-up</h1>
<p>Transactions per second over the seconds since the start.</p>
<div class="drawing">{drawing}</div>
<div class="table">{table}</div>
<p>In brackets: device and processor 15 % faster or slower than told. Warm: fewer than 1 % of transactions read from the
device.</p>
<h2>Assumed</h2>
<ul>{notes}</ul>"#
    );
    Ok(render_document("forecast of a warm-up", &body, &json))
}

fn render_drawing(outlooks: &[Outlook]) -> String {
    let end = |outlook: &Outlook| {
        let last = outlook.points.last().map_or(0.0, |point| point.seconds);
        outlook.to_95_seconds.map_or(last, |span| span.seconds)
    };
    let seconds = (outlooks.iter().map(end).fold(0.0, f64::max) * BEYOND).max(1e-9);
    let points = outlooks.iter().flat_map(|outlook| &outlook.points);
    let highest = points.map(|point| point.tps).fold(1e-9, f64::max);
    let x = |time: f64| LEFT + (WIDTH - LEFT) * time / seconds;
    let y = |tps: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - tps / highest);
    let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="throughput over time">"#);
    for line in 0..=GRID {
        let share = f64::from(line) / f64::from(GRID);
        let (tps, time) = (highest * share, seconds * share);
        let (height, place, label) = (y(tps), x(time), HEIGHT - BOTTOM + 20.0);
        let anchor = if line == GRID { "end" } else { "middle" };
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{height:.1}" y2="{height:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{tps:.0}</text><text x="{place:.1}" y="{label:.1}" text-anchor="{anchor}">{time:.1} s</text>"#,
            LEFT - 8.0,
            height + 4.0
        );
    }
    for (place, outlook) in outlooks.iter().enumerate() {
        let mut path = String::new();
        for point in outlook.points.iter().filter(|point| point.seconds <= seconds) {
            let _ = write!(path, "{:.1},{:.1} ", x(point.seconds), y(point.tps));
        }
        // It goes on in its steady state.
        let _ = write!(path, "{WIDTH},{:.1}", y(outlook.steady_tps));
        let _ = write!(svg, r#"<polyline class="curve {}" points="{path}"/>"#, class_of(place));
    }
    svg + "</svg>"
}

fn render_table(outlooks: &[Outlook]) -> String {
    let mut table = String::from(
        "<table><tr><th>scenario</th><th>cold (tps)</th><th>steady (tps)</th><th>50 % after</th><th>90 % after</th><th>95 % after</th><th>warm after</th></tr>",
    );
    for (place, outlook) in outlooks.iter().enumerate() {
        let _ = write!(
            table,
            r#"<tr><td><svg class="mark {}" viewBox="0 0 32 10" aria-hidden="true"><path class="curve" d="M0 5H32"/></svg>{}</td><td>{:.0}</td><td>{:.0}</td>"#,
            class_of(place),
            escape_text(&outlook.name),
            outlook.cold_tps,
            outlook.steady_tps
        );
        for one in [outlook.to_50_seconds, outlook.to_90_seconds, outlook.to_95_seconds, outlook.warm_after_seconds] {
            let _ = write!(table, "<td>{}</td>", escape_text(&one.map_or("never".to_owned(), render_span)));
        }
        table += "</tr>";
    }
    table + "</table>"
}

fn render_span(Span { seconds, low, high }: Span) -> String {
    let instant = |seconds: f64, unit: &str| show_computed(seconds, format!("{seconds:.1}{unit}"));
    let (likely, worst) = (instant(seconds, " s"), high.map_or("never".to_owned(), |high| instant(high, "")));
    match high.map(|high| instant(high, " s")) {
        Some(high) if high == likely && instant(low, " s") == likely => likely,
        _ => format!("{likely} ({} to {worst})", instant(low, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::document::SIGNATURE;
    use model::ForecastPoint;

    #[test]
    fn names_stay_text_and_every_scenario_has_its_curve() {
        let point = |seconds, tps| ForecastPoint {
            seconds,
            transactions: 0.0,
            tps,
            reads_per_second: 0.0,
            reading_share: 0.0,
            pages_per_transaction: 0.0,
            resident_share: 0.0,
        };
        let outlook = |name: &str| Outlook {
            name: name.into(),
            cold_tps: 10.0,
            steady_tps: 100.0,
            to_50_seconds: Some(Span { seconds: 5.0, low: 4.0, high: None }),
            to_90_seconds: Some(Span { seconds: 0.03, low: 0.02, high: Some(0.04) }),
            to_95_seconds: Some(Span { seconds: 0.0, low: 0.0, high: Some(0.0) }),
            warm_after_seconds: None,
            steady_reading_share: 0.0,
            warmer_ends_seconds: None,
            lost_transactions: None,
            points: vec![point(0.0, 10.0), point(10.0, 100.0)],
        };
        let html =
            render_forecast(&[outlook("cold"), outlook("<script>alert(1)</script>")], &["</script>".into()]).unwrap();
        assert!(html.starts_with(SIGNATURE) && html.matches("<polyline").count() == 2);
        assert_eq!(html.matches("<script").count(), 1, "{html}");
        assert_eq!(html.matches("</script").count(), 1, "{html}");
        assert!(html.contains("5.0 s (4.0 to never)") && !html.contains("NaN"), "{html}");
        assert!(
            html.contains("<td>&lt;0.1 s</td><td>at once</td>"),
            "what is cold at first is not warm at once: {html}"
        );
    }
}
