//! What the server's processes have had fetched from storage: what is read into shared_buffers, and was not in the page cache.

use std::collections::HashMap;

use crate::Error;
use host::linux::process::{read_children, read_fetched_bytes};
use host::units::Bytes;

/// Adds up what all of them fetched, also those that ended meanwhile, as far as it was seen.
#[derive(Debug)]
pub(super) struct FetchedBytes {
    postmaster_pid: u32,
    seen: HashMap<u32, u64>,
}

impl FetchedBytes {
    /// Begins with what they have fetched by now.
    ///
    /// # Errors
    /// Where this user may not know it.
    pub fn begin(postmaster_pid: u32) -> Result<FetchedBytes, Error> {
        read_fetched_bytes(postmaster_pid)?;
        let mut fetched = FetchedBytes { postmaster_pid, seen: HashMap::new() };
        fetched.read_added();
        Ok(fetched)
    }

    /// What was fetched since the last time. A process that came since then has fetched all that it has; the last bytes of one
    /// that went are not seen.
    pub fn read_added(&mut self) -> Bytes {
        let children = read_children(self.postmaster_pid).unwrap_or_default();
        let read = |pid: u32| Some((pid, read_fetched_bytes(pid).ok()?.0));
        self.take(children.into_iter().chain([self.postmaster_pid]).filter_map(read).collect())
    }

    fn take(&mut self, now: HashMap<u32, u64>) -> Bytes {
        let added = |(pid, bytes): (&u32, &u64)| {
            let before = self.seen.get(pid).copied().unwrap_or(0);
            // Less than before has another process of the same number.
            if *bytes < before { *bytes } else { bytes - before }
        };
        let sum = now.iter().map(added).fold(0, u64::saturating_add);
        self.seen = now;
        Bytes(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_counts_from_nothing_and_a_number_may_be_given_again() {
        let mut fetched = FetchedBytes { postmaster_pid: 1, seen: HashMap::from([(5, 100), (6, 900)]) };
        assert_eq!(fetched.take(HashMap::from([(5, 130), (6, 50), (7, 8)])), Bytes(30 + 50 + 8));
        assert_eq!(fetched.take(HashMap::from([(5, 130)])), Bytes(0));
        assert_eq!(fetched.seen.len(), 1, "who went is forgotten");
    }

    #[test]
    fn what_was_fetched_before_does_not_count() {
        let mut fetched = FetchedBytes::begin(std::process::id()).unwrap();
        assert!(fetched.read_added().0 < 1 << 30);
        assert!(FetchedBytes::begin(u32::MAX >> 1).is_err());
    }
}
