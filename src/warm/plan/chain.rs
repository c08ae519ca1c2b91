//! Which blocks of a slice to read at once, and which in a later pass.
//!
//! The levels of heat of a slice form a chain: hot blocks first, the rest later. A link of the chain is worth its own
//! pass when it gains more heat per second than what follows; links that do not are joined (the decomposition of a chain
//! in Smith's rule for the least weighted completion time). Reading in passes fragments, so it may cost only so much.

use super::cells::Cells;
use super::merge::{self, Cost, Merging, Prices};

/// How many times denser than what follows a pass has to be. Each pass adds reads, and live traffic needs reads too.
const PASS_GAIN_MIN: f64 = 2.0;

/// One pass over a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The coldest level that it reads on purpose.
    pub coldest: u8,
    pub merging: Merging,
    pub cost: Cost,
    /// Wanted blocks that it brings, the colder ones in its gaps included.
    pub wanted_blocks: u32,
    /// Heat of these blocks, summed.
    pub heat: f64,
    /// Seconds of the device, of the untrimmed link.
    pub seconds: f64,
}

impl Link {
    /// Heat gained per second of device time.
    pub fn density(&self) -> f64 {
        self.heat / self.seconds
    }
}

/// The passes over a slice, in order, each of less heat per second than the one before; `premium` is the part of the slice's
/// device time that reading its hot blocks first may cost on top.
pub fn links(slice: &Cells, heat: impl Fn(u8) -> f64, prices: &Prices<'_>, premium: f64) -> Vec<Link> {
    let levels: Vec<u8> = slice.levels().collect();
    let Some(coldest) = levels.last() else { return Vec::new() };
    let whole = link(slice, *coldest, &heat, prices);
    if levels.len() == 1 || premium == 0.0 {
        return vec![whole];
    }
    let chain = decompose(slice, &levels, &heat, prices);
    let seconds: f64 = chain.iter().map(|link| link.seconds).sum();
    if seconds > whole.seconds * (1.0 + premium) { vec![whole] } else { chain }
}

fn decompose(slice: &Cells, levels: &[u8], heat: &impl Fn(u8) -> f64, prices: &Prices<'_>) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    for coldest in levels {
        loop {
            let mut cells = slice.clone();
            links.iter().for_each(|link| apply(link, &mut cells));
            let next = link(&cells, *coldest, heat, prices);
            if next.wanted_blocks == 0 {
                break;
            }
            if links.last().is_none_or(|last| next.density() * PASS_GAIN_MIN <= last.density()) {
                links.push(next);
                break;
            }
            links.pop();
        }
    }
    links
}

/// Marks what a link reads as resident.
pub fn apply(link: &Link, cells: &mut Cells) {
    let mut stretches = Vec::new();
    merge::for_each_stretch(cells, link.coldest, link.merging, |start, end| stretches.push((start, end)));
    stretches.into_iter().for_each(|(start, end)| cells.mark_resident(start, end));
}

fn link(cells: &Cells, coldest: u8, heat: &impl Fn(u8) -> f64, prices: &Prices<'_>) -> Link {
    let (merging, cost) = merge::choose(cells, coldest, prices);
    let (mut wanted_blocks, mut gained) = (0, 0.0);
    merge::for_each_stretch(cells, coldest, merging, |start, end| {
        cells.count_levels(start, end, |level| {
            wanted_blocks += 1;
            gained += heat(level);
        });
    });
    Link { coldest, merging, cost, wanted_blocks, heat: gained, seconds: prices.seconds(cost) }
}
