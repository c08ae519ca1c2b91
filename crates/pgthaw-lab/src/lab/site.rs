//! Sites: one cluster for each combination of file system, server programs and places of the cluster's parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use super::cluster::{Lab, Place};
use super::databases::{FreshDatabase, MadeDatabases, open_lab, start_server};
use super::disk::{
    FileSystemMaker, GroundFacts, OwnFileSystem, PartDisk, REST, choose_in_force, leaves_files_as_they_were,
};
use super::launch::Work;
use super::left::{disclaim, find_left, read_held_bytes, remove_left};
use super::server::{check_settings_known, connect, find_servers};
use crate::study::{
    DEFAULT_SERVER, Disk, NATIVE, Places, Point, Result, Sweep, SweepRun, TOGETHER, TrialDevice, check_room,
    needed_bytes_on,
};
use host::linux::{Devices, read_block_device, read_free_bytes};
use host::units::Bytes;
use observe::OsSample;
use postgres::{Programs, ServerBuild, read_server_build};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteKey {
    pub file_system: String,
    pub server: String,
    pub places: String,
}

impl SiteKey {
    pub fn of(point: &Point) -> SiteKey {
        SiteKey { file_system: point.file_system.clone(), server: point.server.clone(), places: point.places.clone() }
    }

    pub fn all(sweep: &Sweep) -> Vec<SiteKey> {
        let axes = &sweep.axes;
        let grounds = axes.file_system.iter().flat_map(|one| axes.server.iter().map(move |server| (one, server)));
        let key = |((file_system, server), places): ((&String, &String), &String)| SiteKey {
            file_system: file_system.clone(),
            server: server.clone(),
            places: places.clone(),
        };
        grounds.flat_map(|ground| axes.places.iter().map(move |places| (ground, places))).map(key).collect()
    }

    pub fn name_disk(&self, disk: &str, sweep: &Sweep) -> String {
        match sweep.axes.file_system.len() {
            1 => disk.to_owned(),
            _ => format!("{disk} on {}", self.file_system),
        }
    }

    fn claim_text(&self, id: &str) -> String {
        let parts = [
            ("file_system", &self.file_system, NATIVE),
            ("server", &self.server, DEFAULT_SERVER),
            ("places", &self.places, TOGETHER),
        ];
        let own = parts.into_iter().filter(|(_, value, usual)| value != usual);
        let own = own.map(|(axis, value, _)| format!("{axis}={value}"));
        [id.to_owned()].into_iter().chain(own).collect::<Vec<_>>().join(" ")
    }
}

#[derive(Clone, Debug)]
pub struct StudyAsked {
    pub programs: Programs,
    /// Parent directory of a scratch cluster, on the measured disk; or the borrowed lab server.
    pub place: Place,
    pub sweep: Sweep,
    pub is_kept: bool,
    /// Device figures for a forecast; `None` if unknown.
    pub device: Option<model::Device>,
}

#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The caller holds the sweep's [lock](crate::lab::SweepLock).
    pub id: String,
    pub asked: StudyAsked,
    pub earlier: Option<Earlier>,
    pub unfinished: BTreeSet<String>,
    /// A killed sweep's clusters stay if the sweep will be resumed.
    pub goes_on: bool,
}

#[derive(Clone, Debug)]
pub struct Earlier {
    pub run: SweepRun,
    /// Point number and repeat of each stored trial.
    pub finished: BTreeSet<(u32, u32)>,
}

#[derive(Debug)]
pub struct SiteMaker<'a> {
    options: &'a SweepOptions,
    pub programs: BTreeMap<String, Programs>,
    pub work: Work<'a>,
}

#[derive(Debug)]
pub struct Site {
    // Fields are dropped in this order: the server before the file system below it.
    pub lab: Lab,
    /// `None` for a borrowed cluster.
    cluster_claim: Option<File>,
    file_system: Option<OwnFileSystem>,
    pub databases: MadeDatabases,
    pub devices: Devices,
    /// Disks by name, each with its limits or why they are not in force.
    pub disks: BTreeMap<String, Disk>,
    /// Strategies that cannot run here, with instructions to enable them.
    pub left_out: BTreeMap<&'static str, String>,
    pub block_size: Bytes,
    pub build: ServerBuild,
    /// `None` unless each trial gets a fresh copy of the databases.
    pub fresh: Option<FreshDatabase>,
    /// Settings in force; `None` if the server is stopped or needs a restart.
    pub running: Option<Vec<(String, String)>>,
}

