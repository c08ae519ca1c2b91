use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::num::NonZero;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, OnceLock};

use rustix::fs::{Access, Advice, AtFlags, CWD, OFlags, accessat, fadvise, fstat, major, minor};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

use super::kernel::{PageTables, count_cached, page_bytes, visit_resident};
use super::{Activity, CachedFile, InOrder, PageCache, PageCounts, Window, append};
use crate::files::{Tree, open_regular_with};
use crate::linux::Error;
use crate::linux::block_device::find_read_ahead;
use crate::linux::direct_read::{Extent, read_extents};
use crate::linux::threads::lock;
use crate::units::{Bytes, PageRange};

#[derive(Clone, Debug, Default)]
pub struct SystemPageCache {
    /// Files that may be opened; `None` allows any.
    files: Option<Arc<Tree>>,
}

impl SystemPageCache {
    /// Access to any file; follows links.
    pub fn new() -> SystemPageCache {
        SystemPageCache::default()
    }

    /// Access to the files of a tree only. Paths must start with the tree's path.
    pub fn of(files: &Arc<Tree>) -> SystemPageCache {
        SystemPageCache { files: Some(Arc::clone(files)) }
    }

    fn open_file(&self, path: &Path) -> io::Result<SystemFile> {
        let file = match &self.files {
            None => open_without_atime(|flags| open_regular_with(path, flags)),
            Some(files) => {
                let outside = || io::Error::new(io::ErrorKind::InvalidInput, "it is not in the data directory");
                let below = path.strip_prefix(files.path()).map_err(|_| outside())?;
                open_without_atime(|flags| files.open_file_with(below, flags))
            }
        };
        SystemFile::new(file?, path)
    }
}

impl PageCache for SystemPageCache {
    fn open(&self, path: &Path) -> Result<Option<Box<dyn CachedFile>>, Error> {
        match self.open_file(path) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::file("open", path, error)),
        }
    }

    fn page_bytes(&self) -> u64 {
        page_bytes()
    }

    fn read_window(&self, file_system: u64) -> Option<Window> {
        find_read_ahead(file_system).and_then(Window::of)
    }

    fn test_activity(&self) -> Result<(), Error> {
        const PAGES: u64 = 1024;
        let failed = |source| Error::Call { action: "write a scratch file", source };
        let mut scratch = tempfile::tempfile().map_err(failed)?;
        // A single write of all pages could become one large folio.
        let page = vec![7; page_bytes() as usize];
        (0..PAGES).try_for_each(|_| scratch.write_all(&page)).map_err(failed)?;
        let file = SystemFile::new(scratch, Path::new("a scratch file")).map_err(failed)?;
        let half = PAGES / 2;
        let mut buffer = vec![0; (half * page_bytes()) as usize];
        for _ in 0..3 {
            file.apply_read(half * page_bytes(), &mut buffer)?;
        }
        settle_lists(&page).map_err(failed)?;
        let count_active = |range: PageRange| {
            let mut active = 0;
            let mut count = |run: PageRange, activity| active += run.pages() * u64::from(activity >= Activity::Active);
            file.visit_activity(range, &mut count).map(|()| active)
        };
        let (seldom, often) = (count_active(PageRange::new(0, half))?, count_active(PageRange::new(half, PAGES))?);
        match (seldom < half / 4, often > half * 3 / 4) {
            (true, true) => Ok(()),
            _ => Err(no_activity(format!(
                "in a scratch file, the kernel marks as active {often} of {half} pages that were read three times, and {seldom} of {half} pages that were not read"
            ))),
        }
    }
}

/// Tries to drop a dirty page. This fails, but makes the kernel move recently used pages to its active list now, not in
/// batches per processor (`mm/swap.c`).
fn settle_lists(page: &[u8]) -> io::Result<()> {
    let mut dirty = tempfile::tempfile()?;
    dirty.write_all(page)?;
    Ok(fadvise(&dirty, 0, None, Advice::DontNeed)?)
}

