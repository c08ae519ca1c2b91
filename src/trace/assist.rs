//! Helps a job: finds its film, decides before it starts, and brings what it needs.

use std::fs::File;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use jiff::Timestamp;

use super::attend::Progress;
use super::choice::WHOLE;
use super::decision::{Circumstances, Decision, Forecasts, decide, forecast_alone, lost_reason, read_ahead_reason};
use super::film::{Film, FilmHeader};
use super::polling::Own;
use super::preload::{Bringer, Preloaded};
use super::simulation::{Run, Way};
use super::store::{FilmStore, Like};
use super::touched::Touched;
use super::windowed::Windowed;
use super::{Error, windows};
use crate::cache::Map;
use crate::linux::page_cache::PageCache;
use crate::linux::process::stand_behind_others;
use crate::postgres::DataDirectory;
use crate::units::Bytes;
use crate::warm::plan::Geometry;
use crate::warm::{DeviceProfile, Room};

/// Which film a job goes by.
#[derive(Clone, Debug)]
pub enum Which {
    /// The best of those under a name, for this command.
    Like { label: String, job: String },
    /// This one.
    File(PathBuf),
}

/// The run that a film is of.
fn run_of(header: &FilmHeader) -> Run {
    // Where its files lie on another disk too, the reads of this one tell nothing; nor do the few beside a job that found its blocks cached.
    let fetched_bytes = header.bytes(header.totals.fetched_blocks);
    let is_of_all = header.device_bytes.is_none_or(|read| read.0 >= fetched_bytes.0 / 2);
    Run {
        seconds: header.seconds,
        device_reads: header.device_reads.filter(|_| is_of_all && header.totals.is_fetched()),
        is_cold: !header.totals.is_preloaded(),
        preloaded: header.bytes(header.totals.preloaded_blocks),
    }
}

/// Is it of a run that waited for the device, and had it for itself?
fn tells_device(header: &FilmHeader) -> bool {
    !header.totals.is_preloaded() && header.totals.is_fetched()
}

/// Is most of what films have there still?
fn is_whole(touched: &Touched) -> bool {
    touched.lost_share() <= 1.0 - WHOLE
}

/// What a job could be helped with.
#[derive(Debug)]
pub struct Assist {
    pub store: FilmStore,
    pub which: Which,
    pub map: Arc<Map>,
    pub device: DeviceProfile,
    /// What can be cached and stay; `None` when nobody knows.
    pub room: Option<Bytes>,
    /// Of it the server's shared memory takes as much as this, by and by.
    pub untouched: Bytes,
    /// When the server was started: what shared_buffers had before is there no more. `None` where that is not known.
    pub started_at: Option<Timestamp>,
}

/// What a job is going to be helped with.
#[derive(Debug)]
pub struct Planned {
    /// The film that was gone by.
    pub film: Option<String>,
    /// The one that it would have been, if most of that were not gone.
    pub lost: Option<String>,
    pub decision: Decision,
    /// Does a film tell how the device serves the job, for it fetched its blocks by itself then?
    pub tells_device: bool,
    /// The command that the film is of.
    pub job: String,
    pub remarks: Vec<String>,
    touched: Touched,
    had_workers: Option<bool>,
    /// Of a job that is left alone without its film having been read.
    forecast: Option<Forecast>,
}

