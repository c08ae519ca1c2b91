//! The source that sees requests, and whose they are, at the kernel's own tracepoints: of each block the first request, and of some blocks
//! every one. These are sampled as by SHARDS (Waldspurger, Park, Garthwaite, Ahmad: Efficient MRC Construction with SHARDS, FAST 2015):
//! blocks are chosen by a hash, so that all requests of a chosen block are seen, and the threshold only ever falls.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use roaring::RoaringBitmap;

use super::error::Error;
use super::film::{EventKind, FilmRelation, ProbeShare, Sampled};
use super::record::{JobSeen, Own, Source, SourceEnd, Touch, runs};
use crate::Map;
use host::linux::machine::read_used_bytes;
use host::linux::process::{read_children, read_parent, read_start_ticks, read_title};
use host::linux::sockets::{descends_from, serves};
use host::linux::threads::Over;
use host::units::{BlockRange, Bytes, Fork, counted};
use observe::open_page_probe;
use observe::pages::{PageEvent, PageEventKind, PageWatch, PagesRoom, WatchedFile, unit_hash};
use postgres::{DataDirectory, RelationPath, Session, WALSENDER, background_kind, leader_of};

#[cfg(test)]
mod tests;

/// From one look to the next. The kernel keeps what comes meanwhile: 290,000 events.
const INTERVAL: Duration = Duration::from_millis(50);

/// How often it is looked who has ended, and what has grown.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Events that are kept while it is not known yet whose they are, 56 bytes each: then they are everybody's.
const PENDING_MAX: usize = 1 << 20;

/// Times of a film are multiples of this: neighbours that were asked for within it are one event.
const TICK: Duration = Duration::from_millis(1);

/// A file of each cluster that is no relation's.
const CONTROL: &str = "global/pg_control";

/// What is asked of the page cache of a cluster's files.
pub struct Requests {
    watch: Box<dyn PageWatch>,
    files: Files,
    whose: Whose,
    own: Arc<Own>,
    sampling: Sampling,
    /// What has been told by processes of which nobody knows yet whose they are.
    pending: Vec<PageEvent>,
    /// What this process itself brought: whoever asks for it found it there.
    brought: BTreeMap<(usize, Fork), RoaringBitmap>,
    /// Pages that each process has asked for so far, and all of them together.
    pages_of: HashMap<u32, u64>,
    pages: u64,
    /// Of each process the pages that came for it again, and those of processes that have ended.
    again_of: HashMap<u32, i64>,
    ended_again: i64,
    /// Files that have grown: the next segment may come.
    grown: Vec<u32>,
    /// Files that there was no room for.
    left_out: u64,
    next_housekeeping: Instant,
    /// What was touched last: neighbours become one.
    last: Option<Touch>,
    job_seen: JobSeen,
    remarks: Vec<String>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("whose", &self.whose).finish_non_exhaustive()
    }
}

impl Requests {
    /// Watches the files of a map in this directory, for whose reads are wanted of the server that runs as a postmaster. `own` is what this
    /// process brings itself meanwhile.
    ///
    /// # Errors
    /// When the kernel takes no program: without the right to it, in a container, or where pgthaw was built without one.
    pub fn open(
        map: &Map,
        directory: &Path,
        page_bytes: u64,
        (wanted, postmaster_pid): (Wanted, Option<u32>),
        own: Arc<Own>,
    ) -> Result<Requests, Error> {
        let (files, watched) = Files::new(map, directory, page_bytes);
        let unit_pages = Units::of(map, page_bytes).unit_pages();
        let probe = open_page_probe(&watched, unit_pages, &directory.join(CONTROL))?;
        Requests::new(probe, files, Whose::new(wanted, postmaster_pid), own)
    }

    /// What can be told of the program that [`Requests::open`] will want in a directory, before it is known which files that has; `None` where
    /// its file system tells nothing. What lies on other file systems may need more room: then it is opened anew.
    pub fn room_ahead(directory: &DataDirectory, page_bytes: u64) -> Option<PagesRoom> {
        let unit_pages = Units::new(directory.block_size, directory.segment_blocks, page_bytes).unit_pages();
        let used = read_used_bytes(&directory.path).ok()?;
        let units = used.0 / (u64::from(unit_pages) * page_bytes);
        Some(PagesRoom { unit_pages, control: directory.path.join(CONTROL), units })
    }

    fn new(mut watch: Box<dyn PageWatch>, files: Files, mut whose: Whose, own: Arc<Own>) -> Result<Requests, Error> {
        let sampling = Sampling::default();
        watch.tell_again_below(sampling.below())?;
        whose.refresh();
        let is_decided = whose.is_decided();
        for pid in whose.postmaster_pid.map(read_children).transpose()?.unwrap_or_default() {
            if whose.of(pid) == Verdict::Other && is_decided {
                watch.leave_out(pid)?;
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
            ended_again: 0,
            grown: Vec::new(),
            left_out: 0,
            next_housekeeping: Instant::now() + HOUSEKEEPING,
            last: None,
            job_seen: JobSeen::Unknown,
            remarks: Vec::new(),
        })
    }

