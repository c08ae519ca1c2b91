//! A page cache in memory. Files take no space.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Activity, CachedFile, InOrder, PageCache, PageCounts, Window};
use crate::linux::Error;
use crate::linux::direct_read::Extent;
use crate::linux::threads::lock;
use crate::units::{Bytes, PageRange};

const PAGE_BYTES: u64 = 4096;

#[derive(Clone, Debug, Default)]
pub struct FakePageCache {
    files: Arc<Mutex<HashMap<PathBuf, Arc<Mutex<State>>>>>,
    calls: Arc<Mutex<FakeCalls>>,
    hides_read_ahead: Arc<Mutex<bool>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FakeCalls {
    pub opens: u64,
    pub counts: u64,
    pub lists: u64,
    pub reads: u64,
    pub read_bytes: u64,
    pub in_order_reads: u64,
    pub in_order_opens: u64,
    pub windows: u64,
    pub evictions: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeRefusal {
    Open,
    /// Opening fails this many times.
    TooFewFiles(u32),
    /// Readable, but its residency is hidden.
    Residency,
    /// Reading fails with EIO.
    Read,
}

#[derive(Debug, Default)]
struct State {
    size_bytes: u64,
    /// Ordered, disjoint, not adjacent.
    resident: Vec<PageRange>,
    /// Pages read while resident.
    active: Vec<PageRange>,
    pinned: Vec<PageRange>,
    /// Each drop advances pages: dirty, writeback, out.
    dirty: Vec<PageRange>,
    writeback: Vec<PageRange>,
    /// Reading this page triggers more read-ahead.
    marked: Option<u64>,
    extents: Vec<Extent>,
    refusal: Option<FakeRefusal>,
}

impl FakePageCache {
    pub fn new() -> FakePageCache {
        FakePageCache::default()
    }

    pub fn insert(&self, path: impl Into<PathBuf>, size_bytes: u64, resident: &[PageRange]) {
        let mut state = State { size_bytes, ..State::default() };
        resident.iter().for_each(|range| add(&mut state.resident, *range));
        lock(&self.files).insert(path.into(), Arc::new(Mutex::new(state)));
    }

    /// As with unlink, open files stay usable.
    pub fn remove(&self, path: &Path) {
        lock(&self.files).remove(path);
    }

    pub fn resize(&self, path: &Path, size_bytes: u64) {
        self.change(path, |state| {
            state.size_bytes = size_bytes;
            subtract(&mut state.resident, PageRange::new(size_bytes.div_ceil(PAGE_BYTES), u64::MAX));
        });
    }

    pub fn lose(&self, path: &Path, range: PageRange) {
        self.change(path, |state| subtract(&mut state.resident, range));
    }

    /// Marks pages as mapped or locked: never evicted.
    pub fn pin(&self, path: &Path, range: PageRange) {
        self.change(path, |state| {
            add(&mut state.resident, range);
            add(&mut state.pinned, range);
        });
    }

    pub fn write(&self, path: &Path, range: PageRange) {
        self.change(path, |state| {
            add(&mut state.resident, range);
            add(&mut state.dirty, range);
        });
    }

    pub fn place(&self, path: &Path, extents: &[Extent]) {
        self.change(path, |state| state.extents = extents.to_vec());
    }

    pub fn hide_read_ahead(&self) {
        *lock(&self.hides_read_ahead) = true;
    }

    pub fn refuse(&self, path: &Path, refusal: FakeRefusal) {
        self.change(path, |state| state.refusal = Some(refusal));
    }

    pub fn resident(&self, path: &Path) -> Vec<PageRange> {
        self.change(path, |state| state.resident.clone()).unwrap_or_default()
    }

    pub fn active(&self, path: &Path) -> Vec<PageRange> {
        self.change(path, |state| state.active.clone()).unwrap_or_default()
    }

    pub fn calls(&self) -> FakeCalls {
        *lock(&self.calls)
    }

    fn change<T>(&self, path: &Path, change: impl FnOnce(&mut State) -> T) -> Option<T> {
        let file = lock(&self.files).get(path).cloned();
        file.map(|state| change(&mut lock(&state)))
    }
}

impl PageCache for FakePageCache {
    fn open(&self, path: &Path) -> Result<Option<Box<dyn CachedFile>>, Error> {
        lock(&self.calls).opens += 1;
        let Some(state) = lock(&self.files).get(path).cloned() else {
            return Ok(None);
        };
        let (size_bytes, refusal) = {
            let mut state = lock(&state);
            let refusal = state.refusal;
            if let Some(FakeRefusal::TooFewFiles(times)) = refusal {
                state.refusal = (times > 1).then(|| FakeRefusal::TooFewFiles(times - 1));
            }
            (state.size_bytes, refusal)
        };
        if refusal == Some(FakeRefusal::Open) {
            return Err(Error::file("open", path, io::ErrorKind::PermissionDenied.into()));
        }
        if matches!(refusal, Some(FakeRefusal::TooFewFiles(_))) {
            return Err(Error::file("open", path, io::Error::from_raw_os_error(libc::EMFILE)));
        }
        Ok(Some(Box::new(FakeFile { path: path.to_owned(), size_bytes, state, calls: Arc::clone(&self.calls) })))
    }

    fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    fn read_window(&self, file_system: u64) -> Option<Window> {
        lock(&self.calls).windows += 1;
        Window::of(Bytes(WINDOW.0 / 2)).filter(|_| file_system == FILE_SYSTEM && !*lock(&self.hides_read_ahead))
    }

    fn test_activity(&self) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
struct FakeFile {
    path: PathBuf,
    size_bytes: u64,
    state: Arc<Mutex<State>>,
    calls: Arc<Mutex<FakeCalls>>,
}

impl FakeFile {
    fn read_runs(&self, range: PageRange) -> Result<Vec<PageRange>, Error> {
        let state = lock(&self.state);
        if state.refusal == Some(FakeRefusal::Residency) {
            return Err(Error::ResidencyHidden(self.path.clone()));
        }
        Ok(within(&state.resident, range).collect())
    }
}

impl CachedFile for FakeFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_counts(&self, range: PageRange) -> Result<PageCounts, Error> {
        lock(&self.calls).counts += 1;
        let cached = count_pages(self.read_runs(range)?);
        let state = lock(&self.state);
        let (dirty, writeback) = (within(&state.dirty, range), within(&state.writeback, range));
        let (dirty, writeback) = (count_pages(dirty), count_pages(writeback));
        Ok(PageCounts { cached, dirty, writeback, ..PageCounts::default() })
    }

    fn read_resident(&self, range: PageRange) -> Result<Vec<PageRange>, Error> {
        lock(&self.calls).lists += 1;
        self.read_runs(range)
    }

    fn visit_activity(&self, range: PageRange, visit: &mut dyn FnMut(PageRange, Activity)) -> Result<(), Error> {
        let active = lock(&self.state).active.clone();
        let mut at = range.start;
        for run in active.into_iter().map(|run| intersect(run, range)).filter(|run| !run.is_empty()) {
            if at < run.start {
                visit(PageRange::new(at, run.start), Activity::Referenced);
            }
            visit(run, Activity::Active);
            at = run.end;
        }
        if at < range.end {
            visit(PageRange::new(at, range.end), Activity::Referenced);
        }
        Ok(())
    }

    fn read_extents(&self) -> Result<Vec<Extent>, Error> {
        Ok(lock(&self.state).extents.clone())
    }

    fn apply_read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut state = lock(&self.state);
        if state.refusal == Some(FakeRefusal::Read) {
            return Err(Error::file("read", &self.path, io::Error::from_raw_os_error(libc::EIO)));
        }
        let bytes = (buffer.len() as u64).min(state.size_bytes.saturating_sub(offset));
        if bytes > 0 {
            let pages = PageRange::new(offset / PAGE_BYTES, (offset + bytes).div_ceil(PAGE_BYTES));
            let again: Vec<PageRange> = within(&state.resident, pages).collect();
            again.into_iter().for_each(|run| add(&mut state.active, run));
            add(&mut state.resident, pages);
            if state.marked.is_some_and(|page| (pages.start..pages.end).contains(&page)) {
                let end = (pages.end + WINDOW.0 / PAGE_BYTES).min(state.size_bytes.div_ceil(PAGE_BYTES));
                add(&mut state.resident, PageRange::new(pages.end.min(end), end));
            }
        }
        buffer[..bytes as usize].fill(0);
        let mut calls = lock(&self.calls);
        calls.reads += 1;
        calls.read_bytes += bytes;
        Ok(bytes as usize)
    }

    fn file_system(&self) -> u64 {
        FILE_SYSTEM
    }

    fn open_in_order(&self, window: Window) -> Result<Box<dyn InOrder>, Error> {
        lock(&self.calls).in_order_opens += 1;
        let file = FakeFile {
            path: self.path.clone(),
            state: Arc::clone(&self.state),
            calls: Arc::clone(&self.calls),
            ..*self
        };
        Ok(Box::new(FakeInOrder { file, window }))
    }

    fn apply_drop(&self, range: PageRange) -> Result<(), Error> {
        let mut state = lock(&self.state);
        subtract(&mut state.resident, range);
        subtract(&mut state.active, range);
        let begun: Vec<PageRange> = within(&state.dirty, range).collect();
        subtract(&mut state.dirty, range);
        subtract(&mut state.writeback, range);
        begun.iter().for_each(|run| add(&mut state.writeback, *run));
        let kept = [state.pinned.clone(), begun].concat();
        kept.into_iter().for_each(|run| add(&mut state.resident, run));
        Ok(())
    }

    fn apply_evict(&self) -> Result<(), Error> {
        lock(&self.calls).evictions += 1;
        let mut state = lock(&self.state);
        state.resident = state.pinned.clone();
        let State { active, dirty, writeback, .. } = &mut *state;
        [active, dirty, writeback].into_iter().for_each(Vec::clear);
        Ok(())
    }
}

const WINDOW: Bytes = Bytes(256 << 10);

const FILE_SYSTEM: u64 = 1;

struct FakeInOrder {
    file: FakeFile,
    window: Window,
}

impl InOrder for FakeInOrder {
    fn apply_read(&mut self, range: PageRange) -> Result<Bytes, Error> {
        let FakeInOrder { file, window } = self;
        lock(&file.calls).in_order_reads += 1;
        let mut buffer = vec![0; (range.pages() * PAGE_BYTES) as usize];
        lock(&file.state).marked = None;
        let read = file.apply_read(range.start * PAGE_BYTES, &mut buffer)?;
        let mut state = lock(&file.state);
        state.marked = Some(range.end + WINDOW.0 / PAGE_BYTES);
        let end = (range.end + window.reach().0 / PAGE_BYTES).min(state.size_bytes.div_ceil(PAGE_BYTES));
        add(&mut state.resident, PageRange::new(range.end.min(end), end));
        Ok(Bytes(read as u64))
    }
}

fn within(runs: &[PageRange], range: PageRange) -> impl Iterator<Item = PageRange> {
    let first = runs.partition_point(|run| run.end <= range.start);
    let overlapping = runs[first..].iter().take_while(move |run| run.start < range.end);
    overlapping.map(move |run| intersect(*run, range))
}

fn count_pages(runs: impl IntoIterator<Item = PageRange>) -> u64 {
    runs.into_iter().map(|run| run.pages()).sum()
}

fn intersect(one: PageRange, other: PageRange) -> PageRange {
    PageRange::new(one.start.max(other.start), one.end.min(other.end))
}

fn add(runs: &mut Vec<PageRange>, range: PageRange) {
    if range.is_empty() {
        return;
    }
    let first = runs.partition_point(|run| run.end < range.start);
    let last = runs.partition_point(|run| run.start <= range.end);
    let joined = match runs.get(first..last) {
        Some([head, .., tail]) => PageRange::new(head.start.min(range.start), tail.end.max(range.end)),
        Some([only]) => PageRange::new(only.start.min(range.start), only.end.max(range.end)),
        _ => range,
    };
    runs.splice(first..last, [joined]);
}

fn subtract(runs: &mut Vec<PageRange>, range: PageRange) {
    let pieces = |run: &PageRange| {
        [PageRange::new(run.start, run.end.min(range.start)), PageRange::new(run.start.max(range.end), run.end)]
    };
    *runs = runs.iter().flat_map(pieces).filter(|run| !run.is_empty()).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(pairs: &[(u64, u64)]) -> Vec<PageRange> {
        pairs.iter().map(|(start, end)| PageRange::new(*start, *end)).collect()
    }

    #[test]
    fn runs_join_and_split() {
        let mut resident = Vec::new();
        for range in runs(&[(10, 20), (30, 40), (20, 25), (0, 2), (24, 31), (50, 50)]) {
            add(&mut resident, range);
        }
        assert_eq!(resident, runs(&[(0, 2), (10, 40)]));
        subtract(&mut resident, PageRange::new(15, 20));
        subtract(&mut resident, PageRange::new(0, 1));
        assert_eq!(resident, runs(&[(1, 2), (10, 15), (20, 40)]));
    }

    #[test]
    fn behaves_like_a_page_cache() {
        let cache = FakePageCache::new();
        let path = Path::new("/data/base/5/16384");
        cache.insert(path, 3 * PAGE_BYTES + 1, &[]);
        let file = cache.open(path).unwrap().unwrap();
        assert_eq!(file.apply_read(PAGE_BYTES, &mut [0; 100_000]).unwrap() as u64, 2 * PAGE_BYTES + 1);
        assert_eq!(cache.resident(path), runs(&[(1, 4)]));
        assert_eq!(file.read_counts(PageRange::new(0, 3)).unwrap().cached, 2);
        file.apply_read(2 * PAGE_BYTES, &mut [0; 10]).unwrap();
        assert_eq!(cache.active(path), runs(&[(2, 3)]));
        let mut activities = Vec::new();
        file.visit_activity(PageRange::new(1, 4), &mut |run, activity| activities.push((run, activity))).unwrap();
        let of = [Activity::Referenced, Activity::Active, Activity::Referenced];
        assert_eq!(activities, runs(&[(1, 2), (2, 3), (3, 4)]).into_iter().zip(of).collect::<Vec<_>>());

        cache.pin(path, PageRange::new(0, 1));
        file.apply_drop(PageRange::new(0, 2)).unwrap();
        assert_eq!(cache.resident(path), runs(&[(0, 1), (2, 4)]));
        file.apply_evict().unwrap();
        assert_eq!(cache.resident(path), runs(&[(0, 1)]));
        assert_eq!(
            cache.calls(),
            FakeCalls { opens: 1, counts: 1, reads: 2, read_bytes: 8203, evictions: 1, ..FakeCalls::default() }
        );
    }

    #[test]
    fn misbehaves_on_demand() {
        let cache = FakePageCache::new();
        let path = Path::new("/data/base/5/16384");
        cache.insert(path, 10 * PAGE_BYTES, &runs(&[(0, 10)]));
        let file = cache.open(path).unwrap().unwrap();

        cache.lose(path, PageRange::new(2, 3));
        cache.resize(path, 5 * PAGE_BYTES);
        assert_eq!(file.read_resident(PageRange::new(0, 10)).unwrap(), runs(&[(0, 2), (3, 5)]));
        assert_eq!(file.apply_read(5 * PAGE_BYTES, &mut [0; 10]).unwrap(), 0);

        cache.refuse(path, FakeRefusal::Residency);
        assert!(matches!(file.read_counts(PageRange::new(0, 1)), Err(Error::ResidencyHidden(_))));
        cache.refuse(path, FakeRefusal::Read);
        assert!(file.apply_read(0, &mut [0; 10]).is_err());
        cache.refuse(path, FakeRefusal::Open);
        assert!(cache.open(path).is_err());
        cache.remove(path);
        assert!(cache.open(path).unwrap().is_none());
    }
}
