//! Attaches a program in the kernel to a place of a program's file. Every process that runs the file stops there from then on.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use super::UserProbe;
use crate::linux::Error;

/// `struct perf_event_attr` of `include/uapi/linux/perf_event.h` as it was when probes were added to it.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    path: u64,
    offset: u64,
}

/// What `BPF_LINK_CREATE` takes for an event, of `union bpf_attr` (`include/uapi/linux/bpf.h`).
#[repr(C)]
struct LinkAttributes {
    program: u32,
    event: u32,
    kind: u32,
    flags: u32,
    cookie: u64,
}

const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_PERF_EVENT: u32 = 41;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// Where among the event's bits the semaphore's place stands (/sys/bus/event_source/devices/uprobe/format/ref_ctr_offset).
const SEMAPHORE_SHIFT: u32 = 32;

/// A place where processes stop. Dropping it, or the end of this process however it comes, lets them pass again.
#[derive(Debug)]
pub struct AttachedProbe {
    // In the order in which they have to go.
    _link: OwnedFd,
    _event: OwnedFd,
}

/// Has a loaded program run whenever a process comes by at the probe, in the file that `pid` runs; it is told `cookie`. While it is
/// attached the kernel counts that in the probe's semaphore in all processes.
pub fn attach_user_probe(
    program: BorrowedFd<'_>,
    pid: u32,
    probe: &UserProbe,
    cookie: u64,
) -> Result<AttachedProbe, Error> {
    let failed = |source| Error::Call { action: "attach to a probe of the server's program", source };
    let event = open_event(pid, probe).map_err(failed)?;
    let link = link(program, &event, cookie).map_err(failed)?;
    Ok(AttachedProbe { _link: link, _event: event })
}

fn open_event(pid: u32, probe: &UserProbe) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let kind = kind.trim().parse().map_err(io::Error::other)?;
    // The kernel has 32 bits for it: cut to these it would be another place.
    let semaphore = u32::try_from(probe.semaphore.unwrap_or(0)).map_err(io::Error::other)?;
    let path = CString::new(format!("/proc/{pid}/exe")).map_err(io::Error::other)?;
    let attributes = EventAttributes {
        kind,
        size: size_of::<EventAttributes>() as u32,
        config: u64::from(semaphore) << SEMAPHORE_SHIFT,
        path: path.as_ptr() as u64,
        offset: probe.offset,
        ..EventAttributes::default()
    };
    let (everybody, processor, group) = (-1, 0, -1);
    // SAFETY: the attributes and the path have the kernel's layout and outlive the call, which keeps no pointer to them.
    let event = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everybody,
            processor,
            group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    own(event)
}

fn link(program: BorrowedFd<'_>, event: &OwnedFd, cookie: u64) -> io::Result<OwnedFd> {
    let attributes = LinkAttributes {
        program: program.as_raw_fd() as u32,
        event: event.as_raw_fd() as u32,
        kind: BPF_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: the attributes have the kernel's layout and outlive the call; both descriptors are open.
    let link =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_LINK_CREATE, &raw const attributes, size_of::<LinkAttributes>()) };
    own(link)
}

/// The descriptor that a system call gave.
fn own(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for this process, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
