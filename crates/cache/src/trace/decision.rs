//! Decides whether to preload, and in which order: a pure function of film, device and memory.

use parquet::file::reader::ChunkReader;
use roaring::RoaringBitmap;
use serde::Serialize;

use super::error::{Error, Result};
use super::film::{Event, EventKind, Film};
use super::simulation::{GAIN_MIN, Job, Run, Way};
use super::touched::Touched;
use crate::sealed_file::Flaw;
use crate::warm::plan::{Geometry, Read};
use crate::warm::{DeviceProfile, map_on_threads};
use host::linux::threads::count_processors;
use host::units::Bytes;

/// Maximum read of a preload. A larger one would delay the job's own reads.
const LARGEST_READ: Bytes = Bytes(512 << 10);

/// Share of memory that a preload may fill. Beyond it, the last blocks may evict the first ones.
const ROOM_SHARE: f64 = 0.6;

/// Number of windows (parts of a film) that must fit in memory, because the next one loads while the job uses one.
/// Windows above `WINDOW_MAX` would not need fewer reads.
const WINDOWS_IN_ROOM: u64 = 3;
const WINDOW_MAX: Bytes = Bytes(128 << 20);

/// Maximum product of the numbers of windows and files. Each window has two block sets per file, 50 bytes even if
/// empty.
const WINDOW_FORKS_MAX: u64 = 4 << 20;

const WINDOW_ROOM_MIN: Bytes = Bytes(24 << 20);

/// If a job with small reads (mean up to `SMALL_READ` bytes) uses this share of the device's reads per second, too few
/// are left for a preload.
const SATURATED: f64 = 0.85;
const SMALL_READ: f64 = 16384.0;

/// If a cold job's mean read has more bytes than this, the kernel reads ahead for it (docs/films.md).
const READ_AHEAD_MEAN: f64 = 40960.0;

/// A device that delivered a larger multiple of the job's bytes also read for other processes.
const OWN_BYTES_MAX: f64 = 1.5;

/// Factors on the cost of a read: with a higher cost, a plan reads more gaps between blocks to merge reads.
const READ_PRICES: [f64; 3] = [1.0, 0.25, 4.0];

/// Lower factors on the cost of a read, tried in turn if no plan with `READ_PRICES` fits in memory. With 0, no gap is
/// read.
const TIGHT_READ_PRICES: [f64; 2] = [0.09, 0.0];

/// A film is useless if a larger share of its blocks no longer exists.
const LOST_MAX: f64 = 0.9;

/// Minimum share by which the forecast must be shorter with a preload before the job than with one during the job.
const FIRST_GAIN_MIN: f64 = 0.05;

/// Forecast duration of the job in seconds, for each way to preload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct Forecasts {
    /// Without a preload.
    pub nothing: f64,
    /// `None` if the preload does not fit in memory.
    pub sorted: Option<f64>,
    /// `None` if the preload does not fit in memory.
    pub region: Option<f64>,
    /// `None` if the preload does not fit in memory.
    pub set_first: Option<f64>,
    /// `None` if memory holds the whole film, or loading in windows is not possible.
    pub windowed: Option<f64>,
}

impl Forecasts {
    pub fn of(&self, way: Way) -> Option<f64> {
        match way {
            Way::Nothing => Some(self.nothing),
            Way::Sorted => self.sorted,
            Way::Region => self.region,
            Way::SetFirst => self.set_first,
            Way::Windowed => self.windowed,
        }
    }
}

/// The chosen way to preload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, crate::JsonSchema)]
pub struct Decision {
    pub way: Way,
    /// Completes a sentence after "because".
    pub reason: String,
    pub forecasts: Option<Forecasts>,
    pub planned_reads: u64,
    pub planned_bytes: Bytes,
    /// Empty for `Windowed`.
    #[serde(skip)]
    pub reads: Vec<Read>,
    #[serde(skip)]
    pub windows: Vec<Window>,
    /// Bytes that may be loaded ahead of the job.
    #[serde(skip)]
    pub window_room: Bytes,
}

