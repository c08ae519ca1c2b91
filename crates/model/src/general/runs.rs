//! Cost of reading ranges of neighbouring pages, by the share of missing pages. It has no closed form, so this
//! simulates how Linux caches a file (mm/readahead.c, 6.16 and later).

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// Limits of the simulation. A longer range costs as much per page as the longest simulated.
const FILE_PAGES: usize = 1 << 15;
const MOST_RUN_PAGES: usize = 1 << 10;

/// Costs are grouped by the logarithm of the missing share, down to e^-6.
const STEPS: usize = 12;
const STEP: f64 = 0.5;

/// Share of missing pages below which a file counts as fully cached.
const FULL: f64 = 1e-4;

const KERNEL_PAGES: usize = 2;

const MOST_FILLS: usize = 64;

/// Cost per missing page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Reads that the client waits for. Read-ahead overlaps with the work on earlier pages.
    pub waits: f64,
    pub reads: f64,
    /// Missing pages beyond the range that are read too.
    pub beyond: f64,
    /// Ranges that read from the device.
    pub reading: f64,
}

#[derive(Clone, Debug)]
pub struct Runs {
    steps: Vec<Taken>,
}

impl Runs {
    /// `run`: mean range length in pages. `window`: largest read in pages. `overlap`: the client's time per page ÷ the
    /// time of a read.
    pub fn new(pages: f64, run: f64, window: f64, overlap: f64) -> Runs {
        let is_whole = run >= pages;
        let pages = (pages.ceil() as usize).clamp(1, FILE_PAGES);
        let run = if is_whole { pages as f64 } else { run.clamp(1.0, MOST_RUN_PAGES.min(pages) as f64) };
        let mut sums = vec![(Taken::default(), 0.0); STEPS];
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..(FILE_PAGES / pages).clamp(1, MOST_FILLS) {
            let mut file = File::new(pages, window as usize);
            while file.missing as f64 > FULL * pages as f64 {
                let missing = file.missing as f64 / pages as f64;
                let length = (run.floor() as usize + usize::from(random.random::<f64>() < run.fract())).min(pages);
                let start = random.random_range(0..=pages - length);
                let asked = (start..start + length).filter(|page| !file.cached[*page]).count() as f64;
                let before = file.missing;
                let (waits, reads) = file.read_range(start, start + length, overlap);
                let (taken, misses) = &mut sums[((-missing.ln() / STEP) as usize).min(STEPS - 1)];
                taken.waits += waits;
                taken.reads += reads;
                taken.beyond += (before - file.missing) as f64 - asked;
                taken.reading += f64::from(u8::from(reads > 0.0));
                *misses += asked;
            }
        }
        let mut last = Taken { waits: 1.0, reads: 1.0, beyond: 0.0, reading: 1.0 };
        let average = |(sum, misses): (Taken, f64)| {
            if misses > 0.0 {
                last = sum.with(Taken::default(), |sum, _| sum / misses);
            }
            last
        };
        Runs { steps: sums.into_iter().map(average).collect() }
    }

    /// `missing` is the missing share of the pages, 0 to 1.
    pub fn at(&self, missing: f64) -> Taken {
        let place = (-missing.max(f64::MIN_POSITIVE).ln() / STEP - 0.5).clamp(0.0, (self.steps.len() - 1) as f64);
        let (below, above) = (self.steps[place as usize], self.steps[place.ceil() as usize]);
        below.with(above, |one, other| one + (other - one) * place.fract())
    }
}

impl Taken {
    fn with(self, other: Taken, of: impl Fn(f64, f64) -> f64) -> Taken {
        Taken {
            waits: of(self.waits, other.waits),
            reads: of(self.reads, other.reads),
            beyond: of(self.beyond, other.beyond),
            reading: of(self.reading, other.reading),
        }
    }
}

/// A file's cached pages and its reader's state (`file_ra_state`).
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) cached: Vec<bool>,
    /// Pages whose request triggers the next read-ahead.
    marked: Vec<bool>,
    missing: usize,
    window: usize,
    /// The latest read-ahead: first page, length, and the page it marks.
    start: usize,
    size: usize,
    mark: usize,
    /// The next read-ahead is aligned to 2^`order` pages of 4 kB.
    order: u32,
    /// Page that a sequential reader requests next.
    next: Option<usize>,
}

