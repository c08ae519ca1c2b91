//! What the numbers of a study say: summaries, ratios, significance, findings. Pure.

mod bootstrap;
mod comparison;
mod consistency;
mod curve;
mod headline;
mod interference;
mod judged;
mod older_run;
mod others;
mod ratio_text;
mod rounds;
mod significance;
mod spread;
mod statistics;
mod summary;
mod sweep;
pub mod throughput;
mod until_warm;
pub mod warm;
mod warmup;
pub mod warnings;

pub use comparison::{BOUND, Comparison, StrategyRatios, compute_comparison};
pub use consistency::find_contradictions;
pub use curve::{judge_curve, judge_samples, judge_trial};
pub use headline::render_headline;
pub use interference::{Interference, LeastShare, SecondShare};
pub use judged::{JudgedForecast, SweepVerdict, WrittenForecast, judge_forecast, judge_sweep};
pub use older_run::make_study_of_run;
pub use others::find_others;
pub use ratio_text::render_ratio;
pub use spread::Spread;
pub use statistics::{Limits, MIN_PAIRS, Ratio};
pub use summary::{StrategySummary, Summary, compute_summary, served_by};
pub use sweep::{
    BackgroundWrites, ByMetric, CellComparison, Circumstances, ColdTrial, Metric, MetricFacts, MetricKind, Noise,
    NoiseCell, PointSummary, PointVerdict, Selection, Side, SweepComparison, TableGrowth, TimedPoint, TrialOutline,
    TrialSeries, WarmerRatio, add_warming_figures, busiest_thread, compute_cycles, compute_noise, compute_noises,
    compute_outline_summary, compute_start_verdicts, compute_sweep_comparison, compute_sweep_verdicts,
    compute_timed_points, compute_total_seconds, compute_trial_verdicts, compute_warmer_ratios, compute_warming,
    is_twice, judge_import, outline_trials, render_sweep_headline,
};
pub use until_warm::{PassedSecond, WarmGoal, compute_until_warm};
pub use warmup::{view_run, view_trials};
