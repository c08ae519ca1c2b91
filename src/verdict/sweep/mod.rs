//! What a sweep says.

mod compare;
mod cycles;
mod findings;
mod headline;
mod metric;
mod noise;
mod outline;
mod pairs;
mod ratios;
mod series;
mod summary;
mod timed;
mod warming;

pub use compare::{CellComparison, SweepComparison, compute_sweep_comparison};
pub use cycles::compute_cycles;
pub use findings::{
    Circumstances, TableGrowth, busiest_thread, compute_start_verdicts, compute_sweep_verdicts, compute_trial_verdicts,
    judge_import,
};
pub use headline::render_sweep_headline;
pub use metric::{ByMetric, Metric, MetricFacts, MetricKind};
pub use noise::{Noise, NoiseCell, compute_noise, compute_noises, is_twice};
pub use outline::{BackgroundWrites, TrialOutline, compute_total_seconds};
pub use pairs::{Selection, Side};
pub use ratios::{WarmerRatio, compute_warmer_ratios};
pub use series::TrialSeries;
pub use summary::{PointSummary, PointVerdict, compute_outline_summary};
pub use timed::{TimedPoint, compute_timed_points};
pub use warming::{ColdTrial, add_warming_figures, compute_warming, outline_trials};
