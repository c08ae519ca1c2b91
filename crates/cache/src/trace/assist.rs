//! Preloads blocks for a job: finds its film (recorded requests), decides before the job starts how to preload, and
//! reads a few blocks at a time so that the job's reads never wait long.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::attend::{Attended, LOOK, Progress};
use super::decision::{
    Circumstances, Decision, Window, cut_windows, decide, forecast_alone, lost_reason, read_ahead_reason,
};
use super::error::{Error, Result};
use super::film::{Film, FilmHeader, JobSeen, Totals};
use super::put_back::PutBack;
use super::record::{Came, Own};
use super::simulation::{DEPTH, Run, Way};
use super::store::{FilmStore, Like, WHOLE, Which};
use super::touched::{Touched, TouchedFork};
use crate::Map;
use crate::files::Files;
use crate::warm::plan::{Geometry, Read};
use crate::warm::restore::OpenFiles;
use crate::warm::{DeviceProfile, Room};
use host::linux;
use host::linux::page_cache::PageCache;
use host::linux::process::stand_behind_others;
use host::linux::threads::{lock, on_threads};
use host::units::{BlockRange, Bytes};

fn is_whole(touched: &Touched) -> bool {
    touched.lost_share() <= 1.0 - WHOLE
}

#[derive(Debug)]
pub struct Assist {
    pub which: Which,
    pub job: String,
    pub map: Arc<Map>,
    pub device: DeviceProfile,
    /// Memory in which preloaded pages can stay; `None` if unknown.
    pub room: Option<Bytes>,
    /// Part of `room` that shared_buffers will occupy once its pages are used.
    pub untouched: Bytes,
    /// Server start, which emptied shared_buffers; `None` if unknown.
    pub started_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct Planned {
    pub film: Option<String>,
    /// Name of the best film, if it is not used because most of its blocks no longer exist.
    pub lost: Option<String>,
    pub decision: Decision,
    /// Whether the film shows how fast the device serves the job.
    pub tells_device: bool,
    pub job: String,
    pub preloaded: Option<Preloaded>,
    pub remarks: Vec<String>,
    touched: Touched,
    had_workers: Option<bool>,
    /// Inputs of the forecast without a preload, which is computed while the job runs.
    unread: Option<(Assist, Like)>,
}

pub struct Means {
    pub directory: PathBuf,
    pub geometry: Geometry,
    pub page_cache: Arc<dyn PageCache>,
    pub room: Box<dyn Room>,
    pub own: Arc<Own>,
    /// Blocks loaded for the job that no other process requested.
    pub came: Arc<Mutex<Came>>,
    pub progress: Arc<Progress>,
}

host::debug_by!(Means: directory);

impl Assist {
    /// If films were selected by label and cannot be used, the decision's reason is the error.
    ///
    /// # Errors
    /// If the named film is damaged or belongs to another cluster.
    pub fn plan(self) -> Result<Planned> {
        let is_the_one = matches!(self.which, Which::Named(_));
        match self.decide() {
            Err(error) if !is_the_one => Ok(Planned::nothing(format!("the films cannot be used: {error}"), Vec::new())),
            decided => decided,
        }
    }

    fn find(&self, after: Option<Timestamp>) -> Result<Like> {
        let (store, cluster) = (FilmStore::open(), self.map.source.system_identifier);
        let path = match &self.which {
            Which::Like(label) => return store.find_like(cluster, label, &self.job, after),
            Which::Named(name) => store.find_of(Some(cluster), name)?,
        };
        let film = Film::open(&path)?;
        let of = film.header().source.system_identifier;
        match of == cluster {
            true => Ok(Like { name: path.display().to_string(), films: vec![film], remarks: Vec::new() }),
            false => Err(Error::OtherCluster { path, film: of, cluster }),
        }
    }