/// What it is helped by.
pub struct Means {
    pub directory: DataDirectory,
    pub page_cache: Arc<dyn PageCache>,
    pub room: Box<dyn Room>,
    pub own: Arc<Own>,
    pub progress: Arc<Progress>,
    /// Set when the job has ended.
    pub stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Means {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Means").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Assist {
    /// Decides. Of films that a name stands for what is in their way is the decision's reason.
    ///
    /// # Errors
    /// When the one film that was asked for is no good, or of another cluster.
    pub fn plan(self) -> Result<Planned, Error> {
        let is_the_one = matches!(self.which, Which::File(_));
        match self.decide() {
            Err(error) if !is_the_one => Ok(Planned::nothing(format!("its films cannot be used: {error}"), Vec::new())),
            decided => decided,
        }
    }

    /// The films to go by, of those that were recorded after a moment, if one is named.
    fn find(&self, after: Option<Timestamp>) -> Result<Like, Error> {
        let cluster = self.map.source.system_identifier;
        match &self.which {
            Which::Like { label, job } => self.store.find_like(cluster, label, job, after),
            Which::File(path) => {
                let film = Film::open(path)?;
                let of = film.header().source.system_identifier;
                if of != cluster {
                    return Err(Error::OtherCluster { path: path.clone(), film: of, cluster });
                }
                let name = path.display().to_string();
                Ok(Like { film: Some(film), alone: None, name, remarks: Vec::new() })
            }
        }
    }

    fn decide(self) -> Result<Planned, Error> {
        let like = self.find(None)?;
        let (name, mut remarks) = (like.name, like.remarks);
        let Some(film) = like.film else {
            let called = match &self.which {
                Which::Like { label, .. } => label.clone(),
                Which::File(path) => path.display().to_string(),
            };
            return Ok(Planned::nothing(format!("there is no film called {called} with anything in it yet"), remarks));
        };
        let plan = self.planning(like.alone, film);
        let header = plan.header();
        let of_film = header.bytes(header.totals.wanted_blocks());
        if let Some(reason) = read_ahead_reason(&plan.circumstances(of_film, 1.0), of_film) {
            // What is forecast for it takes a while to know, and is no reason to keep it waiting.
            let job = header.job.clone();
            let forecast = Some(Forecast(Box::new(move || plan.forecast_alone())));
            let nothing = Planned::nothing(reason, remarks);
            return Ok(Planned { film: Some(name), job, tells_device: true, forecast, ..nothing });
        }
        let mut told = plan.tell(name)?;
        let mut lost = None;
        if let Some(newer) = self.find_newer(&told)? {
            remarks.push(format!("it goes by film {}, for most of {} is not there any more", newer.name, told.name));
            lost = Some(std::mem::replace(&mut told, newer).name);
        }
        let Told { name, plan, touched, remarks: of_film } = told;
        remarks.extend(of_film);
        let circumstances = plan.circumstances_of(&touched);
        let geometry = plan.geometry();
        let cut = |most: Bytes, device: DeviceProfile| windows::cut(&plan.films[0], &touched, most, device, geometry);
        let decision = decide(&touched, circumstances, cut)?;
        let header = plan.header();
        let had_workers = header.workers.map(|workers| workers > 0);
        // What came of relations that are gone took time that is not the device's any more.
        let tells_device = tells_device(header) && is_whole(&touched);
        let (film, job) = (Some(name), header.job.clone());
        Ok(Planned { film, job, lost, decision, tells_device, remarks, touched, had_workers, forecast: None })
    }

    fn planning(&self, alone: Option<Film<File>>, film: Film<File>) -> Planning {
        Planning {
            device: self.device,
            room: self.room,
            untouched: self.untouched,
            started_at: self.started_at,
            map: Arc::clone(&self.map),
            films: alone.into_iter().chain([film]).collect(),
        }
    }

    /// A film that has more of what is there, where much of the best one was rewritten or truncated since. Only a newer one can: what an older
    /// one has of the same files is gone too.
    fn find_newer(&self, best: &Told) -> Result<Option<Told>, Error> {
        let is_named = matches!(self.which, Which::File(_));
        let mut after = best.plan.films.last().map(|film| film.header().recorded_at);
        while !is_whole(&best.touched) && !is_named {
            let like = self.find(after)?;
            let Some(film) = like.film else { break };
            after = Some(film.header().recorded_at);
            let newer = self.planning(like.alone, film).tell(like.name)?;
            if newer.touched.blocks() as f64 * WHOLE > best.touched.blocks() as f64 {
                return Ok(Some(newer));
            }
        }
        Ok(None)
    }
}

/// What films tell of a job, and what there is to say of that.
struct Told {
    name: String,
    plan: Planning,
    touched: Touched,
    remarks: Vec<String>,
}

/// The films of a job, the one first that tells best how it goes alone, and what it runs under.
struct Planning {
    device: DeviceProfile,
    room: Option<Bytes>,
    untouched: Bytes,
    started_at: Option<Timestamp>,
    map: Arc<Map>,
    films: Vec<Film<File>>,
}

impl Planning {
    fn header(&self) -> &FilmHeader {
        self.films[0].header()
    }

    fn geometry(&self) -> Geometry {
        let source = &self.map.source;
        Geometry { block_size: source.block_size, segment_blocks: source.segment_blocks }
    }

    /// Reads them; the one whose blocks they are is called `name`.
    fn tell(self, name: String) -> Result<Told, Error> {
        let mut remarks = Vec::new();
        let touched = self.read(&mut remarks)?;
        Ok(Told { name, plan: self, touched, remarks })
    }

    fn read(&self, remarks: &mut Vec<String>) -> Result<Touched, Error> {
        let films: Vec<&Film<File>> = self.films.iter().collect();
        let is_older = |film: &Film<File>| self.started_at.is_some_and(|at| film.header().recorded_at < at);
        let touched = Touched::read(&films, &self.map, self.films.iter().all(is_older))?;
        let bytes = |blocks| self.header().bytes(blocks);
        if !touched.gone.is_empty() {
            let told = format!("left out, for they were dropped or rewritten since: {}", touched.gone.join(", "));
            remarks.push(format!(
                "{told}, {} of the film's {}",
                bytes(touched.gone_blocks),
                bytes(touched.film_blocks())
            ));
        }
        if touched.truncated_blocks > 0 {
            let truncated = bytes(touched.truncated_blocks);
            remarks.push(format!("left out, for their relations end before them now: {truncated} of the film"));
        }
        if touched.unproven_blocks > 0 {
            let unproven = bytes(touched.unproven_blocks);
            remarks.push(format!(
                "{unproven} of its relations were in shared_buffers when it was recorded, before the server was started again, and are not cached now: whether it needs them is not known. They are not brought, and in no forecast"
            ));
        }
        Ok(touched)
    }

