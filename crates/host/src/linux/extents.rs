//! Where on its device a file lies (ioctl FS_IOC_FIEMAP).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Contiguous bytes of a file that are contiguous on the device too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte of the extent in the file.
    pub start: u64,
    /// First byte of the extent on the device, or the logical volume.
    pub device_start: u64,
    pub bytes: u64,
}

/// `_IOWR('f', 11, struct fiemap)` of `include/uapi/linux/fs.h`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;

/// Flags of an extent (`include/uapi/linux/fiemap.h`): the last one of the file, and one whose place is not known.
const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;

/// Extents that are asked for at a time.
const EXTENTS: usize = 64;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap`, with room for the answer.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS],
}

/// The extents of a file, in its order. EOPNOTSUPP where the file system does not tell.
pub fn read_extents(file: BorrowedFd<'_>) -> io::Result<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut map = Fiemap {
            start,
            length: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: EXTENTS as u32,
            reserved: 0,
            extents: [FiemapExtent::default(); EXTENTS],
        };
        // SAFETY: the struct has the kernel's layout, says how many extents it has room for, and outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = &map.extents[..(map.mapped_extents as usize).min(EXTENTS)];
        let known = mapped.iter().filter(|extent| extent.flags & UNKNOWN == 0);
        found.extend(known.map(|extent| Extent {
            start: extent.logical,
            device_start: extent.physical,
            bytes: extent.length,
        }));
        match mapped.last() {
            // A file system that goes back would be asked for ever.
            Some(last) if last.flags & LAST == 0 && last.logical.saturating_add(last.length) > start => {
                start = last.logical.saturating_add(last.length);
            }
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn every_byte_of_a_file_has_a_place() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; 3 << 20]).unwrap();
        file.sync_all().unwrap();
        let extents = match read_extents(file.as_fd()) {
            Ok(extents) => extents,
            // Those in memory, for one.
            Err(error) => untested!(machine: "this file system does not tell: {error}"),
        };
        let ends: Vec<u64> = extents.iter().map(|extent| extent.start + extent.bytes).collect();
        assert!(extents.iter().skip(1).zip(&ends).all(|(extent, end)| extent.start == *end), "{extents:?}");
        assert!(extents[0].start == 0 && ends.last().is_some_and(|end| *end >= 3 << 20), "{extents:?}");
    }
}