impl File {
    pub(super) fn new(pages: usize, window: usize) -> File {
        File {
            cached: vec![false; pages],
            marked: vec![false; pages],
            missing: pages,
            window: window.max(1),
            mark: usize::MAX,
            ..File::default()
        }
    }

    pub(super) fn read_range(&mut self, start: usize, end: usize, overlap: f64) -> (f64, f64) {
        let (mut waits, mut all_reads) = (0.0, 0);
        for page in start..end {
            if !self.cached[page] {
                all_reads += self.read_missing(page).1;
                waits += 1.0;
            }
            if std::mem::take(&mut self.marked[page]) {
                let (first, reads) = self.read_on(page);
                all_reads += reads;
                let needed = first.filter(|first| *first < end);
                waits += needed.map_or(0.0, |first| (1.0 - (first - page) as f64 * overlap).max(0.0));
            }
            self.next = Some(page + 1);
        }
        (waits, f64::from(all_reads))
    }

    /// Simulates `page_cache_sync_ra`. Returns the first page fetched and the number of reads.
    fn read_missing(&mut self, page: usize) -> (Option<usize>, u32) {
        let order = std::mem::take(&mut self.order);
        let cached_before = (0..page).rev().take(self.window).take_while(|before| self.cached[*before]).count();
        if page == 0 || self.next == Some(page) {
            (self.start, self.size) = (page, self.first_size());
            self.mark = page + 1;
        } else if cached_before <= 1 || self.window < 3 {
            // An isolated miss leaves the state unchanged.
            self.order = order;
            return self.fetch(page, page + 1, usize::MAX);
        } else {
            let run = if cached_before == page { 2 * cached_before } else { cached_before };
            (self.start, self.size) = (page, (run + 1).min(self.window));
            self.mark = page + self.size - 1;
        }
        self.fetch(self.start, self.start + self.size, self.mark)
    }

    /// Simulates `page_cache_async_ra` at a marked page.
    fn read_on(&mut self, page: usize) -> (Option<usize>, u32) {
        if page == self.mark {
            self.start += self.size;
            self.size = self.next_size(self.size);
        } else {
            let behind = page + 1..self.cached.len().min(page + 1 + self.window);
            let Some(gap) = behind.into_iter().find(|behind| !self.cached[*behind]) else { return (None, 0) };
            (self.start, self.size) = (gap, (2 * (gap - page) + 1).min(self.window));
        }
        // Since Linux 6.16 the read ends at a folio boundary. The folio size quadruples with each read-ahead.
        self.order += 2;
        let most = (self.window * KERNEL_PAGES).max(1).ilog2();
        let align = ((1 << self.order.min(most)) / KERNEL_PAGES).max(1);
        let end = (self.start + self.size) / align * align;
        self.size = if end > self.start { end - self.start } else { self.size };
        self.mark = self.start;
        self.fetch(self.start, self.start + self.size, self.mark)
    }

    fn fetch(&mut self, start: usize, end: usize, mark: usize) -> (Option<usize>, u32) {
        let (mut first, mut reads, mut is_one_read) = (None, 0, false);
        for page in start..end.min(self.cached.len()) {
            let is_missing = !self.cached[page];
            if is_missing {
                first = first.or(Some(page));
                reads += u32::from(!is_one_read);
                self.cached[page] = true;
                self.marked[page] = page == mark;
                self.missing -= 1;
            }
            is_one_read = is_missing;
        }
        (first, reads)
    }

    /// Computes `get_init_ra_size` in blocks of two kernel pages.
    fn first_size(&self) -> usize {
        match self.window {
            32.. => 4,
            4.. => 2,
            few => few,
        }
    }

    /// `get_next_ra_size`
    fn next_size(&self, size: usize) -> usize {
        if size < self.window / 16 {
            4 * size
        } else if size <= self.window / 2 {
            2 * size
        } else {
            self.window
        }
    }
}

// ---- read ahead ----
//
// Linux counts the cached pages directly before a random read. If there are more than the requested pages, Linux takes
// the read for sequential: it reads as many pages after the requested ones, and marks the last page read. If a marked
// page is requested, and the next missing page is k pages after it, Linux reads 2 k + 1 pages from there, and marks the
// missing page.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ahead {
    pub pages: f64,
    /// Device reads; neighbouring pages share one.
    pub reads: f64,
    pub marks: f64,
}