impl Decision {
    pub fn nothing(reason: impl Into<String>) -> Decision {
        Decision { reason: reason.into(), ..Decision::default() }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    pub run: Run,
    pub device_bytes: Option<Bytes>,
    /// Whether the film records the job's progress in requested bytes.
    pub is_paced: bool,
    pub device: DeviceProfile,
    pub geometry: Geometry,
    /// Memory in which preloaded pages can stay; `None` if unknown.
    pub room: Option<Bytes>,
}

pub fn decide(
    touched: &Touched,
    now: Circumstances,
    cut: impl FnOnce(Bytes, DeviceProfile) -> Result<Vec<Window>>,
) -> Result<Decision> {
    let blocks = touched.blocks();
    if blocks == 0 {
        return Ok(Decision::nothing("none of the film's blocks exist any more"));
    }
    if let Some(reason) = lost_reason(touched) {
        return Ok(Decision::nothing(reason));
    }
    if touched.missing_blocks() == 0 {
        return Ok(Decision::nothing(format!("all {} of the film are already cached", now.geometry.bytes(blocks))));
    }
    if touched.is_too_long {
        return Ok(Decision::nothing("the film is too long: pgthaw cannot keep the order of so many block ranges"));
    }
    let most = now.room.map(|room| Bytes((room.0 as f64 * ROOM_SHARE) as u64));
    let job = job_of(touched, &now, most);
    let missing = now.geometry.bytes(touched.missing_blocks());
    match most.filter(|most| missing > *most) {
        Some(most) => decide_windowed(&job, missing, most, now, cut),
        None => Ok(decide_whole(touched, &job, most, now.geometry)),
    }
}

pub fn read_ahead_reason(now: &Circumstances, touched: Bytes) -> Option<String> {
    let is_own = now.device_bytes.is_some_and(|read| read.0 as f64 <= touched.0 as f64 * OWN_BYTES_MAX);
    let mean = mean_read(now).filter(|mean| *mean > READ_AHEAD_MEAN && now.run.is_cold && is_own)?;
    let told = "the kernel already reads ahead: the mean size of the job's device reads is";
    Some(format!("{told} {:.0} kB", mean / 1024.0))
}

pub fn lost_reason(touched: &Touched) -> Option<&'static str> {
    (touched.lost_share() > LOST_MAX).then_some("almost none of the film's blocks exist any more")
}

pub fn forecast_alone(touched: &Touched, now: Circumstances) -> Forecasts {
    let nothing = job_of(touched, &now, now.room).simulate(&[]);
    Forecasts { nothing, ..Forecasts::default() }
}

/// Model of the job with `most` bytes of page cache. If the missing blocks do not fit, the time to fetch some again
/// counts as the job's own work.
fn job_of(touched: &Touched, now: &Circumstances, most: Option<Bytes>) -> Job {
    let device = DeviceProfile { largest_read: LARGEST_READ, ..now.device };
    let missing = touched.missing_blocks() * u64::from(now.geometry.block_size);
    let is_short = most.is_some_and(|most| missing > most.0);
    let run = if is_short { Run { fetches: 1.0, ..now.run } } else { now.run };
    Job::new(touched, run, device, now.geometry.block_size)
}

