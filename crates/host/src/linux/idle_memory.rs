//! Memory that the kernel holds for idle since long, and how to make it young again.
//!
//! Where a DAMON scheme pages out what is idle ([`super::memory::pages_out_idle`]), age belongs to the physical memory: a
//! file that is read into memory that was free for a minute is paged out again seconds later.

use std::hint::black_box;
use std::num::NonZero;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use procfs::{Current as _, Meminfo};

use super::Error;
use super::memory::read_loadable_memory;
use super::threads::on_threads;
use crate::units::Bytes;

/// Share of the free memory that is left alone.
const SPARED_RATIO: f64 = 0.1;

/// How often each page is touched: once is as good as idle to a scheme that allows one access in ten looks.
const TOUCHES: u32 = 5;

/// Longer than the half second between two looks of a scheme that ages memory by the half minute.
const PAUSE: Duration = Duration::from_millis(550);

const CHUNK_BYTES: usize = 64 << 20;

/// No page is smaller.
const PAGE_BYTES: usize = 4096;

/// Takes up to `wanted` bytes of the free memory, uses them for three seconds, and gives them back: what is allocated
/// next comes from there. Nothing is evicted for it.
pub fn apply_use(wanted: Bytes) -> Result<(), Error> {
    let free = Meminfo::current().map_err(|error| Error::proc("read /proc/meminfo", error))?.mem_free;
    let free = free.min(read_loadable_memory(process::id())?.bytes.0);
    let bytes = wanted.0.min((free as f64 * (1.0 - SPARED_RATIO)) as u64) as usize;
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut chunks: Vec<Vec<u8>> = (0..bytes / CHUNK_BYTES).map(|_| vec![0; CHUNK_BYTES]).collect();
    for _ in 0..TOUCHES {
        let parts = chunks.chunks_mut((bytes / CHUNK_BYTES).div_ceil(threads).max(1));
        let parts = Mutex::new(parts);
        let take = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        on_threads(threads, |_| {
            while let Some(part) = take() {
                part.iter_mut().for_each(|chunk| touch(chunk));
            }
        });
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn touch(chunk: &mut [u8]) {
    chunk.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = byte.wrapping_add(1));
    black_box(chunk);
}
