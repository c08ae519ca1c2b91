//! Is a server that is watched warm? By what its clients read beside what they found in shared_buffers.

use std::collections::HashMap;

use host::linux::process;
use postgres::Activity;

/// Not warm: a transaction reads more blocks than this from the device.
const DEVICE_READS: f64 = 0.01;

/// Where the device's reads cannot be seen: a larger share of the blocks than this was not in shared_buffers.
const READ_SHARE: f64 = 0.05;

/// Bytes that processes had fetched from their device, by the first and the last look at each.
#[derive(Debug)]
pub struct DeviceReads {
    looks: HashMap<u32, (u64, u64)>,
}

impl DeviceReads {
    /// From now on, of these processes of this machine and of those that begin later.
    pub fn new(pids: &[u32]) -> DeviceReads {
        let look = |pid: &u32| Some((*pid, process::read_fetched_bytes(*pid).ok()?.0));
        DeviceReads { looks: pids.iter().filter_map(look).map(|(pid, bytes)| (pid, (bytes, bytes))).collect() }
    }

    /// Looks again. Of a process that was not there before all that it fetched counts.
    pub fn look(&mut self, pids: &[u32]) {
        for pid in pids {
            let Ok(bytes) = process::read_fetched_bytes(*pid) else { continue };
            self.looks.entry(*pid).or_insert((0, 0)).1 = bytes.0;
        }
    }

    /// `None` where not a single process could be looked at.
    pub fn bytes(&self) -> Option<u64> {
        let fetched = || self.looks.values().map(|(first, last)| last.saturating_sub(*first)).sum();
        (!self.looks.is_empty()).then(fetched)
    }
}

/// What a server that is not warm reads, for people; `None` of a warm one. `device_bytes` is what its clients fetched from
/// the device, where that can be seen: what is read from the page cache is warm.
pub fn describe_cold_reads(activity: &Activity, device_bytes: Option<u64>, block_bytes: f64) -> Option<String> {
    let Some(bytes) = device_bytes else {
        let asked = (activity.blocks_hit + activity.blocks_read).max(1);
        let share = activity.blocks_read as f64 / asked as f64;
        return (share > READ_SHARE).then(|| {
            format!(
                "{:.0} % of the blocks that its clients asked for were not in shared_buffers (whether the page cache had them cannot be seen from here)",
                100.0 * share
            )
        });
    };
    let blocks = bytes as f64 / block_bytes / activity.transactions.max(1) as f64;
    (blocks > DEVICE_READS).then(|| format!("a transaction of its clients reads {blocks:.2} blocks from the device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_gives_is_cold_and_what_the_page_cache_gives_is_not() {
        let activity = Activity { transactions: 1000, blocks_hit: 3000, blocks_read: 1000, ..Activity::default() };
        let cold = |activity: &Activity, bytes| describe_cold_reads(activity, bytes, 8192.0);
        assert_eq!(cold(&activity, Some(0)), None);
        assert_eq!(cold(&activity, Some(10 * 8192)), None);
        assert!(cold(&activity, Some(500 * 8192)).unwrap().contains("reads 0.50 blocks from the device"));
        assert!(cold(&activity, None).unwrap().starts_with("25 % of the blocks"));
        assert_eq!(cold(&Activity { blocks_read: 100, ..activity }, None), None);
    }

    #[test]
    fn processes_that_cannot_be_looked_at_say_nothing() {
        let mut reads = DeviceReads::new(&[]);
        assert_eq!(reads.bytes(), None);
        reads.look(&[std::process::id()]);
        assert!(reads.bytes().is_some());
    }
}