fn decide_whole(touched: &Touched, job: &Job, most: Option<Bytes>, geometry: Geometry) -> Decision {
    let nothing = job.simulate(&[]);
    let least = job.least_seconds();
    if !is_worth_it(least, nothing) {
        let digits = digits_of(nothing);
        let lost = if touched.gone_blocks > 0 { " and reads of skipped blocks" } else { "" };
        let told = format!(
            "{least:.digits$} s of the forecast {nothing:.digits$} s are the job's own work{lost}, so no preload can save the required 10 % of the time"
        );
        let forecasts = Some(Forecasts { nothing, ..Forecasts::default() });
        return Decision { forecasts, ..Decision::nothing(told) };
    }
    let candidates = find_candidates(touched, job, most, geometry);
    let processors = count_processors();
    let seconds = map_on_threads(candidates.len(), processors, |at| match &candidates[at] {
        (Way::SetFirst, reads) => job.simulate_set_first(reads),
        (_, reads) => job.simulate(reads),
    });
    let shortest = |way: Way| {
        let of_way = candidates.iter().zip(&seconds).filter(|((one, _), _)| *one == way);
        of_way.map(|(_, seconds)| *seconds).reduce(f64::min)
    };
    let [sorted, region, set_first] = [Way::Sorted, Way::Region, Way::SetFirst].map(shortest);
    let forecasts = Forecasts { nothing, sorted, region, set_first, windowed: None };
    let ranked = |((way, _), seconds): &((Way, Vec<Read>), f64)| match way {
        Way::SetFirst => seconds / (1.0 - FIRST_GAIN_MIN),
        _ => *seconds,
    };
    let best = candidates.into_iter().zip(seconds).min_by(|one, other| ranked(one).total_cmp(&ranked(other)));
    let Some(((way, reads), seconds)) = best else {
        return Decision::nothing(
            "the page cache may be too small for the uncached blocks and the gaps between them that a preload reads",
        );
    };
    let told = render_forecasts(seconds, nothing);
    if !is_worth_it(seconds, nothing) {
        return Decision { forecasts: Some(forecasts), ..Decision::nothing(told) };
    }
    let (planned_reads, planned_bytes) = (reads.len() as u64, bytes_of(&reads, geometry));
    Decision { way, forecasts: Some(forecasts), planned_reads, planned_bytes, reads, ..Decision::nothing(told) }
}

fn find_candidates(touched: &Touched, job: &Job, most: Option<Bytes>, geometry: Geometry) -> Vec<(Way, Vec<Read>)> {
    let plan = |price: f64| {
        let device = DeviceProfile { reads_per_second: job.device.reads_per_second / price, ..job.device };
        let sorted = touched.plan_reads(None, device, geometry);
        most.is_none_or(|most| bytes_of(&sorted, geometry) <= most).then_some(sorted)
    };
    let mut plans: Vec<Vec<Read>> = READ_PRICES.into_iter().filter_map(plan).collect();
    if plans.is_empty() {
        plans.extend(TIGHT_READ_PRICES.into_iter().find_map(plan));
    }
    plans.dedup();
    let of_plan = |sorted: Vec<Read>| {
        let region = by_first_touch(touched, &sorted);
        [(Way::Sorted, sorted.clone()), (Way::Region, region), (Way::SetFirst, sorted)]
    };
    plans.into_iter().flat_map(of_plan).collect()
}

fn bytes_of(reads: &[Read], geometry: Geometry) -> Bytes {
    geometry.bytes(reads.iter().map(|read| read.range.blocks()).sum())
}

fn decide_windowed(
    job: &Job,
    missing: Bytes,
    most: Bytes,
    now: Circumstances,
    cut: impl FnOnce(Bytes, DeviceProfile) -> Result<Vec<Window>>,
) -> Result<Decision> {
    let does_not_fit = format!(
        "{missing} of the film's blocks are not cached, but the page cache can safely keep only {most} (60 % of its memory)"
    );
    let mut forecasts = Forecasts { nothing: job.simulate(&[]), ..Forecasts::default() };
    let declined = |forecasts: Forecasts, why: &str| {
        Ok(Decision { forecasts: Some(forecasts), ..Decision::nothing(format!("{does_not_fit}; {why}")) })
    };
    let why = match saturating_reads(&now) {
        Some(reads_per_second) => Some(format!(
            "the job alone saturates the device ({reads_per_second:.0} of {:.0} reads/s): other reads would delay it",
            now.device.reads_per_second
        )),
        None => [
            (!now.is_paced, "the film lacks the job's progress (bytes requested so far); only `pgthaw run` records it"),
            (!now.run.is_cold, "too many of the film's blocks were preloaded: their order is not the job's"),
            (most < WINDOW_ROOM_MIN, "that is too little to load blocks before the job needs them"),
        ]
        .into_iter()
        .find_map(|(is_so, why)| is_so.then(|| why.to_owned())),
    };
    if let Some(why) = why {
        return declined(forecasts, &why);
    }
    let windows = cut(Bytes(most.0 / WINDOWS_IN_ROOM).min(WINDOW_MAX), job.device)?;
    let seconds = forecast_windows(&windows, &job.device, job.own_seconds);
    forecasts.windowed = Some(seconds);
    let told = render_forecasts(seconds, forecasts.nothing);
    if !is_worth_it(seconds, forecasts.nothing) {
        return declined(forecasts, &format!("for a preload in parts, {told}"));
    }
    let (way, forecasts, window_room) = (Way::Windowed, Some(forecasts), most);
    let planned_reads = windows.iter().map(|window| window.reads.len() as u64).sum();
    let planned_bytes = windows.iter().map(|window| window.bytes).sum();
    Ok(Decision { way, forecasts, planned_reads, planned_bytes, windows, window_room, ..Decision::nothing(told) })
}

