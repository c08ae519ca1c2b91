//! A sweep: its axes, its points, its trials.

mod axis;
mod brought;
mod database;
mod exceeded;
mod forecast;
mod fresh;
mod generators;
mod ground;
mod histogram;
mod import;
mod job;
mod latency;
mod log;
mod making;
mod named_file;
mod places;
mod plan;
mod point;
pub(crate) mod record;
pub(crate) mod spec;
mod start;
mod trial_generators;
mod warming;
mod warmup;

pub use brought::{Bound, Brought, LoadSample, RESIDENT_SHARE};
pub use database::{DATABASE, DatabaseKey, DatabaseSpec};
pub use exceeded::Exceeded;
pub use forecast::{
    CALIBRATION_SECONDS, TimeLeft, forecast_warm_seconds, image_bytes, needed_bytes_on, part_image_bytes,
};
pub use fresh::{CopyWay, FreshCopy};
pub use generators::Generators;
pub use ground::{FileSystemSpec, ServerSpec};
pub use histogram::{LatencyHistogram, ScriptLatency};
pub use import::{ImportOptions, Imported, read_import};
pub use latency::Latencies;
pub use log::{AUTOVACUUM, LOG_LINE_PREFIX, parse_checkpoints, tells_of_trial};
pub use making::{DatabaseMaking, MakingStep};
pub use places::{Part, Places};
pub use plan::{PlannedPoint, SweepPlan, check_room, plan_sweep, plan_turns};
pub use point::{AxisLength, DEFAULT_SERVER, NATIVE, Point, SIDE, SIDES, STRATEGY, TOGETHER};
pub use record::{
    BufferUse, Checkpoint, CheckpointBegun, GeneratorCalibration, SweepRun, SweepTrial, TrialDevice,
    compute_worst_second, empty_trial,
};
pub use spec::{Sweep, parse_sweep, read_sweep, render_digest};
pub use start::{LoadBegins, StartAsked};
pub use trial_generators::{TrialGenerator, TrialGenerators};
pub use warming::{Climb, Job, Warming, WarmingFigures};
pub use warmup::{Until, WarmupAsked, WarmupFacts};
