//! Curves with a known truth, for tests.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::series::{Facts, Series};
use crate::WarmUp;

/// Throughput without noise.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    Warming(&'a WarmUp),
    /// Cold, with clients at a device's limit. A transaction reads a table page and one of an index a sixth as large.
    DeviceLimited {
        table_pages: f64,
        reads_per_second: f64,
    },
    Flat(f64),
}

/// First-order noise as shares of throughput; stalls last one to three seconds.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub sigma: f64,
    pub rho: f64,
    pub stalls_per_second: f64,
}

impl Noise {
    pub fn none() -> Noise {
        Noise { sigma: 0.0, rho: 0.0, stalls_per_second: 0.0 }
    }
}

pub fn make_series(shape: Shape<'_>, seconds: u32, noise: Noise, seed: u64) -> Series {
    make_modulated(shape, seconds, noise, seed, |_| 1.0)
}

pub fn make_modulated(shape: Shape<'_>, seconds: u32, noise: Noise, seed: u64, factor: impl Fn(f64) -> f64) -> Series {
    let mut random = StdRng::seed_from_u64(seed);
    let mut collector = Series::new(1.0);
    let (mut done, mut wander, mut stalled) = (0.0, 0.0, 0);
    for second in 0..seconds {
        // The sum of twelve uniform numbers is close to normal.
        let normal: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        wander = noise.rho * wander + (1.0 - noise.rho * noise.rho).sqrt() * noise.sigma * normal;
        if random.random::<f64>() < noise.stalls_per_second {
            stalled = random.random_range(1..=3);
        }
        let mut pace = (1.0 + wander).max(0.05) * factor(f64::from(second));
        if stalled > 0 {
            stalled -= 1;
            pace *= 0.1;
        }
        let count = match shape {
            Shape::Flat(rate) => rate * pace,
            Shape::DeviceLimited { table_pages, reads_per_second } => {
                serve_device_limited(table_pages, reads_per_second * pace, done)
            }
            // Noise makes a second of the curve longer or shorter.
            Shape::Warming(curve) => curve.transactions_after(curve.seconds_after(done) + pace) - done,
        };
        done += count;
        collector.add(f64::from(second), f64::from(second) + 1.0, count, None);
    }
    collector.finish(Facts::default(), Vec::new())
}

const TABLE_PER_INDEX_PAGES: f64 = 6.0;

fn serve_device_limited(table_pages: f64, reads: f64, done: f64) -> f64 {
    const STEPS: u32 = 10;
    let miss = |done: f64| (-done / table_pages).exp() + (-TABLE_PER_INDEX_PAGES * done / table_pages).exp();
    let end = (0..STEPS).fold(done, |done, _| done + reads / f64::from(STEPS) / miss(done));
    end - done
}
