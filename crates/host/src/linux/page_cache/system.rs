//! The machine's own page cache.

use std::fs::File;
use std::io::{self, Write as _};
use std::num::NonZero;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Access, Advice, AtFlags, CWD, OFlags, accessat, fadvise};
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities};

use super::in_order::SystemInOrder;
use super::page_flags::PageTables;
use super::window::Window;
use super::{Activity, CachedFile, InOrder, PageCache, PageCounts, cachestat, mincore};
use crate::files::{Tree, open_regular_with};
use crate::linux::Error;
use crate::linux::block_device::find_read_ahead;
use crate::linux::extents::{Extent, read_extents};
use crate::units::PageRange;

/// The page cache of the machine that this runs on.
#[derive(Clone, Debug)]
pub struct SystemPageCache {
    /// Where the files are; any that is named, of `None`.
    files: Option<Arc<Tree>>,
    facts: Facts,
}

/// What stays the same while this process lives.
#[derive(Clone, Copy, Debug)]
struct Facts {
    page_bytes: u64,
    capable_of_fowner: bool,
}

impl SystemPageCache {
    /// For files that this process makes or that its user names, through links if he likes: asks once for the size of a page and
    /// for this process's capabilities.
    pub fn new() -> SystemPageCache {
        let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        let facts = Facts {
            page_bytes: rustix::param::page_size() as u64,
            capable_of_fowner: effective.contains(CapabilitySet::FOWNER),
        };
        SystemPageCache { files: None, facts }
    }

    /// For the files of a tree alone: regular ones of its owner, through no link. Their paths begin with the tree's.
    pub fn of(files: &Arc<Tree>) -> SystemPageCache {
        SystemPageCache { files: Some(Arc::clone(files)), ..SystemPageCache::new() }
    }

    fn open_file(&self, path: &Path) -> io::Result<File> {
        match &self.files {
            None => open_without_atime(|flags| open_regular_with(path, flags)),
            Some(files) => {
                let outside = || io::Error::new(io::ErrorKind::InvalidInput, "it is not in the data directory");
                let below = path.strip_prefix(files.path()).map_err(|_| outside())?;
                open_without_atime(|flags| files.open_file_with(below, flags))
            }
        }
    }

    /// Looks at the pages of an open file.
    fn adopt(&self, file: File, path: &Path) -> Result<SystemFile, Error> {
        let metadata = file.metadata().map_err(|error| Error::file("look at", path, error))?;
        // No read-ahead: who reads through this knows which bytes it wants, and a limited disk pays for the others.
        fadvise(&file, 0, None, Advice::Random).map_err(|error| Error::file("advise on", path, error.into()))?;
        Ok(SystemFile {
            file,
            path: path.to_owned(),
            size_bytes: metadata.size(),
            owner: metadata.uid(),
            file_system: metadata.dev(),
            cache: self.facts,
        })
    }
}

impl Default for SystemPageCache {
    fn default() -> SystemPageCache {
        SystemPageCache::new()
    }
}

impl PageCache for SystemPageCache {
    fn open(&self, path: &Path) -> Result<Option<Box<dyn CachedFile>>, Error> {
        let file = match self.open_file(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("open", path, error)),
        };
        self.adopt(file, path).map(|file| Some(Box::new(file) as Box<dyn CachedFile>))
    }

    fn page_bytes(&self) -> u64 {
        self.facts.page_bytes
    }

    fn read_window(&self, file_system: u64) -> Option<Window> {
        find_read_ahead(file_system).and_then(Window::of)
    }

    fn test_activity(&self) -> Result<(), Error> {
        const PAGES: u64 = 1024;
        let failed = |source| Error::Call { action: "write a scratch file", source };
        let mut scratch = tempfile::tempfile().map_err(failed)?;
        // Page by page: what is written at once may become one large folio.
        let page = vec![7; self.page_bytes() as usize];
        (0..PAGES).try_for_each(|_| scratch.write_all(&page)).map_err(failed)?;
        let file = self.adopt(scratch, Path::new("a scratch file"))?;
        let half = PAGES / 2;
        let mut buffer = vec![0; (half * self.page_bytes()) as usize];
        for _ in 0..3 {
            file.apply_read(half * self.page_bytes(), &mut buffer)?;
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
                "of {half} pages of a scratch file that were read three times {often} are active, of {half} others {seldom}"
            ))),
        }
    }
}

