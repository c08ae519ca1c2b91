//! What to load, in statements of a few megabytes, the most used first.

use roaring::RoaringBitmap;

use super::current::Current;
use super::want::Want;
use crate::units::BlockRange;

/// A statement's blocks and ranges: a fraction of a second on a slow disk, so that Ctrl-C is heard.
const JOB_BLOCKS: u64 = 512;
const JOB_RANGES: usize = 128;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The number of what is wanted.
    pub want: usize,
    pub ranges: Vec<BlockRange>,
    pub blocks: u64,
    /// How often to load them.
    pub passes: u32,
    /// Are they loaded already, and only to be used again?
    is_again: bool,
}

impl Job {
    /// Blocks that it brings.
    pub fn new_blocks(&self) -> u64 {
        if self.is_again { 0 } else { self.blocks }
    }
}

/// Loading gives a usage count of 1 also to what had 0, and each further pass adds one, up to 5. So everything gets one
/// more than it had: the first round of the clock sweep, which comes when all buffers are taken, sets that right.
const PASSES_AGAIN_MAX: u8 = 4;

/// All statements, in their order.
#[derive(Debug)]
pub struct JobPlan {
    pub jobs: Vec<Job>,
    /// Blocks of each want for which the budget had no room.
    pub over_budget: Vec<u64>,
}

impl JobPlan {
    pub fn planned_blocks(&self) -> u64 {
        self.jobs.iter().map(Job::new_blocks).sum()
    }
}

/// The statements that load what of `wants` is not there `before`, at most `budget_blocks`, and of each want only what is
/// `allowed`, where that is limited: the rest counts as over the budget. Catalogs come first among
/// what is equally used, then one database after another. When all is loaded the hot ones are used again: filling the
/// last free buffers makes the clock sweep go round.
pub fn plan_jobs(
    wants: &[Want],
    before: Option<&Current>,
    budget_blocks: u64,
    allowed: Option<&[RoaringBitmap]>,
) -> JobPlan {
    let mut order: Vec<(usize, &(u8, RoaringBitmap))> =
        wants.iter().enumerate().flat_map(|(at, want)| want.levels.iter().map(move |level| (at, level))).collect();
    order.sort_by_key(|(at, (usage_count, _))| {
        let want = &wants[*at];
        (std::cmp::Reverse(*usage_count), !want.is_system, &want.database, want.key, *at)
    });
    let mut plan = JobPlan { jobs: Vec::new(), over_budget: vec![0; wants.len()] };
    let mut left = budget_blocks;
    let mut again = Vec::new();
    for (at, (usage_count, blocks)) in order {
        let mut missing = blocks.clone();
        before.into_iter().for_each(|before| missing -= before.resident(at));
        if let Some(allowed) = allowed {
            plan.over_budget[at] += missing.len() - missing.intersection_len(&allowed[at]);
            missing &= &allowed[at];
        }
        let fitting = missing.len().min(left);
        left -= fitting;
        plan.over_budget[at] += missing.len() - fitting;
        missing.remove_biggest(missing.len() - fitting);
        let passes = u32::from((*usage_count).min(PASSES_AGAIN_MAX));
        cut(&missing, |ranges, blocks| {
            let job = Job { want: at, ranges, blocks, passes: 1, is_again: false };
            if passes > 0 {
                again.push(Job { passes, is_again: true, ..job.clone() });
            }
            plan.jobs.push(job);
        });
    }
    plan.jobs.append(&mut again);
    plan
}

/// Cuts blocks into statements.
fn cut(blocks: &RoaringBitmap, mut emit: impl FnMut(Vec<BlockRange>, u64)) {
    let mut ranges = Vec::new();
    let mut sum = 0;
    let mut runs = blocks.iter();
    while let Some(run) = runs.next_range() {
        let (mut start, end) = (u64::from(*run.start()), u64::from(*run.end()) + 1);
        while start < end {
            let piece = BlockRange::new(start, end.min(start + JOB_BLOCKS - sum));
            sum += piece.blocks();
            start = piece.end;
            ranges.push(piece);
            if sum == JOB_BLOCKS || ranges.len() == JOB_RANGES {
                emit(std::mem::take(&mut ranges), std::mem::take(&mut sum));
            }
        }
    }
    if !ranges.is_empty() {
        emit(ranges, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::ForkMap;
    use crate::units::Fork;

    fn want(levels: &[(u8, std::ops::Range<u32>)]) -> Want {
        let mut fork = ForkMap::empty(Fork::Main, 10_000);
        for (usage_count, blocks) in levels {
            fork.buffers[usize::from(*usage_count)].insert_range(blocks.clone());
        }
        Want::new(0, &fork, "d")
    }

    #[test]
    fn the_most_used_come_first_and_the_budget_cuts_the_least_used() {
        let wants = [want(&[(1, 0..100), (5, 100..110)]), want(&[(3, 0..1000)])];
        let plan = plan_jobs(&wants, None, 1050, None);
        let order: Vec<_> = plan.jobs.iter().map(|job| (job.want, job.new_blocks(), job.passes)).collect();
        let loads = [(0, 10, 1), (1, 512, 1), (1, 488, 1), (0, 40, 1)];
        assert_eq!(order, [&loads[..], &[(0, 0, 4), (1, 0, 3), (1, 0, 3), (0, 0, 1)]].concat());
        assert_eq!((plan.planned_blocks(), plan.over_budget), (1050, vec![60, 0]));
    }

    #[test]
    fn what_is_not_allowed_is_over_the_budget() {
        let allowed = [(50..105).collect(), RoaringBitmap::new()];
        let wants = [want(&[(0, 0..100), (5, 100..110)]), want(&[(3, 0..1000)])];
        let plan = plan_jobs(&wants, None, 30, Some(&allowed));
        assert_eq!((plan.planned_blocks(), plan.over_budget), (30, vec![80, 1000]));
    }

    #[test]
    fn scattered_blocks_make_statements_of_bounded_length() {
        let blocks: RoaringBitmap = (0..300).map(|block| block * 2).collect();
        let mut lengths = Vec::new();
        cut(&blocks, |ranges, blocks| lengths.push((ranges.len(), blocks)));
        assert_eq!(lengths, [(128, 128), (128, 128), (44, 44)]);
    }
}
