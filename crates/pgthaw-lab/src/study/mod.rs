//! What is asked of a study, and what is kept of it: types, and text that becomes a value. No process, no clock.

mod built_in;
mod calibration;
pub(crate) mod disk;
mod error;
mod event;
mod finding;
#[cfg(fuzzing)]
pub mod fuzzing;
mod measured;
mod measures;
mod order;
mod others;
pub(crate) mod record;
mod samples;
mod secrets;
pub mod size;
mod strategy;
pub(crate) mod sweep;

pub use built_in::{BUILT_IN_STUDIES, read_named};
pub use calibration::Calibration;
pub use disk::compute_bound_seconds;
pub use error::{ANOTHER_PLACE, Error};
pub use event::{Event, Events, LiveSecond, SweepOpened, SweepTrialStarted, UntilWarm};
pub use finding::{Finding, MeasurementVerdict, Saturation, SaturationSign, texts_of};
pub use measured::{Measured, Outcome, Seen};
pub use measures::{Join, MEASURES, Measure};
pub use order::{Turn, plan_order};
pub use others::{NOISE_TOLD, Others};
pub use record::{
    Device, Disk, Machine, NO_DISK, RelationResidency, ResidencyCourse, ResidencyStrip, Sample, StartState,
    StrategyOutcome, StudyForecast, new_run_id,
};
pub use samples::compute_samples;
pub use secrets::Record;
pub use strategy::{NOTHING, PGTHAW, Strategy};
pub use sweep::{
    AUTO, AUTOVACUUM, AxisLength, Bound, Brought, BufferUse, CALIBRATION_SECONDS, Checkpoint, CheckpointBegun, Climb,
    CopyWay, DATABASE, DEFAULT_SERVER, DatabaseKey, DatabaseMaking, DatabaseSpec, Exceeded, FileSystemSpec, FreshCopy,
    GeneratorCalibration, Generators, ImportOptions, Imported, Job, LOG_LINE_PREFIX, Latencies, LatencyHistogram,
    LoadBegins, LoadSample, MakingStep, NATIVE, Part, Places, PlannedPoint, Point, RESIDENT_SHARE, SIDE, SIDES,
    STRATEGY, ScriptLatency, ServerSpec, StartAsked, Sweep, SweepPlan, SweepRun, SweepTrial, TOGETHER, TimeLeft,
    TrialDevice, TrialGenerator, TrialGenerators, Until, Warming, WarmingFigures, WarmupFacts, check_room,
    compute_worst_second, empty_trial, forecast_warm_seconds, image_bytes, needed_bytes_on, parse_checkpoints,
    parse_sweep, part_image_bytes, plan_sweep, plan_turns, read_import, read_study_text, render_digest, set_keys,
    tells_of_trial,
};
