//! Measures, on its own thread, how much of a snapshot a warmer has loaded while the server is idle.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;
use sqlx::postgres::PgConnection;
use tokio::runtime::Handle;

use crate::study::{Bound, Brought, Disk, Error, LoadSample, RESIDENT_SHARE, Result, Seen, Strategy};
use cache::{ForkMap, Map};
use host::linux::clock;
use host::linux::page_cache::{CachedFile, PageCache, SystemPageCache, append};
use host::linux::threads::{lock, on_threads};
use host::units::{Bytes, Fork, PageRange};
use postgres::{Buffer, read_buffers};

/// Pause ÷ duration of a sample. Limits the probe to a quarter of a processor.
const REST_PER_LOOK: u32 = 3;
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The kernel may complete the warmer's reads this long after its end, as with pgfincore.
const AFTERMATH: Duration = Duration::from_secs(3);

pub struct Looker {
    wanted: Arc<Wanted>,
    watch: Watch,
    goal_pages: u64,
    strategy: Strategy,
    /// Connection to read pg_buffercache; `None` for a warmer that does not fill shared_buffers.
    connection: Option<PgConnection>,
    start: Duration,
    come: Arc<Mutex<Come>>,
}

/// Progress of the warmer. Times are in seconds since the start.
#[derive(Debug, Default)]
struct Come {
    seen: Seen,
    last_gain: f64,
    /// Maximum bytes seen in the page cache and in shared_buffers.
    most: (Bytes, Option<Bytes>),
}

/// Thread that samples the caches. Dropping it prevents the next sample.
#[derive(Debug)]
pub struct Probe {
    thread: JoinHandle<Result<Seen>>,
    strategy: Strategy,
    start: Duration,
    come: Arc<Mutex<Come>>,
    stop: Sender<()>,
}

impl Looker {
    /// Reads shared_buffers once, to load the catalogs that later samples need. `connection` must not use the measured
    /// database.
    pub async fn open(
        wanted: &Arc<Wanted>,
        cache: &dyn PageCache,
        strategy: Strategy,
        mut connection: PgConnection,
    ) -> Result<Looker> {
        wanted.former.look(&mut connection).await?;
        Ok(Looker {
            watch: Watch::open(&wanted.files, cache)?,
            goal_pages: (wanted.pages() as f64 * RESIDENT_SHARE).ceil() as u64,
            wanted: Arc::clone(wanted),
            strategy,
            connection: strategy.fills_buffers().then_some(connection),
            start: Duration::ZERO,
            come: Arc::default(),
        })
    }

    pub fn start(mut self, start: Duration) -> Result<Probe> {
        self.start = start;
        let (strategy, come, runtime) = (self.strategy, Arc::clone(&self.come), Handle::current());
        let (stop, stopped) = channel();
        let work = move || self.look_until(&stopped, &runtime);
        let thread = std::thread::Builder::new().spawn(work).map_err(observe::Error::Thread)?;
        Ok(Probe { thread, strategy, start, come, stop })
    }