#[derive(Debug)]
pub struct VisibilityTest {
    /// False if mincore(2) reports absent pages as present, because this user lacks permission.
    pub mincore_is_true: bool,
    pub cachestat: io::Result<bool>,
}

/// Skips the privilege check of `read_resident`.
pub fn test_visibility(cache: &SystemPageCache, path: &Path) -> Result<VisibilityTest, Error> {
    const PAGES: u64 = 16;
    let failed = |error| Error::file("look at", path, error);
    let file = cache.open_file(path).map_err(|error| Error::file("open", path, error))?;
    let pages = file.pages().end;
    let absent = PageRange::new(pages + PAGES, pages + 2 * PAGES);
    let mut present = 0;
    visit_resident(file.file.as_fd(), absent, |run| present += run.pages()).map_err(failed)?;
    let counted = file.ask_cachestat(absent).map(|_| file.is_counted(file.pages()));
    Ok(VisibilityTest { mincore_is_true: present == 0, cachestat: counted })
}

fn page_tables() -> Result<&'static PageTables, Error> {
    static TABLES: OnceLock<Result<PageTables, String>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| PageTables::open().map_err(|error| error.to_string()));
    tables.as_ref().map_err(|error| no_activity(format!("/proc/kpageflags: {error}")))
}

fn no_activity(reason: String) -> Error {
    Error::Unavailable {
        what: "detecting repeated reads of pages",
        reason,
        remedy:
            "run pgthaw as root (otherwise it estimates page use from earlier snapshots or the server's statistics)"
                .into(),
    }
}

/// Keeps the access time, where permitted (owner or CAP_FOWNER).
fn open_without_atime<T>(open: impl Fn(OFlags) -> io::Result<T>) -> io::Result<T> {
    match open(OFlags::RDONLY | OFlags::NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(OFlags::RDONLY),
        opened => opened,
    }
}

/// Whether cachestat(2) counts a file system's pages, by device number. On overlayfs it counts 0 (Linux 6.18).
static COUNTED: Mutex<BTreeMap<u64, bool>> = Mutex::new(BTreeMap::new());

#[derive(Debug)]
struct SystemFile {
    file: File,
    path: PathBuf,
    size_bytes: u64,
    owner: u32,
    file_system: u64,
    /// Read-ahead was switched off for this file.
    is_advised: Once,
}

impl SystemFile {
    fn new(file: File, path: &Path) -> io::Result<SystemFile> {
        let facts = fstat(&file)?;
        Ok(SystemFile {
            file,
            path: path.to_owned(),
            size_bytes: facts.st_size as u64,
            owner: facts.st_uid,
            file_system: facts.st_dev,
            is_advised: Once::new(),
        })
    }

    fn pages(&self) -> PageRange {
        PageRange::new(0, self.size_bytes.div_ceil(page_bytes()))
    }

