//! A film in numbers: per relation, and over time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parquet::file::reader::ChunkReader;
use roaring::RoaringBitmap;

use super::Error;
use super::event::{Event, EventKind, FilmRelation};
use super::film::Film;
use super::reuse::{MissRatioCurve, Reuse};
use crate::units::Fork;

/// Moments at which the working set is told.
pub const MOMENTS: usize = 20;

/// What of one relation a job touched.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationTouches {
    pub relation: Arc<FilmRelation>,
    /// Distinct blocks that came, or were asked for, of all forks.
    pub blocks: u64,
    /// Distinct blocks that were in shared_buffers before.
    pub buffers_blocks: u64,
    /// Events: stretches of neighbouring blocks that came at one look.
    pub events: u64,
    /// When the first and the last of them were seen; `None` where there was nothing but buffers.
    pub span: Option<(Duration, Duration)>,
}

/// What was touched by then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    pub time: Duration,
    /// Distinct blocks since the beginning.
    pub blocks: u64,
    /// Distinct blocks since the last moment.
    pub recent_blocks: u64,
}

/// A film in numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FilmSummary {
    /// The relation with the most blocks first.
    pub relations: Vec<RelationTouches>,
    /// At equal distances, to the film's end.
    pub moments: Vec<Moment>,
    /// How much memory would have sufficed; `None` of a film that does not know what was asked for.
    pub curve: Option<MissRatioCurve>,
}

/// One relation while events are added up.
#[derive(Default)]
struct Sum {
    blocks: BTreeMap<Fork, RoaringBitmap>,
    buffers: BTreeMap<Fork, RoaringBitmap>,
    events: u64,
    span: Option<(Duration, Duration)>,
}

impl Sum {
    /// Adds an event, and tells how many blocks it has that were not there before.
    fn add(&mut self, event: &Event) -> u64 {
        if event.kind == EventKind::Again {
            return 0;
        }
        let is_buffers = event.kind == EventKind::Buffers;
        let blocks = if is_buffers { &mut self.buffers } else { &mut self.blocks };
        let new = insert(blocks.entry(event.fork).or_default(), event);
        if is_buffers {
            return 0;
        }
        self.events += 1;
        let (first, _) = self.span.unwrap_or((event.time, event.time));
        self.span = Some((first, event.time));
        new
    }
}

fn insert(blocks: &mut RoaringBitmap, event: &Event) -> u64 {
    blocks.insert_range(event.blocks.start as u32..event.blocks.end as u32)
}

impl FilmSummary {
    /// Reads all of a film.
    pub fn read<S: ChunkReader + 'static>(film: &Film<S>) -> Result<FilmSummary, Error> {
        let mut sums: BTreeMap<Arc<FilmRelation>, Sum> = BTreeMap::new();
        let duration = film.header().duration();
        let moment = |at: usize| duration.mul_f64((at + 1) as f64 / MOMENTS as f64);
        let mut moments = Vec::with_capacity(MOMENTS);
        let mut recent: BTreeMap<(Arc<FilmRelation>, Fork), RoaringBitmap> = BTreeMap::new();
        let (mut blocks, mut recent_blocks) = (0, 0);
        let mut reuse = film.header().sampling.map(Reuse::new);
        let recorder_pid = film.header().recorder_pid;
        film.visit(|event| {
            let is_request = event.kind != EventKind::Buffers && event.pid != recorder_pid;
            if let Some(reuse) = reuse.as_mut().filter(|_| is_request) {
                reuse.add(&event.relation.path, event.fork, event.blocks);
            }
            while moments.len() + 1 < MOMENTS && event.time > moment(moments.len()) {
                moments.push(Moment { time: moment(moments.len()), blocks, recent_blocks });
                (recent, recent_blocks) = (BTreeMap::new(), 0);
            }
            blocks += sums.entry(Arc::clone(&event.relation)).or_default().add(&event);
            if event.kind != EventKind::Buffers {
                let key = (Arc::clone(&event.relation), event.fork);
                recent_blocks += insert(recent.entry(key).or_default(), &event);
            }
        })?;
        while moments.len() < MOMENTS {
            moments.push(Moment { time: moment(moments.len()), blocks, recent_blocks });
            recent_blocks = 0;
        }
        let mut relations: Vec<RelationTouches> =
            sums.into_iter().map(|(relation, sum)| sum.finish(relation)).collect();
        relations.sort_by_key(|one| Reverse((one.blocks, one.buffers_blocks)));
        Ok(FilmSummary { relations, moments, curve: reuse.map(Reuse::finish) })
    }
}

impl Sum {
    fn finish(self, relation: Arc<FilmRelation>) -> RelationTouches {
        let count = |blocks: &BTreeMap<Fork, RoaringBitmap>| blocks.values().map(RoaringBitmap::len).sum();
        let (blocks, buffers_blocks) = (count(&self.blocks), count(&self.buffers));
        RelationTouches { relation, blocks, buffers_blocks, events: self.events, span: self.span }
    }
}