    fn look_until(mut self, stopped: &Receiver<()>, runtime: &Handle) -> Result<Seen> {
        let mut pause = self.start.saturating_sub(clock::read_monotonic());
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let began = clock::read_monotonic();
            if !self.has_seen_all() {
                self.look(runtime)?;
            }
            pause = ((clock::read_monotonic() - began) * REST_PER_LOOK).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        }
        let resident_bytes = Bytes(self.watch.recount()? * self.wanted.page_bytes);
        let mut seen = std::mem::take(&mut lock(&self.come).seen);
        seen.brought.resident_bytes = resident_bytes;
        Ok(seen)
    }

    fn has_seen_all(&self) -> bool {
        let brought = &lock(&self.come).seen.brought;
        brought.resident_after_seconds.is_some()
            && (self.connection.is_none() || brought.buffers_after_seconds.is_some())
    }

    /// A sample's time is its end, so a time may be late but never early.
    fn look(&mut self, runtime: &Handle) -> Result<()> {
        let looked = self.watch.look(self.goal_pages)?;
        let seconds = self.elapsed();
        let is_resident = looked.is_exact && looked.pages >= self.goal_pages;
        // Queries only near the goal, because a restore slows down for frequent queries.
        let is_near = looked.pages as f64 >= NEAR_GOAL * self.goal_pages as f64;
        let former = &self.wanted.former;
        let buffers = match &mut self.connection {
            Some(connection) if is_near => Some(runtime.block_on(former.look(connection))?),
            _ => None,
        };
        let is_back = buffers.is_some_and(|buffers| former.is_back(buffers));
        let back_seconds = self.elapsed();
        let bytes = |blocks: u64| Bytes(blocks * self.wanted.block_bytes);
        let sample = LoadSample {
            seconds,
            resident_bytes: Bytes(looked.pages * self.wanted.page_bytes),
            is_exact: looked.is_exact,
            buffers_bytes: buffers.map(|buffers| bytes(buffers.blocks)),
            hot_bytes: buffers.map(|buffers| bytes(buffers.hot_blocks)),
        };
        let mut come = lock(&self.come);
        let Brought { resident_after_seconds, buffers_after_seconds, .. } = &mut come.seen.brought;
        *resident_after_seconds = resident_after_seconds.or(is_resident.then_some(seconds));
        *buffers_after_seconds = buffers_after_seconds.or(is_back.then_some(back_seconds));
        come.seen.looks.push(sample);
        let most = (come.most.0.max(sample.resident_bytes), come.most.1.max(sample.buffers_bytes));
        if most != come.most {
            (come.most, come.last_gain) = (most, sample.seconds);
        }
        Ok(())
    }

    fn elapsed(&self) -> f64 {
        clock::read_monotonic().saturating_sub(self.start).as_secs_f64()
    }
}

impl Probe {
    pub fn is_over(&self, ended_at: Option<Duration>) -> bool {
        let come = lock(&self.come);
        let is_there = come.seen.brought.resident_after_seconds.is_some() || !self.strategy.fills_cache();
        let is_back = come.seen.brought.buffers_after_seconds.is_some() || !self.strategy.fills_buffers();
        let last_gain = self.start + Duration::from_secs_f64(come.last_gain);
        let is_past = |at: Duration| clock::read_monotonic() > at.max(last_gain) + AFTERMATH;
        self.thread.is_finished() || ended_at.is_some_and(|at| (is_there && is_back) || is_past(at))
    }

