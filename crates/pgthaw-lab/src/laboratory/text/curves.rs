use super::figures::render_instant;
use crate::study::StudyForecast;
use crate::verdict::{JudgedForecast, SweepVerdict, WrittenForecast};
use host::units::counted;
use model::{Estimate, Fit, Judgement, Series, Verdict, tell_after, tell_computed_after, tell_error, tell_from};
use terminal::{
    Canvas, Column, Curve, printable, render_columns, render_curves, render_seconds, render_short, stdout_width,
};

pub fn render_judgement(name: Option<&str>, judgement: &Judgement, series: &Series, canvas: Canvas) -> String {
    let mut lines: Vec<String> = name.map(|name| printable(name).into_owned()).into_iter().collect();
    lines.push(format!("{}: {}", render_verdict(judgement), judgement.reason));
    lines.extend(judgement.warmth.as_ref().map(|warmth| {
        let told = warmth.would_tell.as_ref().map_or_else(String::new, |what| format!("; needed to decide: {what}"));
        let name = match warmth.is_warm {
            Some(true) => "warm",
            Some(false) => "not warm",
            None => "unknown whether the server is warm",
        };
        format!("{name}: {}{told}", warmth.evidence)
    }));
    lines.push(String::new());
    lines.extend(render_curves(&make_curves(judgement, series), series.seconds(), "tps", canvas));
    lines.push(String::new());
    lines.extend(render_figures(judgement));
    lines.extend(judgement.remarks.iter().map(|remark| format!("note: {}", printable(remark))));
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

pub(super) fn verdict_name(judgement: &Judgement) -> &'static str {
    match judgement.verdict {
        Verdict::Steady => "steady",
        Verdict::NotReached if judgement.undecided.is_some() => "steady state undecided",
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
        let step = (series.buckets.len() / 200).max(1);
        let points = (0..series.buckets.len()).step_by(step).map(at).collect();
        curves.push(Curve { name: "fitted".into(), points });
    }
    curves
}

fn render_figures(judgement: &Judgement) -> Vec<String> {
    let mut lines = Vec::new();
    let after = |value: Option<f64>| value.map_or("not known".to_owned(), |at| tell_after(at, &render_seconds(at)));
    if let Some(steady) = judgement.steady_tps {
        let promised = if judgement.verdict == Verdict::NotReached { " by the fit" } else { "" };
        let error =
            judgement.level_error_share.map_or_else(String::new, |error| format!(" ({})", tell_error(steady, error)));
        let times = [judgement.to_50_seconds, judgement.to_90_seconds, judgement.to_95_seconds];
        let ([to_50, to_90, to_95], tps) = (times.map(after), render_short(steady));
        lines.push(format!("steady    {tps} tps{error}{promised}; 50 % of it {to_50}, 90 % {to_90}, 95 % {to_95}"));
    }
    let error = judgement.mean_error_share.map_or_else(String::new, |share| match share {
        ..0.0 => format!(", {:.1} % below steady", -100.0 * share),
        1.0.. => String::new(),
        _ => format!(", {:.1} % above steady", 100.0 * share),
    });
    let (tps, length) = (render_short(judgement.mean_tps), render_seconds(judgement.run_seconds));
    lines.push(format!("whole run {tps} tps on average over {length}{error}"));
    let needed = judgement.should_have_run_seconds.filter(|needed| *needed > judgement.run_seconds);
    lines.extend(needed.map(|needed| format!("needed    {} at least", render_seconds(needed))));
    lines.extend(judgement.fit.as_ref().map(|fit| format!("fit       {}", render_fit(fit))));
    lines.extend(judgement.no_fit.as_ref().map(|why| format!("fit       none: {why}")));
    lines
}

