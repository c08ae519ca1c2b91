//! Honest trials: a proven start state, a strategy, a workload, and what was measured each second.

mod bootstrap;
mod calibration;
mod comparison;
mod consistency;
mod contender;
mod curve;
pub mod disk;
mod error;
mod event;
mod forecast;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generator;
mod headline;
mod interference;
mod judged;
mod lab;
mod launch;
mod loading;
mod order;
mod others;
mod preparation;
mod race;
mod ratio_text;
mod record;
mod residency;
mod samples;
mod secrets;
mod significance;
pub mod size;
mod statistics;
mod stop;
mod strategy;
mod summary;
mod sweep;
mod throughput;
mod tournament;
mod trial;
mod until_warm;
mod warm;
mod warnings;
mod watch;
mod work_directory;

pub use bootstrap::{MedianInterval, compute_median_interval};
pub use calibration::Calibration;
pub use comparison::{BOUND, Comparison, StrategyRatios, compute_comparison};
pub use consistency::find_contradictions;
pub use curve::{judge_curve, judge_trial};
pub use error::Error;
pub use event::{Event, Events, LiveSecond, LoadStarted, SweepOpened, SweepTrialStarted, TrialStarted};
pub use forecast::{StudyForecast, describe_cold_start, read_ahead_in_force};
pub use headline::{PGTHAW, render_headline};
pub use interference::{Interference, SecondShare};
pub use judged::{JudgedForecast, SweepVerdict, WrittenForecast, judge_forecast, judge_sweep};
pub use lab::Place;
pub use loading::{
    Bound, LoadOutcome, LoadSample, Loader, LoaderRatio, LoaderSummary, LoadingFinished, LoadingOptions, LoadingRun,
    LoadingSummary, LoadingTrial, RatioOf, WantedSource, apply_read_ranges, compute_loading_summary, run_loading,
};
pub use others::{Others, find_others};
pub use ratio_text::render_ratio;
pub use record::{
    Device, Disk, Machine, RelationResidency, ResidencyStrip, Run, Sample, StartState, StrategyOutcome, Study, Trial,
};
pub use secrets::Record;
pub use statistics::{Limits, MIN_PAIRS, Ratio, compute_ratio};
pub use stop::Stop;
pub use strategy::Strategy;
pub use summary::{NOTHING, Spread, StrategySummary, Summary, compute_summary};
pub use sweep::{
    BackgroundWrites, BufferUse, CellComparison, Checkpoint, CheckpointBegun, Column, Earlier, Envelope, Exceeded,
    Finding, GeneratorCalibration, ImportOptions, Imported, LatencyHistogram, MachineSeries, MeasurementVerdict,
    Metric, Noise, NoiseCell, Percentile, PlannedPoint, Point, PointSummary, PointVerdict, Range, Saturation,
    SaturationSign, ScriptLatency, Selection, Side, Stall, StartAsked, Sweep, SweepComparison, SweepFinished,
    SweepLock, SweepOptions, SweepPlan, SweepRun, SweepTrial, TrialGenerator, TrialGenerators, TrialOutline,
    TrialSeries, UnreadableHistogram, WaitSeries, compute_noise, compute_noises, compute_outline_summary,
    compute_sweep_comparison, compute_sweep_verdicts, is_twice, plan_sweep, read_import, read_setting_remarks,
    read_sweep, render_sweep_headline, run_sweep, texts_of,
};
pub use tournament::{Finished, Options, run_tournament};
pub use until_warm::UntilWarm;
