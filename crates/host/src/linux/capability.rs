use std::env;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use tempfile::NamedTempFile;

use super::block_device::{BlockDevice, read_block_device};
use super::cgroup::{
    CgroupVersion, DeviceLimit, DiskLimit, ReadLimit, WriteLimit, memory_directory_of, read_memory_limit,
};
use super::direct_read::{ALIGNMENT, AlignedBuffer, DirectFile};
use super::machine::{read_file_system, read_loadable_memory, read_memory, read_mount, read_pressure};
use super::own_program::find_in_path;
use super::page_cache::{DROP_CACHES, PageCache as _, SystemPageCache, test_visibility};
use super::{Error, process};
use crate::failure::{AS_OWNER, Capability, Explain as _, Lack, quote_argument};
use crate::files::Tree;
use crate::units::{Bytes, PageRange};

type Found = Result<String, Lack>;

const PROGRAMS: [&str; 2] = ["vmtouch", "fio"];

const SCRATCH_BYTES: usize = 4 << 20;

const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The kernel's type descriptions; without them, a BPF program runs only on the kernel it was built for.
const BTF: &str = "/sys/kernel/btf/vmlinux";

/// setcap replaces a file's capabilities, so the command names all three.
pub const BPF_REMEDY: &str =
    "run pgthaw as root, or: `setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v pgthaw)`";

/// A limit too high to slow any read.
const HARMLESS: ReadLimit =
    ReadLimit { reads_per_second: Some(1_000_000_000), read_bytes_per_second: Some(Bytes(1_000_000_000_000)) };

#[derive(Clone, Debug, Default)]
pub struct HostTarget {
    pub data_directory: Option<PathBuf>,
    pub data_file: Option<PathBuf>,
    pub files: Option<Arc<Tree>>,
    pub server_pid: Option<u32>,
}

impl HostTarget {
    fn page_cache(&self) -> SystemPageCache {
        self.files.as_ref().map_or_else(SystemPageCache::new, SystemPageCache::of)
    }

    fn device(&self) -> Result<BlockDevice, Error> {
        read_block_device(self.data_directory.as_deref().unwrap_or("/var/tmp".as_ref()))
    }
}

/// Writes only to a scratch file and an empty cgroup.
pub fn check_host(target: &HostTarget) -> Vec<Capability> {
    [
        ("page cache", "os", check_residency(target)),
        ("page cache", "evict", check_eviction(target)),
        ("page cache", "page-flags", check_activity()),
        ("page cache", "drop-caches", check_drop_caches()),
        ("page cache", "memory", check_memory(target)),
        ("reading", "direct-io", check_direct_io(target)),
        ("reading", "io-uring", check_io_uring()),
        ("disk", "device", check_device(target)),
        ("disk", "disk-limit", check_disk_limit(target)),
        ("watching", "bpf", check_bpf()),
        ("watching", "tracepoints", check_tracepoints()),
        ("watching", "pressure", check_pressure()),
    ]
    .map(|(group, name, found)| Capability::of(group, name, found))
    .into()
}

pub fn check_programs() -> Vec<Capability> {
    let check = |name: &'static str| {
        let found = find_in_path(name, &[]).map(|file| file.display().to_string());
        let found = found.ok_or_else(|| Lack::new("not in PATH", format!("`apt-get install {name}`")));
        Capability::of("other tools", name, found)
    };
    PROGRAMS.map(check).into()
}

fn check_residency(target: &HostTarget) -> Found {
    let Some(file) = &target.data_file else {
        return Err(Lack::new("no data file can be read", "see data-dir above"));
    };
    let file_system = read_file_system(file);
    if let Some(reason) = why_not_cached(&file_system) {
        return Err(Lack::new(reason, "move the data to ext4, xfs or btrfs, or use --tier buffers"));
    }
    let test = test_visibility(&target.page_cache(), file)?;
    if !test.mincore_is_true {
        return Err(Lack::new(format!("mincore reports absent pages of {} as resident", file.display()), AS_OWNER));
    }
    let cachestat = match test.cachestat {
        Ok(true) => "cachestat and mincore work",
        Ok(false) => "mincore works (cachestat returns 0 for cached pages here: counting is slower)",
        Err(_) => "mincore works (cachestat does not: counting is slower)",
    };
    Ok(format!("{cachestat}: tested on {} ({file_system})", file.display()))
}