    /// Counts the resident pages again: some may have been evicted.
    pub fn finish(self) -> Result<Seen> {
        let Probe { thread, stop, .. } = self;
        drop(stop);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Lower bound of the load time: the minimum of `max(reads ÷ reads per second, bytes ÷ bandwidth)` over all choices of
/// gaps to read through. A gap costs its bytes and saves one read, so the best choice is the n shortest gaps, for some
/// n. `None` unless both limits of the disk are enforced.
pub fn compute_bound(wanted: &Wanted, disk: &Disk) -> Option<Bound> {
    if disk.not_enforced.is_some() {
        return None;
    }
    let (riops, bandwidth) = (disk.riops?, disk.rbps?);
    let Wanted { files, page_bytes, .. } = wanted;
    let gap = |neighbours: &[PageRange]| neighbours[1].start - neighbours[0].end;
    let mut gaps: Vec<u64> = files.iter().flat_map(|file| file.runs.windows(2)).map(gap).collect();
    gaps.sort_unstable();
    let (pages, runs) = (wanted.pages(), wanted.pieces());
    let bound = |reads: u64, pages: u64| {
        let read_bytes = Bytes(pages * page_bytes);
        let seconds = (reads as f64 / riops as f64).max(read_bytes.seconds_at(bandwidth));
        Bound { reads, read_bytes, seconds }
    };
    let mut best = bound(runs, pages);
    let mut read_pages = pages;
    for (merged, gap) in (1..).zip(gaps) {
        read_pages += gap;
        let next = bound(runs - merged, read_pages);
        if next.seconds < best.seconds {
            best = next;
        }
    }
    Some(best)
}

/// Number of a file's pages that are counted together: 4 MiB with pages of 4 KiB.
const WINDOW_PAGES: u64 = 1024;

/// Interval of exact samples (mincore checks every page) below `NEAR_GOAL`. A page that is evicted later counts only
/// if mincore saw it.
const EXACT_INTERVAL: Duration = Duration::from_secs(1);

/// Once this share of the snapshot's pages is cached, every sample checks every page.
pub const NEAR_GOAL: f64 = 0.9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Number of wanted pages seen resident so far.
    pub pages: u64,
    /// Whether mincore checked every page. Otherwise `pages` may include pages still being read or not wanted.
    pub is_exact: bool,
}

pub struct Watch {
    files: Vec<Box<dyn CachedFile>>,
    windows: Vec<Window>,
    exact_at: Option<Instant>,
}

struct Window {
    file: usize,
    range: PageRange,
    wanted: RoaringBitmap,
    seen: RoaringBitmap,
}

impl Watch {
    pub fn open(files: &[WantedFile], cache: &dyn PageCache) -> Result<Watch> {
        let (mut opened, mut windows): (Vec<_>, Vec<Window>) = (Vec::new(), Vec::new());
        for wanted in files {
            let (file, before) = (opened.len(), windows.len());
            opened.push(cache.open(&wanted.path)?.ok_or_else(|| gone(&wanted.path))?);
            for (window, start, end) in wanted.runs.iter().flat_map(|run| cut(run.start, run.end, WINDOW_PAGES)) {
                let first = window * WINDOW_PAGES;
                if windows[before..].last().is_none_or(|last| last.range.start != first) {
                    let range = PageRange::new(first, first + end);
                    windows.push(Window { file, range, wanted: RoaringBitmap::new(), seen: RoaringBitmap::new() });
                }
                if let Some(window) = windows.last_mut() {
                    window.range.end = first + end;
                    window.wanted.insert_range(start as u32..end as u32);
                }
            }
        }
        Ok(Watch { files: opened, windows, exact_at: None })
    }

    /// Counts the wanted pages seen in the page cache. Estimates this number from the cached pages in each window,
    /// unless the last check of each page is `EXACT_INTERVAL` old, or the count is near `goal`.
    pub fn look(&mut self, goal: u64) -> Result<Look> {
        let Watch { files, windows, exact_at, .. } = self;
        let (mut counted, mut seen) = (0, 0);
        for window in windows.iter_mut() {
            let wanted = window.wanted.len();
            let mut most = window.seen.len();
            if !window.is_whole() {
                let cached = files[window.file].read_counts(window.range)?.cached;
                if cached >= wanted {
                    window.look(&*files[window.file])?;
                }
                most = window.seen.len().max(cached.min(wanted));
            }
            counted += most;
            seen += window.seen.len();
        }
        let is_near = seen as f64 >= NEAR_GOAL * goal as f64;
        let is_due = exact_at.is_none_or(|at| at.elapsed() >= EXACT_INTERVAL);
        if counted < goal && !is_near && !is_due {
            return Ok(Look { pages: counted, is_exact: false });
        }
        for window in windows.iter_mut().filter(|window| !window.is_whole()) {
            window.look(&*files[window.file])?;
        }
        *exact_at = Some(Instant::now());
        Ok(Look { pages: windows.iter().map(|window| window.seen.len()).sum(), is_exact: true })
    }

    pub fn recount(&self) -> Result<u64> {
        self.windows.iter().map(|window| Ok(window.read(&*self.files[window.file])?.len())).sum()
    }
}

impl Window {
    fn is_whole(&self) -> bool {
        self.seen.len() == self.wanted.len()
    }

    fn look(&mut self, file: &dyn CachedFile) -> Result<()> {
        self.seen |= self.read(file)?;
        Ok(())
    }