    fn decide(self) -> Result<Planned> {
        let mut like = self.find(None)?;
        let mut remarks = std::mem::take(&mut like.remarks);
        let Some(film) = like.films.first() else {
            let (Which::Like(called) | Which::Named(called)) = &self.which;
            let reason = format!("there is no film named {called} with blocks to preload yet");
            return Ok(Planned::nothing(reason, remarks));
        };
        let header = film.header();
        let of_film = header.bytes(header.totals.wanted_blocks());
        if let Some(reason) = read_ahead_reason(&self.circumstances(header, of_film, 1.0), of_film) {
            // The forecast takes a while, so it is made while the job runs.
            let (film, job) = (Some(like.name.clone()), header.job.clone());
            let nothing = Planned::nothing(reason, remarks);
            return Ok(Planned { film, job, tells_device: true, unread: Some((self, like)), ..nothing });
        }
        let mut touched = self.read(&mut like)?;
        let mut lost = None;
        if let Some((newer, of_newer)) = self.find_newer(&like, &touched)? {
            remarks.push(format!(
                "pgthaw used film {}, because most blocks of film {} no longer exist",
                newer.name, like.name
            ));
            touched = of_newer;
            lost = Some(std::mem::replace(&mut like, newer).name);
        }
        remarks.append(&mut like.remarks);
        let (film, geometry) = (&like.films[0], Geometry::of(&self.map.source));
        let cut = |most: Bytes, device: DeviceProfile| cut_windows(film, &touched, most, device, geometry);
        let decision = decide(&touched, self.circumstances_of(film.header(), &touched), cut)?;
        let header = film.header();
        Ok(Planned {
            job: header.job.clone(),
            lost,
            decision,
            // The film shows the device's speed only if most blocks came from the device. Most blocks of the film
            // must also still exist (`is_whole`): the time to read deleted blocks would count as the job's own work.
            tells_device: !header.totals.is_preloaded() && header.totals.is_fetched() && is_whole(&touched),
            had_workers: header.workers.map(|workers| workers > 0),
            remarks,
            film: Some(like.name),
            touched,
            ..Planned::default()
        })
    }

    /// If many blocks of the best film no longer exist, looks for a newer film, because older ones lost the same
    /// blocks.
    fn find_newer(&self, best: &Like, touched: &Touched) -> Result<Option<(Like, Touched)>> {
        let recorded_at = |like: &Like| like.films.last().map(|film| film.header().recorded_at);
        let mut after = recorded_at(best);
        while !is_whole(touched) && matches!(self.which, Which::Like(_)) {
            let mut newer = self.find(after)?;
            after = recorded_at(&newer);
            if after.is_none() {
                break;
            }
            newer.remarks.clear();
            let of_newer = self.read(&mut newer)?;
            if of_newer.blocks() as f64 * WHOLE > touched.blocks() as f64 {
                return Ok(Some((newer, of_newer)));
            }
        }
        Ok(None)
    }

    fn read(&self, like: &mut Like) -> Result<Touched> {
        let films: Vec<_> = like.films.iter().collect();
        let were_before_start =
            self.started_at.is_some_and(|at| films.iter().all(|film| film.header().recorded_at < at));
        let touched = Touched::read(&films, &*self.map, were_before_start)?;
        let bytes = |blocks| films[0].header().bytes(blocks);
        if !touched.gone.is_empty() {
            like.remarks.push(format!(
                "skipped relations that were dropped or rewritten since the recording: {} ({} of the film's {})",
                touched.gone.join(", "),
                bytes(touched.gone_blocks),
                bytes(touched.film_blocks())
            ));
        }
        if touched.truncated_blocks > 0 {
            let truncated = bytes(touched.truncated_blocks);
            like.remarks.push(format!("skipped blocks beyond the end of their relations: {truncated} of the film"));
        }
        if touched.unproven_blocks > 0 {
            let unproven = bytes(touched.unproven_blocks);
            like.remarks.push(format!(
                "{unproven} of the job's relations were in shared_buffers during the recording. The server has restarted since, and these blocks are not cached now. Whether the job needs them is unknown, so pgthaw neither preloads them nor includes them in forecasts"
            ));
        }
        Ok(touched)
    }

    fn circumstances_of(&self, header: &FilmHeader, touched: &Touched) -> Circumstances {
        self.circumstances(header, header.bytes(touched.blocks()), 1.0 - touched.truncated_share())
    }

