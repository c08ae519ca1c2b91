//! How the two versions write limits and counts of a device: `blkio.throttle.*` and `io.max`, `io.stat`.

use super::hierarchy::CgroupVersion;
use crate::linux::DeviceNumber;
use crate::units::Bytes;

const V1_READS_LIMIT: &str = "blkio.throttle.read_iops_device";
const V1_BYTES_LIMIT: &str = "blkio.throttle.read_bps_device";
const V1_READS: &str = "blkio.throttle.io_serviced";
const V1_BYTES: &str = "blkio.throttle.io_service_bytes";
const V2_LIMIT: &str = "io.max";
const V2_STATISTICS: &str = "io.stat";

/// A limit on what is read from a device. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLimit {
    pub reads_per_second: Option<u64>,
    pub read_bytes_per_second: Option<Bytes>,
}

impl ReadLimit {
    /// Both limits at once.
    pub fn and(self, other: ReadLimit) -> ReadLimit {
        let smaller = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let bytes = |limit: ReadLimit| limit.read_bytes_per_second.map(|bytes| bytes.0);
        ReadLimit {
            reads_per_second: smaller(self.reads_per_second, other.reads_per_second),
            read_bytes_per_second: smaller(bytes(self), bytes(other)).map(Bytes),
        }
    }
}

/// What the processes of a cgroup have read from a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadUsage {
    pub reads: u64,
    pub read_bytes: Bytes,
}

/// What has to be written to which file to set a limit.
pub fn limit_lines(version: CgroupVersion, device: DeviceNumber, limit: ReadLimit) -> Vec<(&'static str, String)> {
    let reads = limit.reads_per_second;
    let bytes = limit.read_bytes_per_second.map(|bytes| bytes.0);
    match version {
        CgroupVersion::V1 => [(V1_READS_LIMIT, reads), (V1_BYTES_LIMIT, bytes)]
            .into_iter()
            .filter_map(|(file, value)| Some((file, format!("{device} {}", value?))))
            .collect(),
        CgroupVersion::V2 => {
            let word = |value: Option<u64>| value.map_or("max".to_owned(), |value| value.to_string());
            vec![(V2_LIMIT, format!("{device} rbps={} riops={}", word(bytes), word(reads)))]
        }
    }
}

/// The limit in force, from the files that `read` gives.
pub fn read_limit<E>(
    version: CgroupVersion,
    device: DeviceNumber,
    read: impl Fn(&'static str) -> Result<String, E>,
) -> Result<ReadLimit, E> {
    let (reads, bytes) = match version {
        CgroupVersion::V1 => {
            (v1_value(&read(V1_READS_LIMIT)?, device, None), v1_value(&read(V1_BYTES_LIMIT)?, device, None))
        }
        CgroupVersion::V2 => {
            let text = read(V2_LIMIT)?;
            (v2_value(&text, device, "riops"), v2_value(&text, device, "rbps"))
        }
    };
    Ok(ReadLimit { reads_per_second: reads, read_bytes_per_second: bytes.map(Bytes) })
}

/// What was read so far, from the files that `read` gives. A device that was not touched yet is not listed.
pub fn read_usage<E>(
    version: CgroupVersion,
    device: DeviceNumber,
    read: impl Fn(&'static str) -> Result<String, E>,
) -> Result<ReadUsage, E> {
    let (reads, bytes) = match version {
        CgroupVersion::V1 => {
            (v1_value(&read(V1_READS)?, device, Some("Read")), v1_value(&read(V1_BYTES)?, device, Some("Read")))
        }
        CgroupVersion::V2 => {
            let text = read(V2_STATISTICS)?;
            (v2_value(&text, device, "rios"), v2_value(&text, device, "rbytes"))
        }
    };
    Ok(ReadUsage { reads: reads.unwrap_or(0), read_bytes: Bytes(bytes.unwrap_or(0)) })
}

/// The number in a line `254:0 3000` or `254:0 Read 3000`.
fn v1_value(text: &str, device: DeviceNumber, operation: Option<&str>) -> Option<u64> {
    let device = device.to_string();
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let fits = words.next() == Some(&device) && operation.is_none_or(|operation| words.next() == Some(operation));
        fits.then(|| words.next()?.parse().ok())?
    })
}

