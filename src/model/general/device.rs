//! What a block device gives, by how much is asked of it at once.

/// A device's limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Random reads that it serves in a second; infinite where there is no limit.
    pub reads_per_second: f64,
    /// Bytes that it delivers in a second; infinite where there is no limit.
    pub bandwidth: f64,
    /// Seconds of one read with so many in flight, by rising depth; beyond the last the latency grows with the depth.
    pub latency: Vec<(f64, f64)>,
}

impl Device {
    /// A device whose latency is the same at every depth until a limit is reached.
    pub fn with_limits(reads_per_second: f64, bandwidth: f64, latency_seconds: f64) -> Device {
        Device { reads_per_second, bandwidth, latency: vec![(1.0, latency_seconds), (1e9, latency_seconds)] }
    }

    /// Seconds of a read with `depth` in flight.
    pub fn latency_at(&self, depth: f64) -> f64 {
        let Some(next) = self.latency.iter().position(|(at, _)| *at >= depth) else {
            let (deepest, seconds) = self.latency.last().copied().unwrap_or((1.0, 0.0));
            return seconds * depth / deepest;
        };
        let (at, seconds) = self.latency[next];
        if next == 0 {
            return seconds;
        }
        let (before, seconds_before) = self.latency[next - 1];
        seconds_before + (seconds - seconds_before) * (depth - before) / (at - before)
    }

    /// How often in a second `reads` with `bytes` in all can be done: by the limits alone, which are budgets.
    pub fn most_per_second(&self, reads: f64, bytes: f64) -> f64 {
        let by_reads = if reads > 0.0 { self.reads_per_second / reads } else { f64::INFINITY };
        let by_bytes = if bytes > 0.0 { self.bandwidth / bytes } else { f64::INFINITY };
        by_reads.min(by_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_counts() {
        let device = Device::with_limits(3000.0, 125e6, 0.5e-3);
        assert_eq!(device.most_per_second(2.0, 16_384.0), 1500.0);
        assert_eq!(device.most_per_second(1.0, 262_144.0), 125e6 / 262_144.0);
        assert_eq!(device.most_per_second(0.0, 0.0), f64::INFINITY);
    }

    #[test]
    fn latency_is_read_between_depths_and_grows_beyond() {
        let device = Device { latency: vec![(1.0, 8e-3), (4.0, 20e-3)], ..Device::with_limits(1e9, 1e12, 0.0) };
        for (depth, seconds) in [(1.0, 8e-3), (2.5, 14e-3), (4.0, 20e-3), (8.0, 40e-3)] {
            assert!((device.latency_at(depth) - seconds).abs() < 1e-12, "{depth}");
        }
        assert_eq!(device.latency_at(0.5), 8e-3);
    }
}
