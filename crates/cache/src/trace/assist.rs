//! Helps a job: finds its film, decides before it starts, and reads what it needs; and the receipt that says what was done.

use std::fs::File;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use jiff::Timestamp;
use serde::Serialize;

use super::attend::{Attended, LOOK, Progress};
use super::decision::{Circumstances, Decision, Forecasts, decide, forecast_alone, lost_reason, read_ahead_reason};
use super::error::Error;
use super::film::{FilmHeader, Totals};
use super::film_file::Film;
use super::preload::{Bringer, Preloaded, Windowed, cut_windows};
use super::put_back::PutBack;
use super::simulation::{Run, Way};
use super::source::{JobSeen, Own};
use super::store::{FilmStore, Like, WHOLE};
use super::touched::Touched;
use crate::Map;
use crate::warm::plan::Geometry;
use crate::warm::{DeviceProfile, Room};
use host::linux::page_cache::PageCache;
use host::linux::process::stand_behind_others;
use host::units::Bytes;
use postgres::DataDirectory;

#[derive(Clone, Debug)]
pub enum Which {
    /// The best of those under a name, for this command.
    Like {
        label: String,
        job: String,
    },
    File(PathBuf),
}

/// Did the run wait for the device, and had it for itself?
fn tells_device(header: &FilmHeader) -> bool {
    !header.totals.is_preloaded() && header.totals.is_fetched()
}

/// Is most of the films' content still there?
fn is_whole(touched: &Touched) -> bool {
    touched.lost_share() <= 1.0 - WHOLE
}

/// What to decide by.
#[derive(Debug)]
pub struct Assist {
    pub store: FilmStore,
    pub which: Which,
    pub map: Arc<Map>,
    pub device: DeviceProfile,
    /// What can be cached and stay; `None` when nobody knows.
    pub room: Option<Bytes>,
    /// The part of it that the server's shared memory will still take.
    pub untouched: Bytes,
    /// When the server was started, and lost its shared_buffers; `None` where that is not known.
    pub started_at: Option<Timestamp>,
}

/// What was decided.
#[derive(Debug)]
pub struct Planned {
    /// The film that was gone by.
    pub film: Option<String>,
    /// The one that it would have been, were not most of its blocks gone.
    pub lost: Option<String>,
    pub decision: Decision,
    /// Does a film show how the device serves the job?
    pub tells_device: bool,
    /// The command that the film is of.
    pub job: String,
    pub remarks: Vec<String>,
    touched: Touched,
    had_workers: Option<bool>,
    /// Of a job that is left alone before its film was read.
    forecast: Option<Forecast>,
}

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
    /// Decides. Trouble with the films of a name becomes the decision's reason.
    ///
    /// # Errors
    /// When the one film that was named is damaged, or of another cluster.
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
            // The forecast takes a while: the job does not wait for it.
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
        let cut = |most: Bytes, device: DeviceProfile| cut_windows(&plan.films[0], &touched, most, device, geometry);
        let decision = decide(&touched, circumstances, cut)?;
        let header = plan.header();
        let had_workers = header.workers.map(|workers| workers > 0);
        // Time for relations that are gone counts as the job's own.
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

    /// A newer film with more of what is there, where much of the best one was rewritten or truncated since. An older film of the same files
    /// lost the same.
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

/// What films tell of a job.
struct Told {
    name: String,
    plan: Planning,
    touched: Touched,
    remarks: Vec<String>,
}

