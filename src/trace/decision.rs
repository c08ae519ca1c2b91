//! Whether a preload is worth it, and in which order. A pure function of the film, the device and the room.

use serde::Serialize;

use super::simulation::{GAIN_MIN, Job, Run, Way};
use super::touched::Touched;
use crate::units::Bytes;
use crate::warm::DeviceProfile;
use crate::warm::plan::{Geometry, Plan, Read, Scratch, Situation};

/// The largest read of a preload. A larger one would hold up the job's own.
const LARGEST_READ: Bytes = Bytes(512 << 10);

/// The part of the room that a preload may take, 0 to 1: beyond it the last of it may push out the first.
const ROOM_SHARE: f64 = 0.6;

/// Seconds that the job is forecast to take, by how what it needs is brought.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Forecasts {
    pub nothing: f64,
    pub sorted: f64,
    pub region: f64,
    pub set_first: f64,
}

/// What will be brought, and why; or why nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    pub way: Way,
    /// In words, to go on after "because".
    pub reason: String,
    pub forecasts: Option<Forecasts>,
    /// Reads of the preload, and the bytes that they deliver.
    pub planned_reads: u64,
    pub planned_bytes: Bytes,
    /// The reads, in order.
    #[serde(skip)]
    pub reads: Vec<Read>,
}

impl Decision {
    /// Nothing is brought.
    pub fn nothing(reason: impl Into<String>) -> Decision {
        Decision {
            way: Way::Nothing,
            reason: reason.into(),
            forecasts: None,
            planned_reads: 0,
            planned_bytes: Bytes(0),
            reads: Vec::new(),
        }
    }
}

/// Decides for a job of which a film knows what it will touch. `room` is what can be cached and stay; `None` when nobody knows.
pub fn decide(touched: &Touched, run: Run, device: DeviceProfile, geometry: Geometry, room: Option<Bytes>) -> Decision {
    let blocks = touched.blocks();
    let bytes = |blocks: u64| Bytes(blocks * u64::from(geometry.block_size));
    if blocks == 0 {
        return Decision::nothing("nothing of what the film has is there any more");
    }
    if touched.missing_blocks() == 0 {
        return Decision::nothing(format!("all {} of the film are in memory already", bytes(blocks)));
    }
    if touched.is_too_long {
        return Decision::nothing("the film has too many pieces to keep them in order");
    }
    let device = DeviceProfile { largest_read: LARGEST_READ, ..device };
    let sorted = plan_reads(touched, device, geometry);
    let planned: u64 = sorted.iter().map(|read| read.range.blocks()).sum();
    let most = room.map(|room| Bytes((room.0 as f64 * ROOM_SHARE) as u64));
    if let Some(most) = most.filter(|most| bytes(planned) > *most) {
        return Decision::nothing(format!(
            "{} are to be brought, and no more than {most} would be sure to stay (60 % of what can be cached)",
            bytes(planned)
        ));
    }
    let job = Job::new(touched, run, device, geometry.block_size);
    let region = by_first_touch(touched, &sorted);
    let forecasts = Forecasts {
        nothing: job.simulate(&[]),
        sorted: job.simulate(&sorted),
        region: job.simulate(&region),
        set_first: job.simulate_set_first(&sorted),
    };
    let (way, seconds, reads) = match forecasts.region < forecasts.sorted {
        true => (Way::Region, forecasts.region, region),
        false => (Way::Sorted, forecasts.sorted, sorted),
    };
    let gain = 1.0 - seconds / forecasts.nothing.max(f64::MIN_POSITIVE);
    let told = format!("{seconds:.1} s are forecast with it and {:.1} s without", forecasts.nothing);
    if gain < GAIN_MIN {
        let reason = format!("{told}, a gain of less than 10 %");
        return Decision { forecasts: Some(forecasts), ..Decision::nothing(reason) };
    }
    Decision {
        way,
        reason: told,
        forecasts: Some(forecasts),
        planned_reads: reads.len() as u64,
        planned_bytes: bytes(planned),
        reads,
    }
}

/// The reads that bring what is missing, by file and position. The job reads beside them.
fn plan_reads(touched: &Touched, device: DeviceProfile, geometry: Geometry) -> Vec<Read> {
    let plan = Plan::new(touched.wanted(), geometry, device, Situation::Shared, None);
    let mut scratch = Scratch::default();
    let mut reads: Vec<Read> = (0..plan.steps()).flat_map(|step| plan.reads(step, &mut scratch).to_vec()).collect();
    reads.sort_unstable_by_key(|read| (read.fork, read.range.start));
    reads
}

