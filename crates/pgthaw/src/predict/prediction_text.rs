use model::{Knee, Knees, Outlook, RoughEstimate, Span, Steepest, show_computed, tell_computed_after};
use terminal::{Canvas, Column, Curve, printable, render_columns, render_curves, render_seconds, render_short};

/// Maximum number of curves in a chart: more curves would hide each other.
const MOST_CURVES: usize = 4;

const BEYOND: f64 = 1.15;

pub fn render_rough_estimate(estimate: &RoughEstimate) -> String {
    let RoughEstimate { pages, read_seconds, seconds } = *estimate;
    let time = render_seconds(seconds);
    format!("rough estimate, each page read once: {pages:.0} pages x {:.2} ms = {time}", 1e3 * read_seconds)
}

pub fn render_knees(knees: &Knees) -> String {
    let of = |name: &str, knee: &Steepest| {
        let Knee { transaction, seconds, cached_share, .. } = knee.by_transaction;
        format!(
            "{name}plotted against transactions, throughput rises most steeply at transaction {transaction:.0} (after {seconds:.0} s, with {:.1} % cached); plotted against time, after {:.0} s",
            100.0 * cached_share,
            knee.by_second.seconds
        )
    };
    format!("{}\n{}", of("as one relation: ", &knees.simple), of("each relation by itself: ", &knees.parallel))
}

pub fn render_prediction(outlooks: &[Outlook], beside: &[String], assumptions: &[String], canvas: Canvas) -> String {
    let mut lines: Vec<String> = outlooks.iter().take(2).map(render_sentence).collect();
    lines.push(String::new());
    let end = |outlook: &Outlook| outlook.to_95_seconds.or(outlook.to_50_seconds).map_or(0.0, |span| span.seconds);
    let last = |outlook: &Outlook| outlook.points.last().map_or(0.0, |point| point.seconds);
    let drawn = &outlooks[..outlooks.len().min(MOST_CURVES)];
    let seconds =
        drawn.iter().map(|one| if end(one) > 0.0 { end(one) * BEYOND } else { last(one) }).fold(0.0, f64::max);
    let curve = |outlook: &Outlook| {
        let mut points: Vec<(f64, f64)> = outlook.points.iter().map(|point| (point.seconds, point.tps)).collect();
        points.push((seconds.max(last(outlook)) + 1.0, outlook.steady_tps));
        Curve { name: printable(&outlook.name).into_owned(), points }
    };
    let curves: Vec<Curve> = drawn.iter().map(curve).collect();
    lines.extend(render_curves(&curves, seconds.max(f64::MIN_POSITIVE), "tps", canvas));
    lines.push(String::new());
    lines.extend(render_columns(make_columns(outlooks), canvas.width, canvas.mark()));
    lines.push(String::new());
    lines.extend(beside.iter().flat_map(|text| text.lines().map(str::to_owned)));
    lines.push("in brackets: the range if device and processor are 15 % faster or slower".to_owned());
    lines.push("assumed:".to_owned());
    lines.extend(assumptions.iter().map(|assumption| format!("  {}", printable(assumption))));
    lines.join("\n")
}

fn render_sentence(outlook: &Outlook) -> String {
    let after = |span: Option<Span>| {
        span.map_or("never".to_owned(), |span| tell_computed_after(span.seconds, &render_seconds(span.seconds)))
    };
    format!(
        "{}: 50 % of {} tps {}, 90 % {}",
        printable(&outlook.name),
        render_short(outlook.steady_tps),
        after(outlook.to_50_seconds),
        after(outlook.to_90_seconds)
    )
}

fn make_columns(outlooks: &[Outlook]) -> Vec<Column> {
    let texts = |text: &dyn Fn(&Outlook) -> String| -> Vec<String> { outlooks.iter().map(text).collect() };
    let span =
        |of: &dyn Fn(&Outlook) -> Option<Span>| texts(&|outlook| of(outlook).map_or("never".into(), render_span));
    vec![
        Column::text("scenario", 16, texts(&|outlook| printable(&outlook.name).into_owned())),
        Column::number("cold tps", 3, texts(&|outlook| render_short(outlook.cold_tps))),
        Column::number("steady tps", 1, texts(&|outlook| render_short(outlook.steady_tps))),
        Column::number("50 %", 0, span(&|outlook| outlook.to_50_seconds)),
        Column::number("90 %", 0, span(&|outlook| outlook.to_90_seconds)),
        Column::number("95 %", 4, span(&|outlook| outlook.to_95_seconds)),
        Column::number("warm", 2, span(&|outlook| outlook.warm_after_seconds)),
    ]
}

fn render_span(span: Span) -> String {
    let instant = |seconds| show_computed(seconds, render_seconds(seconds));
    let likely = instant(span.seconds);
    let high = span.high.map_or("never".to_owned(), instant);
    let low = instant(span.low);
    if low == high && low == likely {
        return likely;
    }
    // Omits a repeated unit.
    let low = match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => number.to_owned(),
        _ => low,
    };
    format!("{likely} ({low} to {high})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_said_once_and_never_is_a_word() {
        let span = |low, high| render_span(Span { seconds: 53.0, low, high });
        assert_eq!(span(45.0, Some(62.0)), "53 s (45 to 62 s)");
        assert_eq!(span(45.0, Some(700.0)), "53 s (45 s to 11.7 min)");
        assert_eq!(span(45.0, None), "53 s (45 s to never)");
    }

    #[test]
    fn the_sentence_says_of_the_first_moment_what_the_table_says() {
        let outlook = |cold_tps, span| Outlook {
            name: "cold restart".into(),
            cold_tps,
            steady_tps: 100.0,
            to_50_seconds: Some(Span { seconds: 0.0, low: 0.0, high: Some(0.0) }),
            to_90_seconds: Some(span),
            to_95_seconds: None,
            warm_after_seconds: None,
            steady_reading_share: 0.0,
            warmer_ends_seconds: None,
            lost_transactions: None,
            points: Vec::new(),
        };
        let told = |cold_tps, seconds, low, high| {
            let span = Span { seconds, low, high: Some(high) };
            (render_sentence(&outlook(cold_tps, span)), render_span(span))
        };
        let words = |sentence: &str, span: &str| {
            (format!("cold restart: 50 % of 100 tps at once, 90 % {sentence}"), span.to_owned())
        };
        assert_eq!(told(36.0, 0.03, 0.02, 0.04), words("within 0.1 s", "<0.1 s"));
        assert_eq!(told(36.0, 0.04, 0.03, 0.12), words("within 0.1 s", "<0.1 s (<0.1 to 0.1 s)"));
        assert_eq!(told(95.0, 0.0, 0.0, 0.0), words("at once", "at once"));
        assert_eq!(told(91.0, 0.0, 0.0, 0.3), words("at once", "at once (at once to 0.3 s)"));
        assert_eq!(told(36.0, 0.3, 0.2, 0.4), words("after 0.3 s", "0.3 s (0.2 to 0.4 s)"));
    }
}
