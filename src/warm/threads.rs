//! Does one kind of work on many things, a few at a time.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::linux::threads::on_threads;

/// What `work` comes to for each of `0..count`, in order, worked on by several threads.
pub fn map_on_threads<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work_some = |_| {
        let mut done = Vec::new();
        loop {
            match next.fetch_add(1, Ordering::Relaxed) {
                at if at < count => done.push((at, work(at))),
                _ => return done,
            }
        }
    };
    let done = on_threads(threads, work_some).into_iter();
    let mut done: Vec<(usize, T)> = done.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_done_once_and_in_order() {
        let squares: Vec<usize> = (0..1000).map(|at| at * at).collect();
        assert_eq!(map_on_threads(1000, 7, |at| at * at), squares);
        assert_eq!(map_on_threads(0, 7, |at| at), Vec::<usize>::new());
    }
}
