mod axis;
mod built_in;
mod database;
mod error;
mod event;
mod finding;
#[cfg(fuzzing)]
pub mod fuzzing;
mod generators;
pub(crate) mod ground;
mod import;
mod latency;
mod measures;
mod others;
mod plan;
mod point;
pub(crate) mod record;
pub(crate) mod spec;

pub use built_in::{BUILT_IN_STUDIES, read_named};
pub use database::{
    CopyWay, DATABASE, DatabaseKey, DatabaseMaking, DatabaseSpec, FreshCopy, MakingStep, expected_bytes, plan_scale,
};
pub use error::{Error, Result};
pub use event::{
    Calibration, Event, Events, LiveSecond, Measured, Outcome, Seen, SweepTrialStarted, UntilWarm, compute_samples,
};
pub use finding::{Finding, MeasurementVerdict, Saturation, SaturationSign, texts_of};
pub use generators::{Generators, TrialGenerator, TrialGenerators};
pub use ground::{FileSystemSpec, Part, Places, ServerSpec, compute_bound_seconds};
pub use import::{ImportOptions, Imported, decode, first_thread, missing_thread, note_cut, read_import, threads_of};
pub use latency::{Latencies, LatencyHistogram, ScriptLatency};
pub use measures::{Join, MEASURES, Measure};
pub use others::{NOISE_TOLD, Others};
pub use plan::{
    CALIBRATION_SECONDS, PlannedPoint, SweepPlan, TimeLeft, check_room, forecast_warm_seconds, image_bytes,
    needed_bytes_on, plan_sweep, plan_turns, uniform_class,
};
pub use point::{
    DEFAULT_SERVER, LoadBegins, NATIVE, NOTHING, PGTHAW, Point, SIDE, SIDES, STRATEGY, StartAsked, Strategy, TOGETHER,
    Turn, Until,
};
pub use record::{
    AUTOVACUUM, Bound, Brought, Checkpoint, CheckpointBegun, Climb, Device, Disk, GeneratorCalibration, Job,
    LOG_LINE_PREFIX, LoadSample, Machine, NO_DISK, RESIDENT_SHARE, Record, RelationResidency, ResidencyCourse,
    ResidencyStrip, Sample, StartState, StrategyOutcome, StudyForecast, SweepRun, SweepTrial, TrialDevice,
    WARM_START_SHARE, Warming, WarmingFigures, WarmupFacts, compute_worst_second, empty_trial, hide_texts, new_run_id,
    parse_checkpoints, tells_of_trial,
};
pub use spec::{AUTO, Exceeded, Sweep, parse_sweep, read_study_text, render_digest, set_keys};
