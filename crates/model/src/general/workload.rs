use std::fmt;
use std::str::FromStr;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::Error;
use host::units::{Bytes, counted};

/// Pages accessed alike: an index's root, its leaves, the heap, TOAST.
#[derive(Clone, Debug, PartialEq)]
pub struct PageClass {
    pub name: String,
    pub pages: f64,
    pub accesses: f64,
    /// Mean length of a range in pages: 1 is random access, all pages are a full scan.
    pub run_pages: f64,
    pub popularity: Popularity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    Point,
    Range,
    Scan,
}

/// Accesses of a transaction to one class of blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Access {
    pub name: String,
    pub kind: AccessKind,
    /// Blocks per access.
    pub blocks: f64,
    /// Mean number of consecutive blocks.
    pub run_blocks: f64,
    /// Runs of consecutive blocks in a transaction.
    pub runs_per_transaction: f64,
}

/// Shorter runs (mean length in pages) count as accesses to single pages.
const LONGEST_POINT: f64 = 1.05;

/// A run of at least this share of the class's pages counts as a full scan.
const SHORTEST_SCAN: f64 = 0.9;

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { name, run_blocks, runs_per_transaction: runs, .. } = self;
        write!(f, "{name}: {}, {runs:.2} ", counted(self.blocks.round(), "block"))?;
        match self.kind {
            AccessKind::Point => write!(f, "single blocks per transaction"),
            AccessKind::Range => write!(f, "ranges of {run_blocks:.1} blocks per transaction"),
            AccessKind::Scan => write!(f, "full scans per transaction"),
        }
    }
}

