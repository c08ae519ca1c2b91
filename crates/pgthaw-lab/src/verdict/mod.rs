//! What the numbers of a study say: summaries, ratios, significance, findings. Pure.

mod curve;
mod judged;
mod statistics;
mod sweep;
pub mod warm;
mod warmers;
pub mod warnings;

pub use curve::{judge_curve, judge_samples};
pub use judged::{JudgedForecast, SweepVerdict, WrittenForecast, judge_forecast, judge_sweep};
pub use statistics::{Limits, MIN_PAIRS, Ratio, Spread, render_ratio};
pub use sweep::{
    BackgroundWrites, ByMetric, CellComparison, Circumstances, ColdTrial, Metric, MetricFacts, MetricKind, Noise,
    NoiseCell, PointSummary, PointVerdict, Selection, Side, SweepComparison, TableGrowth, TimedPoint, TrialOutline,
    TrialSeries, add_warming_figures, busiest_thread, compute_cycles, compute_noise, compute_noises,
    compute_outline_summary, compute_start_verdicts, compute_sweep_comparison, compute_sweep_verdicts,
    compute_timed_points, compute_total_seconds, compute_trial_verdicts, compute_warming, is_bounded, is_twice,
    judge_import, outline_trials, render_sweep_headline,
};
pub use warm::{PassedSecond, WarmGoal, compute_until_warm};
pub use warmers::{
    Interference, LeastShare, ServedSeconds, Traffic, WarmerRatio, compute_traffic, compute_warmer_ratios,
};
pub use warnings::{find_others, warn_of_warmup};
