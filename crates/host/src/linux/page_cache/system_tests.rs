use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Activity, CachedFile, PageCache as _, SystemPageCache, kernel, read_resident_pages, test_visibility};
use crate::failure::Explain as _;
use crate::linux::Error;
use crate::linux::machine::read_file_system;
use crate::units::PageRange;

const MEGABYTE: u64 = 1 << 20;

macro_rules! needs_activity {
    () => {
        needs_root!();
        if let Err(error) = SystemPageCache::new().test_activity() {
            assert!(error.hint().is_some(), "{error}");
            untested!(machine: "{error}");
        }
    };
}

/// On a real disk: tmpfs never evicts.
fn write_cold_file(size_bytes: u64) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("16384");
    let mut file = File::create(&path).unwrap();
    for piece in 0..size_bytes.div_ceil(MEGABYTE) {
        let bytes = MEGABYTE.min(size_bytes - piece * MEGABYTE);
        file.write_all(&vec![7; bytes as usize]).unwrap();
    }
    open(&path).apply_evict().unwrap();
    (directory, path)
}

fn open(path: &Path) -> Box<dyn CachedFile> {
    SystemPageCache::new().open(path).unwrap().unwrap()
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

fn count(runs: &[PageRange]) -> u64 {
    runs.iter().map(|run| run.pages()).sum()
}

#[test]
fn an_evicted_file_is_cold_and_a_read_one_is_warm() {
    let (_directory, path) = write_cold_file(70 * MEGABYTE + 1);
    let file = open(&path);
    let pages = (70 * MEGABYTE + 1).div_ceil(page_bytes());
    assert_eq!(file.size_bytes(), 70 * MEGABYTE + 1);
    assert!(count(&read_resident_pages(&*file, page_bytes()).unwrap()) < pages / 20);

    let mut buffer = vec![0; 71 * MEGABYTE as usize];
    assert_eq!(file.apply_read(0, &mut buffer).unwrap() as u64, 70 * MEGABYTE + 1);
    assert!(buffer[..1000].iter().all(|byte| *byte == 7));
    let runs = read_resident_pages(&*file, page_bytes()).unwrap();
    assert!(count(&runs) > pages * 19 / 20, "{runs:?}");
    assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "runs are in order and maximal: {runs:?}");
    assert!(runs.last().unwrap().end <= pages);

    let middle = PageRange::new(pages / 4, pages / 2);
    file.apply_drop(middle).unwrap();
    assert!(file.read_counts(middle).unwrap().cached < middle.pages() / 20);
    assert!(file.read_counts(PageRange::new(pages / 2, pages)).unwrap().cached > pages / 2 * 19 / 20);

    file.apply_evict().unwrap();
    assert!(file.read_counts(PageRange::new(0, pages)).unwrap().cached < pages / 20);
}

#[test]
fn finds_where_the_warm_part_is() {
    let (_directory, path) = write_cold_file(64 * MEGABYTE);
    let file = open(&path);
    let (start, end) = (40 * MEGABYTE / page_bytes(), 44 * MEGABYTE / page_bytes());
    file.apply_read(40 * MEGABYTE, &mut vec![0; 4 * MEGABYTE as usize]).unwrap();

    let runs = read_resident_pages(&*file, page_bytes()).unwrap();
    let inside: u64 = runs.iter().map(|run| run.end.min(end).saturating_sub(run.start.max(start))).sum();
    assert!(inside > (end - start) * 19 / 20, "{runs:?}");
    assert!(runs.iter().all(|run| run.start > start / 2), "{runs:?}");
}

#[test]
fn what_is_read_in_order_comes_and_nothing_else() {
    let (_directory, path) = write_cold_file(24 * MEGABYTE);
    let file = open(&path);
    let window = SystemPageCache::new().read_window(file.file_system());
    let Some(window) = window else { untested!(machine: "no common read-ahead") };
    let mut in_order = file.open_in_order(window).unwrap();
    let page = |megabyte: u64| megabyte * MEGABYTE / page_bytes();
    for (start, end) in [(page(4) + 5, page(5)), (page(5), page(12) + 3)] {
        let brought = in_order.apply_read(PageRange::new(start, end)).unwrap();
        assert_eq!(brought.0, (end - start) * page_bytes());
    }
    let count = |start, end| file.read_counts(PageRange::new(start, end)).unwrap().cached;
    let reach = window.reach().0 / page_bytes();
    assert_eq!(count(page(4) + 5, page(12) + 3), page(8) - 2);
    assert_eq!((count(0, page(4)), count(page(12) + 3 + reach, page(24))), (0, 0));
    assert_eq!(in_order.apply_read(PageRange::new(page(24), page(25))).unwrap().0, 0);
}

