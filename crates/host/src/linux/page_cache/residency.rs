//! Which pages of a file are cached, at the least cost.

use super::CachedFile;
use crate::linux::Error;
use crate::units::PageRange;

/// Pages that are counted before they are listed: of most such windows the count already says all.
const WINDOW_BYTES: u64 = 32 << 20;

/// The cached pages of a file in order, as maximal runs. Counts window by window (cachestat, which is quick) and lists
/// the pages (mincore, which looks at each) only of a window that is neither empty nor full.
///
/// A page whose data is still being read counts as cached in a full window and as not cached in any other: measure
/// when the reads are over.
pub fn read_resident_pages(file: &dyn CachedFile, page_bytes: u64) -> Result<Vec<PageRange>, Error> {
    let pages = file.size_bytes().div_ceil(page_bytes);
    let window_pages = WINDOW_BYTES / page_bytes;
    let mut runs = Vec::new();
    let mut start = 0;
    while start < pages {
        let window = PageRange::new(start, pages.min(start + window_pages));
        let cached = file.read_counts(window)?.cached;
        if cached >= window.pages() {
            append(&mut runs, window);
        } else if cached > 0 {
            file.read_resident(window)?.into_iter().for_each(|run| append(&mut runs, run));
        }
        start = window.end;
    }
    Ok(runs)
}

/// Appends a run, joined to the last one when it continues it.
fn append(runs: &mut Vec<PageRange>, run: PageRange) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}