fn is_worth_it(seconds: f64, nothing: f64) -> bool {
    gain(seconds, nothing) >= GAIN_MIN
}

fn gain(seconds: f64, nothing: f64) -> f64 {
    1.0 - seconds / nothing.max(f64::MIN_POSITIVE)
}

fn render_forecasts(seconds: f64, nothing: f64) -> String {
    let digits = digits_of(nothing);
    let told = format!("the forecast is {seconds:.digits$} s with a preload and {nothing:.digits$} s without");
    match gain(seconds, nothing) {
        gain if gain >= GAIN_MIN => told,
        gain if gain < 0.01 => format!("{told}, almost no gain"),
        gain => format!("{told}, a gain of {:.0} % where 10 % are required", (gain * 100.0).floor()),
    }
}

fn digits_of(seconds: f64) -> usize {
    match seconds {
        ..1.0 => 3,
        ..10.0 => 2,
        _ => 1,
    }
}

fn mean_read(now: &Circumstances) -> Option<f64> {
    let reads = now.run.device_reads.filter(|reads| *reads > 0)?;
    Some(now.device_bytes?.0 as f64 / reads as f64)
}

/// Reads/s of the film's job, if its reads are small and nearly saturate the device.
fn saturating_reads(now: &Circumstances) -> Option<f64> {
    let reads = now.run.device_reads? as f64;
    let per_second = reads / now.run.seconds.max(f64::MIN_POSITIVE);
    let is_small = mean_read(now).is_some_and(|mean| mean <= SMALL_READ);
    (is_small && per_second >= now.device.reads_per_second * SATURATED).then_some(per_second)
}

fn by_first_touch(touched: &Touched, sorted: &[Read]) -> Vec<Read> {
    let mut ranks = vec![usize::MAX; sorted.len()];
    for (rank, piece) in touched.pieces.iter().enumerate() {
        let (fork, start, end) = (piece.fork as usize, u64::from(piece.start), u64::from(piece.start + piece.blocks));
        let first = sorted.partition_point(|read| (read.fork, read.range.end) <= (fork, start));
        let covering = sorted[first..].iter().take_while(|read| read.fork == fork && read.range.start < end).count();
        ranks[first..first + covering].iter_mut().for_each(|known| *known = rank.min(*known));
    }
    let mut places: Vec<usize> = (0..sorted.len()).collect();
    places.sort_by_key(|at| ranks[*at]);
    places.into_iter().map(|at| sorted[at]).collect()
}

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub reads: Vec<Read>,
    pub bytes: Bytes,
    /// Bytes that the job has requested in total when it has finished the window.
    pub until: Bytes,
    /// Blocks that no later window contains, by position in `Touched::forks`.
    pub last_touched: Vec<RoaringBitmap>,
}