/// The films of a job, the one first that shows best how it goes alone.
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

    /// For a job that touches so much and does this part of the film's work, 0 to 1.
    fn circumstances(&self, touched: Bytes, part: f64) -> Circumstances {
        let header = self.header();
        // What the job reads goes through shared_buffers, which grow by it until they are full.
        let grown = self.untouched.min(touched);
        Circumstances {
            run: Run::of(header).part(part),
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

/// A forecast for a job that is left alone, computed while it runs.
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
    pub fn nothing(reason: impl Into<String>, remarks: Vec<String>) -> Planned {
        let (film, job, lost, tells_device, touched, had_workers, forecast) = Default::default();
        let decision = Decision::nothing(reason);
        Planned { film, job, lost, decision, tells_device, remarks, touched, had_workers, forecast }
    }

    pub fn comes_first(&self) -> bool {
        self.decision.way == Way::SetFirst
    }

    pub fn brings(&self) -> bool {
        self.decision.way != Way::Nothing
    }

    /// Brings it, and blocks until the job has ended or all is there. `None` where nothing is to be brought; then the forecast is known.
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

/// What `run` did for a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReceipt {
    pub seconds: f64,
    /// Before the job's start, to look at what is cached.
    pub prepared_seconds: f64,
    /// The film that was gone by, by its name.
    pub film: Option<String>,
    pub decision: Decision,
    /// `None` where nothing was brought.
    pub preloaded: Option<Preloaded>,
    /// The forecast held against what it came to; `None` where none was made.
    pub judged: Option<Judged>,
    /// `None` where the server does not run on this host.
    pub attended: Option<Attended>,
    /// `None` where nobody asked for it to be protected, or the server does not tell.
    pub others: Option<OthersSeen>,
    pub kept: Option<KeptFilm>,
    /// `None` where that was not asked for, or could not be done.
    pub put_back: Option<PutBack>,
    /// Another run goes on: it puts back when it ends.
    pub is_left_to_another: bool,
    pub remarks: Vec<String>,
}

impl RunReceipt {
    /// Of a job that has not begun, and for which nothing was done yet.
    pub fn new(prepared_seconds: f64, decision: Decision) -> RunReceipt {
        RunReceipt {
            seconds: 0.0,
            prepared_seconds,
            film: None,
            decision,
            preloaded: None,
            judged: None,
            attended: None,
            others: None,
            kept: None,
            put_back: None,
            is_left_to_another: false,
            remarks: Vec::new(),
        }
    }
}

/// What is to be said of the job's sessions. `counted`: those that were found while it ran, where they were looked for. `seen`: whether the
/// recorder saw server processes of it, and whom it took for its own without that. `is_kept`: its film is.
pub fn describe_sessions(counted: Option<usize>, seen: JobSeen, guessed: Vec<String>, is_kept: bool) -> Vec<String> {
    let short = LOOK.as_millis();
    let of_all = "has what all of the cluster asked for";
    let told = match (counted, seen) {
        (Some(0), JobSeen::Yes) if guessed.is_empty() => Some(format!(
            "its sessions were too short to be counted: it is looked for them each {short} ms; what they asked for is seen all the same"
        )),
        (Some(0), JobSeen::Yes) => None,
        (Some(0), _) => {
            let film =
                if is_kept && seen == JobSeen::Everybody { format!("; its film {of_all}") } else { String::new() };
            Some(format!(
                "no session of the job was seen on this server: it asks none, or another one, or through a pooler or another host (`pgthaw run --application-name NAME` finds sessions by their name), or by a process that has left the job's, or its sessions last less than {short} ms{film}"
            ))
        }
        (_, JobSeen::Everybody) if is_kept => Some(format!("its film {of_all}: whose each request was is not known")),
        _ => None,
    };
    told.into_iter().chain(guessed).collect()
}

/// A forecast held against what it came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Of the way that was taken.
    pub forecast_seconds: f64,
    /// From the job's start to its end, with what was brought before it.
    pub took_seconds: f64,
    /// How far it was off: 0.1 where it took a tenth longer than forecast, negative where it took less.
    pub error_ratio: f64,
    /// What was saved against the forecast without, by all that pgthaw took before the job too; `None` where nothing was brought, or the
    /// forecast is of another job.
    pub saved_seconds: Option<f64>,
}

