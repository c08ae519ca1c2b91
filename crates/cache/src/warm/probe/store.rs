//! Stored device profiles: a JSON file per device and limit.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Measurement;
use crate::warm::device_profile::file_name_of;
use crate::warm::{DEVICES, DeviceProfile, Error, Result, state_directory};
use host::files::{SMALL_FILE_BYTES_MAX, read_at_most, write_whole};
use host::linux::block_device::BlockDevice;
use host::linux::cgroup::ReadLimit;

const PROFILE: &str = "the device's profile";

const FORMAT: u32 = 1;

/// A rate above this multiple of the limit was measured before the limit took effect.
const UNFELT_RATIO: f64 = 1.15;

/// Accepted values in a stored profile, which is untrusted text.
const LARGEST_READ: std::ops::RangeInclusive<u64> = 4096..=16 << 20;
const DEPTHS: std::ops::RangeInclusive<u32> = 1..=1024;

/// Longest plausible latency of a lone read.
const ALONE_SECONDS_MAX: f64 = 1.0;

/// Result of probing a device, stored in `$XDG_STATE_HOME/pgthaw/devices/IDENTITY[.riops-N][.rbps-N].json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct DeviceRecord {
    /// Version of the format: 1.
    pub format: u32,
    pub measured_at: Timestamp,
    pub device: StoredDevice,
    /// Limit of the probe's cgroup. The profile is used only under this limit.
    pub limit: ReadLimit,
    pub measurement: Measurement,
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StoredDevice {
    pub name: String,
    /// Device number, such as `259:0`.
    pub major_minor: String,
    /// Such as serial number and size.
    pub identity: String,
    pub rotational: bool,
}

impl DeviceRecord {
    /// If the probe ended before the cgroup's limit took effect (after tenths of a second), the profile gets that
    /// limit.
    pub fn new(
        device: &BlockDevice,
        limit: ReadLimit,
        mut measurement: Measurement,
        mut remarks: Vec<String>,
    ) -> DeviceRecord {
        let profile = &mut measurement.profile;
        let most_reads = limit.reads_per_second.map_or(f64::MAX, |most| most as f64);
        let most_bytes = limit.read_bytes_per_second.unwrap_or(profile.bandwidth);
        if profile.reads_per_second > most_reads * UNFELT_RATIO
            || profile.bandwidth.0 as f64 > most_bytes.0 as f64 * UNFELT_RATIO
        {
            // The measured overlap is that of the unlimited device.
            profile.overlap = 0.0;
            remarks.push(
                "the probe ended before the cgroup's I/O limit took effect, so the profile contains the configured limit instead of a measured rate; to measure under the limit, use a larger --probe=BYTES"
                    .into(),
            );
        }
        profile.reads_per_second = most_reads.min(profile.reads_per_second);
        profile.bandwidth = most_bytes.min(profile.bandwidth);
        DeviceRecord {
            format: FORMAT,
            measured_at: Timestamp::now(),
            device: StoredDevice {
                name: device.name.clone(),
                major_minor: device.number.to_string(),
                identity: device.identity.clone(),
                rotational: device.is_rotational,
            },
            limit,
            measurement,
            remarks,
        }
    }
}

fn read_record(text: &[u8]) -> Result<DeviceRecord, String> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    let wrong = |error: serde_json::Error| error.to_string();
    match serde_json::from_slice(text).map_err(wrong)? {
        Head { format: FORMAT } => {}
        Head { format } => return Err(format!("it has format {format}, but this pgthaw reads format {FORMAT}")),
    }
    let record: DeviceRecord = serde_json::from_slice(text).map_err(wrong)?;
    let DeviceProfile { reads_per_second, bandwidth, largest_read, depth, overlap, alone_seconds } =
        record.measurement.profile;
    let values = [
        ("its reads_per_second", reads_per_second.is_finite() && reads_per_second > 0.0),
        ("its bandwidth", bandwidth.0 > 0),
        ("its largest_read", LARGEST_READ.contains(&largest_read.0)),
        ("its depth", DEPTHS.contains(&depth)),
        ("its overlap", (0.0..=1.0).contains(&overlap)),
        ("its alone_seconds", (0.0..=ALONE_SECONDS_MAX).contains(&alone_seconds)),
    ];
    let flaw = values.into_iter().find(|(_, is_sound)| !is_sound);
    flaw.map_or(Ok(record), |(name, _)| Err(name.to_owned()))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileStore {
    directory: PathBuf,
}

impl ProfileStore {
    pub fn open() -> ProfileStore {
        ProfileStore { directory: state_directory().join(DEVICES) }
    }

