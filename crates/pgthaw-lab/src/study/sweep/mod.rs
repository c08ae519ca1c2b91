//! A sweep: its axes, its points, its trials.

mod axis;
mod brought;
mod database;
mod exceeded;
mod forecast;
mod generators;
mod ground;
mod histogram;
mod import;
mod job;
mod keys;
mod latency;
mod log;
mod plan;
mod point;
pub(crate) mod record;
pub(crate) mod spec;
mod start;
mod warming;
mod warmup;

pub use brought::{Bound, Brought, LoadSample, RESIDENT_SHARE};
pub use database::{CopyWay, DATABASE, DatabaseKey, DatabaseMaking, DatabaseSpec, FreshCopy, MakingStep};
pub use exceeded::Exceeded;
pub use forecast::{
    CALIBRATION_SECONDS, TimeLeft, forecast_warm_seconds, image_bytes, needed_bytes_on, part_image_bytes,
};
pub use generators::{Generators, TrialGenerator, TrialGenerators};
pub use ground::{FileSystemSpec, Part, Places, ServerSpec};
pub use histogram::{LatencyHistogram, ScriptLatency};
pub use import::{ImportOptions, Imported, read_import};
pub use keys::set_keys;
pub use latency::Latencies;
pub use log::{AUTOVACUUM, LOG_LINE_PREFIX, parse_checkpoints, tells_of_trial};
pub use plan::{PlannedPoint, SweepPlan, check_room, plan_sweep, plan_turns};
pub use point::{AxisLength, DEFAULT_SERVER, NATIVE, Point, SIDE, SIDES, STRATEGY, TOGETHER};
pub use record::{
    BufferUse, Checkpoint, CheckpointBegun, GeneratorCalibration, SweepRun, SweepTrial, TrialDevice,
    compute_worst_second, empty_trial,
};
pub use spec::{AUTO, Sweep, parse_sweep, read_study_text, render_digest};
pub use start::{LoadBegins, StartAsked};
pub use warming::{Climb, Job, Warming, WarmingFigures};
pub use warmup::{Until, WarmupFacts};
