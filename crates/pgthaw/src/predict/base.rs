//! What all scenarios begin with, wherever it is from.

use serde::Serialize;

use cache::Selected;
use cache::warm::plan::Geometry;
use command::workload::WantedClass;
use model::{Access, Knee, Outlook, Server, Workload};

/// What all scenarios begin with.
#[derive(Debug)]
pub struct Base {
    pub workload: Workload,
    pub server: Server,
    pub assumptions: Vec<String>,
    pub knees: Option<Knees>,
    /// The snapshot that a restore would take; `None` without one.
    pub snapshot: Option<Selected>,
    /// What a restore of it would read.
    pub restore: Option<RestoreInput>,
    /// Is there a bandwidth, by which a restore can be forecast?
    pub has_bandwidth: bool,
}

/// What the planner of a restore has to know.
#[derive(Debug)]
pub struct RestoreInput {
    pub wanted: Vec<WantedClass>,
    pub geometry: Geometry,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Prediction {
    pub assumptions: Vec<String>,
    /// What a transaction asks for.
    pub classes: Vec<Access>,
    /// What popularity and the restore are of; `None` without one.
    pub snapshot: Option<Selected>,
    /// Knees of the closed form, for one client and uniform popularity.
    pub knees: Option<Knees>,
    /// What the forecast is to be held against.
    pub rough_estimate: RoughEstimate,
    /// Why a restore is later than nothing, where one is.
    pub remarks: Vec<String>,
    pub scenarios: Vec<Outlook>,
}

/// Each page read once, one after the other: the estimate of Coelho's "Postgres Warm-up", 191,360 × 4.7 ms = 899 s.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RoughEstimate {
    pub pages: f64,
    /// Of a transaction that reads one page, alone on the device.
    pub read_seconds: f64,
    pub seconds: f64,
}

impl RoughEstimate {
    pub fn new(workload: &Workload, server: &Server) -> RoughEstimate {
        let pages = workload.classes.iter().map(|class| class.pages).sum::<f64>();
        let budget_seconds = server.device.reads_per_second.recip();
        let read_seconds = workload.hit_seconds + server.device.latency_at(1.0).max(budget_seconds);
        RoughEstimate { pages, read_seconds, seconds: pages * read_seconds }
    }
}

/// Where throughput rises most steeply by the closed form.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Knees {
    /// All pages as one relation: the simple curve.
    pub simple: Steepest,
    /// Each relation for itself.
    pub parallel: Steepest,
}

/// One knee by the transaction, one by the second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Steepest {
    pub by_transaction: Knee,
    pub by_second: Knee,
}

impl Knees {
    /// The knees for people.
    pub fn render(&self) -> String {
        let of = |name: &str, knee: &Steepest| {
            let Knee { transaction, seconds, cached_share, .. } = knee.by_transaction;
            format!(
                "{name} steepest at transaction {transaction:.0}, after {seconds:.0} s, {:.1} % cached; by the second after {:.0} s",
                100.0 * cached_share,
                knee.by_second.seconds
            )
        };
        format!("{}\n{}", of("as one relation: ", &self.simple), of("each for itself: ", &self.parallel))
    }
}
