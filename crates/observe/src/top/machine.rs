//! What the machine does beside the server: its device, memory and processors, and what was fetched for the server.

use std::time::Duration;

use super::fetched::FetchedBytes;
use super::frame::MachineStep;
use crate::gauges::{GaugeReading, compute_os_samples};
use host::linux::{Devices, read_monotonic};

/// Looks at the machine again and again.
#[derive(Debug)]
pub(super) struct MachineWatch {
    devices: Devices,
    device_name: Option<String>,
    fetched: Option<FetchedBytes>,
    before: GaugeReading,
}

impl MachineWatch {
    /// Begins with what there is.
    pub fn begin(devices: Devices, device_name: Option<String>, fetched: Option<FetchedBytes>) -> MachineWatch {
        let before = GaugeReading::read_machine(&devices);
        MachineWatch { devices, device_name, fetched, before }
    }

    /// Since the last look.
    pub fn age(&self) -> Duration {
        read_monotonic().saturating_sub(self.before.monotonic)
    }

    /// What happened since the last look, scaled to a second.
    pub fn take(&mut self) -> Option<MachineStep> {
        // It is the second after the one before, however long that was.
        let now = GaugeReading { second: 1, ..GaugeReading::read_machine(&self.devices) };
        let before = std::mem::replace(&mut self.before, GaugeReading { second: 0, ..now.clone() });
        let length = now.monotonic.saturating_sub(before.monotonic);
        let sample = compute_os_samples(&[before, now]).pop()?;
        Some(MachineStep {
            length_ns: length.as_nanos() as u64,
            device: sample.device,
            device_name: self.device_name.clone(),
            parts: sample.parts,
            processors_busy_seconds: sample.processors_busy_seconds,
            processors_iowait_seconds: sample.processors_iowait_seconds,
            processors_steal_seconds: sample.processors_steal_seconds,
            available_bytes: sample.available_bytes,
            cached_bytes: sample.cached_bytes,
            dirty_bytes: sample.dirty_bytes,
            writeback_bytes: sample.writeback_bytes,
            pressure: sample.pressure,
            fetched_bytes: self.fetched.as_mut().map(FetchedBytes::read_added),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_tells_what_happened_since_the_one_before() {
        let mut watch = MachineWatch::begin(Devices::default(), None, None);
        std::thread::sleep(Duration::from_millis(30));
        let step = watch.take().unwrap();
        assert!(step.length_ns >= 30_000_000 && step.available_bytes.0 > 0, "{step:?}");
        assert_eq!((step.device, step.fetched_bytes), (None, None));
        assert!(watch.age() < Duration::from_nanos(step.length_ns) + Duration::from_secs(60));
    }
}
