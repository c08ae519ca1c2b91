//! Ways to read.

use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

use super::host_target::HostTarget;
use crate::failure::Capability;
use crate::linux::Error;
use crate::linux::direct_read::{ALIGNMENT, AlignedBuffer, DirectFile};
use crate::linux::machine::read_mount;

const GROUP: &str = "reading";

/// Can a file be read past the page cache?
pub fn check_direct_io(target: &HostTarget) -> Capability {
    const NAME: &str = "direct-io";
    let tried = match &target.data_file {
        Some(file) => read_data_file(target, file).map(|()| file.display().to_string()),
        None => read_scratch_file_directly().map(|()| "a scratch file".to_owned()),
    };
    match tried {
        Ok(what) => Capability::yes(GROUP, NAME, format!("O_DIRECT reads {what}")),
        Err(Error::File { path, source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
            let file_system = read_mount(&path).map_or("this file system".to_owned(), |mount| mount.file_system);
            Capability::no(GROUP, NAME, format!("{file_system} has no O_DIRECT"), "move the data to ext4, xfs or btrfs")
        }
        Err(error) => Capability::failed(GROUP, NAME, &error),
    }
}

fn read_scratch_file_directly() -> Result<(), Error> {
    let directory = std::env::temp_dir();
    let failed = |error| Error::file("write a scratch file in", &directory, error);
    let mut scratch = tempfile::NamedTempFile::new_in(&directory).map_err(failed)?;
    scratch.write_all(&[7; ALIGNMENT]).map_err(failed)?;
    read_directly(&DirectFile::open(scratch.path())?)
}

fn read_data_file(target: &HostTarget, file: &Path) -> Result<(), Error> {
    let below = target.files.as_ref().and_then(|files| Some((files, file.strip_prefix(files.path()).ok()?)));
    read_directly(&match below {
        Some((files, below)) => DirectFile::open_below(files, below)?,
        None => DirectFile::open(file)?,
    })
}

fn read_directly(file: &DirectFile) -> Result<(), Error> {
    file.read_at(0, ALIGNMENT, &mut AlignedBuffer::new(ALIGNMENT)).map(drop)
}

/// Can an io_uring be set up?
pub fn check_io_uring() -> Capability {
    const NAME: &str = "io-uring";
    match setup_io_uring() {
        Ok(_) => Capability::yes(GROUP, NAME, "a ring could be set up"),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Capability::no(GROUP, NAME, "the kernel has none", "use Linux 5.6 or newer (pgthaw reads without it)")
        }
        Err(error) => Capability::no(
            GROUP,
            NAME,
            error.to_string(),
            "sysctl kernel.io_uring_disabled=0; in a container: --security-opt seccomp=unconfined (pgthaw reads without it)",
        ),
    }
}

fn setup_io_uring() -> io::Result<OwnedFd> {
    /// Bytes of `struct io_uring_params` of `include/uapi/linux/io_uring.h`.
    const PARAMETERS_BYTES: usize = 120;
    let mut parameters = [0_u64; PARAMETERS_BYTES / size_of::<u64>()];
    // SAFETY: the kernel reads and fills `parameters`, which has the struct's size and alignment, during the call only.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    if ring < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(ring as i32) })
}
