//! From the rows of a hostile snapshot to the reads of a restore, over files that are not what it says.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use cache::{HeatSource, Tiers};
use host::units::Bytes;
use cache::warm::DeviceProfile;
use cache::warm::plan::Scratch;
use cache::warm::restore::fuzzing::plan;
use pgthaw_fuzz::{Row, map_of, relations_of};
use roaring::RoaringBitmap;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    rows: Vec<Row<'a>>,
    heat: u8,
    tiers: u8,
    budget: Option<u32>,
    device: (u16, u32, u32),
    /// Blocks of each fork now, and ranges of them that are resident.
    now: u32,
    resident: Vec<(u16, u16)>,
    segment_blocks: u16,
}

const MOST: u32 = 1 << 16;

fuzz_target!(|input: Input<'_>| {
    let Ok(relations) = relations_of(&input.rows[..input.rows.len().min(6)], MOST) else { return };
    let heats = [HeatSource::None, HeatSource::PageFlags, HeatSource::Snapshots, HeatSource::Statistics];
    let mut map = map_of(relations, heats[usize::from(input.heat) % heats.len()]);
    map.source.segment_blocks = u32::from(input.segment_blocks).max(16);
    let tiers = Tiers { os: input.tiers & 1 == 0, buffers: input.tiers & 2 == 0 };
    let (reads, bandwidth, largest) = input.device;
    let device = DeviceProfile {
        reads_per_second: f64::from(reads).max(1.0),
        bandwidth: Bytes(u64::from(bandwidth).max(1)),
        largest_read: Bytes(largest.into()),
        ..DeviceProfile::default()
    };
    let now = u64::from(input.now % (2 * MOST));
    let mut resident = RoaringBitmap::new();
    for (start, length) in input.resident.iter().take(16) {
        let start = u32::from(*start);
        resident.insert_range(start..(start + u32::from(*length)).min(now as u32).max(start));
    }
    let budget = input.budget.map(|bytes| Bytes(bytes.into()));
    let plan = plan(map, tiers, device, budget, |_, _| Some((now, resident.clone())));
    let mut scratch = Scratch::default();
    let (mut reads, mut blocks) = (0, 0);
    for step in 0..plan.steps() {
        for read in plan.reads(step, &mut scratch) {
            assert!(read.range.start < read.range.end && read.range.end <= plan.forks()[read.fork].blocks);
            reads += 1;
            blocks += read.range.blocks();
        }
    }
    let forecast = plan.forecast();
    assert_eq!((reads, Bytes(blocks * 8192)), (forecast.reads, forecast.read_bytes));
    assert!(budget.is_none_or(|budget| forecast.read_bytes <= budget));
    assert!(forecast.seconds.is_finite());
});