/// Cuts a film into windows, each ending with the event that reaches `most` bytes. Omits blocks that no longer exist,
/// and those seen only in shared_buffers.
pub fn cut_windows<S: ChunkReader + 'static>(
    film: &Film<S>,
    touched: &Touched,
    most: Bytes,
    device: DeviceProfile,
    geometry: Geometry,
) -> Result<Vec<Window>> {
    let places = touched.places();
    let nothing = || vec![RoaringBitmap::new(); touched.forks.len()];
    let most_blocks = (most.0 / u64::from(geometry.block_size)).max(1);
    let windows = film.header().totals.event_blocks() / most_blocks;
    if windows.saturating_mul(touched.forks.len() as u64) > WINDOW_FORKS_MAX {
        let reason = format!("{windows} windows of {} files", touched.forks.len());
        return Err(Error::of_flaw(Flaw::TooLarge(reason), film.path()));
    }
    let (mut cuts, mut current, mut blocks, mut until) = (Vec::new(), nothing(), 0, Bytes(0));
    // Repeated requests count only if all were recorded: a sample would understate a window's bytes.
    let has_all_again = film.header().sampling.is_some_and(|sampled| sampled.shift == 0);
    film.visit(|event: Event| {
        let is_asked = match event.kind {
            EventKind::Buffers => false,
            EventKind::Again => has_all_again,
            EventKind::Requested | EventKind::Fetched => !film.header().is_brought(&event),
        };
        let Some(place) = places.get(&(&event.relation.path, event.fork)).filter(|_| is_asked) else { return };
        let end = event.blocks.end.min(touched.forks[*place].blocks);
        if event.blocks.start >= end {
            return;
        }
        if blocks >= most_blocks {
            cuts.push((std::mem::replace(&mut current, nothing()), until));
            blocks = 0;
        }
        until = event.job_bytes.max(until);
        blocks += current[*place].insert_range(event.blocks.start as u32..end as u32);
    })?;
    if blocks > 0 {
        cuts.push((current, until));
    }
    let mut later = nothing();
    let mut windows: Vec<Window> = Vec::with_capacity(cuts.len());
    for (blocks, until) in cuts.into_iter().rev() {
        let last_touched = blocks.iter().zip(&later).map(|(blocks, later)| blocks - later).collect();
        later.iter_mut().zip(&blocks).for_each(|(later, blocks)| *later |= blocks);
        let reads = touched.plan_reads(Some(&blocks), device, geometry);
        let bytes = bytes_of(&reads, geometry);
        windows.push(Window { reads, bytes, until, last_touched });
    }
    windows.reverse();
    Ok(windows)
}

