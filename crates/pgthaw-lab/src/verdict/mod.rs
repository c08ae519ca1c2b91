mod compare;
mod findings;
mod headline;
mod judged;
mod metric;
mod outline;
mod series;
mod statistics;
mod summary;
pub mod warm;
mod warmers;
mod warming;
pub mod warnings;

pub use compare::{
    CellComparison, Noise, NoiseCell, Selection, Side, SweepComparison, compute_cycles, compute_noise, compute_noises,
    compute_sweep_comparison, is_twice,
};
pub use findings::{
    Circumstances, busiest_thread, compute_start_verdicts, compute_sweep_verdicts, compute_trial_verdicts, judge_import,
};
pub use headline::render_sweep_headline;
pub use judged::{JudgedForecast, SweepVerdict, WrittenForecast, judge_forecast, judge_sweep};
pub use metric::{ByMetric, Metric, MetricFacts, MetricKind};
pub use outline::{BackgroundWrites, TrialOutline, compute_total_seconds};
pub use series::TrialSeries;
pub use statistics::{Limits, MIN_PAIRS, Ratio, Spread, render_ratio};
pub use summary::{PointSummary, PointVerdict, TimedPoint, compute_outline_summary, compute_timed_points};
pub use warm::{PassedSecond, WarmGoal, compute_until_warm};
pub use warmers::{
    Interference, LeastShare, ServedSeconds, Traffic, WarmerRatio, compute_traffic, compute_warmer_ratios,
};
pub use warming::{add_warming_figures, compute_warming, judge_curve, judge_samples, outline_trials};
pub use warnings::{find_others, warn_of_warmup};