    /// Learns whose the processes are that these events are of. Those of others are left out from now on.
    fn learn(&mut self, events: &[PageEvent]) -> Result<HashMap<u32, Verdict>, Error> {
        let was_decided = self.whose.is_decided();
        let own_pid = std::process::id();
        let mut verdicts: HashMap<u32, Verdict> = HashMap::new();
        for event in events.iter().filter(|event| event.pid != own_pid) {
            verdicts.entry(event.pid).or_insert_with(|| self.whose.of(event.pid));
        }
        if verdicts.values().any(|verdict| *verdict == Verdict::NotYet) {
            self.refresh()?;
            for (pid, verdict) in verdicts.iter_mut().filter(|(_, verdict)| **verdict == Verdict::NotYet) {
                *verdict = self.whose.of(*pid);
            }
        }
        if !self.whose.is_decided() {
            return Ok(verdicts);
        }
        let others: Vec<u32> = match was_decided {
            true => verdicts.iter().filter(|(_, one)| **one == Verdict::Other).map(|(pid, _)| *pid).collect(),
            false => self.whose.others().collect(),
        };
        others.into_iter().try_for_each(|pid| self.watch.leave_out(pid))?;
        Ok(verdicts)
    }

    fn refresh(&mut self) -> Result<(), Error> {
        for pid in self.whose.refresh() {
            self.watch.forget(pid);
        }
        Ok(())
    }