/// Forecast run time in seconds: the first load, then the longer of the other loads and `own_seconds`.
pub fn forecast_windows(windows: &[Window], device: &DeviceProfile, own_seconds: f64) -> f64 {
    let load = |window: &Window| device.seconds(window.reads.len() as u64, window.bytes);
    let first = windows.first().map_or(0.0, load);
    let rest: f64 = windows.iter().skip(1).map(load).sum();
    first + rest.max(own_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::simulation::PriceSource;
    use crate::trace::touched::{Piece, TouchedFork};
    use host::units::{BlockRange, Fork};
    use postgres::RelationPath;

    const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };

    fn touched(pieces: impl Iterator<Item = (u32, u32)>) -> Touched {
        let pieces: Vec<Piece> = pieces.map(|(start, blocks)| Piece { fork: 0, start, blocks }).collect();
        let path = RelationPath::base(5, 1);
        let (touched, found, resident) = Default::default();
        let mut fork = TouchedFork { relation: 0, path, fork: Fork::Main, blocks: 100_000, touched, found, resident };
        pieces.iter().for_each(|one| _ = fork.touched.insert_range(one.start..one.start + one.blocks));
        Touched { forks: vec![fork], pieces, ..Touched::default() }
    }

    fn circumstances(seconds: f64, room: Option<Bytes>) -> Circumstances {
        let (preloaded, source) = (Bytes(0), PriceSource::NotCounted);
        let run = Run { seconds, device_reads: None, is_cold: true, preloaded, fetches: 1.0, source };
        let device = DeviceProfile::default();
        Circumstances { run, device_bytes: None, is_paced: false, device, geometry: GEOMETRY, room }
    }

    fn decided(touched: &Touched, seconds: f64, room: Option<Bytes>) -> Decision {
        decide(touched, circumstances(seconds, room), |_, _| unreachable!("it has no pace")).unwrap()
    }

    #[test]
    fn an_index_loop_is_preloaded() {
        let decision = decided(&touched((0..20_000).map(|at| (at * 7919 % 20_000, 1))), 8.0, None);
        assert!(matches!(decision.way, Way::Sorted | Way::Region), "{:?}", decision.forecasts);
        let forecasts = decision.forecasts.unwrap();
        assert!(forecasts.of(decision.way).unwrap() < forecasts.nothing * 0.5, "{forecasts:?}");
        assert_eq!(decision.planned_bytes, Bytes(20_000 * 8192));
        assert!(decision.reads.iter().all(|read| read.range.blocks() * 8192 <= LARGEST_READ.0));
    }

    #[test]
    fn a_scan_is_left_to_itself() {
        let decision = decided(&touched((0..1250).map(|at| (at * 16, 16))), 2.0, None);
        assert_eq!(decision.way, Way::Nothing);
        assert!(decision.reason.contains("no preload can save the required 10 %"), "{}", decision.reason);
    }

    #[test]
    fn figures_do_not_contradict_what_follows_from_them() {
        assert_eq!(
            render_forecasts(0.444, 0.461),
            "the forecast is 0.444 s with a preload and 0.461 s without, a gain of 3 % where 10 % are required"
        );
        assert!(render_forecasts(4.54, 5.04).ends_with("a gain of 9 % where 10 % are required"));
        assert!(render_forecasts(5.1, 5.04).ends_with("5.04 s without, almost no gain"));
        assert_eq!(render_forecasts(3.0, 12.0), "the forecast is 3.0 s with a preload and 12.0 s without");
    }

    #[test]
    fn a_job_that_the_kernel_reads_ahead_of_is_left_to_it() {
        let touched = touched((0..20_000).map(|at| (at * 7919 % 20_000, 1)));
        let mut now = circumstances(8.0, None);
        (now.run.device_reads, now.device_bytes) = (Some(2000), Some(Bytes(160 << 20)));
        let all = Bytes(20_000 * 8192);
        let reason = read_ahead_reason(&now, all).unwrap();
        assert!(reason.contains("82 kB"), "{reason}");
        assert!((forecast_alone(&touched, now).nothing - 8.0).abs() < 0.5, "which is judged too");
        now.device_bytes = Some(Bytes(300 << 20));
        assert_eq!(read_ahead_reason(&now, all), None, "others read too");
    }

    #[test]
    fn a_job_of_its_own_work_is_left_before_any_plan_is_simulated() {
        let mut touched = touched((0..20_000).map(|at| (at * 7919 % 20_000, 1)));
        touched.forks[0].resident.insert_range(0..19_900);
        let decision = decided(&touched, 20.0, None);
        assert_eq!((decision.way, decision.forecasts.unwrap().sorted), (Way::Nothing, None));
        assert!(decision.reason.contains("no preload can save the required 10 %"), "{}", decision.reason);
        touched.forks[0].resident.clear();
        assert!(decided(&touched, 20.0, None).forecasts.unwrap().sorted.is_some());
    }

    #[test]
    fn what_does_not_fit_or_is_there_is_left() {
        let mut touched = touched((0..20_000).map(|at| (at * 7919 % 20_000, 1)));
        let decision = decided(&touched, 8.0, Some(Bytes(200 << 20)));
        assert!(decision.reason.contains("60 %"), "{}", decision.reason);
        touched.forks[0].resident.insert_range(0..20_000);
        let decision = decided(&touched, 8.0, None);
        assert!(decision.reason.contains("are already cached"), "{}", decision.reason);
        let decision = decided(&Touched::default(), 8.0, None);
        assert!(decision.reason.contains("none of the film's blocks exist any more"), "{}", decision.reason);
    }

    #[test]
    fn where_gaps_would_not_fit_hardly_any_is_read_over() {
        let block = |at: u32| 3 * (at / 2) + at % 2;
        let touched = touched((0..20_000).map(|at| (block(at * 7919 % 20_000), 1)));
        let roomy = decided(&touched, 8.0, None);
        assert!(roomy.planned_bytes > Bytes(29_000 * 8192), "{}", roomy.planned_bytes);
        let tight = decided(&touched, 8.0, Some(Bytes(290 << 20)));
        assert_eq!((tight.planned_reads, tight.planned_bytes), (10_000, Bytes(20_000 * 8192)), "{}", tight.reason);
    }

    fn decided_beyond_memory(device_reads: u64, change: impl FnOnce(&mut Circumstances)) -> Decision {
        let touched = touched((0..20_000).map(|at| (at * 7919 % 20_000, 1)));
        let mut now = circumstances(20.0, Some(Bytes(100 << 20)));
        (now.run.device_reads, now.device_bytes, now.is_paced) = (Some(device_reads), Some(Bytes(160 << 20)), true);
        change(&mut now);
        let window = |at: u64| Window {
            reads: vec![Read { fork: 0, range: BlockRange::new(at * 64, at * 64 + 64) }; 64],
            bytes: Bytes(32 << 20),
            until: Bytes(at),
            last_touched: Vec::new(),
        };
        decide(&touched, now, |most, _| {
            assert_eq!(most, Bytes(20 << 20));
            Ok((0..5).map(window).collect())
        })
        .unwrap()
    }

    #[test]
    fn what_does_not_fit_is_read_window_by_window_if_the_device_has_reads_left() {
        let decision = decided_beyond_memory(20_000, |_| ());
        assert_eq!((decision.way, decision.windows.len()), (Way::Windowed, 5), "{}", decision.reason);
        assert!(decision.forecasts.unwrap().windowed.unwrap() < 20.0);
        let saturated = decided_beyond_memory(60_000, |_| ());
        assert!(saturated.way == Way::Nothing && saturated.reason.contains("would delay it"), "{}", saturated.reason);
        let blind = decided_beyond_memory(20_000, |now| now.is_paced = false);
        assert!(blind.reason.contains("lacks the job's progress"), "{}", blind.reason);
        let brought = decided_beyond_memory(20_000, |now| now.run.is_cold = false);
        assert!(brought.reason.contains("too many of the film's blocks were preloaded"), "{}", brought.reason);
    }

    #[test]
    fn the_order_of_regions_is_that_of_the_first_touch() {
        let touched = touched([(900, 1), (10, 1), (905, 1), (500, 1)].into_iter());
        let read = |start, end| Read { fork: 0, range: BlockRange::new(start, end) };
        let sorted = [read(10, 11), read(500, 501), read(900, 906)];
        assert_eq!(by_first_touch(&touched, &sorted), [read(900, 906), read(10, 11), read(500, 501)]);
    }
}