    /// `touched`: bytes that this job will use. `part`: this job's work ÷ the recorded job's, 0 to 1.
    fn circumstances(&self, header: &FilmHeader, touched: Bytes, part: f64) -> Circumstances {
        // The job's reads fill shared_buffers, which then occupy memory.
        let grown = self.untouched.min(touched);
        let (run, device, geometry) = (Run::of(header).part(part), self.device, Geometry::of(&self.map.source));
        let room = self.room.map(|room| Bytes(room.0.saturating_sub(grown.0)));
        let device_bytes = header.device_bytes.map(|bytes| Bytes((bytes.0 as f64 * part) as u64));
        Circumstances { run, device_bytes, is_paced: header.requested_bytes.is_some(), device, geometry, room }
    }
}

impl Planned {
    pub fn nothing(reason: impl Into<String>, remarks: Vec<String>) -> Planned {
        Planned { decision: Decision::nothing(reason), remarks, ..Planned::default() }
    }

    pub fn bring(&mut self, means: &Means) {
        if let Some((assist, like)) = self.unread.take() {
            self.forecast_alone(&assist, like);
        }
        self.preloaded = match self.decision.way {
            Way::Nothing => None,
            Way::Windowed => {
                let Planned { touched, decision, had_workers, .. } = &*self;
                Some(Windowed { means, touched, decision, had_workers: *had_workers }.run())
            }
            _ => Some(means.bring_all(&self.touched, &self.decision.reads)),
        };
    }

    /// `None` without a forecast for the chosen way to preload. `RunReceipt::close` deducts the time after the job from
    /// `saved_seconds`.
    pub fn judge(&self, job_seconds: f64, before_seconds: f64) -> Option<Judged> {
        let Decision { way, forecasts, .. } = self.decision;
        let forecasts = forecasts?;
        let forecast_seconds = forecasts.of(way)?;
        let before = self.preloaded.as_ref().filter(|_| way == Way::SetFirst).map_or(0.0, |done| done.seconds);
        let took_seconds = job_seconds + before;
        let error_ratio = took_seconds / forecast_seconds.max(f64::MIN_POSITIVE) - 1.0;
        let saved_seconds = (way != Way::Nothing).then_some(forecasts.nothing - before_seconds - job_seconds);
        Some(Judged { forecast_seconds, took_seconds, error_ratio, saved_seconds })
    }

    fn forecast_alone(&mut self, assist: &Assist, mut like: Like) {
        let forecast = || {
            stand_behind_others();
            let touched = assist.read(&mut like)?;
            let circumstances = assist.circumstances_of(like.films[0].header(), &touched);
            Ok::<_, Error>((lost_reason(&touched), forecast_alone(&touched, circumstances)))
        };
        // Uses a separate thread, because a lowered priority cannot be raised again.
        let told = thread::scope(|scope| scope.spawn(forecast).join().unwrap_or_else(|panic| resume_unwind(panic)));
        self.remarks.append(&mut like.remarks);
        match told {
            Ok((None, forecasts)) => self.decision.forecasts = Some(forecasts),
            Ok((Some(lost), _)) => self.decision.reason = lost.to_owned(),
            Err(error) => self.remarks.push(format!("there is no forecast: {error}")),
        }
    }
}

/// Receipt of `run`. The exit status is that of the command: 127 if it does not exist, 126 if it cannot be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct RunReceipt {
    /// The user's wait: the sum of `before_seconds`, `seconds` and `after_seconds`.
    pub wall_seconds: f64,
    /// Time to inspect the caches and to load the first blocks.
    pub before_seconds: f64,
    /// Time of the command.
    pub seconds: f64,
    /// Time to store the film and to restore the caches.
    pub after_seconds: f64,
    /// Name of the film that the run used.
    pub film: Option<String>,
    pub decision: Decision,
    /// `None` if nothing was preloaded.
    pub preloaded: Option<Preloaded>,
    /// Forecast and outcome. `None` unless the job succeeded, had a forecast, and a session was seen.
    pub judged: Option<Judged>,
    /// The job's processes in the server. `None` unless the server runs on this host.
    pub attended: Option<Attended>,
    /// Other clients' transactions. `None` without `--protect`, if the job took less than 3 s, or if the server did not
    /// report them.
    pub others: Option<OthersSeen>,
    /// The stored film.
    pub kept: Option<KeptFilm>,
    /// The restored caches. `None` if not requested or not possible.
    pub put_back: Option<PutBack>,
    /// Whether another active run will restore the caches.
    pub is_left_to_another: bool,
    pub remarks: Vec<String>,
}