    /// Tells `visit` what is known by now, and keeps what nobody can judge yet.
    fn tell(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error> {
        self.whose.know_earlier();
        let mut events = std::mem::take(&mut self.pending);
        let told_before = events.len();
        self.watch.drain(&mut |event| events.push(event));
        let verdicts = self.learn(&events)?;
        if !self.whose.is_decided() {
            if events.len() < PENDING_MAX {
                // Whosever it is, it came: whoever is killed now leaves that to be cleaned up.
                for event in events.iter().skip(told_before).filter(|event| event.kind == PageEventKind::Fetched) {
                    if let Some(segment) = self.files.segment(event.file) {
                        self.put(event, segment, event.units, (EventKind::Fetched, false), visit);
                    }
                }
                self.flush(visit);
                self.pending = events;
                return Ok(());
            }
            self.want_everybody("before one was seen there was too much else");
        }
        let (own_pid, is_everybody) = (std::process::id(), self.whose.wants_everybody());
        for event in events {
            let verdict = match verdicts.get(&event.pid) {
                _ if event.pid == own_pid => Verdict::Wanted,
                Some(_) if is_everybody => Verdict::Wanted,
                known => known.copied().unwrap_or(Verdict::Wanted),
            };
            match (verdict, event.kind) {
                (_, PageEventKind::Grown) => self.give_room(event.file)?,
                (Verdict::Wanted, _) => self.add(&event, visit),
                (Verdict::NotYet, _) => self.pending.push(event),
                (Verdict::Other, PageEventKind::Requested) => {
                    self.watch.clear(event.file, event.first_unit, event.units);
                }
                (Verdict::Other, _) => {}
            }
        }
        self.flush(visit);
        if self.sampling.adapt() {
            self.watch.tell_again_below(self.sampling.below())?;
        }
        Ok(())
    }

    fn want_everybody(&mut self, why: &str) {
        self.whose.want_everybody();
        self.job_seen = JobSeen::Everybody;
        self.remarks.push(format!(
            "no server process of the command was seen ({why}): the film has what all of the cluster asked for"
        ));
    }

    fn give_room(&mut self, file: u32) -> Result<(), Error> {
        self.left_out += u64::from(!self.watch.make_room(file)?);
        self.grown.push(file);
        Ok(())
    }

    /// Adds what one event tells.
    fn add(&mut self, event: &PageEvent, visit: &mut dyn FnMut(Touch)) {
        let Some(segment) = self.files.segment(event.file) else { return };
        let pages = self.pages_of.entry(event.pid).or_default();
        self.pages += event.pages.saturating_sub(*pages);
        *pages = event.pages.max(*pages);
        if matches!(event.kind, PageEventKind::Requested | PageEventKind::Again) {
            self.again_of.insert(event.pid, event.pages_again);
        }
        match event.kind {
            PageEventKind::Grown => {}
            PageEventKind::Again => {
                self.sampling.again += 1;
                self.put(event, segment, event.units, (EventKind::Again, true), visit);
            }
            PageEventKind::Requested => {
                self.sampling.units += u64::from(event.units.count_ones());
                let come = event.fetched & !self.brought_of(event, segment);
                self.put(event, segment, come, (EventKind::Fetched, true), visit);
                self.put(event, segment, event.units & !come, (EventKind::Requested, true), visit);
            }
            PageEventKind::Fetched => self.add_fetched(event, segment, visit),
        }
    }

    /// What came is no part of the film where it is seen what is asked for; but for what this process brought for the job.
    fn add_fetched(&mut self, event: &PageEvent, segment: Segment, visit: &mut dyn FnMut(Touch)) {
        if event.pid != std::process::id() {
            let is_of_film = self.watch.blind_to_requests().is_some();
            return self.put(event, segment, event.units, (EventKind::Fetched, is_of_film), visit);
        }
        for run in bit_runs(event.units) {
            let touch = self.touch(event, segment, run, (EventKind::Fetched, true));
            let mut come = RoaringBitmap::new();
            come.insert_range(touch.blocks.start as u32..touch.blocks.end as u32);
            *self.brought.entry((segment.relation, segment.fork)).or_default() |= &come;
            let wanted = self.own.wanted_among(segment.relation, segment.fork, &come);
            for (blocks, is_of_film) in [(&come - &wanted, false), (wanted, true)] {
                for blocks in runs(&blocks) {
                    self.give(Touch { blocks, is_of_film, ..touch.clone() }, visit);
                }
            }
        }
    }

    /// Those of an event's units that this process brought.
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

    /// Tells of units of an event what they were, and whether that is part of the film.
    fn put(
        &mut self,
        event: &PageEvent,
        segment: Segment,
        units: u64,
        what: (EventKind, bool),
        visit: &mut dyn FnMut(Touch),
    ) {
        for run in bit_runs(units) {
            let touch = self.touch(event, segment, run, what);
            self.give(touch, visit);
        }
    }

    fn touch(
        &self,
        event: &PageEvent,
        segment: Segment,
        units: Range<u32>,
        (kind, is_of_film): (EventKind, bool),
    ) -> Touch {
        let tick = TICK.as_nanos() as u64;
        Touch {
            relation: Arc::clone(&self.files.relations[segment.relation]),
            fork: segment.fork,
            blocks: self.files.blocks(segment, event.first_unit, units),
            kind,
            pid: event.pid,
            at: Some(Duration::from_nanos(event.time.as_nanos() as u64 / tick * tick)),
            job_bytes: Some(Bytes(self.files.page_bytes(self.pages))),
            is_of_film,
            came: event.kind == PageEventKind::Fetched,
        }
    }

    /// Makes one of neighbours.
    fn give(&mut self, touch: Touch, visit: &mut dyn FnMut(Touch)) {
        match &mut self.last {
            Some(last) if last.goes_on_with(&touch) => {
                last.blocks.end = touch.blocks.end;
                last.job_bytes = touch.job_bytes;
            }
            _ => {
                self.flush(visit);
                self.last = Some(touch);
            }
        }
    }

    fn flush(&mut self, visit: &mut dyn FnMut(Touch)) {
        self.last.take().into_iter().for_each(visit);
    }

    /// What came again for the job: it had been there, and was gone by then.
    fn fetched_again(&self) -> Bytes {
        let pages = self.ended_again + self.again_of.values().sum::<i64>();
        Bytes(self.files.page_bytes(pages.max(0).cast_unsigned()))
    }

    /// Once a second: who has ended, who calls himself something else now, which segments have come.
    fn keep_house(&mut self) -> Result<(), Error> {
        if Instant::now() < self.next_housekeeping {
            return Ok(());
        }
        self.next_housekeeping = Instant::now() + HOUSEKEEPING;
        for pid in self.whose.forget_ended() {
            self.watch.forget(pid);
            self.pages_of.remove(&pid);
            self.ended_again += self.again_of.remove(&pid).unwrap_or_default();
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

/// Maximal runs of set bits.
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
            // While it lives it can be seen whose it is.
            for pid in self.watch.wait_for_arrivals(over, left) {
                self.whose.of(pid);
            }
        }
    }

    fn look(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<(), Error> {
        self.tell(visit)?;
        self.keep_house()
    }

    fn describe(&self) -> String {
        match self.watch.blind_to_requests() {
            None => "by the kernel's account of what is asked of the page cache, by whom, in order: of each block the first time; \
                     what shared_buffers had is not seen"
                .to_owned(),
            Some(why) => format!(
                "by the kernel's account of what comes into the page cache, for whom, in order: of each block the first time; what was \
                 cached before is not seen, for which a kernel since 6.12 is needed ({why})"
            ),
        }
    }

    fn end(&mut self, visit: &mut dyn FnMut(Touch)) -> Result<SourceEnd, Error> {
        self.tell(visit)?;
        if !self.whose.is_decided() {
            let own_pid = std::process::id();
            self.whose.take_unseen(self.pending.iter().map(|event| event.pid).filter(|pid| *pid != own_pid));
            if self.pending.iter().all(|event| event.pid == own_pid) {
                let nothing = "nobody asked the page cache for anything, as where shared_buffers has it all, or the job asks another server";
                self.remarks.push(format!("no server process of the command was seen: {nothing}"));
                self.whose.want_everybody();
                self.job_seen = JobSeen::No;
            } else if !self.whose.is_decided() {
                self.want_everybody(
                    "its connection may lead through a pooler, or to another host or server; pgthaw run --application-name NAME finds sessions by name",
                );
            }
            self.tell(visit)?;
        }
        // Whoever has not said by now who he is, is another.
        self.pending.clear();
        let job_seen = if self.whose.is_of_command() { JobSeen::Yes } else { self.job_seen };
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.extend(self.whose.remarks());
        if self.left_out > 0 {
            remarks.push(format!(
                "{} had grown or come, and were not followed to their end",
                counted(self.left_out, "file")
            ));
        }
        let sees_requests = self.watch.blind_to_requests().is_none();
        let (shift, unit_blocks) = (self.sampling.shift, self.files.units.unit_blocks() as u32);
        Ok(SourceEnd {
            lost_events: self.watch.lost(),
            sampling: sees_requests.then_some(Sampled { shift, unit_blocks }),
            fetched_again: sees_requests.then(|| self.fetched_again()),
            cost: self.watch.cost().map(|cost| ProbeShare {
                runs: cost.programs.iter().map(|program| program.runs).sum(),
                total_ns: cost.total_ns(),
            }),
            job_seen,
            guessed: self.whose.guesses(),
            remarks,
        })
    }
}

/// How blocks, pages and units of a cluster go together.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    block_size: u64,
    page_bytes: u64,
    segment_blocks: u64,
}

/// One segment of a fork.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The relation's index in the map.
    pub relation: usize,
    pub fork: Fork,
    pub number: u64,
}