fn why_not_cached(file_system: &str) -> Option<&'static str> {
    match file_system {
        "zfs" => Some("ZFS has its own cache (ARC), which does not show cached data by file"),
        "tmpfs" | "ramfs" => Some("the data is in memory only: always resident, nothing to warm"),
        _ => None,
    }
}

fn check_eviction(target: &HostTarget) -> Found {
    // A file system in memory never evicts.
    let temporary = env::temp_dir();
    let is_on_disk = read_mount(&temporary).is_ok_and(|mount| why_not_cached(&mount.fs_type).is_none());
    let directory = if is_on_disk { temporary } else { "/var/tmp".into() };
    let (stayed, pages) = evict_scratch_file(&directory)?;
    // Pages in use stay cached. If more than 5 % stay, the file system does not evict.
    if stayed * 20 > pages {
        let detail = format!("{stayed} of {pages} pages of a scratch file in {} were not evicted", directory.display());
        return Err(Lack::new(detail, "`pgthaw evict --drop-caches` (needs root)"));
    }
    if let Some(error) = target.data_file.as_deref().and_then(|file| target.page_cache().open(file).err()) {
        return Err(Lack::new(error.to_string(), error.hint().unwrap_or_else(|| AS_OWNER.into())));
    }
    Ok(format!("evicted a scratch file in {}: {stayed} of {pages} pages stayed cached", directory.display()))
}

fn evict_scratch_file(directory: &Path) -> Result<(u64, u64), Error> {
    let scratch = write_scratch_file(directory, SCRATCH_BYTES)?;
    let cache = SystemPageCache::new();
    let pages = PageRange::new(0, SCRATCH_BYTES as u64 / cache.page_bytes());
    let is_gone = || Error::file("open", scratch.path(), io::ErrorKind::NotFound.into());
    let file = cache.open(scratch.path())?.ok_or_else(is_gone)?;
    file.apply_evict()?;
    Ok((file.read_counts(pages)?.cached, pages.pages()))
}

fn write_scratch_file(directory: &Path, bytes: usize) -> Result<NamedTempFile, Error> {
    let failed = |error| Error::file("write a scratch file in", directory, error);
    let mut scratch = NamedTempFile::new_in(directory).map_err(failed)?;
    scratch.write_all(&vec![7; bytes]).map_err(failed)?;
    Ok(scratch)
}

fn check_activity() -> Found {
    SystemPageCache::new().test_activity()?;
    Ok("/proc/kpageflags shows which pages were read more than once".to_owned())
}

fn check_drop_caches() -> Found {
    let remedy = "run pgthaw as root (in a container: `docker run --privileged`)";
    match OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(_) => Ok(format!("{DROP_CACHES} is writable")),
        Err(error) => Err(Lack::new(format!("cannot open {DROP_CACHES} for writing: {error}"), remedy)),
    }
}

/// Loaded data is charged to pgthaw's cgroup, which needs as much room as the server's.
fn check_memory(target: &HostTarget) -> Found {
    let own_pid = std::process::id();
    let (total, own) = (read_memory()?.total_bytes, read_loadable_memory(own_pid)?.bytes);
    let server_pid = target.server_pid.filter(|pid| process::is_alive(*pid));
    if let Some((pid, limit)) = server_pid.and_then(|pid| Some((pid, narrower_limit(pid)?))) {
        let detail = format!("pgthaw's cgroup allows {limit} of page cache, less than the server's cgroup");
        let remedy = match memory_directory_of(pid) {
            Ok(directory) => {
                let processes = quote_argument(&directory.join("cgroup.procs").display().to_string());
                format!("`echo $$ > {processes}` (as root), then run pgthaw in that shell")
            }
            Err(error) => error.to_string(),
        };
        return Err(Lack::new(detail, remedy));
    }
    let of_total = format!("{own} of the machine's {total} of memory can hold loaded data");
    Ok(match read_memory_limit(own_pid) {
        Ok(Some(limit)) => format!("{of_total}; the cgroup's limit is {}", limit.limit_bytes),
        Ok(None) => format!("{of_total}; no cgroup limit"),
        Err(_) => format!("{of_total}; cgroups are not visible"),
    })
}

