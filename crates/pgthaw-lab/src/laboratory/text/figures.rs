use crate::verdict::{BackgroundWrites, Metric, PointSummary};
use host::units::Bytes;
use model::{AT_ONCE, is_at_once};
use terminal::Column;

type Write = fn(f64) -> String;

#[derive(Clone, Copy)]
enum Show {
    Median(Write),
    /// Empty if the figure is 0 in all trials.
    Rare(Write),
    /// Minimum and maximum. Empty for a single trial, or if the event occurred in no trial.
    Ends(Write),
    /// Confidence interval of the median, `9800–10200`. Empty with too few trials.
    Interval(Write),
}

use Show::{Ends, Interval, Median, Rare};

/// Title, priority, metric and format.
type FigureColumn = (&'static str, u8, Metric, Show);

/// Columns for cold starts under load that differ only by warmer.
const OF_WARMERS: [FigureColumn; 11] = [
    ("warm after, s", 0, Metric::WarmAfter, Median(render_instant)),
    ("from–to", 1, Metric::WarmAfter, Ends(render_instant)),
    ("50 %, s", 5, Metric::To50, Median(render_instant)),
    ("90 %, s", 4, Metric::To90, Median(render_instant)),
    ("95 %, s", 6, Metric::To95, Median(render_instant)),
    ("× bound", 0, Metric::BoundRatio, Median(hundredths)),
    ("served by then", 2, Metric::ServedUntilWarm, Median(render_count)),
    ("in all", 8, Metric::Served, Median(render_count)),
    ("command took, s", 7, Metric::Warmer, Median(render_instant)),
    ("read", 7, Metric::DeviceRead, Median(amount)),
    ("worst second", 9, Metric::WorstSecond, Median(render_figure)),
];

const OF_LOAD: [FigureColumn; 20] = [
    ("tps", 0, Metric::Tps, Median(render_figure)),
    ("resident after, s", 0, Metric::ResidentAfter, Median(hundredths)),
    ("min–max", 3, Metric::Tps, Ends(render_figure)),
    ("interval", 2, Metric::Tps, Interval(render_figure)),
    ("worst second", 1, Metric::WorstSecond, Median(render_figure)),
    ("p50 ms", 5, Metric::P50, Median(milliseconds)),
    ("p99 ms", 1, Metric::P99, Median(milliseconds)),
    ("from–to", 2, Metric::ResidentAfter, Ends(hundredths)),
    ("buffers back, s", 1, Metric::BuffersAfter, Median(hundredths)),
    ("loaded", 1, Metric::LoadRate, Median(rate)),
    ("CPU s per GB", 3, Metric::CpuPerGb, Median(hundredths)),
    ("read", 6, Metric::DeviceRead, Median(amount)),
    ("reads", 4, Metric::DeviceReads, Median(render_figure)),
    ("reads/s", 7, Metric::ReadsPerSecond, Median(render_figure)),
    ("peak reads/s", 8, Metric::PeakReads, Median(render_figure)),
    ("writes/s", 4, Metric::DeviceWrites, Median(render_figure)),
    ("written", 4, Metric::DeviceWritten, Median(amount)),
    ("a write", 8, Metric::WriteSize, Median(amount)),
    ("CPU ms", 6, Metric::CpuPerTransaction, Median(milliseconds)),
    ("checkpoints", 6, Metric::Checkpoints, Median(render_figure)),
];

const OF_WARMING: [FigureColumn; 11] = [
    ("command took, s", 1, Metric::Warmer, Median(hundredths)),
    ("from–to", 3, Metric::Warmer, Ends(hundredths)),
    ("load, s", 0, Metric::Load, Median(hundredths)),
    ("in all, s", 0, Metric::Whole, Median(hundredths)),
    ("from–to", 1, Metric::Whole, Ends(hundredths)),
    ("warm after, s", 0, Metric::WarmAfter, Median(render_instant)),
    ("from–to", 3, Metric::WarmAfter, Ends(render_instant)),
    ("50 %, s", 1, Metric::To50, Median(render_instant)),
    ("× bound", 1, Metric::BoundRatio, Median(hundredths)),
    ("late", 3, Metric::Late, Rare(render_figure)),
    ("skipped", 3, Metric::Skipped, Rare(render_figure)),
];

pub fn figure_columns(points: &[PointSummary], is_of_warmers: bool) -> Vec<Column> {
    if is_of_warmers {
        return OF_WARMERS.iter().filter_map(|column| render_column(points, column)).collect();
    }
    let mut columns: Vec<Column> = OF_LOAD.iter().filter_map(|column| render_column(points, column)).collect();
    let trials = |point: &PointSummary| match point.failures {
        0 => point.trials.to_string(),
        failures => format!("{} ({failures} failed)", point.trials),
    };
    columns.push(Column::number("trials", 4, points.iter().map(trials).collect()));
    columns.extend(background_columns(points));
    columns.extend(OF_WARMING.iter().filter_map(|column| render_column(points, column)));
    columns
}

fn render_column(points: &[PointSummary], (title, priority, metric, show): &FigureColumn) -> Option<Column> {
    let cells: Vec<String> = points.iter().map(|point| render_cell(point, *metric, *show)).collect();
    cells.iter().any(|cell| !cell.is_empty()).then(|| Column::number(*title, *priority, cells))
}

fn render_cell(point: &PointSummary, metric: Metric, show: Show) -> String {
    let Some(spread) = point.figure(metric) else { return String::new() };
    // Lower limit of a figure that the trial was too short for: `> 60`.
    let measured = point.measured_seconds.unwrap_or_default();
    let limit = || match point.median(Metric::Bound).filter(|_| metric == Metric::BoundRatio) {
        Some(bound) => hundredths(f64::from(measured) / bound),
        None => measured.to_string(),
    };
    let reached = |figure: Option<f64>, write: Write| figure.map_or_else(|| format!("> {}", limit()), write);
    match show {
        Rare(_) if spread.max.is_some_and(|max| max <= 0.0) => String::new(),
        Median(write) | Rare(write) => reached(spread.median, write),
        Ends(write) if point.trials > 1 && spread.min.is_some() => {
            format!("{}–{}", reached(spread.min, write), reached(spread.max, write))
        }
        Ends(_) => String::new(),
        Interval(write) => {
            let interval = spread.interval.filter(|interval| interval.coverage >= 0.95);
            interval.map(|interval| [interval.low, interval.high].map(write).join("–")).unwrap_or_default()
        }
    }
}

fn background_columns(points: &[PointSummary]) -> Vec<Column> {
    type Of = fn(&BackgroundWrites) -> f64;
    let by: [(&str, Of); 3] = [
        ("by checkpoints", |writes| writes.buffers_checkpoint),
        ("by bgwriter", |writes| writes.buffers_clean),
        ("by backends", |writes| writes.buffers_backend),
    ];
    let column = |(title, of): (&'static str, Of)| {
        let cells = points.iter().map(|point| point.background.as_ref().map(|writes| render_figure(of(writes))));
        Column::number(title, 9, cells.map(Option::unwrap_or_default).collect())
    };
    let wrote = |writes: &BackgroundWrites| by.iter().any(|(_, of)| of(writes) > 0.0);
    let has_any = points.iter().filter_map(|point| point.background.as_ref()).any(wrote);
    if has_any { by.into_iter().map(column).collect() } else { Vec::new() }
}

fn render_figure(figure: f64) -> String {
    if figure < 10.0 && figure.fract() != 0.0 { format!("{figure:.1}") } else { format!("{figure:.0}") }
}

/// Times often differ by less than a tenth of a second.
fn hundredths(figure: f64) -> String {
    format!("{figure:.2}")
}

pub fn render_instant(seconds: f64) -> String {
    if is_at_once(seconds) { AT_ONCE.to_owned() } else { format!("{seconds:.1}") }
}

/// At most four digits.
pub fn render_count(count: f64) -> String {
    match count {
        ..9_999.5 => format!("{count:.0}"),
        ..999_500.0 => format!("{:.0} k", count / 1e3),
        ..9_995_000.0 => format!("{:.2} M", count / 1e6),
        _ => format!("{:.1} M", count / 1e6),
    }
}

fn milliseconds(us: f64) -> String {
    hundredths(us / 1000.0)
}

fn amount(bytes: f64) -> String {
    Bytes(bytes as u64).to_string()
}

fn rate(bytes: f64) -> String {
    Bytes(bytes as u64).per_second()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Spread;

    #[test]
    fn figures_have_as_many_digits_as_they_need() {
        assert_eq!([0.0, 2.0, 2.5, 12.5, 12345.6].map(render_figure), ["0", "2", "2.5", "12", "12346"]);
        assert_eq!(milliseconds(2000.0), "2.00");
    }

    #[test]
    fn what_was_not_reached_is_longer_than_the_trial() {
        let spread = Spread::of([Some(2.5), None, None]);
        let figures = [Metric::WarmAfter, Metric::BoundRatio].map(|metric| (metric, Some(spread)));
        let bound = (Metric::Bound, Some(Spread::of([Some(2.5); 3])));
        let figures = figures.into_iter().chain([bound]).collect();
        let point = PointSummary { measured_seconds: Some(20), trials: 3, figures, ..PointSummary::default() };
        let cell = |metric, show| render_cell(&point, metric, show);
        let median = cell(Metric::WarmAfter, Median(render_figure));
        assert_eq!((median, cell(Metric::WarmAfter, Ends(render_figure))), ("> 20".into(), "2.5–> 20".into()));
        assert_eq!(cell(Metric::BoundRatio, Median(hundredths)), "> 8.00");
        assert_eq!(cell(Metric::Tps, Median(render_figure)), "");
    }
}
