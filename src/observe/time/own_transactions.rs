//! What the server counts of pgthaw's own looks among all transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Statements that pgthaw's sessions have had, each of which the server counts as a transaction. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct OwnTransactions(Arc<AtomicU64>);

impl OwnTransactions {
    /// Counts one more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So far.
    pub fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
