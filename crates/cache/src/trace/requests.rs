//! The event source at kernel tracepoints. It reports the first request for each block, and all requests for sampled
//! blocks (touched.rs).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::error::Result;
use super::film::{Event, EventKind, FilmHeader, FilmRelation, JobSeen, ProbeShare, Sampled};
use super::record::{Claim, Own, Source, Touch, runs};
use super::whose::{Verdict, Wanted, Whose};
use crate::Map;
use host::files::Tree;
use host::linux::machine::read_used_bytes;
use host::linux::process::read_listed_children;
use host::linux::threads::{Over, count_processors, map_on_threads};
use host::units::{BlockRange, Bytes, Fork, counted};
use observe::open_page_probe;
use observe::pages::{PageEvent, PageEventKind, PageWatch, PagesRoom, Role, WatchedFile, unit_hash};
use postgres::{DataDirectory, RelationPath};

#[cfg(test)]
mod tests;

/// Interval between reads of the kernel's event buffer, which has room for 290,000.
const INTERVAL: Duration = Duration::from_millis(50);

const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Maximum `pending` events, 56 bytes each. Beyond this number, every process is recorded.
const PENDING_MAX: usize = 1 << 20;

/// Adjacent blocks requested within this time are one event.
const TICK: Duration = Duration::from_millis(1);

/// A file of every cluster, but no relation.
const CONTROL: &str = "global/pg_control";

pub struct Requests {
    watch: Box<dyn PageWatch>,
    files: Files,
    whose: Whose,
    own: Arc<Own>,
    sampling: Sampling,
    /// Events of processes not yet attributed to the job or others.
    pending: Vec<PageEvent>,
    /// Blocks fetched by pgthaw. A request for one counts as served from the page cache.
    brought: BTreeMap<(usize, Fork), RoaringBitmap>,
    pages_of: HashMap<u32, u64>,
    pages: u64,
    again_of: HashMap<u32, i64>,
    pages_again: i64,
    /// Files that grew, so their fork may get another segment.
    grown: Vec<u32>,
    left_out: u64,
    next_housekeeping: Instant,
    touched: Vec<Touch>,
    job_seen: JobSeen,
    remarks: Vec<String>,
}

host::debug_by!(Requests: whose);

impl Requests {
    /// `own` has the blocks that this process reads meanwhile.
    ///
    /// # Errors
    /// If the kernel rejects the probe: no privilege, a container, or a build without the probe.
    pub fn open(
        map: &Map,
        directory: &DataDirectory,
        page_bytes: u64,
        (wanted, postmaster_pid): (Wanted, Option<u32>),
        own: Arc<Own>,
    ) -> Result<Requests> {
        let (files, watched) = Files::new(map, &directory.files, page_bytes);
        let probe = open_page_probe(&watched, files.units.unit_pages(), &directory.path.join(CONTROL))?;
        Requests::new(probe, files, Whose::new(wanted, postmaster_pid), own)
    }

    /// Size of the probe that `open` will need; `None` if the file system does not report its use. Tablespaces on other
    /// file systems may need more.
    pub fn room_ahead(directory: &DataDirectory, page_bytes: u64) -> Option<PagesRoom> {
        let unit_pages = Units::new(directory.block_size, directory.segment_blocks, page_bytes).unit_pages();
        let used = read_used_bytes(&directory.path).ok()?;
        let units = used.0 / (u64::from(unit_pages) * page_bytes);
        Some(PagesRoom { unit_pages, control: directory.path.join(CONTROL), units })
    }

    fn new(mut watch: Box<dyn PageWatch>, files: Files, mut whose: Whose, own: Arc<Own>) -> Result<Requests> {
        let sampling = Sampling::default();
        watch.tell_again_below(below(sampling.shift))?;
        whose.refresh();
        // For a command, `Whose` notes earlier processes itself.
        let postmaster_pid = whose.postmaster_pid.filter(|_| whose.is_decided());
        for pid in postmaster_pid.map(read_listed_children).transpose()?.unwrap_or_default() {
            if whose.of_listed(pid) == Verdict::Other {
                watch.set_role(pid, Role::Other)?;
            }
        }
        Ok(Requests {
            watch,
            files,
            whose,
            own,
            sampling,
            pending: Vec::new(),
            brought: BTreeMap::new(),
            pages_of: HashMap::new(),
            pages: 0,
            again_of: HashMap::new(),
            pages_again: 0,
            grown: Vec::new(),
            left_out: 0,
            next_housekeeping: Instant::now() + HOUSEKEEPING,
            touched: Vec::new(),
            job_seen: JobSeen::Unknown,
            remarks: Vec::new(),
        })
    }

