//! What is known of a server, running or not, and what the model makes of it.

use std::path::PathBuf;

use super::arguments::PredictArguments;
use super::base::{Base, RestoreInput};
use super::hardware::read_device;
use crate::Target;
use crate::snapshot::snapshot_text::render_selected;
use cache::warm::plan::Geometry;
use cache::{BEST, Chosen, Tiers};
use command::read_ahead_bytes;
use command::workload::{make_classes, wanted_of};
use model::{ColdStart, Scenario};
use postgres::Activity;

/// Enough for a forecast.
pub struct Known {
    pub activity: Activity,
    pub snapshot: Option<Chosen>,
    pub clients: u32,
    pub hit_seconds: f64,
    pub cores: f64,
    pub memory_pages: f64,
    /// Pages of the server's shared_buffers; infinite where they are not known.
    pub buffers_pages: f64,
    pub geometry: Geometry,
    pub directory: Option<PathBuf>,
    /// Is the device one of this machine's?
    pub is_local: bool,
}

impl Known {
    /// Makes the base of a forecast, with the device's profile; `assumptions` go first.
    pub fn make_base(self, arguments: &PredictArguments, mut assumptions: Vec<String>) -> anyhow::Result<Base> {
        let block_bytes = f64::from(self.geometry.block_size);
        let (device, described) = read_device(arguments, self.directory.as_deref())?;
        assumptions.push(described);
        let read_ahead = read_ahead_bytes(arguments.read_ahead, self.directory.as_deref().filter(|_| self.is_local));
        assumptions.push(format!("the kernel reads ahead by up to {read_ahead}"));
        let map = self.snapshot.as_ref().map(|chosen| &chosen.snapshot.map);
        let made = make_classes(&self.activity, map, arguments.popularity.as_ref())?;
        assumptions.extend(made.describe());
        let cold = ColdStart {
            clients: self.clients,
            classes: made.classes,
            hit_seconds: self.hit_seconds,
            cores: self.cores,
            device,
            read_ahead,
            block_bytes,
            buffers_pages: self.buffers_pages,
            os_pages: self.memory_pages,
            client_reads: 0.0,
        };
        let Scenario { workload, mut server, .. } = cold.scenario();
        server.divide_memory(self.memory_pages, self.buffers_pages)?;
        workload.check()?;
        server.check()?;
        let wanted =
            self.snapshot.as_ref().map(|chosen| wanted_of(&workload.classes, &self.activity, &chosen.snapshot.map));
        let restore =
            wanted.filter(|wanted| !wanted.is_empty()).map(|wanted| RestoreInput { wanted, geometry: self.geometry });
        let snapshot = self.snapshot.map(|chosen| chosen.selected);
        Ok(Base { snapshot, workload, server, assumptions, knees: None, restore, has_bandwidth: true })
    }
}

/// The snapshot that a restore would take; `None` where there is none, or none that holds anything: a forecast is made without it too.
///
/// # Errors
/// When none can be read of those that there are.
pub async fn read_heat(arguments: &PredictArguments, target: &Target) -> Result<Option<Chosen>, cache::Error> {
    let Some(cluster) = target.system_identifier() else { return Ok(None) };
    match arguments.snapshots.open().read(BEST, cluster, &target.situation(Tiers::BOTH).await) {
        Err(cache::Error::NoSnapshot(_) | cache::Error::NothingHeld { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// Which one it was, why, and what there is to know of others. `what` is by it, such as popularity.
pub fn describe_snapshot(what: &str, chosen: &Chosen) -> Vec<String> {
    let mut lines = render_selected(&chosen.selected);
    lines.iter_mut().take(1).for_each(|line| line.insert_str(0, what));
    lines.into_iter().map(|line| line.trim().to_owned()).chain(chosen.remarks.iter().cloned()).collect()
}