fn narrower_limit(server_pid: u32) -> Option<Bytes> {
    let own = read_memory_limit(std::process::id()).ok()??;
    let server = read_memory_limit(server_pid).ok()?;
    server.is_none_or(|server| server.limit_bytes > own.limit_bytes).then(|| own.room_bytes())
}

fn check_direct_io(target: &HostTarget) -> Found {
    let tried = match &target.data_file {
        Some(file) => open_directly(target, file).and_then(read_directly).map(|()| file.display().to_string()),
        None => write_scratch_file(&env::temp_dir(), ALIGNMENT)
            .and_then(|scratch| DirectFile::open(scratch.path()).and_then(read_directly))
            .map(|()| "a scratch file".to_owned()),
    };
    match tried {
        Ok(what) => Ok(format!("O_DIRECT reads of {what} work")),
        Err(Error::File { path, source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
            let file_system = read_mount(&path).map_or("this file system".to_owned(), |mount| mount.fs_type);
            Err(Lack::new(format!("{file_system} does not support O_DIRECT"), "move the data to ext4, xfs or btrfs"))
        }
        Err(error) => Err(error.into()),
    }
}

fn open_directly(target: &HostTarget, file: &Path) -> Result<DirectFile, Error> {
    match target.files.as_ref().and_then(|files| Some((files, file.strip_prefix(files.path()).ok()?))) {
        Some((files, below)) => DirectFile::open_below(files, below),
        None => DirectFile::open(file),
    }
}

fn read_directly(file: DirectFile) -> Result<(), Error> {
    file.read_at(0, ALIGNMENT, &mut AlignedBuffer::new(ALIGNMENT)).map(drop)
}

fn check_io_uring() -> Found {
    match setup_io_uring() {
        Ok(_) => Ok("an io_uring instance can be created".to_owned()),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Err(Lack::new("the kernel has no io_uring", "use Linux 5.6 or later (pgthaw also reads without io_uring)"))
        }
        Err(error) => Err(Lack::new(
            error.to_string(),
            "sysctl kernel.io_uring_disabled=0; in a container: --security-opt seccomp=unconfined (pgthaw also reads without io_uring)",
        )),
    }
}

fn setup_io_uring() -> io::Result<OwnedFd> {
    /// `struct io_uring_params` of `include/uapi/linux/io_uring.h`.
    const PARAMETERS_BYTES: usize = 120;
    let mut parameters = [0_u64; PARAMETERS_BYTES / size_of::<u64>()];
    // SAFETY: the kernel reads and fills `parameters`, which has the struct's size and alignment, during the call only.
    let ring = Errno::result(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(ring as i32) })
}

fn check_device(target: &HostTarget) -> Found {
    let disk = target.device()?;
    let kind =
        if disk.is_rotational { "rotational (many virtual disks wrongly report this)" } else { "not rotational" };
    Ok(format!(
        "{} ({}), {kind}, read-ahead {}, largest request {}",
        disk.name, disk.number, disk.read_ahead_bytes, disk.max_request_bytes
    ))
}

fn check_disk_limit(target: &HostTarget) -> Found {
    let version = if DiskLimit::available()? == CgroupVersion::V2 { "v2" } else { "v1" };
    let disk = target.device()?;
    let limit = DeviceLimit { number: disk.number, reads: HARMLESS, writes: WriteLimit::default() };
    DiskLimit::create(vec![limit], false, None)?.remove()?;
    Ok(format!("cgroup {} accepted a limit for {} ({})", version, disk.name, disk.number))
}

