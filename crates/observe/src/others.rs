//! What others had of the machine while something was measured: who is neither the server nor pgthaw with all that it
//! started, and, of a virtual machine, its neighbours.

use std::time::Duration;

use host::linux::block_device::{DeviceCounters, Devices};
use host::linux::clock;
use host::linux::families::{FamilyUse, ProcessUse, read_family_use};
use host::linux::schedule::{ProcessorTimes, read_processor_times};
use host::units::Bytes;

/// So many of those who used most are named.
const NAMES: usize = 2;

/// What others had between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OthersUse {
    pub seconds: f64,
    /// Of the machine.
    pub processors: u32,
    /// That others used, and that the hypervisor gave to other machines, in the mean.
    pub used_processors: f64,
    pub stolen_processors: f64,
    /// Programs that used most of them, and that read most.
    pub users: Vec<String>,
    pub readers: Vec<String>,
    /// From the device by others, and by anybody; nothing where it is not known who read.
    pub read_bytes: Bytes,
    pub device_read_bytes: Bytes,
}

/// Everybody's counters at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineReading {
    monotonic: Duration,
    processors: ProcessorTimes,
    families: FamilyUse,
    /// The disks that hold the server; `None` where there is none.
    device: Option<DeviceCounters>,
}

impl MachineReading {
    /// Looks at the machine with the server of this postmaster and this process. `None` where the kernel does not tell.
    pub fn read(postmaster_pid: u32, devices: &Devices) -> Option<MachineReading> {
        Some(MachineReading {
            families: read_family_use(&[std::process::id(), postmaster_pid]).ok()?,
            monotonic: clock::read_monotonic(),
            processors: read_processor_times().ok()?,
            device: devices.read().ok().flatten(),
        })
    }

    /// What others had since `earlier`. `known_read_bytes` is what the own processes are known to have read at least.
    pub fn others_since(&self, earlier: &MachineReading, known_read_bytes: Option<Bytes>) -> OthersUse {
        let seconds = self.monotonic.saturating_sub(earlier.monotonic).as_secs_f64();
        let grown = |of: &dyn Fn(&MachineReading) -> Duration| of(self).saturating_sub(of(earlier)).as_secs_f64();
        // What interrupts took belongs to nobody in particular, the kernel's threads work for everybody.
        let ran = grown(&|one| one.processors.busy.saturating_sub(one.processors.interrupts));
        let accounted = grown(&|one| one.families.own_cpu) + grown(&|one| one.families.kernel_cpu);
        let per_second = |time: f64| if seconds > 0.0 { time.max(0.0) / seconds } else { 0.0 };
        let device = |one: &MachineReading| one.device.map(|device| device.read_bytes);
        let difference = |from: Option<Bytes>, to: Option<Bytes>| Some(Bytes(to?.0.saturating_sub(from?.0)));
        let device_read_bytes = difference(device(earlier), device(self));
        let own = difference(earlier.families.own_read_bytes, self.families.own_read_bytes).max(known_read_bytes);
        let others = own.zip(device_read_bytes).map(|(own, all)| Bytes(all.0.saturating_sub(own.0)));
        OthersUse {
            seconds,
            processors: self.processors.count,
            // Clocks of processes and of processors do not tick together: the difference may fall below nothing.
            used_processors: per_second(ran - accounted),
            stolen_processors: per_second(grown(&|one| one.processors.steal)),
            users: self.name_most(earlier, |used| used.cpu.as_millis() as u64),
            readers: self.name_most(earlier, |used| used.read_bytes.0),
            read_bytes: others.unwrap_or_default(),
            device_read_bytes: device_read_bytes.unwrap_or_default(),
        }
    }

    /// The programs of others that had most of something since `earlier`, the first of them first.
    fn name_most(&self, earlier: &MachineReading, of: impl Fn(&ProcessUse) -> u64) -> Vec<String> {
        let mut sums = std::collections::BTreeMap::<&str, u64>::new();
        for (process, used) in &self.families.others {
            let before = earlier.families.others.get(process).map_or(0, &of);
            *sums.entry(&used.name).or_default() += of(used).saturating_sub(before);
        }
        let mut sums: Vec<(&str, u64)> = sums.into_iter().filter(|(_, sum)| *sum > 0).collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        sums.into_iter().take(NAMES).map(|(name, _)| name.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// After so many seconds of a machine of two processors: what all ran, what the own family and one other had.
    fn reading(seconds: u64, busy_ms: u64, own_ms: u64, other_ms: u64, read: [u64; 2]) -> MachineReading {
        let milliseconds = Duration::from_millis;
        let used = |name: &str, ms| ProcessUse { name: name.into(), cpu: milliseconds(ms), read_bytes: Bytes(ms) };
        MachineReading {
            monotonic: Duration::from_secs(seconds),
            processors: ProcessorTimes {
                count: 2,
                busy: milliseconds(busy_ms),
                interrupts: milliseconds(busy_ms / 100),
                steal: milliseconds(100 * seconds),
                ..ProcessorTimes::default()
            },
            families: FamilyUse {
                own_cpu: milliseconds(own_ms),
                own_read_bytes: Some(Bytes(read[0])),
                kernel_cpu: milliseconds(0),
                others: HashMap::from([((7, 1), used("burner", other_ms)), ((8, 1), used("idle", 5))]),
            },
            device: Some(DeviceCounters { read_bytes: Bytes(read[1]), ..DeviceCounters::default() }),
        }
    }

    #[test]
    fn others_are_who_is_left_when_the_own_family_is_taken_away() {
        let (before, after) = (reading(0, 0, 0, 0, [0, 0]), reading(10, 20_000, 10_800, 9_000, [100, 1000]));
        let others = after.others_since(&before, None);
        assert!((others.used_processors - 0.9).abs() < 1e-9 && (others.stolen_processors - 0.1).abs() < 1e-9);
        assert_eq!((others.processors, others.users.as_slice()), (2, &["burner".to_owned()][..]));
        assert_eq!((others.read_bytes, others.device_read_bytes), (Bytes(900), Bytes(1000)));
        assert_eq!(after.others_since(&before, Some(Bytes(950))).read_bytes, Bytes(50));
        // Clocks that do not tick together are nobody.
        let alone = reading(10, 10_000, 10_100, 0, [1000, 1000]).others_since(&before, None);
        assert_eq!((alone.used_processors, alone.read_bytes, alone.users.len()), (0.0, Bytes(0), 0));
    }

    #[test]
    fn where_it_is_not_known_who_read_nobody_is_accused() {
        let mut before = reading(0, 0, 0, 0, [0, 0]);
        before.families.own_read_bytes = None;
        let others = reading(10, 0, 0, 0, [0, 1_000_000]).others_since(&before, None);
        assert_eq!((others.read_bytes, others.device_read_bytes), (Bytes(0), Bytes(1_000_000)));
    }
}