/// Makes the kernel move the pages that were read last to the lists where they belong: it does so in batches for each
/// processor (`mm/swap.c`), and for all of them at once when a page cannot be dropped, as one that was just written to.
fn settle_lists(page: &[u8]) -> io::Result<()> {
    let mut dirty = tempfile::tempfile()?;
    dirty.write_all(page)?;
    Ok(fadvise(&dirty, 0, None, Advice::DontNeed)?)
}

/// What the kernel answers when it is asked for pages that cannot be there.
#[derive(Debug)]
pub struct VisibilityTest {
    /// Does mincore(2) say that they are absent? Of a file that it keeps secret it says that all are present.
    pub mincore_is_true: bool,
    /// How cachestat(2) refused, if it did.
    pub cachestat: io::Result<()>,
}

/// Asks for pages past the end of a file, which are never cached, without the privilege check that
/// [`CachedFile::read_resident`] makes first.
pub fn test_visibility(cache: &SystemPageCache, path: &Path) -> Result<VisibilityTest, Error> {
    const PAGES: u64 = 16;
    let failed = |error| Error::file("look at", path, error);
    let file = cache.open_file(path).map_err(|error| Error::file("open", path, error))?;
    let page_bytes = cache.page_bytes();
    let start = file.metadata().map_err(failed)?.size().div_ceil(page_bytes) + PAGES;
    let mut present = 0;
    let absent = PageRange::new(start, start + PAGES);
    mincore::visit_resident(file.as_fd(), page_bytes, absent, |run| present += run.pages()).map_err(failed)?;
    let counted = cachestat::count(file.as_fd(), start * page_bytes, PAGES * page_bytes);
    Ok(VisibilityTest { mincore_is_true: present == 0, cachestat: counted.map(drop) })
}

/// The kernel's tables, opened once for this process.
fn page_tables() -> Result<&'static PageTables, Error> {
    static TABLES: OnceLock<Result<PageTables, String>> = OnceLock::new();
    let tables = TABLES.get_or_init(|| PageTables::open().map_err(|error| error.to_string()));
    tables.as_ref().map_err(|error| no_activity(format!("/proc/kpageflags: {error}")))
}

fn no_activity(reason: String) -> Error {
    Error::Unavailable {
        what: "seeing how often pages were read",
        reason,
        remedy:
            "run pgthaw as root (snapshots go by what earlier ones hold, or by the server's statistics, without it)"
                .into(),
    }
}

/// Opens without changing the time of last access, which only the owner and CAP_FOWNER may ask for.
fn open_without_atime(open: impl Fn(OFlags) -> io::Result<File>) -> io::Result<File> {
    match open(OFlags::RDONLY | OFlags::NOATIME) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => open(OFlags::RDONLY),
        opened => opened,
    }
}

#[derive(Debug)]
struct SystemFile {
    file: File,
    path: PathBuf,
    size_bytes: u64,
    owner: u32,
    file_system: u64,
    cache: Facts,
}

