//! Makes films of films: a part of one, or one of several; and says how two differ.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use roaring::RoaringBitmap;
use serde::Serialize;

use super::Error;
use super::event::{Event, EventKind, FilmRelation};
use super::film::{Film, FilmHeader, FilmWriter};
use super::part::Part;
use super::polling::runs;
use super::record::Recorded;
use crate::postgres::{RelationName, RelationPath};
use crate::units::{BlockRange, Bytes, Fork};

/// Writes a part of a film; its times begin anew. `label` is its name. What was in shared_buffers before belongs to every part.
///
/// # Errors
/// When nothing was touched in that part, the film contradicts itself, or the file cannot be written.
pub fn cut(film: &Film<File>, part: Part, label: Option<&str>, mut writer: FilmWriter) -> Result<Recorded, Error> {
    let header = film.header();
    let (mut read_before, mut read) = (Bytes(0), Bytes(0));
    let mut has_any = false;
    for event in film.events() {
        let event = event?;
        if event.time < part.from && event.kind != EventKind::Buffers {
            read_before = event.job_bytes;
            continue;
        }
        if part.to.is_some_and(|to| event.time >= to) && event.kind != EventKind::Buffers {
            continue;
        }
        has_any |= event.kind != EventKind::Buffers;
        let time = event.time.saturating_sub(part.from);
        let job_bytes = Bytes(event.job_bytes.0.saturating_sub(read_before.0));
        read = read.max(job_bytes);
        writer.push(&Event { time, job_bytes, ..adopt(event, header) })?;
    }
    if !has_any {
        return Err(Error::NothingThen { path: film.path().to_owned(), part, seconds: header.seconds });
    }
    let end = part.to.map_or(header.duration(), |to| to.min(header.duration()));
    let mut remarks = header.remarks.clone();
    remarks.push(format!("cut {part}"));
    if !part.from.is_zero() && header.sampling.is_some() {
        remarks.push("what had been asked for before is in it only as far as every request was told".to_owned());
    }
    let seconds = end.saturating_sub(part.from).as_secs_f64();
    let (label, requested_bytes) = (label.map(str::to_owned), header.requested_bytes.map(|_| read));
    // It does not say how long the whole command takes.
    let job = if header.job.is_empty() { String::new() } else { format!("a part of {}", header.job) };
    finish(writer, FilmHeader { seconds, remarks, label, requested_bytes, job, ..header.clone() })
}

/// Blocks that were told: of which file and fork, and whether as what shared_buffers had before.
type Told = HashMap<(RelationPath, Fork, bool), RoaringBitmap>;

