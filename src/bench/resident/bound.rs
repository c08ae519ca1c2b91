//! The least time in which a device can deliver a set of pages, when gaps may be read over. Pure.

use super::wanted::Wanted;
use crate::study::{Bound, Disk};
use crate::units::Bytes;

/// The least of `max(reads ÷ reads per second, bytes ÷ bandwidth)` over all choices of gaps to read over. Gaps cost their
/// bytes and save one read each, so the best choice is "the m shortest", and all m are tried. Reads may be as long as
/// they like: on a real device it takes longer. `None` without both limits in force.
pub fn compute_bound(wanted: &Wanted, disk: &Disk) -> Option<Bound> {
    if disk.not_enforced.is_some() {
        return None;
    }
    let (riops, bandwidth) = (disk.riops?, disk.rbps?);
    let Wanted { files, page_bytes, .. } = wanted;
    let mut gaps: Vec<u64> = files.iter().flat_map(|file| file.runs.windows(2)).map(gap_pages).collect();
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

fn gap_pages(neighbours: &[crate::units::PageRange]) -> u64 {
    neighbours[1].start - neighbours[0].end
}

#[cfg(test)]
mod tests {
    use super::super::wanted::WantedFile;
    use super::*;
    use crate::study::disk::tests::named;
    use crate::units::PageRange;

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
        // Three runs of two pages, with gaps of 2 and 94 pages.
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
}