impl RunReceipt {
    /// `wall_seconds`: since pgthaw's start.
    pub fn close(&mut self, wall_seconds: f64) {
        self.wall_seconds = wall_seconds;
        self.after_seconds = wall_seconds - self.before_seconds - self.seconds;
        if let Some(saved) = self.judged.as_mut().and_then(|judged| judged.saved_seconds.as_mut()) {
            *saved -= self.after_seconds;
        }
    }
}

/// `counted`: sessions found; `None` if not counted.
pub fn describe_sessions(counted: Option<usize>, seen: JobSeen, guessed: Vec<String>, is_kept: bool) -> Vec<String> {
    let short = LOOK.as_millis();
    let of_all = "contains the requests of the whole cluster";
    let told = match (counted, seen) {
        (Some(0), JobSeen::Yes) if guessed.is_empty() => Some(format!(
            "the job's sessions were too short to be counted (pgthaw samples every {short} ms), but their requests are known"
        )),
        (Some(0), JobSeen::Yes) => None,
        (Some(0), _) => {
            let has_all = is_kept && seen == JobSeen::Everybody;
            let film = if has_all { format!("; the job's film {of_all}") } else { String::new() };
            Some(format!(
                "no session of the job was found on this server: the job may use another server or none, connect from another host or through a pooler (`pgthaw run --application-name NAME` finds sessions by name), run as a detached process, or have only sessions shorter than {short} ms{film}"
            ))
        }
        (_, JobSeen::Everybody) if is_kept => {
            Some(format!("the job's film {of_all}, because pgthaw could not determine which requests were the job's"))
        }
        _ => None,
    };
    told.into_iter().chain(guessed).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct Judged {
    /// Forecast for the chosen way to preload.
    pub forecast_seconds: f64,
    /// Time of the command, plus that of a preload before it.
    pub took_seconds: f64,
    /// `took_seconds` ÷ `forecast_seconds` − 1.
    pub error_ratio: f64,
    /// Forecast without a preload, minus `wall_seconds`. `None` if pgthaw did not preload, if the film is of another
    /// command, if nothing shows the device's speed, or if the job requested less than half of the preloaded bytes.
    pub saved_seconds: Option<f64>,
}

/// Transactions per second of all databases (pg_stat_database), without pgthaw's. They include the job's, because the
/// server does not count by session. Before PostgreSQL 15 the counts lag by up to a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct OthersSeen {
    /// Before the job. `None` if no client was active.
    pub before_tps: Option<f64>,
    /// During the job.
    pub during_tps: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct KeptFilm {
    pub path: PathBuf,
    pub totals: Totals,
    /// Bytes loaded into the page cache during the job, including those of other processes.
    pub fetched_bytes: Bytes,
    /// Bytes that pgthaw loaded for the job, without the gaps that it also read.
    pub preloaded_bytes: Bytes,
    /// Reads of the device, by all processes.
    pub device_reads: Option<u64>,
    /// Bytes read from the device, by all processes.
    pub device_bytes: Option<Bytes>,
    /// Events lost because the kernel's buffer was full.
    pub lost_events: u64,
}

impl KeptFilm {
    pub fn new(path: PathBuf, header: &FilmHeader) -> KeptFilm {
        let FilmHeader { totals, device_reads, device_bytes, lost_events, .. } = *header;
        let fetched_bytes = header.bytes(totals.fetched_blocks);
        let preloaded_bytes = header.bytes(totals.preloaded_blocks);
        KeptFilm { path, totals, fetched_bytes, preloaded_bytes, device_reads, device_bytes, lost_events }
    }
}

const READS_PER_LOOK: usize = 64;

/// With less free memory than this, a preload stops.
const ROOM_MIN: Bytes = Bytes(16 << 20);

pub const JOB_ENDED: &str = "the job had ended";

/// Data that pgthaw loaded for the job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct Preloaded {
    pub reads: u64,
    /// Bytes read that were not cached, including gaps between the film's blocks.
    pub bytes: Bytes,
    pub seconds: f64,
    /// Bytes evicted after use, because the film does not use them again.
    pub dropped_bytes: Bytes,
    /// Why the preload ended early. `None` if it is complete.
    pub stopped: Option<String>,
}

