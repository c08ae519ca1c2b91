//! What the server counts of pgthaw's own looks among all transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Statements that pgthaw's sessions have had, each of which the server counts as a transaction. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct OwnTransactions(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A statement that runs, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct OwnStatement(OwnTransactions);

impl OwnTransactions {
    /// Counts one, which has begun.
    pub fn begin(&self) -> OwnStatement {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        OwnStatement(self.clone())
    }

    /// Counts some that have ended.
    pub fn add(&self, count: u64) {
        self.0.begun.fetch_add(count, Ordering::Relaxed);
        self.0.ended.fetch_add(count, Ordering::Relaxed);
    }

    /// Those that have begun and those that have ended. While the two differ it is not known what the server has counted.
    pub fn counts(&self) -> (u64, u64) {
        (self.0.begun.load(Ordering::Relaxed), self.0.ended.load(Ordering::Relaxed))
    }
}

impl Drop for OwnStatement {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}