pub(super) fn render_fit(fit: &Fit) -> String {
    let milliseconds = |value: f64| format!("{:.3} ms", value * 1e3);
    // Without bounds, the value is undetermined.
    let range = |estimate: Estimate, render: &dyn Fn(f64) -> String, unknown: &str| {
        estimate.low.zip(estimate.high).map_or(unknown.to_owned(), |(low, high)| {
            format!("{} ({} to {})", render(estimate.value), render(low), render(high))
        })
    };
    let [cold, hit] = [fit.cold_seconds, fit.hit_seconds].map(|time| range(time, &milliseconds, "an unknown time"));
    let pages = range(fit.pages, &render_short, "an unknown number of");
    format!(
        "a transaction takes {cold} cold and {hit} warm, and the load uses {pages} pages; the measured curve deviates from this fit by {:.1} %",
        100.0 * fit.residual_share
    )
}

pub fn render_written_forecast(forecast: &WrittenForecast) -> String {
    let (half, warm) = (after(forecast.to_50_seconds), after(forecast.warm_after_seconds));
    let at = forecast.written_at.strftime("%H:%M:%S");
    let sentence = format!("forecast at {at}: half of {:.0} tps {half}, warm {warm}", forecast.steady_tps);
    let assumed = forecast.assumptions.iter().map(|assumption| format!("  {}", printable(assumption)));
    [sentence, "assumed:".to_owned()].into_iter().chain(assumed).collect::<Vec<_>>().join("\n")
}

pub fn render_study_forecast(forecast: &StudyForecast) -> String {
    let half = forecast
        .to_50_seconds
        .map_or("never".to_owned(), |span| tell_computed_after(span.seconds, &format!("{:.0} s", span.seconds)));
    let warm = forecast.warm_after_seconds.map_or("never".to_owned(), |span| {
        let high = span.high.map_or("never".to_owned(), |high| format!("{high:.0}"));
        format!("after {:.0} s ({:.0} to {high})", span.seconds, span.low)
    });
    format!("half of {} tps {half}, warm {warm}", render_short(forecast.steady_tps))
}

pub fn render_judged_forecasts(points: &[JudgedForecast]) -> String {
    let cells = |cell: &dyn Fn(&JudgedForecast) -> String| points.iter().map(cell).collect::<Vec<_>>();
    let columns = vec![
        Column::text("point", 8, cells(&|point| printable(&point.name).into_owned())),
        Column::number("half: forecast", 1, cells(&|point| seconds(point.forecast.to_50_seconds))),
        Column::number("measured", 2, cells(&|point| seconds(point.to_50_seconds))),
        Column::number("error", 0, cells(&|point| error(point.to_50_error))),
        Column::number("warm: forecast", 0, cells(&|point| seconds(point.forecast.warm_after_seconds))),
        Column::number("measured", 0, cells(&|point| seconds(point.warm_after_seconds))),
        Column::number("error", 0, cells(&|point| error(point.warm_after_error))),
    ];
    render_columns(columns, stdout_width(), "…").join("\n")
}

pub fn render_sweep_verdict(verdict: &SweepVerdict) -> String {
    let further = match verdict.contradictions {
        0 => String::new(),
        count => format!("; events that occurred only in the forecast or only in the measurement: {count}"),
    };
    let (points, errors) = (counted(verdict.points, "point"), counted(verdict.errors, "forecast error"));
    let [median, worst] = [verdict.median_error, verdict.worst_error].map(absolute);
    let good = 100.0 * verdict.within_15_percent;
    format!("{points}, {errors}: median {median}, {good:.0} % of the errors at most 15 %, worst {worst}{further}")
}

fn after(value: Option<f64>) -> String {
    value.map_or("never".to_owned(), |seconds| tell_computed_after(seconds, &format!("{seconds:.1} s")))
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("never".to_owned(), render_instant)
}

fn error(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |error| format!("{:+.1} %", 100.0 * error))
}

fn absolute(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |error| format!("{:.1} %", 100.0 * error))
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
            "a transaction takes 16.000 ms (8.000 ms to 32.000 ms) cold and an unknown time warm, and the load uses 800 (400 to 1600) pages; the measured curve deviates from this fit by 5.6 %"
        );
    }
}
