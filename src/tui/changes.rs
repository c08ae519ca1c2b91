//! What changed since the last look.

use std::ops::AddAssign;

use crate::cache::{Map, RelationDifference, TierDifference, compute_difference};
use crate::units::Bytes;

/// What both tiers gained and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub os: TierDifference,
    pub buffers: TierDifference,
}

impl Changed {
    /// Blocks that came or went.
    pub fn blocks(&self) -> u64 {
        self.os.changed() + self.buffers.changed()
    }
}

impl AddAssign for Changed {
    fn add_assign(&mut self, other: Changed) {
        self.os += other.os;
        self.buffers += other.buffers;
    }
}

/// What changed of each relation of `after`, in its order. Without a look before nothing has.
pub fn compute_changes(before: Option<&Map>, after: &Map) -> Vec<Changed> {
    let Some(before) = before else { return vec![Changed::default(); after.relations.len()] };
    let difference = compute_difference(before, after);
    let (has_os, has_buffers) = (difference.has_os, difference.has_buffers);
    let changed = |one: &RelationDifference<'_>| Changed {
        os: if has_os { one.os() } else { TierDifference::default() },
        buffers: if has_buffers { one.buffers() } else { TierDifference::default() },
    };
    difference.relations.iter().take(after.relations.len()).map(changed).collect()
}

/// `+12 MB`, `-3 MB`, `+12 MB -3 MB`; nothing when nothing changed.
pub fn render_change(change: TierDifference, block_size: u32) -> String {
    let part = |sign: char, blocks: u64| match blocks {
        0 => None,
        _ => Some(format!("{sign}{}", Bytes(blocks * u64::from(block_size)))),
    };
    let parts: Vec<String> = [part('+', change.gained), part('-', change.lost)].into_iter().flatten().collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went_are_both_told() {
        let text = |gained, lost| render_change(TierDifference { gained, lost, kept: 9 }, 8192);
        assert_eq!([text(1536, 0), text(0, 1), text(128, 64), text(0, 0)], ["+12 MB", "-8 kB", "+1 MB -512 kB", ""]);
    }
}