/// The files, in the order in which they are watched.
#[derive(Debug)]
pub struct Files {
    directory: PathBuf,
    units: Units,
    relations: Vec<Arc<FilmRelation>>,
    segments: Vec<Segment>,
}

impl Units {
    pub fn new(block_size: u32, segment_blocks: u32, page_bytes: u64) -> Units {
        Units { block_size: block_size.into(), page_bytes, segment_blocks: segment_blocks.into() }
    }

    /// Of a cluster.
    pub fn of(map: &Map, page_bytes: u64) -> Units {
        Units::new(map.source.block_size, map.source.segment_blocks, page_bytes)
    }

    /// Pages of a unit.
    pub fn unit_pages(self) -> u32 {
        (self.block_size / self.page_bytes).max(1) as u32
    }

    /// Blocks of a unit: more than one where they are smaller than a page.
    pub fn unit_blocks(self) -> u64 {
        (self.page_bytes / self.block_size).max(1)
    }

    /// Units of a segment that is full.
    fn segment_units(self) -> u64 {
        self.segment_blocks.div_ceil(self.unit_blocks())
    }
}

/// What is added to the number of a unit in its fork before it is hashed, to choose the blocks of which every request is told.
pub fn salt_of(path: &RelationPath, fork: Fork) -> u32 {
    unit_hash(path.relfilenumber() ^ unit_hash(fork as u32))
}

/// Up to which hash blocks are chosen, when it is one in 2 to the power of `shift`.
pub fn below(shift: u32) -> u64 {
    (1 << 32) >> shift
}

impl Files {
    /// Those of a cluster that are there.
    pub fn new(map: &Map, directory: &Path, page_bytes: u64) -> (Files, Vec<WatchedFile>) {
        let mut files = Files {
            directory: directory.to_owned(),
            units: Units::of(map, page_bytes),
            relations: map.relations.iter().map(|one| FilmRelation::of(&one.relation)).collect(),
            segments: Vec::new(),
        };
        let mut watched = Vec::new();
        for (relation, one) in map.relations.iter().enumerate() {
            for fork in &one.forks {
                // One that is empty may grow.
                for number in 0..fork.blocks.div_ceil(files.units.segment_blocks).max(1) {
                    let segment = Segment { relation, fork: fork.fork, number };
                    watched.extend(files.look(segment).inspect(|_| files.segments.push(segment)));
                }
            }
        }
        (files, watched)
    }

    /// A segment as it is now. `None` where it is not there.
    fn look(&self, segment: Segment) -> Option<WatchedFile> {
        let Segment { relation, fork, number } = segment;
        let path = &self.relations[relation].path;
        let facts = path.segment_file(&self.directory, fork, number as u32).metadata().ok()?;
        let (unit_blocks, segment_units) = (self.units.unit_blocks(), self.units.segment_units());
        let units = facts.len().div_ceil(self.units.block_size * unit_blocks).min(segment_units);
        let salt = salt_of(path, fork).wrapping_add((number * segment_units) as u32);
        Some(WatchedFile { device: facts.dev(), inode: facts.ino(), units, most_units: segment_units, salt })
    }

