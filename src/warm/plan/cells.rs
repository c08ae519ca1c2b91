//! A slice of a fork, one byte a block: small enough to scan again and again while the plan tries what costs least.

use roaring::RoaringBitmap;

use super::wanted::WantedFork;

/// Neither wanted nor resident.
const COLD: u8 = 0;
/// In the cache, or read by an earlier step.
const RESIDENT: u8 = u8::MAX;

/// The blocks of one slice: cold, resident, or wanted with the index of their level of heat plus one.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    cells: Vec<u8>,
    /// Wanted blocks that were resident when the slice was filled.
    pub resident_wanted: u64,
}

/// Wanted blocks in a row, with what lies between them and the run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: u32,
    pub end: u32,
    /// Cold (or colder) blocks since the run before. `None` when there is no run before, or when a resident block lies
    /// between: there the kernel would split a read anyway.
    pub gap: Option<u16>,
}

impl Cells {
    /// Blocks of the slice.
    pub fn len(&self) -> u32 {
        self.cells.len() as u32
    }

    /// Takes the blocks `[start, end)` of a fork in.
    pub fn fill(&mut self, fork: &WantedFork, start: u64, end: u64) {
        self.cells.clear();
        self.cells.resize((end - start) as usize, COLD);
        for (level, (_, blocks)) in fork.levels.iter().enumerate() {
            for_each_range(blocks, start, end, |range| self.cells[range].fill(level as u8 + 1));
        }
        let mut resident_wanted = 0;
        for_each_range(&fork.resident, start, end, |range| {
            let cells = &mut self.cells[range];
            resident_wanted += cells.iter().filter(|cell| **cell != COLD).count() as u64;
            cells.fill(RESIDENT);
        });
        self.resident_wanted = resident_wanted;
    }

    /// Forgets the blocks from `end` on.
    pub fn truncate(&mut self, end: u32) {
        let dropped = self.cells.drain(end as usize..);
        debug_assert!(dropped.as_slice().iter().all(|cell| *cell != RESIDENT), "only cut within a wanted run");
    }

    /// The runs of wanted blocks that are at least as hot as level `coldest`.
    pub fn runs(&self, coldest: u8) -> impl Iterator<Item = Run> {
        let is_wanted = move |cell: &u8| *cell > coldest && *cell != RESIDENT;
        let mut before: Option<usize> = None;
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at + self.cells[at..].iter().position(is_wanted)?;
            let rest = &self.cells[start..];
            let end = start + rest.iter().position(|cell| !is_wanted(cell)).unwrap_or(rest.len());
            let gap = before.map(|before| &self.cells[before..start]).filter(|gap| !gap.contains(&RESIDENT));
            (before, at) = (Some(end), end);
            Some(Run { start: start as u32, end: end as u32, gap: gap.map(|gap| gap.len() as u16) })
        })
    }

    /// The levels that some block has which is not resident, hottest first.
    pub fn levels(&self) -> impl Iterator<Item = u8> + use<> {
        let mut present = [false; 256];
        self.cells.iter().for_each(|cell| present[usize::from(*cell)] = true);
        (1..RESIDENT).rev().filter(move |cell| present[usize::from(*cell)]).map(|cell| cell - 1)
    }

    /// How many blocks of each level `[start, end)` holds, told to `count`.
    pub fn count_levels(&self, start: u32, end: u32, mut count: impl FnMut(u8)) {
        for cell in &self.cells[start as usize..end as usize] {
            if *cell != COLD && *cell != RESIDENT {
                count(*cell - 1);
            }
        }
    }

    /// The blocks `[start, end)` are read.
    pub fn mark_resident(&mut self, start: u32, end: u32) {
        self.cells[start as usize..end as usize].fill(RESIDENT);
    }

    /// Where the run of wanted blocks that ends the slice begins; the slice's end when its last block is not wanted.
    pub fn last_run_start(&self) -> u32 {
        let is_wanted = |cell: &u8| *cell != COLD && *cell != RESIDENT;
        self.cells.iter().rposition(|cell| !is_wanted(cell)).map_or(0, |last| last as u32 + 1)
    }
}

/// The parts of `blocks` within `[start, end)`, as index ranges from `start`.
fn for_each_range(blocks: &RoaringBitmap, start: u64, end: u64, mut visit: impl FnMut(std::ops::Range<usize>)) {
    let (Ok(first), Ok(last)) = (u32::try_from(start), u32::try_from(end - 1)) else { return };
    let mut ranges = blocks.range(first..=last);
    while let Some(range) = ranges.next_range() {
        visit((range.start() - first) as usize..(range.end() - first) as usize + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warm::plan::Precedence;

    fn cells(levels: &[&[u32]], resident: &[u32]) -> Cells {
        let levels = levels.iter().enumerate().map(|(heat, blocks)| (heat as f32 + 1.0, blocks.iter().collect()));
        let fork = WantedFork {
            precedence: Precedence::ByHeat,
            is_index: false,
            blocks: 100,
            levels: levels.collect(),
            resident: resident.iter().collect(),
            places: Vec::new(),
        };
        let mut cells = Cells::default();
        cells.fill(&fork, 10, 30);
        cells
    }

    #[test]
    fn a_block_in_two_levels_has_the_hotter() {
        let cells = cells(&[&[10, 11, 12], &[11]], &[]);
        assert_eq!(cells.levels().collect::<Vec<_>>(), [1, 0]);
        assert_eq!(cells.runs(1).collect::<Vec<_>>(), [Run { start: 1, end: 2, gap: None }]);
        assert_eq!(cells.runs(0).collect::<Vec<_>>(), [Run { start: 0, end: 3, gap: None }]);
    }

    #[test]
    fn a_resident_block_ends_a_run_and_forbids_a_gap() {
        let cells = cells(&[&[10, 11, 12, 15, 19]], &[11, 17, 29]);
        assert_eq!(cells.resident_wanted, 1);
        let runs: Vec<_> = cells.runs(0).map(|run| (run.start, run.end, run.gap)).collect();
        assert_eq!(runs, [(0, 1, None), (2, 3, None), (5, 6, Some(2)), (9, 10, None)]);
    }

    #[test]
    fn knows_the_run_at_its_end() {
        assert_eq!(cells(&[&[12, 28, 29, 30]], &[]).last_run_start(), 18);
        assert_eq!(cells(&[&[12]], &[]).last_run_start(), 20);
        assert_eq!(cells(&[&(0..40).collect::<Vec<_>>()], &[]).last_run_start(), 0);
    }
}