impl PageClass {
    pub fn access(&self) -> Access {
        let kind = match self.run_pages {
            run if run < LONGEST_POINT => AccessKind::Point,
            run if run >= SHORTEST_SCAN * self.pages => AccessKind::Scan,
            _ => AccessKind::Range,
        };
        Access {
            name: self.name.clone(),
            kind,
            blocks: self.pages,
            run_blocks: self.run_pages,
            runs_per_transaction: self.accesses / self.run_pages,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub clients: u32,
    pub classes: Vec<PageClass>,
    /// CPU seconds of a transaction with all pages in shared_buffers, including the client's.
    pub hit_seconds: f64,
    /// CPU seconds of a device read.
    pub read_seconds: f64,
    /// Largest read-ahead in pages; 1 or less means none.
    pub read_ahead_pages: f64,
    /// Reads at the start, such as a freshly started server's catalog reads.
    pub startup_reads: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub device: Device,
    pub cores: f64,
    /// Pages of shared_buffers. If infinite, the model has a single cache, of size `os_pages`.
    pub buffers_pages: f64,
    pub os_pages: f64,
    pub block_bytes: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Warmer {
    pub steps: Vec<WarmStep>,
    pub depth: u32,
    pub read_bytes: f64,
    pub begins_after_seconds: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmStep {
    pub class: usize,
    /// Index in `Popularity::bins`; `None`: all pages in file order.
    pub bin: Option<usize>,
    /// Share of these pages, 0 to 1. The shares of a bin's steps add up to at most 1.
    pub share: f64,
    /// Reads of `Warmer::read_bytes` bytes, including gaps between the wanted pages.
    pub reads: f64,
}

impl Workload {
    pub fn check(&self) -> Result<(), Error> {
        Error::check_positive("the number of clients", self.clients.into())?;
        Error::check_positive("the time in seconds of a cached transaction", self.hit_seconds)?;
        if self.classes.is_empty() {
            return Err(Error::NoPages);
        }
        for class in &self.classes {
            Error::check_positive("a number of pages", class.pages)?;
            Error::check_positive("the number of pages per transaction", class.accesses)?;
            Error::check_positive("the pages of a range", class.run_pages)?;
        }
        Ok(())
    }

    /// Bins of equally popular pages by class, weighted by a page's expected accesses per transaction.
    pub(super) fn bins(&self) -> Vec<Vec<Bin>> {
        let of = |class: &PageClass| {
            let bins = class.popularity.bins(class.pages);
            bins.into_iter().map(|bin| Bin { weight: bin.weight * class.accesses, ..bin }).collect()
        };
        self.classes.iter().map(of).collect()
    }
}

impl Server {
    pub fn memory_pages(&self) -> f64 {
        self.os_pages + if self.buffers_pages.is_finite() { self.buffers_pages } else { 0.0 }
    }

    /// Gives shared_buffers `buffers_pages`, and the page cache the rest.
    ///
    /// # Errors
    /// If shared_buffers exceed the memory.
    pub fn divide_memory(&mut self, memory_pages: f64, buffers_pages: f64) -> Result<(), Error> {
        self.buffers_pages = buffers_pages;
        self.os_pages = memory_pages;
        if buffers_pages.is_finite() && memory_pages.is_finite() {
            if buffers_pages > memory_pages {
                let bytes = |pages: f64| Bytes((pages * self.block_bytes) as u64);
                return Err(Error::BuffersBeyondMemory { buffers: bytes(buffers_pages), memory: bytes(memory_pages) });
            }
            self.os_pages = (memory_pages - buffers_pages).max(1.0);
        }
        Ok(())
    }

    pub fn check(&self) -> Result<(), Error> {
        let device = &self.device;
        // Infinity means no limit.
        for (what, value) in [
            ("the number of cores", self.cores),
            ("the reads per second of the device", device.reads_per_second),
            ("the bandwidth of the device", device.bandwidth),
            ("the size of the page cache", self.os_pages),
            ("the size of shared_buffers", self.buffers_pages),
        ] {
            if value.is_nan() || value <= 0.0 {
                return Err(Error::NotPositive { what, value });
            }
        }
        Ok(())
    }
}

impl Warmer {
    /// Models `pgthaw restore` when hot pages are contiguous.
    pub fn hottest_first(workload: &Workload, block_bytes: f64, depth: u32, read_bytes: f64) -> Warmer {
        let bins = workload.bins();
        let mut steps: Vec<(f64, WarmStep)> = Vec::new();
        for (class, bins) in bins.iter().enumerate() {
            for (place, bin) in bins.iter().enumerate() {
                let reads = bin.pages * block_bytes / read_bytes;
                steps.push((bin.weight, WarmStep { class, bin: Some(place), share: 1.0, reads }));
            }
        }
        steps.sort_by(|one, other| other.0.total_cmp(&one.0));
        let steps = steps.into_iter().map(|(_, step)| step).collect();
        Warmer { steps, depth, read_bytes, begins_after_seconds: 0.0 }
    }

    /// Seconds to serve all reads in flight: the warmer's, and `depth` reads of `bytes`. The device's queue is fair.
    pub fn shared_cycle_seconds(&self, device: &Device, depth: f64, bytes: f64) -> f64 {
        let (beside, beside_bytes) = (f64::from(self.depth), self.read_bytes);
        let reads = depth + beside;
        let by_bytes = (depth * bytes + beside * beside_bytes) / device.bandwidth;
        device.latency_at(reads).max(reads / device.reads_per_second).max(by_bytes)
    }
}

const SMOOTH_BINS: usize = 256;

/// Limit of pgbench's zipfian parameter (`MAX_ZIPFIAN_PARAM`). In other distributions, this value directs most accesses
/// to a thousandth of the rows.
const PARAMETER_MAX: f64 = 1000.0;

/// Rows of pgbench_accounts on a page.
const ROWS_PER_PAGE: f64 = 61.0;

/// Distribution of accesses over rows. Text form as in pgbench's random functions: `zipfian:1.07`.
#[derive(Clone, Debug, PartialEq)]
pub enum Popularity {
    Uniform,
    /// pgbench's `random_zipfian(1, rows, exponent)`.
    Zipfian {
        exponent: f64,
        rows_per_page: f64,
        /// Whether popular rows are scattered (`permute`) or adjacent.
        is_permuted: bool,
    },
    /// `random_gaussian(1, rows, parameter)`: hot in the middle.
    Gaussian {
        parameter: f64,
    },
    /// `random_exponential(1, rows, parameter)`: hot at the beginning.
    Exponential {
        parameter: f64,
    },
    /// A hot part, such as the newest tenth with 99 % of the accesses.
    Hot {
        page_share: f64,
        access_share: f64,
    },
    Measured(Vec<Bin>),
}

impl Popularity {
    pub fn over(&self, rows_per_page: Option<f64>) -> Popularity {
        match (self, rows_per_page) {
            (Popularity::Zipfian { exponent, is_permuted, .. }, Some(rows_per_page)) => {
                Popularity::Zipfian { exponent: *exponent, rows_per_page, is_permuted: *is_permuted }
            }
            (told, _) => told.clone(),
        }
    }

    pub fn is_scattered(&self) -> bool {
        matches!(self, Popularity::Zipfian { is_permuted: true, .. } | Popularity::Measured(_))
    }

    /// Bins, most popular first. The weights of all pages add up to 1.
    pub fn bins(&self, pages: f64) -> Vec<Bin> {
        let mut bins = match self {
            Popularity::Uniform => vec![Bin { pages, weight: 1.0 }],
            Popularity::Zipfian { exponent, rows_per_page, is_permuted } => {
                let bins = if *is_permuted { permuted_zipf_bins } else { zipf_bins };
                bins(pages, *rows_per_page, *exponent)
            }
            Popularity::Gaussian { parameter } => {
                smooth_bins(pages, |x| (-0.5 * (2.0 * parameter * (x - 0.5)).powi(2)).exp())
            }
            Popularity::Exponential { parameter } => smooth_bins(pages, |x| (-parameter * x).exp()),
            Popularity::Hot { page_share, access_share } => vec![
                Bin { pages: pages * page_share, weight: access_share / (pages * page_share) },
                Bin { pages: pages * (1.0 - page_share), weight: (1.0 - access_share) / (pages * (1.0 - page_share)) },
            ],
            Popularity::Measured(bins) => bins.clone(),
        };
        bins.retain(|bin| bin.pages > 0.0 && bin.weight >= 0.0 && bin.weight.is_finite());
        let accesses: f64 = bins.iter().map(|bin| bin.pages * bin.weight).sum();
        bins.iter_mut().for_each(|bin| bin.weight /= accesses.max(f64::MIN_POSITIVE));
        bins.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        bins
    }
}

fn smooth_bins(pages: f64, density: impl Fn(f64) -> f64) -> Vec<Bin> {
    let bins = SMOOTH_BINS.min(pages.ceil() as usize).max(1);
    let bin = |place| Bin { pages: pages / bins as f64, weight: density((f64::from(place) + 0.5) / bins as f64) };
    (0..bins as u32).map(bin).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    pub pages: f64,
    /// Share of all accesses to each page.
    pub weight: f64,
}

/// Pages whose ranks by popularity differ by less than this factor share a bin.
const RATIO: f64 = 1.05;

/// Maximum number of scattered rows that each dominate a page.
const HEAD_ROWS: f64 = 1024.0;

/// Sample of the pages without such rows: pages, maximum rows drawn per page, and bins.
const SAMPLED_PAGES: usize = 2048;
const SAMPLED_ROWS: usize = 64;
const SAMPLED_BINS: usize = 64;

const EXACT_TERMS: u32 = 64;

/// Σ k^-s for k from 1 to `n`, by the midpoint rule after the exact terms.
fn harmonic(n: f64, s: f64) -> f64 {
    if n < 1.0 {
        return n.max(0.0);
    }
    let exact = n.min(f64::from(EXACT_TERMS)).floor();
    let sum: f64 = (1..=exact as u32).map(|k| f64::from(k).powf(-s)).sum();
    let integral = |a: f64, b: f64| {
        if (s - 1.0).abs() < 1e-12 { (b / a).ln() } else { (b.powf(1.0 - s) - a.powf(1.0 - s)) / (1.0 - s) }
    };
    if n > exact { sum + integral(exact + 0.5, n + 0.5) } else { sum }
}

pub fn zipf_bins(pages: f64, rows_per_page: f64, exponent: f64) -> Vec<Bin> {
    let accesses = |page: f64| harmonic(page * rows_per_page, exponent);
    let mut bins = Vec::new();
    let mut from = 0.0;
    while from < pages {
        let to = (from * RATIO).floor().max(from + 1.0).min(pages);
        bins.push(Bin { pages: to - from, weight: (accesses(to) - accesses(from)) / (to - from) });
        from = to;
    }
    bins
}

pub fn permuted_zipf_bins(pages: f64, rows_per_page: f64, exponent: f64) -> Vec<Bin> {
    let rows = (pages * rows_per_page).max(1.0);
    let head = HEAD_ROWS.min((pages / 4.0).floor());
    let weight = |rank: f64| rank.powf(-exponent);
    let rest_mean = (harmonic(rows, exponent) - harmonic(head, exponent)) / (rows - head).max(1.0);
    let mut bins: Vec<Bin> = (1..=head as u32)
        .map(|rank| Bin { pages: 1.0, weight: weight(f64::from(rank)) + (rows_per_page - 1.0) * rest_mean })
        .collect();
    let mut sample = sample_pages(rows_per_page, |share| weight(head + share * (rows - head)));
    sample.sort_by(|one, other| other.total_cmp(one));
    let pages_each = (pages - head) / SAMPLED_BINS as f64;
    let mean = |group: &[f64]| Bin { pages: pages_each, weight: group.iter().sum::<f64>() / group.len() as f64 };
    bins.extend(sample.chunks(SAMPLED_PAGES / SAMPLED_BINS).map(mean));
    bins
}

/// Weights of sampled pages. In each round, every page draws one row, each from a different one of `SAMPLED_PAGES`
/// equal ranges of ranks. `weight` returns a row's weight by its relative rank, 0 to 1.
fn sample_pages(rows_per_page: f64, weight: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(0x7468_6177);
    let drawn = (rows_per_page.round() as usize).clamp(1, SAMPLED_ROWS);
    let mut pages = vec![0.0; SAMPLED_PAGES];
    let mut order: Vec<usize> = (0..SAMPLED_PAGES).collect();
    for _ in 0..drawn {
        order.shuffle(&mut random);
        for (stratum, page) in order.iter().enumerate() {
            let share = (stratum as f64 + random.random::<f64>()) / SAMPLED_PAGES as f64;
            pages[*page] += weight(share) * rows_per_page / drawn as f64;
        }
    }
    pages
}

#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Infinite without a limit.
    pub reads_per_second: f64,
    /// Infinite without a limit.
    pub bandwidth: f64,
    /// Reads in flight and seconds of a read, by rising depth. Beyond the last depth, latency grows in proportion.
    pub latency: Vec<(f64, f64)>,
}

impl Device {
    pub fn with_limits(reads_per_second: f64, bandwidth: f64, latency_seconds: f64) -> Device {
        Device { reads_per_second, bandwidth, latency: vec![(1.0, latency_seconds), (1e9, latency_seconds)] }
    }

    pub fn latency_at(&self, depth: f64) -> f64 {
        let Some(next) = self.latency.iter().position(|(at, _)| *at >= depth) else {
            let (deepest, seconds) = self.latency.last().copied().unwrap_or((1.0, 0.0));
            return seconds * depth / deepest;
        };
        let (at, seconds) = self.latency[next];
        if next == 0 {
            return seconds;
        }
        let (before, seconds_before) = self.latency[next - 1];
        seconds_before + (seconds - seconds_before) * (depth - before) / (at - before)
    }

    pub fn most_per_second(&self, reads: f64, bytes: f64) -> f64 {
        let by_reads = if reads > 0.0 { self.reads_per_second / reads } else { f64::INFINITY };
        let by_bytes = if bytes > 0.0 { self.bandwidth / bytes } else { f64::INFINITY };
        by_reads.min(by_bytes)
    }
}

impl FromStr for Popularity {
    type Err = String;

    fn from_str(text: &str) -> Result<Popularity, String> {
        let wrong = || {
            "write uniform, zipfian:1.07, permuted:1.07, gaussian:5, exponential:10 or newest:0.1:0.99 (the newest 0.1 of the pages get 0.99 of the accesses)"
                .to_owned()
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Vec<f64> = parts.map(|part| part.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        if numbers.iter().any(|number| !number.is_finite() || *number <= 0.0 || *number > PARAMETER_MAX) {
            return Err(wrong());
        }
        let zipfian =
            |exponent, is_permuted| Popularity::Zipfian { exponent, rows_per_page: ROWS_PER_PAGE, is_permuted };
        Ok(match (name, numbers[..].as_ref()) {
            ("uniform", []) => Popularity::Uniform,
            ("zipfian", [exponent]) => zipfian(*exponent, false),
            ("permuted", [exponent]) => zipfian(*exponent, true),
            ("gaussian", [parameter]) => Popularity::Gaussian { parameter: *parameter },
            ("exponential", [parameter]) => Popularity::Exponential { parameter: *parameter },
            ("newest", &[page_share, access_share]) if page_share < 1.0 && access_share <= 1.0 => {
                Popularity::Hot { page_share, access_share }
            }
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popularity_is_named_as_pgbench_does() {
        let parse = |text: &str| text.parse::<Popularity>();
        assert_eq!(parse("uniform"), Ok(Popularity::Uniform));
        assert!(matches!(parse("permuted:1.07").unwrap(), Popularity::Zipfian { is_permuted: true, .. }));
        assert!(parse("newest:0.1:0.99").is_ok());
        for text in [
            "zipfian:1e300",
            "gaussian:1001",
            "zipf",
            "zipfian",
            "gaussian:x",
            "newest:1.5:0.9",
            "exponential:-1",
            "uniform:3",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_warmer_and_the_workload_share_the_limits() {
        let device = Device::with_limits(3000.0, 125e6, 0.5e-3);
        let warmer = Warmer { steps: Vec::new(), depth: 4, read_bytes: 262_144.0, begins_after_seconds: 0.0 };
        let shared = warmer.shared_cycle_seconds(&device, 1.0, 8192.0);
        assert_eq!(shared, (8192.0 + 4.0 * 262_144.0) / 125e6);
    }
}

#[cfg(test)]
mod popularity_tests {
    use super::*;

    #[test]
    fn all_pages_and_all_accesses_are_in_bins() {
        let zipfian = |is_permuted| Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted };
        for popularity in [
            Popularity::Uniform,
            zipfian(false),
            zipfian(true),
            Popularity::Gaussian { parameter: 5.0 },
            Popularity::Exponential { parameter: 10.0 },
            Popularity::Hot { page_share: 0.1, access_share: 0.99 },
        ] {
            for pages in [1.0, 7.0, 1e3, 1e6] {
                let bins = popularity.bins(pages);
                let total: f64 = bins.iter().map(|bin| bin.pages).sum();
                let accesses: f64 = bins.iter().map(|bin| bin.pages * bin.weight).sum();
                assert!((total / pages - 1.0).abs() < 1e-9, "{popularity:?} {pages}: {total}");
                assert!((accesses - 1.0).abs() < 1e-9, "{popularity:?} {pages}: {accesses}");
                assert!(bins.windows(2).all(|pair| pair[0].weight >= pair[1].weight) && bins.len() < 1500);
            }
        }
    }

    fn head(popularity: &Popularity, share: f64) -> f64 {
        let pages = 1e5;
        let mut left = share * pages;
        let mut accesses = 0.0;
        for bin in popularity.bins(pages) {
            accesses += bin.weight * bin.pages.min(left);
            left = (left - bin.pages).max(0.0);
        }
        accesses
    }

    #[test]
    fn pgbenchs_distributions_are_what_its_manual_says() {
        // random_gaussian: 67 % of the values are in the middle 1/parameter of the range, 95 % in 2/parameter.
        let gaussian = Popularity::Gaussian { parameter: 5.0 };
        assert!((head(&gaussian, 0.2) - 0.6827).abs() < 0.01 && (head(&gaussian, 0.4) - 0.9545).abs() < 0.01);
        // random_exponential: the first value has a share of (1 - e^(-parameter/n)) / (1 - e^(-parameter)).
        let exponential = Popularity::Exponential { parameter: 3.0 };
        let expected = (1.0 - (-0.3_f64).exp()) / (1.0 - (-3.0_f64).exp());
        assert!((head(&exponential, 0.1) - expected).abs() < 1e-3);
    }
}

#[cfg(test)]
mod zipf_tests {
    use super::*;
    use crate::general::Popularity;

    #[test]
    fn harmonic_numbers_are_the_sums() {
        for s in [0.5, 0.9, 1.0, 1.07, 2.0] {
            let sum: f64 = (1..=100_000_u32).map(|k| f64::from(k).powf(-s)).sum();
            assert!((harmonic(1e5, s) / sum - 1.0).abs() < 1e-5, "{s}");
        }
    }

    #[test]
    fn scattered_rows_make_the_pages_that_theory_expects() {
        // With r independent rows per page a share φ(i)^r is untouched after i accesses, where φ is the mean of e^(-i
        // q) over the rows.
        let (pages, rows_per_page, exponent) = (20_000.0, 61.0, 1.07);
        let bins = Popularity::Zipfian { exponent, rows_per_page, is_permuted: true }.bins(pages);
        let rows = (pages * rows_per_page) as u32;
        let total = harmonic(rows.into(), exponent);
        for accesses in [1e4, 1e5, 1e6] {
            let untouched: f64 = bins.iter().map(|bin| bin.pages * (-accesses * bin.weight).exp()).sum::<f64>() / pages;
            let mean = (1..=rows).map(|k| (-accesses * f64::from(k).powf(-exponent) / total).exp()).sum::<f64>();
            let expected = (mean / f64::from(rows)).powf(rows_per_page);
            assert!((untouched - expected).abs() < 0.01, "{accesses}: {untouched} {expected}");
        }
    }
}

#[cfg(test)]
mod device_tests {
    use super::*;

    #[test]
    fn the_tightest_limit_counts() {
        let device = Device::with_limits(3000.0, 125e6, 0.5e-3);
        assert_eq!(device.most_per_second(2.0, 16_384.0), 1500.0);
        assert_eq!(device.most_per_second(1.0, 262_144.0), 125e6 / 262_144.0);
        assert_eq!(device.most_per_second(0.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn latency_is_read_between_depths_and_grows_beyond() {
        let device = Device { latency: vec![(1.0, 8e-3), (4.0, 20e-3)], ..Device::with_limits(1e9, 1e12, 0.0) };
        for (depth, seconds) in [(1.0, 8e-3), (2.5, 14e-3), (4.0, 20e-3), (8.0, 40e-3)] {
            assert!((device.latency_at(depth) - seconds).abs() < 1e-12, "{depth}");
        }
        assert_eq!(device.latency_at(0.5), 8e-3);
    }
}