    /// The segment after this one, if it is there and not watched yet. Whoever watches it has to say so.
    pub fn find_next(&self, file: u32) -> Option<(Segment, WatchedFile)> {
        let segment = self.segments.get(file as usize)?;
        let next = Segment { number: segment.number + 1, ..*segment };
        let is_same = |one: &Segment| (one.relation, one.fork, one.number) == (next.relation, next.fork, next.number);
        if self.segments[file as usize..].iter().any(is_same) {
            return None;
        }
        Some((next, self.look(next)?))
    }

    pub fn segment(&self, file: u32) -> Option<Segment> {
        self.segments.get(file as usize).copied()
    }

    /// The blocks of the fork that units of a file are.
    pub fn blocks(&self, segment: Segment, first_unit: u64, units: Range<u32>) -> BlockRange {
        let first = segment.number * self.units.segment_blocks;
        let block = |unit: u32| first + (first_unit + u64::from(unit)) * self.units.unit_blocks();
        BlockRange::new(block(units.start), block(units.end))
    }

    /// So many pages in bytes.
    pub fn page_bytes(&self, pages: u64) -> u64 {
        pages * self.units.page_bytes
    }
}

/// Chosen blocks that were touched: beyond that there are enough, and half of them are chosen from then on.
const UNITS_MAX: u64 = 32_768;

/// Repeated requests after which half of the blocks are chosen: so a film grows by the logarithm of what is asked for again.
const AGAIN_MAX: u64 = 65_536;

/// One block in 2^20 is chosen at least.
const SHIFT_MAX: u32 = 20;

/// How many blocks are chosen, and what came of it.
#[derive(Debug, Default)]
struct Sampling {
    /// One block in 2 to this power is chosen.
    shift: u32,
    /// Units that were asked for.
    units: u64,
    /// Repeated requests since the threshold fell last.
    again: u64,
}

impl Sampling {
    /// Blocks are chosen whose hash is below this.
    fn below(&self) -> u64 {
        below(self.shift)
    }

    /// Chooses fewer blocks where there are too many; was that so?
    fn adapt(&mut self) -> bool {
        let before = self.shift;
        while self.shift < SHIFT_MAX && (self.units >> self.shift > UNITS_MAX || self.again > AGAIN_MAX) {
            self.shift += 1;
            self.again = 0;
        }
        self.shift > before
    }
}

/// How those call themselves that read for anybody (PostgreSQL 18, `io_method = worker`).
const IO_WORKER: &str = "io worker";

/// Asks the server who its sessions are; `None` where it does not answer.
pub type AskSessions = Box<dyn FnMut() -> Option<Vec<Session>> + Send>;

/// Sessions that have these names; one that is not given is any.
pub struct Named {
    pub application_name: Option<String>,
    pub database: Option<String>,
    pub ask: AskSessions,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Named { application_name, database, .. } = self;
        let mut shown = f.debug_struct("Named");
        shown.field("application_name", application_name).field("database", database).finish_non_exhaustive()
    }
}

impl Named {
    fn are(&self, session: &Session) -> bool {
        let is_wanted = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        is_wanted(&self.application_name, &session.application_name) && is_wanted(&self.database, &session.database)
    }
}

/// Whose reads are wanted.
#[derive(Debug, Default)]
pub enum Wanted {
    #[default]
    Everybody,
    /// A command's, and those of sessions that are called as its own are, whoever is connected to them.
    Command {
        /// 0 until it has been started.
        pid: Arc<AtomicU32>,
        named: Option<Named>,
    },
    /// One server process's, with its parallel workers.
    Backend(u32),
    Sessions(Named),
}

impl Wanted {
    /// A command's alone.
    pub fn command(pid: &Arc<AtomicU32>) -> Wanted {
        Wanted::Command { pid: Arc::clone(pid), named: None }
    }

    fn named(&mut self) -> Option<&mut Named> {
        match self {
            Wanted::Sessions(named) => Some(named),
            Wanted::Command { named, .. } => named.as_mut(),
            Wanted::Everybody | Wanted::Backend(_) => None,
        }
    }
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its reads are wanted.
    Wanted,
    Other,
    /// It has not said yet who it is.
    NotYet,
}