    fn circumstances_of(&self, touched: &Touched) -> Circumstances {
        self.circumstances(self.header().bytes(touched.blocks()), 1.0 - touched.truncated_share())
    }

    /// Of a job that touches so much, and has this part of the film's to do, 0 to 1.
    fn circumstances(&self, touched: Bytes, part: f64) -> Circumstances {
        let header = self.header();
        // What the job asks for goes through shared_buffers, which grow by it until they are full.
        let grown = self.untouched.min(touched);
        Circumstances {
            run: run_of(header).part(part),
            device: self.device,
            geometry: self.geometry(),
            room: self.room.map(|room| Bytes(room.0.saturating_sub(grown.0))),
            device_bytes: header.device_bytes.map(|bytes| Bytes((bytes.0 as f64 * part) as u64)),
            is_paced: header.requested_bytes.is_some(),
        }
    }

    fn forecast_alone(self) -> Alone {
        let mut remarks = Vec::new();
        match self.read(&mut remarks) {
            Ok(touched) => match lost_reason(&touched) {
                None => Alone {
                    forecasts: Some(forecast_alone(&touched, self.circumstances_of(&touched))),
                    remarks,
                    lost: None,
                },
                lost => Alone { forecasts: None, remarks, lost },
            },
            Err(error) => Alone::unknown(&error),
        }
    }
}

/// What is forecast for a job that is left alone, when somebody has the time to compute it.
struct Forecast(Box<dyn FnOnce() -> Alone + Send>);

/// That forecast, and why the film is none to go by, if it is not.
struct Alone {
    forecasts: Option<Forecasts>,
    remarks: Vec<String>,
    lost: Option<&'static str>,
}

impl Alone {
    fn unknown(error: &dyn std::error::Error) -> Alone {
        Alone { forecasts: None, remarks: vec![format!("nothing is forecast: {error}")], lost: None }
    }
}

impl Forecast {
    /// The job runs meanwhile: it comes first.
    fn compute(self) -> Alone {
        let compute = move || {
            stand_behind_others();
            (self.0)()
        };
        let thread = thread::Builder::new().name("forecast".into()).spawn(compute);
        match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => Alone::unknown(&error),
        }
    }
}

impl std::fmt::Debug for Forecast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Forecast")
    }
}

impl Planned {
    /// Nothing, for this reason.
    pub fn nothing(reason: impl Into<String>, remarks: Vec<String>) -> Planned {
        let (film, job, lost, tells_device, touched, had_workers, forecast) = Default::default();
        let decision = Decision::nothing(reason);
        Planned { film, job, lost, decision, tells_device, remarks, touched, had_workers, forecast }
    }

    /// Is it to be brought before the job starts?
    pub fn comes_first(&self) -> bool {
        self.decision.way == Way::SetFirst
    }

    /// Is anything to be brought?
    pub fn brings(&self) -> bool {
        self.decision.way != Way::Nothing
    }

    /// Brings it; `None` where nothing is to be brought, and then what is forecast is known afterwards. It blocks until the job has ended or all is there.
    pub fn bring(&mut self, means: Means, geometry: Geometry) -> Option<Preloaded> {
        if let Some(forecast) = self.forecast.take() {
            let Alone { forecasts, remarks, lost } = forecast.compute();
            self.decision.forecasts = forecasts;
            self.decision.reason = lost.map_or_else(|| std::mem::take(&mut self.decision.reason), str::to_owned);
            self.remarks.extend(remarks);
        }
        if !self.brings() {
            return None;
        }
        let bringer = Bringer {
            page_cache: means.page_cache,
            directory: means.directory.path.clone(),
            geometry,
            touched: std::mem::take(&mut self.touched),
            own: means.own,
            room: means.room,
            stop: means.stop,
        };
        Some(match self.decision.way {
            Way::Windowed => {
                let windows = std::mem::take(&mut self.decision.windows);
                let (progress, room, had_workers) = (means.progress, self.decision.window_room, self.had_workers);
                Windowed { bringer: &bringer, windows: &windows, progress, room, had_workers }.run()
            }
            _ => bringer.bring_all(&std::mem::take(&mut self.decision.reads)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::film::Totals;

    #[test]
    fn the_few_reads_beside_a_job_that_found_its_blocks_cached_tell_nothing() {
        let of = |fetched_blocks, requested_blocks, preloaded_blocks| {
            let totals = Totals { fetched_blocks, requested_blocks, preloaded_blocks, ..Totals::default() };
            let header = FilmHeader {
                totals,
                device_reads: Some(2),
                device_bytes: Some(Bytes(180_224)),
                ..FilmHeader::for_tests()
            };
            let Run { device_reads, is_cold, .. } = run_of(&header);
            (device_reads, is_cold)
        };
        assert_eq!(of(0, 13_000, 0), (None, true));
        assert_eq!(of(20, 13_000, 0), (None, true), "which may have been read ahead");
        assert_eq!(of(20, 10, 0), (Some(2), true));
        assert_eq!(of(30, 0, 5), (Some(2), false));
        assert_eq!(of(100, 10, 0), (None, true), "of another disk too");
    }
}
