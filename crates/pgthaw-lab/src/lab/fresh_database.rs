//! The databases of a stopped server as they were before the first trial, and a copy of them for each.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::cluster::{Lab, evict_files};
use super::error::Error;
use super::generator::run_pgbench;
use super::launch::Launch;
use super::launch::Stop;
use super::left::read_held_bytes;
use crate::study::{CopyWay, Event, Events, FreshCopy};
use host::files::{Directory, directory_of};
use host::units::Bytes;

/// What is kept stands beside what it is kept of, under this name.
const KEPT: &str = "fresh";

/// A copy that is not whole.
const UNFINISHED: &str = "unfinished";

/// What a copy takes the place of, while it is removed.
const REPLACED: &str = "replaced";

/// What trials' databases are copied from.
#[derive(Clone, Debug)]
pub struct FreshDatabase {
    /// The parts of the cluster that lie elsewhere, then the data directory: while that is not whole no part counts.
    places: Vec<Place>,
    way: CopyWay,
    /// For what programs say meanwhile.
    directory: PathBuf,
    events: Events,
    stop: Stop,
}

/// A directory of the cluster, by the one that it stands in and its name there.
#[derive(Clone, Debug)]
struct Place {
    parent: PathBuf,
    name: &'static str,
}

impl Place {
    fn open(&self) -> Result<Directory, Error> {
        Directory::open(&self.parent).map_err(self.failed_to("open"))
    }

    fn failed_to(&self, action: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::file(action, &self.parent, source)
    }

    /// Removes what has this name, if anything has.
    fn remove(&self, name: &str) -> Result<(), Error> {
        match self.open()?.remove_tree(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed_to("remove a copy in")(error)),
            _ => Ok(()),
        }
    }

    fn kept_bytes(&self) -> Bytes {
        read_held_bytes(&self.parent.join(KEPT))
    }
}

impl FreshDatabase {
    /// Keeps the databases of the stopped server as they are. What a run of the same sweep has kept before it was killed stays: it is
    /// from before the first trial.
    pub fn keep(lab: &Lab, directory: &Path, events: &Events, stop: &Stop) -> Result<FreshDatabase, Error> {
        let parts = lab.parts().iter().map(|(part, elsewhere)| Place {
            parent: elsewhere.clone(),
            name: part.directory().unwrap_or_else(|| part.name()),
        });
        let data = lab.data_directory();
        let rest = Place { parent: directory_of(&data).to_owned(), name: "data" };
        let mut fresh = FreshDatabase {
            places: parts.chain([rest]).collect(),
            way: CopyWay::Reflink,
            directory: directory.to_owned(),
            events: events.clone(),
            stop: stop.clone(),
        };
        let probe = fresh.places.iter().try_for_each(|place| fresh.probe(place));
        if probe.is_err() {
            stop.check()?;
            fresh.way = CopyWay::Copy;
        }
        if !fresh.places.iter().all(|place| place.parent.join(KEPT).exists()) {
            events.tell(Event::Step(format!("keeping the databases as they are ({})", fresh.way.name())));
            for place in &fresh.places {
                place.remove(KEPT)?;
                fresh.copy(place, place.name, KEPT, &|| ())?;
            }
        }
        Ok(fresh)
    }

    /// Can the file system of a place share blocks? Tried, not deduced.
    fn probe(&self, place: &Place) -> Result<(), Error> {
        let probe = place.parent.join(UNFINISHED);
        std::fs::write(&probe, "probe").map_err(place.failed_to("write in"))?;
        let copied = self.run_cp(CopyWay::Reflink, &probe, &place.parent.join(REPLACED), &|| ());
        place.remove(UNFINISHED)?;
        place.remove(REPLACED)?;
        copied
    }

    /// Puts the databases of the stopped server back as they were kept.
    pub fn put_back(&self, lab: &mut Lab) -> Result<FreshCopy, Error> {
        let began = Instant::now();
        self.events.tell(Event::Step(format!("copying the databases anew ({})", self.way.name())));
        // Whoever is killed from here on leaves no cluster, until all of it is whole again.
        for place in self.places.iter().rev() {
            place.remove(REPLACED)?;
            match place.open()?.rename(place.name, REPLACED) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(place.failed_to("replace what is in")(error));
                }
                _ => {}
            }
        }
        let bytes: Bytes = self.places.iter().map(Place::kept_bytes).sum();
        for place in &self.places {
            place.remove(REPLACED)?;
            let target = place.parent.join(UNFINISHED);
            let share = || read_held_bytes(&target).0 as f64 / bytes.0.max(1) as f64;
            self.copy(place, KEPT, place.name, &|| self.events.tell(Event::StepShare(share().min(1.0))))?;
            // Else it takes memory from the trial.
            evict_files(&place.parent.join(KEPT))?;
        }
        lab.open_again()?;
        Ok(FreshCopy { way: self.way, bytes, seconds: began.elapsed().as_secs_f64() })
    }

    /// Copies a directory, and gives the copy its name when all of it is on the disk.
    fn copy(&self, place: &Place, from: &str, to: &str, tell: &dyn Fn()) -> Result<(), Error> {
        place.remove(UNFINISHED)?;
        self.run_cp(self.way, &place.parent.join(from), &place.parent.join(UNFINISHED), tell)?;
        let synchronised = File::open(&place.parent).and_then(|parent| Ok(rustix::fs::syncfs(parent)?));
        synchronised.map_err(place.failed_to("synchronise"))?;
        place.open()?.rename(UNFINISHED, to).map_err(place.failed_to("name the copy in"))
    }

    fn run_cp(&self, way: CopyWay, from: &Path, to: &Path, tell: &dyn Fn()) -> Result<(), Error> {
        let how = match way {
            CopyWay::Reflink => "--reflink=always",
            CopyWay::Copy => "--reflink=never",
        };
        let options = ["-aT", how].map(std::ffi::OsString::from);
        let launch = Launch::new("cp", options.into_iter().chain([from.into(), to.into()]));
        run_pgbench(launch, "copy", &self.directory, &self.stop, |_| tell()).map(drop).map_err(|error| match error {
            Error::Program { output, .. } => Error::Program { program: "cp", output },
            other => other,
        })
    }
}
