//! What the kernel reads beside the page that was asked for, while a relation fills up in random order.
//!
//! Linux (mm/readahead.c, 6.x) takes a random read for the next of a sequence when the pages before it are cached: more of
//! them than the read has pages. Then it reads as far ahead as that run is long, and marks the last page of what it read.
//! Whoever comes by a mark makes it read on from the next gap, twice as far as the gap is away, and the mark moves there.

/// What a read ahead comes to on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ahead {
    /// Missing pages that it brings.
    pub pages: f64,
    /// Reads of the device that it takes: neighbouring pages share one.
    pub reads: f64,
    /// Pages that are marked afterwards.
    pub marks: f64,
}

/// How likely one of so many pages is missing: 1 - (1 - missing)^pages, also where so little is missing that 1 - missing is 1.
fn any_missing(missing: f64, pages: f64) -> f64 {
    if pages > 0.0 { -(pages * (-missing).ln_1p()).exp_m1() } else { 0.0 }
}

/// Beside a page that was missing where a share `missing` of the pages around is, 0 to 1. `window` is the most that is read at
/// once, in pages.
pub fn behind_a_miss(missing: f64, window: f64) -> Ahead {
    let most = window - 1.0;
    if most < 2.0 || missing <= 0.0 {
        return Ahead::default();
    }
    let cached = 1.0 - missing;
    // The mean length of the run before it, if it is longer than one page and as far as it counts.
    let long = cached * cached;
    let run = 2.0 * long + long * cached * any_missing(missing, most - 2.0) / missing;
    Ahead { pages: missing * run, reads: missing * cached * (run - long), marks: long * missing }
}

/// When a marked page is asked for.
pub fn behind_a_mark(missing: f64, window: f64) -> Ahead {
    if window < 3.0 || missing <= 0.0 {
        return Ahead::default();
    }
    let cached = 1.0 - missing;
    // A gap farther away than the window is left alone, and the mark is gone.
    let found = any_missing(missing, window);
    // The mean of what is read from the gap on: 2 k + 1 pages for a gap k pages away, as far as the window.
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

    /// The sums over all lengths of a run, and all places of the next gap.
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