/// Writes one film of several of the same cluster: all events by their time since the beginning of their film, and of each block the first.
/// A film whose job was helped has the order of what was brought, and its time: beside others it tells only what these do not have.
///
/// # Errors
/// When they are of several clusters, a film contradicts itself, or the file cannot be written.
pub fn merge(films: &[Film<File>], label: Option<&str>, mut writer: FilmWriter) -> Result<Recorded, Error> {
    let Some(first) = films.first() else { return Err(Error::NothingSeen("no film was named".to_owned())) };
    require_one_cluster(films)?;
    let leading = Leading::of(films);
    let mut sources: Vec<_> = films.iter().map(|film| film.events().peekable()).collect();
    let mut told = [Told::new(), leading.read_told(films)?];
    // What all jobs together have read: of each what it had by then.
    let mut job_bytes = vec![Bytes(0); films.len()];
    loop {
        let time = |source: &mut std::iter::Peekable<_>| -> Option<Duration> {
            source.peek().map(|event: &Result<Event, Error>| event.as_ref().map_or(Duration::ZERO, |event| event.time))
        };
        let times = sources.iter_mut().enumerate().filter_map(|(at, source)| Some((time(source)?, at)));
        let Some((_, at)) = times.min() else { break };
        let Some(event) = sources[at].next().transpose()? else { continue };
        job_bytes[at] = event.job_bytes;
        let Some(event) = leading.take(at, event, films[at].header()) else { continue };
        let event = Event { job_bytes: job_bytes.iter().copied().sum(), ..event };
        if event.kind == EventKind::Again {
            writer.push(&event)?;
            continue;
        }
        let is_buffers = event.kind == EventKind::Buffers;
        let told = &mut told[usize::from(leading.is_behind(at) && !is_buffers)];
        let told = told.entry((event.relation.path.clone(), event.fork, is_buffers)).or_default();
        for blocks in add_new(told, event.blocks) {
            writer.push(&Event { blocks, ..event.clone() })?;
        }
    }
    let headers = || films.iter().map(Film::header);
    let mut jobs: Vec<&str> = headers().map(|header| &*header.job).filter(|job| !job.is_empty()).collect();
    jobs.dedup();
    let leaders = headers().enumerate().filter(|(at, _)| !leading.is_behind(*at)).map(|(_, header)| header.seconds);
    finish(
        writer,
        FilmHeader {
            job: jobs.join("; "),
            seconds: leaders.fold(0.0, f64::max),
            remarks: headers().enumerate().map(|(at, header)| leading.describe(at, header)).collect(),
            label: label.map(str::to_owned),
            lost_events: headers().map(|header| header.lost_events).sum(),
            // Runs one after the other say nothing of how often a block was asked for.
            sampling: leading.followed.and_then(|at| films[at].header().sampling),
            // No job alone is as far as all of them together: nobody is paced by that.
            requested_bytes: None,
            workers: None,
            ..first.header().clone()
        },
    )
}

/// Which films go before others in one that is made of them.
#[derive(Debug)]
struct Leading {
    /// Of each film, whether its job was helped; nobody's where all were.
    helped: Vec<bool>,
    /// The one of which every request is told: the only one whose job was not helped.
    followed: Option<usize>,
}

impl Leading {
    fn of(films: &[Film<File>]) -> Leading {
        let mut helped: Vec<bool> = films.iter().map(|film| film.header().totals.is_preloaded()).collect();
        if helped.iter().all(|helped| *helped) {
            helped.fill(false);
        }
        let alone = helped.iter().filter(|helped| !**helped).count() == 1;
        let followed = helped.iter().position(|helped| !*helped).filter(|_| alone);
        let followed = followed.filter(|at| films[*at].header().sampling.is_some());
        Leading { helped, followed }
    }

    /// Does this film tell only what others do not have?
    fn is_behind(&self, at: usize) -> bool {
        self.helped[at]
    }

    /// What the films that go first have, where any goes behind them.
    fn read_told(&self, films: &[Film<File>]) -> Result<Told, Error> {
        let mut told = Told::new();
        if !self.helped.contains(&true) {
            return Ok(told);
        }
        for (at, film) in films.iter().enumerate().filter(|(at, _)| !self.is_behind(*at)) {
            film.visit(|event| {
                let event = self.take(at, event, film.header());
                let is_first = |event: &Event| !matches!(event.kind, EventKind::Buffers | EventKind::Again);
                if let Some(event) = event.filter(is_first) {
                    let blocks = event.blocks.start as u32..event.blocks.end as u32;
                    told.entry((event.relation.path.clone(), event.fork, false)).or_default().insert_range(blocks);
                }
            })?;
        }
        Ok(told)
    }

    /// An event as the new film has it, if it has.
    fn take(&self, at: usize, event: Event, header: &FilmHeader) -> Option<Event> {
        let is_own = event.kind == EventKind::Fetched && event.pid == header.recorder_pid;
        match event.kind {
            EventKind::Again => (self.followed == Some(at)).then(|| adopt(event, header)),
            // The job's own requests are told beside what was brought for them.
            _ if self.helped.contains(&true) && header.is_brought(&event) => None,
            // By looking it was not seen whether the job asked for it: it is taken for granted, as in its own film.
            _ if self.followed.is_some() && is_own => Some(Event { kind: EventKind::Requested, pid: 0, ..event }),
            _ => Some(adopt(event, header)),
        }
    }

