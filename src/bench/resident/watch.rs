//! Looks at the page cache while a loader is at work: how much of what is wanted is there.

use std::path::Path;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::wanted::WantedFile;
use crate::lab::Error;
use crate::linux::page_cache::{CachedFile, PageCache};
use crate::units::PageRange;

/// Pages that are looked at together: 4 MiB of the usual ones.
const WINDOW_PAGES: u64 = 1024;

/// Every page is looked at now and then, also when there cannot be enough yet: what came may go again before the rest
/// is there (a kernel that pages out what is idle), and has come all the same.
const EXACT_INTERVAL: Duration = Duration::from_secs(1);

/// From this share of the goal on it is looked at more closely: at every page each time.
pub const NEAR_GOAL: f64 = 0.9;

/// One look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Wanted pages that have been seen resident; no more than this when it is not exact.
    pub pages: u64,
    /// Was every page looked at (mincore, which counts none whose data is still on its way), or were cached ones only
    /// counted, which is cheap and may count too many?
    pub is_exact: bool,
}

/// The wanted pages of the files, in windows.
pub struct Watch {
    files: Vec<Box<dyn CachedFile>>,
    windows: Vec<Window>,
    /// When every page was looked at last.
    exact_at: Option<Instant>,
}

struct Window {
    file: usize,
    range: PageRange,
    wanted: RoaringBitmap,
    /// Of the wanted ones, those that have been seen resident.
    seen: RoaringBitmap,
}

impl Window {
    fn is_whole(&self) -> bool {
        self.seen.len() == self.wanted.len()
    }
}

impl Watch {
    /// Opens the files.
    pub fn open(files: &[WantedFile], cache: &dyn PageCache) -> Result<Watch, Error> {
        let mut watch = Watch { files: Vec::new(), windows: Vec::new(), exact_at: None };
        for wanted in files {
            let file = cache.open(&wanted.path)?.ok_or_else(|| gone(&wanted.path))?;
            watch.add(wanted, file);
        }
        Ok(watch)
    }

    fn add(&mut self, wanted: &WantedFile, file: Box<dyn CachedFile>) {
        let number = self.files.len();
        self.files.push(file);
        let first = self.windows.len();
        for run in wanted.runs.iter().flat_map(|run| cut(*run)) {
            let start = run.start / WINDOW_PAGES * WINDOW_PAGES;
            if self.windows[first..].last().is_none_or(|last| last.range.start != start) {
                let range = PageRange::new(start, run.end);
                let (wanted, seen) = (RoaringBitmap::new(), RoaringBitmap::new());
                self.windows.push(Window { file: number, range, wanted, seen });
            }
            if let Some(window) = self.windows.last_mut() {
                window.range.end = run.end;
                window.wanted.insert_range(within(window.range, run));
            }
        }
    }

    /// How much has come. Cached pages are counted; where these may be `goal` pages, and now and then, every page is
    /// looked at. A window that was seen whole is not looked at again: [`Watch::recount`] does.
    pub fn look(&mut self, goal: u64) -> Result<Look, Error> {
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

    /// The wanted pages that are resident now: what came may have gone.
    pub fn recount(&self) -> Result<u64, Error> {
        self.windows.iter().map(|window| Ok(window.read(&*self.files[window.file])?.len())).sum()
    }
}

impl Window {
    fn look(&mut self, file: &dyn CachedFile) -> Result<(), Error> {
        self.seen |= self.read(file)?;
        Ok(())
    }

    /// The wanted pages that are resident.
    fn read(&self, file: &dyn CachedFile) -> Result<RoaringBitmap, Error> {
        let mut resident = RoaringBitmap::new();
        for run in file.read_resident(self.range)? {
            resident.insert_range(within(self.range, run));
        }
        Ok(resident & &self.wanted)
    }
}

/// The pages of a run, counted from the beginning of the window that it lies in.
fn within(window: PageRange, run: PageRange) -> std::ops::Range<u32> {
    (run.start - window.start) as u32..(run.end - window.start) as u32
}

fn gone(path: &Path) -> Error {
    Error::file("open", path, std::io::ErrorKind::NotFound.into())
}

/// A run in pieces, each in one window.
fn cut(run: PageRange) -> impl Iterator<Item = PageRange> {
    let windows = run.start / WINDOW_PAGES..run.end.div_ceil(WINDOW_PAGES);
    windows.map(move |window| {
        PageRange::new(run.start.max(window * WINDOW_PAGES), run.end.min((window + 1) * WINDOW_PAGES))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::page_cache::FakePageCache;

    const FILE: &str = "/data/base/5/16384";

    fn runs(pairs: &[(u64, u64)]) -> Vec<PageRange> {
        pairs.iter().map(|(start, end)| PageRange::new(*start, *end)).collect()
    }

    fn watch(cache: &FakePageCache, wanted: &[(u64, u64)]) -> Watch {
        Watch::open(&[WantedFile { path: FILE.into(), runs: runs(wanted) }], cache).unwrap()
    }

    #[test]
    fn what_is_cached_beside_what_is_wanted_does_not_count() {
        let cache = FakePageCache::new();
        // As many cached pages as wanted ones, and only half of them are those.
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
