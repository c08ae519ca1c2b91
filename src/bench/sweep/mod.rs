//! Sweeps: a study file, the points that it means, and their trials in random order, each kept when it ends.

mod axis;
mod compare;
mod copies;
mod cycles;
mod database;
mod earlier;
mod forecast;
mod generators;
mod ground;
mod headline;
mod import;
mod latency;
mod left;
mod lock;
mod log;
mod noise;
mod outline;
mod plan;
mod point;
mod prepare;
mod record;
mod run;
mod series;
mod server;
mod settings;
mod site;
mod spec;
mod start;
mod summary;
mod trial;
mod verdict;

pub use compare::{CellComparison, Metric, Selection, Side, SweepComparison, compute_sweep_comparison};
pub use earlier::Earlier;
pub use generators::{TrialGenerator, TrialGenerators};
pub use headline::render_sweep_headline;
pub use import::{ImportOptions, Imported, read_import};
pub use lock::SweepLock;
#[cfg(fuzzing)]
pub use log::parse_checkpoints;
pub use noise::{Noise, NoiseCell, compute_noise, compute_noises, is_twice};
pub use outline::{BackgroundWrites, TrialOutline};
pub use plan::{PlannedPoint, SweepPlan, plan_sweep};
pub use point::Point;
pub use record::{
    BufferUse, Checkpoint, CheckpointBegun, LatencyHistogram, Percentile, ScriptLatency, SweepRun, SweepTrial,
    UnreadableHistogram,
};
pub use run::{SweepFinished, SweepOptions, run_sweep};
pub use series::{Column, Envelope, MachineSeries, Stall, TrialSeries, WaitSeries};
pub use settings::read_setting_remarks;
#[cfg(fuzzing)]
pub use spec::parse_sweep;
pub use spec::{Exceeded, Sweep, read_sweep};
pub use start::StartAsked;
pub use summary::{PointSummary, PointVerdict, Range, compute_outline_summary};
pub use verdict::{
    Finding, GeneratorCalibration, MeasurementVerdict, NOISE_TOLD, Saturation, SaturationSign, compute_sweep_verdicts,
    texts_of,
};