/// The same reads, by when the job first needs something of them.
fn by_first_touch(touched: &Touched, sorted: &[Read]) -> Vec<Read> {
    let mut ranks = vec![usize::MAX; sorted.len()];
    for (rank, piece) in touched.pieces.iter().enumerate() {
        let (fork, start, end) = (piece.fork as usize, u64::from(piece.start), u64::from(piece.start + piece.blocks));
        let first = sorted.partition_point(|read| (read.fork, read.range.end) <= (fork, start));
        let covering = sorted[first..].iter().take_while(|read| read.fork == fork && read.range.start < end).count();
        ranks[first..first + covering].iter_mut().for_each(|known| *known = rank.min(*known));
    }
    let mut places: Vec<usize> = (0..sorted.len()).collect();
    places.sort_by_key(|at| ranks[*at]);
    places.into_iter().map(|at| sorted[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::RelationPath;
    use crate::trace::touched::{Piece, TouchedFork};
    use crate::units::{BlockRange, Fork};

    const GEOMETRY: Geometry = Geometry { block_size: 8192, segment_blocks: 131_072 };

    fn touched(pieces: impl Iterator<Item = (u32, u32)>) -> Touched {
        let pieces: Vec<Piece> = pieces.map(|(start, blocks)| Piece { fork: 0, start, blocks }).collect();
        let path = RelationPath::Base { database_oid: 5, relfilenumber: 1 };
        let (touched, resident) = Default::default();
        let mut fork = TouchedFork { relation: 0, path, fork: Fork::Main, blocks: 100_000, touched, resident };
        pieces.iter().for_each(|one| _ = fork.touched.insert_range(one.start..one.start + one.blocks));
        Touched { forks: vec![fork], pieces, ..Touched::default() }
    }

    fn decided(touched: &Touched, seconds: f64, room: Option<Bytes>) -> Decision {
        let run = Run { seconds, device_reads: None, is_cold: true };
        decide(touched, run, DeviceProfile::default(), GEOMETRY, room)
    }

    #[test]
    fn an_index_loop_is_preloaded() {
        let decision = decided(&touched((0..20_000).map(|at| (at * 7919 % 20_000, 1))), 8.0, None);
        assert!(matches!(decision.way, Way::Sorted | Way::Region), "{decision:?}");
        let forecasts = decision.forecasts.unwrap();
        assert!(forecasts.sorted < forecasts.nothing * 0.5, "{forecasts:?}");
        assert_eq!(decision.planned_bytes, Bytes(20_000 * 8192));
        assert!(decision.reads.iter().all(|read| read.range.blocks() * 8192 <= LARGEST_READ.0));
    }

    #[test]
    fn a_scan_is_left_to_itself() {
        let decision = decided(&touched((0..1250).map(|at| (at * 16, 16))), 2.0, None);
        assert_eq!(decision.way, Way::Nothing);
        assert!(decision.reason.contains("less than 10 %"), "{}", decision.reason);
    }

    #[test]
    fn what_does_not_fit_or_is_there_is_left() {
        let mut touched = touched((0..20_000).map(|at| (at * 7919 % 20_000, 1)));
        let decision = decided(&touched, 8.0, Some(Bytes(200 << 20)));
        assert!(decision.reason.contains("60 %"), "{}", decision.reason);
        touched.forks[0].resident.insert_range(0..20_000);
        let decision = decided(&touched, 8.0, None);
        assert!(decision.reason.contains("in memory already"), "{}", decision.reason);
        let decision = decided(&Touched::default(), 8.0, None);
        assert!(decision.reason.contains("is there any more"), "{}", decision.reason);
    }

    #[test]
    fn the_order_of_regions_is_that_of_the_first_touch() {
        let touched = touched([(900, 1), (10, 1), (905, 1), (500, 1)].into_iter());
        let read = |start, end| Read { fork: 0, range: BlockRange::new(start, end) };
        let sorted = [read(10, 11), read(500, 501), read(900, 906)];
        assert_eq!(by_first_touch(&touched, &sorted), [read(900, 906), read(10, 11), read(500, 501)]);
    }
}