/// The number in a line `254:0 rbps=131072000 wbps=max`; `None` for `max`.
fn v2_value(text: &str, device: DeviceNumber, key: &str) -> Option<u64> {
    let device = device.to_string();
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&device))?;
    let (_, value) = line.split_whitespace().filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceNumber = DeviceNumber { major: 254, minor: 0 };
    const GP3: ReadLimit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: Some(Bytes(131_072_000)) };

    #[test]
    fn version_1_has_a_file_for_each() {
        let lines = limit_lines(CgroupVersion::V1, DEVICE, GP3);
        assert_eq!(lines, [(V1_READS_LIMIT, "254:0 3000".into()), (V1_BYTES_LIMIT, "254:0 131072000".into())]);
        let read = |name: &'static str| match name {
            V1_READS_LIMIT => Ok::<_, ()>("8:0 77\n254:0 3000\n".into()),
            V1_BYTES_LIMIT => Ok(String::new()),
            V1_READS => Ok("254:0 Read 12\n254:0 Write 5\n254:0 Total 17\nTotal 17\n".into()),
            _ => Ok("254:0 Read 98304\n254:0 Write 4096\nTotal 102400\n".into()),
        };
        let limit = read_limit(CgroupVersion::V1, DEVICE, read).unwrap();
        assert_eq!(limit, ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: None });
        let usage = read_usage(CgroupVersion::V1, DEVICE, read).unwrap();
        assert_eq!(usage, ReadUsage { reads: 12, read_bytes: Bytes(98304) });
    }

    #[test]
    fn version_2_has_a_line_for_all() {
        let lines = limit_lines(CgroupVersion::V2, DEVICE, GP3);
        assert_eq!(lines, [(V2_LIMIT, "254:0 rbps=131072000 riops=3000".into())]);
        let bytes_only = ReadLimit { reads_per_second: None, ..GP3 };
        let lines = limit_lines(CgroupVersion::V2, DEVICE, bytes_only);
        assert_eq!(lines, [(V2_LIMIT, "254:0 rbps=131072000 riops=max".into())]);
        let read = |name: &'static str| match name {
            V2_LIMIT => Ok::<_, ()>(
                "8:16 rbps=1 wbps=max riops=2 wiops=max\n254:0 rbps=131072000 wbps=max riops=max wiops=max\n".into(),
            ),
            _ => Ok("254:0 rbytes=98304 wbytes=0 rios=12 wios=0 dbytes=0 dios=0\n".into()),
        };
        assert_eq!(read_limit(CgroupVersion::V2, DEVICE, read).unwrap(), bytes_only);
        let usage = read_usage(CgroupVersion::V2, DEVICE, read).unwrap();
        assert_eq!(usage, ReadUsage { reads: 12, read_bytes: Bytes(98304) });
    }

    #[test]
    fn of_two_limits_the_smaller_holds() {
        let reads_only = ReadLimit { reads_per_second: Some(500), read_bytes_per_second: None };
        assert_eq!(GP3.and(reads_only), ReadLimit { reads_per_second: Some(500), ..GP3 });
        assert_eq!(reads_only.and(ReadLimit::default()), reads_only);
    }

    #[test]
    fn another_device_says_nothing() {
        let device = DeviceNumber { major: 25, minor: 4 };
        let read = |_: &'static str| Ok::<_, ()>("254:0 3000\n".into());
        assert_eq!(read_limit(CgroupVersion::V1, device, read).unwrap(), ReadLimit::default());
        assert_eq!(read_usage(CgroupVersion::V2, device, read).unwrap(), ReadUsage::default());
    }
}