    /// Repeats the check `can_do_mincore` of `mm/mincore.c`. If it fails, mincore(2) reports all pages as resident.
    fn is_residency_visible(&self) -> bool {
        self.owner == geteuid().as_raw()
            || (is_capable_of_fowner() && is_known_user(self.owner))
            || accessat(CWD, self.link(), Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    fn link(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    fn visit_resident(&self, range: PageRange, visit: impl FnMut(PageRange)) -> Result<(), Error> {
        if !self.is_residency_visible() {
            return Err(Error::ResidencyHidden(self.path.clone()));
        }
        visit_resident(self.file.as_fd(), range, visit)
            .map_err(|error| Error::file("list the cached pages of", &self.path, error))
    }

    fn ask_cachestat(&self, range: PageRange) -> io::Result<PageCounts> {
        count_cached(self.file.as_fd(), range.start * page_bytes(), range.pages() * page_bytes())
    }

    fn is_counted(&self, range: PageRange) -> bool {
        if let Some(known) = lock(&COUNTED).get(&self.file_system) {
            return *known;
        }
        let tested = self.test_counting(range);
        tested.inspect(|answer| _ = lock(&COUNTED).insert(self.file_system, *answer)).unwrap_or(true)
    }

    /// Compares cachestat(2) and mincore(2) on a cached page. If none is cached, reads a page and then drops it.
    fn test_counting(&self, range: PageRange) -> Option<bool> {
        let listed = self.read_resident(range).ok().and_then(|runs| runs.first().map(|run| run.start));
        let page = listed.unwrap_or(range.start);
        if listed.is_none() && self.apply_read(page * page_bytes(), &mut [0]).ok() != Some(1) {
            return None;
        }
        let page = PageRange::new(page, page + 1);
        let is_counted = self.ask_cachestat(page).ok()?.cached > 0;
        // Neither call sees ZFS pages. Without permission for mincore(2), `read_counts` fails later.
        let is_absent = !is_counted && self.read_resident(page).is_ok_and(|runs| runs.is_empty());
        if listed.is_none() {
            let _ = self.apply_drop(page);
        }
        Some(is_counted || is_absent)
    }
}

impl CachedFile for SystemFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_counts(&self, range: PageRange) -> Result<PageCounts, Error> {
        if range.is_empty() {
            return Ok(PageCounts::default());
        }
        match self.ask_cachestat(range) {
            Ok(counts) if counts.cached > 0 || self.is_counted(range) => return Ok(counts),
            Ok(_) => {}
            // A container's seccomp filter may cause EPERM, so mincore decides.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP)) => {}
            Err(error) => return Err(Error::file("count the cached pages of", &self.path, error)),
        }
        let mut counts = PageCounts::default();
        self.visit_resident(range, |run| counts.cached += run.pages())?;
        Ok(counts)
    }

    fn read_resident(&self, range: PageRange) -> Result<Vec<PageRange>, Error> {
        let mut runs = Vec::new();
        self.visit_resident(range, |run| append(&mut runs, run))?;
        Ok(runs)
    }

    fn visit_activity(&self, range: PageRange, visit: &mut dyn FnMut(PageRange, Activity)) -> Result<(), Error> {
        let visited = page_tables()?.visit_activity(self.file.as_fd(), range, visit);
        visited.map_err(|error| Error::file("read the page flags of", &self.path, error))
    }

    fn read_extents(&self) -> Result<Vec<Extent>, Error> {
        read_extents(self.file.as_fd()).map_err(|error| Error::file("read the extents of", &self.path, error))
    }

    fn apply_read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        // Callers request exactly what they need; read-ahead would use up part of a rate limit.
        self.is_advised.call_once(|| _ = fadvise(&self.file, 0, None, Advice::Random));
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::file("read", &self.path, error)),
            }
        }
        Ok(filled)
    }

    fn file_system(&self) -> u64 {
        self.file_system
    }

    fn open_in_order(&self, window: Window) -> Result<Box<dyn InOrder>, Error> {
        let failed = |error| Error::file("sequentially read", &self.path, error);
        let file = open_without_atime(|flags| open_regular_with(&self.link(), flags)).map_err(failed)?;
        let in_order = SystemInOrder::new(file, self.path.clone(), window).map_err(failed)?;
        Ok(Box::new(in_order))
    }

    fn apply_drop(&self, range: PageRange) -> Result<(), Error> {
        let Some(length) = NonZero::new(range.pages() * page_bytes()) else { return Ok(()) };
        fadvise(&self.file, range.start * page_bytes(), Some(length), Advice::DontNeed)
            .map_err(|error| Error::file("drop the cached pages of", &self.path, error.into()))
    }

    fn apply_evict(&self) -> Result<(), Error> {
        // To the kernel, no pages are all pages.
        if self.pages().is_empty() {
            return Ok(());
        }
        // A second try often drops pages that were in use or dirtied during the first.
        for _ in 0..2 {
            let counts = self.ask_cachestat(self.pages()).ok();
            let none_is_counted = counts.is_none_or(|counts| counts.cached == 0);
            if none_is_counted && self.read_resident(self.pages()).is_ok_and(|runs| runs.is_empty()) {
                return Ok(());
            }
            // The kernel never drops dirty pages. A sync also flushes the device's cache, which takes milliseconds.
            if none_is_counted || counts.is_some_and(|counts| counts.dirty + counts.writeback > 0) {
                self.file.sync_data().map_err(|error| Error::file("write out", &self.path, error))?;
            }
            fadvise(&self.file, 0, None, Advice::DontNeed)
                .map_err(|error| Error::file("drop the cached pages of", &self.path, error.into()))?;
        }
        Ok(())
    }
}