impl Judged {
    /// `None` where no forecast was made, or none for the way that was taken. `prepared_seconds` were taken before anything was brought.
    pub fn new(
        decision: &Decision,
        preloaded: Option<&Preloaded>,
        job_seconds: f64,
        prepared_seconds: f64,
    ) -> Option<Judged> {
        let forecasts = decision.forecasts?;
        let forecast_seconds = forecasts.of(decision.way)?;
        let before = preloaded.filter(|_| decision.way == Way::SetFirst).map_or(0.0, |done| done.seconds);
        let took_seconds = job_seconds + before;
        let error_ratio = took_seconds / forecast_seconds.max(f64::MIN_POSITIVE) - 1.0;
        let saved_seconds =
            (decision.way != Way::Nothing).then_some(forecasts.nothing - took_seconds - prepared_seconds);
        Some(Judged { forecast_seconds, took_seconds, error_ratio, saved_seconds })
    }
}

/// What the server's clients had, by pg_stat_database of all of its databases. Transactions of pgthaw itself are not among it; the job's own
/// are, for the server does not count by session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OthersSeen {
    /// Transactions a second just before the job; `None` where nobody was at work.
    pub before_tps: Option<f64>,
    /// The same while it ran.
    pub during_tps: f64,
}

/// The film of a job, as it was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFilm {
    pub path: PathBuf,
    pub totals: Totals,
    /// Bytes that came meanwhile and were not preloaded, and those that were.
    pub fetched_bytes: Bytes,
    pub preloaded_bytes: Bytes,
    pub device_reads: Option<u64>,
    pub device_bytes: Option<Bytes>,
    pub lost_events: u64,
}

impl KeptFilm {
    pub fn new(path: PathBuf, header: &FilmHeader) -> KeptFilm {
        KeptFilm {
            path,
            totals: header.totals,
            fetched_bytes: header.bytes(header.totals.fetched_blocks),
            preloaded_bytes: header.bytes(header.totals.preloaded_blocks),
            device_reads: header.device_reads,
            device_bytes: header.device_bytes,
            lost_events: header.lost_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Forecasts;

    #[test]
    fn a_job_whose_sessions_nobody_saw_is_told_so() {
        let told = |counted, seen, is_kept| describe_sessions(counted, seen, Vec::new(), is_kept).join("; ");
        for (seen, is_kept) in [(JobSeen::Unknown, true), (JobSeen::No, true), (JobSeen::Everybody, false)] {
            let told = told(Some(0), seen, is_kept);
            assert!(told.contains("no session of the job was seen") && told.ends_with("less than 25 ms"), "{told}");
            assert!(told.contains("another one") && told.contains("--application-name"), "{told}");
        }
        let of_all = "film has what all of the cluster asked for";
        assert!(told(Some(0), JobSeen::Everybody, true).ends_with(of_all));
        assert!(told(Some(1), JobSeen::Everybody, true).contains(of_all), "another asked, and it did not");
        assert!(told(Some(0), JobSeen::Yes, true).contains("too short to be counted"));
        for (counted, seen) in [(Some(1), JobSeen::Yes), (Some(1), JobSeen::No), (None, JobSeen::Unknown)] {
            assert_eq!(told(counted, seen, true), "");
        }
        let guessed = vec!["2 processes ended".to_owned()];
        assert_eq!(describe_sessions(Some(0), JobSeen::Yes, guessed.clone(), true), guessed);
    }

    #[test]
    fn a_forecast_is_judged_by_the_way_that_was_taken() {
        let forecasts =
            Forecasts { nothing: 10.0, sorted: Some(4.0), region: None, set_first: Some(5.0), windowed: None };
        let decision = |way| Decision { way, forecasts: Some(forecasts), ..Decision::nothing("") };
        let judged = Judged::new(&decision(Way::Sorted), None, 5.0, 0.0).unwrap();
        assert_eq!((judged.error_ratio, judged.saved_seconds), (0.25, Some(5.0)));
        let brought = Preloaded { seconds: 3.0, ..Preloaded::default() };
        let first = Judged::new(&decision(Way::SetFirst), Some(&brought), 1.0, 0.5).unwrap();
        assert_eq!((first.took_seconds, first.saved_seconds), (4.0, Some(5.5)));
        let declined = Judged::new(&decision(Way::Nothing), None, 9.0, 0.5).unwrap();
        assert_eq!((declined.forecast_seconds, declined.saved_seconds), (10.0, None));
        assert_eq!(Judged::new(&Decision::nothing(""), None, 9.0, 0.5), None);
    }
}