    fn describe(&self, at: usize, header: &FilmHeader) -> String {
        let behind = if self.is_behind(at) { ", whose job was helped: what no other has" } else { "" };
        format!("merged of the film of {}{behind}", header.recorded_at)
    }
}

/// Adds blocks, and returns those that were not there.
fn add_new(told: &mut RoaringBitmap, blocks: BlockRange) -> Vec<BlockRange> {
    let mut new = RoaringBitmap::new();
    new.insert_range(blocks.start as u32..blocks.end as u32);
    new -= &*told;
    *told |= &new;
    runs(&new)
}

fn require_one_cluster(films: &[Film<File>]) -> Result<(), Error> {
    let cluster = films.first().map_or(0, |film| film.header().source.system_identifier);
    match films.iter().find(|film| film.header().source.system_identifier != cluster) {
        None => Ok(()),
        Some(other) => Err(Error::OtherCluster {
            path: other.path().to_owned(),
            film: other.header().source.system_identifier,
            cluster,
        }),
    }
}

/// What the film's recorder did itself is this process's in a new film, and nobody else's is.
fn adopt(event: Event, header: &FilmHeader) -> Event {
    let own_pid = std::process::id();
    let pid = match event.pid {
        pid if pid == header.recorder_pid => own_pid,
        pid if pid == own_pid => 0,
        pid => pid,
    };
    Event { pid, ..event }
}

/// What was counted of the device and of programs was counted of all of it.
fn finish(writer: FilmWriter, header: FilmHeader) -> Result<Recorded, Error> {
    let header = FilmHeader { device_reads: None, device_bytes: None, fetched_again: None, probe: None, ..header };
    let (draft, header) = writer.finish(&header)?;
    Ok(Recorded::made(draft, header))
}

/// How two films differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilmDifference {
    /// The one with most blocks in one film alone first.
    pub relations: Vec<RelationDifference>,
}

/// What two films have of one relation, in distinct blocks of all forks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationDifference {
    #[serde(flatten)]
    pub name: RelationName,
    pub first_blocks: u64,
    pub second_blocks: u64,
    pub both_blocks: u64,
    /// Its file is another one in the second film: that blocks have the same number says nothing.
    pub is_rewritten: bool,
}

impl RelationDifference {
    /// Blocks that only one of them has.
    fn alone(&self) -> u64 {
        self.first_blocks + self.second_blocks - 2 * self.both_blocks
    }
}

/// What one film has of a relation: its files, and the blocks of each fork.
type Had = BTreeMap<RelationName, (Vec<RelationPath>, BTreeMap<Fork, RoaringBitmap>)>;

/// Compares what two films of one cluster have. What was only in shared_buffers before does not count.
///
/// # Errors
/// When they are of two clusters, or one contradicts itself.
pub fn compare(films: &[Film<File>; 2]) -> Result<FilmDifference, Error> {
    require_one_cluster(films)?;
    let [first, second] = [read_had(&films[0])?, read_had(&films[1])?];
    let mut names: Vec<&RelationName> = first.keys().chain(second.keys()).collect();
    names.sort();
    names.dedup();
    let relation = |name: &RelationName| {
        let (first, second) = (first.get(name), second.get(name));
        let blocks = |had: Option<&(_, BTreeMap<Fork, RoaringBitmap>)>| {
            had.map_or(0, |(_, forks)| forks.values().map(RoaringBitmap::len).sum())
        };
        let is_rewritten = first.zip(second).is_some_and(|((before, _), (after, _))| before != after);
        let both = first.zip(second).filter(|_| !is_rewritten).map_or(0, |((_, before), (_, after))| {
            before.iter().filter_map(|(fork, blocks)| Some(blocks.intersection_len(after.get(fork)?))).sum()
        });
        let (first_blocks, second_blocks) = (blocks(first), blocks(second));
        RelationDifference { name: name.clone(), first_blocks, second_blocks, both_blocks: both, is_rewritten }
    };
    let mut relations: Vec<RelationDifference> = names.into_iter().map(relation).collect();
    relations.sort_by_key(|one| std::cmp::Reverse(one.alone()));
    Ok(FilmDifference { relations })
}