    /// Finds out whose processes caused the events, so that the kernel reports few events of others.
    fn learn(&mut self, events: &[PageEvent]) -> Result<HashMap<u32, Verdict>> {
        let was_decided = self.whose.is_decided();
        let own_pid = std::process::id();
        let mut verdicts: HashMap<u32, Verdict> = HashMap::new();
        self.whose.look_at_family();
        for event in events.iter().filter(|event| event.pid != own_pid) {
            verdicts.entry(event.pid).or_insert_with(|| self.whose.of_listed(event.pid));
        }
        if verdicts.values().any(|verdict| *verdict == Verdict::NotYet) {
            self.refresh()?;
            for (pid, verdict) in verdicts.iter_mut().filter(|(_, verdict)| **verdict == Verdict::NotYet) {
                *verdict = self.whose.of(*pid);
            }
        }
        verdicts.iter().try_for_each(|(pid, verdict)| self.say(*pid, *verdict))?;
        if self.whose.is_decided() && !was_decided {
            // Includes other processes' pids from earlier events.
            self.whose.others().try_for_each(|pid| self.watch.set_role(pid, Role::Other))?;
        }
        Ok(verdicts)
    }

    /// Sets a process's role in the kernel if certain. Until the wanted processes are known, others are followed too.
    fn say(&mut self, pid: u32, verdict: Verdict) -> Result<()> {
        match verdict {
            Verdict::Wanted if self.whose.is_certain(pid) => self.watch.set_role(pid, Role::Wanted)?,
            Verdict::Own => self.watch.set_role(pid, Role::Own)?,
            Verdict::Other if self.whose.is_decided() => self.watch.set_role(pid, Role::Other)?,
            _ => {}
        }
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        for pid in self.whose.refresh() {
            self.watch.forget(pid);
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<()> {
        let mut events = std::mem::take(&mut self.pending);
        self.watch.drain(&mut |event| events.push(event));
        let verdicts = self.learn(&events)?;
        if !self.whose.is_decided() {
            if events.len() < PENDING_MAX {
                self.pending = events;
                return Ok(());
            }
            self.want_everybody("there were too many other requests before");
        }
        let is_everybody = self.whose.wants_everybody();
        for event in events {
            let verdict = verdicts.get(&event.pid).filter(|_| !is_everybody);
            match (verdict.copied().unwrap_or(Verdict::Wanted), event.kind) {
                (_, PageEventKind::Grown) => {
                    self.left_out += u64::from(!self.watch.make_room(event.file)?);
                    self.grown.push(event.file);
                }
                (Verdict::Wanted, _) => self.add(&event),
                (Verdict::NotYet, _) => self.pending.push(event),
                (Verdict::Other | Verdict::Own, PageEventKind::Fetched) => {}
                (verdict, kind) => {
                    if kind == PageEventKind::Requested {
                        self.watch.clear(event.file, event.first_unit, event.units);
                    }
                    if let (Verdict::Other, Some(segment)) = (verdict, self.files.segments.get(event.file as usize)) {
                        self.put(&event, *segment, event.units, (EventKind::Again, false));
                    }
                }
            }
        }
        if self.sampling.adapt() {
            self.watch.tell_again_below(below(self.sampling.shift))?;
        }
        Ok(())
    }

    fn want_everybody(&mut self, why: &str) {
        self.whose.want_everybody();
        self.job_seen = JobSeen::Everybody;
        self.remarks.push(format!(
            "no server process of the command was found ({why}): the film contains the requests of the whole cluster"
        ));
    }

    fn add(&mut self, event: &PageEvent) {
        let Some(segment) = self.files.segments.get(event.file as usize).copied() else { return };
        let pages = self.pages_of.entry(event.pid).or_default();
        self.pages += event.pages.saturating_sub(*pages);
        *pages = event.pages.max(*pages);
        if matches!(event.kind, PageEventKind::Requested | PageEventKind::Again) {
            let before = self.again_of.insert(event.pid, event.pages_again);
            self.pages_again += event.pages_again - before.unwrap_or_default();
        }
        match event.kind {
            PageEventKind::Grown => {}
            PageEventKind::Again => {
                self.sampling.again += 1;
                self.put(event, segment, event.units, (EventKind::Again, true));
            }
            PageEventKind::Requested => {
                self.sampling.units += u64::from(event.units.count_ones());
                let come = event.fetched & !self.brought_of(event, segment);
                self.put(event, segment, come, (EventKind::Fetched, true));
                self.put(event, segment, event.units & !come, (EventKind::Requested, true));
            }
            PageEventKind::Fetched => self.add_fetched(event, segment),
        }
    }

    /// If requests are visible, only pgthaw's own fetches for the job belong to the film.
    fn add_fetched(&mut self, event: &PageEvent, segment: Segment) {
        if event.pid != std::process::id() {
            let is_of_film = self.watch.blind_to_requests().is_some();
            return self.put(event, segment, event.units, (EventKind::Fetched, is_of_film));
        }
        for run in bit_runs(event.units) {
            let blocks = self.files.blocks(segment, event.first_unit, run);
            let mut come = RoaringBitmap::new();
            come.insert_range(blocks.start as u32..blocks.end as u32);
            *self.brought.entry((segment.relation, segment.fork)).or_default() |= &come;
            let wanted = self.own.among(segment.relation, segment.fork, &come).wanted;
            for (blocks, is_of_film) in [(&come - &wanted, false), (wanted, true)] {
                for blocks in runs(&blocks) {
                    self.give(event, segment, blocks, (EventKind::Fetched, is_of_film));
                }
            }
        }
    }

    fn brought_of(&self, event: &PageEvent, segment: Segment) -> u64 {
        let Some(brought) = self.brought.get(&(segment.relation, segment.fork)) else { return 0 };
        let is_brought = |unit: &u32| {
            event.units >> unit & 1 == 1 && {
                let blocks = self.files.blocks(segment, event.first_unit, *unit..*unit + 1);
                brought.contains(blocks.start as u32)
            }
        };
        (0..u64::BITS).filter(is_brought).fold(0, |units, unit| units | 1 << unit)
    }

    fn put(&mut self, event: &PageEvent, segment: Segment, units: u64, what: (EventKind, bool)) {
        for run in bit_runs(units) {
            self.give(event, segment, self.files.blocks(segment, event.first_unit, run), what);
        }
    }

    fn give(&mut self, event: &PageEvent, segment: Segment, blocks: BlockRange, (kind, is_of_film): (EventKind, bool)) {
        let (tick, is_job) = (TICK.as_nanos() as u64, self.whose.is_certain(event.pid));
        let claim = match event.kind {
            PageEventKind::Fetched if is_job || event.pid == std::process::id() => Claim::Job,
            PageEventKind::Requested | PageEventKind::Again if !is_job => Claim::Others,
            _ => Claim::None,
        };
        let time = Duration::from_nanos(event.time.as_nanos() as u64 / tick * tick);
        let (relation, fork) = (Arc::clone(&self.files.relations[segment.relation]), segment.fork);
        let job_bytes = Bytes(self.pages * self.files.units.page_bytes);
        let event = Event { time, relation, fork, blocks, kind, pid: event.pid, job_bytes };
        let touch = Touch { event, is_of_film, claim };
        match self.touched.last_mut().filter(|last| last.goes_on_with(&touch)) {
            Some(Touch { event: last, .. }) => {
                (last.blocks.end, last.job_bytes) = (touch.event.blocks.end, touch.event.job_bytes);
            }
            None => self.touched.push(touch),
        }
    }

    fn fetched_again(&self) -> Bytes {
        Bytes(self.pages_again.max(0).cast_unsigned() * self.files.units.page_bytes)
    }

    fn keep_house(&mut self) -> Result<()> {
        if Instant::now() < self.next_housekeeping {
            return Ok(());
        }
        self.next_housekeeping = Instant::now() + HOUSEKEEPING;
        for pid in self.whose.forget_ended() {
            self.watch.forget(pid);
            self.pages_of.remove(&pid);
            self.again_of.remove(&pid);
        }
        self.refresh()?;
        let files = &self.files;
        let come: Vec<_> =
            self.grown.iter().filter_map(|file| files.find_next(*file).map(|next| (*file, next))).collect();
        for (file, (segment, watched)) in come {
            self.grown.retain(|one| *one != file);
            match self.watch.add(watched)? {
                true => self.files.segments.push(segment),
                false => self.left_out += 1,
            }
        }
        Ok(())
    }
}

fn bit_runs(mut bits: u64) -> impl Iterator<Item = Range<u32>> {
    std::iter::from_fn(move || {
        let start = bits.trailing_zeros();
        (bits != 0).then(|| {
            let length = (bits >> start).trailing_ones();
            bits &= u64::MAX.checked_shl(start + length).unwrap_or(0);
            start..start + length
        })
    })
}

impl Source for Requests {
    fn wait(&mut self, _took: Duration, over: &Over) -> bool {
        let until = Instant::now() + INTERVAL;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if over.wait(Duration::ZERO) {
                return false;
            }
            if left.is_zero() {
                return true;
            }
            self.whose.know_earlier();
            // A process can be classified only while it lives.
            for pid in self.watch.wait_for_arrivals(over, left) {
                let verdict = self.whose.of(pid);
                // If this fails, the next poll retries.
                let _ = self.say(pid, verdict);
            }
        }
    }

    fn look(&mut self) -> Result<Vec<Touch>> {
        self.judge()?;
        self.keep_house()?;
        Ok(std::mem::take(&mut self.touched))
    }

    fn misses_requests(&self) -> bool {
        self.watch.blind_to_requests().is_some() || self.watch.has_lost_others()
    }

    fn doubt(&self) -> Option<String> {
        let lost = || self.watch.has_lost_others().then(|| "requests of other processes were lost".to_owned());
        let blind = self.watch.blind_to_requests().map(|why| format!("visible requests need Linux 6.12 ({why})"));
        blind.or_else(lost).or_else(|| self.whose.shared().map(str::to_owned))
    }

    fn describe(&self) -> String {
        match self.watch.blind_to_requests() {
            None => "by kernel tracepoints: the first request to the page cache for each block, by process, in order; hits in shared_buffers are not visible"
                .to_owned(),
            Some(why) => format!(
                "by kernel tracepoints: the first load of each block into the page cache, by process, in order; blocks cached before are visible only from Linux 6.12 on ({why})"
            ),
        }
    }

    fn end(&mut self, header: &mut FilmHeader) -> Result<Vec<Touch>> {
        self.judge()?;
        if !self.whose.is_decided() {
            let own_pid = std::process::id();
            self.whose.take_unseen(self.pending.iter().map(|event| event.pid).filter(|pid| *pid != own_pid));
            if self.pending.iter().all(|event| event.pid == own_pid) {
                let nothing = "nothing was requested from the page cache, because shared_buffers holds all blocks that the job reads, or the job uses another server";
                self.remarks.push(format!("no server process of the command was found: {nothing}"));
                self.whose.want_everybody();
                self.job_seen = JobSeen::No;
            } else if !self.whose.is_decided() {
                self.want_everybody(
                    "it may use a pooler, another host or another server; pgthaw run --application-name NAME finds sessions by name",
                );
            }
            self.judge()?;
        }
        // Processes not attributed until now count as others.
        for event in std::mem::take(&mut self.pending) {
            if let Some(segment) = self.files.segments.get(event.file as usize) {
                self.put(&event, *segment, event.units, (EventKind::Again, false));
            }
        }
        header.job_seen = if self.whose.is_of_command() { JobSeen::Yes } else { self.job_seen };
        header.guessed = self.whose.guesses();
        header.remarks.append(&mut self.remarks);
        header.remarks.extend(self.whose.remarks());
        if self.left_out > 0 {
            let files = counted(self.left_out, "file");
            let lacks = format!("the film lacks some requests for {files} that grew or appeared during the recording");
            header.remarks.push(lacks);
        }
        header.lost_events = self.watch.lost();
        if self.watch.blind_to_requests().is_none() {
            let (shift, unit_blocks) = (self.sampling.shift, self.files.units.unit_blocks() as u32);
            header.sampling = Some(Sampled { shift, unit_blocks });
            header.fetched_again = Some(self.fetched_again());
        }
        header.probe = self.watch.cost().map(|cost| ProbeShare {
            runs: cost.programs.iter().map(|program| program.runs).sum(),
            total_ns: cost.total_ns(),
        });
        Ok(std::mem::take(&mut self.touched))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Units {
    block_size: u64,
    segment_blocks: u64,
    page_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub relation: usize,
    pub fork: Fork,
    pub number: u64,
}

#[derive(Debug)]
pub struct Files {
    directory: Arc<Tree>,
    units: Units,
    relations: Vec<Arc<FilmRelation>>,
    segments: Vec<Segment>,
}

impl Units {
    fn new(block_size: u32, segment_blocks: u32, page_bytes: u64) -> Units {
        Units { block_size: block_size.into(), segment_blocks: segment_blocks.into(), page_bytes }
    }

    fn unit_pages(self) -> u32 {
        (self.block_size / self.page_bytes).max(1) as u32
    }

    /// Blocks per unit: 1, or more if blocks are smaller than a page.
    fn unit_blocks(self) -> u64 {
        (self.page_bytes / self.block_size).max(1)
    }
}

/// Salt for hashing a unit's number in its fork, so that files differ.
pub fn salt_of(path: &RelationPath, fork: Fork) -> u32 {
    unit_hash(path.relfilenumber ^ unit_hash(fork as u32))
}

/// Hashes below this select one block in 2^`shift`.
pub fn below(shift: u32) -> u64 {
    (1 << 32) >> shift
}

impl Files {
    pub fn new(map: &Map, directory: &Arc<Tree>, page_bytes: u64) -> (Files, Vec<WatchedFile>) {
        let mut files = Files {
            directory: Arc::clone(directory),
            units: Units::new(map.source.block_size, map.source.segment_blocks, page_bytes),
            relations: map.relations.iter().map(|one| FilmRelation::of(&one.relation)).collect(),
            segments: Vec::new(),
        };
        let mut segments = Vec::new();
        for (relation, one) in map.relations.iter().enumerate() {
            for fork in &one.forks {
                // An empty fork may grow.
                let numbers = 0..fork.blocks.div_ceil(files.units.segment_blocks).max(1);
                segments.extend(numbers.map(|number| Segment { relation, fork: fork.fork, number }));
            }
        }
        let looked = map_on_threads(segments.len(), count_processors(), |at| files.look(segments[at]));
        let found = segments.into_iter().zip(looked).filter_map(|(segment, watched)| Some((segment, watched?)));
        let watched;
        (files.segments, watched) = found.unzip();
        (files, watched)
    }

    fn look(&self, segment: Segment) -> Option<WatchedFile> {
        let Segment { relation, fork, number } = segment;
        let path = &self.relations[relation].path;
        let facts = self.directory.facts_of(&path.segment_file(Path::new(""), fork, number as u32)).ok()?;
        let unit_blocks = self.units.unit_blocks();
        let segment_units = self.units.segment_blocks.div_ceil(unit_blocks);
        let units = (facts.st_size as u64).div_ceil(self.units.block_size * unit_blocks).min(segment_units);
        let salt = salt_of(path, fork).wrapping_add((number * segment_units) as u32);
        Some(WatchedFile { device: facts.st_dev, inode: facts.st_ino, units, most_units: segment_units, salt })
    }

    pub fn find_next(&self, file: u32) -> Option<(Segment, WatchedFile)> {
        let segment = self.segments.get(file as usize)?;
        let next = Segment { number: segment.number + 1, ..*segment };
        let is_same = |one: &Segment| (one.relation, one.fork, one.number) == (next.relation, next.fork, next.number);
        if self.segments[file as usize..].iter().any(is_same) {
            return None;
        }
        Some((next, self.look(next)?))
    }

    pub fn blocks(&self, segment: Segment, first_unit: u64, units: Range<u32>) -> BlockRange {
        let first = segment.number * self.units.segment_blocks;
        let block = |unit: u32| first + (first_unit + u64::from(unit)) * self.units.unit_blocks();
        BlockRange::new(block(units.start), block(units.end))
    }
}

/// Sampled units. Beyond this number, the sample is halved.
const UNITS_MAX: u64 = 32_768;

/// Repeated requests after which the sample is halved. A film grows with their logarithm.
const AGAIN_MAX: u64 = 65_536;

/// At least one block in 2^20 is sampled.
const SHIFT_MAX: u32 = 20;

#[derive(Debug, Default)]
struct Sampling {
    shift: u32,
    units: u64,
    again: u64,
}

impl Sampling {
    fn adapt(&mut self) -> bool {
        let before = self.shift;
        while self.shift < SHIFT_MAX && (self.units >> self.shift > UNITS_MAX || self.again > AGAIN_MAX) {
            self.shift += 1;
            self.again = 0;
        }
        self.shift > before
    }
}

#[cfg(test)]
mod sampling_tests {
    use super::*;

    #[test]
    fn fewer_are_chosen_where_there_are_many() {
        let mut sampling = Sampling::default();
        assert_eq!((sampling.adapt(), below(sampling.shift)), (false, 1 << 32));
        sampling.again = AGAIN_MAX + 1;
        assert!(sampling.adapt() && !sampling.adapt());
        assert_eq!((sampling.shift, below(sampling.shift)), (1, 1 << 31));
        sampling.units = 5 * UNITS_MAX;
        assert!(sampling.adapt());
        assert_eq!(sampling.shift, 3);
    }
}
