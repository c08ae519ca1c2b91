//! Seeing and emptying the page cache.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::host_target::HostTarget;
use crate::failure::{Capability, Explain as _};
use crate::linux::Error;
use crate::linux::machine::read_mount;
use crate::linux::page_cache::{PageCache as _, SystemPageCache, test_visibility};
use crate::units::PageRange;

const GROUP: &str = "page cache";
const SCRATCH_BYTES: usize = 4 << 20;
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
const AS_OWNER: &str = "run pgthaw as the owner of the data directory (usually postgres) or as root";
const NAME_DIRECTORY: &str = "what data-dir above lacks";

/// Does the kernel say truly which pages of the data are cached?
pub fn check_residency(target: &HostTarget) -> Capability {
    const NAME: &str = "os";
    let Some(file) = &target.data_file else {
        return Capability::no(GROUP, NAME, "no data file can be looked at", NAME_DIRECTORY);
    };
    let file_system = read_mount(file).map_or("unknown".to_owned(), |mount| mount.file_system);
    if let Some(reason) = why_not_cached(&file_system) {
        return Capability::no(
            GROUP,
            NAME,
            reason,
            "move the data to ext4, xfs or btrfs, or use the buffers tier alone",
        );
    }
    match test_visibility(&target.page_cache(), file) {
        Err(error) => Capability::failed(GROUP, NAME, &error),
        Ok(test) if !test.mincore_is_true => Capability::no(
            GROUP,
            NAME,
            format!("mincore says that absent pages of {} are resident", file.display()),
            AS_OWNER,
        ),
        Ok(test) => {
            let cachestat = match test.cachestat {
                Ok(()) => "cachestat and mincore answer",
                Err(_) => "mincore answers (cachestat does not: counting is slower)",
            };
            Capability::yes(GROUP, NAME, format!("{cachestat} truly for {} ({file_system})", file.display()))
        }
    }
}

/// File systems whose files are not in the page cache, or only there.
fn why_not_cached(file_system: &str) -> Option<&'static str> {
    match file_system {
        "zfs" => Some("ZFS keeps its data in a cache of its own (ARC), which cannot be seen file by file"),
        "tmpfs" | "ramfs" => Some("the data is in memory only: always resident, nothing to warm"),
        _ => None,
    }
}

/// Can the cache be emptied of a file without root? Tried on a scratch file.
pub fn check_eviction(target: &HostTarget) -> Capability {
    const NAME: &str = "evict";
    let directory = scratch_directory();
    let (stayed, pages) = match evict_scratch_file(&directory) {
        Ok(found) => found,
        Err(error) => return Capability::failed(GROUP, NAME, &error),
    };
    // A page that someone is just looking at stays; more than that is a file system that does not evict.
    if stayed * 20 > pages {
        let detail = format!("{stayed} of {pages} pages of a scratch file in {} stayed", directory.display());
        return Capability::no(GROUP, NAME, detail, "`pgthaw evict --drop-caches` (needs root)");
    }
    let unreadable = target.data_file.as_deref().and_then(|file| target.page_cache().open(file).err());
    if let Some(error) = unreadable {
        let remedy = error.hint().unwrap_or_else(|| AS_OWNER.into());
        return Capability::no(GROUP, NAME, error.to_string(), remedy);
    }
    let detail = format!("a scratch file in {} went: {stayed} of {pages} pages stayed", directory.display());
    Capability::yes(GROUP, NAME, detail)
}

/// Where scratch files go: not to a file system in memory, which never evicts.
fn scratch_directory() -> PathBuf {
    let temporary = std::env::temp_dir();
    let is_on_disk = read_mount(&temporary).is_ok_and(|mount| why_not_cached(&mount.file_system).is_none());
    if is_on_disk { temporary } else { "/var/tmp".into() }
}

/// Pages of a scratch file that stayed cached after its eviction, and all of its pages.
fn evict_scratch_file(directory: &Path) -> Result<(u64, u64), Error> {
    let failed = |error| Error::file("write a scratch file in", directory, error);
    let mut scratch = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    scratch.write_all(&vec![7; SCRATCH_BYTES]).map_err(failed)?;
    let cache = SystemPageCache::new();
    let pages = PageRange::new(0, SCRATCH_BYTES as u64 / cache.page_bytes());
    let file = cache.open(scratch.path())?.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
    file.apply_evict()?;
    Ok((file.read_counts(pages)?.cached, pages.pages()))
}

/// Does the kernel tell pages that were read often from others?
pub fn check_activity() -> Capability {
    const NAME: &str = "page-flags";
    match SystemPageCache::new().test_activity() {
        Ok(()) => Capability::yes(GROUP, NAME, "/proc/kpageflags tells which pages were read more than once"),
        Err(error) => Capability::failed(GROUP, NAME, &error),
    }
}

/// May all caches of the machine be dropped? Only opened, never written to.
pub fn check_drop_caches() -> Capability {
    const NAME: &str = "drop-caches";
    match OpenOptions::new().write(true).open(DROP_CACHES) {
        Ok(_) => Capability::yes(GROUP, NAME, format!("{DROP_CACHES} can be written")),
        Err(error) => {
            let detail = format!("cannot open {DROP_CACHES} for writing: {error}");
            Capability::no(GROUP, NAME, detail, "run pgthaw as root (in a container: `docker run --privileged`)")
        }
    }
}