    /// Whether no profile is stored. Then callers need not identify the device, which is slow under load.
    pub fn is_empty(&self) -> bool {
        match self.directory.read_dir() {
            Ok(mut files) => files.next().is_none(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    pub fn find(&self, device: &BlockDevice, limit: ReadLimit) -> Result<Option<DeviceRecord>> {
        let path = self.path(&device.identity, limit);
        let text = match read_at_most(&path, SMALL_FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::StateFile { action: "read", what: PROFILE, path, source }),
        };
        read_record(&text).map(Some).map_err(|reason| Error::ProfileUnusable { path, reason })
    }

    /// Replaces the profile atomically.
    pub fn keep(&self, record: &DeviceRecord) -> Result<PathBuf> {
        let path = self.path(&record.device.identity, record.limit);
        let text = serde_json::to_vec_pretty(record).map_err(io::Error::from);
        match text.and_then(|text| write_whole(&path, &text)) {
            Ok(()) => Ok(path),
            Err(source) => Err(Error::StateFile { action: "write", what: PROFILE, path, source }),
        }
    }

    fn path(&self, identity: &str, limit: ReadLimit) -> PathBuf {
        let name = file_name_of(identity);
        let riops = limit.reads_per_second.map(|riops| format!(".riops-{riops}"));
        let rbps = limit.read_bytes_per_second.map(|rbps| format!(".rbps-{}", rbps.0));
        self.directory.join([Some(name), riops, rbps, Some(".json".into())].into_iter().flatten().collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::warm::probe::Fit;
    use host::linux::DeviceNumber;
    use host::units::Bytes;

    fn device() -> BlockDevice {
        BlockDevice {
            name: "vda".into(),
            number: DeviceNumber { major: 254, minor: 0 },
            identity: "../a b".into(),
            is_rotational: false,
            read_ahead_bytes: Bytes(1 << 17),
            max_request_bytes: Bytes(1 << 20),
        }
    }

    fn measurement() -> Measurement {
        Measurement {
            profile: DeviceProfile::default(),
            latency_us_p50: 100.25,
            latency_us_p99: 300.0,
            sequential_bandwidth: Bytes(1),
            by_depth: Vec::new(),
            by_size: Vec::new(),
            fit: Fit { reads_per_second: 1.0, bandwidth: Bytes(1), error_ratio_max: 0.5 },
            profile_error_ratio_max: 0.5,
            reads: 1,
            read_bytes: Bytes(1),
            seconds: 1.0,
            has_read_twice: false,
        }
    }

    #[test]
    fn a_device_has_a_profile_for_each_limit() {
        let directory = tempfile::tempdir().unwrap();
        let store = ProfileStore { directory: directory.path().join("devices") };
        let limit = ReadLimit { reads_per_second: Some(3000), read_bytes_per_second: None };
        assert_eq!(store.find(&device(), limit).unwrap(), None);
        assert!(store.is_empty(), "nor does it have a directory");
        let record = DeviceRecord::new(&device(), limit, measurement(), vec!["x".into()]);
        let path = store.keep(&record).unwrap();
        assert_eq!(path.file_name().unwrap(), "___a_b.riops-3000.json");
        assert_eq!(store.find(&device(), limit).unwrap(), Some(record));
        assert!(!store.is_empty());
        assert_eq!(store.find(&device(), ReadLimit::default()).unwrap(), None);
    }

    #[test]
    fn no_profile_promises_more_than_its_limit() {
        let limit = ReadLimit { reads_per_second: Some(2000), read_bytes_per_second: Some(Bytes(100 << 20)) };
        let record = DeviceRecord::new(&device(), limit, measurement(), Vec::new());
        let profile = record.measurement.profile;
        assert_eq!((profile.reads_per_second, profile.bandwidth), (2000.0, Bytes(100 << 20)));
        assert!(
            record.remarks[0].starts_with("the probe ended before the cgroup's I/O limit took effect"),
            "{:?}",
            record.remarks
        );
        let felt = ReadLimit { reads_per_second: Some(2900), read_bytes_per_second: Some(Bytes(120 << 20)) };
        assert_eq!(DeviceRecord::new(&device(), felt, measurement(), Vec::new()).remarks, Vec::<String>::new());
        let free = DeviceRecord::new(&device(), ReadLimit::default(), measurement(), Vec::new());
        assert_eq!(free.measurement.profile, DeviceProfile::default());
    }

    #[test]
    fn what_cannot_be_planned_with_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = ProfileStore { directory: directory.path().to_owned() };
        let mut record = DeviceRecord::new(&device(), ReadLimit::default(), measurement(), Vec::new());
        record.measurement.profile.bandwidth = Bytes(0);
        let path = store.keep(&record).unwrap();
        let refused = |text: &str| {
            let error = store.find(&device(), ReadLimit::default()).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        refused("bandwidth");
        record.format = 2;
        store.keep(&record).unwrap();
        refused("format 2, but this pgthaw reads format 1");
        fs::write(path, "{").unwrap();
        refused("EOF");
    }
}
