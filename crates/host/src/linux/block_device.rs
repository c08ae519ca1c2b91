use std::collections::BTreeMap;
use std::fs;
use std::ops::Add;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use procfs::Current as _;
use procfs::DiskStats;

use super::Error;
use super::device_number::DeviceNumber;
use super::machine::read_mount;
use crate::units::Bytes;

/// Unit of /proc/diskstats, whatever the device's sector size.
const SECTOR_BYTES: u64 = 512;

/// VM_READAHEAD_PAGES of include/linux/mm.h.
pub const DEFAULT_READ_AHEAD: Bytes = Bytes(128 << 10);

const IDENTITIES: [&str; 6] = ["wwid", "device/wwid", "device/serial", "serial", "dm/uuid", "md/uuid"];

/// A whole disk, logical volume or loop device, never a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Such as `nvme0n1`.
    pub name: String,
    pub number: DeviceNumber,
    /// Identifier (if unknown, name and number) plus size, since some hypervisors give all disks one serial number.
    pub identity: String,
    pub is_rotational: bool,
    /// Also the most that one posix_fadvise(WILLNEED) loads.
    pub read_ahead_bytes: Bytes,
    pub max_request_bytes: Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Empty if unknown, as for virtio.
    pub model: String,
    /// From the disk up to its bus: `virtio_blk`, `virtio-pci`. Empty for stacked devices.
    pub drivers: Vec<String>,
    /// `write back` or `write through`, if known.
    pub write_cache: String,
}

/// Totals of a device since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    pub reads: u64,
    pub read_bytes: Bytes,
    pub writes: u64,
    pub written_bytes: Bytes,
    /// Milliseconds with at least one request in flight.
    pub busy_ms: u64,
    pub in_flight: u64,
    /// Sum of all reads' durations.
    pub read_ms: u64,
    pub write_ms: u64,
    /// Sum of all requests' durations; divided by elapsed milliseconds, the mean queue length.
    pub queued_ms: u64,
}

impl Add for DeviceCounters {
    type Output = DeviceCounters;

    fn add(self, other: DeviceCounters) -> DeviceCounters {
        crate::fieldwise!(DeviceCounters, self.add(other):
            reads, read_bytes, writes, written_bytes, busy_ms, in_flight, read_ms, write_ms, queued_ms)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// `None` without a device, as on tmpfs.
    pub main: Option<DeviceNumber>,
    /// Devices by part of the cluster, such as the WAL; if empty, `main` holds all.
    pub parts: BTreeMap<&'static str, DeviceNumber>,
}

impl Devices {
    pub fn read(&self) -> Result<Option<DeviceCounters>, Error> {
        let one = self.main.filter(|_| self.parts.is_empty());
        let each = one.iter().chain(self.parts.values()).map(|device| read_device_counters(*device));
        Ok(each.collect::<Result<Vec<_>, _>>()?.into_iter().reduce(DeviceCounters::add))
    }

    pub fn read_parts(&self) -> BTreeMap<&'static str, DeviceCounters> {
        let read = |(name, device): (&&'static str, &DeviceNumber)| Some((*name, read_device_counters(*device).ok()?));
        self.parts.iter().filter_map(read).collect()
    }
}

impl From<Option<DeviceNumber>> for Devices {
    fn from(main: Option<DeviceNumber>) -> Devices {
        Devices { main, parts: BTreeMap::new() }
    }
}

/// `Error::NoBlockDevice` without a disk (tmpfs, overlay, network).
pub fn read_block_device(path: &Path) -> Result<BlockDevice, Error> {
    let metadata = fs::metadata(path).map_err(|error| Error::file("look at", path, error))?;
    let of_file = DeviceNumber::from_raw(metadata.dev());
    // Major 0: file systems such as btrfs have no device number.
    let number = if of_file.major == 0 { source_device(path)? } else { of_file };
    let no_device = |reason| Error::NoBlockDevice { path: path.to_owned(), reason };
    let directory = disk_directory(number);
    let directory = directory.ok_or_else(|| no_device(format!("/sys/dev/block has no device {number}")))?;
    read_disk(&directory).ok_or_else(|| no_device(format!("{} cannot be read", directory.display())))
}

pub fn read_named_device(name: &str) -> Option<BlockDevice> {
    read_disk(&Path::new("/sys/block").join(name))
}

pub fn find_read_ahead(file_device: u64) -> Option<Bytes> {
    let directory = disk_directory(DeviceNumber::from_raw(file_device))?;
    read_kilobytes(&directory.join("queue/read_ahead_kb"))
}

fn source_device(path: &Path) -> Result<DeviceNumber, Error> {
    let no_device = |reason| Error::NoBlockDevice { path: path.to_owned(), reason };
    let mount = read_mount(path)?;
    let source = Path::new(mount.mount_source.as_deref().unwrap_or_default());
    let reason = format!("its file system is {}", mount.fs_type);
    if !source.is_absolute() {
        return Err(no_device(reason));
    }
    let metadata =
        fs::metadata(source).map_err(|error| no_device(format!("{reason}, {}: {error}", source.display())))?;
    match DeviceNumber::from_raw(metadata.rdev()) {
        DeviceNumber { major: 0, .. } => Err(no_device(reason)),
        number => Ok(number),
    }
}

fn disk_directory(number: DeviceNumber) -> Option<PathBuf> {
    fs::canonicalize(format!("/sys/dev/block/{number}")).ok().and_then(whole_disk)
}

fn whole_disk(directory: PathBuf) -> Option<PathBuf> {
    if directory.join("partition").exists() { directory.parent().map(Path::to_owned) } else { Some(directory) }
}

fn read_disk(directory: &Path) -> Option<BlockDevice> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let kilobytes = |name: &str| read_kilobytes(&directory.join(name));
    let name = directory.file_name()?.to_string_lossy().into_owned();
    let number = DeviceNumber::parse(&read("dev")?)?;
    let identities = IDENTITIES.iter().filter_map(|file| read(file)).map(|text| text.trim().to_owned());
    let identity = identities.into_iter().find(|text| !text.is_empty());
    Some(BlockDevice {
        identity: format!("{}-{}", identity.unwrap_or_else(|| format!("{name}-{number}")), read("size")?.trim()),
        name,
        number,
        is_rotational: read("queue/rotational")?.trim() == "1",
        read_ahead_bytes: kilobytes("queue/read_ahead_kb")?,
        max_request_bytes: kilobytes("queue/max_sectors_kb")?,
    })
}

