//! A film cut into windows, for a job that touches more than memory holds: what it needs next, and what it needs no more.

use parquet::file::reader::ChunkReader;
use roaring::RoaringBitmap;

use super::Error;
use super::event::{Event, EventKind};
use super::film::Film;
use super::touched::{Touched, plan_reads};
use crate::units::Bytes;
use crate::warm::DeviceProfile;
use crate::warm::plan::{Geometry, Read};

/// A stretch of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// What it touches, by file and position: where it is cached already nothing is read.
    pub reads: Vec<Read>,
    /// Blocks of these reads, in bytes.
    pub bytes: Bytes,
    /// What the job has asked files for when it is through.
    pub until: Bytes,
    /// Of each fork of [`Touched::forks`] the blocks that are touched in it and never again.
    pub last_touched: Vec<RoaringBitmap>,
}

/// Cuts a film into windows that touch no more than `most` each. What of it was not proven, or is not there any more, is left out.
pub fn cut<S: ChunkReader + 'static>(
    film: &Film<S>,
    touched: &Touched,
    most: Bytes,
    device: DeviceProfile,
    geometry: Geometry,
) -> Result<Vec<Window>, Error> {
    let places = touched.places();
    let nothing = || vec![RoaringBitmap::new(); touched.forks.len()];
    let most_blocks = (most.0 / u64::from(geometry.block_size)).max(1);
    let (mut cuts, mut current, mut blocks, mut until) = (Vec::new(), nothing(), 0, Bytes(0));
    // Of some blocks alone no window can be made.
    let has_all_again = film.header().sampling.is_some_and(|sampled| sampled.shift == 0);
    film.visit(|event: Event| {
        let is_asked = match event.kind {
            EventKind::Buffers => false,
            EventKind::Again => has_all_again,
            EventKind::Requested | EventKind::Fetched => !film.header().is_brought(&event),
        };
        let Some(place) = places.get(&(&event.relation.path, event.fork)).filter(|_| is_asked) else { return };
        let end = event.blocks.end.min(touched.forks[*place].blocks);
        if event.blocks.start >= end {
            return;
        }
        if blocks >= most_blocks {
            cuts.push((std::mem::replace(&mut current, nothing()), until));
            blocks = 0;
        }
        until = event.job_bytes.max(until);
        blocks += current[*place].insert_range(event.blocks.start as u32..end as u32);
    })?;
    if blocks > 0 {
        cuts.push((current, until));
    }
    let mut later = nothing();
    let mut windows: Vec<Window> = Vec::with_capacity(cuts.len());
    for (blocks, until) in cuts.into_iter().rev() {
        let last_touched = blocks.iter().zip(&later).map(|(blocks, later)| blocks - later).collect();
        later.iter_mut().zip(&blocks).for_each(|(later, blocks)| *later |= blocks);
        let reads = plan_reads(touched.wanted_among(&blocks), device, geometry);
        let planned: u64 = reads.iter().map(|read| read.range.blocks()).sum();
        let bytes = Bytes(planned * u64::from(geometry.block_size));
        windows.push(Window { reads, bytes, until, last_touched });
    }
    windows.reverse();
    Ok(windows)
}

/// Seconds until a job ends that works `own_seconds` and finds each window loaded, the first before it begins: whichever takes longer,
/// the device or the job, and the loading of the first.
pub fn forecast(windows: &[Window], device: &DeviceProfile, own_seconds: f64) -> f64 {
    let load = |window: &Window| device.seconds(window.reads.len() as u64, window.bytes);
    let first = windows.first().map_or(0.0, load);
    let rest: f64 = windows.iter().skip(1).map(load).sum();
    first + rest.max(own_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::fixtures::{map_of, relation};
    use crate::cache::{ForkMap, RelationMap};
    use crate::trace::FilmHeader;
    use crate::trace::fixtures::{self, film_relation};
    use crate::units::{BlockRange, Fork};

    const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };

    fn there(number: u32, blocks: u64) -> RelationMap {
        relation(number, ForkMap::empty(Fork::Main, blocks))
    }

    #[test]
    fn a_film_is_cut_where_a_window_is_full_and_what_comes_again_is_kept_until_then() {
        let place = tempfile::tempdir().unwrap();
        let events = [(1, 0..8, 10), (2, 0..2, 20), (1, 50..60, 30), (1, 4..6, 40), (2, 90..110, 50)];
        let events = events.map(|(number, blocks, job_bytes)| Event {
            pid: 1,
            job_bytes: Bytes(job_bytes),
            ..fixtures::event(0, &film_relation(number), blocks, EventKind::Fetched)
        });
        let film = fixtures::film(&place.path().join("film"), &FilmHeader::for_tests(), events);
        let touched = Touched::read(&[&film], &map_of(vec![there(1, 100), there(2, 100)]), true).unwrap();
        let device = DeviceProfile::default();
        let windows = cut(&film, &touched, Bytes(10 * 8192), device, GEOMETRY).unwrap();
        assert_eq!(windows.iter().map(|window| window.until.0).collect::<Vec<_>>(), [20, 30, 50]);
        let read = |fork, start, end| Read { fork, range: BlockRange::new(start, end) };
        assert_eq!(windows[0].reads, [read(0, 0, 8), read(1, 0, 2)]);
        assert_eq!(windows[0].bytes, Bytes(10 * 8192));
        let last = |window: usize, fork: usize| windows[window].last_touched[fork].iter().collect::<Vec<_>>();
        assert_eq!(last(0, 0), [0, 1, 2, 3, 6, 7], "4 and 5 come again in the last one");
        assert_eq!(last(2, 0), [4, 5]);
        assert_eq!(last(2, 1), (90..100).collect::<Vec<_>>(), "no more than the file has");
        let alone = forecast(&windows, &device, 0.0);
        assert!((forecast(&windows, &device, 5.0) - 5.0) < alone && forecast(&[], &device, 5.0) == 5.0);
    }
}
