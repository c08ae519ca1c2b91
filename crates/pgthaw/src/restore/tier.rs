//! The option that says which cache is meant.

use clap::ValueEnum;

use cache::Tiers;

/// Which of the two caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TierArgument {
    /// The kernel's page cache
    Os,
    /// shared_buffers
    Buffers,
    Both,
}

impl TierArgument {
    /// The tiers that are meant.
    pub fn tiers(self) -> Tiers {
        Tiers { os: self != TierArgument::Buffers, buffers: self != TierArgument::Os }
    }
}