fn read_kilobytes(file: &Path) -> Option<Bytes> {
    fs::read_to_string(file).ok()?.trim().parse::<u64>().ok().map(|kilobytes| Bytes(kilobytes << 10))
}

pub fn read_controller(number: DeviceNumber) -> Controller {
    disk_directory(number).map(|directory| read_behind(&directory)).unwrap_or_default()
}

fn read_behind(disk: &Path) -> Controller {
    let read = |name: &str| fs::read_to_string(disk.join(name)).map(|text| text.trim().to_owned()).unwrap_or_default();
    let driver = |of: &Path| Some(fs::read_link(of.join("driver")).ok()?.file_name()?.to_string_lossy().into_owned());
    Controller {
        model: read("device/model"),
        drivers: disk.ancestors().filter_map(driver).collect(),
        write_cache: read("queue/write_cache"),
    }
}

pub fn read_device_counters(number: DeviceNumber) -> Result<DeviceCounters, Error> {
    let DiskStats(devices) = DiskStats::current().map_err(|error| Error::proc("read /proc/diskstats", error))?;
    let is_meant = |major: i32, minor: i32| (major as u32, minor as u32) == (number.major, number.minor);
    let found = devices.into_iter().find(|device| is_meant(device.major, device.minor));
    let device = found.ok_or_else(|| Error::Unavailable {
        what: "counting a disk's reads",
        reason: format!("/proc/diskstats has no device {number}"),
        remedy: "mount /proc of the host".into(),
    })?;
    Ok(DeviceCounters {
        reads: device.reads,
        read_bytes: Bytes(device.sectors_read * SECTOR_BYTES),
        writes: device.writes,
        written_bytes: Bytes(device.sectors_written * SECTOR_BYTES),
        busy_ms: device.time_in_progress,
        in_flight: device.in_progress,
        read_ms: device.time_reading,
        write_ms: device.time_writing,
        queued_ms: device.weighted_time_in_progress,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_no_disk() {
        let error = read_block_device("/proc".as_ref()).unwrap_err();
        assert!(matches!(&error, Error::NoBlockDevice { reason, .. } if reason.contains("proc")), "{error}");
    }

    #[test]
    fn finds_the_disk_and_its_counters() {
        match read_block_device("/var/tmp".as_ref()) {
            Ok(disk) => {
                assert!(Path::new("/sys/block").join(&disk.name).exists(), "{disk:?}");
                assert!(disk.max_request_bytes.0 > 0);
                assert!(read_device_counters(disk.number).unwrap().reads > 0);
            }
            Err(error) => assert!(matches!(error, Error::NoBlockDevice { .. }), "{error}"),
        }
    }

    #[test]
    fn a_controller_is_told_by_the_drivers_above_its_disk() {
        let system = tempfile::tempdir().unwrap();
        let disk = system.path().join("pci0000:00/0000:00:1f.2/host0/0:0:0:0/block/sda");
        for (name, text) in [("device/model", "PERC H730 \n"), ("queue/write_cache", "write back\n")] {
            fs::create_dir_all(disk.join(name).parent().unwrap()).unwrap();
            fs::write(disk.join(name), text).unwrap();
        }
        for (of, driver) in
            [("0000:00:1f.2/host0/0:0:0:0", "scsi/drivers/sd"), ("0000:00:1f.2", "pci/drivers/megaraid_sas")]
        {
            let link = system.path().join("pci0000:00").join(of).join("driver");
            std::os::unix::fs::symlink(Path::new("/sys/bus").join(driver), link).unwrap();
        }
        let expected = Controller {
            model: "PERC H730".into(),
            drivers: vec!["sd".into(), "megaraid_sas".into()],
            write_cache: "write back".into(),
        };
        assert_eq!(read_behind(&disk), expected);
    }

    #[test]
    fn a_partition_leads_to_its_disk() {
        let system = tempfile::tempdir().unwrap();
        let disk = system.path().join("sda");
        for (name, text) in [
            ("sda1/partition", "1\n"),
            ("dev", "8:0\n"),
            ("device/wwid", "naa.5000c500\n"),
            ("size", "2048\n"),
            ("queue/rotational", "1\n"),
            ("queue/read_ahead_kb", "128\n"),
            ("queue/max_sectors_kb", "1280\n"),
        ] {
            let file = disk.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let expected = BlockDevice {
            name: "sda".into(),
            number: DeviceNumber { major: 8, minor: 0 },
            identity: "naa.5000c500-2048".into(),
            is_rotational: true,
            read_ahead_bytes: Bytes(131_072),
            max_request_bytes: Bytes(1_310_720),
        };
        assert_eq!(whole_disk(disk.join("sda1")), Some(disk.clone()));
        assert_eq!(read_disk(&whole_disk(disk).unwrap()), Some(expected));
    }
}