fn check_bpf() -> Found {
    match load_empty_program() {
        Ok(_) if !Path::new(BTF).exists() => Err(Lack::new(
            format!("BPF programs load, but there is no {BTF}"),
            "use a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's and Ubuntu's are",
        )),
        Ok(_) => Ok(format!("a BPF program loads, and {BTF} exists")),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Err(Lack::new("the kernel has no bpf(2)", "use a kernel built with CONFIG_BPF_SYSCALL=y"))
        }
        Err(error) => Err(Lack::new(format!("bpf(2) rejected an empty program: {error}"), BPF_REMEDY)),
    }
}

pub fn counts_program_time() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|text| text.trim() == "1")
}

/// Part of `union bpf_attr` (`include/uapi/linux/bpf.h`) for loading a program.
#[repr(C)]
struct LoadProgram {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
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
    };
    // SAFETY: the struct has the layout of bpf_attr for BPF_PROG_LOAD, its size is passed, and its pointers are to
    // static data.
    let program =
        unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const attributes, size_of::<LoadProgram>()) };
    let program = Errno::result(program)?;
    // SAFETY: the call succeeded, so it returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(program as i32) })
}

fn check_tracepoints() -> Found {
    const FETCHED: &str = "filemap:mm_filemap_add_to_page_cache";
    const REQUESTED: &str = "filemap:mm_filemap_get_pages";
    let roots = TRACEFS.map(Path::new);
    let Some(events) = roots.iter().map(|root| root.join("events")).find(|events| events.is_dir()) else {
        let is_closed =
            |root: &&Path| std::fs::read_dir(root).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
        return Err(match roots.into_iter().find(is_closed) {
            Some(root) => Lack::new(format!("this user cannot read {}", root.display()), "run pgthaw as root"),
            None => Lack::new("tracefs is not mounted", "`mount -t tracefs tracefs /sys/kernel/tracing` (as root)"),
        });
    };
    let has = |name: &str| events.join(name.replace(':', "/")).is_dir();
    match (has(REQUESTED), has(FETCHED)) {
        (true, true) => Ok(format!("{REQUESTED} (includes hits) and {FETCHED}")),
        (false, true) => Ok(format!("{FETCHED}; {REQUESTED} (includes hits) requires Linux 6.12")),
        _ => Err(Lack::new("the kernel has no filemap events", "use a kernel built with CONFIG_FTRACE=y")),
    }
}

fn check_pressure() -> Found {
    let lack =
        || Lack::new("the kernel does not measure I/O pressure (PSI)", "boot with psi=1 on the kernel's command line");
    let percent = read_pressure("io")?.ok_or_else(lack)?.some_ratio_avg10 * 100.0;
    Ok(format!("tasks waited for I/O in {percent:.0} % of the last ten seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = directory.path().join("1262");
        std::fs::write(&file, vec![7; 8192]).unwrap();
        let targets = [
            HostTarget::default(),
            HostTarget {
                data_directory: Some(directory.path().to_owned()),
                data_file: Some(file),
                files: None,
                server_pid: Some(std::process::id()),
            },
        ];
        for target in targets {
            for capability in check_host(&target) {
                assert!(!capability.detail.is_empty(), "{capability:?}");
                assert_eq!(capability.ok, capability.remedy.is_none(), "{capability:?}");
            }
        }
    }

    #[test]
    fn an_own_file_is_visible_and_evictable() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = directory.path().join("1262");
        std::fs::write(&file, vec![7; 8192]).unwrap();
        let target = HostTarget {
            data_directory: Some(directory.path().to_owned()),
            data_file: Some(file),
            ..HostTarget::default()
        };
        let residency = check_residency(&target);
        assert!(residency.is_ok(), "{residency:?}");
        let eviction = check_eviction(&target);
        assert!(eviction.is_ok(), "{eviction:?}");
    }
}