impl SiteMaker<'_> {
    /// Checks all requirements before it creates anything.
    pub fn new<'a>(options: &'a SweepOptions, work: Work<'a>) -> Result<SiteMaker<'a>> {
        let asked = &options.asked;
        for spec in asked.sweep.file_systems.values() {
            spec.asked.check_available()?;
        }
        asked.sweep.check_memory()?;
        let programs = find_servers(&asked.sweep, &asked.programs)?;
        for remark in check_settings_known(&asked.sweep, &programs)? {
            work.remark(remark);
        }
        Ok(SiteMaker { options, programs: with_common_pgbench(programs), work })
    }

    pub fn first_programs(&self) -> &Programs {
        let first = self.options.asked.sweep.axes.server.first().and_then(|name| self.programs.get(name));
        first.unwrap_or(&self.options.asked.programs)
    }

    pub async fn open(&self, key: &SiteKey) -> Result<Site> {
        self.work.stop.check()?;
        let programs = self.programs.get(&key.server).unwrap_or(&self.options.asked.programs);
        let clients_max = self.options.asked.sweep.axes.clients.iter().copied().max().unwrap_or(1);
        let text = key.claim_text(&self.options.id);
        let file_system = self.make_file_system(key, &text)?;
        let own_place = file_system.as_ref().map(|own| Place::Scratch { parent: own.mount_point() });
        let parts = file_system.as_ref().map(OwnFileSystem::part_mount_points).unwrap_or_default();
        let place = own_place.as_ref().unwrap_or(&self.options.asked.place);
        self.work.step(match place {
            Place::Scratch { .. } => "creating a scratch cluster",
            Place::Borrowed { .. } => "stopping the lab server, to run its cluster behind a private socket",
        });
        let (mut lab, cluster_claim) = open_lab(programs, place, &text, clients_max, parts, self.work)?;
        if let Some(generators) = &self.options.asked.sweep.generators {
            lab.listen(&generators.address)?;
        }
        if let Some(own) = &file_system {
            lab.backing_files = own.images();
        }
        let native = || read_block_device(place.directory()).ok().map(|device| device.number).into();
        let mut site = Site {
            devices: file_system.as_ref().map_or_else(native, OwnFileSystem::devices),
            disks: self.find_disks(place.directory(), file_system.is_some()),
            lab,
            cluster_claim,
            file_system,
            databases: MadeDatabases::new(),
            left_out: BTreeMap::new(),
            block_size: Bytes(0),
            build: ServerBuild::default(),
            fresh: None,
            running: None,
        };
        self.start(&mut site).await?;
        let (server, mut connection) = connect(&site.lab).await?;
        site.block_size = Bytes(server.facts.block_size.into());
        site.build = read_server_build(&mut connection).await?;
        Ok(site)
    }

    /// Keeps the databases of an earlier study's site. Evicts the page cache, whose pages would look hot.
    pub async fn use_again(&self, site: &mut Site) -> Result<()> {
        self.work.stop.check()?;
        site.rest()?;
        site.lab.apply_evict()?;
        site.disks = self.find_disks(self.options.asked.place.directory(), site.owns_device());
        self.start(site).await
    }

    async fn start(&self, site: &mut Site) -> Result<()> {
        site.left_out = start_server(&self.options.asked.sweep, &mut site.lab, self.work.stop).await?;
        Ok(())
    }

    /// Fails if free space, plus the leftovers that this sweep reuses, is too small.
    pub fn check_room(&self) -> Result<()> {
        let (sweep, parent) = (&self.options.asked.sweep, self.options.asked.place.directory());
        let missing = |key: SiteKey| {
            let left = find_left(parent, &key.claim_text(&self.options.id));
            let held = left.map_or(Bytes(0), |directory| read_held_bytes(&directory));
            needed_bytes_on(&key.file_system, &key.places, sweep).0.saturating_sub(held.0)
        };
        let needed = Bytes(SiteKey::all(sweep).into_iter().map(missing).sum());
        check_room(needed, read_free_bytes(parent)?, parent)
    }

    fn make_file_system(&self, key: &SiteKey, text: &str) -> Result<Option<OwnFileSystem>> {
        let StudyAsked { sweep, place, .. } = &self.options.asked;
        let Some(spec) = sweep.file_systems.get(&key.file_system) else { return Ok(None) };
        let (none, name) = (Places::new(), key.file_system.as_str());
        let places = sweep.places.get(&key.places).unwrap_or(&none);
        let maker = FileSystemMaker { parent: place.directory(), name, spec, places, sweep, work: self.work };
        maker.make(text).map(Some)
    }

    /// Removes leftovers of killed runs that will not be resumed. Keeps this sweep's own unless it `is_over`.
    pub fn remove_left(&self, is_over: bool) {
        let SweepOptions { id, asked, unfinished, .. } = self.options;
        let Place::Scratch { parent } = &asked.place else { return };
        let own = (!is_over).then_some(id.as_str());
        let others = unfinished.iter().filter(|other| *other != id).cloned().collect();
        remove_left(parent, own, &others, self.work.events);
    }

    fn find_disks(&self, place: &Path, is_own: bool) -> BTreeMap<String, Disk> {
        let find = |(name, disk): (&String, &Disk)| (name.clone(), choose_in_force(place, disk.clone(), is_own));
        let disks: BTreeMap<String, Disk> = self.options.asked.sweep.disks.iter().map(find).collect();
        for (name, disk) in &disks {
            for (what, reason) in disk.not_in_force() {
                self.work.remark(format!("the {what} of the disk {name} is not in force: {reason}"));
            }
        }
        disks
    }
}

