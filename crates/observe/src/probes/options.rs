//! What a caller chooses of a program in the kernel.

use std::time::Duration;

/// What is told of calls of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// A call that is as long is told by itself; all are added up.
    pub slow_call: Duration,
    /// How much the kernel keeps of them until they are read: a power of two, a page at least.
    pub slow_call_bytes: u32,
}

impl Default for ProbeOptions {
    fn default() -> ProbeOptions {
        // Some 3,000 calls.
        ProbeOptions { slow_call: Duration::from_millis(10), slow_call_bytes: 1 << 18 }
    }
}