/// Tells processes apart.
#[derive(Debug, Default)]
pub struct Whose {
    wanted: Wanted,
    postmaster_pid: Option<u32>,
    known: HashMap<u32, Verdict>,
    /// Those of `NotYet` to whom somebody else than the command is connected.
    of_others: HashSet<u32>,
    /// What the server said last of its sessions, and whether it still answers.
    sessions: Vec<Session>,
    answers: bool,
    has_seen_wanted: bool,
    /// I/O workers read for the job, and for others.
    has_io_workers: bool,
    /// Those that ended before it was known whose they were, while none of the command's had been seen.
    unseen: HashSet<u32>,
    /// Those that were seen to be nobody's of the command: they ran before it, serve another, or work for the server.
    strangers: HashSet<u32>,
    /// It is known who ran before the command.
    has_begun: bool,
    /// Processes that ended before it was known whose they were. They count as the command's.
    unknown: u64,
    /// The same of those that are taken for the command's because nobody else asked for anything.
    alone: u64,
}

impl Whose {
    pub fn new(wanted: Wanted, postmaster_pid: Option<u32>) -> Whose {
        Whose { wanted, postmaster_pid, ..Whose::default() }
    }

    /// What of this process is known by now. One whose number came back as another's has to be forgotten before.
    pub fn of(&mut self, pid: u32) -> Verdict {
        if let Some(known) = self.known.get(&pid).filter(|known| **known != Verdict::NotYet) {
            return *known;
        }
        let verdict = self.judge(pid);
        self.known.insert(pid, verdict);
        verdict
    }

    /// Asks the server again who its sessions are, and returns those that were taken for others' and are wanted now.
    pub fn refresh(&mut self) -> Vec<u32> {
        let Some(named) = self.wanted.named() else { return Vec::new() };
        let sessions = (named.ask)();
        self.answers = sessions.is_some();
        let Some(sessions) = sessions else { return Vec::new() };
        self.sessions = sessions;
        let mut come_over: Vec<u32> = self.others().collect();
        come_over.retain(|pid| self.judge_session(*pid) == Verdict::Wanted);
        come_over.iter().for_each(|pid| _ = self.known.remove(pid));
        come_over
    }

    /// Is it known by now who is wanted? A command's server processes are known when the first of them was seen.
    pub fn is_decided(&self) -> bool {
        self.has_seen_wanted || !self.is_of_command()
    }

    /// Once the command runs, notes which of the server's processes ran before it: what they serve is not its. Those that have asked for
    /// something before are known already.
    pub fn know_earlier(&mut self) {
        let Wanted::Command { pid, .. } = &self.wanted else { return };
        let command = pid.load(Ordering::Acquire);
        if command == 0 || std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        // Of one that is over already nobody knows when it began.
        let Ok(begun) = read_start_ticks(command) else { return };
        let children = self.postmaster_pid.and_then(|postmaster| read_children(postmaster).ok()).unwrap_or_default();
        let is_earlier = |pid: &u32| read_start_ticks(*pid).is_ok_and(|started| started < begun);
        self.strangers.extend(children.into_iter().filter(is_earlier));
    }

    /// Where none of the command's was seen, and all of these began after it and ended before anybody could look, they are its own; else it
    /// is still not known which are.
    pub fn take_unseen(&mut self, pids: impl Iterator<Item = u32>) {
        let pids: HashSet<u32> = pids.collect();
        if pids.is_empty() || !pids.is_subset(&self.unseen) {
            return;
        }
        self.alone = pids.len() as u64;
        self.known.extend(pids.into_iter().map(|pid| (pid, Verdict::Wanted)));
        self.has_seen_wanted = true;
    }

    pub fn is_of_command(&self) -> bool {
        matches!(self.wanted, Wanted::Command { .. })
    }

    pub fn wants_everybody(&self) -> bool {
        matches!(self.wanted, Wanted::Everybody)
    }

    /// From now on everybody is wanted.
    pub fn want_everybody(&mut self) {
        self.wanted = Wanted::Everybody;
        self.known.clear();
    }

    /// Everybody who was found to be another's.
    pub fn others(&self) -> impl Iterator<Item = u32> {
        self.known.iter().filter(|(_, known)| **known == Verdict::Other).map(|(pid, _)| *pid)
    }

    /// Forgets those that have ended, and returns them.
    pub fn forget_ended(&mut self) -> Vec<u32> {
        let ended: Vec<u32> =
            self.known.keys().copied().filter(|pid| read_parent(*pid).is_err() && *pid != 1).collect();
        ended.iter().for_each(|pid| _ = self.known.remove(pid));
        ended
    }