impl Means {
    fn files(&self) -> Files<'_> {
        Files { cache: &*self.page_cache, directory: &self.directory, geometry: self.geometry }
    }

    fn bring_all(&self, touched: &Touched, wanted: &[Read]) -> Preloaded {
        let (started, next, done) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Preloaded::default()));
        let stop = |why: String| _ = lock(&done).stopped.get_or_insert(why);
        let open = OpenFiles::new(self.files());
        on_threads(DEPTH, |_| {
            let mut buffer = Vec::new();
            while lock(&done).stopped.is_none() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(read) = wanted.get(at) else { break };
                if self.is_over() {
                    return stop(JOB_ENDED.to_owned());
                }
                if at.is_multiple_of(READS_PER_LOOK) && self.is_full() {
                    return stop("no memory was left".to_owned());
                }
                match self.bring(&touched.forks[read.fork], *read, &open, &mut buffer) {
                    Ok(Bytes(0)) => {}
                    Ok(brought) => {
                        let mut done = lock(&done);
                        done.reads += 1;
                        done.bytes += brought;
                    }
                    Err(error) => return stop(error.to_string()),
                }
            }
        });
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        Preloaded { seconds: started.elapsed().as_secs_f64(), ..done }
    }

    fn is_over(&self) -> bool {
        self.progress.is_over.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        let bound = Bytes(self.progress.cache_bytes.load(Ordering::Relaxed));
        let is_small = |room: Bytes| room < ROOM_MIN || (bound > Bytes(0) && bound < ROOM_MIN);
        self.room.read_room().is_some_and(|room| is_small(room.bytes))
    }

    /// Returns the bytes that were not cached before.
    fn bring(&self, of: &TouchedFork, read: Read, open: &OpenFiles<'_>, buffer: &mut Vec<u8>) -> linux::Result<Bytes> {
        let segment_blocks = u64::from(self.geometry.segment_blocks);
        let number = read.range.start / segment_blocks;
        let Some(file) = open.get((read.fork, number as u32), &of.path, of.fork)? else { return Ok(Bytes(0)) };
        let first = number * segment_blocks;
        let range = BlockRange::new(read.range.start - first, read.range.end - first);
        let pages = self.files().pages(range);
        let cached = file.read_counts(pages)?.cached;
        if cached >= pages.pages() {
            return Ok(Bytes(0));
        }
        self.own.add(of.relation, of.fork, read.range, &of.touched);
        let block_size = u64::from(self.geometry.block_size);
        buffer.resize((range.blocks() * block_size) as usize, 0);
        file.apply_read(range.start * block_size, buffer)?;
        Ok(Bytes((pages.pages() - cached) * self.page_cache.page_bytes()))
    }
}

const POSITION_LOOK: Duration = Duration::from_millis(20);

/// If the job requests nothing for this long, loading stops: the job may stay idle for hours.
const STUCK: Duration = Duration::from_secs(30);

const FOUND_WITHIN: Duration = Duration::from_secs(10);

/// If a larger share of the requested bytes was not cached, the job does not follow its film. Checked once
/// `JUDGED_FROM` bytes were requested.
const FETCHED_SHARE_MAX: f64 = 0.5;
const JUDGED_FROM: Bytes = Bytes(64 << 20);

struct Windowed<'a> {
    means: &'a Means,
    touched: &'a Touched,
    decision: &'a Decision,
    /// Whether the film's job had parallel workers; `None` if not counted.
    had_workers: Option<bool>,
}

