//! Watching what the kernel does.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::Path;

use crate::failure::Capability;
use crate::linux::pressure::{Resource, read_pressure};

const GROUP: &str = "watching";

/// Where tracefs is mounted: by itself, or as every debugfs has it.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Types of the kernel, which a probe needs to run on a kernel that it was not built for.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Can a program be loaded into the kernel? One that does nothing is.
pub fn check_bpf() -> Capability {
    const NAME: &str = "bpf";
    match load_empty_program() {
        Ok(_) if !Path::new(BTF).exists() => {
            let remedy = "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's and Ubuntu's are";
            Capability::no(GROUP, NAME, format!("programs load, but there is no {BTF}"), remedy)
        }
        Ok(_) => Capability::yes(GROUP, NAME, format!("a program could be loaded, and {BTF} is there")),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Capability::no(GROUP, NAME, "the kernel has no bpf(2)", "use a kernel built with CONFIG_BPF_SYSCALL=y")
        }
        Err(error) => Capability::no(GROUP, NAME, format!("bpf(2) refused an empty program: {error}"), BPF_REMEDY),
    }
}

/// What lets programs into the kernel and look at the server's processes, in words for people. Another set would take these away.
pub const BPF_REMEDY: &str =
    "run pgthaw as root, or: `setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v pgthaw)`";

/// Does the kernel count the time of all programs, whoever loaded them? (`kernel.bpf_stats_enabled`, Documentation/admin-guide/sysctl)
pub fn counts_program_time() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|text| text.trim() == "1")
}

/// The part of `union bpf_attr` (`include/uapi/linux/bpf.h`) that loading a program needs.
#[repr(C)]
#[derive(Default)]
struct LoadProgram {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

fn load_empty_program() -> io::Result<OwnedFd> {
    const BPF_PROG_LOAD: libc::c_int = 5;
    const BPF_PROG_TYPE_KPROBE: u32 = 2;
    // r0 = 0; exit
    static INSTRUCTIONS: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    let attributes = LoadProgram {
        program_type: BPF_PROG_TYPE_KPROBE,
        instruction_count: INSTRUCTIONS.len() as u32,
        instructions: INSTRUCTIONS.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..LoadProgram::default()
    };
    // SAFETY: the struct has the layout of that part of bpf_attr and says its own size; what it points to is static.
    let program =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<LoadProgram>()) };
    if program < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(program as i32) })
}

/// Can the page cache's own events be seen?
pub fn check_tracepoints() -> Capability {
    const NAME: &str = "tracepoints";
    const FETCHED: &str = "filemap:mm_filemap_add_to_page_cache";
    const REQUESTED: &str = "filemap:mm_filemap_get_pages";
    let Some(events) = TRACEFS.iter().map(|root| Path::new(root).join("events")).find(|events| events.is_dir()) else {
        return match find_closed(&TRACEFS.map(Path::new)) {
            Some(root) => {
                let detail = format!("{} is closed to this user", root.display());
                Capability::no(GROUP, NAME, detail, "run pgthaw as root")
            }
            None => {
                let remedy = "`mount -t tracefs tracefs /sys/kernel/tracing` (as root)";
                Capability::no(GROUP, NAME, "no tracefs is mounted", remedy)
            }
        };
    };
    let has = |name: &str| events.join(name.replace(':', "/")).is_dir();
    match (has(REQUESTED), has(FETCHED)) {
        (true, true) => Capability::yes(GROUP, NAME, format!("{REQUESTED} (hits too) and {FETCHED}")),
        (false, true) => Capability::yes(GROUP, NAME, format!("{FETCHED}; {REQUESTED} (hits too) needs Linux 6.12")),
        _ => Capability::no(GROUP, NAME, "the kernel has no filemap events", "use a kernel built with CONFIG_FTRACE=y"),
    }
}

/// The first of these directories that is there, and that this user may not look into.
fn find_closed<'a>(roots: &[&'a Path]) -> Option<&'a Path> {
    let is_closed =
        |root: &&Path| std::fs::read_dir(root).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    roots.iter().copied().find(is_closed)
}

/// Does the kernel measure how long is waited?
pub fn check_pressure() -> Capability {
    const NAME: &str = "pressure";
    match read_pressure(Resource::Io) {
        Ok(Some(pressure)) => {
            let percent = pressure.some_ratio_avg10 * 100.0;
            Capability::yes(GROUP, NAME, format!("tasks waited for I/O in {percent:.0} % of the last ten seconds"))
        }
        Ok(None) => Capability::no(
            GROUP,
            NAME,
            "the kernel does not measure it",
            "boot with psi=1 on the kernel's command line",
        ),
        Err(error) => Capability::failed(GROUP, NAME, &error),
    }
}