    /// What is to be said of how they were told apart.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.has_io_workers && !self.wants_everybody() {
            remarks.push("what I/O workers read is in the film, whomever they read it for".to_owned());
        }
        if !self.has_seen_wanted && matches!(self.wanted, Wanted::Backend(_) | Wanted::Sessions(_)) {
            remarks.push("nobody who was to be recorded was seen to ask the page cache for anything".to_owned());
        }
        remarks
    }

    /// Who was taken for the command's without having been seen to be.
    pub fn guesses(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.unknown > 0 {
            let unknown = host::units::counted(self.unknown, "process");
            remarks.push(format!("{unknown} ended before it was known whose they were, and count as the command's"));
        }
        if self.alone > 0 {
            let alone = host::units::counted(self.alone, "process");
            let why = "taken for the command's, because nobody else asked for anything";
            remarks.push(format!("{alone} ended before anybody could look: {why}"));
        }
        remarks
    }

    fn judge(&mut self, pid: u32) -> Verdict {
        if self.wants_everybody() {
            return Verdict::Wanted;
        }
        let title = read_title(pid).unwrap_or_default();
        if title.contains(IO_WORKER) && self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster)) {
            self.has_io_workers = true;
            return Verdict::Wanted;
        }
        if let Some(leader) = leader_of(&title) {
            return self.of(leader);
        }
        let verdict = match &self.wanted {
            Wanted::Everybody => Verdict::Wanted,
            Wanted::Backend(backend) if *backend == pid => Verdict::Wanted,
            Wanted::Backend(_) => Verdict::Other,
            Wanted::Command { pid: command, .. } => {
                let command = command.load(Ordering::Acquire);
                self.judge_of_command(pid, command)
            }
            Wanted::Sessions(_) => self.judge_session(pid),
        };
        self.has_seen_wanted |= verdict == Verdict::Wanted;
        verdict
    }

    /// Is this process the command's, or is it called as the command's sessions are?
    fn judge_of_command(&mut self, pid: u32, command: u32) -> Verdict {
        // It is being started: this one ran before.
        if command == 0 {
            self.strangers.insert(pid);
            return Verdict::NotYet;
        }
        let by_name = self.judge_session(pid);
        if by_name == Verdict::Wanted {
            return by_name;
        }
        match self.judge_client(pid, command) {
            // Who is connected may be about to say what he is called, as long as anybody tells us.
            Verdict::Other if by_name == Verdict::NotYet && self.answers => {
                self.of_others.insert(pid);
                Verdict::NotYet
            }
            verdict => {
                self.of_others.remove(&pid);
                verdict
            }
        }
    }

    /// Does this process serve the command, or is it one of its own?
    fn judge_client(&mut self, pid: u32, command: u32) -> Verdict {
        let is_server = self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster));
        let is_one = match is_server {
            true if works_for_the_server(pid) => Some(false),
            true => serves(pid, command).unwrap_or(None),
            false => descends_from(pid, command),
        };
        match is_one {
            Some(true) => Verdict::Wanted,
            // Once it has ended it is asked again whose it was.
            Some(false) => {
                self.strangers.insert(pid);
                Verdict::Other
            }
            // It may have been the command's, unless it was seen to be another's. Before the command's has been seen at all, it does not count
            // as that.
            None if self.of_others.contains(&pid) || self.strangers.contains(&pid) => Verdict::Other,
            None if self.has_seen_wanted => {
                self.unknown += 1;
                Verdict::Wanted
            }
            None => {
                self.unseen.insert(pid);
                Verdict::Other
            }
        }
    }

    fn judge_session(&mut self, pid: u32) -> Verdict {
        let Some(named) = self.wanted.named() else { return Verdict::Other };
        let Some(session) = self.sessions.iter().find(|session| session.pid == pid) else {
            // It may be about to say so.
            let is_server = self.postmaster_pid.is_some_and(|postmaster| is_child(pid, postmaster));
            return if is_server { Verdict::NotYet } else { Verdict::Other };
        };
        match named.are(session) {
            true => Verdict::Wanted,
            false => Verdict::Other,
        }
    }
}

/// Is it one of the server's own, that no client is connected to? A walsender has one, such as pg_basebackup.
fn works_for_the_server(pid: u32) -> bool {
    let title = read_title(pid).unwrap_or_default();
    background_kind(&title).is_some_and(|kind| kind != WALSENDER)
}

fn is_child(pid: u32, parent: u32) -> bool {
    read_parent(pid).is_ok_and(|found| found == parent)
}

#[cfg(test)]
mod sampling_tests {
    use super::*;

    #[test]
    fn fewer_are_chosen_where_there_are_many() {
        let mut sampling = Sampling::default();
        assert_eq!((sampling.adapt(), sampling.below()), (false, 1 << 32));
        sampling.again = AGAIN_MAX + 1;
        assert!(sampling.adapt() && !sampling.adapt());
        assert_eq!((sampling.shift, sampling.below()), (1, 1 << 31));
        sampling.units = 5 * UNITS_MAX;
        assert!(sampling.adapt());
        assert_eq!(sampling.shift, 3);
    }
}

#[cfg(test)]
mod whose_tests {
    use super::*;

