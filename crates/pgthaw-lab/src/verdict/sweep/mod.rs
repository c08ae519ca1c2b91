//! What a sweep says.

mod compare;
mod findings;
mod headline;
mod metric;
mod outline;
mod series;
mod summary;
mod timed;
mod warming;

pub use compare::{
    CellComparison, Noise, NoiseCell, Selection, Side, SweepComparison, compute_cycles, compute_noise, compute_noises,
    compute_sweep_comparison, is_twice,
};
pub use findings::{
    Circumstances, TableGrowth, busiest_thread, compute_start_verdicts, compute_sweep_verdicts, compute_trial_verdicts,
    judge_import,
};
pub use headline::{is_bounded, render_sweep_headline};
pub use metric::{ByMetric, Metric, MetricFacts, MetricKind};
pub use outline::{BackgroundWrites, TrialOutline, compute_total_seconds};
pub use series::TrialSeries;
pub use summary::{PointSummary, PointVerdict, compute_outline_summary};
pub use timed::{TimedPoint, compute_timed_points};
pub use warming::{ColdTrial, add_warming_figures, compute_warming, outline_trials};
pub(super) use warming::{group_of, limits_of};
