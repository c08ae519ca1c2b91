//! Helps a job that runs: finds its film, decides, and preloads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Error;
use super::decision::{Decision, decide};
use super::polling::Own;
use super::preload::{Preload, Preloaded};
use super::simulation::Run;
use super::store::FilmStore;
use super::touched::Touched;
use crate::cache::Map;
use crate::linux::page_cache::PageCache;
use crate::postgres::DataDirectory;
use crate::warm::plan::Geometry;
use crate::warm::restore::SystemRoom;
use crate::warm::{DeviceProfile, Room as _};

/// A film of which more than this part was preloaded says nothing of how long the job takes alone, 0 to 1.
const PRELOADED_SHARE_MAX: f64 = 0.1;

/// What a job is helped with.
pub struct Assist {
    pub store: FilmStore,
    /// The name under which its films are kept, and its command.
    pub label: String,
    pub job: String,
    pub map: Arc<Map>,
    pub directory: DataDirectory,
    pub page_cache: Arc<dyn PageCache>,
    pub device: DeviceProfile,
    pub room: SystemRoom,
    pub own: Arc<Own>,
    /// Set when the job has ended.
    pub stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Assist {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assist").field("label", &self.label).field("job", &self.job).finish_non_exhaustive()
    }
}

/// What a job was helped with.
#[derive(Clone, Debug, PartialEq)]
pub struct Assisted {
    /// The film that was gone by.
    pub film: Option<String>,
    pub decision: Decision,
    /// `None` where nothing was brought.
    pub preloaded: Option<Preloaded>,
    pub remarks: Vec<String>,
}

impl Assist {
    /// Does all of it. It blocks until the job has ended or all is there.
    pub fn run(self) -> Assisted {
        match self.help() {
            Ok(assisted) => assisted,
            Err(error) => Assisted {
                film: None,
                decision: Decision::nothing(format!("its films cannot be used: {error}")),
                preloaded: None,
                remarks: Vec::new(),
            },
        }
    }

    fn help(self) -> Result<Assisted, Error> {
        let like = self.store.find_like(self.map.source.system_identifier, &self.label, &self.job)?;
        let mut remarks = like.remarks;
        let Some(film) = like.film else {
            let decision = Decision::nothing(format!("there is no film called {} with anything in it yet", self.label));
            return Ok(Assisted { film: None, decision, preloaded: None, remarks });
        };
        let films: Vec<_> = like.alone.iter().chain([&film]).collect();
        let touched = Touched::read(&films, &self.map)?;
        if !touched.gone.is_empty() {
            remarks.push(format!("left out, for they were dropped or rewritten since: {}", touched.gone.join(", ")));
        }
        let header = films[0].header();
        let preloaded_share = header.totals.preloaded_blocks as f64 / header.totals.wanted_blocks().max(1) as f64;
        let run = Run {
            seconds: header.seconds,
            device_reads: header.device_reads,
            is_cold: preloaded_share <= PRELOADED_SHARE_MAX,
        };
        let source = &self.map.source;
        let geometry = Geometry { block_size: source.block_size, segment_blocks: source.segment_blocks };
        let room = self.room.read_room().map(|room| room.bytes);
        let mut decision = decide(&touched, run, self.device, geometry, room);
        let preload = Preload {
            page_cache: self.page_cache,
            directory: self.directory.path.clone(),
            geometry,
            reads: std::mem::take(&mut decision.reads),
            touched,
            own: self.own,
            room: Box::new(self.room),
            stop: self.stop,
        };
        let preloaded = (!preload.reads.is_empty()).then(|| preload.run());
        Ok(Assisted { film: Some(like.name), decision, preloaded, remarks })
    }
}
