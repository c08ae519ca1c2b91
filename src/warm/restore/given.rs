//! What the device has given, to a restore and to the server beside it.

use super::appetite::MISS_BYTES;

/// What the device has given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// Bytes to this restore, and its reads.
    pub read_bytes: u64,
    pub reads: u64,
    /// Bytes to the server.
    pub others_bytes: u64,
}

impl Given {
    /// To all.
    pub fn bytes(self) -> u64 {
        self.read_bytes + self.others_bytes
    }

    /// Since `before`, which is earlier.
    pub fn since(self, before: Given) -> Given {
        Given {
            read_bytes: self.read_bytes - before.read_bytes,
            reads: self.reads - before.reads,
            others_bytes: self.others_bytes - before.others_bytes,
        }
    }

    /// The device's reads, as far as can be told.
    pub fn device_reads(self) -> f64 {
        self.reads as f64 + self.others_bytes as f64 / MISS_BYTES
    }
}