#[derive(Default)]
struct State {
    done: Preloaded,
    /// Loaded windows that the job has not finished.
    ahead: VecDeque<usize>,
    /// Blocks by fork that stayed cached when the last finished window was evicted.
    behind: Vec<(usize, RoaringBitmap)>,
}

impl Windowed<'_> {
    fn run(&self) -> Preloaded {
        let started = Instant::now();
        let mut state = State::default();
        for (at, window) in self.decision.windows.iter().enumerate() {
            if let Err(why) = self.wait_for_room(window, &mut state).and_then(|()| self.load(at, &mut state)) {
                state.done.stopped = Some(why);
                break;
            }
        }
        state.done.seconds = started.elapsed().as_secs_f64();
        state.done
    }

    fn load(&self, at: usize, state: &mut State) -> Result<(), String> {
        let window = &self.decision.windows[at];
        if self.position().is_some_and(|position| position >= window.until) {
            return Ok(());
        }
        let brought = self.means.bring_all(self.touched, &window.reads);
        state.done.reads += brought.reads;
        state.done.bytes += brought.bytes;
        state.ahead.push_back(at);
        brought.stopped.map_or(Ok(()), Err)
    }

    fn position(&self) -> Option<Bytes> {
        self.means.progress.requested()
    }

    fn wait_for_room(&self, window: &Window, state: &mut State) -> Result<(), String> {
        let (begun, mut moved, mut last) = (Instant::now(), Instant::now(), self.position());
        loop {
            self.let_go(state);
            self.check()?;
            let ahead: Bytes = state.ahead.iter().map(|at| self.decision.windows[*at].bytes).sum();
            if state.ahead.is_empty() || ahead + window.bytes <= self.decision.window_room {
                return Ok(());
            }
            sleep(POSITION_LOOK);
            let now = self.position();
            if now.is_none() && begun.elapsed() > FOUND_WITHIN {
                return Err("no session of the job was found on the server, so its progress is unknown".to_owned());
            }
            if now != last {
                (moved, last) = (Instant::now(), now);
            } else if now.is_some() && moved.elapsed() > STUCK {
                return Err(format!("the job has requested no blocks for {} s", STUCK.as_secs()));
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.means.is_over() {
            return Err(JOB_ENDED.to_owned());
        }
        let requested = self.means.progress.requested_bytes.load(Ordering::Relaxed);
        let workers = self.means.progress.workers_seen.load(Ordering::Relaxed) > 0;
        let is_through_one = self.decision.windows.first().is_some_and(|first| requested > first.until.0);
        match self.had_workers {
            Some(false) if workers => {
                return Err("the job runs in parallel, but its film is of a serial run".to_owned());
            }
            Some(true) if !workers && is_through_one => {
                return Err("the job runs without workers, but its film is of a parallel run".to_owned());
            }
            _ => {}
        }
        let fetched = self.means.progress.fetched_bytes.load(Ordering::Relaxed);
        if requested >= JUDGED_FROM.0 && fetched as f64 > requested as f64 * FETCHED_SHARE_MAX {
            let (fetched, requested) = (Bytes(fetched), Bytes(requested));
            return Err(format!(
                "{fetched} of the {requested} that the job requested were not cached despite the preload: the job does not follow its film"
            ));
        }
        Ok(())
    }

    /// Evicts windows that the job has finished, except blocks that were cached before or requested by others.
    fn let_go(&self, state: &mut State) {
        let Some(position) = self.position() else { return };
        while let Some(at) = state.ahead.front().copied().filter(|at| position >= self.decision.windows[*at].until) {
            state.ahead.pop_front();
            // Retries once to evict blocks that stayed: pages that hint bits made dirty can be evicted once written.
            for (fork, blocks) in std::mem::take(&mut state.behind) {
                self.drop_blocks(fork, &blocks, &mut state.done);
            }
            for (fork, blocks) in self.decision.windows[at].last_touched.iter().enumerate() {
                let own = blocks - &self.touched.forks[fork].resident;
                let stayed = self.drop_blocks(fork, &own, &mut state.done);
                state.behind.extend((!stayed.is_empty()).then_some((fork, stayed)));
            }
        }
    }

    fn drop_blocks(&self, fork: usize, blocks: &RoaringBitmap, done: &mut Preloaded) -> RoaringBitmap {
        let files = self.means.files();
        let TouchedFork { path, fork, .. } = &self.touched.forks[fork];
        let own =
            lock(&self.means.came).get(&(path.clone(), *fork)).map_or_else(RoaringBitmap::new, |came| came & blocks);
        let dropped = files.drop_blocks(path, *fork, &own, |_, run| Ok(vec![files.pages(run)]));
        done.dropped_bytes.0 += dropped.before_bytes.0.saturating_sub(dropped.after_bytes.0);
        dropped.stayed
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
            assert!(told.contains("no session of the job was found") && told.ends_with("shorter than 25 ms"), "{told}");
            assert!(told.contains("another server") && told.contains("--application-name"), "{told}");
        }
        let of_all = "film contains the requests of the whole cluster";
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
        let planned = |way, preloaded| {
            let decision = Decision { way, forecasts: Some(forecasts), ..Decision::nothing("") };
            Planned { decision, preloaded, ..Planned::default() }
        };
        let judged = planned(Way::Sorted, None).judge(5.0, 0.0).unwrap();
        assert_eq!((judged.error_ratio, judged.saved_seconds), (0.25, Some(5.0)));
        let brought = Preloaded { seconds: 3.0, ..Preloaded::default() };
        let first = planned(Way::SetFirst, Some(brought)).judge(1.0, 3.5).unwrap();
        assert_eq!((first.took_seconds, first.saved_seconds), (4.0, Some(5.5)));
        let mut receipt =
            RunReceipt { seconds: 1.0, before_seconds: 3.5, judged: Some(first), ..RunReceipt::default() };
        receipt.close(5.0);
        assert_eq!((receipt.after_seconds, receipt.judged.unwrap().saved_seconds), (0.5, Some(5.0)));
        let declined = planned(Way::Nothing, None).judge(9.0, 0.5).unwrap();
        assert_eq!((declined.forecast_seconds, declined.saved_seconds), (10.0, None));
        assert_eq!(Planned::nothing("", Vec::new()).judge(9.0, 0.5), None);
    }
}