impl SystemFile {
    /// Would mincore(2) tell the truth? It answers "all resident" otherwise. This is `can_do_mincore` of the kernel's
    /// `mm/mincore.c`: the owner, CAP_FOWNER over an owner that this user namespace knows, or who may write the file.
    fn is_residency_visible(&self) -> bool {
        self.owner == geteuid().as_raw()
            || (self.cache.capable_of_fowner && is_known_user(self.owner))
            || accessat(CWD, self.link(), Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    /// The open file itself as a path, whatever became of its name.
    fn link(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    fn visit_resident(&self, range: PageRange, visit: impl FnMut(PageRange)) -> Result<(), Error> {
        if !self.is_residency_visible() {
            return Err(Error::ResidencyHidden(self.path.clone()));
        }
        mincore::visit_resident(self.file.as_fd(), self.cache.page_bytes, range, visit)
            .map_err(|error| Error::file("list the cached pages of", &self.path, error))
    }

    fn count_with_mincore(&self, range: PageRange) -> Result<PageCounts, Error> {
        let mut counts = PageCounts::default();
        self.visit_resident(range, |run| counts.cached += run.pages())?;
        Ok(counts)
    }

    /// Dirty pages are never dropped, so they are written first.
    fn write_and_drop(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::file("write out", &self.path, error))?;
        fadvise(&self.file, 0, None, Advice::DontNeed)
            .map_err(|error| Error::file("drop the cached pages of", &self.path, error.into()))
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
        let page_bytes = self.cache.page_bytes;
        match cachestat::count(self.file.as_fd(), range.start * page_bytes, range.pages() * page_bytes) {
            Ok(counts) => Ok(counts),
            // EPERM may also be a container's filter of system calls: mincore's own test decides.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM | libc::EOPNOTSUPP)) => {
                self.count_with_mincore(range)
            }
            Err(error) => Err(Error::file("count the cached pages of", &self.path, error)),
        }
    }

    fn read_resident(&self, range: PageRange) -> Result<Vec<PageRange>, Error> {
        let mut runs = Vec::new();
        self.visit_resident(range, |run| runs.push(run))?;
        Ok(runs)
    }

    fn visit_activity(&self, range: PageRange, visit: &mut dyn FnMut(PageRange, Activity)) -> Result<(), Error> {
        let tables = page_tables()?;
        tables
            .visit_activity(self.file.as_fd(), self.cache.page_bytes, range, visit)
            .map_err(|error| Error::file("read the page flags of", &self.path, error))
    }

    fn read_extents(&self) -> Result<Vec<Extent>, Error> {
        read_extents(self.file.as_fd()).map_err(|error| Error::file("find on its device", &self.path, error))
    }

    fn apply_read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
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
        let failed = |error| Error::file("read in order", &self.path, error);
        let file = open_without_atime(|flags| open_regular_with(&self.link(), flags)).map_err(failed)?;
        let in_order = SystemInOrder::new(file, self.path.clone(), window, self.cache.page_bytes).map_err(failed)?;
        Ok(Box::new(in_order))
    }

    fn apply_drop(&self, range: PageRange) -> Result<(), Error> {
        let page_bytes = self.cache.page_bytes;
        let Some(length) = NonZero::new(range.pages() * page_bytes) else { return Ok(()) };
        fadvise(&self.file, range.start * page_bytes, Some(length), Advice::DontNeed)
            .map_err(|error| Error::file("drop the cached pages of", &self.path, error.into()))
    }

    fn apply_evict(&self) -> Result<(), Error> {
        self.write_and_drop()?;
        // Pages that another process was just using, or that were dirtied meanwhile, often go at the second try.
        let everything = PageRange::new(0, self.size_bytes.div_ceil(self.cache.page_bytes));
        match self.read_counts(everything) {
            Ok(counts) if counts.cached == 0 => Ok(()),
            Ok(_) | Err(Error::ResidencyHidden(_)) => self.write_and_drop(),
            Err(error) => Err(error),
        }
    }
}

/// Has this user namespace a number for the owner? Without one the kernel shows its overflow user, and CAP_FOWNER says
/// nothing about the file.
fn is_known_user(uid: u32) -> bool {
    let read_number = |path| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let overflow = read_number("/proc/sys/kernel/overflowuid").unwrap_or(65534);
    uid != overflow || maps_every_user(&std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default())
}

/// Is this the uid_map of a namespace that knows every user, as the first one does?
fn maps_every_user(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
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
