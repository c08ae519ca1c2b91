//! The verdict over a curve, for people.

use model::{Estimate, Fit, Judgement, Series, Undecided, Verdict, tell_after, tell_from};
use terminal::{Canvas, Curve, printable, render_curves, render_seconds, render_short};

/// The verdict, the curve with its fit, and the figures. `name` stands above where there are several.
pub fn render_judgement(name: Option<&str>, judgement: &Judgement, series: &Series, canvas: Canvas) -> String {
    let mut lines: Vec<String> = name.map(|name| printable(name).into_owned()).into_iter().collect();
    lines.push(format!("{}: {}", render_verdict(judgement), judgement.reason));
    lines.push(String::new());
    lines.extend(render_curves(&make_curves(judgement, series), series.seconds(), "tps", canvas));
    lines.push(String::new());
    lines.extend(render_figures(judgement));
    lines.extend(judgement.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
    if judgement.undecided == Some(Undecided::AsFlatOfUnknownSize) {
        lines.push("note: --pages says how many blocks the workload chooses from".to_owned());
    }
    lines.join("\n")
}

fn render_verdict(judgement: &Judgement) -> String {
    let from = judgement.steady_from_seconds;
    let from = from.map_or_else(String::new, |from| format!(" {}", tell_from(from, &render_seconds(from))));
    let name = verdict_name(judgement);
    match judgement.verdict {
        Verdict::Steady => format!("{name}{from}"),
        Verdict::Periodic => {
            let period = judgement.period_seconds.map_or_else(String::new, render_seconds);
            format!("{name}{from}, every {period}")
        }
        Verdict::NotReached | Verdict::Degrading => name.to_owned(),
    }
}

/// The verdict in few words.
pub(super) fn verdict_name(judgement: &Judgement) -> &'static str {
    match judgement.verdict {
        Verdict::Steady => "steady",
        Verdict::NotReached if judgement.undecided.is_some() => "not decided whether it is steady",
        Verdict::NotReached => "steady state not reached",
        Verdict::Periodic => "periodic",
        Verdict::Degrading => "degrading",
    }
}

fn make_curves(judgement: &Judgement, series: &Series) -> Vec<Curve> {
    let middle = |place: usize| (place as f64 + 0.5) * series.width_seconds;
    let measured = series.buckets.iter().enumerate();
    let points = measured.filter_map(|(place, bucket)| Some((middle(place), bucket.rate()?))).collect();
    let mut curves = vec![Curve { name: "measured".into(), points }];
    if let Some(fit) = judgement.fit.as_ref().and_then(|fit| fit.curve().ok()) {
        let at = |place: usize| (middle(place), fit.throughput(fit.transactions_after(middle(place))));
        // As many points as a drawing has columns are enough.
        let step = (series.buckets.len() / 200).max(1);
        let points = (0..series.buckets.len()).step_by(step).map(at).collect();
        curves.insert(0, Curve { name: "fitted".into(), points });
        curves.swap(0, 1);
    }
    curves
}

fn render_figures(judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    let after = |value: Option<f64>| value.map_or("not known".to_owned(), |at| tell_after(at, &render_seconds(at)));
    if let Some(steady) = judgement.steady_tps {
        let promised = if judgement.verdict == Verdict::NotReached { " by the fit" } else { "" };
        let error = judgement.level_error_share.map_or_else(String::new, |share| format!(" ±{:.1} %", 100.0 * share));
        lines.push(format!(
            "steady    {} tps{error}{promised}; 50 % of it {}, 90 % {}, 95 % {}",
            render_short(steady),
            after(judgement.to_50_seconds),
            after(judgement.to_90_seconds),
            after(judgement.to_95_seconds)
        ));
    }
    let error = judgement.mean_error_share.map_or_else(String::new, |share| match share {
        ..0.0 => format!(", {:.1} % below steady", -100.0 * share),
        _ => format!(", {:.1} % above steady", 100.0 * share),
    });
    lines.push(format!(
        "whole     {} tps on average over {}{error}",
        render_short(judgement.mean_tps),
        render_seconds(judgement.run_seconds)
    ));
    if let Some(needed) = judgement.should_have_run_seconds.filter(|needed| *needed > judgement.run_seconds) {
        lines.push(format!("needed    {} at least", render_seconds(needed)));
    }
    lines.extend(judgement.fit.as_ref().map(|fit| format!("fit       {}", render_fit(fit))));
    lines.extend(judgement.no_fit.as_ref().map(|why| format!("fit       none: {why}")));
    lines
}

/// Td, Tc and P with their intervals, and how far off the curve is.
pub(super) fn render_fit(fit: &Fit) -> String {
    let milliseconds = |value: f64| format!("{:.3} ms", value * 1e3);
    // A value without bounds is any value.
    let range = |estimate: Estimate, render: &dyn Fn(f64) -> String| {
        estimate.low.zip(estimate.high).map_or("not known".to_owned(), |(low, high)| {
            format!("{} ({} to {})", render(estimate.value), render(low), render(high))
        })
    };
    format!(
        "cold {}, warm {}, pages {}; the curve is {:.1} % off",
        range(fit.cold_seconds, &milliseconds),
        range(fit.hit_seconds, &milliseconds),
        range(fit.pages, &render_short),
        100.0 * fit.residual_share
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fit_does_not_know_has_no_figure() {
        let known = |value: f64| Estimate { value, low: Some(0.5 * value), high: Some(2.0 * value) };
        let hit_seconds = Estimate { value: 1e-9, low: None, high: None };
        let fit =
            Fit { cold_seconds: known(0.016), hit_seconds, pages: known(800.0), residual_share: 0.056, clients: 1 };
        assert_eq!(
            render_fit(&fit),
            "cold 16.000 ms (8.000 ms to 32.000 ms), warm not known, pages 800 (400 to 1600); the curve is 5.6 % off"
        );
    }
}