/// 1 - (1 - missing)^pages, exact also for tiny `missing`.
fn any_missing(missing: f64, pages: f64) -> f64 {
    if pages > 0.0 { -(pages * (-missing).ln_1p()).exp_m1() } else { 0.0 }
}

/// Expected read-ahead after a miss. `missing`: missing share of the surrounding pages, 0 to 1. `window`: largest read
/// in pages.
pub fn behind_a_miss(missing: f64, window: f64) -> Ahead {
    let most = window - 1.0;
    if most < 2.0 || missing <= 0.0 {
        return Ahead::default();
    }
    let cached = 1.0 - missing;
    // Mean length of the cached run before the miss, within the window.
    let long = cached * cached;
    let run = 2.0 * long + long * cached * any_missing(missing, most - 2.0) / missing;
    Ahead { pages: missing * run, reads: missing * cached * (run - long), marks: long * missing }
}

pub fn behind_a_mark(missing: f64, window: f64) -> Ahead {
    if window < 3.0 || missing <= 0.0 {
        return Ahead::default();
    }
    let cached = 1.0 - missing;
    // If the next missing page is beyond the window, Linux reads nothing ahead, and the requested page loses its mark.
    let found = any_missing(missing, window);
    // Linux reads 2 k + 1 pages (see above), at most the window.
    let doubled = ((window - 1.0) / 2.0).floor();
    let beyond = cached.powf(window);
    let length = found + 2.0 * (any_missing(missing, doubled) / missing - doubled * beyond);
    Ahead {
        pages: found + missing * (length - found),
        reads: found + missing * cached * (length - 2.0 * found).max(0.0),
        marks: found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cold_range_comes_in_few_reads_that_grow() {
        // Reads: 100, 101 to 102, 103 to 105, 106 to 111, and 112 to 123, which no client waits for.
        let mut file = File::new(1000, 16);
        assert_eq!(file.read_range(100, 110, 0.0), (4.0, 5.0));
        assert_eq!(file.cached.iter().filter(|cached| **cached).count(), 24);
        assert_eq!(file.read_range(100, 107, 0.0), (0.0, 0.0));
        let mut file = File::new(62, 16);
        assert_eq!(file.read_range(0, 62, 0.0), (9.0, 9.0));
    }

    #[test]
    fn what_is_read_ahead_early_enough_is_not_waited_for() {
        let mut file = File::new(1000, 16);
        assert_eq!(file.read_range(100, 110, 0.25), (3.0, 5.0));
    }

    #[test]
    fn without_a_window_each_page_is_a_read() {
        let mut file = File::new(1000, 1);
        assert_eq!(file.read_range(100, 110, 0.0), (10.0, 10.0));
        let runs = Runs::new(1000.0, 10.0, 1.0, 0.0);
        for missing in [1.0, 0.5, 0.01] {
            let taken = runs.at(missing);
            assert!((taken.reads - 1.0).abs() < 1e-9 && taken.beyond == 0.0, "{missing}: {taken:?}");
        }
    }

    #[test]
    fn ranges_take_fewer_reads_than_pages_and_bring_more_than_was_asked_for() {
        let runs = Runs::new(100_000.0, 10.8, 16.0, 0.0);
        let cold = runs.at(1.0);
        assert!((0.3..0.7).contains(&cold.reads) && (1.0..2.5).contains(&cold.beyond), "{cold:?}");
        assert!(runs.at(0.01).reads > cold.reads, "{:?}", runs.at(0.01));
        let whole = Runs::new(1000.0, 1000.0, 16.0, 0.0).at(1.0);
        assert!((whole.reads * 1000.0 - 65.0).abs() < 8.0 && whole.beyond == 0.0, "{whole:?}");
    }

    /// Measured on Linux 6.18: 20,000 blocks, 128 KiB of read-ahead, random ranges covering the file 0.25 to 2 times.
    #[test]
    fn ranges_take_what_the_kernel_took() {
        for (run, seen) in [
            (1.33, [(0.25, 0.3014, 4446.0), (0.5, 0.5785, 7901.0), (1.0, 0.8925, 11985.0), (2.0, 1.0, 13711.0)]),
            (5.9, [(0.25, 0.4237, 2776.0), (0.5, 0.6813, 4523.0), (1.0, 0.8979, 6134.0), (2.0, 0.9892, 6995.0)]),
            (10.8, [(0.25, 0.3992, 2013.0), (0.5, 0.6419, 3229.0), (1.0, 0.8644, 4524.0), (2.0, 0.9799, 5384.0)]),
            (83.0, [(0.25, 0.3022, 679.0), (0.5, 0.4944, 1171.0), (1.0, 0.7127, 1806.0), (2.0, 0.8906, 2429.0)]),
        ] {
            let mut file = File::new(20_000, 16);
            let mut random = StdRng::seed_from_u64(3);
            let (mut asked, mut reads) = (0, 0.0);
            for (times, pages, kernel_reads) in seen {
                while f64::from(asked) < times * 20_000.0 {
                    let length = run as u32 + u32::from(random.random::<f64>() < run % 1.0);
                    let start = random.random_range(0..20_000 - length) as usize;
                    reads += file.read_range(start, start + length as usize, 0.0).1;
                    asked += length;
                }
                let cached = 1.0 - file.missing as f64 / 20_000.0;
                assert!((cached / pages - 1.0_f64).abs() < 0.1, "{run} {times}: {cached} {pages}");
                assert!((reads / kernel_reads - 1.0_f64).abs() < 0.16, "{run} {times}: {reads} {kernel_reads}");
            }
        }
    }
}

#[cfg(test)]
mod read_ahead_tests {
    use super::*;

    fn summed(missing: f64, window: u32) -> (Ahead, Ahead) {
        let cached = 1.0 - missing;
        let (mut miss, mut mark) = (Ahead::default(), Ahead::default());
        for run in 2..10_000 {
            let probability = cached.powi(run) * missing;
            let ahead = f64::from(run.min(window as i32 - 1));
            miss.pages += probability * missing * ahead;
            miss.reads += probability * missing * cached * (ahead - 1.0);
            miss.marks += probability * missing;
        }
        for gap in 1..=window {
            let probability = cached.powi(gap as i32 - 1) * missing;
            let length = f64::from((2 * gap + 1).min(window));
            mark.pages += probability * (1.0 + missing * (length - 1.0));
            mark.reads += probability * (1.0 + missing * cached * (length - 2.0));
            mark.marks += probability;
        }
        (miss, mark)
    }

    #[test]
    fn closed_forms_are_the_sums() {
        for missing in [0.9, 0.5, 0.1, 0.01] {
            for window in [17, 129] {
                let (miss, mark) = summed(missing, window);
                let (closed_miss, closed_mark) =
                    (behind_a_miss(missing, window.into()), behind_a_mark(missing, window.into()));
                for (sum, closed) in [(miss, closed_miss), (mark, closed_mark)] {
                    for (one, other) in
                        [(sum.pages, closed.pages), (sum.reads, closed.reads), (sum.marks, closed.marks)]
                    {
                        assert!((one - other).abs() < 1e-6 * one.max(1.0), "{missing} {window}: {sum:?} {closed:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn without_a_window_or_a_gap_nothing_is_read() {
        assert_eq!(behind_a_miss(0.5, 1.0), Ahead::default());
        assert_eq!(behind_a_mark(0.5, 0.0), Ahead::default());
        assert_eq!(behind_a_miss(0.0, 16.0), Ahead::default());
        assert_eq!(behind_a_miss(1.0, 16.0).pages, 0.0);
        assert_eq!(behind_a_miss(1.0, 3.0).pages, 0.0);
    }

    #[test]
    fn what_is_hardly_missing_brings_as_little_and_never_less_than_nothing() {
        for missing in [1e-15, 1e-17, 1e-100, 1e-300] {
            for window in [3.0, 32.0, 2048.0] {
                let (miss, mark) = (behind_a_miss(missing, window), behind_a_mark(missing, window));
                assert!(miss.pages >= 0.0 && miss.pages <= missing * window, "{missing} {window}: {miss:?}");
                assert!((mark.pages / (missing * window) - 1.0).abs() < 1e-9, "{missing} {window}: {mark:?}");
                assert!((mark.marks / (missing * window) - 1.0).abs() < 1e-9, "{missing} {window}: {mark:?}");
            }
        }
    }
}