#[cfg(test)]
mod windows_tests {
    use super::*;
    use crate::fixtures::{map_of, relation};
    use crate::trace::FilmHeader;
    use crate::trace::fixtures::{self, film_relation};
    use crate::{ForkMap, RelationMap};
    use host::units::{BlockRange, Fork};

    const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };

    fn there(number: u32, blocks: u64) -> RelationMap {
        relation(number, ForkMap::empty(Fork::Main, blocks))
    }

    #[test]
    fn a_film_is_cut_where_a_window_is_full_and_what_comes_again_is_kept_until_then() {
        let place = tempfile::tempdir().unwrap();
        let events = [(1, 0..8, 10), (2, 0..2, 20), (1, 50..60, 30), (1, 4..6, 40), (2, 90..110, 50)];
        let events = events.map(|(number, blocks, job_bytes)| Event {
            pid: 1,
            job_bytes: Bytes(job_bytes),
            ..fixtures::event(0, &film_relation(number), blocks, EventKind::Fetched)
        });
        let film = fixtures::film(&place.path().join("film"), &FilmHeader::for_tests(), events);
        let touched = Touched::read(&[&film], &map_of(vec![there(1, 100), there(2, 100)]), true).unwrap();
        let device = DeviceProfile::default();
        let windows = cut_windows(&film, &touched, Bytes(10 * 8192), device, GEOMETRY).unwrap();
        assert_eq!(windows.iter().map(|window| window.until.0).collect::<Vec<_>>(), [20, 30, 50]);
        let read = |fork, start, end| Read { fork, range: BlockRange::new(start, end) };
        assert_eq!(windows[0].reads, [read(0, 0, 8), read(1, 0, 2)]);
        assert_eq!(windows[0].bytes, Bytes(10 * 8192));
        let last = |window: usize, fork: usize| windows[window].last_touched[fork].iter().collect::<Vec<_>>();
        assert_eq!(last(0, 0), [0, 1, 2, 3, 6, 7], "4 and 5 come again in the last one");
        assert_eq!(last(2, 0), [4, 5]);
        assert_eq!(last(2, 1), (90..100).collect::<Vec<_>>(), "no more than the file has");
        let alone = forecast_windows(&windows, &device, 0.0);
        assert!((forecast_windows(&windows, &device, 5.0) - 5.0) < alone && forecast_windows(&[], &device, 5.0) == 5.0);
    }
}
