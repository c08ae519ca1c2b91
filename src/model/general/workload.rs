//! What is asked of a server, and what the server has.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Bin, Device, Popularity};
use crate::model::Error;
use crate::units::Bytes;

/// Pages that transactions choose from in the same way: an index's root, its inner pages, its leaves, the heap, TOAST.
#[derive(Clone, Debug, PartialEq)]
pub struct PageClass {
    pub name: String,
    pub pages: f64,
    /// Pages of it that a transaction asks for, on average.
    pub accesses: f64,
    /// Neighbouring pages that it asks for one after the other, on average: 1 is a page here and there, all pages a whole table.
    pub run_pages: f64,
    pub popularity: Popularity,
    /// Share that is cached at the start, whatever its popularity, 0 to 1.
    pub resident_share: f64,
}

/// How a transaction asks for pages of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// A page here and there.
    Point,
    /// Neighbours, from anywhere on.
    Range,
    /// All pages in their order.
    Scan,
}

/// What a transaction asks for of a class, for people and for `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    pub name: String,
    pub kind: AccessKind,
    pub blocks: f64,
    /// Blocks that it asks for one after the other, and how often a transaction does.
    pub run_blocks: f64,
    pub runs_per_transaction: f64,
}

/// Shorter runs are no ranges: a row's second block now and then.
const LONGEST_POINT: f64 = 1.05;

/// Longer ones are whole tables.
const SHORTEST_SCAN: f64 = 0.9;

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { name, blocks, run_blocks, runs_per_transaction: runs, .. } = self;
        match self.kind {
            AccessKind::Point => write!(f, "{name}: {blocks:.0} blocks, {runs:.2} of them in a transaction"),
            AccessKind::Range => {
                write!(f, "{name}: {blocks:.0} blocks, ranges of {run_blocks:.1} neighbours, {runs:.2} a transaction")
            }
            AccessKind::Scan => {
                write!(f, "{name}: {blocks:.0} blocks, read from end to end, {runs:.2} times a transaction")
            }
        }
    }
}

impl PageClass {
    /// How a transaction asks for it.
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

/// What clients do, each waiting for its answer before it asks again.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    pub clients: u32,
    pub classes: Vec<PageClass>,
    /// Seconds of a core that a transaction takes when all its pages are in shared_buffers, the client's own time included.
    pub hit_seconds: f64,
    /// Seconds of a core that a page costs that is copied from the page cache, and one that is read from the device.
    pub copy_seconds: f64,
    pub read_seconds: f64,
    /// Pages that the kernel reads ahead at most: 1 or less without read-ahead.
    pub read_ahead_pages: f64,
    /// Reads of the device, one after the other, before the first transaction: of the catalogs, by a server that has just
    /// been started.
    pub startup_reads: f64,
}

/// What the server has.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub device: Device,
    /// Cores that server and clients share.
    pub cores: f64,
    /// Pages that fit into shared_buffers; infinite where one tier holds everything.
    pub buffers_pages: f64,
    /// Pages that fit into the page cache.
    pub os_pages: f64,
    pub block_bytes: f64,
}

/// What reads beside the workload, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Warmer {
    pub steps: Vec<WarmStep>,
    /// Reads in flight.
    pub depth: u32,
    pub read_bytes: f64,
    pub begins_after_seconds: f64,
}

/// Pages that are read before those of the next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmStep {
    /// Place of the class in the workload.
    pub class: usize,
    /// The bin of [`Popularity::bins`], the most popular first; `None`: all pages as they lie in the file.
    pub bin: Option<usize>,
    /// Share of these pages that it brings, 0 to 1: the steps of one bin bring all of it at most.
    pub share: f64,
    /// Reads of the warmer's size that it takes, gaps included.
    pub reads: f64,
}