    fn read(&self, file: &dyn CachedFile) -> Result<RoaringBitmap> {
        let mut resident = RoaringBitmap::new();
        for run in file.read_resident(self.range)? {
            resident.insert_range(within(self.range, run));
        }
        Ok(resident & &self.wanted)
    }
}

fn within(window: PageRange, run: PageRange) -> std::ops::Range<u32> {
    (run.start - window.start) as u32..(run.end - window.start) as u32
}

fn gone(path: &Path) -> Error {
    Error::file("open", path, std::io::ErrorKind::NotFound.into())
}

/// Cuts a run of pages at multiples of `length`. Returns each part's number, start and end (within the part).
fn cut(start: u64, end: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    (start / length..end.div_ceil(length)).map(move |number| {
        let first = number * length;
        (number, start.max(first) - first, end.min(first + length) - first)
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedFile {
    pub path: PathBuf,
    /// Ranges of pages that the cache should contain, ascending, with gaps between them.
    pub runs: Vec<PageRange>,
}

#[derive(Debug, Default)]
pub struct Wanted {
    pub files: Vec<WantedFile>,
    pub former: FormerBuffers,
    pub page_bytes: u64,
    pub block_bytes: u64,
}

impl Wanted {
    pub fn of(map: &Map, data_directory: &Path, page_bytes: u64) -> Wanted {
        let block_bytes = u64::from(map.source.block_size);
        let segment_blocks = u64::from(map.source.segment_blocks);
        let mut files: Vec<WantedFile> = Vec::new();
        // Warmers that load the database's directory do not load shared catalogs.
        for (relation, fork) in map.forks().filter(|(relation, _)| relation.path.database_oid != 0) {
            for (segment, start, end) in block_runs(fork, segment_blocks) {
                let path = relation.path.segment_file(data_directory, fork.fork, segment as u32);
                let pages = PageRange::new(start * block_bytes / page_bytes, (end * block_bytes).div_ceil(page_bytes));
                match files.last_mut().filter(|last| last.path == path) {
                    // Two blocks may share a page.
                    Some(last) => append(&mut last.runs, pages),
                    None => files.push(WantedFile { path, runs: vec![pages] }),
                }
            }
        }
        Wanted { files, former: FormerBuffers::of(map), page_bytes, block_bytes }
    }

    pub fn pages(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.runs).map(|run| run.pages()).sum()
    }

    pub fn pieces(&self) -> u64 {
        self.files.iter().map(|file| file.runs.len() as u64).sum()
    }

    pub fn bytes(&self) -> Bytes {
        Bytes(self.pages() * self.page_bytes)
    }
}

fn block_runs(fork: &ForkMap, segment_blocks: u64) -> Vec<(u64, u64, u64)> {
    let mut pieces = Vec::new();
    let mut runs = fork.os.iter();
    while let Some(run) = runs.next_range() {
        pieces.extend(cut((*run.start()).into(), u64::from(*run.end()) + 1, segment_blocks));
    }
    pieces
}

/// Maximum bytes of a read, as in `pgthaw restore`.
const LARGEST_READ: u64 = 256 << 10;

/// The same number as in `pgthaw restore`.
const THREADS: usize = 16;

pub fn write_list(path: &Path, wanted: &Wanted) -> Result<()> {
    let page_bytes = wanted.page_bytes;
    let line = |file: &WantedFile, start: u64, end: u64| {
        format!("{} {} {}\n", start * page_bytes, (end - start) * page_bytes, file.path.display())
    };
    let lines: String =
        wanted.files.iter().flat_map(|file| file.runs.iter().map(|run| line(file, run.start, run.end))).collect();
    std::fs::write(path, lines).map_err(|source| Error::file("write", path, source))
}

pub fn apply_read_ranges(list: &Path) -> Result<()> {
    let text = std::fs::read_to_string(list).map_err(|source| Error::file("read", list, source))?;
    let damaged = || Error::file("read", list, std::io::ErrorKind::InvalidData.into());
    let cache = SystemPageCache::new();
    let mut files: Vec<(PathBuf, Box<dyn CachedFile>)> = Vec::new();
    let mut reads = Vec::new();
    for line in text.lines() {
        let (start, bytes, path) = parse_line(line).ok_or_else(damaged)?;
        if files.last().is_none_or(|(last, _)| *last != path) {
            let file = cache.open(&path)?.ok_or_else(|| gone(&path))?;
            files.push((path, file));
        }
        let pieces = (start..start + bytes).step_by(LARGEST_READ as usize);
        reads.extend(pieces.map(|from| (files.len() - 1, from, LARGEST_READ.min(start + bytes - from))));
    }
    let next = AtomicUsize::new(0);
    let work = |_| {
        let mut buffer = vec![0; LARGEST_READ as usize];
        while let Some((file, start, bytes)) = reads.get(next.fetch_add(1, Ordering::Relaxed)) {
            files[*file].1.apply_read(*start, &mut buffer[..*bytes as usize])?;
        }
        Ok(())
    };
    let mut ended = on_threads(THREADS, work).into_iter();
    ended.try_for_each(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn parse_line(line: &str) -> Option<(u64, u64, PathBuf)> {
    let mut words = line.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let (start, bytes) = (number()?, number()?);
    Some((start, bytes, words.next()?.into()))
}

pub const HOT_USAGE_COUNT: u8 = 3;

/// The snapshot is restored if shared_buffers hold this share of its buffers, and this share of its hot ones is
/// hot again.
pub const BACK_SHARE: f64 = 0.9;

/// Tablespace, database, relfilenumber, fork.
type Key = (u32, u32, u32, Fork);

#[derive(Clone, Debug, Default)]
pub struct FormerBuffers {
    forks: HashMap<Key, [RoaringBitmap; 2]>,
    pub blocks: u64,
    pub hot_blocks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuffersLook {
    pub blocks: u64,
    /// Blocks that were hot in the snapshot and are hot again.
    pub hot_blocks: u64,
}

impl FormerBuffers {
    pub fn of(map: &Map) -> FormerBuffers {
        let mut former = FormerBuffers::default();
        for (relation, fork) in map.forks() {
            let path = &relation.path;
            let key = (path.tablespace_oid(), path.database_oid, path.relfilenumber, fork.fork);
            let hot =
                fork.buffers[usize::from(HOT_USAGE_COUNT)..].iter().fold(RoaringBitmap::new(), |all, one| all | one);
            let all = fork.all_buffers();
            former.blocks += all.len();
            former.hot_blocks += hot.len();
            former.forks.insert(key, [all, hot]);
        }
        former
    }

    pub async fn look(&self, connection: &mut PgConnection) -> Result<BuffersLook> {
        let mut look = BuffersLook::default();
        read_buffers(connection, |buffer| look.count(self, buffer)).await?;
        Ok(look)
    }

    pub fn is_back(&self, look: BuffersLook) -> bool {
        let is_most = |now: u64, former: u64| now as f64 >= BACK_SHARE * former as f64;
        is_most(look.blocks, self.blocks) && is_most(look.hot_blocks, self.hot_blocks)
    }
}

impl BuffersLook {
    fn count(&mut self, former: &FormerBuffers, buffer: Buffer) {
        let key = (buffer.tablespace_oid, buffer.database_oid, buffer.relfilenumber, buffer.fork);
        let Some([all, hot]) = former.forks.get(&key) else { return };
        self.blocks += u64::from(all.contains(buffer.block));
        self.hot_blocks += u64::from(buffer.usage_count >= HOT_USAGE_COUNT && hot.contains(buffer.block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::resident::WantedFile;
    use crate::study::ground::disk_tests::named;
    use host::linux::page_cache::FakePageCache;
    use host::units::PageRange;

    const FILE: &str = "/data/base/5/16384";

    #[tokio::test]
    async fn one_that_is_dropped_looks_no_more() {
        let cache = FakePageCache::new();
        cache.insert(FILE, 4096 * 100, &[]);
        let files = vec![WantedFile { path: FILE.into(), runs: vec![PageRange::new(0, 100)] }];
        let looker = Looker {
            watch: Watch::open(&files, &cache).unwrap(),
            wanted: Arc::new(Wanted { files, page_bytes: 4096, block_bytes: 8192, ..Wanted::default() }),
            goal_pages: 99,
            strategy: Strategy::Cat,
            connection: None,
            start: Duration::ZERO,
            come: Arc::default(),
        };
        let probe = looker.start(clock::read_monotonic()).unwrap();
        let come = Arc::clone(&probe.come);
        assert!(!probe.is_over(None) && Arc::strong_count(&come) == 3);
        drop(probe);
        let deadline = clock::read_monotonic() + Duration::from_secs(30);
        while Arc::strong_count(&come) > 1 {
            assert!(clock::read_monotonic() < deadline, "it still looks");
            std::thread::sleep(SHORTEST_PAUSE);
        }
    }

    fn file(runs: &[(u64, u64)]) -> WantedFile {
        WantedFile { path: "f".into(), runs: runs.iter().map(|(start, end)| PageRange::new(*start, *end)).collect() }
    }

    fn compute(files: Vec<WantedFile>, disk: &Disk) -> Option<Bound> {
        compute_bound(&Wanted { files, page_bytes: 4096, ..Wanted::default() }, disk)
    }

    fn disk(riops: u64, pages_per_second: u64) -> Disk {
        Disk { riops: Some(riops), rbps: Some(Bytes(pages_per_second * 4096)), ..named("native") }
    }

    #[test]
    fn gaps_are_read_over_until_the_bytes_cost_more_than_the_reads() {
        let files = vec![file(&[(0, 2), (4, 6), (100, 102)])];
        let at = |riops, pages| compute(files.clone(), &disk(riops, pages)).unwrap();
        let expensive_reads = at(1, 1000);
        assert_eq!(
            (expensive_reads.reads, expensive_reads.read_bytes, expensive_reads.seconds),
            (1, Bytes(102 * 4096), 1.0)
        );
        let balanced = at(10, 40);
        assert_eq!((balanced.reads, balanced.seconds), (2, 0.2));
        let cheap_reads = at(1000, 6);
        assert_eq!((cheap_reads.reads, cheap_reads.seconds), (3, 1.0));
    }

    #[test]
    fn files_are_never_merged() {
        let files = vec![file(&[(0, 2)]), file(&[(2, 4)])];
        assert_eq!(compute(files, &disk(1, 1000)).unwrap().reads, 2);
    }

    #[test]
    fn an_unlimited_disk_has_no_bound() {
        assert_eq!(compute(vec![file(&[(0, 2)])], &named("native")), None);
        let refused = Disk { not_enforced: Some("no privilege".into()), ..disk(1, 1) };
        assert_eq!(compute(vec![file(&[(0, 2)])], &refused), None);
    }

    fn runs(pairs: &[(u64, u64)]) -> Vec<PageRange> {
        pairs.iter().map(|(start, end)| PageRange::new(*start, *end)).collect()
    }

    fn watch(cache: &FakePageCache, wanted: &[(u64, u64)]) -> Watch {
        Watch::open(&[WantedFile { path: FILE.into(), runs: runs(wanted) }], cache).unwrap()
    }

    #[test]
    fn what_is_cached_beside_what_is_wanted_does_not_count() {
        let cache = FakePageCache::new();
        cache.insert(FILE, 4096 * 5000, &runs(&[(0, 50), (1000, 1010)]));
        let mut watch = watch(&cache, &[(0, 100), (1020, 1030)]);
        assert_eq!(watch.look(109).unwrap(), Look { pages: 50, is_exact: true });
        assert_eq!(watch.look(109).unwrap(), Look { pages: 60, is_exact: false });
        assert_eq!(watch.look(60).unwrap(), Look { pages: 50, is_exact: true });
    }

    #[test]
    fn what_came_and_went_has_come_all_the_same() {
        let cache = FakePageCache::new();
        let wanted = [(10, 3000), (4000, 4500)];
        cache.insert(FILE, 4096 * 5000, &runs(&[(10, 4400)]));
        let mut watch = watch(&cache, &wanted);
        assert_eq!(watch.look(3490).unwrap(), Look { pages: 3390, is_exact: true });
        cache.insert(FILE, 4096 * 5000, &[]);
        let mut later = Watch { files: vec![cache.open(Path::new(FILE)).unwrap().unwrap()], ..watch };
        assert_eq!(later.look(3490).unwrap(), Look { pages: 3390, is_exact: true });
        assert_eq!(later.recount().unwrap(), 0);
    }
}

#[cfg(test)]
mod wanted_tests {
    use super::*;
    use host::linux::page_cache::read_resident_pages;
    use host::units::{Fork, PageRange};

    #[test]
    fn runs_are_cut_at_segments() {
        let mut fork = ForkMap::empty(Fork::Main, 30);
        fork.os.insert_range(3..5);
        fork.os.insert_range(8..21);
        assert_eq!(block_runs(&fork, 10), [(0, 3, 5), (0, 8, 10), (1, 0, 10), (2, 0, 1)]);
    }

    #[test]
    fn neighbours_on_one_page_are_one_run() {
        let mut runs = vec![PageRange::new(0, 1)];
        append(&mut runs, PageRange::new(0, 2));
        append(&mut runs, PageRange::new(3, 4));
        assert_eq!(runs, [PageRange::new(0, 2), PageRange::new(3, 4)]);
    }

    #[test]
    fn reads_what_the_list_says_and_nothing_else() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, list) = (directory.path().join("a file"), directory.path().join("list"));
        std::fs::write(&path, vec![7; 4096 * 300]).unwrap();
        let cache = SystemPageCache::new();
        let open = || cache.open(&path).unwrap().unwrap();
        open().apply_evict().unwrap();
        let runs = vec![PageRange::new(3, 5), PageRange::new(100, 230)];
        let files = vec![WantedFile { path: path.clone(), runs: runs.clone() }];
        write_list(&list, &Wanted { files, page_bytes: 4096, ..Wanted::default() }).unwrap();
        apply_read_ranges(&list).unwrap();
        assert_eq!(read_resident_pages(&*open(), 4096).unwrap(), runs);
        assert!(apply_read_ranges(&directory.path().join("none")).is_err());
        std::fs::write(&list, "3 many nothing\n").unwrap();
        assert!(apply_read_ranges(&list).is_err());
    }

    fn buffer(block: u32, usage_count: u8) -> Buffer {
        let fork = Fork::Main;
        Buffer {
            id: 1,
            tablespace_oid: 1663,
            database_oid: 5,
            relfilenumber: 7,
            fork,
            block,
            usage_count,
            dirty: false,
        }
    }

    #[test]
    fn what_was_hot_is_back_when_it_is_hot_again() {
        let key = (1663, 5, 7, Fork::Main);
        let forks = HashMap::from([(key, [0..10, 0..2].map(|range| range.collect()))]);
        let former = FormerBuffers { forks, blocks: 10, hot_blocks: 2 };
        let mut look = BuffersLook::default();
        for (block, usage_count) in [(0, 3), (1, 2), (2, 1), (50, 5)] {
            look.count(&former, buffer(block, usage_count));
        }
        assert_eq!(look, BuffersLook { blocks: 3, hot_blocks: 1 });
        assert!(!former.is_back(BuffersLook { blocks: 10, hot_blocks: 1 }));
        assert!(!former.is_back(BuffersLook { blocks: 8, hot_blocks: 2 }));
        assert!(former.is_back(BuffersLook { blocks: 9, hot_blocks: 2 }));
    }
}