#[cfg(test)]
mod windowed_tests {
    use super::*;
    use crate::trace::touched::Touched;
    use crate::warm::Room;
    use crate::warm::plan::{Geometry, Read};
    use host::linux::machine::LoadableMemory;
    use host::linux::page_cache::FakePageCache;
    use host::units::{BlockRange, Fork, PageRange};
    use postgres::RelationPath;
    use std::path::Path;

    const BLOCK: u64 = 8192;
    const FILE: &str = "/data/base/5/1";

    struct Endless;

    impl Room for Endless {
        fn read_room(&self) -> Option<LoadableMemory> {
            None
        }

        fn idle_age(&self) -> Option<Duration> {
            None
        }
    }

    struct Case {
        cache: Arc<FakePageCache>,
        means: Means,
        touched: Touched,
        decision: Decision,
        progress: Arc<Progress>,
    }

    impl Case {
        fn new() -> Case {
            let cache = Arc::new(FakePageCache::new());
            cache.insert(FILE, 100 * BLOCK, &[PageRange::new(0, 6)]);
            let path = RelationPath::base(5, 1);
            let came = Came::from([((path.clone(), Fork::Main), (0..100).collect())]);
            let (touched, resident) = ((0..100).collect(), (0..3).collect());
            let fork = TouchedFork {
                relation: 0,
                path,
                fork: Fork::Main,
                blocks: 100,
                touched,
                found: RoaringBitmap::new(),
                resident,
            };
            let progress = Arc::<Progress>::default();
            let means = Means {
                page_cache: Arc::clone(&cache) as _,
                directory: "/data".into(),
                geometry: Geometry { block_size: BLOCK as u32, segment_blocks: 131_072 },
                own: Arc::default(),
                came: Arc::new(Mutex::new(came)),
                room: Box::new(Endless),
                progress: Arc::clone(&progress),
            };
            let touched = Touched { forks: vec![fork], ..Touched::default() };
            let window = |at: u64| Window {
                reads: vec![Read { fork: 0, range: BlockRange::new(at * 10, at * 10 + 10) }],
                bytes: Bytes(10 * BLOCK),
                until: Bytes((at + 1) * 1000),
                last_touched: vec![(at as u32 * 10..at as u32 * 10 + 10).collect::<RoaringBitmap>()],
            };
            let windows = (0..10).map(window).collect();
            let decision = Decision { windows, window_room: Bytes(30 * BLOCK), ..Decision::default() };
            Case { cache, means, touched, decision, progress }
        }

