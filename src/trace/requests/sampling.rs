//! Of which blocks every request is told: of all as long as that is little, then of ever fewer.
//!
//! The sampling is that of SHARDS (Waldspurger, Park, Garthwaite, Ahmad: Efficient MRC Construction with SHARDS, FAST 2015): blocks are
//! chosen by a hash, so that all requests of a chosen block are seen, and the threshold only ever falls.

/// Chosen blocks that were touched: beyond that there are enough, and half of them are chosen from then on.
const UNITS_MAX: u64 = 32_768;

/// Repeated requests after which half of the blocks are chosen: so a film grows by the logarithm of what is asked for again.
const AGAIN_MAX: u64 = 65_536;

/// One block in 2^20 is chosen at least.
const SHIFT_MAX: u32 = 20;

/// How many blocks are chosen, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    shift: u32,
    /// Units that were asked for.
    pub(super) units: u64,
    /// Repeated requests since the threshold fell last.
    pub(super) again: u64,
}

impl Sampling {
    /// One block in 2 to this power is chosen.
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    /// Blocks are chosen whose hash is below this.
    pub(super) fn below(&self) -> u64 {
        1 << (u32::BITS - self.shift)
    }

    /// Chooses fewer blocks where there are too many; was that so?
    pub(super) fn adapt(&mut self) -> bool {
        let before = self.shift;
        while self.shift < SHIFT_MAX && (self.units >> self.shift > UNITS_MAX || self.again > AGAIN_MAX) {
            self.shift += 1;
            self.again = 0;
        }
        self.shift > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_are_chosen_where_there_are_many() {
        let mut sampling = Sampling::default();
        assert_eq!((sampling.adapt(), sampling.below()), (false, 1 << 32));
        sampling.again = AGAIN_MAX + 1;
        assert!(sampling.adapt() && !sampling.adapt());
        assert_eq!((sampling.shift(), sampling.below()), (1, 1 << 31));
        sampling.units = 5 * UNITS_MAX;
        assert!(sampling.adapt());
        assert_eq!(sampling.shift(), 3);
    }
}
