//! Brings residency back and takes it away: plan, restore, evict, receipt.
