//! The order of the trials: random within blocks.
//!
//! Every block holds each point once, so that drift of the machine falls on all alike, and the order inside a
//! block is random, so that no point always follows the same other one.

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

/// One trial to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn<P> {
    pub point: P,
    /// From 1.
    pub repeat: u32,
    /// From 1.
    pub position: u32,
}

/// All trials in their order. The same seed gives the same order.
pub fn plan_order<P: Clone>(points: &[P], repeats: u32, seed: u64) -> Vec<Turn<P>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut turns = Vec::new();
    for repeat in 1..=repeats {
        let mut block = points.to_vec();
        block.shuffle(&mut random);
        turns.extend(block.into_iter().map(|point| (point, repeat)));
    }
    (1..).zip(turns).map(|(position, (point, repeat))| Turn { point, repeat, position }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const STRATEGIES: [&str; 5] = ["nothing", "cat", "vmtouch", "seqscan", "pgthaw"];

    #[test]
    fn every_block_holds_each_point_once() {
        let turns = plan_order(&STRATEGIES, 4, 7);
        for (index, block) in turns.chunks(STRATEGIES.len()).enumerate() {
            let names: BTreeSet<&str> = block.iter().map(|turn| turn.point).collect();
            assert_eq!(names, BTreeSet::from(STRATEGIES));
            assert!(block.iter().all(|turn| turn.repeat as usize == index + 1));
        }
        let positions: Vec<u32> = turns.iter().map(|turn| turn.position).collect();
        assert_eq!(positions, (1..=20).collect::<Vec<u32>>());
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(plan_order(&STRATEGIES, 3, 1), plan_order(&STRATEGIES, 3, 1));
        assert_ne!(plan_order(&STRATEGIES, 3, 1), plan_order(&STRATEGIES, 3, 2));
    }
}
