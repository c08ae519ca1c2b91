//! Threads, of which a user, a container or a service may have only so many.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;

/// Has `work` done by so many threads at once, each told its number from 0, and returns what came of each. This thread is the
/// first of them: where no other can be started, it does what there is to do all the same.
pub fn on_threads<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<thread::Result<T>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |number: usize| thread::Builder::new().spawn_scoped(scope, move || work(number)).ok();
        let others: Vec<_> = (1..count).map_while(start).collect();
        let own = catch_unwind(AssertUnwindSafe(|| work(0)));
        std::iter::once(own).chain(others.into_iter().map(thread::ScopedJoinHandle::join)).collect()
    })
}

/// Could so many threads be started now? What starts some and cannot go on with fewer is to ask before.
///
/// # Errors
/// The system's, such as EAGAIN at the limit on a user's processes.
pub fn check_room(count: usize) -> io::Result<()> {
    let (mut ends, mut threads) = (Vec::new(), Vec::new());
    let mut start = || {
        let (end, ended) = channel::<()>();
        ends.push(end);
        // It is there until all have been started.
        thread::Builder::new().spawn(move || _ = ended.recv()).map(|thread| threads.push(thread))
    };
    let started = (0..count).try_for_each(|_| start());
    drop(ends);
    threads.into_iter().for_each(|thread| _ = thread.join());
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_do_their_part_and_a_panic_is_told() {
        let done = on_threads(4, |number| number * 2);
        assert_eq!(done.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(on_threads(0, |number| number).len(), 1, "this thread is always there");
        let done = on_threads(2, |number| assert!(number > 0, "the first"));
        assert!(done[0].is_err() && done[1].is_ok());
    }

    #[test]
    fn there_is_room_for_some() {
        assert!(check_room(4).is_ok());
    }
}