    #[test]
    fn a_session_is_wanted_by_its_names() {
        let session = |pid, name: &str| Session {
            pid,
            database: Some("db".into()),
            application_name: Some(name.into()),
            ..Session::default()
        };
        let mut answers = vec![vec![session(7, "report"), session(8, "web")], vec![session(8, "report")]].into_iter();
        let named = Named {
            application_name: Some("report".into()),
            database: Some("db".into()),
            ask: Box::new(move || answers.next()),
        };
        let mut whose = Whose::new(Wanted::Sessions(named), None);
        assert!(whose.refresh().is_empty() && whose.is_decided());
        assert_eq!([7, 8, 9].map(|pid| whose.of(pid)), [Verdict::Wanted, Verdict::Other, Verdict::Other]);
        assert_eq!(whose.others().collect::<Vec<_>>().len(), 2);
        // It calls itself something else now.
        assert_eq!(whose.refresh(), [8]);
        assert_eq!(whose.of(8), Verdict::Wanted);
        assert!(whose.remarks().is_empty());
    }

    #[test]
    fn what_a_command_does_itself_is_its_own() {
        let command = Arc::new(AtomicU32::new(0));
        let mut whose = Whose::new(Wanted::command(&command), None);
        assert_eq!(whose.of(1), Verdict::NotYet);
        assert!(!whose.is_decided());
        command.store(std::process::id(), Ordering::Release);
        assert_eq!((whose.of(std::process::id()), whose.is_decided()), (Verdict::Wanted, true));
        // Nobody has such a number.
        assert_eq!(whose.of(u32::MAX >> 1), Verdict::Wanted);
        assert!(whose.guesses()[0].contains("1 process ended"), "{:?}", whose.guesses());
        assert_eq!(whose.forget_ended(), [u32::MAX >> 1]);
    }

    #[test]
    fn who_ran_before_the_command_or_served_another_is_not_taken_for_its_own() {
        let start = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let end = |child: &mut std::process::Child| {
            child.kill().unwrap();
            child.wait().unwrap();
        };
        // This process stands for the postmaster.
        let of_command = Arc::new(AtomicU32::new(0));
        let mut whose = Whose::new(Wanted::command(&of_command), Some(std::process::id()));
        whose.know_earlier();
        let mut before = start();
        // Starts are told in hundredths of a second.
        std::thread::sleep(std::time::Duration::from_millis(30));
        let (mut command, mut short, mut other) = (start(), start(), start());
        of_command.store(command.id(), Ordering::Release);
        whose.know_earlier();
        assert_eq!(whose.of(other.id()), Verdict::Other, "nobody of the command is connected to it");
        [&mut before, &mut short, &mut other].into_iter().for_each(end);
        whose.forget_ended();
        let [before, short, other] = [before, short, other].map(|child| child.id());
        assert_eq!([before, short, other].map(|pid| whose.of(pid)), [Verdict::Other; 3]);
        for (asked, is_its) in [([before, short], false), ([other, short], false), ([short, short], true)] {
            whose.take_unseen(asked.into_iter());
            assert_eq!(whose.is_decided(), is_its, "{asked:?}");
        }
        assert_eq!(whose.of(short), Verdict::Wanted);
        let told = whose.guesses().join(" ");
        assert!(told.contains("1 process ended") && told.contains("nobody else asked for anything"), "{told}");
        end(&mut command);
    }

    #[test]
    fn a_session_that_is_called_as_a_commands_is_its_own_too() {
        let mut children: Vec<_> =
            (0..2).map(|_| std::process::Command::new("sleep").arg("60").spawn().unwrap()).collect();
        let [pooled, other] = [0, 1].map(|at| children[at].id());
        let session = |pid, name: &str| Session { pid, application_name: Some(name.into()), ..Session::default() };
        let mut answers = vec![vec![session(other, "web")], vec![session(pooled, "report"), session(other, "web")]];
        let named = Named {
            application_name: Some("report".into()),
            database: None,
            ask: Box::new(move || (!answers.is_empty()).then(|| answers.remove(0))),
        };
        // Of a command that has no process of its own; this one stands for the postmaster.
        let command = Arc::new(AtomicU32::new(0));
        let wanted = Wanted::Command { pid: Arc::clone(&command), named: Some(named) };
        let mut whose = Whose::new(wanted, Some(std::process::id()));
        whose.refresh();
        assert_eq!(whose.of(other), Verdict::NotYet, "the command is being started");
        command.store(u32::MAX >> 1, Ordering::Release);
        assert_eq!([pooled, other].map(|pid| whose.of(pid)), [Verdict::NotYet, Verdict::Other]);
        whose.refresh();
        assert_eq!([pooled, other].map(|pid| whose.of(pid)), [Verdict::Wanted, Verdict::Other]);
        assert!(whose.is_decided());
        // From now on the server does not answer: nobody is waited for.
        whose.refresh();
        let mut third = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_ne!(whose.of(third.id()), Verdict::NotYet);
        for child in children.iter_mut().chain([&mut third]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