fn is_capable_of_fowner() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::FOWNER))
}

/// Whether CAP_FOWNER applies to files of this user. Users whom the user namespace does not map appear as the overflow
/// user.
fn is_known_user(uid: u32) -> bool {
    let read_number = |path| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let overflow = read_number("/proc/sys/kernel/overflowuid").unwrap_or(65534);
    uid != overflow || maps_every_user(&std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default())
}

fn maps_every_user(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

// ---- in order ----
//
// splice(2) passes page references from the file through a pipe to /dev/null. No splice is longer than the read-ahead
// window, beyond which the kernel reads page by page. Each ends at a multiple of the largest folio: a folio in two
// splices would count as used twice (`filemap_splice_read` of mm/filemap.c, `page_cache_ra_order` of mm/readahead.c).

/// Documentation/admin-guide/devices.txt of the kernel.
const NULL_DEVICE: (u32, u32) = (1, 3);

#[derive(Debug)]
pub struct SystemInOrder {
    file: File,
    path: PathBuf,
    splice_bytes: u64,
    reader: OwnedFd,
    writer: OwnedFd,
    nowhere: File,
}

impl SystemInOrder {
    /// Read-ahead state belongs to an open file, so no other reader may use `file`.
    pub fn new(file: File, path: PathBuf, window: Window) -> io::Result<SystemInOrder> {
        if window.is_doubled {
            fadvise(&file, 0, None, Advice::Sequential)?;
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&writer, window.bytes.0 as usize)?;
        let nowhere = open_null()?;
        Ok(SystemInOrder { file, path, splice_bytes: window.piece().0, reader, writer, nowhere })
    }

    fn bring(&self, mut offset: u64, bytes: usize) -> io::Result<u64> {
        let brought =
            retry_on_intr(|| splice(&self.file, Some(&mut offset), &self.writer, None, bytes, SpliceFlags::empty()))?;
        let mut left = brought;
        while left > 0 {
            left -= retry_on_intr(|| splice(&self.reader, None, &self.nowhere, None, left, SpliceFlags::empty()))?;
        }
        Ok(brought as u64)
    }
}

impl InOrder for SystemInOrder {
    fn apply_read(&mut self, range: PageRange) -> Result<Bytes, Error> {
        let (mut at, end) = (range.start * page_bytes(), range.end * page_bytes());
        while at < end {
            let bytes = (self.splice_bytes - at % self.splice_bytes).min(end - at);
            match self.bring(at, bytes as usize).map_err(|error| Error::file("read", &self.path, error))? {
                0 => break,
                brought => at += brought,
            }
        }
        Ok(Bytes(at - range.start * page_bytes()))
    }
}

/// Refuses a regular file in place of /dev/null: it would receive the data.
fn open_null() -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().write(true).custom_flags(nonblocking).open("/dev/null")?;
    let metadata = file.metadata()?;
    let number = (major(metadata.rdev()), minor(metadata.rdev()));
    match metadata.file_type().is_char_device() && number == NULL_DEVICE {
        true => Ok(file),
        false => Err(io::Error::other("/dev/null is not the null device")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_first_namespace() {
        assert!(maps_every_user("         0          0 4294967295\n"));
        assert!(!maps_every_user("         0       1000          1\n"));
    }

    #[test]
    fn a_missing_file_is_no_error() {
        assert!(SystemPageCache::new().open(Path::new("/nowhere/at/all")).unwrap().is_none());
    }
}