impl Site {
    pub fn owns_device(&self) -> bool {
        self.file_system.is_some()
    }

    pub fn read_file_systems(&self) -> Result<GroundFacts> {
        self.file_system.as_ref().map_or_else(|| Ok(GroundFacts::default()), OwnFileSystem::read_facts)
    }

    pub fn part_disks(&self) -> Vec<PartDisk> {
        self.file_system.as_ref().map(|own| own.part_disks(&self.disks)).unwrap_or_default()
    }

    /// Disk limits by part of the cluster; empty if all parts are on one device. `disk`: limit of the data directory.
    pub fn limits(&self, disk: &Disk) -> Vec<(&'static str, Disk)> {
        if self.devices.parts.is_empty() {
            return Vec::new();
        }
        let parts = self.part_disks().into_iter().map(|part| (part.part, part.disk));
        [(REST, disk.clone())].into_iter().chain(parts).collect()
    }

    pub fn describe_devices(&self, point: &Point, facts: &GroundFacts, seconds: &[OsSample]) -> Vec<TrialDevice> {
        let own = self.file_system.as_ref();
        own.map(|own| own.describe_devices(&point.disk, facts, seconds)).unwrap_or_default()
    }

    pub fn can_run(&self, point: &Point) -> bool {
        !self.left_out.contains_key(point.strategy.as_str())
    }

    pub fn note_running(&mut self, point: &Point, has_failed: bool) {
        let is_known = !has_failed
            && self.part_disks().is_empty()
            && self.disks.get(&point.disk).is_none_or(leaves_files_as_they_were);
        self.running = is_known.then(|| point.settings.clone());
    }

    pub fn rest(&mut self) -> Result<()> {
        self.running = None;
        self.lab.stop()
    }

    /// With `keep`, returns the cluster's directory, unless it is in the site's own file system.
    pub async fn finish(self, keep: bool) -> Result<Option<PathBuf>> {
        let Site { lab, cluster_claim, file_system, .. } = self;
        let finished = lab.finish(keep && file_system.is_none()).await;
        if let (Ok(Some(kept)), Some(_)) = (&finished, &cluster_claim) {
            // Otherwise the next study would remove the kept cluster.
            disclaim(kept)?;
        }
        drop(cluster_claim);
        let removed = file_system.map_or(Ok(()), OwnFileSystem::remove);
        finished.and_then(|kept| removed.map(|()| kept))
    }
}

/// All server versions use the newest pgbench, so that it causes no difference.
fn with_common_pgbench(programs: BTreeMap<String, Programs>) -> BTreeMap<String, Programs> {
    let has_own = |one: &&Programs| one.bin_dir().join("pgbench").is_file();
    let newest = programs.values().filter(has_own).max_by_key(|one| one.version().map_or(0, |version| version.major));
    match newest.cloned() {
        Some(newest) if programs.len() > 1 => {
            programs.into_iter().map(|(name, one)| (name, one.with_pgbench_of(&newest))).collect()
        }
        _ => programs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::spec::tests::sweep;

    #[test]
    fn every_pair_of_file_system_and_server_is_a_site_with_a_claim_of_its_own() {
        let study = sweep("[points]\nfile_system = [\"native\", \"xfs\"]\nserver = [\"default\", \"15\"]\n").unwrap();
        let places =
            "[points]\nfile_system = \"xfs\"\nplaces = [\"together\", \"apart\"]\n[places.apart]\nwal = \"gp3\"\n";
        let apart = SiteKey::all(&sweep(places).unwrap());
        let claims: Vec<String> = apart.iter().map(|key| key.claim_text("7")).collect();
        assert_eq!(claims, ["7 file_system=xfs", "7 file_system=xfs places=apart"]);
        let keys = SiteKey::all(&study);
        let claims: Vec<String> = keys.iter().map(|key| key.claim_text("7")).collect();
        assert_eq!(claims, ["7", "7 server=15", "7 file_system=xfs", "7 file_system=xfs server=15"]);
        for number in 0..study.points() {
            assert!(keys.contains(&SiteKey::of(&study.point(number))));
        }
    }
}