fn read_had(film: &Film<File>) -> Result<Had, Error> {
    let mut had = Had::new();
    let mut add = |relation: &Arc<FilmRelation>, fork: Fork, blocks: BlockRange| {
        let (paths, forks) = had.entry(relation.name.clone()).or_default();
        if !paths.contains(&relation.path) {
            paths.push(relation.path.clone());
        }
        forks.entry(fork).or_default().insert_range(blocks.start as u32..blocks.end as u32);
    };
    film.visit(|event| {
        if !matches!(event.kind, EventKind::Buffers | EventKind::Again) {
            add(&event.relation, event.fork, event.blocks);
        }
    })?;
    Ok(had)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::trace::fixtures::{self, film_relation, writer};

    /// A millisecond, a relation, blocks and a kind.
    type Row = (u64, u32, std::ops::Range<u64>, EventKind);

    fn film(place: &Path, name: &str, cluster: u64, events: &[Row]) -> Film<File> {
        let mut header = FilmHeader::for_tests();
        header.source.system_identifier = cluster;
        let events = events.iter().map(|(millisecond, number, blocks, kind)| Event {
            pid: 7,
            job_bytes: Bytes(*millisecond),
            ..fixtures::event(*millisecond, &film_relation(*number), blocks.clone(), *kind)
        });
        fixtures::film(&place.join(name), &header, events)
    }

    fn told_of(film: &Film<File>) -> Vec<(u64, String, u64, u64, u64)> {
        let mut told = Vec::new();
        film.visit(|event| {
            let time = event.time.as_millis() as u64;
            told.push((
                time,
                event.relation.name.name.clone(),
                event.blocks.start,
                event.blocks.end,
                event.job_bytes.0,
            ));
        })
        .unwrap();
        told
    }

    fn name(number: u32) -> String {
        film_relation(number).name.name.clone()
    }

    #[test]
    fn a_part_begins_anew() {
        use EventKind::{Again, Buffers, Requested};
        let place = tempfile::tempdir().unwrap();
        let whole = film(
            place.path(),
            "whole",
            5,
            &[(0, 2, 1..2, Buffers), (10, 1, 0..1, Requested), (20, 1, 5..9, Requested), (30, 1, 0..1, Again)],
        );
        let path = place.path().join("part");
        let part = Part { from: Duration::from_millis(20), to: Some(Duration::from_millis(30)) };
        let cut = cut(&whole, part, Some("x"), writer(&path)).unwrap();
        let cut = fixtures::place(cut.draft, &path);
        assert_eq!(told_of(&cut), [(0, name(2), 1, 2, 0), (0, name(1), 5, 9, 10)]);
        assert_eq!((cut.header().seconds, cut.header().label.as_deref()), (0.01, Some("x")));
        assert!(cut.header().remarks.iter().any(|remark| remark.contains("from second 0.02 to 0.03")));
    }

    #[test]
    fn a_part_in_which_nothing_was_touched_is_no_film() {
        use EventKind::{Buffers, Fetched};
        let place = tempfile::tempdir().unwrap();
        let whole = film(place.path(), "whole", 5, &[(0, 2, 1..2, Buffers), (10, 1, 0..1, Fetched)]);
        let path = place.path().join("part");
        for (from, to) in [(11, None), (0, Some(10)), (10, Some(10))] {
            let part = Part { from: Duration::from_millis(from), to: to.map(Duration::from_millis) };
            let refused = cut(&whole, part, None, writer(&path)).unwrap_err();
            assert!(matches!(refused, Error::NothingThen { .. }), "{refused}");
        }
    }

    #[test]
    fn of_several_each_block_is_told_once() {
        use EventKind::{Again, Fetched};
        let place = tempfile::tempdir().unwrap();
        let films = [
            film(place.path(), "one", 5, &[(10, 1, 0..4, Fetched), (30, 1, 6..8, Fetched), (40, 1, 0..1, Again)]),
            film(place.path(), "two", 5, &[(20, 1, 2..7, Fetched), (25, 2, 0..1, Fetched)]),
        ];
        let path = place.path().join("both");
        let merged = fixtures::place(merge(&films, None, writer(&path)).unwrap().draft, &path);
        let expected = [(10, 1, 0, 4, 10), (20, 1, 4, 7, 30), (25, 2, 0, 1, 35), (30, 1, 7, 8, 55)];
        assert_eq!(
            told_of(&merged),
            expected.map(|(time, number, start, end, bytes)| (time, name(number), start, end, bytes))
        );
        assert_eq!((merged.header().sampling, merged.header().device_bytes), (None, None));
        let other = film(place.path(), "other", 6, &[]);
        let [one, _] = films;
        assert!(matches!(merge(&[one, other], None, writer(&path)), Err(Error::OtherCluster { .. })));
    }

    #[test]
    fn the_order_and_the_repeats_are_those_of_the_job_that_was_not_helped() {
        use EventKind::{Again, Fetched, Requested};
        let place = tempfile::tempdir().unwrap();
        let cold =
            film(place.path(), "cold", 5, &[(20, 1, 4..8, Fetched), (40, 1, 0..4, Fetched), (50, 1, 4..5, Again)]);
        let told = FilmHeader { seconds: 9.0, ..cold.header().clone() };
        let own = std::process::id();
        let event = |(millisecond, blocks, kind, pid)| Event {
            pid,
            ..fixtures::event(millisecond, &film_relation(1), blocks, kind)
        };
        // It was brought from its beginning to its end, before the job asked.
        let events = [(1, 0..12, Fetched, own), (5, 4..12, Requested, 7), (6, 0..1, Again, 7), (7, 0..4, Requested, 7)];
        let helped = |sampling, name: &str| {
            let told = FilmHeader { sampling, ..told.clone() };
            fixtures::film(&place.path().join(name), &told, events.clone().map(event))
        };
        let sampled = helped(told.sampling, "helped");
        let merge = |films: &[Film<File>], name: &str| {
            let path = place.path().join(name);
            fixtures::place(merge(films, None, writer(&path)).unwrap().draft, &path)
        };
        let parts = |film: &Film<File>| -> Vec<(u64, u64, u64)> {
            told_of(film).into_iter().map(|(time, _, start, end, _)| (time, start, end)).collect()
        };
        let films = [sampled, cold];
        let merged = merge(&films, "both");
        assert_eq!(parts(&merged), [(5, 8, 12), (20, 4, 8), (40, 0, 4), (50, 4, 5)]);
        let (header, [_, cold]) = (merged.header(), films);
        assert_eq!((header.sampling, header.seconds), (cold.header().sampling, cold.header().seconds));
        assert_eq!((header.totals.again_blocks, header.totals.preloaded_blocks), (1, 0));
        assert!(header.remarks[0].ends_with("whose job was helped: what no other has"), "{:?}", header.remarks);
        // By looking what it asked for was not seen.
        let merged = merge(&[cold, helped(None, "looked")], "others");
        assert_eq!(parts(&merged), [(1, 8, 12), (20, 4, 8), (40, 0, 4), (50, 4, 5)]);
        assert_eq!(merged.header().totals.requested_blocks, 4);
    }

    #[test]
    fn films_differ_by_relation() {
        use EventKind::{Buffers, Fetched, Requested};
        let place = tempfile::tempdir().unwrap();
        let films = [
            film(place.path(), "one", 5, &[(10, 1, 0..10, Fetched), (11, 3, 0..1, Buffers)]),
            film(place.path(), "two", 5, &[(10, 1, 5..25, Requested), (12, 2, 0..3, Fetched)]),
        ];
        let difference = compare(&films).unwrap();
        let found: Vec<_> = difference
            .relations
            .iter()
            .map(|one| (one.name.name.clone(), one.first_blocks, one.second_blocks, one.both_blocks))
            .collect();
        assert_eq!(found, [(name(1), 10, 20, 5), (name(2), 0, 3, 0)]);
    }
}
