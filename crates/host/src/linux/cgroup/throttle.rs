//! How the two versions write limits and counts of a device: `blkio.throttle.*` and `io.max`, `io.stat`.

use super::hierarchy::CgroupVersion;
use crate::linux::DeviceNumber;
use crate::units::Bytes;

const V1_READS_LIMIT: &str = "blkio.throttle.read_iops_device";
const V1_BYTES_LIMIT: &str = "blkio.throttle.read_bps_device";
const V1_WRITES_LIMIT: &str = "blkio.throttle.write_iops_device";
const V1_WRITTEN_BYTES_LIMIT: &str = "blkio.throttle.write_bps_device";
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

/// A limit on what is written to a device. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteLimit {
    pub writes_per_second: Option<u64>,
    pub written_bytes_per_second: Option<Bytes>,
}

/// What the processes of a cgroup have read from a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadUsage {
    pub reads: u64,
    pub read_bytes: Bytes,
}

/// What has to be written to which file to set a limit on reads.
pub fn limit_lines(version: CgroupVersion, device: DeviceNumber, limit: ReadLimit) -> Vec<(&'static str, String)> {
    let bytes = limit.read_bytes_per_second.map(|bytes| bytes.0);
    let files = [(V1_READS_LIMIT, "riops", limit.reads_per_second), (V1_BYTES_LIMIT, "rbps", bytes)];
    lines_of(version, device, files)
}

/// What has to be written to which file to set a limit on writes.
pub fn write_limit_lines(
    version: CgroupVersion,
    device: DeviceNumber,
    limit: WriteLimit,
) -> Vec<(&'static str, String)> {
    let bytes = limit.written_bytes_per_second.map(|bytes| bytes.0);
    let files = [(V1_WRITES_LIMIT, "wiops", limit.writes_per_second), (V1_WRITTEN_BYTES_LIMIT, "wbps", bytes)];
    lines_of(version, device, files)
}

fn lines_of(
    version: CgroupVersion,
    device: DeviceNumber,
    [operations, bytes]: [(&'static str, &str, Option<u64>); 2],
) -> Vec<(&'static str, String)> {
    match version {
        CgroupVersion::V1 => [operations, bytes]
            .into_iter()
            .filter_map(|(file, _, value)| Some((file, format!("{device} {}", value?))))
            .collect(),
        CgroupVersion::V2 => {
            let word = |value: Option<u64>| value.map_or("max".to_owned(), |value| value.to_string());
            let words = [bytes, operations].map(|(_, key, value)| format!("{key}={}", word(value)));
            vec![(V2_LIMIT, format!("{device} {}", words.join(" ")))]
        }
    }
}

/// What has to be written to which file to end every limit on a device.
pub fn lines_without_limit(version: CgroupVersion, device: DeviceNumber) -> Vec<(&'static str, String)> {
    match version {
        CgroupVersion::V1 => [V1_READS_LIMIT, V1_BYTES_LIMIT, V1_WRITES_LIMIT, V1_WRITTEN_BYTES_LIMIT]
            .map(|file| (file, format!("{device} 0")))
            .into(),
        CgroupVersion::V2 => vec![(V2_LIMIT, format!("{device} rbps=max riops=max wbps=max wiops=max"))],
    }
}

/// The limit on reads that is in force, from the files that `read` gives.
pub fn read_limit<E>(
    version: CgroupVersion,
    device: DeviceNumber,
    read: impl Fn(&'static str) -> Result<String, E>,
) -> Result<ReadLimit, E> {
    let files = [(V1_READS_LIMIT, "riops"), (V1_BYTES_LIMIT, "rbps")];
    let [reads_per_second, bytes] = figures_in_force(version, device, files, read)?;
    Ok(ReadLimit { reads_per_second, read_bytes_per_second: bytes.map(Bytes) })
}

/// The limit on writes that is in force, from the files that `read` gives.
pub fn read_write_limit<E>(
    version: CgroupVersion,
    device: DeviceNumber,
    read: impl Fn(&'static str) -> Result<String, E>,
) -> Result<WriteLimit, E> {
    let files = [(V1_WRITES_LIMIT, "wiops"), (V1_WRITTEN_BYTES_LIMIT, "wbps")];
    let [writes_per_second, bytes] = figures_in_force(version, device, files, read)?;
    Ok(WriteLimit { writes_per_second, written_bytes_per_second: bytes.map(Bytes) })
}

fn figures_in_force<E>(
    version: CgroupVersion,
    device: DeviceNumber,
    [operations, bytes]: [(&'static str, &str); 2],
    read: impl Fn(&'static str) -> Result<String, E>,
) -> Result<[Option<u64>; 2], E> {
    match version {
        CgroupVersion::V1 => {
            Ok([v1_value(&read(operations.0)?, device, None), v1_value(&read(bytes.0)?, device, None)])
        }
        CgroupVersion::V2 => {
            let text = read(V2_LIMIT)?;
            Ok([v2_value(&text, device, operations.1), v2_value(&text, device, bytes.1)])
        }
    }
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
    fn writes_have_limits_of_their_own() {
        let limit = WriteLimit { writes_per_second: Some(400), written_bytes_per_second: Some(Bytes(1 << 20)) };
        let v1 = write_limit_lines(CgroupVersion::V1, DEVICE, limit);
        assert_eq!(v1, [(V1_WRITES_LIMIT, "254:0 400".into()), (V1_WRITTEN_BYTES_LIMIT, "254:0 1048576".into())]);
        let v2 = write_limit_lines(CgroupVersion::V2, DEVICE, limit);
        assert_eq!(v2, [(V2_LIMIT, "254:0 wbps=1048576 wiops=400".into())]);
        let read = |name: &'static str| match name {
            V1_WRITES_LIMIT => Ok::<_, ()>("254:0 400\n".into()),
            V1_WRITTEN_BYTES_LIMIT => Ok("254:0 1048576\n".into()),
            _ => Ok("254:0 rbps=max wbps=1048576 riops=max wiops=400\n".into()),
        };
        for version in [CgroupVersion::V1, CgroupVersion::V2] {
            assert_eq!(read_write_limit(version, DEVICE, read), Ok(limit));
        }
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