        fn move_to(&self, requested: u64, workers: usize) {
            self.progress.sessions_seen.store(1, Ordering::Relaxed);
            self.progress.workers_seen.store(workers, Ordering::Relaxed);
            self.progress.requested_bytes.store(requested, Ordering::Relaxed);
        }

        fn run(&self, had_workers: Option<bool>) -> Preloaded {
            let Case { means, touched, decision, .. } = self;
            Windowed { means, touched, decision, had_workers }.run()
        }

        fn resident(&self) -> Vec<PageRange> {
            self.cache.resident(Path::new(FILE))
        }
    }

    #[test]
    fn no_more_than_the_room_is_read_ahead_and_what_is_behind_goes() {
        let case = Case::new();
        case.move_to(0, 0);
        std::thread::scope(|scope| {
            let replay = scope.spawn(|| case.run(None));
            while case.resident() != [PageRange::new(0, 60)] {
                std::thread::yield_now();
            }
            lock(&case.means.came).values_mut().for_each(|came| _ = came.remove(15));
            case.move_to(2500, 0);
            while case.resident() != [PageRange::new(0, 6), PageRange::new(30, 32), PageRange::new(40, 100)] {
                std::thread::yield_now();
            }
            case.progress.is_over.store(true, Ordering::Relaxed);
            let done = replay.join().unwrap();
            assert_eq!(done.stopped.as_deref(), Some(JOB_ENDED));
            assert_eq!((done.bytes, done.dropped_bytes), (Bytes(47 * BLOCK), Bytes(16 * BLOCK)));
        });
    }

    #[test]
    fn what_the_job_wrote_to_goes_with_the_next_window() {
        let case = Case::new();
        let wait_for = |expected: PageRange| {
            while case.resident() != [PageRange::new(0, 6), expected] {
                std::thread::yield_now();
            }
        };
        case.move_to(0, 0);
        std::thread::scope(|scope| {
            let replay = scope.spawn(|| case.run(None));
            while case.resident() != [PageRange::new(0, 60)] {
                std::thread::yield_now();
            }
            case.cache.write(Path::new(FILE), PageRange::new(4, 20));
            case.move_to(1500, 0);
            while case.resident() != [PageRange::new(0, 80)] {
                std::thread::yield_now();
            }
            case.move_to(2500, 0);
            wait_for(PageRange::new(40, 100));
            case.progress.is_over.store(true, Ordering::Relaxed);
            assert_eq!(replay.join().unwrap().dropped_bytes, Bytes(17 * BLOCK));
        });
    }

    #[test]
    fn a_job_that_is_far_is_not_read_after() {
        let case = Case::new();
        case.move_to(9500, 0);
        let done = case.run(Some(false));
        assert_eq!((done.bytes, done.stopped), (Bytes(10 * BLOCK), None), "the last window alone");
    }

    #[test]
    fn a_job_that_goes_another_way_is_left() {
        let case = Case::new();
        case.move_to(10, 2);
        assert!(case.run(Some(false)).stopped.unwrap().contains("its film is of a serial run"));
        case.move_to(1500, 0);
        assert!(case.run(Some(true)).stopped.unwrap().contains("its film is of a parallel run"));
        let case = Case::new();
        case.move_to(100 << 20, 0);
        case.progress.fetched_bytes.store(80 << 20, Ordering::Relaxed);
        assert!(case.run(None).stopped.unwrap().contains("does not follow its film"));
    }
}