#[test]
fn mincore_counts_what_cachestat_counts() {
    let (_directory, path) = write_cold_file(16 * MEGABYTE);
    let file = open(&path);
    file.apply_read(2 * MEGABYTE, &mut vec![0; 3 * MEGABYTE as usize]).unwrap();
    let whole = PageRange::new(0, 16 * MEGABYTE / page_bytes());
    let listed = count(&file.read_resident(whole).unwrap());
    let descriptor = File::open(&path).unwrap();
    match kernel::count_cached(std::os::fd::AsFd::as_fd(&descriptor), 0, 16 * MEGABYTE) {
        Ok(counted) => assert!(counted.cached.abs_diff(listed) < whole.pages() / 20, "{counted:?}, {listed} listed"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

struct Mounted(PathBuf);

impl Mounted {
    fn new(kind: &str, place: &Path) -> Option<Mounted> {
        let image = place.with_extension("image");
        let [place_text, image_text] = [place, &image].map(|path| path.to_str().unwrap());
        fs::create_dir(place).unwrap();
        let is_made = match kind {
            "tmpfs" => succeeds("mount", &["-t", kind, "-o", "size=64m", kind, place_text]),
            "overlay" => {
                let below = ["lower", "upper", "work"].map(|name| place.with_extension(name));
                below.iter().for_each(|directory| fs::create_dir(directory).unwrap());
                let file = below[0].join("16384");
                fs::write(&file, vec![7; 4 * MEGABYTE as usize]).unwrap();
                // A sync through the overlay does not write the lower file.
                File::open(&file).unwrap().sync_all().unwrap();
                let [lower, upper, work] = below.each_ref().map(|directory| directory.to_str().unwrap());
                let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
                succeeds("mount", &["-t", kind, "-o", &options, kind, place_text])
            }
            _ => {
                // xfs needs at least this.
                File::create(&image).unwrap().set_len(320 * MEGABYTE).unwrap();
                let force = if kind == "ext4" { "-F" } else { "-f" };
                succeeds(&format!("mkfs.{kind}"), &["-q", force, image_text])
                    && succeeds("mount", &["-t", kind, "-o", "loop", image_text, place_text])
            }
        };
        is_made.then(|| Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeeds("umount", &["--lazy", self.0.to_str().unwrap()]);
    }
}

#[test]
fn cached_pages_are_counted_on_every_file_system() {
    needs_root!();
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let pages = PageRange::new(0, 4 * MEGABYTE / page_bytes());
    // The kernel would reuse the device number.
    let mut mounts = Vec::new();
    for kind in ["ext4", "xfs", "btrfs", "f2fs", "tmpfs", "overlay"] {
        let Some(mounted) = Mounted::new(kind, &directory.path().join(kind)) else { continue };
        assert_eq!(read_file_system(&mounted.0), kind);
        let path = mounted.0.join("16384");
        if kind != "overlay" {
            fs::write(&path, vec![7; 4 * MEGABYTE as usize]).unwrap();
        }
        let file = open(&path);
        file.apply_evict().unwrap();
        let cold = file.read_counts(pages).unwrap().cached;
        assert!(kind == "tmpfs" || cold == 0, "{kind}: the first look leaves nothing cached, and {cold} pages are");
        file.apply_read(0, &mut vec![0; 2 * MEGABYTE as usize]).unwrap();
        let (counted, listed) = (file.read_counts(pages).unwrap().cached, count(&file.read_resident(pages).unwrap()));
        assert!(listed >= pages.pages() / 2 && counted == listed, "{kind}: {counted} counted, {listed} listed");
        assert_eq!(count(&read_resident_pages(&*file, page_bytes()).unwrap()), listed, "{kind}");
        let is_told = test_visibility(&SystemPageCache::new(), &path).unwrap().cachestat;
        let descriptor = File::open(&path).unwrap();
        if let Ok(told) = kernel::count_cached(std::os::fd::AsFd::as_fd(&descriptor), 0, 4 * MEGABYTE) {
            assert_eq!(is_told.unwrap(), told.cached > 0, "{kind}");
        }
        mounts.push((kind, mounted));
    }
    let seen: Vec<&str> = mounts.iter().map(|(kind, _)| *kind).collect();
    if !["ext4", "tmpfs", "overlay"].iter().all(|kind| seen.contains(kind)) {
        untested!(machine: "of the file systems only {seen:?} can be made");
    }
}

#[test]
fn a_dirty_file_is_written_before_it_is_evicted() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("16384");
    fs::write(&path, vec![7; 8 * MEGABYTE as usize]).unwrap();
    let file = open(&path);
    file.apply_evict().unwrap();
    let counts = file.read_counts(PageRange::new(0, 8 * MEGABYTE / page_bytes())).unwrap();
    assert!(counts.cached < 100 && counts.dirty == 0, "{counts:?}");
    assert_eq!(fs::read(&path).unwrap(), vec![7; 8 * MEGABYTE as usize]);
}

#[test]
fn a_file_that_shrinks_while_open_is_no_error() {
    let (_directory, path) = write_cold_file(4 * MEGABYTE);
    let file = open(&path);
    File::options().write(true).open(&path).unwrap().set_len(page_bytes()).unwrap();
    assert_eq!(file.apply_read(2 * MEGABYTE, &mut [0; 4096]).unwrap(), 0);
    assert!(count(&file.read_resident(PageRange::new(0, 4 * MEGABYTE / page_bytes())).unwrap()) <= 1);
}

#[test]
fn residency_is_hidden_from_who_may_not_know_it() {
    needs_root!();
    let (directory, path) = write_cold_file(MEGABYTE);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    // Credentials belong to a thread.
    let answer = std::thread::spawn(move || {
        let nobody = rustix::fs::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let file = open(&path);
        let whole = PageRange::new(0, MEGABYTE / page_bytes());
        (file.read_counts(whole), file.read_resident(whole))
    });
    let (counts, runs) = answer.join().unwrap();
    assert!(matches!(runs, Err(Error::ResidencyHidden(_))), "{runs:?}");
    // Kernels before 6.14 let everybody count.
    assert!(matches!(counts, Err(Error::ResidencyHidden(_))) || counts.is_ok_and(|counts| counts.cached < 200));
}

fn count_activities(file: &dyn CachedFile) -> [u64; 4] {
    let mut counts = [0; 4];
    let pages = file.size_bytes() / page_bytes();
    file.visit_activity(PageRange::new(0, pages), &mut |run, activity| counts[activity as usize] += run.pages())
        .unwrap();
    counts
}

#[test]
fn pages_that_were_read_often_are_told_and_looking_is_not_reading() {
    needs_activity!();
    let (_directory, path) = write_cold_file(8 * MEGABYTE);
    let file = open(&path);
    let pages = 8 * MEGABYTE / page_bytes();
    let mut buffer = vec![0; 8 * MEGABYTE as usize];
    // The kernel moves pages to its lists in batches of up to 31.
    let most = pages - 100;
    for reads in 1..=3 {
        file.apply_read(0, &mut buffer).unwrap();
        for _ in 0..4 {
            let counts = count_activities(&*file);
            assert!(counts[reads] >= most, "read {reads} times: {counts:?}");
        }
    }
}

#[test]
fn reading_in_order_is_one_use() {
    needs_activity!();
    let (_directory, path) = write_cold_file(8 * MEGABYTE);
    let file = open(&path);
    let window = SystemPageCache::new().read_window(file.file_system());
    let Some(window) = window else { untested!(machine: "no common read-ahead") };
    let mut in_order = file.open_in_order(window).unwrap();
    let pages = 8 * MEGABYTE / page_bytes();
    let step = pages / 8;
    (0..8).for_each(|nth| _ = in_order.apply_read(PageRange::new(nth * step, (nth + 1) * step)).unwrap());
    let counts = count_activities(&*file);
    assert!(counts[Activity::Referenced as usize] >= pages - 100, "{counts:?}");
}

#[test]
fn a_file_that_was_cut_off_meanwhile_kills_nobody() {
    needs_activity!();
    let (_directory, path) = write_cold_file(4 * MEGABYTE);
    let file = open(&path);
    file.apply_read(0, &mut vec![0; 4 * MEGABYTE as usize]).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(MEGABYTE).unwrap();
    let counts = count_activities(&*file);
    assert!(counts[Activity::Idle as usize] >= 3 * MEGABYTE / page_bytes(), "{counts:?}");
}