impl Workload {
    /// Refuses what no server can have.
    pub fn check(&self) -> Result<(), Error> {
        Error::check_positive("the number of clients", self.clients.into())?;
        Error::check_positive("the time of a cached transaction in seconds", self.hit_seconds)?;
        if self.classes.is_empty() {
            return Err(Error::NoPages);
        }
        for class in &self.classes {
            Error::check_positive("a number of pages", class.pages)?;
            Error::check_positive("the pages that a transaction asks for", class.accesses)?;
            Error::check_positive("the pages of a range", class.run_pages)?;
        }
        Ok(())
    }

    /// The bins of each class, by expected accesses of a page in a transaction.
    pub(super) fn bins(&self) -> Vec<Vec<Bin>> {
        let of = |class: &PageClass| {
            let bins = class.popularity.bins(class.pages);
            bins.into_iter().map(|bin| Bin { weight: bin.weight * class.accesses, ..bin }).collect()
        };
        self.classes.iter().map(of).collect()
    }
}

impl Server {
    /// Memory that shared_buffers and the page cache share, in pages; infinite where everything fits.
    pub fn memory_pages(&self) -> f64 {
        self.os_pages + if self.buffers_pages.is_finite() { self.buffers_pages } else { 0.0 }
    }

    /// Gives shared_buffers their part of the memory, and what is left to the page cache; infinite `buffers_pages` are none of
    /// their own.
    ///
    /// # Errors
    /// When the memory does not hold them.
    pub fn divide_memory(&mut self, memory_pages: f64, buffers_pages: f64) -> Result<(), Error> {
        self.buffers_pages = buffers_pages;
        self.os_pages = memory_pages;
        if buffers_pages.is_finite() && memory_pages.is_finite() {
            if buffers_pages > memory_pages {
                let bytes = |pages: f64| Bytes((pages * self.block_bytes) as u64);
                return Err(Error::BuffersBeyondMemory { buffers: bytes(buffers_pages), memory: bytes(memory_pages) });
            }
            // Where there is no room the server has one page of it at a time.
            self.os_pages = (memory_pages - buffers_pages).max(1.0);
        }
        Ok(())
    }

    /// Refuses what no server can have.
    pub fn check(&self) -> Result<(), Error> {
        let device = &self.device;
        // No limit is as good as any.
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
    /// Reads all classes, one after the other, as their files lie: `cat` and its like.
    pub fn in_file_order(workload: &Workload, block_bytes: f64, depth: u32, read_bytes: f64) -> Warmer {
        let step = |(class, one): (usize, &PageClass)| WarmStep {
            class,
            bin: None,
            share: 1.0,
            reads: one.pages * block_bytes / read_bytes,
        };
        Warmer {
            steps: workload.classes.iter().enumerate().map(step).collect(),
            depth,
            read_bytes,
            begins_after_seconds: 0.0,
        }
    }

    /// Reads the most popular pages of all classes first, in reads of full size: `pgthaw restore` where what is hot lies
    /// together.
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

    /// Seconds until all that is in flight on the device is served once: `depth` reads of `bytes` of the workload, and its own,
    /// which keep the device at its limit. The limits hold for the sum; a queue serves who waits in turn, so each gets its share of
    /// what is in flight.
    pub fn shared_cycle_seconds(&self, device: &Device, depth: f64, bytes: f64) -> f64 {
        let (beside, beside_bytes) = (f64::from(self.depth), self.read_bytes);
        let reads = depth + beside;
        let by_bytes = (depth * bytes + beside * beside_bytes) / device.bandwidth;
        device.latency_at(reads).max(reads / device.reads_per_second).max(by_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warmer_and_the_workload_share_the_limits() {
        let device = Device::with_limits(3000.0, 125e6, 0.5e-3);
        let warmer = Warmer { steps: Vec::new(), depth: 4, read_bytes: 262_144.0, begins_after_seconds: 0.0 };
        let shared = warmer.shared_cycle_seconds(&device, 1.0, 8192.0);
        assert_eq!(shared, (8192.0 + 4.0 * 262_144.0) / 125e6);
    }
}
